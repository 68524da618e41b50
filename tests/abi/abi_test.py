"""Compares the library's ABI with the one that is committed as capi/abi/libtutti.abi.

    abi_test.py check LIBRARY     fails when a function or a type of the interface has changed or gone
    abi_test.py update LIBRARY    writes the library's ABI to capi/abi/libtutti.abi

New functions are no change. A struct that has grown at its end, with struct_size and 0 meaning
unset, is compatible but shows here, as does a deliberate break: run the build target
tutti_abi_update, look at the diff, say in the commit message what a user has to do, and raise the
version. What compilers decide (paths, line numbers, the architecture, how C++ names things) is left
out of the committed file, so that another compiler's library compares equal.
"""

import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMITTED = ROOT / "capi/abi/libtutti.abi"
HEADERS = str(ROOT / "capi/include")


def abidw(library: str, output: str) -> None:
    subprocess.run(
        ["abidw", "--headers-dir", HEADERS, "--drop-private-types", "--no-corpus-path",
         "--no-comp-dir-path", "--no-show-locs", "--no-architecture", "--type-id-style", "hash",
         "--out-file", output, library],
        check=True,
    )


def check(library: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = str(pathlib.Path(folder) / "found.abi")
        abidw(library, found)
        result = subprocess.run(
            ["abidiff", "--no-added-syms", "--no-show-locs", str(COMMITTED), found],
            capture_output=True, text=True,
        )
    print(result.stdout + result.stderr)
    if result.returncode:
        print("The ABI is not the committed one. If that is meant: build the target "
              "tutti_abi_update, and see", pathlib.Path(__file__).relative_to(ROOT))
    return result.returncode


if __name__ == "__main__":
    if sys.argv[1] == "update":
        COMMITTED.parent.mkdir(exist_ok=True)
        abidw(sys.argv[2], str(COMMITTED))
    else:
        sys.exit(check(sys.argv[2]))
