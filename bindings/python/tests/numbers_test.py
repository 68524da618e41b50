"""The dtypes of Python's own numbers, and how what a function or a generator gives is converted to
a dtype that was declared. The examples are those of tf.data's documentation."""

import itertools
import unittest

import numpy as np

import tutti
from tutti import errors
from tutti.data import Dataset, TensorSpec


def dtype_of(value):
    return tutti.Tensor(value).dtype


def generated(elements, dtype, shape=()):
    return list(Dataset.from_generator(lambda: elements,
                                       output_signature=TensorSpec(shape, dtype)))


class LiteralTest(unittest.TestCase):
    def test_numbers_of_python_have_the_documented_dtypes(self):
        for value, dtype in ((3, np.int32), (-2**31, np.int32), (2**31, np.int64),
                             (-2**63, np.int64), (0.5, np.float32), (float("inf"), np.float32),
                             (1j, np.complex128), (True, np.bool_), ([1, 2], np.int32),
                             ([[1, 2], (3, 2**31)], np.int64), ([1, 0.5], np.float32),
                             ([1, 2j], np.complex128), ([True, 2], np.int32),
                             ([True, False], np.bool_), ([], np.float32), (range(3), np.int32)):
            with self.subTest(value=value):
                self.assertEqual(dtype_of(value), dtype)
                np.testing.assert_array_equal(tutti.Tensor(value).numpy(), np.array(value))

    def test_numbers_of_numpy_keep_theirs(self):
        for value in (np.int64(3), np.float64(0.5), np.int8(1), np.arange(2), np.zeros(2),
                      [np.float64(1), 2], [np.int64(1), np.int64(2)], [np.zeros(2), [1, 2]]):
            with self.subTest(value=value):
                self.assertEqual(dtype_of(value), np.asarray(value).dtype)

    def test_numbers_that_no_such_dtype_holds_are_overflow_errors_that_name_them(self):
        for value, named in ((2**63, "9223372036854775808.*uint64"), ([1, -2**63 - 1], "-9223"),
                             (1e39, r"1e\+39 does not fit into float32.*np.float64\(1e\+39\)"),
                             ([0.5, 10**400], "1000")):
            with self.assertRaisesRegex(OverflowError, named):
                tutti.Tensor(value)

    def test_rows_of_unequal_length_are_a_value_error(self):
        endless = [1]
        endless += [endless, endless]
        for value in ([1, [2]], [[1, 2], [3]], [[1], 2], endless):
            with self.assertRaises(ValueError):
                tutti.Tensor(value)

    def test_a_given_dtype_gets_all_that_python_knows(self):
        self.assertEqual(tutti.Tensor(0.1, np.float64).numpy(), 0.1)
        self.assertEqual(tutti.Tensor(2**64 - 1, np.uint64).numpy(), 2**64 - 1)
        self.assertEqual(tutti.Variable(0.1, dtype=np.float64).numpy(), 0.1)

    def test_variables_and_their_writes(self):
        for value, dtype in ((1.0, np.float32), (1, np.int32), ([2**40], np.int64),
                             (np.float64(1), np.float64)):
            self.assertEqual(tutti.Variable(value).dtype, dtype)
        wide = tutti.Variable(np.float64(0))
        self.assertEqual(wide.assign(0.1).numpy(), 0.1)
        count = tutti.Variable(1, name="count")
        count.assign_add(2)
        self.assertEqual((count.numpy(), count.dtype), (3, np.int32))
        with self.assertRaisesRegex(errors.InvalidArgumentError, "'count': 2.5 is a float"):
            count.assign(2.5)
        with self.assertRaisesRegex(errors.InvalidArgumentError,
                                    "'count': 1099511627776 does not fit into int32.*np.int64"):
            count.assign(2**40)
        with self.assertRaisesRegex(errors.InvalidArgumentError, "Variable: initial_value: 2.5"):
            tutti.Variable([1, 2.5], dtype=np.int32)

    def test_results_of_replicas(self):
        strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        result = strategy.run(lambda: {"loss": 0.25, "rows": 3, "all": [2**40]})
        dtypes = {key: value.values[0].dtype for key, value in result.items() if key != "all"}
        self.assertEqual(dtypes, {"loss": np.float32, "rows": np.int32})
        self.assertEqual(result["all"][0].values[0].dtype, np.int64)
        summed = strategy.run(
            lambda: tutti.distribute.get_replica_context().all_reduce("sum", 1.5))
        self.assertEqual(summed.values[0].dtype, np.float32)

    def test_arguments_of_communicators(self):
        one, = tutti.Communicator.create_local(1)
        self.assertEqual(one.all_reduce([1.0, 2.0]).dtype, np.float32)
        self.assertEqual(one.all_reduce([1, 2]).dtype, np.int32)
        self.assertEqual(one.all_gather([1, 2]).dtype, np.int32)
        self.assertEqual(one.all_reduce_many([[1], [0.5]])[1].dtype, np.float32)
        self.assertEqual(one.reduce_scatter([1.5]).dtype, np.float32)
        out = np.empty(2)
        self.assertIs(one.all_reduce([0.1, 2], out=out), out)
        self.assertEqual(out.tolist(), [0.1, 2.0])
        one.all_reduce_many([[1, 2]], out=[out])
        self.assertEqual(out.tolist(), [1.0, 2.0])
        with self.assertRaisesRegex(errors.InvalidArgumentError, "2.5 is a float"):
            one.all_reduce([2.5], out=np.empty(1, np.int32))


class ElementSpecTest(unittest.TestCase):
    """What the documentation prints."""

    def test_sources(self):
        self.assertEqual(Dataset.from_tensor_slices([1, 2, 3]).element_spec,
                         TensorSpec((), np.int32))
        row, = Dataset.from_tensors([1, 2, 3])
        self.assertEqual(row.dtype, np.int32)
        self.assertEqual(Dataset.from_tensors(([1.5], "A")).element_spec,
                         (TensorSpec((1,), np.float32), TensorSpec((), bytes)))

    def test_python_primitives_lists_and_arrays_of_a_function(self):
        def h(x):
            return 37.0, ["Foo", "Bar"], np.array([1.0, 2.0], dtype=np.float64)

        def i(x):
            return (37.0, [42, 16]), "foo"

        dataset = Dataset.range(3)
        self.assertEqual(dataset.map(h).element_spec, (
            TensorSpec((), np.float32), TensorSpec((2,), bytes), TensorSpec((2,), np.float64)))
        self.assertEqual(dataset.map(i).element_spec, (
            (TensorSpec((), np.float32), TensorSpec((2,), np.int32)), TensorSpec((), bytes)))

    def test_an_int_that_grows_under_the_first_rows_int32(self):
        walk = iter(Dataset.range(3).map(lambda x: int(x) * 3000000000))
        self.assertEqual(next(walk).dtype, np.int32)
        with self.assertRaisesRegex(errors.InvalidArgumentError,
                                    "element 1.*3000000000 does not fit into int32.*np.int64"):
            next(walk)
        shrinks = list(Dataset.range(2).map(lambda x: 3000000000 * (1 - int(x))))
        self.assertEqual((shrinks, shrinks[1].dtype), ([3000000000, 0], np.int64))


class DeclaredTest(unittest.TestCase):
    def test_generators_of_the_documentation(self):
        elements = [(1, "foo"), (2, "bar"), (3, "baz")]
        dataset = Dataset.from_generator(lambda: elements, (np.int32, str))
        self.assertEqual(dataset.element_spec,
                         (TensorSpec(None, np.int32), TensorSpec(None, bytes)))
        self.assertEqual(list(dataset), [(1, b"foo"), (2, b"bar"), (3, b"baz")])
        self.assertEqual(list(dataset.map(lambda x_int, y_str: x_int)), [1, 2, 3])
        elements = [{"a": 1, "b": "foo"}, {"a": 2, "b": "bar"}, {"a": 3, "b": "baz"}]
        dataset = Dataset.from_generator(lambda: elements, {"a": np.int32, "b": str})
        self.assertEqual(list(dataset.map(lambda d: str(d["a"]).encode() + d["b"])),
                         [b"1foo", b"2bar", b"3baz"])
        elements = [([1, 2, 3], [10]), ([4, 5], [11, 12])]
        dataset = Dataset.from_generator(lambda: iter(elements), (np.int32, np.int32))
        self.assertEqual([(x.dtype, y.dtype) for x, y in dataset], [(np.int32, np.int32)] * 2)
        dataset = Dataset.from_generator(lambda: [[1, 2, 3], [1, 2], [1, 2, 3, 4]], np.int64)
        self.assertEqual([row.dtype for row in dataset], [np.int64] * 3)

    def test_a_generator_that_counts(self):
        def gen():
            for i in itertools.count(1):
                yield (i, [1] * i)

        dataset = Dataset.from_generator(gen, (np.int64, np.int64), ((), (None,)))
        self.assertEqual([(i, row.tolist()) for i, row in dataset.take(3)],
                         [(1, [1]), (2, [1, 1]), (3, [1, 1, 1])])

    def test_the_generator_of_the_guide_to_distributed_input(self):
        def input_gen():
            while True:
                yield np.random.rand(4)

        strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        dataset = Dataset.from_generator(input_gen, output_types=np.float32, output_shapes=(4,))
        steps = iter(strategy.experimental_distribute_dataset(dataset))
        for _ in range(4):
            result = strategy.run(lambda x: x, args=(next(steps),))
            self.assertEqual([part.dtype for part in strategy.local_results(result)],
                             [np.float32] * 2)

    def test_numbers_become_what_was_declared(self):
        for elements, dtype in (([1, 2], np.int8), ([1, 2], np.float16), ([0.1, 2], np.float64),
                                ([0.1, 2], np.complex64), ([2**64 - 1], np.uint64),
                                ([np.float64(0.1)], np.float32), ([np.int64(7)], np.int32),
                                ([True], np.int32), ([True], bool)):
            with self.subTest(elements=elements, dtype=dtype):
                found = generated(elements, dtype)
                self.assertEqual([one.dtype for one in found], [dtype] * len(elements))
                self.assertEqual(found, [dtype(one) for one in elements])
        self.assertEqual(generated([[]], bytes, (None,))[0].tolist(), [])
        self.assertEqual(generated([[]], np.int32, (None,))[0].dtype, np.int32)

    def test_what_does_not_fit_names_element_path_value_and_both_dtypes(self):
        for elements, dtype, named in (
                ([1, 3000000000], np.int32,
                 r"element 1: .*expected int32\[\], found int64\[\]: 3000000000 .*np.int64"),
                ([2.5], np.int32, r"element 0: .*expected int32\[\], found float64\[\]: 2.5 is a"),
                ([[1, -1]], np.uint8, r"expected uint8\[2\], found int64\[2\]: -1 does not fit"),
                ([1e39], np.float32, r"1e\+39 does not fit into float32"),
                ([7], bytes, r"expected bytes\[\], found int64\[\]: 7 is an integer"),
                (["a"], np.int32, r'expected int32\[\], found bytes\[\]: "a" is a byte string'),
                ([1], bool, "1 is an integer, which never becomes a boolean")):
            shape = np.shape(elements[-1])
            with self.subTest(elements=elements, dtype=dtype):
                with self.assertRaisesRegex(errors.InvalidArgumentError, named):
                    generated(elements, dtype, shape)
        nested = Dataset.from_generator(lambda: [{"a": (1, 2.5)}], {"a": (np.int32, np.int32)})
        with self.assertRaisesRegex(errors.InvalidArgumentError, r'at \["a"\]\[1\], found float64'):
            list(nested)

    def test_the_next_element_comes_behind_one_that_does_not_fit(self):
        walk = iter(Dataset.from_generator(lambda: [1, 2.5, 3],
                                           output_signature=TensorSpec((), np.int32)))
        self.assertEqual(next(walk), 1)
        with self.assertRaises(errors.InvalidArgumentError):
            next(walk)
        self.assertEqual(next(walk), 3)

    def test_results_of_functions_become_what_was_declared(self):
        spec = TensorSpec((), np.float32)
        for parallel in (None, 2):
            found = list(Dataset.range(3).map(lambda x: 1.5, output_signature=spec,
                                              num_parallel_calls=parallel))
            self.assertEqual((found, found[0].dtype), ([1.5] * 3, np.float32))
        found = list(Dataset.range(3).map(lambda x: x, output_signature=spec))
        self.assertEqual(found[2].dtype, np.float32)
        exact, = Dataset.range(1).map(lambda x: 0.1, output_signature=TensorSpec((), np.float64))
        self.assertEqual(exact, 0.1)
        whole = Dataset.range(2).map(lambda x: 0.5, output_signature=TensorSpec((), np.int64))
        with self.assertRaisesRegex(errors.InvalidArgumentError,
                                    "map: element 0: .*0.5 is a float"):
            list(whole)

    def test_results_of_slab_functions_become_what_was_declared(self):
        spec = TensorSpec((), np.int8)
        dataset = Dataset.range(6).map(lambda x: np.where(x == 4, 300, x).tolist(), slab=True,
                                       output_signature=spec)
        walk = iter(dataset.batch(3))
        self.assertEqual((next(walk).tolist(), dataset.element_spec), ([0, 1, 2], spec))
        with self.assertRaisesRegex(errors.InvalidArgumentError,
                                    "map: element 4: .*300 does not fit into int8"):
            next(walk)
        self.assertEqual(next(walk).tolist(), [3, 5])

    def test_registered_functions_know_their_dtype(self):
        tutti.data.register_function("a half", lambda x: 0.1,
                                     output_signature=TensorSpec((), np.float64))
        try:
            half = tutti.data.registered_function("a half")
            self.assertEqual(list(Dataset.range(1).map(half)), [0.1])
        finally:
            tutti.data.unregister_function("a half")

    def test_a_predicate_gives_booleans_only(self):
        self.assertEqual(list(Dataset.range(4).filter(lambda x: bool(x % 2))), [1, 3])
        with self.assertRaisesRegex(errors.InvalidArgumentError,
                                    "expected bool.*, found int.*1 is an integer"):
            list(Dataset.range(4).filter(lambda x: 1))

    def test_defaults_of_examples(self):
        feature = tutti.data.FixedLenFeature
        parse = tutti.data.parse_example({
            "none": feature([0], bytes, []), "no": feature([0], np.int64, []),
            "half": feature([0], "bfloat16", []), "text": feature([2], bytes, "x"),
            "some": feature([2], np.float32, 1), "wide": feature([], np.int64, 2**40)})
        row, = Dataset.from_tensors(b"").map(parse)
        self.assertEqual((row["none"].tolist(), row["no"].dtype), ([], np.int64))
        self.assertEqual((row["text"].tolist(), row["some"].tolist()), ([b"x", b"x"], [1.0, 1.0]))
        self.assertEqual(row["wide"], 2**40)
        with self.assertRaisesRegex(errors.InvalidArgumentError, "default value.*2.5 is a float"):
            tutti.data.parse_example({"x": feature([], np.int64, 2.5)})

    def test_tensors_are_converted_by_hand(self):
        self.assertEqual(tutti.Tensor([1, 2]).convert(np.float64).numpy().tolist(), [1.0, 2.0])
        tensor = tutti.Tensor(np.zeros(3))
        self.assertEqual(tensor.convert(np.float64).address, tensor.address)
        with self.assertRaisesRegex(errors.InvalidArgumentError, "300 does not fit into uint8"):
            tutti.Tensor([300]).convert(np.uint8)


if __name__ == "__main__":
    unittest.main()
