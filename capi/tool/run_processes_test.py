#!/usr/bin/env python3
"""`tutti run` and processes: signals, what workers leave behind, and workers that are replaced.

    run_processes_test.py TUTTI [TEST...]      TUTTI is the command under test
"""

import json
import os
import signal
import unittest

from run_testing import DAEMON, RunTest, is_alive, parent_of


class SignalTest(RunTest):
    def test_signals_reach_all_workers(self):
        names = ["SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGTERM"]
        process = self.start(["--workers", "2", "--grace", "1h"], """
got = []
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), lambda number, frame: got.append(number))
mark("ready %d" % index)
for name in sys.argv[1:]:
    until(lambda: getattr(signal, name) in got)
    say("got", name)
    mark("%s %d" % (name, index))
""", names)
        self.until_marked("ready 0", "ready 1")
        for name in names:
            process.send_signal(getattr(signal, name))
            self.until_marked(f"{name} 0", f"{name} 1")
        outcome = self.finish(process)
        self.assertEqual(outcome.status, 0, outcome.err)
        for worker in range(2):
            self.assertEqual(outcome.lines_of(worker), ["got " + name for name in names])

    def test_sigint_ends_the_workers_and_the_status_says_so(self):
        process = self.start(["--workers", "2", "--max-restarts", "3"], """
signal.signal(signal.SIGINT, signal.SIG_DFL)
mark("ready %d" % index)
forever()
""")
        self.until_marked("ready 0", "ready 1")
        process.send_signal(signal.SIGINT)
        outcome = self.finish(process)
        self.assertEqual(outcome.status, 128 + signal.SIGINT)
        self.said_once(outcome, r"tutti run: worker \d .* was killed by SIGINT \(2\) .*; "
                                r"worker \d then was killed by SIGINT \(2\)")
        self.assertNotIn("starting again", outcome.err)

    def test_the_terminals_interrupt_reaches_the_workers_through_the_command_alone(self):
        process = self.start(["--workers", "2"], """
mark("group %d" % index, os.getpgid(0))
signal.signal(signal.SIGINT, lambda number, frame: sys.exit(0))
mark("ready %d" % index)
forever()
""", start_new_session=True)
        self.until_marked("ready 0", "ready 1")
        groups = {process.pid, *(int(self.read_mark(f"group {i}")) for i in range(2))}
        self.assertEqual(len(groups), 3)
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(self.finish(process).status, 0)

    def test_a_worker_that_ignores_the_users_sigterm_is_killed_after_the_grace(self):
        process = self.start(["--workers", "2", "--grace", "50ms"], """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
mark("ready %d" % index)
forever()
""")
        self.until_marked("ready 0", "ready 1")
        process.send_signal(signal.SIGTERM)
        outcome = self.finish(process)
        self.assertEqual(outcome.status, 128 + signal.SIGKILL)
        self.said_once(outcome, r"tutti run: SIGTERM: the workers have 0\.\d s to end")
        self.assertIn("did not end when asked to and was killed", outcome.err)

    def test_a_second_sigint_kills_at_once(self):
        process = self.start(["--workers", "2", "--grace", "1h"], """
signal.signal(signal.SIGINT, lambda number, frame: mark("interrupted %d" % index))
mark("ready %d" % index)
while True:
    time.sleep(1)
""")
        self.until_marked("ready 0", "ready 1")
        process.send_signal(signal.SIGINT)
        self.until_marked("interrupted 0", "interrupted 1")
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(process).status, 128 + signal.SIGKILL)

    def test_a_signal_that_was_ignored_stays_ignored(self):
        process = self.start([], """
mark("ignored", signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)
marked("go")
""", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.assertEqual(self.read_mark("ignored"), "True")
        process.send_signal(signal.SIGHUP)
        (self.folder / "go").touch()
        self.assertEqual(self.finish(process).status, 0)


class LeftoversTest(RunTest):
    def test_daemons_of_workers_do_not_outlive_a_job_that_succeeds(self):
        outcome = self.run_job(["--workers", "2"], DAEMON + 'start_daemon("daemon %d" % index)')
        self.assertEqual(outcome.status, 0, outcome.err)
        for worker in range(2):
            self.assertFalse(is_alive(int(self.read_mark(f"daemon {worker}"))))

    def test_children_of_a_killed_worker_are_ended(self):
        process = self.start(["--workers", "2", "--grace", "50ms"], DAEMON + """
start_daemon("daemon keeps its descriptors %d" % index)
child = subprocess.Popen(["sleep", "1000"])
mark("child %d" % index, child.pid)
mark("pid %d" % index, os.getpid())
forever()
""")
        pids = [int(self.read_mark(f"pid {i}")) for i in range(2)]
        os.kill(pids[0], signal.SIGKILL)
        self.assertEqual(self.finish(process).status, 128 + signal.SIGKILL)
        for worker in range(2):
            for name in ("daemon keeps its descriptors", "child", "pid"):
                self.assertFalse(is_alive(int(self.read_mark(f"{name} {worker}"))), name)

    def test_leftovers_are_asked_before_they_are_killed(self):
        outcome = self.run_job([], """
if os.fork() == 0:
    signal.signal(signal.SIGTERM, lambda number, frame: (say("asked"), os._exit(0)))
    mark("ready")
    forever()
marked("ready")
""")
        self.assertEqual((outcome.status, outcome.lines_of(0)), (0, ["asked"]))

    WITH_DAEMONS = DAEMON + """
start_daemon("daemon %d" % index)
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
mark("child %d" % index, child.pid)
mark("pid %d" % index, os.getpid())
forever()
"""

    def pids_of_all(self):
        return [int(self.read_mark(f"{name} {worker}"))
                for name in ("daemon", "child", "pid") for worker in range(2)]

    def test_nothing_outlives_the_command_when_it_is_killed(self):
        process = self.start(["--workers", "2"], self.WITH_DAEMONS)
        pids = self.pids_of_all()
        supervisor = parent_of(pids[-1])
        process.kill()
        self.until_gone([*pids, supervisor])

    def test_nothing_outlives_the_command_when_its_process_group_is_killed(self):
        process = self.start(["--workers", "2"], self.WITH_DAEMONS, start_new_session=True)
        pids = self.pids_of_all()
        os.killpg(process.pid, signal.SIGKILL)
        self.until_gone(pids)

    def test_nothing_outlives_the_supervisor_when_it_is_killed(self):
        process = self.start(["--workers", "2"], self.WITH_DAEMONS)
        pids = self.pids_of_all()
        supervisor = parent_of(pids[-1])
        self.assertEqual(parent_of(supervisor), process.pid)
        os.kill(supervisor, signal.SIGKILL)
        outcome = self.finish(process)
        self.assertEqual(outcome.status, 128 + signal.SIGKILL)
        self.assertIn("supervised the job was killed by SIGKILL", outcome.err)
        for pid in pids:
            self.assertFalse(is_alive(pid))


class ElasticTest(RunTest):
    OPTIONS = ["--workers", "3", "--elastic", "--max-restarts", "2"]

    def test_a_worker_that_dies_is_replaced_and_the_others_go_on(self):
        outcome = self.run_job(self.OPTIONS, """
say(json.dumps([os.getpid(), os.environ["TUTTI_ELASTIC"], os.environ["TUTTI_RESTART"],
                os.environ["TUTTI_JOB_SECRET"], config]))
if index == 1 and os.environ["TUTTI_RESTART"] == "0":
    marked("working 0")
    marked("working 2")
    os.kill(os.getpid(), signal.SIGKILL)
mark(f"working {index}")
marked("working 1")
""")
        self.assertEqual(outcome.status, 0, outcome.err)
        starts = [[json.loads(line) for line in outcome.lines_of(worker)] for worker in range(3)]
        self.assertEqual([len(lives) for lives in starts], [1, 2, 1])
        for worker, lives in enumerate(starts):
            self.assertEqual([life[1] for life in lives], ["1"] * len(lives))
            self.assertEqual([life[2] for life in lives], ["0", "1"][:len(lives)])
            for life in lives:
                self.assertEqual(life[3:], [starts[0][0][3], {**starts[0][0][4], "task": {
                    "type": "worker", "index": worker}}])
        self.said_once(outcome, rf"tutti run: worker 1 \(pid {starts[1][0][0]}\) was killed by "
                                r"SIGKILL \(9\) after .*; starting another in its place "
                                r"\(1 of 2\)")
        self.assertEqual(len(outcome.said()), 1, outcome.err)

    def test_without_restarts_left_the_job_fails(self):
        outcome = self.run_job(self.OPTIONS, """
if index == 2:
    sys.exit(5)
forever()
""")
        self.assertEqual(outcome.status, 5)
        self.assertEqual(sum("starting another" in line for line in outcome.said()), 2)
        self.assertIn("worker 2", outcome.said()[-1])

    def test_worker_0_cannot_be_spared(self):
        outcome = self.run_job(self.OPTIONS, """
restart = os.environ["TUTTI_RESTART"]
say(restart)
if index == 1 and restart == "0":
    sys.exit(3)
if index == 0 and restart == "0":
    marked("replaced")
    sys.exit(4)
if index == 1 and restart == "1":
    mark("replaced")
if restart != "2":
    forever()
""")
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertEqual([outcome.lines_of(worker) for worker in range(3)],
                         [["0", "2"], ["0", "1", "2"], ["0", "2"]])
        self.said_once(outcome, r"tutti run: starting again \(2 of 2\)")

    def test_who_comes_when_worker_0_has_ended_is_not_waited_for(self):
        outcome = self.run_job([*self.OPTIONS, "--grace", "200ms"], """
if index == 1 and os.environ["TUTTI_RESTART"] == "0":
    sys.exit(3)
if index == 1:
    mark("replaced")
    forever()
marked("replaced")
""")
        self.assertEqual(outcome.status, 0, outcome.err)
        self.said_once(outcome, r"tutti run: worker 1 \(pid \d+\) was ended by SIGTERM.*, too late "
                                r"for the job: worker 0 had ended")

    def test_who_dies_of_the_users_signal_is_not_replaced(self):
        for number in (signal.SIGHUP, signal.SIGQUIT):
            process = self.start(["--grace", "0ms", *self.OPTIONS], """
import resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
number = int(sys.argv[1])
pid = folder / f"pid {number} 1"
if index == 0:
    # It goes on until worker 1 is no more, not even a process that has ended.
    signal.signal(number, signal.SIG_IGN)
    mark(f"pid {number} 0", os.getpid())
    marked(pid.name)
    until(lambda: not pathlib.Path("/proc", pid.read_text()).exists())
    sys.exit(0)
if os.environ["TUTTI_RESTART"] != "0":
    mark("another", index)
mark(f"pid {number} {index}", os.getpid())
forever()
""", [str(int(number))])
            self.until_marked(*[f"pid {int(number)} {worker}" for worker in range(3)])
            process.send_signal(number)
            outcome = self.finish(process)
            self.assertEqual(outcome.status, 128 + number, outcome.err)
            self.assertNotIn("starting another", outcome.err)
            self.assertFalse((self.folder / "another").exists())

    def test_it_says_that_it_needs_restarts(self):
        outcome = self.run_words("run", "--elastic", "--", "true")
        self.assertEqual(outcome.status, 2)
        self.assertIn("--max-restarts N", outcome.err)


class RestartTest(RunTest):
    def test_a_failed_job_starts_again_with_new_ports_and_a_new_secret(self):
        outcome = self.run_job(["--workers", "2", "--max-restarts", "3"], """
say(json.dumps([os.environ["TUTTI_RESTART"], os.environ["TUTTI_JOB_SECRET"],
                config["cluster"]["worker"]]))
if os.environ["TUTTI_RESTART"] != "2":
    sys.exit(4 if index == 1 else 0)
""")
        self.assertEqual(outcome.status, 0, outcome.err)
        for worker in range(2):
            starts = [json.loads(line) for line in outcome.lines_of(worker)]
            self.assertEqual([start[0] for start in starts], ["0", "1", "2"])
            self.assertEqual(len({start[1] for start in starts}), 3)
        said = outcome.said()
        self.assertEqual(len(said), 4, outcome.err)
        self.assertRegex(said[0], r"worker 1 \(pid \d+\) exited with 4")
        self.assertEqual(said[1], "tutti run: starting again (1 of 3)")
        self.assertEqual(said[3], "tutti run: starting again (2 of 3)")

    def test_the_last_failure_is_the_jobs(self):
        outcome = self.run_job(["--max-restarts", "2"],
                               'sys.exit(10 + int(os.environ["TUTTI_RESTART"]))')
        self.assertEqual(outcome.status, 12)
        self.assertEqual(sum("starting again" in line for line in outcome.said()), 2)

    def test_a_job_that_the_user_ended_does_not_start_again(self):
        process = self.start(["--max-restarts", "2"], """
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(6))
mark("ready")
forever()
""")
        self.until_marked("ready")
        process.send_signal(signal.SIGTERM)
        outcome = self.finish(process)
        self.assertEqual(outcome.status, 6)
        self.assertNotIn("starting again", outcome.err)

    def test_nothing_of_a_failed_start_is_left_when_the_next_one_begins(self):
        outcome = self.run_job(["--max-restarts", "1"], DAEMON + """
if os.environ["TUTTI_RESTART"] == "0":
    start_daemon("daemon")
    sys.exit(1)
say("still there" if pathlib.Path("/proc", (folder / "daemon").read_text()).exists() else "gone")
""")
        self.assertEqual((outcome.status, outcome.lines_of(0)), (0, ["gone"]))


if __name__ == "__main__":
    unittest.main()
