"""Looks at the READMEs as their readers do: README.md is short, its first screen says what it must,
lines are no wider than 100 columns, links lead somewhere, and the files that are named exist.

    shape.py ROOT                     prints what is wrong; exit status 1 when something is

Rows of tables and fenced blocks may be wider: neither can be broken.
"""

import re
import sys

import readmes

LINES_OF_THE_FIRST = 130
FIRST_SCREEN = 30
WIDEST = 100
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)
# A file that is named by its path, from the top of the tree, from the README or as #include has it;
# "_x" at the end of its name stands for a name.
NAMED = re.compile(r"`((?:[\w*-]+/)+[\w.*-]+\.(?:c|cc|cmake|go|h|i|in|java|md|proto|py|sh|txt))`")
MADE = {"tutti/tutti_dl.h"}  # in the build folder
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def anchors(text):
    """The anchors that a page of this text gets: its headings in lower case, words with hyphens."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower())
             for heading in HEADING.findall(FENCED.sub("", text)))
    return {heading.replace(" ", "-") for heading in plain}


def wrong(root, path):
    text = path.read_text(encoding="utf-8")
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.startswith("```")
        if len(line) > WIDEST and not fenced and not line.startswith("|"):
            yield f"{path}:{number}: {len(line)} columns, {WIDEST} at most"
    for link in LINK.findall(FENCED.sub("", text)):
        if re.match(r"\w+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if not target.exists():
            yield f"{path}: a link to {link}, and there is no such file"
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            yield f"{path}: a link to {link}, and {target} has no such heading"
    for name in NAMED.findall(FENCED.sub("", text)):
        if name not in MADE and "_x." not in name and not any(
                next(place.glob(name), None) for place in (path.parent, root, root / "core",
                                                           root / "capi/include")):
            yield f"{path}: {name} is named, and there is no such file"
    if path.parent == root:
        if len(text.splitlines()) > LINES_OF_THE_FIRST:
            yield (f"{path}: {len(text.splitlines())} lines, {LINES_OF_THE_FIRST} at most; put "
                   "what is for the readers of one part into the README of that part")
        first_screen = "\n".join(text.splitlines()[:FIRST_SCREEN])
        if not re.search(r"\d µs|\d us\b", first_screen) or "tests/benchmarks" not in first_screen:
            yield (f"{path}: the first {FIRST_SCREEN} lines show no measured figure and the "
                   "program in tests/benchmarks that measures it")


def main():
    try:
        paths = readmes.find(sys.argv[1])
    except readmes.Mistake as mistake:
        raise SystemExit(str(mistake)) from None
    problems = [text for path in paths for text in wrong(readmes.pathlib.Path(sys.argv[1]), path)]
    if problems:
        raise SystemExit("\n".join(problems))
    print(f"{len(paths)} READMEs: short, and their links lead somewhere")


if __name__ == "__main__":
    main()
