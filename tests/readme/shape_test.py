"""Shows shape.py made-up READMEs and looks at what it refuses."""

import pathlib
import tempfile
import unittest

import shape

FIGURE = "4 KiB take 1 us (tests/benchmarks/x.py)\n"


class Shape(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def wrong(self, text, name="core/README.md"):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return list(shape.wrong(self.root, path))

    def assert_refused(self, piece, *arguments):
        found, = self.wrong(*arguments)
        self.assertIn(piece, found)

    def test_the_first_readme_is_short_others_may_be_long(self):
        self.assertEqual(self.wrong(FIGURE + "x\n" * 129, "README.md"), [])
        self.assert_refused("131 lines, 130 at most", FIGURE + "x\n" * 130, "README.md")
        self.assertEqual(self.wrong("x\n" * 500), [])

    def test_the_first_screen_has_a_measured_figure(self):
        self.assert_refused("no measured figure", "fast\n", "README.md")
        self.assert_refused("no measured figure", "x\n" * 30 + FIGURE, "README.md")

    def test_lines_are_a_hundred_columns_but_for_tables_and_blocks(self):
        wide = "x" * 101
        self.assert_refused("README.md:2: 101 columns", f"a\n{wide}\n")
        self.assertEqual(self.wrong(f"| {wide} |\n```text\n{wide}\n```\n{wide[:100]}\n"), [])

    def test_links_lead_to_files_and_headings(self):
        text = "# A `tutti run`, and more\n[a](README.md#a-tutti-run-and-more) [b](#a-tutti-run)"
        self.assert_refused("a link to #a-tutti-run, and", text)
        self.assert_refused("a link to x/README.md, and there is no such file",
                            "[x](x/README.md) [y](https://example.org/) [up](../core)")


    def test_files_that_are_named_exist(self):
        (self.root / "core/stream").mkdir(parents=True)
        (self.root / "core/stream/ring.cc").write_text("", encoding="utf-8")
        self.assertEqual(self.wrong("`core/stream/ring.cc` `stream/ring.cc` `stream/r*.cc` `a.cc` "
                                    "`stream/link_x.cc` `x/y` `n/2`\n"), [])
        self.assert_refused("stream/chain.cc is named, and there is no such file",
                            "`stream/ring.cc` or `stream/chain.cc`\n")


if __name__ == "__main__":
    unittest.main()
