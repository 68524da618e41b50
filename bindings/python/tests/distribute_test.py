"""Strategies: scopes, reductions, variables, distributed datasets."""

import contextlib
import gc
import unittest

import numpy as np

import tutti
from tutti import distribute, errors
from tutti.data import Dataset


def context():
    return distribute.get_replica_context()


class StrategyTest(unittest.TestCase):
    def setUp(self):
        self.strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    def per_replica(self, *values):
        return self.strategy.distribute_values_from_function(
            lambda given: values[given.replica_id_in_sync_group])

    def test_it_says_what_it_is(self):
        self.assertEqual(self.strategy.num_replicas_in_sync, 2)
        self.assertEqual(self.strategy.worker_devices, ("/device:CPU:0", "/device:CPU:1"))
        self.assertIn("MirroredStrategy", repr(self.strategy))
        self.assertIsNone(self.strategy.cluster_resolver)
        self.assertEqual((self.strategy.worker, self.strategy.num_workers), (0, 1))

    def test_scopes_nest_only_in_themselves(self):
        other = distribute.OneDeviceStrategy("CPU:0")
        with self.strategy.scope() as inside:
            self.assertIs(inside, self.strategy)
            with self.strategy.scope():
                self.assertIs(distribute.get_strategy(), self.strategy)
            with self.assertRaisesRegex(errors.FailedPreconditionError, "inside that of"):
                with other.scope():
                    pass
            with self.assertRaises(RuntimeError):
                distribute.experimental_set_strategy(other)
        self.assertFalse(distribute.has_strategy())

    def test_a_strategy_can_be_set_for_good_and_taken_back(self):
        distribute.experimental_set_strategy(self.strategy)
        try:
            self.assertIs(distribute.get_strategy(), self.strategy)
            self.assertTrue(distribute.in_cross_replica_context())
        finally:
            distribute.experimental_set_strategy(None)
        self.assertFalse(distribute.has_strategy())
        self.assertIs(distribute.get_strategy(), distribute.get_strategy())

    def test_the_default_strategy_has_one_replica(self):
        replica = distribute.get_replica_context()
        self.assertEqual(replica.num_replicas_in_sync, 1)
        self.assertEqual(replica.all_reduce("sum", 3), 3)
        self.assertEqual(replica.merge_call(lambda s, x: (s, distribute.in_cross_replica_context(),
                                                          x), args=(1,))[1:], (True, 1))
        self.assertEqual(distribute.get_strategy().run(lambda x: x + 1, args=(1,)), 2)

    def test_replicas_know_where_they_are(self):
        result = self.strategy.run(lambda: (context().replica_id_in_sync_group,
                                            context().num_replicas_in_sync, context().device,
                                            context().global_rows, context().is_cancelled))
        local = self.strategy.local_results(result)
        self.assertEqual([l[0] for l in local], [0, 1])
        self.assertEqual([l[1] for l in local], [2, 2])
        self.assertEqual([l[3] for l in local], [-1, -1])

    def test_all_reduce_gives_every_replica_the_same(self):
        def step():
            i = context().replica_id_in_sync_group
            return context().all_reduce("mean", {"a": np.full(3, i, np.float32), "b": (i,)})

        local = self.strategy.local_results(self.strategy.run(step))
        for part in local:
            self.assertEqual(part["a"].tolist(), [0.5] * 3)
            self.assertEqual(part["a"].dtype, np.float32)

    def test_all_gather_joins_along_an_axis(self):
        def step():
            i = context().replica_id_in_sync_group
            return context().all_gather(np.full((1 + i, 2), i), axis=0)

        for part in self.strategy.local_results(self.strategy.run(step)):
            self.assertEqual(part.tolist(), [[0, 0], [1, 1], [1, 1]])

    def test_merge_call_regroups_and_splits(self):
        def merge(strategy, mine, same, *, plus):
            self.assertIsInstance(mine, distribute.PerReplica)
            self.assertEqual(same, "same")
            return strategy.reduce("sum", mine) + strategy.reduce("mean", plus), mine

        def step():
            i = context().replica_id_in_sync_group
            return context().merge_call(merge, args=(10 + i, "same"), kwargs={"plus": 1})

        self.assertEqual(self.strategy.local_results(self.strategy.run(step)), ((22, 10), (22, 11)))

    def test_unequal_shapes_are_an_error_on_all_replicas_that_names_both(self):
        seen = []

        def step():
            i = context().replica_id_in_sync_group
            try:
                context().all_reduce("sum", np.zeros(3 + i))
            except errors.InvalidArgumentError as error:
                seen.append(str(error))
                raise

        with self.assertRaises(ValueError):
            self.strategy.run(step)
        self.assertEqual(len(seen), 2)
        for text in seen:
            self.assertIn("[3]", text)
            self.assertIn("[4]", text)

    def test_reduce_and_gather(self):
        value = self.per_replica(np.array([0.0, 1.0]), np.array([2.0, 3.0]))
        self.assertEqual(self.strategy.reduce("sum", value).tolist(), [2.0, 4.0])
        self.assertEqual(self.strategy.reduce(tutti.ReduceOp.MEAN, value, axis=0), 1.5)
        self.assertEqual(self.strategy.gather(value, axis=0).tolist(), [0, 1, 2, 3])
        self.assertEqual(self.strategy.reduce("MEAN", 3.0), 3.0)
        with self.assertRaises(ValueError):
            self.strategy.reduce("sum", 3.0)
        with self.assertRaisesRegex(ValueError, "none of 'sum'"):
            self.strategy.reduce("most", value)
        uneven = self.per_replica(np.zeros(4), np.zeros(2))
        with self.assertRaisesRegex(ValueError, "axis"):
            self.strategy.reduce("sum", uneven)

    def test_values_from_a_function(self):
        value = self.strategy.experimental_distribute_values_from_function(
            lambda given: (given.replica_id_in_sync_group, given.num_replicas_in_sync))
        self.assertEqual(self.strategy.experimental_local_results(value), ((0, 2), (1, 2)))
        self.assertEqual(self.strategy.local_results(7), (7,))
        made = self.strategy.per_replica([{"x": 1}, {"x": 2}])
        self.assertEqual(made["x"].values, (1, 2))
        with self.assertRaises(ValueError):
            self.strategy.per_replica([1, 2, 3])

    def test_a_device_twice_or_unknown_is_an_error(self):
        with self.assertRaises(ValueError):
            distribute.MirroredStrategy(["CPU:0", "CPU:0"])
        with self.assertRaises((ValueError, LookupError)):
            distribute.MirroredStrategy(["ABACUS:0"])

    def test_a_closed_strategy_is_refused(self):
        with self.strategy:
            self.strategy.run(lambda: None)
        with self.assertRaises(errors.FailedPreconditionError):
            self.strategy.run(lambda: None)

    def test_a_run_ends_by_its_timeout(self):
        def step():
            if context().replica_id_in_sync_group == 0:
                context().all_reduce("sum", 1)
            else:
                while not context().is_cancelled:
                    pass

        with self.assertRaises(TimeoutError):
            self.strategy.run(step, timeout=0.2)
        self.assertIsNone(self.strategy.run(lambda: None))


class VariableTest(unittest.TestCase):
    def setUp(self):
        self.strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    def variable(self, value, **options):
        with self.strategy.scope():
            return tutti.Variable(value, **options)

    def test_it_has_a_copy_per_replica(self):
        variable = self.variable(np.arange(3, dtype=np.float32), name="w")
        self.assertEqual(variable.copy_names, ("w", "w/replica_1"))
        self.assertEqual((variable.shape, variable.dtype), ((3,), np.float32))
        self.assertIs(variable.distribute_strategy, self.strategy)
        addresses = {c.__array_interface__["data"][0] for c in variable.copies()}
        self.assertEqual(len(addresses), 2)
        self.assertIn("MirroredVariable", repr(variable))
        self.assertIs(variable.trainable, True)

    def test_data_is_a_live_view_and_numpy_a_copy(self):
        variable = self.variable(np.zeros(3))
        view, copy = variable.data(), variable.numpy()
        variable.assign([1, 2, 3])
        self.assertEqual(view.tolist(), [1, 2, 3])
        self.assertEqual(copy.tolist(), [0, 0, 0])
        self.assertFalse(view.flags.writeable)
        del variable
        gc.collect()
        self.assertEqual(view.tolist(), [1, 2, 3])
        scalar = self.variable(2.0)
        live = scalar.data()
        scalar.assign_add(1)
        self.assertEqual(live, 3.0)
        self.assertIsInstance(scalar.numpy(), np.float32)

    def test_replicas_see_their_own_copy_without_a_copy_of_the_memory(self):
        variable = self.variable(np.zeros(3))
        result = self.strategy.run(lambda: variable.data().__array_interface__["data"][0])
        self.assertEqual([int(v) for v in self.strategy.local_results(result)],
                         [c.__array_interface__["data"][0] for c in variable.copies()])

    def test_writes_of_replicas_are_aggregated(self):
        for aggregation, wanted in (("sum", 3.0), ("mean", 1.5), ("only_first_replica", 1.0)):
            variable = self.variable(0.0, aggregation=aggregation)
            self.strategy.run(
                lambda: variable.assign_add(1.0 + context().replica_id_in_sync_group) and None)
            self.assertEqual(variable.numpy(), wanted)
            self.assertEqual([float(c) for c in variable.copies()], [wanted, wanted])

    def test_a_write_of_replicas_without_aggregation_is_a_value_error(self):
        variable = self.variable(0.0)
        with self.assertRaises(ValueError):
            self.strategy.run(lambda: variable.assign(1.0) and None)

    def test_on_read_variables_aggregate_when_they_are_read(self):
        variable = self.variable(0.0, synchronization="on_read", aggregation="sum")
        self.strategy.run(
            lambda: variable.assign_add(1.0 + context().replica_id_in_sync_group) and None)
        self.assertEqual(variable.numpy(), 3.0)
        self.assertEqual([float(c) for c in variable.copies()], [1.0, 2.0])
        self.assertIs(variable.trainable, False)
        with self.assertRaises(ValueError):
            variable.assign_add(1.0)

    def test_a_wrong_dtype_or_shape_is_an_error_that_names_both(self):
        variable = self.variable(np.zeros(3, np.float32))
        with self.assertRaisesRegex(errors.InvalidArgumentError, "float64") as caught:
            variable.assign(np.zeros(3))
        self.assertIsInstance(caught.exception, ValueError)
        self.assertIsInstance(caught.exception, TypeError)
        with self.assertRaisesRegex(ValueError, r"\[2\]"):
            variable.assign(np.zeros(2, np.float32))

    def test_it_can_be_made_outside_of_every_scope(self):
        variable = tutti.Variable(lambda: [1.0, 2.0], dtype=np.float32)
        variable.assign_sub([1.0, 1.0])
        self.assertEqual(variable.numpy().tolist(), [0.0, 1.0])
        self.assertEqual(np.asarray(variable).sum(), 1.0)

    def test_bfloat16_variables(self):
        variable = self.variable([1.0, 2.0], dtype="bfloat16", aggregation="sum")
        self.assertEqual(tutti.Tensor(variable.data()).cast(np.float32).numpy().tolist(),
                         [1.0, 2.0])

    def test_names_that_are_none_are_value_errors(self):
        with self.assertRaisesRegex(ValueError, "'on_read'"):
            self.variable(0.0, synchronization="sometimes")


class DistributedDatasetTest(unittest.TestCase):
    def setUp(self):
        self.strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1", "CPU:2"])

    def test_every_batch_is_cut_over_the_replicas(self):
        dataset = self.strategy.distribute_dataset(Dataset.range(9).batch(4))
        steps = [[v.tolist() for v in batch.values] for batch in dataset]
        self.assertEqual(steps, [[[0, 1], [2, 3], []], [[4, 5], [6, 7], []], [[8], [], []]])
        self.assertEqual(dataset.cardinality(), 3)
        spec = tutti.TensorSpec((None,), np.int64)
        self.assertEqual(dataset.element_spec, distribute.PerReplicaSpec(spec, spec, spec))

    def test_a_batch_tells_run_the_rows_of_the_step(self):
        dataset = self.strategy.distribute_dataset(
            Dataset.from_tensor_slices({"x": np.arange(9.0)}).batch(4))
        rows = []
        for batch in dataset:
            result = self.strategy.run(lambda b: (context().global_rows, len(b["x"])),
                                       args=(batch,))
            rows.append([tuple(int(v) for v in local)
                         for local in self.strategy.local_results(result)])
        self.assertEqual(rows, [[(4, 2), (4, 2), (4, 0)], [(4, 2), (4, 2), (4, 0)],
                                [(1, 1), (1, 0), (1, 0)]])

    def test_batches_are_views_on_the_runtimes_memory(self):
        dataset = self.strategy.distribute_dataset(Dataset.range(3000).batch(3000))
        batch = next(iter(dataset))
        seen = self.strategy.run(lambda b: b.__array_interface__["data"][0], args=(batch,))
        self.assertEqual([int(v) for v in self.strategy.local_results(seen)],
                         [v.__array_interface__["data"][0] for v in batch.values])
        self.assertFalse(batch.values[0].flags.writeable)

    def test_the_end_and_positions(self):
        dataset = self.strategy.experimental_distribute_dataset(Dataset.range(9).batch(3))
        iterator = iter(dataset)
        iterator.get_next()
        state = iterator.save()
        rest = [[v.tolist() for v in batch.values] for batch in iterator]
        again = iter(dataset)
        again.restore(state)
        self.assertEqual([[v.tolist() for v in batch.values] for batch in again], rest)
        with self.assertRaises(errors.OutOfRangeError):
            again.get_next()
        self.assertFalse(again.get_next_as_optional().has_value())
        again.close()
        with self.assertRaises(errors.FailedPreconditionError):
            next(again)

    def test_elements_that_are_no_batches_are_a_value_error(self):
        with self.assertRaisesRegex(ValueError, "batch"):
            self.strategy.distribute_dataset(Dataset.range(3))
        with self.assertRaises(TypeError):
            self.strategy.distribute_dataset([1, 2])

    def test_datasets_from_a_function(self):
        contexts = []

        def make(given):
            contexts.append(given)
            self.assertTrue(distribute.in_cross_replica_context())
            return Dataset.range(6).batch(given.get_per_replica_batch_size(3))

        dataset = self.strategy.distribute_datasets_from_function(make)
        steps = [[v.tolist() for v in batch.values] for batch in dataset]
        self.assertEqual(steps, [[[0], [1], [2]], [[3], [4], [5]]])
        self.assertEqual((contexts[0].num_input_pipelines, contexts[0].input_pipeline_id,
                          contexts[0].num_replicas_in_sync), (1, 0, 3))
        with self.assertRaises(ValueError):
            contexts[0].get_per_replica_batch_size(4)


class OneReplicaTest(unittest.TestCase):
    """Strategies of one replica: their steps are plain, and know their rows all the same."""

    IMAGES = np.arange(28, dtype=np.float32).reshape(7, 4) % 5 / 8
    LABELS = np.array([1, 0, 1, 1, 0, 1, 0])
    NAMES = [b"a", b"bc", b"", b"d", b"a\0", b"f", b"g"]

    def setUp(self):
        self.strategies = [distribute.get_strategy(), distribute.OneDeviceStrategy("CPU:1"),
                           distribute.MirroredStrategy(["CPU:0"])]

    def digits(self):
        return Dataset.from_tensor_slices(
            {"image": self.IMAGES, "label": self.LABELS, "name": self.NAMES}).batch(4)

    def rows_of(self, strategy, *args, **kwargs):
        rows = strategy.run(lambda *_, **__: context().global_rows, args=args, kwargs=kwargs)
        return int(strategy.local_results(rows)[0])

    def test_steps_are_plain_arrays_of_the_spec_that_is_told(self):
        for strategy in self.strategies:
            with self.subTest(strategy):
                dataset = strategy.distribute_dataset(self.digits())
                spec = tutti.TensorSpec((None, 4), np.float32)
                self.assertEqual(dataset.element_spec["image"], spec)
                self.assertEqual(iter(dataset).element_spec["image"], spec)
                first, last = dataset
                self.assertIs(type(first["image"]), np.ndarray)
                self.assertEqual(first["image"].tolist(), self.IMAGES[:4].tolist())
                self.assertFalse(first["image"].flags.writeable)
                self.assertEqual(last["label"].tolist(), self.LABELS[4:].tolist())
                self.assertEqual(last["name"].tolist(), self.NAMES[4:])
                self.assertIs(type(next(iter(strategy.distribute_datasets_from_function(
                    lambda _: self.digits())))["label"]), np.ndarray)
                self.assertEqual(len(strategy.local_results(first)), 1)
                self.assertIsInstance(strategy.local_results(first)[0]["image"], np.ndarray)

    def test_the_rows_of_the_step_reach_the_replica_by_whatever_part_of_the_batch(self):
        for strategy in self.strategies:
            for ahead in True, False:
                with self.subTest(strategy, ahead=ahead):
                    options = distribute.InputOptions(prefetch_to_device=ahead)
                    batches = strategy.distribute_dataset(self.digits(), options)
                    for batch, rows in zip(batches, [4, 3]):
                        for args in [(batch,), (batch["image"],), (batch["name"],),
                                     (1, {"x": [batch["label"], None]}, "text"),
                                     (batch["image"] / 2, batch["label"]),
                                     (np.ones(9), (batch["image"], batch["label"]))]:
                            self.assertEqual(self.rows_of(strategy, *args), rows)
                        self.assertEqual(self.rows_of(strategy, images=batch["image"]), rows)

    def test_optionals_and_restored_positions_know_their_rows(self):
        for strategy in self.strategies:
            dataset = strategy.distribute_dataset(Dataset.range(7).batch(4))
            steps = iter(dataset)
            self.assertEqual(self.rows_of(strategy, steps.get_next_as_optional().get_value()), 4)
            again = iter(dataset)
            again.restore(steps.save())
            for walk in steps, again:
                step = walk.get_next_as_optional()
                self.assertEqual(step.get_value().tolist(), [4, 5, 6])
                self.assertEqual(self.rows_of(strategy, step.get_value()), 3)
                self.assertFalse(walk.get_next_as_optional())

    def test_elements_that_are_numbers_know_their_rows(self):
        strategy = self.strategies[0]
        numbers = list(strategy.distribute_datasets_from_function(lambda _: Dataset.range(2)))
        self.assertEqual([int(number) for number in numbers], [0, 1])
        self.assertEqual([self.rows_of(strategy, number) for number in numbers], [1, 1])
        self.assertEqual(int(strategy.run(lambda x: x + 1, args=(numbers[1],))), 2)
        words = strategy.distribute_datasets_from_function(
            lambda _: Dataset.from_tensor_slices([b"word"]))
        for word in words:
            self.assertEqual((word, self.rows_of(strategy, word)), (b"word", -1))

    def test_what_is_made_of_a_batch_has_no_rows(self):
        for strategy in self.strategies:
            with self.subTest(strategy):
                first, last = strategy.distribute_dataset(self.digits())
                image, name = first["image"], first["name"]
                self.assertEqual(self.rows_of(strategy, first, last), -1)
                for made in [image + 0, image[:], image[:2], image.copy(), image.T, name[:],
                             image.view(np.int32), strategy.run(lambda x: x, args=(image,)),
                             strategy.reduce("sum", image), strategy.gather(image, axis=0)]:
                    self.assertEqual(self.rows_of(strategy, made), -1)
                two = distribute.MirroredStrategy(["CPU:0", "CPU:1"])
                self.assertEqual(self.rows_of(two, image), -1)
                again = next(iter(Dataset.from_tensors(first)))
                self.assertEqual(self.rows_of(strategy, again), -1)

    def test_an_array_that_was_altered_in_place_is_what_it_says_now(self):
        strategy = self.strategies[0]
        first, last = strategy.distribute_dataset(self.digits())
        with self.assertRaises(ValueError):
            first["image"][0] = 0
        with self.assertRaises(ValueError):
            first["image"].flags.writeable = True
        first["name"][1] = b"altered"
        last["name"].shape = (3, 1)
        self.assertEqual(strategy.run(lambda x: x[1], args=(first["name"],)), b"altered")
        self.assertEqual(self.rows_of(strategy, first["name"]), -1)
        self.assertEqual(strategy.run(lambda x: x.shape, args=(last["name"],)), (3, 1))
        self.assertEqual(self.rows_of(strategy, last["name"]), -1)

    def test_reduce_and_gather_take_plain_values(self):
        for strategy in self.strategies:
            first, _ = strategy.distribute_dataset(self.digits())
            losses = strategy.run(lambda b: b["image"].sum(axis=1), args=(first,))
            self.assertEqual(strategy.reduce("mean", losses, axis=0), losses.mean())
            self.assertEqual(strategy.reduce("sum", first["label"]).tolist(), [1, 0, 1, 1])
            self.assertEqual(strategy.gather(first, axis=0)["label"].tolist(), [1, 0, 1, 1])

    def test_training_gives_the_same_bits_with_and_without_a_strategy(self):
        def gradient(weights, image, label, rows):
            return np.float32(0.5 / rows) * ((image @ weights - label) @ image).astype(np.float32)

        expected = np.zeros(4, np.float32)
        for batch in self.digits():
            expected -= gradient(expected, batch["image"], batch["label"], len(batch["label"]))
        for strategy in self.strategies:
            outside = contextlib.nullcontext()  # the default strategy has no scope
            with outside if strategy is self.strategies[0] else strategy.scope():
                variable = tutti.Variable(np.zeros(4, np.float32), aggregation="sum")

            def step(image, label):
                variable.assign_sub(
                    gradient(variable.numpy(), image, label, context().global_rows))

            for batch in strategy.distribute_dataset(self.digits()):
                strategy.run(step, args=(batch["image"], batch["label"]))
            self.assertEqual(variable.numpy().tobytes(), expected.tobytes(), strategy)


class CommunicatorTest(unittest.TestCase):
    def on_all(self, size, work):
        """Runs work(communicator) on a thread per rank; the results in order."""
        import concurrent.futures

        communicators = tutti.Communicator.create_local(size)
        with concurrent.futures.ThreadPoolExecutor(size) as pool:
            return [f.result(60) for f in [pool.submit(work, c) for c in communicators]]

    def test_collectives(self):
        def work(communicator):
            rank = communicator.rank
            total = communicator.all_reduce(np.full(4, rank, np.int32), "sum")
            shared = communicator.broadcast(np.full(2, float(rank)), root=1)
            gathered = communicator.all_gather(np.full(rank, rank))
            communicator.barrier()
            return total.tolist(), shared.tolist(), gathered.tolist()

        for result in self.on_all(3, work):
            self.assertEqual(result, ([3] * 4, [1.0, 1.0], [1, 2, 2]))

    def test_an_array_is_reduced_in_place(self):
        def work(communicator):
            array = np.ones(3)
            self.assertIs(communicator.all_reduce(array, out=array), array)
            return array.tolist()

        self.assertEqual(self.on_all(2, work), [[2.0] * 3] * 2)

    def test_what_cannot_be_written_is_refused(self):
        communicator, = tutti.Communicator.create_local(1)
        array = np.zeros(3)
        array.flags.writeable = False
        with self.assertRaises(ValueError):
            communicator.broadcast(array)
        with self.assertRaises(TypeError):
            communicator.broadcast([1, 2])

    def test_a_wait_ends_by_its_timeout_and_by_an_abort(self):
        first, second = tutti.Communicator.create_local(2)
        with self.assertRaises(TimeoutError):
            first.barrier(timeout=0.01)
        first, second = tutti.Communicator.create_local(2)
        second.abort("enough")
        with self.assertRaisesRegex(errors.AbortedError, "enough"):
            first.barrier()


class FutureTest(unittest.TestCase):
    def test_it_gives_a_value_or_an_error(self):
        future = tutti.Future()
        self.assertFalse(future.done())
        with self.assertRaises(TimeoutError):
            future.wait(timeout=0)
        future.set_result({"a": np.arange(3)})
        self.assertEqual(future.result()["a"].tolist(), [0, 1, 2])
        with self.assertRaises(errors.FailedPreconditionError):
            future.set_result(1)
        failed = tutti.Future()
        error = KeyError("mine")
        failed.set_exception(error)
        with self.assertRaises(KeyError) as caught:
            failed.result()
        self.assertIs(caught.exception, error)


class DeviceTest(unittest.TestCase):
    def test_names_are_parsed_and_merged(self):
        spec = tutti.DeviceSpec.from_string("/job:worker/task:1/device:gpu:0")
        self.assertEqual((spec.job, spec.replica, spec.task, spec.device_type, spec.device_index),
                         ("worker", None, 1, "GPU", 0))
        self.assertEqual(str(spec.merge("/job:ps")), "/job:ps/task:1/device:GPU:0")
        self.assertEqual(spec.replace(task=None).to_string(), "/job:worker/device:GPU:0")
        self.assertEqual({spec: 1}[tutti.DeviceSpec("worker", None, 1, "GPU", 0)], 1)
        with self.assertRaises(ValueError):
            tutti.DeviceSpec.from_string("/device:")

    def test_scopes_nest(self):
        self.assertIsNone(tutti.current_device())
        with tutti.device("/job:ps"):
            with tutti.device("/device:CPU:1") as inner:
                self.assertEqual(inner.to_string(), "/job:ps/device:CPU:1")
            with tutti.device(None):
                self.assertIsNone(tutti.current_device())
        self.assertIsNone(tutti.current_device())
        self.assertIn("CPU:0", " ".join(tutti.config.list_devices("CPU")))
        self.assertEqual(tutti.config.describe_device("CPU:0")["type"], "CPU")
        with self.assertRaisesRegex(tutti.errors.NotFoundError, "no GPU:99"):
            tutti.config.describe_device("GPU:99")
        self.assertEqual(tutti.config.describe_plugins()[0]["name"], "cuda")


if __name__ == "__main__":
    unittest.main()
