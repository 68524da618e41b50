"""enable_check_numerics: where a NaN is found, and what is said of it."""

import os
import tempfile
import threading
import unittest

import numpy as np

import tutti
from tutti import debugging, errors
from tutti.debugging import experimental
from tutti.distribute import MirroredStrategy, VariableAggregation, VariableSynchronization

import multi_worker_test

BAD = np.array([1, np.nan, np.inf], np.float32)


def context():
    return tutti.distribute.get_replica_context()


def of_replica_1():
    """What replica 1 alone brings that is not finite."""
    return BAD if context().replica_id_in_sync_group == 1 else np.ones(3, np.float32)


class CheckNumericsTest(unittest.TestCase):
    def setUp(self):
        debugging.enable_check_numerics()
        debugging.enable_check_numerics()
        self.addCleanup(debugging.disable_check_numerics)
        self.strategy = MirroredStrategy(["CPU:0", "CPU:1"])

    def variable(self, **options):
        with self.strategy.scope():
            return tutti.Variable(np.zeros(3, np.float32), name="w", **options)

    def refused(self, parts, function, *args, **kwargs):
        with self.assertRaises(errors.InvalidArgumentError) as raised:
            function(*args, **kwargs)
        for part in (*parts, "float32[3]", "is not finite"):
            self.assertIn(part, str(raised.exception))
        return raised.exception

    def test_collectives_of_replicas(self):
        for op in ("sum", "mean", "min", "max"):
            error = self.refused(
                ["all_reduce: the input[\"g\"] of replica 1 in step", "1 NaN, 1 +Inf and 0 -Inf",
                 "nan at [1]"],
                self.strategy.run, lambda: context().all_reduce(op, {"g": of_replica_1()}))
            self.assertEqual(error.details["replica"], 1)
            self.assertEqual((error.details["nan"], error.details["index"]), (1, 1))
        self.refused(["all_gather: the input of replica 1"], self.strategy.run,
                     lambda: context().all_gather(of_replica_1(), 0))
        self.refused(["all_reduce: the result of finite inputs"], self.strategy.run,
                     lambda: context().all_reduce("sum", np.full(3, 3e38, np.float32)))

    def test_updates_of_variables(self):
        for name in ("assign", "assign_add", "assign_sub"):
            variable = self.variable(aggregation=VariableAggregation.SUM)
            self.refused([f"{name}: the value for variable 'w' of replica 1 in step"],
                         self.strategy.run, lambda: getattr(variable, name)(of_replica_1()))
            np.testing.assert_array_equal(variable.numpy(), 0)
        self.refused(["assign: the value for variable 'w'"], variable.assign, BAD)
        variable.assign(np.full(3, 3e38, np.float32))
        self.refused(["assign_add: the new value of variable 'w'"], variable.assign_add,
                     np.full(3, 3e38, np.float32))
        own = self.variable(synchronization=VariableSynchronization.ON_READ,
                            aggregation=VariableAggregation.SUM)
        self.refused(["assign_add: the value for variable 'w' of replica 1"], self.strategy.run,
                     lambda: own.assign_add(of_replica_1()))

    def test_results_and_reductions(self):
        self.refused(["run: the result[\"loss\"] of replica 1 in step 1"], self.strategy.run,
                     lambda: {"loss": of_replica_1()})
        debugging.disable_check_numerics()
        values = self.strategy.run(of_replica_1)
        debugging.enable_check_numerics()
        self.refused(["reduce: component 1 of the input"], self.strategy.reduce, "sum", values)
        self.refused(["gather: component 1 of the input"], self.strategy.gather, values, axis=0)

    def test_steps_are_counted(self):
        for _ in range(3):
            self.strategy.run(lambda: None)
        error = self.refused(["in step 4"], self.strategy.run, of_replica_1)
        self.assertEqual(error.details["step"], 4)

    def test_checkpoints(self):
        variable = self.variable()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "ckpt")
            debugging.disable_check_numerics()
            variable.assign(BAD)
            debugging.enable_check_numerics()
            saved = tutti.train.Checkpoint(w=variable)
            self.refused(["saving a checkpoint: the value of \"w\""], saved.save, path)
            debugging.disable_check_numerics()
            path = saved.save(path)
            debugging.enable_check_numerics()
            self.refused(["restoring a checkpoint: the value of \"w\""], saved.restore, path)

    def test_ranks_that_are_threads(self):
        ranks = tutti.Communicator.create_local(2)
        found = [None, None]

        def work(rank):
            debugging.enable_check_numerics()
            try:
                ranks[rank].all_reduce(BAD if rank else np.ones(3, np.float32))
            except errors.Error as error:
                found[rank] = error
            finally:
                debugging.disable_check_numerics()

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for error in found:
            self.assertIn("rank 1: all_reduce #1: all_reduce: the input, float32[3], is not finite",
                          str(error))
        for communicator in ranks:
            communicator.close()

    def test_futures_are_checked_as_the_thread_that_issues_them(self):
        ranks = tutti.Communicator.create_local(2)
        futures = [rank.all_reduce_async(BAD if rank.rank else np.ones(3, np.float32))
                   for rank in ranks]
        debugging.disable_check_numerics()
        for future in futures:
            self.refused(["rank 1: all_reduce #1: all_reduce: the input"], future.result,
                         timeout=30)
        for communicator in ranks:
            communicator.close()

    def test_bucket_plans_name_the_rank_on_all(self):
        ranks = tutti.Communicator.create_local(2)
        found = [None, None]

        def work(rank):
            debugging.enable_check_numerics()
            gradients = [np.ones(3, np.float32), BAD.copy() if rank else np.ones(3, np.float32)]
            plan = tutti.BucketPlan(ranks[rank], gradients, "sum", bytes_per_bucket=12,
                                    names=["weights", "bias"])
            try:
                plan.ready(0)
                plan.ready(1)
                plan.wait(timeout=30)
            except errors.Error as error:
                found[rank] = error
            finally:
                debugging.disable_check_numerics()

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for error in found:
            self.assertIsInstance(error, errors.InvalidArgumentError)
            for part in ("rank 1: all_reduce #", "the input of tensor 1 (bias)",
                         "float32[3], is not finite",
                         "1 NaN, 1 +Inf and 0 -Inf"):
                self.assertIn(part, str(error))
        for communicator in ranks:
            communicator.close()

    def test_it_holds_for_the_thread_alone(self):
        found = []

        def work():
            strategy = MirroredStrategy(["CPU:0", "CPU:1"])
            found.append(strategy.run(of_replica_1))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertEqual(len(found), 1)

    def test_disabled_it_looks_at_nothing(self):
        debugging.disable_check_numerics()
        debugging.disable_check_numerics()
        variable = self.variable(aggregation=VariableAggregation.SUM)
        self.strategy.run(lambda: variable.assign_add(of_replica_1()))
        self.assertTrue(np.isnan(variable.numpy()[1]))

    def test_limits_are_positive(self):
        for limits in ({"stack_height_limit": 0}, {"path_length_limit": -1}):
            with self.assertRaisesRegex(ValueError, "expected 1 or more"):
                debugging.enable_check_numerics(**limits)


class DumpTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = os.path.join(folder.name, "dumps")
        self.addCleanup(experimental.disable_dump_debug_info)
        self.strategy = MirroredStrategy(["CPU:0", "CPU:1"])

    def events(self, **options):
        """What a run leaves behind."""
        writer = experimental.enable_dump_debug_info(self.root, **options)
        self.strategy.run(lambda: context().all_reduce("sum", {"g": of_replica_1()}))
        writer.FlushExecutionFiles()
        writer.FlushNonExecutionFiles()
        experimental.disable_dump_debug_info()
        return experimental.read_dump_debug_info(self.root)

    def test_every_mode_keeps_what_it_says(self):
        fields = {"NO_TENSOR": set(), "CURT_HEALTH": {"has_nan_or_infinity"},
                  "CONCISE_HEALTH": {"has_nan_or_infinity", "elements", "nan", "positive_infinity",
                                     "negative_infinity"},
                  "FULL_HEALTH": {"has_nan_or_infinity", "elements", "nan", "positive_infinity",
                                  "negative_infinity", "rank", "negative", "zero", "positive"},
                  "SHAPE": {"shape"}}
        always = {"process", "time_us", "sequence", "op", "name", "replica", "step",
                  "worker", "dtype"}
        for mode, kept in fields.items():
            self.root += mode
            dump = self.events(tensor_debug_mode=mode)
            self.assertEqual(dump["processes"][0]["mode"], mode)
            self.assertEqual(dump["processes"][0]["pid"], os.getpid())
            self.assertEqual([event["op"] for event in dump["events"]].count("run"), 2)
            for event in dump["events"]:
                self.assertEqual(set(event), always | kept)
            if "nan" in kept:
                first = dump["first_not_finite"]
                self.assertEqual((first["op"], first["name"], first["replica"], first["nan"]),
                                 ("all_reduce", "the input[\"g\"]", 1, 1))

    def test_operations_and_dtypes_are_filtered(self):
        dump = self.events(op_regex="(?!^run$)", tensor_dtypes=[np.float32])
        self.assertEqual({event["op"] for event in dump["events"]}, {"all_reduce"})
        self.root += "2"
        self.assertEqual(self.events(tensor_dtypes=lambda dtype: dtype == np.int32)["events"], [])
        self.root += "3"
        self.assertEqual(self.events(tensor_dtypes=())["events"], [])

    def test_the_buffer_keeps_the_most_recent(self):
        self.assertEqual(len(self.events(circular_buffer_size=2)["events"]), 2)
        self.root += "2"
        self.assertGreater(len(self.events(circular_buffer_size=0)["events"]), 4)

    def test_one_dump_at_a_time(self):
        writer = experimental.enable_dump_debug_info(self.root)
        experimental.enable_dump_debug_info(self.root)
        for options in ({"tensor_debug_mode": "SHAPE"}, {"circular_buffer_size": 7}):
            with self.assertRaisesRegex(ValueError, "disable the dump first"):
                experimental.enable_dump_debug_info(self.root, **options)
        writer.FlushExecutionFiles()
        other = experimental.enable_dump_debug_info(self.root + "2")
        with self.assertRaisesRegex(RuntimeError, "it has ended"):
            writer.FlushExecutionFiles()
        other.FlushExecutionFiles()
        experimental.disable_dump_debug_info()
        experimental.disable_dump_debug_info()
        with self.assertRaisesRegex(RuntimeError, "it has ended"):
            other.FlushNonExecutionFiles()

    def test_wrong_arguments_and_files_are_named(self):
        enable = experimental.enable_dump_debug_info
        for options, part in (({"tensor_debug_mode": "LOUD"}, "expected one of NO_TENSOR"),
                              ({"op_regex": "("}, "does not read"),
                              ({"op_regex": "a" * 2000}, "at most 1024"),
                              ({"tensor_dtypes": 3}, "a list or tuple of dtypes")):
            with self.assertRaisesRegex(ValueError, part):
                enable(self.root, **options)
        with self.assertRaises(OSError):
            enable("/proc/nothing/dumps")
        with tempfile.NamedTemporaryFile() as file:
            with self.assertRaisesRegex((OSError, errors.Error), file.name):
                enable(os.path.join(file.name, "dumps"))
        with self.assertRaises(FileNotFoundError):
            experimental.read_dump_debug_info("/nothing")
        self.events()
        metadata, = (os.path.join(self.root, name) for name in os.listdir(self.root)
                     if name.endswith(".metadata"))
        with open(metadata, "wb") as file:
            file.write(b"nonsense")
        with self.assertRaises(errors.DataLossError):
            experimental.read_dump_debug_info(self.root)


class PlacementTest(unittest.TestCase):
    def test_placements_are_logged_while_asked_for(self):
        lines = []
        tutti.config.set_log_sink(lambda level, line: lines.append(line))
        self.addCleanup(tutti.config.set_log_sink, None)
        self.addCleanup(debugging.set_log_device_placement, False)
        self.assertFalse(debugging.get_log_device_placement())
        debugging.set_log_device_placement(True)
        self.assertTrue(debugging.get_log_device_placement())
        strategy = MirroredStrategy(["CPU:0", "CPU:1"])
        with strategy.scope():
            tutti.Variable(np.zeros(3, np.float32), name="w")
        list(tutti.data.Dataset.range(2))
        strategy.run(lambda: context().all_reduce("sum", np.float32(1)))
        both = "replica 0 on CPU:0, replica 1 on CPU:1 (a "
        for part in (f"placement: variable 'w' float32[3]: {both}copy for each replica of",
                     f"placement: run #1: {both}call for each replica of",
                     "CPU:0 (elements of datasets are made on the host)",
                     "all_reduce #1 of float32[]: CPU:0 (through in_process"):
            self.assertTrue(any(part in line for line in lines), (part, lines))
        debugging.set_log_device_placement(False)
        del lines[:]
        strategy.run(lambda: None)
        self.assertEqual(lines, [])


PROGRAM = """
from tutti import debugging
if ENABLED(me):
    debugging.enable_check_numerics()
strategy = distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    weights = tutti.Variable(np.zeros(4, np.float32), aggregation="sum", name="weights")

def step(bad, what):
    id = context().replica_id_in_sync_group
    gradient = np.full(4, id, np.float32)
    if bad and id == 5:
        gradient[2] = np.nan
    if what == "update":
        weights.assign_add(gradient)
    elif what == "result":
        context().all_reduce("sum", np.float32(1))
        return {"loss": gradient}
    else:
        return context().all_reduce(what, {"g": gradient})

for what in ("sum", "mean", "min", "update", "result"):
    strategy.run(step, args=(False, what))
    try:
        strategy.run(step, args=(True, what))
        say(what, None)
    except errors.Error as error:
        say(what, type(error).__name__, str(error), error.details.get("worker"))

def asserted(bad):
    id = context().replica_id_in_sync_group
    context().all_reduce("sum", np.float32(1))
    debugging.assert_none_equal(np.int32(id), np.int32(5 if bad else 9), message="ids")
    return context().all_reduce("sum", np.float32(1))

strategy.run(asserted, args=(False,))
try:
    strategy.run(asserted, args=(True,))
    say("assert", None)
except errors.Error as error:
    say("assert", type(error).__name__, str(error), error.details.get("worker"))
say("end", weights.numpy().tolist())
"""


class ElasticTest(unittest.TestCase):
    def test_a_nan_ends_the_epoch_on_all_and_the_next_one_goes_on(self):
        workers = multi_worker_test.run("""
            from tutti import debugging
            debugging.enable_check_numerics()
            cluster = tutti.Cluster.join()
            now = tutti.Communicator.create(cluster, name="job")
            now.barrier()
            try:
                now.all_reduce(np.array([1, np.nan if me == 1 else 2]))
                say("nothing")
            except errors.InvalidArgumentError as error:
                say(str(error))
            now = now.shrink(timeout=50)
            say(now.size, now.all_reduce(np.ones(1)).tolist())
            now.barrier()
            """, workers=3, TUTTI_ELASTIC="1")
        for lines in workers:
            self.assertIn("rank 1", lines[0][0])
            self.assertIn("the input, float64[2], is not finite", lines[0][0])
            self.assertEqual(lines[1], [3, [3.0]])


class FourWorkersTest(unittest.TestCase):
    """Two replicas each; replica 5 is the second of worker 2."""

    def expect_named(self, enabled):
        workers = multi_worker_test.run(PROGRAM.replace("ENABLED", enabled), workers=4, replicas=2)
        for lines in workers:
            self.assertEqual([line[0] for line in lines], ["sum", "mean", "min", "update", "result",
                                                              "assert", "end"])
            for what, kind, message, worker in lines[:-2]:
                self.assertEqual((kind, worker), ("InvalidArgumentError", 2), (what, message))
                for part in ("worker 2: ", "of replica 5", "in step", "float32[4]",
                             "1 NaN, 0 +Inf and 0 -Inf", "nan at [2]"):
                    self.assertIn(part, message)
                self.assertIn({"update": "'weights'", "result": "the result[\"loss\"]"}.get(
                    what, "all_reduce"), message)
            self.assertEqual(lines[-2][1], "InvalidArgumentError", lines[-2])
            self.assertIn("ids: assert_none_equal: x != y does not hold", lines[-2][2])
            self.assertEqual(lines[-1][1], [28.0] * 4)
        for worker in (0, 1, 3):
            self.assertRegex(workers[worker][-2][2], "worker 2.*, replica 5, has failed: ")
        for lines in list(zip(*workers))[:5]:
            self.assertEqual(len({str(line[:3]) for line in lines}), 1, lines)

    def test_a_dump_tells_workers_apart(self):
        with tempfile.TemporaryDirectory() as root:
            multi_worker_test.run(f"""
                from tutti.debugging import experimental
                writer = experimental.enable_dump_debug_info({root!r}, "CURT_HEALTH")
                strategy = distribute.MultiWorkerMirroredStrategy()
                strategy.run(lambda: context().all_reduce("sum", np.float32(me)))
                writer.FlushExecutionFiles()
                """, workers=2)
            dump = experimental.read_dump_debug_info(root)
        self.assertEqual(sorted((process["worker"], process["task"])
                                for process in dump["processes"]),
                         [(0, "worker:0"), (1, "worker:1")])
        for event in dump["events"]:
            self.assertEqual(event["worker"], dump["processes"][event["process"]]["worker"])

    def test_a_nan_of_one_replica_is_named_by_all(self):
        self.expect_named("(lambda me: True)")

    def test_it_is_enough_that_one_worker_looks(self):
        self.expect_named("(lambda me: me == 3)")


if __name__ == "__main__":
    unittest.main()
