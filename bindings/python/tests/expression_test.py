"""Traced functions: what they give beside NumPy, what cannot be traced, and what they are."""

import collections
import pickle
import threading
import unittest
import warnings

import numpy as np

import tutti
from tutti import errors
from tutti.data import Dataset, Expr, TensorSpec, expression


def rows_of(array):
    return Dataset.from_tensor_slices(array)


class ExpressionTest(unittest.TestCase):
    def same(self, array, function, exact=True):
        """What `function` makes of each row of `array`, natively and by NumPy."""
        mapped = rows_of(array).map(function, native=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = [np.asarray(function(row)) for row in np.asarray(array)]
        got = [np.asarray(element) for element in mapped]
        self.assertEqual(len(got), len(want))
        for ours, theirs in zip(got, want):
            self.assertEqual(ours.shape, theirs.shape)
            self.assertEqual(ours.dtype, theirs.dtype)
            if exact:
                np.testing.assert_array_equal(ours, theirs)
            else:
                np.testing.assert_allclose(ours, theirs, rtol=1e-5)
            self.assertEqual(mapped.element_spec.dtype, theirs.dtype)

    def test_arithmetic_is_numpys(self):
        numbers = np.arange(-7, 8)
        for function in (
                lambda x: x + 1, lambda x: 3 - x, lambda x: x * x * 2, lambda x: x // 3,
                lambda x: x % 3, lambda x: x // -2, lambda x: x % -2, lambda x: x // 4,
                lambda x: x % 8, lambda x: x / 4, lambda x: 1 / (x + 100), lambda x: -x,
                lambda x: abs(x), lambda x: x ** 2, lambda x: x & 3, lambda x: x | 8,
                lambda x: x ^ 5, lambda x: ~x, lambda x: (x + 7) << 2, lambda x: x >> 1,
                lambda x: x == 2, lambda x: (x < 3) & (x >= -1), lambda x: ~(x > 0),
                lambda x: np.where(x % 2 == 0, x, -x), lambda x: np.minimum(x, 2),
                lambda x: np.sign(x), lambda x: np.square(x), lambda x: np.logical_not(x)):
            self.same(numbers, function)
        for dtype in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.uint64):
            self.same(np.array([0, 1, 100, 127], dtype), lambda x: (x * x + x) // x.dtype.type(3))
        for dtype in (np.float16, np.float32, np.float64):
            floats = np.array([-2.5, -1, 0.1, 0.5, 3, 1e3, np.inf, np.nan], dtype)
            two = dtype(2)
            for function in (
                    lambda x: x * two + two, lambda x: x / two, lambda x: x // two,
                    lambda x: x % two, lambda x: np.floor(x), lambda x: np.rint(x),
                    lambda x: np.isnan(x), lambda x: np.maximum(x, two), lambda x: x < two,
                    lambda x: np.isfinite(x), lambda x: np.abs(x)):
                self.same(floats, function)
        self.same(np.array([0.5, 1, 7], np.float32),
                  lambda x: np.tanh(np.log(np.exp(x) + np.sqrt(x))), exact=False)

    def test_shapes_are_numpys(self):
        cube = np.arange(24 * 3).reshape(3, 2, 3, 4)
        for function in (
                lambda x: x[0], lambda x: x[-1, 1], lambda x: x[..., 2], lambda x: x[:, ::-2],
                lambda x: x[:, 1:, None], lambda x: x[..., -1, :3], lambda x: x.reshape(-1, 2),
                lambda x: np.reshape(x, (4, 6)), lambda x: x.T, lambda x: x + x[0],
                lambda x: np.transpose(x, (1, 0, 2)), lambda x: x * np.arange(4),
                lambda x: np.stack([x[0], x[1]], -1),
                lambda x: np.concatenate([x, x[:, :1]], axis=1), lambda x: x.sum(),
                lambda x: np.sum(x, axis=1), lambda x: x.max(axis=(0, 2)), lambda x: x.mean(-1),
                lambda x: x.min(axis=1, keepdims=True), lambda x: np.prod(x[0, 0]),
                lambda x: np.argmax(x, axis=2), lambda x: (x > 10).any(axis=0),
                lambda x: np.all(x >= 0), lambda x: np.take(x, [1, 0, -1], axis=2),
                lambda x: x[[1, 0]], lambda x: np.clip(x, 3, 9), lambda x: np.expand_dims(x, 1),
                lambda x: x.astype(np.float32)):
            self.same(cube, function)

    def test_structures_come_and_go(self):
        pairs = Dataset.from_tensor_slices((np.arange(3), {"b": np.ones((3, 2)), "a": [1, 2, 3]}))
        mapped = pairs.map(lambda x, d: {"sum": x + d["b"].sum().astype(np.int64), "one": 1,
                                         "pair": (d["b"][0], [x, x])}, native=True)
        first = next(iter(mapped))
        self.assertEqual((first["sum"], first["one"], first["pair"][0]), (2, 1, 1.0))
        self.assertEqual(first["pair"][1].tolist(), [0, 0])
        self.assertEqual(first["one"].dtype, np.int32)
        Point = collections.namedtuple("Point", "x y")
        points = Dataset.from_tensor_slices(Point(np.arange(3), np.arange(3)))
        swapped = points.map(lambda p: Point(p.y + 1, p.x), native=True)
        self.assertEqual(list(swapped)[2], Point(3, 2))
        sum_of = expression(lambda state, x: state + x, (TensorSpec((), np.int64),) * 2)
        self.assertEqual(Dataset.range(5).reduce(np.int64(0), sum_of), 10)

    def test_filters_and_errors_of_rows(self):
        self.assertEqual(list(Dataset.range(10).filter(lambda x: x % 3 == 0, native=True)),
                         [0, 3, 6, 9])
        self.assertEqual(list(Dataset.range(10).take_while(lambda x: x < 4, native=True)),
                         [0, 1, 2, 3])
        divided = iter(Dataset.range(4).map(lambda x: np.int64(6) // (x - 1), native=True))
        self.assertEqual(next(divided), -6)
        with self.assertRaisesRegex(errors.InvalidArgumentError, "element 1.*divisor is zero"):
            next(divided)
        self.assertEqual(list(divided), [6, 3])
        with self.assertRaisesRegex(errors.InvalidArgumentError, "boolean scalar.*int64"):
            Dataset.range(3).filter(lambda x: x, native=True)

    def test_what_cannot_be_traced_says_so(self):
        numbers = Dataset.range(3)
        for function, why in (
                (lambda x: 1 if x > 0 else 2, "if, while, and"), (lambda x: int(x), r"int\(\)"),
                (lambda x: np.asarray(x), "numpy.asarray"), (lambda x: list(x), "scalar"),
                (lambda x: np.sort(x), "numpy.sort, which no expression has"),
                (lambda x: np.add.reduce(x), "numpy.add with reduce"),
                (lambda x: np.arange(3)[x], "placeholder"), (lambda x: {x: 1}, "unhashable"),
                (lambda x: x + "a", "unsupported operand")):
            with self.assertRaisesRegex(TypeError, why):
                numbers.map(function, native=True)
        for function, why in (
                (lambda x: x + 0.5, "0.5 does not become int64"),
                (lambda x: x + np.int32(1), "two dtypes meet, int64 and int32"),
                (lambda x: x[0:1], "up to 0 axes"), (lambda x: np.sqrt(x), "expected floats"),
                (lambda x: x + (1 << 70), "of no dtype")):
            with self.assertRaisesRegex((errors.InvalidArgumentError, IndexError),
                                        why if why != "up to 0 axes" else "1 indices"):
                numbers.map(function, native=True)
        with self.assertRaisesRegex(TypeError, "a Function says itself"):
            numbers.map(expression(lambda x: x, TensorSpec((), np.int64)), native=True)
        with self.assertRaisesRegex(errors.InvalidArgumentError, "known rank"):
            expression(lambda x: x, TensorSpec(None, np.int64))
        with self.assertRaisesRegex(TypeError, "made by tracing"):
            Expr()

    def test_a_placeholder_is_of_its_trace_and_its_thread(self):
        kept = []
        Dataset.range(3).map(lambda x: kept.append(x) or x, native=True)
        self.assertEqual(len(kept), 1)
        with self.assertRaisesRegex(errors.FailedPreconditionError, "had returned"):
            kept[0] + 1
        with self.assertRaisesRegex(errors.InvalidArgumentError, "another trace"):
            Dataset.range(3).map(lambda x: x + kept[0], native=True)

        def elsewhere(x):
            raised = []

            def use():
                try:
                    x + 1
                except errors.FailedPreconditionError as error:
                    raised.append(error)
            thread = threading.Thread(target=use)
            thread.start()
            thread.join()
            self.assertEqual(len(raised), 1)
            return x
        Dataset.range(3).map(elsewhere, native=True)

    def test_the_plan_says_what_is_native_and_it_can_be_sent_away(self):
        dataset = Dataset.range(6).map(lambda x: x * 2 + 1, native=True)
        self.assertIn("native ((x * 2) + 1)", dataset.explain())
        self.assertIn("callback", Dataset.range(6).map(lambda x: x, native=False).explain())
        again = pickle.loads(pickle.dumps(dataset.filter(lambda x: x > 3, native=True)))
        self.assertEqual(list(again), [5, 7, 9, 11])

    def test_byte_strings(self):
        texts = rows_of(np.array([b"12", b"7", b"-3"], object))
        self.assertEqual(list(texts.map(lambda x: x.to_number(np.int16) + 1, native=True)),
                         [13, 8, -2])
        self.assertEqual(list(texts.map(lambda x: x.join(b"!", separator="."), native=True)),
                         [b"12.!", b"7.!", b"-3.!"])
        self.assertEqual([row.tolist() for row in
                          texts.map(lambda x: x.decode_raw(np.uint8), native=True)],
                         [[49, 50], [55], [45, 51]])
        self.assertEqual(list(texts.filter(lambda x: x == b"7", native=True)), [b"7"])
        self.assertEqual(list(Dataset.range(3).map(lambda x: x.as_string(), native=True)),
                         [b"0", b"1", b"2"])
        examples = rows_of(np.array([tutti.io.make_example({"a": [n, 2 * n]}) for n in range(3)],
                                    object))
        parse = tutti.data.parse_example({"a": ((2,), np.int64)})
        self.assertEqual(list(examples.map(lambda x: x.call(parse)["a"].sum(), native=True)),
                         [0, 3, 6])
        self.assertEqual(next(iter(Dataset.range(2).map(lambda x: x.one_hot(3), native=True)
                                   .skip(1))).tolist(), [0, 1, 0])


if __name__ == "__main__":
    unittest.main()
