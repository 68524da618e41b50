"""Passes on what the polyglot job prints, and then says whether its workers have the same weights.

    tutti run --workers 4 -- worker | compare.py

The exit status is 0 only when there is one line "worker N (LANGUAGE): weights sha256 ..." from each
language and all hashes are equal.
"""

import re
import sys

LANGUAGES = ("C", "Python", "Java", "Go")
WEIGHTS = re.compile(r"\bworker \d+ \((\w+)\): weights sha256 ([0-9a-f]{64})$")


def listed(words):
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def verdict(found):
    """A sentence, and whether all is well. `found` are pairs (language, hash)."""
    missing = [language for language in LANGUAGES if language not in dict(found)]
    if missing:
        return f"no weights from {listed(missing)}; expected a line from {listed(LANGUAGES)}", False
    if len(found) != len(LANGUAGES):
        return f"weights from {len(found)} workers; expected one in each language", False
    if len({weights for _, weights in found}) != 1:
        all_of_them = ", ".join(f"{language} {weights}" for language, weights in found)
        return f"the weights differ: {all_of_them}", False
    return f"four workers in four languages, the same weights: sha256 {found[0][1]}", True


def main():
    found = []
    for line in sys.stdin:
        print(line, end="", flush=True)
        found += WEIGHTS.findall(line.rstrip("\n"))
    sentence, is_well = verdict(found)
    print(f"polyglot: {sentence}", file=sys.stdout if is_well else sys.stderr)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
