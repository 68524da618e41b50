"""What padded_batch is given, as the library takes it: shapes as vectors, values in the dtypes of
the components that they pad."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from tutti import _native, errors
from tutti._specs import TensorSpec
from tutti._tensor import Tensor


def _rebuilt(structure: Any, parts: Any) -> Any:
    """A tuple, or a list, which is taken for one, with other parts."""
    return type(structure)(*parts) if hasattr(structure, "_fields") else tuple(parts)


def _is_size(part: Any) -> bool:
    return part is None or isinstance(part, (int, np.integer)) and not isinstance(part, bool)


def shapes(given: Any) -> Any:
    """Sizes in lists or tuples, None for one that is not fixed, become vectors; a number is the
    shape of one axis."""
    if given is None:
        return None
    if isinstance(given, dict):
        return {key: shapes(part) for key, part in given.items()}
    if isinstance(given, TensorSpec):
        return shapes(given.shape)
    if _is_size(given):
        return np.array([given], np.int64)
    if isinstance(given, (list, tuple)):
        if all(_is_size(part) for part in given) and not hasattr(given, "_fields"):
            return np.array([-1 if part is None else part for part in given], np.int64)
        return _rebuilt(given, [shapes(part) for part in given])
    return given


def row_shape(given: Any) -> Any:
    """One shape: sizes, None for one that is not fixed."""
    if not isinstance(given, (list, tuple)) and not _is_size(given) or given is None:
        return given
    return shapes(list(given) if isinstance(given, (list, tuple)) else given)


def _is_literal(value: Any) -> bool:
    """Python's own numbers say nothing of a dtype; NumPy's do, some of which are also Python's."""
    return isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic)


def _has_literal(values: Any) -> bool:
    if isinstance(values, dict):
        return any(_has_literal(part) for part in values.values())
    if isinstance(values, (list, tuple)):
        return any(_has_literal(part) for part in values)
    return _is_literal(values)


def _converted(value: Any, spec: Any) -> Any:
    if not _is_literal(value) or not isinstance(spec, TensorSpec):
        return value
    return Tensor(_native._array_of(value, True)).convert(spec.dtype)


def _for_each(value: Any, spec: Any) -> Any:
    """One literal for the components that hold it, None for the others; all of them None where
    there is none."""
    if isinstance(spec, dict):
        return {key: _for_each(value, part) for key, part in spec.items()}
    if isinstance(spec, (list, tuple)):
        return _rebuilt(spec, [_for_each(value, part) for part in spec])
    try:
        return _converted(value, spec)
    except errors.InvalidArgumentError:
        return None


def _is_none(values: Any) -> bool:
    if isinstance(values, dict):
        return all(_is_none(part) for part in values.values())
    return (all(_is_none(part) for part in values) if isinstance(values, (list, tuple))
            else values is None)


def _typed(given: Any, spec: Any) -> Any:
    if isinstance(given, dict):
        return {key: _typed(part, spec[key] if isinstance(spec, dict) and key in spec else None)
                for key, part in given.items()}
    if isinstance(given, (list, tuple)):
        specs = spec if isinstance(spec, (list, tuple)) and len(spec) == len(given) else None
        return _rebuilt(given, [_typed(part, specs[i] if specs is not None else None)
                                for i, part in enumerate(given)])
    return _converted(given, spec)


def values(given: Any, spec_of_element: Callable[[], Any]) -> Any:
    """Literals become the dtypes of their components, as by Tensor.convert."""
    if not _has_literal(given):
        return _typed(given, None)
    spec = spec_of_element()
    if not _is_literal(given) or isinstance(spec, TensorSpec):
        return _typed(given, spec)
    spread = _for_each(given, spec)
    return given if _is_none(spread) else spread
