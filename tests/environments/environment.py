"""A Python environment with packages of the registry, for tests that need other versions than the
distribution's, or what the distribution has not.

    environment.py make FOLDER [--free GB] REQUIREMENT...   makes it, unless it is there
    environment.py run FOLDER SCRIPT [ARGUMENT...]          runs a script with its Python

It sees nothing of the system's packages. pip fetches the requirements from wherever it is
configured to. Both exit with 77, which CTest shows as skipped, where the environment cannot be
made: the registry is not reached, has no such package for this Python, or the disk has less than
--free GB left. FOLDER/made holds the requirements that it was made of.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

SKIPPED = 77
# In what pip says where it is not our fault; anything else is an error of the test.
UNREACHED = ("No matching distribution found", "Could not find a version", "Connection",
             "Temporary failure in name resolution", "timed out", "HTTP error", "SSLError",
             "ProxyError", "No space left", "Read timed out", "IncompleteRead",
             "RemoteDisconnected", "THESE PACKAGES DO NOT MATCH THE HASHES")


def python_of(folder):
    return folder / "bin/python"


def skip(why):
    print(f"SKIPPED: {why}")
    return SKIPPED


def described(requirements):
    return f"{sys.version}\n" + "\n".join(requirements) + "\n"


def is_made(folder, requirements):
    try:
        return (folder / "made").read_text(encoding="utf-8") == described(requirements)
    except OSError:
        return False


def make(options):
    folder, requirements = options.folder, options.requirements
    if is_made(folder, requirements):
        print(f"{folder} is there: {' '.join(requirements)}")
        return 0
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    free_gb = shutil.disk_usage(folder).free / 1e9
    if free_gb < options.free:
        return skip(f"{' '.join(requirements)}: {options.free} GB of disk are needed, and "
                    f"{free_gb:.1f} GB are free at {folder}")
    # Nothing of what a test sets for the package under test is for pip.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([sys.executable, "-m", "venv", folder], env=environment, check=True)
    done = subprocess.run(
        [python_of(folder), "-m", "pip", "--disable-pip-version-check", "install", "--no-input",
         "--only-binary=:all:", "--progress-bar=off", *requirements],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout)
    if done.returncode != 0:
        shutil.rmtree(folder)
        if any(sign in done.stdout for sign in UNREACHED):
            return skip(f"pip cannot fetch {' '.join(requirements)}; what it says stands above")
        return done.returncode
    (folder / "made").write_text(described(requirements), encoding="utf-8")
    return 0


def run(options):
    python = python_of(options.folder)
    if not (options.folder / "made").exists():
        return skip(f"there is no environment {options.folder}: the test that makes it was "
                    "skipped, or has not run")
    os.execv(python, [python, "-B", options.script, *options.arguments])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser("make")
    making.add_argument("folder", type=pathlib.Path)
    making.add_argument("--free", type=float, default=1, metavar="GB")
    making.add_argument("requirements", nargs="+")
    making.set_defaults(act=make)
    running = commands.add_parser("run")
    running.add_argument("folder", type=pathlib.Path)
    running.add_argument("script")
    running.add_argument("arguments", nargs=argparse.REMAINDER)
    running.set_defaults(act=run)
    options = parser.parse_args()
    options.folder = options.folder.absolute()
    return options.act(options)


if __name__ == "__main__":
    sys.exit(main())
