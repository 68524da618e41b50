"""What a call costs from Python. tests/benchmarks/overhead.py runs it beside the other languages.

    PYTHONPATH=<build>/bindings/python python3 overhead.py MEASURE SECONDS SAMPLES

The count doubles until a loop takes SECONDS; then every sample is one such loop, and its time per
call in microseconds is a line of the output.
"""

import sys
import time

import numpy as np

import tutti
from tutti.data import Dataset, TensorSpec
from tutti.distribute import MirroredStrategy, get_replica_context

# Far more than are ever taken.
ALL = 1 << 62


def measure(work, seconds, samples):
    """work(count) does something `count` times."""
    count = 1
    while True:
        start = time.perf_counter()
        work(count)
        if time.perf_counter() - start >= seconds:
            break
        count *= 2
    for _ in range(samples):
        start = time.perf_counter()
        work(count)
        print(f"{(time.perf_counter() - start) * 1e6 / count:.4f}", flush=True)


# ---- replicas

def all_reduce(elements):
    strategy = MirroredStrategy(["CPU:0", "CPU:1"])

    def work(count):
        def step():
            replica = get_replica_context()
            operand = np.zeros(elements, np.float32)
            for _ in range(count):
                replica.all_reduce("sum", operand)
        strategy.run(step)
    return work


def runs(*devices):
    strategy = MirroredStrategy(devices)

    def nothing():
        pass

    def work(count):
        for _ in range(count):
            strategy.run(nothing)
    return work


def merge_call():
    strategy = MirroredStrategy(["CPU:0"])

    def nothing(strategy):
        pass

    def work(count):
        def step():
            replica = get_replica_context()
            for _ in range(count):
                replica.merge_call(nothing)
        strategy.run(step)
    return work


def getter():
    strategy = MirroredStrategy(["CPU:0"])

    def work(count):
        for _ in range(count):
            strategy.num_replicas_in_sync
    return work


# ---- datasets

def elements(dataset, rows_per_element=1):
    iterator = iter(dataset)

    def work(count):
        for _ in range(0, count, rows_per_element):
            next(iterator)
    return work


def batches(dataset):
    iterator = iter(dataset)

    def work(count):
        for _ in range(count):
            next(iterator)[0]
    return work


def map_of_a_row():
    spec = TensorSpec((), np.int64)
    return elements(Dataset.range(ALL).map(lambda x: x, output_signature=spec).batch(128), 128)


# ---- processes

def between_processes(elements, seconds, samples):
    """Both of two processes make as many calls; the first of them prints."""
    count = int(seconds * 100000) + 1
    with tutti.Cluster.join() as cluster, tutti.Communicator.create(cluster) as ranks:
        tensor = tutti.Tensor(np.zeros(elements, np.float32))
        for sample in range(-1, samples):
            start = time.perf_counter()
            for _ in range(count):
                ranks.all_reduce(tensor, "sum", out=tensor)
            if sample >= 0 and ranks.rank == 0:
                print(f"{(time.perf_counter() - start) * 1e6 / count:.4f}", flush=True)


MEASURES = {
    "getter": getter,
    "all_reduce_1_KiB": lambda: all_reduce(256),
    "all_reduce_1_MiB": lambda: all_reduce(262144),
    "run_1_replica": lambda: runs("CPU:0"),
    "run_2_replicas": lambda: runs("CPU:0", "CPU:1"),
    "merge_call": merge_call,
    "element": lambda: elements(Dataset.range(ALL)),
    "batch_of_128": lambda: batches(Dataset.range(ALL).batch(128)),
    "map_of_a_row": map_of_a_row,
}


if __name__ == "__main__":
    if sys.argv[1] == "processes_1_KiB":
        between_processes(256, float(sys.argv[2]), int(sys.argv[3]))
    else:
        measure(MEASURES[sys.argv[1]](), float(sys.argv[2]), int(sys.argv[3]))
