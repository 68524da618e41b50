"""Datasets: sources, transformations, and what goes wrong."""

import os
import tempfile
import threading
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

    def test_what_on_error_skips_is_left_in_a_file(self):
        def check(row):
            if row["x"] % 3 == 2:
                raise ValueError(f"{row['x']} is bad")
            return row["x"]
        rows = Dataset.from_tensor_slices({"x": np.arange(6), "name": np.array(list("abcdef"))})
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "refused.tfrecord")
            for calls in (None, 2):
                kept = rows.map(check, num_parallel_calls=calls).on_error("quarantine:" + path)
                self.assertEqual(list(kept), [0, 1, 3, 4])
                parse = tutti.data.parse_example({
                    "x": ((), np.int64), "name": ((), bytes), "quarantine/cause": ((), bytes),
                    "quarantine/node": ((), bytes), "quarantine/element": ((), np.int64)})
                refused = list(tutti.data.TFRecordDataset(path).map(parse))
                self.assertEqual([(int(row["x"]), row["name"], int(row["quarantine/element"]))
                                  for row in refused], [(2, b"c", 2), (5, b"f", 5)])
                self.assertIn(b"2 is bad", refused[0]["quarantine/cause"])
                self.assertEqual(refused[0]["quarantine/node"], b"map")
            lost = rows.map(check).on_error("quarantine:" + os.path.join(folder, "none", "file"))
            with self.assertRaisesRegex(tutti.errors.Error, "quarantine cannot be written"):
                list(lost)

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
        for wrong in (ValueError, TypeError):
            with self.assertRaisesRegex(wrong, "unique"):
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

    def test_batches_of_windows_are_made_without_the_windows(self):
        fused = "batches of windows are made in one operation"
        plain = tutti.data.Options()
        plain.experimental_optimization.apply_default_optimizations = False
        pairs = Dataset.from_tensor_slices({"x": np.arange(12), "y": np.arange(24).reshape(12, 2)})
        for dataset in (
                Dataset.range(20).window(8).flat_map(lambda w: w.batch(8)),
                Dataset.range(20).window(5, 1, drop_remainder=True).flat_map(lambda w: w.batch(5)),
                Dataset.range(20).window(4, 3, 2).interleave(lambda w: w.batch(3), cycle_length=1),
                pairs.window(3, 2).flat_map(
                    lambda w: Dataset.zip({"a": w["y"], "b": w["x"]}).batch(2)),
                pairs.window(3, 2).flat_map(
                    lambda w: Dataset.zip((w["x"].batch(3), w["y"].batch(3))))):
            self.assertNotIn("callback", dataset.explain())
            self.assertIn(fused, iter(dataset).explain())
            written = dataset.with_options(plain)
            self.assertNotIn(fused, iter(written).explain())
            self.assertEqual(dataset.element_spec, written.element_spec)
            want = [repr(element) for element in written]
            self.assertGreater(len(want), 2)
            self.assertEqual([repr(element) for element in dataset], want)
            self.assertEqual([repr(element) for element in Dataset.deserialize(
                dataset.serialize())], want)
            # One that the two operations have saved, and one of its own.
            for source in (written, dataset):
                iterator, again = iter(source), iter(dataset)
                next(iterator)
                again.restore(iterator.save())
                self.assertEqual([repr(element) for element in again], want[1:])
        iterator = iter(dataset)
        next(iterator)
        with self.assertRaisesRegex(errors.InvalidArgumentError,
                                    "apply_default_optimizations true"):
            iter(dataset.with_options(plain)).restore(iterator.save())

    def test_functions_of_windows_stay_callbacks_where_they_look_into_them(self):
        windows = Dataset.range(7).window(3)
        sizes = windows.flat_map(lambda w: Dataset.from_tensors(np.int64(len(w))))
        self.assertIn("callback", sizes.explain())
        self.assertEqual(list(sizes), [3, 3, 1])
        doubled = windows.flat_map(lambda w: w.map(lambda x: 2 * x).take(2))
        self.assertNotIn("callback", doubled.explain())
        self.assertEqual(list(doubled), [0, 2, 6, 8, 12])
        self.assertEqual(list(windows.flat_map(lambda w: w)), list(range(7)))
        with self.assertRaisesRegex(TypeError, "Dataset"):
            windows.map(lambda w: -w, native=True)

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
            Dataset.range(3).map(lambda x: x, native=False).serialize()

    def test_a_plan_can_be_read(self):
        self.assertIn("batch", Dataset.range(8).batch(3).explain())


if __name__ == "__main__":
    unittest.main()
