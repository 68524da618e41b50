"""What tells the code of one function from that of another, in other processes, too: what is kept
on disk of a pipeline goes by it."""

from __future__ import annotations

import enum
import functools
import hashlib
import types
from typing import Any, Dict, Optional

import numpy as np

from tutti import _dtypes
from tutti._tensor import Tensor

# A larger table that a function has captured is not read each time that the function is used.
_MOST_BYTES = 1 << 20


class _Unknown(Exception):
    """Something of which nobody can tell what it will do."""


class _Hash:
    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._seen: Dict[int, int] = {}  # by id; a function may have captured itself
        self._kept: list[Any] = []  # no id comes twice

    def _text(self, kind: str, text: bytes = b"") -> None:
        self._hash.update(f"{kind}:{len(text)}:".encode())
        self._hash.update(text)

    def _all(self, kind: str, parts: Any) -> None:
        parts = list(parts)
        self._text(kind, str(len(parts)).encode())
        for part in parts:
            self.add(part)

    def add(self, value: Any) -> None:
        if value is None or type(value) in (bool, int, float, complex, str, bytes, type(...)):
            self._text(type(value).__name__, repr(value).encode("utf-8", "surrogatepass"))
            return
        if id(value) in self._seen:
            self._text("again", str(self._seen[id(value)]).encode())
            return
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        self._add_object(value)

    def _add_object(self, value: Any) -> None:
        if isinstance(value, Tensor):
            numpy_has = isinstance(value.dtype, np.dtype) or value.dtype is bytes
            value = value.numpy() if numpy_has else value.bits()
        if isinstance(value, types.CodeType):
            self._code(value)
        elif isinstance(value, types.FunctionType):
            self._all("function", (value.__code__, value.__defaults__, value.__kwdefaults__))
            self._all("captured", [_content(cell) for cell in value.__closure__ or ()])
        elif isinstance(value, types.MethodType):
            self._all("method", (value.__func__, value.__self__))
        elif isinstance(value, functools.partial):
            self._all("partial", (value.func, value.args, value.keywords))
        elif isinstance(value, (tuple, list)):
            self._text("type", _name(type(value)))
            self._all("sequence", value)
        elif isinstance(value, dict):
            self._all("dict", [part for item in value.items() for part in item])
        elif isinstance(value, (set, frozenset)):
            self._all("set", sorted(repr(part) for part in value if _is_plain(part)))
        elif isinstance(value, (np.ndarray, np.generic)):
            self._array(np.asarray(value))
        elif isinstance(value, enum.Enum):
            self._text("enum", _name(type(value)) + value.name.encode())
        elif isinstance(value, types.ModuleType):
            self._text("module", value.__name__.encode())
        elif isinstance(value, np.ufunc):
            self._text("ufunc", value.__name__.encode())
        elif isinstance(value, (type, np.dtype)):
            self._text("type", _name(value) if isinstance(value, type) else value.str.encode())
        elif isinstance(value, types.BuiltinFunctionType) and (
                value.__self__ is None or isinstance(value.__self__, (types.ModuleType, type))):
            self._text("builtin", f"{value.__module__}.{value.__qualname__}".encode())
        elif value is _dtypes.bfloat16:
            self._text("type", b"bfloat16")
        else:
            raise _Unknown()

    def _code(self, code: types.CodeType) -> None:
        # Neither where it stands nor what its variables are called.
        self._text("code", code.co_code)
        self._all("of", (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount,
                         code.co_flags, code.co_consts, code.co_names,
                         getattr(code, "co_exceptiontable", b"")))

    def _array(self, array: Any) -> None:
        if array.dtype.hasobject:
            self._text("array", repr(array.shape).encode())
            self._all("objects", array.ravel().tolist())
            return
        if array.nbytes > _MOST_BYTES:
            raise _Unknown()
        self._text("array", f"{array.dtype.str}{array.shape}".encode())
        self._text("data", array.tobytes())

    def digest(self) -> str:
        return self._hash.hexdigest()


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "nothing yet"


def _is_plain(value: Any) -> bool:
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return True
    raise _Unknown()


def _name(cls: type) -> bytes:
    return f"{cls.__module__}.{cls.__qualname__}".encode()


def fingerprint(function: Any) -> Optional[str]:
    """None where nobody can tell."""
    made = _Hash()
    try:
        made.add(function)
    except (_Unknown, RecursionError):
        return None
    return made.digest()
