"""The public interface of the C headers, a line for each name: functions through the reader that
the generators of the ABI use (capi/declarations.py), types, constants and macros through a reader
of its own, which knows as much C as the headers use."""

import importlib.util
import pathlib
import re

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#[^\n]*$", re.MULTILINE)
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+(?:\([^)]*\))?)[ \t]*([^\n]*)$", re.MULTILINE)
NOTES = ("Context", "Threads", "Since")


def lines(capi):
    """`capi`: the folder with declarations.py and include/tutti."""
    capi = pathlib.Path(capi)
    for function in _declarations(capi).all_functions():
        parameters = ", ".join(_spell(p.type, p.name) for p in function.parameters) or "void"
        notes = ", ".join(f"{key} {function.note(key) or 'not said'}" for key in NOTES)
        yield (f"function {function.name}: {function.result} ({parameters}) "
               f"[tutti/{function.header}, {notes}]")
    for header in sorted((capi / "include" / "tutti").glob("*.h")):
        yield f"header tutti/{header.name}: there"
        yield from header_lines(header.read_text(encoding="utf-8"), header.name)


def header_lines(text, name):
    """What a header named `name` has besides functions."""
    text = COMMENT.sub(" ", text).replace("\\\n", " ")
    for macro, body in MACRO.findall(text):
        if body.strip() or "(" in macro:
            yield f"macro {macro}: {_one_space(body)}"
        elif not macro.endswith("_H_"):
            yield f"macro {macro}: empty"
    # Declarations alone: what a macro opens and closes around them is no part of one.
    text = re.sub(r"\bTUTTI_(BEGIN|END)_DECLS\b", " ", DIRECTIVE.sub("", text))
    for statement in _statements(text):
        yield from _statement_lines(_one_space(statement), name)


def _declarations(capi):
    spec = importlib.util.spec_from_file_location("declarations", capi / "declarations.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _spell(type_text, name):
    return type_text + name if type_text.endswith("*") else f"{type_text} {name}"


def _one_space(text):
    return " ".join(text.split())


def _statements(text):
    """The parts that end with a semicolon outside of braces."""
    depth, start = 0, 0
    for index, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if letter == ";" and depth == 0:
            yield text[start:index]
            start = index + 1


def _statement_lines(statement, header):
    if not statement or re.match(r"TUTTI_API\b", statement):
        return
    constants = re.fullmatch(r"enum (\w+ )?\{(.*)\}", statement)
    if constants:
        yield from _constants(constants[2])
        return
    struct = re.fullmatch(r"(?:typedef )?struct (\w+) \{(.*)\}( \w+)?", statement)
    if struct:
        for number, field in enumerate(filter(None, map(str.strip, struct[2].split(";")))):
            # Their order is part of what a program is compiled with.
            name = re.search(r"\(\*(\w+)\)|(\w+)(?:\[\w+\])?$", field)
            name = name[1] or name[2]
            yield f"field {struct[1]}.{name}: {field} (number {number})"
        if struct[3]:
            yield f"type {struct[3].strip()}: struct {struct[1]}"
        return
    pointer = re.fullmatch(r"typedef (.*?)\(\*(\w+)\)(\(.*\))", statement)
    if pointer:
        yield f"type {pointer[2]}: {pointer[1]}(*){pointer[3]}"
        return
    alias = re.fullmatch(r"typedef (.*?)(\w+)", statement)
    if alias:
        yield f"type {alias[2]}: {alias[1].strip()}"
        return
    opaque = re.fullmatch(r"struct (\w+)", statement)
    if opaque:
        yield f"struct {opaque[1]}: named in tutti/{header}"
        return
    raise SystemExit(f"{header}: expected a function, struct, enum or typedef, found "
                     f"'{statement[:60]}'; teach tests/structure/public_api_c.py to read it")


def _constants(text):
    value = "-1"
    for constant in filter(None, map(str.strip, text.split(","))):
        name, _, given = map(str.strip, constant.partition("="))
        value = given or (str(int(value) + 1) if re.fullmatch(r"-?\d+", value) else f"{value} + 1")
        yield f"constant {name}: {value}"
