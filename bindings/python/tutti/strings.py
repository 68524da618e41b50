"""Byte strings of tensors: what the reference has under this name, as far as files need it.

    tutti.strings.join(["part-", tutti.strings.as_string(7, width=3, fill="0")])   # b"part-007"

Texts are UTF-8 where they are given as str, and bytes, or arrays of them, where they come out.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np

from tutti import _native

__all__ = ["as_string", "join"]


def join(inputs: Sequence[Any], separator: str = "", name: Optional[str] = None) -> Any:
    """The byte strings of one place put together, in the order of `inputs`, with `separator`
    between them.

    inputs: texts, or tensors of them. What has no shape stands in every place; all others must have
    the same shape, which is the result's: bytes, or an array of them. ValueError for other shapes,
    TypeError for what is no text. name: taken for the reference's callers. Threads: any.
    """
    return _plain(_native.tensor_join_strings(list(inputs), separator))


def as_string(input: Any, precision: int = -1, scientific: bool = False, shortest: bool = False,
              width: int = -1, fill: str = "", name: Optional[str] = None) -> Any:
    """The elements of a tensor as byte strings: integers, floats as 3.140000, booleans as true and
    false, complex numbers as (1.000000,2.000000); byte strings stay what they are.

    input: a number, an array, a Tensor. precision: digits behind a float's point. scientific:
    3.14e+00; shortest: the shorter one of both. width: at least so many characters, which `fill`
    fills up: "" or " " with blanks, "0" with zeros ("-" puts blanks behind the number, "+" gives
    each its sign). Returns bytes, or an array of them of the same shape. ValueError for options
    that contradict each other or that the dtype has not. name: taken for the reference's callers.
    Threads: any.
    """
    return _plain(_native.tensor_as_string(input, precision, scientific, shortest, width, fill))


def _plain(array: Any) -> Any:
    """What has no shape as a plain number or bytes, as elements of datasets are."""
    return array[()] if isinstance(array, np.ndarray) and array.ndim == 0 else array
