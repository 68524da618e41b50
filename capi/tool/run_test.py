#!/usr/bin/env python3
"""`tutti run` as its users see it: small programs as workers, real processes, real signals.

    run_test.py TUTTI [TEST...]      TUTTI is the command under test

Nothing here measures time: what must happen is waited for, and the bounds only stop hangs.
"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

TUTTI = ""
HANG_S = 60

# At the top of each worker program. `index` is its place; `say` prints a line at once; `until`
# waits for something; `forever` waits to be ended.
PRELUDE = """
import json, os, pathlib, signal, socket, subprocess, sys, time
config = json.loads(os.environ["TF_CONFIG"])
index = config["task"]["index"]
folder = pathlib.Path(os.environ.get("FOLDER", "/nonexistent"))
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
def mark(name, text=""):
    (folder / (name + ".new")).write_text(str(text))
    (folder / (name + ".new")).rename(folder / name)
def until(condition):
    give_up = time.monotonic() + 60
    while not condition():
        if time.monotonic() > give_up:
            sys.exit("hangs")
        time.sleep(0.005)
def marked(name):
    until((folder / name).exists)
def forever():
    while True:
        signal.pause()
"""


def is_alive(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def parent_of(pid):
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


class Outcome:
    def __init__(self, status, out, err):
        self.status, self.raw_out = status, out
        self.out, self.err = out.decode(errors="replace"), err.decode(errors="replace")

    def lines_of(self, worker, text=None):
        prefix = f"[worker {worker}] "
        lines = (self.out if text is None else text).splitlines()
        return [line[len(prefix):] for line in lines if line.startswith(prefix)]

    def said(self):
        """What the command itself said."""
        return [line for line in self.err.splitlines() if line.startswith("tutti run: ")]


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("TUTTI_", "TF_"))
                            and not name.endswith("_NUM_THREADS")}
        self.environment["FOLDER"] = str(self.folder)

    def start(self, options, program, arguments=(), **keywords):
        """Starts the command with a Python program as worker."""
        script = self.folder / "worker.py"
        script.write_text(PRELUDE + program)
        keywords.setdefault("stdout", subprocess.PIPE)
        keywords.setdefault("stderr", subprocess.PIPE)
        process = subprocess.Popen([TUTTI, "run", *options, "--", sys.executable, "-S", str(script),
                                    *arguments],
                                   env=self.environment, bufsize=0, **keywords)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()
        process.wait()

    def finish(self, process):
        out, err = process.communicate(timeout=HANG_S)
        return Outcome(process.returncode, out or b"", err or b"")

    def run_job(self, options, program, arguments=(), **keywords):
        return self.finish(self.start(options, program, arguments, **keywords))

    def run_words(self, *words):
        result = subprocess.run([TUTTI, *words], env=self.environment, capture_output=True,
                                timeout=HANG_S)
        return Outcome(result.returncode, result.stdout, result.stderr)

    def until(self, condition, what):
        give_up = time.monotonic() + HANG_S
        while not condition():
            self.assertLess(time.monotonic(), give_up, f"waited in vain for {what}")
            time.sleep(0.005)

    def until_marked(self, *names):
        for name in names:
            self.until((self.folder / name).exists, name)

    def read_mark(self, name):
        self.until_marked(name)
        return (self.folder / name).read_text()

    def until_gone(self, pids):
        self.until(lambda: not any(is_alive(pid) for pid in pids), f"the end of {pids}")

    def said_once(self, outcome, pattern):
        found = [line for line in outcome.said() if re.fullmatch(pattern, line)]
        self.assertEqual(len(found), 1, f"{pattern} in:\n{outcome.err}")


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


# Starts a daemon in the old way (a child's child in a session of its own, its descriptors closed),
# and waits until it runs.
DAEMON = """
def start_daemon(name):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            if "keep" not in name:
                for fd in range(3):
                    os.close(fd)
            mark(name, os.getpid())
            forever()
        os._exit(0)
    os.wait()
    marked(name)
"""


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
    TUTTI = os.path.abspath(sys.argv.pop(1))
    unittest.main()
