"""Cluster specs and resolvers, options of strategies of several workers: what needs no other
process."""

import json
import os
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

import numpy as np

import tutti
from tutti import distribute, errors
from tutti.distribute.cluster_resolver import (ClusterResolver, SimpleClusterResolver,
                                               SlurmClusterResolver, TFConfigClusterResolver,
                                               UnionResolver)
from tutti.train import ClusterDef, ClusterSpec, JobDef


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

    def test_it_goes_to_a_cluster_def_and_back(self):
        plain = self.spec.as_cluster_def()
        self.assertEqual(plain, ClusterDef([JobDef("ps", {1: "c:3", 4: "d:4"}),
                                            JobDef("worker", {0: "a:1", 1: "b:2"})]))
        self.assertEqual(ClusterSpec(plain), self.spec)
        plain.job[0].tasks[1] = "e:5"  # it is a copy
        self.assertEqual(self.spec.task_address("ps", 1), "c:3")
        self.assertEqual(ClusterSpec(plain).task_address("ps", 1), "e:5")
        # A message of protocol buffers has the same fields in classes of its own.
        message = types.SimpleNamespace(
            job=[types.SimpleNamespace(name="worker", tasks={1: "b:2", 0: "a:1"})])
        self.assertEqual(ClusterSpec(message).as_dict(), {"worker": ["a:1", "b:2"]})
        self.assertEqual(ClusterSpec({}).as_cluster_def(), ClusterDef([]))
        with self.assertRaisesRegex(ValueError, "two jobs that are named 'ps'; expected one"):
            ClusterSpec(ClusterDef([plain.job[0], plain.job[0]]))
        with self.assertRaisesRegex(ValueError, "task index -1; indices are 0 to"):
            ClusterSpec(ClusterDef([JobDef("worker", {-1: "a:1"})]))

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


class SlurmTest(unittest.TestCase):
    """What srun tells task 3 of 4 on two nodes."""
    STEP = {"SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "n[1-2]",
            "SLURM_STEP_TASKS_PER_NODE": "2(x2)", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3"}

    def setUp(self):
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("SLURM_") and name != "CUDA_VISIBLE_DEVICES"}
        patch = unittest.mock.patch.dict(os.environ, {**clean, **self.STEP}, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def test_every_task_is_a_worker(self):
        resolver = SlurmClusterResolver(gpus_per_node=0)
        self.assertEqual(resolver.cluster_spec().as_dict(),
                         {"worker": ["n1:8888", "n1:8889", "n2:8888", "n2:8889"]})
        self.assertEqual(resolver.get_task_info(), ("worker", 3))
        self.assertEqual((resolver.task_type, resolver.task_id), ("worker", 3))
        self.assertEqual((resolver.rpc_layer, resolver.environment), ("grpc", ""))
        self.assertEqual(resolver.master(), "grpc://n2:8889")
        self.assertEqual(resolver.master("worker", 0, "http"), "http://n1:8888")
        self.assertEqual(resolver.num_accelerators(), {})

    def test_jobs_take_the_tasks_in_their_order(self):
        resolver = SlurmClusterResolver({"ps": 1, "worker": 2}, port_base=9000, gpus_per_node=0,
                                        tasks_per_node={"n1": 1, "n2": 3})
        self.assertEqual(resolver.cluster_spec().as_dict(),
                         {"ps": ["n1:9000"], "worker": ["n2:9000", "n2:9001"]})
        self.assertEqual(resolver.get_task_info(), (None, None))
        resolver.task_type, resolver.task_id = "worker", 0
        self.assertEqual(resolver.get_task_info(), ("worker", 0))

    def test_the_gpus_of_a_node_are_split_through_the_visible_ones(self):
        # The library sees the process's environment, and os.environ does not see what it sets.
        program = """
import ctypes, tutti
from tutti.distribute.cluster_resolver import SlurmClusterResolver
resolver = SlurmClusterResolver()
get = ctypes.CDLL(None).getenv
get.restype = ctypes.c_char_p
for _ in range(2):
    resolver.cluster_spec()
    print(get(b"CUDA_VISIBLE_DEVICES").decode(), resolver.num_accelerators())
"""
        with tempfile.TemporaryDirectory() as folder:
            fake = os.path.join(folder, "nvidia-smi")
            with open(fake, "w") as file:
                file.write("#!/bin/sh\nfor i in 0 1 2 3; do echo \"GPU $i: of a test\"; done\n")
            os.chmod(fake, 0o755)
            environment = {**os.environ, "PATH": folder + ":" + os.environ["PATH"],
                           "CUDA_VISIBLE_DEVICES": "4,5,6,7"}
            self.assertEqual(
                subprocess.run([sys.executable, "-B", "-c", program], env=environment, check=True,
                               stdout=subprocess.PIPE, text=True).stdout,
                "6,7 {'GPU': 2}\n" * 2)
            del environment["CUDA_VISIBLE_DEVICES"]
            self.assertEqual(
                subprocess.run([sys.executable, "-B", "-c", program], env=environment, check=True,
                               stdout=subprocess.PIPE, text=True).stdout,
                "2,3 {'GPU': 2}\n" * 2)

    def test_what_lacks_or_is_too_much_is_a_runtime_error(self):
        for options, said in (
                ({"jobs": {"worker": 5}}, "5 tasks together, and Slurm has started 4"),
                ({"gpus_per_node": 4, "gpus_per_task": 3}, "2 tasks on one node with 3 GPUs each"),
                ({"tasks_per_node": {"n1": 2}}, "does not tell of the node \"n2\""),
                ({"tasks_per_node": 1}, "take 2 by their tasks per node"),
                ({"port_base": 65535, "gpus_per_node": 0}, "a smaller port_base than 65535")):
            with self.subTest(options=options), self.assertRaisesRegex(RuntimeError, said):
                SlurmClusterResolver(**options).cluster_spec()
        for name in ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"):
            with self.subTest(name), unittest.mock.patch.dict(os.environ):
                del os.environ[name]
                with self.assertRaisesRegex(RuntimeError, name + ".*start it with srun"):
                    SlurmClusterResolver(gpus_per_node=0).cluster_spec()
        os.environ["SLURM_NODEID"] = "0"
        with self.assertRaisesRegex(RuntimeError, "--distribution=block"):
            SlurmClusterResolver(gpus_per_node=0).cluster_spec()

    def test_wrong_lists_are_value_errors_that_say_where(self):
        for nodes, said in (("n[0-999999999]", "more than 65536 hosts"), ("n[1-", "position 4"),
                            ("n[3-1]", "ends before it begins"), ("a,,b", "the name of a host")):
            os.environ["SLURM_STEP_NODELIST"] = nodes
            with self.subTest(nodes), self.assertRaisesRegex(ValueError, said):
                SlurmClusterResolver(gpus_per_node=0).cluster_spec()
        with self.assertRaisesRegex(ValueError, "port_base is 0"):
            SlurmClusterResolver(port_base=0)


class UnionTest(unittest.TestCase):
    def test_it_has_the_jobs_of_all(self):
        workers = {"worker": ["worker0.example.com:2222", "worker1.example.com:2222"]}
        servers = {"ps": ["ps0.example.com:2222", "ps1.example.com:2222"]}
        resolver = UnionResolver(
            SimpleClusterResolver(workers, task_type="worker", task_id=0, rpc_layer="grpc"),
            SimpleClusterResolver(servers, task_type="ps", task_id=0, rpc_layer="grpc"))
        self.assertEqual(resolver.cluster_spec().as_dict(), {**workers, **servers})
        self.assertEqual((resolver.task_type, resolver.task_id), ("worker", 0))
        self.assertEqual(resolver.master("ps", 1), "grpc://ps1.example.com:2222")
        resolver.task_type, resolver.task_id, resolver.rpc_layer = "ps", 1, "http"
        self.assertEqual((resolver.task_type, resolver.task_id, resolver.rpc_layer),
                         ("ps", 1, "http"))
        other = UnionResolver(SimpleClusterResolver(workers), rpc_layer="grpc", task_type="worker",
                              task_id=1)
        self.assertEqual((other.task_type, other.task_id, other.rpc_layer), ("worker", 1, "grpc"))

    def test_the_first_one_overrides_accelerators(self):
        tf_config = TFConfigClusterResolver()
        override = SimpleClusterResolver(tf_config.cluster_spec(), num_accelerators={"GPU": 1})
        self.assertEqual(UnionResolver(override, tf_config).num_accelerators(), {"GPU": 1})

    def test_lists_are_joined_and_indices_that_two_have_are_a_key_error(self):
        def joined(*clusters):
            return UnionResolver(
                *(SimpleClusterResolver(cluster) for cluster in clusters)).cluster_spec().as_dict()
        self.assertEqual(joined({"worker": ["a:1"]}, {"worker": ["b:2"]}, {}),
                         {"worker": ["a:1", "b:2"]})
        self.assertEqual(joined({"worker": {0: "a:1", 7: "b:2"}}, {"worker": {3: "c:3"}}),
                         {"worker": {0: "a:1", 3: "c:3", 7: "b:2"}})
        with self.assertRaisesRegex(KeyError, "worker:0"):
            joined({"worker": {0: "a:1", 7: "b:2"}}, {"worker": ["c:3"]})

    def test_one_of_your_own_is_asked_anew(self):
        class Mine(ClusterResolver):
            tasks = ["a:1"]

            def cluster_spec(self):
                return ClusterSpec({"worker": self.tasks})

            def master(self, task_type=None, task_id=None, rpc_layer=None):
                return "mine"

        mine = Mine()
        resolver = UnionResolver(mine, SimpleClusterResolver({"ps": ["p:1"]}))
        self.assertEqual(resolver.cluster_spec().num_tasks("worker"), 1)
        mine.tasks = ["a:1", "b:2"]
        self.assertEqual(resolver.cluster_spec().num_tasks("worker"), 2)
        self.assertEqual((resolver.master(), resolver.environment), ("mine", ""))

    def test_one_of_your_own_says_what_accelerators_a_task_has(self):
        class Mine(ClusterResolver):
            def cluster_spec(self):
                raise LookupError("the scheduler is gone")

            def master(self, task_type=None, task_id=None, rpc_layer=None):
                return f"{rpc_layer}://{task_type}-{task_id}"

            def num_accelerators(self, task_type=None, task_id=None, config_proto=None):
                return {"GPU": task_id or 0, "TPU": 8}

        resolver = UnionResolver(Mine())
        self.assertEqual(resolver.num_accelerators("worker", 3), {"GPU": 3, "TPU": 8})
        with self.assertRaisesRegex(LookupError, "the scheduler is gone"):
            resolver.cluster_spec()
        with self.assertRaisesRegex(LookupError, "the scheduler is gone"):
            distribute.MultiWorkerMirroredStrategy(Mine())
        simple = SimpleClusterResolver({}, num_accelerators={"GPU": 2, "TPU": 8})
        self.assertEqual(simple.num_accelerators(), {"GPU": 2, "TPU": 8})
        with self.assertRaisesRegex(ValueError, "accelerators is"):
            SimpleClusterResolver({}, num_accelerators={"GPU": -1})

    def test_what_is_no_resolver_is_refused(self):
        with self.assertRaises(TypeError):
            UnionResolver({"worker": ["a:1"]})
        with self.assertRaises(ValueError):
            UnionResolver()
        with self.assertRaisesRegex(TypeError, "task_index"):
            UnionResolver(SimpleClusterResolver({}), task_index=3)


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
        self.assertEqual({spec.dtype for spec in steps.element_spec.value_specs},
                         {np.dtype(np.int64)})


if __name__ == "__main__":
    unittest.main()
