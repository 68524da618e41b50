"""Writes dataset_makers.inc, the members of the core's Dataset that make plain operations: their
declarations, for the class.

    core_makers.py OUTPUT
"""

import sys
from typing import List

import output
from table import Argument, Op, Table, TableError

DTYPES = {"int64": "kInt64"}
PARAMETERS = {
    "int": "int64_t {}",
    "optional_int": "std::optional<int64_t> {}",
    "flag": "bool {}",
    "text": "std::string {}",
    "dtype": "DType {}",
    "function": "Ref<Function> {}",
    "optional_function": "Ref<Function> {}",
    "dataset": "const Dataset& {}",
    "value": "Ref<const Value> {}",
    "optional_value": "Ref<const Value> {}",
}


def made(table: Table) -> List[Op]:
    return [op for op in table.dataset_ops() if not op.by_hand("core")]


def is_optional(argument: Argument) -> bool:
    return argument.default == "unset"


def parameter(argument: Argument, with_default: bool) -> str:
    kind = "std::optional<bool> {}" if is_optional(argument) else PARAMETERS[argument.kind]
    text = kind.format(argument.name)
    default = default_of(argument)
    return f"{text} = {default}" if with_default and default is not None else text


def default_of(argument: Argument):
    if is_optional(argument):
        return "{}"
    if argument.kind in ("optional_int", "optional_value", "optional_function"):
        return "{}" if argument.option else None
    if argument.default is None:
        return None
    if argument.kind == "flag":
        return "true" if argument.default else "false"
    if argument.kind == "text":
        return '"' + argument.default + '"' if argument.default else "{}"
    if argument.kind == "dtype":
        if argument.default not in DTYPES:
            raise TableError(f"core_makers.py: {argument.name}: expected a default among "
                             f"{', '.join(DTYPES)}, found {argument.default!r}")
        return f"DType::{DTYPES[argument.default]}"
    return str(argument.default)


def parameters(op: Op, with_defaults: bool) -> str:
    texts = [parameter(a, False) for a in op.arguments]
    if with_defaults:
        # C++ wants all that follow a default to have one.
        last = max([i for i, a in enumerate(op.arguments) if default_of(a) is None], default=-1)
        texts = [parameter(a, i > last) for i, a in enumerate(op.arguments)]
    texts.append("std::string name = {}" if with_defaults else "std::string name")
    return ", ".join((["Environments environment"] if op.source else []) + texts)


def declaration(op: Op) -> str:
    head, tail = ("static ", "") if op.source else ("", " const")
    return (f"  // {op.function.prose}\n"
            f"  {head}Result<Ptr> {op.pascal}({parameters(op, True)}){tail};\n")


def declarations(table: Table) -> str:
    return ("// The plain operations of datasets. Generated from capi/include/tutti/dataset.h.\n"
            + "".join(declaration(op) for op in made(table)))


if __name__ == "__main__":
    output.main(declarations, sys.argv)
