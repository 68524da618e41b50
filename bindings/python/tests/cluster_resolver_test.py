"""Cluster specs and resolvers, options of strategies of several workers: what needs no other
process."""

import json
import os
import unittest

import numpy as np

import tutti
from tutti import distribute, errors
from tutti.distribute.cluster_resolver import (ClusterResolver, SimpleClusterResolver,
                                               TFConfigClusterResolver)
from tutti.train import ClusterSpec


class ClusterSpecTest(unittest.TestCase):
    def setUp(self):
        self.spec = ClusterSpec({"worker": ["a:1", "b:2"], "ps": {1: "c:3", 4: "d:4"}})

    def test_it_lists_jobs_and_tasks(self):
        self.assertEqual(self.spec.jobs, ["ps", "worker"])
        self.assertEqual((self.spec.num_tasks("worker"), self.spec.num_tasks("ps")), (2, 2))
        self.assertEqual(self.spec.task_indices("ps"), [1, 4])
        self.assertEqual(self.spec.task_address("ps", 4), "d:4")
        self.assertEqual(self.spec.job_tasks("worker"), ["a:1", "b:2"])
        self.assertEqual(self.spec.job_tasks("ps"), [None, "c:3", None, None, "d:4"])
        self.assertTrue(self.spec)
        self.assertFalse(ClusterSpec({}))

    def test_it_goes_to_a_dict_and_to_json_and_back(self):
        self.assertEqual(self.spec.as_dict(),
                         {"worker": ["a:1", "b:2"], "ps": {1: "c:3", 4: "d:4"}})
        self.assertEqual(ClusterSpec(self.spec.to_json()), self.spec)
        self.assertEqual(ClusterSpec(self.spec), self.spec)
        self.assertEqual(hash(ClusterSpec(self.spec.as_dict())), hash(self.spec))
        self.assertNotEqual(ClusterSpec({"worker": ["a:1"]}), self.spec)
        self.assertIn("'worker': ['a:1', 'b:2']", repr(self.spec))

    def test_what_is_not_there_is_a_value_error_that_lists_what_is(self):
        with self.assertRaisesRegex(ValueError, "ps, worker"):
            self.spec.num_tasks("chief")
        with self.assertRaisesRegex(ValueError, r"no task 2; it has \[1, 4\]"):
            self.spec.task_address("ps", 2)
        with self.assertRaises(ValueError):
            self.spec.job_tasks("chief")

    def test_what_is_no_cluster_is_refused(self):
        for wrong in ('{"worker": [', '["a:1"]', '{"worker": [1]}', '{"worker": {"x": "a:1"}}'):
            with self.assertRaises(ValueError, msg=wrong):
                ClusterSpec(wrong)
        with self.assertRaises(TypeError):
            ClusterSpec(["a:1"])


class ResolverTest(unittest.TestCase):
    CLUSTER = {"chief": ["a:1"], "worker": ["b:2", "c:3"]}

    def setUp(self):
        self.before = os.environ.pop("TF_CONFIG", None)

    def tearDown(self):
        os.environ.pop("TF_CONFIG", None)
        if self.before is not None:
            os.environ["TF_CONFIG"] = self.before

    def test_a_simple_one_says_what_it_was_given(self):
        resolver = SimpleClusterResolver(self.CLUSTER, task_type="worker", task_id=1,
                                         num_accelerators={"GPU": 8}, rpc_layer="grpc",
                                         environment="google", master="a:9")
        self.assertEqual(resolver.cluster_spec(), ClusterSpec(self.CLUSTER))
        self.assertEqual((resolver.task_type, resolver.task_id), ("worker", 1))
        self.assertEqual((resolver.rpc_layer, resolver.environment), ("grpc", "google"))
        self.assertEqual(resolver.num_accelerators(), {"GPU": 8})
        # Those of other tasks are not known: the arguments are documented as without effect.
        self.assertEqual(resolver.num_accelerators("worker", 1, None), {"GPU": 8})
        with self.assertRaisesRegex(TypeError, "task_type: a str is needed"):
            resolver.num_accelerators(3)
        with self.assertRaisesRegex(ValueError, "task_id is -1"):
            resolver.num_accelerators("worker", -1)
        self.assertEqual(resolver.master(), "grpc://a:9")
        self.assertEqual(resolver.master("worker", 0), "grpc://b:2")
        resolver.task_type, resolver.task_id = "chief", 0
        self.assertEqual((resolver.task_type, resolver.task_id), ("chief", 0))
        bare = SimpleClusterResolver(ClusterSpec({}))
        self.assertEqual((bare.task_type, bare.task_id, bare.environment), (None, None, ""))
        self.assertEqual(bare.num_accelerators(), {})

    def test_tf_config_is_read_anew_at_each_question(self):
        resolver = TFConfigClusterResolver()
        self.assertFalse(resolver.cluster_spec())
        self.assertIsNone(resolver.task_type)
        self.assertIsNone(resolver.task_id)
        os.environ["TF_CONFIG"] = json.dumps(
            {"cluster": self.CLUSTER, "task": {"type": "worker", "index": "1"}})
        self.assertEqual(resolver.cluster_spec().as_dict(), self.CLUSTER)
        self.assertEqual((resolver.task_type, resolver.task_id), ("worker", 1))
        self.assertEqual(resolver.rpc_layer, "grpc")
        self.assertEqual(resolver.master("chief", 0), "grpc://a:1")
        other = TFConfigClusterResolver(task_type="chief", task_id=0)
        self.assertEqual((other.task_type, other.task_id), ("chief", 0))
        other.task_id = 3
        self.assertEqual(other.task_id, 3)

    def test_a_malformed_tf_config_is_a_value_error_that_says_where(self):
        for text in ('{"cluster": {', '{"cluster": ["a:1"]}', '[]'):
            os.environ["TF_CONFIG"] = text
            with self.assertRaisesRegex(ValueError, "TF_CONFIG"):
                TFConfigClusterResolver().cluster_spec()
            with self.assertRaisesRegex(ValueError, "TF_CONFIG"):
                distribute.MultiWorkerMirroredStrategy()
        os.environ["TF_CONFIG"] = '{"cluster": {"worker": ["a:1"]}, "task": {"index": "one"}}'
        with self.assertRaisesRegex(ValueError, "TF_CONFIG"):
            TFConfigClusterResolver().task_id

    def test_an_unknown_task_is_a_value_error_that_lists_the_known_ones(self):
        for task, known in (("worker", 2), "worker:1"), (("helper", 0), "chief, worker"):
            resolver = SimpleClusterResolver(self.CLUSTER, task_type=task[0], task_id=task[1])
            with self.assertRaisesRegex(ValueError, known):
                distribute.MultiWorkerMirroredStrategy(resolver)
        with self.assertRaises(ValueError):
            distribute.MultiWorkerMirroredStrategy(SimpleClusterResolver(self.CLUSTER))

    def test_an_address_without_a_port_or_twice_is_a_value_error_that_names_it(self):
        for address in ("somewhere", "a:1"):
            resolver = SimpleClusterResolver({"worker": ["a:1", address]}, task_type="worker",
                                             task_id=0)
            with self.assertRaisesRegex(ValueError, address):
                distribute.MultiWorkerMirroredStrategy(resolver)

    def test_one_of_your_own_is_a_subclass(self):
        class Mine(ClusterResolver):
            def cluster_spec(self):
                return ClusterSpec({"worker": ["a:1", "b:2"]})

            def master(self, task_type=None, task_id=None, rpc_layer=None):
                return ""

        mine = Mine()
        self.assertEqual((mine.task_type, mine.task_id, mine.rpc_layer), (None, None, None))
        self.assertEqual((mine.num_accelerators(), mine.environment), ({}, ""))
        mine.task_type, mine.task_id = "worker", 7
        with self.assertRaisesRegex(ValueError, "worker:1"):
            distribute.MultiWorkerMirroredStrategy(mine)
        with self.assertRaises(TypeError):
            distribute.MultiWorkerMirroredStrategy("worker:0")


class AloneTest(unittest.TestCase):
    """Without a cluster a strategy of several workers is alone."""

    def test_without_tf_config_this_process_is_alone(self):
        strategy = distribute.MultiWorkerMirroredStrategy(devices=["CPU:0", "CPU:1"])
        self.assertEqual((strategy.worker, strategy.num_workers), (0, 1))
        self.assertEqual(strategy.num_replicas_in_sync, 2)
        self.assertIsInstance(strategy.cluster_resolver, TFConfigClusterResolver)
        self.assertIsInstance(strategy, distribute.Strategy)
        with strategy.scope():
            total = tutti.Variable(0.0, aggregation="sum")
        strategy.run(lambda: total.assign_add(1.0) and None)
        self.assertEqual(total.numpy(), 2.0)
        steps = strategy.distribute_dataset(tutti.data.Dataset.range(4).batch(4))
        self.assertEqual([[v.tolist() for v in step.values] for step in steps], [[[0, 1], [2, 3]]])

    def test_the_setting_replicas_says_how_many_there_are(self):
        with tutti.Runtime(replicas=3) as runtime, runtime.as_default():
            strategy = distribute.MultiWorkerMirroredStrategy()
            self.assertEqual(strategy.num_replicas_in_sync, 3)

    def test_the_older_name_takes_the_older_arguments(self):
        strategy = distribute.experimental.MultiWorkerMirroredStrategy(
            distribute.experimental.CollectiveCommunication.RING)
        self.assertIsInstance(strategy, distribute.MultiWorkerMirroredStrategy)

    def test_other_strategies_have_one_worker(self):
        strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        self.assertEqual((strategy.worker, strategy.num_workers), (0, 1))
        self.assertIsNone(strategy.cluster_resolver)

    def test_a_cluster_that_nobody_knows_is_one_of_this_process(self):
        with tutti.Runtime() as runtime, runtime.as_default():
            with tutti.Cluster.join() as cluster:
                self.assertEqual((cluster.worker, cluster.num_workers), (0, 1))


class CommunicationOptionsTest(unittest.TestCase):
    def test_wrong_ones_are_value_errors(self):
        options = distribute.experimental.CommunicationOptions
        with self.assertRaises(TypeError):
            options(bytes_per_pack="8")
        for wrong in ({"bytes_per_pack": -1}, {"timeout_seconds": -1}, {"implementation": "TELEX"}):
            with self.assertRaises(ValueError):
                options(**wrong)
        with self.assertRaises(TypeError):
            distribute.MultiWorkerMirroredStrategy(communication_options=3)

    def test_the_older_name_warns_and_does_the_same(self):
        with self.assertWarnsRegex(DeprecationWarning, "CommunicationOptions takes its place"):
            hints = distribute.experimental.CollectiveHints(bytes_per_pack=8, timeout_seconds=30)
        self.assertIsInstance(hints, distribute.experimental.CommunicationOptions)
        self.assertEqual((hints.bytes_per_pack, hints.timeout_seconds, hints.implementation.name),
                         (8, 30, "AUTO"))
        strategy = distribute.MultiWorkerMirroredStrategy(devices=["CPU:0", "CPU:1"],
                                                          communication_options=hints)
        values = strategy.run(
            lambda: distribute.get_replica_context().all_reduce("sum", 2.0, options=hints))
        self.assertEqual([float(value) for value in values.values], [4.0, 4.0])

    def test_every_implementation_can_be_asked_for_by_name(self):
        for name in ("AUTO", "RING", "NCCL", "SHARED_MEMORY", "TCP"):
            options = distribute.experimental.CommunicationOptions(implementation=name)
            self.assertEqual(options.implementation.name, name)
            distribute.MultiWorkerMirroredStrategy(communication_options=options)

    def test_the_timeout_of_a_collective_comes_from_the_call_or_the_strategy(self):
        options = distribute.experimental.CommunicationOptions(timeout_seconds=0.1)
        for of_call, of_strategy in ((options, None), (None, options)):
            strategy = distribute.MultiWorkerMirroredStrategy(
                devices=["CPU:0", "CPU:1"], communication_options=of_strategy)

            def step():
                context = distribute.get_replica_context()
                if context.replica_id_in_sync_group == 0:
                    context.all_reduce("sum", 1, of_call)
                else:
                    while not context.is_cancelled:
                        pass

            with self.assertRaises(errors.DeadlineExceededError):
                strategy.run(step)


class OptionsTest(unittest.TestCase):
    def test_the_auto_shard_policy_is_set_as_in_the_reference(self):
        policy = tutti.data.experimental.AutoShardPolicy
        options = tutti.data.Options()
        options.experimental_distribute.auto_shard_policy = policy.FILE
        self.assertEqual(options.experimental_distribute.auto_shard_policy, policy.FILE)
        distributed = tutti.data.experimental.DistributeOptions()
        distributed.auto_shard_policy = policy.OFF
        options.experimental_distribute = distributed
        self.assertEqual(options.experimental_distribute.auto_shard_policy, policy.OFF)
        with self.assertRaises(AttributeError):
            options.experimental_distribute = policy.OFF

    def test_rebatching_is_one_of_two(self):
        self.assertEqual(distribute.InputOptions(rebatch="even").rebatch, "even")
        with self.assertRaisesRegex(ValueError, "'ceil', 'even'"):
            distribute.InputOptions(rebatch="odd")

    def test_even_slices_run_across_batches(self):
        strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1", "CPU:2"])
        dataset = tutti.data.Dataset.range(8).batch(4, drop_remainder=True)
        steps = strategy.distribute_dataset(dataset, distribute.InputOptions(rebatch="even"))
        self.assertEqual([[v.tolist() for v in step.values] for step in steps],
                         [[[0, 1], [2], [3]], [[4, 5], [6], [7]]])
        self.assertIn("even", steps.explain().lower())
        self.assertEqual(np.int64, steps.element_spec.dtype)


if __name__ == "__main__":
    unittest.main()
