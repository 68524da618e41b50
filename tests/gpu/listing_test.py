"""What Python and the command see of GPUs, with a fake driver that has two.

    listing_test.py FAKE_DRIVER FAKE_NCCL TUTTI       (PYTHONPATH leads to the package)
"""

import json
import os
import subprocess
import sys
import unittest

FAKE, NCCL, TUTTI = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)
os.environ.update(TUTTI_CUDA_DRIVER=FAKE, TUTTI_NCCL_LIBRARY=NCCL)

import tutti  # noqa: E402, after the variable is set


class ListingTest(unittest.TestCase):
    def test_gpus_stand_behind_cpus(self):
        self.assertEqual(tutti.config.list_devices(), ["CPU:0", "GPU:0", "GPU:1"])
        self.assertEqual(tutti.config.list_devices("GPU"), ["GPU:0", "GPU:1"])
        self.assertEqual(tutti.config.list_devices("CPU"), ["CPU:0"])

    def test_a_gpu_is_described(self):
        gpu = tutti.config.describe_device("/device:GPU:1")
        self.assertEqual((gpu["name"], gpu["type"], gpu["device_name"]),
                         ("GPU:1", "GPU", "Fake device 1"))
        self.assertEqual(gpu["compute_capability"], (9, 0))
        self.assertEqual(gpu["memory"], {"total_bytes": 64 << 20, "free_bytes": None,
                                         "used_bytes": 0, "peak_bytes": 0, "limit_bytes": None})
        self.assertEqual(gpu["uuid"], "02" * 16)
        cuda, = tutti.config.describe_plugins()
        self.assertEqual((cuda["name"], cuda["devices"], cuda["reason"]), ("cuda", 2, None))

    def test_a_gpu_that_is_not_there_is_not_found(self):
        with self.assertRaisesRegex(tutti.errors.NotFoundError,
                                    "no GPU:9; it has CPU:0 to CPU:1023 and GPU:0 to GPU:1"):
            tutti.config.describe_device("GPU:9")

    def test_strategies_take_all_gpus_where_none_is_named(self):
        self.assertEqual(tutti.distribute.MirroredStrategy().num_replicas_in_sync, 2)
        with tutti.Runtime(cuda_plugin="none") as runtime, runtime.as_default():
            self.assertEqual(tutti.distribute.MirroredStrategy().num_replicas_in_sync, 1)

    def test_a_runtime_may_do_without(self):
        with tutti.Runtime(cuda_plugin="none") as runtime, runtime.as_default():
            self.assertEqual(tutti.config.list_devices(), ["CPU:0"])
            with self.assertRaisesRegex(tutti.errors.NotFoundError, "says that no GPUs are used"):
                tutti.config.describe_device("GPU:0")

    def test_those_that_are_visible_are_listed_and_described(self):
        with tutti.Runtime() as runtime, runtime.as_default():
            config = tutti.config
            first, second = config.list_physical_devices("GPU")
            self.assertEqual(second, ("/physical_device:GPU:1", "GPU"))
            self.assertIsNone(config.get_logical_device_configuration(first))
            config.set_visible_devices([second], "GPU")
            self.assertEqual(config.get_visible_devices("GPU"), [second])
            self.assertEqual(config.list_physical_devices("GPU"), [first, second])
            self.assertEqual(config.list_logical_devices("GPU"), [("/device:GPU:0", "GPU")])
            self.assertEqual(config.describe_device("GPU:0")["device_name"], "Fake device 1")
            with self.assertRaisesRegex(tutti.errors.NotFoundError, "and GPU:0 to GPU:0"):
                config.describe_device("GPU:1")
            config.set_visible_devices([second], "GPU")  # changes nothing
            with self.assertRaisesRegex(RuntimeError, "in use already"):
                config.set_visible_devices([first], "GPU")

    def test_a_gpu_is_presented_as_several_that_share_its_memory(self):
        with tutti.Runtime() as runtime, runtime.as_default():
            config = tutti.config
            first, second = config.list_physical_devices("GPU")
            parts = [config.LogicalDeviceConfiguration(memory_limit=limit) for limit in (16, None)]
            with self.assertRaisesRegex(ValueError, "are 83886080 bytes together, and GPU:0 has "
                                                    "67108864; set smaller ones"):
                config.set_logical_device_configuration(
                    first, [config.LogicalDeviceConfiguration(memory_limit=80)])
            config.set_logical_device_configuration(first, parts)
            self.assertEqual(config.get_logical_device_configuration(first), parts)
            self.assertIsNone(config.get_logical_device_configuration(second))
            self.assertEqual(config.list_logical_devices("GPU"),
                             [(f"/device:GPU:{i}", "GPU") for i in range(3)])
            self.assertEqual([config.describe_device(f"GPU:{i}")["physical_device"]
                              for i in range(3)], [first.name, first.name, second.name])
            with tutti.device("GPU:1"):
                held = tutti.Tensor([1.0, 2.0])
            self.assertEqual(held.__dlpack_device__(), (2, 0))
            self.assertEqual(config.get_memory_info("GPU:1"), {"current": 8, "peak": 8})
            del held
            self.assertEqual(config.get_memory_info("/device:GPU:1"), {"current": 0, "peak": 8})
            config.reset_memory_stats("GPU:1")
            self.assertEqual(config.get_memory_info("GPU:1"), {"current": 0, "peak": 0})
            with self.assertRaisesRegex(ValueError, "name a GPU"):
                config.reset_memory_stats("CPU:0")
            self.assertEqual(set(config.get_memory_info("CPU:0")), {"current", "peak"})
            with self.assertRaisesRegex(tutti.errors.ResourceExhaustedError,
                                        "GPU:0: 20000000 bytes of its memory were asked for, 0 of "
                                        "its limit of 16777216 are in use"):
                tutti.Tensor.zeros([20000000], "int8", device="GPU:0")

    def test_a_setting_presents_each_gpu_as_several(self):
        with tutti.Runtime(logical_gpu_devices=2) as runtime, runtime.as_default():
            self.assertEqual(tutti.config.list_devices("GPU"), [f"GPU:{i}" for i in range(4)])

    def test_what_is_placed_on_a_gpu_lies_there(self):
        with tutti.device("GPU:0"):
            self.assertTrue(tutti.Tensor(1).device.endswith("/device:GPU:0"))
            variable = tutti.Variable(1.0)
        self.assertEqual(variable.device, "/job:localhost/replica:0/task:0/device:GPU:0")
        self.assertEqual(variable.numpy(), 1)
        with tutti.device("GPU:9"):
            with self.assertRaisesRegex(tutti.errors.NotFoundError, "no GPU:9"):
                tutti.Tensor(1)
            tutti.config.set_soft_device_placement(True)
            try:
                self.assertTrue(tutti.Tensor(1).device.endswith("/device:CPU:0"))
                self.assertTrue(tutti.Variable(1.0).device.endswith("/device:CPU:0"))
            finally:
                tutti.config.set_soft_device_placement(False)

    def test_the_doctor_names_them(self):
        facts = json.loads(self.doctor("--json"))
        self.assertEqual(facts["devices"], ["CPU:0", "GPU:0", "GPU:1"])
        self.assertEqual(facts["plugins"][0]["devices"], 2)
        self.assertIn("GPU:1: Fake device 1, compute capability 9.0", self.doctor())
        self.assertEqual(facts["plugins"][0]["nccl"],
                         {"version": "2.32.3", "file": NCCL, "origin": "TUTTI_NCCL_LIBRARY"})
        self.assertIn(f"nccl: 2.32.3 from TUTTI_NCCL_LIBRARY: {NCCL}", self.doctor())

    def test_the_bench_measures_copies_and_finds_nothing_wrong(self):
        words = ["bench", "--device", "GPU", "--min", "1K", "--max", "16K", "--factor", "16",
                 "--seconds", "0.001"]
        table = subprocess.run([TUTTI, *words], capture_output=True, text=True, check=True).stdout
        self.assertIn("# GPU:1: Fake device 1, compute capability 9.0", table)
        self.assertRegex(table, r"\n +1024 +pinned +GPU:0 +[\d.]+ +[\d.]+ +0\n")
        found = json.loads(subprocess.run([TUTTI, *words, "--json"], capture_output=True,
                                          text=True, check=True).stdout)
        self.assertEqual(len(found["copies"]), 2 * (4 + 4 + 4))
        self.assertEqual({copy["wrong"] for copy in found["copies"]}, {0})
        for device, why in (("CPU:0", "expected GPU, for all, or GPU:N"),
                            ("GPU:9", "no GPU:9; it has CPU:0")):
            refused = subprocess.run([TUTTI, "bench", "--device", device], capture_output=True,
                                     text=True)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(why, refused.stderr)

    @staticmethod
    def doctor(*words):
        return subprocess.run([TUTTI, "doctor", *words], capture_output=True, text=True,
                              check=True).stdout


if __name__ == "__main__":
    unittest.main()
