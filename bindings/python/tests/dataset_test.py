"""Datasets: sources, transformations, iterators, files, and what goes wrong."""

import gzip
import functools
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import zlib

import numpy as np

import tutti
from tutti import errors
from tutti.data import Dataset, TensorSpec

DATA = os.path.join(os.environ.get("TUTTI_SOURCE_DIR", ""), "examples", "data")


class Table:
    """Something of which nobody can tell what it will give."""

    value = 7

    def method(self, x):
        return x

    def __radd__(self, x):
        return x


def plain(elements):
    return [e.tolist() if isinstance(e, np.ndarray) else e for e in elements]


class SourceTest(unittest.TestCase):
    def test_range_gives_numpy_scalars(self):
        elements = list(Dataset.range(3))
        self.assertEqual(elements, [0, 1, 2])
        self.assertIsInstance(elements[0], np.int64)
        self.assertEqual(list(Dataset.range(1, 8, 3, output_type=np.float32)), [1.0, 4.0, 7.0])

    def test_slices_are_views_of_the_callers_memory(self):
        array = np.arange(4096.0).reshape(2, 2048)
        elements = list(Dataset.from_tensor_slices(array))
        self.assertEqual(elements[1].__array_interface__["data"][0],
                         array[1].__array_interface__["data"][0])
        self.assertFalse(elements[0].flags.writeable)

    def test_a_generator_runs_anew_for_each_iteration(self):
        def count(stop):
            for i in range(stop):
                yield {"i": i, "text": f"{i}"}

        dataset = Dataset.from_generator(
            count, args=(3,), output_signature={"i": TensorSpec((), np.int64),
                                                "text": TensorSpec((), bytes)})
        wanted = [{"i": i, "text": b"%d" % i} for i in range(3)]
        self.assertEqual(list(dataset), wanted)
        self.assertEqual(list(dataset), wanted)
        self.assertEqual(dataset.element_spec["text"], TensorSpec((), bytes))

    def test_a_generators_element_must_fit_its_signature(self):
        dataset = Dataset.from_generator(lambda: [1, 2.5], output_types=np.int64, output_shapes=())
        iterator = iter(dataset)
        self.assertEqual(next(iterator), 1)
        with self.assertRaises(errors.InvalidArgumentError):
            next(iterator)

    def test_no_more_is_asked_of_a_generator_than_is_taken(self):
        asked = []

        def numbers():
            for i in range(100):
                asked.append(i)
                yield i

        dataset = Dataset.from_generator(numbers, output_signature=TensorSpec((), np.int64)).take(3)
        self.assertEqual(list(dataset), [0, 1, 2])
        self.assertEqual(asked, [0, 1, 2])

    def test_zip_takes_structures(self):
        a, b = Dataset.range(3), Dataset.range(10, 20)
        self.assertEqual(list(Dataset.zip(a, b)), [(0, 10), (1, 11), (2, 12)])
        self.assertEqual(list(Dataset.zip({"a": a, "b": (b, a)}))[1], {"a": 1, "b": (11, 1)})


class TransformationTest(unittest.TestCase):
    def test_a_dataset_stays_what_it_is(self):
        numbers = Dataset.range(6)
        pairs = numbers.batch(2)
        self.assertEqual(numbers.cardinality(), 6)
        self.assertEqual(plain(pairs), [[0, 1], [2, 3], [4, 5]])

    def test_map_unpacks_tuples_and_passes_dicts(self):
        pairs = Dataset.zip(Dataset.range(3), Dataset.range(3))
        self.assertEqual(list(pairs.map(lambda a, b: {"sum": a + b})), [{"sum": 0}, {"sum": 2},
                                                                       {"sum": 4}])
        dicts = pairs.map(lambda a, b: {"a": a, "b": b})
        self.assertEqual(list(dicts.map(lambda d: d["a"] * d["b"])), [0, 1, 4])

    def test_a_slab_function_gets_many_rows_at_once(self):
        sizes = []

        def double(rows):
            sizes.append(len(rows))
            return rows * 2

        spec = TensorSpec((), np.int64)
        dataset = Dataset.range(1000).map(double, slab=True, output_signature=spec)
        self.assertEqual(list(dataset.batch(500))[1][0], 1000)
        self.assertEqual(sum(sizes), 1000)
        self.assertLess(len(sizes), 1000)

    def test_a_slab_function_may_name_the_row_that_fails(self):
        def check(rows):
            bad = np.flatnonzero(rows == 5)
            if len(bad):
                raise errors.InvalidArgumentError("five is bad", {"row": int(bad[0])})
            return rows

        dataset = Dataset.range(10).map(check, slab=True, output_signature=TensorSpec((), np.int64))
        with self.assertRaisesRegex(errors.InvalidArgumentError, "five is bad"):
            list(dataset.batch(10))

    def test_a_map_learns_its_spec_from_the_first_row(self):
        dataset = Dataset.range(3).map(lambda x: np.full(2, x, np.float32))
        self.assertEqual(dataset.element_spec, TensorSpec((2,), np.float32))
        self.assertEqual(plain(dataset.batch(2))[0], [[0, 0], [1, 1]])

    def test_lists_and_texts_that_a_map_returns_are_tensors(self):
        dataset = Dataset.range(2).map(lambda x: ([int(x), 7], "text"))
        self.assertEqual([(a.tolist(), b) for a, b in dataset], [([0, 7], b"text"),
                                                                 ([1, 7], b"text")])

    def test_parallel_map_keeps_the_order(self):
        dataset = Dataset.range(200).map(lambda x: x * x, num_parallel_calls=4)
        self.assertEqual(list(dataset), [i * i for i in range(200)])

    def test_calls_of_a_parallel_map_are_made_at_once_whoever_asks(self):
        def meeting(**arguments):
            four = threading.Barrier(4)

            def meet(number):
                four.wait(60)
                return number

            return Dataset.range(8).map(meet, num_parallel_calls=4, **arguments)

        signature = TensorSpec((), np.int64)
        for numbers in (meeting(), meeting(output_signature=signature), meeting().prefetch(2)):
            self.assertEqual(list(numbers), list(range(8)))

    def test_a_parallel_map_makes_nothing_beyond_what_take_leaves(self):
        called = []
        signature = TensorSpec((), np.int64)
        numbers = Dataset.range(100).map(lambda x: called.append(int(x)) or x,
                                         num_parallel_calls=4, output_signature=signature)
        self.assertEqual(list(numbers.take(3)), [0, 1, 2])
        self.assertEqual(sorted(called), [0, 1, 2])

    def test_results_overtake_each_other_where_that_is_allowed(self):
        def first_comes_late(deterministic):
            second = threading.Event()

            def hold(number):
                if number == 0:
                    second.wait(60)
                return number

            numbers = Dataset.range(4).map(hold, num_parallel_calls=2, deterministic=deterministic,
                                           output_signature=TensorSpec((), np.int64))
            return numbers, second

        numbers, second = first_comes_late(False)
        walk = iter(numbers)
        self.assertEqual(next(walk), 1)
        second.set()
        self.assertEqual(sorted(walk), [0, 2, 3])
        numbers, second = first_comes_late(None)
        options = tutti.data.Options()
        options.deterministic = False
        walk = iter(numbers.with_options(options))
        self.assertEqual(next(walk), 1)
        second.set()
        self.assertEqual(sorted(walk), [0, 2, 3])
        numbers, second = first_comes_late(True)  # the argument wins
        second.set()
        self.assertEqual(list(numbers.with_options(options)), [0, 1, 2, 3])

    def test_filter_shuffle_shard_and_the_rest_chain(self):
        numbers = Dataset.range(20)
        self.assertEqual(list(numbers.filter(lambda x: x % 5 == 0)), [0, 5, 10, 15])
        self.assertEqual(sorted(numbers.shuffle(20, seed=3)), list(range(20)))
        self.assertEqual(list(numbers.shuffle(20, seed=3)), list(numbers.shuffle(20, seed=3)))
        self.assertEqual(list(numbers.shard(5, 4)), [4, 9, 14, 19])
        self.assertEqual(list(numbers.skip(17).repeat(2)), [17, 18, 19] * 2)
        self.assertEqual(list(numbers.take(2).concatenate(Dataset.range(1))), [0, 1, 0])
        self.assertEqual(list(numbers.take(2).enumerate(5)), [(5, 0), (6, 1)])
        self.assertEqual(list(numbers.prefetch(4)), list(range(20)))
        self.assertEqual(list(numbers.apply(lambda d: d.take(1))), [0])

    def test_take_while_ends_for_good_and_takes_slabs(self):
        numbers = Dataset.from_tensor_slices(np.array([1, 2, 9, 1]))
        self.assertEqual(list(numbers.take_while(lambda x: x < 5)), [1, 2])
        self.assertEqual(list(numbers.take_while(lambda x: x < 5, slab=True)), [1, 2])

    def test_on_error_skips_failed_elements_as_many_as_may_be(self):
        def check(x):
            if x % 3 == 2:
                raise ValueError(f"{x} is bad")
            return x
        bad = Dataset.range(9).map(check)
        self.assertEqual(list(bad.on_error("skip")), [0, 1, 3, 4, 6, 7])
        with self.assertRaisesRegex(ValueError, "2 is bad"):
            list(bad.on_error("fail"))
        one = iter(bad.on_error("skip", max_skipped=1))
        self.assertEqual([next(one) for _ in range(4)], [0, 1, 3, 4])
        # What a function of Python's raised comes as itself.
        with self.assertRaisesRegex(ValueError, "^5 is bad$"):
            next(one)
        unequal = Dataset.range(1, 5).map(np.arange).batch(2)
        with self.assertRaisesRegex(ValueError, "1 element that failed was skipped.*batch: "):
            next(iter(unequal.on_error("skip", max_skipped=1)))
        # Goes on behind it, and counts on where it is restored.
        again = iter(bad.on_error("skip", max_skipped=1))
        again.restore(one.save())
        for iterator in (one, again):
            self.assertEqual([next(iterator) for _ in range(2)], [6, 7])
            with self.assertRaisesRegex(ValueError, "8 is bad"):
                next(iterator)
        self.assertEqual(list(bad.on_error("skip", 3).repeat(2)), [0, 1, 3, 4, 6, 7] * 2)
        for policy, most, why in (("ignore", -1, "'fail'.*'skip'"), ("skip", -2, "-1 .any number"),
                                  ("fail", 3, "skips nothing")):
            with self.assertRaisesRegex(ValueError, why):
                bad.on_error(policy, most)
        # A file that is missing is no element.
        missing = Dataset.from_tensors(b"x").concatenate(
            tutti.data.TFRecordDataset("/nowhere/a.records"))
        with self.assertRaisesRegex(tutti.errors.NotFoundError, "a.records"):
            list(missing.on_error("skip"))

    def test_a_window_of_windows_is_serialised(self):
        window = next(iter(Dataset.range(8).window(2).window(2)))
        again = Dataset.deserialize(window.serialize())
        self.assertEqual([list(inner) for inner in again], [[0, 1], [2, 3]])

    def test_a_budget_bounds_what_buffers_hold(self):
        options = tutti.data.Options()
        options.autotune.ram_budget = 4000
        shuffled = Dataset.range(1000).shuffle(1000, seed=3, name="all")
        with self.assertRaisesRegex(tutti.errors.ResourceExhaustedError,
                                    "ram_budget is 3.906 KiB; shuffle 'all' holds most"):
            next(iter(shuffled.with_options(options)))
        options.autotune.ram_budget = 8000
        self.assertEqual(sorted(shuffled.with_options(options)), list(range(1000)))
        # What can wait waits.
        options.autotune.ram_budget = 1
        ahead = Dataset.range(50).map(lambda x: x + 1, num_parallel_calls=4).prefetch(20)
        self.assertEqual(list(ahead.with_options(options)), list(range(1, 51)))

    def test_padded_batch_pads_to_one_shape(self):
        vector = TensorSpec((None,), np.int32)
        filled = Dataset.range(1, 4, output_type=np.int32).map(
            lambda x: np.full(x, x, np.int32), output_signature=vector)
        def of(*args, **kwargs):
            return [batch.tolist() for batch in filled.padded_batch(*args, **kwargs)]
        self.assertEqual(of(2), [[[1, 0], [2, 2]], [[3, 3, 3]]])
        self.assertEqual(of(2, drop_remainder=True), [[[1, 0], [2, 2]]])
        padded = [[[1, 9, 9, 9], [2, 2, 9, 9]], [[3, 3, 3, 9]]]
        for shape in ([4], (4,), 4, np.array([4])):
            self.assertEqual(of(2, padded_shapes=shape, padding_values=9), padded, shape)
        for shape in (None, [None], (None,), [-1], TensorSpec((None,))):
            self.assertEqual(of(3, shape, np.int32(-1)), [[[1, -1, -1], [2, 2, -1], [3, 3, 3]]])
        self.assertEqual(filled.padded_batch(2).element_spec, TensorSpec((None, None), np.int32))
        self.assertEqual(filled.padded_batch(2, [4], drop_remainder=True).element_spec,
                         TensorSpec((2, 4), np.int32))
        self.assertEqual(filled.padded_batch(2).cardinality(), 2)

    def test_padded_batch_pads_each_component(self):
        def row(x):
            return {"n": x, "v": np.full(x, x, np.float64), "t": np.array([b"ab"] * int(x), object)}
        spec = {"n": TensorSpec((), np.int64), "v": TensorSpec((None,), np.float64),
                "t": TensorSpec((None,), bytes)}
        rows = Dataset.range(1, 3).map(row, output_signature=spec)
        def of(**kwargs):
            (batch,) = rows.padded_batch(2, **kwargs)
            return batch["n"].tolist(), batch["v"].tolist(), batch["t"].tolist()
        self.assertEqual(of(), ([1, 2], [[1, 0], [2, 2]], [[b"ab", b""], [b"ab", b"ab"]]))
        # One number of Python's for all that hold it.
        self.assertEqual(of(padding_values=-1),
                         ([1, 2], [[1, -1], [2, 2]], [[b"ab", b""], [b"ab", b"ab"]]))
        self.assertEqual(of(padding_values=b"-")[2], [[b"ab", b"-"], [b"ab", b"ab"]])
        self.assertEqual(
            of(padding_values={"n": None, "v": -1, "t": "x"},
               padded_shapes={"n": [], "v": [3], "t": [None]}),
            ([1, 2], [[1, -1, -1], [2, 2, -1]], [[b"ab", b"x"], [b"ab", b"ab"]]))
        pairs = Dataset.zip((rows.map(lambda row: row["v"], output_signature=spec["v"]),
                             Dataset.range(2)))
        (vectors, numbers), = pairs.padded_batch(2, padded_shapes=([3], []),
                                                 padding_values=(0.5, None))
        self.assertEqual(vectors.tolist(), [[1, 0.5, 0.5], [2, 2, 0.5]])
        self.assertEqual(numbers.tolist(), [0, 1])

    def test_padded_batch_refuses_what_does_not_fit(self):
        filled = Dataset.range(1, 4).map(lambda x: np.full(x, x),
                                         output_signature=TensorSpec((None,), np.int64))
        for wrong, message in (({"padding_values": 1.5}, "int64"),
                               ({"padding_values": np.int32(1)}, "int64.*int32"),
                               ({"padding_values": [1, 2]}, "padding_values"),
                               ({"padded_shapes": [2, 2]}, r"\[\?\].*\[2,2\]"),
                               ({"padded_shapes": ([2], [2])}, "padded_shapes"),
                               ({"padded_shapes": [-2]}, "-2"),
                               ({"batch_size": 0}, "batch_size")):
            with self.assertRaisesRegex(errors.InvalidArgumentError, message):
                filled.padded_batch(**{"batch_size": 2, **wrong})
        iterator = iter(filled.padded_batch(1, [2], name="mine"))
        self.assertEqual(next(iterator).tolist(), [[1, 0]])
        self.assertEqual(next(iterator).tolist(), [[2, 2]])
        with self.assertRaisesRegex(errors.InvalidArgumentError, r"mine.*shape \[3\].*\[2\]"):
            next(iterator)
        self.assertEqual(list(iterator), [])
        anything = Dataset.range(2).map(lambda x: np.full(int(x), x),
                                        output_signature=TensorSpec(None, np.int64))
        with self.assertRaisesRegex(ValueError, "number of axes"):
            anything.padded_batch(2)
        self.assertEqual([batch.tolist() for batch in anything.padded_batch(2, [None])],
                         [[[0], [1]]])

    def test_padded_batch_of_what_the_first_row_shows(self):
        learnt = Dataset.range(1, 5).map(lambda x: np.full(x, x))
        self.assertEqual([batch.tolist() for batch in learnt.padded_batch(2, padding_values=-1)],
                         [[[1, -1], [2, 2]], [[3, 3, 3, -1], [4, 4, 4, 4]]])
        self.assertEqual(learnt.padded_batch(2).element_spec, TensorSpec((None, None), np.int64))

    def test_padded_batch_is_saved_in_the_middle(self):
        padded = Dataset.range(1, 8).map(
            lambda x: np.full(x, x), output_signature=TensorSpec((None,), np.int64)).padded_batch(2)
        iterator = iter(padded)
        next(iterator)
        state = iterator.save()
        rest = [batch.tolist() for batch in iterator]
        self.assertEqual(len(rest), 3)
        again = iter(padded)
        again.restore(state)
        self.assertEqual([batch.tolist() for batch in again], rest)

    def test_reduce_hands_the_state_on(self):
        self.assertEqual(Dataset.range(5).reduce(np.int64(0), lambda x, _: x + 1), 5)
        self.assertEqual(Dataset.range(5).reduce(np.int64(0), lambda x, y: x + y), 10)
        self.assertEqual(Dataset.range(0).reduce(np.int64(7), lambda x, y: x + y), 7)
        pairs = Dataset.range(3).enumerate(start=10)
        self.assertEqual(pairs.reduce(np.int64(0), lambda state, pair: state + pair[0] + pair[1]),
                         36)
        grown = Dataset.range(3).reduce(np.array([], np.int64), np.append)
        self.assertEqual(grown.tolist(), [0, 1, 2])
        self.assertEqual(grown.dtype, np.int64)
        state = Dataset.range(4).reduce({"sum": np.int64(0), "count": 0},
                                        lambda s, x: {"sum": s["sum"] + x, "count": s["count"] + 1})
        self.assertEqual((int(state["sum"]), int(state["count"])), (6, 4))
        self.assertEqual(state["count"].dtype, np.int32)
        # Python's own numbers are of the dtype that the state has.
        kept = Dataset.range(4).reduce((np.int64(0), np.float64(0)),
                                       lambda s, x: (int(s[0]) + int(x), 1))
        self.assertEqual([(int(kept[0]), kept[0].dtype), (float(kept[1]), kept[1].dtype)],
                         [(6, np.int64), (1, np.float64)])
        named = tutti.data.Function(lambda state, x: state + x)
        self.assertEqual(Dataset.range(5).reduce(np.int64(1), named), 11)

    def test_reduce_names_both_states(self):
        for wrong, message in ((lambda s, _: (s, s), r"\(int64\[\], int64\[\]\), and it was int64"),
                               (lambda s, _: np.float32(s), "float32.*, and it was int64"),
                               (lambda s, _: 0.5, "float32.*, and it was int64"),
                               (lambda s, _: np.int32(1), "int32.*, and it was int64")):
            with self.assertRaisesRegex(errors.InvalidArgumentError, message):
                Dataset.range(3).reduce(np.int64(0), wrong)
        with self.assertRaises(TypeError):
            Dataset.range(3).reduce(np.int64(0), 5)

    def test_reduce_ends_with_what_fails(self):
        class Own(Exception):
            pass

        def fail_at_two(state, x):
            if x == 2:
                raise Own("two")
            return state
        with self.assertRaises(Own):
            Dataset.range(5).reduce(np.int64(0), fail_at_two)

        def bad(x):
            if x == 3:
                raise errors.DataLossError("bad")
            return x
        failing = Dataset.range(5).map(bad, output_signature=TensorSpec((), np.int64))
        with self.assertRaisesRegex(errors.DataLossError, "bad"):
            failing.reduce(np.int64(0), lambda state, x: state + x)
        with self.assertRaises(errors.DeadlineExceededError):
            Dataset.range(5).repeat().reduce(np.int64(0), lambda state, _: state, timeout=0.02)

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

    def test_shuffle_and_repeat_gives_one_order_after_the_other(self):
        # The documentation's example.
        d = Dataset.from_tensor_slices([1, 2, 3])
        d = d.apply(tutti.data.experimental.shuffle_and_repeat(2, count=2))
        numbers = [int(elem) for elem in d]
        self.assertEqual([sorted(numbers[:3]), sorted(numbers[3:])], [[1, 2, 3]] * 2)
        nine = Dataset.range(9)
        both = list(nine.shuffle_and_repeat(9, 3, 5))
        self.assertEqual(both, list(nine.shuffle(9, seed=5).repeat(3)))
        self.assertNotEqual(both[:9], both[9:18])
        for count in (None, -1):
            self.assertEqual(nine.shuffle_and_repeat(2, count).cardinality(),
                             tutti.data.INFINITE_CARDINALITY)
        with self.assertRaisesRegex(errors.InvalidArgumentError, "buffer_size"):
            nine.shuffle_and_repeat(0)

    def test_unique_keeps_the_first_of_equal_elements(self):
        self.assertEqual(list(Dataset.from_tensor_slices(np.array([3, 1, 3, 2, 1])).unique()),
                         [3, 1, 2])
        with self.assertRaisesRegex(ValueError, "unique"):
            Dataset.zip((Dataset.range(2), Dataset.range(2))).unique()

    def test_unbatch_gives_the_rows_of_the_elements(self):
        rows = {"x": np.arange(6).reshape(3, 2), "y": np.array([b"a", b"b", b"c"])}
        dataset = Dataset.from_tensors(rows).unbatch()
        self.assertEqual(dataset.cardinality(), 3)
        self.assertEqual(dataset.element_spec["x"].shape, (2,))
        self.assertEqual([(row["x"].tolist(), row["y"]) for row in dataset.as_numpy_iterator()],
                         [([0, 1], b"a"), ([2, 3], b"b"), ([4, 5], b"c")])
        batches = Dataset.range(5).batch(2)
        self.assertEqual(list(batches.unbatch()), list(range(5)))
        self.assertEqual(list(batches.apply(tutti.data.experimental.unbatch())), list(range(5)))
        with self.assertRaisesRegex(ValueError, "unbatch: expected tensors of rank 1 or more"):
            Dataset.range(3).unbatch()
        iterator = iter(batches.unbatch())
        self.assertEqual([int(next(iterator)) for _ in range(3)], [0, 1, 2])
        again = iter(batches.unbatch())
        again.restore(iterator.save())
        self.assertEqual(list(again), [3, 4])

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

    def test_window_gives_datasets(self):
        def lists(dataset):
            return [[int(x) for x in window] for window in dataset]

        self.assertEqual(lists(Dataset.range(7).window(3)), [[0, 1, 2], [3, 4, 5], [6]])
        self.assertEqual(lists(Dataset.range(7).window(3, 2, 1, True)),
                         [[0, 1, 2], [2, 3, 4], [4, 5, 6]])
        self.assertEqual(lists(Dataset.range(7).window(3, stride=2, drop_remainder=True)),
                         [[0, 2, 4]])
        self.assertEqual(Dataset.range(7).window(size=3, shift=1).cardinality(), 7)
        self.assertEqual(Dataset.range(7).window(2).element_spec,
                         tutti.data.DatasetSpec(tutti.data.TensorSpec((), np.int64)))
        for wrong in ((0,), (2, 0), (2, 1, 0)):
            with self.assertRaisesRegex(ValueError, "must be positive, got 0"):
                Dataset.range(3).window(*wrong)

    def test_windows_have_a_dataset_for_each_component(self):
        nested = Dataset.from_tensor_slices(({"a": np.arange(4)}, np.arange(4) * 10))
        first, second = list(nested.window(2))[0]  # its iterator is gone
        self.assertEqual(list(first["a"]), [0, 1])
        for _ in range(2):
            self.assertEqual(list(second), [0, 10])
        self.assertEqual(len(second), 2)
        batches = nested.window(3, 1, drop_remainder=True).flat_map(
            lambda x, y: Dataset.zip((x["a"], y)).batch(3))
        self.assertEqual([(x.tolist(), y.tolist()) for x, y in batches],
                         [([0, 1, 2], [0, 10, 20]), ([1, 2, 3], [10, 20, 30])])

    def test_kept_windows_are_saved(self):
        dataset = Dataset.range(20).window(3).prefetch(2).window(2, 1)
        iterator = iter(dataset)
        next(iterator)
        state = iterator.save()
        again = iter(dataset)
        again.restore(state)

        def lists(windows):
            return [[list(window) for window in outer] for outer in windows]

        rest = lists(iterator)
        self.assertEqual(rest[0], [[3, 4, 5], [6, 7, 8]])
        self.assertEqual(lists(again), rest)

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

    def test_cardinalities(self):
        numbers = Dataset.range(5)
        self.assertEqual(len(numbers.batch(2)), 3)
        self.assertEqual(numbers.repeat().cardinality(), tutti.data.INFINITE_CARDINALITY)
        self.assertEqual(numbers.filter(bool).cardinality(), tutti.data.UNKNOWN_CARDINALITY)
        with self.assertRaisesRegex(TypeError, "infinite"):
            len(numbers.repeat())
        self.assertTrue(numbers.take(0))

    def test_bad_arguments_are_value_errors_of_the_method_that_takes_them(self):
        for wrong in (lambda d: d.batch(0), lambda d: d.shard(3, 3), lambda d: d.shuffle(0),
                      lambda d: d.concatenate(Dataset.zip(d, d))):
            with self.assertRaises(ValueError) as caught:
                wrong(Dataset.range(8))
            self.assertIsInstance(caught.exception, errors.InvalidArgumentError)
        with self.assertRaises(TypeError):
            Dataset.range(8).batch("3")

    def test_elements_of_unequal_shapes_are_a_value_error_that_names_both(self):
        dataset = Dataset.from_generator(
            lambda: [np.zeros(3), np.zeros(2)],
            output_signature=TensorSpec((None,), np.float64)).batch(2)
        with self.assertRaisesRegex(ValueError, r"(?s)(?=.*\[3\])(?=.*\[2\])"):
            list(dataset)

    def test_options_know_what_was_set(self):
        options = tutti.data.Options()
        self.assertIsNone(options.deterministic)
        options.deterministic = False
        options.experimental_distribute.auto_shard_policy = tutti.data.AutoShardPolicy.DATA
        dataset = Dataset.range(3).with_options(options)
        self.assertIs(dataset.options().deterministic, False)
        self.assertEqual(dataset.options().experimental_distribute.auto_shard_policy,
                         tutti.data.AutoShardPolicy.DATA)
        other = tutti.data.Options()
        other.deterministic = True
        other.threading.private_threadpool_size = 2
        options.threading.private_threadpool_size = 3
        with self.assertRaises(ValueError):
            Dataset.range(3).with_options(options).with_options(other)
        self.assertIs(options.merge(other).deterministic, True)
        with self.assertRaises(ValueError):
            options.no_such_option = 1

    def test_what_is_set_through_a_datasets_options_counts(self):
        dataset = Dataset.range(3)
        dataset.options().deterministic = False
        dataset.options().threading.private_threadpool_size = 2
        self.assertIs(dataset.options().deterministic, False)
        self.assertEqual(dataset.options().threading.private_threadpool_size, 2)
        self.assertIs(dataset.map(lambda x: x).options().deterministic, False)

    def test_registered_functions_survive_serialisation(self):
        tutti.data.register_function("dataset_test.double", lambda x: x * 2,
                                     output_signature=TensorSpec((), np.int64))
        try:
            double = tutti.data.registered_function("dataset_test.double")
            data = Dataset.range(3).map(double).serialize()
            self.assertEqual(list(Dataset.deserialize(data)), [0, 2, 4])
            with self.assertRaises(errors.AlreadyExistsError):
                tutti.data.register_function("dataset_test.double", lambda x: x)
        finally:
            tutti.data.unregister_function("dataset_test.double")
        with self.assertRaises(KeyError):
            tutti.data.registered_function("dataset_test.double")
        with self.assertRaises(errors.FailedPreconditionError):
            Dataset.range(3).map(lambda x: x).serialize()

    def test_a_plan_can_be_read(self):
        self.assertIn("batch", Dataset.range(8).batch(3).explain())


class DepthTest(unittest.TestCase):
    def test_a_hundred_thousand_concatenated_datasets_do_what_two_do(self):
        one = Dataset.range(1)
        chain = one
        for _ in range(99_999):
            chain = chain.concatenate(one)
        chain = chain.concatenate(Dataset.range(7, 9))
        self.assertEqual(chain.cardinality(), 100_002)
        self.assertEqual(chain.element_spec, TensorSpec((), np.int64))
        self.assertIn("100001 parts", chain.explain())
        data = chain.serialize()
        del chain
        chain = Dataset.deserialize(data)
        iterator = iter(chain)
        for _ in range(99_000):
            next(iterator)
        state = iterator.save()
        rest = [0] * 1000 + [7, 8]
        self.assertEqual(list(iterator), rest)
        again = iter(chain)
        again.restore(state)
        self.assertEqual(list(again), rest)

    def test_what_is_appended_to_itself_is_walked_as_far_as_it_is_asked_for(self):
        chain = Dataset.range(3)
        for _ in range(40):
            chain = chain.concatenate(chain)
        self.assertEqual(chain.cardinality(), 3 << 40)
        self.assertIn("1099511627776 parts", chain.explain())
        self.assertEqual(list(chain.take(5)), [0, 1, 2, 0, 1])
        for _ in range(24):
            chain = chain.concatenate(chain)
        self.assertEqual(chain.cardinality(), tutti.data.UNKNOWN_CARDINALITY)
        self.assertEqual(list(chain.take(4)), [0, 1, 2, 0])

    def test_more_than_a_thousand_operations_on_one_another_are_refused(self):
        dataset = Dataset.range(3)
        for _ in range(999):
            dataset = dataset.take(2)
        self.assertEqual(list(dataset), [0, 1])
        with self.assertRaisesRegex(errors.InvalidArgumentError,
                                    "take: .* 1001 operations deep, and at most 1000"):
            dataset.take(2)


class IteratorTest(unittest.TestCase):
    def test_the_end_is_stop_iteration_out_of_range_or_an_empty_optional(self):
        iterator = iter(Dataset.range(1))
        self.assertEqual(iterator.get_next(), 0)
        with self.assertRaises(StopIteration):
            next(iterator)
        with self.assertRaises(errors.OutOfRangeError):
            iterator.get_next()
        self.assertFalse(iterator.get_next_as_optional().has_value())
        with self.assertRaises(ValueError):
            iterator.get_next_as_optional().get_value()
        optional = iter(Dataset.range(1)).get_next_as_optional()
        self.assertEqual(optional.get_value(), 0)

    def test_a_saved_position_is_found_again(self):
        dataset = Dataset.range(100).shuffle(10, seed=1).batch(3)
        iterator = iter(dataset)
        for _ in range(4):
            next(iterator)
        state = iterator.save()
        rest = plain(iterator)
        again = iter(dataset)
        again.restore(state)
        self.assertEqual(plain(again), rest)
        with self.assertRaises(ValueError):
            iter(Dataset.range(3)).restore(state)

    def test_a_position_is_of_the_rows_and_not_of_how_soon_they_are_made(self):
        def dataset(calls, size):
            return (Dataset.range(50).map(lambda x: x + 1, num_parallel_calls=calls)
                    .prefetch(size, name=f"by_{size}"))
        iterator = iter(dataset(4, 2))
        for _ in range(5):
            next(iterator)
        state = iterator.save()
        rest = plain(iterator)
        again = iter(dataset(1, 8))
        again.restore(state)
        self.assertEqual(plain(again), rest)

    def test_a_state_of_another_format_says_what_it_is(self):
        iterator = iter(Dataset.range(3))
        state = iterator.save()
        next(iterator)
        with self.assertRaisesRegex(
                errors.InvalidArgumentError,
                "an iterator's state in the format TUTTI-I1, and TUTTI-I2 is read here: an earlier "
                "release saved it; start the iterator afresh, or restore with the release that "
                "saved it"):
            iterator.restore(b"TUTTI-I1" + state[8:])
        self.assertEqual(next(iterator), 1)

    def test_a_closed_iterator_is_refused(self):
        with iter(Dataset.range(3)) as iterator:
            next(iterator)
        with self.assertRaises(errors.FailedPreconditionError):
            next(iterator)

    def test_a_timeout_loses_nothing(self):
        go = threading.Event()

        def slow():
            go.wait(60)
            yield 1

        dataset = Dataset.from_generator(
            slow, output_signature=TensorSpec((), np.int64)).prefetch(1)
        iterator = iter(dataset)
        with self.assertRaises(TimeoutError):
            iterator.next(timeout=0.01)
        go.set()
        self.assertEqual(next(iterator), 1)

    def test_elements_outlive_their_iterator(self):
        iterator = iter(Dataset.range(1000).batch(1000))
        batch = next(iterator)
        iterator.close()
        del iterator
        self.assertEqual(batch.sum(), 499500)


class FileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, records, compression=None):
        with tutti.data.TFRecordWriter(self.path(name), compression) as writer:
            for record in records:
                writer.write(record)
        return self.path(name)

    def test_records_are_read_as_they_were_written(self):
        records = [b"", b"a", b"b\0" * 1000, bytes(range(256))]
        for compression in (None, "GZIP", "ZLIB"):
            with self.subTest(compression=compression):
                path = self.write(f"records-{compression}", records, compression)
                self.assertEqual(list(tutti.data.TFRecordDataset(path, compression)), records)

    def test_an_exception_in_the_body_leaves_the_file_that_was_there(self):
        path = self.write("records", [b"%d" % i for i in range(10)])
        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            with tutti.data.TFRecordWriter(path) as writer:
                writer.write(b"new")
                raise ZeroDivisionError("mine")
        self.assertEqual(len(list(tutti.data.TFRecordDataset(path))), 10)
        self.assertEqual(os.listdir(self.folder), ["records"])
        with self.assertRaises(tutti.errors.FailedPreconditionError):
            writer.write(b"more")
        with tutti.data.TFRecordWriter(path) as writer:
            writer.write(b"new")
            writer.abandon()
        self.assertEqual(len(list(tutti.data.TFRecordDataset(path))), 10)

    def test_what_is_no_regular_file_is_refused_at_once(self):
        os.mkfifo(self.path("fifo"))
        iterator = iter(tutti.data.TFRecordDataset(self.path("fifo")))
        with self.assertRaisesRegex(tutti.errors.FailedPreconditionError, "found a FIFO"):
            next(iterator)

    def test_a_name_with_a_nul_is_refused_and_not_cut_off(self):
        for call in (
            lambda: Dataset.range(3, name="a\0b"),
            lambda: tutti.data.TFRecordWriter(self.path("a\0b")),
            lambda: Dataset.list_files([self.path("a\0b")]),
            lambda: Dataset.from_tensors({"a\0b": 1, "a\0c": 2}),
        ):
            with self.assertRaisesRegex(ValueError, "NUL"):
                call()
        self.assertEqual(os.listdir(self.folder), [])

    def test_enumerate_has_no_number_after_the_last_one(self):
        last = 2**63 - 1
        iterator = iter(Dataset.range(3).enumerate(last - 1))
        self.assertEqual([int(next(iterator)[0]), int(next(iterator)[0])], [last - 1, last])
        with self.assertRaisesRegex(tutti.errors.OutOfRangeError, "have come to their end"):
            next(iterator)
        with self.assertRaises(StopIteration):
            next(iterator)

    def test_a_dataset_is_written_and_files_are_listed(self):
        for i in range(3):
            with tutti.data.TFRecordWriter(self.path(f"part-{i}")) as writer:
                writer.write_dataset(Dataset.from_tensors(b"%d" % i))
        files = Dataset.list_files(self.path("part-*"), shuffle=False)
        self.assertEqual(list(tutti.data.TFRecordDataset(files)), [b"0", b"1", b"2"])
        self.assertEqual([os.path.basename(f) for f in files], [b"part-0", b"part-1", b"part-2"])

    def test_fixed_length_records(self):
        with open(self.path("fixed"), "wb") as file:
            file.write(b"H" + struct.pack("<3i", 1, 2, 3) + b"FF")
        dataset = tutti.data.FixedLengthRecordDataset(self.path("fixed"), 4, 1, 2)
        self.assertEqual([struct.unpack("<i", r)[0] for r in dataset], [1, 2, 3])

    def test_lines_of_text_files(self):
        cases = {b"": [], b"a\nb": [b"a", b"b"], b"a\r\n\n\rb\r\r\n": [b"a", b"", b"\rb\r"],
                 "grüße\n".encode(): ["grüße".encode()],
                 b"\0\n" + b"x" * 1000: [b"\0", b"x" * 1000]}
        for content, lines in cases.items():
            for compression, pack in ((None, bytes), ("GZIP", gzip.compress),
                                      ("ZLIB", zlib.compress)):
                with self.subTest(content=content, compression=compression):
                    with open(self.path("text"), "wb") as file:
                        file.write(pack(content))
                    dataset = tutti.data.TextLineDataset(self.path("text"), compression,
                                                         buffer_size=3, name="lines")
                    self.assertEqual(list(dataset), lines)
                    self.assertEqual(dataset.element_spec, TensorSpec((), bytes))
                    self.assertEqual(dataset.cardinality(), tutti.data.UNKNOWN_CARDINALITY)
        with open(self.path("text"), "wb") as file:
            file.write(b"1\n2\n")
        for names in ([self.path("text")] * 2, Dataset.from_tensors([self.path("text")] * 2),
                      Dataset.list_files(self.path("tex*")).repeat(2)):
            self.assertEqual(list(tutti.data.TextLineDataset(names)), [b"1", b"2"] * 2)
        self.assertEqual(list(tutti.data.TextLineDataset([])), [])

    def test_an_iterator_over_lines_goes_on_behind_an_error_and_from_its_position(self):
        for name, content in (("a", b"1\n2\n"), ("b", b"3")):
            with open(self.path(name), "wb") as file:
                file.write(content)
        dataset = tutti.data.TextLineDataset([self.path(name) for name in ("a", "missing", "b")])
        iterator = iter(dataset)
        self.assertEqual(next(iterator), b"1")
        again = iter(dataset)
        again.restore(iterator.save())
        for one in (iterator, again):
            self.assertEqual(next(one), b"2")
            with self.assertRaisesRegex(FileNotFoundError, "text_line.*missing"):
                next(one)
            self.assertEqual(list(one), [b"3"])

    def test_a_truncated_compressed_text_is_data_loss(self):
        with open(self.path("text"), "wb") as file:
            file.write(gzip.compress(b"1\n2\n")[:-4])
        iterator = iter(tutti.data.TextLineDataset(self.path("text"), "GZIP"))
        self.assertEqual([next(iterator), next(iterator)], [b"1", b"2"])
        with self.assertRaisesRegex(errors.DataLossError, "ends early"):
            next(iterator)
        with self.assertRaises(StopIteration):
            next(iterator)

    def test_a_missing_file_is_named(self):
        with self.assertRaises(FileNotFoundError) as caught:
            list(tutti.data.TFRecordDataset(self.path("missing")))
        self.assertIn("missing", str(caught.exception))
        self.assertIsInstance(caught.exception, errors.NotFoundError)
        with self.assertRaises(FileNotFoundError):
            list(Dataset.list_files(self.path("nothing-*")))

    def test_a_damaged_file_is_named_with_offset_and_index(self):
        path = self.write("damaged", [b"first", b"second"])
        with open(path, "r+b") as file:
            file.seek(-5, os.SEEK_END)
            file.write(b"X")
        iterator = iter(tutti.data.TFRecordDataset(path))
        self.assertEqual(next(iterator), b"first")
        with self.assertRaises(errors.DataLossError) as caught:
            next(iterator)
        self.assertEqual(caught.exception.details["file"], path)
        self.assertEqual(caught.exception.details["index"], 1)
        self.assertIn("offset", caught.exception.details)

    def test_a_truncated_file_is_data_loss(self):
        path = self.write("truncated", [b"first", b"second"])
        os.truncate(path, os.path.getsize(path) - 3)
        with self.assertRaises(errors.DataLossError):
            list(tutti.data.TFRecordDataset(path))

    def test_a_compression_that_is_none_is_a_value_error(self):
        with self.assertRaisesRegex(ValueError, "LZ4"):
            tutti.data.TFRecordDataset("x", "LZ4")

    def test_examples_are_parsed(self):
        files = Dataset.list_files(os.path.join(DATA, "digits-*.tfrecord"), shuffle=False)
        parse = tutti.data.parse_example({"image": ([64], np.float32), "label": ([], np.int64)})
        digits = tutti.data.TFRecordDataset(files).map(parse)
        self.assertEqual(digits.element_spec, {"image": TensorSpec((64,), np.float32),
                                               "label": TensorSpec((), np.int64)})
        batch = next(iter(digits.batch(100)))
        self.assertEqual(batch["image"].shape, (100, 64))
        self.assertEqual(batch["image"].dtype, np.float32)
        self.assertTrue(((0 <= batch["label"]) & (batch["label"] <= 9)).all())

    def test_a_feature_that_is_missing_has_its_default_or_is_an_error(self):
        records = tutti.data.TFRecordDataset(os.path.join(DATA, "digits-00000-of-00008.tfrecord"))
        feature = tutti.data.FixedLenFeature([2], np.float32, default_value=7)
        parsed = records.map(tutti.data.parse_example({"no such": feature}))
        self.assertEqual(next(iter(parsed))["no such"].tolist(), [7, 7])
        with self.assertRaisesRegex(errors.InvalidArgumentError, "no such"):
            next(iter(records.map(tutti.data.parse_example({"no such": ([], np.int64)}))))

    def test_a_malformed_example_is_a_value_error(self):
        dataset = Dataset.from_tensors(b"\xff\xff\xff").map(
            tutti.data.parse_example({"label": ([], np.int64)}))
        with self.assertRaises(ValueError):
            list(dataset)


class TextTest(unittest.TestCase):
    def test_texts_are_joined_place_by_place(self):
        join = tutti.strings.join
        self.assertEqual(join(["abc", "def"]), b"abcdef")
        self.assertEqual(join([b"a", np.array(b"b", object), "\u00e9"], separator="-"),
                         "a-b-\u00e9".encode())
        joined = join([["abc", "123"], ["def", "456"], ["ghi", "789"]], separator=" ")
        self.assertEqual(joined.tolist(), [b"abc def ghi", b"123 456 789"])
        self.assertEqual(join(["part-", ["a", "b"]]).tolist(), [b"part-a", b"part-b"])
        with self.assertRaisesRegex(ValueError, "shape"):
            join([["a", "b"], ["c"]])
        with self.assertRaisesRegex(ValueError, "no inputs"):
            join([])
        with self.assertRaisesRegex(TypeError, "as_string"):
            join(["a", 7])

    def test_numbers_become_texts(self):
        as_string = tutti.strings.as_string
        self.assertEqual(as_string([3, 2]).tolist(), [b"3", b"2"])
        self.assertEqual(as_string([3.1415926, 2.71828], precision=2).tolist(), [b"3.14", b"2.72"])
        self.assertEqual(as_string(np.int64(7), width=3, fill="0"), b"007")
        self.assertEqual(as_string(0.5), b"0.500000")
        self.assertEqual(as_string(0.5, shortest=True), b"0.5")
        self.assertEqual(as_string(0.5, scientific=True, precision=1), b"5.0e-01")
        self.assertEqual(as_string(True), b"true")
        self.assertEqual(as_string(1 + 2j, precision=0), b"(1,2)")
        with self.assertRaisesRegex(ValueError, "precision is for floats"):
            as_string(7, precision=2)

    def test_tensors_become_bytes_and_tensors_again(self):
        serialize, parse = tutti.io.serialize_tensor, tutti.io.parse_tensor
        self.assertEqual(serialize(np.int64(0)), b'\x08\t\x12\x00"\x08' + bytes(8))
        for array in (np.arange(6.0).reshape(2, 3), np.array([True, False]), np.uint16(7),
                      np.zeros((0, 2), np.complex64), np.array([[b"a", b""]], object)):
            again = parse(serialize(array), array.dtype if array.dtype != object else bytes)
            np.testing.assert_array_equal(again, array)
        self.assertIsInstance(parse(serialize(np.int64(5)), np.int64), np.int64)
        self.assertEqual(parse(serialize("text"), str), b"text")
        with self.assertRaisesRegex(ValueError, "is of int64, and out_type is float32"):
            parse(serialize(np.int64(5)), np.float32)
        with self.assertRaisesRegex(ValueError, "no tensor"):
            parse(b"\xff", np.float32)


if __name__ == "__main__":
    unittest.main()
