"""Writes the facade's forwards, generated_forwards.h: a function for every C function that the
languages call as it stands.

    facade.py OUTPUT
"""

import sys

import output
from table import Forward, Table

HEAD = """\
// The facade's functions that only call C. Parameters are named by how they cross to a language
// (bindings/generate/api.toml, [roles]); option structs are taken apart. Generated from the C
// headers.
#ifndef TUTTI_BINDINGS_FACADE_FORWARDS_H_
#define TUTTI_BINDINGS_FACADE_FORWARDS_H_

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>

#include "facade/transformed.h"

namespace tutti_facade {

"""
TAIL = """\
}  // namespace tutti_facade

#endif  // TUTTI_BINDINGS_FACADE_FORWARDS_H_
"""


def definition(forward: Forward) -> str:
    space = "" if forward.result.endswith("*") else " "
    parameters = ", ".join(p.type + ("" if p.type.endswith("*") else " ") + p.name
                           for p in forward.parameters)
    body = "".join(f"  {line}\n" for line in forward.body)
    return f"inline {forward.result}{space}{forward.name}({parameters}) {{\n{body}}}\n"


def header(table: Table) -> str:
    return HEAD + "".join(definition(f) + "\n" for f in table.forwards()) + TAIL


if __name__ == "__main__":
    output.main(header, sys.argv)
