#!/usr/bin/env python3
"""Checks what stands at the top of the tree: all of these, and besides only dot-files and build/.

    top_level.py [ROOT]               prints each violation; exit status 1 when there is one
"""

import pathlib
import sys

EXPECTED = {
    "CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE",
    "capi", "core", "bindings", "proto", "tests", "examples",
}


def violations(root):
    names = {entry.name for entry in pathlib.Path(root).iterdir()}
    for name in sorted(EXPECTED - names):
        yield f"{name} is missing"
    for name in sorted(names - EXPECTED):
        if name != "build" and not name.startswith("."):
            yield f"{name} does not belong at the top level"


def main():
    default = pathlib.Path(__file__).resolve().parents[2]
    found = list(violations(sys.argv[1] if len(sys.argv) > 1 else default))
    for violation in found:
        print(violation)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
