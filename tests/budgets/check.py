"""Checks that every label of the tests has a budget, and that the budgets fit the total.

    check.py BUDGETS CTEST BUILD_FOLDER
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import report


def labels_of(listing):
    """The labels in what `ctest --show-only=json-v1` prints."""
    found = set()
    for test in json.loads(listing)["tests"]:
        for entry in test.get("properties", []):
            if entry["name"] == "LABELS":
                found.update(entry["value"])
    return found


def unlabelled(listing):
    """The names of tests that no budget counts, for want of a label."""
    return sorted(test["name"] for test in json.loads(listing)["tests"]
                  if not any(entry["name"] == "LABELS" for entry in test.get("properties", [])))


def main(arguments):
    budgets_path, ctest, build = arguments
    with tempfile.TemporaryDirectory() as folder:  # CTest writes a log where it lists the tests
        pathlib.Path(folder, "CTestTestfile.cmake").write_text(f'subdirs("{build}")\n',
                                                               encoding="utf-8")
        listing = subprocess.run([ctest, "--test-dir", folder, "--show-only=json-v1"], check=True,
                                 capture_output=True, text=True).stdout
    try:
        budgets = report.read_budgets(pathlib.Path(budgets_path).read_text(encoding="utf-8"))
    except report.Malformed as error:
        sys.exit(f"{budgets_path}: {error}")
    labels = labels_of(listing)
    if not labels:
        sys.exit(f"{ctest} lists no test with a label in {build}; is it built?")
    problems = report.problems_of(budgets, labels)
    problems += [f"the test {name} has no label, and so no budget" for name in unlabelled(listing)]
    if problems:
        sys.exit("\n".join(problems))
    print(f"{len(budgets.seconds)} labels, {sum(budgets.seconds.values()):.0f} s of "
          f"{budgets.total:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
