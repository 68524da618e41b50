"""What the package says of itself: the example of its docstring runs, and everything public has one."""

import contextlib
import inspect
import io
import textwrap
import unittest

import tutti


class DocsTest(unittest.TestCase):
    def test_the_example_runs(self):
        lines = tutti.__doc__.splitlines()
        program = textwrap.dedent("\n".join(line for line in lines
                                            if line.startswith("    ") or not line))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(program, {})
        self.assertEqual([float(line) for line in out.getvalue().split()], [6, 22, 17])

    def test_everything_public_says_what_it_is(self):
        missing = []
        for module in (tutti, tutti.data, tutti.data.experimental, tutti.distribute,
                       tutti.distribute.cluster_resolver, tutti.distribute.experimental,
                       tutti.errors, tutti.train):
            for name in module.__all__:
                thing = getattr(module, name)
                if not inspect.isclass(thing) and not inspect.isfunction(thing):
                    continue
                if not (thing.__doc__ or "").strip():
                    missing.append(f"{module.__name__}.{name}")
                for member, value in vars(thing).items() if inspect.isclass(thing) else ():
                    method = getattr(value, "__func__", value)
                    if inspect.isfunction(method) and not member.startswith("_"):
                        if not (method.__doc__ or "").strip():
                            missing.append(f"{module.__name__}.{name}.{member}")
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
