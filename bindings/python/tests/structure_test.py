"""Nested structures through run: what a replica sees of its arguments, and what comes back."""

import collections
import unittest

import numpy as np

import tutti

Point = collections.namedtuple("Point", ["x", "y"])


def address(array):
    return array.__array_interface__["data"][0]


class StructureTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        cls.one = tutti.distribute.OneDeviceStrategy("CPU:0")

    def through(self, *args):
        """What one replica sees."""
        seen = []
        self.one.run(lambda *given: seen.append(given), args=args)
        return seen[0]

    def test_structures_keep_their_kinds(self):
        given = {"b": (1, [2, 3]), "a": Point(x=4, y=None), "c": ()}
        (seen,) = self.through(given)
        self.assertEqual(seen, given)
        self.assertIs(type(seen["a"]), Point)
        self.assertIs(type(seen["b"][1]), list)
        self.assertEqual(seen["c"], ())

    def test_numbers_texts_and_unknown_objects_stay_themselves(self):
        thing = object()
        given = (3, 2.5, True, 1 + 2j, "text", None, thing, 1 << 80)
        seen = self.through(*given)
        self.assertEqual(seen, given)
        self.assertIs(seen[6], thing)

    def test_arrays_are_read_only_views_of_the_callers_memory(self):
        array = np.arange(6.0).reshape(2, 3)
        (seen,) = self.through(array)
        self.assertEqual(address(seen), address(array))
        self.assertFalse(seen.flags.writeable)
        with self.assertRaises(ValueError):
            seen[0, 0] = 1

    def test_scalars_of_numpy_and_byte_strings_arrive_as_such(self):
        seen = self.through(np.float32(1.5), np.array(7), b"ab\0", np.array([b"x", b"yy"], object))
        self.assertEqual(seen[0], np.float32(1.5))
        self.assertIsInstance(seen[0], np.float32)
        self.assertEqual(seen[1], 7)
        self.assertEqual(seen[2], b"ab\0")
        self.assertEqual(seen[3].tolist(), [b"x", b"yy"])

    def test_a_variable_and_a_dataset_arrive_as_the_same_object(self):
        with self.one.scope():
            variable = tutti.Variable(1.0)
        dataset = tutti.data.Dataset.range(3)
        seen = self.through(variable, dataset)
        self.assertIs(seen[0], variable)
        self.assertEqual(seen[1].cardinality(), 3)

    def test_keyword_arguments_arrive(self):
        result = self.strategy.run(lambda a, b, c: a + b * c, args=(1,),
                                   kwargs={"b": 2, "c": np.int64(3)})
        self.assertEqual(self.strategy.local_results(result), (7, 7))

    def test_results_become_per_replica_leaf_by_leaf(self):
        def step():
            replica = tutti.distribute.get_replica_context().replica_id_in_sync_group
            return {"id": replica, "same": "text", "none": None, "array": np.full(3, replica)}

        result = self.strategy.run(step)
        self.assertEqual(result["same"], "text")
        self.assertIsNone(result["none"])
        self.assertIsInstance(result["id"], tutti.distribute.PerReplica)
        self.assertEqual(result["id"].values, (0, 1))
        self.assertEqual([a.tolist() for a in result["array"].values], [[0] * 3, [1] * 3])
        self.assertIn("PerReplica:{0: ", repr(result["array"]))
        local = self.strategy.local_results(result)
        self.assertEqual(local[1]["id"], 1)

    def test_the_identical_object_stays_one_value(self):
        thing = object()
        self.assertIs(self.strategy.run(lambda: thing), thing)
        different = self.strategy.run(object)
        self.assertEqual(len(different.values), 2)

    def test_an_array_that_a_replica_returns_is_not_copied(self):
        array = np.arange(100.0)
        result = self.one.run(lambda: array)
        self.assertEqual(address(result), address(array))

    def test_keys_that_are_no_text_are_a_type_error(self):
        with self.assertRaisesRegex(TypeError, "keys of a dict must be str"):
            self.one.run(lambda given: None, args=({1: 2},))

    def test_a_structure_without_an_end_is_an_error(self):
        endless = []
        endless.append(endless)
        with self.assertRaises(RecursionError):
            self.one.run(lambda given: None, args=(endless,))

    def test_a_number_that_no_int64_holds_is_an_overflow_error(self):
        with self.assertRaises(OverflowError):
            self.one.run(lambda: 1 << 80)

    def test_data_takes_lists_as_tensors_and_tuples_as_structures(self):
        dataset = tutti.data.Dataset.from_tensors(([1, 2, 3], {"a": [[1.0], [2.0]]}, b"x"))
        self.assertEqual(dataset.element_spec,
                         (tutti.TensorSpec((3,), np.int32),
                          {"a": tutti.TensorSpec((2, 1), np.float32)}, tutti.TensorSpec((), bytes)))
        with self.assertRaisesRegex(TypeError, "cannot stand in a dataset|is no tensor"):
            tutti.data.Dataset.from_tensors(object())

    def test_a_spec_says_what_fits_it(self):
        spec = tutti.TensorSpec((None, 2), np.float32)
        self.assertTrue(spec.is_compatible_with(np.zeros((5, 2), np.float32)))
        self.assertTrue(spec.is_compatible_with(tutti.TensorSpec((3, 2), np.float32)))
        self.assertFalse(spec.is_compatible_with(np.zeros((5, 3), np.float32)))
        self.assertFalse(spec.is_compatible_with(np.zeros((5, 2))))
        self.assertFalse(spec.is_compatible_with((np.zeros((5, 2), np.float32),)))

    def test_named_tuples_come_out_of_a_dataset_as_their_class(self):
        dataset = tutti.data.Dataset.from_tensor_slices(Point(x=[1, 2], y=[3.0, 4.0]))
        elements = list(dataset)
        self.assertEqual(elements, [Point(1, 3.0), Point(2, 4.0)])
        self.assertIs(type(elements[0]), Point)
        self.assertIs(type(dataset.element_spec), Point)


if __name__ == "__main__":
    unittest.main()
