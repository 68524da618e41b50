"""Life and death: shutdown and start again, exit, fork, Ctrl-C, storms of the garbage collector."""

import gc
import signal
import subprocess
import sys
import threading
import time
import unittest

import numpy as np

import tutti
from tutti import errors
from tutti.data import Dataset

HANG_S = 60


def python(program, **options):
    return subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True,
                          timeout=HANG_S, **options)


class ShutdownTest(unittest.TestCase):
    def test_what_belonged_to_it_is_refused_and_it_starts_again(self):
        strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        strategy.run(lambda: None)
        with strategy.scope():
            variable = tutti.Variable(np.zeros(3))
        iterator = iter(Dataset.range(3))
        view = variable.data()
        tutti.shutdown()
        tutti.shutdown()
        for use in (lambda: strategy.run(lambda: None), lambda: next(iterator),
                    lambda: variable.assign(np.ones(3)), lambda: strategy.reduce("mean", 1)):
            with self.assertRaises(errors.FailedPreconditionError):
                use()
        self.assertEqual(view.tolist(), [0, 0, 0])
        self.assertEqual(list(Dataset.range(3)), [0, 1, 2])
        self.assertEqual(tutti.distribute.get_strategy().run(lambda: 1), 1)

    def test_a_runtime_of_its_own_is_apart_from_the_default_one(self):
        with tutti.Runtime(log_level="error") as runtime:
            with runtime.as_default():
                self.assertEqual(tutti.config.get("log_level"), "error")
                dataset = Dataset.range(3).map(lambda x: np.full(2, x))
                self.assertEqual(tutti.distribute.get_strategy().run(lambda: 1), 1)
            self.assertEqual(len(list(dataset)), 3)
            self.assertTrue(runtime.is_running)
        self.assertFalse(runtime.is_running)
        with self.assertRaises(errors.FailedPreconditionError):
            list(dataset)
        self.assertEqual(list(Dataset.range(1)), [0])

    def test_settings_are_read_and_written(self):
        before = tutti.config.get("log_level")
        tutti.config.set("log_level", "warning")
        self.assertEqual(tutti.config.get("log_level"), "warning")
        tutti.config.set("log_level", before)
        self.assertIn("compute_threads", tutti.config.describe())
        with self.assertRaises(ValueError):
            tutti.config.set("no_such_setting", 1)
        with self.assertRaises(ValueError):
            tutti.Runtime(no_such_setting=1)

    def test_a_random_seed_stands_behind_every_shuffle(self):
        tutti.config.set_random_seed(5)
        first = list(Dataset.range(50).shuffle(50))
        tutti.config.set_random_seed(5)
        second = list(Dataset.range(50).shuffle(50))
        tutti.config.set_random_seed(None)
        self.assertEqual(first, second)


class ProcessTest(unittest.TestCase):
    def test_a_process_ends_without_shutdown_while_everything_is_alive(self):
        done = python("""
import numpy as np, tutti
strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    variable = tutti.Variable(np.zeros(1000))
endless = tutti.data.Dataset.range(5).repeat().map(lambda x: np.full(1000, x)).prefetch(4)
iterator = iter(endless)
steps = iter(strategy.distribute_dataset(endless.batch(4)))
batch = next(steps)
result = strategy.run(lambda b: b * 2, args=(batch,))
generator = iter(tutti.data.Dataset.from_generator(lambda: iter(int, 1),
                 output_signature=tutti.TensorSpec((), np.int64)).prefetch(2))
print(int(next(iterator).sum()), int(next(generator)), flush=True)
""")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "0 0\n")

    def test_a_process_ends_with_another_thread_inside_a_call(self):
        done = python("""
import threading, numpy as np, tutti
first, second = tutti.Communicator.create_local(2)
inside = threading.Event()
def wait():
    inside.set()
    try:
        first.barrier()
    except tutti.errors.Error as error:
        pass
threading.Thread(target=wait, daemon=True).start()
inside.wait()
print("end", flush=True)
""")
        self.assertEqual((done.returncode, done.stdout), (0, "end\n"), done.stderr)

    def test_a_process_ends_while_daemon_threads_iterate(self):
        program = """
import threading, numpy as np, tutti
from tutti.data import Dataset
began = threading.Semaphore(0)
def iterate(parallel):
    while True:
        try:
            dataset = Dataset.range(100).map(lambda x: np.full(8, x), num_parallel_calls=parallel)
            for i, _ in enumerate(dataset.prefetch(2)):
                began.release()
                if i > 3:
                    break
        except tutti.errors.CancelledError:
            pass  # it was closed under the hands of the thread
        except tutti.errors.FailedPreconditionError:
            return
for parallel in (None, 2):
    threading.Thread(target=iterate, args=(parallel,), daemon=True).start()
for _ in range(%d):
    began.acquire()
"""
        for run in range(8):
            done = python(program % (run * 3 + 1))
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""), run)

    def test_at_exit_nothing_starts_the_default_runtime_again(self):
        done = python("""
import atexit, threading
def after_the_end():
    for use in (lambda: Dataset.range(3), lambda: tutti.config.get("log_level"),
                tutti.distribute.MirroredStrategy):
        try:
            use()
        except tutti.errors.FailedPreconditionError as error:
            print("about to exit" in str(error))
    tutti.shutdown()
atexit.register(after_the_end)  # later than the package's own: the last comes first
import tutti
from tutti.data import Dataset
print([int(number) for number in Dataset.range(3)])
""")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "[0, 1, 2]\nTrue\nTrue\nTrue\n")

    def test_a_forked_child_is_told_so_and_ends_in_peace(self):
        done = python("""
import os, sys, tutti
strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
strategy.run(lambda: None)
numbers = tutti.data.Dataset.range(3)
child = os.fork()
if child == 0:
    seen = []
    for use in (lambda: strategy.run(lambda: None), lambda: list(numbers),
                lambda: tutti.data.Dataset.range(3)):
        try:
            use()
        except tutti.errors.FailedPreconditionError as error:
            seen.append("fork" in str(error))
    del strategy, numbers
    sys.exit(0 if seen == [True] * 3 else 1)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(status, [int(number) for number in numbers], strategy.run(lambda: None))
""")
        self.assertEqual((done.returncode, done.stdout), (0, "0 [0, 1, 2] None\n"), done.stderr)

    def test_a_subinterpreter_is_refused(self):
        done = python("""
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    print("refused")
else:
    import sys
    other = interpreters.create(isolated=False)
    interpreters.run_string(other, '''
try:
    import tutti
except ImportError as error:
    assert "subinterpreter" in str(error), error
    print("refused", flush=True)
''')
""")
        self.assertEqual(done.stdout, "refused\n", done.stderr)

    def test_a_program_that_fails_shows_the_frames_of_its_callback(self):
        done = python("""
import tutti
def careless(x):
    return 1 // (x - x)
list(tutti.data.Dataset.range(3).map(lambda x: careless(int(x))))
""")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ZeroDivisionError", done.stderr)
        self.assertIn("in careless", done.stderr)


class InterruptTest(unittest.TestCase):
    """Ctrl-C ends a blocked call. The bound here only means that nothing hangs; the time that it
    takes is printed."""

    WAITS = {
        "barrier": "ranks = tutti.Communicator.create_local(2); ranks[0].barrier()",
        "all_reduce of one replica alone": """
strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
def step():
    replica = tutti.distribute.get_replica_context()
    if replica.replica_id_in_sync_group == 0:
        replica.all_reduce("sum", 1)
    else:
        while not replica.is_cancelled:
            time.sleep(0.001)
strategy.run(step)""",
        "next of a prefetched dataset": """
never = threading.Event()
def nothing():
    while not never.wait(0.01):
        pass
    yield 1
dataset = tutti.data.Dataset.from_generator(nothing,
    output_signature=tutti.TensorSpec((), np.int64)).prefetch(1)
try:
    next(iter(dataset))
finally:
    caught = time.time()
    never.set()""",
        "future": "tutti.Future().wait()",
    }

    def test_a_blocked_call_ends_by_ctrl_c(self):
        for name, wait in self.WAITS.items():
            with self.subTest(name):
                program = f"""
import sys, threading, time, numpy as np, tutti
caught = None
print("ready", flush=True)
try:
{chr(10).join("    " + line for line in wait.strip().splitlines())}
except KeyboardInterrupt:
    print(caught or time.time(), flush=True)
"""
                with subprocess.Popen([sys.executable, "-B", "-c", program], text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                    try:
                        self.assertEqual(process.stdout.readline(), "ready\n")
                        self.wait_until_blocked(process.pid)
                        sent = time.time()
                        process.send_signal(signal.SIGINT)
                        out, error = process.communicate(timeout=HANG_S)
                    finally:
                        process.kill()
                self.assertEqual(process.returncode, 0, error)
                print(f"{name}: {1000 * (float(out) - sent):.0f} ms", file=sys.stderr)

    def wait_until_blocked(self, pid):
        """Until the main thread sleeps for good: its processor time stands still."""
        def spent():
            with open(f"/proc/{pid}/task/{pid}/schedstat") as file:
                return file.read().split()[0]

        end = time.monotonic() + HANG_S
        before = None
        while time.monotonic() < end:
            now = spent()
            with open(f"/proc/{pid}/task/{pid}/stat") as file:
                state = file.read().rpartition(")")[2].split()[0]
            if state == "S" and now == before:
                return
            before = now
            threading.Event().wait(0.02)
        self.fail("the process does not come to rest")

    def test_an_interrupt_inside_a_replica_comes_out_as_itself(self):
        strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

        def step():
            replica = tutti.distribute.get_replica_context()
            if replica.replica_id_in_sync_group == 0:
                signal.raise_signal(signal.SIGINT)
            replica.all_reduce("sum", 1)

        with self.assertRaises(KeyboardInterrupt):
            strategy.run(step)
        self.assertIsNone(strategy.run(lambda: None))

    def test_a_group_whose_making_was_interrupted_has_lost_that_rank(self):
        one, two = tutti.Communicator.create_local(2)
        parts = []
        other = threading.Thread(target=lambda: parts.append(two.split(0, timeout=HANG_S)))

        place = None

        def handler(_, frame):  # lets the call that it interrupts succeed
            nonlocal place
            before, place = place, (frame.f_code.co_name, frame.f_lasti)
            # At the same instruction twice it is the native call, not something on the way there.
            if frame.f_code.co_name != "split" or place != before:
                signal.setitimer(signal.ITIMER_REAL, 0.02)
                return
            other.start()
            other.join(HANG_S)
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with self.assertRaises(KeyboardInterrupt):
                one.split(0, timeout=HANG_S)
        finally:
            signal.signal(signal.SIGALRM, before)
        part, = parts
        with self.assertRaises(errors.UnavailableError):
            part.barrier(timeout=HANG_S)

    def test_a_signal_handler_runs_while_a_call_waits(self):
        seen = []
        before = signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            first, _ = tutti.Communicator.create_local(2)
            with self.assertRaises(TimeoutError):
                first.barrier(timeout=0.5)
            self.assertEqual(seen, [1])
        finally:
            signal.signal(signal.SIGALRM, before)


class StormTest(unittest.TestCase):
    def test_the_garbage_collector_storms_while_callbacks_run(self):
        stop = threading.Event()

        def storm():
            while not stop.is_set():
                gc.collect()

        strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1", "CPU:2"])

        def step(batch, extra):
            replica = tutti.distribute.get_replica_context()
            cycle = [batch, extra]
            cycle.append(cycle)
            total = replica.all_reduce("sum", np.full(100, float(batch["x"].sum())))
            return {"total": total, "cycle": cycle[0]["x"] * 2}

        def row(i):
            cycle = [np.full(50, i)]
            cycle.append(cycle)
            return {"x": cycle[0]}

        storms = [threading.Thread(target=storm) for _ in range(2)]
        for thread in storms:
            thread.start()
        try:
            for _ in range(5):
                dataset = Dataset.range(60).map(row).prefetch(4).batch(6)
                kept = []
                for batch in strategy.distribute_dataset(dataset):
                    result = strategy.run(step, args=(batch, np.arange(1000.0)))
                    kept.append((batch, result))
                totals = [strategy.local_results(r)[0]["total"][0] for _, r in kept]
                self.assertEqual(sum(totals), 50 * sum(range(60)))
        finally:
            stop.set()
            for thread in storms:
                thread.join()

    def test_iterators_are_dropped_while_their_threads_work(self):
        for _ in range(50):
            iterator = iter(Dataset.range(1000).map(lambda x: np.full(10, x)).prefetch(8))
            next(iterator)
            del iterator
        gc.collect()

    def test_many_threads_iterate_at_once(self):
        sums = []

        def work():
            dataset = Dataset.range(300).map(lambda x: np.full(3, x)).batch(7)
            sums.append(sum(int(batch.sum()) for batch in dataset))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANG_S)
        self.assertEqual(sums, [3 * sum(range(300))] * 8)

    def test_callbacks_and_their_objects_are_let_go(self):
        class Token:
            pass

        import weakref

        token = Token()
        gone = weakref.ref(token)
        dataset = Dataset.range(3).map(lambda x, token=token: x)
        list(dataset)
        del dataset, token
        tutti.shutdown()  # runs what the library still has to let go of
        for _ in range(1000):
            if gone() is None:
                break
            gc.collect()
        self.assertIsNone(gone())


if __name__ == "__main__":
    unittest.main()
