"""The Python examples do what they say."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

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


if __name__ == "__main__":
    unittest.main()
