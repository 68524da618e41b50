"""Compares the ABI that the headers describe with the one that is committed in capi/abi/.

    abi_test.py check IMAGE     fails when a function, a type or a constant has changed or gone
    abi_test.py update IMAGE    writes capi/abi/

IMAGE is the library that make_abi_image.py is compiled to. New functions and constants are no
change. A struct that has grown at its end, with struct_size and 0 meaning unset, is compatible but
shows here, as does a deliberate break: build the target tutti_abi_update, look at the diff, say in
the commit message what a user has to do, and raise the version. What compilers decide (paths,
lines, the architecture) is left out of the committed file.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "capi/abi"
TYPES = FOLDER / "libtutti.abi"
CONSTANTS = FOLDER / "constants.txt"
INCLUDE = ROOT / "capi/include"


def write_types(image: str, output: pathlib.Path) -> None:
    subprocess.run(
        ["abidw", "--headers-dir", str(INCLUDE), "--no-corpus-path", "--no-comp-dir-path",
         "--no-show-locs", "--no-architecture", "--no-elf-needed", "--type-id-style", "hash",
         "--out-file", str(output), image],
        check=True,
    )


def constants() -> "list[str]":
    """Enumerators and plain #define'd numbers; the types of the interface are int32_t, so that they
    do not show in libtutti.abi."""
    text = "".join(path.read_text() for path in sorted((INCLUDE / "tutti").glob("*.h")))
    found = re.findall(r"\b(TUTTI_\w+) = (-?\d+)", text)
    found += re.findall(r"^#define (TUTTI_\w+) (\(?-?\w+\)?)$", text, re.M)
    return sorted(f"{name} {value}" for name, value in found if "VERSION" not in name)


def check(image: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = pathlib.Path(folder) / "found.abi"
        write_types(image, found)
        result = subprocess.run(
            ["abidiff", "--no-added-syms", "--no-show-locs", str(TYPES), str(found)],
            capture_output=True, text=True,
        )
    print(result.stdout + result.stderr)
    gone = sorted(set(CONSTANTS.read_text().splitlines()) - set(constants()))
    print("".join(f"this constant has changed or gone: {line}\n" for line in gone))
    if not result.returncode and not gone:
        return 0
    print("The ABI is not the committed one. If that is meant: build the target tutti_abi_update,",
          f"and see {pathlib.Path(__file__).relative_to(ROOT)}")
    return 1


if __name__ == "__main__":
    if sys.argv[1] == "update":
        FOLDER.mkdir(exist_ok=True)
        write_types(sys.argv[2], TYPES)
        CONSTANTS.write_text("\n".join(constants()) + "\n")
    else:
        sys.exit(check(sys.argv[2]))
