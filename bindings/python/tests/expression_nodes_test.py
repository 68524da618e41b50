"""Nodes of expressions that cut texts, draw numbers of a seed, compute with complex numbers and
read features of any length: natively and as callbacks."""

import unittest

import numpy as np

import tutti
from tutti import errors
from tutti.data import Dataset, RaggedFeature, VarLenFeature, parse_example


def both(source, function):
    """The elements that a function gives as a callback, and as an expression."""
    return [list(source.map(function, native=native)) for native in (False, True)]


class NodesTest(unittest.TestCase):
    def same(self, source, function):
        called, traced = both(source, function)
        self.assertEqual(len(called), len(traced))
        for want, got in zip(called, traced):
            np.testing.assert_array_equal(np.asarray(want), np.asarray(got))
            self.assertEqual(np.asarray(want).shape, np.asarray(got).shape)
        return traced

    def test_texts(self):
        texts = [b" Ab c ", b"", b"\tx,y,z\n", "äÖ b".encode()]
        source = Dataset.from_tensor_slices(texts)
        strings = tutti.strings
        for function in (
                strings.lower, strings.upper, strings.strip, strings.length,
                lambda x: strings.length(x, unit="UTF8_CHAR"), strings.split,
                lambda x: strings.split(x, ","), lambda x: strings.split(x, ",", 1),
                lambda x: strings.substr(x, 0, 2), lambda x: strings.substr(x, 0, 1),
                lambda x: strings.substr(x, 0, -1, unit="UTF8_CHAR"),
                lambda x: strings.join([x, b"z"], "-"), lambda x: strings.join([x, "z"]),
                lambda x: x.lower(), lambda x: x.upper(), lambda x: x.strip()):
            self.same(source, function)
        self.assertEqual(strings.lower("Ab\xc4"), "ab\xc4".encode())
        self.assertEqual(strings.split(" a  b ").tolist(), [b"a", b"b"])
        self.assertEqual(strings.to_number(["1", "-2.5"]).tolist(), [1.0, -2.5])
        self.assertEqual(strings.reduce_join([["a", "b"], ["c", "d"]], 0, separator="-").tolist(),
                         [b"a-c", b"b-d"])
        with self.assertRaisesRegex(ValueError, "utf-8"):
            strings.lower("a", encoding="utf-8")
        with self.assertRaisesRegex(errors.InvalidArgumentError, "no position 5 in 'ab'"):
            strings.substr("ab", 5, 1)
        with self.assertRaisesRegex(errors.InvalidArgumentError, "the unit is 'WORD'"):
            strings.length("ab", unit="WORD")
        # NumPy's names.
        for function, want in ((np.char.lower, b"ab c"), (np.char.upper, b"AB C"),
                               (np.char.str_len, 4)):
            got, = Dataset.from_tensors(b"Ab c").map(function, native=True)
            self.assertEqual(got, want)
            self.assertEqual(np.asarray(function(b"Ab c")), np.asarray(want))
        got, = Dataset.from_tensors(b" b ").map(np.char.strip, native=True)
        self.assertEqual(got, b"b")

    def test_patterns(self):
        strings = tutti.strings
        source = Dataset.from_tensor_slices([b"part-1", b"", "ä-7-8".encode(), b"\xff-2"])
        for function in (
                lambda x: strings.regex_full_match(x, r".*-\d"),
                lambda x: strings.regex_replace(x, r"-(\d)", r"+\1"),
                lambda x: strings.regex_replace(x, r"(\w+)", b"<\\0>", False),
                lambda x: strings.regex_replace("a-b", "-", x)):
            self.same(source, function)
        self.assertEqual(strings.regex_replace(["a1b2", "c"], r"(\w)(\d)", r"\2\1").tolist(),
                         [b"1a2b", b"c"])
        self.assertEqual(strings.regex_replace("aa", "a", "b", replace_global=False), b"ba")
        self.assertEqual(strings.regex_full_match("ab", "ab?"), True)
        self.assertEqual([bool(x) for x in source.map(lambda x: x.regex_full_match(b"part-1|"),
                                                      native=True)], [True, True, False, False])
        self.assertEqual(next(iter(source.map(
            lambda x: x.regex_replace("-", b"\\\\", False), native=True))), b"part\\1")
        with self.assertRaisesRegex(errors.InvalidArgumentError, r"'\(' is no pattern"):
            source.map(lambda x: x.regex_full_match("("), native=True)
        with self.assertRaisesRegex(errors.InvalidArgumentError, "is no rewrite of 'a'"):
            source.map(lambda x: x.regex_replace("a", r"\1"), native=True)
        with self.assertRaisesRegex(TypeError, "compiled once, not an object of type list"):
            strings.regex_full_match("a", ["a"])

    def test_buckets(self):
        strings = tutti.strings
        source = Dataset.from_tensor_slices([b"a", b"b", b""])
        fast = self.same(source, lambda x: strings.to_hash_bucket_fast(x, 10))
        strong = self.same(source, lambda x: strings.to_hash_bucket_strong(x, 10, [1, 2]))
        self.assertEqual((fast, strong), ([9, 2, 3], [6, 4, 5]))
        self.assertEqual([int(x) for x in source.map(lambda x: x.to_hash_bucket_fast(10),
                                                     native=True)], fast)
        self.assertEqual([int(x) for x in source.map(
            lambda x: x.to_hash_bucket_strong(10, (1, 2)), native=True)], strong)
        same_key = [(1 << 64) - 1, (1 << 64) - 2]
        self.assertEqual(strings.to_hash_bucket_strong("a", 1 << 62, [-1, -2]),
                         strings.to_hash_bucket_strong("a", 1 << 62, same_key))
        with self.assertRaisesRegex(errors.InvalidArgumentError, "1 or more buckets, got 0"):
            strings.to_hash_bucket_fast("a", 0)
        with self.assertRaisesRegex(errors.InvalidArgumentError, "a key of two numbers"):
            strings.to_hash_bucket_strong("a", 5, [1])
        with self.assertRaisesRegex(ValueError, "more than 64 bits"):
            strings.to_hash_bucket_strong("a", 5, [1 << 64, 0])

    def test_a_text_without_its_parts_is_its_rows_error(self):
        source = Dataset.from_tensor_slices([b"1,2", b"3", b"4,5"])
        rows = iter(source.map(lambda x: x.split(b",", parts=2), native=True))
        self.assertEqual(next(rows).tolist(), [b"1", b"2"])
        with self.assertRaisesRegex(errors.InvalidArgumentError, "element 1: string_split: '3'"):
            next(rows)
        self.assertEqual(next(rows).tolist(), [b"4", b"5"])

    def test_vectors_of_texts_split_into_ragged_tensors(self):
        source = Dataset.from_tensor_slices([b"a b", b"", b"c"]).batch(2)
        for native in (False, True):
            got = [x.to_list() for x in source.map(tutti.strings.split, native=native)]
            self.assertEqual(got, [[[b"a", b"b"], []], [[b"c"]]])
        mapped = source.map(lambda x: {"words": x.split(), "n": x.string_length()}, native=True)
        self.assertIsInstance(mapped.element_spec["words"], tutti.RaggedTensorSpec)
        first = next(iter(mapped))
        self.assertEqual(first["words"].to_list(), [[b"a", b"b"], []])
        self.assertEqual(first["n"].tolist(), [3, 0])

    def test_random_numbers_are_those_of_their_seed(self):
        draw = tutti.random
        self.assertEqual(draw.stateless_uniform(3, (1, 2)).tolist(),
                         [float.fromhex(x) for x in ("0x1.b028bp-1", "0x1.894f1p-3",
                                                     "0x1.fe10f8p-1")])
        self.assertEqual(draw.stateless_uniform(3, (1, 2), -3, 10).tolist(),
                         [float.fromhex(x) for x in ("0x1.fe422p+2", "-0x1.01bf1p-1",
                                                     "0x1.3e6dcap+3")])
        self.assertEqual(draw.stateless_uniform(5, (1, 2), -3, 1000, np.int64).tolist(),
                         [928, 223, 146, 184, 767])
        self.assertEqual(draw.stateless_uniform(2, (-5, 1 << 40), None, None, np.uint32).tolist(),
                         [2566412527, 1405616215])
        np.testing.assert_allclose(draw.stateless_normal(3, (1, 2), -3, 10),
                                   [float.fromhex(x) for x in ("0x1.3876p+1", "-0x1.da3678p-1",
                                                               "-0x1.21d672p+1")], rtol=1e-6)
        source = Dataset.range(700)
        for function in (
                lambda x: draw.stateless_uniform((2, 3), (7, x)),
                lambda x: draw.stateless_uniform((), (x, x + 1), 5, 6, np.float64),
                lambda x: draw.stateless_uniform((3,), (x, 2), -9, 9, np.int32),
                lambda x: draw.stateless_uniform((3,), (x, 2), 0, x + 1, np.int64),
                lambda x: draw.stateless_uniform((3,), np.stack([x, x]), None, None, np.uint64),
                lambda x: draw.stateless_normal((5,), (x, 3), mean=1, stddev=2),
                lambda x: draw.stateless_truncated_normal((5,), (x, 3), -1, 2, np.float64)):
            self.same(source, function)
        np.testing.assert_allclose(
            draw.stateless_truncated_normal(5, (-5, 1 << 40)),
            [float.fromhex(x) for x in ("-0x1.133d6ap-3", "-0x1.4c2eccp-2", "-0x1.3745e2p+0",
                                        "-0x1.b0bb88p-1", "-0x1.4a26eep+0")], rtol=1e-6)
        cut = draw.stateless_truncated_normal(10000, (1, 2), 5, 3)
        self.assertTrue((abs(cut - 5) < 6.0001).all())
        with self.assertRaisesRegex(errors.InvalidArgumentError, "lower bound below"):
            draw.stateless_uniform((), (1, 2), 3, 3, np.int32)
        with self.assertRaisesRegex(ValueError, "maxval is needed"):
            draw.stateless_uniform((), (1, 2), dtype=np.int32)
        with self.assertRaisesRegex(ValueError, "threefry"):
            draw.stateless_normal((), (1, 2), alg="threefry")
        with self.assertRaisesRegex(errors.InvalidArgumentError, "a seed of two integers"):
            draw.stateless_normal((), (1, 2, 3))

    def test_complex_numbers_are_the_same_for_every_number_of_rows(self):
        random = np.random.default_rng(7)
        for dtype, other, tolerance in ((np.complex64, np.complex128, 2e-6),
                                        (np.complex128, np.complex64, 1e-14)):
            x, y = ((random.normal(size=(300, 3)) + 1j * random.normal(size=(300, 3))).astype(dtype)
                    for _ in range(2))
            source = Dataset.from_tensor_slices((x, y))
            for function in (
                    lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b, lambda a, b: -a,
                    lambda a, b: np.conj(a), lambda a, b: np.real(a), lambda a, b: np.imag(a),
                    lambda a, b: np.angle(a), lambda a, b: a == b, lambda a, b: a != b,
                    lambda a, b: abs(a), lambda a, b: np.square(a), lambda a, b: np.sqrt(a),
                    lambda a, b: np.exp(a), lambda a, b: np.log(a), lambda a, b: np.sin(a),
                    lambda a, b: np.cos(a), lambda a, b: np.tan(a), lambda a, b: np.tanh(a),
                    lambda a, b: np.power(a, b), lambda a, b: np.sum(a),
                    lambda a, b: np.prod(a, axis=-1), lambda a, b: np.mean(a, axis=-1),
                    lambda a, b: a.astype(other), lambda a, b: np.where(a == b, a, b),
                    lambda a, b: np.isnan(a), lambda a, b: np.isinf(a)):
                whole = np.stack(list(source.map(function, native=True)))
                parts = [np.stack(list(some.map(function, native=True).batch(7).unbatch()))
                         for some in (source.take(1), source.skip(1).take(130), source.skip(131))]
                self.assertEqual(np.concatenate(parts).tobytes(), whole.tobytes())
                wanted = np.stack([function(a, b) for a, b in zip(x, y)])
                self.assertEqual(whole.dtype, wanted.dtype)
                np.testing.assert_allclose(whole, wanted, rtol=tolerance)
        # What is no number, or none that is finite.
        odd = np.array([0, 1, 1j, complex(np.inf, 0), complex(np.nan, 1), complex(0, np.inf),
                        -1 - 1j])
        pairs = tuple(side.ravel() for side in np.meshgrid(odd, odd))
        with np.errstate(all="ignore"):
            for function in (lambda a, b: a * b, lambda a, b: a / b):
                found = np.stack(list(Dataset.from_tensor_slices(pairs).map(function, native=True)))
                np.testing.assert_array_equal(found, function(*pairs))

    def test_complex_numbers_are_numpys(self):
        numbers = np.array([1 + 2j, -3.5 - 0.25j, 0, 1e3j, 7])
        for dtype, tolerance in ((np.complex64, 1e-6), (np.complex128, 1e-14)):
            # NumPy 1 computes with one complex64 and a number of Python's in complex128.
            source = Dataset.from_tensors(numbers.astype(dtype))
            for function in (
                    lambda x: x + x * x - 2, lambda x: x / (x + 1), lambda x: x * 2j - 0.5,
                    lambda x: np.conj(x), lambda x: -x, lambda x: abs(x), lambda x: np.real(x),
                    lambda x: x.imag, lambda x: x.real + x.imag, lambda x: x == 7,
                    lambda x: x != 0, lambda x: np.square(x), lambda x: np.isfinite(x)):
                called, traced = both(source, function)
                for want, got in zip(called, traced):
                    self.assertEqual(np.asarray(want).dtype, np.asarray(got).dtype)
                    np.testing.assert_allclose(got, want, rtol=tolerance)
            for function in (np.sqrt, lambda x: np.sin(x / 1000), np.angle,
                             lambda x: np.exp(x / 1000)):
                called, traced = both(source, function)
                np.testing.assert_allclose(traced, called, rtol=10 * tolerance)
        pairs = Dataset.from_tensors(numbers).map(lambda x: (x.sum(), x.mean()), native=True)
        total, mean = next(iter(pairs))
        self.assertEqual(total, numbers.sum())
        self.assertAlmostEqual(mean, numbers.mean(), 12)
        with self.assertRaisesRegex(errors.InvalidArgumentError, "no order"):
            Dataset.from_tensors(numbers).map(lambda x: x < 1, native=True)
        # Unasked they stay callbacks.
        self.assertIn("callback", Dataset.from_tensors(numbers).map(lambda x: x + 1).explain())

    def test_real_numbers_have_parts_too(self):
        source = Dataset.from_tensor_slices(np.array([1.5, np.nan, np.inf]))
        self.same(source, lambda x: x.imag + 1)
        self.same(source, lambda x: np.conj(x.real))


class FeaturesTest(unittest.TestCase):
    records = [tutti.io.make_example({"a": [1, 2, 3], "s": ["x"]}),
               tutti.io.make_example({"a": [7]}), tutti.io.make_example({"s": ["y", "z"]})]

    def test_features_of_any_length(self):
        features = {"a": RaggedFeature(np.int64), "s": VarLenFeature(bytes),
                    "p": tutti.data.FixedLenSequenceFeature((), np.float32)}
        parse = parse_example(features)
        source = Dataset.from_tensor_slices(self.records)
        rows = list(source.map(parse))
        self.assertEqual([row["a"].tolist() for row in rows], [[1, 2, 3], [7], []])
        self.assertEqual([row["s"].values.tolist() for row in rows], [[b"x"], [], [b"y", b"z"]])
        self.assertEqual([row["p"].shape for row in rows], [(0,)] * 3)
        batch, = source.batch(3).map(parse)
        self.assertEqual(batch["a"].to_list(), [[1, 2, 3], [7], []])
        self.assertEqual(batch["s"].shape, (3, 2))
        self.assertEqual(batch["s"].to_dense().tolist(), [[b"x", b""], [b"", b""], [b"y", b"z"]])
        padded = parse_example({"a": tutti.data.FixedLenSequenceFeature(
            [], np.int64, allow_missing=True, default_value=-1)})
        got, = source.batch(3).map(padded)
        self.assertEqual(got["a"].tolist(), [[1, 2, 3], [7, -1, -1], [-1, -1, -1]])
        again = Dataset.deserialize(source.batch(3).map(parse).serialize())
        self.assertEqual(next(iter(again))["a"].to_list(), [[1, 2, 3], [7], []])

    def test_errors(self):
        source = Dataset.from_tensor_slices(self.records)
        wrong = iter(source.map(parse_example({"a": VarLenFeature(bytes)})))
        with self.assertRaisesRegex(errors.InvalidArgumentError,
                                    'element 0.*feature "a" should be.*is int64_list'):
            next(wrong)
        pairs = source.batch(3).map(parse_example({"a": RaggedFeature(np.int64, (2,))}))
        with self.assertRaisesRegex(errors.InvalidArgumentError, "steps of 2 values"):
            next(iter(pairs))
        with self.assertRaisesRegex(ValueError, "allow_missing"):
            tutti.data.FixedLenSequenceFeature((), np.int64, allow_missing=False)
        with self.assertRaisesRegex(errors.InvalidArgumentError, "2 axes"):
            source.batch(3).batch(1).map(parse_example({"a": VarLenFeature(np.int64)}))

    def test_in_expressions(self):
        parse = parse_example({"a": RaggedFeature(np.int64), "s": VarLenFeature(bytes)})
        source = Dataset.from_tensor_slices(self.records)
        sums = source.map(lambda x: x.call(parse)["a"].sum(), native=True)
        self.assertEqual([int(x) for x in sums], [6, 7, 0])
        parts = [source.map(lambda x: x.call(parse), native=True), source.map(parse)]
        got, want = [[(row["a"].tolist(), row["s"].values.tolist(), row["s"].shape)
                      for row in rows] for rows in parts]
        self.assertEqual(got, want)
        batches = source.batch(2).map(lambda x: x.call(parse), native=True)
        self.assertEqual([batch["a"].to_list() for batch in batches], [[[1, 2, 3], [7]], [[]]])
        self.assertEqual(str(batches.element_spec["a"]),
                         str(source.batch(2).map(parse).element_spec["a"]))


if __name__ == "__main__":
    unittest.main()
