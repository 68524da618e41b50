"""Writes transformations_generated.go, the methods of plain transformations of Go's Dataset.

    go_datasets.py OUTPUT
"""

import sys
import textwrap

import output
from table import Argument, Op, Table, TableError

HEAD = """\
// Code generated from the C headers. DO NOT EDIT.

package tutti

import (
	"tutti.dev/tutti/internal/native"
)
"""
TYPES = {"int": "int64", "text": "string", "dataset": "*Dataset", "function": "*Function"}


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def type_of(op: Op, a: Argument) -> str:
    if a.kind not in TYPES:
        raise TableError(f"{op.function.where}: {op.function.name}: the Go method cannot take "
                         f"'{a.name}' of the kind {a.kind}; write it by hand and say hand = "
                         f"[\"go\"] in api.toml, [dataset.{op.name}]")
    return TYPES[a.kind]


def comment(op: Op, name: str) -> str:
    text = op.doc("go")
    for a in op.arguments:
        text = text.replace(f"`{a.name}`", camel(a.name))
    first = text.split()[0]
    if first[:1].isupper() and first[1:].islower() or len(first) == 1:
        text = text[0].lower() + text[1:]
    return "".join(f"// {line}\n" for line in
                   textwrap.wrap(f"{name} gives {text}", 97, break_long_words=False))


def native_call(op: Op) -> str:
    arguments = ["dataset"]
    for a in op.arguments:
        if a.option:
            if a.kind not in ("flag", "int", "optional_int", "text"):
                raise TableError(f"{op.function.where}: {op.function.name}: Go has no option for "
                                 f"'{a.name}' of the kind {a.kind}; write the method by hand")
            arguments.append(f"op.{camel(a.name)}")
        elif a.kind in ("dataset", "function"):
            arguments.append("pointer")
        else:
            arguments.append(camel(a.name))
    arguments += ["op.name", "made"]
    return f"native.Dataset_{op.name}({', '.join(arguments)})"


def method(op: Op) -> str:
    positional = [a for a in op.arguments if not a.option]
    name, text = op.pascal, "\n"
    objects = [a for a in positional if a.kind in ("dataset", "function")]
    if len(objects) > 1:
        raise TableError(f"{op.function.where}: {op.function.name}: expected at most one dataset "
                         "or function among the arguments; write the Go method by hand")
    if op.settings.get("function") == "predicate":
        text += (comment(op, name) +
                 f"func (d *Dataset) {name}(fn func(element Value) (bool, error), "
                 "options ...Option) *Dataset {\n"
                 f'\treturn d.judged("{op.name}", fn, options, (*Dataset).{name}With)\n}}\n\n')
        text += f"// {name}With is {name} with a function.\n"
        name += "With"
    else:
        text += comment(op, name)
    parameters = "".join(
        f"{'function' if a.kind == 'function' else camel(a.name)} {type_of(op, a)}, "
        for a in positional)
    text += f"func (d *Dataset) {name}({parameters}options ...Option) *Dataset {{\n"
    text += "\top := operationOf(options)\n"
    for a in objects:
        given = "function" if a.kind == "function" else camel(a.name)
        text += (f"\tpointer, err := {given}.use()\n\tif err != nil {{\n"
                 "\t\treturn datasetOf(0, err)\n\t}\n"
                 f"\tdefer {given}.o.done()\n")
    text += ("\treturn d.transform(func(dataset uintptr, made *uintptr) uintptr {\n"
             f"\t\treturn {native_call(op)}\n\t}})\n}}\n")
    return text


def source(table: Table) -> str:
    return HEAD + "".join(method(op) for op in table.dataset_ops()
                          if not op.source and not op.by_hand("go"))


if __name__ == "__main__":
    output.main(source, sys.argv)
