"""Compiles and runs the examples of a Markdown file and compares what they print.

An example is a fenced block of the language asked for; the fenced block without a language that
follows it is what it prints. An example without such a block, or a file without examples, fails:
it would prove nothing.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(text, language):
    """Yields (source, expected output) for each example of `language`."""
    blocks = [(match.group(1), match.group(2)) for match in FENCE.finditer(text)]
    for index, (name, body) in enumerate(blocks):
        if name != language:
            continue
        if index + 1 == len(blocks) or blocks[index + 1][0] != "":
            raise SystemExit(f"a {language} example has no block behind it that says what it prints")
        yield body, blocks[index + 1][1]


def command_for(source, options, folder):
    """Writes the source into `folder`, builds it where that is needed, returns the command."""
    if options.language == "python":
        path = os.path.join(folder, "example.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        return [sys.executable, path]
    path = os.path.join(folder, "example.c")
    program = os.path.join(folder, "example")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    library_folder = os.path.dirname(options.library)
    subprocess.run([options.compiler, "-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror",
                    "-I", options.include, path, "-o", program, options.library,
                    f"-Wl,-rpath,{library_folder}"], check=True)
    return [program]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--language", choices=["c", "python"], required=True)
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("--include")
    parser.add_argument("--library")
    parser.add_argument("--python-path")
    parser.add_argument("file")
    options = parser.parse_args()

    with open(options.file, encoding="utf-8") as file:
        found = list(examples(file.read(), options.language))
    if not found:
        raise SystemExit(f"{options.file}: no {options.language} example found")
    environment = dict(os.environ)
    if options.python_path:
        environment["PYTHONPATH"] = options.python_path
    for source, expected in found:
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(command_for(source, options, folder), env=environment, cwd=folder,
                                    text=True, stdout=subprocess.PIPE, timeout=60, check=False)
        if result.returncode != 0:
            raise SystemExit(f"the example ended with {result.returncode}:\n{source}")
        if result.stdout != expected:
            raise SystemExit(f"the example printed\n{result.stdout}\nand not\n{expected}")
    print(f"{len(found)} {options.language} example(s) print what {options.file} says")


if __name__ == "__main__":
    main()
