"""Writes plain_ops.cc for the C++ conformance runner: what each plain operation makes of a vector's
node.

    runner_cpp.py OUTPUT
"""

import sys

import output
import runner
from table import Op, Table

HEAD = """\
// The plain operations of datasets by name. Generated from capi/include/tutti/dataset.h.
#include "plain_ops.h"

#include <string>

#include "functions.h"

namespace conformance {
namespace {

"""


def transform(op: Op) -> str:
    keys = ", ".join(f'"{name}"' for name in runner.fields(op))
    lines = [f"CheckKeys(op, {{{keys}}});"]
    arguments = ["dataset->out()"]
    options = []
    for a in op.arguments:
        at = f'op.at("{a.name}")'
        if a.kind == "function":
            arguments.append("NamedFunction(op, ElementSpecOf(*dataset)).get()")
        elif a.kind == "dataset":
            arguments.append(f"BuildDataset({at}).get()")
        elif a.kind == "flag" and a.option:
            options += [f'if (op.contains("{a.name}")) {{',
                        f"  options.{a.name} = {at}.get<bool>() ? TUTTI_TRUE : TUTTI_FALSE;", "}"]
        elif a.kind == "optional_int" and a.option:
            options.append(f'if (op.contains("{a.name}")) options.{a.name} = '
                           f"{{1, {at}.get<int64_t>()}};")
        elif a.kind == "int" and a.option:
            options.append(f'options.{a.name} = op.value("{a.name}", int64_t{{{a.default}}});')
        elif a.kind == "int":
            arguments.append(f"{at}.get<int64_t>()" if a.default is None else
                             f'op.value("{a.name}", int64_t{{{a.default}}})')
        elif a.kind == "text" and not a.option:
            value = at if a.default is None else f'op.value("{a.name}", "{a.default}")'
            lines.append(f"const std::string {a.name} = {value};")
            arguments.append(f"{a.name}.c_str()")
        else:
            raise runner.unknown(op, a)
    if options:
        lines += [f"{op.options} options = {op.options.upper()}_INIT;", *options]
    arguments.append("&options" if options else "nullptr")
    lines.append(f"Check({op.function.name}({', '.join(arguments)}));")
    body = "".join(f"  {line}\n" for line in lines)
    return f"void {op.pascal}(const Json &op, Dataset *dataset) {{\n{body}}}\n\n"


def source(table: Table) -> str:
    ops = runner.ops(table)
    entries = "".join(f'      {{"{op.name}", {op.pascal}}},\n' for op in ops)
    return (HEAD + "".join(map(transform, ops)) + "}  // namespace\n\n"
            "const std::map<std::string, Transform> &PlainTransforms() {\n"
            "  static const auto *const transforms = new std::map<std::string, Transform>{\n"
            f"{entries}  }};\n  return *transforms;\n}}\n\n}}  // namespace conformance\n")


if __name__ == "__main__":
    output.main(source, sys.argv)
