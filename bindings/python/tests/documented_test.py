"""What the documentation of tf.data and tf.distribute shows and promises, as far as no other test
here tries it."""

import contextlib
import os
import pathlib
import sqlite3
import tempfile
import unittest
import warnings

import numpy as np

import tutti
from tutti import distribute
from tutti.data import Dataset, Options, TensorSpec, experimental


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

    def test_what_is_no_array_cannot_come_out_of_a_numpy_iterator(self):
        inner = Dataset.from_tensors((Dataset.range(3), 1))
        with self.assertRaisesRegex(TypeError, "tutti.data.Dataset"):
            list(inner.as_numpy_iterator())
        with self.assertRaisesRegex(TypeError, "tutti.data.Dataset"):
            inner.as_numpy_iterator().get_next()
        optional = Dataset.from_tensors(tutti.data.Optional.from_value(np.int64(1)))
        with self.assertRaisesRegex(TypeError, "Optional"):
            optional.as_numpy_iterator().next()
        self.assertEqual(len(list(inner)), 1)

    def test_a_length_that_is_not_known_is_a_runtime_error(self):
        unknown = Dataset.range(4).filter(lambda x: x > 1)
        for dataset, word in ((unknown, "unknown"), (Dataset.range(1).repeat(), "infinite")):
            for kind in (RuntimeError, TypeError):
                with self.assertRaisesRegex(kind, word):
                    len(dataset)
        self.assertEqual(list(unknown), [2, 3])
        self.assertEqual(len(Dataset.range(4)), 4)

    def test_wrong_structures_and_arguments_are_of_the_documented_classes(self):
        for other in (Dataset.from_tensor_slices(["a"]), Dataset.zip((Dataset.range(1),) * 2)):
            for kind in (TypeError, ValueError):
                with self.assertRaises(kind):
                    Dataset.range(3).concatenate(other)
        for kind in (TypeError, ValueError):
            with self.assertRaisesRegex(kind, "1 to 3 numbers"):
                Dataset.range()

    def test_a_dataset_says_how_many_elements_it_has(self):
        some = Dataset.range(3)
        self.assertEqual(repr(some), "<Dataset of 3 elements>")
        self.assertEqual(repr(some.take(1)), "<Dataset of 1 element>")
        self.assertEqual(repr(some.repeat()), "<Dataset of infinitely many elements>")
        self.assertEqual(repr(some.filter(lambda x: x > 1)),
                         "<Dataset of an unknown number of elements>")


class OptionalTest(unittest.TestCase):
    def test_an_optional_tells_the_spec_of_its_value(self):
        spec = TensorSpec((), np.int64)
        iterator = iter(Dataset.range(1))
        full, empty = iterator.get_next_as_optional(), iterator.get_next_as_optional()
        self.assertTrue(full.has_value() and not empty.has_value())
        self.assertEqual((full.element_spec, empty.element_spec), (spec, spec))
        self.assertEqual(tutti.data.Optional.empty(spec).element_spec, spec)
        self.assertEqual(tutti.data.Optional.empty(element_spec=spec).element_spec, spec)
        self.assertEqual(tutti.data.Optional.from_value((np.int64(3),)).element_spec, (spec,))
        self.assertIsNone(tutti.data.Optional.empty().element_spec)


class OptionsTest(unittest.TestCase):
    def test_options_are_set_through_a_dataset(self):
        dataset = Dataset.range(42)
        options = dataset.options()
        dataset.options().experimental_deterministic = False
        self.assertIs(dataset.options().experimental_deterministic, False)
        self.assertIs(options.deterministic, False)
        options.experimental_threading.private_threadpool_size = 2
        options.experimental_threading.private_threadpool_size = 3
        self.assertEqual(dataset.options().threading.private_threadpool_size, 3)
        dataset.options().experimental_deterministic = None
        self.assertIsNone(options.experimental_deterministic)
        self.assertEqual(list(dataset.take(2)), [0, 1])

    def test_options_are_set_by_with_options(self):
        options = Options()
        options.experimental_deterministic = False
        dataset = Dataset.range(42).with_options(options)
        self.assertIs(dataset.options().experimental_deterministic, False)

    def test_none_is_what_was_never_set(self):
        options = Options()
        for name, value in (("experimental_deterministic", False), ("experimental_slack", True),
                            ("experimental_external_state_policy",
                             experimental.ExternalStatePolicy.IGNORE)):
            setattr(options, name, value)
            self.assertEqual(getattr(options, name), value)
            self.assertNotEqual(options, Options())
            setattr(options, name, None)
            self.assertIsNone(getattr(options, name))
            self.assertEqual(options, Options())

    def test_equal_options_have_the_same_set(self):
        one, two = Options(), Options()
        self.assertTrue(one == two and not one != two)
        one.experimental_threading.max_intra_op_parallelism = 2
        self.assertTrue(one != two and not one == two)
        two.experimental_threading.max_intra_op_parallelism = 2
        self.assertEqual(one, two)
        self.assertNotEqual(one, "options")
        self.assertEqual(str(one), "threading.max_intra_op_parallelism=2")
        self.assertEqual(repr(one), "Options(threading.max_intra_op_parallelism=2)")
        with self.assertRaises(TypeError):
            hash(one)

    def test_groups_are_objects_of_their_own(self):
        threading = experimental.ThreadingOptions()
        threading.private_threadpool_size = 10
        options = Options()
        options.experimental_threading = threading
        self.assertIsInstance(options.experimental_threading, experimental.ThreadingOptions)
        self.assertEqual(options.experimental_threading, threading)
        self.assertNotEqual(threading, experimental.ThreadingOptions())
        self.assertEqual(options.threading.private_threadpool_size, 10)
        options.experimental_threading = experimental.ThreadingOptions()
        self.assertEqual(options, Options())
        optimization = experimental.OptimizationOptions()
        optimization.map_fusion = True
        optimization.autotune_cpu_budget = 4
        optimization.map_vectorization.enabled = True
        options.experimental_optimization = optimization
        self.assertIs(options.experimental_optimization.map_vectorization.enabled, True)
        self.assertIsNone(options.experimental_optimization.noop_elimination)
        self.assertEqual(repr(options.experimental_optimization),
                         "OptimizationOptions(map_fusion=True, map_vectorization.enabled=True, "
                         "autotune_cpu_budget=4)")
        with self.assertRaisesRegex(AttributeError, "ThreadingOptions"):
            options.experimental_threading = optimization

    def test_an_unknown_option_is_absent_and_cannot_be_set(self):
        options = Options()
        self.assertFalse(hasattr(options, "x"))
        self.assertFalse(hasattr(options.experimental_threading, "x"))
        for kind in (AttributeError, ValueError, tutti.errors.InvalidArgumentError):
            with self.assertRaisesRegex(kind, "did you mean 'experimental_deterministic'"):
                options.experimental_determinstic = False
            with self.assertRaisesRegex(kind, "did you mean 'experimental_deterministic'"):
                options.experimental_determinstic = None

    def test_datasets_are_mixed_by_choice_and_by_weight(self):
        few, many = Dataset.range(3), Dataset.range(10, 13)
        choices = Dataset.from_tensor_slices(np.array([0, 0, 0, 0, 1]))
        self.assertEqual(list(Dataset.choose_from_datasets([few, many], choices)), [0, 1, 2])
        self.assertEqual(list(experimental.choose_from_datasets([few, many], choices)),
                         [0, 1, 2, 10])
        mixed = Dataset.sample_from_datasets([few, many], seed=9, rerandomize_each_iteration=False)
        self.assertEqual(list(mixed), [10, 11, 0, 1, 12, 2])
        self.assertEqual(list(mixed), [10, 11, 0, 1, 12, 2])
        vectors = Dataset.from_tensor_slices(np.array([[1.0, 0], [0, 1], [1, 0]]))
        self.assertEqual(list(Dataset.sample_from_datasets([many, few], vectors)),
                         [10, 0, 11])
        self.assertEqual(list(experimental.sample_from_datasets([few, many], [0.0, 0.5])),
                         [10, 11, 12])
        with self.assertRaisesRegex(tutti.errors.InvalidArgumentError, "dataset 1 is -1"):
            Dataset.sample_from_datasets([few, many], [1, -1])
        with self.assertRaisesRegex(tutti.errors.InvalidArgumentError, "0 to 1, and gave 7"):
            list(Dataset.choose_from_datasets(
                [few, many], Dataset.from_tensor_slices(np.array([7]))))

    def test_sequences_are_batched_by_their_lengths(self):
        rows = Dataset.range(1, 6).map(lambda n: np.full(n, n),
                                       output_signature=TensorSpec((None,), np.int64))
        batches = rows.apply(experimental.bucket_by_sequence_length(
            lambda row: np.int64(len(row)), [3, 6], [2, 2, 1], padding_values=-1,
            pad_to_bucket_boundary=True))
        self.assertEqual([batch.tolist() for batch in batches],
                         [[[1, -1], [2, 2]], [[3, 3, 3, -1, -1], [4, 4, 4, 4, -1]],
                          [[5, 5, 5, 5, 5]]])
        self.assertEqual(batches.element_spec, TensorSpec((None, None), np.int64))
        with self.assertRaisesRegex(tutti.errors.InvalidArgumentError, "must increase"):
            rows.bucket_by_sequence_length(len, [3, 2], [1, 1, 1])

    def test_a_cardinality_can_be_asserted(self):
        kept = Dataset.range(9).filter(lambda n: n < 3)
        self.assertEqual(kept.apply(experimental.assert_cardinality(3)).cardinality(), 3)
        self.assertEqual(list(kept.assert_cardinality(3)), [0, 1, 2])
        with self.assertRaisesRegex(tutti.errors.FailedPreconditionError, "and there were 3"):
            list(kept.assert_cardinality(4))
        with self.assertRaisesRegex(tutti.errors.FailedPreconditionError, "there are more"):
            list(kept.assert_cardinality(2))

    def test_statistics_of_latency_are_kept_by_an_aggregator(self):
        aggregator = experimental.StatsAggregator()
        dataset = Dataset.range(5).apply(experimental.latency_stats("total_bytes"))
        options = Options()
        options.experimental_stats.aggregator = aggregator
        dataset = dataset.with_options(options)
        self.assertEqual((aggregator.counters(), aggregator.histograms()), ({}, {}))
        self.assertEqual(list(dataset), [0, 1, 2, 3, 4])
        self.assertEqual(aggregator.counters(),
                         {"total_bytes::elements": 5, "total_bytes::failures": 0})
        latency = aggregator.histograms()["total_bytes"]
        self.assertEqual((latency.count, sum(latency.counts)), (5, 5))
        self.assertEqual((len(latency.counts), latency.limits[-1]), (32, float("inf")))
        self.assertGreater(latency.sum, 0)
        # In nanoseconds: seconds are rounded.
        least, total, most = (round(s * 1e9) for s in (latency.min, latency.sum, latency.max))
        self.assertLessEqual(least * 5, total)
        self.assertLessEqual(total, most * 5)
        text = aggregator.to_prometheus()
        self.assertIn('tutti_dataset_latency_seconds_count{name="total_bytes"} 5\n', text)
        self.assertIn('tutti_dataset_total{name="total_bytes::elements"} 5\n', text)

    def test_all_edges_are_measured_where_the_option_says_so(self):
        aggregator = experimental.StatsAggregator()
        options = Options()
        options.experimental_stats.aggregator = aggregator
        options.experimental_stats.latency_all_edges = True
        options.experimental_stats.prefix = "train"
        options.experimental_stats.counter_prefix = "number"
        dataset = Dataset.range(6).map(lambda x: x + 1, name="plus").batch(2)
        self.assertEqual(len(list(dataset.with_options(options))), 3)
        self.assertEqual({name: one.count for name, one in aggregator.histograms().items()},
                         {"train::record_latency::range/1": 6, "train::record_latency::plus": 6,
                          "train::record_latency::batch/3": 3})
        self.assertEqual(aggregator.counters()["train::number::record_latency::plus::elements"], 6)

    def test_stats_options_are_compared_and_put_in_their_place(self):
        one, two = experimental.StatsOptions(), experimental.StatsOptions()
        self.assertTrue(one == two and not one != two)
        aggregator = experimental.StatsAggregator()
        one.aggregator = aggregator
        self.assertNotEqual(one, two)
        two.aggregator = aggregator
        one.prefix = two.prefix = "a"
        self.assertEqual(one, two)
        self.assertEqual(one.aggregator, aggregator)
        self.assertNotEqual(one.aggregator, experimental.StatsAggregator())
        options = Options()
        self.assertIsNone(options.experimental_stats.latency_all_edges)
        options.experimental_stats = one
        self.assertEqual(options.experimental_stats, two)
        options.experimental_stats.aggregator = None
        options.experimental_stats.prefix = None
        self.assertEqual(options, Options())
        with self.assertRaisesRegex(TypeError, "StatsAggregator is needed"):
            options.experimental_stats.aggregator = "prometheus"
        with self.assertRaises(TypeError):
            options.experimental_stats.prefix = 3
        with self.assertRaisesRegex(ValueError, "the tag is empty"):
            Dataset.range(3).latency_stats("")

    def test_every_option_of_the_library_has_its_kind(self):
        with self.assertRaises(AttributeError) as caught:
            Options().x
        keys = str(caught.exception).partition("the keys are ")[2].split(", ")
        self.assertEqual(sorted(keys), sorted(tutti.data._options._KINDS))


class RecordsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "records")

    def test_a_dataset_is_written_as_a_whole_file(self):
        for name in ("filename", "path"):
            writer = experimental.TFRecordWriter(**{name: self.path}, compression_type="GZIP")
            writer.write(Dataset.from_tensor_slices(["a", "b"]))
            self.assertEqual(list(tutti.data.TFRecordDataset(self.path, "GZIP")), [b"a", b"b"])
        with tutti.data.TFRecordWriter(self.path) as writer:
            writer.write(b"bytes")
        self.assertEqual(list(tutti.data.TFRecordDataset(self.path)), [b"bytes"])

    def test_what_is_no_record_is_a_type_error_and_leaves_the_file(self):
        experimental.TFRecordWriter(self.path).write(Dataset.from_tensor_slices(["old"]))
        for wrong in (Dataset.range(2), Dataset.from_tensor_slices(["a"]).batch(1)):
            for kind in (TypeError, ValueError):
                with self.assertRaises(kind):
                    experimental.TFRecordWriter(self.path).write(wrong)
        self.assertEqual(list(tutti.data.TFRecordDataset(self.path)), [b"old"])
        self.assertEqual(os.listdir(self.folder.name), ["records"])

    def test_readers_take_a_number_of_parallel_reads(self):
        experimental.TFRecordWriter(self.path).write(Dataset.from_tensor_slices(["a", "b"]))
        files = [self.path, self.path]
        for number in (None, 2, tutti.data.AUTOTUNE):
            records = tutti.data.TFRecordDataset(files, num_parallel_reads=number)
            self.assertEqual(sorted(records), [b"a", b"a", b"b", b"b"])
        self.assertEqual(list(tutti.data.TFRecordDataset(files)), [b"a", b"b", b"a", b"b"])
        self.assertEqual(list(tutti.data.TFRecordDataset(files, num_parallel_reads=2)),
                         [b"a", b"a", b"b", b"b"])
        with open(self.path, "wb") as file:
            file.write(b"a\nb\n")
        fixed = tutti.data.FixedLengthRecordDataset(files, 2, num_parallel_reads=2)
        self.assertEqual(list(fixed), [b"a\n", b"a\n", b"b\n", b"b\n"])
        lines = tutti.data.TextLineDataset(files, num_parallel_reads=2)
        self.assertEqual(list(lines), [b"a", b"a", b"b", b"b"])
        iterator = iter(lines)
        self.assertEqual([next(iterator) for _ in range(3)], [b"a", b"a", b"b"])
        again = iter(lines)
        again.restore(iterator.save())
        self.assertEqual(list(again), [b"b"])
        read = Dataset.from_tensor_slices([self.path] * 3).interleave(
            tutti.data.TextLineDataset, cycle_length=2, block_length=1)
        self.assertEqual(list(tutti.data.TextLineDataset([self.path] * 3, num_parallel_reads=2)),
                         list(read))
        for wrong in (lambda: tutti.data.TFRecordDataset(files, num_parallel_reads=-2),
                      lambda: tutti.data.TextLineDataset(files, num_parallel_reads=-2),
                      lambda: tutti.data.FixedLengthRecordDataset(files, 2, num_parallel_reads=-2)):
            with self.assertRaisesRegex(ValueError, "num_parallel_reads"):
                wrong()

    def test_no_file_is_an_empty_dataset(self):
        for dataset in (tutti.data.TFRecordDataset([]),
                        tutti.data.FixedLengthRecordDataset([], 2),
                        tutti.data.TextLineDataset([])):
            self.assertEqual(list(dataset), [])
            self.assertEqual(dataset.element_spec, TensorSpec((), bytes))


class SqlDatasetTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "people.db")
        with contextlib.closing(sqlite3.connect(self.path)) as database, database:
            database.execute("create table people (id integer, name text, score real)")
            database.executemany("insert into people values (?, ?, ?)",
                                 [(1, "ada", 1.5), (2, "bo", None), (3, None, -2.0)])

    def rows(self, query, *types, **more):
        return experimental.SqlDataset("sqlite", self.path, query, types, **more)

    def test_rows_are_tuples(self):
        rows = self.rows("select id, name, score from people order by id",
                         np.int32, str, np.float64)
        self.assertEqual(rows.element_spec, (TensorSpec((), np.int32), TensorSpec((), bytes),
                                             TensorSpec((), np.float64)))
        self.assertEqual(rows.cardinality(), tutti.data.UNKNOWN_CARDINALITY)
        expected = [(1, b"ada", 1.5), (2, b"bo", 0.0), (3, b"", -2.0)]
        self.assertEqual(list(rows.as_numpy_iterator()), expected)
        self.assertEqual([row[0].dtype for row in rows], [np.int32] * 3)
        iterator = iter(rows)
        next(iterator)
        again = iter(rows)
        again.restore(iterator.save())
        self.assertEqual(list(again), expected[1:])
        self.assertEqual(list(self.rows("select id from people where id = 2", np.uint8)), [(2,)])

    def test_an_attribute_of_every_dataset(self):
        # The page's methods are those of Dataset.
        rows = self.rows("select id from people order by id", np.int64).map(lambda id: id * 10)
        self.assertEqual(list(rows.batch(2).as_numpy_iterator())[0].tolist(), [10, 20])

    def test_errors_say_what_sqlite_says(self):
        for query, text in (("selec id from people", "syntax error"),
                            ("select age from people", "no such column"),
                            ("select id, name from people", "rows of 2 columns")):
            with self.assertRaisesRegex(ValueError, text):
                list(self.rows(query, np.int64))
        with self.assertRaisesRegex(ValueError, "sql 'people'.*driver_name"):
            experimental.SqlDataset("mysql", self.path, "select 1", (np.int64,), name="people")
        for wrong in (np.int64, "int64", None):
            with self.assertRaisesRegex(TypeError, "output_types"):
                experimental.SqlDataset("sqlite", self.path, "select 1", wrong)
        with self.assertRaises(FileNotFoundError):
            list(experimental.SqlDataset("sqlite", self.path + ".none", "select 1", (np.int64,)))

    def test_a_value_that_does_not_fit_is_an_error_of_its_row(self):
        iterator = iter(self.rows("select id * 100 from people order by id", np.uint8))
        self.assertEqual([next(iterator), next(iterator)], [(100,), (200,)])
        with self.assertRaisesRegex(ValueError, "row 2.*300 does not fit uint8"):
            next(iterator)
        self.assertEqual(list(iterator), [])

    def test_a_query_without_an_end_ends_with_its_deadline(self):
        endless = ("with recursive n(i) as (select 0 union all select i + 1 from n) "
                   "select i from n where i < 0")
        with self.assertRaises(TimeoutError):
            iter(self.rows(endless, np.int64)).next(timeout=0.02)

    def test_a_path_may_be_a_path(self):
        path = pathlib.Path(self.path)
        self.assertEqual(list(experimental.SqlDataset("sqlite", path, "select 1", [np.int8])),
                         [(1,)])


class StrategyTest(unittest.TestCase):
    def test_the_default_strategys_scope_changes_nothing(self):
        with distribute.get_strategy().scope() as strategy:
            self.assertIs(strategy, distribute.get_strategy())
            self.assertFalse(distribute.in_cross_replica_context())
            self.assertFalse(distribute.has_strategy())
            with strategy.scope():
                self.assertIsNotNone(distribute.get_replica_context())
        default = distribute.get_strategy()
        with two_replicas().scope():
            with self.assertRaises(RuntimeError):
                default.scope().__enter__()

    def test_cross_device_ops_may_be_none(self):
        strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=None)
        self.assertEqual(strategy.num_replicas_in_sync, 2)
        with self.assertRaisesRegex(ValueError, "'reduction_to_one_device'"):
            distribute.MirroredStrategy(["CPU:0"], cross_device_ops="magic")

    def test_hints_are_taken_by_every_collective(self):
        strategy = two_replicas()
        options = distribute.experimental.CommunicationOptions(timeout_seconds=60)

        def step():
            context = distribute.get_replica_context()
            total = context.all_reduce("sum", np.float32(1), experimental_hints=options)
            return context.all_gather(total.reshape(1), 0, experimental_hints=options)

        values = strategy.run(step)
        self.assertEqual(strategy.reduce("sum", values, axis=None, experimental_hints=options)
                         .tolist(), [4, 4])
        self.assertEqual(strategy.gather(values, 0, options=options).tolist(), [2, 2, 2, 2])
        for name in ("options", "experimental_hints"):
            with self.assertRaises(TypeError):
                strategy.reduce("sum", values, axis=None, **{name: 3})
        with self.assertRaisesRegex(TypeError, "two names of one argument"):
            strategy.reduce("sum", values, options=options, experimental_hints=options)

    def test_a_hint_that_cannot_be_followed_is_told_once(self):
        told = []
        with tutti.Runtime() as runtime, runtime.as_default():
            runtime.set_log_sink(lambda level, line: told.append((level, line)))
            strategy = two_replicas()
            values = strategy.run(lambda: np.float32(1))
            for asked in ("RING", "NCCL", "RING"):
                hints = distribute.experimental.CommunicationOptions(8, implementation=asked)
                self.assertEqual(float(strategy.reduce("sum", values, experimental_hints=hints)), 2)
            runtime.set_log_sink(None)
        self.assertEqual([level for level, _ in told], ["warning"] * 2)
        self.assertIn("asks for the communication RING", told[0][1])
        self.assertIn("asks for the communication NCCL", told[1][1])

    def test_batch_checks_what_has_no_effect(self):
        numbers = tutti.data.Dataset.range(3)
        for calls in (None, 0, 4, tutti.data.AUTOTUNE):
            batches = numbers.batch(2, num_parallel_calls=calls, deterministic=False)
            self.assertEqual([batch.tolist() for batch in batches], [[0, 1], [2]])
        with self.assertRaisesRegex(ValueError, "batch: num_parallel_calls is -2"):
            numbers.batch(2, num_parallel_calls=-2)
        with self.assertRaises(TypeError):
            numbers.batch(2, num_parallel_calls="4")
        with self.assertRaisesRegex(TypeError, "batch: deterministic: a bool or None is needed"):
            numbers.batch(2, deterministic=1)

    def test_run_has_its_older_names_and_its_options(self):
        strategy = two_replicas()
        options = distribute.RunOptions(experimental_bucketizing_dynamic_shape=True)
        self.assertIs(options.experimental_enable_dynamic_batch_size, True)
        self.assertEqual(options, distribute.RunOptions(True, True))
        self.assertEqual(repr(distribute.RunOptions()),
                         "RunOptions(experimental_enable_dynamic_batch_size=True, "
                         "experimental_bucketizing_dynamic_shape=False)")

        def add(a, b=1):
            return a + b

        for call in (lambda: strategy.experimental_run_v2(add, (2,), {"b": 3}),
                     lambda: strategy.call_for_each_replica(add, (2,), {"b": 3}),
                     lambda: strategy.run(add, (2,), {"b": 3}, options)):
            self.assertEqual([int(value) for value in call().values], [5, 5])
        steps = iter(strategy.distribute_dataset(tutti.data.Dataset.range(4).batch(4)))
        self.assertEqual([value.tolist() for value in
                          strategy.experimental_run(lambda rows: rows * 2, steps).values],
                         [[0, 2], [4, 6]])
        self.assertEqual([int(value) for value in strategy.experimental_run(lambda: 7).values],
                         [7, 7])
        with self.assertRaises(StopIteration):
            strategy.experimental_run(lambda rows: rows, steps)
        for wrong in ({"options": 3}, {"options": {"experimental_enable_dynamic_batch_size": 1}}):
            with self.assertRaisesRegex(TypeError, "run: options: a tutti.distribute.RunOptions"):
                strategy.run(add, (2,), **wrong)
        for name in ("experimental_enable_dynamic_batch_size",
                     "experimental_bucketizing_dynamic_shape"):
            with self.assertRaisesRegex(TypeError, f"{name}: a bool is needed"):
                distribute.RunOptions(**{name: "yes"})

    def test_the_bytes_of_a_pack_of_one_call_decide_how_many_calls_are_made(self):
        options = distribute.experimental.CommunicationOptions

        def step(bytes_per_pack):
            context = distribute.get_replica_context()
            three = [np.ones(2, np.float32), np.float32(1), np.float32(1)]
            sums = context.all_reduce("sum", three, options(bytes_per_pack))
            assert [float(np.sum(part)) for part in sums] == [4, 2, 2], sums
            # Replicas that disagree get an error, whose number counts the calls before it.
            context.all_reduce("sum", 1.0, options(1 + context.replica_id_in_sync_group))

        for bytes_per_pack, calls in ((0, 1), (16, 1), (8, 2), (1, 3)):
            with self.assertRaisesRegex(ValueError, f"all_reduce #{calls + 1} has a bytes_per_pack "
                                        "of 2, rank 0 one of 1"):
                two_replicas().run(step, args=(bytes_per_pack,))

    def test_input_options_have_the_documented_names(self):
        mode = distribute.InputReplicationMode
        options = distribute.InputOptions()
        self.assertIs(options.experimental_prefetch_to_device, True)
        self.assertIs(options.experimental_replication_mode, mode.PER_WORKER)
        self.assertIs(options.experimental_place_dataset_on_device, False)
        for name in ("experimental_prefetch_to_device", "experimental_fetch_to_device",
                     "prefetch_to_device"):
            options = distribute.InputOptions(**{name: False})
            self.assertIs(options.experimental_prefetch_to_device, False)
            self.assertIs(options.experimental_fetch_to_device, False)
        dataset, strategy = Dataset.range(4).batch(2), two_replicas()
        steps = strategy.experimental_distribute_dataset(dataset, distribute.InputOptions(
            experimental_prefetch_to_device=False,
            experimental_replication_mode=mode.PER_WORKER,
            experimental_place_dataset_on_device=False))
        self.assertEqual(len(list(steps)), 2)
        per_replica = distribute.InputOptions(experimental_replication_mode=mode.PER_REPLICA)
        on_device = distribute.InputOptions(experimental_place_dataset_on_device=True)
        for wrong, kind, text in ((per_replica, NotImplementedError, "use PER_WORKER"),
                                  (on_device, ValueError, "PER_REPLICA")):
            with self.assertRaisesRegex(kind, text):
                strategy.experimental_distribute_dataset(dataset, wrong)
        with self.assertRaises(TypeError):
            distribute.InputOptions(experimental_replication_mode="PER_WORKER")

    def test_a_worker_alone_has_its_resolver(self):
        given = distribute.cluster_resolver.SimpleClusterResolver(
            tutti.train.ClusterSpec({"worker": ["localhost:1234"]}), task_type="worker", task_id=0)
        alone = distribute.MultiWorkerMirroredStrategy(given)
        self.assertIs(alone.cluster_resolver, given)
        self.assertIsInstance(distribute.MultiWorkerMirroredStrategy().cluster_resolver,
                              distribute.cluster_resolver.TFConfigClusterResolver)
        self.assertIsNone(two_replicas().cluster_resolver)


class DeviceTest(unittest.TestCase):
    def test_device_specs_have_the_documented_names(self):
        first = tutti.DeviceSpec(job=0, device_type="CPU")
        second = tutti.DeviceSpec(device_type="GPU")
        combined = tutti.DeviceSpec(job=0, device_type="GPU")
        self.assertEqual(first.make_merged_spec(second), combined)
        self.assertEqual(first.make_merged_spec(dev=second), combined)
        self.assertEqual(first.merge(inner=second), combined)
        gpu = tutti.DeviceSpec.from_string(spec="/GPU:0")
        self.assertEqual(tutti.DeviceSpec.parse_from_string("/GPU:0"), gpu)
        self.assertEqual(tutti.DeviceSpec.from_string("/CPU:0").parse_from_string("/GPU:0"), gpu)
        self.assertEqual(tutti.DeviceSpec.from_string(text="/GPU:0"), gpu)
        for name in ("device_name", "name"):
            with tutti.device(**{name: "/GPU:0"}) as scope:
                self.assertEqual(scope, gpu)
        for kind in (RuntimeError, TypeError):
            with self.assertRaisesRegex(kind, "not a function"):
                tutti.device(lambda op: "/CPU:0").__enter__()

    def test_a_word_that_is_no_part_is_a_value_error(self):
        with self.assertRaisesRegex(ValueError, "\"tsk:1\".*did you mean 'task'"):
            tutti.DeviceSpec.from_string("/job:worker/tsk:1")
        with self.assertRaisesRegex(ValueError, "foo"):
            tutti.DeviceSpec.from_string("foo")


class PagesTest(unittest.TestCase):
    """Examples of the pages of strategies and values, GPU:n read as CPU:n."""

    def setUp(self):
        self.strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    def local(self, value):
        return [np.asarray(part).tolist() for part in self.strategy.local_results(value)]

    def test_distributed_values(self):
        strategy = self.strategy

        def batch():
            dataset = Dataset.from_tensor_slices(np.float32([5., 6., 7., 8.])).batch(2)
            return next(iter(strategy.experimental_distribute_dataset(dataset)))

        def run():
            return distribute.get_replica_context().replica_id_in_sync_group

        self.assertIsInstance(batch(), distribute.DistributedValues)
        self.assertEqual(self.local(strategy.run(run)), [0, 1])
        self.assertEqual(self.local(strategy.run(lambda x: x + 1.0, args=(batch(),))), [[6], [7]])
        self.assertEqual(strategy.reduce(distribute.ReduceOp.SUM, batch(), axis=0), 11)

    def test_a_variable_is_made_once_also_by_a_function(self):
        made = []

        def create_variable():
            if not made:
                made.append(tutti.Variable(1.))
            return made[0]

        with self.strategy.scope():
            create_variable()
        self.assertRegex(repr(made[0]), r"MirroredVariable:{0: <Variable '.*float32\[\] 1>, 1: ")

    def test_values_from_a_function(self):
        array = np.array([3., 2., 1.])
        for value_fn, expected in ((lambda ctx: np.float32(1.), [1, 1]),
                                   (lambda ctx: array[ctx.replica_id_in_sync_group], [3, 2]),
                                   (lambda ctx: ctx.num_replicas_in_sync, [2, 2])):
            made = self.strategy.experimental_distribute_values_from_function(value_fn)
            self.assertEqual(self.local(made), expected)
        values = []
        for device in self.strategy.extended.worker_devices:
            with tutti.device(device):
                values.append(tutti.Tensor(np.float32(1.0)))
        self.assertEqual(values[1].device, self.strategy.extended.worker_devices[1])
        made = self.strategy.experimental_distribute_values_from_function(
            lambda ctx: values[ctx.replica_id_in_sync_group])
        self.assertEqual(self.local(made), [1, 1])

    def test_gather(self):
        values = self.strategy.experimental_distribute_values_from_function
        column = values(lambda _: np.int32([[1], [2]]))
        self.assertEqual(self.strategy.gather(column, axis=0).tolist(), [[1], [2], [1], [2]])
        four = distribute.MirroredStrategy([f"CPU:{i}" for i in range(4)])
        single = np.arange(6, dtype=np.int32).reshape(1, 2, 3)
        values = four.experimental_distribute_values_from_function(lambda _: single)
        for axis in range(3):
            self.assertEqual(four.gather(values, axis=axis).tolist(),
                             np.concatenate([single] * 4, axis).tolist())

    def test_run_and_reduce(self):
        strategy = self.strategy

        def step_fn():
            made = tutti.Tensor(distribute.get_replica_context().replica_id_in_sync_group)
            return made, made.device

        parts, places = strategy.run(step_fn)
        self.assertEqual([str(place) for place in strategy.local_results(places)],
                         list(strategy.extended.worker_devices))
        self.assertEqual(strategy.reduce("SUM", parts, axis=None), 1)
        self.assertEqual(self.local(strategy.run(lambda x: x * 2.0, args=(np.float32(3.0),))),
                         [6, 6])
        values = strategy.experimental_distribute_values_from_function
        count = values(lambda ctx: ctx.num_replicas_in_sync)
        self.assertEqual(self.local(strategy.run(lambda x: x * 2, args=(count,))), [4, 4])
        ids = values(lambda ctx: np.int32(ctx.replica_id_in_sync_group))
        self.assertEqual(self.local(strategy.run(
            lambda x: distribute.get_replica_context().all_reduce("sum", x), args=(ids,))), [1, 1])

    def test_contexts_and_set_strategy(self):
        def f():
            context = distribute.get_replica_context()
            return context.replica_id_in_sync_group, context.num_replicas_in_sync

        with self.strategy.scope():
            self.assertIsNone(distribute.get_replica_context())
            self.assertEqual([self.local(part) for part in self.strategy.run(f)],
                             [[0, 1], [2, 2]])
            with self.assertRaises(RuntimeError):
                distribute.experimental_set_strategy(self.strategy)
        distribute.experimental_set_strategy(self.strategy)
        self.assertIs(distribute.get_strategy(), self.strategy)
        distribute.experimental_set_strategy(None)
        self.assertFalse(distribute.has_strategy())


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
