"""What the library exports is what capi/symbols.txt lists, and that is what the headers declare.

    symbols_test.py LIBRARY
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "capi"))
import declarations  # noqa: E402


def exported(library: str) -> "dict[str, str]":
    """Symbol -> version node, "" for none."""
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", "--with-symbol-versions", library],
        check=True, capture_output=True, text=True,
    ).stdout.splitlines()
    symbols = {}
    for line in lines:
        name, _, version = line.split()[-1].partition("@")
        symbols[name] = version.lstrip("@")
    return symbols


def differences(expected, found, expected_in, found_in):
    for name in sorted(set(expected) - set(found)):
        yield f"{name} is in {expected_in} and not in {found_in}"
    for name in sorted(set(found) - set(expected)):
        yield f"{name} is in {found_in} and not in {expected_in}"


def main() -> int:
    listed = (ROOT / "capi/symbols.txt").read_text().split()
    symbols = exported(sys.argv[1])
    versions = set(symbols.values()) - {""}
    # The version node itself is a symbol of its name.
    names = [name for name in symbols if name not in versions]
    problems = list(differences(listed, names, "capi/symbols.txt", "the library"))
    declared = [function.name for function in declarations.all_functions()]
    problems += differences(listed, declared, "capi/symbols.txt", "the headers")
    if listed != sorted(listed):
        problems.append("capi/symbols.txt is not sorted")
    problems += [f"{name} has no version node" for name in names if not symbols[name]]
    print("\n".join(problems) or f"{len(listed)} symbols, as listed and declared")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
