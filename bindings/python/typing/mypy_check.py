"""mypy reads the package as its users' type checkers do.

    mypy_check.py <folder of the package> <source folder> <build folder>

The package and usage.py pass --strict; so do the examples, but for annotations on functions of
their own; in misuse.py every line that is marked as wrong is reported, and no other. mypy is not
part of Debian's packages that building takes: it is used where the interpreter has it, else
installed into a virtual environment in the build folder, once. Where that cannot be done the check
is skipped (77) and says why.
"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

SKIPPED = 77
HERE = pathlib.Path(__file__).resolve().parent
OWN_FUNCTIONS_MAY_BE_BARE = ["--allow-untyped-defs", "--allow-untyped-calls",
                             "--allow-incomplete-defs", "--check-untyped-defs"]


class NotToBeHad(Exception):
    pass


def mypy_of(build):
    """The command that runs mypy."""
    if importlib.util.find_spec("mypy") is not None:
        return [sys.executable, "-m", "mypy"]
    folder = build / "mypy"
    command = [str(folder / "bin" / "python"), "-m", "mypy"]
    done = folder / "complete"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        for what, step in [("a virtual environment", [sys.executable, "-m", "venv", str(folder)]),
                           ("mypy from the package index",
                            [command[0], "-m", "pip", "install", "--quiet", "--timeout", "10",
                             "--retries", "1", "--disable-pip-version-check", "mypy>=1.8"])]:
            try:
                ran = subprocess.run(step, capture_output=True, text=True, timeout=150)
            except subprocess.TimeoutExpired:
                raise NotToBeHad(f"{what}: no end after 150 s") from None
            if ran.returncode != 0:
                lines = (ran.stderr or ran.stdout).strip().splitlines() or ["no reason given"]
                raise NotToBeHad(f"{what}: {lines[-1]}")
        done.touch()
    return command


class Checker:
    def __init__(self, command, package, build):
        self.command = [*command, "--config-file=", "--strict", "--no-error-summary",
                        "--python-executable", sys.executable,
                        "--cache-dir", str(build / "mypy_cache")]
        self.environment = {**os.environ, "MYPYPATH": str(package)}
        self.failures = []

    def run(self, *arguments):
        ran = subprocess.run([*self.command, *map(str, arguments)], capture_output=True, text=True,
                             cwd=HERE, env=self.environment)
        if ran.returncode not in (0, 1):
            sys.exit(f"mypy itself failed:\n{ran.stdout}{ran.stderr}")
        return ran.stdout

    def expect_nothing(self, what, *arguments):
        said = self.run(*arguments)
        print(f"{what}: {'accepted' if not said else 'NOT accepted'}")
        if said:
            self.failures.append(f"{what}: expected no complaint, mypy said:\n{said}")

    def expect_marked_lines(self, file):
        lines = file.read_text().splitlines()
        marked = {i for i, line in enumerate(lines, 1) if line.endswith("# wrong")}
        found = {int(number) for number in
                 re.findall(rf"^{file.name}:(\d+): error:", self.run(file.name), re.M)}
        print(f"{file.name}: {len(marked & found)} of {len(marked)} mistakes found")
        for number in sorted(marked - found):
            self.failures.append(f"{file.name}:{number}: not found: {lines[number - 1]}")
        for number in sorted(found - marked):
            self.failures.append(f"{file.name}:{number}: nothing is wrong: {lines[number - 1]}")
        if not marked:
            self.failures.append(f"{file.name}: no line is marked")


def main():
    package, source, build = map(pathlib.Path, sys.argv[1:])
    try:
        command = mypy_of(build)
    except NotToBeHad as reason:
        print(f"SKIPPED: mypy is not to be had here: {reason}")
        return SKIPPED
    print(subprocess.run([*command, "--version"], capture_output=True, text=True).stdout.strip())
    checker = Checker(command, package, build)
    checker.expect_nothing("the package", "-p", "tutti")
    checker.expect_nothing("usage.py", "usage.py")
    checker.expect_marked_lines(HERE / "misuse.py")
    examples = sorted((source / "examples" / "python").glob("*.py"))
    if not examples:
        checker.failures.append("no examples are there")
    for example in examples:
        checker.expect_nothing(f"examples/python/{example.name}", *OWN_FUNCTIONS_MAY_BE_BARE,
                               example)
    print("\n".join(checker.failures))
    return 1 if checker.failures else 0


if __name__ == "__main__":
    sys.exit(main())
