"""Nodes of expressions beside TensorFlow: numbers of a seed, texts, and features of any length.

    tensorflow_nodes_test.py

Exits with 77, which CTest shows as skipped, when TensorFlow is not installed here.
"""

import os
import random
import sys
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
try:
    import tensorflow as tf
except ImportError as missing:
    print(f"SKIPPED: tensorflow is not installed for {sys.executable}: {missing}")
    sys.exit(77)

import numpy as np  # noqa: E402
import tutti  # noqa: E402
from tutti.data import (Dataset, FixedLenFeature, FixedLenSequenceFeature,  # noqa: E402
                        RaggedFeature, VarLenFeature, parse_example)


def seeds():
    drawn = random.Random(7)
    return [(drawn.randrange(-1 << 63, 1 << 63), drawn.randrange(-1 << 63, 1 << 63))
            for _ in range(20)] + [(0, 0), (1, 2)]


class Random(unittest.TestCase):
    def test_the_bits_are_the_same(self):
        for seed in seeds():
            for shape in ((), (7,), (3, 5)):
                for dtype in (np.float16, np.float32, np.float64):
                    for low, high in ((0, 1), (-3, 10)):
                        theirs = tf.random.stateless_uniform(shape, seed, low, high, dtype,
                                                             alg="philox").numpy()
                        ours = tutti.random.stateless_uniform(shape, seed, low, high, dtype)
                        np.testing.assert_array_equal(ours, theirs)
                for dtype in (np.int32, np.int64, np.uint32, np.uint64):
                    theirs = tf.random.stateless_uniform(shape, seed, None, None, dtype,
                                                         alg="philox").numpy()
                    ours = tutti.random.stateless_uniform(shape, seed, None, None, dtype)
                    np.testing.assert_array_equal(ours, theirs)
                for dtype in (np.int32, np.int64):
                    theirs = tf.random.stateless_uniform(shape, seed, -5, 1000, dtype,
                                                         alg="philox").numpy()
                    ours = tutti.random.stateless_uniform(shape, seed, -5, 1000, dtype)
                    np.testing.assert_array_equal(ours, theirs)

    def test_normal_numbers_differ_by_rounding_alone(self):
        for seed in seeds():
            for dtype, tolerance in ((np.float32, 1e-5), (np.float64, 1e-13)):
                theirs = tf.random.stateless_normal((101,), seed, 2, 3, dtype, alg="philox")
                ours = tutti.random.stateless_normal((101,), seed, 2, 3, dtype)
                np.testing.assert_allclose(ours, theirs.numpy(), rtol=tolerance, atol=tolerance)


    def test_truncated_normal_numbers_differ_by_rounding_alone(self):
        for seed in seeds():
            for dtype, tolerance in ((np.float32, 1e-5), (np.float64, 1e-13)):
                theirs = tf.random.stateless_truncated_normal((1003,), seed, 2, 3, dtype,
                                                              alg="philox")
                ours = tutti.random.stateless_truncated_normal((1003,), seed, 2, 3, dtype)
                np.testing.assert_allclose(ours, theirs.numpy(), rtol=tolerance, atol=tolerance)


class Strings(unittest.TestCase):
    TEXTS = ["", " ", "a", " a b  c ", "a,,b,", ",", "\t x\n", "Ab\u00c4\u00df,\u20ac", "XX,XXX"]

    def test_texts_are_the_same(self):
        ours, theirs = tutti.strings, tf.strings
        texts = tf.constant(self.TEXTS)
        for name in ("lower", "upper", "strip", "length"):
            np.testing.assert_array_equal(getattr(ours, name)(self.TEXTS),
                                          getattr(theirs, name)(texts).numpy())
        np.testing.assert_array_equal(ours.length(self.TEXTS, unit="UTF8_CHAR"),
                                      theirs.length(texts, unit="UTF8_CHAR").numpy())
        for sep in (None, ",", "XX"):
            for most in (-1, 0, 1, 2):
                for text in self.TEXTS:
                    want = theirs.split(text, sep, most).numpy().tolist()
                    self.assertEqual(ours.split(text, sep, most).tolist(), want, (text, sep, most))
                self.assertEqual(ours.split(self.TEXTS, sep, most).to_list(),
                                 theirs.split(texts, sep, most).to_list())
        for unit in ("BYTE", "UTF8_CHAR"):
            for text in self.TEXTS:
                for position in range(-4, 5):
                    for length in (0, 1, 2, 100):
                        with self.subTest(text=text, position=position, length=length, unit=unit):
                            try:
                                want = theirs.substr(text, position, length, unit=unit).numpy()
                            except tf.errors.InvalidArgumentError:
                                with self.assertRaises(tutti.errors.InvalidArgumentError):
                                    ours.substr(text, position, length, unit=unit)
                                continue
                            self.assertEqual(ours.substr(text, position, length, unit=unit), want)
        square = [["a", "b", ""], ["c", "d", "e"]]
        for axis in (None, 0, 1, -1, [0, 1]):
            want = theirs.reduce_join(square, axis, separator="-").numpy()
            np.testing.assert_array_equal(ours.reduce_join(square, axis, separator="-"), want)

    def test_patterns_do_the_same(self):
        ours, theirs = tutti.strings, tf.strings
        texts = tf.constant(self.TEXTS)
        for pattern in ("", "a", "[a-z ]*", r"\w+", ".", r"(.)(,)", "X{2}", "\u00c4|\u20ac",
                        "(?i)AB.*", r"\s", "$", "^"):
            np.testing.assert_array_equal(ours.regex_full_match(self.TEXTS, pattern),
                                          theirs.regex_full_match(texts, pattern).numpy())
            for rewrite in ("", "-", r"<\0>", r"\\"):
                for every in (True, False):
                    np.testing.assert_array_equal(
                        ours.regex_replace(self.TEXTS, pattern, rewrite, every),
                        theirs.regex_replace(texts, pattern, rewrite, every).numpy())

    def test_buckets_are_the_same(self):
        drawn = random.Random(11)
        texts = [drawn.randbytes(n) for n in (*range(140), 1000, 4096)]
        for buckets in (1, 10, 997, (1 << 63) - 1):
            np.testing.assert_array_equal(tutti.strings.to_hash_bucket_fast(texts, buckets),
                                          tf.strings.to_hash_bucket_fast(texts, buckets).numpy())
            key = [drawn.randrange(-1 << 63, 1 << 63) for _ in range(2)]
            np.testing.assert_array_equal(
                tutti.strings.to_hash_bucket_strong(texts, buckets, key),
                tf.strings.to_hash_bucket_strong(texts, buckets, key).numpy())


class Features(unittest.TestCase):
    def setUp(self):
        drawn = random.Random(3)
        self.records = []
        for _ in range(50):
            features = {}
            if drawn.random() < 0.8:
                features["i"] = tf.train.Feature(int64_list=tf.train.Int64List(
                    value=[drawn.randrange(-9, 9) for _ in range(drawn.randrange(5))]))
            if drawn.random() < 0.8:
                features["f"] = tf.train.Feature(float_list=tf.train.FloatList(
                    value=[drawn.random() for _ in range(2 * drawn.randrange(4))]))
            if drawn.random() < 0.8:
                features["s"] = tf.train.Feature(bytes_list=tf.train.BytesList(
                    value=[b"x" * drawn.randrange(4) for _ in range(drawn.randrange(3))]))
            self.records.append(tf.train.Example(features=tf.train.Features(
                feature=features)).SerializeToString())

    def parsed(self, ours, theirs):
        mapped = Dataset.from_tensor_slices(self.records).batch(7).map(parse_example(ours))
        batches = [self.records[i:i + 7] for i in range(0, len(self.records), 7)]
        return zip(mapped, (tf.io.parse_example(batch, theirs) for batch in batches))

    def test_ragged_and_sparse_features(self):
        both = self.parsed(
            {"i": RaggedFeature(np.int64), "s": VarLenFeature(bytes)},
            {"i": tf.io.RaggedFeature(tf.int64), "s": tf.io.VarLenFeature(tf.string)})
        for ours, theirs in both:
            self.assertEqual(ours["i"].to_list(), theirs["i"].to_list())
            for part in ("indices", "values", "dense_shape"):
                np.testing.assert_array_equal(getattr(ours["s"], part),
                                              getattr(theirs["s"], part).numpy())

    def test_padded_and_fixed_features(self):
        both = self.parsed(
            {"f": FixedLenSequenceFeature((2,), np.float32, True, -1),
             "s": FixedLenSequenceFeature((), bytes, True)},
            {"f": tf.io.FixedLenSequenceFeature((2,), tf.float32, True, -1.0),
             "s": tf.io.FixedLenSequenceFeature((), tf.string, True)})
        for ours, theirs in both:
            for key in ours:
                np.testing.assert_array_equal(ours[key], theirs[key].numpy())

    def test_rows(self):
        parse = parse_example({"i": RaggedFeature(np.int64), "s": VarLenFeature(bytes),
                               "n": FixedLenFeature((), np.int64, 4)})
        for record, ours in zip(self.records, Dataset.from_tensor_slices(self.records).map(parse)):
            theirs = tf.io.parse_single_example(
                record, {"i": tf.io.RaggedFeature(tf.int64), "s": tf.io.VarLenFeature(tf.string)})
            np.testing.assert_array_equal(ours["i"], theirs["i"].numpy())
            np.testing.assert_array_equal(ours["s"].values, theirs["s"].values.numpy())
            np.testing.assert_array_equal(ours["s"].dense_shape, theirs["s"].dense_shape.numpy())


if __name__ == "__main__":
    unittest.main()
