"""Device scopes place what is made in them; physical devices are configured as logical ones."""

import contextlib
import threading
import unittest

import numpy as np

import tutti
from tutti import distribute, errors
from tutti.data import Dataset

CPU1 = "/job:localhost/replica:0/task:0/device:CPU:1"


class PlacementTest(unittest.TestCase):
    def tearDown(self):
        tutti.config.set_soft_device_placement(False)

    def things(self):
        """What can be made on a device."""
        return {
            "tensor": lambda: tutti.Tensor([1.0]),
            "zeros": lambda: tutti.Tensor.zeros([2]),
            "variable": lambda: tutti.Variable(1.0),
            "run": lambda: distribute.get_strategy().run(lambda: None),
            "dataset": lambda: Dataset.range(3),
        }

    def test_tensors_and_variables_lie_where_the_scopes_say(self):
        with tutti.device("CPU:1"):
            tensor, variable = tutti.Tensor([1.0, 2.0]), tutti.Variable(3.0)
            zeros = tutti.Tensor.zeros([2, 3], np.int32)
            elements = list(Dataset.range(2).map(lambda x: x + 1))
            with tutti.device("/device:CPU:2"):
                self.assertTrue(tutti.Tensor(1).device.endswith("CPU:2"))
        self.assertEqual([tensor.device, zeros.device], [CPU1, CPU1])
        self.assertEqual(np.asarray(tensor).tolist(), [1.0, 2.0])
        self.assertEqual((zeros.shape, np.asarray(zeros).sum()), ((2, 3), 0))
        self.assertEqual(variable.numpy(), 3.0)
        self.assertEqual(elements, [1, 2])
        self.assertTrue(tutti.Tensor(1).device.endswith("/device:CPU:0"))

    def test_arrays_are_placed_however_a_tensor_is_made_of_them(self):
        array = np.arange(6.0).reshape(2, 3)
        frozen = array[::2]
        frozen.flags.writeable = False
        with tutti.device("CPU:1"):
            made = [tutti.Tensor(array), tutti.Tensor(array, np.float32), tutti.Tensor(array.T),
                    tutti.Tensor(frozen), tutti.Tensor(np.float64(3)), tutti.Tensor([[1, 2]]),
                    tutti.Tensor(np.array([b"a", b"bc"], object)),
                    tutti.Tensor.from_bits(np.uint16([1, 2])), tutti.Tensor(tutti.Tensor(array))]
            variable = tutti.Variable(array)
        self.assertEqual([tensor.device for tensor in made], [CPU1] * len(made))
        self.assertEqual(variable.device, CPU1)
        self.assertTrue(np.shares_memory(np.asarray(made[0]), array))
        self.assertEqual(np.asarray(made[2]).tolist(), array.T.tolist())

    def test_a_tensor_on_another_cpu_is_the_same_memory(self):
        array = np.arange(4.0)
        with tutti.device("CPU:3"):
            tensor = tutti.Tensor(array)
        array[0] = 7
        self.assertEqual(np.asarray(tensor)[0], 7)

    def test_a_device_that_is_not_there_is_an_error_of_what_is_placed_first(self):
        with tutti.device("GPU:77"):  # no error
            for name, make in self.things().items():
                with self.subTest(name), self.assertRaisesRegex(
                        errors.NotFoundError, "no GPU:77; it has CPU:0 to CPU:"):
                    make()
            with tutti.device("CPU:0"):
                for make in self.things().values():
                    make()

    def test_soft_placement_takes_the_cpu(self):
        self.assertIs(tutti.config.get_soft_device_placement(), False)
        tutti.config.set_soft_device_placement(True)
        self.assertIs(tutti.config.get_soft_device_placement(), True)
        with tutti.device("GPU:77"):
            for make in self.things().values():
                make()
            self.assertTrue(tutti.Tensor(1).device.endswith("/device:CPU:0"))
        tutti.config.set_soft_device_placement(False)
        with tutti.device("GPU:77"), self.assertRaises(errors.NotFoundError):
            tutti.Tensor(1)

    def test_another_jobs_device_cannot_be_used_yet(self):
        with tutti.device("/job:ps/task:0"):
            for name, make in self.things().items():
                with self.subTest(name), self.assertRaisesRegex(
                        errors.UnimplementedError, "one of another task"):
                    make()
        with tutti.device("/job:localhost"):
            tutti.Tensor(1)

    def test_the_task_of_a_job_is_here(self):
        cluster = distribute.cluster_resolver.SimpleClusterResolver(
            tutti.train.ClusterSpec({"worker": ["localhost:12345"]}), task_type="worker", task_id=0)
        with tutti.Runtime() as runtime, runtime.as_default():
            with distribute.MultiWorkerMirroredStrategy(cluster):
                with tutti.device("/job:worker/task:0/device:CPU:1"):
                    self.assertEqual(tutti.Tensor(1).device, CPU1)
                with tutti.device("/job:worker/task:1"), self.assertRaisesRegex(
                        NotImplementedError, "this process is /job:worker/replica:0/task:0"):
                    tutti.Tensor(1)

    def test_a_strategy_has_devices_of_its_own(self):
        strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        with tutti.device("GPU:77"):
            with strategy.scope():
                variable = tutti.Variable(1.0)
            self.assertEqual([float(x) for x in strategy.local_results(
                strategy.run(lambda: variable.numpy()))], [1.0, 1.0])

    def test_a_replica_function_begins_on_its_replicas_device(self):
        seen, lock = [], threading.Lock()

        def step():
            context = distribute.get_replica_context()
            here = tutti.current_device()
            tensor = tutti.Tensor(np.float32([1, 2]))
            variable = tutti.Variable(1.0)
            with tutti.device("CPU:3"):
                inner = str(tutti.current_device()), tutti.Tensor([1.0]).device
            with tutti.device(None):
                cleared = tutti.current_device()
            with lock:
                seen.append((context.replica_id_in_sync_group, str(here), tensor.device, inner,
                             str(cleared), context.devices))
            variable.assign(2.0) if context.num_replicas_in_sync == 1 else None

        on_3 = "/device:CPU:3", "/job:localhost/replica:0/task:0/device:CPU:3"
        strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        for scope in (contextlib.nullcontext(), tutti.device("CPU:2"), tutti.device("/job:ps")):
            seen.clear()
            with scope:
                before = tutti.current_device()
                strategy.run(step)
                self.assertEqual(tutti.current_device(), before)
            self.assertEqual(sorted(seen), [
                (i, f"/device:CPU:{i}", f"/job:localhost/replica:0/task:0/device:CPU:{i}", on_3,
                 f"/device:CPU:{i}", (f"CPU:{i}",)) for i in range(2)])
        seen.clear()
        with tutti.device("CPU:2"):  # the default strategy runs where the scopes say
            distribute.get_strategy().run(step)
        self.assertEqual(seen[0][1:3], ("/device:CPU:2", CPU1[:-1] + "2"))
        with strategy.scope():
            variable = tutti.Variable(1.0)
        for scope in (contextlib.nullcontext(), tutti.device("CPU:2")):
            with scope:
                places = strategy.extended.update(
                    variable, lambda v: str(tutti.current_device()), group=False)
                other = strategy.extended.update_non_slot(
                    "CPU:3", lambda: str(tutti.current_device()))
            self.assertEqual(list(places), ["/device:CPU:0", "/device:CPU:1"])
            self.assertEqual(other, "/device:CPU:3")
        self.assertIsNone(tutti.current_device())

    def test_a_function_is_no_device(self):
        with self.assertRaisesRegex(RuntimeError, "not a function"):
            with tutti.device(lambda op: "CPU:0"):
                pass


class ConfigurationTest(unittest.TestCase):
    """Each in a runtime of its own, whose devices nobody has used."""

    def setUp(self):
        self.runtime = tutti.Runtime()
        self.entered = self.runtime.as_default()
        self.entered.__enter__()

    def tearDown(self):
        self.entered.__exit__(None, None, None)
        self.runtime.shutdown()

    def test_devices_are_listed(self):
        config = tutti.config
        cpu = config.PhysicalDevice("/physical_device:CPU:0", "CPU")
        self.assertEqual(config.list_physical_devices("CPU"), [cpu])
        self.assertEqual(config.list_physical_devices()[0], cpu)
        self.assertEqual(config.get_visible_devices("CPU"), [cpu])
        self.assertEqual(config.list_logical_devices("CPU"),
                         [config.LogicalDevice("/device:CPU:0", "CPU")])
        self.assertEqual(cpu.device_type, "CPU")

    def test_a_cpu_is_presented_as_several(self):
        config = tutti.config
        cpu, = config.list_physical_devices("CPU")
        self.assertIsNone(config.get_logical_device_configuration(cpu))
        two = [config.LogicalDeviceConfiguration(), config.LogicalDeviceConfiguration()]
        config.set_logical_device_configuration(cpu, two)
        self.assertEqual(config.get_logical_device_configuration(cpu), two)
        self.assertEqual([device.name for device in config.list_logical_devices("CPU")],
                         ["/device:CPU:0", "/device:CPU:1"])
        config.set_logical_device_configuration(cpu, two)  # changes nothing
        with self.assertRaisesRegex(RuntimeError, "in use already"):
            config.set_logical_device_configuration(cpu, two + two)
        with tutti.device("CPU:2"), self.assertRaisesRegex(
                errors.NotFoundError, "it has CPU:0 to CPU:1"):
            tutti.Tensor(1)

    def test_what_a_device_cannot_be_is_refused(self):
        config = tutti.config
        cpu, = config.list_physical_devices("CPU")
        limited = config.LogicalDeviceConfiguration(memory_limit=1024)
        with self.assertRaisesRegex(ValueError, "leave memory_limit out"):
            config.set_logical_device_configuration(cpu, [limited])
        with self.assertRaisesRegex(ValueError, "0 logical devices"):
            config.set_logical_device_configuration(cpu, [])
        with self.assertRaisesRegex(errors.NotFoundError, "no physical device"):
            config.set_logical_device_configuration("/physical_device:GPU:77", [limited])
        with self.assertRaises(TypeError):
            config.set_logical_device_configuration(cpu, [1024])
        with self.assertRaises(TypeError):
            config.get_logical_device_configuration(0)
        self.assertIn("memory_limit=1024", repr(limited))

    def test_the_host_stays_visible(self):
        config = tutti.config
        cpu, = config.list_physical_devices("CPU")
        config.set_visible_devices(cpu, "CPU")
        config.set_visible_devices([], "GPU")
        self.assertEqual(config.get_visible_devices(), [cpu])
        with self.assertRaisesRegex(ValueError, "cannot be hidden"):
            config.set_visible_devices([], "CPU")
        with self.assertRaisesRegex(ValueError, "is no GPU"):
            config.set_visible_devices([cpu], "GPU")
        with self.assertRaisesRegex(errors.NotFoundError, "no physical device"):
            config.set_visible_devices(["GPU:77"], "GPU")
        with self.assertRaisesRegex(ValueError, "no type of device"):
            config.set_visible_devices([cpu], "NPU")


if __name__ == "__main__":
    unittest.main()
