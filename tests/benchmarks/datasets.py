#!/usr/bin/env python3
"""What an element of a dataset costs, beside tf.data in the same run.

    datasets.py --tutti FOLDER [--peer PYTHON] [--turns 3] [--only unbatch,text_80] [--cpu]
                [--quick]

FOLDER holds the package tutti. PYTHON is an interpreter that can import TensorFlow; without one
there is no column for it. The libraries take turns, each in a process of its own, and the table has
the best of the turns: nanoseconds per element that goes in, GB/s of what is read (from the page
cache) or copied, milliseconds for what waits, bytes for what memory an element takes. The rows:

    shuffle          range, shuffle(10000), batch(128)
    map_filter       range, map(2 x + 1), filter(by 3), batch(128)
    interleave       ranges of 1000, 10 in turn, an element a visit, batch(128); _16: 16 a visit
    unbatch          range, batch(100), unbatch, batch(128)
    cache            the second pass of range, cache, batch(128)
    window           range, window(8), each batched
    floats           rows of 64 floats, shuffle(10000), batch(128)
    records          TFRecord of 4 KiB, batch(64)
    examples         TFRecord of ten integers each, parse_example, batch(128); _128: the peer
                     batches first
    text_20 ...      lines of 20, 80 and 1000 bytes, batch(1000)
    gzip             TFRecord of 4 KiB of numbers as text, in a GZIP file, batch(64)
    callback         range, map(a function of Python), batch(128); _slab: it gets many rows at once
    memory           range, shuffle(all): what the process takes beyond the eight bytes of each
    slow_files       a parallel interleave, 8 at once, over functions of 5 ms that give 4 elements;
                     _ahead: with a prefetch behind it
    slow_map         a parallel map, 8 at once, of elements of 5 ms; _ahead: the same

With --cpu all but the waits and the memory is what the process's threads computed, for a machine
that has other things to do. The column "asked" has what is aimed at; "ideal" has the waits alone,
laid out over as many threads by hand, memcpy of the rows of floats, and zlib alone on the GZIP
file.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import zlib

import dataset_pipelines
import numpy

UNITS = {"ns": lambda count, seconds: seconds / count * 1e9,
         "GB/s": lambda count, seconds: count / seconds / 1e9,
         "ms": lambda count, seconds: seconds * 1e3}


def clock_of(unit, cpu):
    return time.process_time if cpu and unit != "ms" else time.perf_counter


def best_time(dataset, passes, clock):
    best = float("inf")
    for _ in range(passes):
        start = clock()
        for _ in dataset:
            pass
        best = min(best, clock() - start)
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
    maker = dataset_pipelines.Maker(data, tf, options.folder)
    figures = {}
    for name, row in dataset_pipelines.rows(maker, numpy, sizes, options.share).items():
        if options.only and name not in options.only:
            continue
        if row.unit == "B":
            figures[name] = dataset_pipelines.most_memory(row.make()) / row.count - 8
            continue
        passes = 1 if options.share < 1 else 2 if row.unit == "ms" else 3
        figures[name] = UNITS[row.unit](row.count, best_time(
            row.make(), passes, clock_of(row.unit, options.cpu)))
    print(json.dumps(figures))


def best_of(function, clock, times=3):
    best = float("inf")
    for _ in range(times):
        start = clock()
        function()
        best = min(best, clock() - start)
    return best


def waits(calls, threads):
    """So many waits of 5 ms, shared out over threads."""
    def work():
        for _ in range(calls // threads):
            time.sleep(0.005)
    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def inflate(path):
    with open(path, "rb") as file:
        packed = file.read()

    def run():
        stream = zlib.decompressobj(31)
        for at in range(0, len(packed), 65536):
            rest = packed[at:at + 65536]
            while rest:
                stream.decompress(rest, 262144)
                rest = stream.unconsumed_tail
    return run


def copy(rows):
    """Batches of 128 rows of 64 floats, each into memory of its own."""
    source = numpy.ones((rows, 64), numpy.float32)

    def run():
        for first in range(0, rows, 128):
            source[first:first + 128].copy()
    return run


def ideals(rows, sizes, folder, cpu):
    """{name: figure} of what nothing could beat."""
    clock = clock_of("GB/s", cpu)
    copying = best_of(copy(rows["floats"].count // 256), clock)
    inflating = best_of(inflate(os.path.join(folder, "packed")), clock)
    figures = {"floats": rows["floats"].count / copying / 1e9,
               "gzip": sizes["gzip"] / inflating / 1e9}
    slow = best_of(lambda: waits(rows["slow_map"].count, 8), time.perf_counter, 1) * 1e3
    for name in ("slow_files", "slow_files_ahead", "slow_map", "slow_map_ahead"):
        figures[name] = slow
    return figures


def figures_of(library, interpreter, environment, folder, options):
    command = [interpreter, "-B", os.path.abspath(__file__), "--library", library, "--folder",
               folder, "--share", str(options.share), "--only", ",".join(options.only)]
    command += ["--cpu"] if options.cpu else []
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
        sizes = dataset_pipelines.write_files(folder, data.experimental.TFRecordWriter,
                                              options.share)
        with open(os.path.join(folder, "sizes.json"), "w", encoding="utf-8") as file:
            json.dump(sizes, file)
        rows = dataset_pipelines.rows(dataset_pipelines.Maker(data, None, folder), numpy, sizes,
                                      options.share)
        for _ in range(options.turns):
            turns["tutti"].append(figures_of("tutti", sys.executable, {"PYTHONPATH": options.tutti},
                                             folder, options))
            if options.peer:
                turns["tf.data"].append(figures_of("tf.data", options.peer, {}, folder, options))
            turns["ideal"].append(ideals(rows, sizes, folder, options.cpu))
    print(f"{'':17}{'unit':>6}{'asked':>15}" + "".join(f"{library:>11}" for library in turns))
    for name, row in rows.items():
        if options.only and name not in options.only:
            continue
        best = max if row.unit == "GB/s" else min
        cells = []
        for found in turns.values():
            figures = [turn[name] for turn in found if name in turn]
            cells.append(f"{best(figures):11.2f}" if figures else f"{'-':>11}")
        print(f"{name:17}{row.unit:>6}{row.asked:>15}" + "".join(cells))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", metavar="FOLDER", help="where the package tutti lies")
    parser.add_argument("--peer", metavar="PYTHON", help="an interpreter that has TensorFlow")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", default="", help="names of rows, between commas")
    parser.add_argument("--cpu", action="store_true", help="what was computed, not what it took")
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
