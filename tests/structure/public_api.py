#!/usr/bin/env python3
"""Writes down the public interface of each language, and compares two such writings.

    public_api.py dump BUILD_FOLDER SOURCE_ROOT OUTPUT_FOLDER
    public_api.py compare BEFORE_FOLDER AFTER_FOLDER [--allow FILE]

`dump` writes c.txt, python.txt, java.txt and go.txt, sorted lines "<kind> <name>: <what it is>"; a
language whose binding is not built is named and left out. `compare` prints each line that came,
went or changed; its exit status is 1 unless FILE allows all of them. FILE says so as compare prints
it, a line or its beginning up to the end of a word ('#' begins a comment):

    came c: function tutti_dataset_cache
    changed python: member tutti.data.Dataset.take
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

import public_api_c
import public_api_java

HERE = pathlib.Path(__file__).resolve().parent
LANGUAGES = ("c", "python", "java", "go")


class NotBuilt(Exception):
    """Says what of a language is not there."""


def c_lines(build, root):
    del build  # the headers alone
    return public_api_c.lines(root / "capi")


def python_lines(build, root):
    del root
    folder = build / "bindings" / "python"
    _require(folder / "tutti" / "__init__.py")
    if not list((folder / "tutti").glob("_native*.so")):
        raise NotBuilt(f"{folder}/tutti/_native*.so is not there")
    python = tool(build, ["Python3_EXECUTABLE", "_Python3_EXECUTABLE"], "python3")
    return _run([python, "-B", HERE / "public_api_python.py", "tutti"], PYTHONPATH=str(folder))


def java_lines(build, root):
    del root
    jar = _require(build / "bindings" / "java" / "tutti.jar")
    javac = tool(build, ["Java_JAVAC_EXECUTABLE"], "javac")
    javap = pathlib.Path(javac).resolve().with_name("javap")
    return public_api_java.lines(jar, str(javap) if javap.exists() else "javap")


def go_lines(build, root):
    del root
    module = build / "bindings" / "go" / "tutti"
    # What SWIG writes comes last.
    _require(module / "internal" / "native" / "native.go")
    return go_module_lines(module, tool(build, ["TUTTI_GO"], "go"))


def go_module_lines(module, go):
    return _run([go, "run", HERE / "public_api_go.go", module], GOTOOLCHAIN="local",
                GOFLAGS="-mod=mod", GOWORK="off", GOPROXY="off")


def tool(build, variables, otherwise):
    """The program that the build was configured with."""
    cache = build / "CMakeCache.txt"
    text = cache.read_text(encoding="utf-8") if cache.exists() else ""
    for variable in variables:
        found = re.search(rf"^{variable}:\w+=(.+)$", text, re.MULTILINE)
        if found and not found[1].endswith("-NOTFOUND"):
            return found[1]
    return shutil.which(otherwise) or otherwise


def _require(path):
    if not path.exists():
        raise NotBuilt(f"{path} is not there")
    return path


def _run(command, **environment):
    return subprocess.run([str(word) for word in command], check=True, text=True,
                          stdout=subprocess.PIPE,
                          env={**os.environ, **environment}).stdout.splitlines()


def dump(build, root, output):
    output.mkdir(parents=True, exist_ok=True)
    readers = {"c": c_lines, "python": python_lines, "java": java_lines, "go": go_lines}
    for language in LANGUAGES:
        path = output / f"{language}.txt"
        try:
            lines = sorted(set(filter(None, readers[language](build, root))))
        except NotBuilt as reason:
            path.unlink(missing_ok=True)
            print(f"{language}: left out, {reason}")
            continue
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        print(f"{language}: {len(lines)} lines in {path}")
    return 0


def differences(before, after):
    """Pairs ("came", line), ("went", line) and ("changed", line before, line after)."""
    before, after = _by_name(before), _by_name(after)
    for name in sorted({**before, **after}):
        old = [line for line in before.get(name, []) if line not in after.get(name, [])]
        new = [line for line in after.get(name, []) if line not in before.get(name, [])]
        if len(old) == len(new) == 1:
            yield ("changed", old[0], new[0])
            continue
        yield from (("went", line) for line in old)
        yield from (("came", line) for line in new)


def _by_name(lines):
    names = {}
    for line in lines:
        names.setdefault(line.partition(": ")[0], []).append(line)
    return names


def is_allowed(language, difference, allowed):
    """A changed line counts as allowed when the list has its name, or its text before and after."""
    kind, *texts = difference
    return all(any(_begins(f"{kind} {language}: {text}", start) for start in allowed)
               for text in texts)


def _begins(line, start):
    rest = line[len(start):]
    return line.startswith(start) and not (re.match(r"\w", rest) and re.search(r"\w$", start))


def allowed_lines(path):
    if path is None:
        return []
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    lines = [line for line in lines if line and not line.startswith("#")]
    for line in lines:
        if not re.match(rf"(came|went|changed) ({'|'.join(LANGUAGES)}): \w", line):
            raise SystemExit(f"{path}: expected 'came LANGUAGE: ...', 'went LANGUAGE: ...' or "
                             f"'changed LANGUAGE: ...', found '{line}'")
    return lines


def compare(before, after, allow):
    allowed = allowed_lines(allow)
    equal, compared = True, 0
    for language in LANGUAGES:
        paths = [folder / f"{language}.txt" for folder in (before, after)]
        there = [path.exists() for path in paths]
        if not all(there):
            missing = " and ".join(str(path) for path, is_there in zip(paths, there)
                                   if not is_there)
            print(f"{language}: left out, {missing} is not there")
            equal = equal and not any(there)
            continue
        compared += 1
        lines = [path.read_text(encoding="utf-8").splitlines() for path in paths]
        for difference in differences(*lines):
            fine = is_allowed(language, difference, allowed)
            equal = equal and fine
            note = " (allowed)" if fine else ""
            print(f"{difference[0]} {language}: {difference[1]}{note}")
            if difference[0] == "changed":
                print(f"     to {language}: {difference[2]}")
    if compared == 0:
        print(f"nothing to compare: {before} and {after} have no language in common")
    return 0 if equal and compared else 1


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("dump")
    for name in ("build", "root", "output"):
        writing.add_argument(name, type=pathlib.Path)
    comparing = commands.add_parser("compare")
    for name in ("before", "after"):
        comparing.add_argument(name, type=pathlib.Path)
    comparing.add_argument("--allow", type=pathlib.Path)
    given = parser.parse_args(arguments)
    if given.command == "dump":
        return dump(given.build.resolve(), given.root.resolve(), given.output)
    return compare(given.before, given.after, given.allow)


if __name__ == "__main__":
    sys.exit(main())
