"""Writes handles.i: TUTTI_HANDLE(name) for each type of the C interface that is a class in the
languages SWIG makes classes for.

    handles.py OUTPUT
"""

import sys

import output
from table import Table


def classes(table: Table):
    no_class = table.exceptions.get("handles", {}).get("no_class", [])
    return [name for name in table.handles() if name not in no_class]


def interface(table: Table) -> str:
    return ("/* The counted types of the C interface. Generated from the headers. */\n"
            + "".join(f"TUTTI_HANDLE({name})\n" for name in classes(table)))


if __name__ == "__main__":
    output.main(interface, sys.argv)
