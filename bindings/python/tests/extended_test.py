"""strategy.extended, cross-device ops, CentralStorageStrategy."""

import gc
import subprocess
import sys
import threading
import unittest
import weakref

import numpy as np

import tutti
from tutti import distribute, errors
from tutti.data import Dataset


def context():
    return distribute.get_replica_context()


class Recording(distribute.CrossDeviceOps):
    """The largest of the replicas' values, which no fold of the library gives."""

    def __init__(self):
        self.lock = threading.Lock()
        self.asked = []

    def note(self, *what):
        with self.lock:
            self.asked.append(what)

    def largest(self, value):
        return np.max(distribute.get_strategy().local_results(value), axis=0)

    def reduce_implementation(self, reduce_op, per_replica_value, destinations, options):
        self.note("reduce", reduce_op, destinations, distribute.in_cross_replica_context(),
                  options.bytes_per_pack)
        return self.largest(per_replica_value)

    def batch_reduce_implementation(self, reduce_op, value_destination_pairs, options):
        self.note("batch", reduce_op, len(value_destination_pairs))
        return [self.largest(value) for value, _ in value_destination_pairs]

    def broadcast_implementation(self, tensor, destinations):
        self.note("broadcast", float(tensor))
        return tensor


class ExtendedTest(unittest.TestCase):
    def setUp(self):
        self.strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        self.extended = self.strategy.extended
        self.value = self.strategy.per_replica([np.float32(1), np.float32(2)])

    def local(self, value):
        return [np.asarray(part).tolist() for part in self.strategy.local_results(value)]

    def variable(self, value=1., **kwargs):
        with self.strategy.scope():
            return tutti.Variable(value, **kwargs)

    def test_devices_have_their_names_in_full(self):
        full = tuple(f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(2))
        self.assertEqual(self.extended.worker_devices, full)
        self.assertEqual(self.extended.parameter_devices, full)
        self.assertEqual(self.strategy.worker_devices, ("/device:CPU:0", "/device:CPU:1"))
        self.assertEqual(self.extended.non_slot_devices([self.variable()]), full)
        self.assertIs(self.extended.experimental_require_static_shapes, False)
        default = distribute.get_strategy().extended
        self.assertEqual(default.worker_devices, full[:1])

    def test_reduce_to_places_the_result(self):
        extended, value = self.extended, self.value
        self.assertEqual(self.local(extended.reduce_to("sum", value, value)), [3, 3])
        self.assertIn("Mirrored", repr(extended.reduce_to("sum", value, value)))
        self.assertEqual(extended.reduce_to(distribute.ReduceOp.MEAN, value, "CPU:1"), 1.5)
        self.assertEqual(self.local(extended.reduce_to("sum", value, self.variable())), [3, 3])
        both = extended.batch_reduce_to("sum", [(value, value), (value, "/device:CPU:0")])
        self.assertEqual((self.local(both[0]), both[1]), ([3, 3], 3))
        self.assertEqual(self.local(extended.broadcast_to(5., value)), [5, 5])
        self.assertEqual(extended.broadcast_to(5., "CPU:1"), 5)
        self.assertEqual(extended.reduce_to("mean", 4., "CPU:0"), 4)

    def test_what_cannot_be_reduced_is_a_value_error(self):
        extended, value = self.extended, self.value
        three = distribute.MirroredStrategy(["CPU:0", "CPU:1", "CPU:2"])
        with three.scope():
            foreign = tutti.Variable(1.)
        for text, call in [
                ("3 components", lambda: extended.reduce_to("sum", three.per_replica([1, 2, 3]),
                                                            "CPU:0")),
                ("belongs to strategy", lambda: extended.reduce_to("sum", value, foreign)),
                ("destinations", lambda: extended.reduce_to("sum", value, None)),
                ("CPU:7000", lambda: extended.reduce_to("sum", value, "CPU:7000")),
                ("one value for all", lambda: extended.reduce_to("sum", 1., "CPU:0")),
                ("SUM or MEAN", lambda: extended.reduce_to("max", value, value)),
                ("pairs", lambda: extended.batch_reduce_to("sum", [1])),
                ("pairs", lambda: extended.batch_reduce_to("sum", [(value,)])),
                ("another strategy", lambda: extended.non_slot_devices([foreign])),
                ("belongs to strategy", lambda: extended.update(foreign, lambda v: None))]:
            with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                call()
        with self.assertRaises(TypeError):
            extended.update(1, lambda v: None)

    def test_update_runs_on_each_device(self):
        variable = self.variable()

        def update(v, delta, scale=1.):
            self.assertIs(v, variable)
            self.assertIsNone(distribute.get_replica_context())
            self.assertTrue(distribute.in_cross_replica_context())
            self.assertIs(distribute.get_strategy(), self.strategy)
            v.assign_add(delta * np.float32(scale))
            self.assertEqual(v.numpy(), v.copies()[distribute.get_update_replica_id()])
            return distribute.get_update_replica_id()

        self.assertIsNone(distribute.get_update_replica_id())
        ids = self.extended.update(variable, update, args=(self.value,), kwargs={"scale": 10})
        self.assertEqual(self.local(ids), [0, 1])
        self.assertEqual([float(copy) for copy in variable.copies()], [11, 21])
        self.assertEqual(self.extended.update(variable, update, (np.float32(1),), group=False),
                         (0, 1))
        self.assertEqual([float(copy) for copy in variable.copies()], [12, 22])

    def test_the_way_of_an_optimizer(self):
        variable = self.variable()

        def merge(strategy, gradient):
            total = strategy.extended.reduce_to("sum", gradient, variable)
            strategy.extended.update(variable, lambda v, g: v.assign_sub(g), args=(total,))

        self.strategy.run(lambda: context().merge_call(
            merge, args=(np.float32(context().replica_id_in_sync_group + 1),)))
        self.assertEqual([float(copy) for copy in variable.copies()], [-2, -2])

    def test_update_non_slot(self):
        devices = self.extended.non_slot_devices([])
        self.assertEqual(self.extended.update_non_slot(devices[:1], lambda x: x + 1, (1.,)), 2)
        self.assertEqual(self.extended.update_non_slot(
            self.value, lambda a, b=0: a + b, (self.value,), {"b": 1}, group=False), (2, 3))

    def test_run_and_collectives_are_refused_in_an_update(self):
        variable = self.variable()
        communicator, = tutti.Communicator.create_local(1)
        refused = []

        def update(v):
            for call in (lambda: self.strategy.run(lambda: 1),
                         lambda: self.strategy.reduce("sum", self.value),
                         lambda: self.extended.update(v, lambda v: None),
                         communicator.barrier, lambda: tutti.Variable(1.)):
                with self.assertRaisesRegex(errors.FailedPreconditionError, "update"):
                    call()
                refused.append(call)

        self.extended.update(variable, update)
        self.assertEqual(len(refused), 10)
        with self.assertRaises(errors.FailedPreconditionError):
            self.strategy.run(lambda: self.extended.update(variable, update))

    def test_an_error_ends_an_update_and_the_context_ends_with_it(self):
        variable, seen = self.variable(), []

        def update(v):
            seen.append(tutti._scope.scope.get())
            raise KeyError("enough")

        with self.assertRaisesRegex(KeyError, "enough"):
            self.extended.update(variable, update)
        self.assertEqual(len(seen), 1)
        with self.assertRaises(errors.FailedPreconditionError):
            seen[0].update_replica_id
        self.assertFalse(distribute.in_cross_replica_context())

    def test_colocation_is_inside_the_scope_alone(self):
        variable = self.variable()
        with self.assertRaises(errors.FailedPreconditionError):
            with self.extended.colocate_vars_with(variable):
                pass
        other = distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        with other.scope():
            foreign = tutti.Variable(1.)
        with self.strategy.scope():
            with self.extended.colocate_vars_with(variable):
                beside = tutti.Variable(2.)
            with self.assertRaisesRegex(ValueError, "belongs to strategy"):
                with self.extended.colocate_vars_with(foreign):
                    pass
        self.assertTrue(self.extended.variable_created_in_scope(beside))
        self.assertFalse(self.extended.variable_created_in_scope(foreign))
        self.assertIs(self.extended.value_container(beside), beside)
        for container in (beside, self.strategy.per_replica([np.float32(1), np.float32(2)])):
            for part in container.values:
                found = self.extended.value_container(part)
                self.assertIs(found, beside if container is beside else part)
        alike = np.array(beside.values[0])
        self.assertIs(self.extended.value_container(alike), alike)
        other = distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        part = beside.values[1]
        self.assertIs(other.extended.value_container(part), part)

    def test_call_for_each_replica(self):
        ids = self.extended.call_for_each_replica(
            lambda a, b: a + b + context().replica_id_in_sync_group, (1,), {"b": 2})
        self.assertEqual(self.local(ids), [3, 4])


class ScopeTest(unittest.TestCase):
    def test_the_scope_of_several_workers_is_one_of_the_cpu(self):
        strategy = distribute.MultiWorkerMirroredStrategy(devices=["CPU:1"])
        with strategy.scope():
            self.assertEqual(str(tutti.current_device()), "/device:CPU:0")
            with strategy.scope(), tutti.device("/CPU:1"):
                self.assertEqual(str(tutti.current_device()), "/device:CPU:1")
            self.assertEqual(str(tutti.current_device()), "/device:CPU:0")
        self.assertIsNone(tutti.current_device())
        self.assertIsInstance(strategy.cluster_resolver,
                              distribute.cluster_resolver.TFConfigClusterResolver)
        with distribute.MirroredStrategy(["CPU:0"]).scope():
            self.assertIsNone(tutti.current_device())


class CrossDeviceOpsTest(unittest.TestCase):
    def local(self, strategy, value):
        return [np.asarray(part).tolist() for part in strategy.local_results(value)]

    def test_those_of_the_library(self):
        strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        value, other = strategy.per_replica([np.float32([1, 2]), np.float32([3, 4])]), (
            strategy.per_replica([np.float32(1), np.float32(2)]))
        for ops in (distribute.AllReduce(), distribute.ReductionToOneDevice(),
                    distribute.ReductionToOneDevice("CPU:1"),
                    distribute.HierarchicalCopyAllReduce(), distribute.NcclAllReduce(),
                    distribute.HierarchicalCopyAllReduce(num_packs=0),
                    distribute.NcclAllReduce(num_packs=2)):
            with self.subTest(repr(ops)), strategy.scope():
                self.assertIsInstance(ops, distribute.CrossDeviceOps)
                self.assertEqual(self.local(strategy, ops.reduce("sum", value, value)),
                                 [[4, 6], [4, 6]])
                self.assertEqual(ops.reduce("mean", other, "CPU:0",
                                            distribute.experimental.CommunicationOptions(64)),
                                 1.5)
                pair = ops.batch_reduce("sum", [(value, "CPU:0"), (other, other)])
                self.assertEqual((pair[0].tolist(), self.local(strategy, pair[1])),
                                 ([4, 6], [3, 3]))
                self.assertEqual(self.local(strategy, ops.broadcast(7., value)), [7, 7])
            with self.assertRaisesRegex(errors.FailedPreconditionError, "cross-replica"):
                ops.reduce("sum", value, value)
        for made in (distribute.HierarchicalCopyAllReduce, distribute.NcclAllReduce):
            with self.assertRaisesRegex(ValueError, "num_packs is -1"):
                made(-1)
        with self.assertRaisesRegex(errors.NotFoundError, "CPU:9000"):
            distribute.ReductionToOneDevice("CPU:9000")

    def test_an_accumulation_function(self):
        strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        value = strategy.per_replica([np.float32(1), np.float32(6)])
        ops = distribute.ReductionToOneDevice(accumulation_fn=max)
        with strategy.scope():
            self.assertEqual(ops.reduce("sum", value, "CPU:0"), 6)
            self.assertEqual(ops.reduce("mean", value, "CPU:0"), 3)
        with self.assertRaises(TypeError):
            distribute.ReductionToOneDevice(accumulation_fn=1)

    def test_a_class_of_ones_own_reduces_everywhere(self):
        ops = Recording()
        strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=ops)
        value = strategy.per_replica([np.float32(1), np.float32(5)])
        self.assertEqual(strategy.reduce("sum", value), 5)
        self.assertEqual(ops.asked.pop(), ("reduce", distribute.ReduceOp.SUM, "CPU:0", True, 0))
        self.assertEqual(len(strategy.extended.batch_reduce_to(
            "mean", [(value, value), (value, "CPU:0")])), 2)
        self.assertEqual(ops.asked.pop(), ("batch", distribute.ReduceOp.MEAN, 2))
        self.assertEqual(self.local(strategy, strategy.extended.broadcast_to(2., value)), [2, 2])
        self.assertEqual(ops.asked.pop(), ("broadcast", 2.))
        with strategy.scope():
            variable = tutti.Variable(0., aggregation="sum", name="w")

        def step():
            variable.assign_add(np.float32(context().replica_id_in_sync_group))
            number = np.float32(context().replica_id_in_sync_group + 7)
            self.assertEqual(context().all_reduce("max", number), 8)
            context().all_gather(np.float32([1]), 0)
            return context().all_reduce("sum", number)

        self.assertEqual(self.local(strategy, strategy.run(step)), [8, 8])
        self.assertEqual(variable.numpy(), 1)
        self.assertEqual([asked[:2] for asked in ops.asked], [
            ("reduce", distribute.ReduceOp.SUM), ("reduce", distribute.ReduceOp.MAX),
            ("reduce", distribute.ReduceOp.SUM)])
        told = strategy.explain()
        for line in ("Recording, as given", "reduce SUM of float32[]: 1 time",
                     "assign_add of variable 'w' SUM of float32[]: 1 time",
                     "all_reduce SUM of float32[]: 1 time",
                     "all_reduce MAX of float32[]: 1 time",
                     "gathers, of indexed slices and texts too: by the library"):
            self.assertIn(line, told)
        with strategy.scope():
            self.assertEqual(ops.reduce("sum", value, "CPU:1"), 5)

    def test_ops_that_fail_or_give_something_else(self):
        class Failing(distribute.CrossDeviceOps):
            result = None

            def reduce_implementation(self, reduce_op, per_replica_value, destinations, options):
                if self.result is None:
                    raise KeyError("no ops today")
                return self.result

        ops = Failing()
        strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=ops)
        step = lambda: context().all_reduce("sum", np.float32(1))
        with self.assertRaisesRegex(KeyError, "no ops today"):
            strategy.run(step)
        for ops.result in (np.float32([1, 2]), np.int64(1), "text", (np.float32(1),)):
            with self.assertRaisesRegex(ValueError, "Failing gave .*expected float32"):
                strategy.run(step)
        ops.result = np.float32(4)
        self.assertEqual(self.local(strategy, strategy.run(step)), [4, 4])
        with self.assertRaisesRegex(NotImplementedError, "reduce_implementation"):
            with strategy.scope():
                distribute.CrossDeviceOps().reduce(
                    "sum", strategy.per_replica([1., 2.]), "CPU:0")

    def ends_in(self, text, call):
        # Where the replicas have not met by then, the message is about that.
        for attempt in range(12):
            with self.assertRaises(errors.DeadlineExceededError) as caught:
                call(0.02 * 2 ** attempt)
            if text in str(caught.exception):
                return
        self.fail(str(caught.exception))

    def test_ops_that_do_not_come_back_free_their_callers_at_the_deadline(self):
        let_go, entered, ended = (threading.Event(), threading.Semaphore(0),
                                  threading.Semaphore(0))

        class Held(distribute.CrossDeviceOps):
            def reduce_implementation(self, reduce_op, per_replica_value, destinations, options):
                entered.release()
                let_go.wait()
                ended.release()
                return np.asarray(
                    distribute.get_strategy().local_results(per_replica_value)[0])

        held = Held()
        for ops in (held, distribute.ReductionToOneDevice(
                accumulation_fn=lambda tensors: held.reduce_implementation(
                    None, tensors[0], None, None))):
            strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=ops)
            value = strategy.per_replica([np.float32(1), np.float32(5)])
            name = "Held" if ops is held else "ReductionToOneDevice"
            with strategy.scope():
                variable = tutti.Variable(4., aggregation="sum", name="w")
            options = distribute.experimental.CommunicationOptions
            for what, call in (
                    ("reduce", lambda t: strategy.reduce("sum", value, timeout=t)),
                    ("reduce_to", lambda t: strategy.extended.reduce_to(
                        "mean", value, value, options(timeout_seconds=t))),
                    ("all_reduce", lambda t: strategy.run(lambda: context().all_reduce(
                        "sum", np.float32(1), options(timeout_seconds=t)))),
                    ("assign_add of variable 'w'", lambda t: strategy.run(
                        lambda: variable.assign_add(np.float32(1)), timeout=t))):
                self.ends_in(f"{what}: {name}", call)
            self.assertEqual(variable.numpy(), 4)
            del value, variable
            strategy.close()
        let_go.set()
        while entered.acquire(blocking=False):
            self.assertTrue(ended.acquire(timeout=60))

    def test_a_program_ends_though_its_ops_do_not(self):
        program = (
            "import threading, numpy, tutti\n"
            "class Never(tutti.distribute.CrossDeviceOps):\n"
            "    def reduce_implementation(self, *ignored):\n"
            "        threading.Event().wait()\n"
            "strategy = tutti.distribute.MirroredStrategy(['CPU:0', 'CPU:1'],\n"
            "                                             cross_device_ops=Never())\n"
            "tutti._runtime._EXIT_TIMEOUT_S = 0.05\n"
            "try:\n"
            "    strategy.reduce('sum', strategy.per_replica([1., 2.]), timeout=0.02)\n"
            "except tutti.errors.DeadlineExceededError as error:\n"
            "    print(error)\n")
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                               timeout=120)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("Never", ended.stdout)

    def test_bad_input_is_named(self):
        strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        other = distribute.MirroredStrategy(["CPU:0", "CPU:1", "CPU:2"])
        value = strategy.per_replica([np.float32([1]), np.float32([5])])
        three = other.per_replica([1., 2., 3.])
        with self.assertRaisesRegex(ValueError, "3 components, and the strategy has 2 replicas"):
            strategy.reduce("sum", three)
        with self.assertRaisesRegex(ValueError, r"axis 1 is not in \[0, 1\)"):
            strategy.gather(value, axis=1)
        with self.assertRaisesRegex(ValueError, "name each device once"):
            distribute.MirroredStrategy(["CPU:0", "CPU:0"])
        with self.assertRaisesRegex(ValueError, "GPU:77"):
            distribute.MirroredStrategy(["CPU:0", "GPU:77"])
        with strategy.scope(), self.assertRaisesRegex(RuntimeError, "cannot be entered inside"):
            with other.scope():
                pass

    def test_run_and_collectives_are_refused_in_ops(self):
        refused = []

        class Nesting(distribute.CrossDeviceOps):
            def reduce_implementation(self, reduce_op, per_replica_value, destinations, options):
                for call in (lambda: strategy.run(lambda: 1),
                             lambda: strategy.reduce("sum", per_replica_value)):
                    try:
                        call()
                    except errors.FailedPreconditionError as error:
                        refused.append(str(error))
                return distribute.HierarchicalCopyAllReduce().reduce(
                    reduce_op, per_replica_value, destinations, options)

        strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=Nesting())
        self.assertEqual(strategy.reduce("sum", strategy.per_replica([1., 2.])), 3)
        self.assertEqual(len(refused), 2)
        self.assertIn("cross-device op", refused[0])

    def test_a_class_derived_from_the_librarys(self):
        class Counting(distribute.ReductionToOneDevice):
            calls = 0

            def reduce_implementation(self, reduce_op, per_replica_value, destinations, options):
                type(self).calls += 1
                return super().reduce_implementation(reduce_op, per_replica_value, destinations,
                                                     options)

        strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=Counting())
        self.assertEqual(strategy.reduce("sum", strategy.per_replica([1., 2.])), 3)
        self.assertEqual(Counting.calls, 1)

    def test_ops_end_with_their_strategy(self):
        ops = Recording()
        strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=ops)
        strategy.reduce("sum", strategy.per_replica([1., 2.]))
        alive = weakref.ref(ops)
        strategy.close()
        del ops, strategy
        for _ in range(100):
            gc.collect()
            distribute.MirroredStrategy(["CPU:0"]).run(lambda: 1)
            if alive() is None:
                break
        self.assertIsNone(alive())

    def test_what_is_no_ops_is_refused(self):
        with self.assertRaisesRegex(ValueError, "no CrossDeviceOps"):
            distribute.MirroredStrategy(["CPU:0"], cross_device_ops=7)
        strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"], "reduction_to_one_device")
        self.assertIn("ReductionToOneDevice(), as given", strategy.explain())
        self.assertIn("AllReduce, for all tensors",
                      distribute.MirroredStrategy(["CPU:0"]).explain())


class CentralStorageTest(unittest.TestCase):
    """The examples of its page, with the arithmetic of NumPy."""

    def setUp(self):
        self.strategy = distribute.experimental.CentralStorageStrategy(
            compute_devices=["CPU:0", "CPU:1"], parameter_device="CPU:0")

    def test_without_arguments_it_is_one_replica_on_the_cpu(self):
        strategy = distribute.experimental.CentralStorageStrategy()
        ds = Dataset.range(5).batch(2)
        dist_dataset = strategy.experimental_distribute_dataset(ds)
        seen = []
        with strategy.scope():
            def train_step(val):
                return val + 1
            for x in dist_dataset:
                seen.append(np.asarray(strategy.experimental_run_v2(
                    train_step, args=(x,))).tolist())
        self.assertEqual(seen, [[1, 2], [3, 4], [5]])
        self.assertEqual(strategy.num_replicas_in_sync, 1)
        self.assertIsNone(strategy.cluster_resolver)

    def test_a_batch_goes_over_the_replicas(self):
        dataset = Dataset.range(10).batch(2)
        dist_dataset = self.strategy.experimental_distribute_dataset(dataset)
        self.assertEqual([repr(x) for x in dist_dataset][:2],
                         ["PerReplica:{0: [0], 1: [1]}", "PerReplica:{0: [2], 1: [3]}"])

    def test_datasets_from_a_function(self):
        strategy, global_batch_size = self.strategy, 4

        def dataset_fn(input_context):
            batch_size = input_context.get_per_replica_batch_size(global_batch_size)
            d = Dataset.from_tensors([[1.]]).repeat(8).batch(batch_size)
            return d.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)

        inputs = strategy.experimental_distribute_datasets_from_function(dataset_fn)
        shapes = [np.asarray(part).shape for batch in inputs for part in
                  strategy.experimental_local_results(
                      strategy.experimental_run_v2(lambda value: value, args=(batch,)))]
        self.assertEqual(shapes, [(2, 1, 1)] * 4)

    def test_reduce(self):
        strategy = self.strategy
        ds = Dataset.range(10).batch(8)
        dist_dataset = strategy.experimental_distribute_dataset(ds)
        with strategy.scope():
            def train_step(val):
                return val
            x = next(iter(dist_dataset))
            per_replica = strategy.experimental_run_v2(train_step, args=(x,))
            result = strategy.reduce(distribute.ReduceOp.SUM, per_replica, axis=None)
            self.assertEqual(result.tolist(), [4, 6, 8, 10])
            self.assertEqual(strategy.reduce(distribute.ReduceOp.SUM, per_replica, axis=0), 28)

    def test_a_variable_has_one_copy_that_is_updated_once(self):
        with self.strategy.scope():
            variable = tutti.Variable(1., aggregation="mean", name="v")
        self.assertEqual(variable.copy_names, ("v",))
        self.assertNotIn("Mirrored", repr(variable))
        seen = self.strategy.run(
            lambda: variable.assign_add(np.float32(context().replica_id_in_sync_group)).numpy())
        self.assertEqual([float(part) for part in self.strategy.local_results(seen)], [1.5, 1.5])
        self.assertEqual(variable.numpy(), 1.5)
        self.assertEqual(len(self.strategy.local_results(variable)), 1)
        self.assertEqual(self.strategy.extended.parameter_devices,
                         ("/job:localhost/replica:0/task:0/device:CPU:0",))
        calls = []
        self.strategy.extended.update(variable, lambda v: calls.append(v.assign(np.float32(9))))
        self.assertEqual((len(calls), variable.numpy()), (1, 9))
        with self.strategy.scope():
            plain = tutti.Variable(1.)
        with self.assertRaisesRegex(ValueError, "aggregation NONE"):
            self.strategy.run(lambda: plain.assign(np.float32(1)))

    def test_it_is_saved_and_restored(self):
        import tempfile

        with self.strategy.scope():
            variable = tutti.Variable(3.)
        with tempfile.TemporaryDirectory() as directory:
            path = tutti.train.Checkpoint(v=variable).save(f"{directory}/ckpt")
            variable.assign(np.float32(0))
            tutti.train.Checkpoint(v=variable).restore(path)
        self.assertEqual(variable.numpy(), 3)

    def test_a_device_that_is_not_there(self):
        with self.assertRaisesRegex(ValueError, "CPU:9000"):
            distribute.experimental.CentralStorageStrategy(parameter_device="CPU:9000")
        with self.assertRaisesRegex(ValueError, "the same"):
            distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:0"])


if __name__ == "__main__":
    unittest.main()
