"""Values and variables of a strategy: what they are, how they are read, sparse updates."""

import operator
import os
import tempfile
import unittest

import numpy as np

import tutti
from tutti import IndexedSlices, _specs, distribute, errors


def context():
    return distribute.get_replica_context()


def two_replicas():
    return distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def make(strategy, *args, **kwargs):
    with strategy.scope():
        return tutti.Variable(*args, **kwargs)


class MirroredTest(unittest.TestCase):
    def setUp(self):
        self.strategy = two_replicas()

    def test_types_tell_what_is_equal_from_what_differs(self):
        mirrored = self.strategy.mirrored({"a": np.float32(2), "b": [np.arange(3)]})
        differs = self.strategy.run(lambda: context().replica_id_in_sync_group)
        self.assertIsInstance(mirrored["a"], distribute.Mirrored)
        self.assertIsInstance(mirrored["a"], distribute.DistributedValues)
        self.assertNotIsInstance(mirrored["a"], distribute.PerReplica)
        self.assertIsInstance(differs, distribute.PerReplica)
        self.assertIsInstance(differs, distribute.DistributedValues)
        self.assertEqual(repr(mirrored["b"][0]), "Mirrored:{0: [0 1 2], 1: [0 1 2]}")
        self.assertEqual(repr(differs), "PerReplica:{0: 0, 1: 1}")
        self.assertEqual(len(self.strategy.local_results(mirrored["a"])), 2)
        self.assertEqual(mirrored["a"].values, (2, 2))
        for cls in (distribute.DistributedValues, distribute.Mirrored, distribute.PerReplica):
            with self.assertRaisesRegex(TypeError, "strategy.run"):
                cls((1, 2))

    def test_what_is_equal_is_read_as_the_value(self):
        value = self.strategy.mirrored(np.float32(2.5))
        self.assertEqual((float(value), int(value), complex(value)), (2.5, 2, 2.5))
        self.assertEqual(value.numpy(), np.float32(2.5))
        self.assertEqual((value.dtype, value.shape), (np.float32, ()))
        vector = self.strategy.mirrored(np.array([1, 2, 3], np.int32))
        np.testing.assert_array_equal(np.asarray(vector), [1, 2, 3])
        self.assertEqual(np.sum(vector), 6)
        np.testing.assert_array_equal(vector + value, np.float32([3.5, 4.5, 5.5]))
        self.assertEqual(self.strategy.run(float, args=(value,)).values, (2.5, 2.5))

    def test_reduce_knows_that_they_are_equal(self):
        value = distribute.MirroredStrategy([f"CPU:{i}" for i in range(3)]).mirrored(
            np.float32(0.1))
        three = distribute.MirroredStrategy([f"CPU:{i}" for i in range(3)])
        self.assertEqual(three.reduce("mean", value), np.float32(0.1))
        self.assertAlmostEqual(float(three.reduce("sum", value)), 0.3, places=6)
        with self.assertRaisesRegex(ValueError, "3 components"):
            self.strategy.reduce("sum", value)
        with self.assertRaisesRegex(ValueError, "component per replica already"):
            self.strategy.mirrored(self.strategy.mirrored(1.0))


class VariableTest(unittest.TestCase):
    def setUp(self):
        self.strategy = two_replicas()

    def test_a_variable_of_a_scope_is_a_distributed_value(self):
        mirrored = make(self.strategy, 1.0)
        on_read = make(self.strategy, 1.0, synchronization="on_read", aggregation="sum")
        plain = tutti.Variable(1.0)
        self.assertIsInstance(mirrored, distribute.DistributedValues)
        self.assertIsInstance(mirrored, distribute.MirroredVariable)
        self.assertIsInstance(on_read, distribute.SyncOnReadVariable)
        self.assertNotIsInstance(on_read, distribute.MirroredVariable)
        self.assertNotIsInstance(plain, distribute.DistributedValues)
        for variable in (mirrored, on_read, plain):
            self.assertIsInstance(variable, tutti.Variable)
        self.assertEqual(mirrored.values, (1.0, 1.0))
        self.assertEqual(mirrored.dtype, np.float32)

    def test_it_says_where_it_is_placed(self):
        variable = make(self.strategy, 1.0)
        place = "/job:localhost/replica:0/task:0/device:CPU:"
        self.assertEqual(variable.device, place + "0")
        self.assertEqual(variable.copy_devices, (place + "0", place + "1"))
        self.assertEqual([str(text) for text in self.strategy.local_results(
            self.strategy.run(lambda: variable.device))], [place + "0", place + "1"])
        self.assertEqual(tutti.Variable(1.0).device, place + "0")

    def test_a_mirrored_value_has_the_spec_of_its_components(self):
        mirrored = self.strategy.mirrored(np.float32([1, 2]))
        spec = tutti.TensorSpec((2,), np.float32)
        self.assertEqual(tutti.TensorSpec.from_value(mirrored), spec)
        self.assertEqual(_specs.spec_of(mirrored), distribute.PerReplicaSpec(spec, spec))
        with self.assertRaisesRegex(TypeError, "PerReplicaSpec"):
            tutti.TensorSpec.from_value(self.strategy.per_replica([1., 2.]))

    def test_the_initial_value_fits_the_shape(self):
        variable = tutti.Variable(np.zeros((3, 2)), shape=(None, 2))
        self.assertEqual(variable.shape, (None, 2))
        self.assertEqual(tutti.Variable(1.0, shape=()).shape, ())
        with self.assertRaisesRegex(ValueError, r"\[3\].*\[\?,2\]"):
            tutti.Variable(np.zeros(3), shape=(None, 2))
        with self.assertRaisesRegex(ValueError, r"\[1\].*\[\]"):
            tutti.Variable([1.0], shape=())
        with self.assertRaisesRegex(ValueError, "keeps the shape of its initial value"):
            variable.assign(np.zeros((4, 3)))

    def test_a_shape_that_leaves_sizes_open_lets_assignments_change_them(self):
        class AnyShape:  # like TensorShape(None)
            rank = None

        with tempfile.TemporaryDirectory() as folder, self.strategy.scope():
            rows = tutti.Variable(np.float32([[1, 2]]), shape=(None, 2), aggregation="sum",
                                  name="r")
            any_of_them = [tutti.Variable(np.float32([1]), shape=shape, aggregation="mean",
                                          name="a") for shape in (..., AnyShape())]
            fixed = make(self.strategy, 1.0)
            self.assertEqual([v.shape for v in any_of_them], [None, None])
            rows.assign(np.float32([[1, 2], [3, 4]]))
            rows.assign_add(np.float32([[1, 1], [1, 1]]))
            rows.scatter_sub(tutti.IndexedSlices(np.float32([[1, 1]]), [1]))
            self.assertEqual(rows.numpy().tolist(), [[2, 3], [3, 4]])
            self.assertEqual([value.tolist() for value in rows.values], [[[2, 3], [3, 4]]] * 2)
            with self.assertRaisesRegex(ValueError, r"shape \[2,2\], the tensor has \[1,2\]"):
                rows.assign_add(np.float32([[1, 1]]))
            with self.assertRaisesRegex(ValueError, r"shape \[\?,2\], the tensor \[1,3\]"):
                rows.assign(np.zeros((1, 3), np.float32))
            with self.assertRaisesRegex(ValueError, "changing shapes"):
                rows.data()
            checkpoint = tutti.train.Checkpoint(rows=rows, any=any_of_them[0])
            any_of_them[0].assign(np.float32([[7, 8, 9]]))
            path = checkpoint.save(os.path.join(folder, "ckpt"))
            rows.assign(np.zeros((0, 2), np.float32))
            any_of_them[0].assign(np.float32(0))
            self.assertEqual((rows.numpy().shape, any_of_them[0].numpy().shape), ((0, 2), ()))
            checkpoint.restore(path)
            self.assertEqual(rows.numpy().tolist(), [[2, 3], [3, 4]])
            self.assertEqual(any_of_them[0].numpy().tolist(), [[7, 8, 9]])
            self.assertEqual(fixed.shape, ())

        def step():
            count = 1 + distribute.get_replica_context().num_replicas_in_sync
            rows.assign(np.ones((count, 2), np.float32))
            return rows.numpy().sum()

        self.assertEqual([float(x) for x in self.strategy.local_results(self.strategy.run(step))],
                         [12, 12])

        def uneven():
            rows.assign(np.ones((1 + distribute.get_replica_context().replica_id_in_sync_group, 2),
                                np.float32))

        with self.assertRaisesRegex(ValueError, r"\[1,2\].*\[2,2\]"):
            self.strategy.run(uneven)

        def made_differently():
            replica = distribute.get_replica_context().replica_id_in_sync_group
            tutti.Variable(np.float32([[1, 2]]), shape=(None, 2) if replica else (1, None))

        with self.assertRaisesRegex(ValueError, r"replica 0 .*\[1,\?\].*replica 1 .*\[\?,2\]"):
            self.strategy.run(made_differently)

    def test_a_write_gives_the_variable_unless_nobody_reads_it(self):
        variable = make(self.strategy, 1.0)
        for write in (variable.assign, variable.assign_add, variable.assign_sub):
            self.assertIs(write(2.0), variable)
            self.assertIsNone(write(2.0, read_value=False))
        self.assertIs(variable.assign(3.0, False, "name", True), variable)

    def test_byte_strings(self):
        names = make(self.strategy, ["a", b"bc"], aggregation="only_first_replica", name="names")
        self.assertIs(names.dtype, bytes)
        self.assertEqual(names.numpy().tolist(), [b"a", b"bc"])
        names.assign([b"longer than before", "\u00e9"])
        self.assertEqual([value.tolist() for value in names.values],
                         [[b"longer than before", "\u00e9".encode()]] * 2)
        self.strategy.run(lambda: names.assign(["x", str(context().replica_id_in_sync_group)]))
        self.assertEqual(names.numpy().tolist(), [b"x", b"0"])
        self.assertEqual((names == np.array([b"x", b"1"], object)).tolist(), [True, False])
        with self.assertRaisesRegex(ValueError, "assign_add.*assigned only"):
            names.assign_add(["x", "y"])
        with self.assertRaisesRegex(ValueError, "byte strings"):
            names.data()
        self.assertEqual(tutti.Variable("text").numpy(), b"text")
        with tempfile.TemporaryDirectory() as folder:
            path = tutti.train.Checkpoint(names=names).save(folder + "/checkpoint")
            names.assign(["", ""])
            tutti.train.Checkpoint(names=names).restore(path)
        self.assertEqual(names.numpy().tolist(), [b"x", b"0"])

    def test_an_on_read_sum_is_saved_as_the_sum_and_restored_in_parts(self):
        total = make(self.strategy, 0.0, synchronization="on_read", aggregation="sum")
        self.strategy.run(
            lambda: total.assign_add(float(context().replica_id_in_sync_group + 1)))
        with tempfile.TemporaryDirectory() as folder:
            path = tutti.train.Checkpoint(total=total).save(folder + "/checkpoint")
            total.assign(0.0)
            tutti.train.Checkpoint(total=total).restore(path)
        self.assertEqual(total.values, (1.5, 1.5))
        self.assertEqual(float(total), 3.0)

    def test_replicas_make_one_variable_together(self):
        seen = []

        def step():
            variable = tutti.Variable(lambda: 5.0 + context().replica_id_in_sync_group,
                                      aggregation="sum", name="made")
            seen.append(variable)
            variable.assign_add(1.0)
            return variable

        made = self.strategy.run(step)
        self.assertIsInstance(made, distribute.MirroredVariable)
        self.assertTrue(len(seen) == 2 and all(variable is made for variable in seen))
        self.assertEqual(made.values, (7.0, 7.0))
        self.assertIs(made.distribute_strategy, self.strategy)

    def test_unequal_variables_of_replicas_are_an_error_that_names_both(self):
        def step(**by_replica):
            tutti.Variable(**{name: values[context().replica_id_in_sync_group]
                              for name, values in by_replica.items()})

        one = [1.0, 1.0]
        self.strategy.run(step, kwargs={"initial_value": one})
        for differs, words in (
                ({"initial_value": [1.0, 1]}, "replica 0 makes .* float32.*replica 1 .* int32"),
                ({"initial_value": [[1.0], 1.0]}, r"float32\[1\].*float32\[\]"),
                ({"initial_value": one, "name": ["v", "w"]}, "'v'.*'w'"),
                ({"initial_value": one, "aggregation": ["sum", "mean"]}, "SUM.*MEAN")):
            with self.assertRaisesRegex(errors.InvalidArgumentError, words):
                self.strategy.run(step, kwargs=differs)
        one_device = distribute.OneDeviceStrategy("CPU:0")
        self.assertEqual(one_device.run(lambda: float(tutti.Variable(2.0))), 2.0)


class ArithmeticTest(unittest.TestCase):
    def setUp(self):
        self.strategy = two_replicas()
        self.variable = make(self.strategy, np.array([4, 9], np.float32), aggregation="mean")

    def check_operators(self, value):
        plain = np.array([4, 9], np.float32)
        for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "eq",
                     "ne", "gt", "ge"):
            apply = getattr(operator, name)
            for other in (2, 2.5, np.array([1, 9], np.float32), np.float32(3)):
                for found, expected in ((apply(value, other), apply(plain, other)),
                                        (apply(other, value), apply(other, plain))):
                    np.testing.assert_array_equal(found, expected, name)
                    self.assertEqual(found.dtype, expected.dtype, name)
        self.assertEqual(value @ np.ones(2, np.float32), 13)
        self.assertEqual(np.ones(2, np.float32) @ value, 13)
        np.testing.assert_array_equal(-value, -plain)
        np.testing.assert_array_equal(abs(value), plain)
        np.testing.assert_array_equal(np.sqrt(value), [2, 3])
        np.testing.assert_array_equal(np.concatenate([value, value]), [4, 9, 4, 9])
        self.assertEqual(np.mean(value), 6.5)
        self.assertEqual((value[1], len(value), list(value)), (9, 2, [4, 9]))
        np.testing.assert_array_equal(value[::-1], [9, 4])

    def test_variables_and_mirrored_values_are_operands(self):
        self.check_operators(self.variable)
        self.check_operators(self.strategy.mirrored(np.array([4, 9], np.float32)))
        self.check_operators(tutti.Variable(np.array([4, 9], np.float32)))
        failures = []

        def step():
            try:
                self.check_operators(self.variable)
            except BaseException as failure:  # pylint: disable=broad-except
                failures.append(failure)

        self.strategy.run(step)
        self.assertEqual(failures, [])
        self.assertEqual((self.variable * self.variable).tolist(), [16, 81])

    def test_numbers_of_python_take_the_dtype_beside_them(self):
        scalar = tutti.Variable(1.5)
        for result in (scalar + 1, scalar * 2.5, 1 / scalar, scalar ** 2):
            self.assertEqual(result.dtype, np.float32)
        self.assertEqual((tutti.Variable(2) + 3).dtype, np.int32)
        self.assertTrue(tutti.Variable(0.1) == 0.1)

    def test_equality_is_of_elements_and_the_hash_of_the_object(self):
        variable, twin = self.variable, make(self.strategy, np.array([4, 1], np.float32))
        self.assertEqual((variable == twin).tolist(), [True, False])
        self.assertEqual((variable != twin).tolist(), [False, True])
        self.assertEqual({variable: 1, twin: 2}[variable], 1)
        self.assertIn(9, variable)
        self.assertNotIn(5, variable)
        with self.assertRaises(ValueError):
            variable in [twin]  # pylint: disable=pointless-statement

    def test_what_asks_for_one_number_needs_one(self):
        one = tutti.Variable([3])
        self.assertEqual((int(one), float(one), bool(one), [5, 6, 7, 8][one]), (3, 3.0, True, 8))
        for ask in (int, float, bool):
            with self.assertRaises(ValueError):
                ask(self.variable)
        with self.assertRaises(TypeError):
            len(tutti.Variable(1.0))

    def test_nothing_is_changed_in_place(self):
        with self.assertRaisesRegex(NotImplementedError, "assign_add"):
            self.variable += 1
        with self.assertRaisesRegex(RuntimeError, "assign_add"):
            self.variable *= 2
        with self.assertRaisesRegex(TypeError, "cannot write into a MirroredVariable"):
            np.add(1, 2, out=self.variable)
        with self.assertRaisesRegex(TypeError, "cannot write into"):
            np.add.at(self.variable, [0], 1)
        self.assertEqual(self.variable.numpy().tolist(), [4, 9])

    def test_an_on_read_variable_is_aggregated_outside_and_its_own_copy_inside(self):
        total = make(self.strategy, 1.0, synchronization="on_read", aggregation="sum")
        self.assertEqual(total + 1, 3)
        self.assertEqual(self.strategy.run(lambda: total + 1).values, (2, 2))


class SparseUpdateTest(unittest.TestCase):
    def setUp(self):
        self.strategy = two_replicas()

    def table(self, **kwargs):
        return make(self.strategy, np.array([[1, 2], [3, 4], [5, 6]], np.float32), **kwargs)

    def test_rows_are_changed_by_their_index(self):
        slices = IndexedSlices(np.array([[10, 20], [2, 4], [4, 8]], np.float32), [2, 0, 2])
        for name, expected in (("add", [[3, 6], [3, 4], [19, 34]]),
                               ("sub", [[-1, -2], [3, 4], [-9, -22]]),
                               ("update", [[2, 4], [3, 4], [4, 8]]),
                               ("min", [[1, 2], [3, 4], [4, 6]]),
                               ("max", [[2, 4], [3, 4], [10, 20]]),
                               ("mul", [[2, 8], [3, 4], [200, 960]]),
                               ("div", [[.5, .5], [3, 4], [.125, .0375]])):
            table = self.table()
            self.assertIs(getattr(table, "scatter_" + name)(slices), table)
            for copy in table.copies():
                np.testing.assert_allclose(copy, expected, 1e-6, err_msg=name)

    def test_replicas_slices_meet(self):
        def step(table, name):
            number = context().replica_id_in_sync_group
            getattr(table, name)(
                IndexedSlices(np.full((1, 2), number + 1, np.float32), [number]))

        for aggregation, name, expected in (
                ("sum", "scatter_add", [[2, 3], [5, 6], [5, 6]]),
                ("mean", "scatter_sub", [[.5, 1.5], [2, 3], [5, 6]]),
                ("only_first_replica", "scatter_update", [[1, 1], [3, 4], [5, 6]])):
            table = self.table(aggregation=aggregation)
            self.strategy.run(step, args=(table, name))
            np.testing.assert_array_equal(table.numpy(), expected)
        with self.assertRaisesRegex(NotImplementedError, "scatter_max.*aggregation SUM"):
            self.strategy.run(step, args=(self.table(aggregation="sum"), "scatter_max"))
        with self.assertRaisesRegex(ValueError, "aggregation NONE"):
            self.strategy.run(step, args=(self.table(), "scatter_add"))

    def test_what_does_not_fit_is_named_and_writes_nothing(self):
        table = self.table(name="table")
        row = np.ones((2, 2), np.float32)
        for slices, words in ((IndexedSlices(row, [0, 3]), "'table': index 3 .* 3 rows"),
                              (IndexedSlices(row, [0, -1]), "'table': index -1 "),
                              (IndexedSlices(row[:, :1], [0, 1]), r"float32\[2,1\].*no rows"),
                              (IndexedSlices(row.astype(int), [0, 1]), "int64, and float32")):
            with self.assertRaisesRegex(errors.InvalidArgumentError, words):
                table.scatter_add(slices)
        with self.assertRaisesRegex(TypeError, "sparse_delta.*IndexedSlices"):
            table.scatter_add(row)
        with self.assertRaisesRegex(ValueError, "one row of values for each index"):
            IndexedSlices(row, [0])
        with self.assertRaisesRegex(ValueError, "index 5 of indexed slices is outside"):
            IndexedSlices(row, [0, 5], [3, 2])
        with self.assertRaisesRegex(TypeError, "integers"):
            IndexedSlices(row, [0.5, 1])
        np.testing.assert_array_equal(table.numpy(), [[1, 2], [3, 4], [5, 6]])

    def test_slices_of_replicas_are_joined(self):
        def step(op):
            number = context().replica_id_in_sync_group
            mine = IndexedSlices(np.full((number + 1, 2), 2, np.float32), np.arange(number + 1),
                                 [3, 2])
            total, dense = context().all_reduce(op, (mine, float(number)))
            self.assertIsInstance(total, IndexedSlices)
            return total.indices, total.values[:, 0], dense, mine

        for op, row, dense in (("sum", 2, 1), ("mean", 1, .5)):
            indices, values, scalar, each = self.strategy.run(step, args=(op,))
            for i in range(2):
                self.assertEqual(indices.values[i].tolist(), [0, 0, 1])
                self.assertEqual(values.values[i].tolist(), [row] * 3)
                self.assertEqual(scalar.values[i], dense)
            joined = self.strategy.reduce(op, each)
            self.assertEqual(joined.indices.tolist(), [0, 0, 1])
            self.assertEqual(joined.values.tolist(), [[row] * 2] * 3)
            self.assertEqual(joined.dense_shape.tolist(), [3, 2])
        with self.assertRaisesRegex(ValueError, "SUM and a MEAN"):
            self.strategy.run(step, args=("max",))
        with self.assertRaisesRegex(ValueError, "gather: indexed slices are not taken"):
            self.strategy.gather(each, 0)
        self.assertEqual(repr(IndexedSlices([[1, 2]], [4])),
                         "IndexedSlices(values=[[1, 2]], indices=[4], dense_shape=None)")

    def test_they_are_parts_of_a_datasets_elements(self):
        slices = IndexedSlices(np.ones((2, 2), np.float32), [4, 1])
        element, = tutti.data.Dataset.from_tensors({"gradient": slices})
        self.assertIsInstance(element["gradient"], IndexedSlices)
        self.assertEqual(element["gradient"].indices.tolist(), [4, 1])


class DocumentedTest(unittest.TestCase):
    """The examples of the documentation's pages on DistributedValues and MirroredStrategy."""

    def setUp(self):
        self.strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    def test_distributed_values(self):
        strategy = self.strategy
        dataset = tutti.data.Dataset.from_tensor_slices([5., 6., 7., 8.]).batch(2)
        distributed_values = next(iter(strategy.experimental_distribute_dataset(dataset)))
        self.assertIsInstance(distributed_values, distribute.DistributedValues)

        def replica_id():
            return distribute.get_replica_context().replica_id_in_sync_group

        self.assertEqual(repr(strategy.run(replica_id)), "PerReplica:{0: 0, 1: 1}")
        updated_value = strategy.run(lambda given: given + 1.0, args=(distributed_values,))
        self.assertEqual(repr(updated_value), "PerReplica:{0: [6], 1: [7]}")
        reduced_value = strategy.reduce(distribute.ReduceOp.SUM, distributed_values, axis=0)
        self.assertEqual(reduced_value, 11.0)
        per_replica_values = strategy.experimental_local_results(distributed_values)
        self.assertEqual([(part.shape, part.dtype, part.tolist()) for part in per_replica_values],
                         [((1,), np.float32, [5.]), ((1,), np.float32, [6.])])

    def test_variables_of_a_mirrored_strategy(self):
        with self.strategy.scope():
            x = tutti.Variable(1.)
        self.assertEqual(repr(x), "MirroredVariable:{0: <Variable 'Variable' float32[] 1>, "
                                  "1: <Variable 'Variable/replica_1' float32[] 1>}")
        made = []

        def create_variable():
            if not made:
                made.append(tutti.Variable(1.))
            return made[0]

        with self.strategy.scope():
            _ = create_variable()
        self.assertIsInstance(made[0], distribute.MirroredVariable)

    def test_an_epoch_of_a_mirrored_strategy(self):
        with self.strategy.scope():
            def distribute_train_epoch(dataset):
                total_result = 0
                for x in dataset:
                    per_replica_result = self.strategy.run(np.sum, args=(x,))
                    total_result += self.strategy.reduce(distribute.ReduceOp.SUM,
                                                         per_replica_result, axis=None)
                return total_result

            dist_dataset = self.strategy.experimental_distribute_dataset(
                tutti.data.Dataset.range(8).batch(4))
            self.assertEqual([distribute_train_epoch(dist_dataset) for _ in range(2)], [28, 28])


if __name__ == "__main__":
    unittest.main()
