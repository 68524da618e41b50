#!/usr/bin/env python3
"""Checks that no comment of Javadoc's has backticks, which its pages show as they stand: code is
{@code text} there.

    doc_comments.py [ROOT]             prints each violation; exit status 1 when there is one
"""

import pathlib
import re
import sys

import tree_check

SCANNED = ("bindings", "examples", "tests")
COMMENT = re.compile(r"/\*\*.*?\*/", re.S)


def violations(root):
    root = pathlib.Path(root)
    for part in SCANNED:
        for path in sorted((root / part).rglob("*.java*")):
            if path.suffix not in (".java", ".in") or not path.is_file():
                continue
            text = path.read_text(encoding="utf-8")
            for comment in COMMENT.finditer(text):
                for tick in re.finditer("`", comment.group()):
                    line = text.count("\n", 0, comment.start() + tick.start()) + 1
                    yield f"{path.relative_to(root)}:{line}: a backtick in a comment of Javadoc's"


if __name__ == "__main__":
    sys.exit(tree_check.main(violations))
