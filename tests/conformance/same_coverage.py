"""Runs the conformance runners of all languages over the same vectors and compares what they cover.

    same_coverage.py FOLDER [--as-named | --all-pass]
                     --runner LANGUAGE COMMAND... --runner LANGUAGE COMMAND...

FOLDER holds the vectors unless TUTTI_CONFORMANCE_DIR names another one; each command gets it as its
last argument. A runner must account for every case: those that it lists as not covered, those that
it lists as failed, and the rest, whose number must be that of its passed ones. A case that passed
in one language and is not covered in another is an error, for a vector that is covered in one
language is covered in all. A language that has no runner here is named and left out; with less than
two runners there is nothing to compare (exit status 77).

--as-named: the names of the cases begin with the outcome that each must have, passes_, fails_ or
not_covered_. So are the runners themselves tested, on cases that are wrong or unknown.
--all-pass: no case may fail, in whatever language.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

LANGUAGES = ("C++", "Python", "Java", "Go")
SKIPPED = 77


class Unaccounted(Exception):
    """What a runner prints cannot be right."""


def names_in(folder):
    """The cases of all files."""
    return {f"{path.stem}.{case['name']}" for path in pathlib.Path(folder).glob("*.json")
            for case in json.loads(path.read_text())}


def outcomes(language, output, names):
    """By case: passed, not covered or failed."""
    totals = re.findall(rf"^conformance {re.escape(language)}: (\d+) passed, (\d+) not covered, "
                        r"(\d+) failed$", output, re.MULTILINE)
    if len(totals) != 1:
        raise Unaccounted(
            f"{language}: there is no one line of totals in what it printed:\n{output}")
    passed, not_covered, failed = map(int, totals[0])
    found = dict.fromkeys(names, "passed")
    for outcome, count, pattern in (("not covered", not_covered, r"^not covered: (\S+) \("),
                                    ("failed", failed, r"^FAILED (\S+): ")):
        lines = re.findall(pattern, output, re.MULTILINE)
        strange = sorted(set(lines) - names)
        if strange or len(lines) != len(set(lines)) or len(lines) != count:
            raise Unaccounted(
                f"{language}: {count} {outcome} by its totals, {len(lines)} by its list"
                + (f", of which there is no {', '.join(strange)}" if strange else ""))
        found.update(dict.fromkeys(lines, outcome))
    remaining = sum(outcome == "passed" for outcome in found.values())
    if passed != remaining:
        raise Unaccounted(f"{language}: {passed} passed by its totals, but {remaining} of the "
                          f"{len(names)} cases are neither failed nor not covered")
    return found


def differences(found):
    """A line for each case whose outcome is not the same in all languages."""
    for name in sorted(next(iter(found.values()))):
        by_outcome = {}
        for language, cases in found.items():
            by_outcome.setdefault(cases[name], []).append(language)
        if len(by_outcome) > 1:
            yield f"{name}: " + "; ".join(f"{outcome} in {', '.join(languages)}"
                                          for outcome, languages in by_outcome.items())


def not_as_named(language, cases):
    """A line for each case whose outcome is not the one that its name begins with."""
    prefixes = {"passed": "passes_", "failed": "fails_", "not covered": "not_covered_"}
    for name, outcome in sorted(cases.items()):
        if not name.partition(".")[2].startswith(prefixes[outcome]):
            yield f"{name}: {outcome} in {language}"


def commands_in(arguments):
    """By language, from --runner LANGUAGE COMMAND..."""
    commands = {}
    for argument in arguments:
        if argument == "--runner":
            commands[None] = words = []
        else:
            words.append(argument)
            if None in commands:
                commands[argument] = commands.pop(None)
    return {language: words[1:] for language, words in commands.items()}


def main(arguments):
    folder = os.environ.get("TUTTI_CONFORMANCE_DIR") or arguments[0]
    as_named = arguments[1:2] == ["--as-named"]
    all_pass = arguments[1:2] == ["--all-pass"]
    commands = commands_in(arguments[2 if as_named or all_pass else 1:])
    names = names_in(folder)
    if not names:
        sys.exit(f"there are no vectors in {folder}")
    for language in LANGUAGES:
        if not shutil.which(commands.get(language, [""])[0]):
            commands.pop(language, None)
            print(f"{language} is not compared: it is not built here")
    if len(commands) < 2:
        print("skipped: there are no two languages to compare")
        return SKIPPED
    found, errors = {}, []
    for language, command in commands.items():
        ended = subprocess.run([*command, folder], capture_output=True, text=True, check=False)
        try:
            found[language] = outcomes(language, ended.stdout, names)
        except Unaccounted as error:
            errors.append(f"{error}\n{ended.stderr}")
            continue
        status = 1 if "failed" in found[language].values() else 0
        if ended.returncode != status:
            errors.append(f"{language}: the exit status must be {status}, it is "
                          f"{ended.returncode}\n{ended.stderr}")
        if as_named:
            errors += not_as_named(language, found[language])
        if all_pass:
            errors += [f"{name}: {outcome} in {language}"
                       for name, outcome in sorted(found[language].items()) if outcome == "failed"]
    if found:
        errors += differences(found)
    print("\n".join(errors) if errors else
          f"{', '.join(found)}: of {len(names)} cases the same "
          f"{list(next(iter(found.values())).values()).count('passed')} pass")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
