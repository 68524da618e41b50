"""Workers whose connections are disturbed at any moment, and who are killed and stopped at it.

    disturbed_test.py FAULT_WORKER REDIRECT_CONNECT RUNS [--jobs N] [--only I]

Run I follows from the seed, which is printed, and I; TUTTI_TEST_SEED and --only repeat one. Each
run is a job of real processes over TCP through fault_proxy.py, or over shared memory, and one
fault. It must end: no worker hangs, none has a wrong sum, every survivor has an error that says
what is wrong with whom, or all have done their work where the fault can be overcome; and nothing is
left. Times are printed as figures.
"""

import argparse
import concurrent.futures
import multiprocessing
import os
import random
import re
import signal
import statistics
import sys
import time
import traceback

from fault_proxy import MOMENTS, FaultProxy, Plan
from leftovers import Belongings
from local_job import SECRET, LocalJob

HANG_S = 60
SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "stop": signal.SIGSTOP}
PROXIED = ("reset", "truncate", "blackhole", "mute", "slow", "flip", "stale_epoch", "duplicate")
CASES = [(fault, moment) for fault in (*SIGNALS, *PROXIED) for moment in MOMENTS]
ERROR = re.compile(r"^error (\w+) rank=(-?\d+) calls=\d+ @(\d+): (.*)")
CODES = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "DATA_LOSS", "INVALID_ARGUMENT", "ABORTED",
         "UNAUTHENTICATED", "FAILED_PRECONDITION", "CANCELLED"}
# A disturbed frame is never taken for a good one; in a handshake, another attempt may go well.
MUST_FAIL = {(fault, moment) for fault in ("reset", "truncate", "blackhole", "mute", "flip",
                                          "stale_epoch") for moment in ("mid", "between")}


class Failure(Exception):
    pass


def text_of(job):
    return "\n".join(f"  worker {worker.index} (pid {worker.pid}, "
                     f"{'runs' if worker.running else worker.status}): {text}"
                     for worker in job.workers for _, text in worker.lines[-6:])


def require(holds, what, job):
    if not holds:
        raise Failure(f"{what}\n{text_of(job)}")


class Run:
    def __init__(self, seed, number, program, library):
        self.chance = random.Random(f"{seed}/{number}")
        self.fault, self.moment = CASES[number % len(CASES)]
        self.program, self.library = program, library
        self.workers = self.chance.choice((2, 2, 3))
        self.elements = self.chance.choice((10, 1000, 20000, 200000))
        self.shared = self.fault in SIGNALS and self.chance.random() < 0.5
        self.victim = self.chance.randrange(self.workers)
        self.signalled_at = None

    def describe(self):
        return (f"{self.fault} at {self.moment}, {self.workers} workers, {self.elements} elements, "
                + ("shared memory" if self.shared else "tcp")
                + (f", worker {self.victim}" if self.fault in SIGNALS else ""))

    def variables(self):
        # Who is signalled by time may not have joined yet.
        early = self.moment == "connect" or (self.shared and self.moment == "handshake")
        variables = {"TUTTI_TRANSPORT": "shared_memory" if self.shared else "tcp",
                     "TUTTI_JOIN_TIMEOUT": "6s" if early else "30s"}
        if self.fault == "mute":
            variables["TUTTI_DEFAULT_TIMEOUT"] = "3s"  # all are alive: nobody is silent
        return variables

    def command(self):
        seconds = [] if self.fault in SIGNALS or self.fault == "blackhole" else ["--seconds", "2"]
        return [self.program, *seconds, "--elements", str(self.elements)]

    def run(self):
        """Seconds until each survivor knew, where the fault has a moment of its own."""
        fault = self.fault if self.fault in PROXIED else "signal"
        plan = Plan(fault, self.moment, self.chance)
        # A worker that is signalled at its start, or that has no connection to watch.
        by_time = self.fault in SIGNALS and (self.shared or self.moment == "connect")
        with FaultProxy(plan) as proxy:
            variables = self.variables()
            if not self.shared:
                variables.update(proxy.variables(self.library))
            with LocalJob(self.workers, self.command(), variables, proxy.control_ports) as job:
                belongings = Belongings(SECRET, job.secret)
                try:
                    if not by_time:
                        plan.on_moment = lambda: self.send(job)
                    else:
                        self.send_by_time(job)
                    return self.check(job, proxy, belongings, by_time)
                finally:
                    belongings.kill()

    def send(self, job):
        self.signalled_at = time.monotonic()
        os.kill(job.workers[self.victim].pid, SIGNALS[self.fault])

    def send_by_time(self, job):
        if self.moment in ("mid", "between"):
            def ready():
                return all(any(text.startswith("ready ") for _, text in worker.lines)
                           for worker in job.workers)
            require(job.pump(lambda: ready() or not all(w.running for w in job.workers), HANG_S)
                    and ready(), "not all came to work", job)
        job.pump(lambda: False, self.chance.uniform(0, 0.15))
        self.send(job)

    def check(self, job, proxy, belongings, by_time):
        belongings.look()
        stopped = self.fault == "stop"
        survivors = [worker for worker in job.workers
                     if self.fault not in SIGNALS or worker.index != self.victim]
        require(job.pump(lambda: not any(worker.running for worker in survivors), HANG_S),
                "workers hang", job)
        if proxy.problem is not None:
            raise proxy.problem
        require(by_time or proxy.happened_at is not None, "the fault never happened", job)
        if stopped:
            os.kill(job.workers[self.victim].pid, signal.SIGCONT)
            require(job.pump(lambda: not job.workers[self.victim].running, HANG_S),
                    "the stopped worker hangs", job)
        for worker in job.workers:
            require(worker.status in (0, 3) or worker not in survivors,
                    f"worker {worker.index} ended with {worker.status}", job)
            require(not any("wrong sum" in text for _, text in worker.lines), "a wrong sum", job)
        known = self.check_errors(job, survivors, by_time)
        give_up = time.monotonic() + HANG_S
        while belongings.left():
            if time.monotonic() > give_up:
                raise Failure("left behind: " + "; ".join(belongings.left()))
            time.sleep(0.02)
        return known

    def check_errors(self, job, survivors, by_time):
        failed = [worker for worker in survivors if worker.status == 3]
        require(len(failed) in (0, len(survivors)), "some have an error and others have none", job)
        if self.fault == "slow":
            require(not failed, "a slow connection is no error", job)
        if (self.fault, self.moment) in MUST_FAIL or self.fault in SIGNALS:
            require(failed, "nobody has an error", job)
        # Who has joined and says nothing more is found by its silence, whatever they were in.
        joined = not by_time or self.moment in ("mid", "between")
        silent = self.fault == "blackhole" or (self.fault == "stop" and joined)
        # A deadline of forming a group says how far that was; who is waited for, whoever connects.
        forming = self.fault == "mute" and self.moment in ("connect", "handshake")
        named = 0
        known = []
        for worker in failed:
            found = [ERROR.match(text) for _, text in worker.lines if ERROR.match(text)]
            require(found, f"worker {worker.index} does not say why it failed", job)
            code, rank, when, message = found[0].groups()
            require(code in CODES, f"worker {worker.index} failed with {code}", job)
            names = re.search(r"\b(rank|worker)s? \d", message) is not None
            require(names or forming, f"worker {worker.index} names nobody", job)
            named += names
            require(not silent or code == "UNAVAILABLE",
                    f"worker {worker.index} took the silence for something else", job)
            if self.fault in SIGNALS and self.moment in ("mid", "between"):
                require(int(rank) == self.victim, f"worker {worker.index} names another one", job)
                known.append(int(when) * 1e-9 - self.signalled_at)
        require(named or not failed, "nobody names anybody", job)
        return known


def run_one(seed, number, program, library):
    """(number, what it was, failure or None, seconds until the survivors knew, seconds it took)."""
    run = Run(seed, number, program, library)
    begun = time.monotonic()
    try:
        known = run.run()
        return number, run, None, known, time.monotonic() - begun
    except Exception as failure:  # pylint: disable=broad-except
        what = str(failure) if isinstance(failure, Failure) else traceback.format_exc()
        return number, run, what, [], time.monotonic() - begun


def percentile(seconds, percent):
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("library")
    parser.add_argument("runs", type=int)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--only", type=int)
    arguments = parser.parse_args()
    seed = int(os.environ.get("TUTTI_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"seed {seed}", flush=True)
    numbers = [arguments.only] if arguments.only is not None else range(arguments.runs)
    failures = 0
    times = {}
    begun = time.monotonic()
    with concurrent.futures.ProcessPoolExecutor(
            arguments.jobs, multiprocessing.get_context("fork")) as pool:
        for future in [pool.submit(run_one, seed, number, arguments.program, arguments.library)
                       for number in numbers]:
            number, run, failure, known, took = future.result()
            if failure is not None:
                failures += 1
                print(f"FAILED run {number} ({run.describe()}; TUTTI_TEST_SEED={seed} --only "
                      f"{number}): {failure}", flush=True)
            elif arguments.only is not None or took > 20:
                print(f"run {number}: {run.describe()}: {took:.1f} s", flush=True)
            times.setdefault(run.fault, []).extend(known)
    for fault, seconds in times.items():
        if seconds:
            print(f"{fault}: {len(seconds)} survivors knew after {statistics.median(seconds):.3f} s"
                  f" (median), {percentile(seconds, 99):.3f} s (p99), {max(seconds):.3f} s (worst)")
    print(f"{len(numbers)} runs, {failures} failed, {time.monotonic() - begun:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
