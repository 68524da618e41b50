"""Reads what the C headers declare, functions and structs; generators and checks share it.

The headers are the one table of the interface: names, parameters, option structs with their fields,
and of each function what its comment says (prose first, then its `Context:`, `Threads:` and
`Since:` sentences). A declaration that cannot be read is a DeclarationError with file, line and
what was expected.
"""

import pathlib
import re
from typing import Dict, List, NamedTuple, Optional

INCLUDE = pathlib.Path(__file__).resolve().parent / "include"


class DeclarationError(Exception):
    """A declaration that cannot be read, with file and line, what was expected and found."""

    def __init__(self, path, line: int, expected: str, found: str):
        super().__init__(f"{path}:{line}: expected {expected}, found '{' '.join(found.split())}'")


class Parameter(NamedTuple):
    type: str
    name: str


class Function(NamedTuple):
    header: str  # "tensor.h"
    comment: str  # the block comment right above, without its stars
    result: str  # "tutti_status *"
    name: str  # "tutti_tensor_create"
    parameters: List[Parameter]
    where: str = ""  # "capi/include/tutti/tensor.h:12", for messages

    @property
    def parameter_text(self) -> str:
        return ", ".join(spell(p.type, p.name) for p in self.parameters) or "void"

    @property
    def prose(self) -> str:
        """The comment without its notes, on one line."""
        return " ".join(re.split(r"\bContext:", self.comment)[0].split())

    def note(self, key: str) -> str:
        """The word after "Context:", "Threads:" or "Since:" in the comment, "" if there is none."""
        found = re.search(key + r": ([^.,]+|0\.\d+)", self.comment)
        if key == "Since":
            found = re.search(r"Since: (\d+\.\d+)", self.comment)
        return found.group(1).strip() if found else ""


class Struct(NamedTuple):
    """A public struct: its fields in order, struct_size included."""

    header: str
    name: str  # "tutti_batch_options"
    fields: List[Parameter]
    where: str = ""


def spell(type_text: str, name: str) -> str:
    return type_text + name if type_text.endswith("*") else f"{type_text} {name}"


def headers(include: Optional[pathlib.Path] = None) -> List[pathlib.Path]:
    return sorted(((include or INCLUDE) / "tutti").glob("*.h"))


_DECLARATION = re.compile(
    r"(?:/\*(?P<comment>(?:(?!\*/).)*)\*/\s*)?(?P<api>TUTTI_API)\s+(?P<head>[^;{}()]*?)"
    r"(?P<name>tutti_\w+)\s*"
    r"\((?P<parameters>[^;]*)\)\s*;",
    re.DOTALL,
)
_STRUCT = re.compile(
    r"^(?:typedef struct (?P<tag>\w+) \{(?P<typedef>[^{}]*)\} (?P<name>\w+);"
    r"|struct (?P<plain>\w+) \{(?P<body>[^{}]*)\};)",
    re.DOTALL | re.MULTILINE,
)


def functions_of(path: pathlib.Path) -> List[Function]:
    text = re.sub(r"^#define TUTTI_API.*$", "", path.read_text(), flags=re.MULTILINE)
    shown = _shown(path)
    found = []
    read = set()
    for match in _DECLARATION.finditer(text):
        line = text.count("\n", 0, match.start("api")) + 1
        read.add(line)
        comment = re.sub(r"\n\s*\* ?", "\n", match["comment"] or "").strip()
        found.append(
            Function(
                path.name,
                comment,
                " ".join(match["head"].split()),
                match["name"],
                [_parameter(p, shown, line) for p in match["parameters"].split(",")
                 if p.strip() != "void"],
                f"{shown}:{line}",
            )
        )
    for match in re.finditer(r"\bTUTTI_API\b", text):
        line = text.count("\n", 0, match.start()) + 1
        if line not in read:
            raise DeclarationError(
                shown, line, "TUTTI_API RESULT tutti_NAME(TYPE NAME, ...);",
                text[match.start():].split(";")[0].split("\n\n")[0][:200])
    return found


def structs_of(path: pathlib.Path) -> List[Struct]:
    text = path.read_text()
    shown = _shown(path)
    found = []
    for match in _STRUCT.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        body = match["typedef"] if match["tag"] else match["body"]
        start = match.start("typedef" if match["tag"] else "body")
        fields = []
        blank = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), body, flags=re.DOTALL)
        offset = 0
        for statement in blank.split(";")[:-1]:
            at = offset + len(statement) - len(statement.lstrip())
            field_line = text.count("\n", 0, start + at) + 1
            if "(" not in statement:  # a pointer to a function is nobody's option
                fields.append(_parameter(re.sub(r"\[\w*\]$", "", statement.strip()), shown,
                                         field_line))
            offset += len(statement) + 1
        found.append(Struct(path.name, match["name"] or match["plain"], fields, f"{shown}:{line}"))
    return found


def all_functions(include: Optional[pathlib.Path] = None) -> List[Function]:
    return sorted((f for h in headers(include) for f in functions_of(h)), key=lambda f: f.name)


def all_structs(include: Optional[pathlib.Path] = None) -> Dict[str, Struct]:
    return {s.name: s for h in headers(include) for s in structs_of(h)}


def enumerations(include: Optional[pathlib.Path] = None) -> List[str]:
    """The types whose values are int32_t constants."""
    return [name for h in headers(include)
            for name in re.findall(r"^typedef int32_t (\w+);", h.read_text(), re.MULTILINE)]


def _shown(path: pathlib.Path) -> str:
    try:
        return str(path.relative_to(INCLUDE.parents[1]))
    except ValueError:
        return str(path)


def _parameter(text: str, shown: str, line: int) -> Parameter:
    words = " ".join(text.split())
    match = re.fullmatch(
        r"((?!const \w+$)(?:const )?(?:struct )?\w+ (?:\*+|\*const \*)?)(\w+)", words)
    if not match:
        raise DeclarationError(shown, line, "a parameter or field of the form TYPE NAME", words)
    return Parameter(match[1].strip(), match[2])
