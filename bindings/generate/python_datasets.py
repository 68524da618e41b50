"""Writes _transformations.py, the methods of plain transformations in Python, in a class that
tutti.data.Dataset inherits.

    python_datasets.py OUTPUT
"""

import re
import sys
import textwrap
from typing import List

import output
from table import Argument, Op, Table, TableError

HEAD = '''\
"""The transformations of Dataset that take plain arguments. Generated from the C headers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Optional, Type, Union

from tutti import _arguments, _native
from tutti.data import _choice, _expression, _traced_datasets
from tutti.data._function import Function

if TYPE_CHECKING:
    from tutti.data._dataset import Dataset

_Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


def _dataset_class() -> Type[Dataset]:
    from tutti.data._dataset import Dataset

    return Dataset


class Transformations:
    """What Dataset inherits."""

    __slots__ = ()

    if TYPE_CHECKING:
        _handle: _native.tutti_dataset

        @staticmethod
        def _of(handle: Any) -> Dataset: ...
'''
# Operations whose number may be a placeholder of a function that is traced.
TRACED = ("repeat", "skip", "take")
# Codes of statuses, which are exceptions in Python.
CODES = re.compile(r"\b(?:INVALID_ARGUMENT|NOT_FOUND|ALREADY_EXISTS|FAILED_PRECONDITION|"
                   r"OUT_OF_RANGE|DATA_LOSS|RESOURCE_EXHAUSTED|UNIMPLEMENTED|UNAVAILABLE)\b")
TYPES = {"int": "int", "optional_int": "Optional[int]", "text": "str", "flag": "Optional[bool]",
         "dataset": '"Dataset"', "function": "Union[Callable[..., Any], Function]"}


def name_of(op: Op, argument: Argument) -> str:
    return op.of("python").get("names", {}).get(argument.name, argument.name)


def is_path(op: Op, argument: Argument) -> bool:
    return argument.name in op.of("python").get("paths", [])


def constant(op: Op, argument: Argument) -> str:
    """The default as Python's signature has it; None is what the reference has for -1 of repeat."""
    if argument.kind == "flag" or argument.kind == "optional_int":
        return "None"
    if argument.kind == "text":
        return f'"{argument.default}"'
    if argument.kind == "int" and op.name == "repeat":
        return "None"
    return str(argument.default)


def parameter(op: Op, a: Argument) -> str:
    if a.kind not in TYPES:
        raise TableError(f"{op.function.where}: {op.function.name}: the Python method cannot take "
                         f"'{a.name}' of the kind {a.kind}; write it by hand and say hand = "
                         f"[\"python\"] in api.toml, [dataset.{op.name}]")
    kind = "_Path" if is_path(op, a) else TYPES[a.kind]
    if a.default is None and not a.option:
        return f"{name_of(op, a)}: {kind}"
    default = constant(op, a)
    if default == "None" and not kind.startswith("Optional"):
        kind = f"Optional[{kind}]"
    return f"{name_of(op, a)}: {kind} = {default}"


def wrapped(parts: List[str], width: int, **indents: str) -> List[str]:
    """The parts one after the other, each whole."""
    glued = " ".join(part.replace(" ", "\0") for part in parts)
    return [line.replace("\0", " ") for line in
            textwrap.wrap(glued, width, break_long_words=False, break_on_hyphens=False, **indents)]


def signature(op: Op) -> List[str]:
    accepted = [f"{name}: {kind} = None"
                for name, kind in op.of("python").get("accept", {}).items()]
    texts = ["self", *(parameter(op, a) for a in op.arguments), *accepted,
             "name: Optional[str] = None"]
    if any(a.kind == "function" for a in op.arguments):
        texts += ["*", "slab: bool = False", "native: Optional[bool] = None"]
    return texts


def method(op: Op) -> str:
    head = f"    def {op.name}("
    given = signature(op)
    parameters = wrapped([f"{text}," for text in given[:-1]] + [f'{given[-1]}) -> "Dataset":'],
                         99 - len(head))
    text = "\n" + head + ("\n" + " " * len(head)).join(parameters) + "\n"
    doc = CODES.sub(lambda code: code[0].title().replace("_", "") + "Error", op.doc("python"))
    if any(a.kind == "function" for a in op.arguments):
        doc += (" With slab=True the function gets many rows at once and gives a vector of "
                "booleans. native: as in map.")
    example = op.settings.get("example", {}).get("python", [])
    quoted = textwrap.wrap(f'"""{doc}' + ("" if example else '"""'), 91, break_long_words=False)
    if example:
        quoted += ["", *example, '"""']
    text += "".join(f"        {line}".rstrip() + "\n" for line in quoted)
    for name, kind in op.of("python").get("accept", {}).items():
        check = {"Optional[int]": "check_calls", "Optional[bool]": "check_flag"}[kind]
        text += f"        _arguments.{check}(\"{op.name}: {name}\", {name})\n"
    if op.name in TRACED:
        given = name_of(op, op.arguments[0])
        text += (f"        if isinstance({given}, _expression.Expr):\n            return self._of("
                 f"_traced_datasets.counted(self, \"{op.name}\", {given}))\n")
    arguments = []
    for a in op.arguments:
        given = name_of(op, a)
        if a.kind == "function":
            if op.settings.get("function") != "predicate":
                raise TableError(f"{op.function.where}: {op.function.name}: expected function = "
                                 f"\"predicate\" in api.toml, [dataset.{op.name}], found "
                                 f"{op.settings.get('function')!r}; others are written by hand")
            text += (f"        function = _choice.of_predicate({given}, self, \"{op.name}\", "
                     "native, slab, name)\n")
            arguments.append("function._handle")
        elif a.kind == "dataset":
            text += (f"        other = _arguments.handle_of(\"{op.name}: {given}\", {given}, "
                     "_dataset_class())\n")
            arguments.append("other")
        elif is_path(op, a):
            arguments.append(f"os.fsdecode({given})")
        elif a.kind == "int" and a.default is not None and constant(op, a) == "None":
            arguments.append(f"{a.default} if {given} is None else {given}")
        else:
            arguments.append(given)
    head = f"return self._of(_native.dataset_{op.name}("
    lines = wrapped([f"{head}self._handle,", *(f"{given}," for given in arguments), "name))"], 91,
                    subsequent_indent=" " * len(head))
    return text + "".join(f"        {line}\n" for line in lines)


def module(table: Table) -> str:
    return HEAD + "".join(method(op) for op in table.dataset_ops()
                          if not op.source and not op.by_hand("python"))


if __name__ == "__main__":
    output.main(module, sys.argv)
