"""Wrong use: every mistake is an exception that Python programmers expect, which says who found
what and what is needed; nothing crashes, and what was fine stays usable."""

import gc
import inspect
import os
import re
import sys
import tempfile
import threading
import time
import traceback
import unittest
import weakref

import numpy as np

import tutti
from tutti import data, distribute, errors, train
from tutti.data import Dataset

HANG_S = 60
INT64 = tutti.TensorSpec((), np.int64)
# What wrong arguments may raise; all of these are TypeErrors, ValueErrors and the like by
# inheritance, but for what has no builtin of its own.
EXPECTED = (TypeError, ValueError, OverflowError, LookupError, errors.Error)
# What would be our own code tripping over the argument.
ACCIDENTS = re.compile(r"object has no attribute|in method '|SWIG|'_handle'|subscriptable|unpack")


def root_of(error):
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def two_replicas():
    return distribute.MirroredStrategy(["CPU:0", "CPU:1"])


class ArgumentTest(unittest.TestCase):
    """Every public method of every class, one wrong argument at a time."""

    WRONG = [None, 3, -1, 1 << 70, 2.5, "x", "\ud800", "a\0b", b"y", object(), [], {}, (),
             np.zeros(2), np.zeros(2)[::2], lambda *_: None, int]
    RIGHT = {"axis": 0, "num_shards": 2, "index": 0, "reduce_op": "sum", "fn": lambda *_, **__: 0,
             "value": 1, "start": 0, "stop": 1, "name": "n", "state": b"", "data": b"",
             "timeout": 0.01, "dtype": np.float32, "shape": [2], "bits": [1], "job_name": "worker",
             "task_index": 0, "text": "CPU:0", "array": np.zeros(2), "values": [np.zeros(2)],
             "color": 0, "to": 0, "source": 0, "message": "m"}
    # Ends what the other calls need, waits for others, or takes whatever it is given.
    LEFT_OUT = {"close", "shutdown", "abort", "set_log_sink", "wait", "result", "set_result",
                "barrier", "as_default", "restore_or_initialize", "dump_recorder"}

    def setUp(self):
        # Some of the wrong arguments are names of files that can be written.
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        before = os.getcwd()
        os.chdir(folder.name)
        self.addCleanup(os.chdir, before)

    def objects(self):
        strategy = two_replicas()
        with strategy.scope():
            variable = tutti.Variable(np.zeros(3), aggregation="sum")
        plan = tutti.BucketPlan(tutti.Communicator.create_local(1)[0], [np.zeros(3)])
        batches = Dataset.range(1000).batch(2)
        distributed = strategy.distribute_dataset(batches)
        spec = {"worker": ["127.0.0.1:1"]}
        checkpoint = train.Checkpoint(variable=variable)
        return [
            batches, iter(batches), strategy, variable, distributed, iter(distributed),
            tutti.Tensor.zeros([2, 3]), tutti.Communicator.create_local(1)[0],
            tutti.DeviceSpec.from_string("CPU:0"), tutti.TensorSpec([2]), data.Options(),
            train.ClusterSpec(spec), distribute.cluster_resolver.SimpleClusterResolver(spec),
            checkpoint, train.CheckpointManager(checkpoint, "run"), tutti.Runtime(), tutti.config,
            distribute.InputContext(), data.TFRecordWriter("records"), tutti.Future(),
            data.Optional.empty(), plan, data.IteratorSpec(None), data.DatasetSpec(None),
            data.OptionalSpec(None), data.NoneTensorSpec(), data.VariantSpec(),
        ]

    def call(self, what, function, keywords):
        """What went wrong with the way in which the call failed, if it did."""
        try:
            function(**keywords)
        except EXPECTED as error:
            text = str(error)
            if not text or ACCIDENTS.search(text):
                return f"{what}: {type(error).__name__}: {text or 'no message'}"
        except (StopIteration, BufferError):
            pass
        except Exception as error:
            return f"{what}: {type(error).__name__}: {error}"
        return None

    def wrong_calls(self, thing):
        """(method, name of the wrong argument, keywords) of a thing's public methods."""
        for name, method in inspect.getmembers(thing, callable):
            if name.startswith("_") or name in self.LEFT_OUT or inspect.isclass(method):
                continue
            parameters = [p for p in inspect.signature(method).parameters.values()
                          if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
            needed = {p.name for p in parameters if p.default is p.empty}
            for parameter in parameters:
                if parameter.name == "timeout":
                    continue
                for wrong in self.WRONG:
                    keywords = {key: self.RIGHT.get(key, 1) for key in needed}
                    if any(p.name == "timeout" for p in parameters):
                        keywords["timeout"] = 5
                    keywords[parameter.name] = wrong
                    yield name, parameter.name, keywords

    def test_wrong_arguments_of_methods_are_told_from_accidents(self):
        found, calls = [], 0
        for thing in self.objects():
            for name, wrong, keywords in self.wrong_calls(thing):
                what = f"{type(thing).__name__}.{name}({wrong}={keywords[wrong]!r:.40})"
                found.append(self.call(what, getattr(thing, name), keywords))
                calls += 1
        self.assertGreater(calls, 1000)
        self.assertEqual("\n".join(filter(None, found)), "")

    def test_wrong_arguments_of_collectives_are_told_from_accidents(self):
        found, calls = [], 0
        fresh, = tutti.Communicator.create_local(1)
        for name, wrong, keywords in self.wrong_calls(fresh):
            rank, = tutti.Communicator.create_local(1)  # a mistake may end the epoch
            what = f"Communicator.{name}({wrong}={keywords[wrong]!r:.40})"

            def use(**keywords):
                result = getattr(rank, name)(**keywords)
                if isinstance(result, tutti.Future):
                    result.result(HANG_S)

            found.append(self.call(what, use, keywords))
            calls += 1
        self.assertGreater(calls, 500)
        self.assertEqual("\n".join(filter(None, found)), "")

    def test_wrong_arguments_of_constructors_and_functions_are_told_from_accidents(self):
        found = []
        things = [getattr(module, name) for module in (tutti, data, distribute, train)
                  for name in module.__all__]
        for thing in things:
            if not callable(thing) or thing in (tutti.shutdown, data.Optional, tutti.Future,
                                                data.NoneTensorSpec, tutti.Runtime):
                continue
            if inspect.isclass(thing) and issubclass(thing, int):  # an enum
                continue
            parameters = [p for p in inspect.signature(thing).parameters.values()
                          if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
            needed = {p.name for p in parameters if p.default is p.empty}
            for parameter in parameters:
                for wrong in self.WRONG if parameter.name != "timeout" else ():
                    keywords = {key: self.RIGHT.get(key, 1) for key in needed}
                    keywords[parameter.name] = wrong
                    what = f"{thing.__name__}({parameter.name}={wrong!r:.40})"
                    found.append(self.call(what, thing, keywords))
        distribute.experimental_set_strategy(None)
        self.assertEqual("\n".join(filter(None, found)), "")

    def test_messages_say_where_what_is_needed_and_what_came(self):
        strategy = two_replicas()
        for use, expected in [
                (lambda: Dataset.range(3).take("2"), "take: count: an integer is needed, not an "
                                                     "object of type str"),
                (lambda: Dataset.range(3).concatenate(None),
                 "concatenate: dataset: a tutti.data.Dataset is needed, not None"),
                (lambda: strategy.distribute_dataset([1]),
                 "distribute_dataset: dataset: a tutti.data.Dataset is needed, not an object of "
                 "type list"),
                (lambda: strategy.run(None), "function is needed, not"),
                (lambda: tutti.TensorSpec([2], None), "a dtype is needed, not None"),
                (lambda: tutti.Tensor(None),
                 "an object of type NoneType is no tensor; give a NumPy"),
                (lambda: data.TFRecordWriter(None), "NoneType"),
                (lambda: train.Checkpoint(x=None),
                 "x: a NoneType cannot be saved; give variables")]:
            with self.subTest(expected=expected), self.assertRaises(TypeError) as caught:
                use()
            self.assertIn(expected, str(caught.exception))


class ArrayTest(unittest.TestCase):
    """Arrays that are not what a tensor is made of at once."""

    def roundtrip(self, array):
        return tutti.Tensor(array).numpy()

    def test_fortran_order_and_steps_cross_as_they_are(self):
        whole = np.arange(24, dtype=np.float32).reshape(4, 6)
        for array in (np.asfortranarray(whole), whole[::2, ::-3], whole.T, whole[:, 1:2],
                      np.broadcast_to(whole[0], (3, 6))):
            back = self.roundtrip(array)
            np.testing.assert_array_equal(back, array)
            self.assertEqual(back.__array_interface__["data"][0],
                             array.__array_interface__["data"][0])
            self.assertEqual(back.strides, array.strides)

    def test_callbacks_and_collectives_take_such_arrays(self):
        strategy = two_replicas()
        fortran = np.asfortranarray(np.arange(6.0).reshape(2, 3))
        for array in (fortran, fortran.T, fortran[:, ::2], fortran.astype(">f8")):
            summed = strategy.reduce("sum", strategy.run(lambda a: a + 1, args=(array,)))
            np.testing.assert_array_equal(summed, 2 * (array.astype(np.float64) + 1))
            gathered, = {strategy.run(lambda: distribute.get_replica_context().all_reduce(
                "sum", array)).values[0].tobytes()}
            self.assertEqual(gathered, (2 * array.astype(np.float64)).tobytes())

    def test_targets_that_cannot_be_written_are_value_errors(self):
        rank = tutti.Communicator.create_local(1)[0]
        read_only = np.zeros(3)
        read_only.flags.writeable = False
        for target, expected in [(read_only, "read-only"), (np.zeros(3, ">f8"), "byte order"),
                                 (np.frombuffer(bytes(24)), "read-only"),
                                 (np.frombuffer(bytearray(25), np.uint8)[1:].view(np.float64),
                                  "aligned")]:
            with self.assertRaises(ValueError) as caught:
                rank.broadcast(target)
            self.assertIn(expected, str(caught.exception))
        with self.assertRaises(ValueError):
            train.Checkpoint(array=read_only)
        for target in ([0.0], 3.5, None, "x"):
            with self.assertRaises(TypeError) as caught:
                rank.broadcast(target)
            self.assertIn("a NumPy array, a tutti.Tensor or something with __dlpack__ is needed",
                          str(caught.exception))
        # A view with steps is written where it lies.
        whole = np.zeros(6)
        tutti.Communicator.create_local(1)[0].all_reduce(np.ones(3), out=whole[::2])
        self.assertEqual(whole.tolist(), [1, 0, 1, 0, 1, 0])

    def test_dtypes_that_no_tensor_has_are_type_errors_that_name_them(self):
        for array in (np.zeros(2, np.longdouble), np.zeros(2, "M8[s]"), np.zeros(2, [("a", "i4")]),
                      np.zeros(2, np.clongdouble)):
            for use in (lambda: tutti.Tensor(array), lambda: Dataset.from_tensors(array),
                        lambda: tutti.Variable(array), lambda: tutti.TensorSpec([2], array.dtype)):
                with self.assertRaises(TypeError) as caught:
                    use()
                self.assertIn(str(array.dtype), str(caught.exception))

    def test_arrays_of_objects_hold_texts_or_are_type_errors(self):
        self.assertEqual(self.roundtrip(np.array([b"a", "\u00e4"], object)).tolist(),
                         [b"a", "\u00e4".encode()])
        for array in (np.array([1, 2.5], object), np.array([None], object),
                      np.array([[1], [2, 3]], object), np.array([b"a", object()], object)):
            with self.assertRaises(TypeError) as caught:
                tutti.Tensor(array)
            self.assertIn("an array of objects must hold bytes or str; element",
                          str(caught.exception))
        with self.assertRaises(ValueError):  # UnicodeEncodeError
            tutti.Tensor(np.array(["\ud800"], object))

    def test_a_wrong_dtype_names_both_and_changes_nothing(self):
        variable = tutti.Variable(np.zeros(2, np.float32))
        with self.assertRaises(TypeError) as caught:
            variable.assign(np.ones(2, np.int64))
        self.assertIn("float32", str(caught.exception))
        self.assertIn("int64", str(caught.exception))
        self.assertEqual(variable.numpy().tolist(), [0, 0])
        rank = tutti.Communicator.create_local(1)[0]
        with self.assertRaises((TypeError, ValueError)) as caught:
            rank.all_reduce(np.zeros(2), out=np.zeros(2, np.float32))
        self.assertIn("float32", str(caught.exception))


class CallbackTest(unittest.TestCase):
    """Exceptions that leave a callback on a thread of the library."""

    def expect_same(self, error, use):
        try:
            use()
        except BaseException as caught:
            self.assertIs(caught, error)
            self.assertIn("fail", [frame.name for frame in
                                   traceback.extract_tb(caught.__traceback__)])
        else:
            self.fail(f"{error!r} did not come out")

    def places(self, fail):
        """Programs in which `fail` runs on a thread that is not the caller's."""
        me = threading.get_ident()

        def elsewhere(*given):
            if threading.get_ident() != me:
                fail()
            return given[0] if given else None

        strategy = two_replicas()
        numbers = Dataset.range(4)
        return {
            "a replica": lambda: strategy.run(elsewhere),
            "a parallel map": lambda: list(numbers.map(elsewhere, num_parallel_calls=2,
                                                       output_signature=INT64).prefetch(1)),
            "a prefetched map": lambda: list(numbers.map(elsewhere, output_signature=INT64)
                                             .prefetch(1)),
            "a prefetched filter": lambda: list(numbers.filter(
                lambda x: elsewhere(x) is not None).prefetch(1)),
            "a prefetched generator": lambda: list(Dataset.from_generator(
                lambda: (elsewhere(i) for i in range(3)), output_signature=INT64).prefetch(1)),
            "distributed input": lambda: list(strategy.distribute_dataset(
                numbers.batch(2).map(elsewhere,
                                     output_signature=tutti.TensorSpec((None,), np.int64)))),
        }

    def test_each_kind_of_exception_comes_out_of_each_place_as_the_same_object(self):
        class Own(Exception):
            pass

        for make in (Own, ValueError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError,
                     lambda: errors.DataLossError("mine"), lambda: OSError(2, "none")):
            for place in self.places(None):
                error = make()
                def fail():
                    raise error

                with self.subTest(error=repr(error), place=place):
                    self.expect_same(error, self.places(fail)[place])

    def test_a_stop_iteration_ends_no_loop_in_silence(self):
        for place in self.places(None):
            error = StopIteration("mine")

            def fail():
                raise error

            with self.subTest(place=place), self.assertRaises(RuntimeError) as caught:
                self.places(fail)[place]()
            self.assertIs(root_of(caught.exception), error)

    def test_an_exception_that_cannot_be_shown_comes_out_too(self):
        class Mute(Exception):
            def __str__(self):
                raise RuntimeError("no text")

        error = Mute()

        def fail():
            raise error

        self.expect_same(error, self.places(fail)["a replica"])

    def test_a_generator_may_fail_at_its_start_in_the_middle_and_when_it_is_closed(self):
        def starts():
            raise KeyError("start")

        def middle():
            yield 1
            raise KeyError("middle")

        def closing():
            try:
                yield 1
                yield 2
            finally:
                raise KeyError("close")

        for generator, text in ((starts, "start"), (middle, "middle")):
            iterator = iter(Dataset.from_generator(generator, output_signature=INT64))
            with self.assertRaises(KeyError) as caught:
                while True:
                    next(iterator)
            self.assertEqual(caught.exception.args, (text,))
        seen = []
        hook, sys.unraisablehook = sys.unraisablehook, lambda given: seen.append(given.exc_value)
        try:
            iterator = iter(Dataset.from_generator(closing, output_signature=INT64))
            self.assertEqual(next(iterator), 1)
            iterator.close()
            del iterator
            gc.collect()
            Dataset.range(1).cardinality()
        finally:
            sys.unraisablehook = hook
        self.assertTrue(all(isinstance(error, KeyError) for error in seen), seen)

    def test_what_is_no_iterator_or_no_element_is_a_type_error(self):
        for generator in (lambda: 3, lambda: None, lambda: iter([object()]), lambda: iter(["x"])):
            with self.assertRaises((TypeError, ValueError)):
                list(Dataset.from_generator(generator, output_signature=INT64))
        with self.assertRaises(TypeError):
            list(Dataset.range(2).map(lambda x: object()))

    def test_a_context_that_was_kept_says_that_it_has_ended(self):
        kept = []
        two_replicas().run(lambda: kept.append(distribute.get_replica_context()))
        self.assertEqual(len(kept), 2)
        for context in kept:
            for use in (lambda: context.replica_id_in_sync_group, lambda: context.device,
                        lambda: context.strategy, lambda: context.is_cancelled,
                        lambda: context.all_reduce("sum", 1.0),
                        lambda: context.all_gather(np.zeros(1), 0),
                        lambda: context.merge_call(lambda strategy: None)):
                with self.assertRaises(errors.FailedPreconditionError) as caught:
                    use()
                self.assertIn("this replica context has ended", str(caught.exception))


class EndTest(unittest.TestCase):
    """Objects that were closed, and memory that outlives them."""

    def test_a_closed_object_is_refused_by_name_and_closing_twice_is_fine(self):
        strategy = two_replicas()
        steps = iter(strategy.distribute_dataset(Dataset.range(4).batch(2)))
        iterator = iter(Dataset.range(4))
        ranks = tutti.Communicator.create_local(2)
        with tempfile.TemporaryDirectory() as folder:
            writer = data.TFRecordWriter(os.path.join(folder, "a"))
            runtime = tutti.Runtime()
            closed = [
                (steps.close, lambda: next(steps), "iterator"),
                (strategy.close, lambda: strategy.run(lambda: 1), "closed"),
                (iterator.close, lambda: next(iterator), "iterator"),
                (iterator.close, lambda: iterator.save(), "iterator"),
                (ranks[0].close, lambda: ranks[0].barrier(), "barrier after close of communicator"),
                (writer.close, lambda: writer.write(b"x"), "closed"),
                (runtime.shutdown, lambda: runtime.set("log_level", "info"), "shut down"),
            ]
            for close, use, expected in closed:
                close()
                close()
                with self.subTest(expected=expected), \
                        self.assertRaises(errors.FailedPreconditionError) as caught:
                    use()
                self.assertIsInstance(caught.exception, RuntimeError)
                self.assertIn(expected, str(caught.exception))

    def test_everything_after_shutdown_says_so(self):
        runtime = tutti.Runtime()
        with runtime.as_default():
            strategy = two_replicas()
            with strategy.scope():
                variable = tutti.Variable(np.zeros(3))
            dataset = Dataset.range(4).batch(2)
            distributed = strategy.distribute_dataset(dataset)
            iterator, steps = iter(dataset), iter(distributed)
            rank = tutti.Communicator.create_local(1)[0]
            checkpoint = train.Checkpoint(variable=variable)
            tensor = tutti.Tensor.zeros([3])
            view, live = tensor.numpy(), variable.data()
            runtime.shutdown()
            uses = [lambda: strategy.run(lambda: 1), lambda: variable.assign(np.ones(3)),
                    lambda: next(iterator), lambda: next(steps), lambda: iter(dataset),
                    lambda: iter(distributed), lambda: rank.barrier(),
                    lambda: checkpoint.save("x/y"), lambda: two_replicas(),
                    lambda: tutti.Tensor.zeros([3]),
                    lambda: tutti.Communicator.create_local(1), lambda: Dataset.range(3),
                    lambda: strategy.distribute_dataset(dataset)]
            for i, use in enumerate(uses):
                with self.subTest(i=i), self.assertRaises(errors.FailedPreconditionError) as caught:
                    use()
                self.assertIn("shut down", str(caught.exception))
        # Memory stays, with all that is needed to read it.
        view[...] = 3
        self.assertEqual(tensor.numpy().tolist(), [3, 3, 3])
        self.assertEqual(live.tolist(), [0, 0, 0])

    def test_views_keep_what_they_look_at(self):
        def gone(thing):
            gc.collect()
            list(Dataset.range(1))  # what ended elsewhere is let go by a call that waits
            return thing() is None

        class Array(np.ndarray):  # which can be watched
            pass

        source = np.arange(4.0).view(Array)
        watched = weakref.ref(source)
        tensor = tutti.Tensor(source)
        views = [tensor.numpy(), tensor.slice(1, 3).numpy(), np.from_dlpack(tensor),
                 memoryview(tensor.numpy())]
        del source, tensor
        while views:
            gc.collect()
            self.assertIsNotNone(watched())
            self.assertEqual(float(np.asarray(views.pop())[-1]), 3.0 if len(views) != 1 else 2.0)
        ends = time.monotonic() + HANG_S  # other threads may be letting go at the same time
        while not gone(watched):
            self.assertLess(time.monotonic(), ends, "the array is kept for ever")

        iterator = iter(Dataset.from_tensor_slices(np.arange(8.0).reshape(2, 4)))
        first = next(iterator)
        iterator.close()
        del iterator
        gc.collect()
        self.assertEqual(first.tolist(), [0, 1, 2, 3])

    def test_an_object_that_was_never_made_is_a_type_error(self):
        for cls in (Dataset, tutti.Communicator, tutti.Cluster, distribute.DistributedDataset,
                    distribute.DistributedValues):
            with self.assertRaises(TypeError) as caught:
                cls()
            self.assertRegex(str(caught.exception), "with|come from")
        for use in (lambda: tutti.Tensor(tutti.Tensor.__new__(tutti.Tensor)),
                    lambda: two_replicas().reduce("sum", tutti.distribute.PerReplica.__new__(
                        tutti.distribute.PerReplica))):
            with self.assertRaises((TypeError, AttributeError)):
                use()


class NoCopyTest(unittest.TestCase):
    """Wherever a tensor crosses, both sides see the same address."""

    @staticmethod
    def at(array):
        return array.__array_interface__["data"][0]

    def setUp(self):
        self.array = np.arange(4096.0).reshape(64, 64)

    def test_into_a_tensor_and_out(self):
        tensor = tutti.Tensor(self.array)
        self.assertEqual({tensor.address, self.at(tensor.numpy()), self.at(np.asarray(tensor)),
                          self.at(tutti.Tensor(tensor).numpy())}, {self.at(self.array)})

    def test_through_dlpack(self):
        tensor = tutti.Tensor.zeros([64])
        self.assertEqual(self.at(np.from_dlpack(tensor)), tensor.address)

        class Foreign:
            __dlpack__ = self.array.__dlpack__
            __dlpack_device__ = self.array.__dlpack_device__

        self.assertEqual(tutti.Tensor(Foreign()).address, self.at(self.array))

    def test_into_replicas_and_out_of_them(self):
        strategy = two_replicas()
        made = []

        def step(whole, part):
            made.append(np.full(4096, 1.0))
            return self.at(whole), self.at(part["x"]), made[-1]

        parts = strategy.per_replica([{"x": self.array[0]}, {"x": self.array[1]}])
        whole, part, results = strategy.run(step, args=(self.array, parts))
        self.assertEqual({int(a) for a in strategy.local_results(whole)}, {self.at(self.array)})
        self.assertEqual([int(a) for a in strategy.local_results(part)],
                         [self.at(self.array[0]), self.at(self.array[1])])
        self.assertEqual({self.at(a) for a in strategy.local_results(results)},
                         {self.at(a) for a in made})

    def test_through_a_merge_call(self):
        strategy = two_replicas()
        seen = []

        def step():
            mine = np.full(4096, 1.0)
            seen.append(self.at(mine))
            context = distribute.get_replica_context()
            return context.merge_call(lambda _, merged: seen.extend(
                -self.at(a) for a in strategy.local_results(merged)), args=(mine,))

        strategy.run(step)
        self.assertEqual(len(seen), 4)
        self.assertEqual(sorted(map(abs, seen))[::2], sorted(map(abs, seen))[1::2])

    def test_through_datasets(self):
        element, = Dataset.from_tensors(self.array)
        self.assertEqual(self.at(element), self.at(self.array))
        rows = list(Dataset.from_tensor_slices(self.array))
        self.assertEqual([self.at(row) for row in rows], [self.at(row) for row in self.array])
        given = []
        list(Dataset.from_tensors(self.array).map(lambda a: given.append(self.at(a)) or 0,
                                                  output_signature=INT64))
        self.assertEqual(given, [self.at(self.array)])

    def test_from_a_batch_to_the_replicas(self):
        strategy = two_replicas()
        distributed = strategy.distribute_dataset(Dataset.from_tensor_slices(self.array).batch(64))
        for batch in distributed:
            halves = strategy.local_results(batch)
            self.assertEqual(self.at(halves[1]) - self.at(halves[0]), self.array.nbytes // 2)
            seen = strategy.run(lambda part: self.at(part), args=(batch,))
            self.assertEqual([int(a) for a in strategy.local_results(seen)],
                             [self.at(half) for half in halves])

    def test_of_a_variable(self):
        strategy = two_replicas()
        with strategy.scope():
            variable = tutti.Variable(self.array)
        inside = strategy.run(lambda: self.at(variable.data()))
        self.assertEqual([int(a) for a in strategy.local_results(inside)],
                         [self.at(copy) for copy in variable.copies()])
        self.assertEqual(self.at(variable.data()), self.at(variable.copies()[0]))

    def test_in_place_over_a_communicator(self):
        address = self.at(self.array)
        rank = tutti.Communicator.create_local(1)[0]
        self.assertIs(rank.all_reduce(self.array, out=self.array), self.array)
        self.assertIs(rank.broadcast(self.array), self.array)
        self.assertEqual(self.at(self.array), address)


if __name__ == "__main__":
    unittest.main()
