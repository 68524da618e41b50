"""Tests of join_tests.py."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import join_tests

ONE = """#include <string>

namespace tutti {
namespace {

int Helper() { return 1; }

}  // namespace
}  // namespace tutti
"""


class IsolatedTest(unittest.TestCase):
    def test_puts_the_anonymous_namespace_into_one_of_the_source(self):
        text = join_tests.isolated(ONE, "joined_a", "a.cc")
        self.assertIn("namespace joined_a { namespace {\n", text)
        self.assertIn("} }  // namespace\n}  // namespace tutti\n", text)

    def test_keeps_the_numbers_of_lines(self):
        text = join_tests.isolated(ONE, "joined_a", "a.cc")
        self.assertEqual(text.count("\n"), ONE.count("\n"))

    def test_refuses_what_it_cannot_read(self):
        with self.assertRaisesRegex(join_tests.Unreadable, "a.cc: 1 lines are"):
            join_tests.isolated(ONE.replace("}  // namespace\n", "}\n", 1), "joined_a", "a.cc")


class CommandTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def join(self, **sources):
        for name, text in sources.items():
            (self.folder / f"{name}.cc").write_text(text, encoding="utf-8")
        paths = [self.folder / f"{name}.cc" for name in sources]
        return subprocess.run([sys.executable, "-B", join_tests.__file__, self.folder / "all.cc",
                               *paths], capture_output=True, text=True)

    def test_names_each_source_where_it_begins(self):
        self.assertEqual(self.join(a=ONE, b=ONE).returncode, 0)
        text = (self.folder / "all.cc").read_text(encoding="utf-8")
        self.assertIn(f'#line 1 "{self.folder}/b.cc"\n', text)
        self.assertIn("namespace joined_b { namespace {", text)

    def test_says_which_source_cannot_be_joined(self):
        ran = self.join(a=ONE, b=ONE.replace("namespace {\n", "", 1))
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("b.cc: 0 lines are", ran.stderr)
        self.assertFalse((self.folder / "all.cc").exists())


if __name__ == "__main__":
    unittest.main()
