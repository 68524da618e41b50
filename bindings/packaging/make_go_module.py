"""Packs the Go module as a module proxy serves it, which is a folder of files.

A Go tool whose GOPROXY is file://OUTPUT finds the module there: <path>/@v/list names the versions,
and each version has an .info, a .mod and a .zip file ("Module proxies" in Go's module reference).
The same input gives the same bytes.

    make_go_module.py --version V FOLDER OUTPUT
"""

import argparse
import json
import os
import pathlib
import shutil
import time
import zipfile

# What a module may consist of here; whatever else a build left in the folder is not packed.
SUFFIXES = {".go", ".h", ".cxx", ".mod"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    options = parser.parse_args()

    version = "v" + options.version
    definition = (options.folder / "go.mod").read_bytes()
    module = definition.split(None, 2)[1].decode("ascii")
    shutil.rmtree(options.output, ignore_errors=True)
    versions = options.output / module / "@v"
    versions.mkdir(parents=True)
    moment = max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800)
    (versions / "list").write_text(version + "\n", encoding="ascii")
    (versions / f"{version}.mod").write_bytes(definition)
    (versions / f"{version}.info").write_text(json.dumps({
        "Version": version, "Time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment)),
    }) + "\n", encoding="ascii")
    with zipfile.ZipFile(versions / f"{version}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(options.folder.rglob("*")):
            if path.is_file() and (path.suffix in SUFFIXES or path.name == "LICENSE"):
                name = f"{module}@{version}/{path.relative_to(options.folder).as_posix()}"
                entry = zipfile.ZipInfo(name, time.gmtime(moment)[:6])
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o100644 << 16
                archive.writestr(entry, path.read_bytes())


if __name__ == "__main__":
    main()
