"""The plugin with the real NCCL of a wheel, without a driver: version, id, and what it says.

    real_nccl.py TUTTI_GPU_TEST FOLDER      the wheel (200 to 300 MB) goes there when there is none

Ends with 77 where there is no wheel and none can be fetched.
"""

import os
import subprocess
import sys

TEST, FOLDER = sys.argv[1:]


def find():
    for place in [FOLDER, *sys.path]:
        file = os.path.join(place, "nvidia", "nccl", "lib", "libnccl.so.2")
        if os.path.exists(file):
            return file
    return None


if find() is None:
    fetched = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "--no-deps", "--only-binary=:all:", "--target", FOLDER, "nvidia-nccl-cu13"], check=False)
    if fetched.returncode != 0 or find() is None:
        print("skipped: NCCL's wheel cannot be fetched")
        sys.exit(77)
sys.exit(subprocess.run([TEST, "--gtest_filter=RealNccl.*"], check=False,
                        env={**os.environ, "TUTTI_TEST_NCCL": find()}).returncode)
