"""Every declaration says from where and by which threads it may be called and since when; and the
definition enforces the same context.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "capi"))
sys.path.insert(0, str(ROOT / "tests" / "structure"))
import declarations  # noqa: E402
from generated_bindings import written  # noqa: E402

GUARDS = {
    "any": "kAny",
    "building": "kBuilding",
    "computing": "kComputing",
    "cross-replica": "kCrossReplica",
    "replica": "kReplica",
    "host": "kHost",
}
THREADS = {"any", "one at a time"}


def definitions() -> "dict[str, str]":
    """Function -> the body of its definition."""
    bodies = {}
    texts = [path.read_text() for path in (ROOT / "capi/src").glob("*.cc")
             if not path.stem.endswith("_test")]
    for text in [*texts, written(ROOT, "c_datasets")]:
        for match in re.finditer(
            r"^[\w *]+?\b(tutti_\w+)\([^;{]*?\)\s*\{(?:([^\n]*)\}$|\n(.*?)^\})",
            text, re.M | re.S,
        ):
            bodies[match[1]] = match[2] or match[3] or ""
    return bodies


def problems():
    bodies = definitions()
    # Transformations and plain sources of datasets share a guard each.
    shared = (ROOT / "capi/src/transform.h").read_text()
    transform, = set(re.findall(r"Guard\(function, From::(\w+)", shared))
    for function in declarations.all_functions():
        where = f"{function.header}: {function.name}"
        if function.note("Context") not in GUARDS:
            yield (f"{where}: Context is '{function.note('Context')}'; "
                   f"expected one of {sorted(GUARDS)}")
            continue
        if function.note("Threads") not in THREADS:
            yield (f"{where}: Threads is '{function.note('Threads')}'; "
                   f"expected one of {sorted(THREADS)}")
        if not re.fullmatch(r"\d+\.\d+", function.note("Since")):
            yield f"{where}: no 'Since: MAJOR.MINOR.'"
        body = bodies.get(function.name)
        if body is None:
            yield f"{where}: no definition was found"
            continue
        guard = re.search(r"From::(\w+)", body)
        shares = re.search(r"\b(Transform|Source)\(", body)
        found = guard[1] if guard else transform if shares else None
        expected = GUARDS[function.note("Context")]
        if function.result == "tutti_status *" and found != expected:
            yield f"{where}: the header says From::{expected}, the definition {found}"
        if function.result != "tutti_status *" and expected != "kAny":
            yield f"{where}: it cannot report a call out of its context; expected Context: any"


if __name__ == "__main__":
    found = list(problems())
    print("\n".join(found) or "every declaration is complete")
    sys.exit(1 if found else 0)
