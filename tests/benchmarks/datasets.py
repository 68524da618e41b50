#!/usr/bin/env python3
"""What an element of a dataset costs, beside tf.data in the same run.

    datasets.py --tutti FOLDER [--peer PYTHON] [--turns 3] [--only unbatch,text_80] [--quick]

FOLDER holds the package tutti. PYTHON is an interpreter that can import TensorFlow; without one
there is no column for it. The libraries take turns, each in a process of its own, and the table has
the median of the turns: nanoseconds per element that comes out of the named operation, or GB/s
where files are read (from the page cache), or milliseconds for what waits. The rows:

    shuffle        range, shuffle(10000), batch(128)
    unbatch        range, batch(100), unbatch, batch(128)
    cache          the second pass of range, cache, batch(128)
    text_20 ...    lines of 20, 80 and 1000 bytes, batch(1000)
    records        TFRecord of 4 KiB, batch(64)
    slow_files     a parallel interleave, 8 at once, over 200 functions of 5 ms that give 4 elements
    slow_map       a parallel map, 4 at once, of 32 elements of 50 ms

Of what waits, the column "ideal" has the waits alone, laid out over as many threads by hand.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

LINES = {20: 600000, 80: 300000, 1000: 40000}
RECORDS = 8000


def write_files(folder, records_module, share):
    """The files that the measures read; {name: bytes of what they hold}."""
    sizes = {}
    for length, count in LINES.items():
        line = bytes(ord("a") + i % 26 for i in range(length)) + b"\n"
        with open(os.path.join(folder, f"lines_{length}"), "wb") as file:
            file.write(line * int(count * share))
        sizes[f"text_{length}"] = len(line) * int(count * share)
    with records_module.TFRecordWriter(os.path.join(folder, "records")) as writer:
        for i in range(int(RECORDS * share)):
            writer.write(bytes([i % 256]) * 4096)
    sizes["records"] = 4096 * int(RECORDS * share)
    return sizes


class Waits:
    """The pipelines whose functions wait; TensorFlow calls Python through numpy_function."""

    def __init__(self, data, tf):
        self.data = data
        self.tf = tf

    def waiting(self, seconds):
        def wait(x):
            time.sleep(seconds)
            return x
        if self.tf is None:
            return wait

        def call(x):
            y = self.tf.numpy_function(wait, [x], self.tf.int64)
            y.set_shape([])
            return y
        return call

    def slow_files(self, count):
        open_file = self.waiting(0.005)

        def file(x):
            first = open_file(x)
            if self.tf is None:
                return self.data.Dataset.range(4)
            return self.data.Dataset.range(first, first + 4)
        return self.data.Dataset.range(count).interleave(file, cycle_length=8, num_parallel_calls=8)

    def slow_map(self):
        return self.data.Dataset.range(32).map(self.waiting(0.05), num_parallel_calls=4)


def pipelines(data, tf, folder, sizes, share):
    """{name: (what makes a dataset, elements, unit)}."""
    n = int(1000000 * share) if tf is None else int(200000 * share)
    numbers = data.Dataset.range(n)
    waits = Waits(data, tf)
    slow = int(200 * share)
    made = {
        "shuffle": (lambda: numbers.shuffle(10000).batch(128), n, "ns"),
        "unbatch": (lambda: numbers.batch(100).unbatch().batch(128), n, "ns"),
        "cache": (lambda: numbers.cache().batch(128), n, "ns"),
    }
    for length in LINES:
        path = os.path.join(folder, f"lines_{length}")
        made[f"text_{length}"] = (lambda path=path: data.TextLineDataset(path).batch(1000),
                                  sizes[f"text_{length}"], "GB/s")
    made["records"] = (lambda: data.TFRecordDataset(os.path.join(folder, "records")).batch(64),
                       sizes["records"], "GB/s")
    made["slow_files"] = (lambda: waits.slow_files(slow), slow, "ms")
    made["slow_map"] = (waits.slow_map, 32, "ms")
    return made


def best_time(dataset, passes):
    best = float("inf")
    for _ in range(passes):
        start = time.perf_counter()
        for _ in dataset:
            pass
        best = min(best, time.perf_counter() - start)
    return best


def measure(options):
    """What a process of one library does: prints {name: figure} as JSON."""
    tf = None
    if options.library == "tf.data":
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
        import tensorflow as tf  # pylint: disable=import-outside-toplevel
        data = tf.data
    else:
        from tutti import data  # pylint: disable=import-outside-toplevel
    with open(os.path.join(options.folder, "sizes.json"), encoding="utf-8") as file:
        sizes = json.load(file)
    figures = {}
    for name, (make, count, unit) in pipelines(data, tf, options.folder, sizes,
                                               options.share).items():
        if options.only and name not in options.only:
            continue
        seconds = best_time(make(), 1 if options.share < 1 else 3)
        figures[name] = {"ns": seconds / count * 1e9, "GB/s": count / seconds / 1e9,
                         "ms": seconds * 1e3}[unit]
    print(json.dumps(figures))


def ideal(seconds, calls, threads):
    """Milliseconds of so many waits, shared out over threads."""
    def work():
        for _ in range(calls // threads):
            time.sleep(seconds)
    workers = [threading.Thread(target=work) for _ in range(threads)]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return (time.perf_counter() - start) * 1e3


def figures_of(library, interpreter, environment, folder, options):
    command = [interpreter, "-B", os.path.abspath(__file__), "--library", library, "--folder",
               folder, "--share", str(options.share), "--only", ",".join(options.only)]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            timeout=600, check=False, env={**os.environ, **environment})
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with status {result.returncode}:\n{result.stderr}")
    return json.loads(result.stdout.splitlines()[-1])


def compare(options):
    sys.path.insert(0, options.tutti)
    from tutti import data  # pylint: disable=import-outside-toplevel
    turns = {"tutti": [], "tf.data": [], "ideal": []}
    with tempfile.TemporaryDirectory() as folder:
        sizes = write_files(folder, data.experimental, options.share)
        with open(os.path.join(folder, "sizes.json"), "w", encoding="utf-8") as file:
            json.dump(sizes, file)
        for _ in range(options.turns):
            turns["tutti"].append(figures_of("tutti", sys.executable, {"PYTHONPATH": options.tutti},
                                             folder, options))
            if options.peer:
                turns["tf.data"].append(figures_of("tf.data", options.peer, {}, folder, options))
            turns["ideal"].append({"slow_files": ideal(0.005, int(200 * options.share), 8),
                                   "slow_map": ideal(0.05, 32, 4)})
    units = {name: unit for name, (_, _, unit) in
             pipelines(data, None, "", sizes, options.share).items()}
    print(f"{'':12}{'unit':>6}" + "".join(f"{library:>12}" for library in turns))
    for name, unit in units.items():
        if options.only and name not in options.only:
            continue
        cells = []
        for found in turns.values():
            figures = [turn[name] for turn in found if name in turn]
            cells.append(f"{statistics.median(figures):12.2f}" if figures else f"{'-':>12}")
        print(f"{name:12}{unit:>6}" + "".join(cells))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", metavar="FOLDER", help="where the package tutti lies")
    parser.add_argument("--peer", metavar="PYTHON", help="an interpreter that has TensorFlow")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", default="", help="names of rows, between commas")
    parser.add_argument("--quick", action="store_true", help="only see that everything runs")
    parser.add_argument("--library", choices=("tutti", "tf.data"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--share", type=float, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.only = [name for name in options.only.split(",") if name]
    if options.library:
        measure(options)
        return
    if not options.tutti:
        parser.error("--tutti FOLDER is missing: the folder that holds the package tutti")
    if options.quick:
        options.share, options.turns = 0.04, 1
    compare(options)


if __name__ == "__main__":
    main()
