#!/usr/bin/env python3
"""What AUTOTUNE reaches of the best setting by hand: a map of 2 ms over reads of 4 ms.

    autotune.py --tutti FOLDER [--peer PYTHON] [--tf PYTHON] [--quick]

FOLDER holds the package tutti. PYTHON of --peer is an interpreter that can import PyTorch, whose
DataLoader then runs the same work with the best of several numbers of worker processes; that of
--tf can import TensorFlow, whose tf.data then runs it with its AUTOTUNE, and with the best fixed
number of calls. The table has elements per second; with AUTOTUNE a second time without the first
second, in which it finds out. Reads and maps wait (sleep), as those of files and networks do.
"""

import argparse
import os
import subprocess
import sys
import time

READ_S = 0.004
MAP_S = 0.002
FILES = 64
CALLS = (1, 2, 4, 8, 16)


def wait(seconds):
    def call(element):
        time.sleep(seconds)
        return element
    return call


def pipeline(data, calls, rows):
    read = wait(READ_S)
    return (data.Dataset.range(FILES)
            .interleave(lambda _: data.Dataset.range(rows).map(read), cycle_length=16,
                        num_parallel_calls=calls)
            .map(wait(MAP_S), num_parallel_calls=calls)
            .prefetch(data.AUTOTUNE))


def rates(dataset):
    """Elements per second: of all, and of those behind the first second."""
    start = time.perf_counter()
    count, later, later_start = 0, 0, None
    for _ in dataset:
        count += 1
        now = time.perf_counter()
        if later_start is not None:
            later += 1
        elif now - start > 1:
            later_start = now
    end = time.perf_counter()
    return count / (end - start), later / (end - later_start) if later_start and later else 0


def measure_tf(rows):
    """tf.data's AUTOTUNE, all of it and behind the first second, then its best fixed number."""
    import tensorflow as tf  # pylint: disable=import-outside-toplevel

    def waits(seconds):
        def call(element):
            time.sleep(seconds)
            return element
        return lambda element: tf.ensure_shape(tf.numpy_function(call, [element], tf.int64), ())

    options = tf.data.Options()
    options.threading.private_threadpool_size = 64  # calls that wait need no core

    def dataset(calls, rows):
        return (tf.data.Dataset.range(FILES)
                .interleave(lambda _: tf.data.Dataset.range(rows).map(waits(READ_S)),
                            cycle_length=16, num_parallel_calls=calls)
                .map(waits(MAP_S), num_parallel_calls=calls)
                .prefetch(tf.data.AUTOTUNE).with_options(options))

    rates(dataset(1, 1))  # what is made once is made
    rate, later = rates(dataset(tf.data.AUTOTUNE, rows))
    best = max((rates(dataset(calls, min(rows, 20 * calls)))[0], calls) for calls in CALLS)
    print(f"{rate:.0f} {later:.0f} {best[0]:.0f} {best[1]}")


def measure_loader(rows):
    """DataLoader's best, over numbers of workers."""
    import torch  # pylint: disable=import-outside-toplevel

    class Work(torch.utils.data.Dataset):
        def __len__(self):
            return FILES * rows

        def __getitem__(self, index):
            time.sleep(READ_S)
            time.sleep(MAP_S)
            return index

    best = (0, 0)
    for workers in CALLS:
        loader = torch.utils.data.DataLoader(Work(), batch_size=None, num_workers=workers,
                                             prefetch_factor=8)
        best = max(best, (rates(loader)[0], workers))
    print(f"{best[0]:.0f} {best[1]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tutti", required=True)
    parser.add_argument("--peer")
    parser.add_argument("--tf")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--loader", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--tensorflow", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.loader:
        measure_loader(options.loader)
        return
    if options.tensorflow:
        measure_tf(options.tensorflow)
        return
    sys.path.insert(0, options.tutti)
    from tutti import data  # pylint: disable=import-outside-toplevel
    rows = 1 if options.quick else 100
    calls = CALLS[-1:] if options.quick else CALLS
    best = 0
    for number in calls:
        rate = rates(pipeline(data, number, min(rows, 20 * number)))[0]
        best = max(best, rate)
        print(f"num_parallel_calls={number:2}  {rate:7.0f} elements/s")
    dataset = pipeline(data, data.AUTOTUNE, rows)
    rate, later = rates(dataset)
    print(f"AUTOTUNE               {rate:7.0f} elements/s, {100 * rate / best:.0f} % of the best; "
          f"behind the first second {later:.0f}, {100 * later / best:.0f} %")
    print(dataset.explain())
    environment = {**os.environ, "PYTHONPATH": "", "TF_CPP_MIN_LOG_LEVEL": "3"}

    def peer(interpreter, *words):
        return subprocess.run([interpreter, os.path.abspath(__file__), "--tutti", "none", *words],
                              env=environment, check=True, text=True,
                              capture_output=True).stdout.split()

    if options.tf:
        said = peer(options.tf, "--tensorflow", str(rows))
        print(f"tf.data AUTOTUNE       {said[0]:>7} elements/s, "
              f"{100 * int(said[0]) / int(said[2]):.0f} % of its best ({said[2]}, with {said[3]} "
              f"calls); behind the first second {said[1]}")
    if options.peer:
        said = peer(options.peer, "--loader", "20")
        print(f"DataLoader             {said[0]:>7} elements/s, its best, with {said[1]} workers")


if __name__ == "__main__":
    main()
