"""Shows the reader and the runner made-up READMEs and looks at what they refuse."""

import argparse
import pathlib
import tempfile
import unittest

import readmes
import run_examples

PRINTS_2 = "```python\nprint(1 + 1)\n```\n```\n2\n```\n"


class Readmes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.readme = self.root / "README.md"

    def mistakes(self, text):
        self.readme.write_text(text, encoding="utf-8")
        return [mistake.replace(f"{self.readme}:", "") for mistake in
                readmes.mistakes(self.root, self.readme)]

    def assert_refused(self, text, *pieces):
        mistake, = self.mistakes(text)
        for piece in pieces:
            self.assertIn(piece, mistake)

    def test_finds_every_readme_but_those_of_builds_and_hidden_folders(self):
        for name in ("README.md", "core/README.md", "core/a/README.md", "build/release/README.md",
                     ".git/README.md", "core/README.txt"):
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("", encoding="utf-8")
        self.assertEqual([str(path.relative_to(self.root)) for path in readmes.find(self.root)],
                         ["README.md", "core/README.md", "core/a/README.md"])
        (self.root / "empty").mkdir()
        with self.assertRaisesRegex(readmes.Mistake, "there is no README.md"):
            readmes.find(self.root / "empty")

    def test_accepts_programs_with_their_output_commands_and_text(self):
        self.assertEqual(self.mistakes(
            PRINTS_2 + "```sh\ntrue\n```\n```sh\necho 1\n```\n```\n1\n```\n```text\na -> b\n```\n"),
                         [])

    def test_refuses_a_block_that_no_test_can_run(self):
        self.assert_refused("a\n```rust\nfn main() {}\n```\n", "2: no test knows how to run",
                            '"rust"')

    def test_refuses_a_program_whose_output_nobody_says(self):
        self.assert_refused("```c\nint main(void) {}\n```\n", "1: a c example has no block")
        self.assert_refused("```go\npackage main\n```\n" + PRINTS_2, "1: a go example has no block")

    def test_refuses_a_block_that_is_the_output_of_nothing(self):
        self.assert_refused("```\n2\n```\n", "1: a block that says neither")
        self.assert_refused(PRINTS_2 + "```\n2\n```\n", "7: a block that says neither")

    def test_refuses_code_that_is_only_indented_but_not_what_belongs_to_a_list(self):
        self.assert_refused("So:\n\n    make\n", "3: code that is only indented")
        self.assertEqual(self.mistakes("1. one\n\n    more of one\n\n       and more\n"), [])
        self.assertEqual(self.mistakes("```text\n\n    inside\n```\n"), [])

    def test_refuses_fences_that_are_indented_or_have_no_end(self):
        self.assert_refused("- a\n  ```sh\n  true\n  ```\n", "2: a fence that is indented")
        self.assert_refused("```sh\ntrue\n", "1: the block that begins here has no end")

    def test_an_excerpt_stands_in_its_file(self):
        (self.root / "a.cc").write_text("int a() {\n  return 1;\n}\nint b();\n", encoding="utf-8")
        for body in ("return 1;\n}\n", "int a() {\n...\nint b();\n", "  ...\n}\n"):
            self.assertEqual(self.mistakes(f"```cpp a.cc\n{body}```\n"), [])
        for body in ("return 2;\n", "int a() {\n}\n", "int b();\n...\nint a() {\n"):
            self.assert_refused(f"```cpp a.cc\n{body}```\n", "1: a.cc does not have these lines")
        self.assert_refused("```cpp b.cc\nint b();\n```\n", "there is no such file")
        self.assert_refused("```cpp a.cc b.cc\nint b();\n```\n", 'found "cpp a.cc b.cc"')

    def run_all(self, text, language):
        self.readme.write_text(text, encoding="utf-8")
        options = argparse.Namespace(root=self.root, package="", build=str(self.root / "built"),
                                     tool=[])
        for block, expected in readmes.examples(self.readme):
            if block.kind == language:
                run_examples.run(block, expected, options)

    def test_a_program_prints_what_stands_behind_it(self):
        self.run_all(PRINTS_2, "python")
        with self.assertRaisesRegex(SystemExit, "README.md:1: the example printed\n3\n\nand not"):
            self.run_all(PRINTS_2.replace("1 + 1", "1 + 2"), "python")
        with self.assertRaisesRegex(SystemExit, "README.md:1: the example ended with 1"):
            self.run_all(PRINTS_2.replace("1 + 1", "1 / 0"), "python")

    def test_commands_run_in_a_folder_with_the_tree_and_the_build(self):
        (self.root / "examples").mkdir()
        (self.root / "examples/greet").write_text("hello\n", encoding="utf-8")
        (self.root / "built").mkdir()
        (self.root / "built/greet").write_text("build\n", encoding="utf-8")
        script = "```sh\ncat examples/greet build/release/greet > both\ncat both\n```\n"
        self.run_all(script + "```\nhello\nbuild\n```\n", "sh")
        self.assertFalse((self.root / "both").exists(), "it ran in a folder of its own")
        with self.assertRaisesRegex(SystemExit, "and not\nhello\n"):
            self.run_all(script + "```\nhello\n```\n", "sh")
        with self.assertRaisesRegex(SystemExit, "ended with 3"):
            self.run_all("```sh\n(exit 3)\ntrue\n```\n", "sh")

    def test_pids_and_seconds_may_differ_other_numbers_may_not(self):
        said = "```\nworker 1 (pid 4711) ended by 9 after 0.3 s\n```\n"
        self.run_all("```sh\necho 'worker 1 (pid 12) ended by 9 after 12.5 s' >&2\n```\n" + said,
                     "sh")
        with self.assertRaisesRegex(SystemExit, "and not"):
            self.run_all("```sh\necho 'worker 2 (pid 12) ended by 9 after 1 s'\n```\n" + said, "sh")

    def test_dots_stand_for_the_rest_of_a_line(self):
        script = "```sh\necho 'the rest a'\necho b\n```\n"
        self.run_all(script + "```\nthe rest ...\nb\n```\n", "sh")
        with self.assertRaisesRegex(SystemExit, "and not"):
            self.run_all(script + "```\nthe ...\n```\n", "sh")

    def test_what_builds_everything_is_there_and_knows_its_word(self):
        (self.root / "examples").mkdir()
        program = self.root / "examples/run"
        with self.assertRaisesRegex(SystemExit, "there is no program examples/run"):
            self.run_all("```sh\nexamples/run c\n```\n", "sh")
        program.write_text("#!/bin/sh\n#   examples/run c    in C\nexit 1\n", encoding="utf-8")
        program.chmod(0o755)
        self.run_all("```sh\nexamples/run c    # not run here\n```\n", "sh")
        with self.assertRaisesRegex(SystemExit, 'does not say what "examples/run ada" is'):
            self.run_all("```sh\nexamples/run ada\n```\n", "sh")


if __name__ == "__main__":
    unittest.main()
