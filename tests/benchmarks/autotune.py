#!/usr/bin/env python3
"""What AUTOTUNE reaches of the best setting by hand: a map of 2 ms over reads of 4 ms.

    autotune.py --tutti FOLDER [--peer PYTHON] [--quick]

FOLDER holds the package tutti. PYTHON is an interpreter that can import PyTorch, whose DataLoader
then runs the same work with the best of several numbers of worker processes. The table has
elements per second; with AUTOTUNE a second time without the first second, in which it finds out.
Reads and maps wait (sleep), as those of files and networks do.
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
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--loader", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.loader:
        measure_loader(options.loader)
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
    if options.peer:
        environment = {**os.environ, "PYTHONPATH": ""}
        said = subprocess.run([options.peer, os.path.abspath(__file__), "--tutti", "none",
                               "--loader", "20"], env=environment, check=True, text=True,
                              capture_output=True).stdout.split()
        print(f"DataLoader             {said[0]:>7} elements/s, its best, with {said[1]} workers")


if __name__ == "__main__":
    main()
