"""Writes dataset_ops.cc, the C functions of plain operations of datasets: arguments are checked and
converted, the core's maker is called, the handle is replaced.

    c_datasets.py OUTPUT
"""

import sys
from typing import List

import core_makers
import output
from declarations import spell
from table import Argument, Op, Table

HEAD = """\
// The C functions of plain operations of datasets. Generated from capi/include/tutti/dataset.h.
#include <tutti/dataset.h>

#include <optional>
#include <string>
#include <utility>

#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "capi/src/transform.h"

using namespace tutti;
using namespace tutti::capi;

"""


def statements(a: Argument) -> List[str]:
    """What has to stand before the call of the maker."""
    if a.kind in ("function", "dataset", "value") or a.kind == "text" and a.default is None:
        return [f"TUTTI_REQUIRE(call, {a.name});"]
    if a.kind != "flag":
        return []
    given = f"set.{a.name}"
    if core_makers.is_optional(a):
        return [f"std::optional<bool> {a.name};",
                f"if ({given} != TUTTI_UNSET) {{",
                f"  TUTTI_ASSIGN_OR_RETURN({a.name}, ReadTristate(call, {given}, true, "
                f'"{a.name}"));', "}"]
    default = "true" if a.default else "false"
    return [f"TUTTI_ASSIGN_OR_RETURN(const bool {a.name}, "
            f'ReadTristate(call, {given}, {default}, "{a.name}"));']


def expression(a: Argument) -> str:
    """What the maker gets."""
    given = f"set.{a.name}" if a.option else a.name
    if a.kind == "flag":
        return a.name
    if a.kind == "optional_int":
        return (f"ReadOptional({given})" if a.option else
                f"{given} == nullptr ? std::nullopt : std::optional<int64_t>(*{given})")
    if a.kind == "text":
        return f'std::string(TextOr({given}, "{a.default or ""}"))'
    if a.kind == "dtype":
        return (f"{given} == 0 ? DType::{core_makers.DTYPES[a.default]} : "
                f"static_cast<DType>({given})")
    if a.kind == "function":
        return f"Ref<Function>::Retain(FromHandle({given}))"
    if a.kind == "optional_function":
        return f"{given} == nullptr ? nullptr : Ref<Function>::Retain(FromHandle({given}))"
    if a.kind == "dataset":
        return f"*FromHandle({given})"
    if a.kind == "optional_value":
        return (f"{given} == nullptr ? nullptr : "
                f"Ref<const Value>::Retain(FromHandle({given}))")
    if a.kind == "value":
        return f"Ref<const Value>::Retain(FromHandle({given}))"
    return given


def definition(op: Op) -> str:
    f = op.function
    arguments = [expression(a) for a in op.arguments] + ["Name(set.name)"]
    before = [line for a in op.arguments for line in statements(a)]
    head = f"tutti_status *{f.name}({', '.join(spell(p.type, p.name) for p in f.parameters)}) {{\n"
    if op.source:
        lines = ["TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));", *before,
                 f"return Dataset::{op.pascal}({', '.join(['environment'] + arguments)});"]
        opening = ("  return Source(__func__, runtime, out_dataset, [&](Call call, const "
                   "Ref<DatasetEnvironment> &environment) -> DatasetResult {\n")
    else:
        given = "options"
        # Where zero is not what stands for nothing.
        if any(a.option and a.kind == "int" and a.default for a in op.arguments):
            given = "options != nullptr ? options : &kOtherwise"
            head += (f"  static constexpr {op.options} kOtherwise = "
                     f"{op.options.upper()}_INIT;\n")
        lines = [*before, f"return input.{op.pascal}({', '.join(arguments)});"]
        opening = (f"  return Transform(__func__, dataset, {given}, [&]([[maybe_unused]] "
                   "Call call, const Dataset &input, const auto &set) -> DatasetResult {\n")
    return head + opening + "".join(f"    {line}\n" for line in lines) + "  });\n}\n\n"


def source(table: Table) -> str:
    return HEAD + "".join(definition(op) for op in table.dataset_ops() if not op.by_hand("c"))


if __name__ == "__main__":
    output.main(source, sys.argv)
