"""Shows the generators a small header and a few exceptions of its own, and looks at what each
writes and what the table refuses, with file, line and what was expected."""

import importlib
import pathlib
import tempfile
import textwrap
import unittest

import table
from table import DeclarationError, Table, TableError

HEADER = '''
#ifndef TUTTI_THING_H_
#define TUTTI_THING_H_

typedef int32_t tutti_color;
enum { TUTTI_RED = 1 };

typedef struct tutti_call_options {
  size_t struct_size;
  int64_t timeout;
} tutti_call_options;

typedef struct tutti_pick_options {
  size_t struct_size;
  const char *name;
  tutti_tristate keep_order; /* default true */
} tutti_pick_options;
#define TUTTI_PICK_OPTIONS_INIT \\
  { sizeof(tutti_pick_options), NULL, 0 }

typedef struct tutti_fill_options {
  size_t struct_size;
  const char *name;
  const tutti_value *filling;
  tutti_function *judge;
} tutti_fill_options;
#define TUTTI_FILL_OPTIONS_INIT \\
  { sizeof(tutti_fill_options), NULL, NULL, NULL }

/* Fills gaps. Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_fill(tutti_dataset **dataset,
                                           const tutti_fill_options *options);

/* The `count` best elements.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_pick(tutti_dataset **dataset, int64_t count,
                                           const tutti_pick_options *options);

typedef struct tutti_near_options {
  size_t struct_size;
  const char *name;
  tutti_optional_int64 most; /* not set: all */
  int64_t step;
} tutti_near_options;
#define TUTTI_NEAR_OPTIONS_INIT \\
  { sizeof(tutti_near_options), NULL, { 0, 0 }, 1 }

/* Those near one another.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_near(tutti_dataset **dataset,
                                           const tutti_near_options *options);

/* The elements that `judge` likes.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_keep_if(tutti_dataset **dataset, tutti_function *judge,
                                              const tutti_pick_options *options);

/* Keeps what is in `folder`, then what is in `other`.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_store(tutti_dataset **dataset, const char *folder,
                                            const tutti_dataset *other,
                                            const tutti_pick_options *options);

/* Counts.
 * Context: building. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_dataset_create_count(tutti_runtime *runtime, int64_t start,
                                                   const tutti_pick_options *options,
                                                   tutti_dataset **out_dataset);

/* Waits. Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_thing_wait(tutti_thing *thing, tutti_color color,
                                         const tutti_call_options *call, tutti_bytes **out_json);

/* Waits for nothing. Context: computing. Threads: any. Since: 0.1. */
TUTTI_API tutti_status *tutti_thing_wait_async(tutti_thing *thing, const tutti_call_options *call);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API int32_t tutti_thing_is_red(const tutti_thing *thing);

/* Borrowed. Context: any. Threads: any. Since: 0.1. */
TUTTI_API const tutti_thing *tutti_thing_get_parent(const tutti_thing *thing);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API size_t tutti_thing_get_size(const tutti_thing *thing);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_thing_retain(const tutti_thing *thing);

/* Context: any. Threads: any. Since: 0.1. */
TUTTI_API void tutti_thing_release(const tutti_thing *thing);

#endif
'''
EXCEPTIONS = {
    "roles": {"*": {"out_json": "out_text"}, "thing_wait_async": {"call": "issue"}},
    "sources": {"plain": ["count"]},
    "dataset": {
        "pick": {"default": {"keep_order": True, "count": -1}},
        "near": {"default": {"step": 1}},
        "fill": {"hand": ["python", "java", "go", "runners"]},
        "keep_if": {"default": {"keep_order": "unset"}, "function": "predicate",
                    "hand": ["python", "java", "go", "runners"]},
        "store": {"default": {"keep_order": False},
                  "python": {"names": {"other": "dataset"}}},
        "count": {"default": {"keep_order": True}, "hand": ["python", "java", "go", "runners"]},
    },
}


def table_of(header=HEADER, exceptions=None):
    with tempfile.TemporaryDirectory() as folder:
        include = pathlib.Path(folder)
        (include / "tutti").mkdir()
        (include / "tutti" / "thing.h").write_text(header)
        return Table(include, EXCEPTIONS if exceptions is None else exceptions)


def written(generator, function, **arguments):
    return getattr(importlib.import_module(generator), function)(table_of(**arguments))


class Written(unittest.TestCase):
    """What each generator makes of the header."""

    def expect(self, text, *parts):
        for part in parts:
            self.assertIn(textwrap.dedent(part).strip("\n"), text)

    def test_facade(self):
        self.expect(
            written("facade", "header"),
            "inline tutti_status *thing_wait(tutti_thing *thing, int32_t color, "
            "const tutti_call_options *call, tutti_bytes **out_text) {\n"
            "  return tutti_thing_wait(thing, color, call, out_text);\n}",
            "thing_wait_async(tutti_thing *thing, const tutti_call_options *issue)",
            "inline bool thing_is_red(const tutti_thing *thing) {\n"
            "  return tutti_thing_is_red(thing) != 0;",
            "inline tutti_status *thing_parent(const tutti_thing *thing, tutti_thing **out_thing)",
            "tutti_thing_retain(thing);",
            "inline int64_t thing_size(",
            "inline tutti_status *dataset_pick(const tutti_dataset *dataset, int64_t count, "
            "tutti_tristate keep_order, const char *name, tutti_dataset **out_dataset) {",
            "options.keep_order = keep_order;",
            "return tutti_dataset_pick(result, count, &options);")

    def test_blocking(self):
        self.assertEqual(written("blocking", "names"), ["thing_wait"])

    def test_handles(self):
        self.expect(written("handles", "interface"), "TUTTI_HANDLE(tutti_thing)")
        self.expect(written("handles_go", "interface"), "GO_HANDLE(tutti_thing)")
        self.expect(written("handles_python", "interface"), "OUT_HANDLE(tutti_thing)",
                    "%apply tutti_thing **OUTPUT { tutti_thing **out_thing };")

    def test_core(self):
        self.expect(
            written("core_makers", "declarations"),
            "Result<Ptr> Pick(int64_t count = -1, bool keep_order = true, std::string name = {}) "
            "const;",
            "Result<Ptr> KeepIf(Ref<Function> judge, std::optional<bool> keep_order = {}, "
            "std::string name = {}) const;",
            "Result<Ptr> Store(std::string folder, const Dataset& other, bool keep_order = false,",
            "static Result<Ptr> Count(Environments environment, int64_t start, ",
            "Result<Ptr> Fill(Ref<const Value> filling = {}, Ref<Function> judge = {}, "
            "std::string name = {}) const;")
        self.expect(
            written("core_maker_bodies", "definitions"),
            'attributes.Set("count", count);',
            'if (keep_order) attributes.Set("keep_order", *keep_order);',
            'return Derive("keep_if", std::move(name), std::move(attributes), {std::move(judge)});',
            'attributes.Set("folder", std::move(folder));',
            'if (filling) attributes.Set("filling", std::move(filling));',
            "std::vector<Ref<Function>> functions = {};",
            "if (judge) functions.push_back(std::move(judge));",
            'return Make(environment, "count", std::move(name), std::move(attributes), {});')
        self.expect(written("core_ops", "registry"), "extern const OpTraits kKeepIfOp;",
                    "kPlainOps[] = {&kCountOp, &kFillOp, &kKeepIfOp, &kNearOp, "
                    "&kPickOp, &kStoreOp}")

    def test_c(self):
        self.expect(
            written("c_datasets", "source"),
            "tutti_status *tutti_dataset_pick(tutti_dataset **dataset, int64_t count, "
            "const tutti_pick_options *options) {",
            "TUTTI_ASSIGN_OR_RETURN(const bool keep_order, "
            'ReadTristate(call, set.keep_order, true, "keep_order"));',
            "return input.Pick(count, keep_order, Name(set.name));",
            "static constexpr tutti_near_options kOtherwise = TUTTI_NEAR_OPTIONS_INIT;\n  return "
            "Transform(__func__, dataset, options != nullptr ? options : &kOtherwise, ",
            "return input.Near(ReadOptional(set.most), set.step, Name(set.name));",
            "TUTTI_REQUIRE(call, judge);", "TUTTI_REQUIRE(call, folder);",
            'return input.Store(std::string(TextOr(folder, "")), *FromHandle(other), keep_order, ',
            "return Dataset::Count(environment, start, keep_order, Name(set.name));",
            "return input.Fill(set.filling == nullptr ? nullptr : "
            "Ref<const Value>::Retain(FromHandle(set.filling)), set.judge == nullptr ? nullptr : "
            "Ref<Function>::Retain(FromHandle(set.judge)), Name(set.name));")

    def test_python(self):
        text = written("python_datasets", "module")
        self.expect(
            text,
            "    def pick(self, count: int = -1, keep_order: Optional[bool] = None,",
            '"""The `count` best elements."""',
            "def near(self, most: Optional[int] = None, step: int = 1,",
            "return self._of(_native.dataset_pick(self._handle, count, keep_order, name))",
            '_arguments.handle_of("store: dataset", dataset, _dataset_class())')
        compile(text, "_transformations.py", "exec")

    def test_java(self):
        made = importlib.import_module("java_datasets")
        text = "".join(made.methods(op) for op in table_of().dataset_ops()
                       if not op.source and not op.by_hand("java"))
        self.expect(text, "public Dataset pick() {\n    return pick(-1, true);",
                    "public Dataset pick(long count, boolean keepOrder) {\n    return of("
                    "Native.dataset_pick(this, count, Bridge.tristate(keepOrder), nextName));")

        self.expect(text, "public Dataset near() {\n    return near(null, 1);",
                    "public Dataset near(Long most, long step) {")

    def test_go(self):
        with_words = written("go_datasets", "source")
        self.expect(with_words,
                    "// Pick gives the count best elements.\n"
                    "func (d *Dataset) Pick(count int64, options ...Option) *Dataset {",
                    "return native.Dataset_pick(dataset, count, op.keepOrder, op.name, made)",
                    "return native.Dataset_near(dataset, op.most, op.step, op.name, made)",
                    "pointer, err := other.use()")

    def test_runners(self):
        self.expect(written("runner_cpp", "source"),
                    'CheckKeys(op, {"op", "input", "count", "keep_order"});',
                    'Check(tutti_dataset_pick(dataset->out(), op.value("count", int64_t{-1}), '
                    "&options));", '{"pick", Pick},',
                    'if (op.contains("most")) options.most = {1, op.at("most").get<int64_t>()};',
                    'options.step = op.value("step", int64_t{1});')
        self.expect(written("runner_go", "source"), 'case "pick":',
                    'tutti.WithKeepOrder(flag)', 'integer(node, "count", -1)',
                    'if _, ok := node["most"]; ok {',
                    'tutti.WithMost(integer(node, "most", 0))')
        made = importlib.import_module("runner_java")
        self.expect(made.case(next(op for op in table_of().dataset_ops() if op.name == "near")),
                    'dataset.near((Long) node.get("most"), node.integer("step", 1));')
        self.expect(written("runner_python", "module"),
                    '"store": {"folder": ("text", "folder"), "other": ("dataset", "dataset")')


class Refused(unittest.TestCase):
    """What the table and the generators cannot take, in one sentence."""

    def refused(self, message, error=TableError, **arguments):
        with self.assertRaisesRegex(error, message):
            made = table_of(**arguments)
            made.forwards()
            made.dataset_ops()

    def test_declarations_that_cannot_be_read(self):
        for wrong, message in {
                "TUTTI_API tutti_status *tutti_thing_do(tutti_thing *);":
                    r"thing.h:\d+: expected a parameter or field of the form TYPE NAME, found "
                    r"'tutti_thing \*'",
                "TUTTI_API tutti_status *tutti_thing_do(int (*fn)(void));":
                    r"thing.h:\d+: expected",
                "TUTTI_API tutti_status *thing_do(int32_t x);":
                    r"thing.h:\d+: expected TUTTI_API RESULT tutti_NAME\(TYPE NAME, ...\);, found "
                    r"'TUTTI_API tutti_status \*thing_do\(int32_t x\)'"}.items():
            self.refused(message, DeclarationError, header=HEADER + wrong + "\n")

    def test_line_is_that_of_the_declaration(self):
        lines = HEADER.count("\n")
        self.refused(rf"thing.h:{lines + 2}: ", DeclarationError,
                     header=HEADER + "\nTUTTI_API void tutti_thing_do(tutti_thing *);\n")

    def test_parameters_that_no_forward_can_pass_on(self):
        self.refused(r"tutti_thing_call: expected parameters that a forward can pass on, found "
                     r"'tutti_callback callback'", header=HEADER
                     + "TUTTI_API tutti_status *tutti_thing_call(tutti_callback callback);\n")

    def test_operations_of_unknown_kinds(self):
        self.refused(r"expected a parameter of a kind that operations of datasets know .*, found "
                     r"'double rate'", header=HEADER + "/* Slow. Context: building. */\nTUTTI_API "
                     "tutti_status *tutti_dataset_slow(tutti_dataset **dataset, double rate);\n")

    def test_operations_that_may_not_be_built(self):
        self.refused(r"expected 'Context: building.', .*, found 'computing'", header=HEADER
                     + "/* Context: computing. */\nTUTTI_API tutti_status *tutti_dataset_slow("
                     "tutti_dataset **dataset);\n")

    def test_flags_without_a_default(self):
        self.refused(r"tutti_dataset_keep_if: expected a default of the option 'keep_order'",
                     exceptions={})

    def test_entries_that_name_nothing(self):
        for exceptions, message in (
                ({"facade": {"by_hand": ["tutti_nothing"]}}, "by_hand names tutti_nothing"),
                ({"facade": {"names": {"tutti_nothing": "x"}}}, "names tutti_nothing"),
                ({"roles": {"nothing_*": {}}}, r"\[roles\] has 'nothing_\*'"),
                ({"dataset": {"nothing": {}}}, r"there is a table \[dataset.nothing\]"),
                ({**EXCEPTIONS, "sources": {"plain": ["nothing"]}}, "plain names 'nothing'"),
                ({**EXCEPTIONS, "dataset": {**EXCEPTIONS["dataset"], "pick": {
                    "default": {"keep_order": True, "kount": 1}}}}, "default for kount")):
            self.refused(message, exceptions=exceptions)

    def test_defaults_before_what_must_be_given(self):
        self.refused(r"\[dataset.store\]: expected no default of 'folder', because 'other' follows",
                     exceptions={**EXCEPTIONS, "dataset": {**EXCEPTIONS["dataset"], "store": {
                         "default": {"keep_order": True, "folder": ""}}}})

    def test_operations_without_a_word(self):
        self.refused("expected a comment that says what the operation does", header=HEADER
                     + "/* Context: building. */\nTUTTI_API tutti_status *tutti_dataset_be("
                     "tutti_dataset **dataset);\n")

    def test_words_of_c_in_a_text_for_other_languages(self):
        header = HEADER.replace("The `count` best elements.", "TUTTI_RED is not NULL.")
        with self.assertRaisesRegex(TableError, r"found 'TUTTI_RED', which is C's; say it for go"):
            written("go_datasets", "source", header=header)

    def test_kinds_that_a_language_cannot_take(self):
        header = HEADER + ("/* Is. Context: building. */\nTUTTI_API tutti_status *tutti_dataset_be("
                           "tutti_dataset **dataset, const tutti_value *value);\n")
        for generator, function in (("python_datasets", "module"), ("go_datasets", "source"),
                                    ("runner_cpp", "source"), ("runner_java", "source")):
            with self.assertRaisesRegex(TableError, "thing.h:.*tutti_dataset_be"):
                written(generator, function, header=header)


class Own(unittest.TestCase):
    def test_the_projects_own_table_can_be_read(self):
        own = Table.load()
        self.assertGreater(len(own.forwards()), 150)
        self.assertIn("take", [op.name for op in own.dataset_ops()])
        self.assertTrue(table.TOML.exists())


if __name__ == "__main__":
    unittest.main()
