"""Whether a function can have another effect than its result, as far as its code shows.

The instructions of the function (Python 3.11 to 3.13) are held against an allowlist: it stores to
its own locals alone, reads closures that nobody writes any more, and calls NumPy's functions that
compute, the operations of placeholders, and a few of Python's own. Whatever is not known here is an
effect. Such a function may be called once instead of for each element.
"""

from __future__ import annotations

import builtins
import dis
import functools
import sys
import types
from typing import Any, FrozenSet, List, Optional, Tuple

import numpy as np

import tutti

_OPERATIONS = frozenset((
    "BINARY_OP", "BINARY_SLICE", "BINARY_SUBSCR", "BUILD_CONST_KEY_MAP", "BUILD_LIST", "BUILD_MAP",
    "BUILD_SLICE", "BUILD_TUPLE", "CACHE", "CALL", "CALL_FUNCTION_EX", "CALL_INTRINSIC_1",
    "CALL_KW", "COMPARE_OP", "CONTAINS_OP", "COPY", "COPY_FREE_VARS", "DICT_MERGE", "DICT_UPDATE",
    "END_FOR", "EXTENDED_ARG", "FOR_ITER", "GET_ITER", "IS_OP", "JUMP_BACKWARD", "JUMP_FORWARD",
    "KW_NAMES", "LIST_APPEND", "LIST_EXTEND", "LIST_TO_TUPLE", "LOAD_ATTR", "LOAD_CLOSURE",
    "LOAD_CONST", "LOAD_DEREF", "LOAD_FAST", "LOAD_FAST_AND_CLEAR", "LOAD_FAST_CHECK",
    "LOAD_FAST_LOAD_FAST", "LOAD_GLOBAL", "LOAD_METHOD", "MAKE_CELL", "MAKE_FUNCTION", "MAP_ADD",
    "NOP", "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_IF_FALSE",
    "POP_JUMP_IF_TRUE", "POP_TOP", "PRECALL", "PUSH_NULL", "RERAISE", "RESUME", "RETURN_CONST",
    "RETURN_VALUE", "SET_FUNCTION_ATTRIBUTE", "STORE_DEREF", "STORE_FAST",
    "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST", "SWAP", "TO_BOOL", "UNARY_INVERT",
    "UNARY_NEGATIVE", "UNARY_NOT", "UNPACK_SEQUENCE", "JUMP_IF_FALSE_OR_POP",
    "JUMP_IF_TRUE_OR_POP"))
# Of these one that unpacks arguments (6), no import and no print.
_INTRINSICS = ("INTRINSIC_UNARY_POSITIVE", "INTRINSIC_LIST_TO_TUPLE")
_UNSEEN = ("CACHE", "EXTENDED_ARG", "NOP", "PUSH_NULL", "PRECALL", "KW_NAMES")

_BUILTINS = frozenset((
    "abs", "bool", "dict", "enumerate", "float", "int", "len", "list", "max", "min", "range",
    "reversed", "slice", "sum", "tuple", "zip"))
# NumPy's functions that make arrays of numbers alone.
_MAKERS = frozenset(("arange", "array", "asarray", "eye", "finfo", "full", "iinfo", "linspace",
                     "ones", "zeros"))
# Of placeholders, of structures of them, and of what NumPy tells of dtypes.
_ATTRIBUTES = frozenset((
    "T", "all", "any", "argmax", "argmin", "as_string", "astype", "call", "clip", "conj",
    "conjugate", "decode_raw", "dtype", "eps", "flatten", "get", "imag", "items", "itemsize",
    "join", "keys", "kind", "max", "mean", "min", "ndim", "one_hot", "prod", "ravel", "real",
    "reshape", "shape", "size", "string_length", "sum", "take", "tiny", "to_number", "transpose",
    "type", "values", "_replace",
    # Of datasets.
    "batch", "concatenate", "enumerate", "filter", "flat_map", "interleave", "map", "padded_batch",
    "prefetch", "repeat", "skip", "take_while", "unbatch", "window"))


class Effect(Exception):
    """Why a function may have one, for people."""


def _name_of(module: Any) -> Optional[str]:
    """Of a module that may be used; None of others."""
    return {id(np): "numpy", id(tutti): "tutti", id(tutti.data): "tutti.data"}.get(id(module))


def _is_constant(value: Any) -> bool:
    """Whether what was captured stays what it is."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic,
                                           np.dtype)):
        return True
    if isinstance(value, tuple):
        return all(_is_constant(part) for part in value)
    if isinstance(value, np.ndarray):
        return not value.flags.writeable and value.base is None and not value.dtype.hasobject
    return False


def _is_reader(value: Any) -> bool:
    return value in (tutti.data.TFRecordDataset, tutti.data.TextLineDataset,
                     tutti.data.FixedLengthRecordDataset) if isinstance(value, type) else False


def _is_numpys(name: str, value: Any) -> bool:
    from tutti.data._expression import _FUNCTIONS, _UFUNCS

    if isinstance(value, np.ufunc):
        return value in _UFUNCS or value in (np.true_divide, np.positive)
    if isinstance(value, type):
        return issubclass(value, np.generic) or value is np.dtype or name in _MAKERS
    if value is None or isinstance(value, (int, float)):
        return True
    if name in _MAKERS and value is getattr(np, name):
        return True
    return any(value is known for known in _FUNCTIONS)


def _member(of: Any, name: str) -> Any:
    """An attribute of a module or of Dataset that may be used."""
    value = getattr(of, name, None)
    where = _name_of(of) or "Dataset"
    if of is np and (value is not None or name == "newaxis") and _is_numpys(name, value):
        return value
    if of is tutti and name in ("bfloat16", "data"):
        return value
    if of is tutti.data and name in _MAKES:
        return value
    if of is tutti.data.Dataset and name in _MAKES:
        return value
    raise Effect(f"it uses {where}.{name}, which no expression has")


# What makes datasets in expressions.
_MAKES = frozenset(("Dataset", "FixedLengthRecordDataset", "TFRecordDataset", "TextLineDataset",
                    "from_tensor_slices", "from_tensors", "range", "zip"))


def _global(function: Any, name: str) -> Any:
    space = function.__globals__
    if name not in space:
        if name in _BUILTINS:
            return getattr(builtins, name)
        raise Effect(f"it uses {name}, which is neither NumPy's nor an operator")
    value = space[name]
    if isinstance(value, types.ModuleType):
        if _name_of(value) is not None:
            return value
    elif value is tutti.data.Dataset or _is_reader(value):
        return value
    elif _is_numpys(name, value) and not isinstance(value, (int, float, type(None))):
        return value
    raise Effect(f"it reads the global {name}, which may change")


@functools.lru_cache(maxsize=512)
def _instructions(code: types.CodeType) -> Tuple[Any, ...]:
    return tuple(dis.get_instructions(code))


@functools.lru_cache(maxsize=512)
def _nested(code: types.CodeType) -> List[types.CodeType]:
    return [part for part in code.co_consts if isinstance(part, types.CodeType)]


def _writes(code: types.CodeType, name: str) -> bool:
    """Whether a function inside of `code` writes the variable."""
    for inner in _nested(code):
        if name not in inner.co_freevars:
            continue
        if any(at.opname in ("STORE_DEREF", "DELETE_DEREF") and at.argval == name
               for at in _instructions(inner)) or _writes(inner, name):
            return True
    return False


@functools.lru_cache(maxsize=512)
def _settles(owner: types.CodeType, name: str) -> bool:
    """Whether a variable that `owner` has for functions inside of it is written once at most, so
    that it stays what it is once it has a value."""
    stores, loops = [], []
    for at in _instructions(owner):
        if at.opname == "DELETE_DEREF" and at.argval == name:
            return False
        if at.opname == "STORE_DEREF" and at.argval == name:
            stores.append(at.offset)
        if "JUMP_BACKWARD" in at.opname:
            loops.append((at.argval, at.offset))
    is_argument = name in owner.co_varnames
    if len(stores) > (0 if is_argument else 1) or _writes(owner, name):
        return False
    return not any(begin <= stores[0] <= end for begin, end in loops) if stores else True


def _code_around(function: Any) -> List[types.CodeType]:
    """Code in which functions may have been made: that of who is running, and of the functions that
    the function's name says."""
    found, frame = [], sys._getframe(1)
    while frame is not None:
        found.append(frame.f_code)
        frame = frame.f_back  # type: ignore[assignment]
    first = function.__qualname__.split(".<locals>.")[0].split(".")
    value = function.__globals__.get(first[0])
    for name in first[1:]:
        value = getattr(value, name, None)
    code = getattr(value, "__code__", None)
    todo = [code] if isinstance(code, types.CodeType) else []
    while todo:
        found.append(todo.pop())
        todo += _nested(found[-1])
    return found


def _is_settled(function: Any, name: str) -> bool:
    around = _code_around(function)
    code = function.__code__
    while True:
        owner = next((one for one in around if any(part is code for part in one.co_consts)), None)
        if owner is None:
            return False
        if name in owner.co_cellvars:
            return _settles(owner, name)
        code = owner


def _captured(function: Any, name: str) -> Any:
    from tutti.data._expression import Expr

    place = function.__code__.co_freevars.index(name)
    try:
        value = function.__closure__[place].cell_contents
    except ValueError:
        raise Effect(f"it has captured {name}, which has no value yet") from None
    if isinstance(value, Expr):
        return value
    is_known = isinstance(value, tutti.data.Dataset) or _name_of(value) is not None or \
        value is tutti.data.Dataset or _is_reader(value) or (
        callable(value) and _is_numpys(name, value))
    if not is_known and not _is_constant(value):
        raise Effect(f"it has captured {name}, of type {type(value).__name__}, which may change")
    if not _is_settled(function, name):
        raise Effect(f"it has captured {name}, a variable that is written more than once")
    return value


def _check_code(function: Any, code: types.CodeType, outer: Tuple[str, ...],
                fields: FrozenSet[str]) -> None:
    if code.co_flags & 0x2A0:  # generators, coroutines
        raise Effect("it is a generator or a coroutine")
    own = frozenset(function.__code__.co_freevars)
    offsets = {at.offset: at.opname for at in _instructions(code)}
    known: Any = None  # the module or class that was just loaded
    for at in _instructions(code):
        if at.opname in _UNSEEN:
            continue
        if at.opname not in _OPERATIONS:
            raise Effect(f"its code has the instruction {at.opname}")
        if known is not None and at.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
            raise Effect("it handles a module or the class Dataset as a value")
        before, known = known, None
        loaded: Any = None
        if at.opname == "LOAD_GLOBAL":
            loaded = _global(function, at.argval)
        elif at.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            if before is not None:
                loaded = _member(before, at.argval)
            elif at.argval not in _ATTRIBUTES and at.argval not in fields:
                raise Effect(f"it uses .{at.argval}, which no placeholder has")
        elif at.opname == "LOAD_DEREF" and at.argval in own and at.argval not in outer:
            loaded = _captured(function, at.argval)
        elif at.opname == "STORE_DEREF" and at.argval in own and at.argval not in outer:
            raise Effect(f"it writes {at.argval}, which is not its own")
        elif at.opname == "BINARY_OP" and at.arg is not None and at.arg >= 13:
            raise Effect("it changes a value in place")
        elif at.opname == "CALL_INTRINSIC_1" and not any(
                name in at.argrepr for name in _INTRINSICS):
            raise Effect(f"its code has the instruction {at.argrepr}")
        elif at.opname == "JUMP_BACKWARD" and offsets.get(at.argval) != "FOR_ITER":
            raise Effect("it has a loop without a fixed end")
        if isinstance(loaded, types.ModuleType) or loaded is tutti.data.Dataset:
            known = loaded
    if known is not None:
        raise Effect("it handles a module or the class Dataset as a value")
    for inner in _nested(code):
        _check_code(function, inner, outer + code.co_cellvars, fields)


def check(function: Any, fields: FrozenSet[str]) -> None:
    """Effect where `function` may have another effect than its result, or may give another one when
    it is called later. fields: names of components that elements have as attributes."""
    if isinstance(function, np.ufunc):
        if not _is_numpys("", function):
            raise Effect(f"numpy.{function.__name__} is in no expression")
        return
    if type(function) is not types.FunctionType:
        raise Effect(f"it is no plain Python function, but of type {type(function).__name__}")
    for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        if not _is_constant(default):
            raise Effect(f"an argument's default is of type {type(default).__name__}, which may "
                         "change")
    _check_code(function, function.__code__, (), fields)
