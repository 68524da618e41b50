"""What the library tells by itself: futures that are done, lines of the log."""

import subprocess
import sys
import threading
import unittest
import weakref

import tutti
from tutti.data import Dataset, Options

HANG_S = 60


class Unraisable:
    """Collects what reaches sys.unraisablehook."""

    def __enter__(self):
        self.errors, self.came = [], threading.Event()
        self._before, sys.unraisablehook = sys.unraisablehook, self._take
        return self

    def _take(self, unraisable):
        self.errors.append(unraisable.exc_value)
        self.came.set()

    def __exit__(self, *_):
        sys.unraisablehook = self._before


def warn():
    """Makes the library log one warning."""
    inputs = []
    for deterministic in (True, False):
        options = Options()
        options.deterministic = deterministic
        inputs.append(Dataset.range(1).with_options(options))
    inputs[0].concatenate(inputs[1])


class FutureTest(unittest.TestCase):
    def test_a_callback_is_told_once_whether_it_comes_before_the_end_or_after_it(self):
        future, told, done = tutti.Future(), [], threading.Event()
        future.add_done_callback(told.append)
        self.assertEqual(told, [])
        future.set_result(3)
        future.add_done_callback(lambda f: (told.append(f), done.set()))
        self.assertTrue(done.wait(HANG_S))
        self.assertEqual(told, [future, future])
        self.assertEqual(told[0].result(), 3)

    def test_a_callback_reads_the_result(self):
        future, read, done = tutti.Future(), [], threading.Event()
        future.add_done_callback(lambda f: (read.append(f.result()), done.set()))
        future.set_result({"a": (1, "x"), "b": None})
        self.assertTrue(done.wait(HANG_S))
        self.assertEqual(read, [{"a": (1, "x"), "b": None}])

    def test_an_exception_in_a_callback_is_reported_and_the_next_one_runs(self):
        future, done = tutti.Future(), threading.Event()

        def fail(_):
            raise KeyError("mine")

        with Unraisable() as unraisable:
            future.add_done_callback(fail)
            future.add_done_callback(lambda _: done.set())
            future.set_exception(ValueError("no"))
            self.assertTrue(done.wait(HANG_S))
            self.assertTrue(unraisable.came.wait(HANG_S))
        self.assertEqual([repr(e) for e in unraisable.errors], ["KeyError('mine')"])

    def test_a_callback_is_let_go_after_it_ran(self):
        class Token:
            pass

        token, gone = Token(), threading.Event()
        weakref.finalize(token, gone.set)
        future = tutti.Future()
        future.add_done_callback(lambda _, token=token: None)
        del token
        self.assertFalse(gone.is_set())
        future.set_result(1)
        tutti.shutdown()
        self.assertTrue(gone.wait(HANG_S))

    def test_what_is_no_function_is_a_type_error(self):
        with self.assertRaises(TypeError):
            tutti.Future().add_done_callback(3)


class LogTest(unittest.TestCase):
    def tearDown(self):
        tutti.config.set_log_sink(None)

    def test_a_warning_reaches_the_sink_of_its_runtime_alone(self):
        outer, inner = [], []
        tutti.config.set_log_sink(lambda *line: outer.append(line))
        with tutti.Runtime() as runtime, runtime.as_default():
            runtime.set_log_sink(lambda *line: inner.append(line))
            warn()
        self.assertEqual([level for level, _ in inner], ["warning"])
        self.assertIn("deterministic", inner[0][1])
        self.assertEqual(outer, [])

    def test_a_sink_that_raises_is_reported_and_the_call_that_logged_succeeds(self):
        def sink(level, line):
            raise KeyError(level)

        tutti.config.set_log_sink(sink)
        with Unraisable() as unraisable:
            warn()
        self.assertEqual([repr(e) for e in unraisable.errors], ["KeyError('warning')"])

    def test_what_is_logged_while_a_sink_runs_waits_for_nothing_and_follows(self):
        lines = []

        def sink(level, line):
            lines.append(line)
            if len(lines) == 1:
                thread = threading.Thread(target=warn)
                thread.start()
                thread.join(HANG_S)
                lines.append(f"the first is over, alive: {thread.is_alive()}")

        tutti.config.set_log_sink(sink)
        warn()
        self.assertEqual(len(lines), 3)
        self.assertEqual(lines[1], "the first is over, alive: False")

    def test_a_sink_that_calls_the_library_is_refused_and_stays(self):
        lines = []

        def sink(level, line):
            lines.append(line)
            tutti.config.set_log_sink(None)

        tutti.config.set_log_sink(sink)
        with Unraisable() as unraisable:
            warn()
            warn()
        self.assertEqual([type(e) for e in unraisable.errors],
                         [tutti.errors.FailedPreconditionError] * 2)
        self.assertEqual(len(lines), 2)

    def test_a_sink_is_replaced_while_other_threads_log(self):
        lines = [[], []]
        sinks = [lambda *line: lines[0].append(line), lambda *line: lines[1].append(line)]
        tutti.config.set_log_sink(sinks[0])
        threads = [threading.Thread(target=lambda: [warn() for _ in range(50)]) for _ in range(2)]
        for thread in threads:
            thread.start()
        for i in range(50):
            tutti.config.set_log_sink(sinks[i % 2])
        for thread in threads:
            thread.join(HANG_S)
            self.assertFalse(thread.is_alive())
        tutti.config.set_log_sink(None)
        self.assertEqual(len(lines[0]) + len(lines[1]), 100)

    def test_a_process_ends_in_peace_with_a_sink_that_was_never_taken_back(self):
        ended = subprocess.run(
            [sys.executable, "-B", "-c",
             "import sys; sys.path.insert(0, sys.argv[1])\n"
             "import tutti, notification_test as test\n"
             "tutti.config.set_log_sink(lambda level, line: print('sunk', level))\n"
             "test.warn()\n", sys.path[0]],
            capture_output=True, text=True, timeout=HANG_S)
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "sunk warning\n", ""))

    def test_what_is_no_function_is_a_type_error(self):
        with self.assertRaises(TypeError):
            tutti.config.set_log_sink("stderr")


if __name__ == "__main__":
    unittest.main()
