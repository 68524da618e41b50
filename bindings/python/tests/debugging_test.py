"""Assertions: what holds, what an error says, and of which class it is."""

import os
import tempfile
import unittest

import numpy as np

import tutti
from tutti import debugging, errors
from tutti.data import Dataset


def check_all(_):
    return True


def replica_id():
    return tutti.distribute.get_replica_context().replica_id_in_sync_group


class AssertionTest(unittest.TestCase):
    def refused(self, parts, kinds, function, *args, **kwargs):
        """The error, which is of all the kinds and says all the parts."""
        with self.assertRaises(errors.InvalidArgumentError) as raised:
            function(*args, **kwargs)
        for kind in kinds:
            self.assertIsInstance(raised.exception, kind)
        for part in parts:
            self.assertIn(part, str(raised.exception))
        return raised.exception

    def test_an_error_says_the_message_the_place_and_both_sides(self):
        error = self.refused((), (ValueError,), debugging.assert_less, [1, 5, 3], [2, 4, 9],
                             message="layer 1", summarize=2)
        self.assertEqual(
            str(error),
            "layer 1: assert_less: x < y does not hold at [1], where x is 5 and y is 4; "
            "x int32[3]: [1 5 ...], y int32[3]: [2 4 ...]")
        self.assertEqual(error.details["index"], 1)
        self.assertNotIsInstance(error, TypeError)

    def test_every_comparison_broadcasts(self):
        x, y = np.arange(6.0).reshape(2, 3), np.array([[1.0], [9.0]])
        debugging.assert_equal(np.ones((2, 2), np.int32), 1)
        debugging.assert_none_equal(x, 7)
        self.refused(["at [0,1]"], (), debugging.assert_none_equal, x, y)
        self.refused(["at [0,1]"], (), debugging.assert_less, x, y)
        self.refused(["at [0,2]"], (), debugging.assert_less_equal, x, y)
        self.refused(["at [0,0]"], (), debugging.assert_greater, x, y)
        self.refused(["at [0,0]"], (), debugging.assert_greater_equal, x, y)
        self.refused(["do not broadcast"], (), debugging.assert_equal, x, np.zeros(2))

    def test_empty_tensors_pass(self):
        none = np.zeros((0, 3), np.float32)
        for name in ("equal", "none_equal", "less", "less_equal", "greater", "greater_equal",
                     "near"):
            getattr(debugging, f"assert_{name}")(none, np.float32(3))
        debugging.assert_positive(none)

    def test_a_literal_takes_the_dtype_of_the_other_side(self):
        for dtype in (np.int8, np.int64, np.float16, np.float64, np.uint8):
            debugging.assert_equal(np.ones(3, dtype), 1)
            debugging.assert_less([0, 0, 0], np.ones(3, dtype))
        debugging.assert_equal(np.array([0.5, 1.5]), [0.5, 1.5])
        debugging.assert_equal({"a": np.ones(2), "b": np.ones(1)}, 1.0)
        self.refused(["int64[] and y is float32[]"], (TypeError, ValueError),
                     debugging.assert_equal, np.int64(1), 1.5)
        self.refused(["expected one dtype"], (TypeError,), debugging.assert_equal,
                     np.ones(1, np.uint8), 300)

    def test_near_has_tolerances(self):
        debugging.assert_near(np.float32(1), np.float32(1.0000005))
        self.refused(["with rtol"], (), debugging.assert_near, np.float64(1), 1.0000005)
        debugging.assert_near(np.float64(1), 1.5, atol=1)
        debugging.assert_near(np.array([1.0, 1.0]), [1.5, 2.5], rtol=0, atol=[1.0, 2.0])
        self.refused(["where x is 1+1j and y is 1+2j"], (), debugging.assert_near,
                     np.complex64(1 + 1j), np.complex64(1 + 2j))
        self.refused(["expected floats"], (TypeError,), debugging.assert_near, 1, 1)

    def test_signs(self):
        x = np.array([1.0, 0.0, -1.0])
        self.refused(["at [1], where x is 0"], (), debugging.assert_positive, x, "m")
        self.refused(["at [0]"], (), debugging.assert_negative, x)
        self.refused(["at [0]"], (), debugging.assert_non_positive, x, summarize=1)
        self.refused(["at [2]"], (), debugging.assert_non_negative, x)
        self.refused(["which have a sign"], (TypeError,), debugging.assert_positive, [True])

    def test_finite(self):
        x = np.array([0, 1], np.float16)
        self.assertIs(debugging.check_numerics(x, "m"), x)
        self.assertIs(debugging.assert_all_finite(x, "m"), x)
        debugging.assert_all_finite([1, 2], "integers are")
        bad = np.array([[0, np.inf], [np.nan, -np.inf]], np.float32)
        error = self.refused(["the loss: check_numerics", "1 NaN, 1 +Inf and 1 -Inf", "at [0,1]"],
                             (), debugging.check_numerics, bad, "the loss")
        self.assertEqual(error.details["nan"], 1)
        self.refused(["expected float16"], (TypeError,), debugging.check_numerics, [1], "m")

    def test_ranks_and_scalars_are_value_errors(self):
        x = np.zeros((2, 3))
        debugging.assert_rank(x, 2)
        debugging.assert_rank_at_least(x, np.int64(1))
        debugging.assert_rank_in(x, (0, 2))
        debugging.assert_scalar(3)
        self.refused(["of rank 2; expected rank 1"], (ValueError,), debugging.assert_rank, x, 1)
        self.refused(["rank 3 or more"], (ValueError,), debugging.assert_rank_at_least, x, 3)
        self.refused(["one of 0, 1"], (ValueError,), debugging.assert_rank_in, x, [0, 1], "m")
        self.refused(["expected a scalar"], (ValueError,), debugging.assert_scalar, x)
        with self.assertRaisesRegex(ValueError, "a rank is an integer"):
            debugging.assert_rank(x, [2])
        with self.assertRaisesRegex(TypeError, "a rank is an integer"):
            debugging.assert_rank(x, 2.5)

    def test_dtypes_are_type_errors(self):
        debugging.assert_type(np.zeros(2, np.float32), np.float32)
        debugging.assert_integer(np.uint8(1))
        self.refused(["expected dtype int32"], (TypeError,), debugging.assert_type, 1.5, np.int32)
        self.refused(["an integer dtype"], (TypeError,), debugging.assert_integer, 1.5, "m")
        sparse = tutti.SparseTensor([[0, 0]], np.float32([1]), [2, 2])
        debugging.assert_type(sparse, np.float32)
        self.refused(["float32[1]"], (TypeError,), debugging.assert_type, sparse, np.int64)

    def test_same_float_dtype(self):
        half = np.zeros(2, np.float16)
        self.assertEqual(debugging.assert_same_float_dtype([half, None, half]), np.float16)
        self.assertEqual(debugging.assert_same_float_dtype(dtype=np.float64), np.float64)
        self.assertEqual(debugging.assert_same_float_dtype(), np.float32)
        for tensors, dtype in (([half], np.float32), ([half, np.zeros(2)], None), ([1], None),
                               (None, np.int32)):
            self.refused((), (ValueError,), debugging.assert_same_float_dtype, tensors, dtype)

    def test_shapes(self):
        x, y, scalar = np.zeros((10, 3)), np.ones((10, 7)), 1.0
        param = tutti.Variable(np.float32([1, 2, 3]))
        debugging.assert_shapes([(x, ("N", "Q")), (y, ("N", "D")), (param, ("Q",)), (scalar, ())])
        debugging.assert_shapes({param: (3,)})
        debugging.assert_shapes([(x, (..., "Q")), (y, ("*", 10, None)), (y, (".", "7"))])
        one, other = object(), object()
        debugging.assert_shapes([(x, (one, other)), (y, (one, None)), (param, (other,))])
        self.refused(["tensor 1 of shape [10,7] does not fit (N,D)"], (ValueError,),
                     debugging.assert_shapes, [(x, ("N", "D")), (y, ("N", "D"))])
        self.refused(["m: ", "data[0] int32[]: [5]"], (ValueError,), debugging.assert_shapes,
                     [(x, (1, 2))], data=[5], message="m")
        self.refused(["comes first"], (ValueError,), debugging.assert_shapes, [(x, ("N", ...))])
        with self.assertRaisesRegex(ValueError, "a shape is an iterable"):
            debugging.assert_shapes([(x, 3)])

    def test_assert_shows_its_data(self):
        debugging.Assert(True, [1])
        debugging.Assert(np.array([True, True]), [1])
        debugging.Assert(3, [1])
        self.refused(["the condition is false; data[0] int32[3]: [1 2 ...]", "\"text\""], (),
                     debugging.Assert, False, [np.int32([1, 2, 3]), "text"], summarize=2)
        self.refused(["at [1]"], (), debugging.Assert, np.array([True, False]), [])

    def test_proper_iterables(self):
        for good in ([], (1,), {}, range(3), {1}):
            debugging.assert_proper_iterable(good)
        for bad in ("text", b"bytes", np.zeros(3), 3, tutti.Variable(np.zeros(2))):
            with self.assertRaises(TypeError):
                debugging.assert_proper_iterable(bad)

    def test_numeric_tensors(self):
        for dtype in (np.float32, np.int8, np.uint8, np.complex64, np.float16):
            self.assertTrue(debugging.is_numeric_tensor(np.zeros(1, dtype)))
        self.assertTrue(debugging.is_numeric_tensor(tutti.Variable(np.zeros(2))))
        for other in (np.zeros(1, bool), np.array([b"a"], object), 3, [1], "a", None, object()):
            self.assertFalse(debugging.is_numeric_tensor(other))

    def test_what_holds_no_tensor_is_a_type_error(self):
        for function in (debugging.assert_positive, debugging.assert_integer,
                         debugging.assert_scalar):
            for wrong in (None, object()):
                with self.assertRaises(TypeError):
                    function(wrong)
        for x, y in ((None, 1), (1, None), (None, None), ((None, 1), (1, 1))):
            with self.assertRaises(TypeError):
                debugging.assert_equal(x, y)
        debugging.assert_equal((None, 1), (None, 1))
        with self.assertRaises(TypeError):
            debugging.assert_equal((np.ones(1), np.ones(1)), {"a": np.ones(1)})

    def test_parts_of_structures_are_named(self):
        structure = {"a": np.ones(2), "b": (np.ones(1), np.zeros(3))}
        self.refused(["x[\"b\"][1] is 0"], (), debugging.assert_positive, structure)
        self.refused(["x[\"b\"][1] is 0 and y[\"b\"][1] is 1"], (), debugging.assert_equal,
                     structure, {"a": np.ones(2), "b": (np.ones(1), np.ones(3))})

    def test_replicas_and_copies_are_named(self):
        strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        with strategy.scope():
            variable = tutti.Variable(np.zeros(2), name="w")
        self.refused(["x of variable 'w' is 0"], (), debugging.assert_positive, variable)
        values = strategy.run(lambda: np.float32([1, replica_id()]))
        self.refused(["x of replica 0 is 0"], (), debugging.assert_positive, values)
        self.refused(["x[0] of replica 1 is 1 and y is 0"], (), debugging.assert_equal,
                     (values,), np.float32([1, 0]))

    def test_what_has_dlpack_is_a_tensor(self):
        class Exported:
            def __init__(self, array):
                self._array = array

            def __dlpack__(self, **kwargs):
                return self._array.__dlpack__()

            def __dlpack_device__(self):
                return self._array.__dlpack_device__()

        debugging.assert_equal(Exported(np.ones(3)), np.ones(3))
        self.refused(["at [0]"], (), debugging.assert_negative, Exported(np.ones(3)))

    def test_assertions_end_functions_of_datasets_and_replicas(self):
        elements = iter(Dataset.range(4).map(
            lambda x: debugging.assert_less(x, np.int64(2), message="too large") or x))
        self.assertEqual([next(elements), next(elements)], [0, 1])
        self.refused(["too large: assert_less", "x is 2"], (), next, elements)
        batches = Dataset.range(4).batch(2).map(lambda x: debugging.check_numerics(
            np.sqrt(x - 1.0), "root"))
        with np.errstate(invalid="ignore"):
            self.refused(["root: check_numerics", "at [0]"], (), lambda: list(batches))
        strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        self.refused(["assert_equal"], (), strategy.run,
                     lambda: debugging.assert_equal(replica_id(), 0))

    def test_rows_pass_a_native_function(self):
        rows = Dataset.from_tensor_slices({"x": np.arange(6.0), "y": np.full(6, 4.0)})
        checked = rows.map(debugging.assert_rows(debugging.assert_less, y_path="y", path="x",
                                                 message="rows"))
        self.assertEqual(checked.element_spec, rows.element_spec)
        iterator = iter(checked)
        self.assertEqual([next(iterator)["x"] for _ in range(4)], [0, 1, 2, 3])
        error = self.refused([], (ValueError,), next, iterator)
        self.assertEqual(str(error), "map: element 4: rows: assert_less: x < y does not hold at [],"
                                     " where x[\"x\"] is 4 and y[\"y\"] is 4; x[\"x\"] "
                                     "float64[]: [4], y[\"y\"] float64[]: [4]")
        self.assertEqual(error.details["index"], 4)
        again = Dataset.deserialize(checked.serialize())
        self.refused(["map: element 4: rows"], (), list, again)
        for made, part in ((lambda: debugging.assert_rows(debugging.assert_less), "y"),
                           (lambda: rows.map(debugging.assert_rows(
                               debugging.assert_positive, path="z")), "nothing at"),
                           (lambda: rows.map(debugging.assert_rows(
                               debugging.assert_type, tf_type=np.int32)), "expected dtype int32"),
                           (lambda: rows.map(debugging.assert_rows(
                               debugging.assert_rank_in, ranks=[1, 2])), "one of 1, 2")):
            self.refused([part], (), made)
        with self.assertRaisesRegex(TypeError, "assertion about one tensor"):
            debugging.assert_rows(debugging.assert_proper_iterable)

    def test_leaves_of_a_row_are_looked_at_together(self):
        rows = Dataset.from_tensor_slices({"image": np.zeros((2, 5, 3), np.float32),
                                           "mask": np.zeros((2, 5), np.float64)})
        for fits, mask in ((True, ("N",)), (False, ("N", "N")), (False, (4,))):
            check = debugging.assert_rows(debugging.assert_shapes,
                                          shapes={"image": ("N", None), "mask": mask})
            if fits:
                self.assertEqual(len(list(Dataset.deserialize(rows.map(check).serialize()))), 2)
            else:
                self.refused(["assert_shapes"], (), rows.map, check)
        same = debugging.assert_rows(debugging.assert_same_float_dtype)
        self.refused(["float64"], (), rows.map, same)
        self.assertEqual(len(list(rows.map(debugging.assert_rows(
            debugging.assert_same_float_dtype, path="mask", tf_type=np.float64)))), 2)
        self.refused(["shapes"], (), lambda: debugging.assert_rows(debugging.assert_shapes))

    def test_rows_of_a_file_are_named_with_it(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("a.txt", "b.txt")]
            for path, lines in zip(paths, ("1\n2\n", "3\n\n4\n")):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(lines)
            lines = tutti.data.TextLineDataset(paths)
            check = debugging.assert_rows(debugging.assert_none_equal, b"")
            for dataset in (lines.map(check), lines.skip(1).repeat(2).filter(check_all).map(check)):
                error = self.refused([f'(record 1 of "{paths[1]}"): assert_none_equal'], (), list,
                                     dataset)
                self.assertEqual(error.details["source_file"], paths[1])

            def convert(line):
                return int(line)
            with self.assertRaises(ValueError) as raised:
                list(lines.map(convert))
            self.assertIn(f'in map: element 3 (record 1 of "{paths[1]}")',
                          raised.exception.__notes__)
            self.refused([f'(record 1 of "{paths[1]}")'], (), list, lines.shuffle(9).map(check))

    def test_aliases(self):
        self.assertIs(tutti.Assert, debugging.Assert)
        for name in ("equal", "greater", "less", "rank"):
            self.assertIs(getattr(tutti, f"assert_{name}"), getattr(debugging, f"assert_{name}"))


if __name__ == "__main__":
    unittest.main()
