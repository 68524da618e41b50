"""Tests of compile_alone.py. With a C++ compiler, as whatever builds Tutti has."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import compile_alone

COMPILER = os.environ.get("CXX", "c++")
GOOD = "#include <vector>\nstd::vector<int> numbers;\n"
FORGETFUL = "std::vector<int> numbers;\n"


class CompileAloneTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        (self.root / "core").mkdir()
        (self.root / "build" / "precompiled").mkdir(parents=True)
        (self.root / "build" / "precompiled" / "room.hxx").write_text("#include <vector>\n")

    def run_on(self, precompiled="-include precompiled/room.hxx", **sources):
        entries = []
        for name, text in sources.items():
            path = self.root / "core" / f"{name}.cc"
            path.write_text(text)
            entries.append({"directory": str(self.root / "build"), "file": str(path),
                            "command": f"{COMPILER} {precompiled} -o {name}.o -c {path}"})
        (self.root / "build" / "compile_commands.json").write_text(json.dumps(entries))
        return subprocess.run([sys.executable, "-B", compile_alone.__file__, self.root,
                               self.root / "build"], capture_output=True, text=True)

    def test_is_content_with_sources_that_include_what_they_use(self):
        ran = self.run_on(a=GOOD, b=GOOD)
        self.assertEqual((ran.returncode, ran.stdout), (0, "2 sources compile alone\n"))

    def test_names_a_source_that_the_precompiled_header_helps(self):
        ran = self.run_on(a=GOOD, b=FORGETFUL)
        self.assertEqual(ran.returncode, 1)
        self.assertIn("core/b.cc:", ran.stderr)
        self.assertIn("1 of 2 sources do not compile alone", ran.stderr)

    def test_has_nothing_to_do_where_nothing_is_precompiled(self):
        self.assertEqual(self.run_on("", a=GOOD).returncode, compile_alone.NOTHING_TO_DO)

    def test_leaves_tests_out(self):
        self.assertEqual(self.run_on(a=GOOD, b_test=FORGETFUL).returncode, 0)


if __name__ == "__main__":
    unittest.main()
