#!/usr/bin/env python3
"""Checks that every #include runs in an allowed direction between the parts of the tree.

The tables below are the architecture: an arrow means "may include", transitively. Whatever they do
not name is refused, unknown rooms too. Large rooms are divided again: sub-rooms have arrows among
themselves, and each says which rooms may look in from outside. Tests, benchmarks and what stands in
a folder testing/ may include every sub-room of the rooms that their own may include.

Besides, generated protobuf headers (*.pb.h) belong into .cc files only, and a room's CMakeLists.txt
may depend only on rooms that the room may include.

    include_directions.py [ROOT]      prints each violation; exit status 1 when there is one
"""

import pathlib
import re
import sys

# Room of the core -> the rooms it stands on. `ARROWS` below is the transitive closure.
ROOMS = {
    "base": [],
    "tensor": ["base"],
    "device": ["tensor", "plugin-abi"],
    "function": ["device"],
    "cluster": ["base"],
    "collective": ["device", "cluster"],
    "dataset": ["function"],
    "strategy": ["collective", "dataset"],
    "service": ["dataset", "cluster"],
    "coordinator": ["strategy", "service"],
    "checkpoint": ["tensor"],
    "debugging": ["dataset"],
    "runtime": ["coordinator", "checkpoint", "debugging"],
}

# Room with sub-rooms -> its folders -> those that they stand on. Every file of such a room stands
# in one of them.
SUB_ROOMS = {
    "cluster": {
        "auth": [],
        "membership": [],
        "sockets": ["auth"],
        "control": ["sockets"],
        "resolve": ["sockets"],
        "watch": ["membership"],
        "job": ["control", "watch"],
        "testing": ["job", "resolve"],
    },
    "collective": {
        "call": [],
        "select": ["call"],
        "communicator": ["call"],
        "thread": ["select"],
        "shm": ["select"],
        "stream/algorithms": ["select"],
        "stream": ["stream/algorithms"],
        "hosts": ["shm", "stream"],
        "group": ["communicator", "thread", "hosts"],
        "testing": ["group"],
    },
    "dataset": {
        "graph": [],
        "exec": ["graph"],
        "records": ["exec"],
        "example": ["exec"],
        "expression": ["example"],
        "ops": ["records", "expression"],
        "shard": ["ops"],
        "testing": ["shard"],
    },
}

# Sub-room -> who of other rooms may include it. Only those that are named, and nobody by way of
# them.
VISITORS = {
    "cluster/auth": ["collective/group"],
    "cluster/membership": ["collective/group"],
    "cluster/sockets": ["collective/group", "runtime"],
    "cluster/resolve": ["strategy", "runtime", "capi"],
    "cluster/job": ["collective/group", "runtime", "capi"],
    "collective/communicator": ["strategy", "runtime", "capi"],
    "collective/select": ["runtime"],
    "collective/group": ["strategy", "runtime"],
    "dataset/graph": ["strategy", "runtime", "capi"],
    "dataset/exec": ["strategy", "debugging", "runtime", "capi"],
    "dataset/records": ["capi"],
    "dataset/example": ["capi"],
    "dataset/expression": ["capi"],
    "dataset/shard": ["strategy"],
}

# What stands outside the core. "c-api" is the installed C headers: all that the command, the
# bindings and the examples may see of the library; "plugin-abi" those of them that say what a
# plugin and the library are to each other. The plugin cuda stands in core/cuda and is no room: it
# sees installed headers alone.
OUTSIDE = {
    "plugin-abi": [],
    "c-api": ["plugin-abi"],
    "cuda": ["c-api"],
    "capi": ["runtime", "c-api"],
    "tool": ["c-api"],
    "bindings": ["c-api"],
    "examples": ["c-api"],
}

PLUGIN_ABI = {"capi/include/tutti/plugin.h", "capi/include/tutti/abi.h"}
PLUGINS = {"cuda"}
SOURCES = {".h", ".hh", ".hpp", ".inc", ".c", ".cc", ".cpp", ".cu", ".i"}
HEADERS = {".h", ".hh", ".hpp", ".inc"}
SCANNED = ("core", "capi", "bindings", "examples")
INCLUDE = re.compile(r'^[ \t]*[#%][ \t]*(?:include|import)[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
DEPENDS = re.compile(
    r"tutti_room\(\s*(\w+)(?:[^)]*?\bDEPENDS\s+([\w\s]*?))?\s*(?:\bLINK\b[^)]*)?\)")
TEST_CODE = re.compile(r"_(test|benchmark)\.cc$|_(testing|test_fixture)\.h$|/testing/")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def closure(direct):
    """Part -> all parts it may include, itself among them."""
    reachable = {}

    def visit(part, path):
        if part in path:
            raise ValueError("the table has a circle: " + " -> ".join(path + [part]))
        if part not in reachable:
            reachable[part] = {part}.union(*(visit(below, path + [part]) for below in direct[part]))
        return reachable[part]

    for part in direct:
        visit(part, [])
    return reachable


ARROWS = closure({**ROOMS, **OUTSIDE})
SUB_ARROWS = {room: closure(direct) for room, direct in SUB_ROOMS.items()}


def part_of(path):
    """The part that a path relative to the root belongs to; None for a path outside all parts."""
    pieces = path.split("/")
    if path in PLUGIN_ABI:
        return "plugin-abi"
    if pieces[0] == "core" and pieces[1] in PLUGINS and len(pieces) > 2:
        return pieces[1]
    if pieces[0] == "core":
        return "core/" + pieces[1] if len(pieces) < 3 or pieces[1] not in ROOMS else pieces[1]
    if pieces[0] == "capi":
        if pieces[1:2] == ["include"]:
            return "c-api"
        return "tool" if pieces[1:2] == ["tool"] else "capi"
    if pieces[0] in ("bindings", "examples"):
        return pieces[0]
    return None


def sub_room_of(path):
    """The sub-room that a path of a room with sub-rooms lies in, or None."""
    _, room, *folders, _ = path.split("/")
    return "/".join(folders) if "/".join(folders) in SUB_ROOMS[room] else None


def target_of(root, file, bracket, name):
    """The path relative to the root that an include names; None for a header that is not ours."""
    if bracket == '"':
        beside = (file.parent / name).resolve()
        if beside.is_file() and root in beside.parents:
            return beside.relative_to(root).as_posix()
    name = pathlib.PurePosixPath(name).as_posix()
    if name.startswith("tutti/") and not name.endswith(".pb.h"):
        return "capi/include/" + name
    if part_of(name) is not None or (root / name).is_file():
        return name
    return None


def without_comments(text):
    """The text with comments blanked, line numbers kept."""
    return COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def place_of(path):
    """What a path is called in messages and among the visitors: "base", "collective/call"."""
    part = part_of(path)
    sub_room = sub_room_of(path) if part in SUB_ROOMS else None
    return part if sub_room is None else f"{part}/{sub_room}"


def refusal_inside(path, target):
    """Why a file may not include the sub-room that a file of a divided room lies in, or None."""
    part, below = part_of(path), part_of(target)
    inside = sub_room_of(target)
    if inside is None:
        return f"which lies in no sub-room of {below}"
    if TEST_CODE.search(path):
        return None
    if part == below:
        allowed = SUB_ARROWS[part][sub_room_of(path)]
        if inside in allowed:
            return None
        others = ", ".join(sorted(allowed - {sub_room_of(path)})) or "nothing else"
        return f"({below}/{inside}); of {below} it may include {others}"
    visitors = VISITORS.get(f"{below}/{inside}", [])
    if place_of(path) in visitors:
        return None
    return f"({below}/{inside}), which is open to {', '.join(visitors) or 'tests'} only"


def violations_of_file(root, file):
    path = file.relative_to(root).as_posix()
    part = part_of(path)
    if part not in ARROWS:
        yield f"{path}: {part} is not a room; the rooms are {', '.join(sorted(ROOMS))}"
        return
    if part in SUB_ROOMS and sub_room_of(path) is None:
        yield (f"{path}: lies in no sub-room of {part}; they are "
               f"{', '.join(sorted(SUB_ROOMS[part]))}")
        return
    text = without_comments(file.read_text(encoding="utf-8"))
    for match in INCLUDE.finditer(text):
        bracket, name = match.groups()
        line = text.count("\n", 0, match.start()) + 1
        if name.endswith(".pb.h") and file.suffix != ".cc":
            yield f"{path}:{line}: {name} is a generated header; only a .cc file may include it"
        if name.endswith(".pb.h") and part not in ROOMS and name.startswith("tutti/"):
            yield f"{path}:{line}: {part} may not include {name}, which belongs to the core"
        target = target_of(root, file, bracket, name)
        if target is None:
            continue
        below = part_of(target)
        if below not in ARROWS[part]:
            allowed = ", ".join(sorted(ARROWS[part] - {part})) or "nothing else"
            yield (f"{path}:{line}: {part} may not include {name} ({below}); "
                   f"it may include {allowed}")
        elif below in SUB_ROOMS:
            refusal = refusal_inside(path, target)
            if refusal is not None:
                yield f"{path}:{line}: {place_of(path)} may not include {name} {refusal}"


def violations_of_dependencies(root):
    """A room's DEPENDS against the table: the build must not allow more than the architecture."""
    for file in sorted(root.glob("core/*/CMakeLists.txt")):
        text = re.sub(r"#[^\n]*", "", file.read_text(encoding="utf-8"))
        call = DEPENDS.search(text)
        if not call:
            continue
        room, depends = call.group(1), (call.group(2) or "").split()
        for below in depends:
            if below not in ARROWS.get(room, ()):
                yield f"{file.relative_to(root).as_posix()}: {room} may not depend on {below}"


def violations(root):
    root = pathlib.Path(root).resolve()
    for top in SCANNED:
        for file in sorted((root / top).rglob("*")):
            if file.suffix in SOURCES and file.is_file():
                yield from violations_of_file(root, file)
    yield from violations_of_dependencies(root)


def main():
    default = pathlib.Path(__file__).resolve().parents[2]
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    if not (root / "core").is_dir():
        print(f"{root} has no folder core/: nothing to check")
        return 2
    found = list(violations(root))
    for violation in found:
        print(violation)
    print(f"{len(found)} violations" if found else "all includes run in allowed directions")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
