"""Sparse and ragged tensors: making them, what they become, and as elements of datasets."""

import os
import pickle
import tempfile
import unittest

import numpy as np

import tutti
from tutti import RaggedTensor, RaggedTensorSpec, SparseTensor, SparseTensorSpec, TensorSpec
from tutti.data import Dataset, experimental


def copies_of_self(start, stop):
    """x -> x copies of x."""
    return Dataset.range(start, stop).map(lambda x: np.full(int(x), x),
                                          output_signature=TensorSpec((None,), np.int64))


class SparseTest(unittest.TestCase):
    def test_parts_are_arrays(self):
        sparse = SparseTensor([[0, 1], [2, 0]], [5.0, 6.0], [3, 2])
        self.assertEqual(sparse.indices.dtype, np.int64)
        self.assertEqual(sparse.values.dtype, np.float32)
        self.assertEqual(sparse.dense_shape.tolist(), [3, 2])
        self.assertEqual((sparse.shape, sparse.dtype), ((3, 2), np.float32))
        self.assertEqual(repr(sparse), "SparseTensor(indices=[[0, 1], [2, 0]], "
                                       "values=[5.0, 6.0], dense_shape=[3, 2])")

    def test_becomes_dense(self):
        sparse = SparseTensor([[2, 0], [0, 1]], np.array([6, 5]), [3, 2])
        self.assertEqual(sparse.to_dense().tolist(), [[0, 5], [0, 0], [6, 0]])
        self.assertEqual(sparse.to_dense(-1).tolist(), [[-1, 5], [-1, -1], [6, -1]])
        texts = SparseTensor([[1]], [b"a"], [2])
        self.assertEqual(texts.dtype, bytes)
        self.assertEqual(texts.to_dense().tolist(), [b"", b"a"])
        self.assertEqual(SparseTensor([], [], [2, 2]).to_dense().tolist(), [[0, 0], [0, 0]])
        with self.assertRaisesRegex(tutti.errors.InvalidArgumentError, "comes twice"):
            SparseTensor([[1], [1]], [1, 2], [2]).to_dense()

    def test_has_rows(self):
        rows = SparseTensor([[2, 1], [0, 0], [2, 0]], [5, 6, 7], [3, 2]).rows()
        self.assertEqual([row.to_dense().tolist() for row in rows], [[6, 0], [0, 0], [7, 5]])
        with self.assertRaises(tutti.errors.ResourceExhaustedError):
            SparseTensor([], [], [1 << 40]).rows()

    def test_refuses_parts_that_do_not_fit(self):
        for indices, values, dense_shape, message in (
                ([[0, 2]], [1], [3, 2], r"index 0 is \[0,2\], outside dense_shape \[3,2\]"),
                ([[0, -1]], [1], [3, 2], "outside"),
                ([[0, 1]], [1, 2], [3, 2], "as many as there are indices"),
                ([[0]], [1], [3, 2], "dense_shape must be"),
                ([0], [1], [3], "indices must be"),
                ([[0]], [1], [-3], "sizes of 0 or more")):
            with self.assertRaisesRegex(ValueError, message):
                SparseTensor(indices, values, dense_shape)
        with self.assertRaisesRegex(TypeError, "dense_shape must be integers, not float64"):
            SparseTensor([[0]], [1], [1.5])

    def test_batches_have_every_item(self):
        batches = copies_of_self(1, 4).dense_to_sparse_batch(2, [6])
        self.assertEqual(batches.element_spec, SparseTensorSpec([None, 6], np.int64))
        self.assertEqual(batches.cardinality(), 2)
        first, last = batches
        self.assertEqual(first.indices.tolist(), [[0, 0], [1, 0], [1, 1]])
        self.assertEqual(first.values.tolist(), [1, 2, 2])
        self.assertEqual(first.dense_shape.tolist(), [2, 6])
        self.assertEqual(last.shape, (1, 6))
        largest = copies_of_self(1, 4).apply(experimental.dense_to_sparse_batch(2, [None]))
        self.assertEqual([batch.shape for batch in largest], [(2, 2), (1, 3)])
        scalars, = Dataset.range(2).dense_to_sparse_batch(2, [])
        self.assertEqual(scalars.to_dense().tolist(), [0, 1])

    def test_batches_refuse_what_does_not_fit(self):
        iterator = iter(copies_of_self(1, 4).dense_to_sparse_batch(1, [2], name="mine"))
        self.assertEqual([next(iterator).shape, next(iterator).shape], [(1, 2), (1, 2)])
        with self.assertRaisesRegex(tutti.errors.InvalidArgumentError,
                                    r"mine.*shape \[3\], and row_shape is \[2\]"):
            next(iterator)
        with self.assertRaises(StopIteration):
            next(iterator)
        for batch_size, row_shape in ((0, [2]), (2, [2, 2]), (2, [-2]), (2, "x"), (2, [1.5])):
            with self.assertRaises(ValueError):
                copies_of_self(1, 4).dense_to_sparse_batch(batch_size, row_shape)

    def test_a_position_is_saved_in_the_middle(self):
        batches = copies_of_self(1, 6).dense_to_sparse_batch(2, [None])
        iterator = iter(batches)
        next(iterator)
        again = iter(batches)
        again.restore(iterator.save())
        self.assertEqual([batch.values.tolist() for batch in again],
                         [batch.values.tolist() for batch in iterator])


class RaggedTest(unittest.TestCase):
    def test_of_nested_lists(self):
        ragged = tutti.ragged.constant([[1, 2], [3]])
        self.assertEqual(ragged.to_list(), [[1, 2], [3]])
        self.assertEqual(repr(ragged), "<tutti.RaggedTensor [[1, 2], [3]]>")
        self.assertEqual((ragged.shape, ragged.dtype, ragged.ragged_rank), ((2, None), np.int32, 1))
        self.assertEqual(ragged.row_splits.tolist(), [0, 2, 3])
        self.assertEqual(ragged.row_lengths().tolist(), [2, 1])
        self.assertEqual(ragged.nrows(), 2)
        deep = tutti.ragged.constant([[[1], [2, 3]], []], dtype=np.float32)
        self.assertEqual(deep.to_list(), [[[1.0], [2.0, 3.0]], []])
        self.assertEqual(deep.ragged_rank, 2)
        self.assertEqual([splits.tolist() for splits in deep.nested_row_splits],
                         [[0, 2, 2], [0, 1, 3]])
        self.assertEqual(deep.flat_values.tolist(), [1, 2, 3])
        pairs = tutti.ragged.constant([[[1, 2]], [[3, 4], [5, 6]]], ragged_rank=1)
        self.assertEqual(pairs.shape, (2, None, 2))
        self.assertEqual(tutti.ragged.constant([[b"a"], []]).dtype, bytes)
        narrow = tutti.ragged.constant([[1], []], row_splits_dtype=np.int32)
        self.assertEqual(narrow.row_splits.dtype, np.int32)
        self.assertEqual(tutti.ragged.constant([[], []]).shape, (2, None))
        with self.assertRaisesRegex(ValueError, "not all as deep"):
            tutti.ragged.constant([[1], 2])
        with self.assertRaisesRegex(ValueError, "ragged_rank must be 1 or more"):
            tutti.ragged.constant([[1]], ragged_rank=0)
        with self.assertRaises(TypeError):
            tutti.ragged.constant(3)

    def test_of_parts(self):
        inner = RaggedTensor.from_row_splits([1, 2, 3], [0, 1, 3])
        outer = RaggedTensor.from_row_lengths(inner, [2, 0])
        self.assertEqual(outer.to_list(), [[[1], [2, 3]], []])
        for values, splits, message in (([1, 2], [0, 1], "end with the number of values, 2"),
                                        ([1, 2], [1, 2], "begin with 0"),
                                        ([1, 2], [0, 3, 2], "must not become smaller"),
                                        ([1, 2], [], "row_splits must be"),
                                        (3, [0], "rank 1 or more"),
                                        (inner, [0, 3], "number of values, 2")):
            with self.assertRaisesRegex(ValueError, message):
                RaggedTensor.from_row_splits(values, splits)
        with self.assertRaises(TypeError):
            RaggedTensor.from_row_splits([1], [0.0, 1.0])
        with self.assertRaisesRegex(TypeError, "from_row_splits"):
            RaggedTensor()

    def test_goes_by_rows(self):
        ragged = tutti.ragged.constant([[[1], [2, 3]], [], [[4]]])
        self.assertEqual(len(ragged), 3)
        self.assertEqual([row.to_list() for row in ragged], [[[1], [2, 3]], [], [[4]]])
        self.assertEqual(ragged[-1][0].tolist(), [4])
        with self.assertRaisesRegex(IndexError, "row 3 of a ragged tensor of 3 rows"):
            ragged[3]

    def test_becomes_a_tensor(self):
        ragged = tutti.ragged.constant([[1, 2], [], [3]])
        self.assertEqual(ragged.to_tensor().tolist(), [[1, 2], [0, 0], [3, 0]])
        self.assertEqual(ragged.to_tensor(-1).tolist(), [[1, 2], [-1, -1], [3, -1]])
        with self.assertRaises(ValueError):
            ragged.to_tensor(0.5)

    def test_is_an_element_as_the_page_has_it(self):
        ragged = tutti.ragged.constant([[1, 2], [3]])

        def generator():
            yield 42, ragged

        signature = (TensorSpec((), np.int32), RaggedTensorSpec(shape=(2, None), dtype=np.int32))
        dataset = Dataset.from_generator(generator, output_signature=signature)
        self.assertEqual(dataset.element_spec, signature)
        (number, element), = dataset.take(1)
        self.assertEqual((number, number.dtype), (42, np.int32))
        self.assertEqual(element.to_list(), [[1, 2], [3]])
        self.assertEqual(element.dtype, np.int32)
        wrong = Dataset.from_generator(
            lambda: iter([tutti.ragged.constant([[1], [2], [3]])]), output_signature=signature[1])
        with self.assertRaisesRegex(tutti.errors.InvalidArgumentError, "row_splits"):
            next(iter(wrong))

    def test_goes_through_functions(self):
        ragged = tutti.ragged.constant([[1, 2], [3]])
        mapped = Dataset.from_tensors((ragged, 1)).map(lambda r, x: {"sum": sum(r.flat_values),
                                                                     "rows": r, "x": x})
        element, = mapped
        self.assertEqual((element["sum"], element["rows"].to_list()), (6, [[1, 2], [3]]))
        grown = Dataset.range(1, 3).map(
            lambda n: RaggedTensor.from_row_lengths(np.arange(n), [n]))
        self.assertEqual([r.to_list() for r in grown], [[[0]], [[0, 1]]])


class ElementsTest(unittest.TestCase):
    def test_rows_are_elements(self):
        ragged = tutti.ragged.constant([[1, 2], [], [3]])
        sparse = SparseTensor([[0, 1], [2, 0]], [5.0, 6.0], [3, 2])
        slices = Dataset.from_tensor_slices({"r": ragged, "s": sparse, "n": [7, 8, 9]})
        self.assertEqual(slices.cardinality(), 3)
        self.assertEqual([row["r"].tolist() for row in slices], [[1, 2], [], [3]])
        self.assertEqual([row["s"].to_dense().tolist() for row in slices],
                         [[0, 5], [0, 0], [6, 0]])
        self.assertEqual(slices.element_spec,
                         {"r": TensorSpec((None,), np.int32), "s": SparseTensorSpec([2]),
                          "n": TensorSpec((), np.int32)})
        with self.assertRaisesRegex(ValueError, "same size along axis 0"):
            Dataset.from_tensor_slices((ragged, [1, 2]))

    def test_are_stacked_and_taken_apart(self):
        ragged = tutti.ragged.constant([[[1], [2, 3]], [], [[4]]])
        batches = Dataset.from_tensor_slices(ragged).batch(2)
        self.assertEqual([batch.to_list() for batch in batches], [[[[1], [2, 3]], []], [[[4]]]])
        self.assertEqual(batches.element_spec,
                         RaggedTensorSpec([None, None, None], np.int32, ragged_rank=2))
        self.assertEqual([row.to_list() for row in batches.unbatch()],
                         [[[1], [2, 3]], [], [[4]]])
        sparse = SparseTensor([[0, 1], [2, 0]], [5.0, 6.0], [3, 2])
        batch, = Dataset.from_tensor_slices(sparse).batch(3)
        self.assertEqual(batch.to_dense().tolist(), sparse.to_dense().tolist())

    def test_are_refused_where_they_would_be_taken_apart(self):
        dataset = Dataset.from_tensors((1, tutti.ragged.constant([[1, 2], [3]])))
        for refused in (lambda: dataset.window(2), lambda: dataset.padded_batch(2),
                        lambda: dataset.unique()):
            with self.assertRaises(tutti.errors.InvalidArgumentError):
                refused()
        with self.assertRaisesRegex(ValueError, r"ragged tensors are not taken.*\[1\]"):
            dataset.window(2)
        with tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"]) as strategy:
            with self.assertRaisesRegex(ValueError, "sparse tensors are not taken"):
                strategy.distribute_dataset(Dataset.range(4).dense_to_sparse_batch(2, []))

    def test_are_results_of_replicas(self):
        ragged = tutti.ragged.constant([[1, 2], [3]])
        with tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"]) as strategy:
            result = strategy.run(lambda given: given, args=(ragged,))
            self.assertIn("PerReplica:{0: [1 2 3]", repr(result))
            self.assertEqual([part.to_list() for part in strategy.local_results(result)],
                             [[[1, 2], [3]]] * 2)

    def test_are_kept_and_passed_on(self):
        ragged = tutti.ragged.constant([[[1], [2, 3]], [], [[4]], [[5, 6]]])
        sparse = SparseTensor([[0, 1], [2, 0], [3, 1]], [5.0, 6.0, 7.0], [4, 2])
        slices = Dataset.from_tensor_slices((ragged, sparse))

        def shown(dataset):
            return [(r.to_list(), s.to_dense().tolist()) for r, s in dataset]

        wanted = shown(slices)
        self.assertEqual(wanted[2], ([[4]], [6.0, 0.0]))
        with tempfile.TemporaryDirectory() as folder:
            cached = slices.cache(os.path.join(folder, "cache"))
            snapshot = slices.snapshot(os.path.join(folder, "snapshot"))
            for kept in (cached, cached, snapshot, snapshot, slices.prefetch(2),
                         slices.interleave(lambda r, s: Dataset.from_tensors((r, s)))):
                self.assertEqual(shown(kept), wanted)
        self.assertEqual(shown(slices.concatenate(slices)), wanted + wanted)
        shuffled = slices.shuffle(3, seed=2)
        iterator = iter(shuffled)
        next(iterator)
        again = iter(shuffled)
        again.restore(iterator.save())
        self.assertEqual(shown(again), shown(iterator))

    def test_are_pickled(self):
        sparse = pickle.loads(pickle.dumps(SparseTensor([[1]], [5], [2])))
        self.assertEqual(sparse.to_dense().tolist(), [0, 5])
        ragged = pickle.loads(pickle.dumps(tutti.ragged.constant([[1, 2], [3]])))
        self.assertEqual(ragged.to_list(), [[1, 2], [3]])
        for spec in (SparseTensorSpec([None, 2], bytes), RaggedTensorSpec([None, None], np.int8)):
            self.assertEqual(pickle.loads(pickle.dumps(spec)), spec)


class SpecTest(unittest.TestCase):
    def test_describe_values(self):
        ragged = tutti.ragged.constant([[1, 2], [3]])
        spec = RaggedTensorSpec.from_value(ragged)
        self.assertEqual(spec, RaggedTensorSpec([2, None], np.int32))
        self.assertEqual((spec.ragged_rank, spec.row_splits_dtype), (1, np.int64))
        self.assertEqual(repr(spec), "RaggedTensorSpec(shape=(2, None), dtype=int32, "
                                     "ragged_rank=1, row_splits_dtype=int64)")
        self.assertTrue(RaggedTensorSpec([None, None], np.int32).is_compatible_with(ragged))
        self.assertTrue(RaggedTensorSpec(None, np.int32, 1).is_compatible_with(spec))
        for other in (RaggedTensorSpec([3, None], np.int32), RaggedTensorSpec([2, None], np.int64),
                      RaggedTensorSpec([2, None], np.int32, row_splits_dtype=np.int32),
                      RaggedTensorSpec([2, None, None], np.int32), SparseTensorSpec([2, None])):
            self.assertFalse(other.is_compatible_with(ragged), other)
            self.assertNotEqual(other, spec)
        sparse = SparseTensor([[0, 1]], [5.0], [3, 2])
        self.assertEqual(SparseTensorSpec.from_value(sparse), SparseTensorSpec([3, 2]))
        self.assertEqual(repr(SparseTensorSpec([None, 2])),
                         "SparseTensorSpec(shape=(None, 2), dtype=float32)")
        self.assertTrue(SparseTensorSpec().is_compatible_with(sparse))
        self.assertFalse(SparseTensorSpec([3, 3]).is_compatible_with(sparse))
        self.assertFalse(SparseTensorSpec([3, 2]).is_compatible_with(np.zeros((3, 2), np.float32)))
        with self.assertRaises(TypeError):
            SparseTensorSpec.from_value(ragged)

    def test_have_a_most_specific_one_in_common(self):
        both = SparseTensorSpec([3, 2]).most_specific_compatible_type(SparseTensorSpec([3, 4]))
        self.assertEqual(both, SparseTensorSpec([3, None]))
        both = RaggedTensorSpec([3, None]).most_specific_compatible_type(
            RaggedTensorSpec([4, None]))
        self.assertEqual(both, RaggedTensorSpec([None, None]))
        with self.assertRaisesRegex(ValueError, "no spec fits both"):
            SparseTensorSpec([3]).most_specific_compatible_type(SparseTensorSpec([3], np.int64))
        with self.assertRaises(ValueError):
            RaggedTensorSpec([3, None]).most_specific_compatible_type(SparseTensorSpec([3, None]))

    def test_refuse_shapes_that_cannot_be(self):
        for shape, rank in (([None], None), ([None, None], 0), ([None, None], 2), (None, None)):
            with self.assertRaises(ValueError):
                RaggedTensorSpec(shape, np.int32, rank)
        with self.assertRaises(ValueError):
            RaggedTensorSpec([None, None], np.int32, row_splits_dtype=np.float32)


if __name__ == "__main__":
    unittest.main()
