"""Callbacks: exceptions that come back as themselves, contexts that end, calls out of class."""

import contextvars
import threading
import traceback
import unittest

import numpy as np

import tutti


class Mine(Exception):
    pass


def frames(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


class ExceptionTest(unittest.TestCase):
    """Each kind of callback raises; the very object comes out, its traceback kept."""

    def setUp(self):
        self.strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        self.error = Mine("mine")

    def raiser(self, *_):
        raise self.error

    def assert_comes_back(self, run):
        try:  # assertRaises would drop the traceback
            run()
        except Mine as caught:
            self.assertIs(caught, self.error)
            self.assertIn("raiser", frames(caught))
        else:
            self.fail("nothing was raised")

    def test_from_a_replica(self):
        self.assert_comes_back(lambda: self.strategy.run(self.raiser))

    def test_from_one_replica_of_two(self):
        for bad in (0, 1):
            with self.subTest(replica=bad):
                self.setUp()

                def step():
                    replica = tutti.distribute.get_replica_context()
                    if replica.replica_id_in_sync_group == bad:
                        self.raiser()
                    replica.all_reduce("sum", 1)

                self.assert_comes_back(lambda: self.strategy.run(step))

    def test_from_a_merge_function(self):
        self.assert_comes_back(lambda: self.strategy.run(
            lambda: tutti.distribute.get_replica_context().merge_call(self.raiser)))

    def test_from_a_function_that_maps_rows(self):
        self.assert_comes_back(lambda: list(tutti.data.Dataset.range(3).map(self.raiser)))

    def test_from_a_function_that_maps_slabs(self):
        spec = tutti.TensorSpec((), np.int64)
        self.assert_comes_back(lambda: list(tutti.data.Dataset.range(3).map(
            self.raiser, slab=True, output_signature=spec)))

    def test_from_a_predicate(self):
        self.assert_comes_back(lambda: list(tutti.data.Dataset.range(3).filter(self.raiser)))

    def test_from_a_generator(self):
        def raiser():
            yield 1
            raise self.error

        dataset = tutti.data.Dataset.from_generator(raiser,
                                                    output_signature=tutti.TensorSpec((), np.int64))
        iterator = iter(dataset)
        self.assertEqual(next(iterator), 1)
        self.assert_comes_back(lambda: next(iterator))

    def test_from_the_start_of_a_generator(self):
        dataset = tutti.data.Dataset.from_generator(self.raiser,
                                                    output_signature=tutti.TensorSpec((), np.int64))
        self.assert_comes_back(lambda: list(dataset))

    def test_from_a_function_that_makes_values(self):
        self.assert_comes_back(
            lambda: self.strategy.distribute_values_from_function(self.raiser))

    def test_from_a_function_that_makes_datasets(self):
        self.assert_comes_back(
            lambda: self.strategy.distribute_datasets_from_function(self.raiser))

    def test_exceptions_that_are_none_of_exception_come_back_too(self):
        for kind in (KeyboardInterrupt, SystemExit, GeneratorExit):
            with self.subTest(kind), self.assertRaises(kind) as caught:
                self.error = kind("x")
                self.strategy.run(self.raiser)
            self.assertIs(caught.exception, self.error)

    def test_the_strategy_can_be_used_again_after_an_error(self):
        with self.assertRaises(Mine):
            self.strategy.run(self.raiser)
        result = self.strategy.run(
            lambda: tutti.distribute.get_replica_context().all_reduce("sum", 1))
        self.assertEqual(self.strategy.local_results(result), (2, 2))

    def test_an_error_of_the_library_keeps_code_and_details(self):
        def step():
            raise tutti.errors.NotFoundError("no such thing", {"rank": 3})

        with self.assertRaises(tutti.errors.NotFoundError) as caught:
            self.strategy.run(step)
        self.assertEqual(caught.exception.code_name, "NOT_FOUND")
        self.assertEqual(caught.exception.details["rank"], 3)


class ContextTest(unittest.TestCase):
    def setUp(self):
        self.strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    def test_exactly_one_of_replica_context_and_cross_replica_context_holds(self):
        seen = {}

        def look(where):
            seen[where] = (tutti.distribute.get_replica_context() is not None,
                           tutti.distribute.in_cross_replica_context(),
                           tutti.distribute.has_strategy())
            return None

        def merge(strategy):
            self.assertIs(strategy, self.strategy)
            self.assertIs(tutti.distribute.get_strategy(), self.strategy)
            return look("merge")

        def step():
            context = tutti.distribute.get_replica_context()
            self.assertIs(context.strategy, self.strategy)
            self.assertIs(tutti.distribute.get_strategy(), self.strategy)
            look("replica")
            context.merge_call(merge)

        look("outside")
        with self.strategy.scope():
            look("scope")
            self.strategy.run(step)
        self.assertEqual(seen, {"outside": (True, False, False), "scope": (False, True, True),
                                "replica": (True, False, True), "merge": (False, True, True)})

    def test_a_replica_context_ends_with_its_function(self):
        kept = []
        self.strategy.run(lambda: kept.append(tutti.distribute.get_replica_context()))
        for context in kept:
            with self.assertRaisesRegex(tutti.errors.FailedPreconditionError, "has ended"):
                context.replica_id_in_sync_group
            with self.assertRaises(tutti.errors.FailedPreconditionError):
                context.all_reduce("sum", 1)
            self.assertIn("has ended", repr(context))

    def test_contextvars_of_the_caller_reach_every_replica_and_stay_as_they_are(self):
        variable = contextvars.ContextVar("variable", default="unset")
        variable.set("caller")

        def step():
            seen = variable.get()
            variable.set("replica")
            return seen

        self.assertEqual(self.strategy.run(step), "caller")
        self.assertEqual(variable.get(), "caller")

    def test_replicas_run_concurrently_and_replica_0_on_the_callers_thread(self):
        barrier = threading.Barrier(2, timeout=60)
        threads = {}

        def step():
            replica = tutti.distribute.get_replica_context().replica_id_in_sync_group
            barrier.wait()
            threads[replica] = threading.get_ident()

        self.strategy.run(step)
        self.assertEqual(threads[0], threading.get_ident())
        self.assertNotEqual(threads[1], threads[0])

    def test_thread_local_data_of_a_replica_thread_lives_from_run_to_run(self):
        local = threading.local()

        def step():
            local.count = getattr(local, "count", 0) + 1
            return local.count

        results = [self.strategy.local_results(self.strategy.run(step)) for _ in range(3)]
        self.assertEqual(results[-1], (3, 3))

    def test_a_second_run_while_one_is_running_is_refused(self):
        inside, leave = threading.Barrier(3, timeout=60), threading.Event()

        def step():
            inside.wait()
            leave.wait(60)

        thread = threading.Thread(target=self.strategy.run, args=(step,))
        thread.start()
        inside.wait()
        try:
            with self.assertRaises(tutti.errors.FailedPreconditionError):
                self.strategy.run(lambda: None)
        finally:
            leave.set()
            thread.join(60)
        self.assertIsNone(self.strategy.run(lambda: None))

    def test_run_inside_a_replica_is_refused(self):
        with self.assertRaises(tutti.errors.FailedPreconditionError):
            self.strategy.run(lambda: self.strategy.run(lambda: None))

    def test_a_dataset_callback_that_iterates_is_refused(self):
        other = tutti.data.Dataset.range(3)
        dataset = tutti.data.Dataset.range(3).map(lambda x: next(iter(other)))
        with self.assertRaises(tutti.errors.FailedPreconditionError):
            list(dataset)

    def test_merge_calls_with_different_functions_are_refused(self):
        def one(strategy):
            return 1

        def other(strategy):
            return 2

        def step():
            context = tutti.distribute.get_replica_context()
            context.merge_call((one, other)[context.replica_id_in_sync_group])

        with self.assertRaisesRegex(tutti.errors.InvalidArgumentError, "one.*other"):
            self.strategy.run(step)
        result = self.strategy.run(
            lambda: tutti.distribute.get_replica_context().merge_call(lambda strategy: "same"))
        self.assertEqual(result, "same")

    def test_unequal_numbers_of_merge_calls_are_refused(self):
        def step():
            context = tutti.distribute.get_replica_context()
            if context.replica_id_in_sync_group == 0:
                context.merge_call(lambda strategy: None)

        with self.assertRaises(tutti.errors.FailedPreconditionError):
            self.strategy.run(step)

    def test_a_function_that_is_none_is_a_type_error(self):
        with self.assertRaisesRegex(TypeError, "a function is needed"):
            self.strategy.run(3)
        with self.assertRaisesRegex(TypeError, "a function is needed"):
            tutti.data.Dataset.range(3).map(3)


if __name__ == "__main__":
    unittest.main()
