#!/usr/bin/env python3
"""Checks coverage.md: that every name of a row exists, and that the tests it names are run.

    coverage_check.py [ROOT] [--python FOLDER] [--java JAR --javap JAVAP] [--go MODULE]
                      [--ctest CTEST --build FOLDER] [--runner COMMAND...]
    coverage_check.py [ROOT] --ran RESULTS.xml
    coverage_check.py [ROOT] --write-readme README.md

Names are looked up in what users get: those of C in capi/symbols.txt (functions) and the headers
(constants and types), those of Python in the package of the build folder, which is imported, those
of Java in the classes of tutti.jar, and those of Go in the module of the build folder. A language
for which nothing is given is not built here: it is named and left out, with the tests of its own.

A test of CTest counts when CTest lists it with a command, it is not disabled, not one of those that
run at night only, and cannot end as skipped by its exit status. A case of the vectors counts when
it is there and --runner, a runner of the conformance vectors in C++, passes it; that the other
languages pass the same cases is what conformance.same_coverage checks. --ran holds the rows to the
results of a whole run, which CTest writes with --output-junit: of the tests that a row names some
must have passed in it, and none failed.

The README's table between <!-- coverage --> and <!-- /coverage --> must be the count of the rows;
--write-readme writes it.
"""

import argparse
import collections
import difflib
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

import coverage_names
import same_coverage

FILE = "tests/conformance/coverage.md"
LANGUAGES = ("C", "Python", "Java", "Go")
COLUMNS = ["symbol", "state", *LANGUAGES, "tests", "what lacks or differs"]
STATES = ("works", "partly", "missing")
NOTHING = "-"
NAMES = re.compile(r"`[^`]+`(?:,? `[^`]+`)*")
# A case of the vectors: the file and the case's name, or a pattern of such names.
CASE = re.compile(r"(\w+)\.json#(.+)")
MARKS = ("<!-- coverage -->", "<!-- /coverage -->")

Row = collections.namedtuple("Row", "line area symbol state names tests note")


class Malformed(Exception):
    """A line of coverage.md that is no row of its table."""


def cells(line):
    """Those of a line of a table."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def listed(cell):
    """The names of a cell; None where it is neither a dash nor names in backticks."""
    if cell == NOTHING:
        return []
    return re.findall(r"`([^`]+)`", cell) if NAMES.fullmatch(cell) else None


def rows(text):
    """The rows of all tables, in order."""
    area, found = None, []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            area = line[3:].strip()
        if not line.startswith("|") or area is None:
            continue
        row = cells(line)
        if row == COLUMNS or set("".join(row)) <= set("-: "):
            continue
        place = f"{FILE}:{number}: {row[0]}"
        if len(row) != len(COLUMNS):
            raise Malformed(f"{place}: a row has {len(COLUMNS)} cells ({', '.join(COLUMNS)}), "
                            f"this one {len(row)}; write a {NOTHING} for no name, \\| for a |")
        symbol, state, *named, note = row
        if state not in STATES:
            raise Malformed(f"{place}: a state is {', '.join(STATES)}; this is '{state}'")
        named = [listed(cell) for cell in named]
        for column, names in zip(COLUMNS[2:], named):
            if names is None:
                raise Malformed(f"{place}: the cell {column} is neither a {NOTHING} nor names in "
                                f"backticks, with a blank between them: "
                                f"'{row[COLUMNS.index(column)]}'")
        found.append(Row(number, area, symbol, state, dict(zip(LANGUAGES, named)), named[-1], note))
    if not found:
        raise Malformed(f"{FILE} has no row; a table stands below a line '## <area>'")
    return found


def bare(row):
    """What a row of a state must have and lacks."""
    if row.state != "works":
        return
    if not row.tests:
        yield ("a row that works names a test: one of CTest, or a case as "
               "`dataset.json#take`; a * stands for any text")
    silent = [language for language in LANGUAGES if not row.names[language]]
    if silent and not row.note:
        yield (f"no name for {', '.join(silent)}; add the name, or say in the last cell why there "
               "is none")


def near(name, names):
    """", near to it: ..." where there is such a name."""
    close = difflib.get_close_matches(name, names, n=2, cutoff=0.7)
    return f"; near to it: {', '.join(close)}" if close else ""


def unknown_names(row, languages):
    """A sentence for each name of a row that its language does not have. What is missing has none
    yet, and its row may say what they are to be."""
    if row.state == "missing":
        return
    for language, known in languages.items():
        for name in row.names[language]:
            if not known.has(name):
                yield (f"{language} has no {name} in {known.where}"
                       f"{near(name, known.names)}; write the name that it has, or make it, or "
                       f"change the state of the row")


class ListedTests:
    """The tests of CTest, and why one of them is no test that runs."""

    def __init__(self, ctest, build):
        text = subprocess.run([ctest, "--test-dir", str(build), "--show-only=json-v1"], check=True,
                              capture_output=True, text=True).stdout
        self.unfit = {}
        for test in json.loads(text)["tests"]:
            properties = {p["name"]: p["value"] for p in test.get("properties", ())}
            self.unfit[test["name"]] = (
                "it is disabled" if properties.get("DISABLED") else
                "it is not built" if not test.get("command") else
                "it runs at night only" if "nightly" in properties.get("LABELS", ()) else
                "its exit status may say that it was skipped" if "SKIP_RETURN_CODE" in properties
                else None)

    def complaint(self, pattern):
        matching = fnmatch.filter(self.unfit, pattern)
        reasons = [self.unfit[name] for name in matching]
        if not matching:
            return f"CTest has no test {pattern}{near(pattern, self.unfit)}"
        return f"{matching[0]} is no test that runs: {reasons[0]}" if all(reasons) else None


class RanTests:
    """The results of a run, as CTest's --output-junit writes them."""

    def __init__(self, path):
        self.status = {case.get("name"): case.get("status")
                       for case in xml.etree.ElementTree.parse(path).iter("testcase")}

    def complaint(self, pattern):
        matching = fnmatch.filter(self.status, pattern)
        bad = [name for name in matching if self.status[name] == "fail"]
        if bad:
            return f"{bad[0]} failed in the run"
        if not any(self.status[name] == "run" for name in matching):
            return f"no test {pattern} passed in the run"
        return None


class Cases:
    """The cases of the vectors; with a runner, how each of them ends in C++."""

    def __init__(self, folder, runner):
        names = same_coverage.names_in(folder)
        self.outcome = dict.fromkeys(names, "passed")
        if runner:
            environment = {name: value for name, value in os.environ.items()
                           if name != "TUTTI_CONFORMANCE_DIR"}
            ended = subprocess.run([*runner, str(folder)], capture_output=True, text=True,
                                   check=False, env=environment)
            self.outcome = same_coverage.outcomes("C++", ended.stdout, names)

    def complaint(self, file, pattern):
        matching = sorted(fnmatch.filter(self.outcome, f"{file}.{pattern}"))
        if not matching:
            return f"vectors/{file}.json has no case {pattern}" + near(
                pattern, [name.partition(".")[2] for name in self.outcome])
        bad = [name for name in matching if self.outcome[name] != "passed"]
        return f"the case {bad[0]}: {self.outcome[bad[0]]} in C++" if bad else None


def unfit_tests(row, tests, cases, left_out):
    """A sentence for each test of a row that is no test that runs."""
    if row.state == "missing":
        return
    for pattern in row.tests:
        case = CASE.fullmatch(pattern)
        if case:
            complaint = cases and cases.complaint(case[1], case[2])
        elif pattern.partition(".")[0] in left_out:
            continue
        else:
            complaint = tests and tests.complaint(pattern)
        if complaint:
            yield (f"{complaint}; mend it, name a test that covers the symbol in every run, or "
                   "change the state of the row")


def table(found):
    """The count of the rows, as the README has it."""
    counts = {}
    for row in found:
        counts.setdefault(row.area, collections.Counter())[row.state] += 1
    total = sum(counts.values(), collections.Counter())
    lines = ["| Area | works | partly | lacks |", "|---|---|---|---|"]
    for area, count in [*counts.items(), ("**all**", total)]:
        lines.append(f"| {area} | {' | '.join(str(count[state]) for state in STATES)} |")
    return "\n".join(lines) + "\n"


def readme_parts(path):
    """What stands before, between and behind the two marks."""
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(MARKS[0] + "\n")
    between, end, behind = rest.partition(MARKS[1])
    if not begin or not end:
        raise Malformed(f"{path}: there is no line {MARKS[0]} with a {MARKS[1]} below it")
    return before + begin, between, end + behind


def violations(found, languages, left_out, tests=None, cases=None):
    """A line for each thing that is wrong with the rows. `left_out`: what the names of CTest begin
    with of languages that are not built here."""
    for row in found:
        for complaint in (*bare(row), *unknown_names(row, languages),
                          *unfit_tests(row, tests, cases, left_out)):
            yield f"{FILE}:{row.line}: {row.symbol} ({row.state}): {complaint}"


def absent(names):
    """The languages of which no test is among these."""
    prefixes = {name.partition(".")[0] for name in names}
    return {language.lower() for language in LANGUAGES} - prefixes


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("root", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--python", type=pathlib.Path)
    parser.add_argument("--java", type=pathlib.Path)
    parser.add_argument("--javap", default="javap")
    parser.add_argument("--go", type=pathlib.Path)
    parser.add_argument("--ctest")
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--ran", type=pathlib.Path)
    parser.add_argument("--write-readme", type=pathlib.Path)
    parser.add_argument("--runner", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    try:
        found = rows((given.root / FILE).read_text(encoding="utf-8"))
        readme = given.write_readme or given.root / "README.md"
        before, between, behind = readme_parts(readme)
        if given.write_readme:
            readme.write_text(before + table(found) + behind, encoding="utf-8")
            return 0
        if given.ran:
            if not given.ran.exists():
                raise Malformed(f"there is no {given.ran}: run all tests with CTest's "
                                "--output-junit")
            ran = RanTests(given.ran)
            errors = list(violations(found, {}, absent(ran.status), tests=ran))
        else:
            languages = {"C": coverage_names.CNames(given.root)}
            if given.python:
                languages["Python"] = coverage_names.PythonNames(given.python)
            if given.java:
                languages["Java"] = coverage_names.JavaNames(given.java, given.javap)
            if given.go:
                languages["Go"] = coverage_names.GoNames(given.go)
            for language in LANGUAGES:
                if language not in languages:
                    print(f"{language} is not looked up: it is not built here")
            tests = ListedTests(given.ctest, given.build) if given.ctest else None
            cases = Cases((given.root / FILE).parent / "vectors", given.runner)
            left_out = {language.lower() for language in LANGUAGES if language not in languages}
            errors = list(violations(found, languages, left_out, tests, cases))
        if between != table(found):
            errors.append(f"{readme}: the table between {MARKS[0]} and {MARKS[1]} is not the count "
                          f"of {FILE}; run tests/conformance/coverage_check.py --write-readme "
                          "README.md")
    except (Malformed, same_coverage.Unaccounted) as error:
        errors = [str(error)]
    except (OSError, ImportError, subprocess.CalledProcessError) as error:
        errors = [f"what the rows are looked up in cannot be read: {error}; build everything first"]
    print("\n".join(errors) if errors else f"{len(found)} rows are as they say")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
