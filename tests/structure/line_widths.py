#!/usr/bin/env python3
"""Checks that no line of a source is wider than 100 columns, but for one that a URL makes so.

    line_widths.py [ROOT]             prints each violation; exit status 1 when there is one

C, C++, Go, Java, Python and SWIG's interface files. A tab is one column.
"""

import pathlib
import re
import sys

import tree_check

WIDEST = 100
SOURCES = {".c", ".cc", ".go", ".h", ".i", ".java", ".py", ".pyi"}
SCANNED = ("bindings", "capi", "core", "examples", "tests")
URL = re.compile(r"https?://\S+")


def violations(root):
    root = pathlib.Path(root)
    for part in SCANNED:
        for path in sorted((root / part).rglob("*")):
            if path.suffix not in SOURCES or "vectors" in path.parts or not path.is_file():
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if len(line) > WIDEST and not URL.search(line):
                    place = f"{path.relative_to(root)}:{number}"
                    yield f"{place}: {len(line)} columns, {WIDEST} at most"


if __name__ == "__main__":
    sys.exit(tree_check.main(violations))
