"""Shows top_level.py made-up trees and looks at what it refuses."""

import pathlib
import tempfile
import unittest

import top_level


class TopLevel(unittest.TestCase):
    def violations(self, names):
        with tempfile.TemporaryDirectory() as folder:
            for name in names:
                (pathlib.Path(folder) / name).mkdir()
            return list(top_level.violations(folder))

    def test_accepts_the_expected_names_dot_files_and_the_build_folder(self):
        self.assertEqual(self.violations(top_level.EXPECTED | {".git", ".ci", "build"}), [])

    def test_refuses_another_name(self):
        self.assertEqual(self.violations(top_level.EXPECTED | {"scripts"}),
                         ["scripts does not belong at the top level"])

    def test_refuses_a_tree_where_one_is_missing(self):
        self.assertEqual(self.violations(top_level.EXPECTED - {"LICENSE"}), ["LICENSE is missing"])


if __name__ == "__main__":
    unittest.main()
