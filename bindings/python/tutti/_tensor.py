"""tutti.Tensor: a dense array in memory of the library or of the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Sequence, Tuple

import numpy as np

from tutti import _dtypes, _native, errors
from tutti._device import current_device

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Tensor:
    """A tensor over `value`'s memory: a NumPy array, anything with `__dlpack__`, a number, bytes or
    a nested list of them (which are copied). Of Python's own numbers an int becomes int32 (int64
    where int32 does not hold it; OverflowError where neither does), a float float32, a complex
    complex128; NumPy's numbers keep their dtype.

    dtype: converts to it (a copy). Everything that takes a tensor also takes these objects
    themselves, so that a Tensor is needed only for what NumPy cannot express (bfloat16) and for
    DLPack. Threads: any; nobody guards the memory.
    """

    __slots__ = ("_handle",)

    def __init__(self, value: Any, dtype: Any = None):
        if dtype is None:
            self._handle = _native.tensor_from(value)
        else:
            number = _dtypes.number_of(dtype)
            if _dtypes.is_literal(value):
                value = _native._array_of(value, True)
            self._handle = _native.tensor_from(value)
            if _native.tensor_dtype(self) != number:
                self._handle = _native.tensor_cast(self, number)
        self._place()

    def _place(self) -> "Tensor":
        # On the device that the scopes around say.
        spec = current_device()
        if spec is not None:
            self._handle = _native.device_place_tensor(spec.to_string(), self)
        return self

    @classmethod
    def _of(cls, handle: Any) -> "Tensor":
        tensor = cls.__new__(cls)
        tensor._handle = handle
        return tensor

    @classmethod
    def zeros(cls, shape: Sequence[int], dtype: Any = np.float32) -> "Tensor":
        """A tensor of that shape and dtype, all zeros, in 64-byte aligned memory."""
        return cls._of(_native.tensor_create(_dtypes.number_of(dtype), list(shape), True))._place()

    @classmethod
    def empty(cls, shape: Sequence[int], dtype: Any = np.float32) -> "Tensor":
        """A tensor of that shape and dtype whose elements are unspecified, in 64-byte aligned
        memory."""
        return cls._of(_native.tensor_create(_dtypes.number_of(dtype), list(shape), False))._place()

    @classmethod
    def from_bits(cls, bits: Any) -> "Tensor":
        """A tensor of bfloat16 with the 16-bit patterns `bits`, an array of uint16 (a copy)."""
        bits = np.ascontiguousarray(bits, np.uint16)
        tensor = cls.empty(bits.shape, _dtypes.bfloat16)
        tensor.bits()[...] = bits
        return tensor

    @property
    def device(self) -> str:
        """The full name of the device on which it lies."""
        return _native.device_of_tensor(self)

    @property
    def shape(self) -> Tuple[int, ...]:
        """The sizes."""
        return tuple(_native.tensor_dim(self, i) for i in range(_native.tensor_rank(self)))

    @property
    def strides(self) -> Tuple[int, ...]:
        """Steps along each axis, in elements."""
        return tuple(_native.tensor_stride(self, i) for i in range(_native.tensor_rank(self)))

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return _native.tensor_rank(self)

    @property
    def size(self) -> int:
        """The number of elements."""
        return _native.tensor_element_count(self)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return _native.tensor_byte_size(self)

    @property
    def dtype(self) -> Any:
        """A numpy.dtype, `bytes` for byte strings, or tutti.bfloat16."""
        return _dtypes.dtype_of(_native.tensor_dtype(self))

    @property
    def is_read_only(self) -> bool:
        """Whether its memory must not be written."""
        return _native.tensor_is_read_only(self)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        return _native.tensor_is_contiguous(self)

    @property
    def address(self) -> int:
        """The address of the first element."""
        return _native.tensor_address(self)

    def numpy(self) -> Any:
        """A NumPy array over this memory, without a copy and as writable as the tensor. Byte
        strings become bytes (rank 0) or an array of objects, which are copies. TypeError for
        bfloat16 without ml_dtypes: see bits() and cast()."""
        array = _native._tensor_array(self)
        if isinstance(array, Tensor):
            raise TypeError("NumPy has no bfloat16: install ml_dtypes, or use bits() for the "
                            "16-bit patterns or cast(numpy.float32) for the values")
        return array

    def bits(self) -> NDArray[Any]:
        """The 16-bit patterns of a tensor of bfloat16, as an array of uint16 over this memory."""
        view: NDArray[Any] = _native._tensor_bits(self)
        return view

    def __reduce__(self) -> Any:
        """Pickled as its elements; the copy has memory of its own."""
        return _unpickled, (bytes(_native.tensor_serialize(self)), _native.tensor_dtype(self))

    def __copy__(self) -> "Tensor":
        return self._of(self._handle)

    def __deepcopy__(self, _: Any) -> "Tensor":
        return self.copy()

    def copy(self) -> "Tensor":
        """A contiguous copy."""
        return self._of(_native.tensor_copy(self))

    def as_read_only(self) -> "Tensor":
        """The same memory, which cannot be written through what this gives; the tensor's own when
        it is read-only."""
        return self._of(_native.tensor_as_read_only(self))

    def cast(self, dtype: Any) -> "Tensor":
        """A contiguous copy converted to `dtype`, by the rules of C for numbers (float to integer
        truncates and saturates)."""
        return self._of(_native.tensor_cast(self, _dtypes.number_of(dtype)))

    def convert(self, dtype: Any) -> "Tensor":
        """The elements in another dtype that holds them, as elements of datasets are converted to a
        declared one: integers to integers that hold each of them, numbers to floats (rounded), real
        numbers to complex ones. InvalidArgumentError naming the first element that does not fit.
        The same memory where the dtype is the same."""
        return self._of(_native.tensor_convert(self, _dtypes.number_of(dtype)))

    def reshape(self, *shape: Any) -> "Tensor":
        """The same elements under another shape, one size of which may be -1: a view, or a copy
        when the tensor is not contiguous."""
        dims = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return self._of(_native.tensor_reshape(self, list(dims)))

    def slice(self, start: int, stop: int, axis: int = 0) -> "Tensor":
        """Elements [start, stop) along `axis`, a view. OutOfRangeError unless
        0 <= start <= stop <= size."""
        return self._of(_native.tensor_slice(self, axis, start, stop))

    def equal(self, other: Any) -> bool:
        """Whether dtype, sizes and every element of the other tensor are the same (NaN equals
        NaN, -0 equals 0)."""
        return _native.tensor_equal(self, other)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> NDArray[Any]:
        array = np.asarray(self.numpy())
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, *, stream: Any = None, max_version: Optional[Tuple[int, int]] = None,
                   dl_device: Optional[Tuple[int, int]] = None, copy: Optional[bool] = None) -> Any:
        if dl_device is not None and tuple(dl_device) != (1, 0):
            raise BufferError("this tensor lies in the CPU's memory, DLPack device (1, 0)")
        versioned = max_version is not None and max_version[0] >= 1
        return _native._tensor_dlpack(self, versioned, bool(copy))

    def __dlpack_device__(self) -> Tuple[int, int]:
        return 1, 0

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a tensor of rank 0 has no length")
        return _native.tensor_dim(self, 0)

    def __repr__(self) -> str:
        return f"<tutti.Tensor {_native.tensor_to_string(self)}>"


def literals_as(what: str, value: Any, dtype: Any) -> Any:
    """Numbers of Python, or nested lists of them, as an array of `dtype` (or a Tensor of it) where
    it holds them, else InvalidArgumentError, which begins with `what`; anything else, and under no
    dtype, as it is."""
    if dtype is None or not _dtypes.is_literal(value):
        return value
    try:
        tensor = Tensor(_native._array_of(value, True)).convert(dtype)
    except errors.InvalidArgumentError as refused:
        raise errors.InvalidArgumentError(f"{what}: {refused}") from None
    return tensor if tensor.dtype is _dtypes.bfloat16 else tensor.numpy()


def _unpickled(serialized: bytes, dtype: int) -> Tensor:
    return Tensor._of(_native.tensor_from(_native.tensor_parse(serialized, dtype)))
