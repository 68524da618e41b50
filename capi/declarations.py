"""Reads the functions that the C headers declare; the generators and checks of the ABI share it."""

import pathlib
import re
from typing import List, NamedTuple

INCLUDE = pathlib.Path(__file__).resolve().parent / "include"


class Parameter(NamedTuple):
    type: str
    name: str


class Function(NamedTuple):
    header: str  # "tensor.h"
    comment: str  # the block comment right above, without its stars
    result: str  # "tutti_status *"
    name: str  # "tutti_tensor_create"
    parameters: List[Parameter]

    @property
    def parameter_text(self) -> str:
        return ", ".join(spell(p.type, p.name) for p in self.parameters) or "void"

    def note(self, key: str) -> str:
        """The word after "Context:", "Threads:" or "Since:" in the comment, "" if there is none."""
        found = re.search(key + r": ([^.,]+|0\.\d+)", self.comment)
        if key == "Since":
            found = re.search(r"Since: (\d+\.\d+)", self.comment)
        return found.group(1).strip() if found else ""


def spell(type_text: str, name: str) -> str:
    return type_text + name if type_text.endswith("*") else f"{type_text} {name}"


def headers() -> List[pathlib.Path]:
    return sorted((INCLUDE / "tutti").glob("*.h"))


_DECLARATION = re.compile(
    r"(?:/\*(?P<comment>(?:(?!\*/).)*)\*/\s*)?TUTTI_API\s+(?P<head>[^;{}()]*?)"
    r"(?P<name>tutti_\w+)\s*"
    r"\((?P<parameters>[^;]*)\)\s*;",
    re.DOTALL,
)


def functions_of(path: pathlib.Path) -> List[Function]:
    text = re.sub(r"^#define TUTTI_API.*$", "", path.read_text(), flags=re.MULTILINE)
    found = []
    for match in _DECLARATION.finditer(text):
        comment = re.sub(r"\n\s*\* ?", "\n", match["comment"] or "").strip()
        found.append(
            Function(
                path.name,
                comment,
                " ".join(match["head"].split()),
                match["name"],
                [_parameter(p) for p in match["parameters"].split(",") if p.strip() != "void"],
            )
        )
    if len(found) != len(re.findall(r"\bTUTTI_API\b", text)):
        raise SystemExit(f"{path}: not every TUTTI_API declaration could be read")
    return found


def all_functions() -> List[Function]:
    return sorted((f for h in headers() for f in functions_of(h)), key=lambda f: f.name)


def _parameter(text: str) -> Parameter:
    match = re.fullmatch(r"(.*?)(\w+)", " ".join(text.split()))
    return Parameter(match[1].strip(), match[2])
