"""Compiles and runs the examples of all READMEs and compares what they print.

    run_examples.py --root ROOT --language c|python|java|go|sh ...   runs those of one language
    run_examples.py --root ROOT                  looks whether each block is one that a run covers

readmes.py says what the blocks of a README are. Commands run by bash in an empty folder with links
to what the tree has and to the build folder (build/release): they stand as somebody types them
at the top of a clone. `tutti` is that of the build, `python3` finds the package of the build.
What they print is compared but for pids and seconds, and "..." stands for any rest of a line. Those
that build or install everything are not run: CI is made of them; here it is looked at that they are
there and know their first word.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import readmes

# Programs that a README may tell people to start and that no test can.
BY_HAND = ("examples/run", "tests/run", ".ci/run")
# What differs from run to run.
VARYING = re.compile(r"(?<=pid )\d+|\d+(\.\d+)?(?= s\b)")


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def c_command(source, options, folder):
    program = os.path.join(folder, "example")
    # What has only dlopen is not linked to the library.
    library = [] if "tutti_dl.h" in source else [options.library]
    library_folder = os.path.dirname(options.library)
    subprocess.run([options.compiler, "-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror",
                    *(f"-I{include}" for include in options.include),
                    write(folder, "example.c", source), "-o", program, *library,
                    f"-Wl,-rpath,{library_folder}"], check=True)
    return [program]


def python_command(source, options, folder):
    os.environ["PYTHONPATH"] = options.package
    return [sys.executable, write(folder, "example.py", source)]


def java_command(source, options, folder):
    name = re.search(r"^(?:public )?(?:final )?class (\w+)", source, re.MULTILINE).group(1)
    path = write(folder, name + ".java", source)
    subprocess.run([options.compiler, "--release", "17", "-Xlint:all,-try", "-Werror",
                    "-cp", options.package, "-d", folder, path], check=True)
    java = os.path.join(os.path.dirname(options.compiler), "java")
    return [java, "-Xmx256m", "-cp", f"{folder}:{options.package}", name]


def go_command(source, options, folder):
    write(folder, "main.go", source)
    write(folder, "go.mod", "module example\n\ngo 1.19\n\nrequire tutti.dev/tutti v0.0.0\n\n"
          f"replace tutti.dev/tutti => {options.package}\n")
    subprocess.run([options.compiler, "vet", "."], cwd=folder, check=True)
    subprocess.run([options.compiler, "build", "-o", "example", "."], cwd=folder, check=True)
    return [os.path.join(folder, "example")]


def sh_command(source, options, folder):
    build = pathlib.Path(options.build)
    for entry in pathlib.Path(options.root).resolve().iterdir():
        if entry.name != "build" and not entry.name.startswith(".git"):
            os.symlink(entry, os.path.join(folder, entry.name))
    os.mkdir(os.path.join(folder, "build"))
    os.symlink(build, os.path.join(folder, "build/release"))
    commands = os.path.join(folder, "build/commands")
    os.mkdir(commands)
    os.symlink(build / "capi/tool/tutti", os.path.join(commands, "tutti"))
    os.symlink(sys.executable, os.path.join(commands, "python3"))
    for tool in options.tool:
        os.symlink(tool, os.path.join(commands, os.path.basename(tool)))
    os.environ.update(GOPATH=os.path.join(folder, "build/go"), GOFLAGS="-mod=mod -modcacherw",
                      GOTOOLCHAIN="local")
    os.environ["PATH"] = f"{commands}:{os.environ['PATH']}"
    os.environ["PYTHONPATH"] = str(build / "bindings/python")
    for name in [name for name in os.environ if name.startswith(("TUTTI_", "TF_"))]:
        del os.environ[name]
    lines = []
    for line in source.splitlines(keepends=True):
        if line.split() and line.split()[0] in BY_HAND:
            check_by_hand(options.root, line)
        else:
            lines.append(line)
    script = write(folder, "build/commands.sh", "".join(lines))
    return ["bash", "-eu", "-o", "pipefail", script]


def check_by_hand(root, line):
    """`examples/run c` is there when examples/run is and its first comment has those words."""
    words = line.partition("#")[0].split()
    program = pathlib.Path(root) / words[0]
    if not os.access(program, os.X_OK):
        raise SystemExit(f"{line.rstrip()}: there is no program {words[0]}")
    said = " ".join(words[:2])
    if said not in re.sub(" +", " ", program.read_text(encoding="utf-8")):
        raise SystemExit(f"{line.rstrip()}: {words[0]} does not say what \"{said}\" is")


COMMANDS = {"c": c_command, "python": python_command, "java": java_command, "go": go_command,
            "sh": sh_command}


def looks_like(found, expected):
    """Whether commands printed what is expected of them, but for what varies."""
    found, expected = (VARYING.sub("N", text) for text in (found, expected))
    return re.fullmatch(re.escape(expected).replace(re.escape("..."), ".*"), found) is not None


def run(block, expected, options):
    """Runs one example; says on what it fails."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        try:
            command = COMMANDS[block.kind](block.body, options, folder)
            errors = subprocess.STDOUT if block.kind == "sh" else None
            result = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE,
                                    stderr=errors, timeout=120, check=False)
        finally:
            os.environ.clear()
            os.environ.update(environment)
    if result.returncode != 0:
        raise SystemExit(f"{block.place}: the example ended with {result.returncode}:\n"
                         f"{block.body}\n{result.stdout}")
    if expected is None:
        return
    if not (looks_like(result.stdout, expected) if block.kind == "sh"
            else result.stdout == expected):
        raise SystemExit(f"{block.place}: the example printed\n{result.stdout}\nand not\n"
                         f"{expected}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", required=True, help="the top of the tree")
    parser.add_argument("--language", choices=COMMANDS)
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--library")
    parser.add_argument("--package", help="the Python path, the jar or the Go module")
    parser.add_argument("--build", help="the build folder")
    parser.add_argument("--tool", action="append", default=[],
                        help="a program that commands find by its name")
    parser.add_argument("--leave-out", action="append", default=[], metavar="FOLDER",
                        help="whose README is about a language that is not built here")
    options = parser.parse_args()

    try:
        paths = readmes.find(options.root)
        if options.language is None:
            wrong = [text for path in paths for text in readmes.mistakes(options.root, path)]
            if wrong:
                raise SystemExit("\n".join(wrong))
            print(f"{len(paths)} READMEs have only blocks that a test covers")
            return
        left_out = [pathlib.Path(options.root) / folder for folder in options.leave_out]
        found = [(block, expected) for path in paths if path.parent not in left_out
                 for block, expected in readmes.examples(path) if block.kind == options.language]
    except readmes.Mistake as mistake:
        raise SystemExit(str(mistake)) from None
    if not found:
        raise SystemExit(f"{options.root}: no README has a {options.language} example")
    for block, expected in found:
        run(block, expected, options)
        print(f"{block.place}: as it says", flush=True)


if __name__ == "__main__":
    main()
