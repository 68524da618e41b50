"""What the tests of `tutti run`, `bench` and `trace` share: the command in a folder of its
own, jobs of small programs as workers, real processes, real signals. Nothing there measures time:
what must happen is waited for, and the bounds only stop hangs.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

TUTTI = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""  # the command under test
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


def stat_of(pid):
    """(state, parent) of a process that there is."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, parent = stat.rpartition(")")[2].split()[:2]
    return state, int(parent)


def is_alive(pid):
    return (stat_of(pid) or "X")[0] not in "ZX"


def parent_of(pid):
    return stat_of(pid)[1]


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


class CommandTest(unittest.TestCase):
    hang_s = HANG_S

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("TUTTI_", "TF_"))}

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()
        process.wait()

    def until(self, condition, what):
        give_up = time.monotonic() + self.hang_s
        while not condition():
            self.assertLess(time.monotonic(), give_up, f"waited in vain for {what}")
            time.sleep(0.005)

    def until_gone(self, pids):
        self.until(lambda: not any(is_alive(pid) for pid in pids), f"the end of {pids}")


class RunTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.environment = {name: value for name, value in self.environment.items()
                            if not name.endswith("_NUM_THREADS")}
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

    def finish(self, process):
        out, err = process.communicate(timeout=HANG_S)
        return Outcome(process.returncode, out or b"", err or b"")

    def run_job(self, options, program, arguments=(), **keywords):
        return self.finish(self.start(options, program, arguments, **keywords))

    def run_words(self, *words):
        result = subprocess.run([TUTTI, *words], env=self.environment, capture_output=True,
                                timeout=HANG_S)
        return Outcome(result.returncode, result.stdout, result.stderr)

    def until_marked(self, *names):
        for name in names:
            self.until((self.folder / name).exists, name)

    def read_mark(self, name):
        self.until_marked(name)
        return (self.folder / name).read_text()

    def said_once(self, outcome, pattern):
        found = [line for line in outcome.said() if re.fullmatch(pattern, line)]
        self.assertEqual(len(found), 1, f"{pattern} in:\n{outcome.err}")


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
