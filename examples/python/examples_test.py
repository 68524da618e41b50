"""The Python examples do what they say."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import softmax_regression
import tutti

FOLDER = pathlib.Path(__file__).resolve().parent


def run(program, *arguments, cwd=None):
    return subprocess.run([sys.executable, "-B", str(FOLDER / program), *arguments],
                          capture_output=True, text=True, cwd=cwd, timeout=280)


class ExamplesTest(unittest.TestCase):
    def test_the_walk_adds_up(self):
        done = run("walk.py")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], "total: 45")
        self.assertEqual([line.rpartition(": ")[2] for line in done.stdout.splitlines()],
                         ["6", "22", "17", "45"])

    def test_the_data_is_found_from_anywhere_and_a_missing_folder_is_named(self):
        with tempfile.TemporaryDirectory() as elsewhere:
            done = run("train_digits.py", "--epochs", "1", cwd=elsewhere)
            self.assertIn("held-out accuracy", done.stdout, done.stderr)
            done = run("train_digits.py", "--data", os.path.join(elsewhere, "none"))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(os.path.join(elsewhere, "none"), done.stderr)

    def test_one_replica_learns_the_same_bits_under_every_strategy_and_without_one(self):
        folder = FOLDER.parent / "data"
        training, _ = softmax_regression.digits(folder)
        expected = np.zeros((softmax_regression.PIXELS + 1, softmax_regression.CLASSES), np.float32)
        rows = []
        for batch in training:
            rows.append(len(batch["label"]))
            chances, pixels = softmax_regression.softmax(expected, batch["image"])
            gradient = softmax_regression.gradient_of(chances, pixels, batch["label"])
            expected -= softmax_regression.LEARNING_RATE / np.float32(rows[-1]) * gradient
        self.assertLess(rows[-1], rows[0])
        for strategy in [tutti.distribute.OneDeviceStrategy("CPU:0"),
                         tutti.distribute.MirroredStrategy(["CPU:0"]),
                         tutti.distribute.MultiWorkerMirroredStrategy(devices=["CPU:0"])]:
            model = softmax_regression.Model(strategy)
            training, _ = softmax_regression.digits(folder)
            _, _, count = model.walk(model.train_step, strategy.distribute_dataset(training))
            self.assertEqual(count, sum(rows))
            self.assertEqual(model.weights.numpy().tobytes(), expected.tobytes(), strategy)


if __name__ == "__main__":
    unittest.main()
