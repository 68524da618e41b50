"""What the package says of itself. The rule: everything public has a docstring that begins with a
sentence and names every parameter (what holds everywhere, `name` and `timeout`, is said once, in
tutti's own); what a docstring refers to exists; and pydoc renders all of it, with links that lead
somewhere."""

import builtins
import contextlib
import doctest
import html.parser
import importlib
import inspect
import io
import pkgutil
import pydoc
import re
import textwrap
import unittest
import warnings

import numpy as np

import tutti

SAID_ONCE = {"name", "timeout"}
# What programs call most: each shows how.
SHOWN = [
    *(f"tutti.data.Dataset.{name}" for name in (
        "as_numpy_iterator", "batch", "from_generator", "from_tensor_slices", "interleave", "map",
        "padded_batch", "range", "reduce", "repeat", "shuffle", "take", "zip")),
    *(f"tutti.distribute.Strategy.{name}" for name in (
        "distribute_dataset", "reduce", "run", "scope")),
    "tutti.BucketPlan.wait", "tutti.Cluster.join", "tutti.Communicator.all_gather_value",
    "tutti.Communicator.all_reduce", "tutti.Communicator.create_local",
    "tutti.Variable.assign_add", "tutti.data.parse_example",
    "tutti.distribute.ReplicaContext.all_reduce", "tutti.train.Checkpoint.save"]


def modules():
    """All modules of the package that can be imported."""
    found = [tutti]
    for info in pkgutil.walk_packages(tutti.__path__, "tutti."):
        if not info.name.endswith("._native"):
            found.append(importlib.import_module(info.name))
    return found


def public_modules():
    return [module for module in modules() if "._" not in module.__name__]


def functions_of(cls):
    """The public methods and properties that a class defines, by name."""
    for name, value in vars(cls).items():
        value = getattr(value, "__func__", value)
        if isinstance(value, property):
            yield name, value.fget
        elif inspect.isfunction(value) and not name.startswith("_"):
            yield name, value


class Documented:
    """One public thing: how it is called, its docstring, and what is documented around it."""

    def __init__(self, name, thing, around=""):
        self.name, self.thing = name, thing
        self.text = inspect.cleandoc(thing.__doc__ or "")
        self.around = around

    def parameters(self):
        function = self.thing
        if inspect.isclass(function):
            function = vars(function).get("__init__")
            if not inspect.isfunction(function):
                return []
        return [name for name in inspect.signature(function).parameters
                if name not in ("self", "cls") and not name.startswith("_")]


def documented():
    for module in public_modules():
        for name in module.__all__:
            thing = getattr(module, name)
            path = f"{module.__name__}.{name}"
            if inspect.isfunction(thing):
                yield Documented(path, thing)
            elif inspect.isclass(thing):
                yield Documented(path, thing)
                for cls in thing.__mro__:
                    if cls.__module__.partition(".")[0] != "tutti":
                        continue
                    for member, function in functions_of(cls):
                        around = inspect.cleandoc(thing.__doc__ or "")
                        yield Documented(f"{path}.{member}", function, around)


class Links(html.parser.HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, page):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag == "a" and given.get("name"):
            self.anchors.add(given["name"])


class DocsTest(unittest.TestCase):
    maxDiff = None

    def expect_none(self, wrong):
        self.assertEqual("\n".join(sorted(set(wrong))), "")

    def test_the_example_runs(self):
        lines = tutti.__doc__.splitlines()
        program = textwrap.dedent("\n".join(line for line in lines
                                            if line.startswith("    ") or not line))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(program, {})
        self.assertEqual([float(line) for line in out.getvalue().split()], [6, 22, 17])

    def test_examples_of_docstrings_print_what_they_say(self):
        parser = doctest.DocTestParser()
        shown = {thing.name: parser.get_doctest(thing.text, {"tutti": tutti, "np": np}, thing.name,
                                                None, 0)
                 for thing in documented()}
        said = io.StringIO()
        runner = doctest.DocTestRunner(verbose=False)
        for test in {test.docstring: test for test in shown.values() if test.examples}.values():
            runner.run(test, out=said.write)
        self.assertEqual(said.getvalue(), "")
        self.expect_none(f"{name} has no example" for name in SHOWN if not shown[name].examples)

    def test_everything_public_is_found(self):
        names = {thing.name for thing in documented()}
        self.assertGreater(len(names), 200)
        for name in ("tutti.data.Dataset.map", "tutti.Variable.shape", "tutti.shutdown",
                     "tutti.distribute.cluster_resolver.TFConfigClusterResolver.master",
                     "tutti.Runtime.set", "tutti.data.Dataset.range"):
            self.assertIn(name, names)
        for module in public_modules():
            self.assertTrue((module.__doc__ or "").strip(), module.__name__)
            self.assertEqual(sorted(set(module.__all__)), sorted(module.__all__), module.__name__)

    def test_docstrings_begin_with_a_sentence(self):
        self.expect_none(f"{thing.name}: {thing.text[:60]!r}" for thing in documented()
                         if not re.match(r"[A-Z`\"(0-9a-z_]+.*?[.:](\s|$)", thing.text, re.S))

    def test_docstrings_name_every_parameter(self):
        wrong = []
        for thing in documented():
            for name in thing.parameters():
                words = thing.text + "\n" + thing.around
                if name not in SAID_ONCE and not re.search(rf"\b{name}\b", words):
                    wrong.append(f"{thing.name}: says nothing of {name}")
        self.expect_none(wrong)
        for name in SAID_ONCE:
            self.assertRegex(tutti.__doc__, rf"`{name}`")

    def test_what_docstrings_refer_to_exists(self):
        wrong = []
        texts = [(thing.name, thing.text + "\n" + thing.around) for thing in documented()]
        texts += [(module.__name__, module.__doc__) for module in public_modules()]
        count = 0
        for name, text in texts:
            for error in re.findall(r"\b[A-Z]\w*(?:Error|Interrupt)\b", text):
                count += 1
                if not hasattr(tutti.errors, error) and not hasattr(builtins, error):
                    wrong.append(f"{name}: there is no {error}")
            for path in re.findall(r"\btutti(?:\.\w+)+", text):
                count += 1
                thing = tutti
                for part in path.split(".")[1:]:
                    thing = getattr(thing, part, None)
                if thing is None:
                    wrong.append(f"{name}: there is no {path}")
        self.assertGreater(count, 100)
        self.expect_none(wrong)

    def test_pydoc_renders_every_module_and_links_lead_somewhere(self):
        pages, wrong = {}, []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for module in [*modules(), tutti._native]:
                text = pydoc.plain(pydoc.render_doc(module, renderer=pydoc.plaintext))
                self.assertIn(module.__name__, text)
                pages[module.__name__] = Links(pydoc.html.page(
                    module.__name__, pydoc.html.document(module, module.__name__)))
            for thing in documented():
                self.assertTrue(pydoc.render_doc(thing.thing, renderer=pydoc.plaintext))
        count = 0
        for name, page in pages.items():
            for link in page.links:
                target, _, anchor = link.partition("#")
                if not target.startswith("tutti") and target:
                    continue
                count += 1
                other = pages.get(target[:-len(".html")]) if target else page
                if "._" in target or anchor.startswith("_"):
                    continue  # a base class that is private: pydoc names it and does not show it
                if other is None:
                    wrong.append(f"{name}: there is no page {target}")
                elif anchor and anchor not in other.anchors:
                    wrong.append(f"{name}: {target or 'the page'} has no {anchor}")
        self.assertGreater(count, 50)
        self.expect_none(wrong)


if __name__ == "__main__":
    unittest.main()
