#!/usr/bin/env python3
"""What examples/*/input_pipeline promise, in every language.

    input_pipeline_test.py DATA_FOLDER PROGRAM [WORD...]
"""

import os
import re
import subprocess
import sys
import tempfile

HANG_S = 100
LINES = [f"definition {definition}, epoch {epoch}: 57 batches, 1797 digits, (\\d+) inked pixels, "
         f"(\\d+) calls" for definition in (1, 2) for epoch in (1, 2)]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)


def calls_of(*command):
    """The function's calls by epoch; all epochs have the same digits."""
    done = run(*command)
    if done.returncode != 0 or done.stderr:
        sys.exit(f"status {done.returncode}\n{done.stdout}{done.stderr}")
    found = [re.fullmatch(line, said) for line, said in zip(LINES, done.stdout.splitlines())]
    if len(done.stdout.splitlines()) != len(LINES) or None in found:
        sys.exit(f"the lines are\n{done.stdout}")
    if {match[1] for match in found} != {"37151"}:
        sys.exit(f"epochs differ, or have other digits:\n{done.stdout}")
    return [int(match[2]) for match in found]


def main():
    data, *program = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        snapshot = os.path.join(folder, "snapshot")
        for expected in ([1797, 0, 0, 0], [0, 0, 0, 0]):
            calls = calls_of(*program, snapshot, data)
            if calls != expected:
                sys.exit(f"the function was called {calls} times, expected {expected}")
        nowhere = os.path.join(folder, "nowhere")
        for words, said in (((), "SNAPSHOT_FOLDER"), ((snapshot, nowhere), nowhere)):
            done = run(*program, *words)
            if done.returncode == 0 or said not in done.stderr or done.stdout:
                sys.exit(f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
