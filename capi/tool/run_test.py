#!/usr/bin/env python3
"""`tutti run` as its users see it: what workers get, what is printed, how a job ends.

    run_test.py TUTTI [TEST...]      TUTTI is the command under test
"""

import json
import os
import re
import signal
import subprocess
import unittest

from run_testing import RunTest, parent_of


class EnvironmentTest(RunTest):
    SHOW = 'say(json.dumps({"config": config, "variables": dict(os.environ)}))\n'

    def shown(self, outcome, workers):
        self.assertEqual(outcome.status, 0, outcome.err)
        found = []
        for worker in range(workers):
            (line,) = outcome.lines_of(worker)
            found.append(json.loads(line))
        return found

    def test_each_worker_gets_its_place_in_tf_config(self):
        shown = self.shown(self.run_job(["--workers", "3"], self.SHOW), 3)
        clusters = [one["config"]["cluster"] for one in shown]
        self.assertEqual(clusters[0], clusters[1])
        self.assertEqual(clusters[0], clusters[2])
        addresses = clusters[0]["worker"]
        self.assertEqual(len(set(addresses)), 3)
        for address in addresses:
            self.assertRegex(address, r"^127\.0\.0\.1:\d+$")
        for worker, one in enumerate(shown):
            self.assertEqual(one["config"]["task"], {"type": "worker", "index": worker})

    def test_a_single_worker_gets_tf_config_too(self):
        (one,) = self.shown(self.run_job([], self.SHOW), 1)
        self.assertEqual(len(one["config"]["cluster"]["worker"]), 1)
        self.assertNotIn("TUTTI_REPLICAS", one["variables"])
        self.assertEqual(one["variables"]["TUTTI_RESTART"], "0")

    def test_the_secret_is_new_for_each_job_and_replaces_the_users(self):
        self.environment["TUTTI_JOB_SECRET"] = "the user's own, which is long enough"
        self.environment["TUTTI_JOB_SECRET_FILE"] = "/somewhere"
        secrets = []
        for _ in range(2):
            shown = self.shown(self.run_job(["--workers", "2"], self.SHOW), 2)
            for one in shown:
                self.assertNotIn("TUTTI_JOB_SECRET_FILE", one["variables"])
                self.assertRegex(one["variables"]["TUTTI_JOB_SECRET"], "^[0-9a-f]{64}$")
                secrets.append(one["variables"]["TUTTI_JOB_SECRET"])
        self.assertEqual(secrets[0], secrets[1])
        self.assertEqual(len(set(secrets)), 2)

    def test_the_option_replicas_beats_the_variable(self):
        (one,) = self.shown(self.run_job(["--replicas", "4"], self.SHOW), 1)
        self.assertEqual(one["variables"]["TUTTI_REPLICAS"], "4")
        self.environment["TUTTI_REPLICAS"] = "2"
        (one,) = self.shown(self.run_job([], self.SHOW), 1)
        self.assertEqual(one["variables"]["TUTTI_REPLICAS"], "2")
        (one,) = self.shown(self.run_job(["--replicas", "3"], self.SHOW), 1)
        self.assertEqual(one["variables"]["TUTTI_REPLICAS"], "3")

    def test_the_replicas_of_all_workers_share_the_cores(self):
        self.environment["MKL_NUM_THREADS"] = "7"
        usable = len(os.sched_getaffinity(0))  # a control group may allow fewer
        for options, sharing in (([], 1), (["--workers", "2", "--replicas", "2"], 4),
                                 (["--replicas", "1000"], 1000)):
            variables = self.shown(self.run_job(options, self.SHOW), 1)[0]["variables"]
            for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
                self.assertGreaterEqual(int(variables[name]), 1)
                self.assertLessEqual(int(variables[name]), max(1, usable // sharing))
            self.assertEqual(variables["MKL_NUM_THREADS"], "7")
            workers = 2 if "--workers" in options else 1
            self.assertGreaterEqual(int(variables["TUTTI_COMPUTE_THREADS"]), 1)
            self.assertLessEqual(int(variables["TUTTI_COMPUTE_THREADS"]), max(1, usable // workers))

    def test_standard_input_is_empty(self):
        outcome = self.run_job(["--workers", "2"], "say(repr(sys.stdin.read()))",
                               stdin=subprocess.DEVNULL)
        self.assertEqual(outcome.lines_of(1), ["''"])

    def test_a_worker_can_listen_at_its_address_and_nobody_else_gets_it(self):
        outcome = self.run_job(["--workers", "2"], """
host, port = config["cluster"]["worker"][index].split(":")
plain = socket.socket()
try:
    plain.bind((host, int(port)))
    say("taken by a socket without SO_REUSEADDR")
except OSError:
    pass
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind((host, int(port)))
server.listen()
socket.create_connection((host, int(port))).close()
say("listens")
""")
        self.assertEqual(outcome.status, 0, outcome.err)
        for worker in range(2):
            self.assertEqual(outcome.lines_of(worker), ["listens"])

    def test_workers_inherit_neither_descriptors_nor_blocked_signals(self):
        outcome = self.run_job(["--workers", "3"], """
say(sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:-1])
say(signal.pthread_sigmask(signal.SIG_BLOCK, []))
""")
        for worker in range(3):
            self.assertEqual(outcome.lines_of(worker), ["[0, 1, 2]", "set()"])


class OutputTest(RunTest):
    def test_lines_carry_their_workers_name_and_keep_their_stream(self):
        outcome = self.run_job(["--workers", "2"], """
say("one of", index)
os.write(2, b"error of %d\\n" % index)
say("two of", index)
""")
        self.assertEqual(outcome.status, 0)
        for worker in range(2):
            self.assertEqual(outcome.lines_of(worker), [f"one of {worker}", f"two of {worker}"])
            self.assertEqual(outcome.lines_of(worker, outcome.err), [f"error of {worker}"])
        self.assertEqual(len(outcome.out.splitlines()), 4)
        self.assertEqual(len(outcome.err.splitlines()), 2)

    def test_a_last_line_without_an_end_gets_one(self):
        outcome = self.run_job(["--workers", "2"], 'os.write(1, b"cut off")')
        self.assertEqual(sorted(outcome.raw_out.splitlines(True)),
                         [b"[worker 0] cut off\n", b"[worker 1] cut off\n"])

    def test_what_has_no_line_end_arrives_while_its_worker_runs(self):
        process = self.start(["--workers", "2"], """
if index == 0:
    os.write(1, b"epoch 1 ")
    marked("dots")
    os.write(1, b"...")
    marked("other")
    os.write(1, b" done\\n")
else:
    marked("other")
    say("another")
    mark("said")
    marked("over")
""")
        def read(text):
            self.assertEqual(process.stdout.read(len(text)), text)
        read(b"[worker 0] epoch 1 ")
        (self.folder / "dots").touch()
        read(b"...")  # the same line goes on
        (self.folder / "other").touch()
        (self.folder / "over").touch()
        outcome = self.finish(process)
        self.assertEqual(outcome.status, 0, outcome.err)
        # Who comes second begins a line of its own.
        self.assertIn(outcome.raw_out, (b" done\n[worker 1] another\n",
                                        b"\n[worker 1] another\n[worker 0]  done\n"))

    def test_a_progress_bar_keeps_its_name(self):
        process = self.start([], """
os.write(1, b"10%\\r")
marked("seen")
os.write(1, b"20%\\rdone\\n")
""")
        self.assertEqual(process.stdout.read(15), b"[worker 0] 10%\r")
        (self.folder / "seen").touch()
        outcome = self.finish(process)
        self.assertEqual(outcome.raw_out, b"[worker 0] 20%\r[worker 0] done\n")

    def test_a_folder_of_logs_has_what_each_worker_printed(self):
        logs = self.folder / "deep" / "logs"
        outcome = self.run_job(["--workers", "2", "--log-dir", str(logs), "--max-restarts", "1"],
                               """
say("out of", index)
os.write(2, b"error of %d\\n" % index)
if os.environ["TUTTI_RESTART"] == "0":
    marked("go") if index == 0 else mark("go")
    sys.exit(index)
""")
        self.assertEqual(outcome.status, 0, outcome.err)
        for worker in range(2):
            log = (logs / f"worker-{worker}.log").read_text()
            again = log.split("--- start 2 ---\n")
            for start in again:
                self.assertEqual(sorted(start.splitlines()),
                                 [f"error of {worker}", f"out of {worker}"])
            self.assertEqual(len(again), 2)
        self.assertIn("[worker 1] out of 1\n", outcome.out)
        (self.folder / "file").touch()
        outcome = self.run_job(["--log-dir", str(self.folder / "file" / "logs")], "pass")
        self.assertEqual(outcome.status, 1)
        self.said_once(outcome, "tutti run: cannot make the folder .*/file/logs: .*")

    def test_a_line_arrives_while_its_worker_runs(self):
        process = self.start([], 'print("early"); marked("seen")')
        self.assertEqual(process.stdout.readline(), b"[worker 0] early\n")
        (self.folder / "seen").touch()
        self.assertEqual(self.finish(process).status, 0)

    def test_without_prefix_the_bytes_are_the_workers_own(self):
        content = bytes(range(256)) * 1000 + b"no line end"
        (self.folder / "content").write_bytes(content)
        outcome = self.run_job(["--no-prefix"], """
data = (folder / "content").read_bytes()
while data:
    data = data[os.write(1, data):]
""")
        self.assertEqual(outcome.raw_out, content)

    def test_bytes_that_are_no_text_pass(self):
        outcome = self.run_job([], r'os.write(1, b"a\0b\xff\r\n\n\x80")')
        self.assertEqual(outcome.raw_out,
                         b"[worker 0] a\0b\xff\r\n[worker 0] \n[worker 0] \x80\n")

    def test_an_endless_line_is_cut_in_pieces_and_nothing_is_lost(self):
        outcome = self.run_job([], """
data = b"x" * 1000000 + b"\\n" + b"short\\n"
while data:
    data = data[os.write(1, data):]
""")
        lines = outcome.lines_of(0)
        self.assertEqual(lines[-1], "short")
        self.assertEqual("".join(lines[:-1]), "x" * 1000000)
        self.assertLessEqual(max(map(len, lines)), 64 << 10)

    def test_lines_of_many_workers_never_mix(self):
        # stdout and stderr are one pipe; some lines are longer than a pipe takes at once.
        outcome = self.run_job(["--workers", "8"], """
for line in range(300):
    os.write(1 + line % 2, b"%d:%d:%s.\\n" % (index, line, b"-" * (line * 31 % 6000)))
""", stderr=subprocess.STDOUT)
        self.assertEqual(outcome.status, 0)
        seen = set()
        for line in outcome.out.splitlines():
            match = re.fullmatch(r"\[worker (\d)\] (\d):(\d+):(-*)\.", line)
            self.assertTrue(match, line[:100])
            self.assertEqual(match.group(1), match.group(2))
            self.assertEqual(len(match.group(4)), int(match.group(3)) * 31 % 6000)
            seen.add((match.group(1), match.group(3)))
        self.assertEqual(len(seen), 8 * 300)

    def test_a_reader_that_waits_loses_nothing(self):
        process = self.start(["--workers", "2"], """
for line in range(40000):
    os.write(1, b"%d %s\\n" % (line, b"-" * 100))
mark("written %d" % index)
""")
        # The pipes and the command's memory hold less than the workers write: they must be waiting.
        first = process.stdout.readline()
        self.assertFalse(any((self.folder / f"written {i}").exists() for i in range(2)))
        outcome = self.finish(process)
        self.assertEqual(outcome.status, 0)
        self.assertEqual((first + outcome.raw_out).count(b"\n"), 80000)

    def test_workers_learn_that_nobody_reads(self):
        process = self.start([], """
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
while True:
    say("yes")
""")
        process.stdout.readline()
        process.stdout.close()
        process.stdout = None
        outcome = self.finish(process)
        self.assertEqual(outcome.status, 128 + signal.SIGPIPE)
        self.said_once(outcome, r"tutti run: worker 0 \(pid \d+\) was killed by SIGPIPE \(13\) .*")


class ExitTest(RunTest):
    def test_the_status_is_0_when_all_exit_with_0(self):
        outcome = self.run_job(["--workers", "3"], "sys.exit(0)")
        self.assertEqual((outcome.status, outcome.err), (0, ""))

    def test_256_workers_run(self):
        result = self.run_words("run", "--workers", "256", "--", "sh", "-c", "echo here")
        self.assertEqual((result.status, result.err), (0, ""))
        self.assertEqual(sorted(result.out.splitlines()),
                         sorted(f"[worker {i}] here" for i in range(256)))

    def test_a_worker_that_is_done_early_does_not_end_the_others(self):
        outcome = self.run_job(["--workers", "2", "--grace", "0"], """
if index == 0:
    mark("pid", os.getpid())
    sys.exit(0)
marked("pid")
pid = (folder / "pid").read_text()
until(lambda: not pathlib.Path("/proc", pid).exists())   # reaped: its end has been seen
say("went on")
""")
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertEqual(outcome.lines_of(1), ["went on"])

    def test_the_first_workers_exit_code_is_the_jobs(self):
        outcome = self.run_job(["--workers", "2", "--grace", "1h"], """
if index == 1:
    mark("pid", os.getpid())
    sys.exit(7)
marked("pid")
pid = (folder / "pid").read_text()
until(lambda: not pathlib.Path("/proc", pid).exists())
sys.exit(3)
""")
        self.assertEqual(outcome.status, 7)
        self.said_once(outcome, r"tutti run: worker 1 \(pid \d+\) exited with 7 after [\d.]+ s; "
                                r"worker 0 then exited with 3")

    def test_a_worker_that_lost_a_peer_is_not_to_blame_though_it_ends_first(self):
        outcome = self.run_job(["--workers", "3", "--grace", "1h"], """
if index == 1:
    for other in (0, 2):
        marked("pid %d" % other)
        pid = (folder / ("pid %d" % other)).read_text()
        until(lambda: not pathlib.Path("/proc", pid).exists())
    raise ValueError("no rows in the file")
mark("pid %d" % index, os.getpid())
os.write(2, b"tutti.errors.UnavailableError: all_reduce #3 needs rank 1: worker 1 has left\\n")
sys.exit(1)
""")
        self.assertEqual(outcome.status, 1)
        self.said_once(outcome, r"tutti run: worker 1 \(pid \d+\) exited with 1 after [\d.]+ s: "
                                r"ValueError: no rows in the file; workers 0 and 2 had exited with "
                                r"1 before, for want of a peer")

    def test_a_killed_worker_is_named_with_its_signal(self):
        process = self.start(["--workers", "3", "--grace", "1h"], """
mark("pid %d" % index, os.getpid())
if index == 1:
    forever()
marked("pid 1")
pid = (folder / "pid 1").read_text()
until(lambda: not pathlib.Path("/proc", pid).exists())
say("a peer is gone")
sys.exit(1)
""")
        pid = int(self.read_mark("pid 1"))
        os.kill(pid, signal.SIGKILL)
        outcome = self.finish(process)
        self.assertEqual(outcome.status, 128 + signal.SIGKILL)
        self.assertEqual(outcome.lines_of(0), ["a peer is gone"])
        self.said_once(outcome, rf"tutti run: worker 1 \(pid {pid}\) was killed by SIGKILL \(9\) "
                                r"after [\d.]+ s; workers 0 and 2 then exited with 1")

    def test_the_order_of_deaths_is_kept_however_late_they_are_seen(self):
        # The supervisor sleeps while worker 2, then 1, then 0 die.
        process = self.start(["--workers", "3", "--grace", "1h"], """
mark("pid %d" % index, os.getpid())
marked("die %d" % index)
sys.exit(10 + index)
""")
        pids = [int(self.read_mark(f"pid {i}")) for i in range(3)]
        supervisor = parent_of(pids[0])
        os.kill(supervisor, signal.SIGSTOP)
        for worker in (2, 1, 0):
            (self.folder / f"die {worker}").touch()
            self.until_gone([pids[worker]])
        os.kill(supervisor, signal.SIGCONT)
        outcome = self.finish(process)
        self.assertEqual(outcome.status, 12)
        self.said_once(outcome, r"tutti run: worker 2 .* exited with 12 .*; "
                                r"worker 1 then exited with 11; worker 0 then exited with 10")

    def test_workers_that_do_not_notice_a_death_are_ended(self):
        outcome = self.run_job(["--workers", "2", "--grace", "50ms"], """
if index == 0:
    sys.exit(5)
forever()
""")
        self.assertEqual(outcome.status, 5)
        self.said_once(outcome, r"tutti run: worker 0 .* exited with 5 .*; "
                                r"worker 1 was ended by SIGTERM")

    def test_a_worker_that_ignores_sigterm_is_killed(self):
        outcome = self.run_job(["--workers", "2", "--grace", "50ms"], """
if index == 0:
    marked("deaf")
    sys.exit(5)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
mark("deaf")
forever()
""")
        self.assertEqual(outcome.status, 5)
        self.said_once(outcome, r"tutti run: worker 0 .* exited with 5 .*; "
                                r"worker 1 did not end when asked to and was killed")

    def test_a_stopped_worker_is_ended_too(self):
        outcome = self.run_job(["--workers", "2", "--grace", "50ms"], """
if index == 1:
    mark("pid", os.getpid())
    os.kill(os.getpid(), signal.SIGSTOP)
    forever()
marked("pid")
pid = (folder / "pid").read_text()
until(lambda: pathlib.Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] == "T")
sys.exit(5)
""")
        self.assertEqual(outcome.status, 5)
        self.said_once(outcome, r"tutti run: worker 0 .*; worker 1 was ended by SIGTERM")


class TimeoutTest(RunTest):
    def test_the_time_limit_ends_all(self):
        process = self.start(["--workers", "2", "--timeout", "300ms", "--max-restarts", "3"], """
mark("pid %d" % index, os.getpid())
forever()
""")
        outcome = self.finish(process)
        self.assertEqual(outcome.status, 124)
        self.assertEqual(len(outcome.said()), 1, outcome.err)
        self.said_once(outcome, r"tutti run: the time limit of 0\.3 s is over; worker \d .* was "
                                r"ended by SIGTERM after .*; worker \d was ended by SIGTERM")

    def test_the_time_limit_ends_those_that_ignore_sigterm(self):
        outcome = self.run_job(["--timeout", "1s"], """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
forever()
""")
        self.assertEqual(outcome.status, 124)

    def test_a_job_within_its_limit_knows_nothing_of_it(self):
        outcome = self.run_job(["--timeout", "1h"], "sys.exit(3)")
        self.assertEqual(outcome.status, 3)


class SlurmTest(RunTest):
    """What srun tells a task, without a Slurm."""
    STEP = {"SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "n[1-2]",
            "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1",
            "TUTTI_JOB_SECRET": "0123456789abcdef0123456789abcdef"}

    def task(self, *words, **more):
        self.environment.update({**self.STEP, **more})
        for name in ("TF_CONFIG", "SLURM_NODEID", "SLURM_LOCALID", "SLURM_DISTRIBUTION"):
            self.environment.pop(name, None)
        return self.run_words("run", *words)

    def test_a_task_becomes_the_program(self):
        outcome = self.task("--replicas", "3", "--", "sh", "-c",
                            "echo $TF_CONFIG $TUTTI_REPLICAS; exit 5")
        self.assertEqual((outcome.status, outcome.err), (5, ""))
        config, replicas = outcome.out.rsplit(" ", 1)
        self.assertEqual(json.loads(config), {
            "cluster": {"worker": ["n1:8888", "n2:8888"]}, "task": {"type": "worker", "index": 1}})
        self.assertEqual(replicas, "3\n")

    def test_a_job_needs_a_secret(self):
        outcome = self.task("--", "true", TUTTI_JOB_SECRET="", TUTTI_JOB_SECRET_FILE="")
        self.assertEqual((outcome.status, outcome.out), (2, ""))
        self.assertIn("task 1 of Slurm's step, and the job has no secret", outcome.err)

    def test_restarts_and_limits_are_sruns(self):
        for words in (["--timeout", "5s"], ["--max-restarts", "1"], ["--log-dir", "logs"]):
            outcome = self.task(*words, "--", "true")
            self.assertEqual((outcome.status, outcome.out), (2, ""))
            self.assertIn("are srun's there", outcome.err)

    def test_what_slurm_says_wrongly_is_told(self):
        outcome = self.task("--", "true", SLURM_STEP_NODELIST="n[2-1]")
        self.assertEqual((outcome.status, outcome.out), (1, ""))
        self.assertIn("ends before it begins", outcome.err)

    def test_workers_that_are_asked_for_are_started(self):
        outcome = self.task("--workers", "2", "--no-prefix", "--", "sh", "-c", "echo $TF_CONFIG")
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertEqual(outcome.out.count("127.0.0.1"), 4)


class UsageTest(RunTest):
    def refused(self, words, status, *patterns):
        outcome = self.run_words(*words)
        self.assertEqual((outcome.status, outcome.out), (status, ""), outcome.err)
        for pattern in patterns:
            self.assertRegex(outcome.err, pattern)

    def test_wrong_words_are_explained(self):
        touch = ["--", "touch", str(self.folder / "started")]
        self.refused(["run", "--workers", "0", *touch], 2, r"--workers.*0.*1.*256")
        self.refused(["run", "--workers", "257", *touch], 2, r"--workers.*257.*1.*256")
        self.refused(["run", "--workers", "two", *touch], 2, r"--workers.*two")
        self.refused(["run", "--replicas", "0", *touch], 2, r"--replicas")
        self.refused(["run", "--timeout", "soon", *touch], 2, r"--timeout.*soon.*500ms")
        self.refused(["run", "--max-restarts", "-1", *touch], 2, r"--max-restarts")
        self.refused(["run", "--frobnicate", *touch], 2, r"--frobnicate")
        self.refused(["run", "true"], 2, r'found true before "--".*-- true')
        self.refused(["run"], 2, r"no program; expected")
        self.refused(["run", "--"], 2, r"no program; expected")
        self.assertFalse((self.folder / "started").exists())

    def test_a_program_that_is_not_there_is_one_message_before_anything_starts(self):
        self.refused(["run", "--workers", "4", "--max-restarts", "2", "--", "no-such-program"], 127,
                     r"^tutti run: there is no program no-such-program in PATH\n$")
        self.refused(["run", "--", "/no/such/program"], 127,
                     r"^tutti run: there is no program /no/such/program\n$")

    def test_a_program_that_cannot_be_executed_is_126(self):
        script = self.folder / "script"
        script.write_text("#!/bin/sh\n")
        self.refused(["run", "--", str(self.folder)], 126, r"cannot execute .*: Is a directory")
        script.chmod(0o644)
        self.refused(["run", "--", str(script)], 126, r"cannot execute .*chmod \+x")

    def test_a_script_whose_interpreter_is_missing_says_so(self):
        script = self.folder / "script"
        script.write_text("#!/no/such/interpreter\n")
        script.chmod(0o755)
        self.refused(["run", "--workers", "2", "--max-restarts", "5", "--", str(script)], 127,
                     r"^tutti run: cannot execute .*interpreter.*\n$")

    def test_a_script_without_an_interpreter_is_the_shells(self):
        script = self.folder / "script"
        script.write_text('echo "shell $1"\n')
        script.chmod(0o755)
        outcome = self.run_words("run", "--", str(script), "argument")
        self.assertEqual((outcome.status, outcome.out), (0, "[worker 0] shell argument\n"))

    def test_the_command_explains_itself(self):
        self.refused([], 2, r"Usage: tutti COMMAND")
        self.refused(["frobnicate"], 2, r"there is no command frobnicate", r"Usage: tutti COMMAND")
        for words in (["help"], ["--help"], ["-h"]):
            outcome = self.run_words(*words)
            self.assertEqual((outcome.status, outcome.err), (0, ""))
            self.assertIn("Usage: tutti COMMAND", outcome.out)
        for words in (["help", "run"], ["run", "--help"]):
            outcome = self.run_words(*words)
            self.assertEqual((outcome.status, outcome.err), (0, ""))
            self.assertIn("--max-restarts", outcome.out)
        outcome = self.run_words("--version")
        self.assertRegex(outcome.out, r"^tutti \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    unittest.main()
