#!/usr/bin/env python3
"""Checks what stands at the top of the tree: all of these, and besides only dot-files and build/.

    top_level.py [ROOT]               prints each violation; exit status 1 when there is one
"""

import pathlib
import sys

import tree_check

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


if __name__ == "__main__":
    sys.exit(tree_check.main(violations))
