"""Joins test sources into one, which compiles in a fraction of the time that they take apart.

    join_tests.py OUTPUT SOURCE...

Two tests may each have a helper of the same name in their anonymous namespaces: here each of these
namespaces stands inside one that is named after the source. Lines keep their numbers.
"""

import pathlib
import re
import sys

OPENING = re.compile(r"^namespace \{$", re.MULTILINE)
CLOSING = re.compile(r"^\}  // namespace$", re.MULTILINE)


class Unreadable(Exception):
    """A source whose anonymous namespaces cannot be told."""


def isolated(text, name, path):
    """`text` with each anonymous namespace inside the namespace `name`."""
    opened, closed = len(OPENING.findall(text)), len(CLOSING.findall(text))
    if opened != closed:
        raise Unreadable(f"{path}: {opened} lines are `namespace {{` and {closed} are "
                         "`}  // namespace`; a test that is joined with others needs as many of "
                         "the one as of the other")
    text = OPENING.sub(f"namespace {name} {{ namespace {{", text)
    return CLOSING.sub("} }  // namespace", text)


def joined(paths):
    """The text of one source in place of those at `paths`."""
    parts = []
    for path in paths:
        text = isolated(path.read_text(encoding="utf-8"), f"joined_{path.stem}", path)
        parts.append(f'#line 1 "{path}"\n{text}')
    return "".join(parts)


def main(arguments):
    output, *sources = map(pathlib.Path, arguments)
    try:
        text = joined(sources)
    except (OSError, Unreadable) as error:
        sys.exit(f"join_tests.py: {error}")
    output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
