"""Dtypes: NumPy's, `bytes` for byte strings, and bfloat16, which NumPy has not."""

from __future__ import annotations

from typing import Any

import numpy as np

from tutti import _native

INVALID, BFLOAT16, BYTES = 0, 11, 16


class _Bfloat16:
    """The dtype bfloat16 where ml_dtypes is not installed; see tutti.Tensor.bits()."""

    name = "bfloat16"
    itemsize = 2

    def __repr__(self) -> str:
        return "tutti.bfloat16"


try:  # gives NumPy a dtype of that name
    import ml_dtypes  # type: ignore[import-not-found, import-untyped, unused-ignore]

    bfloat16: Any = np.dtype(ml_dtypes.bfloat16)
    numpy_bfloat16: Any = bfloat16
except (ImportError, AttributeError):  # the latter where it is too new for this NumPy
    bfloat16 = _Bfloat16()
    numpy_bfloat16 = None


def number_of(dtype: Any) -> int:
    """The library's number of `dtype`: anything that numpy.dtype() takes, bytes, str, "bytes",
    "string", "bfloat16" or tutti.bfloat16. Raises TypeError for what is no dtype of a tensor."""
    if isinstance(dtype, _Bfloat16) or (isinstance(dtype, str) and dtype == "bfloat16"):
        return BFLOAT16
    if dtype is bytes or dtype is str or (isinstance(dtype, str) and dtype in ("bytes", "string")):
        return BYTES
    if dtype is None:  # NumPy takes it for float64
        raise TypeError("dtype: a dtype is needed, not None")
    numpy_dtype = np.dtype(dtype)
    if numpy_dtype.kind in "SUO":
        return BYTES
    number = _native._dtype_number(numpy_dtype)
    if number == INVALID:
        raise TypeError(f"no tensor has the dtype {numpy_dtype}; use a boolean, integer, floating "
                        f"or complex dtype, bytes, or tutti.bfloat16")
    return number


def dtype_of(number: int) -> Any:
    """The dtype of a number: a numpy.dtype, `bytes` for byte strings, or tutti.bfloat16."""
    if number == BYTES:
        return bytes
    if number == BFLOAT16:
        return bfloat16
    return _native._numpy_dtype(number)


def same(left: Any, right: Any) -> bool:
    """Whether two dtypes, in any of the forms that number_of takes, are the same."""
    return number_of(left) == number_of(right)


def is_literal(value: Any) -> bool:
    """Whether `value` may be one of Python's own numbers or a nested list or tuple of them, which
    say nothing of a dtype."""
    return isinstance(value, (bool, int, float, complex, list, tuple)) and not isinstance(
        value, np.generic)
