"""Examples of the pages of tf.distribute, as far as no other test here runs them: as they stand
but for the import, GPU:n read as CPU:n, NumPy's arithmetic, and what a step of the page leaves to
Keras."""

import json
import os
import tempfile
import types
import unittest
from unittest import mock

import numpy as np

import tutti
from tutti import distribute
from tutti.data import Dataset, TFRecordDataset, TFRecordWriter
from tutti.distribute import cluster_resolver as resolvers


def two_replicas():
    return distribute.MirroredStrategy(["CPU:0", "CPU:1"])


class DistributedDatasetTest(unittest.TestCase):
    def setUp(self):
        self.strategy = two_replicas()

    def distributed(self, dataset):
        return self.strategy.experimental_distribute_dataset(dataset)

    def test_a_loop_over_it(self):
        dist_dataset = self.distributed(Dataset.from_tensors(([1.], [1.])).repeat(4).batch(4))

        def train_step(input):
            features, labels = input
            return labels - 0.3 * features

        losses = [self.strategy.run(train_step, args=(x,)) for x in dist_dataset]
        self.assertEqual([repr(loss) for loss in losses],
                         ["PerReplica:{0: [[0.7] [0.7]], 1: [[0.7] [0.7]]}"])
        self.assertEqual([part.dtype for part in losses[0].values], [np.float32] * 2)

    def test_epochs_with_an_iterator_of_their_own(self):
        train_dist_dataset = self.distributed(
            Dataset.from_tensors(([1.], [1.])).repeat(50).batch(4))

        def distributed_train_step(dataset_inputs, constant):
            per_replica_losses = self.strategy.run(lambda _: constant(0.1), args=(dataset_inputs,))
            return self.strategy.reduce(distribute.ReduceOp.SUM, per_replica_losses, axis=None)

        for constant in (np.float32, tutti.Tensor):
            told = []
            for epoch in range(2):
                total_loss = 0.0
                num_batches = 0
                dist_dataset_iterator = iter(train_dist_dataset)
                for _ in range(3):
                    total_loss += distributed_train_step(next(dist_dataset_iterator), constant)
                    num_batches += 1
                told.append("Epoch {}, Loss: {:.4f}".format(epoch + 1, total_loss / num_batches))
            self.assertEqual(told, ["Epoch 1, Loss: 0.2000", "Epoch 2, Loss: 0.2000"])

    def test_steps_of_the_inspected_type(self):
        dist_dataset = self.distributed(Dataset.from_tensors(([2.])).repeat(100).batch(4))
        spec = tutti.TensorSpec((None, 1), np.float32)
        self.assertEqual(dist_dataset.element_spec, distribute.PerReplicaSpec(spec, spec))
        output = self.strategy.run(np.square, args=(next(iter(dist_dataset)),))
        self.assertEqual(repr(output), "PerReplica:{0: [[4] [4]], 1: [[4] [4]]}")

    def test_the_dtypes_of_lists_of_numbers(self):
        dist_dataset = self.distributed(Dataset.from_tensors(([1.], [2])).repeat(100).batch(16))
        floats, ints = (tutti.TensorSpec((None, 1), dtype) for dtype in (np.float32, np.int32))
        expected = (distribute.PerReplicaSpec(floats, floats),
                    distribute.PerReplicaSpec(ints, ints))
        self.assertEqual(dist_dataset.element_spec, expected)
        self.assertEqual(iter(dist_dataset).element_spec, expected)

    def test_an_iterator_without_an_end(self):
        dataset = Dataset.from_tensor_slices([1, 2, 3, 4]).repeat().batch(4)
        distributed_iterator = iter(self.distributed(dataset))
        self.assertIsInstance(distributed_iterator, distribute.DistributedIterator)
        for _ in range(3):
            step = next(distributed_iterator)
            self.assertEqual(repr(step), "PerReplica:{0: [1 2], 1: [3 4]}")
            self.assertEqual([part.dtype for part in step.values], [np.int32] * 2)

    def test_get_next(self):
        dist_dataset_iterator = iter(self.distributed(Dataset.range(100).batch(2)))
        for _ in range(5):
            self.strategy.run(lambda input: input, args=(dist_dataset_iterator.get_next(),))
        local = self.strategy.experimental_local_results(dist_dataset_iterator.get_next())
        self.assertEqual([(part.dtype, part.tolist()) for part in local],
                         [(np.int64, [10]), (np.int64, [11])])

    def test_get_next_as_optional(self):
        def train_fn(distributed_iterator, steps_per_loop):
            told = []
            for _ in range(steps_per_loop):
                optional_data = distributed_iterator.get_next_as_optional()
                if not optional_data.has_value():
                    break
                results = self.strategy.run(lambda x: x, args=(optional_data.get_value(),))
                told.append([part.tolist() for part in
                             self.strategy.experimental_local_results(results)])
            return told

        # The page's own; the one whose output the page prints; the guide's, whose loop breaks.
        for size, global_batch_size, steps, expected in (
                (10, 2, 2, [[[0], [1]], [[2], [3]]]),
                (5, 4, 2, [[[0, 1], [2, 3]], [[4], []]]),
                (9, 4, 5, [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8], []]])):
            dataset = Dataset.range(size).batch(global_batch_size)
            self.assertEqual(train_fn(iter(self.distributed(dataset)), steps), expected)


class StrategyTest(unittest.TestCase):
    def test_results_of_a_distributed_dataset(self):
        strategy = distribute.MirroredStrategy(devices=["CPU:0", "CPU:1"])
        dist_dataset = strategy.experimental_distribute_dataset(Dataset.range(4).batch(2))
        result = []
        for x in dist_dataset:
            result.append(strategy.run(lambda input: input * 2, args=(x,)))
        self.assertEqual(repr(result), "[PerReplica:{0: [0], 1: [2]}, PerReplica:{0: [4], 1: [6]}]")

    def test_a_dataset_of_files(self):
        strategy = two_replicas()
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, f"{i}.tfr") for i in (1, 2, 3, 4)]
            for path in paths:
                with TFRecordWriter(path) as writer:
                    writer.write(os.path.basename(path).encode())
            dist_dataset = strategy.experimental_distribute_dataset(TFRecordDataset(paths).batch(4))
            spec = tutti.TensorSpec((None,), bytes)
            self.assertEqual(dist_dataset.element_spec, distribute.PerReplicaSpec(spec, spec))
            seen = [[part.tolist() for part in strategy.experimental_local_results(
                strategy.run(lambda input: input, args=(x,)))] for x in dist_dataset]
        self.assertEqual(seen, [[[b"1.tfr", b"2.tfr"], [b"3.tfr", b"4.tfr"]]])

    def test_a_variable_of_the_scope_and_one_of_no_scope(self):
        with two_replicas().scope():
            mirrored_variable = tutti.Variable(1.)
        regular_variable = tutti.Variable(1.)
        self.assertEqual(repr(mirrored_variable),
                         "MirroredVariable:{0: <Variable 'Variable' float32[] 1>, "
                         "1: <Variable 'Variable/replica_1' float32[] 1>}")
        self.assertEqual(repr(regular_variable), "<Variable 'Variable' float32[] 1>")

    def test_devices_in_small_letters(self):
        strategy = distribute.MirroredStrategy(["cpu:0", "cpu:1"])

        def run():
            def value_fn(value_context):
                return np.int32(value_context.replica_id_in_sync_group)
            distributed_values = strategy.experimental_distribute_values_from_function(value_fn)

            def replica_fn(input):
                return distribute.get_replica_context().all_reduce("sum", input)
            return strategy.run(replica_fn, args=(distributed_values,))

        self.assertEqual(repr(run()), "PerReplica:{0: 1, 1: 1}")
        self.assertEqual(distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]).num_replicas_in_sync, 2)

    def test_what_axis_should_be(self):
        strategy = two_replicas()
        batches = list(strategy.experimental_distribute_dataset(Dataset.range(14).batch(8)))
        self.assertEqual([[part.tolist() for part in batch.values] for batch in batches],
                         [[[0, 1, 2, 3], [4, 5, 6, 7]], [[8, 9, 10], [11, 12, 13]]])
        self.assertEqual(strategy.reduce("sum", batches[0], axis=None).tolist(), [4, 6, 8, 10])
        self.assertEqual(strategy.reduce("sum", batches[0], axis=0), 28)
        uneven = strategy.per_replica([np.float64([0, 1, 2, 3]), np.float64([4, 5])])
        self.assertEqual(strategy.reduce(distribute.ReduceOp.MEAN, uneven, axis=0), 15 / 6)
        with self.assertRaisesRegex(ValueError, "shape"):
            strategy.reduce("sum", uneven, axis=None)

    def test_central_storage(self):
        # Both names are those of its page's examples.
        strategy = distribute.experimental.CentralStorageStrategy()
        seen = [strategy.run(lambda val: val + 1, args=(x,)).tolist()
                for x in strategy.experimental_distribute_dataset(Dataset.range(5).batch(2))]
        self.assertEqual(seen, [[1, 2], [3, 4], [5]])
        strategy = distribute.CentralStorageStrategy()
        dist_dataset = strategy.experimental_distribute_dataset(Dataset.range(10).batch(2))
        self.assertEqual([str(x) for x in dist_dataset],
                         ["[0 1]", "[2 3]", "[4 5]", "[6 7]", "[8 9]"])

    def test_several_workers_with_their_own_loop(self):
        strategy = distribute.MultiWorkerMirroredStrategy()
        seen = []

        def dataset_fn(_):
            x = np.random.random((2, 5)).astype(np.float32)
            y = np.random.randint(2, size=(2, 1))
            return Dataset.from_tensor_slices((x, y)).repeat().batch(1, drop_remainder=True)

        def train_step(iterator):
            def step_fn(inputs):
                features, labels = inputs
                seen.append((features.shape, features.dtype, labels.shape))
            strategy.run(step_fn, args=(next(iterator),))

        iterator = iter(strategy.distribute_datasets_from_function(dataset_fn))
        for _ in range(3):
            train_step(iterator)
        self.assertEqual(seen, [((1, 5), np.float32, (1, 1))] * 3)


class ContextsTest(unittest.TestCase):
    def test_in_cross_replica_context_and_has_strategy(self):
        strategy = two_replicas()
        seen = []
        self.assertFalse(distribute.has_strategy() or distribute.in_cross_replica_context())
        with strategy.scope():
            self.assertTrue(distribute.has_strategy() and distribute.in_cross_replica_context())
            self.assertIs(distribute.get_strategy(), strategy)

            def f():
                seen.append(distribute.in_cross_replica_context())
            strategy.run(f)
        self.assertEqual(seen, [False, False])

    def test_one_strategy_after_the_other(self):
        strategy1, strategy2 = two_replicas(), distribute.OneDeviceStrategy("CPU:0")
        self.addCleanup(distribute.experimental_set_strategy, None)
        default = distribute.get_strategy()
        distribute.experimental_set_strategy(strategy1)
        f = distribute.get_strategy()
        distribute.experimental_set_strategy(strategy2)
        g = distribute.get_strategy()
        distribute.experimental_set_strategy(None)
        h = distribute.get_strategy()
        self.assertEqual([f, g, h], [strategy1, strategy2, default])

    def test_a_value_context_is_made_directly(self):
        def value_fn(context):
            return context.replica_id_in_sync_group / context.num_replicas_in_sync

        context = distribute.experimental.ValueContext(
            replica_id_in_sync_group=2, num_replicas_in_sync=4)
        self.assertEqual(value_fn(context), 0.5)


class OptionsTest(unittest.TestCase):
    def test_collective_hints(self):
        with self.assertWarns(DeprecationWarning):
            hints = distribute.experimental.CollectiveHints(bytes_per_pack=50 * 1024 * 1024)
            patient = distribute.experimental.CollectiveHints(timeout_seconds=120)
        strategy = two_replicas()

        def step():
            grads = [np.float32([1, 2]), np.float32(3)]
            return distribute.get_replica_context().all_reduce(
                "sum", grads, experimental_hints=hints)

        self.assertEqual(repr(strategy.run(step)),
                         "[PerReplica:{0: [2 4], 1: [2 4]}, PerReplica:{0: 6, 1: 6}]")
        strategy = distribute.MirroredStrategy()
        v = strategy.run(lambda: np.float32(1))
        try:
            total = strategy.reduce("sum", v, axis=None, experimental_hints=patient)
        except tutti.errors.DeadlineExceededError:
            total = None
        self.assertEqual(total, 1)

    def test_communication_options(self):
        options = distribute.experimental.CommunicationOptions(
            bytes_per_pack=50 * 1024 * 1024, timeout_seconds=120,
            implementation=distribute.experimental.CommunicationImplementation.NCCL)
        with tutti.Runtime() as runtime, runtime.as_default():
            runtime.set_log_sink(lambda level, line: None)  # of a build without NCCL
            grads = two_replicas().run(lambda: distribute.get_replica_context().all_reduce(
                "sum", [np.float32([1, 2])], options=options))
            runtime.set_log_sink(None)
        self.assertEqual(repr(grads), "[PerReplica:{0: [2 4], 1: [2 4]}]")

    def test_cross_device_ops(self):
        strategy = distribute.MirroredStrategy(
            cross_device_ops=distribute.HierarchicalCopyAllReduce())
        values = strategy.run(lambda: np.float32(2))
        self.assertEqual(strategy.reduce("sum", values, axis=None),
                         2 * strategy.num_replicas_in_sync)


class ResolverTest(unittest.TestCase):
    CLUSTER = tutti.train.ClusterSpec({
        "ps": ["localhost:2222", "localhost:2223"],
        "worker": ["localhost:2224", "localhost:2225", "localhost:2226"]})

    def tf_config(self, config):
        patch = mock.patch.dict(os.environ, {"TF_CONFIG": config})
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_task_is_told_by_its_type_and_number(self):
        for task_id, first in ((0, True), (1, False)):
            cluster_resolver = resolvers.SimpleClusterResolver(
                self.CLUSTER, task_type="worker", task_id=task_id)
            self.assertEqual(cluster_resolver.task_type == "worker"
                             and cluster_resolver.task_id == 0, first)
            self.assertNotEqual(cluster_resolver.task_type, "ps")

    def test_every_worker_has_one(self):
        cluster = tutti.train.ClusterSpec({"worker": ["worker0.example.com:2222",
                                                      "worker1.example.com:2222"]})
        for task_id in range(2):
            cluster_resolver = resolvers.SimpleClusterResolver(
                cluster, task_type="worker", task_id=task_id, num_accelerators={"GPU": 8},
                rpc_layer="grpc")
            self.assertEqual(cluster_resolver.cluster_spec(), cluster)
            self.assertEqual(cluster_resolver.num_accelerators(), {"GPU": 8})
            self.assertEqual(cluster_resolver.master("worker", task_id),
                             f"grpc://worker{task_id}.example.com:2222")

    def test_a_union_of_cluster_specs(self):
        cluster_0 = tutti.train.ClusterSpec({"worker": ["worker0.example.com:2222",
                                                        "worker1.example.com:2222"]})
        cluster_1 = tutti.train.ClusterSpec({"ps": ["ps0.example.com:2222",
                                                    "ps1.example.com:2222"]})
        cluster_resolver = resolvers.UnionResolver(
            resolvers.SimpleClusterResolver(cluster_0, task_type="worker", task_id=0,
                                            rpc_layer="grpc"),
            resolvers.SimpleClusterResolver(cluster_1, task_type="ps", task_id=0,
                                            rpc_layer="grpc"))
        self.assertEqual(cluster_resolver.task_type, "worker")
        self.assertEqual(cluster_resolver.cluster_spec().as_dict(),
                         {**cluster_0.as_dict(), **cluster_1.as_dict()})

    def test_accelerators_in_place_of_those_of_tf_config(self):
        self.tf_config(json.dumps({"cluster": {"worker": ["localhost:12345", "localhost:23456"]},
                                   "task": {"type": "worker", "index": 0}}))
        tf_config = resolvers.TFConfigClusterResolver()
        gpu_override = resolvers.SimpleClusterResolver(tf_config.cluster_spec(),
                                                       num_accelerators={"GPU": 1})
        cluster_resolver = resolvers.UnionResolver(gpu_override, tf_config)
        self.assertEqual(cluster_resolver.num_accelerators(), {"GPU": 1})
        # Lists of one job are joined, as the page says, also where they are the same.
        self.assertEqual(cluster_resolver.cluster_spec().as_dict(),
                         {"worker": ["localhost:12345", "localhost:23456"] * 2})

    def test_a_strategy_is_asked_for_its_task(self):
        # One worker, as the others of the page's cluster would be processes of their own.
        self.tf_config(json.dumps({
            "cluster": {"worker": ["localhost:12345"], "ps": ["localhost:34567"]},
            "task": {"type": "worker", "index": 0}}))
        for more in ({}, {"cluster_resolver": resolvers.TFConfigClusterResolver()}):
            strategy = distribute.experimental.MultiWorkerMirroredStrategy(**more)
            self.assertEqual(strategy.cluster_resolver.task_type, "worker")

    def test_one_program_for_tasks_of_all_types(self):
        self.tf_config("""
            {
              "cluster": {
                "chief": ["chief.example.com:2222"],
                "ps": ["ps0.example.com:2222", "ps1.example.com:2222"],
                "worker": ["worker0.example.com:2222", "worker1.example.com:2222",
                           "worker2.example.com:2222"]
              },
              "task": {
                "type": "ps",
                "index": 1
              }
            }
            """)
        cluster_resolver = resolvers.TFConfigClusterResolver()
        self.assertNotEqual(cluster_resolver.task_type, "chief")
        self.assertIn(cluster_resolver.task_type, ("worker", "ps"))
        self.assertEqual(cluster_resolver.task_id, 1)
        self.assertEqual(cluster_resolver.cluster_spec().num_tasks("worker"), 3)

    def test_a_strategy_of_pods(self):
        pod = types.SimpleNamespace(
            metadata=types.SimpleNamespace(name="worker-0"),
            status=types.SimpleNamespace(phase="Running", pod_ip="127.0.0.1", host_ip="127.0.0.1"))
        client = types.SimpleNamespace(
            list_pod_for_all_namespaces=lambda label_selector: types.SimpleNamespace(
                items=[pod] if label_selector == "job-name=worker-cluster-a" else []))
        cluster_resolver = resolvers.KubernetesClusterResolver(
            {"worker": ["job-name=worker-cluster-a", "job-name=worker-cluster-b"]},
            override_client=client)
        cluster_resolver.task_type = "worker"
        cluster_resolver.task_id = 0
        strategy = distribute.experimental.MultiWorkerMirroredStrategy(
            cluster_resolver=cluster_resolver)
        self.assertIs(strategy.cluster_resolver, cluster_resolver)
        self.assertEqual((strategy.worker, strategy.num_workers), (0, 1))

    def test_instances_are_given_without_a_port(self):
        cluster_resolver = resolvers.GCEClusterResolver(
            "my-project", "us-west1", "my-instance-group", task_type="worker", task_id=1)
        self.assertEqual((cluster_resolver.task_type, cluster_resolver.task_id), ("worker", 1))


class GuideTest(unittest.TestCase):
    """The guide to distributed input."""

    def test_a_plain_loop(self):
        dataset = Dataset.from_tensors(([1.], [1.])).repeat(100).batch(16)

        def train_step(inputs):
            features, labels = inputs
            return labels - 0.3 * features

        strategy = distribute.MirroredStrategy(["CPU:0"])
        dist_dataset = strategy.experimental_distribute_dataset(dataset)
        for losses in ([train_step(inputs) for inputs in dataset],
                       [strategy.run(train_step, args=(x,)) for x in dist_dataset]):
            self.assertEqual([loss.shape for loss in losses], [(16, 1)] * 6 + [(4, 1)])
            self.assertTrue(all(np.allclose(loss, 0.7) for loss in losses))

    def test_batches_are_cut(self):
        for size, replicas, expected in ((6, 2, [[[0, 1], [2, 3]], [[4], [5]]]),
                                         (4, 5, [[[0], [1], [2], [3], []]]),
                                         (8, 3, [[[0, 1], [2, 3], []], [[4, 5], [6, 7], []]])):
            strategy = distribute.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])
            steps = strategy.experimental_distribute_dataset(
                Dataset.range(size).batch(4, drop_remainder=False))
            self.assertEqual([[part.tolist() for part in x.values] for x in steps], expected)

    def test_the_auto_shard_policy_is_an_option_of_the_dataset(self):
        dataset = Dataset.from_tensors(([1.], [1.])).repeat(64).batch(16)
        options = tutti.data.Options()
        options.experimental_distribute.auto_shard_policy = (
            tutti.data.experimental.AutoShardPolicy.DATA)
        dataset = dataset.with_options(options)
        self.assertEqual(dataset.options().experimental_distribute.auto_shard_policy,
                         tutti.data.experimental.AutoShardPolicy.DATA)
        self.assertEqual(len(list(two_replicas().experimental_distribute_dataset(dataset))), 4)

    def test_datasets_from_a_function(self):
        mirrored_strategy = two_replicas()

        def dataset_fn(input_context):
            batch_size = input_context.get_per_replica_batch_size(4)
            dataset = Dataset.from_tensors(([1.], [1.])).repeat(64).batch(16)
            dataset = dataset.shard(input_context.num_input_pipelines,
                                    input_context.input_pipeline_id)
            return dataset.batch(batch_size).prefetch(2)

        dist_dataset = mirrored_strategy.distribute_datasets_from_function(dataset_fn)
        self.assertEqual([[part.shape for part in features.values]
                          for features, _ in dist_dataset], [[(2, 16, 1)] * 2])

    def test_a_step_that_doubles_a_tuple(self):
        mirrored_strategy = two_replicas()
        dist_dataset = mirrored_strategy.experimental_distribute_dataset(
            Dataset.from_tensors(([1.], [1.])).repeat(100).batch(16))

        def train_step(per_replica_inputs):
            return mirrored_strategy.run(lambda inputs: 2 * inputs, args=(per_replica_inputs,))

        for _ in range(2):
            iterator = iter(dist_dataset)
            for _ in range(5):
                output = train_step(next(iterator))
                self.assertEqual([part.shape for value in output for part in value.values],
                                 [(8, 1)] * 8)

    def test_files_are_shuffled_before_they_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            for i in range(4):
                with TFRecordWriter(os.path.join(folder, f"{i}.tfr")) as writer:
                    for k in range(3):
                        writer.write(b"%d" % (10 * i + k))
            d = Dataset.list_files(os.path.join(folder, "*.tfr"), shuffle=False)
            d = d.shard(2, 1)
            d = d.repeat(2)
            d = d.shuffle(4)
            d = d.interleave(TFRecordDataset, cycle_length=2, block_length=1)
            d = d.map(int, num_parallel_calls=2)
            self.assertEqual(sorted(d), sorted([10, 11, 12, 30, 31, 32] * 2))

    def test_a_generator(self):
        def input_gen():
            while True:
                yield np.random.rand(4)

        dataset = Dataset.from_generator(input_gen, output_types=(np.float32), output_shapes=(4,))
        for devices, shape in (["CPU:0"], (4,)), (["CPU:0", "CPU:1"], (2,)):
            mirrored_strategy = distribute.MirroredStrategy(devices)
            iterator = iter(mirrored_strategy.experimental_distribute_dataset(dataset))
            for _ in range(4):
                result = mirrored_strategy.run(lambda x: x, args=(next(iterator),))
                for part in mirrored_strategy.experimental_local_results(result):
                    self.assertEqual((part.shape, part.dtype), (shape, np.float32))


if __name__ == "__main__":
    unittest.main()
