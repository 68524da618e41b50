"""Sparse and ragged tensors, and what datasets say of them: tensors that are made of several."""

from __future__ import annotations

import operator
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from tutti import _dtypes, _native, _specs, errors
from tutti._specs import TensorSpec

_Shape = Optional[Tuple[Optional[int], ...]]


def _integers(what: str, given: Any) -> Any:
    """Numbers as an array of int64, or of int32 where they are; what has none may be of any
    dtype."""
    array = np.asarray(given)
    if array.dtype == np.int32 or array.dtype == np.int64:
        return array
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{what} must be integers, not {array.dtype}")
    return array.astype(np.int64)


def _merged(left: _Shape, right: _Shape) -> _Shape:
    """What shapes of both kinds fit."""
    if left is None or right is None or len(left) != len(right):
        return None
    return tuple(a if a == b else None for a, b in zip(left, right))


class _Composite:
    """A tensor of several parts: for the extension a named tuple of a name of the library's."""

    __slots__ = ("_parts",)
    _type_name = ""
    _fields: Tuple[str, ...] = ()
    _parts: Tuple[Any, ...]

    @classmethod
    def _of(cls, *parts: Any) -> Any:
        """Of parts that fit each other."""
        made = cls.__new__(cls)
        made._parts = parts
        return made

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self)._of, self._parts


class SparseTensor(_Composite):
    """A tensor of which only some items are given, all others being 0, False or b"".

    indices: an array of int64 [values, axes], the places of the values in any order. values: a
    vector of as many. dense_shape: a vector of int64, the size of each axis. ValueError
    (InvalidArgumentError) where they do not fit each other, and for an index that is outside. It
    may stand wherever a dataset takes arrays. Threads: any.
    """

    __slots__ = ()
    _type_name = "tutti.SparseTensor"
    _fields = ("indices", "values", "dense_shape")

    def __init__(self, indices: Any, values: Any, dense_shape: Any):
        sizes = _integers("dense_shape", dense_shape).astype(np.int64)
        places = _integers("indices", indices).astype(np.int64)
        if not places.size:
            places = places.reshape((-1 if sizes.size else len(places), sizes.size))
        self._parts = (places, _native._array_of(values, False), sizes)
        _native._check_composite(self)

    @property
    def indices(self) -> Any:
        """The places of the values: int64 [values, axes]."""
        return self._parts[0]

    @property
    def values(self) -> Any:
        """The values: a vector."""
        return self._parts[1]

    @property
    def dense_shape(self) -> Any:
        """The size of each axis: a vector of int64."""
        return self._parts[2]

    @property
    def shape(self) -> Tuple[int, ...]:
        """The sizes."""
        return tuple(int(size) for size in self.dense_shape)

    @property
    def dtype(self) -> Any:
        """The dtype of the values: a numpy.dtype, `bytes`, or tutti.bfloat16."""
        return SparseTensorSpec.from_value(self).dtype

    def to_dense(self, default_value: Any = None) -> Any:
        """The array of dense_shape with the values, and with default_value, a number of their
        dtype, everywhere else; None is 0, False or b"". InvalidArgumentError for an index that
        comes twice, or of a dense_shape that no array has."""
        return _native.value_to_dense(self, _filler(default_value, self.dtype))

    def rows(self) -> List["SparseTensor"]:
        """Its rows along the first axis, of one axis less. InvalidArgumentError where it has no
        axes, ResourceExhaustedError where dense_shape says that there are some millions."""
        rows: List["SparseTensor"] = _native.value_to_rows(self)
        return rows

    def __repr__(self) -> str:
        return (f"SparseTensor(indices={_shown(self.indices)}, values={_shown(self.values)}, "
                f"dense_shape={_shown(self.dense_shape)})")


class IndexedSlices(_Composite):
    """Rows of a tensor, and which ones they are: what changes some rows of a variable
    (Variable.scatter_add), and what replicas may reduce: the slices of all, in the order of the
    replicas, an index as often as they have it; for MEAN the values are divided by the number of
    replicas.

    values: an array, one row for each index. indices: a vector of integers. dense_shape: the sizes
    of the tensor, or None. ValueError (InvalidArgumentError) where they do not fit each other, and
    for an index that is outside of dense_shape. Threads: any.
    """

    __slots__ = ()
    _type_name = "tutti.IndexedSlices"
    _fields = ("values", "indices", "dense_shape")

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None):
        sizes = None if dense_shape is None else _integers("dense_shape", dense_shape)
        self._parts = (_native._array_of(values, False), _integers("indices", indices),
                       None if sizes is None else sizes.astype(np.int64))
        _native._check_composite(self)

    @property
    def values(self) -> Any:
        """The rows."""
        return self._parts[0]

    @property
    def indices(self) -> Any:
        """Which rows they are: a vector of int64 or int32."""
        return self._parts[1]

    @property
    def dense_shape(self) -> Any:
        """The sizes of the tensor, a vector of int64, or None."""
        return self._parts[2]

    @property
    def dtype(self) -> Any:
        """That of the values."""
        return np.asarray(self.values).dtype

    def __repr__(self) -> str:
        return (f"IndexedSlices(values={_shown(self.values)}, indices={_shown(self.indices)}, "
                f"dense_shape={_shown(self.dense_shape)})")


class RaggedTensor(_Composite):
    """A tensor with axes along which the rows are of different lengths.

    Made by from_row_splits, from_row_lengths or tutti.ragged.constant. Row i is
    values[row_splits[i]:row_splits[i + 1]]; the values are an array, or ragged themselves. len(),
    an index and iteration go by rows. It may stand wherever a dataset takes arrays. Threads: any.
    """

    __slots__ = ()
    _type_name = "tutti.RaggedTensor"
    _fields = ("values", "row_splits")

    def __init__(self) -> None:
        raise TypeError("ragged tensors come from RaggedTensor.from_row_splits, from_row_lengths "
                        "or tutti.ragged.constant")

    @classmethod
    def from_row_splits(cls, values: Any, row_splits: Any) -> "RaggedTensor":
        """The rows values[row_splits[i]:row_splits[i + 1]].

        values: an array of one axis or more, or a RaggedTensor. row_splits: integers that begin
        with 0, never become smaller and end with the number of values, else it is a ValueError
        (InvalidArgumentError); int32 stays int32, others become int64.
        """
        if not isinstance(values, RaggedTensor):
            values = _native._array_of(values, False)
        made: RaggedTensor = cls._of(values, _integers("row_splits", row_splits))
        _native._check_composite(made)
        return made

    @classmethod
    def from_row_lengths(cls, values: Any, row_lengths: Any) -> "RaggedTensor":
        """Rows of these lengths, one after the other.

        values: as from_row_splits takes them. row_lengths: integers of 0 or more that add up to the
        number of values, else it is a ValueError (InvalidArgumentError).
        """
        lengths = _integers("row_lengths", row_lengths)
        splits = np.concatenate([np.zeros(1, lengths.dtype), np.cumsum(lengths, dtype=np.int64)])
        return cls.from_row_splits(values, splits.astype(lengths.dtype))

    @property
    def values(self) -> Any:
        """All rows one after the other: an array, or a RaggedTensor of one ragged axis less."""
        return self._parts[0]

    @property
    def row_splits(self) -> Any:
        """Where the rows begin among the values, and the number of values: [rows + 1]."""
        return self._parts[1]

    @property
    def flat_values(self) -> Any:
        """The innermost values, an array."""
        values = self.values
        return values.flat_values if isinstance(values, RaggedTensor) else values

    @property
    def nested_row_splits(self) -> Tuple[Any, ...]:
        """The row_splits of each ragged axis, the outermost first."""
        values = self.values
        inner = values.nested_row_splits if isinstance(values, RaggedTensor) else ()
        return (self.row_splits, *inner)

    @property
    def ragged_rank(self) -> int:
        """How many axes are ragged, 1 or more."""
        return len(self.nested_row_splits)

    @property
    def shape(self) -> Tuple[Optional[int], ...]:
        """The sizes, None for a ragged axis."""
        return (len(self), *(None,) * self.ragged_rank, *np.shape(self.flat_values)[1:])

    @property
    def dtype(self) -> Any:
        """The dtype of the flat values: a numpy.dtype, `bytes`, or tutti.bfloat16."""
        return RaggedTensorSpec.from_value(self).dtype

    def nrows(self) -> int:
        """The number of rows, as len()."""
        return len(self)

    def row_lengths(self) -> Any:
        """The number of values of each row."""
        return np.diff(self.row_splits)

    def to_list(self) -> List[Any]:
        """Nested lists of Python's numbers, or of bytes."""
        values = self.values
        items = values.to_list() if isinstance(values, RaggedTensor) else _listed(values)
        splits = self.row_splits.tolist()
        return [items[begin:end] for begin, end in zip(splits, splits[1:])]

    def to_tensor(self, default_value: Any = None) -> Any:
        """The array whose ragged axes are as long as their longest row, with default_value, a
        number of the values' dtype, behind those that are shorter; None is 0, False or b""."""
        return _native.value_to_dense(self, _filler(default_value, self.dtype))

    def __len__(self) -> int:
        return len(self.row_splits) - 1

    def __getitem__(self, index: int) -> Any:
        number = operator.index(index)
        row = number + len(self) if number < 0 else number
        if not 0 <= row < len(self):
            raise IndexError(f"row {number} of a ragged tensor of {len(self)} rows")
        begin, end = int(self.row_splits[row]), int(self.row_splits[row + 1])
        return _rows(self.values, begin, end)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        if isinstance(self.row_splits, np.ndarray):
            return f"<tutti.RaggedTensor {self.to_list()}>"
        return f"RaggedTensor(values={_shown(self.values)}, row_splits={self.row_splits})"


def _rows(values: Any, begin: int, end: int) -> Any:
    if not isinstance(values, RaggedTensor):
        return values[begin:end]
    splits = values.row_splits[begin:end + 1]
    return RaggedTensor._of(_rows(values.values, int(splits[0]), int(splits[-1])),
                            splits - splits[0])


def _listed(values: Any) -> Any:
    return values.tolist() if hasattr(values, "tolist") else values.numpy().tolist()


def _shown(part: Any) -> Any:
    """A part for people: that of a result of replicas is no array."""
    return part.tolist() if isinstance(part, np.ndarray) else part


def _filler(given: Any, dtype: Any) -> Any:
    """A default of the values' dtype, as Tensor.convert makes it."""
    from tutti._tensor import Tensor  # needs the package

    if given is None:
        return None
    return Tensor(_native._array_of(given, True)).convert(dtype)


def ragged_constant(pylist: Any, dtype: Any = None, ragged_rank: Optional[int] = None,
                    row_splits_dtype: Any = np.int64) -> RaggedTensor:
    """The ragged tensor of nested lists.

    pylist: a list of lists of numbers or byte strings, all as deep. dtype: that of the values; None
    is what a Tensor of them has. ragged_rank: how many axes are ragged; None is all but the first
    and those of arrays in the lists. row_splits_dtype: int64 or int32. ValueError for lists that
    are not all as deep, TypeError for what is no list.
    """
    if not isinstance(pylist, (list, tuple)):
        raise TypeError(f"a list of lists is needed, not an object of type {type(pylist).__name__}")
    levels: List[Any] = []
    items: List[Any] = list(pylist)
    if ragged_rank is not None and ragged_rank < 1:
        raise ValueError(f"ragged_rank must be 1 or more, not {ragged_rank}; what is not ragged is "
                         "a tensor")
    while ragged_rank is None or len(levels) < ragged_rank:
        lists = [isinstance(item, (list, tuple)) for item in items]
        if ragged_rank is None and levels and not any(lists):
            break
        if not all(lists):
            raise ValueError(f"lists that are not all as deep: an item of axis {len(levels) + 1} "
                             f"is no list in {pylist!r}")
        levels.append([0, *np.cumsum([len(item) for item in items]).tolist()])
        items = [part for item in items for part in item]
        if not items:
            break
    flat: Any = np.zeros(0, np.float32) if not items else items
    if dtype is not None:
        from tutti._tensor import Tensor  # needs the package

        flat = Tensor(_native._array_of(flat, True)).convert(dtype).numpy()
    made: Any = flat
    for splits in reversed(levels[1:]):
        made = RaggedTensor.from_row_splits(made, np.array(splits, row_splits_dtype))
    return RaggedTensor.from_row_splits(made, np.array(levels[0], row_splits_dtype))


class _CompositeSpec:
    """What the extension makes a spec of: _parts() as (ragged_rank, 0 for sparse; dtype's number;
    shape; number of the row_splits' dtype)."""

    __slots__ = ("shape", "dtype")
    shape: _Shape
    dtype: Any

    def _key(self) -> Tuple[Any, ...]:
        return (self.shape, _dtypes.number_of(self.dtype))

    def is_compatible_with(self, value: Any) -> bool:
        """Whether a value, or every value of another spec, fits this spec."""
        other = value if isinstance(value, _CompositeSpec) else _native.spec_from_value(value)
        return type(other) is type(self) and _native.spec_is_compatible(self, other)

    @classmethod
    def from_value(cls, value: Any) -> Any:
        """The spec that exactly describes a value of this kind; TypeError for another value."""
        spec = _native.spec_from_value(value)
        if not isinstance(spec, cls):
            raise TypeError(f"a {cls.__name__} of an object of type {type(value).__name__}")
        return spec

    def _check_same(self, other: Any, same: bool) -> None:
        if type(other) is not type(self) or not same:
            raise errors.InvalidArgumentError(f"no spec fits both {self!r} and {other!r}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


def _dtype_name(dtype: Any) -> str:
    return "bytes" if dtype is bytes else str(getattr(dtype, "name", dtype))


class SparseTensorSpec(_CompositeSpec):
    """Shape and dtype of a SparseTensor.

    shape: a sequence of sizes, None for a size that is not known; or None when not even the rank is
    known. dtype: a numpy.dtype, `bytes`, or tutti.bfloat16.
    """

    __slots__ = ()

    def __init__(self, shape: Optional[Sequence[Optional[int]]] = None, dtype: Any = np.float32):
        spec = TensorSpec(shape, dtype)
        self.shape, self.dtype = spec.shape, spec.dtype

    def most_specific_compatible_type(self, other: "SparseTensorSpec") -> "SparseTensorSpec":
        """The most specific spec that values of both fit: sizes that differ become None.
        InvalidArgumentError, a ValueError, where other is of another dtype or kind."""
        self._check_same(other, isinstance(other, SparseTensorSpec)
                         and _dtypes.same(self.dtype, other.dtype))
        return SparseTensorSpec(_merged(self.shape, other.shape), self.dtype)

    def _parts(self) -> Tuple[int, int, _Shape, int]:
        return 0, _dtypes.number_of(self.dtype), self.shape, _dtypes.INVALID

    def __repr__(self) -> str:
        return f"SparseTensorSpec(shape={self.shape}, dtype={_dtype_name(self.dtype)})"

    def __reduce__(self) -> Tuple[Any, ...]:
        return SparseTensorSpec, (self.shape, self.dtype)


class RaggedTensorSpec(_CompositeSpec):
    """Shape and dtype of a RaggedTensor.

    shape: a sequence of sizes, None for a ragged axis and for a size that is not known; or None
    when not even the rank is known. dtype: a numpy.dtype, `bytes`, or tutti.bfloat16. ragged_rank:
    how many axes behind the first are ragged, 1 or more; None is all of them. row_splits_dtype:
    int64 or int32. ValueError for a ragged_rank that the shape has no axes for.
    """

    __slots__ = ("ragged_rank", "row_splits_dtype")

    def __init__(self, shape: Optional[Sequence[Optional[int]]] = None, dtype: Any = np.float32,
                 ragged_rank: Optional[int] = None, row_splits_dtype: Any = np.int64):
        spec = TensorSpec(shape, dtype)
        self.shape, self.dtype = spec.shape, spec.dtype
        if ragged_rank is None:
            if self.shape is None:
                raise ValueError("RaggedTensorSpec: a ragged_rank is needed where the shape has no "
                                 "known rank")
            ragged_rank = len(self.shape) - 1
        self.ragged_rank = operator.index(ragged_rank)
        if self.ragged_rank < 1 or self.shape is not None and self.ragged_rank >= len(self.shape):
            raise ValueError(f"RaggedTensorSpec: a ragged_rank of {ragged_rank} for the shape "
                             f"{self.shape}; it is 1 or more, and less than there are axes; what "
                             "is not ragged is a TensorSpec")
        if not any(_dtypes.same(row_splits_dtype, known) for known in (np.int64, np.int32)):
            raise ValueError(f"RaggedTensorSpec: row_splits are int64 or int32, not "
                             f"{row_splits_dtype}")
        self.row_splits_dtype = np.dtype(row_splits_dtype)

    def _key(self) -> Tuple[Any, ...]:
        return (*super()._key(), self.ragged_rank, self.row_splits_dtype)

    def most_specific_compatible_type(self, other: "RaggedTensorSpec") -> "RaggedTensorSpec":
        """The most specific spec that values of both fit: sizes that differ become None.
        InvalidArgumentError, a ValueError, where other is of another dtype, ragged_rank or kind."""
        self._check_same(other, isinstance(other, RaggedTensorSpec)
                         and _dtypes.same(self.dtype, other.dtype)
                         and self._key()[2:] == other._key()[2:])
        return RaggedTensorSpec(_merged(self.shape, other.shape), self.dtype, self.ragged_rank,
                                self.row_splits_dtype)

    def _parts(self) -> Tuple[int, int, _Shape, int]:
        return (self.ragged_rank, _dtypes.number_of(self.dtype), self.shape,
                _dtypes.number_of(self.row_splits_dtype))

    def __repr__(self) -> str:
        return (f"RaggedTensorSpec(shape={self.shape}, dtype={_dtype_name(self.dtype)}, "
                f"ragged_rank={self.ragged_rank}, row_splits_dtype={self.row_splits_dtype.name})")

    def __reduce__(self) -> Tuple[Any, ...]:
        return RaggedTensorSpec, (self.shape, self.dtype, self.ragged_rank, self.row_splits_dtype)


# ---- for the extension

def _of_each_replica(make: Any, parts: Any) -> Any:
    """The spec whose parts are distributed, as one of composites that are."""
    return _specs.PerReplicaSpec(*(make(*own) for own in zip(*(part.value_specs
                                                               for part in parts))))


def _made_sparse(indices: Any, values: Any, dense_shape: Any) -> Any:
    if isinstance(dense_shape, _specs.PerReplicaSpec):
        return _of_each_replica(_made_sparse, (indices, values, dense_shape))
    if isinstance(dense_shape, _specs.Whole):
        return SparseTensorSpec(dense_shape.spec.shape, dense_shape.spec.dtype)
    return SparseTensor._of(indices, values, dense_shape)


def _made_ragged(values: Any, row_splits: Any) -> Any:
    if isinstance(row_splits, _specs.PerReplicaSpec):
        return _of_each_replica(_made_ragged, (values, row_splits))
    if isinstance(row_splits, _specs.Whole):
        inner = values.ragged_rank if isinstance(values, RaggedTensorSpec) else 0
        return RaggedTensorSpec(row_splits.spec.shape, row_splits.spec.dtype, inner + 1,
                                row_splits.dtype)
    return RaggedTensor._of(values, row_splits)


_specs.composite_makers[IndexedSlices._type_name] = IndexedSlices._of
_specs.composite_makers[SparseTensor._type_name] = _made_sparse
_specs.composite_makers[RaggedTensor._type_name] = _made_ragged
