"""Files and bytes that TensorFlow and Tutti exchange, each written by one and read by the other:
TFRecord files, also several read in turn, lines of text, and tensors as byte strings; and the texts
of numbers, which both write alike.

    tensorflow_files_test.py

Exits with 77, which CTest shows as skipped, when TensorFlow is not installed here.
"""

import os
import sys
import tempfile
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
from tutti.data import Dataset, TextLineDataset, TFRecordDataset, TFRecordWriter  # noqa: E402

ARRAYS = [np.float32(1.5), np.arange(6.0).reshape(2, 3), np.int64(-7),
          np.array([[1, -2], [3, 4]], np.int8), np.array([250, 3], np.uint8),
          np.array([1, 65535], np.uint16), np.int16([-3, 4]), np.int32([7]), np.uint32([1 << 31]),
          np.uint64([1 << 63]), np.array([True, False]), np.float16([0.5, -2]),
          np.array([1 + 2j], np.complex64), np.array([[3 - 1j]], np.complex128),
          np.zeros((0, 3), np.float32),
          np.array([[b"a", b""], [b"\xff\x00", b"long" * 100]], object)]


class Exchange(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def records(self, count, name):
        return [f"{name} {i}".encode() * (i * 37 % 500) for i in range(count)]

    def test_records_of_one_are_those_of_the_other(self):
        for compression in ("", "GZIP", "ZLIB"):
            with self.subTest(compression):
                records = self.records(300, "ours")
                ours, theirs = self.path("ours"), self.path("theirs")
                with TFRecordWriter(ours, compression or None) as writer:
                    for record in records:
                        writer.write(record)
                with tf.io.TFRecordWriter(theirs, compression) as writer:
                    for record in records:
                        writer.write(record)
                read = tf.data.TFRecordDataset(ours, compression_type=compression)
                self.assertEqual([r.numpy() for r in read], records)
                self.assertEqual(list(TFRecordDataset(theirs, compression or None)), records)
                if not compression:
                    with open(ours, "rb") as mine, open(theirs, "rb") as other:
                        self.assertEqual(mine.read(), other.read())

    def test_several_files_are_read_in_the_same_turn(self):
        paths = []
        for i, count in enumerate((5, 0, 3, 7)):
            paths.append(self.path(f"part-{i}"))
            with tf.io.TFRecordWriter(paths[-1]) as writer:
                for record in self.records(count, f"part {i}"):
                    writer.write(record)
        for readers in (1, 2, 3, 4):
            theirs = tf.data.TFRecordDataset(paths, num_parallel_reads=readers)
            ours = TFRecordDataset(paths, num_parallel_reads=readers)
            self.assertEqual(list(ours), [r.numpy() for r in theirs], readers)

    def test_lines_are_the_same(self):
        first, second = self.path("first"), self.path("second")
        with open(first, "wb") as file:
            file.write(b"one\r\n\ntwo\nthree")
        with open(second, "wb") as file:
            file.write("gr\u00fc\u00dfe\n".encode() + b"x" * 100_000 + b"\n\n")
        for paths in ([first], [first, second], [second, first, second]):
            theirs = [line.numpy() for line in tf.data.TextLineDataset(paths)]
            self.assertEqual(list(TextLineDataset(paths)), theirs)

    def test_tensors_have_the_same_bytes(self):
        for array in ARRAYS:
            with self.subTest(repr(array)):
                dtype = tf.string if array.dtype == object else tf.as_dtype(array.dtype)
                tensor = tf.constant(array.tolist() if array.dtype == object else array, dtype)
                theirs = tf.io.serialize_tensor(tensor).numpy()
                self.assertEqual(tutti.io.serialize_tensor(array), theirs)
                out_type = bytes if array.dtype == object else array.dtype
                np.testing.assert_array_equal(tutti.io.parse_tensor(theirs, out_type), array)
                # As constants of graphs are written: equal elements are there once.
                proto = tf.make_tensor_proto(tensor).SerializeToString()
                np.testing.assert_array_equal(tutti.io.parse_tensor(proto, out_type), array)
                parsed = tf.io.parse_tensor(tutti.io.serialize_tensor(array), dtype)
                np.testing.assert_array_equal(parsed.numpy(), array)
        bits = np.array([0x3F80, 0xC000], np.uint16)
        theirs = tf.io.serialize_tensor(tf.bitcast(bits, tf.bfloat16)).numpy()
        self.assertEqual(tutti.io.serialize_tensor(tutti.Tensor.from_bits(bits)), theirs)

    def test_numbers_have_the_same_texts(self):
        formats = [{}, {"width": 8}, {"width": 8, "fill": "0"}, {"width": 8, "fill": "-"},
                   {"width": 8, "fill": "+"}, {"width": 8, "fill": " "}, {"width": 0}]
        of_floats = [{"precision": 2}, {"precision": 0}, {"scientific": True}, {"shortest": True},
                     {"scientific": True, "precision": 1, "width": 12},
                     {"shortest": True, "precision": 3, "width": 9, "fill": "0"}]
        floats = [0.0, -0.0, 1.5, -2.25, 3.14159265, 1e-7, -1e20, 123456.789, float("inf")]
        for array, all_formats in [(np.float32(floats), formats + of_floats),
                                   (np.float64(floats), formats + of_floats),
                                   (np.complex64([1 + 2j, -0.5j]), formats + of_floats),
                                   (np.int64([0, 7, -7, 1 << 62]), formats),
                                   (np.int32([0, 7, -7]), formats), (np.int8([-128]), formats),
                                   (np.array([True, False]), formats)]:
            for how in all_formats:
                with self.subTest(f"{array.dtype} {how}"):
                    theirs = tf.strings.as_string(array, **how).numpy()
                    self.assertEqual(tutti.strings.as_string(array, **how).tolist(),
                                     theirs.tolist())

    def test_texts_are_joined_alike(self):
        for inputs in (["a", "b"], [["a", "b"], ["c", "d"]], ["x", ["a", "b"]], [["a"], "", ["b"]]):
            for separator in ("", "-", ", "):
                theirs = tf.strings.join(inputs, separator).numpy()
                np.testing.assert_array_equal(tutti.strings.join(inputs, separator), theirs)

    def test_shards_that_a_function_writes_are_read(self):
        def shard(key, window):
            filename = tutti.strings.join([self.path("shard-"), tutti.strings.as_string(key)])
            TFRecordWriter(filename).write(window.map(tutti.io.serialize_tensor))
            return Dataset.from_tensors(filename)

        names = [name.decode() for name in
                 Dataset.range(20).group_by_window(lambda x: x % 3, shard, 100)]
        read = tf.data.TFRecordDataset(names).map(lambda x: tf.io.parse_tensor(x, tf.int64))
        self.assertEqual([int(x) for x in read],
                         [x for shard in range(3) for x in range(shard, 20, 3)])


if __name__ == "__main__":
    unittest.main()
