"""`tutti run --elastic`: one of four workers is killed at a random moment of its sums, the others
revoke, shrink and go on, and the one that takes its place is grown in.

    elastic_test.py TUTTI ELASTIC_WORKER [RUNS]
"""

import os
import random
import re
import signal
import subprocess
import sys
import time

WORKERS = 4
HANG_S = 60
SEED = int(os.environ.get("TUTTI_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
CHANCE = random.Random(SEED)


def lines_of(output, worker):
    prefix = f"[worker {worker}] "
    return [line[len(prefix):] for line in output.splitlines() if line.startswith(prefix)]


def run(tool, program, transport):
    victim = CHANCE.randrange(1, WORKERS)
    variables = {**os.environ, "TUTTI_TRANSPORT": transport}
    with subprocess.Popen([tool, "run", "--workers", str(WORKERS), "--elastic", "--max-restarts",
                           "1", "--timeout", f"{HANG_S}s", "--", program, str(WORKERS), "50"],
                          env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as job:
        output, pids = "", {}
        while len(pids) < WORKERS:
            line = job.stdout.readline()
            assert line, output
            output += line
            ready = re.match(r"\[worker (\d)\] ready pid=(\d+)", line)
            if ready:
                pids[int(ready[1])] = int(ready[2])
        time.sleep(CHANCE.uniform(0, 0.1))  # some moment of the sums
        os.kill(pids[victim], signal.SIGKILL)
        output += job.stdout.read()
    assert job.returncode == 0, output
    assert f"worker {victim} (pid {pids[victim]}) was killed by SIGKILL" in output, output
    assert "starting another in its place (1 of 1)" in output, output
    for worker in range(WORKERS):
        lines = lines_of(output, worker)
        epochs = re.findall(r"^(shrunk|grown) size=(\d) epoch=(\d+)$", "\n".join(lines), re.M)
        sizes = [(what, int(size)) for what, size, _ in epochs]
        grown = [("grown", WORKERS)]
        shrunk = [] if worker == victim else [("shrunk", WORKERS - 1)]
        assert sizes == shrunk + grown, output
        assert lines[-1] == "done", output
        if worker == victim:
            continue
        lost = [line for line in lines if line.startswith("lost ")]
        who = rf"worker {victim}\b.*pid {pids[victim]}\b"
        assert len(lost) == 1 and re.match(rf"lost (UNAVAILABLE|ABORTED): .*{who}", lost[0]), lost


def main():
    print(f"seed {SEED} (TUTTI_TEST_SEED={SEED} repeats it)")
    tool, program = sys.argv[1:3]
    for number in range(int(sys.argv[3]) if len(sys.argv) > 3 else 2):
        run(tool, program, "tcp" if number % 2 else "shared_memory")


if __name__ == "__main__":
    main()
