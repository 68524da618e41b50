"""Checkpoints: what is saved comes back, the last few stay, and other programs read the files."""

import importlib.util
import os
import tempfile
import unittest

import numpy as np

import tutti
from tutti import distribute, errors, train
from tutti.data import Dataset


class CheckpointTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    def path(self, name):
        return os.path.join(self.folder, name)

    def variable(self, value, **options):
        with self.strategy.scope():
            return tutti.Variable(value, **options)

    def test_variables_iterators_and_arrays_come_back(self):
        weights = self.variable(np.arange(4, dtype=np.float32))
        bias = self.variable(1.5)
        steps = iter(self.strategy.distribute_dataset(Dataset.range(8).batch(2)))
        numbers = iter(Dataset.range(10).shuffle(10, seed=3))
        epoch = np.zeros((), np.int64)
        checkpoint = train.Checkpoint(model={"weights": weights, "biases": [bias]}, steps=steps,
                                      numbers=numbers, epoch=epoch)
        self.assertIs(checkpoint.steps, steps)
        next(steps), next(numbers)
        epoch[...] = 7
        path = checkpoint.save(self.path("new/ckpt"))
        self.assertEqual(path, self.path("new/ckpt-1"))
        expected = [repr(next(steps)), int(next(numbers)), int(next(numbers))]
        weights.assign(np.zeros(4, np.float32))
        bias.assign(0.0)
        epoch[...] = 0
        checkpoint.restore(path).assert_consumed()
        np.testing.assert_array_equal(weights.numpy(), [0, 1, 2, 3])
        for copy in weights.copies():
            np.testing.assert_array_equal(copy, [0, 1, 2, 3])
        self.assertEqual(bias.numpy(), 1.5)
        self.assertEqual(int(epoch), 7)
        self.assertEqual([repr(next(steps)), int(next(numbers)), int(next(numbers))], expected)

    def test_save_counts_and_a_new_program_goes_on_counting(self):
        weights = self.variable(1)
        checkpoint = train.Checkpoint(weights=weights)
        self.assertEqual(checkpoint.save(self.path("ckpt")), self.path("ckpt-1"))
        self.assertEqual(checkpoint.save(self.path("ckpt")), self.path("ckpt-2"))
        again = train.Checkpoint(weights=weights)
        again.restore(self.path("ckpt-2"))
        self.assertEqual(again.save(self.path("ckpt")), self.path("ckpt-3"))

    def test_a_manager_keeps_the_last_few_and_restores_the_latest(self):
        weights = self.variable(0)
        initialized = []
        manager = train.CheckpointManager(train.Checkpoint(weights=weights), self.path("run"),
                                          max_to_keep=2, init_fn=lambda: initialized.append(1))
        self.assertIsNone(manager.restore_or_initialize())
        self.assertEqual(initialized, [1])
        self.assertIsNone(manager.latest_checkpoint)
        self.assertEqual(manager.checkpoints, [])
        for value in (1, 2, 3):
            weights.assign(value)
            self.assertEqual(manager.save(), self.path(f"run/ckpt-{value}"))
        self.assertEqual(manager.checkpoints, [self.path("run/ckpt-2"), self.path("run/ckpt-3")])
        self.assertEqual(manager.latest_checkpoint, self.path("run/ckpt-3"))
        self.assertEqual(train.latest_checkpoint(self.path("run")), self.path("run/ckpt-3"))
        self.assertIsNone(train.latest_checkpoint(self.path("elsewhere")))
        weights.assign(0)
        self.assertEqual(manager.restore_or_initialize(), self.path("run/ckpt-3"))
        self.assertEqual(weights.numpy(), 3)
        self.assertEqual(manager.save(checkpoint_number=100), self.path("run/ckpt-100"))

    def test_a_restore_that_fails_changes_nothing(self):
        weights = self.variable(np.zeros(2))
        other = self.variable(np.zeros(3))
        checkpoint = train.Checkpoint(weights=weights, other=other)
        path = checkpoint.save(self.path("ckpt"))
        weights.assign(np.ones(2))
        with self.assertRaisesRegex(ValueError, "float64"):
            train.Checkpoint(weights=weights, other=self.variable(np.zeros(4))).restore(path)
        narrow = self.variable([1.0, 2.0])
        with self.assertRaisesRegex(
                ValueError, r'restoring "weights".*: it is float32\[2\], and the file has '
                r"float64\[2\]; restore into one of dtype float64, and convert the value to "
                r"float32"):
            train.Checkpoint(weights=narrow).read(path)
        wide = self.variable([1.0, 2.0], dtype=np.float64)
        train.Checkpoint(weights=wide).read(path)
        narrow.assign(wide.numpy().astype(np.float32))
        self.assertEqual(narrow.numpy().tolist(), [0.0, 0.0])
        with self.assertRaisesRegex(errors.NotFoundError, "missing"):
            train.Checkpoint(weights=weights, missing=other).restore(path)
        with self.assertRaises(errors.NotFoundError):
            checkpoint.restore(self.path("none-1"))
        name = path + ".safetensors"
        with open(name, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last[0] ^ 1]))
        with self.assertRaisesRegex(errors.DataLossError, "ckpt-1.safetensors"):
            checkpoint.restore(path)
        np.testing.assert_array_equal(weights.numpy(), [1, 1])

    def test_values_that_no_object_takes_are_passed_over_and_told_on_request(self):
        a, b = self.variable(1), self.variable(2)
        path = train.Checkpoint(a=a, b=b).save(self.path("ckpt"))
        b.assign(0)
        status = train.Checkpoint(b=b).restore(path)
        self.assertEqual(b.numpy(), 2)
        with self.assertRaisesRegex(AssertionError, "a"):
            status.assert_consumed()

    def test_what_cannot_be_saved_is_refused_by_name(self):
        with self.assertRaisesRegex(TypeError, "model/rate: a float"):
            train.Checkpoint(model={"rate": 0.5})
        read_only = np.zeros(2)
        read_only.flags.writeable = False
        with self.assertRaises(ValueError):
            train.Checkpoint(x=read_only)
        with self.assertRaisesRegex(ValueError, "given twice"):
            train.Checkpoint({"x": np.zeros(1)}, x=np.zeros(1))
        with self.assertRaisesRegex(ValueError, "max_to_keep"):
            train.CheckpointManager(train.Checkpoint(), self.folder, max_to_keep=0)

    def test_saving_in_a_replica_function_is_refused(self):
        checkpoint = train.Checkpoint(weights=self.variable(1))
        with self.assertRaises(errors.FailedPreconditionError):
            self.strategy.run(lambda: checkpoint.save(self.path("ckpt")))

    def test_one_file_holds_the_bytes_that_the_format_says(self):
        weights = self.variable(np.arange(6, dtype=np.float32).reshape(2, 3))
        path = train.Checkpoint(weights=weights).write(self.path("model.safetensors"))
        self.assertEqual(os.listdir(self.folder), ["model.safetensors"])
        with open(path, "rb") as file:
            content = file.read()
        length = int.from_bytes(content[:8], "little")
        self.assertEqual(
            content[8:8 + length].rstrip(),
            b'{"weights":{"data_offsets":[0,24],"dtype":"F32","shape":[2,3]}}')
        self.assertEqual(content[8 + length:], np.arange(6, dtype=np.float32).tobytes())
        weights.assign(np.zeros((2, 3), np.float32))
        train.Checkpoint(weights=weights).read(path)
        np.testing.assert_array_equal(weights.numpy(), [[0, 1, 2], [3, 4, 5]])

    @unittest.skipUnless(importlib.util.find_spec("safetensors"),
                         "the package safetensors is not installed")
    def test_the_safetensors_package_reads_our_files_and_we_read_its(self):
        from safetensors import safe_open
        from safetensors.numpy import load_file, save_file

        arrays = {name: np.arange(5).astype(dtype) for name, dtype in {
            "f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64,
            "i32": np.int32, "i16": np.int16, "i8": np.int8, "u8": np.uint8, "u16": np.uint16,
            "u32": np.uint32, "u64": np.uint64, "flag": np.bool_}.items()}
        arrays["c64"] = np.array([1 + 2j, 3 - 4j], np.complex64)
        numbers = iter(Dataset.range(10))
        next(numbers)
        checkpoint = train.Checkpoint(numbers=numbers, **arrays)
        path = checkpoint.write(self.path("ours.safetensors"))
        read = load_file(path)
        for name, array in arrays.items():
            if name != "c64":
                np.testing.assert_array_equal(read[name], array)
                self.assertEqual(read[name].dtype, array.dtype)
        np.testing.assert_array_equal(read["c64"], [[1, 2], [3, -4]])
        self.assertEqual(read["numbers"].tobytes(), numbers.save())
        with safe_open(path, framework="np") as file:
            self.assertEqual(file.metadata()["tutti:c64"], "complex")

        save_file({name: array + 1 if name != "flag" else ~array
                   for name, array in arrays.items() if name != "c64"},
                  self.path("theirs.safetensors"), metadata={"format": "np"})
        del arrays["c64"]
        expected = {name: array + 1 if name != "flag" else ~array
                    for name, array in arrays.items()}
        train.Checkpoint(**arrays).read(self.path("theirs.safetensors"))
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, expected[name])


if __name__ == "__main__":
    unittest.main()
