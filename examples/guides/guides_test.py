"""The guides do what they say.

    guides_test.py TOOL [--c=PROGRAM] [--go=PROGRAM] [--java=WORD]...

A language's words start its program for elastic jobs; one without words is not tried.
"""

import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
TOOL = sys.argv.pop(1) if len(sys.argv) > 1 else "tutti"
ELASTIC = {"python": [sys.executable, "-B", str(FOLDER / "elastic.py")]}
for word in [word for word in sys.argv[1:] if re.match("--(c|go|java)=", word)]:
    sys.argv.remove(word)
    language, _, text = word[2:].partition("=")
    ELASTIC.setdefault(language, []).append(text)


def output_of(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=240)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout.splitlines()


def python(program, *words):
    return output_of(sys.executable, "-B", FOLDER / program, *words)


class GuidesTest(unittest.TestCase):
    def test_resume(self):
        with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as parts:
            at_once = python("resume.py", whole, 20)
            python("resume.py", parts, 7)
            self.assertEqual(python("resume.py", parts, 20), at_once)
            self.assertRegex(at_once[0], r"^step 20: \d+$")

    def test_write_tfrecords(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(python("write_tfrecords.py", folder),
                             [f"{i} (8, 8) generated" for i in range(6)])

    def test_own_memory(self):
        self.assertEqual(python("own_memory.py"),
                         ["in place: [1. 1. 1. 1.]", "of the dataset: False",
                          "your own copy: True", "shared: 1.0"])

    def test_native_functions(self):
        said = python("native_functions.py")
        self.assertIn("native (x[1] != 2)", said[2])
        self.assertEqual(said[3:], ["(2, 8, 8) True [0 1]", "(1, 8, 8) True [3]",
                                    "if, while, and, or, not"])

    def test_elastic(self):
        for language, program in ELASTIC.items():
            with self.subTest(language):
                done = subprocess.run(
                    [TOOL, "run", "--workers", "3", "--elastic", "--max-restarts", "1", "--",
                     *program], capture_output=True, text=True, timeout=240)
                for worker in range(3):
                    self.assertIn(f"worker {worker}: 3 ranks at the end", done.stdout, done.stderr)

    def test_elastic_training(self):
        done = subprocess.run([TOOL, "run", "--workers", "3", "--elastic", "--max-restarts", "1",
                               "--", sys.executable, "-B", FOLDER / "elastic_training.py"],
                              capture_output=True, text=True, timeout=240)
        for worker in range(2):
            self.assertIn(f"worker {worker}: 2 ranks, 4656 of 4656", done.stdout, done.stderr)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_pytorch(self):
        said = output_of(TOOL, "run", "--workers", "2", "--", sys.executable, "-B",
                         FOLDER / "pytorch.py")
        self.assertIn("losses: [", said[-1])


if __name__ == "__main__":
    unittest.main()
