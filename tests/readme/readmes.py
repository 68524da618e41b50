"""The READMEs of the tree, and the fenced blocks in them.

What a block is stands behind the backticks that open it:

    c, python, java, go     a program; the block without a word behind it is what it prints
    sh                      commands; a block without a word, if there is one, is what they print
    <language> <path>       an excerpt of that file, which has its lines in this order; a line
                            "..." stands for lines that are left out
    text                    a drawing, a message, rows of a file: nothing that could be run

Anything else is a mistake, and so is code that is only indented: nothing would run it.
"""

import dataclasses
import pathlib
import re

PROGRAMS = ("c", "python", "java", "go")
FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})\s*(.*?)\s*$")
LIST_ITEM = re.compile(r"^\s*([-*+]|\d+[.)])\s")


@dataclasses.dataclass
class Block:
    """A fenced block; `line` is that of its first fence."""

    path: pathlib.Path
    line: int
    words: list
    body: str

    @property
    def kind(self):
        return self.words[0] if self.words else ""

    @property
    def excerpt_of(self):
        return self.words[1] if len(self.words) == 2 else None

    @property
    def place(self):
        return f"{self.path}:{self.line}"


class Mistake(Exception):
    """A README that cannot be read, or a block that nothing checks."""


def find(root):
    """All READMEs below `root`, but for those in build folders and hidden ones."""
    root = pathlib.Path(root)
    found = [path for path in root.rglob("README.md")
             if not any(part == "build" or part.startswith(".")
                        for part in path.relative_to(root).parts)]
    if not found:
        raise Mistake(f"{root}: there is no README.md in it or below; expected the top of the tree")
    return sorted(found)


def blocks(path):
    """The fenced blocks of a README, in order."""
    found, opened, body = [], None, []
    before, in_list = "", False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if opened is not None:
            if fence and fence[2].startswith(opened[1]) and not fence[3]:
                found.append(Block(path, opened[0], opened[2], "".join(body)))
                opened, body = None, []
            else:
                body.append(line + "\n")
            continue
        if fence:
            if fence[1]:
                raise Mistake(f"{path}:{number}: a fence that is indented; begin it in column 1")
            opened = (number, fence[2], fence[3].split())
        elif line.startswith("    ") and not before.strip() and not in_list:
            raise Mistake(f"{path}:{number}: code that is only indented is run by no test; put a "
                          "fence around it and say behind the backticks what it is")
        if line.strip() and not line.startswith(" "):
            in_list = bool(LIST_ITEM.match(line))
        before = line
    if opened is not None:
        raise Mistake(f"{path}:{opened[0]}: the block that begins here has no end")
    return found


def examples(path):
    """Yields (block, what it prints) of each program and script; None where that is not said."""
    found = blocks(path)
    for index, block in enumerate(found):
        if block.excerpt_of or block.kind not in (*PROGRAMS, "sh"):
            continue
        following = found[index + 1] if index + 1 < len(found) else None
        yield block, following.body if following and not following.words else None


def mistakes(root, path):
    """What nothing would check of the blocks of one README, or what is wrong with an excerpt."""
    try:
        found = blocks(path)
    except Mistake as mistake:
        yield str(mistake)
        return
    before = None
    for block in found:
        runs = block.kind in (*PROGRAMS, "sh") and not block.excerpt_of
        if not block.words and before is None:
            yield (f"{block.place}: a block that says neither what it is nor what the example "
                   "before it prints; a drawing or a message is ```text")
        elif before is not None and block.words and before.kind != "sh":
            yield (f"{before.place}: a {before.kind} example has no block behind it that says what "
                   "it prints")
        if len(block.words) > 2:
            yield (f"{block.place}: found \"{' '.join(block.words)}\"; expected a language, and "
                   "for an excerpt its file")
        elif block.excerpt_of:
            yield from excerpt_mistakes(root, block)
        elif block.words and not runs and block.kind != "text":
            yield (f"{block.place}: no test knows how to run a block of \"{block.kind}\"; expected "
                   f"{', '.join(PROGRAMS)} or sh, \"{block.kind} <path>\" for an excerpt of a "
                   "file, or text for what is not code")
        before = block if runs else None
    if before is not None and before.kind != "sh":
        yield (f"{before.place}: a {before.kind} example has no block behind it that says what it "
               "prints")


def excerpt_mistakes(root, block):
    """Whether the file has what the excerpt shows. How far it is indented does not count."""
    file = pathlib.Path(root) / block.excerpt_of
    if not file.is_file():
        yield f"{block.place}: an excerpt of {block.excerpt_of}, and there is no such file"
        return
    lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    at = 0
    for part in re.split(r"(?m)^\s*\.\.\.\s*\n", block.body):
        wanted = [line.strip() for line in part.splitlines()]
        if not wanted:
            continue
        at = next((start for start in range(at, len(lines) - len(wanted) + 1)
                   if lines[start:start + len(wanted)] == wanted), None)
        if at is None:
            yield (f"{block.place}: {block.excerpt_of} does not have these lines, one behind the "
                   "other (a line \"...\" leaves lines out):\n" + part.rstrip("\n"))
            return
        at += len(wanted)
