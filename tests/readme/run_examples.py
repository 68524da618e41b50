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
            raise SystemExit(f"a {language} example has no block behind it that says what it "
                             "prints")
        yield body, blocks[index + 1][1]


def c_command(source, options, folder):
    path = os.path.join(folder, "example.c")
    program = os.path.join(folder, "example")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    library_folder = os.path.dirname(options.library)
    subprocess.run([options.compiler, "-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror",
                    "-I", options.include, path, "-o", program, options.library,
                    f"-Wl,-rpath,{library_folder}"], check=True)
    return [program]


def python_command(source, options, folder):
    os.environ["PYTHONPATH"] = options.package
    path = os.path.join(folder, "example.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    return [sys.executable, path]


def java_command(source, options, folder):
    name = re.search(r"^(?:public )?(?:final )?class (\w+)", source, re.MULTILINE).group(1)
    path = os.path.join(folder, name + ".java")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    subprocess.run([options.compiler, "--release", "17", "-Xlint:all,-try", "-Werror",
                    "-cp", options.package, "-d", folder, path], check=True)
    java = os.path.join(os.path.dirname(options.compiler), "java")
    return [java, "-Xmx256m", "-cp", f"{folder}:{options.package}", name]


def go_command(source, options, folder):
    for name, text in (("main.go", source),
                       ("go.mod", "module example\n\ngo 1.19\n\nrequire tutti.dev/tutti v0.0.0\n\n"
                        f"replace tutti.dev/tutti => {options.package}\n")):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    subprocess.run([options.compiler, "vet", "."], cwd=folder, check=True)
    subprocess.run([options.compiler, "build", "-o", "example", "."], cwd=folder, check=True)
    return [os.path.join(folder, "example")]


COMMANDS = {"c": c_command, "python": python_command, "java": java_command, "go": go_command}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--language", choices=COMMANDS, required=True)
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("--include")
    parser.add_argument("--library")
    parser.add_argument("--package", help="the Python path, the jar or the Go module")
    parser.add_argument("file")
    options = parser.parse_args()

    with open(options.file, encoding="utf-8") as file:
        found = list(examples(file.read(), options.language))
    if not found:
        raise SystemExit(f"{options.file}: no {options.language} example found")
    for source, expected in found:
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(COMMANDS[options.language](source, options, folder), cwd=folder,
                                    text=True, stdout=subprocess.PIPE, timeout=60, check=False)
        if result.returncode != 0:
            raise SystemExit(f"the example ended with {result.returncode}:\n{source}")
        if result.stdout != expected:
            raise SystemExit(f"the example printed\n{result.stdout}\nand not\n{expected}")
    print(f"{len(found)} {options.language} example(s) print what {options.file} says")


if __name__ == "__main__":
    main()
