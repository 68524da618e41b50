"""Shows public_api.py made-up headers, packages, jars and modules, and looks at what it writes."""

import contextlib
import io
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

import public_api
import public_api_c
import public_api_java

HERE = pathlib.Path(__file__).resolve().parent
DECLARATIONS = HERE.parents[1] / "capi" / "declarations.py"
GO = shutil.which("go") or shutil.which("/usr/local/go/bin/go")


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, files):
        for path, text in files.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(textwrap.dedent(text), encoding="utf-8")

    def run_main(self, *arguments):
        """The exit status and what was printed."""
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = public_api.main([str(argument) for argument in arguments])
        return status, output.getvalue()


HEADER = """\
    /* A made-up header. */
    #ifndef TUTTI_THING_H_
    #define TUTTI_THING_H_
    typedef struct tutti_thing tutti_thing;
    typedef int32_t (*tutti_ask_fn)(void *user_data);  /* asks; often */
    enum { TUTTI_ONE = 1, TUTTI_TWO };
    typedef struct tutti_thing_options {
      size_t struct_size;
      int64_t sizes[4]; /* four */
      tutti_status *(*fn)(void *user_data, int64_t);
    } tutti_thing_options;
    #define TUTTI_THING_OPTIONS_INIT \\
      { sizeof(tutti_thing_options), \\
        NULL }
    /* Takes one.
     * Context: building. Threads: any. Since: 0.1. */
    TUTTI_API tutti_status *tutti_thing_take(tutti_thing **thing, int64_t count);
    #endif
    """


class C(FolderTest):
    def test_writes_functions_types_fields_constants_and_macros(self):
        self.write({"include/tutti/thing.h": HEADER})
        shutil.copy(DECLARATIONS, self.folder)
        self.assertEqual(sorted(public_api_c.lines(self.folder)), [
            "constant TUTTI_ONE: 1",
            "constant TUTTI_TWO: 2",
            "field tutti_thing_options.fn: "
            "tutti_status *(*fn)(void *user_data, int64_t) (number 2)",
            "field tutti_thing_options.sizes: int64_t sizes[4] (number 1)",
            "field tutti_thing_options.struct_size: size_t struct_size (number 0)",
            "function tutti_thing_take: tutti_status * (tutti_thing **thing, int64_t count) "
            "[tutti/thing.h, Context building, Threads any, Since 0.1]",
            "header tutti/thing.h: there",
            "macro TUTTI_THING_OPTIONS_INIT: { sizeof(tutti_thing_options), NULL }",
            "type tutti_ask_fn: int32_t (*)(void *user_data)",
            "type tutti_thing: struct tutti_thing",
            "type tutti_thing_options: struct tutti_thing_options",
        ])

    def test_refuses_what_it_cannot_read(self):
        with self.assertRaisesRegex(SystemExit,
                                    "thing.h: expected a function.*'union u { int x; }'"):
            list(public_api_c.header_lines("union u { int x; };", "thing.h"))


class Python(FolderTest):
    def lines(self, files):
        self.write(files)
        return public_api._run([sys.executable, "-B", HERE / "public_api_python.py", "made_up"],
                               PYTHONPATH=str(self.folder))

    def test_writes_names_signatures_values_and_whether_they_are_documented(self):
        self.assertEqual(self.lines({
            "made_up/__init__.py": '''\
                """Made up."""
                import enum
                from made_up._things import Thing
                __all__ = ["AUTO", "Color", "Thing"]
                AUTO = -1
                class Color(enum.Enum):
                    """What it looks like."""
                    RED = "red"
                ''',
            "made_up/_things.py": '''\
                from typing import List, Optional
                class Thing(ValueError):
                    size: int
                    def __init__(self, count: int = 1, *, name: Optional[str] = "x"):
                        """Makes it."""
                    @property
                    def parts(self) -> "List[Thing]":
                        """What it has."""
                    @parts.setter
                    def parts(self, parts): pass
                    @staticmethod
                    def of(*args: int) -> "Thing": pass
                    def _hidden(self): pass
                '''}), [
            "class made_up.Color: class(enum.Enum) [documented]",
            "class made_up.Thing: class(ValueError) [undocumented]",
            "member made_up.Thing.__init__: "
            "method (self, count: int = 1, *, name: Optional[str] = 'x') [documented]",
            "member made_up.Thing.of: staticmethod (*args: int) -> Thing [undocumented]",
            "member made_up.Thing.parts: property List[Thing], can be set [documented]",
            "member made_up.Thing.size: attribute int",
            "module made_up: module [documented]",
            "value made_up.AUTO: int -1",
            "value made_up.Color.RED: str 'red'",
        ])

    def test_a_method_reads_the_same_from_a_private_base_in_another_module(self):
        package = "from made_up._thing import Thing\n__all__ = ['Thing']\n"
        whole = self.lines({"made_up/__init__.py": package, "made_up/_thing.py": '''\
            from typing import Optional
            class Thing:
                def take(self, count: int, name: Optional[str] = None) -> "Thing":
                    """Takes."""
            '''})
        split = self.lines({"made_up/__init__.py": package, "made_up/_thing.py": '''\
            from made_up._plain import PlainThing
            class Thing(PlainThing):
                pass
            ''', "made_up/_plain.py": '''\
            from __future__ import annotations
            import typing
            if typing.TYPE_CHECKING:
                from made_up._thing import Thing
            class PlainThing:
                def take(self, count: int, name: typing.Optional[str] = None) -> Thing:
                    """Takes, in other words."""
            '''})
        self.assertIn("member made_up.Thing.take: method (self, count: int, "
                      "name: Optional[str] = None) -> Thing [documented]", whole)
        self.assertEqual(whole, split)


@unittest.skipUnless(shutil.which("javac") and shutil.which("javap"), "needs a JDK")
class Java(FolderTest):
    MODULE = {"module-info.java": "module made.up { exports made.up; }"}
    THING = "public final class Thing implements AutoCloseable"
    TAKE = "Thing take(long count, String... names) throws java.io.IOException { return null; }"

    def lines(self, files):
        shutil.rmtree(self.folder / "src", ignore_errors=True)
        self.write({f"src/{path}": text for path, text in {**self.MODULE, **files}.items()})
        classes = self.folder / "classes"
        shutil.rmtree(classes, ignore_errors=True)
        sources = [str(path) for path in (self.folder / "src").rglob("*.java")]
        subprocess.run(["javac", "-d", str(classes), *sources], check=True)
        jar = self.folder / "made_up.jar"
        subprocess.run(["jar", "--create", "--file", str(jar), "-C", str(classes), "."], check=True)
        return sorted(public_api_java.lines(jar))

    def test_a_method_reads_the_same_from_a_base_that_users_cannot_name(self):
        whole = self.lines({"made/up/Thing.java": f"""package made.up;
            {self.THING} {{
              public static final long NONE = -1;
              private int hidden;
              public {self.TAKE}
              public java.util.List<String> names() {{ return null; }}
              @Override public synchronized void close() {{}}
              protected void unused() {{}}
              public enum Kind {{ ONE }}
            }}"""})
        self.assertEqual(whole, [
            "class made.up.Thing$Kind: public final class made.up.Thing$Kind "
            "with bases java.lang.Enum<made.up.Thing$Kind>",
            "class made.up.Thing: public final class made.up.Thing with bases "
            "java.lang.AutoCloseable",
            "member made.up.Thing$Kind.ONE: public static final made.up.Thing$Kind ONE",
            "member made.up.Thing$Kind.valueOf(java.lang.String): "
            "public static made.up.Thing$Kind valueOf(java.lang.String)",
            "member made.up.Thing$Kind.values(): public static made.up.Thing$Kind[] values()",
            "member made.up.Thing.NONE: public static final long NONE = -1l",
            "member made.up.Thing.close(): public void close()",
            "member made.up.Thing.names(): public java.util.List<java.lang.String> names()",
            "member made.up.Thing.new(): public made.up.Thing()",
            "member made.up.Thing.take(long, java.lang.String...): public made.up.Thing "
            "take(long, java.lang.String...) throws java.io.IOException",
            "package made.up: exported",
        ])
        split = self.lines({"made/up/Thing.java": f"""package made.up;
            {self.THING.replace("implements", "extends Plain<String> implements")} {{
              public static final long NONE = -1;
              @Override public void close() {{}}
              public enum Kind {{ ONE }}
            }}""", "made/up/Plain.java": f"""package made.up;
            abstract class Plain<T> extends made.up.internal.Base {{
              public {self.TAKE}
              public java.util.List<T> names() {{ return null; }}
            }}""", "made/up/internal/Base.java": """package made.up.internal;
            public class Base { protected void other() {} }"""})
        self.assertEqual(split, whole)


@unittest.skipUnless(GO, "needs Go")
class Go(FolderTest):
    def test_writes_exported_names_also_of_what_is_embedded(self):
        self.write({
            "go.mod": "module made.up\n\ngo 1.19\n",
            "internal/x/x.go": "package x\n\nfunc Hidden() {}\n",
            "thing_test.go": "package thing\n\nfunc TestNothing() {}\n",
            "thing.go": """\
                // Package thing is made up.
                package thing

                import "time"

                // Kinds.
                const (
                \tOne Kind = iota + 1
                \tTwo
                \tthree
                )

                // Kind is one.
                type Kind int

                // Thing has parts.
                type Thing struct {
                \tplain
                \tWait time.Duration `json:"wait"`
                \tcount int
                }

                type plain struct{}

                // Take takes.
                func (p *plain) Take(count, rest int64, names ...string) (*Thing, error) {
                \treturn nil, nil
                }

                func (t Thing) String() string { return "" }
                func (t *Thing) hidden() {}

                type Asker interface {
                \tAsk(func(text string) bool) error
                }

                // Of makes one.
                func Of[T any](parts []T) *Thing { return nil }
                """})
        self.assertEqual(public_api.go_module_lines(self.folder, GO), [
            "const thing.One: Kind = 1 [documented]",
            "const thing.Two: Kind = 2 [documented]",
            'field thing.Thing.Wait: time.Duration `json:"wait"` [undocumented]',
            "func thing.Of: func[T any](parts []T) *Thing [documented]",
            "method thing.Asker.Ask: func(func(text string) bool) error [undocumented]",
            "method thing.Thing.String: (Thing) func() string [undocumented]",
            "method thing.Thing.Take: (*Thing) "
            "func(count, rest int64, names ...string) (*Thing, error) [documented]",
            "package thing: package [documented]",
            "type thing.Asker: interface [undocumented]",
            "type thing.Kind: int [documented]",
            "type thing.Thing: struct [documented]",
        ])


class Dump(FolderTest):
    def test_names_and_leaves_out_what_is_not_built(self):
        self.write({"capi/include/tutti/thing.h": HEADER, "out/go.txt": "of another day\n"})
        shutil.copy(DECLARATIONS, self.folder / "capi")
        out = self.folder / "out"
        status, output = self.run_main("dump", self.folder / "build", self.folder, out)
        self.assertEqual(status, 0)
        self.assertIn(f"c: 11 lines in {out}/c.txt", output)
        for language in ("python", "java", "go"):
            self.assertRegex(output, f"(?m)^{language}: left out, .*/build/bindings/{language}/.* "
                                     "is not there$")
        self.assertEqual([path.name for path in out.iterdir()], ["c.txt"])


class Compare(FolderTest):
    def compare(self, before, after, *allowed):
        for folder, files in (("before", before), ("after", after)):
            (self.folder / folder).mkdir(exist_ok=True)
            self.write({f"{folder}/{name}.txt": text for name, text in files.items()})
        self.write({"allowed": "# On purpose\n" + "\n".join(allowed) + "\n"})
        return self.run_main("compare", self.folder / "before", self.folder / "after",
                             "--allow", self.folder / "allowed")

    SAME = {"c": "function f: void (void)\n", "go": "func x.F: func()\n"}
    OTHER = {"c": "function f: void (int x)\nfunction g: void (void)\n", "go": ""}

    def test_equal_interfaces_are_equal(self):
        self.assertEqual(self.compare(self.SAME, self.SAME),
                         (0, "".join(f"{language}: left out, {self.folder}/before/{language}.txt "
                                     f"and {self.folder}/after/{language}.txt is not there\n"
                                     for language in ("python", "java"))))

    def test_prints_what_came_went_and_changed(self):
        status, output = self.compare(self.SAME, self.OTHER)
        self.assertEqual(status, 1)
        self.assertIn("changed c: function f: void (void)\n     to c: function f: void (int x)\n"
                      "came c: function g: void (void)\n", output)
        self.assertIn("went go: func x.F: func()\n", output)

    def test_what_the_list_names_is_allowed(self):
        status, output = self.compare(self.SAME, self.OTHER, "changed c: function f",
                                      "came c: function g: void (void)", "went go: func x")
        self.assertEqual(status, 0, output)
        self.assertIn("came c: function g: void (void) (allowed)\n", output)

    def test_the_list_allows_no_more_than_it_names(self):
        for allowed in (["came c: function f", "changed c: function g", "came go: func x"],
                        ["changed c: function f: void (void)", "came c: function"],
                        ["changed c: func", "came c: function", "went go: func"]):
            self.assertEqual(self.compare(self.SAME, self.OTHER, *allowed)[0], 1, allowed)

    def test_refuses_a_list_that_says_something_else(self):
        with self.assertRaisesRegex(SystemExit,
                                    "expected 'came LANGUAGE: .*, found 'c: function f'"):
            self.compare(self.SAME, self.OTHER, "c: function f")

    def test_a_language_that_one_side_lacks_is_a_difference(self):
        status, output = self.compare(self.SAME, {"c": self.SAME["c"]})
        self.assertEqual(status, 1)
        self.assertIn(f"go: left out, {self.folder}/after/go.txt is not there\n", output)

    def test_nothing_is_not_equal_to_nothing(self):
        self.assertEqual(self.compare({}, {})[0], 1)


if __name__ == "__main__":
    unittest.main()
