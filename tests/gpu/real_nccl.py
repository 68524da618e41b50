"""The plugin with the real NCCL of a wheel, without a driver: version, id, and what it says.

    real_nccl.py TUTTI_GPU_TEST FOLDER [--fetch]

The wheel (nvidia-nccl-cu13, 200 to 300 MB) is taken from FOLDER or from where Python has it; with
--fetch it goes to FOLDER when there is none. Ends with 77 where there is none.
"""

import os
import subprocess
import sys

TEST, FOLDER = sys.argv[1:3]
FETCH = sys.argv[3:] == ["--fetch"]


def find():
    for place in [FOLDER, *sys.path]:
        file = os.path.join(place, "nvidia", "nccl", "lib", "libnccl.so.2")
        if os.path.exists(file):
            return file
    return None


if find() is None and not FETCH:
    print("skipped: NCCL's wheel is not installed (pip install nvidia-nccl-cu13)")
    sys.exit(77)
if find() is None:
    fetched = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "--no-deps", "--only-binary=:all:", "--target", FOLDER, "nvidia-nccl-cu13"], check=False)
    if fetched.returncode != 0 or find() is None:
        print("skipped: NCCL's wheel cannot be fetched")
        sys.exit(77)
sys.exit(subprocess.run([TEST, "--gtest_filter=RealNccl.*"], check=False,
                        env={**os.environ, "TUTTI_TEST_NCCL": find()}).returncode)
