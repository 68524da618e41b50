#!/usr/bin/env python3
"""disturbed_test.py must pass workers that behave, and catch each way of misbehaving."""

import types
import unittest

import disturbed_test
from disturbed_test import CASES, Failure, Run
from fault_proxy import MOMENTS

# What a survivor says, by what has happened.
SAID = {
    "signal": "error UNAVAILABLE rank={rank} calls=5 @0: all_reduce #6: rank {rank} (worker "
              "{rank}, pid 4711) is gone: its process has ended",
    "connection": "error {code} rank={rank} calls=5 @0: all_reduce #6: rank {rank} sent nonsense",
}


class Belongings:
    def __init__(self, left=()):
        self._left = list(left)

    def look(self):
        pass

    def left(self):
        return self._left


class DisturbedTestTest(unittest.TestCase):
    def run_of(self, fault, moment, workers=3, victim=2):
        run = Run(1, CASES.index((fault, moment)), "program", "library")
        run.workers, run.victim, run.signalled_at = workers, victim, 0.0
        return run

    def job_of(self, run, ends):
        """Workers that do what they should."""
        signalled = run.fault in disturbed_test.SIGNALS
        code = sorted(disturbed_test.CODES.get((run.fault, run.moment)) or
                      disturbed_test.CODES.get(run.fault, {""}))[0]
        workers = []
        for index in range(run.workers):
            rank = run.victim if signalled else ends[0] if index != ends[0] else ends[1]
            if signalled and index == run.victim:
                lines, status = [], -9
            elif run.fault == "slow":
                lines, status = ["done calls=100 @0"], 0
            else:
                said = SAID["signal" if signalled else "connection"]
                lines, status = [said.format(rank=rank, code=code)], 3
            workers.append(types.SimpleNamespace(
                index=index, pid=0, status=status, running=False,
                lines=[(0.0, line) for line in lines]))
        # A hang is seen without waiting for it.
        return types.SimpleNamespace(workers=workers, pump=lambda condition, bound_s: condition())

    def check(self, run, job, left=(), happened=True, ends=(1, 0)):
        proxy = types.SimpleNamespace(problem=None, happened_at=0.0 if happened else None,
                                      disturbed=ends)
        disturbed_test.HANG_S = 0.1
        return run.check(job, proxy, Belongings(left), by_time=False)

    def assert_caught(self, fault, moment, pattern, spoil, **options):
        run = self.run_of(fault, moment)
        job = self.job_of(run, (1, 0))
        spoil(job.workers)
        with self.assertRaisesRegex(Failure, pattern):
            self.check(run, job, **options)

    def test_workers_that_behave_pass_at_every_fault_and_moment(self):
        for fault, moment in CASES:
            if fault == "stop":
                continue  # it would be sent a real signal
            with self.subTest(fault=fault, moment=moment):
                run = self.run_of(fault, moment)
                self.check(run, self.job_of(run, (1, 0)))

    def test_all_faults_at_all_moments_are_among_the_first_runs(self):
        wanted = {(fault, moment) for moment in MOMENTS for fault in (
            "kill", "stop", "term", "reset", "blackhole", "mute", "slow", "truncate", "flip",
            "stale_epoch", "duplicate")}
        runs = [Run(7, number, "program", "library") for number in range(60)]
        self.assertEqual({(run.fault, run.moment) for run in runs}, wanted)

    def test_a_seed_repeats_a_run(self):
        def drawn(seed):
            return [(run.describe(), run.victim) for run in (
                Run(seed, number, "program", "library") for number in range(60))]
        self.assertEqual(drawn(3), drawn(3))
        self.assertNotEqual(drawn(3), drawn(4))

    def test_a_worker_that_hangs_is_caught(self):
        for fault, moment in (("kill", "mid"), ("mute", "handshake"), ("slow", "connect")):
            self.assert_caught(fault, moment, "workers hang",
                               lambda workers: setattr(workers[1], "running", True))

    def test_a_wrong_sum_is_caught(self):
        def spoil(workers):
            workers[0].lines.append((0.0, "wrong sum: call 7, element 3: 4 instead of 5"))
        for fault, moment in (("slow", "mid"), ("flip", "between"), ("duplicate", "mid")):
            self.assert_caught(fault, moment, "wrong sum", spoil)

    def test_another_end_than_that_of_an_error_is_caught(self):
        self.assert_caught("reset", "mid", "worker 0 ended with -11",
                           lambda workers: setattr(workers[0], "status", -11))

    def test_a_fault_that_never_happened_is_caught(self):
        self.assert_caught("reset", "mid", "never happened", lambda workers: None, happened=False)

    def test_what_is_left_is_caught(self):
        self.assert_caught("reset", "mid", "left behind: process 7", lambda workers: None,
                           left=["process 7 (fault_worker)"])

    def test_survivors_who_disagree_are_caught(self):
        self.assert_caught("kill", "between", "some have an error and others have none",
                           lambda workers: setattr(workers[1], "status", 0))

    def test_a_fault_that_nobody_noticed_is_caught(self):
        def spoil(workers):
            for worker in workers:
                worker.status = 0
        for fault, moment in CASES:
            if fault in ("slow", "stop") or (fault, moment) in disturbed_test.MAY_SUCCEED:
                continue
            with self.subTest(fault=fault, moment=moment):
                self.assert_caught(fault, moment, "nobody has an error", spoil)

    def test_an_error_where_a_connection_is_slow_is_caught(self):
        def spoil(workers):
            for worker in workers:
                worker.status = 3
        self.assert_caught("slow", "mid", "a slow connection is no error", spoil)

    def test_a_worker_that_fails_without_a_word_is_caught(self):
        self.assert_caught("truncate", "mid", "does not say why",
                           lambda workers: workers[1].lines.clear())

    def test_an_error_of_another_kind_is_caught(self):
        def spoil(code):
            def change(workers):
                workers[1].lines = [(0.0, f"error {code} rank=0 calls=5 @0: rank 0 it was")]
            return change
        for fault, moment, code in (("kill", "mid", "CANCELLED"), ("mute", "connect", "CANCELLED"),
                                    ("blackhole", "mid", "DEADLINE_EXCEEDED"),
                                    ("flip", "mid", "INTERNAL"), ("reset", "mid", "DATA_LOSS")):
            self.assert_caught(fault, moment, f"worker 1 failed with {code}", spoil(code))

    def test_survivors_none_of_whom_says_what_is_wrong_are_caught(self):
        def spoil(workers):
            for worker in workers:
                other = 1 if worker.index == 0 else 0
                worker.lines = [(0.0, f"error UNAVAILABLE rank={other} calls=5 @0: rank {other}")]
        for fault in ("flip", "stale_epoch", "duplicate", "mute"):
            self.assert_caught(fault, "mid", "is among the errors", spoil)

    def test_an_error_that_names_only_the_worker_itself_is_caught(self):
        def spoil(workers):
            workers[1].lines = [(0.0, "error UNAVAILABLE rank=1 calls=5 @0: rank 1 is gone")]
        self.assert_caught("reset", "between", "worker 1 names none of", spoil)

    def test_an_error_that_names_nobody_is_caught(self):
        for fault, moment in CASES:
            if fault in ("slow", "stop"):
                continue
            with self.subTest(fault=fault, moment=moment):
                def spoil(workers):
                    code = workers[1].lines[0][1].split()[1]
                    workers[1].lines = [(0.0, f"error {code} rank=-1 calls=5 @0: not done in 3 s")]
                self.assert_caught(fault, moment, "worker 1 names none of", spoil)

    def test_an_error_that_names_another_worker_is_caught(self):
        def spoil(workers):
            code = workers[1].lines[0][1].split()[1]
            workers[1].lines = [(0.0, f"error {code} rank=1 calls=5 @0: rank 1 is gone")]
        self.assert_caught("kill", "mid", "worker 1 names none of", spoil)
        self.assert_caught("kill", "connect", "worker 1 names none of", spoil)
        self.assert_caught("mute", "handshake", "worker 1 names none of", spoil)
        self.assert_caught("flip", "mid", "worker 1 names none of", spoil)

    def test_an_error_that_blames_another_worker_is_caught(self):
        def spoil(workers):
            workers[1].lines = [(0.0, "error UNAVAILABLE rank=0 calls=5 @0: rank 0: rank 2 left")]
        self.assert_caught("term", "mid", "worker 1 blames rank 0", spoil)


if __name__ == "__main__":
    unittest.main()
