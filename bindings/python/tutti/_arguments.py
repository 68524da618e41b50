"""Objects of the package that are given to its functions: something else is a TypeError that says
where it was given and what is needed there."""

from __future__ import annotations

import difflib
import operator
from typing import TYPE_CHECKING, Any, Iterable, Type


def name_of(cls: type) -> str:
    """The class under its public name: tutti.data.Dataset, though it is defined in a module with an
    underscore."""
    parts = [part for part in cls.__module__.split(".") if not part.startswith("_")]
    return ".".join([*parts, cls.__name__])


def check(what: str, given: Any, cls: Type[Any]) -> None:
    """Raises TypeError unless `given`, the argument that `what` names, is of the class."""
    if not isinstance(given, cls):
        kind = "None" if given is None else f"an object of type {type(given).__name__}"
        raise TypeError(f"{what}: a {name_of(cls)} is needed, not {kind}")


def check_calls(what: str, given: Any) -> None:
    """Raises TypeError unless `given` is None or an integer, ValueError unless that is a number of
    calls or AUTOTUNE."""
    if given is not None and operator.index(given) < -1:
        raise ValueError(f"{what} is {given}; expected 0 or more, -1 (AUTOTUNE) or None")


def check_flag(what: str, given: Any) -> None:
    """Raises TypeError unless `given` is None or a bool."""
    if given is not None and not isinstance(given, bool):
        raise TypeError(f"{what}: a bool or None is needed, not an object of type "
                        f"{type(given).__name__}")


def handle_of(what: str, given: Any, cls: Type[Any]) -> Any:
    """The same, then the library's object behind it."""
    check(what, given, cls)
    return given._handle


def missing(owner: str, names: Iterable[str], name: str) -> AttributeError:
    """The error for `owner.name`, which names the nearest of `names`."""
    if name.startswith("__"):  # asked for by Python itself
        return AttributeError(f"{owner} has no {name!r}")
    known = [one for one in names if not one.startswith("_")]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return AttributeError(f"{owner} has no {name!r}{hint}")


class NamesNearest:
    """A base that makes an unknown name an AttributeError with the nearest one that there is."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker finds such names itself
        def __getattr__(self, name: str) -> Any:
            raise missing(f"a {name_of(type(self))}", dir(type(self)), name)
