"""Which functions become expressions unasked, which stay callbacks, and what explain() says of
it."""

import collections
import os
import tempfile
import unittest
import warnings

import numpy as np

import tutti
from tutti import errors
from tutti.data import Dataset, Function, Options, TensorSpec

OPTION = "experimental_optimization.native_functions"
SCALE = 2


def why(dataset):
    """What explain() says of the function of the last operation."""
    line = dataset.explain().splitlines()[0]
    return line


def table_of(x):
    return x + 1


class ChoiceTest(unittest.TestCase):
    def native(self, dataset):
        self.assertIn("native ", why(dataset))
        self.assertNotIn("callback", why(dataset))

    def callback(self, dataset, reason):
        self.assertRegex(why(dataset), r"callback .*\[.*" + reason)

    def test_plain_arithmetic_is_native_and_the_same(self):
        numbers = Dataset.range(-6, 6)
        k, two = 3, np.int64(2)
        for function in (
                lambda x: x * x, lambda x: x + 1, lambda x: k - x, lambda x: x // 3 + x % 4,
                lambda x: x / 4, lambda x: (x > 0) & (x < 3), lambda x: np.where(x > 0, x, -x),
                lambda x: np.minimum(x, 2) ** 2, lambda x: (x, {"a": x * two, "b": 1}),
                lambda x: x if k else -x, lambda x, by=5: x * by,
                lambda x: x.astype(np.float32) / np.float32(3),
                lambda x: np.abs(x) << 2, lambda x: (x, x + 0)[1], lambda x: np.int64(7) + x):
            mapped = numbers.map(function)
            self.native(mapped)
            called = numbers.map(function, native=False)
            self.callback(called, "native=False")
            for ours, theirs in zip(mapped, called):
                np.testing.assert_equal(ours, theirs)
                self.assertEqual(type(ours), type(theirs))
            self.assertEqual(str(mapped.element_spec), str(called.element_spec))
        rows = Dataset.from_tensor_slices(np.arange(24, dtype=np.float32).reshape(4, 2, 3))
        for function in (lambda x: x * 2 + 1, lambda x: x[0] - x[-1], lambda x: x.max(axis=1),
                         lambda x: np.stack([x, x]), lambda x: x.reshape(-1)[1:4],
                         lambda x: np.sqrt(x), lambda x: np.clip(x, 3, 9), lambda x: x.T,
                         lambda x: (x - 2) / np.float32(3),
                         lambda x: np.concatenate((x, x), axis=1)):
            mapped = rows.map(function)
            self.native(mapped)
            for ours, theirs in zip(mapped, rows.map(function, native=False)):
                np.testing.assert_array_equal(ours, theirs)
                self.assertEqual(ours.dtype, theirs.dtype)
        self.native(numbers.filter(lambda x: x % 2 == 0))
        self.native(numbers.take_while(lambda x: x < 2))
        self.assertEqual(list(numbers.filter(lambda x: x % 2 == 0)), [-6, -4, -2, 0, 2, 4])
        Point = collections.namedtuple("Point", "x y")
        points = Dataset.from_tensor_slices(Point(np.arange(3), np.ones(3)))
        self.native(points.map(lambda p: p.x * 2))
        pairs = Dataset.zip((numbers, numbers))
        self.native(pairs.map(lambda a, b: a * b))
        self.native(numbers.batch(4).map(lambda rows: rows * 2))
        self.native(numbers.map(np.square))

    def test_what_has_another_effect_is_called_for_each_element(self):
        numbers = Dataset.range(3)
        kept, count, seen = [], 0, {}
        array = np.zeros(3, np.int64)

        class Counter:
            calls = 0

            def __call__(self, x):
                self.calls += 1
                return x

            def method(self, x):
                self.calls += 1
                return x

        counter = Counter()

        def counting(x):
            nonlocal count
            count += 1
            return x

        def storing(x):
            seen[int(x)] = x
            return x

        def to_array(x):
            array[0] += 1
            return x

        def attribute(x):
            counter.calls += 1
            return x

        def writing_global(x):
            global SCALE
            SCALE = SCALE + 0
            return x

        def printing(x):
            print(x, file=open(os.devnull, "w"))
            return x

        def raising(x):
            assert x >= 0
            return x

        def trying(x):
            try:
                return int(x)
            except TypeError:
                return x

        def looping(x):
            while x < 0:
                x = x + 1
            return x

        def importing(x):
            import math
            return x * math.floor(2.5)

        def yielding(x):
            yield x

        for function, reason in (
                (lambda x: kept.append(x) or x, "kept, of type list"),
                (counting, "STORE_DEREF|count"), (storing, "seen|int"), (to_array, "array"),
                (attribute, "counter"), (writing_global, "SCALE|STORE_GLOBAL"),
                (printing, "print"), (raising, "LOAD_ASSERTION_ERROR"),
                (trying, "int|PUSH_EXC_INFO"), (looping, "if, while|loop|JUMP"),
                (importing, "IMPORT_NAME"), (counter, "no plain Python function"),
                (counter.method, "no plain Python function"), (lambda x: x * SCALE, "SCALE"),
                (lambda x: table_of(x), "table_of"), (lambda x: os.getpid() + x, "os"),
                (lambda x: x + np.random.randint(3), "numpy.random"),
                (lambda x: np.save("/nowhere", x) or x, "numpy.save"),
                (lambda x: f"{x}", "FORMAT"), (lambda x: "%s" % x, "text|str"),
                (lambda x: str(x), "str"), (lambda x: type(x)(3), "type"),
                (lambda x: [x, x], "list"), (lambda x: x if x > 1 else -x, "if, while"),
                (lambda x: float(x), "float"), (lambda x: x.item(), "item"),
                (lambda x: x.tofile("/nowhere"), "tofile"), (lambda x: isinstance(x, int), "isin"),
                (lambda x: None, "NoneType"), (lambda x: "text", "str")):
            mapped = numbers.map(function)
            self.callback(mapped, f"({reason})")
        list(numbers.map(lambda x: kept.append(int(x)) or x))
        self.assertEqual(kept, [0, 1, 2])
        list(numbers.map(counting))
        list(numbers.map(counter))
        self.assertEqual((count, counter.calls), (3, 3))
        self.callback(numbers.map(yielding, output_signature=TensorSpec((), np.int64)), "signature")

    def test_what_was_captured_stays_what_it_is_or_is_read_each_time(self):
        numbers = Dataset.range(3)
        k = 1
        mapped = numbers.map(lambda x: x + k)
        k = 10
        self.callback(mapped, "k, a variable that is written more than once")
        self.assertEqual(list(mapped), [10, 11, 12])
        made = []
        for step in range(3):
            made.append(numbers.map(lambda x: x + step))
        self.callback(made[0], "step")
        self.assertEqual([next(iter(each)) for each in made], [2, 2, 2])
        comprehended = [numbers.map(lambda x: x + step) for step in range(3)]
        self.assertEqual([next(iter(each)) for each in comprehended], [2, 2, 2])
        fixed = [numbers.map(lambda x, step=step: x + step) for step in range(3)]
        self.native(fixed[0])
        self.assertEqual([next(iter(each)) for each in fixed], [0, 1, 2])

        def adding(n):
            return lambda x: x + n

        def changing(n):
            def change(x):
                nonlocal n
                n = n + 1
            return lambda x: x + n, change

        self.native(numbers.map(lambda x: adding(1)(x)) if False else numbers.map(lambda x: x))
        added, change = changing(1)
        mapped = numbers.map(added)
        change(0)
        self.assertEqual(next(iter(mapped)), 2)
        table = np.arange(3)
        self.callback(numbers.map(lambda x: x + table), "table, of type ndarray")
        frozen = np.arange(3)
        frozen.flags.writeable = False
        mapped = numbers.map(lambda x: x + frozen)
        self.native(mapped)
        self.assertEqual([row.tolist() for row in mapped][1], [1, 2, 3])

    def test_where_numpy_differs_it_stays_a_callback(self):
        numbers = Dataset.range(1, 5)
        narrow = Dataset.from_tensor_slices(np.arange(1, 5, dtype=np.int32))
        floats = Dataset.from_tensor_slices(np.arange(4, dtype=np.float32) / 3)
        pairs = Dataset.zip((numbers, narrow))
        for dataset, function, reason in (
                (pairs, lambda a, b: a + b, "two dtypes"), (numbers, lambda x: x + 0.5, "0.5"),
                (numbers, lambda x: 6 // x, "// is by"), (numbers, lambda x: 6 % x, "% is by"),
                (numbers, lambda x: x / x, "/ of integers"), (numbers, lambda x: x // 0, "//"),
                (numbers, lambda x: 2 ** x, "\\*\\* is by"), (numbers, lambda x: x ** -1, "\\*\\*"),
                (numbers, lambda x: x << 64, "<<"),
                (narrow, lambda x: x + (1 << 40), "1099511627776"),
                (floats, lambda x: np.exp(x), "exp may differ"),
                (floats, lambda x: x ** 2, "power"),
                (floats.batch(2), lambda x: x.sum(), "sum may differ"),
                (floats, lambda x: x.astype(np.int64), "a float is cast"),
                (floats.batch(2), lambda x: x[5], "not known"),
                (floats.batch(2), lambda x: x.shape[0] * x, "size that is not known"),
                (Dataset.from_tensor_slices(np.array([b"a", b"b"], object)), lambda x: x == b"a",
                 "bytes")):
            self.callback(dataset.map(function), reason)
        if np.lib.NumpyVersion(np.__version__) < "2.0.0":
            self.callback(narrow.map(lambda x: x + 1), "gives int64 for add")
        else:
            self.native(narrow.map(lambda x: x + 1))
        self.native(narrow.map(lambda x: x + np.int32(1)))
        self.callback(numbers.filter(lambda x: x % 2), "no boolean scalar")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertEqual(list(numbers.map(lambda x: x / (x - x + 2)))[0], 0.5)

    def test_elements_that_nobody_promises_keep_callbacks(self):
        kept = []
        learnt = Dataset.range(3).map(lambda x: kept.append(x) or np.ones(len(kept)))
        mapped = learnt.map(lambda x: x * 2)
        self.callback(mapped, "not known before the first")
        self.assertEqual(kept, [])
        self.assertEqual([len(row) for row in mapped], [1, 2, 3])
        strange = Dataset.range(3).map(Function(lambda x: x))
        self.callback(strange, "it was made a Function")

    def test_reduce_is_native_where_the_state_stays(self):
        numbers = Dataset.range(5)
        kept = []
        self.assertEqual(numbers.reduce(np.int64(0), lambda total, x: total + x), 10)
        self.assertEqual(numbers.reduce(np.int64(0), lambda total, x: total + x, native=True), 10)
        self.assertEqual(numbers.reduce(0, lambda n, x: n + 1), 5)
        self.assertEqual(numbers.reduce(np.int64(0), lambda n, x: kept.append(x) or n + x), 10)
        self.assertEqual(len(kept), 5)
        grown = numbers.reduce(np.zeros(0, np.int64), lambda state, x: np.append(state, x))
        self.assertEqual(grown.tolist(), [0, 1, 2, 3, 4])
        with self.assertRaisesRegex(TypeError, "if, while"):
            numbers.reduce(np.int64(0), lambda total, x: x if x > 1 else total, native=True)

    def test_an_option_demands_or_forbids(self):
        numbers = Dataset.range(3)
        demanded = Options()
        demanded.experimental_optimization.native_functions = True
        with self.assertRaisesRegex(TypeError, "if, while"):
            numbers.with_options(demanded).map(lambda x: x if x > 1 else -x)
        kept = []
        calling = numbers.map(lambda x: kept.append(x) or x)
        with self.assertRaisesRegex(errors.FailedPreconditionError,
                                    "map calls <lambda> .*kept, of type list"):
            iter(calling.with_options(demanded))
        self.assertEqual(list(numbers.map(lambda x: x + 1).with_options(demanded)), [1, 2, 3])
        self.assertEqual(list(numbers.with_options(demanded).map(lambda x: np.exp(x * 0.0 + x)
                                                                if False else x)), [0, 1, 2])
        forbidden = Options()
        forbidden.experimental_optimization.native_functions = False
        mapped = numbers.with_options(forbidden).map(lambda x: x + 1)
        self.callback(mapped, f"the option {OPTION} is False")
        self.assertEqual(list(mapped), [1, 2, 3])
        self.native(numbers.with_options(forbidden).map(lambda x: x + 1, native=True))


    def test_slack_and_state_outside_act(self):
        slack = Options()
        slack.experimental_slack = True
        numbers = Dataset.range(6).prefetch(2)
        self.assertIn("slack: prefetch pauses after each 1 elements",
                      numbers.with_options(slack).explain())
        self.assertIn("slack: without effect", Dataset.range(6).with_options(slack).explain())
        self.assertEqual(list(numbers.with_options(slack)), list(range(6)))
        strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        distributed = strategy.distribute_dataset(
            Dataset.range(8).batch(4).prefetch(2).with_options(slack))
        self.assertIn("pauses after each 2 elements", distributed.explain())
        self.assertEqual(len(list(distributed)), 2)
        kept = []
        calling = Dataset.range(3).map(lambda x: kept.append(x) or x)
        policies = tutti.data.experimental.ExternalStatePolicy
        for policy in (policies.IGNORE, policies.WARN, policies.FAIL):
            options = Options()
            options.experimental_external_state_policy = policy
            iterator = iter(calling.with_options(options))
            if policy == policies.FAIL:
                with self.assertRaisesRegex(errors.FailedPreconditionError, "policy is FAIL"):
                    iterator.save()
            else:
                iterator.save()
            native = Dataset.range(3).map(lambda x: x + 1).with_options(options)
            self.assertTrue(iter(native).save() and native.serialize())
        switched = Options()
        switched.experimental_optimization.map_fusion = True
        self.assertIn("map_fusion=true (without effect yet)",
                      numbers.with_options(switched).explain())


class TracedDatasetTest(unittest.TestCase):
    def test_a_function_that_gives_datasets_captures_its_placeholders(self):
        numbers = Dataset.range(4)
        for function in (
                lambda x: Dataset.range(x).map(lambda y: x + y),
                lambda x: Dataset.range(x, x + 2).filter(lambda y: y > x).map(lambda y: (x, y)),
                lambda x: Dataset.range(3).take(x).batch(2),
                lambda x: Dataset.from_tensors(x).repeat(x),
                lambda x: Dataset.from_tensor_slices((x + np.arange(3), np.arange(3))).skip(x),
                lambda x: tutti.data.Dataset.range(x).flat_map(
                    lambda y: Dataset.range(y).map(lambda z: (x, y, x * 100 + y * 10 + z)))):
            mapped = numbers.flat_map(function)
            self.assertIn("native", why(mapped))
            called = numbers.flat_map(function, native=False)
            for dataset, same in ((mapped, called),
                                  (numbers.interleave(function, cycle_length=2),
                                   numbers.interleave(function, cycle_length=2, native=False))):
                ours, theirs = list(dataset), list(same)
                self.assertEqual(len(ours), len(theirs))
                for one, other in zip(ours, theirs):
                    np.testing.assert_equal(one, other)
            again = Dataset.deserialize(mapped.serialize())
            np.testing.assert_equal(list(again), list(mapped))
            iterator = iter(mapped)
            for _ in range(3):
                next(iterator, None)
            other = iter(again)
            other.restore(iterator.save())
            np.testing.assert_equal(list(other), list(iterator))

    def test_files_are_named_by_elements(self):
        with tempfile.TemporaryDirectory() as folder:
            names = []
            for i in range(3):
                names.append(f"{folder}/{i}.txt".encode())
                with open(names[-1], "w", encoding="ascii") as file:
                    file.write(f"a{i}\nb{i}\n")
            files = Dataset.from_tensor_slices(np.array(names, object))
            lines = files.interleave(tutti.data.TextLineDataset, cycle_length=3)
            self.assertIn("callback", why(lines))
            lines = files.interleave(lambda name: tutti.data.TextLineDataset(name), cycle_length=3)
            self.assertIn("native from_tensors -> text_line", why(lines))
            self.assertEqual(list(lines), [b"a0", b"a1", b"a2", b"b0", b"b1", b"b2"])

    def test_what_cannot_be_traced_inside_makes_the_whole_a_callback(self):
        kept = []
        numbers = Dataset.range(3)
        dataset = numbers.flat_map(lambda x: Dataset.range(x).map(lambda y: kept.append(y) or x))
        self.assertRegex(why(dataset), "callback.*kept")
        self.assertEqual(list(dataset), [1, 2, 2])
        self.assertEqual(len(kept), 3)
        self.assertRegex(why(numbers.flat_map(lambda x: x)), "callback.*no dataset")
        self.assertRegex(why(numbers.flat_map(lambda x: Dataset.range(x).shuffle(3))),
                         "callback.*shuffle")
        with self.assertRaisesRegex(TypeError, "if, while"):
            numbers.flat_map(lambda x: Dataset.range(3).map(lambda y: y if x > 0 else -y),
                             native=True)

    def test_placeholders_and_their_datasets_die_with_the_trace(self):
        kept = []
        numbers = Dataset.range(3)
        numbers.flat_map(lambda x: kept.append((x, Dataset.range(x), Dataset.range(9).map(
            lambda y: x + y))) or Dataset.range(x), native=True)
        x, unfilled, captured = kept[0]
        with self.assertRaisesRegex(errors.FailedPreconditionError, "had returned"):
            Dataset.range(x)
        with self.assertRaisesRegex(errors.FailedPreconditionError, "made of placeholders"):
            iter(unfilled)
        with self.assertRaisesRegex(errors.FailedPreconditionError, "of the function around"):
            next(iter(captured))
        with self.assertRaisesRegex(errors.InvalidArgumentError, "another traced function"):
            numbers.flat_map(lambda z: captured, native=True)

    def test_what_is_drawn_follows_from_the_element(self):
        numbers = Dataset.range(20)
        orders = numbers.flat_map(
            lambda x: Dataset.range(x - x + 9).shuffle(9).batch(9), native=True)
        self.assertGreater(len({tuple(row) for row in orders}), 10)
        with self.assertRaisesRegex(errors.InvalidArgumentError, "seed was drawn once"):
            numbers.flat_map(lambda x: Dataset.range(9).shuffle(9), native=True)

    def test_keys_are_expressions_and_demanded_ones_of_errors_say_why(self):
        grouped = Dataset.range(6).group_by_window(lambda x: x % 2, lambda _, w: w.batch(3), 3)
        self.assertIn("native (x % 2)", why(grouped))
        self.assertEqual([row.tolist() for row in grouped], [[0, 2, 4], [1, 3, 5]])
        called = []
        grouped = Dataset.range(6).group_by_window(
            lambda x: called.append(x) or x % 2, lambda _, w: w.batch(3), 3)
        self.assertEqual([row.tolist() for row in grouped], [[0, 2, 4], [1, 3, 5]])
        self.assertEqual(len(called), 6)
        bad = Dataset.range(3).flat_map(lambda x: Dataset.range(3).take(x - 2))
        with self.assertRaisesRegex(errors.InvalidArgumentError, "count must be -1"):
            list(bad)

    def test_what_makes_datasets_of_windows_is_an_expression(self):
        numbers = Dataset.range(8)
        grouped = numbers.group_by_window(lambda x: x % 2, lambda key, w: w.batch(3),
                                          window_size_func=lambda key: key + 3)
        self.assertNotIn("callback", why(grouped))
        self.assertEqual([row.tolist() for row in grouped],
                         [[0, 2, 4], [1, 3, 5], [7], [6]])
        again = Dataset.deserialize(grouped.serialize())
        self.assertEqual([row.tolist() for row in again],
                         [[0, 2, 4], [1, 3, 5], [7], [6]])
        pairs = numbers.enumerate().group_by_window(
            lambda _, x: x % 2, lambda key, w: w.take(1).repeat(2), 4)
        self.assertNotIn("callback", why(pairs))
        self.assertEqual([(int(i), int(x)) for i, x in pairs], [(0, 0)] * 2 + [(1, 1)] * 2)
        # A key of np.uint64 stays one, and what a callback's key is nobody knows before.
        large = numbers.group_by_window(lambda x: (x % 2).astype(np.uint64),
                                        lambda key, w: Dataset.from_tensors(key), 4)
        self.assertEqual([key.dtype for key in large], [np.uint64] * 2)
        unknown = numbers.group_by_window(lambda x: np.uint64(int(x) % 2),
                                          lambda key, w: Dataset.from_tensors(key), 4)
        self.assertIn("callback", why(unknown))
        self.assertEqual([key.dtype for key in unknown], [np.uint64] * 2)

    def test_what_was_demanded_behind_a_callback_is_of_the_first_elements_sizes(self):
        grown = Dataset.range(1, 4).map(lambda n: np.full(int(n), n))
        more = grown.map(lambda x: x + 1, native=True)
        self.assertEqual(more.element_spec.shape, (1,))
        rows = iter(more)
        self.assertEqual(next(rows).tolist(), [2])
        with self.assertRaisesRegex(errors.InvalidArgumentError,
                                    r"element 1: .* int64\[1\], and is int64\[2\]; where"):
            next(rows)


if __name__ == "__main__":
    unittest.main()
