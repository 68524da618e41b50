"""Says why the native module cannot be loaded here, and what to do.

The native module and libtutti.so.0 are linked to the libraries of one distribution, for one Python.
`needed-packages` beside them says which distribution, and which package each library comes from; a
build folder has no such file, and then the message says less.
"""

from __future__ import annotations

import importlib.machinery
import pathlib
import platform
import re
import sys
import sysconfig
from typing import Dict, List, Optional, Tuple

_FOLDER = pathlib.Path(__file__).parent
_NO_FILE = re.compile(r"([^\s/:]+\.so[.\d]*): cannot open shared object file")
_NUMPY = "numpy>=1.23.2,<3"
_NO_VERSION = re.compile(r"(\S+): version `([^']+)' not found")


def _read_needed() -> Tuple[Dict[str, str], Dict[str, str], List[str]]:
    """What needed-packages says: its facts, the package of each library, the packages to
    install."""
    facts: Dict[str, str] = {}
    packages: Dict[str, str] = {}
    wanted: List[str] = []
    try:
        text = (_FOLDER / "needed-packages").read_text(encoding="utf-8")
    except OSError:
        text = ""
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind in ("needs", "behind"):
            name, _, package = rest.partition(" ")
            packages[name] = package
            if kind == "needs" and package and package not in wanted:
                wanted.append(package)
        else:
            facts[kind] = rest
    return facts, packages, wanted


def _this_system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.platform())
    except OSError:
        return platform.platform()


def _built_for_another_python() -> Optional[str]:
    """The native module, if there is one, but none that this Python looks for."""
    modules = sorted(path.name for path in _FOLDER.glob("_native.*.so"))
    suffixes = importlib.machinery.EXTENSION_SUFFIXES
    if not modules or any(name == "_native" + suffix for name in modules for suffix in suffixes):
        return None
    return modules[0]


def _next_step(built_for: Optional[str], packages: List[str]) -> str:
    here = _this_system()
    if built_for is None or (built_for == here and not packages):
        return f"This is {here}; install the package that has it."
    if built_for == here:
        return f"Install what tutti needs: apt-get install {' '.join(packages)}"
    return (f"This tutti was built for {built_for}, and this is {here}: install a tutti that was "
            f"built for it, or build one here from the sources, or use a container of {built_for}.")


def _belongs_to_the_system() -> bool:
    """Whether pip refuses to install into this Python, whose packages the distribution brings."""
    mark = pathlib.Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
    return sys.prefix == sys.base_prefix and mark.exists()


def _reason_of_numpy(error: ImportError) -> str:
    """`error` is what the native module says of a NumPy that it cannot use; its cause, if there is
    one, is what importing NumPy raised."""
    cause = error.__cause__
    absent = isinstance(cause, ModuleNotFoundError) and cause.name == "numpy"
    environment = (f"an environment: python3 -m venv FOLDER && FOLDER/bin/python -m pip install "
                   f"'{_NUMPY}', and tutti into it.")
    pip = f"{sys.executable} -m pip install"
    if absent:
        step = (f"Install the package python3-numpy, or make {environment}"
                if _belongs_to_the_system() else f"Install it: {pip} '{_NUMPY}'")
        return f"tutti needs NumPy, which this Python ({sys.executable}) does not have. {step}"
    if _belongs_to_the_system():
        step = f"Make {environment}"
    elif cause is None:
        step = f"Install another one: {pip} '{_NUMPY}'"
    else:
        step = f"Install it again: {pip} --force-reinstall '{_NUMPY}'"
    said = str(error).rstrip(" .\n")
    return f"tutti needs NumPy, and cannot use the one of this Python. {said}. {step}"


def reason_for(error: ImportError) -> Optional[str]:
    """What `import tutti` says in the place of the loader's `error`, where that can be improved."""
    other = _built_for_another_python()
    if other is not None:
        return (f"tutti in {_FOLDER} was built for another Python: it has {other}, and this is "
                f"Python {platform.python_version()} ({sys.executable}), which looks for "
                f"_native{importlib.machinery.EXTENSION_SUFFIXES[0]}. Install a tutti that was "
                "built for this Python.")
    if error.name == "numpy":
        return _reason_of_numpy(error)
    facts, packages, wanted = _read_needed()
    built_for = facts.get("system")
    missing = _NO_FILE.search(str(error))
    if missing and missing.group(1).startswith("libtutti.so"):
        return (f"tutti in {_FOLDER} is incomplete: {missing.group(1)} is missing beside _native. "
                "Install tutti again.")
    if missing:
        name = missing.group(1)
        package = packages.get(name, "")
        if package and package not in wanted:
            wanted.append(package)
        source = f"; it comes in the package {package} of {built_for}" if package else ""
        return (f"tutti needs the library {name}, which is missing{source}. "
                + _next_step(built_for, wanted))
    version = _NO_VERSION.search(str(error))
    if version:
        return (f"tutti needs {version.group(2)} of {version.group(1)}, which is older here. "
                + _next_step(built_for, wanted))
    return None
