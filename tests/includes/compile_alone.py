"""Compiles each source of core/ and capi/ by itself without a precompiled header, for its errors
alone: one that forgets to include what it uses does not pass.

    compile_alone.py SOURCE_FOLDER BUILD_FOLDER

The command is that of the build's compile_commands.json. A build that compiles each source by
itself and without a precompiled header has shown it already, and there is nothing to do.
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

NOTHING_TO_DO = 77
FOLDERS = ("core", "capi")


def alone(command):
    """The words of `command` without what it precompiles and writes, to check and no more."""
    words, kept = iter(shlex.split(command)), []
    for word in words:
        if word == "-o":
            next(words)
        elif word == "-include":
            header = next(words)
            if not header.startswith("precompiled/"):
                kept += [word, header]
        elif word not in ("-fpch-preprocess", "-Winvalid-pch", "-Wno-error=invalid-pch"):
            kept.append(word)
    return kept + ["-fsyntax-only"]


def sources_of(source_folder, entries):
    """{source: entry} of the entries whose sources are ours, and no tests: GoogleTest, which those
    include, is precompiled in every build."""
    found = {}
    for entry in entries:
        path = pathlib.Path(entry["directory"], entry["file"])
        if any(path.is_relative_to(source_folder / name) for name in FOLDERS):
            if path.suffix == ".cc" and not path.stem.endswith("_test"):
                found[path] = entry
    return found


def error_of(path, entry):
    """What the compiler says of one source; nothing where it is content."""
    ran = subprocess.run(alone(entry["command"]), cwd=entry["directory"], capture_output=True,
                         text=True, errors="replace")
    return "" if ran.returncode == 0 else f"{path}:\n{ran.stderr}"


def main(arguments):
    source_folder, build_folder = map(pathlib.Path, arguments)
    entries = json.loads((build_folder / "compile_commands.json").read_text(encoding="utf-8"))
    sources = sources_of(source_folder.resolve(), entries)
    if not sources:
        sys.exit(f"{build_folder}/compile_commands.json names no source in {source_folder}")
    if not any("precompiled/room.hxx" in entry["command"] for entry in sources.values()):
        print("nothing is precompiled here")
        sys.exit(NOTHING_TO_DO)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = [error for error in pool.map(error_of, sources.keys(), sources.values()) if error]
    if errors:
        sys.exit("\n".join(errors) + f"{len(errors)} of {len(sources)} sources do not compile "
                 "alone; include what they use")
    print(f"{len(sources)} sources compile alone")


if __name__ == "__main__":
    main(sys.argv[1:])
