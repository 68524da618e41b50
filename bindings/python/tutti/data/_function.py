"""Functions over the elements of datasets."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Callable, Optional, Sequence

import numpy as np

from tutti import _arguments, _dtypes, _native, errors
from tutti._tensor import Tensor
from tutti.data import _code


_calls = threading.local()  # .depth: of functions that give datasets, on this thread


def gives_a_dataset_now() -> bool:
    """Whether a function that gives datasets is being called for an element: what is made then is
    made for each, and nothing is traced for it unasked."""
    return getattr(_calls, "depth", 0) > 0


def _noting(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*element: Any) -> Any:
        _calls.depth = getattr(_calls, "depth", 0) + 1
        try:
            return function(*element)
        finally:
            _calls.depth -= 1

    return called


class Function:
    """A function that `Dataset.map` and `Dataset.filter` take: a Python callable with the spec of
    its result, one that is registered by name, or a native one such as parse_example().

    slab: the callable gets and gives many rows at once, every leaf with one more leading dimension;
    it may name the row that fails by raising a tutti.errors error with the detail "row".
    output_signature: the spec of one row's result, to which results are converted as by
    Tensor.convert; without it the first row decides.
    """

    __slots__ = ("_handle", "_features", "_columns")

    def __init__(self, function: Callable[..., Any], *, slab: bool = False,
                 output_signature: Any = None, name: Optional[str] = None):
        self._create(function, slab, output_signature, name, "it was made a Function")

    def _create(self, function: Callable[..., Any], slab: bool, output_signature: Any,
                name: Optional[str], reason: str, gives_datasets: bool = False) -> None:
        self._handle = _native.function_create(
            _noting(function) if gives_datasets and callable(function) else function,
            name or getattr(function, "__name__", None), _code.fingerprint(function),
            output_signature, slab, reason)
        self._features: Optional[Sequence[str]] = None
        self._columns: Optional[int] = None

    @classmethod
    def _callback(cls, function: Callable[..., Any], slab: bool, output_signature: Any,
                  name: Optional[str], reason: str, gives_datasets: bool = False) -> Function:
        from tutti.data import _expression

        if _expression._Trace.current() is not None:
            raise errors.FailedPreconditionError(
                f"a function inside of one that is traced stays a callback: {reason}")
        made = cls.__new__(cls)
        made._create(function, slab, output_signature, name, reason, gives_datasets)
        return made

    @classmethod
    def _of(cls, handle: Any, features: Optional[Sequence[str]] = None) -> "Function":
        made = cls.__new__(cls)
        made._handle = handle
        made._features = features  # what parse_example reads
        made._columns = None  # how many decode_csv gives
        return made


def function_of(function: Any, slab: bool, output_signature: Any, name: Optional[str]) -> Function:
    if isinstance(function, Function):
        return function
    return Function._callback(function, slab, output_signature, name,
                              "such a function is no expression")


def register_function(name: str, function: Callable[..., Any], *, slab: bool = False,
                      output_signature: Any = None) -> None:
    """Makes `name` mean `function` in the ambient runtime, so that a serialised dataset finds it
    again. slab, output_signature: as in Function. AlreadyExistsError when the name is taken."""
    _native.function_register(name, function, output_signature, slab)


def unregister_function(name: str) -> None:
    """Frees the name; datasets that use the function keep it."""
    _native.function_unregister(name)


def registered_function(name: str) -> Function:
    """The function registered as `name`; NotFoundError (a KeyError) names the nearest ones."""
    return Function._of(_native.function_registered(name))


class FixedLenFeature:
    """A feature of tf.train.Example with a fixed shape, of that dtype. default_value: for records
    without the feature, converted to the dtype as by Tensor.convert and repeated to the shape; None
    makes it required."""

    __slots__ = ("shape", "dtype", "default_value")

    def __init__(self, shape: Sequence[int], dtype: Any, default_value: Any = None):
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.dtype = dtype
        self.default_value = default_value


def parse_example(features: Mapping[str, Any], example: Any = None) -> Function:
    """The native function from a serialised tf.train.Example (bytes, of any shape) to a dict of its
    features, each with the input's dimensions in front.

    features: {name: (shape, dtype)} or {name: FixedLenFeature(...)}. int64, float32 and bytes are
    what Examples hold; other numeric dtypes are converted with a range check. Malformed and missing
    features are an InvalidArgumentError at iteration. example: not supported (TypeError), because
    the function is for Dataset.map.

    >>> record = tutti.io.make_example({"x": [0.5, 1.5], "y": 3})
    >>> parse = tutti.data.parse_example({"x": ((2,), np.float32), "y": ((), np.int64)})
    >>> row, = tutti.data.Dataset.from_tensors(record).map(parse)
    >>> row["x"].tolist(), int(row["y"])
    ([0.5, 1.5], 3)
    """
    if example is not None:
        raise TypeError("parse_example(features) gives a function for Dataset.map; it does not "
                        "parse by itself")
    _arguments.check("parse_example: features", features, Mapping)
    described = []
    for key, feature in features.items():
        if not isinstance(feature, FixedLenFeature):
            if not isinstance(feature, (tuple, list)):
                raise TypeError(f"parse_example: {key!r}: (shape, dtype) or a FixedLenFeature is "
                                f"needed, not an object of type {type(feature).__name__}")
            feature = FixedLenFeature(*feature)
        number = _dtypes.number_of(feature.dtype)
        default = feature.default_value
        if default is not None and not isinstance(default, Tensor):
            given = _native._array_of(default, True)
            default = np.array(np.broadcast_to(given, feature.shape))
        described.append((key, number, feature.shape, default))
    return Function._of(_native.function_parse_example(described), list(features))
