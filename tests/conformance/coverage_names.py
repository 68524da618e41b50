"""What each language has under which name, read from what its users get: of C the list of symbols
and the headers, of Python the package, of Java the jar, of Go the module's sources.

Each class has `names`, all that it found, `where` it looked, and `has(name)`.
"""

import importlib
import inspect
import pathlib
import re
import subprocess
import sys
import zipfile


class CNames:
    """Functions that libtutti exports, and constants and types of its headers."""

    where = "capi/symbols.txt and capi/include/tutti"

    def __init__(self, root):
        self.names = set((root / "capi/symbols.txt").read_text(encoding="utf-8").split())
        for header in sorted((root / "capi/include/tutti").glob("*.h")):
            text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", header.read_text(encoding="utf-8"),
                          flags=re.DOTALL)
            self.names.update(re.findall(r"\bTUTTI_[A-Z0-9_]+\b", text))
            self.names.update(re.findall(r"\b(tutti_\w+)\b(?!\s*\()", text))

    def has(self, name):
        return name in self.names


class PythonNames:
    """What can be reached from the package, looked up by importing it."""

    def __init__(self, folder):
        self.where = f"the package in {folder}"
        sys.path.insert(0, str(folder))
        self.names = set()
        self._add("tutti", importlib.import_module("tutti"))

    def _add(self, path, thing):
        """For the names that lie near one that is not there."""
        for name in getattr(thing, "__all__", ()):
            self.names.add(f"{path}.{name}")
            member = getattr(thing, name)
            if inspect.ismodule(member):
                self._add(f"{path}.{name}", member)
            elif inspect.isclass(member):
                self.names.update(f"{path}.{name}.{part}" for part in dir(member)
                                  if not part.startswith("_"))

    def has(self, name):
        module, *parts = name.split(".")
        if module != "tutti":
            return False
        found = sys.modules["tutti"]
        for part in parts:
            if inspect.isclass(found):
                # Every class has object's __eq__: it must be a class of ours that defines a name.
                if not any(part in vars(base) for base in found.__mro__ if base is not object):
                    return False
            elif not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True


def without_type_arguments(line):
    """Java without what stands between < and >."""
    while True:
        shorter = re.sub(r"<[^<>]*>", "", line)
        if shorter == line:
            return line
        line = shorter


class JavaNames:
    """Public classes and what they have and inherit, without their packages: Dataset.take."""

    def __init__(self, jar, javap):
        self.where = str(jar)
        with zipfile.ZipFile(jar) as archive:
            classes = [name[:-len(".class")].replace("/", ".") for name in archive.namelist()
                       if name.startswith("org/tutti/") and name.endswith(".class")]
        text = subprocess.run([javap, "-public", "-cp", str(jar), *classes], check=True,
                              capture_output=True, text=True).stdout
        members, parents, public = {}, {}, set()
        for line in text.splitlines():
            line = without_type_arguments(line)
            head = re.match(r"((?:[a-z-]+ )*)(?:class|interface|enum) ([\w.$]+)(.*)\{", line)
            if head:
                current = head[2]
                members[current] = set()
                parents[current] = re.findall(r"[\w$]+(?:\.[\w$]+)+", head[3])
                if "public" in head[1]:
                    public.add(current)
            elif line.startswith("  "):
                member = re.search(r"([\w$]+)(?:\(.*\)[^()]*)?;$", line)
                if member:
                    members[current].add(member[1])

        def inherited(name):
            return members.get(name, set()).union(*map(inherited, parents.get(name, ())))

        self.names = set()
        for name in public:
            short = name.rpartition(".")[2].replace("$", ".")
            self.names.add(short)
            self.names.update(f"{short}.{member}" for member in inherited(name))

    def has(self, name):
        return name in self.names


class GoNames:
    """What the package exports: Range, Dataset.Take, InputOptions.Rebatch."""

    def __init__(self, module):
        self.where = str(module)
        self.names, aliases = set(), {}
        for path in sorted(pathlib.Path(module).glob("*.go")):
            if not path.name.endswith("_test.go"):
                self._read(path.read_text(encoding="utf-8"), aliases)
        for alias, name in aliases.items():
            self.names.update(alias + known[len(name):] for known in set(self.names)
                              if known.startswith(name + "."))

    def _read(self, text, aliases):
        """As gofmt writes it: what is on top begins its line, what is inside follows a tab."""
        inside = None
        for line in text.splitlines():
            if inside is not None:
                names = re.match(r"\t([A-Z]\w*(?:, [A-Z]\w*)*)", line)
                if names:
                    self.names.update(inside + name for name in names[1].split(", "))
                if re.match(r"[)}]", line):
                    inside = None
                continue
            function = re.match(r"func (?:\(\w+ \*?(\w+)(?:\[.*?\])?\) )?([A-Z]\w*)", line)
            kind = re.match(r"type ([A-Z]\w*)(?: = (\w+))?.*?(\bstruct \{|\binterface \{)?$", line)
            if function:
                self.names.add(f"{function[1]}.{function[2]}" if function[1] else function[2])
            elif kind:
                self.names.add(kind[1])
                if kind[2]:
                    aliases[kind[1]] = kind[2]
                if kind[3]:
                    inside = kind[1] + "."
            elif re.match(r"(?:const|var) \($", line):
                inside = ""
            else:
                constant = re.match(r"(?:const|var) ([A-Z]\w*)", line)
                if constant:
                    self.names.add(constant[1])

    def has(self, name):
        return name in self.names
