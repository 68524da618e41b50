"""Batches of distributed datasets on GPUs in Python, with a fake driver that has two.

    input_test.py FAKE_DRIVER       (PYTHONPATH leads to the package)
"""

import os
import sys
import time
import unittest

FAKE = sys.argv.pop(1)
os.environ["TUTTI_CUDA_DRIVER"] = FAKE

import numpy as np  # noqa: E402, after the variable is set
import tutti  # noqa: E402


def batches(rows=8, steps=5):
    images = np.arange(rows * steps * 3, dtype=np.float32).reshape(-1, 3)
    names = [f"image {i}".encode() for i in range(rows * steps)]
    return tutti.data.Dataset.from_tensor_slices({"image": images, "name": names}).batch(rows)


class InputTest(unittest.TestCase):
    def setUp(self):
        self.strategy = tutti.distribute.MirroredStrategy(["GPU:0", "GPU:1"])

    def images(self, step):
        parts = self.strategy.experimental_local_results(step["image"])
        return parts, np.concatenate([np.asarray(part) for part in parts])

    def test_each_replica_gets_its_part_on_its_gpu(self):
        steps = list(self.strategy.experimental_distribute_dataset(batches()))
        self.assertEqual(len(steps), 5)
        for number, step in enumerate(steps):
            parts, images = self.images(step)
            self.assertEqual([part.device.rpartition("device:")[2] for part in parts],
                             ["GPU:0", "GPU:1"])
            np.testing.assert_array_equal(
                images, np.arange(24 * number, 24 * number + 24, dtype=np.float32).reshape(8, 3))
            names = self.strategy.experimental_local_results(step["name"])
            self.assertEqual(list(names[1]), [f"image {8 * number + i}".encode()
                                              for i in range(4, 8)])

        def on_replica(batch):
            context = tutti.distribute.get_replica_context()
            self.assertEqual(context.global_rows, 8)
            replica = context.replica_id_in_sync_group
            self.assertTrue(batch["image"].device.endswith(f"GPU:{replica}"))
            return np.asarray(batch["image"]).sum()

        sums = self.strategy.reduce("sum", self.strategy.run(on_replica, args=(steps[1],)))
        self.assertEqual(sums, np.arange(24, 48).sum())

    def test_without_prefetch_parts_stay_on_the_host(self):
        for options in (tutti.distribute.InputOptions(experimental_fetch_to_device=False),):
            dataset = self.strategy.experimental_distribute_dataset(batches(), options)
            parts, _ = self.images(next(iter(dataset)))
            self.assertEqual([type(part) for part in parts], [np.ndarray, np.ndarray])

    def test_a_position_is_restored_and_memory_goes_back(self):
        used = [tutti.config.get_memory_info(name)["current"] for name in ("GPU:0", "GPU:1")]
        dataset = self.strategy.experimental_distribute_dataset(batches())
        iterator = iter(dataset)
        next(iterator)
        state = iterator.save()
        _, second = self.images(next(iterator))
        other = iter(dataset)
        other.restore(state)
        _, again = self.images(next(other))
        np.testing.assert_array_equal(second, again)
        self.assertEqual(len(list(other)), 3)
        del iterator, other, dataset, second, again, _
        # What was read ahead goes back when the threads that read it have ended.
        until = time.monotonic() + 30
        now = None
        while now != used and time.monotonic() < until:
            now = [tutti.config.get_memory_info(name)["current"] for name in ("GPU:0", "GPU:1")]
            time.sleep(0.01)
        self.assertEqual(now, used)

    def test_a_lack_of_memory_is_an_error_of_the_step(self):
        large = tutti.data.Dataset.from_tensors(
            np.zeros((2, 40 << 20), np.int8)).repeat(2)
        dataset = self.strategy.experimental_distribute_dataset(large)
        iterator = iter(dataset)
        held = next(iterator)
        with self.assertRaisesRegex(tutti.errors.ResourceExhaustedError,
                                    "41943040 bytes of its memory were asked for"):
            next(iterator)
        del held

    def test_uneven_ends_and_logical_gpus(self):
        with tutti.Runtime(logical_gpu_devices=2) as runtime, runtime.as_default():
            strategy = tutti.distribute.MirroredStrategy([f"GPU:{i}" for i in range(3)])
            step, = strategy.experimental_distribute_dataset(
                tutti.data.Dataset.from_tensor_slices(np.arange(4.0)).batch(4))
            parts = strategy.experimental_local_results(step)
            self.assertEqual([part.device.rpartition("device:")[2] for part in parts],
                             ["GPU:0", "GPU:1", "GPU:2"])
            self.assertEqual([part.__dlpack_device__() for part in parts],
                             [(2, 0), (2, 0), (2, 1)])
            self.assertEqual([np.asarray(part).tolist() for part in parts],
                             [[0.0, 1.0], [2.0, 3.0], []])


if __name__ == "__main__":
    unittest.main()
