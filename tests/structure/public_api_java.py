"""The public interface of a modular jar, a line for each name, as javap reads it.

What counts are public classes of exported packages and their public and protected members. A member
belongs to the public class that a user finds it in, also when a base class that he cannot name
defines it: one that is not public, or whose package is not exported.
"""

import pathlib
import re
import subprocess
import zipfile
from typing import Dict, List, NamedTuple

EXPORT = re.compile(r"^\s*exports ([\w.]+);", re.MULTILINE)
# javap's flag of members that the compiler made up.
SYNTHETIC = re.compile(r"\bACC_SYNTHETIC\b")


class Member(NamedTuple):
    key: str  # "take(J)", with the types of parameters as the machine has them
    text: str  # "public org.tutti.data.Dataset take(long)"
    has_type: bool  # a constructor has none


class Class(NamedTuple):
    sealed: str  # "sealed " or nothing
    header: str  # "public final class org.tutti.data.Dataset extends ..."
    bases: List[str]  # with their type arguments
    parameters: List[str]  # names of type parameters
    members: List[Member]


def lines(jar, javap="javap"):
    with zipfile.ZipFile(jar) as archive:
        names = sorted(name[:-len(".class")].replace("/", ".") for name in archive.namelist()
                       if name.endswith(".class") and not name.startswith("META-INF/"))
    # By its address: the plain name is that of one of javap's own modules.
    module = f"jar:{pathlib.Path(jar).resolve().as_uri()}!/module-info.class"
    exported = set(EXPORT.findall(_javap(javap, jar, [module])))
    classes = classes_of(_javap(
        javap, jar, ["-v", "-protected", "-constants",
                     *(name for name in names if not name.endswith("module-info"))]))
    for package in sorted(exported):
        yield f"package {package}: exported"
    for name in sorted(classes):
        if _is_visible(name, classes, exported):
            yield from _class_lines(name, classes, exported)


def _javap(javap, jar, arguments):
    return subprocess.run([javap, "-cp", str(jar), *arguments], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def classes_of(text) -> Dict[str, Class]:
    """Reads what javap -v prints."""
    classes = {}
    for part in re.split(r"^Classfile [^\n]*\n", text, flags=re.MULTILINE)[1:]:
        # Lines before the header are indented or begin with "Compiled from".
        rows = part.splitlines()
        header = next(row for row in rows if re.match(
            r"(?:[a-z-]+ )*?(?:class|interface|enum|record) [\w.$]+", row))
        found = re.search(r"(?:class|interface) ([\w.$]+)", header)
        rest = header[found.end():]
        parameters = []
        if rest.startswith("<"):
            end = _closing(rest)
            parameters = [re.match(r"\w+", part)[0] for part in _split(rest[1:end])]
            rest = rest[end + 1:]
        bases = [base for clause in re.split(r"\b(?:extends|implements)\b", rest)
                 for base in _split(clause)]
        sealed = "sealed " if "PermittedSubclasses:" in rows else ""
        classes[found[1]] = Class(sealed, header.strip(), bases, parameters, list(_members(rows)))
    return classes


def _members(rows):
    for index, row in enumerate(rows[:-2]):
        descriptor = re.match(r"    descriptor: (\S+)", rows[index + 1])
        if not re.match(r"  \S.*;$", row) or not descriptor:
            continue
        flags = rows[index + 2]
        text = re.sub(r"\b(synchronized|native) ", "", row.strip().rstrip(";"))
        if SYNTHETIC.search(flags) or text == "static {}":
            continue
        declared = re.sub(r" throws .*| = .*", "", text)
        name = re.search(r"([\w.$]+)(\(.*\))?$", declared)
        key = name[1] + re.sub(r"\).*", ")", descriptor[1]) if name[2] else name[1]
        yield Member(key, text, "." not in name[1])


def _is_visible(name, classes, exported):
    """Public, with all the classes around it, in an exported package."""
    package, _, nested = name.rpartition(".")
    if package not in exported:
        return False
    parts = nested.split("$")
    for count in range(1, len(parts) + 1):
        outer = classes.get(f"{package}.{'$'.join(parts[:count])}")
        if outer is None or not re.match(r"public |protected ", outer.header):
            return False
    return True


def _class_lines(name, classes, exported):
    cls = classes[name]
    bases, members = _as_seen(cls, classes, exported)
    head = re.split(r" (?:extends|implements) (?![^<]*>)", cls.header)[0]
    named = f" with bases {', '.join(sorted(bases))}" if bases else ""
    yield f"class {name}: {cls.sealed}{head}{named}"
    # Subclasses of a user need a constructor that they can call.
    extendable = not cls.sealed and " final " not in cls.header and (
        not all(member.has_type for member in cls.members))
    for member in members.values():
        if member.text.startswith("protected ") and not extendable:
            continue
        # Constructors and overloads are told apart by what they take.
        signature = re.sub(r" throws .*| = .*", "", member.text)
        signature = re.search(r"[\w.$]+(\(.*\))?$", signature)[0]
        signature = signature if member.has_type else re.sub(r"^[\w.$]+", "new", signature)
        yield f"member {name}.{signature}: {member.text}"


def _as_seen(cls, classes, exported):
    """The bases that can be named, and the members with those of the others."""
    bases, members = set(), {member.key: member for member in cls.members}
    for base in cls.bases:
        name = base.partition("<")[0]
        if name not in classes or _is_visible(name, classes, exported):
            bases.add(base)
            continue
        hidden = classes[name]
        arguments = _split(base[len(name) + 1:-1]) if "<" in base else []
        put = dict(zip(hidden.parameters, arguments))
        inherited_bases, inherited = _as_seen(hidden, classes, exported)
        bases |= {_replaced(text, put) for text in inherited_bases}
        for key, member in inherited.items():
            if member.has_type:
                members.setdefault(key, member._replace(text=_replaced(member.text, put)))
    return bases - {"java.lang.Object"}, members


def _replaced(text, put):
    return re.sub(r"(?<![\w.$])\w+(?![\w.$])", lambda word: put.get(word[0], word[0]), text)


def _closing(text):
    """Where the bracket ends that `text` begins with."""
    depth = 0
    for index, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if depth == 0:
            return index
    return len(text)


def _split(text):
    """The parts between the commas outside of angle brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]
