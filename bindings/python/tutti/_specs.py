"""What the elements of a dataset look like: TensorSpec and its like, in nested structures.

The classes of values are imported where they are needed, because their modules import this one.
"""

from __future__ import annotations

import collections
import sys
from typing import Any, Dict, Optional, Sequence, Tuple, Union

import numpy as np

from tutti import _arguments, _dtypes, _native

_TENSOR, _PER_REPLICA, _DATASET, _OPTIONAL, _NONE, _ITERATOR = 1, 3, 5, 6, 7, 9

_Shape = Optional[Tuple[Optional[int], ...]]


def _shape_of(shape: Union[None, int, Sequence[Optional[int]]]) -> _Shape:
    if shape is None:
        return None
    dims = (shape,) if isinstance(shape, int) else shape
    return tuple(None if d is None or int(d) < 0 else int(d) for d in dims)


def _hashable(spec: Any) -> Any:
    """The same for structures that are equal."""
    if isinstance(spec, dict):
        return tuple(sorted((key, _hashable(part)) for key, part in spec.items()))
    if isinstance(spec, (tuple, list)):
        return type(spec), tuple(_hashable(part) for part in spec)
    return hash(spec)


class _Spec:
    """What the specs of single values have in common."""

    __slots__ = ()

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a value could fit both this and `spec_or_value`, a spec or a value, of which its
        own spec counts. What is not known, on either side, fits. TypeError for what no spec
        describes."""
        other = spec_or_value if isinstance(spec_or_value, _Spec) else spec_of(spec_or_value)
        return _native.spec_is_compatible(self, other)

    def most_specific_compatible_type(self, other: Any) -> Any:
        """The most specific spec that every value of this and of `other`, a spec, fits: sizes that
        differ are not known in it, nor are ranks. InvalidArgumentError (a ValueError) when there is
        none, because the kinds, structures or dtypes differ."""
        if not isinstance(other, _Spec):
            raise TypeError(f"most_specific_compatible_type: a spec is needed, not an object of "
                            f"type {type(other).__name__}")
        return _native.spec_most_specific(self, other)


class TensorSpec(_Spec):
    """Shape and dtype of a tensor.

    shape: a sequence of sizes, None for a size that is not known; or None when not even the rank is
    known. dtype: a numpy.dtype, `bytes`, or tutti.bfloat16.
    """

    __slots__ = ("shape", "dtype", "name")

    def __init__(self, shape: Optional[Sequence[Optional[int]]], dtype: Any = np.float32,
                 name: Optional[str] = None):
        self.shape = _shape_of(shape)
        self.dtype = _dtypes.dtype_of(_dtypes.number_of(dtype))
        self.name = name

    @staticmethod
    def from_value(value: Any) -> "TensorSpec":
        """The spec that exactly describes `value`, anything of which there is a tensor: a mirrored
        value, too, whose components have it."""
        from tutti._values import Mirrored

        spec = spec_of(value.values[0] if isinstance(value, Mirrored) else value)
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"TensorSpec.from_value: a tensor is needed, not an object of type "
                            f"{type(value).__name__}, which {spec!r} describes")
        return spec

    @property
    def value_type(self) -> type:
        """The class of such values as elements have them: numpy.ndarray; of rank 0 the class of
        NumPy's scalar, or bytes; tutti.Tensor of a bfloat16 that NumPy has not. object where the
        rank is not known."""
        from tutti._tensor import Tensor

        if self.shape is None:
            return object
        if self.dtype is bytes:
            return np.ndarray if self.shape else bytes
        if not isinstance(self.dtype, np.dtype):
            return Tensor
        return np.ndarray if self.shape else self.dtype.type

    def most_specific_compatible_type(self, other: Any) -> Any:
        """The most specific spec that every value of this and of `other`, a spec, fits, as of any
        spec; it has the name that both have."""
        spec = super().most_specific_compatible_type(other)
        spec.name = self.name if self.name == other.name else None
        return spec

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


class _Holder(_Spec):
    """element_spec: what is held; None where that is not known, so that everything fits."""

    __slots__ = ("element_spec",)
    _kind = 0

    def __init__(self, element_spec: Any):
        self.element_spec = element_spec

    def _key(self) -> Tuple[Any, ...]:
        return self._kind, _hashable(self.element_spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Holder):
            return NotImplemented
        return self._kind == other._kind and bool(self.element_spec == other.element_spec)

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.element_spec!r})"


class OptionalSpec(_Holder):
    """The spec of a tutti.data.Optional. element_spec: that of what it holds, None where nobody
    says it, as of one that is empty."""

    __slots__ = ()
    _kind = _OPTIONAL

    def __init__(self, element_spec: Any):
        super().__init__(element_spec)

    @staticmethod
    def from_value(value: Any) -> "OptionalSpec":
        """The spec of `value`, an Optional."""
        from tutti._values import Optional as OptionalValue

        if not isinstance(value, OptionalValue):
            raise TypeError(f"OptionalSpec.from_value: value: a tutti.data.Optional is needed, not "
                            f"an object of type {type(value).__name__}")
        return OptionalSpec(value.element_spec)

    @property
    def value_type(self) -> type:
        """tutti.data.Optional, the class of such values."""
        from tutti._values import Optional as OptionalValue

        return OptionalValue


class IteratorSpec(_Holder):
    """The spec of a tutti.data.Iterator. element_spec: that of its elements, None where it is not
    known."""

    __slots__ = ()
    _kind = _ITERATOR

    def __init__(self, element_spec: Any):
        super().__init__(element_spec)

    @staticmethod
    def from_value(value: Any) -> "IteratorSpec":
        """The spec of `value`, an iterator."""
        from tutti.data._dataset import Iterator

        _arguments.check("IteratorSpec.from_value: value", value, Iterator)
        return IteratorSpec(value.element_spec)

    @property
    def value_type(self) -> type:
        """tutti.data.Iterator, the class of such values."""
        from tutti.data._dataset import Iterator

        return Iterator


class DatasetSpec(_Holder):
    """The spec of a dataset that stands in an element.

    element_spec: that of its elements, None where it is not known, as of a variant. dataset_shape:
    the sizes of an array of datasets, which no value is, so that only () fits one; it is kept and
    compared.
    """

    __slots__ = ("dataset_shape",)
    _kind = _DATASET

    def __init__(self, element_spec: Any,
                 dataset_shape: Optional[Sequence[Optional[int]]] = ()):
        super().__init__(element_spec)
        self.dataset_shape = _shape_of(dataset_shape)

    @staticmethod
    def from_value(value: Any) -> "DatasetSpec":
        """The spec of `value`, a dataset; a map whose function has no output_signature computes one
        element here."""
        from tutti.data._dataset import Dataset

        _arguments.check("DatasetSpec.from_value: value", value, Dataset)
        return DatasetSpec(value.element_spec)

    @property
    def value_type(self) -> type:
        """tutti.data.Dataset, the class of such values."""
        from tutti.data._dataset import Dataset

        return Dataset

    def _key(self) -> Tuple[Any, ...]:
        return (*super()._key(), self.dataset_shape)

    def __eq__(self, other: object) -> bool:
        equal = super().__eq__(other)
        if not isinstance(other, DatasetSpec) or equal is NotImplemented:
            return equal
        return equal and self.dataset_shape == other.dataset_shape

    __hash__ = _Holder.__hash__

    def __repr__(self) -> str:
        if self.dataset_shape == ():
            return super().__repr__()
        return f"DatasetSpec({self.element_spec!r}, dataset_shape={self.dataset_shape})"


class VariantSpec(DatasetSpec):
    """The spec of a dataset of any elements, which is what a tutti.data.Variant is; equal to
    DatasetSpec(None)."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None)

    @staticmethod
    def from_value(value: Any) -> "VariantSpec":
        """The spec of `value`, a variant."""
        from tutti.data._dataset import Variant

        _arguments.check("VariantSpec.from_value: value", value, Variant)
        return VariantSpec()

    @property
    def value_type(self) -> type:
        """tutti.data.Variant, the class of such values."""
        from tutti.data._dataset import Variant

        return Variant

    @property
    def shape(self) -> Tuple[int, ...]:
        """(), the shape of a scalar."""
        return ()

    @property
    def dtype(self) -> str:
        """"variant", which is a name and no dtype of tensors."""
        return "variant"

    def __repr__(self) -> str:
        return "VariantSpec()"

    def __reduce__(self) -> Tuple[Any, ...]:
        return VariantSpec, ()


class NoneTensorSpec(_Spec):
    """The spec of None."""

    __slots__ = ()

    @staticmethod
    def from_value(value: Any) -> "NoneTensorSpec":
        """The spec of `value`, which is None."""
        if value is not None:
            raise TypeError(f"NoneTensorSpec.from_value: None is needed, not an object of type "
                            f"{type(value).__name__}")
        return NoneTensorSpec()

    @property
    def value_type(self) -> type:
        """The class of None."""
        return type(None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoneTensorSpec)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "NoneTensorSpec()"


class PerReplicaSpec(_Spec):
    """The spec of a distributed value: value_specs, that of each replica of this process, in their
    order."""

    __slots__ = ("value_specs",)

    def __init__(self, *value_specs: Any):
        self.value_specs = value_specs

    @staticmethod
    def from_value(value: Any) -> "PerReplicaSpec":
        """The spec of `value`, a distributed value."""
        from tutti._values import DistributedValues

        if not isinstance(value, DistributedValues):
            raise TypeError(f"PerReplicaSpec.from_value: value: a distributed value is needed, not "
                            f"an object of type {type(value).__name__}")
        spec: PerReplicaSpec = _native.spec_from_value(value)
        return spec

    @property
    def value_type(self) -> type:
        """tutti.distribute.DistributedValues, the class of such values."""
        from tutti._values import DistributedValues

        return DistributedValues

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PerReplicaSpec):
            return NotImplemented
        return self.value_specs == other.value_specs

    def __hash__(self) -> int:
        return hash((_PER_REPLICA, _hashable(self.value_specs)))

    def __repr__(self) -> str:
        return f"PerReplicaSpec({', '.join(map(repr, self.value_specs))})"

    def __reduce__(self) -> Tuple[Any, ...]:
        return PerReplicaSpec, self.value_specs


def spec_of(value: Any) -> Any:
    """The spec that exactly describes a value or a structure of values."""
    from tutti._values import Optional as OptionalValue
    from tutti.data._dataset import Dataset, Iterator, Variant

    if isinstance(value, Iterator):
        return IteratorSpec.from_value(value)
    if isinstance(value, OptionalValue):
        return OptionalSpec.from_value(value)
    if isinstance(value, Dataset):
        return DatasetSpec.from_value(value)
    if isinstance(value, Variant):
        return VariantSpec.from_value(value)
    if value is None:
        return NoneTensorSpec()
    return _native.spec_from_value(value)


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


def make(kind: int, dtype: int, shape: _Shape, inner: Any) -> Any:
    if kind == _DATASET:
        return VariantSpec() if inner is None and shape == () else DatasetSpec(inner, shape)
    if kind == _OPTIONAL:
        return OptionalSpec(inner)
    if kind == _ITERATOR:
        return IteratorSpec(inner)
    if kind == _PER_REPLICA:
        return PerReplicaSpec(*inner)
    if kind == _NONE:
        return NoneTensorSpec()
    if inner is not None:
        return Whole(inner, _dtypes.dtype_of(dtype))
    return TensorSpec(shape, _dtypes.dtype_of(dtype))


def read(spec: Any) -> Tuple[int, int, _Shape, Any]:
    if isinstance(spec, TensorSpec):
        return _TENSOR, _dtypes.number_of(spec.dtype), spec.shape, None
    if isinstance(spec, DatasetSpec):
        return _DATASET, 0, spec.dataset_shape, spec.element_spec
    if isinstance(spec, _Holder):
        return spec._kind, 0, None, spec.element_spec
    if isinstance(spec, PerReplicaSpec):
        return _PER_REPLICA, 0, None, spec.value_specs
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
