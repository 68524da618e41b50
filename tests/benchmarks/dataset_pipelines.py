"""The pipelines that datasets.py measures, written once for both libraries, and the files that they
read. Nothing here imports tutti or TensorFlow: what has to differ asks which one it was given."""

import os
import threading
import time

LINES = {20: 600000, 80: 300000, 1000: 40000}
RECORDS = 8000
EXAMPLES = 100000
PACKED_LINES = 300000
FEATURES = "abcdefghij"


class Row:
    """One line of the table. make: gives a dataset, or a function to be timed instead of a walk.
    unit: "ns" of each of `count` elements, "GB/s" of `count` bytes, "ms" of the whole, "B" beyond
    the data of each element. asked: what is aimed at, as text."""

    def __init__(self, make, count, unit, asked=""):
        self.make = make
        self.count = count
        self.unit = unit
        self.asked = asked


def _field(number, contents):
    return bytes((number << 3 | 2, len(contents))) + contents


def example(i):
    """A tf.train.Example of ten integers, of about 120 bytes."""
    entries = b""
    for k, key in enumerate(FEATURES):
        value = _field(3, _field(1, bytes(((i + k) % 128,))))
        entries += _field(1, _field(1, key.encode()) + _field(2, value))
    return _field(1, entries)


def write_files(folder, writer_class, share):
    """The files that the measures read; {name: bytes, or elements, of what they hold}."""
    sizes = {}
    for length, count in LINES.items():
        line = bytes(ord("a") + i % 26 for i in range(length)) + b"\n"
        with open(os.path.join(folder, f"lines_{length}"), "wb") as file:
            file.write(line * int(count * share))
        sizes[f"text_{length}"] = len(line) * int(count * share)
    with writer_class(os.path.join(folder, "records")) as writer:
        for i in range(int(RECORDS * share)):
            writer.write(bytes([i % 256]) * 4096)
    sizes["records"] = 4096 * int(RECORDS * share)
    with writer_class(os.path.join(folder, "examples")) as writer:
        for i in range(int(EXAMPLES * share)):
            writer.write(example(i))
    sizes["examples"] = int(EXAMPLES * share)
    # Numbers that repeat nowhere: what is packed as logs and tables are, some three to one.
    numbers = b"".join(b"%d,%d,%d,%d\n" % (i, i * 7919 % 100003, i * 104729 % 99991, i % 17)
                       for i in range(int(PACKED_LINES * share)))
    with writer_class(os.path.join(folder, "packed"), "GZIP") as writer:
        for at in range(0, len(numbers), 4096):
            writer.write(numbers[at:at + 4096])
    sizes["gzip"] = len(numbers)
    return sizes


class Maker:
    """The datasets of one library. tf: TensorFlow, or None for tutti, whose module is `data`."""

    def __init__(self, data, tf, folder):
        self.data = data
        self.tf = tf
        self.folder = folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def range(self, *bounds):
        return self.data.Dataset.range(*bounds)

    def map_filter(self, count):
        return self.range(count).map(lambda x: x * 2 + 1).filter(lambda x: x % 3 == 0).batch(128)

    def interleave(self, count, block):
        data = self.data
        return self.range(count // 1000).interleave(
            lambda x: data.Dataset.range(x, x + 1000), cycle_length=10,
            block_length=block).batch(128)

    def windows(self, count):
        return self.range(count).window(8).flat_map(lambda window: window.batch(8))

    def cached(self, count):
        dataset = self.range(count).cache().batch(128)
        for _ in dataset:
            pass
        return dataset

    def vectors(self, numpy, count):
        """Rows of 64 floats."""
        rows = numpy.zeros((count, 64), numpy.float32)
        rows += numpy.arange(count, dtype=numpy.float32)[:, None]
        return self.data.Dataset.from_tensor_slices(rows).shuffle(10000).batch(128)

    def lines(self, name):
        return self.data.TextLineDataset(self.path(name)).batch(1000)

    def records(self, name, compression=None):
        return self.data.TFRecordDataset(self.path(name), compression).batch(64)

    def examples(self, together):
        """Parsed and batched. together: tf.data parses a batch at once, as its guides advise; here
        it is the same pipeline, as functions that are native run by the slab anyway."""
        files = self.data.TFRecordDataset(self.path("examples"))
        if self.tf is None:
            return files.map(self.data.parse_example(
                {key: ((), "int64") for key in FEATURES})).batch(128)
        features = {key: self.tf.io.FixedLenFeature((), self.tf.int64) for key in FEATURES}
        if together:
            return files.batch(128).map(lambda x: self.tf.io.parse_example(x, features))
        return files.map(lambda x: self.tf.io.parse_single_example(x, features)).batch(128)

    # ---- functions of Python

    def python(self, function):
        """As what TensorFlow calls through numpy_function."""
        if self.tf is None:
            return function

        def call(x):
            y = self.tf.numpy_function(function, [x], self.tf.int64)
            y.set_shape(x.shape)
            return y
        return call

    def callback(self, count, slab):
        def add_one(x):
            return x + 1
        if self.tf is None:
            return self.range(count).map(add_one, native=False, slab=slab).batch(128)
        if slab:
            return self.range(count).batch(128).map(self.python(add_one))
        return self.range(count).map(self.python(add_one)).batch(128)

    # ---- functions that wait

    def waiting(self, seconds):
        def wait(x):
            time.sleep(seconds)
            return x
        return self.python(wait)

    def slow_files(self, count):
        open_file = self.waiting(0.005)

        def file(x):
            first = open_file(x)
            if self.tf is None:
                return self.range(4)
            return self.range(first, first + 4)
        return self.range(count).interleave(file, cycle_length=8, num_parallel_calls=8)

    def slow_map(self, count):
        return self.range(count).map(self.waiting(0.005), num_parallel_calls=8)


def _resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def most_memory(dataset):
    """Bytes that the process has more than before, at most, until the first element comes."""
    most = before = _resident_bytes()
    over = threading.Event()

    def watch():
        nonlocal most
        while not over.wait(0.005):
            most = max(most, _resident_bytes())
    watcher = threading.Thread(target=watch)
    watcher.start()
    iterator = iter(dataset)
    next(iterator)
    over.set()
    watcher.join()
    return max(most, _resident_bytes()) - before


def rows(maker, numpy, sizes, share):
    """{name: Row}."""
    tf = maker.tf is not None
    n = int((200000 if tf else 2000000) * share)
    few = n // 8
    waits = int(400 * share) // 8 * 8
    held = int((2000000 if tf else 50000000) * share)
    made = {
        "shuffle": Row(lambda: maker.range(n).shuffle(10000).batch(128), n, "ns", "<= 10"),
        "map_filter": Row(lambda: maker.map_filter(n), n, "ns", "<= 10"),
        "interleave": Row(lambda: maker.interleave(n, 1), n // 1000 * 1000, "ns", "<= 20"),
        "interleave_16": Row(lambda: maker.interleave(n, 16), n // 1000 * 1000, "ns", "<= 20"),
        "unbatch": Row(lambda: maker.range(n).batch(100).unbatch().batch(128), n, "ns", "<= 20"),
        "cache": Row(lambda: maker.cached(n), n, "ns", "<= 20"),
        "window": Row(lambda: maker.windows(few), few, "ns", "<= 50"),
        "floats": Row(lambda: maker.vectors(numpy, n // 8), n // 8 * 256, "GB/s", "ideal / 2"),
        "records": Row(lambda: maker.records("records"), sizes["records"], "GB/s", ">= 4"),
        "examples": Row(lambda: maker.examples(False), sizes["examples"], "ns", "peer / 3"),
        "examples_128": Row(lambda: maker.examples(True), sizes["examples"], "ns", "peer / 3"),
        "gzip": Row(lambda: maker.records("packed", "GZIP"), sizes["gzip"], "GB/s", "0.9 ideal"),
        "callback": Row(lambda: maker.callback(few, False), few, "ns", "peer"),
        "callback_slab": Row(lambda: maker.callback(few, True), few, "ns", "callback / 20"),
        "memory": Row(lambda: maker.range(held).shuffle(held), held, "B", "<= 16"),
        "slow_files": Row(lambda: maker.slow_files(waits), waits, "ms", "1.1 ideal"),
        "slow_files_ahead": Row(lambda: maker.slow_files(waits).prefetch(8), waits, "ms",
                                "1.1 ideal"),
        "slow_map": Row(lambda: maker.slow_map(waits), waits, "ms", "1.1 ideal"),
        "slow_map_ahead": Row(lambda: maker.slow_map(waits).prefetch(8), waits, "ms",
                              "1.1 ideal"),
    }
    for length in LINES:
        made[f"text_{length}"] = Row(lambda length=length: maker.lines(f"lines_{length}"),
                                     sizes[f"text_{length}"], "GB/s", ">= 1.5")
    return made
