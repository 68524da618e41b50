"""Numbers that depend on their seed alone: the same in every process, language and slab.

    tutti.random.stateless_uniform((3,), seed=(1, 2))       # 0.8440604, 0.19204533, 0.9962232

They are computed by Philox-4x32-10, and are those of TensorFlow's functions of these names with
alg="philox". Inside of a function that is traced, a seed of placeholders (of an element's number,
for instance) gives a placeholder.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence, Union

import numpy as np

from tutti import _dtypes
from tutti.strings import _applied

__all__ = ["stateless_normal", "stateless_truncated_normal", "stateless_uniform"]


def _seed(seed: Any) -> Any:
    """Two integers as one operand."""
    from tutti.data._expression import Expr

    if isinstance(seed, Expr):
        return seed
    if isinstance(seed, (tuple, list)):
        traced = next((part for part in seed if isinstance(part, Expr)), None)
        if traced is not None:
            return traced._apply("stack", list(seed), [0])
    return np.asarray(seed, np.int64)


def _number(value: Any, dtype: Any) -> Any:
    """A number in that dtype."""
    from tutti.data._expression import Expr

    if isinstance(value, Expr):
        return value.astype(dtype)
    return _applied("cast", [np.asarray(value)], dtype=dtype)


def _dims(shape: Union[int, Sequence[int]]) -> Sequence[int]:
    return [int(shape)] if isinstance(shape, (int, np.integer)) else [int(dim) for dim in shape]


def stateless_uniform(shape: Union[int, Sequence[int]], seed: Any, minval: Any = 0,
                      maxval: Any = None, dtype: Any = np.float32, name: Optional[str] = None,
                      alg: str = "philox") -> Any:
    """Numbers of [minval, maxval), all as likely.

    shape: their sizes. seed: two integers, an array of two or a placeholder. dtype: a floating one,
    where maxval is 1 by default; int32, int64, uint32 or uint64, where it must be given, or both be
    None, which is any number of the dtype. InvalidArgumentError for another dtype, and for integers
    of which minval is not below maxval. name, alg: taken for the reference's callers; ValueError
    for another alg than "philox" and "auto_select". Threads: any.

    >>> tutti.random.stateless_uniform((3,), seed=(1, 2), maxval=10, dtype=np.int32).tolist()
    [0, 9, 4]
    """
    _check_alg(alg)
    drawn = [_seed(seed)]
    if _is_integer(dtype):
        if minval is None and maxval is None:
            return _applied("stateless_random_bits", drawn, _dims(shape), dtype)
        if minval is None or maxval is None:
            raise ValueError("stateless_uniform: of integers maxval is needed, or neither minval "
                             "nor maxval")
        drawn += [_number(minval, dtype), _number(maxval, dtype)]
        return _applied("stateless_random_integers", drawn, _dims(shape), dtype)
    numbers = _applied("stateless_random_uniform", drawn, _dims(shape), dtype)
    low, high = _number(minval, dtype), _number(1 if maxval is None else maxval, dtype)
    width = _applied("subtract", [high, low])
    return _applied("add", [_applied("multiply", [numbers, width]), low])


def stateless_normal(shape: Union[int, Sequence[int]], seed: Any, mean: Any = 0.0,
                     stddev: Any = 1.0, dtype: Any = np.float32, name: Optional[str] = None,
                     alg: str = "philox") -> Any:
    """Numbers of a normal distribution.

    shape: their sizes. seed: as in stateless_uniform. mean, stddev: of the distribution. dtype: a
    floating one; InvalidArgumentError for others. name, alg: as in stateless_uniform. Threads: any.

    >>> tutti.random.stateless_normal((2,), seed=(1, 2), dtype=np.float64).round(6).tolist()
    [-0.142312, 0.740607]
    """
    return _scaled("stateless_random_normal", shape, seed, mean, stddev, dtype, alg)


def stateless_truncated_normal(shape: Union[int, Sequence[int]], seed: Any, mean: Any = 0.0,
                               stddev: Any = 1.0, dtype: Any = np.float32,
                               name: Optional[str] = None, alg: str = "philox") -> Any:
    """Numbers of a normal distribution, without those two deviations or more away from the mean: as
    weights begin with.

    shape: their sizes. seed: as in stateless_uniform. mean, stddev: of the distribution before it
    is cut. dtype: a floating one; InvalidArgumentError for others. name, alg: as in
    stateless_uniform. Threads: any.

    >>> tutti.random.stateless_truncated_normal((2,), (1, 2), dtype=np.float64).round(6).tolist()
    [-0.142312, 0.740607]
    """
    return _scaled("stateless_random_truncated_normal", shape, seed, mean, stddev, dtype, alg)


def _scaled(drawn: str, shape: Union[int, Sequence[int]], seed: Any, mean: Any, stddev: Any,
            dtype: Any, alg: str) -> Any:
    _check_alg(alg)
    numbers = _applied(drawn, [_seed(seed)], _dims(shape), dtype)
    scaled = _applied("multiply", [numbers, _number(stddev, dtype)])
    return _applied("add", [scaled, _number(mean, dtype)])


def _is_integer(dtype: Any) -> bool:
    known = _dtypes.dtype_of(_dtypes.number_of(dtype))
    return isinstance(known, np.dtype) and known.kind in "iu"


def _check_alg(alg: str) -> None:
    if alg not in ("philox", "auto_select"):
        raise ValueError(f"stateless: alg is {alg!r}; expected 'philox'")
