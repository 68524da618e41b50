"""Whether an operation of a traced function gives what the installed NumPy gives for elements:
the same dtype, and the same bits.

A function that was not asked to be an expression becomes one only where this holds for every
operation in it. Where NumPy would warn, raise something of its own, or round otherwise, it stays a
callback.
"""

from __future__ import annotations

import warnings
from typing import Any, Sequence

import numpy as np


class Differs(TypeError):
    """Why it does not, for people."""


# What may differ in its last bit.
_ROUNDED = frozenset(("exp", "expm1", "log", "log1p", "sin", "cos", "tan", "tanh", "mean"))
_BY_CONSTANT = {"floor_divide": "//", "remainder": "%", "divide": "/", "power": "**",
                "left_shift": "<<", "right_shift": ">>"}
_MOVES = frozenset(("reshape", "transpose", "slice", "index", "expand_dims", "take"))


def sample(of: Any) -> Any:
    """A value of NumPy's in the place of a placeholder: its dtype and its number of axes count."""
    from tutti.data._expression import Expr

    if not isinstance(of, Expr):
        return of
    dtype = of.dtype
    if not isinstance(dtype, np.dtype) or dtype.kind not in "biuf" or dtype.name == "bfloat16":
        raise Differs(f"it computes with {getattr(dtype, '__name__', dtype)}")
    one = np.ones((1,) * of.ndim, dtype)
    return one if of.ndim else one[()]


def check_dtype(function: Any, inputs: Sequence[Any], expected: Any, what: str) -> None:
    """The dtype that `function` of NumPy's gives has to be `expected`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = np.asarray(function(*[sample(value) for value in inputs])).dtype
    if given != expected:
        raise Differs(f"NumPy {np.__version__} gives {given} for {what}, and an expression "
                      f"{expected}")


def _check_second(name: str, inputs: Sequence[Any], dtype: Any) -> None:
    from tutti.data._expression import Expr

    sign = _BY_CONSTANT[name]
    if isinstance(inputs[1], Expr):
        if name == "divide":
            return  # of floats
        raise Differs(f"{sign} is by what is no constant")
    second = np.asarray(inputs[1])
    if name in ("left_shift", "right_shift"):
        fits = bool(np.all((second >= 0) & (second < 8 * dtype.itemsize)))
    elif name == "power":
        fits = bool(np.all(second >= 0))
    else:
        fits = bool(np.all(second != 0))
    if not fits:
        raise Differs(f"{sign} is by a number that NumPy has a rule of its own for")


def check(name: str, inputs: Sequence[Any], result: Any, numbers: Sequence[int]) -> None:
    """Of one operation, as it was added: Differs says why not. `inputs` may be Python's numbers."""
    from tutti.data._expression import Expr

    first = next(value for value in inputs if isinstance(value, Expr))
    kind = np.dtype(sample(first).dtype).kind
    dtype = result.dtype
    if name in _ROUNDED or (kind == "f" and name in ("sum", "prod", "power", "argmin", "argmax")):
        raise Differs(f"{name} may differ from NumPy's in the last bit")
    if name in _BY_CONSTANT:
        _check_second(name, inputs, np.dtype(sample(first).dtype))
    if name == "cast":
        if kind == "f" and np.dtype(dtype).kind != "f":
            raise Differs("a float is cast to an integer")
        if np.dtype(dtype) == np.float16:
            raise Differs("a cast to float16 may round twice")
    elif name in ("index", "take"):
        place = first.shape[numbers[0]] if first.ndim else None
        if name == "take" and any(isinstance(value, Expr) for value in inputs[1:]):
            raise Differs("an index is no constant")
        if place is None or (name == "take" and not bool(
                np.all((np.asarray(inputs[1]) >= -place) & (np.asarray(inputs[1]) < place)))):
            raise Differs("an index may be out of range")
    elif name not in _MOVES and hasattr(np, name):
        function: Any = {"where": np.where, "divide": np.true_divide}.get(name, getattr(np, name))
        if name in ("stack", "concatenate"):
            check_dtype(lambda *parts: function(parts), inputs, dtype, name)
        else:
            check_dtype(function, inputs, dtype, name)
