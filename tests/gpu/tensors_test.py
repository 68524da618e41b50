"""Tensors on GPUs in Python, with a fake driver that has two.

    tensors_test.py FAKE_DRIVER       (PYTHONPATH leads to the package)
"""

import copy
import os
import pickle
import sys
import unittest

FAKE = sys.argv.pop(1)
os.environ["TUTTI_CUDA_DRIVER"] = FAKE

import numpy as np  # noqa: E402, after the variable is set
import tutti  # noqa: E402


class Foreign:
    """What CuPy's arrays are to others: `__cuda_array_interface__` and no more."""

    def __init__(self, tensor, **changed):
        self.tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, **changed}


class Producer:
    """A library that gives by DLPack, and notes for which stream."""

    def __init__(self, tensor):
        self.tensor, self.streams = tensor, []

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **options):
        self.streams.append(options.get("stream"))
        return self.tensor.__dlpack__(**options)


class TensorsTest(unittest.TestCase):
    def setUp(self):
        self.numbers = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
        self.there = tutti.Tensor(self.numbers).copy_to("GPU:0")

    def test_a_tensor_goes_there_and_comes_back(self):
        self.assertTrue(self.there.device.endswith("/device:GPU:0"))
        self.assertFalse(self.there.is_on_host)
        self.assertEqual(repr(self.there), "<tutti.Tensor float32[2,3] <on GPU:0>>")
        back = self.there.copy_to("CPU:0", timeout=60)
        self.assertTrue(back.is_on_host)
        np.testing.assert_array_equal(back.numpy(), self.numbers)
        np.testing.assert_array_equal(self.there.slice(1, 2).numpy(), self.numbers[1:])
        np.testing.assert_array_equal(np.asarray(self.there), self.numbers)
        np.testing.assert_array_equal(self.there.copy().numpy(), self.numbers)
        second = self.there.copy_to("GPU:1")
        self.assertTrue(second.device.endswith("/device:GPU:1"))
        np.testing.assert_array_equal(second.numpy(), self.numbers)
        self.assertTrue(second.equal(self.numbers))
        self.assertFalse(second.equal(self.numbers + 1))
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(second)).numpy(), self.numbers)
        np.testing.assert_array_equal(copy.deepcopy(second).numpy(), self.numbers)

    def test_tensors_are_made_there(self):
        zeros = tutti.Tensor.zeros([4], np.int32, device="GPU:1")
        self.assertTrue(zeros.device.endswith("/device:GPU:1"))
        self.assertEqual(zeros.numpy().tolist(), [0, 0, 0, 0])
        with tutti.device("GPU:0"):
            placed = tutti.Tensor([1, 2])
        self.assertTrue(placed.device.endswith("/device:GPU:0"))
        self.assertEqual(placed.numpy().tolist(), [1, 2])
        pinned = tutti.Tensor.zeros([2], np.float32, pinned=True)
        self.assertTrue(pinned.is_on_host)
        pinned.numpy()[1] = 5
        self.assertEqual(pinned.copy_to("GPU:0").copy_to("CPU:0", pinned=True).numpy().tolist(),
                         [0, 5])
        with self.assertRaisesRegex(tutti.errors.InvalidArgumentError, "cannot be pinned"):
            tutti.Tensor.zeros([2], device="GPU:0", pinned=True)

    def test_memory_is_counted(self):
        with tutti.Runtime() as runtime, runtime.as_default():
            held = tutti.Tensor.zeros([1000], np.float32, device="GPU:1")
            memory = tutti.config.describe_device("GPU:1")["memory"]
            self.assertEqual((memory["used_bytes"], memory["peak_bytes"]), (4000, 4000))
            self.assertGreater(memory["free_bytes"], 0)
            with self.assertRaisesRegex(tutti.errors.ResourceExhaustedError,
                                        "1073741824 bytes of its memory were asked for, "
                                        ".* are free"):
                tutti.Tensor.empty([1 << 30], np.int8, device="GPU:1")
            self.assertEqual(held.numpy().sum(), 0)
            del held
            memory = tutti.config.describe_device("GPU:1")["memory"]
            self.assertEqual((memory["used_bytes"], memory["peak_bytes"]), (0, 4000))

    def test_what_needs_the_host_refuses(self):
        there = self.there
        refused = r"float32\[(2,3)?\] lies on GPU:0, and this needs elements in the host's memory;"
        strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        for use in (lambda: there.cast(np.int32), lambda: there.convert(np.float64),
                    lambda: tutti.data.Dataset.from_tensors(there),
                    lambda: tutti.data.Dataset.from_tensor_slices({"x": there}),
                    lambda: list(tutti.data.Dataset.range(1).map(lambda x: there)),
                    lambda: list(tutti.data.Dataset.from_tensors(self.numbers).padded_batch(
                        1, padding_values=there.reshape(6).slice(0, 1).reshape([]))),
                    lambda: tutti.debugging.assert_equal(there, there),
                    lambda: strategy.run(lambda: tutti.distribute.get_replica_context()
                                         .all_reduce("sum", there)),
                    lambda: tutti.debugging.check_numerics(there, "x")):
            with self.assertRaisesRegex(tutti.errors.FailedPreconditionError, refused):
                use()
        with self.assertRaisesRegex(tutti.errors.NotFoundError, "no GPU:9; it has CPU:0 to CPU:"):
            there.copy_to("GPU:9")
        with self.assertRaisesRegex(tutti.errors.InvalidArgumentError, "byte strings stay"):
            tutti.Tensor(b"text").copy_to("GPU:0")

    def test_streams_and_events(self):
        stream = tutti.Stream("GPU:0")
        self.assertEqual((stream.device, stream.__cuda_stream__()), ("GPU:0", (0, stream.handle)))
        begin, end = tutti.Event("GPU:0", timed=True), tutti.Event("GPU:0", timed=True)
        self.assertTrue(begin.query())
        begin.record(stream)
        moved = tutti.Tensor(self.numbers).copy_to("GPU:0", stream=stream)
        again = moved.copy_to("GPU:0", stream=stream)
        end.record(stream)
        end.synchronize(timeout=60)
        self.assertTrue(end.query())
        self.assertGreaterEqual(begin.elapsed(end), 0)
        stream.synchronize(60)
        np.testing.assert_array_equal(again.numpy(), self.numbers)
        wrapped = tutti.Stream.wrap(stream.handle, "GPU:0")
        self.assertEqual(tutti.Stream.wrap(stream).handle, wrapped.handle)
        own = tutti.Stream.of_device("GPU:0")
        self.assertEqual(own.handle, tutti.Stream.of_cuda_device(0).handle)
        own.wait_stream(wrapped)
        own.wait_event(end)
        other = tutti.Stream("GPU:1")
        other.wait_event(end)
        errors = tutti.errors.InvalidArgumentError
        with self.assertRaisesRegex(errors, "the stream is one of GPU:1, and the copy is made by"):
            moved.copy_to("GPU:0", stream=other)
        with self.assertRaisesRegex(errors, "the stream is one of GPU:1"):
            moved.copy_to("CPU:0", stream=other)
        with self.assertRaisesRegex(errors, "stream 0 says nothing"):
            tutti.Stream.wrap(0, "GPU:0")
        with self.assertRaisesRegex(errors, "belongs to another device"):
            tutti.Stream.wrap(stream.handle, "GPU:1")
        with self.assertRaisesRegex(errors, "on a stream of GPU:1"):
            end.record(other)
        with self.assertRaisesRegex(errors, "CPU:0 has no streams"):
            tutti.Stream("CPU:0")
        with self.assertRaisesRegex(TypeError, "Tensor.copy_to: stream: a tutti.Stream is needed"):
            moved.copy_to("GPU:0", stream=7)

    def test_dlpack_goes_by_streams(self):
        self.assertEqual(self.there.__dlpack_device__(), (2, 0))
        own = tutti.Stream.of_device("GPU:0").handle
        for stream in (None, -1, 1, 2, own):
            capsule = self.there.__dlpack__(stream=stream, max_version=(1, 0))
            self.assertIn("dltensor_versioned", repr(capsule))
            del capsule
        with self.assertRaisesRegex(BufferError, "stream 0 says nothing"):
            self.there.__dlpack__(stream=0)
        producer = Producer(self.there.copy_to("GPU:1"))
        taken = tutti.Tensor(producer)
        self.assertEqual(producer.streams, [tutti.Stream.of_device("GPU:1").handle])
        self.assertEqual(taken.address, producer.tensor.address)
        self.assertTrue(taken.device.endswith("/device:GPU:1"))
        del producer
        np.testing.assert_array_equal(taken.numpy(), self.numbers)
        np.testing.assert_array_equal(
            np.from_dlpack(tutti.Tensor(self.numbers)), self.numbers)
        here = tutti.Tensor(self.there).__dlpack__(dl_device=(1, 0), max_version=(1, 0))
        self.assertIn("dltensor_versioned", repr(here))
        with self.assertRaisesRegex(BufferError, r"lies on GPU:0, DLPack device \(2, 0\)"):
            self.there.__dlpack__(dl_device=(1, 0), copy=False)

    def test_cuda_array_interface(self):
        known = self.there.__cuda_array_interface__
        self.assertEqual((known["shape"], known["typestr"], known["version"], known["strides"]),
                         ((2, 3), "<f4", 3, None))
        self.assertEqual(known["data"], (self.there.address, False))
        self.assertEqual(known["stream"], tutti.Stream.of_device("GPU:0").handle)
        column = self.there.slice(0, 1, axis=1)
        self.assertEqual(column.__cuda_array_interface__["strides"], (12, 4))
        self.assertFalse(hasattr(tutti.Tensor(self.numbers), "__cuda_array_interface__"))
        taken = tutti.Tensor.from_cuda_array(Foreign(self.there))
        self.assertEqual(taken.address, self.there.address)
        np.testing.assert_array_equal(taken.numpy(), self.numbers)
        np.testing.assert_array_equal(
            tutti.Tensor.from_cuda_array(Foreign(self.there.slice(1, 3, axis=1))).numpy(),
            self.numbers[:, 1:])
        with self.assertRaisesRegex(ValueError, "stream 0"):
            tutti.Tensor.from_cuda_array(Foreign(self.there, stream=0))
        with self.assertRaisesRegex(ValueError, "run backwards"):
            tutti.Tensor.from_cuda_array(Foreign(self.there, strides=(-12, 4)))

    def test_visible_devices_keep_the_number_that_cuda_gives_them(self):
        with tutti.Runtime() as runtime, runtime.as_default():
            second = tutti.config.list_physical_devices("GPU")[1]
            tutti.config.set_visible_devices([second], "GPU")
            there = tutti.Tensor([1, 2]).copy_to("GPU:0")
            self.assertEqual(there.__dlpack_device__(), (2, 1))
            self.assertEqual(tutti.Tensor(Producer(there)).numpy().tolist(), [1, 2])
            with self.assertRaisesRegex(BufferError, "CUDA's device 0 is none of"):
                tutti.Tensor(Producer(self.there))


if __name__ == "__main__":
    unittest.main()
