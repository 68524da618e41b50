#!/usr/bin/env python3
"""Checks that no host of a public package registry stands in any file: where packages come from is
the choice of whoever builds or installs, made in the settings of their own tools.

    registry_hosts.py [ROOT]          prints each violation; exit status 1 when there is one

All files of the tree count, but for .git, caches and build/. A Go line takes what is set already:
GOPROXY=file://<folder>,$(go env GOPROXY).
"""

import os
import pathlib
import re
import sys

import tree_check

# With blanks for the dots, since this file is one of those that are read.
HOSTS = [
    "proxy golang org", "sum golang org", "goproxy io", "goproxy cn",
    "pypi org", "pypi python org", "files pythonhosted org",
    "conda anaconda org", "repo anaconda com",
    "repo1 maven org", "repo maven apache org", "central sonatype com", "oss sonatype org",
    "plugins gradle org", "services gradle org",
    "registry npmjs org", "registry yarnpkg com", "crates io", "rubygems org", "repo packagist org",
    "docker io", "ghcr io", "quay io", "gcr io", "mcr microsoft com",
    "deb debian org", "security debian org", "archive ubuntu com", "security ubuntu com",
    "ports ubuntu com",
    "raw githubusercontent com", "codeload github com", "objects githubusercontent com",
]
# What is downloaded from there, where the host is also one of documents.
PATHS = [r"github\.com/[\w.-]+/[\w.-]+/(?:releases/download|archive|tarball|zipball)/",
         r"gitlab\.com/[\w./-]+/-/archive/"]
SKIPPED = {".git", ".cache", ".venv", "__pycache__"}

NAMES = [host.replace(" ", ".") for host in HOSTS]
FOUND = re.compile("|".join([r"(?<![\w-])" + re.escape(name) + r"(?![\w-])" for name in NAMES] +
                            PATHS).encode("ascii"))
# What a file must have for the pattern to be tried on it: that is much quicker.
HINTS = [name.encode("ascii") for name in NAMES] + [b"github.com/", b"gitlab.com/"]


def violations(root):
    root = pathlib.Path(root)
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED and not (
            name == "build" and pathlib.Path(folder) == root))
        for name in sorted(names):
            path = pathlib.Path(folder) / name
            if path.is_symlink() or not path.is_file():
                continue
            data = path.read_bytes().lower()
            if not any(hint in data for hint in HINTS):
                continue
            for match in FOUND.finditer(data):
                line = data.count(b"\n", 0, match.start()) + 1
                yield (f"{path.relative_to(root)}:{line}: {match[0].decode('ascii')} is a host of "
                       "a public registry; leave the choice to the settings of the tool")


if __name__ == "__main__":
    sys.exit(tree_check.main(violations))
