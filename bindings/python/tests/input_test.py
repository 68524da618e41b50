"""Input pipelines of strategies: replication modes, specs of steps, numbers as elements, arrays."""

import collections
import concurrent.futures
import pickle
import unittest

import numpy as np

import tutti
from tutti import distribute, errors
from tutti.data import Dataset

PER_REPLICA = distribute.InputReplicationMode.PER_REPLICA


def two_replicas():
    return distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def lists(step):
    return [value.tolist() for value in step.values]


class PerReplicaInputTest(unittest.TestCase):
    def setUp(self):
        self.strategy = two_replicas()
        self.options = distribute.InputOptions(experimental_replication_mode=PER_REPLICA)

    def pipelines(self, options=None):
        """Replica 0 has 0 to 4, replica 1 has 10 to 12, in batches of two."""
        def make(context):
            self.told.append((context.num_input_pipelines, context.input_pipeline_id,
                              context.num_replicas_in_sync))
            start = 10 * context.input_pipeline_id
            return Dataset.range(start, start + 5 - 2 * context.input_pipeline_id).batch(2)

        self.told = []
        return self.strategy.distribute_datasets_from_function(make, options or self.options)

    def test_every_replica_has_a_pipeline_of_its_own(self):
        dataset = self.pipelines()
        self.assertEqual(self.told, [(2, 0, 2), (2, 1, 2)])
        self.assertEqual(dataset.cardinality(), 3)
        self.assertEqual([lists(step) for step in dataset],
                         [[[0, 1], [10, 11]], [[2, 3], [12]], [[4], []]])

    def test_a_dataset_on_its_device_gives_the_same(self):
        dataset = self.pipelines(distribute.InputOptions(
            experimental_prefetch_to_device=False, experimental_replication_mode=PER_REPLICA,
            experimental_place_dataset_on_device=True))
        self.assertEqual([lists(step) for step in dataset],
                         [[[0, 1], [10, 11]], [[2, 3], [12]], [[4], []]])

    def test_all_pipelines_are_saved_and_restored(self):
        dataset = self.pipelines()
        steps = iter(dataset)
        next(steps)
        state = steps.save()
        rest = [lists(step) for step in steps]
        again = iter(dataset)
        again.restore(state)
        self.assertEqual([lists(step) for step in again], rest)
        with self.assertRaisesRegex(ValueError, "one of 2 input pipelines, .* has 1"):
            iter(self.strategy.distribute_dataset(Dataset.range(4).batch(2))).restore(state)

    def test_an_exception_of_a_later_pipeline_comes_out(self):
        def make(context):
            if context.input_pipeline_id == 1:
                raise KeyError("no such file")
            return Dataset.range(4).batch(2)

        with self.assertRaisesRegex(KeyError, "no such file"):
            self.strategy.distribute_datasets_from_function(make, self.options)

    def test_what_is_documented_as_refused_is(self):
        dataset = Dataset.range(4).batch(2)
        one = distribute.OneDeviceStrategy("CPU:0")
        with self.assertRaisesRegex(NotImplementedError, "from_function of a MirroredStrategy"):
            self.strategy.experimental_distribute_dataset(dataset, self.options)
        with self.assertRaisesRegex(errors.UnimplementedError, "OneDeviceStrategy"):
            one.distribute_datasets_from_function(lambda _: dataset, self.options)
        placed = distribute.InputOptions(experimental_place_dataset_on_device=True)
        both = distribute.InputOptions(experimental_replication_mode=PER_REPLICA,
                                       experimental_place_dataset_on_device=True)
        for options, text in (placed, "needs the replication mode PER_REPLICA"), (
                both, "set prefetch_to_device to false"):
            with self.assertRaisesRegex(ValueError, text):
                self.strategy.distribute_datasets_from_function(lambda _: dataset, options)


class StepSpecTest(unittest.TestCase):
    def test_the_documented_example(self):
        # The page's, with arrays that have its dtypes.
        dataset = Dataset.from_tensors((np.float32([1.0]), np.int32([2]))).repeat(100).batch(16)
        steps = iter(two_replicas().experimental_distribute_dataset(dataset))
        floats = tutti.TensorSpec((None, 1), np.float32)
        ints = tutti.TensorSpec((None, 1), np.int32)
        self.assertEqual(steps.element_spec, (distribute.PerReplicaSpec(floats, floats),
                                              distribute.PerReplicaSpec(ints, ints)))
        self.assertEqual(repr(steps.element_spec[0]), f"PerReplicaSpec({floats!r}, {floats!r})")
        self.assertEqual(steps.get_next_as_optional().element_spec, steps.element_spec)
        self.assertTrue(steps.element_spec[0].is_compatible_with(next(steps)[0]))

    def test_one_replica_has_plain_ones(self):
        dataset = distribute.OneDeviceStrategy("CPU:0").distribute_dataset(
            Dataset.range(8).batch(4, drop_remainder=True))
        self.assertEqual(dataset.element_spec, tutti.TensorSpec((4,), np.int64))

    def test_a_spec_of_replicas_is_a_spec(self):
        spec = tutti.TensorSpec((2,), np.int64)
        both = distribute.PerReplicaSpec(spec, tutti.TensorSpec((3,), np.int64))
        self.assertEqual(both, distribute.PerReplicaSpec(*both.value_specs))
        self.assertEqual(hash(both), hash(distribute.PerReplicaSpec(*both.value_specs)))
        self.assertNotEqual(both, distribute.PerReplicaSpec(spec, spec))
        self.assertNotEqual(both, spec)
        self.assertEqual(pickle.loads(pickle.dumps(both)), both)
        self.assertIs(both.value_type, distribute.DistributedValues)
        self.assertEqual(both.most_specific_compatible_type(distribute.PerReplicaSpec(spec, spec)),
                         distribute.PerReplicaSpec(spec, tutti.TensorSpec((None,), np.int64)))
        values = two_replicas().per_replica([np.arange(2), np.arange(3)])
        self.assertEqual(distribute.PerReplicaSpec.from_value(values), both)
        with self.assertRaisesRegex(ValueError, "component for each replica, not none"):
            spec.is_compatible_with(distribute.PerReplicaSpec())
        with self.assertRaisesRegex(ValueError, "one leaf that is not distributed"):
            spec.is_compatible_with(distribute.PerReplicaSpec((spec, spec)))
        with self.assertRaisesRegex(TypeError, "a distributed value is needed"):
            distribute.PerReplicaSpec.from_value(1)

    def test_composites_have_one_for_each_replica(self):
        sparse = tutti.SparseTensor([[0]], [1.0], [3])
        dataset = two_replicas().distribute_datasets_from_function(
            lambda _: Dataset.from_tensors(sparse).repeat(2))
        own = Dataset.from_tensors(sparse).element_spec
        self.assertEqual(dataset.element_spec, distribute.PerReplicaSpec(own, own))


class NumbersTest(unittest.TestCase):
    def test_the_last_uneven_step_of_numbers_is_filled_up_with_zeros(self):
        strategy = two_replicas()
        dataset = strategy.distribute_datasets_from_function(
            lambda _: Dataset.from_tensor_slices({"x": [1, 2, 3], "name": [b"a", b"b", b"c"]}))
        steps = [(lists(step["x"]), [str(name) for name in step["name"].values])
                 for step in dataset]
        self.assertEqual(steps, [([1, 2], ["b'a'", "b'b'"]), ([3, 0], ["b'c'", "b''"])])

        def mean_of_the_step(x):
            context = distribute.get_replica_context()
            return context.all_reduce("sum", x / context.global_rows)

        means = [strategy.local_results(strategy.run(mean_of_the_step, args=(step["x"],)))
                 for step in dataset]
        self.assertEqual([[float(mean) for mean in step] for step in means],
                         [[1.5, 1.5], [3.0, 3.0]])


class NumpyDatasetTest(unittest.TestCase):
    def setUp(self):
        self.strategy = two_replicas()

    def elements(self, arrays):
        return list(self.strategy.experimental_make_numpy_dataset(arrays))

    def test_the_documented_example(self):
        numpy_input = np.ones([10], dtype=np.float32)
        dataset = self.strategy.experimental_make_numpy_dataset(numpy_input)
        self.assertEqual(dataset.element_spec, tutti.TensorSpec((), np.float32))
        self.assertEqual(list(dataset), [1.0] * 10)
        steps = list(self.strategy.experimental_distribute_dataset(dataset.batch(4)))
        self.assertEqual([lists(step) for step in steps], [[[1, 1], [1, 1]]] * 2 + [[[1], [1]]])

    def test_structures_of_arrays(self):
        x, y = np.arange(4.0).reshape(2, 2), np.array([5, 6])
        self.assertEqual([(a.tolist(), int(b)) for a, b in self.elements((x, y))],
                         [([0.0, 1.0], 5), ([2.0, 3.0], 6)])
        Pair = collections.namedtuple("Pair", "x y")
        self.assertEqual([(int(pair.y), pair.x.tolist()) for pair in self.elements(Pair(x, y))],
                         [(5, [0.0, 1.0]), (6, [2.0, 3.0])])
        self.assertEqual([int(element["y"]) for element in self.elements({"y": y})], [5, 6])

    def test_lists_of_arrays_are_stacked(self):
        rows = self.elements([np.arange(3), np.arange(3, 6)])
        self.assertEqual([row.tolist() for row in rows], [[0, 1, 2], [3, 4, 5]])

    def test_bad_input(self):
        with self.assertRaisesRegex(TypeError, "arrays are needed, not None"):
            self.strategy.experimental_make_numpy_dataset(None)
        with self.assertRaises(ValueError):
            self.strategy.experimental_make_numpy_dataset((np.ones(3), np.ones(4)))
        with self.assertRaises(ValueError):
            self.strategy.experimental_make_numpy_dataset(np.float32(1))

    def test_nothing_is_copied_on_the_way_to_the_replicas(self):
        rows = np.arange(6 * 1024, dtype=np.float32).reshape(6, 1024)
        steps = iter(self.strategy.distribute_dataset(Dataset.from_tensors(rows)))
        address = rows.__array_interface__["data"][0]
        self.assertEqual([part.__array_interface__["data"][0] for part in next(steps).values],
                         [address, address + 3 * 1024 * 4])


class JointPositionTest(unittest.TestCase):
    """Workers that go on where another number of them has stopped."""

    def run_workers(self, count, state, steps):
        """The elements of so many steps (None: all) of each worker, and the joint position."""
        def work(rank):
            strategy = distribute.MultiWorkerMirroredStrategy.over(rank, name="ranks", timeout=60)
            self.assertEqual(strategy.num_replicas_in_sync, count)
            iterator = iter(strategy.distribute_datasets_from_function(
                lambda context: Dataset.range(24).shard(
                    context.num_input_pipelines, context.input_pipeline_id).shuffle(4).batch(2)))
            if state is not None:
                iterator.restore(state, timeout=60)
            mine = []
            for step in iterator if steps is None else (next(iterator) for _ in range(steps)):
                mine += np.asarray(step).tolist()
            joint = iterator.save_joint(timeout=60)
            iterator.close()
            strategy.close()
            return mine, joint

        ranks = tutti.Communicator.create_local(count)
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            answers = list(pool.map(work, ranks))
        for rank in ranks:
            rank.close()
        self.assertEqual({joint for _, joint in answers}, {answers[0][1]})
        return [number for mine, _ in answers for number in mine], answers[0][1]

    def test_any_number_of_workers_goes_on(self):
        first, state = self.run_workers(3, None, 1)
        second, state = self.run_workers(1, state, 2)
        third, _ = self.run_workers(4, state, None)
        self.assertEqual((len(first), len(second)), (6, 4))
        self.assertEqual(sorted(first + second + third), list(range(24)))

    def test_what_cannot_promise_it_says_so(self):
        strategy = distribute.OneDeviceStrategy("CPU:0")
        numbers = Dataset.from_generator(lambda: iter([[1], [2]]),
                                         output_signature=tutti.TensorSpec([1], np.int64))
        iterator = iter(strategy.distribute_dataset(numbers))
        with self.assertRaisesRegex(errors.FailedPreconditionError, "from_generator"):
            iterator.save_joint()
        self.assertEqual(next(iterator).tolist(), [1])

    def test_a_strategy_needs_a_communicator(self):
        with self.assertRaisesRegex(TypeError, "communicator"):
            distribute.MultiWorkerMirroredStrategy.over("ranks")


if __name__ == "__main__":
    unittest.main()
