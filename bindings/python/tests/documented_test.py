"""What the documentation of tf.data and tf.distribute shows and promises, as far as no other test
here tries it."""

import unittest

import numpy as np

import tutti
from tutti.data import Dataset, TensorSpec


def two_replicas():
    return tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


class DatasetTest(unittest.TestCase):
    def test_a_numpy_iterator_gives_arrays_and_numbers_in_their_structure(self):
        dataset = Dataset.from_tensor_slices({"a": ([1, 2], [3, 4]), "b": [5, 6]})
        self.assertEqual(list(dataset.as_numpy_iterator()),
                         [{"a": (1, 3), "b": 5}, {"a": (2, 4), "b": 6}])
        row, = Dataset.from_tensors([1, 2, 3]).as_numpy_iterator()
        self.assertIsInstance(row, np.ndarray)

    def test_an_iterator_tells_the_spec_of_its_elements(self):
        spec = TensorSpec((2,), np.int64)
        self.assertEqual(iter(Dataset.range(4).batch(2, drop_remainder=True)).element_spec, spec)


class GuideTest(unittest.TestCase):
    """The guide to distributed input."""

    def test_outputs_are_put_in_order_by_an_index(self):
        strategy = two_replicas()
        dataset = Dataset.range(24).enumerate().batch(6)
        result = {}
        for index, inputs in strategy.experimental_distribute_dataset(dataset):
            indices, outputs = strategy.run(lambda i, x: (i, 2 * x), args=(index, inputs))
            for some, values in zip(strategy.experimental_local_results(indices),
                                    strategy.experimental_local_results(outputs)):
                result.update(zip(some.tolist(), values.tolist()))
        self.assertEqual(result, {i: 2 * i for i in range(24)})

    def test_values_are_made_of_raw_tensors(self):
        strategy = two_replicas()
        values = strategy.experimental_distribute_values_from_function(
            lambda context: np.float32(context.replica_id_in_sync_group + 1))
        for _ in range(4):
            result = strategy.run(lambda x: x, args=(values,))
            self.assertEqual(strategy.experimental_local_results(result), (1.0, 2.0))


if __name__ == "__main__":
    unittest.main()
