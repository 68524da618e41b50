#!/usr/bin/env python3
"""Kills one worker of a job at a random moment and looks at the survivors, again and again.

    kill_test.py [OPTIONS] -- PROGRAM ARGUMENTS

PROGRAM trains for longer than the test takes, and prints a line that --ready matches once it is at
it. For each round W workers are started; one of them, any, is killed with SIGKILL at a random time
after all were ready. Then each survivor must print an error that names the dead one and end with a
failure; afterwards no process, abstract Unix socket or shared memory of the job may be left.

How long survivors take is reported beside what is asked of them (1 s to say it, 2 s to end). On a
loaded machine nothing can be promised to the millisecond, so that only --strict makes a late one a
failure; without it the bound is one that means a hang.
"""

import argparse
import os
import random
import re
import statistics
import sys
import time

from leftovers import Belongings
from local_job import SECRET, LocalJob
from seeded_runs import SeededRuns

SAY_WITHIN_S = 1.0
END_WITHIN_S = 2.0
START_WITHIN_S = 60.0  # however loaded the machine is
ERROR = r"\b(?:rank|worker) {victim}\b.*\b(?:gone|died|killed|left|silent|closed)\b"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, help="repeats a run; printed")
    parser.add_argument("--ready", default=r"\bstep\b",
                        help="regular expression: a worker that printed it trains (%(default)s)")
    parser.add_argument("--ready-any", action="store_true",
                        help="one worker that printed it speaks for all")
    parser.add_argument("--window", type=float, default=1.0,
                        help="the kill comes within so many seconds after that (%(default)s)")
    parser.add_argument("--victim", type=int, help="always this worker; default: any")
    parser.add_argument("--error", default=ERROR,
                        help="regular expression: what survivors must print (%(default)s)")
    parser.add_argument("--variable", action="append", default=[], metavar="NAME=VALUE",
                        help="for the workers' environment")
    parser.add_argument("--hang", type=float, default=60.0,
                        help="seconds after which somebody hangs (%(default)s)")
    parser.add_argument("--left", type=float, default=60.0,
                        help="seconds after which what is still there is left (%(default)s)")
    parser.add_argument("--strict", action="store_true", help="a late survivor is a failure")
    parser.add_argument("program", nargs="+")
    arguments = parser.parse_args()
    if arguments.workers < 2:
        parser.error("--workers: a survivor is needed, expected at least 2")
    if arguments.victim is not None and not 0 <= arguments.victim < arguments.workers:
        parser.error(f"--victim: expected 0 to {arguments.workers - 1}")
    return arguments


class Failure(Exception):
    pass


def last_lines(job):
    return "\n".join(f"  worker {worker.index} (pid {worker.pid}, "
                     f"{'runs' if worker.running else worker.status}): {text}"
                     for worker in job.workers for _, text in worker.lines[-8:])


def wait_until_ready(job, arguments):
    ready = re.compile(arguments.ready)

    enough = any if arguments.ready_any else all

    def all_ready():
        return enough(any(ready.search(text) for _, text in worker.lines)
                      for worker in job.workers)

    job.pump(lambda: all_ready() or not all(worker.running for worker in job.workers),
             START_WITHIN_S)
    if not all_ready():
        raise Failure("not all workers came to train:\n" + last_lines(job))


def check_survivor(worker, victim, killed_at, error, job):
    """Seconds until it said who died, and until it ended."""
    if worker.status == 0:
        raise Failure(f"worker {worker.index} ended as if nothing had happened:\n{last_lines(job)}")
    said = [when for when, text in worker.lines if when >= killed_at and error.search(text)]
    if not said:
        raise Failure(f"worker {worker.index} did not say that worker {victim} died:\n"
                      + last_lines(job))
    return said[0] - killed_at, worker.ended_at - killed_at


def check_leftovers(belongings, bound_s):
    # A process that has ended may keep its files for a moment.
    give_up = time.monotonic() + bound_s
    while belongings.left():
        if time.monotonic() > give_up:
            raise Failure("left behind: " + "; ".join(belongings.left()))
        time.sleep(0.02)


def run_round(number, arguments, chance):
    """The survivors' times."""
    victim = arguments.victim if arguments.victim is not None else chance.randrange(
        arguments.workers)
    delay_s = chance.uniform(0, arguments.window)
    error = re.compile(arguments.error.replace("{victim}", str(victim)))
    variables = dict(pair.split("=", 1) for pair in arguments.variable)
    with LocalJob(arguments.workers, arguments.program, variables) as job:
        belongings = Belongings(SECRET, job.secret)
        try:
            wait_until_ready(job, arguments)
            belongings.look()
            if job.pump(lambda: not all(worker.running for worker in job.workers), delay_s):
                raise Failure("a worker ended before anybody was killed:\n" + last_lines(job))
            killed_at = job.kill(victim)
            if not job.pump(lambda: not any(worker.running for worker in job.workers),
                            arguments.hang):
                raise Failure("survivors hang:\n" + last_lines(job))
            times = [check_survivor(worker, victim, killed_at, error, job)
                     for worker in job.workers if worker.index != victim]
            check_leftovers(belongings, END_WITHIN_S if arguments.strict else arguments.left)
        finally:
            belongings.kill()
    said, ended = zip(*times)
    print(f"round {number}: worker {victim} of {arguments.workers} killed {delay_s * 1000:.0f} ms "
          f"after all trained; survivors said so after "
          f"{', '.join(f'{s * 1000:.0f}' for s in said)} ms and ended after "
          f"{', '.join(f'{s * 1000:.0f}' for s in ended)} ms", flush=True)
    if arguments.strict and (max(said) > SAY_WITHIN_S or max(ended) > END_WITHIN_S):
        raise Failure(f"a survivor was late: expected {SAY_WITHIN_S:g} s and {END_WITHIN_S:g} s")
    return times


def main():
    arguments = parse_arguments()
    seed = arguments.seed if arguments.seed is not None else int.from_bytes(os.urandom(4), "big")
    print(f"seed {seed}", flush=True)
    chance = random.Random(seed)
    times = []
    for number in SeededRuns("rounds", arguments.rounds):
        try:
            times += run_round(number, arguments, chance)
        except Failure as failure:
            print(f"round {number} of seed {seed} failed: {failure}", flush=True)
            return 1
    for what, limit_s, column in (("said who died", SAY_WITHIN_S, 0), ("ended", END_WITHIN_S, 1)):
        seconds = [pair[column] for pair in times]
        late = sum(one > limit_s for one in seconds)
        print(f"{len(seconds)} survivors {what} after {statistics.median(seconds) * 1000:.0f} ms "
              f"(median), {max(seconds) * 1000:.0f} ms (worst); {late} after more than "
              f"{limit_s:g} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
