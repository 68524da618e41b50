"""Lets same_coverage.py compare made-up runners and looks at what it refuses."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import same_coverage

HERE = pathlib.Path(__file__).resolve().parent
CASES = [{"name": "a"}, {"name": "b"}, {"name": "c"}]


def output(language, passed, not_covered=(), failed=()):
    lines = [f"FAILED {name}: it differs" for name in failed]
    lines += [f"not covered: {name} (op x)" for name in not_covered]
    return "\n".join([*lines, f"conformance {language}: {passed} passed, {len(not_covered)} "
                      f"not covered, {len(failed)} failed"])


class SameCoverage(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        (pathlib.Path(self.folder.name) / "values.json").write_text(json.dumps(CASES))

    def compare(self, *flags, status=None, **outputs):
        """The exit status and the text of a comparison of runners that print this; theirs is the
        one that their last line calls for unless `status` says otherwise."""
        arguments = [*flags]
        for language, text in outputs.items():
            ended = int(" 0 failed" not in text) if status is None else status
            arguments += ["--runner", language, sys.executable, "-c",
                          f"print({text!r}); raise SystemExit({ended})"]
        ended = subprocess.run(
            [sys.executable, "-B", HERE / "same_coverage.py", self.folder.name, *arguments],
            env={}, capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout + ended.stderr

    def test_equal_lists_pass_and_an_absent_language_is_named(self):
        status, text = self.compare(Java=output("Java", 2, ["values.b"]),
                                    Go=output("Go", 2, ["values.b"]))
        self.assertEqual(status, 0, text)
        self.assertIn("Python is not compared: it is not built here", text)
        self.assertIn("Java, Go: of 3 cases the same 2 pass", text)

    def test_a_case_that_one_language_does_not_cover_is_named(self):
        status, text = self.compare(Java=output("Java", 2, ["values.b"]), Go=output("Go", 3))
        self.assertEqual(status, 1)
        self.assertIn("values.b: not covered in Java; passed in Go", text)

    def test_a_case_that_fails_in_one_language_is_named(self):
        status, text = self.compare(Java=output("Java", 2, [], ["values.c"]), Go=output("Go", 3))
        self.assertEqual(status, 1)
        self.assertIn("values.c: failed in Java; passed in Go", text)

    def test_a_runner_that_ends_badly_is_refused(self):
        status, text = self.compare(status=139, Java=output("Java", 3), Go=output("Go", 3))
        self.assertEqual(status, 1)
        self.assertIn("Go: the exit status must be 0, it is 139", text)

    def test_outcomes_can_stand_in_the_names(self):
        cases = [{"name": name} for name in ("passes_a", "fails_b", "not_covered_c")]
        (pathlib.Path(self.folder.name) / "values.json").write_text(json.dumps(cases))
        lists = {"not_covered": ["values.not_covered_c"], "failed": ["values.fails_b"]}
        status, text = self.compare("--as-named", Java=output("Java", 1, **lists),
                                    Go=output("Go", 1, **lists))
        self.assertEqual(status, 0, text)
        lists["failed"] = []
        status, text = self.compare("--as-named", Java=output("Java", 2, **lists),
                                    Go=output("Go", 2, **lists))
        self.assertEqual(status, 1)
        self.assertIn("values.fails_b: passed in Java", text)

    def test_a_runner_that_leaves_a_case_out_is_refused(self):
        status, text = self.compare(Java=output("Java", 2), Go=output("Go", 2))
        self.assertEqual(status, 1)
        self.assertIn("Java: 2 passed by its totals, but 3 of the 3 cases are neither", text)

    def test_a_runner_without_totals_is_refused(self):
        status, text = self.compare(Java="Segmentation fault", Go=output("Go", 3))
        self.assertEqual(status, 1)
        self.assertIn("Java: there is no one line of totals", text)

    def test_a_list_that_is_not_that_of_the_totals_is_refused(self):
        status, text = self.compare(
            Java=output("Java", 2, ["values.b"]).replace("values.b", "values.x"),
            Go=output("Go", 3))
        self.assertEqual(status, 1)
        self.assertIn("of which there is no values.x", text)

    def test_a_runner_that_has_not_been_built_is_named(self):
        ended = subprocess.run(
            [sys.executable, "-B", HERE / "same_coverage.py", self.folder.name,
             "--runner", "Go", "/nowhere/conformance", "--runner", "Java", sys.executable],
            env={}, capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, same_coverage.SKIPPED, ended.stdout + ended.stderr)
        self.assertIn("Go is not compared: it is not built here", ended.stdout)

    def test_one_language_alone_is_skipped(self):
        status, text = self.compare(Java=output("Java", 3))
        self.assertEqual(status, same_coverage.SKIPPED)
        self.assertIn("no two languages to compare", text)


if __name__ == "__main__":
    unittest.main()
