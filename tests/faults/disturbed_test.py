"""Workers whose connections are disturbed at any moment, and who are killed and stopped at it.

    disturbed_test.py FAULT_WORKER REDIRECT_CONNECT RUNS [--jobs N] [--only I]

Run I follows from the seed, which is printed, and I; TUTTI_TEST_SEED and --only repeat one. Each
run is a job of real processes over TCP through fault_proxy.py, or over shared memory, and one
fault. It must end: no worker hangs, none has a wrong sum, every survivor has an error of a kind
that the fault can have, which names the worker that is to blame, or an end of the connection, or
all have done their work where the fault can be overcome; and nothing is left. Times are printed as
figures.
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
from seeded_runs import SeededRuns

HANG_S = 60
SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "stop": signal.SIGSTOP}
PROXIED = ("reset", "truncate", "blackhole", "mute", "slow", "flip", "stale_epoch", "duplicate")
CASES = [(fault, moment) for fault in (*SIGNALS, *PROXIED) for moment in MOMENTS]
ERROR = re.compile(r"^error (\w+) rank=(-?\d+) calls=\d+ @(\d+): (.*)")
NAMED = re.compile(r"\b(?:rank|worker) (\d+)")
# A slow connection is no fault. In a handshake, another attempt may go well: a message of which a
# bit says that it is longer than it is.
MAY_SUCCEED = {("flip", "connect"), ("flip", "handshake")}
EARLY = ("connect", "handshake")
# Of survivors, by fault, and by fault and moment where the moment matters. Until all have come
# there is a limit of time; afterwards it is known at once that a worker is gone, or soon that it is
# silent. Who finds out what else is wrong says so and closes its connections: others may learn that
# it has gone and no more, so one of them has to have such an error, and all may have GONE.
GONE = {"UNAVAILABLE"}
MISSING = {"UNAVAILABLE", "DEADLINE_EXCEEDED"}
CODES = {
    **{(fault, moment): MISSING for fault in SIGNALS for moment in EARLY},
    **dict.fromkeys(SIGNALS, GONE),
    "reset": GONE, "truncate": GONE, "blackhole": GONE,
    "mute": {"DEADLINE_EXCEEDED"},
    "flip": {"DATA_LOSS"},
    # What the bit said in the handshake decides.
    **{("flip", moment): {"DATA_LOSS", "INVALID_ARGUMENT", "UNAUTHENTICATED", "FAILED_PRECONDITION",
                          "UNAVAILABLE", "DEADLINE_EXCEEDED"} for moment in EARLY},
    "stale_epoch": {"INVALID_ARGUMENT"},
    # The last message of a handshake, come again, stands where a frame should.
    **{("duplicate", moment): {"INVALID_ARGUMENT", "DATA_LOSS"} for moment in EARLY},
    "duplicate": {"DATA_LOSS"},
}


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
        early = self.fault in SIGNALS and (
            self.moment == "connect" or (self.shared and self.moment == "handshake"))
        return {"TUTTI_TRANSPORT": "shared_memory" if self.shared else "tcp",
                "TUTTI_JOIN_TIMEOUT": "6s" if early else "30s"}

    def command(self):
        # Where it can go well, with more calls than it takes to come to the moment.
        ends = self.fault == "slow" or (self.fault, self.moment) in MAY_SUCCEED
        return [self.program, *(["--seconds", "2", "--least", "45"] if ends else []),
                *(["--timeout", "3"] if self.fault == "mute" else []),  # all live, nobody is silent
                "--elements", str(min(self.elements, 20000) if ends else self.elements)]

    def run(self):
        """Seconds until each survivor knew, where the fault has a moment of its own."""
        fault = self.fault if self.fault in PROXIED else "signal"
        plan = Plan(fault, self.moment, self.chance)
        # A worker that is signalled at its start, or that has no connection to watch.
        by_time = self.fault in SIGNALS and (self.shared or self.moment == "connect")
        started = concurrent.futures.Future()  # the workers may come to the moment before this one
        if not by_time:
            plan.on_moment = lambda: self.send(started.result(HANG_S))
        with FaultProxy(plan) as proxy:
            variables = self.variables()
            if not self.shared:
                variables.update(proxy.variables(self.library))
            with LocalJob(self.workers, self.command(), variables, proxy.control_ports) as job:
                belongings = Belongings(SECRET, job.secret)
                started.set_result(job)
                try:
                    if by_time:
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
        all_ended = job.pump(lambda: not any(worker.running for worker in survivors), HANG_S)
        if proxy.problem is not None:
            raise proxy.problem
        happened = "never happened" if proxy.happened_at is None else "has happened"
        require(all_ended, f"workers hang; the fault {happened}", job)
        require(by_time or proxy.happened_at is not None, "the fault never happened", job)
        if stopped:
            os.kill(job.workers[self.victim].pid, signal.SIGCONT)
            require(job.pump(lambda: not job.workers[self.victim].running, HANG_S),
                    "the stopped worker hangs", job)
        for worker in job.workers:
            require(worker.status in (0, 3) or worker not in survivors,
                    f"worker {worker.index} ended with {worker.status}", job)
            require(not any("wrong sum" in text for _, text in worker.lines), "a wrong sum", job)
        known = self.check_errors(job, survivors, proxy.disturbed)
        give_up = time.monotonic() + HANG_S
        while belongings.left():
            if time.monotonic() > give_up:
                raise Failure("left behind: " + "; ".join(belongings.left()))
            time.sleep(0.02)
        return known

    def check_errors(self, job, survivors, ends):
        """`ends`: the two workers whose connection was disturbed."""
        failed = [worker for worker in survivors if worker.status == 3]
        require(len(failed) in (0, len(survivors)), "some have an error and others have none", job)
        if self.fault == "slow":
            require(not failed, "a slow connection is no error", job)
            return []
        require(failed or (self.fault, self.moment) in MAY_SUCCEED, "nobody has an error", job)
        codes = CODES.get((self.fault, self.moment)) or CODES[self.fault]
        known = []
        told = set()
        for worker in failed:
            found = [ERROR.match(text) for _, text in worker.lines if ERROR.match(text)]
            require(found, f"worker {worker.index} does not say why it failed", job)
            code, rank, when, message = found[0].groups()
            require(code in codes | GONE, f"worker {worker.index} failed with {code}, expected one "
                    f"of {sorted(codes)}", job)
            told.add(code)
            named = {int(name) for name in NAMED.findall(message)}
            to_blame = self.to_blame(worker.index, ends)
            require(named & to_blame and named - {worker.index},
                    f"worker {worker.index} names none of {sorted(to_blame)}", job)
            if self.fault in SIGNALS and self.moment not in EARLY:
                require(int(rank) == self.victim, f"worker {worker.index} blames rank {rank}", job)
                known.append(int(when) * 1e-9 - self.signalled_at)
        require(told & codes or not failed, f"none of {sorted(codes)} is among the errors", job)
        return known

    def to_blame(self, survivor, ends):
        """Of whom one must be named."""
        if self.fault in SIGNALS:
            return {self.victim}
        if self.fault == "blackhole":  # everybody is cut off from everybody
            return set(range(self.workers)) - {survivor}
        return set(ends)  # who finds it out may say so of the other end, and tell that


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
    parser.add_argument("--jobs", type=int, default=5)  # they mostly wait
    parser.add_argument("--only", type=int)
    arguments = parser.parse_args()
    seed = int(os.environ.get("TUTTI_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"seed {seed}", flush=True)
    seeded = SeededRuns("runs", arguments.runs)
    numbers = [arguments.only] if arguments.only is not None else range(seeded.wanted)
    failures = 0
    runs = {}
    times = {}
    with concurrent.futures.ProcessPoolExecutor(
            arguments.jobs, multiprocessing.get_context("fork")) as pool:
        for future in [pool.submit(run_one, seed, number, arguments.program, arguments.library)
                       for number in numbers]:
            if seeded.is_over() and future.cancel():
                continue
            seeded.done += 1
            number, run, failure, known, took = future.result()
            if failure is not None:
                failures += 1
                print(f"FAILED run {number} ({run.describe()}; TUTTI_TEST_SEED={seed} --only "
                      f"{number}): {failure}", flush=True)
            elif arguments.only is not None or took > 20:
                print(f"run {number}: {run.describe()}: {took:.1f} s", flush=True)
            runs[run.fault] = runs.get(run.fault, 0) + 1
            times.setdefault(run.fault, []).extend(known)
    for fault, seconds in times.items():
        if seconds:
            print(f"{fault}: {len(seconds)} survivors knew after {statistics.median(seconds):.3f} "
                  f"s (median), {percentile(seconds, 99):.3f} s (p99), {max(seconds):.3f} s "
                  "(worst)")
    print("runs: " + ", ".join(f"{fault} {count}" for fault, count in runs.items()))
    seeded.tell()
    print(f"{failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
