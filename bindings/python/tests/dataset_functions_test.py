"""Functions that give datasets: flat_map, interleave and group_by_window, and files that they
write."""

import os
import pathlib
import tempfile
import unittest

import numpy as np

import tutti
from tutti import errors
from tutti.data import Dataset, TensorSpec


class DatasetFunctionTest(unittest.TestCase):
    def test_flat_map_gives_one_dataset_after_the_other(self):
        self.assertEqual(list(Dataset.range(4).flat_map(Dataset.range)), [0, 0, 1, 0, 1, 2])
        self.assertEqual(list(Dataset.range(2).flat_map(lambda x: Dataset.range(x + 1), name="n")),
                         [0, 0, 1])

    def test_interleave_takes_the_datasets_in_turn(self):
        def count(x):
            return Dataset.range(10 * x, 10 * x + 3)
        want = [0, 1, 10, 11, 2, 12, 20, 21, 22]
        for calls in (None, 2, tutti.data.AUTOTUNE):
            self.assertEqual(list(Dataset.range(3).interleave(
                count, cycle_length=2, block_length=2, num_parallel_calls=calls)), want)
        self.assertEqual(sorted(Dataset.range(3).interleave(
            count, cycle_length=2, num_parallel_calls=2, deterministic=False)), sorted(want))
        self.assertEqual(list(Dataset.range(3).interleave(count)),
                         [0, 10, 20, 1, 11, 21, 2, 12, 22])
        for wrong in ({"cycle_length": 0}, {"block_length": 0},
                      {"cycle_length": 2, "num_parallel_calls": 3}):
            with self.assertRaises(errors.InvalidArgumentError):
                Dataset.range(3).interleave(count, **wrong)

    def test_a_function_that_gives_no_dataset_is_an_error(self):
        for dataset in (Dataset.range(2).flat_map(lambda x: x),
                        Dataset.range(2).interleave(lambda x: x, cycle_length=2)):
            with self.assertRaisesRegex(errors.InvalidArgumentError, "dataset"):
                list(dataset)

    def test_datasets_of_a_function_are_saved_in_the_middle(self):
        def count(x):
            return Dataset.range(10 * x, 10 * x + 3)
        outer = Dataset.range(4)
        for dataset in (outer.flat_map(count), outer.interleave(count, 2, 2),
                        outer.interleave(count, 2, 2, 2)):
            iterator = iter(dataset)
            for _ in range(5):
                next(iterator)
            state = iterator.save()
            rest = list(iterator)
            self.assertEqual(len(rest), 7)
            again = iter(dataset)
            again.restore(state)
            self.assertEqual(list(again), rest)

    def test_group_by_window_hands_out_what_has_one_key(self):
        def lists(dataset):
            return [batch.tolist() for batch in dataset]
        numbers = Dataset.range(10)
        grouped = numbers.group_by_window(lambda x: x % 3, lambda _, window: window.batch(10), 2)
        self.assertEqual(lists(grouped), [[0, 3], [1, 4], [2, 5], [6, 9], [7], [8]])
        self.assertEqual(grouped.cardinality(), tutti.data.UNKNOWN_CARDINALITY)
        self.assertEqual(grouped.element_spec, TensorSpec((None,), np.int64))
        endless = numbers.repeat().group_by_window(lambda x: x % 3, lambda _, d: d, window_size=2)
        self.assertEqual(endless.cardinality(), tutti.data.INFINITE_CARDINALITY)
        kinds = []

        def keyed(key, window):
            kinds.append((type(key), type(window)))
            return Dataset.zip((Dataset.from_tensors(key).repeat(), window))
        # Python's numbers are keys as well.
        self.assertEqual([tuple(int(x) for x in pair) for pair in Dataset.range(5).group_by_window(
            lambda x: int(x) % 2, keyed, 9)], [(0, 0), (0, 2), (0, 4), (1, 1), (1, 3)])
        self.assertEqual(kinds, [(np.int64, Dataset)] * 2)
        # The parts of a tuple are arguments of their own, a window has whole elements.
        pairs = numbers.enumerate().group_by_window(
            lambda i, x: i % 2, lambda _, window: window.map(lambda _, x: x).batch(5), 5)
        self.assertEqual(lists(pairs), [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]])
        calls = []
        sized = numbers.group_by_window(
            key_func=lambda x: x % 2, reduce_func=lambda _, window: window.batch(10),
            window_size_func=lambda key: calls.append(int(key)) or key + 2)
        self.assertEqual(lists(sized), [[0, 2], [1, 3, 5], [4, 6], [8], [7, 9]])
        self.assertEqual(calls, [0, 1])
        applied = numbers.apply(tutti.data.experimental.group_by_window(
            lambda x: x % 2, lambda _, window: window.batch(10), window_size=5))
        self.assertEqual(lists(applied), [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]])

    def test_group_by_window_reports_what_fails(self):
        numbers = Dataset.range(4)
        for wrong in ({}, {"window_size": 0}, {"window_size": 2, "window_size_func": lambda _: 2}):
            with self.assertRaisesRegex(errors.InvalidArgumentError, "window_size"):
                numbers.group_by_window(lambda x: x, lambda _, window: window, **wrong)

        class Own(Exception):
            pass

        def fail(_, window):
            if fails:
                raise Own
            return window
        fails = True
        iterator = iter(numbers.group_by_window(lambda x: x % 2, fail, 2))
        with self.assertRaises(Own):
            next(iterator)
        fails = False
        self.assertEqual(list(iterator), [1, 3])
        for function, message in ((lambda _, window: 5, "the group of key 0: the function must "
                                   "give a dataset, and gave int32"),
                                  (lambda _, window: list(window), "")):
            with self.assertRaisesRegex(Exception, message):
                list(numbers.group_by_window(lambda _: 0, function, 2))
        for key in (0.5, b"x", True, np.arange(2)):
            with self.assertRaisesRegex(errors.InvalidArgumentError,
                                        "element 0: key_func must give an integer scalar"):
                list(numbers.group_by_window(lambda _: key, lambda _, window: window, 2))

    def test_group_by_window_is_saved_in_the_middle(self):
        named = "reduced %d" % id(self)
        tutti.data.register_function(named, lambda _, window: window.shuffle(9))
        tutti.data.register_function(named + " key", lambda x: x % 3)
        try:
            dataset = Dataset.range(30).group_by_window(
                tutti.data.registered_function(named + " key"),
                tutti.data.registered_function(named), 5)
            self.assertEqual(list(Dataset.deserialize(dataset.serialize())), list(dataset))
        finally:
            tutti.data.unregister_function(named)
            tutti.data.unregister_function(named + " key")
        for count in (0, 3, 7, 30):
            iterator = iter(dataset)
            for _ in range(count):
                next(iterator)
            again = iter(dataset)
            again.restore(iterator.save())
            rest = list(iterator)
            self.assertEqual(len(rest), 30 - count)
            self.assertEqual(list(again), rest)

    def test_records_are_sharded_by_group_by_window(self):
        # The documentation's example.
        words = [b"word %d" % i for i in range(7)]
        with tempfile.TemporaryDirectory() as folder:
            PATH_PREFIX, NUM_SHARDS = folder + "/part-", 3
            dataset = Dataset.from_tensor_slices(np.array(words, object))

            def reduce_func(key, dataset):
                filename = tutti.strings.join([PATH_PREFIX, tutti.strings.as_string(key)])
                writer = tutti.data.experimental.TFRecordWriter(filename)
                writer.write(dataset.map(lambda _, x: x))
                return Dataset.from_tensors(filename)

            dataset = dataset.enumerate()
            dataset = dataset.apply(tutti.data.experimental.group_by_window(
                lambda i, _: i % NUM_SHARDS, reduce_func, np.iinfo(np.int64).max))
            self.assertEqual(dataset.element_spec, TensorSpec((), bytes))
            self.assertEqual(os.listdir(folder), [])
            iterator = iter(dataset)
            first = next(iterator)
            self.assertEqual(first, os.fsencode(folder + "/part-0"))
            self.assertEqual(list(tutti.data.TFRecordDataset(first.decode())), words[0::3])
            names = [first, *iterator]
            self.assertEqual(names, [b"%s/part-%d" % (os.fsencode(folder), i) for i in range(3)])
            for shard, name in enumerate(names):
                self.assertEqual(list(tutti.data.TFRecordDataset(name.decode())), words[shard::3])

    def test_tensors_are_written_and_read_back(self):
        # The documentation's example.
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/file.tfrecord"
            dataset = Dataset.range(3)
            dataset = dataset.map(tutti.io.serialize_tensor)
            writer = tutti.data.experimental.TFRecordWriter(path)
            writer.write(dataset)
            dataset = tutti.data.TFRecordDataset(path)
            dataset = dataset.map(lambda x: tutti.io.parse_tensor(x, np.int64))
            self.assertEqual(list(dataset), [0, 1, 2])

    def test_a_file_that_cannot_be_written_is_its_elements_error(self):
        with tempfile.TemporaryDirectory() as folder:
            def writing(x):
                writer = tutti.data.TFRecordWriter(f"{folder}/none/{x}")
                writer.write(Dataset.from_tensors(b"text"))
                return Dataset.range(2)

            iterator = iter(Dataset.range(1).flat_map(writing))
            with self.assertRaisesRegex(FileNotFoundError, "none/0.*before the first element"):
                next(iterator)
            self.assertEqual(list(iterator), [1])

    def test_writers_belong_to_functions_that_give_datasets(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x"

            def expect(function, message, error=errors.FailedPreconditionError):
                with self.assertRaisesRegex(error, message):
                    list(Dataset.range(1).flat_map(function))
                self.assertFalse(path.exists())

            def numbers(x):
                tutti.data.TFRecordWriter(path).write(Dataset.range(1))
                return Dataset.range(1)

            def record(x):
                with tutti.data.TFRecordWriter(path) as writer:
                    writer.write(b"a record")
                return Dataset.range(1)

            outside = tutti.data.TFRecordWriter(path)

            def late(x):
                outside.write_dataset(Dataset.from_tensors(b"text"))
                return Dataset.range(1)

            expect(numbers, "scalars of byte strings", TypeError)
            expect(record, "takes datasets only|dataset callback")
            expect(late, "write_dataset")
            outside.abandon()
            with self.assertRaisesRegex(errors.FailedPreconditionError, "gives no dataset"):
                list(Dataset.range(1).map(lambda x: tutti.data.TFRecordWriter(path) and x))

            def abandoned(x):
                with tutti.data.TFRecordWriter(path) as writer:
                    writer.write_dataset(Dataset.from_tensors(b"text"))
                    writer.abandon()
                return Dataset.range(1)

            self.assertEqual(list(Dataset.range(1).flat_map(abandoned)), [0])
            self.assertFalse(path.exists())


if __name__ == "__main__":
    unittest.main()
