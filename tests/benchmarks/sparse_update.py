#!/usr/bin/env python3
"""What a sparse update costs: 10,000 rows of 64 floats, added at random places of a table of
100,000, beside NumPy's np.add.at in the same run.

    sparse_update.py --tutti FOLDER [--turns 7] [--quick]

FOLDER holds the package tutti. All take turns, and the table has the median of the turns, in
milliseconds and as a multiple of NumPy's time. The rows:

    numpy          np.add.at(table, indices, values), one thread
    plain          scatter_add of a variable outside of strategies, one thread
    mirrored       scatter_add outside of replicas of a variable with two copies: twice the work
    replicas       two replicas bring half of the rows each, and both copies get all of them: twice
                   the work, shared by two threads
"""

import argparse
import statistics
import sys
import time


def measures(np, tutti, rows, count):
    """{name: a function that makes one update}, and a check that they do the same."""
    random = np.random.default_rng(1)
    indices = random.integers(0, rows, count)
    values = random.standard_normal((count, 64)).astype(np.float32)
    table = np.zeros((rows, 64), np.float32)
    strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    plain = tutti.Variable(table)
    with strategy.scope():
        mirrored = tutti.Variable(table)
        summed = tutti.Variable(table, aggregation="sum")
    whole = tutti.IndexedSlices(values, indices)
    half = count // 2
    halves = [tutti.IndexedSlices(values[:half], indices[:half]),
              tutti.IndexedSlices(values[half:], indices[half:])]

    def step():
        replica = tutti.distribute.get_replica_context().replica_id_in_sync_group
        summed.scatter_add(halves[replica])

    found = {"numpy": lambda: np.add.at(table, indices, values),
             "plain": lambda: plain.scatter_add(whole),
             "mirrored": lambda: mirrored.scatter_add(whole),
             "replicas": lambda: strategy.run(step)}
    for update in found.values():
        update()
    for variable in (plain, mirrored, summed):
        for copy in variable.copies():
            np.testing.assert_allclose(copy, table, rtol=1e-5, atol=1e-5)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tutti", required=True, help="the folder of the package")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="only see that it runs")
    options = parser.parse_args()
    sys.path.insert(0, options.tutti)
    import numpy as np
    import tutti

    rows, count, turns = (100, 50, 1) if options.quick else (100000, 10000, options.turns)
    updates = measures(np, tutti, rows, count)
    times = {name: [] for name in updates}
    for _ in range(turns):
        for name, update in updates.items():
            repeats = 1 if options.quick else 10
            start = time.perf_counter()
            for _ in range(repeats):
                update()
            times[name].append((time.perf_counter() - start) / repeats)
    base = statistics.median(times["numpy"])
    print(f"NumPy {np.__version__}; {count} rows of 64 float32, table of {rows}")
    for name, all_times in times.items():
        median = statistics.median(all_times)
        print(f"{name:10} {median * 1e3:8.3f} ms  {median / base:6.2f} x")


if __name__ == "__main__":
    main()
