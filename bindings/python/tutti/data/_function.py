"""Functions over the elements of datasets."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

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
        self._features: Optional[Mapping[str, int]] = None
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
    def _of(cls, handle: Any, features: Optional[Mapping[str, int]] = None) -> "Function":
        made = cls.__new__(cls)
        made._handle = handle
        made._features = features  # what parse_example reads, and of which kind
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


# How many values of a feature an Example has: the runtime's numbers (tutti/function.h).
FIXED, SEQUENCE, VAR_LEN, RAGGED = range(4)


class FixedLenFeature:
    """A feature of tf.train.Example with a fixed shape, of that dtype. default_value: for records
    without the feature, converted to the dtype as by Tensor.convert and repeated to the shape; None
    makes it required."""

    __slots__ = ("shape", "dtype", "default_value")
    _kind = FIXED

    def __init__(self, shape: Union[int, Sequence[int]], dtype: Any, default_value: Any = None):
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.dtype = dtype
        self.default_value = default_value

    def _default(self) -> Any:
        """As the runtime takes it: of the shape."""
        default = self.default_value
        if default is None or isinstance(default, Tensor):
            return default
        return np.array(np.broadcast_to(_native._array_of(default, True), self.shape))


class FixedLenSequenceFeature:
    """A feature of tf.train.Example with any number of steps of a shape, of that dtype: an array
    with the number of steps in front of the shape. Of several Examples they are as many as the
    longest has, with default_value, a number (None: 0, or b""), behind those of shorter ones.
    allow_missing: records without the feature have no steps; False is not supported
    (ValueError)."""

    __slots__ = ("shape", "dtype", "allow_missing", "default_value")
    _kind = SEQUENCE

    def __init__(self, shape: Union[int, Sequence[int]], dtype: Any, allow_missing: bool = True,
                 default_value: Any = None):
        if not allow_missing:
            raise ValueError("FixedLenSequenceFeature: a record without the feature has no steps; "
                             "allow_missing must be True")
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.dtype = dtype
        self.allow_missing = allow_missing
        self.default_value = default_value

    def _default(self) -> Any:
        default = self.default_value
        if default is None or isinstance(default, Tensor):
            return default
        return _native._array_of(default, True)


class VarLenFeature:
    """A feature of tf.train.Example with any number of values of that dtype, none where a record is
    without it: a SparseTensor of one axis, of two for several Examples."""

    __slots__ = ("dtype",)
    _kind = VAR_LEN
    shape: Tuple[int, ...] = ()

    def __init__(self, dtype: Any):
        self.dtype = dtype

    def _default(self) -> Any:
        return None


class RaggedFeature:
    """A feature of tf.train.Example with any number of steps of a shape, of that dtype, none where
    a record is without it: of several Examples a RaggedTensor, and of one an array with the number
    of steps in front of the shape."""

    __slots__ = ("dtype", "shape")
    _kind = RAGGED

    def __init__(self, dtype: Any, shape: Union[int, Sequence[int]] = ()):
        self.dtype = dtype
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)

    def _default(self) -> Any:
        return None


Described = Tuple[str, int, Tuple[int, ...], Any, int]


def described(what: str, features: Any) -> List[Described]:
    """The features as the runtime takes them: key, dtype, shape, default or None, kind."""
    _arguments.check(what, features, Mapping)
    found: List[Described] = []
    for key, feature in features.items():
        if not isinstance(feature, (FixedLenFeature, FixedLenSequenceFeature, VarLenFeature,
                                    RaggedFeature)):
            if not isinstance(feature, (tuple, list)):
                raise TypeError(f"{what}: {key!r}: (shape, dtype) or a FixedLenFeature is needed, "
                                f"not an object of type {type(feature).__name__}")
            feature = FixedLenFeature(*feature)
        found.append((key, _dtypes.number_of(feature.dtype), feature.shape, feature._default(),
                      feature._kind))
    return found


def parse_example(features: Mapping[str, Any], example: Any = None) -> Function:
    """The native function from a serialised tf.train.Example (bytes, of any shape) to a dict of its
    features, each with the input's dimensions in front.

    features: {name: (shape, dtype)} or {name: FixedLenFeature(...)}, or a VarLenFeature, a
    RaggedFeature or a FixedLenSequenceFeature, whose Examples have any number of values; those of
    the first two take one Example or a vector of some. int64, float32 and bytes are what Examples
    hold; other numeric dtypes are converted with a range check. Malformed and missing features are
    an InvalidArgumentError at iteration. Function of map, and of Expr.call. example: not supported
    (TypeError), because the function is for Dataset.map.

    >>> record = tutti.io.make_example({"x": [0.5, 1.5], "y": 3})
    >>> parse = tutti.data.parse_example({"x": ((2,), np.float32), "y": ((), np.int64)})
    >>> row, = tutti.data.Dataset.from_tensors(record).map(parse)
    >>> row["x"].tolist(), int(row["y"])
    ([0.5, 1.5], 3)
    >>> parse = tutti.data.parse_example({"y": tutti.data.RaggedFeature(np.int64)})
    >>> records = [tutti.io.make_example({"y": [1, 2]}), tutti.io.make_example({"x": 1.0})]
    >>> batch, = tutti.data.Dataset.from_tensor_slices(records).batch(2).map(parse)
    >>> batch["y"].to_list()
    [[1, 2], []]
    """
    if example is not None:
        raise TypeError("parse_example(features) gives a function for Dataset.map; it does not "
                        "parse by itself")
    found = described("parse_example: features", features)
    return Function._of(_native.function_parse_example(found),
                        {key: kind for key, _, _, _, kind in found})
