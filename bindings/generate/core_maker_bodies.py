"""Writes dataset_makers.cc, the definitions of what core_makers.py declares: the arguments become
attributes by name, functions and further inputs.

    core_maker_bodies.py OUTPUT
"""

import sys

import core_makers
import output
from table import ROOT, Op, Table

HEAD = """\
// The makers of plain operations. Generated from capi/include/tutti/dataset.h.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "{dataset_header}"

namespace tutti {{

"""


def body(op: Op) -> str:
    lines = ["  Attributes attributes;"]
    inputs, functions = [], []
    optional_functions = [a.name for a in op.arguments if a.kind == "optional_function"]
    for a in op.arguments:
        if a.kind == "function":
            functions.append(f"std::move({a.name})")
        elif a.kind == "optional_function":
            continue
        elif a.kind == "dataset":
            inputs.append(f"Ref<Dataset>::Retain(const_cast<Dataset*>(&{a.name}))")
        elif core_makers.is_optional(a) or a.kind == "optional_int":
            lines.append(f'  if ({a.name}) attributes.Set("{a.name}", *{a.name});')
        elif a.kind == "optional_value":
            lines.append(f'  if ({a.name}) attributes.Set("{a.name}", std::move({a.name}));')
        elif a.kind == "dtype":
            lines.append(f'  attributes.Set("{a.name}", static_cast<int64_t>({a.name}));')
        elif a.kind in ("text", "value"):
            lines.append(f'  attributes.Set("{a.name}", std::move({a.name}));')
        else:
            lines.append(f'  attributes.Set("{a.name}", {a.name});')
    given = f'"{op.name}", std::move(name), std::move(attributes)'
    functions_text = f", {{{', '.join(functions)}}}" if functions else ""
    if optional_functions:
        # Those that are given, behind the others.
        lines.append(f"  std::vector<Ref<Function>> functions = {{{', '.join(functions)}}};")
        lines += [f"  if ({name}) functions.push_back(std::move({name}));"
                  for name in optional_functions]
        functions_text = ", std::move(functions)"
    if op.source or inputs:
        if not op.source:
            inputs.insert(0, "Ref<Dataset>::Retain(const_cast<Dataset*>(this))")
        environment = "environment" if op.source else "environment_"
        lines.append(f"  return Make({environment}, {given}, {{{', '.join(inputs)}}}"
                     f"{functions_text});")
    else:
        lines.append(f"  return Derive({given}{functions_text});")
    return "".join(line + "\n" for line in lines)


def definition(op: Op) -> str:
    tail = "" if op.source else " const"
    return (f"Result<Ref<Dataset>> Dataset::{op.pascal}({core_makers.parameters(op, False)})"
            f"{tail} {{\n{body(op)}}}\n\n")


def definitions(table: Table) -> str:
    path = next((ROOT / "core" / "dataset").rglob("dataset.h"))
    return (HEAD.format(dataset_header=path.relative_to(ROOT).as_posix())
            + "".join(definition(op) for op in core_makers.made(table)) + "}  // namespace tutti\n")


if __name__ == "__main__":
    output.main(definitions, sys.argv)
