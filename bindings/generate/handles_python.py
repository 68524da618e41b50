"""Writes handles_python.i: OUT_HANDLE(name) for each class, and that every parameter of the facade
that gives such an object out is a result.

    handles_python.py OUTPUT
"""

import fnmatch
import sys

import handles
import output
from table import Table


def interface(table: Table) -> str:
    """An object goes out under the name that the facade has for it: out_<noun> by convention."""
    text = "/* Objects as results. Generated from the C headers. */\n"
    # A value goes out as the object that it stands for, by typemaps of its own.
    known = [name for name in handles.classes(table) if name != "tutti_value"]
    outs = {f"{p.type}{p.name}" for forward in table.forwards() for p in forward.parameters}
    for pattern in table.exceptions.get("facade", {}).get("by_hand", []):
        for name in fnmatch.filter(table.functions, pattern):
            f = table.functions[name]
            outs |= {f"{p.type}{table.role(f, p)}" for p in f.parameters}
    # These have typemaps of their own: an array, a list.
    taken = {"tutti_tensor **out_array", "tutti_communicator **out_communicators"}
    for name in known:
        text += f"OUT_HANDLE({name})\n"
        for out in sorted(outs - taken):
            if out.startswith(f"{name} **"):
                text += f"%apply {name} **OUTPUT {{ {out} }};\n"
    return text


if __name__ == "__main__":
    output.main(interface, sys.argv)
