"""Shows line_widths.py made-up trees and looks at what it refuses."""

import pathlib
import tempfile
import unittest

import line_widths


class LineWidths(unittest.TestCase):
    def violations(self, name, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True)
            path.write_text(text, encoding="utf-8")
            return list(line_widths.violations(folder))

    def test_accepts_a_hundred_columns_also_of_letters_that_take_several_bytes(self):
        self.assertEqual(self.violations("core/base/x.cc", "x" * 100 + "\n"), [])
        self.assertEqual(self.violations("bindings/x.py", "ü" * 100 + "\n"), [])

    def test_refuses_one_more(self):
        self.assertEqual(self.violations("core/base/x.cc", "\n" + "x" * 101 + "\n"),
                         ["core/base/x.cc:2: 101 columns, 100 at most"])
        self.assertEqual(self.violations("bindings/go/x.go", "\t" + "x" * 100),
                         ["bindings/go/x.go:1: 101 columns, 100 at most"])

    def test_leaves_urls_other_files_and_vectors_alone(self):
        self.assertEqual(self.violations("core/x.h", "// https://" + "x" * 100), [])
        self.assertEqual(self.violations("core/x.json", "x" * 200), [])
        self.assertEqual(self.violations("tests/conformance/vectors/x.py", "x" * 200), [])


if __name__ == "__main__":
    unittest.main()
