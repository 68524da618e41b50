"""Assertions about tensors."""

from __future__ import annotations

import operator
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from tutti import _dtypes, _native
from tutti._composites import _Composite
from tutti._tensor import Tensor
from tutti._values import PerReplica
from tutti._variable import Variable

EQUAL, NONE_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, NEAR = range(1, 8)
(POSITIVE, NEGATIVE, NON_POSITIVE, NON_NEGATIVE, ALL_FINITE, NUMERICS, INTEGER,
 SCALAR) = range(1, 9)
RANK_EQUAL, RANK_AT_LEAST, RANK_IN = range(1, 4)


def _shown(summarize: Optional[int]) -> int:
    return 0 if summarize is None else operator.index(summarize)


def _like(literal: Any, other: Any) -> Any:
    """Python's own numbers in the dtype of the other side, where that changes no value."""
    dtype = _dtype_of(other)
    if not _dtypes.is_literal(literal) or not isinstance(dtype, np.dtype):
        return literal
    if not isinstance(literal, (bool, int, float, complex)) and _holds_tensors(literal):
        return literal
    try:
        made = np.asarray(literal)
        if made.dtype.kind not in "biufc" or dtype.kind not in "biufc":
            return literal
        if "biufc".index(made.dtype.kind) > "biufc".index(dtype.kind) + (dtype.kind == "i"):
            return literal
        converted = made.astype(dtype)
    except (TypeError, ValueError, OverflowError):
        return literal
    exact = made.dtype.kind in "fc" or bool(np.array_equal(made, converted))
    return converted if exact and made.dtype.kind != "b" or dtype.kind == "b" else literal


def _dtype_of(structure: Any) -> Any:
    """The one dtype of a tensor or of all in a structure, None where there is none."""
    if isinstance(structure, (dict, tuple)):
        parts = structure.values() if isinstance(structure, dict) else structure
        dtypes = [_dtype_of(part) for part in parts]
        return dtypes[0] if dtypes and all(dtype == dtypes[0] for dtype in dtypes) else None
    return getattr(structure, "dtype", None)


def _holds_tensors(structure: Any) -> bool:
    if isinstance(structure, (list, tuple)):
        return any(_holds_tensors(item) for item in structure)
    return not isinstance(structure, (bool, int, float, complex))


def _compare(comparison: int, x: Any, y: Any, message: Optional[str], summarize: Optional[int],
             rtol: Any = None, atol: Any = None) -> None:
    x, y = _like(x, y), _like(y, x)
    _native.debugging_assert_compare(comparison, x, y, message, _shown(summarize), rtol, atol)


def _condition(condition: int, x: Any, message: Optional[str],
               summarize: Optional[int] = None) -> None:
    _native.debugging_assert_condition(condition, x, message, _shown(summarize))


def assert_equal(x: Any, y: Any, message: Optional[str] = None, summarize: Optional[int] = None,
                 name: Optional[str] = None) -> None:
    """x == y at every element, broadcast; a NaN is equal to nothing.

    x, y: tensors of one dtype, any. message, summarize: as the module says. Threads: any.
    """
    _compare(EQUAL, x, y, message, summarize)


def assert_none_equal(x: Any, y: Any, summarize: Optional[int] = None,
                      message: Optional[str] = None, name: Optional[str] = None) -> None:
    """x != y at every element, broadcast.

    x, y: tensors of one dtype, any. message, summarize: as the module says. Threads: any.
    """
    _compare(NONE_EQUAL, x, y, message, summarize)


def assert_less(x: Any, y: Any, message: Optional[str] = None, summarize: Optional[int] = None,
                name: Optional[str] = None) -> None:
    """x < y at every element, broadcast.

    x, y: tensors of integers or floats, of one dtype. message, summarize: as the module says.
    Threads: any.
    """
    _compare(LESS, x, y, message, summarize)


def assert_less_equal(x: Any, y: Any, message: Optional[str] = None,
                      summarize: Optional[int] = None, name: Optional[str] = None) -> None:
    """x <= y at every element, broadcast.

    x, y: tensors of integers or floats, of one dtype. message, summarize: as the module says.
    Threads: any.
    """
    _compare(LESS_EQUAL, x, y, message, summarize)


def assert_greater(x: Any, y: Any, message: Optional[str] = None, summarize: Optional[int] = None,
                   name: Optional[str] = None) -> None:
    """x > y at every element, broadcast.

    x, y: tensors of integers or floats, of one dtype. message, summarize: as the module says.
    Threads: any.
    """
    _compare(GREATER, x, y, message, summarize)


def assert_greater_equal(x: Any, y: Any, message: Optional[str] = None,
                         summarize: Optional[int] = None, name: Optional[str] = None) -> None:
    """x >= y at every element, broadcast.

    x, y: tensors of integers or floats, of one dtype. message, summarize: as the module says.
    Threads: any.
    """
    _compare(GREATER_EQUAL, x, y, message, summarize)


def assert_near(x: Any, y: Any, rtol: Any = None, atol: Any = None, message: Optional[str] = None,
                summarize: Optional[int] = None, name: Optional[str] = None) -> None:
    """abs(x - y) < atol + rtol * abs(y) at every element, broadcast.

    x, y: tensors of floats or complex numbers, of one dtype. rtol, atol: numbers, or tensors that
    broadcast to the shape of x and y; each 10 times the distance from 1 to the next number of the
    dtype unless given. message, summarize: as the module says. Threads: any.
    """
    _compare(NEAR, x, y, message, summarize, rtol, atol)


def assert_positive(x: Any, message: Optional[str] = None, summarize: Optional[int] = None,
                    name: Optional[str] = None) -> None:
    """Every element is above 0.

    x: a tensor of integers or floats. message, summarize: as the module says. Threads: any.
    """
    _condition(POSITIVE, x, message, summarize)


def assert_negative(x: Any, message: Optional[str] = None, summarize: Optional[int] = None,
                    name: Optional[str] = None) -> None:
    """Every element is below 0.

    x: a tensor of integers or floats. message, summarize: as the module says. Threads: any.
    """
    _condition(NEGATIVE, x, message, summarize)


def assert_non_positive(x: Any, message: Optional[str] = None, summarize: Optional[int] = None,
                        name: Optional[str] = None) -> None:
    """Every element is 0 or below.

    x: a tensor of integers or floats. message, summarize: as the module says. Threads: any.
    """
    _condition(NON_POSITIVE, x, message, summarize)


def assert_non_negative(x: Any, message: Optional[str] = None, summarize: Optional[int] = None,
                        name: Optional[str] = None) -> None:
    """Every element is 0 or above.

    x: a tensor of integers or floats. message, summarize: as the module says. Threads: any.
    """
    _condition(NON_NEGATIVE, x, message, summarize)


def assert_all_finite(x: Any, message: Optional[str] = None, name: Optional[str] = None) -> Any:
    """No element is NaN or infinite; gives x back.

    x: a tensor of numbers or booleans. message: as the module says. Threads: any.
    """
    _condition(ALL_FINITE, x, message)
    return x


def check_numerics(tensor: Any, message: Optional[str] = None, name: Optional[str] = None) -> Any:
    """No element is NaN or infinite; gives the tensor back.

    tensor: of floats or complex numbers, else a TypeError. message: as the module says. Threads:
    any.
    """
    _condition(NUMERICS, tensor, message)
    return tensor


def assert_integer(x: Any, message: Optional[str] = None, name: Optional[str] = None) -> None:
    """The dtype of x is an integer's, else a TypeError.

    x: a tensor. message: as the module says. Threads: any.
    """
    _condition(INTEGER, x, message)


def assert_scalar(tensor: Any, message: Optional[str] = None, name: Optional[str] = None) -> None:
    """The tensor has no axes, else a ValueError.

    tensor: any. message: as the module says. Threads: any.
    """
    _condition(SCALAR, tensor, message)


def assert_type(tensor: Any, tf_type: Any, message: Optional[str] = None,
                name: Optional[str] = None) -> None:
    """The tensor is of a dtype, else a TypeError; of a sparse or ragged one its values are.

    tensor: any. tf_type: a dtype, as NumPy takes it, bytes or tutti.bfloat16. message: as the
    module says. Threads: any.
    """
    _native.debugging_assert_type(tensor, _dtypes.number_of(tf_type), message, 0)


def _rank_number(what: str, rank: Any) -> int:
    given = np.asarray(rank)
    if given.ndim != 0:
        raise ValueError(f"{what}: a rank is an integer, not an array of shape {given.shape}")
    if given.dtype.kind not in "iu":
        raise TypeError(f"{what}: a rank is an integer, not of type {type(rank).__name__}")
    return int(given)


def assert_rank(x: Any, rank: Any, message: Optional[str] = None,
                name: Optional[str] = None) -> None:
    """The tensor has `rank` axes, else a ValueError.

    x: a tensor. rank: an integer. message: as the module says. Threads: any.
    """
    _native.debugging_assert_rank(RANK_EQUAL, x, [_rank_number("assert_rank", rank)], message, 0)


def assert_rank_at_least(x: Any, rank: Any, message: Optional[str] = None,
                         name: Optional[str] = None) -> None:
    """The tensor has `rank` axes or more, else a ValueError.

    x: a tensor. rank: an integer. message: as the module says. Threads: any.
    """
    _native.debugging_assert_rank(RANK_AT_LEAST, x, [_rank_number("assert_rank_at_least", rank)],
                                  message, 0)


def assert_rank_in(x: Any, ranks: Iterable[Any], message: Optional[str] = None,
                   name: Optional[str] = None) -> None:
    """The tensor has as many axes as one of `ranks` says, else a ValueError.

    x: a tensor. ranks: integers. message: as the module says. Threads: any.
    """
    _native.debugging_assert_rank(
        RANK_IN, x, [_rank_number("assert_rank_in", rank) for rank in ranks], message, 0)


def assert_same_float_dtype(tensors: Optional[Sequence[Any]] = None, dtype: Any = None) -> Any:
    """The dtype of all tensors, which must be one of floats, else a ValueError.

    tensors: any, of which None is passed over. dtype: what it must be, where given. Returns a
    numpy.dtype, or tutti.bfloat16; float32 where neither is given. Threads: any.
    """
    wanted = _dtypes.INVALID if dtype is None else _dtypes.number_of(dtype)
    return _dtypes.dtype_of(
        _native.debugging_assert_same_float_dtype(tuple(tensors or ()), wanted))


class _Symbols:
    """Texts for the axes of shapes: a symbol is any hashable object, and equal ones are one."""

    def __init__(self) -> None:
        self._texts: Dict[Any, str] = {}

    def text_of(self, axis: Any) -> str:
        if axis is None:
            return "."
        if axis is Ellipsis:
            return "..."
        if isinstance(axis, (int, np.integer)) and not isinstance(axis, bool):
            return str(int(axis))
        if isinstance(axis, str) and axis.strip() and "," not in axis:
            return axis
        try:
            return self._texts.setdefault(axis, f"symbol {len(self._texts)}")
        except TypeError:
            raise ValueError(f"assert_shapes: an axis is a size, a hashable symbol or None, not of "
                             f"type {type(axis).__name__}") from None


ShapesOf = Union[Mapping[Any, Iterable[Any]], Sequence[Tuple[Any, Iterable[Any]]]]


def assert_shapes(shapes: ShapesOf, data: Any = None, summarize: Optional[int] = None,
                  message: Optional[str] = None, name: Optional[str] = None) -> None:
    """The shapes of tensors fit what is said of them and each other, else a ValueError.

    shapes: pairs of a tensor and its shape, or a dict of them. A shape's entries are sizes, symbols
    that stand for one size wherever they are, and None or "." for any size; `...` or "*" in front
    stands for any number of axes. A scalar counts as one axis of size 1, and so does an empty
    shape. data: tensors that the error shows in place of the one that does not fit. message,
    summarize: as the module says. Threads: any.
    """
    pairs = list(shapes.items()) if isinstance(shapes, Mapping) else list(shapes)
    symbols = _Symbols()
    tensors: List[Any] = []
    texts: List[str] = []
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError("assert_shapes: pairs of a tensor and a shape are needed, not an "
                             f"object of type {type(pair).__name__}")
        tensor, shape = pair
        if not isinstance(shape, Iterable):
            raise ValueError("assert_shapes: a shape is an iterable of sizes and symbols, not of "
                             f"type {type(shape).__name__}")
        tensors.append(tensor)
        texts.append(",".join(symbols.text_of(axis) for axis in shape))
    shown = tuple(data) if isinstance(data, list) else data
    _native.debugging_assert_shapes(tuple(tensors), texts, shown, message, _shown(summarize))


def Assert(condition: Any, data: Any, summarize: Optional[int] = None,
           name: Optional[str] = None) -> None:
    """The condition is true, at every element where it is a tensor of booleans; else an
    InvalidArgumentError that shows `data`.

    condition: a boolean or a tensor of them; of anything else whether Python takes it for true.
    data: tensors, or texts. summarize: as the module says. Threads: any.
    """
    tensor = hasattr(condition, "__array__") or hasattr(condition, "__dlpack__")
    if not tensor and not isinstance(condition, (bool, list, tuple, dict, PerReplica, Variable,
                                                 Tensor)):
        condition = bool(condition)
    _native.debugging_assert_true(condition, tuple(data) if isinstance(data, list) else data, None,
                                  _shown(summarize))


def assert_proper_iterable(values: Any) -> None:
    """`values` is a collection that may be iterated over, else a TypeError: neither a tensor nor a
    text, over which one rather iterates by mistake.

    values: any. Threads: any.
    """
    if (isinstance(values, (str, bytes, np.ndarray, Tensor, Variable, PerReplica, _Composite))
            or hasattr(values, "__dlpack__")):
        raise TypeError(f"assert_proper_iterable: a list, a tuple or the like is needed, not an "
                        f"object of type {type(values).__name__}")
    if not hasattr(values, "__iter__"):
        raise TypeError(f"assert_proper_iterable: an object of type {type(values).__name__} is no "
                        "iterable")


def is_numeric_tensor(tensor: Any) -> bool:
    """Whether `tensor` is one, a variable or a per-replica value, and its elements are numbers:
    neither booleans nor byte strings.

    tensor: any; a number or a list of Python's own is no tensor. Threads: any.
    """
    if (_dtypes.is_literal(tensor) or isinstance(tensor, (str, bytes, dict)) or tensor is None
            or callable(tensor)):
        return False
    try:
        return _native.debugging_is_numeric(tensor)
    except (TypeError, ValueError, BufferError):
        return False
