"""The Python examples do what they say."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent


def run(program, *arguments, cwd=None):
    return subprocess.run([sys.executable, "-B", str(FOLDER / program), *arguments],
                          capture_output=True, text=True, cwd=cwd, timeout=280)


def losses(output):
    return [float(loss) for loss in re.findall(r"epoch .*: loss ([0-9.e+-]+),", output)]


class ExamplesTest(unittest.TestCase):
    def test_the_walk_adds_up(self):
        done = run("walk.py")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], "total: 45")
        self.assertEqual([line.rpartition(": ")[2] for line in done.stdout.splitlines()],
                         ["6", "22", "17", "45"])

    def test_one_and_four_replicas_train_alike_and_well(self):
        outputs = {}
        for replicas in (1, 4):
            done = run("train_digits.py", "--replicas", str(replicas))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            outputs[replicas] = done.stdout
            accuracy = float(re.search(r"held-out accuracy: ([0-9.]+) %", done.stdout)[1])
            self.assertGreaterEqual(accuracy, 95)
            hashes = re.findall(r"^replica \d+ weights sha256: ([0-9a-f]{64})$", done.stdout, re.M)
            self.assertEqual(len(hashes), replicas)
            self.assertEqual(len(set(hashes)), 1)
        one, four = losses(outputs[1]), losses(outputs[4])
        self.assertEqual(len(one), 20)
        for a, b in zip(one, four):
            self.assertLessEqual(abs(a - b), 1e-4 * a)

    def test_a_tail_with_empty_replicas_stays_finite(self):
        # 1,438 = 3 * 479 + 1: the last batch has one row for five replicas.
        done = run("train_digits.py", "--replicas", "5", "--batch", "479", "--epochs", "2")
        self.assertEqual(len(losses(done.stdout)), 2, done.stdout + done.stderr)
        self.assertNotIn("nan", done.stdout)

    def test_it_fails_when_it_has_not_learnt(self):
        done = run("train_digits.py", "--epochs", "1", "--batch", "1438")
        self.assertEqual(done.returncode, 1)
        self.assertIn("under 95 %", done.stderr)

    def test_the_data_is_found_from_anywhere_and_a_missing_folder_is_named(self):
        with tempfile.TemporaryDirectory() as elsewhere:
            done = run("train_digits.py", "--epochs", "1", cwd=elsewhere)
            self.assertIn("held-out accuracy", done.stdout, done.stderr)
            done = run("train_digits.py", "--data", os.path.join(elsewhere, "none"))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(os.path.join(elsewhere, "none"), done.stderr)


if __name__ == "__main__":
    unittest.main()
