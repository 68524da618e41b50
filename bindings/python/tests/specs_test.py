"""Specs of tensors, datasets, iterators, optionals and variants: from values, compared, united; and
the dataset behind a variant."""

import pickle
import unittest

import numpy as np

import tutti
from tutti import errors
from tutti.data import (Dataset, DatasetSpec, Iterator, IteratorSpec, NoneTensorSpec, Optional,
                        OptionalSpec, TensorSpec, Variant, VariantSpec)
from tutti.data.experimental import from_variant, to_variant

HOLDERS = (IteratorSpec, DatasetSpec, OptionalSpec)


def ints(*shape):
    return TensorSpec(shape, np.int32)


class TensorSpecTest(unittest.TestCase):
    def test_it_comes_from_a_value(self):
        self.assertEqual(TensorSpec.from_value(np.zeros((2, 3), np.float32)),
                         TensorSpec((2, 3), np.float32))
        self.assertEqual(TensorSpec.from_value(b"text"), TensorSpec((), bytes))
        self.assertEqual(TensorSpec.from_value(tutti.Tensor([1, 2])), ints(2))
        for no_tensor in ((1, 2), {"a": 1}, None, Dataset.range(1), Optional.empty()):
            with self.assertRaisesRegex(TypeError, "TensorSpec.from_value: a tensor is needed"):
                TensorSpec.from_value(no_tensor)

    def test_it_names_the_class_of_its_values(self):
        elements = Dataset.from_tensors((np.arange(3), np.int64(4), b"x", np.array([b"y"], object)))
        values, specs = next(iter(elements)), elements.element_spec
        for value, spec in zip(values, specs):
            self.assertIsInstance(value, spec.value_type)
        self.assertEqual([spec.value_type for spec in specs],
                         [np.ndarray, np.int64, bytes, np.ndarray])
        self.assertIs(TensorSpec(None, np.int64).value_type, object)

    def test_what_is_not_known_on_either_side_is_compatible(self):
        self.assertTrue(ints(None).is_compatible_with(ints(3)))
        self.assertTrue(ints(3).is_compatible_with(ints(None)))
        self.assertTrue(TensorSpec(None, np.int32).is_compatible_with(ints(3, 4)))
        self.assertTrue(ints(3).is_compatible_with(np.zeros(3, np.int32)))
        self.assertFalse(ints(3).is_compatible_with(ints(4)))
        self.assertFalse(ints(3).is_compatible_with(ints(3, 1)))
        self.assertFalse(ints(3).is_compatible_with(TensorSpec((3,), np.int64)))
        self.assertFalse(ints().is_compatible_with(Dataset.range(3)))
        self.assertFalse(ints().is_compatible_with(None))
        with self.assertRaises(TypeError):
            ints().is_compatible_with(object())

    def test_the_most_specific_one_knows_what_both_agree_on(self):
        self.assertEqual(ints(3, 5).most_specific_compatible_type(ints(4, 5)), ints(None, 5))
        self.assertEqual(ints(3).most_specific_compatible_type(ints(4, 5)),
                         TensorSpec(None, np.int32))
        named = TensorSpec((3,), np.int32, "x")
        self.assertEqual(named.most_specific_compatible_type(named).name, "x")
        self.assertIsNone(named.most_specific_compatible_type(ints(3)).name)
        with self.assertRaisesRegex(ValueError, r"expected int32\[3\], found float32\[3\]"):
            ints(3).most_specific_compatible_type(TensorSpec((3,), np.float32))
        with self.assertRaises(errors.InvalidArgumentError):
            ints(3).most_specific_compatible_type(IteratorSpec(ints(3)))
        with self.assertRaisesRegex(TypeError, "a spec is needed, not an object of type int"):
            ints(3).most_specific_compatible_type(3)


class HolderTest(unittest.TestCase):
    def test_they_are_equal_by_what_they_hold(self):
        for spec in HOLDERS:
            with self.subTest(spec=spec.__name__):
                nested = {"b": (ints(3), [ints()]), "a": ints(None)}
                again = {"a": ints(None), "b": (ints(3), [ints()])}
                self.assertEqual(spec(nested), spec(again))
                self.assertEqual(hash(spec(nested)), hash(spec(again)))
                self.assertNotEqual(spec(ints(3)), spec(ints(4)))
                self.assertNotEqual(spec(ints(3)), ints(3))
                self.assertNotEqual(spec(ints(3)), spec(None))
                self.assertEqual(spec(ints(3)).element_spec, ints(3))
                self.assertEqual(pickle.loads(pickle.dumps(spec(nested))), spec(nested))
                self.assertIn("TensorSpec(shape=(3,), dtype=int32)", repr(spec(ints(3))))
        for one in HOLDERS:
            for other in HOLDERS:
                self.assertEqual(one(ints(3)) == other(ints(3)), one is other)
                self.assertEqual(one(ints(3)).is_compatible_with(other(ints(3))), one is other)

    def test_they_compare_and_unite_by_what_they_hold(self):
        for spec in HOLDERS:
            with self.subTest(spec=spec.__name__):
                self.assertTrue(spec(ints(3)).is_compatible_with(spec(ints(None))))
                self.assertTrue(spec(ints(None)).is_compatible_with(spec(ints(3))))
                self.assertTrue(spec(None).is_compatible_with(spec((ints(3), ints()))))
                self.assertTrue(spec((ints(3), ints())).is_compatible_with(spec(None)))
                self.assertFalse(spec(ints(3)).is_compatible_with(spec(ints(4))))
                self.assertFalse(spec(ints(3)).is_compatible_with(spec((ints(3),))))
                self.assertEqual(spec((ints(3), ints())).most_specific_compatible_type(
                    spec((ints(4), ints()))), spec((ints(None), ints())))
                self.assertEqual(spec(spec(ints(3))).most_specific_compatible_type(
                    spec(spec(ints(4, 5)))), spec(spec(TensorSpec(None, np.int32))))
                for other in (spec((ints(3),)), spec(TensorSpec((3,), bytes)), ints(3)):
                    with self.assertRaises(ValueError):
                        spec(ints(3)).most_specific_compatible_type(other)

    def test_the_spec_of_an_iterator(self):
        dataset = Dataset.from_tensors(5)
        iterator = iter(dataset)
        spec = IteratorSpec.from_value(iterator)
        self.assertEqual(spec, IteratorSpec(TensorSpec((), np.int32)))
        self.assertIs(spec.value_type, Iterator)
        self.assertTrue(spec.is_compatible_with(iterator))
        self.assertFalse(IteratorSpec(TensorSpec((), np.int64)).is_compatible_with(iterator))
        self.assertFalse(spec.is_compatible_with(dataset))
        self.assertFalse(spec.is_compatible_with(np.int32(5)))
        self.assertFalse(spec != IteratorSpec(TensorSpec(shape=(), dtype=np.int32, name=None)))

        def square(it):  # the page's function, whose input signature this is
            x = it.get_next()
            return x * x

        self.assertTrue(IteratorSpec(TensorSpec((), np.int32)).is_compatible_with(iterator))
        self.assertEqual(square(iterator), 25)
        with self.assertRaisesRegex(TypeError, "IteratorSpec.from_value: value: a "
                                               "tutti.data.Iterator is needed"):
            IteratorSpec.from_value(dataset)

    def test_the_spec_of_a_dataset(self):
        dataset = Dataset.range(5).batch(2)
        spec = DatasetSpec.from_value(dataset)
        self.assertEqual(spec, DatasetSpec(TensorSpec((None,), np.int64)))
        self.assertIs(spec.value_type, Dataset)
        self.assertTrue(spec.is_compatible_with(dataset))
        self.assertTrue(DatasetSpec(TensorSpec((2,), np.int64)).is_compatible_with(dataset))
        self.assertFalse(DatasetSpec(TensorSpec((), np.int64)).is_compatible_with(dataset))
        self.assertFalse(spec.is_compatible_with(iter(dataset)))
        with self.assertRaisesRegex(TypeError, "a tutti.data.Dataset is needed"):
            DatasetSpec.from_value([1])

    def test_the_shape_of_a_dataset_spec_is_kept_and_compared(self):
        one, three = DatasetSpec(ints()), DatasetSpec(ints(), dataset_shape=(3,))
        self.assertEqual((one.dataset_shape, three.dataset_shape), ((), (3,)))
        self.assertEqual(three, DatasetSpec(ints(), (3,)))
        self.assertNotEqual(one, three)
        self.assertNotEqual(hash(one), hash(three))
        self.assertFalse(one.is_compatible_with(three))
        self.assertTrue(three.is_compatible_with(DatasetSpec(ints(), (None,))))
        self.assertTrue(three.is_compatible_with(DatasetSpec(ints(), None)))
        self.assertFalse(three.is_compatible_with(Dataset.from_tensors(1)))
        self.assertEqual(three.most_specific_compatible_type(DatasetSpec(ints(), (4,))),
                         DatasetSpec(ints(), (None,)))
        self.assertEqual(three.most_specific_compatible_type(one), DatasetSpec(ints(), None))
        self.assertIn("dataset_shape=(3,)", repr(three))

    def test_the_spec_of_an_optional(self):
        for optional in (Optional.from_value(np.zeros(3, np.int32)), Optional.empty(ints(3))):
            spec = OptionalSpec.from_value(optional)
            self.assertEqual(spec, OptionalSpec(ints(3)))
            self.assertIs(spec.value_type, Optional)
            self.assertTrue(spec.is_compatible_with(optional))
            self.assertTrue(spec.is_compatible_with(Optional.empty()))
            self.assertFalse(OptionalSpec(ints(4)).is_compatible_with(optional))
        self.assertEqual(OptionalSpec.from_value(Optional.empty()), OptionalSpec(None))
        with self.assertRaisesRegex(TypeError, "a tutti.data.Optional is needed"):
            OptionalSpec.from_value(3)

    def test_an_empty_optional_keeps_its_spec_in_an_element(self):
        dataset = Dataset.from_tensors((Optional.empty(ints(3)), Optional.empty()))
        self.assertEqual(dataset.element_spec, (OptionalSpec(ints(3)), OptionalSpec(None)))
        for again in (dataset, Dataset.deserialize(dataset.serialize())):
            told, untold = next(iter(again))
            self.assertFalse(told.has_value())
            self.assertEqual(told.element_spec, ints(3))
            self.assertIsNone(untold.element_spec)
        walk = iter(Dataset.range(1))
        walk.get_next()
        self.assertEqual(walk.get_next_as_optional().element_spec, TensorSpec((), np.int64))

    def test_the_spec_of_none(self):
        self.assertEqual(NoneTensorSpec.from_value(None), NoneTensorSpec())
        self.assertIs(NoneTensorSpec().value_type, type(None))
        self.assertTrue(NoneTensorSpec().is_compatible_with(None))
        self.assertFalse(NoneTensorSpec().is_compatible_with(3))
        self.assertEqual(NoneTensorSpec().most_specific_compatible_type(NoneTensorSpec()),
                         NoneTensorSpec())
        with self.assertRaisesRegex(TypeError, "None is needed, not an object of type int"):
            NoneTensorSpec.from_value(0)


class LearntSpecTest(unittest.TestCase):
    def test_an_element_that_fails_does_not_decide(self):
        def good_from(least):
            def function(x):
                if x < least:
                    raise ValueError(f"{x} is bad")
                return x
            return function

        scalar = TensorSpec((), np.int64)
        numbers = Dataset.range(5)
        self.assertEqual(numbers.map(good_from(2)).element_spec, scalar)
        self.assertEqual(numbers.map(good_from(2)).skip(2).map(good_from(0)).element_spec, scalar)
        self.assertEqual(numbers.map(good_from(3)).interleave(Dataset.range).element_spec, scalar)
        with self.assertRaisesRegex(ValueError, "0 is bad"):
            numbers.map(good_from(9)).element_spec  # pylint: disable=pointless-statement

        def generated():
            yield from (1, 2)
            raise KeyError("the third")

        ended = Dataset.from_generator(generated, output_signature=TensorSpec((), np.int64))
        self.assertEqual(ended.map(good_from(2)).element_spec, scalar)


class VariantTest(unittest.TestCase):
    def test_a_variant_is_a_scalar_and_the_dataset_again(self):
        dataset = Dataset.range(3)
        variant = to_variant(dataset)
        self.assertIsInstance(variant, Variant)
        self.assertEqual((variant.shape, variant.dtype), ((), "variant"))
        back = from_variant(variant, dataset.element_spec)
        self.assertEqual(list(back), [0, 1, 2])
        self.assertEqual(list(from_variant(variant, TensorSpec(None, np.int64))), [0, 1, 2])
        spec = VariantSpec.from_value(variant)
        self.assertEqual((spec.shape, spec.dtype), ((), "variant"))
        self.assertIs(spec.value_type, Variant)
        self.assertTrue(spec.is_compatible_with(variant))
        self.assertTrue(spec.is_compatible_with(dataset))
        self.assertFalse(spec.is_compatible_with(3))
        self.assertEqual(spec, DatasetSpec(None))
        self.assertEqual(pickle.loads(pickle.dumps(spec)), spec)

    def test_another_structure_is_refused(self):
        variant = to_variant(Dataset.range(3))
        with self.assertRaisesRegex(ValueError, r"expected a dataset of int32\[\], found one of "
                                                r"int64\[\]"):
            from_variant(variant, TensorSpec((), np.int32))
        with self.assertRaisesRegex(ValueError, "expected a dataset of "):
            from_variant(variant, (TensorSpec((), np.int64),))
        with self.assertRaisesRegex(TypeError, "a tutti.data.Variant is needed, not an object of "
                                               "type int"):
            from_variant(3, TensorSpec((), np.int64))
        for wrong in (None, 3, iter(Dataset.range(1))):
            with self.assertRaisesRegex(TypeError, "a tutti.data.Dataset is needed"):
                to_variant(wrong)
        with self.assertRaisesRegex(TypeError, "to_variant"):
            Variant()

    def test_what_is_not_known_is_learnt_from_an_element(self):
        calls = []

        def note(x):
            calls.append(int(x))
            return x + 1

        variant = to_variant(Dataset.range(3).map(note))
        with self.assertRaises(ValueError):
            from_variant(variant, TensorSpec((), bytes))
        self.assertEqual(calls, [0])
        self.assertEqual(list(from_variant(variant, TensorSpec((), np.int64))), [1, 2, 3])

    def test_variants_stand_in_elements(self):
        variant = to_variant(Dataset.range(3))
        dataset = Dataset.from_tensors({"numbers": variant, "count": 3})
        self.assertEqual(dataset.element_spec["numbers"], DatasetSpec(TensorSpec((), np.int64)))
        element = next(iter(dataset))
        self.assertEqual(list(from_variant(element["numbers"], TensorSpec((), np.int64))),
                         [0, 1, 2])
        self.assertEqual(list(Dataset.range(2).flat_map(lambda x: variant)), [0, 1, 2] * 2)
        with self.assertRaisesRegex(TypeError, "no array"):
            dataset.as_numpy_iterator().next()


class GeneratorArgumentTest(unittest.TestCase):
    def given(self, *args):
        """What a generator gets of these arguments."""
        kept = []

        def generate(*arguments):
            kept.append(arguments)
            yield 0

        list(Dataset.from_generator(generate, np.int32, (), args=args))
        return kept[0]

    def test_arguments_arrive_as_arrays(self):
        vector, scalar, text, literal, real, listed = self.given(
            np.arange(3), np.float32(2), "text", 5, 0.5, [1, 2])
        self.assertIsInstance(vector, np.ndarray)
        self.assertEqual((vector.dtype, vector.tolist()), (np.int64, [0, 1, 2]))
        self.assertEqual((type(scalar), scalar), (np.float32, 2))
        self.assertEqual(text, b"text")
        self.assertEqual((type(literal), literal), (np.int32, 5))
        self.assertEqual((type(real), real), (np.float32, 0.5))
        self.assertIsInstance(listed, np.ndarray)
        self.assertEqual((listed.dtype, listed.tolist()), (np.int32, [1, 2]))
        tensor, texts, (nested, held) = self.given(tutti.Tensor([[1.5]]), np.array(["a", "b"]),
                                                   (np.int8(1), {"x": [2]}))
        self.assertEqual((tensor.dtype, tensor.tolist()), (np.float32, [[1.5]]))
        self.assertEqual(texts.tolist(), [b"a", b"b"])
        self.assertEqual((type(nested), held["x"].tolist()), (np.int8, [2]))
        half, = self.given(tutti.Tensor([1.5, 2], tutti.bfloat16))
        self.assertEqual((half.dtype, np.asarray(tutti.Tensor(half).cast(np.float32)).tolist()),
                         (tutti.bfloat16, [1.5, 2]))

    def test_they_are_the_same_in_each_iteration_whatever_becomes_of_them(self):
        array = np.arange(3)

        def generate(numbers):
            with self.assertRaises(ValueError):
                numbers[0] = 7
            yield from numbers

        dataset = Dataset.from_generator(generate, np.int64, (), args=(array,))
        array[:] = 9
        self.assertEqual(list(dataset) + list(dataset), [0, 1, 2] * 2)

    def test_a_generator_that_counts_to_its_argument(self):
        dataset = Dataset.from_generator(lambda stop: range(stop), args=(3,),
                                         output_signature=TensorSpec((), np.int64))
        self.assertEqual(list(dataset.repeat(2)), [0, 1, 2] * 2)

    def test_what_is_no_tensor_is_refused_at_once(self):
        for wrong in (object(), None, Dataset.range(1), lambda: 1):
            with self.assertRaises(TypeError):
                Dataset.from_generator(lambda x: [1], np.int32, args=(wrong,))


if __name__ == "__main__":
    unittest.main()
