"""Compares the tables of TUTTI_* variables in the READMEs with the variables that the sources read,
and those of the settings (core/runtime/README.md) with the settings' own defaults.

A variable is read where its name stands in quotes in C++, C or Python (in a test: where it is asked
of the environment, since tests also write names that nobody knows), where a script expands it,
and for every setting of the runtime (core/runtime/settings.cc), whose variable is TUTTI_<KEY>.
"""

import pathlib
import re
import sys

import readmes

QUOTED = re.compile(r"[\"'](TUTTI_[A-Z0-9_]*[A-Z0-9])[\"']")
ASKED_BY_TEST = re.compile(r"getenv\(\"(TUTTI_[A-Z0-9_]+)\"")
EXPANDED = re.compile(r"\$\{?(TUTTI_[A-Z0-9_]+)")
SETTING = re.compile(r"\{\"([a-z_]+)\", SettingKind::\w+, \"([^\"]*)\"")
ROW = re.compile(r"^\| `(TUTTI_[A-Z0-9_]+)` \|.*\| ([^|]*) \|$", re.MULTILINE)
# Names of macros and enumerators that stand in quotes for another reason start so.
NO_VARIABLES = ("TUTTI_DTYPE", "TUTTI_API", "TUTTI_NODE", "TUTTI_LEAF")
# A setting of CMake, which public_api.py reads from a build's cache.
OF_CMAKE = ("TUTTI_GO",)


def variables_read(root):
    """Returns {variable: first file that reads it}."""
    found = {}
    for folder in ("core", "capi", "bindings", "tests", "examples"):
        for path in sorted((root / folder).rglob("*")):
            if not path.is_file() or path.parent.name == "readme":
                continue
            if "test" in path.stem:
                pattern = ASKED_BY_TEST
            elif path.suffix in (".cc", ".c", ".h", ".py", ".i"):
                pattern = QUOTED
            elif path.suffix == "":
                pattern = EXPANDED
            else:
                continue
            for name in pattern.findall(path.read_text(encoding="utf-8", errors="replace")):
                if not name.startswith(NO_VARIABLES) and name not in OF_CMAKE:
                    found.setdefault(name, path)
    for key in settings_of(root):
        found.setdefault("TUTTI_" + key.upper(), root / "core/runtime/settings.cc")
    return found


def settings_of(root):
    """Returns {key: default} of the runtime's settings."""
    return dict(SETTING.findall(
        (root / "core/runtime/settings.cc").read_text(encoding="utf-8")))


def main():
    root = pathlib.Path(sys.argv[1])
    read = variables_read(root)
    documented, problems = {}, []
    for path in readmes.find(root):
        for name, default in ROW.findall(path.read_text(encoding="utf-8")):
            if name in documented:
                problems.append(f"{name} is in two tables; one of them is in {path}")
            documented[name] = default
    problems += [f"{name}, read in {read[name].relative_to(root)}, is in no README's table"
                 for name in sorted(read.keys() - documented.keys())]
    problems += [f"{name} is in a README's table, and nothing reads it"
                 for name in sorted(documented.keys() - read.keys())]
    for key, default in settings_of(root).items():
        default = default or "none"
        said = documented.get("TUTTI_" + key.upper(), default)
        if said != default:
            problems.append(f"TUTTI_{key.upper()}: its table says {said}, and the default is "
                            f"{default}")
    if problems:
        raise SystemExit("\n".join(problems))
    print(f"{len(documented)} variables, all read and all documented")


if __name__ == "__main__":
    main()
