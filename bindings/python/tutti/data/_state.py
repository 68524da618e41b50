"""States of reduce: numbers of Python's own become the dtypes that the state has."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from tutti import _native, errors
from tutti._specs import TensorSpec
from tutti._tensor import Tensor


def _says_no_dtype(value: Any) -> bool:
    """Python's own numbers and lists of them. NumPy's numbers say one, but for those that NumPy
    before 2 makes of a narrower one and one of Python's: np.int32(1) + 1 is an int64 there."""
    if isinstance(value, list):
        return all(_says_no_dtype(part) for part in value)
    if isinstance(value, np.generic):
        return isinstance(value, (np.int64, np.float64, np.complex128))
    return isinstance(value, (bool, int, float, complex))


def _converted(result: Any, spec: Any) -> Any:
    """`result` with such numbers in the dtypes of `spec`, where those hold them; what does not fit
    is left for the library to name."""
    if isinstance(spec, dict) and isinstance(result, dict):
        return {key: _converted(part, spec.get(key)) for key, part in result.items()}
    if isinstance(spec, tuple) and isinstance(result, tuple) and len(spec) == len(result):
        parts = [_converted(part, spec[i]) for i, part in enumerate(result)]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    if not isinstance(spec, TensorSpec) or not _says_no_dtype(result):
        return result
    try:
        return Tensor(_native._array_of(result, True)).convert(spec.dtype)
    except errors.InvalidArgumentError:
        return result


def keeping(initial_state: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose results have the dtypes of `initial_state` where they say none."""
    spec = _native.spec_from_value(initial_state)

    def kept(state: Any, element: Any) -> Any:
        return _converted(function(state, element), spec)

    return kept
