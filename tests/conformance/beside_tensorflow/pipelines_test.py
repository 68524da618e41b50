"""Random pipelines in tf.data and in tutti.data: elements (order, dtype, bits), element_spec,
cardinality and classes of errors are the same.

    pipelines_test.py

What a pipeline is follows from its seed, which is printed where they differ.
TUTTI_TEST_SEED=1234 repeats one and prints it, TUTTI_TEST_FIRST_SEED=1000 begins there, and
TUTTI_TEST_SCALE=2500 makes 10,000 of the 400; up to 100 nothing new begins after 120 seconds. Exits
with 77, which CTest shows as skipped, when TensorFlow is not installed here.

The pipelines run in a process of their own, because a few of them kill TensorFlow or make it hang:
it is started anew behind one of those, which counts as left out. Where the library does, that is a
failure.
"""

import faulthandler
import importlib.util
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings

import runs

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
PIPELINES = 400
MOST_S = 120
MOST_STEPS = 6
# In which a child says nothing: while it imports TensorFlow, and of one pipeline.
IMPORTS_S, HANGS_S = 400, 120
LEFT_OUT_AT_MOST = 0.02  # of the pipelines


def run(first, end, only):
    """The child: pipelines first up to end. Each line that begins with @ is for the parent."""
    import logging

    import numpy as np
    import tensorflow as tf

    from files import Files
    from walk import Difference, Rows, Walk

    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    with tempfile.TemporaryDirectory() as folder:
        files = Files(folder)
        for seed in range(first, end):
            print(f"@begins {seed}", flush=True)
            walk = Walk(seed, files, tells=only)
            Rows.tells = lambda side: print(f"@of {side}", flush=True)
            try:
                walk.run(MOST_STEPS)
            except Difference as told:
                print(f"DIFFERENT {walk.text()}\n  {told}\n@differs", flush=True)
            except Exception:
                print(f"BROKEN {walk.text()}\n{traceback.format_exc()}\n@differs", flush=True)
    print("@done", flush=True)


class Child:
    """Reads what a child prints: where it is, and what differs."""

    def __init__(self, first, end, only, ends_at):
        self.at, self.of, self.failed, self.is_done = None, "", 0, False
        self._ends_at = ends_at
        command = [sys.executable, "-B", "-X", "faulthandler", os.path.abspath(__file__), "--child",
                   str(first), str(end), str(int(only))]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                         text=True, errors="replace")
        self._heard = threading.Event()
        self.is_late = self.hangs = False

    def watch(self):
        """Ends a child that says nothing for a while."""
        while self._process.poll() is None:
            limit = IMPORTS_S if self.at is None else HANGS_S
            if not self._heard.wait(limit) and self._process.poll() is None:
                self.hangs = True
                self._process.kill()
                return
            self._heard.clear()

    def follow(self):
        watcher = threading.Thread(target=self.watch)
        watcher.start()
        noise = []
        for line in self._process.stdout:
            self._heard.set()
            if line.startswith("@begins"):
                self.at, self.of, noise = int(line.split()[1]), "", []
                if time.monotonic() >= self._ends_at:
                    self.is_late = True
                    self._process.kill()
                    break
            elif line.startswith("@of"):
                self.of = line.split()[1]
            elif line.startswith("@differs"):
                self.failed += 1
            elif line.startswith("@done"):
                self.is_done = True
            else:
                noise.append(line)
                if self.at is not None:
                    sys.stdout.write(line)
                    sys.stdout.flush()
        self._process.wait()
        self._heard.set()
        watcher.join()
        if self.at is None:
            sys.stdout.write("".join(noise))


def main():
    if importlib.util.find_spec("tensorflow") is None:
        print(f"SKIPPED: tensorflow is not installed for {sys.executable}")
        return 77
    only = os.environ.get("TUTTI_TEST_SEED")
    first, wanted, most_s = runs.of(PIPELINES, MOST_S)
    begun = time.monotonic()
    ends_at = begun + most_s
    at, failed, left_out = first, 0, []
    while at < first + wanted:
        child = Child(at, first + wanted, bool(only), ends_at)
        child.follow()
        failed += child.failed
        if child.is_done:
            at = first + wanted
        elif child.at is None:
            print("a process that compares pipelines ended before the first one")
            return 1
        elif child.is_late:
            at = child.at
            break
        else:
            how = "hung" if child.hangs else "died"
            at = child.at + 1
            print(f"seed {child.at}: {child.of or 'who builds it'} {how}", flush=True)
            if child.of == "tf.data":
                left_out.append(child.at)
            else:
                failed += 1
    done = at - first
    print(f"pipelines: {done} of {wanted} in {time.monotonic() - begun:.1f} s, {failed} differ, "
          f"{len(left_out)} left out, which TensorFlow does not survive")
    if len(left_out) > 2 + LEFT_OUT_AT_MOST * done:
        print("too many are left out")
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        faulthandler.enable()
        run(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "1")
        sys.exit(0)
    sys.exit(main())
