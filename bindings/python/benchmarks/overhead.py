"""What a call costs from Python: prints one line per measurement, the best of several rounds.

    PYTHONPATH=<build>/bindings/python python3 overhead.py
"""

import time

import numpy as np

import tutti
from tutti.data import Dataset, TensorSpec

ROUNDS = 5


def measure(name, work, count, unit="us"):
    """work() does `count` of something; prints the time of one."""
    work()
    best = min(_timed(work) for _ in range(ROUNDS)) / count
    scale = {"us": 1e6, "ns": 1e9}[unit]
    print(f"{name:58} {best * scale:9.2f} {unit}", flush=True)
    return best


def _timed(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def repeated(count, call):
    def work():
        for _ in range(count):
            call()
    return work


def strategies():
    for replicas in (1, 2, 4):
        strategy = tutti.distribute.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])
        measure(f"run of an empty function, {replicas} replicas",
                repeated(1000, lambda: strategy.run(lambda: None)), 1000)
        strategy.close()
    strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    batch = next(iter(strategy.distribute_dataset(
        Dataset.from_tensor_slices({"image": np.zeros((128, 64), np.float32),
                                    "label": np.zeros(128, np.int64)}).batch(128))))
    measure("run of a function that returns a number of its batch, 2",
            repeated(1000, lambda: strategy.run(lambda b: len(b["label"]), args=(batch,))), 1000)
    small, large = np.zeros(256, np.float32), np.zeros(1 << 18, np.float32)

    def reduces(array, count):
        def step():
            replica = tutti.distribute.get_replica_context()
            for _ in range(count):
                replica.all_reduce("sum", array)
        return lambda: strategy.run(step)

    measure("all_reduce of 1 KiB, 2 replicas", reduces(small, 200), 200)
    measure("all_reduce of 1 MiB, 2 replicas", reduces(large, 50), 50)
    with strategy.scope():
        variable = tutti.Variable(np.zeros(256, np.float32), aggregation="sum")
    measure("data() of a variable", repeated(10000, variable.data), 10000)
    measure("numpy() of a variable of 1 KiB", repeated(10000, variable.numpy), 10000)


def datasets():
    rows = 100_000
    spec = TensorSpec((), np.int64)

    def walk(dataset):
        def work():
            for _ in dataset:
                pass
        return work

    numbers = Dataset.range(rows)
    measure("one element: range", walk(numbers), rows, "ns")
    batches = numbers.batch(128)
    measure("one batch of 128: range", walk(batches), rows // 128)
    measure("one row: range, shuffle(10,000), batch(128)",
            walk(numbers.shuffle(10_000, seed=1).batch(128)), rows, "ns")
    same = measure("a callback per row: range, map(identity), batch(128)",
                   walk(numbers.map(lambda x: x, output_signature=spec).batch(128)), rows, "ns")
    base = measure("  the same without the map", walk(batches), rows, "ns")
    print(f"{'  one crossing of a row callback':58} {(same - base) * 1e9:9.2f} ns")
    measure("a callback per slab: range, map(identity), batch(128)",
            walk(numbers.map(lambda x: x, slab=True, output_signature=spec).batch(128)), rows, "ns")
    arrays = Dataset.from_tensor_slices(np.zeros((20_000, 64), np.float32))
    image = TensorSpec((64,), np.float32)
    measure("a callback per row of float32[64]: map(x / 16), batch(128)",
            walk(arrays.map(lambda x: x / np.float32(16), output_signature=image).batch(128)),
            20_000, "ns")
    measure("a callback per slab of float32[64]: map(x / 16), batch(128)",
            walk(arrays.map(lambda x: x / np.float32(16), slab=True,
                            output_signature=image).batch(128)), 20_000, "ns")

    def generate():
        yield from range(rows)

    measure("an element of a generator, batch(128)",
            walk(Dataset.from_generator(generate, output_signature=spec).batch(128)), rows, "ns")


def crossings():
    tensor = tutti.Tensor(np.zeros(256, np.float32))
    array = np.zeros(256, np.float32)
    measure("a small function of the extension: tensor_dtype",
            repeated(100_000, lambda: tensor.dtype), 100_000, "ns")
    measure("an array becomes a tensor", repeated(20_000, lambda: tutti.Tensor(array)), 20_000, "ns")
    measure("a tensor becomes an array", repeated(100_000, tensor.numpy), 100_000, "ns")


if __name__ == "__main__":
    crossings()
    strategies()
    datasets()
