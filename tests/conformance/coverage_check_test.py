"""Shows coverage_check.py made-up projects and looks at what it refuses."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
import zipfile

import coverage_check
import coverage_names

HEAD = """# What works

| a table | above all areas | is none of rows |

## Areas

| symbol | state | C | Python | Java | Go | tests | what lacks or differs |
|---|---|---|---|---|---|---|---|
"""
TAKE = ("| `take(count)` | works | `tutti_take` | `tutti.data.Dataset.take` | `Dataset.take` | "
        "`Dataset.Take` | `python.dataset_test` `dataset.json#take*` | |\n")
PYTHON = """
class Base:
    def take(self): pass

class Dataset(Base):
    __slots__ = ("size",)
    def __len__(self): return 0

__all__ = ["Dataset"]
"""
JAVAP = """
Compiled from "Dataset.java"
public class org.tutti.data.Dataset<T extends java.util.List<? super T>> extends \
org.tutti.internal.Base implements java.lang.Iterable<org.tutti.Value> {
  public static final long AUTOTUNE;
  public org.tutti.data.Dataset();
  public void close() throws java.io.IOException, java.lang.Error;
}
class org.tutti.internal.Base {
  public java.util.Map<java.lang.String, org.tutti.Value> take(long, java.lang.String);
}
public final class org.tutti.data.Options$Policy extends java.lang.Enum<org.tutti.data.Options> {
  public static final org.tutti.data.Options$Policy OFF;
}
"""
GO = """package tutti

type Iterator struct{ o *object }

type Walk = Iterator

type Options struct {
\t// Comment is none.
\tName, Path string
\thidden bool
}

type Resolver interface {
\tMaster(task string) (string, error)
}

const (
\tSum  ReduceOp = 1
\tfew           = 3
)

const Autotune = -1

func Range(stop int64) *Dataset {
\tOnly(stop)
}

func (d *Dataset) Take(count int64) *Dataset { return d }

func (t *Tensor[T]) Len() int { return 0 }
"""


def test_of(name, command=("true",), **properties):
    test = {"name": name, "properties": [{"name": key, "value": value}
                                         for key, value in properties.items()]}
    return {**test, "command": list(command)} if command else test


class Project(unittest.TestCase):
    """A folder with everything that the check looks at."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("capi/symbols.txt", "tutti_take\ntutti_skip\n")
        self.write("capi/include/tutti/dataset.h",
                   "/* TUTTI_COMMENT */ enum { TUTTI_AUTO = -1 }; // tutti_remark\n"
                   "typedef struct tutti_options tutti_options; void tutti_unlisted(void);\n")
        self.write("python/tutti/__init__.py", "from tutti import data\n__all__ = ['data']\n")
        self.write("python/tutti/data.py", PYTHON)
        self.write("go/dataset.go", GO)
        self.write("go/dataset_test.go", "func OfATest() {}\n")
        self.write("tests/conformance/vectors/dataset.json",
                   json.dumps([{"name": "take"}, {"name": "take_all"}, {"name": "cache"}]))
        self.program("javap", f"print({JAVAP!r})")
        with zipfile.ZipFile(self.root / "tutti.jar", "w") as jar:
            jar.writestr("org/tutti/data/Dataset.class", "")
        self.list_tests([test_of("python.dataset_test")])
        self.run_cases("not covered: dataset.cache (op cache)",
                       "conformance C++: 2 passed, 1 not covered, 0 failed")

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def program(self, name, code):
        self.write(name, f"#!{sys.executable}\n{code}\n").chmod(0o755)

    def list_tests(self, tests):
        self.program("ctest", f"print({json.dumps({'tests': tests})!r})")

    def run_cases(self, *lines):
        self.program("runner", "\n".join(f"print({line!r})" for line in lines))

    def check(self, *given_rows, left_out=(), readme=None, arguments=None):
        """The status and what is printed of a check of these rows."""
        self.write("tests/conformance/coverage.md", HEAD + "".join(given_rows))
        if readme is None:
            try:
                readme = coverage_check.table(coverage_check.rows(HEAD + "".join(given_rows)))
            except coverage_check.Malformed:
                readme = ""
        self.write("README.md", f"Before\n<!-- coverage -->\n{readme}<!-- /coverage -->\nBehind\n")
        if arguments is None:
            languages = {"python": self.root / "python", "java": self.root / "tutti.jar",
                         "javap": self.root / "javap", "go": self.root / "go"}
            arguments = [part for name, path in languages.items() if name not in left_out
                         for part in (f"--{name}", str(path))]
            arguments += ["--ctest", str(self.root / "ctest"), "--build", str(self.root),
                          "--runner", str(self.root / "runner")]
        self.forget_python()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            status = coverage_check.main([str(self.root), *arguments])
        return status, printed.getvalue()

    def forget_python(self):
        """The package of the project before is imported no more."""
        for name in [name for name in sys.modules if name.partition(".")[0] == "tutti"]:
            del sys.modules[name]
        sys.path[:] = [path for path in sys.path if not path.endswith("/python")]

    def assert_refused(self, text, *given_rows, **how):
        status, printed = self.check(*given_rows, **how)
        self.assertEqual(status, 1, printed)
        self.assertIn(text, printed)


class Rows(Project):
    def test_a_row_whose_names_and_tests_are_there_passes(self):
        self.assertEqual(self.check(TAKE), (0, "1 rows are as they say\n"))

    def test_a_name_that_a_language_does_not_have_is_named_with_a_near_one(self):
        for language, right, wrong in (
                ("C", "tutti_take", "tutti_taken"),
                ("Python", "tutti.data.Dataset.take", "tutti.data.Dataset.taken"),
                ("Java", "Dataset.take", "Dataset.taken"),
                ("Go", "Dataset.Take", "Dataset.Taken")):
            with self.subTest(language):
                row = TAKE.replace(f"`{right}`", f"`{wrong}`")
                self.assert_refused("tests/conformance/coverage.md:9: `take(count)` (works): "
                                    f"{language} has no {wrong} in ", row)
                self.assert_refused(f"; near to it: {right}", row)

    def test_a_partial_row_has_names_that_exist_and_a_missing_one_may_have_others(self):
        wrong = TAKE.replace("tutti_take", "tutti_cache").replace("#take*", "#cache")
        self.assert_refused("C has no tutti_cache", wrong.replace("works", "partly"))
        self.assert_refused("dataset.cache: not covered in C++", wrong)
        self.assertEqual(self.check(wrong.replace("works", "missing"))[0], 0)

    def test_a_row_that_works_has_a_test_and_says_why_a_language_has_no_name(self):
        self.assert_refused("a row that works names a test",
                            TAKE.replace("`python.dataset_test` `dataset.json#take*`", "-"))
        dash = TAKE.replace("`Dataset.Take`", "-")
        self.assert_refused("no name for Go", dash)
        self.assertEqual(self.check(dash.replace("| |", "| Go counts by itself |"))[0], 0)

    def test_what_is_no_row_is_refused(self):
        self.assert_refused("this is 'done'", TAKE.replace("works", "done"))
        self.assert_refused("this one 9", TAKE.replace("| |", "| a | b |"))
        self.assert_refused("the cell C is neither", TAKE.replace("`tutti_take`", "tutti_take"))
        self.assert_refused("has no row", "")
        self.assertEqual(self.check(TAKE.replace("| |", "| a \\| b |"))[0], 0)

    def test_a_language_that_is_not_built_is_named_and_left_out_with_its_tests(self):
        self.list_tests([])
        status, printed = self.check(TAKE, left_out=("python", "go"))
        self.assertEqual(status, 0, printed)
        self.assertIn("Python is not looked up: it is not built here", printed)

    def test_what_has_not_been_built_yet_is_named(self):
        (self.root / "tutti.jar").unlink()
        self.assert_refused("tutti.jar'; build everything first", TAKE)


class Tests(Project):
    def test_a_test_that_ctest_does_not_list_is_refused(self):
        self.assert_refused("CTest has no test python.data_test; near to it: python.dataset_test",
                            TAKE.replace("dataset_test", "data_test"))

    def test_a_pattern_stands_for_some_tests(self):
        self.list_tests([test_of("dataset.Take.GivesTheFirst"), test_of("dataset.Skip.X")])
        self.assertEqual(self.check(TAKE.replace("python.dataset_test", "dataset.Take.*"))[0], 0)
        self.assert_refused("CTest has no test dataset.Taken.*",
                            TAKE.replace("python.dataset_test", "dataset.Taken.*"))

    def test_a_test_that_may_not_run_does_not_count(self):
        for test, reason in ((test_of("python.dataset_test", DISABLED=True), "it is disabled"),
                             (test_of("python.dataset_test", None), "it is not built"),
                             (test_of("python.dataset_test", LABELS=["nightly"]), "at night only"),
                             (test_of("python.dataset_test", SKIP_RETURN_CODE=77), "skipped")):
            self.list_tests([test])
            self.assert_refused(reason, TAKE)

    def test_a_case_must_be_there_and_pass(self):
        self.assert_refused("vectors/dataset.json has no case taken; near to it: take",
                            TAKE.replace("#take*", "#taken"))
        self.run_cases("FAILED dataset.take_all: got 1", "not covered: dataset.cache (op cache)",
                       "conformance C++: 1 passed, 1 not covered, 1 failed")
        self.assert_refused("the case dataset.take_all: failed in C++", TAKE)
        self.run_cases("Segmentation fault")
        self.assert_refused("there is no one line of totals", TAKE)

    def results(self, **statuses):
        cases = "".join(f'<testcase name="python.{name}" status="{status}"/>'
                        for name, status in statuses.items())
        return ["--ran", str(self.write("ran.xml", f"<testsuite>{cases}</testsuite>"))]

    def test_of_the_results_of_a_run_the_tests_must_have_passed(self):
        self.assertEqual(self.check(TAKE, arguments=self.results(dataset_test="run"))[0], 0)
        for statuses, text in (({"dataset_test": "fail"}, "python.dataset_test failed in the run"),
                               ({"dataset_test": "notrun"}, "no test python.dataset_test passed"),
                               ({"other_test": "run"}, "no test python.dataset_test passed")):
            self.assert_refused(text, TAKE, arguments=self.results(**statuses))
        self.assert_refused("run all tests with CTest's --output-junit", TAKE,
                            arguments=["--ran", str(self.root / "none.xml")])


class Readme(Project):
    def test_the_table_is_the_count_of_the_rows(self):
        partly = TAKE.replace("works", "partly")
        self.write("tests/conformance/coverage.md", "")
        text = HEAD + TAKE + partly + partly.replace("partly", "missing") + (
            HEAD.partition("\n## ")[2].replace("Areas", "## Others")) + partly
        self.assertEqual(coverage_check.table(coverage_check.rows(text)),
                         "| Area | works | partly | lacks |\n|---|---|---|---|\n"
                         "| Areas | 1 | 1 | 1 |\n| Others | 0 | 1 | 0 |\n| **all** | 1 | 2 | 1 |\n")

    def test_another_table_is_refused_and_can_be_written(self):
        self.assert_refused("is not the count of tests/conformance/coverage.md; run", TAKE,
                            readme="| Area |\n")
        readme = self.root / "README.md"
        self.assertEqual(self.check(TAKE, readme="old\n",
                                    arguments=["--write-readme", str(readme)]), (0, ""))
        self.assertEqual(readme.read_text(), "Before\n<!-- coverage -->\n"
                         "| Area | works | partly | lacks |\n|---|---|---|---|\n"
                         "| Areas | 1 | 0 | 0 |\n| **all** | 1 | 0 | 0 |\n"
                         "<!-- /coverage -->\nBehind\n")

    def test_a_readme_without_the_marks_is_refused(self):
        self.write("other.md", "Nothing\n")
        self.assert_refused("there is no line <!-- coverage -->", TAKE,
                            arguments=["--write-readme", str(self.root / "other.md")])


class Names(Project):
    def assert_names(self, known, there, not_there):
        self.assertEqual([name for name in there if not known.has(name)], [])
        self.assertEqual([name for name in not_there if known.has(name)], [])

    def test_c_has_functions_that_are_listed_and_what_headers_declare(self):
        self.assert_names(coverage_names.CNames(self.root),
                          ("tutti_take", "TUTTI_AUTO", "tutti_options"),
                          ("TUTTI_COMMENT", "tutti_remark", "tutti_unlisted"))

    def test_python_has_what_can_be_reached_and_nothing_of_object(self):
        self.forget_python()
        self.assert_names(coverage_names.PythonNames(self.root / "python"),
                          ("tutti.data", "tutti.data.Dataset.take", "tutti.data.Dataset.size",
                           "tutti.data.Dataset.__len__"),
                          ("data.Dataset", "tutti.data.Dataset.__eq__", "tutti.data.None_"))

    def test_java_has_public_classes_with_what_they_inherit(self):
        self.assert_names(coverage_names.JavaNames(self.root / "tutti.jar", self.root / "javap"),
                          ("Dataset", "Dataset.take", "Dataset.close", "Dataset.AUTOTUNE",
                           "Options.Policy.OFF"),
                          ("Base", "Base.take", "Dataset.IOException", "Dataset.String"))

    def test_go_has_what_begins_with_a_capital(self):
        self.assert_names(coverage_names.GoNames(self.root / "go"),
                          ("Range", "Dataset.Take", "Tensor.Len", "Iterator", "Walk", "Sum",
                           "Options.Name", "Options.Path", "Resolver.Master", "Autotune"),
                          ("Only", "few", "Options.hidden", "Options.Comment", "OfATest", "Take"))


if __name__ == "__main__":
    unittest.main()
