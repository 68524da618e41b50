"""Native functions over records: decode_csv and parse_sequence_example."""

import unittest

import numpy as np

import tutti
from tutti import errors
from tutti.data import Dataset, TensorSpec, decode_csv, parse_sequence_example


def part(field, content):
    return bytes([field << 3 | 2, len(content)]) + content


def int64s(*values):
    return part(3, part(1, bytes(values)))


def entry(key, value):
    return part(1, part(1, key) + part(2, value))


class CsvTest(unittest.TestCase):
    LINES = [b'1,"a, ""b""",0.5\r\n', b'2,,NA', b' 3 ,c,']

    def rows(self, decode):
        return list(Dataset.from_tensor_slices(self.LINES).map(decode))

    def test_defaults_say_the_dtypes(self):
        decode = decode_csv([0, "?", [1.5]], na_value="NA")
        rows = self.rows(decode)
        self.assertEqual([tuple(np.asarray(x).item() for x in row) for row in rows],
                         [(1, b'a, "b"', 0.5), (2, b"?", 1.5), (3, b"c", 1.5)])
        self.assertEqual([np.asarray(x).dtype for x in rows[0][::2]], [np.int32, np.float32])
        mapped = Dataset.from_tensor_slices(self.LINES).map(decode)
        self.assertEqual(mapped.element_spec, (TensorSpec((), np.int32), TensorSpec((), bytes),
                                               TensorSpec((), np.float32)))
        self.assertEqual(len(list(Dataset.deserialize(mapped.serialize()))), 3)
        batch, = Dataset.from_tensor_slices(self.LINES).batch(3).map(decode)
        self.assertEqual(batch[0].tolist(), [1, 2, 3])

    def test_numbers_of_numpy_keep_their_dtypes(self):
        decode = decode_csv([np.float64(0.5), np.int8(1), np.float32(2)])
        rows = Dataset.from_tensor_slices([b"1e400,,", b" 2 ,3,4"]).map(decode)
        self.assertEqual([spec.dtype for spec in rows.element_spec],
                         [np.float64, np.int8, np.float32])
        self.assertEqual([tuple(map(float, row)) for row in rows],
                         [(float("inf"), 1, 2), (2, 3, 4)])

    def test_a_line_without_anything_has_no_field(self):
        lines = Dataset.from_tensor_slices([b"7", b""])
        iterator = iter(lines.map(decode_csv([0])))
        self.assertEqual([int(x) for x in next(iterator)], [7])
        with self.assertRaisesRegex(errors.InvalidArgumentError, "it has 0 fields, expected 1"):
            next(iterator)

    def test_what_stands_behind_the_last_selected_field_is_not_looked_at(self):
        row, = Dataset.from_tensors(b'1,2,"torn').map(decode_csv([0], select_cols=[1]))
        self.assertEqual([int(x) for x in row], [2])

    def test_fields_are_selected_and_required(self):
        lines = Dataset.from_tensor_slices([b"a|1|b", b"a||b"])
        decode = decode_csv([np.array([], np.int64)], field_delim="|", select_cols=[1],
                            names=["count"])
        iterator = iter(lines.map(decode))
        self.assertEqual([int(x) for x in next(iterator)], [1])
        with self.assertRaisesRegex(errors.InvalidArgumentError,
                                    r'map: element 1: decode_csv: field 1 \("count"\) is empty'):
            next(iterator)

    def test_expressions_call_it(self):
        decode = decode_csv([np.int64, np.float64], use_quote_delim=False)

        def total(line):
            count, price = line.call(decode)
            return count.astype(np.float64) * price

        totals = Dataset.from_tensor_slices([b"2,1.5", b"3,2"]).map(total, native=True)
        self.assertEqual([float(x) for x in totals], [3, 6])
        self.assertEqual([float(x) for x in Dataset.deserialize(totals.serialize())], [3, 6])

    def test_wrong_use(self):
        for made, message in ((lambda: decode_csv([]), "no columns"),
                              (lambda: decode_csv([1], field_delim="ab"), "one byte"),
                              (lambda: decode_csv([1], select_cols=[2, 1]), "2 places for 1"),
                              (lambda: decode_csv([1], names=["a", "b"]), "2 names for 1"),
                              (lambda: decode_csv([[1, 2]]), "a default is a scalar")):
            with self.assertRaisesRegex(ValueError, message):
                made()
        with self.assertRaisesRegex(ValueError, "should be records"):
            Dataset.range(3).map(decode_csv([1]))


class SequenceExampleTest(unittest.TestCase):
    def test_context_and_lists(self):
        record = part(1, entry(b"id", int64s(7))) + part(2, entry(
            b"x", part(1, int64s(1, 2)) + part(1, int64s(3, 4))))
        parse = parse_sequence_example({"id": ((), np.int64)},
                                       {"x": ((2,), np.int32),
                                        "y": tutti.data.FixedLenFeature((), np.float32, 0)})
        dataset = Dataset.from_tensors(record).map(parse)
        for each in (dataset, Dataset.deserialize(dataset.serialize())):
            (context, lists), = each
            self.assertEqual(int(context["id"]), 7)
            self.assertEqual(lists["x"].tolist(), [[1, 2], [3, 4]])
            self.assertEqual(lists["y"].tolist(), [])
        self.assertEqual(dataset.element_spec[1]["x"], TensorSpec((None, 2), np.int32))
        broken = Dataset.from_tensors(part(2, entry(b"x", part(1, int64s(1))))).map(
            parse_sequence_example(sequence_features={"x": ((2,), np.int64)}))
        with self.assertRaisesRegex(errors.InvalidArgumentError, 'step 0 of feature list "x"'):
            list(broken)
        with self.assertRaisesRegex(ValueError, "no features"):
            parse_sequence_example()

    def test_features_of_any_length(self):
        steps = (int64s(1, 2, 3), b"", int64s(4))
        record = part(1, entry(b"a", int64s(5, 6))) + part(2, entry(
            b"x", b"".join(part(1, step) for step in steps)))
        of, ragged = tutti.data.VarLenFeature(np.int64), tutti.data.RaggedFeature(np.int32)
        dataset = Dataset.from_tensors(record).map(
            parse_sequence_example({"a": of}, {"x": of, "y": ragged}))
        self.assertEqual(dataset.element_spec[1], {
            "x": tutti.data.SparseTensorSpec((None, None), np.int64),
            "y": tutti.data.RaggedTensorSpec((None, None), np.int32, 1, np.int64)})
        for each in (dataset, Dataset.deserialize(dataset.serialize())):
            (context, lists), = each
            self.assertEqual(context["a"].indices.tolist(), [[0], [1]])
            self.assertEqual(context["a"].values.tolist(), [5, 6])
            self.assertEqual(lists["x"].indices.tolist(), [[0, 0], [0, 1], [0, 2], [2, 0]])
            self.assertEqual(lists["x"].values.tolist(), [1, 2, 3, 4])
            self.assertEqual(lists["x"].dense_shape.tolist(), [3, 3])
            self.assertEqual(lists["y"].to_list(), [])
        (context, lists), = Dataset.from_tensors(record).map(
            parse_sequence_example({"a": ragged}, {"x": ragged}))
        self.assertEqual(context["a"].tolist(), [5, 6])
        self.assertEqual(lists["x"].to_list(), [[1, 2, 3], [], [4]])
        floats = Dataset.from_tensors(record).map(parse_sequence_example(
            sequence_features={"x": tutti.data.RaggedFeature(np.float32)}))
        with self.assertRaisesRegex(errors.InvalidArgumentError,
                                    'step 0 of feature list "x": .*int64_list of 3 values'):
            list(floats)
        with self.assertRaisesRegex(ValueError, 'list "x" is a sequence of sequences'):
            parse_sequence_example(
                sequence_features={"x": tutti.data.FixedLenSequenceFeature((), np.int64)})


if __name__ == "__main__":
    unittest.main()
