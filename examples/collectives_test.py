#!/usr/bin/env python3
"""What examples/*/collectives promise, in every language.

    collectives_test.py TUTTI WORKERS TRANSPORT PROGRAM [WORD...]

Runs the program as the workers of a job and expects its lines.
"""

import os
import re
import subprocess
import sys

HANG_S = 100
LINES = """all_reduce_many: three tensors summed over {workers} workers
reduce_scatter and all_gather: the parts of the sum, and the sum
all_to_all: uneven rows to everybody
send and receive: round in a ring
split: sums of the even ones and of the odd ones
futures: three sums, waited for in another order
bucket plan: 8 gradients, two steps
"""


def run(command, transport):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("TUTTI_", "TF_"))}
    return subprocess.run(command, env={**environment, "TUTTI_TRANSPORT": transport},
                          capture_output=True, text=True, timeout=HANG_S)


def main():
    tutti, workers, transport, *program = sys.argv[1:]
    done = run([tutti, "run", "--workers", workers, "--no-prefix", "--", *program, "--elements",
                "5000"], transport)
    if done.returncode != 0 or done.stderr:
        sys.exit(f"status {done.returncode}\n{done.stdout}{done.stderr}")
    lines = done.stdout.splitlines()
    last = sorted(line for line in lines if line.startswith("worker "))
    expected = [rf"worker {rank} of {workers} \(\w+\): all right" for rank in range(int(workers))]
    if len(last) != len(expected) or not all(map(re.fullmatch, expected, last)):
        sys.exit(f"the workers' own lines are {last}")
    others = [line for line in lines if not line.startswith("worker ")]
    if others != LINES.format(workers=workers).splitlines():
        sys.exit(f"the lines are\n{done.stdout}")
    # Alone it says what it needs, and wrong words are refused.
    for command, said in ((program, "tutti run"), ([*program, "--elements", "0"], "--elements"),
                          ([tutti, "run", "--", *program], "needs two workers or more")):
        done = run(command, transport)
        if done.returncode == 0 or said not in done.stderr or done.stdout:
            sys.exit(f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
