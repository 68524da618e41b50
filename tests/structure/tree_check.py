"""What the checks of this folder have in common: each is a program that goes through the tree,
prints each violation, and exits with 1 when there is one."""

import pathlib
import sys


def main(violations):
    """Of the tree that the command line names, or of the one that this file stands in."""
    default = pathlib.Path(__file__).resolve().parents[2]
    found = list(violations(sys.argv[1] if len(sys.argv) > 1 else default))
    for violation in found:
        print(violation)
    return 1 if found else 0
