"""Shows doc_comments.py made-up trees and looks at what it refuses."""

import pathlib
import tempfile
import unittest

import doc_comments


class DocComments(unittest.TestCase):
    def violations(self, name, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True)
            path.write_text(text, encoding="utf-8")
            return list(doc_comments.violations(folder))

    def test_accepts_code_and_backticks_elsewhere(self):
        self.assertEqual(self.violations("bindings/X.java", "/** A {@code b}. */ // `b`\n"), [])
        self.assertEqual(self.violations("bindings/X.java", 'String tick = "`";\n'), [])
        self.assertEqual(self.violations("bindings/x.py", "/** `b` */\n"), [])

    def test_refuses_backticks_in_comments_of_sources_and_templates(self):
        for name in ("bindings/X.java", "examples/X.java.in"):
            self.assertEqual(self.violations(name, "\n/**\n * A `b.\n */\n"),
                             [f"{name}:3: a backtick in a comment of Javadoc's"])


if __name__ == "__main__":
    unittest.main()
