"""How a generator ends: it writes its one file, only when it changed, and says in one line what is
wrong with the table."""

import pathlib
import sys
from typing import Callable, List

from table import DeclarationError, Table, TableError


def main(generate: Callable[[Table], str], arguments: List[str]) -> None:
    """`arguments`: the program and the output."""
    if len(arguments) != 2:
        sys.exit(f"usage: {pathlib.Path(arguments[0]).name} OUTPUT")
    try:
        text = generate(Table.load())
    except (TableError, DeclarationError) as error:
        sys.exit(f"{pathlib.Path(arguments[0]).name}: {error}")
    write(pathlib.Path(arguments[1]), text)


def write(path: pathlib.Path, text: str) -> None:
    """Only when it says something new, so that nothing is built anew for nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
