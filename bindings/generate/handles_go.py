"""Writes handles_go.i: GO_HANDLE(name) for each counted type that Go holds by its address.

    handles_go.py OUTPUT
"""

import sys

import output
from table import Table


def interface(table: Table) -> str:
    left_out = table.exceptions.get("handles", {}).get("not_in_go", [])
    return ("/* The counted types of the C interface. Generated from the headers. */\n"
            + "".join(f"GO_HANDLE({name})\n" for name in table.handles() if name not in left_out))


if __name__ == "__main__":
    output.main(interface, sys.argv)
