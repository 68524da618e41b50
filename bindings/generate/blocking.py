"""Writes blocking.i: the functions of the facade that may wait, for the languages whose own lock is
given up meanwhile.

    blocking.py OUTPUT
"""

import fnmatch
import sys

import output
from table import Table, takes_call_options


def names(table: Table):
    """Sorted: what takes call options and is no _async, and what api.toml adds."""
    direct = table.exceptions.get("facade", {}).get("direct", [])
    found = {table.facade_name(f) for f in table.functions.values()
             if takes_call_options(f) and not f.name.endswith("_async")
             and not any(fnmatch.fnmatchcase(f.name, pattern) for pattern in direct)}
    return sorted(found | set(table.exceptions.get("blocking", {}).get("also", [])))


def interface(table: Table) -> str:
    return ("/* What may wait. Generated from the C headers. */\n"
            + "".join(f"TUTTI_BLOCKING({name})\n" for name in names(table)))


if __name__ == "__main__":
    output.main(interface, sys.argv)
