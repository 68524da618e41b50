"""Writes down which packages of the distribution a library needs, for messages on other systems.

The bindings carry this file beside libtutti.so.0. Where a library is missing they look its name up
there and say which package of which system it comes from. The file has one fact a line:

    system Debian GNU/Linux 12 (bookworm)
    platform linux-x86_64
    needs libfmt.so.9 libfmt9            a library that libtutti.so.0 itself names
    behind libcares.so.2 libc-ares2      one that those need in turn

Without dpkg the names of the packages are left out.

    needed_packages.py LIBRARY OUTPUT
"""

import os
import platform
import re
import shutil
import subprocess
import sys

# "	libfmt.so.9 => /lib/x86_64-linux-gnu/libfmt.so.9 (0x00007f...)"
RESOLVED = re.compile(r"^\s*(\S+) => (/\S+) \(0x", re.MULTILINE)
NEEDED = re.compile(r"\(NEEDED\)\s+Shared library: \[(\S+)\]")
# "libfmt9:amd64: /usr/lib/x86_64-linux-gnu/libfmt.so.9"
OWNED = re.compile(r"^([^\s:,]+)(?::\w+)?: (/\S+)$", re.MULTILINE)


def output_of(*command):
    """What a command prints; dpkg-query fails when one of many paths is nobody's."""
    environment = dict(os.environ, LC_ALL="C")
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False).stdout


def packages_of(paths):
    """Returns {path: package}, asking for each path as it may be written where /lib is /usr/lib."""
    if shutil.which("dpkg-query") is None:
        return {}
    spellings = {}
    for path in paths:
        for candidate in (path, os.path.realpath(path)):
            bare = candidate[len("/usr"):] if candidate.startswith("/usr/") else candidate
            spellings[bare] = spellings["/usr" + bare] = path
    owners = OWNED.findall(output_of("dpkg-query", "--search", *spellings))
    return {spellings[path]: package for package, path in owners if path in spellings}


def facts(library):
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "an unknown system")
    yield f"system {system}"
    yield f"platform {platform.system().lower()}-{platform.machine()}"
    direct = set(NEEDED.findall(output_of("readelf", "--dynamic", "--wide", library)))
    if not direct:
        raise SystemExit(f"{library}: readelf names no library that it needs")
    resolved = RESOLVED.findall(output_of("ldd", library))
    owners = packages_of([path for _, path in resolved])
    lines = [(name not in direct, name, owners.get(path, "")) for name, path in resolved]
    for behind, name, package in sorted(lines):
        yield f"{'behind' if behind else 'needs'} {name} {package}".rstrip()


def main():
    library, output = sys.argv[1:]
    with open(output, "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in facts(library))


if __name__ == "__main__":
    main()
