"""What the elements of a dataset look like: TensorSpec and its like, in nested structures."""

from __future__ import annotations

import collections
import sys
from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np

from tutti import _dtypes, _native

_TENSOR, _DATASET, _OPTIONAL, _NONE = 1, 5, 6, 7


class TensorSpec:
    """Shape and dtype of a tensor.

    shape: a sequence of sizes, None for a size that is not known; or None when not even the rank is
    known. dtype: a numpy.dtype, `bytes`, or tutti.bfloat16.
    """

    __slots__ = ("shape", "dtype", "name")

    def __init__(self, shape: Optional[Sequence[Optional[int]]], dtype: Any = np.float32,
                 name: Optional[str] = None):
        if shape is None:
            self.shape: Optional[Tuple[Optional[int], ...]] = None
        else:
            dims = (shape,) if isinstance(shape, int) else shape
            self.shape = tuple(None if d is None or int(d) < 0 else int(d) for d in dims)
        self.dtype = _dtypes.dtype_of(_dtypes.number_of(dtype))
        self.name = name

    def is_compatible_with(self, value: Any) -> bool:
        """Whether a value, or every value of another spec, fits this spec."""
        other = value if isinstance(value, TensorSpec) else _native.spec_from_value(value)
        return isinstance(other, TensorSpec) and _native.spec_is_compatible(self, other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorSpec):
            return NotImplemented
        return self.shape == other.shape and _dtypes.same(self.dtype, other.dtype)

    def __hash__(self) -> int:
        return hash((self.shape, _dtypes.number_of(self.dtype)))

    def __repr__(self) -> str:
        name = "bytes" if self.dtype is bytes else getattr(self.dtype, "name", self.dtype)
        return f"TensorSpec(shape={self.shape}, dtype={name})"

    def __reduce__(self) -> Tuple[Any, ...]:
        return TensorSpec, (self.shape, self.dtype, self.name)


class _Holder:
    __slots__ = ("element_spec",)

    def __init__(self, element_spec: Any):
        self.element_spec = element_spec

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.element_spec == other.element_spec

    def __hash__(self) -> int:
        return hash((type(self), repr(self.element_spec)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.element_spec!r})"


class OptionalSpec(_Holder):
    """The spec of a tutti.data.Optional."""


class DatasetSpec(_Holder):
    """The spec of a dataset that stands in an element."""


class NoneTensorSpec:
    """The spec of None."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoneTensorSpec)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "NoneTensorSpec()"


# ---- for the extension

class Whole:
    """What the last part of a sparse or ragged tensor's spec is: the part's dtype, and the spec of
    the whole."""

    __slots__ = ("spec", "dtype")

    def __init__(self, spec: TensorSpec, dtype: Any):
        self.spec = spec
        self.dtype = dtype


# By the names that the library has for them.
composite_makers: Dict[str, Any] = {}


def make(kind: int, dtype: int, shape: Optional[Tuple[Optional[int], ...]], inner: Any) -> Any:
    if kind == _DATASET:
        return DatasetSpec(inner)
    if kind == _OPTIONAL:
        return OptionalSpec(inner)
    if kind == _NONE:
        return NoneTensorSpec()
    if inner is not None:
        return Whole(inner, _dtypes.dtype_of(dtype))
    return TensorSpec(shape, _dtypes.dtype_of(dtype))


def read(spec: Any) -> Tuple[int, int, Optional[Tuple[Optional[int], ...]], Any]:
    if isinstance(spec, TensorSpec):
        return _TENSOR, _dtypes.number_of(spec.dtype), spec.shape, None
    if isinstance(spec, DatasetSpec):
        return _DATASET, 0, None, spec.element_spec
    if isinstance(spec, OptionalSpec):
        return _OPTIONAL, 0, None, spec.element_spec
    if spec is None or isinstance(spec, NoneTensorSpec):
        return _NONE, 0, None, None
    raise TypeError(f"a TensorSpec is needed, not an object of type {type(spec).__name__}")


# ---- named tuples, told apart by a name that the library keeps with the structure

_named_tuples: Dict[str, Any] = {}
_names: Dict[Any, str] = {}


def named_tuple_name(cls: Any) -> str:
    name = _names.get(cls)
    if name is None:
        name = f"{cls.__module__}.{cls.__qualname__}"
        if _named_tuples.get(name, cls)._fields != cls._fields:
            name += "/" + ",".join(cls._fields)
        _names[cls] = name
    _named_tuples[name] = cls
    return name


def named_tuple_type(name: str, fields: Tuple[str, ...]) -> Any:
    if name in composite_makers:
        return composite_makers[name]
    cls = _named_tuples.get(name)
    if cls is None or cls._fields != fields:
        module, _, simple = name.partition("/")[0].rpartition(".")
        cls = getattr(sys.modules.get(module), simple, None)
        if getattr(cls, "_fields", None) != fields:
            make_type: Any = collections.namedtuple  # its fields are known only here
            cls = make_type(simple if simple.isidentifier() else "Element", fields)
        _named_tuples[name] = cls
        _names.setdefault(cls, name)
    return cls
