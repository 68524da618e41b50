"""Datasets of files, and parsing what stands in them."""

import gzip
import os
import struct
import tempfile
import unittest
import zlib

import numpy as np

import tutti
from tutti import errors
from tutti.data import Dataset, TensorSpec

DATA = os.path.join(os.environ.get("TUTTI_SOURCE_DIR", ""), "examples", "data")


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
