"""Strategies on GPUs in Python, with a fake driver that has two.

    strategies_test.py FAKE_DRIVER EXAMPLES       (PYTHONPATH leads to the package)
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

FAKE, EXAMPLES = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
os.environ["TUTTI_CUDA_DRIVER"] = FAKE

import numpy as np  # noqa: E402, after the variable is set
import tutti  # noqa: E402

distribute = tutti.distribute


class StrategiesTest(unittest.TestCase):
    def setUp(self):
        self.strategy = distribute.MirroredStrategy()

    def variable(self, initial, **options):
        with self.strategy.scope():
            return tutti.Variable(np.asarray(initial, np.float32), **options)

    def test_all_gpus_are_taken_where_none_is_named(self):
        self.assertEqual(self.strategy.num_replicas_in_sync, 2)
        self.assertEqual([device[-5:] for device in self.strategy.extended.worker_devices],
                         ["GPU:0", "GPU:1"])
        self.assertEqual(distribute.OneDeviceStrategy("/gpu:1").extended.parameter_devices[0][-5:],
                         "GPU:1")
        central = distribute.experimental.CentralStorageStrategy()
        self.assertEqual(central.extended.parameter_devices[0][-5:], "CPU:0")
        with self.assertRaisesRegex(ValueError, "no GPU:9; it has CPU:0 to CPU:1023 and GPU:0 to"):
            distribute.MirroredStrategy(["GPU:0", "GPU:9"])

    def test_variables_lie_there_and_read_as_arrays(self):
        v = self.variable([1, 2], aggregation="sum")
        self.assertEqual([device[-5:] for device in v.copy_devices], ["GPU:0", "GPU:1"])
        self.assertEqual(v.numpy().tolist(), [1, 2])
        self.assertIsInstance(v.value(), tutti.Tensor)
        self.assertTrue(v.value().device.endswith("GPU:0"))
        self.assertEqual((v * 2 + 1).tolist(), [3, 5])
        v.assign(v.value())
        v.assign_add([0.5, 0.5])
        v.assign_sub(v)
        self.assertEqual([np.asarray(copy).tolist() for copy in v.copies()], [[0, 0], [0, 0]])
        v.scatter_update(tutti.IndexedSlices(np.float32([7]), [1]))
        self.assertEqual(v.numpy().tolist(), [0, 7])
        self.assertIn("on GPU:1", repr(v))
        w = self.variable(tutti.Tensor(np.float32([3])).copy_to("GPU:1"))
        self.assertEqual(w.numpy().tolist(), [3])

    def test_functions_get_tensors_by_their_addresses(self):
        v = self.variable([1, 2], aggregation="mean")

        def step():
            replica = distribute.get_replica_context()
            own = v.value()
            self.assertEqual(own.__dlpack_device__(), (2, replica.replica_id_in_sync_group))
            address, read_only = own.__cuda_array_interface__["data"]
            self.assertEqual((address, read_only), (own.address, False))
            total = replica.all_reduce("sum", own)
            self.assertEqual(total.device, own.device)
            v.assign_add(total)
            return total

        totals = self.strategy.run(step)
        self.assertEqual([t.numpy().tolist() for t in totals.values], [[2, 4], [2, 4]])
        self.assertEqual(v.numpy().tolist(), [3, 6])
        self.assertEqual(self.strategy.reduce("mean", totals).tolist(), [2, 4])
        self.assertEqual(self.strategy.gather(totals, axis=0).tolist(), [2, 4, 2, 4])
        moved = self.strategy.extended.reduce_to("sum", totals, v)
        self.assertEqual([t.device[-5:] for t in moved.values], ["GPU:0", "GPU:1"])
        self.assertEqual(moved.numpy().tolist(), [4, 8])
        with self.assertRaisesRegex(ValueError, "replica 1 is on GPU:1, and its tensor .* GPU:0"):
            there = tutti.Tensor(np.float32([1])).copy_to("GPU:0")
            self.strategy.run(lambda: distribute.get_replica_context().all_reduce("sum", there))

    def test_numpy_reads_copies_and_that_is_logged_once(self):
        there = tutti.Tensor(np.float32([1, 2])).copy_to("GPU:0")
        tutti._tensor._told_of_copies = False
        with self.assertLogs("tutti", "WARNING") as logged:
            self.assertEqual(np.asarray(there).tolist(), [1, 2])
            self.assertEqual((2.0 * there - np.float32([1, 1])).tolist(), [1, 3])
            self.assertEqual(there[1], 2)
        self.assertEqual(len(logged.output), 1)
        self.assertIn("on GPU:0: it is copied to the host", logged.output[0])

    def test_variables_are_saved_and_restored(self):
        v = self.variable([1, 2])
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = tutti.train.Checkpoint(strategy=self.strategy, v=v)
            path = checkpoint.save(os.path.join(folder, "checkpoint"))
            v.assign([5, 6])
            checkpoint.restore(path)
        self.assertEqual([np.asarray(copy).tolist() for copy in v.copies()], [[1, 2], [1, 2]])

    def test_placements_are_told(self):
        with tutti.Runtime() as runtime, runtime.as_default():
            told = subprocess.run(
                [sys.executable, "-c",
                 "import tutti; tutti.debugging.set_log_device_placement(True)\n"
                 "with tutti.distribute.MirroredStrategy().scope(): tutti.Variable(1.0, name='v')"],
                capture_output=True, text=True, check=True, timeout=100).stderr
        self.assertIn("replica 0 on GPU:0, replica 1 on GPU:1", told)

    def test_digits_come_out_as_on_cpus(self):
        def train(*places):
            done = subprocess.run(
                [sys.executable, "-B", str(EXAMPLES / "python" / "train_digits.py"),
                 "--epochs", "1", "--batch", "64", *places],
                capture_output=True, text=True, check=False, timeout=200, cwd=EXAMPLES.parent)
            hashes = [line.split()[-1] for line in done.stdout.splitlines() if "sha256" in line]
            losses = [line.split(",")[0] for line in done.stdout.splitlines() if "loss" in line]
            return hashes, losses, done

        on_cpus = train("--replicas", "2")
        on_gpus = train("--devices", "GPU:0,GPU:1")
        self.assertEqual(len(on_gpus[0]), 2, on_gpus[2].stderr)
        self.assertEqual(on_gpus[:2], on_cpus[:2])
        self.assertIn("replicas on GPU:0, GPU:1", on_gpus[2].stdout)
        self.assertEqual(on_gpus[2].stderr.count("NumPy reads a tensor on GPU:"), 1)


if __name__ == "__main__":
    unittest.main()
