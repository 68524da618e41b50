#!/usr/bin/env python3
"""The lines that say how far long commands are: on a terminal, taken away at the end, and nowhere
else unless they are asked for.

    progress_test.py TUTTI [TEST...]      TUTTI is the command under test
"""

import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import unittest

from run_testing import HANG_S, PRELUDE, RunTest, TUTTI

CLEAR = "\r\x1b[K"


class Terminal:
    """A terminal for a command's standard error, and what has come out at its other end."""

    def __init__(self, test):
        self.ours, self.its = pty.openpty()
        self.text = ""
        test.addCleanup(os.close, self.ours)

    def run(self, *words, **keywords):
        process = subprocess.Popen(words, stderr=self.its, **keywords)
        os.close(self.its)
        return process

    def read(self):
        """False when nobody writes any more."""
        if not select.select([self.ours], [], [], HANG_S)[0]:
            raise AssertionError(f"nothing comes behind {self.text!r}")
        try:
            piece = os.read(self.ours, 1 << 16)
        except OSError:  # EIO: the other end is closed
            return False
        self.text += piece.decode(errors="replace")
        return bool(piece)

    def read_until(self, text):
        while text not in self.text:
            if not self.read():
                raise AssertionError(f"{text!r} is not in {self.text!r}")

    def left(self):
        """What is to be seen at the end; what a line was before it was written anew is not."""
        while self.read():
            pass
        lines = self.text.replace("\r\n", "\n").split("\n")
        return "\n".join(line.rpartition(CLEAR)[2] for line in lines)


class DoctorProgressTest(RunTest):
    words = (TUTTI, "doctor", "--json")

    def setUp(self):
        super().setUp()
        self.environment["TUTTI_LOG_LEVEL"] = "error"

    def test_a_terminal_sees_which_subject_it_is_at(self):
        terminal = Terminal(self)
        process = terminal.run(*self.words, stdout=subprocess.PIPE, env=self.environment)
        self.addCleanup(self.end, process)
        out, _ = process.communicate(timeout=HANG_S)
        self.assertIn("resolvers", json.loads(out))
        self.assertEqual(terminal.left(), "")
        self.assertIn("\rtutti doctor: library (1 of 9)", terminal.text)
        self.assertIn("\rtutti doctor: KubernetesClusterResolver (8 of 9)", terminal.text)
        self.assertTrue(terminal.text.endswith("(9 of 9)\x1b[K" + CLEAR), terminal.text)

    def test_who_asks_has_a_line_for_each_and_a_pipe_nothing(self):
        def said(*words):
            return subprocess.run([*self.words, *words], env=self.environment, text=True,
                                  capture_output=True, timeout=HANG_S)
        self.assertEqual(said().stderr, "")
        lines = said("--progress", "lines").stderr.splitlines()
        self.assertEqual(len(lines), 9)
        self.assertEqual(lines[2], "tutti doctor: network (3 of 9)")
        refused = said("--progress", "dots")
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertIn("--progress", refused.stderr)


class TraceProgressTest(RunTest):
    def setUp(self):
        super().setUp()
        for worker in range(3):
            (self.folder / f"flight-{worker}.json").write_text(json.dumps({
                "tutti_flight_record": 2, "job": "5f", "worker": worker, "host": "h", "boot": "b",
                "pid": 4711 + worker, "wall_ns": 20, "monotonic_ns": 10, "subjects": [],
                "events": [{"index": 0, "time_ns": 5, "thread": 9, "name": "start",
                            "phase": "instant", "arguments": {}}]}))

    def words(self, *more):
        return (TUTTI, "trace", str(self.folder), "-o", str(self.folder / "trace.json"), *more)

    def test_a_terminal_sees_how_many_files_are_read(self):
        terminal = Terminal(self)
        process = terminal.run(*self.words(), stdout=subprocess.PIPE, env=self.environment)
        self.addCleanup(self.end, process)
        out, _ = process.communicate(timeout=HANG_S)
        self.assertIn(b"3 events of 3 processes", out)
        self.assertEqual(terminal.left(), "")
        self.assertIn("\rtutti trace: 0 of 3 files (0 %), ", terminal.text)
        self.assertIn("\rtutti trace: 3 of 3 files (100 %), ", terminal.text)
        self.assertTrue(terminal.text.endswith("making the timeline\x1b[K" + CLEAR))

    def test_what_is_wrong_stands_in_a_line_of_its_own(self):
        (self.folder / "flight-1.json").write_text("{}")
        terminal = Terminal(self)
        process = terminal.run(*self.words(), stdout=subprocess.PIPE, env=self.environment)
        self.addCleanup(self.end, process)
        process.communicate(timeout=HANG_S)
        self.assertEqual(process.returncode, 1)
        self.assertEqual(terminal.left(), f"tutti trace: cannot use {self.folder}/flight-1.json: "
                                          "it is no flight record of Tutti\n")

    def test_a_pipe_gets_nothing_unless_it_is_asked_for(self):
        def said(*words):
            return subprocess.run(self.words(*words), env=self.environment, text=True,
                                  capture_output=True, timeout=HANG_S).stderr
        self.assertEqual(said(), "")
        self.assertIn("tutti trace: 2 of 3 files (66 %), ", said("--progress", "lines"))


class RunProgressTest(RunTest):
    def begin(self, program, *options):
        """A job whose standard error is a terminal."""
        script = self.folder / "worker.py"
        script.write_text(PRELUDE + program)
        terminal = Terminal(self)
        process = terminal.run(TUTTI, "run", *options, "--", sys.executable, "-S", str(script),
                               stdout=subprocess.PIPE, env=self.environment)
        self.addCleanup(self.end, process)
        return process, terminal

    def test_workers_that_print_nothing_are_counted_until_they_do(self):
        process, terminal = self.begin("""
marked("seen")
os.write(2, b"here\\n")
""", "--workers", "2")
        terminal.read_until("tutti run: 2 of 2 workers run; no output for ")
        pathlib.Path(self.folder / "seen").touch()
        left = terminal.left()
        process.communicate(timeout=HANG_S)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(sorted(left.splitlines()), ["[worker 0] here", "[worker 1] here"])

    def test_who_has_to_end_is_counted(self):
        process, terminal = self.begin("""
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
say("ready")
mark(f"ready {index}")
marked(f"end {index}")
""", "--workers", "2", "--grace", "1h")
        self.until_marked("ready 0", "ready 1")
        process.send_signal(signal.SIGINT)
        terminal.read_until("tutti run: waiting for 2 of 2 workers to end")
        pathlib.Path(self.folder / "end 0").touch()
        terminal.read_until("tutti run: waiting for 1 of 2 workers to end")
        pathlib.Path(self.folder / "end 1").touch()
        left = terminal.left()
        process.communicate(timeout=HANG_S)
        self.assertEqual(process.returncode, 0)
        self.assertRegex(left, r"\Atutti run: SIGINT: the workers have .* to end; a second one "
                               r"kills them\n\Z")

    def test_a_prompt_is_not_written_over(self):
        process, terminal = self.begin("""
if index == 0:
    os.write(2, b"which one? ")
    marked("end")
else:
    marked("asked")
    mark("pid", os.getpid())
    sys.exit(3)
""", "--workers", "2", "--grace", "1h")
        terminal.read_until("which one? ")
        pathlib.Path(self.folder / "asked").touch()
        self.until_gone([int(self.read_mark("pid"))])
        pathlib.Path(self.folder / "end").touch()
        terminal.left()
        process.communicate(timeout=HANG_S)
        self.assertEqual(process.returncode, 3)
        self.assertIn("[worker 0] which one? \r\n", terminal.text)

    def test_it_is_quiet_where_no_terminal_is_or_when_asked_to_be(self):
        program = """
signal.signal(signal.SIGINT, signal.SIG_IGN)
mark("ready")
marked("end")
"""
        process = self.start(["--grace", "1h"], program)
        self.until_marked("ready")
        process.send_signal(signal.SIGINT)
        pathlib.Path(self.folder / "end").touch()
        outcome = self.finish(process)
        self.assertNotIn("waiting for", outcome.err)
        self.assertNotIn("\r", outcome.err)
        for name in ("ready", "end"):
            pathlib.Path(self.folder / name).unlink()
        process, terminal = self.begin(program, "--grace", "1h", "--progress", "off")
        self.until_marked("ready")
        process.send_signal(signal.SIGINT)
        terminal.read_until("kills them")
        pathlib.Path(self.folder / "end").touch()
        self.assertNotIn("waiting for", terminal.left())
        process.communicate(timeout=HANG_S)


if __name__ == "__main__":
    unittest.main()
