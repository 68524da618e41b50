"""Makes the Python wheel: the package as it stands in the build folder, with its libraries.

A wheel is a zip file with the package, a folder NAME-VERSION.dist-info that describes it, and in
there RECORD, which gives size and SHA-256 of every file (PyPA's "binary distribution format").
The same input gives the same bytes: names are sorted and every time is that of SOURCE_DATE_EPOCH.

    make_wheel.py --print-tag                     e.g. cp311-cp311-linux_x86_64
    make_wheel.py --version V --package FOLDER --readme FILE --license FILE --add PATH=FILE...
                  OUTPUT

The README is the wheel's description. This program runs under the Python that the extension was
built for.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import sys
import sysconfig
import time
import zipfile

METADATA = """\
Metadata-Version: 2.1
Name: tutti
Version: {version}
Summary: A distribution runtime for training: strategies, collectives and distributed datasets
License: Apache-2.0
License-File: LICENSE
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: {major}.{minor}
Classifier: Typing :: Typed
Requires-Python: =={major}.{minor}.*
Requires-Dist: numpy>=1.23.2,<3
Description-Content-Type: text/markdown

"""

# What stands below the README in the description.
LINKED = """
## This wheel

It is linked to the libraries of {system}; elsewhere `import tutti` says which of them are missing.
"""

WHEEL = """\
Wheel-Version: 1.0
Generator: tutti {version}
Root-Is-Purelib: false
Tag: {tag}
"""

ENTRY_POINTS = """\
[console_scripts]
tutti = tutti._command:main
"""


def tag():
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"{python}-{python}-{platform}"


def contents(options):
    """Returns {path in the wheel: (bytes, whether it can be executed)} without RECORD."""
    files = {}
    package = pathlib.Path(options.package)
    for path in sorted(package.rglob("*")):
        if path.is_file() and (path.suffix in (".py", ".pyi") or path.name == "py.typed"):
            files[f"tutti/{path.relative_to(package)}"] = (path.read_bytes(), False)
    for addition in options.add:
        name, _, source = addition.partition("=")
        executable = os.access(source, os.X_OK)
        files[f"tutti/{name}"] = (pathlib.Path(source).read_bytes(), executable)
    needed = files["tutti/needed-packages"][0].decode("utf-8")
    values = {
        "version": options.version, "tag": tag(),
        "major": sys.version_info.major, "minor": sys.version_info.minor,
        "system": needed.splitlines()[0].removeprefix("system "),
    }
    info = f"tutti-{options.version}.dist-info"
    readme = pathlib.Path(options.readme).read_text(encoding="utf-8")
    for name, text in (("METADATA", METADATA.format(**values) + readme + LINKED.format(**values)),
                       ("WHEEL", WHEEL.format(**values)), ("entry_points.txt", ENTRY_POINTS)):
        files[f"{info}/{name}"] = (text.encode("utf-8"), False)
    files[f"{info}/LICENSE"] = (pathlib.Path(options.license).read_bytes(), False)
    return files, f"{info}/RECORD"


def record_of(files, record_name):
    lines = []
    for name, (data, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
        digest = digest.rstrip(b"=").decode("ascii")
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    lines.append(f"{record_name},,\n")
    return "".join(lines).encode("ascii")


def write(output, files, record_name):
    # A zip file cannot say a time before 1980.
    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800))[:6]
    unfinished = output + ".new"
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as wheel:
        # RECORD comes last, as the format asks.
        for name in sorted(files, key=lambda name: (name == record_name, name)):
            data, executable = files[name]
            entry = zipfile.ZipInfo(name, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            wheel.writestr(entry, data)
    os.replace(unfinished, output)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--print-tag", action="store_true")
    parser.add_argument("--version")
    parser.add_argument("--package")
    parser.add_argument("--readme")
    parser.add_argument("--license")
    parser.add_argument("--add", action="append", default=[], metavar="PATH=FILE")
    parser.add_argument("output", nargs="?")
    options = parser.parse_args()
    if options.print_tag:
        print(tag())
        return
    files, record_name = contents(options)
    files[record_name] = (record_of(files, record_name), False)
    write(options.output, files, record_name)


if __name__ == "__main__":
    main()
