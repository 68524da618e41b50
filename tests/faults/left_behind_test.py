"""A worker whose connection to another one loses everything, and whose peer then leaves in good
order: nothing ever comes over the connection any more, neither data nor a goodbye nor its end.

    left_behind_test.py FAULT_WORKER REDIRECT_CONNECT

The peer gives up at a deadline; the other one has none, and must fail all the same, naming the
peer, once the connection has stood still for as long as a worker may be silent.
"""

import os
import random
import re
import sys

from fault_proxy import FaultProxy, Plan
from leftovers import Belongings
from local_job import SECRET, LocalJob

HANG_S = 60
ERROR = re.compile(r"^error (\w+) rank=(-?\d+) calls=\d+ @(\d+): (.*)")
SEED = int(os.environ.get("TUTTI_TEST_SEED") or random.SystemRandom().randrange(1 << 32))


def error_of(worker):
    found = [ERROR.match(text) for _, text in worker.lines if ERROR.match(text)]
    assert found, (worker.index, worker.lines)
    return found[0].groups()


def main():
    print(f"seed {SEED} (TUTTI_TEST_SEED={SEED} repeats it)")
    chance = random.Random(SEED)
    program, library = sys.argv[1:]
    impatient = chance.randrange(2)
    patient = 1 - impatient
    command = [program, "--elements", str(chance.choice((10, 20000))), "--timeout", "2",
               "--impatient", str(impatient)]
    with FaultProxy(Plan("mute", "between", chance)) as proxy:
        variables = {"TUTTI_TRANSPORT": "tcp", **proxy.variables(library)}
        with LocalJob(2, command, variables, proxy.control_ports) as job:
            belongings = Belongings(SECRET, job.secret)
            ended = job.pump(lambda: not any(worker.running for worker in job.workers), HANG_S)
            assert proxy.problem is None, proxy.problem
            assert ended, [worker.lines for worker in job.workers if worker.running]
            assert [worker.status for worker in job.workers] == [3, 3]
            code, _, gave_up, text = error_of(job.workers[impatient])
            assert code == "DEADLINE_EXCEEDED", text
            code, rank, knew, text = error_of(job.workers[patient])
            assert code == "UNAVAILABLE" and int(rank) == impatient, text
            assert f"needs rank {impatient}, and nothing has come from it for" in text, text
            print(f"worker {patient} knew {(int(knew) - int(gave_up)) * 1e-9:.2f} s after worker "
                  f"{impatient} had given up: {text}")
            belongings.kill()


if __name__ == "__main__":
    main()
