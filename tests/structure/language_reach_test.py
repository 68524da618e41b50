"""Shows language_reach.py made-up bindings and looks at what it refuses."""

import pathlib
import tempfile
import unittest
from unittest import mock

import language_reach

JAVA = {"java": {"sources": ["java/src"], "call": r"\bNative\.{}\b",
                 "without": {"tutti_old": "the new one"}, "unused": {"old_thing": "new_thing"}}}


class LanguageReach(unittest.TestCase):
    def violations(self, facade, package, access="", symbols=("tutti_make", "tutti_old")):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in {
                "capi/symbols.txt": "\n".join(symbols),
                "bindings/swig/facade/things.h": facade,
                "bindings/swig/java/access.h": access,
                "bindings/java/src/org/tutti/Thing.java": package,
            }.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            with mock.patch.multiple(language_reach, LANGUAGES=JAVA, WITHOUT={}):
                return list(language_reach.violations(root))

    FACADE = "inline tutti_status *make(int x) { return tutti_make(x); }\n"

    def test_accepts_what_is_reached_or_has_a_reason(self):
        self.assertEqual(self.violations(self.FACADE, "Native.make(1)"), [])

    def test_references_need_no_function(self):
        self.assertEqual(self.violations(self.FACADE, "Native.make(1)", symbols=(
            "tutti_make", "tutti_old", "tutti_thing_retain", "tutti_thing_release")), [])

    def test_refuses_a_function_that_nobody_calls(self):
        found = self.violations("// tutti_make\n", "")
        self.assertEqual(len(found), 1)
        self.assertIn("java: tutti_make cannot be reached", found[0])

    def test_refuses_a_wrapped_function_that_the_package_leaves_out(self):
        self.assertIn("make of the facade is not used", self.violations(self.FACADE, "")[0])
        self.assertIn("peek of access.h is not used", self.violations(
            self.FACADE, "Native.make(1)", "inline int peek(int x) { return x; }\n")[0])

    def test_refuses_reasons_that_have_gone(self):
        old = "inline int old_thing(int x) { return tutti_old(x); }\n"
        found = self.violations(self.FACADE + old, "Native.make(1) + Native.old_thing(1)")
        self.assertEqual(len(found), 2)
        self.assertIn("tutti_old is used now", found[0])
        self.assertIn("old_thing is used now", found[1])
        self.assertIn("tutti_old is no function", self.violations(
            self.FACADE, "Native.make(1)", symbols=("tutti_make",))[0])


if __name__ == "__main__":
    unittest.main()
