"""Passes that are kept: snapshots and caches."""

import functools
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import tutti
from tutti import errors
from tutti.data import Dataset, TensorSpec


class Table:
    """Something of which nobody can tell what it will give."""

    value = 7

    def method(self, x):
        return x

    def __radd__(self, x):
        return x


def plain(elements):
    return [e.tolist() if isinstance(e, np.ndarray) else e for e in elements]


class KeptTest(unittest.TestCase):
    def test_snapshot_writes_the_first_pass_and_reads_it_from_then_on(self):
        calls = []

        def plus_calls(x, called=None):
            (calls if called is None else called).append(x)
            return x + 10 * len(calls)

        tutti.data.register_function("dataset_test.plus_calls", plus_calls)
        self.addCleanup(tutti.data.unregister_function, "dataset_test.plus_calls")
        registered = tutti.data.registered_function("dataset_test.plus_calls")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "snap"
            kept = Dataset.range(3).map(registered).snapshot(path)
            self.assertEqual((kept.cardinality(), kept.element_spec.dtype), (3, np.int64))
            self.assertFalse(path.exists())
            calls.clear()
            first = [10, 21, 32]
            self.assertEqual(list(kept), first)
            self.assertEqual(list(kept), first)
            self.assertEqual(list(Dataset.range(3).map(registered).apply(
                tutti.data.experimental.snapshot(os.fsencode(path)))), first)
            self.assertEqual(len(calls), 3)
            for compression in ("GZIP", "SNAPPY", None):
                texts = Dataset.from_tensor_slices([b"a", b"", b"bc"]).enumerate().snapshot(
                    os.path.join(folder, str(compression)), compression)
                for _ in range(2):
                    self.assertEqual(list(texts), [(0, b"a"), (1, b""), (2, b"bc")])
            for wrong in ("ZLIB", "gzip", ""):
                with self.assertRaisesRegex(ValueError, "compression must be AUTO"):
                    Dataset.range(3).snapshot(path, wrong)

    def test_shards_of_a_snapshot_are_written_and_read_as_functions_say(self):
        with tempfile.TemporaryDirectory() as folder:
            count = 3
            kept = Dataset.range(8).snapshot(
                folder, shard_func=lambda x: x % count,
                reader_func=lambda shards: shards.flat_map(lambda shard: shard))
            self.assertEqual(list(kept), list(range(8)))
            self.assertEqual(list(kept), [0, 3, 6, 1, 4, 7, 2, 5])
            iterator = iter(kept)
            self.assertEqual([next(iterator) for _ in range(4)], [0, 3, 6, 1])
            again = iter(kept)
            again.restore(iterator.save())
            self.assertEqual(list(again), [4, 7, 2, 5])
            self.assertEqual(list(Dataset.range(8).snapshot(
                folder, shard_func=lambda x: x % count)), list(range(8)))
            # The reference's example.
            pairs = Dataset.range(8).map(lambda x: x * x).enumerate()
            pairs = pairs.apply(tutti.data.experimental.snapshot(
                folder, shard_func=lambda x, y: x % count,
                reader_func=lambda datasets: datasets.shuffle(count).interleave(
                    lambda x: x, num_parallel_calls=tutti.data.AUTOTUNE)))
            squares = pairs.map(lambda x, y: y)
            for _ in range(3):
                self.assertEqual(sorted(squares), [x * x for x in range(8)])
            with self.assertRaisesRegex(ValueError, "must give a dataset"):
                list(Dataset.range(8).snapshot(folder, shard_func=lambda x: x % count,
                                               reader_func=lambda shards: 1))

    def test_a_snapshot_goes_by_what_the_functions_compute(self):
        with tempfile.TemporaryDirectory() as folder:
            def snapshots():
                return len(os.listdir(folder))

            def keep(function):
                list(Dataset.range(3).map(function).snapshot(folder))
                return snapshots()

            def plus(n):
                return lambda x: x + n

            self.assertEqual(keep(lambda x: x + 1), 1)
            self.assertEqual(keep(lambda x: x + 1), 1)
            self.assertEqual(keep(lambda y: y + 1), 1)
            self.assertEqual(keep(lambda x: x + 2), 2)
            self.assertEqual(keep(lambda x: x - 1), 3)
            self.assertEqual(keep(plus(5)), 4)
            self.assertEqual(keep(plus(5)), 4)
            self.assertEqual(keep(plus(6)), 5)
            self.assertEqual(keep(plus(np.arange(3))), 6)
            self.assertEqual(keep(plus(np.arange(3) * 2)), 7)
            self.assertEqual(keep(functools.partial(lambda n, x: x * n, 3)), 8)
            self.assertEqual(keep(functools.partial(lambda n, x: x * n, 4)), 9)
            for unknown in (plus(Table()), Table().method, plus(np.zeros(1 << 20))):
                with self.assertRaisesRegex(ValueError, "nobody can tell that; register it"):
                    keep(unknown)

            def count():
                yield from (1, 2)

            spec = TensorSpec((), np.int64)
            for _ in range(2):
                made = Dataset.from_generator(count, output_signature=spec).snapshot(folder)
                self.assertEqual(list(made), [1, 2])
                self.assertEqual(snapshots(), 10)
            numbers = Table()
            with self.assertRaisesRegex(ValueError, "give this dataset a name"):
                Dataset.from_generator(lambda: iter([numbers.value]),
                                       output_signature=spec).snapshot(folder)
            self.assertEqual(list(Dataset.from_generator(
                lambda: iter([numbers.value]), output_signature=spec,
                name="numbers").snapshot(folder)), [7])

    def test_a_damaged_snapshot_is_a_data_loss(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = Dataset.range(3).snapshot(folder)
            self.assertEqual(list(kept), [0, 1, 2])
            (shard,) = pathlib.Path(folder).glob("*/*.shard")
            shard.write_bytes(shard.read_bytes()[:-1])
            with self.assertRaisesRegex(errors.DataLossError, "00000.shard"):
                list(kept)

    def test_a_cache_is_filled_by_the_first_complete_pass(self):
        calls = []
        cached = Dataset.range(3).map(lambda x: calls.append(x) or x).cache()
        self.assertEqual([list(cached), list(cached)], [[0, 1, 2]] * 2)
        self.assertEqual(len(calls), 3)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "kept"
            self.assertEqual(list(Dataset.range(2).cache(path)), [0, 1])
            self.assertEqual(list(Dataset.range(9).cache(str(path))), [0, 1])
        with self.assertRaises(TypeError):
            Dataset.range(2).cache(7)

    def test_who_finds_a_cache_being_written_passes_through_and_writes_when_that_one_is_dead(self):
        program = '''
import sys, tutti
iterator = iter(tutti.data.Dataset.range(5).cache(sys.argv[1]))
print(next(iterator), flush=True)
sys.stdin.read()
'''
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "kept")
            with subprocess.Popen([sys.executable, "-c", program, path], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE) as writer:
                try:
                    self.assertEqual(writer.stdout.readline(), b"0\n")
                    self.assertTrue(os.path.exists(path + ".lock"))
                    dataset = Dataset.range(10, 13).cache(path)
                    self.assertEqual(list(dataset), [10, 11, 12])
                    self.assertFalse(os.path.exists(path + ".cache"))
                finally:
                    writer.kill()
            self.assertEqual(list(dataset), [10, 11, 12])
            self.assertEqual(os.listdir(folder), ["kept.cache"])
            self.assertEqual(list(Dataset.range(5).cache(path)), [10, 11, 12])


if __name__ == "__main__":
    unittest.main()
