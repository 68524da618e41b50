"""The type stub of the native module says what the module has: every name, and how many arguments
each function takes."""

import ast
import pathlib
import re
import unittest

import tutti
from tutti import _native

STUB = pathlib.Path(tutti.__file__).with_name("_native.pyi")


class StubTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.defined = {node.name: node for node in ast.parse(STUB.read_text()).body
                       if isinstance(node, (ast.FunctionDef, ast.ClassDef))}

    def test_names_are_those_of_the_module(self):
        present = {name for name in vars(_native) if not re.fullmatch(r"__\w+__", name)}
        self.assertGreater(len(present), 200)
        self.assertEqual(sorted(self.defined), sorted(present))

    def test_classes_are_classes_and_functions_functions(self):
        for name, node in self.defined.items():
            self.assertEqual(isinstance(node, ast.ClassDef),
                             isinstance(getattr(_native, name), type), name)

    def test_functions_take_as_many_arguments(self):
        numbers = {"no": 0, "one": 1}
        functions = {name: node for name, node in self.defined.items()
                     if isinstance(node, ast.FunctionDef)}
        found = {}
        for name, node in functions.items():
            # With one argument too many a function does nothing but say how many it takes.
            with self.assertRaises(TypeError, msg=name) as caught:
                getattr(_native, name)(*[None] * (len(node.args.posonlyargs) + 1))
            said = re.search(r"(?:expected|takes|takes exactly) (\w+) argument",
                             str(caught.exception))
            self.assertIsNotNone(said, str(caught.exception))
            found[name] = numbers.get(said[1]) if said[1] in numbers else int(said[1])
        self.assertEqual({name: len(node.args.posonlyargs) for name, node in functions.items()},
                         found)


if __name__ == "__main__":
    unittest.main()
