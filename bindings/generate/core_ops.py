"""Writes plain_ops.inc: the trait records k<Name>Op of all operations of the table and a list of
them, for the core's registry.

    core_ops.py OUTPUT
"""

import sys

import output
from table import Table


def registry(table: Table) -> str:
    ops = table.dataset_ops()
    return ("// The operations that the C interface has by convention; each is defined in its\n"
            "// <name>_op.cc. Generated from capi/include/tutti/dataset.h.\n"
            + "".join(f"extern const OpTraits k{op.pascal}Op;\n" for op in ops)
            + "inline constexpr const OpTraits* kPlainOps[] = {"
            + ", ".join(f"&k{op.pascal}Op" for op in ops) + "};\n")


if __name__ == "__main__":
    output.main(registry, sys.argv)
