"""What the CUDA plugin is linked with, and what it exports.

    needed_test.py LIBTUTTI_CUDA
"""

import subprocess
import sys

ALLOWED = ("libc.so", "libdl.so", "libgcc_s.so", "libm.so", "libpthread.so", "libstdc++.so",
           "ld-linux")
EXPORTED = {"tutti_plugin_abi_version", "tutti_plugin_open"}


def main(path):
    dynamic = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True)
    needed = [line.split("[")[1].rstrip("]") for line in dynamic.stdout.splitlines()
              if "(NEEDED)" in line]
    foreign = [name for name in needed if not name.startswith(ALLOWED)]
    if foreign or not needed:
        sys.exit(f"{path} needs {needed}; expected nothing but {ALLOWED}")
    symbols = subprocess.run(["nm", "-D", "--defined-only", "--format=posix", path], check=True,
                             capture_output=True, text=True)
    exported = {line.split()[0] for line in symbols.stdout.splitlines()}
    if exported != EXPORTED:
        sys.exit(f"{path} exports {sorted(exported)}; expected {sorted(EXPORTED)}")


if __name__ == "__main__":
    main(sys.argv[1])
