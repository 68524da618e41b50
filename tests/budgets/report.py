"""Prints what the tests of each label took beside what they may take.

    report.py BUDGETS LOG

BUDGETS is budgets.txt, LOG what ctest has written: the times are those of CTest's own summary per
label. A label over its budget is named, with what to do; that fails nothing, because time depends
on the machine and on what else it does.
"""

import dataclasses
import pathlib
import re
import sys

# "collective     = 548.12 sec*proc (1098 tests)"
TOOK = re.compile(r"^(\S+)\s+=\s+([0-9.]+) sec\*proc \((\d+) tests?\)$", re.MULTILINE)


class Malformed(Exception):
    """A file of budgets that says nothing."""


@dataclasses.dataclass
class Budgets:
    total: float
    seconds: dict  # of labels that are counted
    across: set    # labels that are not

    def names(self):
        return self.seconds.keys() | self.across


def read_budgets(text):
    """The Budgets that `text`, the contents of budgets.txt, states."""
    total, seconds, across = None, {}, set()
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        good = len(words) == 2 and (words[1] == "across" or re.fullmatch(r"[1-9]\d*", words[1]))
        if not good:
            raise Malformed(f"line {number}: expected a label and its seconds, or `across`, "
                            f"found {line.strip()!r}")
        name, value = words
        if name in seconds or name in across or (name == "total" and total is not None):
            raise Malformed(f"line {number}: {name} has a budget already")
        if value == "across":
            across.add(name)
        elif name == "total":
            total = float(value)
        else:
            seconds[name] = float(value)
    if total is None:
        raise Malformed("no line `total SECONDS` says what the whole suite may take")
    return Budgets(total, seconds, across)


def problems_of(budgets, labels):
    """What is wrong with `budgets` where tests have `labels`: sentences."""
    found = [f"the label {label} has no budget: give it one in tests/budgets/budgets.txt, and take "
             "as much from another or from what is left of the total"
             for label in sorted(labels - budgets.names())]
    # A label may be of tests that are not built here, where Java or Go is missing.
    planned = sum(budgets.seconds.values())
    if planned > budgets.total:
        found.append(f"the budgets add up to {planned:.0f} s and the total is "
                     f"{budgets.total:.0f} s: make tests cheaper, or move what takes long to the "
                     "label nightly")
    return found


def took(log):
    """{label: (seconds, tests)} of CTest's last summary in `log`."""
    return {label: (float(seconds), int(tests))
            for label, seconds, tests in TOOK.findall(log.rpartition("Label Time Summary:")[2])}


def report(budgets, times):
    """The lines to print."""
    lines = [f"{'label':<14}{'took':>8}{'budget':>8}  seconds of processes"]
    for label, budget in budgets.seconds.items():
        seconds, tests = times.get(label, (0.0, 0))
        over = f"OVER its budget by {seconds - budget:.0f}" if seconds > budget else ""
        lines.append(f"{label:<14}{seconds:8.0f}{budget:8.0f}  {tests} tests {over}".rstrip())
    over = [label for label, budget in budgets.seconds.items()
            if times.get(label, (0.0, 0))[0] > budget]
    if over:
        lines.append(f"over budget: {', '.join(over)}. Where the machine had nothing else to do, "
                     "see tests/README.md, Budgets.")
    return lines


def main(arguments):
    budgets_path, log_path = map(pathlib.Path, arguments)
    try:
        budgets = read_budgets(budgets_path.read_text(encoding="utf-8"))
    except Malformed as error:
        sys.exit(f"{budgets_path}: {error}")
    times = took(log_path.read_text(encoding="utf-8", errors="replace"))
    if not times:
        print(f"budgets: {log_path} has no times per label; did a test run?")
        return
    print("\n".join(report(budgets, times)))


if __name__ == "__main__":
    main(sys.argv[1:])
