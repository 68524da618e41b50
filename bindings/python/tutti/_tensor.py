"""tutti.Tensor: a dense array in memory of the library or of the caller."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence, Tuple

import numpy as np

from tutti import _arguments, _dtypes, _native, errors
from tutti._device import current_device
from tutti._operators import Arithmetic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tutti._stream import Stream


_log = logging.getLogger("tutti")
# Whether somebody was told that NumPy reads tensors of GPUs by copies.
_told_of_copies = False


class Tensor(Arithmetic):
    """A tensor over `value`'s memory: a NumPy array, anything with `__dlpack__`, a number, bytes or
    a nested list of them (which are copied). Of Python's own numbers an int becomes int32 (int64
    where int32 does not hold it; OverflowError where neither does), a float float32, a complex
    complex128; NumPy's numbers keep their dtype.

    dtype: converts to it (a copy). Everything that takes a tensor also takes these objects
    themselves, so that a Tensor is needed only for what NumPy cannot express (bfloat16) and for
    DLPack. In arithmetic, indexing and NumPy's functions it is read, as numpy() does, and gives
    arrays; that of a GPU is copied to the host each time, which is logged once (logger "tutti").
    Threads: any; nobody guards the memory.
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

    def _place(self, device: Optional[str] = None) -> "Tensor":
        # On the device that the scopes around say, where the caller says none.
        spec = current_device()
        if spec is not None and device is None:
            self._handle = _native.device_place_tensor(spec.to_string(), self)
        return self

    @classmethod
    def _of(cls, handle: Any) -> "Tensor":
        tensor = cls.__new__(cls)
        tensor._handle = handle
        return tensor

    @classmethod
    def zeros(cls, shape: Sequence[int], dtype: Any = np.float32, *, device: Optional[str] = None,
              pinned: bool = False) -> "Tensor":
        """A tensor of that shape and dtype, all zeros, in 64-byte aligned memory.

        device: "GPU:0" (None: where the device scopes around say, else the host). pinned: host
        memory that GPUs copy from and to without staging; NotFoundError where there is none."""
        return cls._made(shape, dtype, True, device, pinned)

    @classmethod
    def empty(cls, shape: Sequence[int], dtype: Any = np.float32, *, device: Optional[str] = None,
              pinned: bool = False) -> "Tensor":
        """A tensor of that shape and dtype whose elements are unspecified, in 64-byte aligned
        memory. device, pinned: see zeros()."""
        return cls._made(shape, dtype, False, device, pinned)

    @classmethod
    def _made(cls, shape: Sequence[int], dtype: Any, zeroed: bool, device: Optional[str],
              pinned: bool) -> "Tensor":
        tensor = cls._of(_native.tensor_create(_dtypes.number_of(dtype), list(shape), zeroed,
                                               device, pinned))
        return tensor if pinned else tensor._place(device)

    @classmethod
    def from_cuda_array(cls, array: Any, device: str = "GPU:0") -> "Tensor":
        """A tensor over the memory of an object with `__cuda_array_interface__` (CuPy's, Numba's),
        without a copy, which lies on `device`. The library's work waits for what is on the stream
        that the object names. ValueError for stream 0, which says nothing."""
        known = getattr(array, "__cuda_array_interface__", None)
        if not isinstance(known, dict):
            kind = "None" if array is None else f"an object of type {type(array).__name__}"
            raise TypeError("Tensor.from_cuda_array: array: something with "
                            f"__cuda_array_interface__ is needed, not {kind}")
        stream = known.get("stream")
        if stream == 0:
            raise ValueError("stream 0 of a __cuda_array_interface__ says nothing; 1 is the "
                             "default stream, 2 that of the thread")
        dtype = np.dtype(known["typestr"])
        shape = list(known["shape"])
        strides: Any = known.get("strides")
        address = known["data"][0]
        steps = [] if strides is None else [step // dtype.itemsize for step in strides]
        if strides is not None and any(step % dtype.itemsize for step in strides):
            raise ValueError(f"strides {tuple(strides)} in bytes are no multiples of an element's "
                             f"{dtype.itemsize}; copy the array")
        if any(step < 0 for step in steps):
            raise ValueError(f"strides {tuple(strides)} run backwards; copy the array")
        reach = sum((size - 1) * step for size, step in zip(shape, steps)) + 1
        count = reach if steps else int(np.prod(shape, dtype=np.int64))
        if 0 in shape:
            count = 0
        tensor = cls._of(_native._tensor_of_cuda(
            array, address, count * dtype.itemsize, _dtypes.number_of(dtype), shape, steps,
            bool(known["data"][1]), device))
        if stream is not None:
            _native.stream_wait_stream(_native.device_stream(device),
                                       _native.stream_wrap(device, stream))
        return tensor

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
        """The address of the first element, on whichever device."""
        return _native.tensor_address(self)

    @property
    def is_on_host(self) -> bool:
        """Whether the elements lie in the host's memory; else on a GPU (see `device`)."""
        return _native.tensor_cuda_device(self) < 0

    def copy_to(self, device: str, *, stream: Optional["Stream"] = None, pinned: bool = False,
                timeout: Optional[float] = None) -> "Tensor":
        """A contiguous copy on `device` ("GPU:0", "CPU:0"), from wherever it lies.

        One that the host takes part in is done on return; one between GPUs in the order of
        `stream` (None: the library's own of the GPU that it goes to). pinned: of host memory, see
        zeros(). InvalidArgumentError for byte strings and for another device's stream,
        ResourceExhaustedError says what was asked for and what is free."""
        from tutti._stream import Stream  # pylint: disable=import-outside-toplevel
        handle = (None if stream is None
                  else _arguments.handle_of("Tensor.copy_to: stream", stream, Stream))
        return self._of(_native.tensor_copy_to(self, device, handle, pinned, timeout))

    def _on_host(self) -> "Tensor":
        return self if self.is_on_host else self.copy_to("CPU:0")

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        """What CuPy, Numba and PyTorch take a tensor on a GPU by, without a copy; AttributeError
        for one on the host and for bfloat16, which has no name there."""
        if self.is_on_host:
            raise AttributeError("this tensor lies in the host's memory, and has no "
                                 "__cuda_array_interface__")
        if not isinstance(self.dtype, np.dtype) or self.dtype.kind == "V":
            raise AttributeError(f"{self.dtype} has no name in __cuda_array_interface__; use "
                                 "__dlpack__")
        item = self.dtype.itemsize
        index = self.device.rpartition(":")[2]
        return {"shape": self.shape, "typestr": self.dtype.str, "version": 3,
                "data": (self.address, self.is_read_only),
                "strides": None if self.is_contiguous else tuple(s * item for s in self.strides),
                "stream": _native.stream_handle(_native.device_stream(f"GPU:{index}"))}

    def numpy(self) -> Any:
        """A NumPy array over this memory, without a copy and as writable as the tensor; of a tensor
        on a GPU over a copy on the host. Byte strings become bytes (rank 0) or an array of objects,
        which are copies. TypeError for bfloat16 without ml_dtypes: see bits() and cast()."""
        array = _native._tensor_array(self._on_host())
        if isinstance(array, Tensor):
            raise TypeError("NumPy has no bfloat16: install ml_dtypes, or use bits() for the "
                            "16-bit patterns or cast(numpy.float32) for the values")
        return array

    def bits(self) -> NDArray[Any]:
        """The 16-bit patterns of a tensor of bfloat16, as an array of uint16 over this memory; of a
        tensor on a GPU over a copy on the host."""
        view: NDArray[Any] = _native._tensor_bits(self._on_host())
        return view

    def __reduce__(self) -> Any:
        """Pickled as its elements; the copy has memory of its own."""
        return _unpickled, (bytes(_native.tensor_serialize(self._on_host())),
                            _native.tensor_dtype(self))

    def __copy__(self) -> "Tensor":
        return self._of(self._handle)

    def __deepcopy__(self, _: Any) -> "Tensor":
        return self.copy()

    def copy(self) -> "Tensor":
        """A contiguous copy, on the same device."""
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
        self._tell_of_copies()
        array = np.asarray(self.numpy())
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, *, stream: Any = None, max_version: Optional[Tuple[int, int]] = None,
                   dl_device: Optional[Tuple[int, int]] = None, copy: Optional[bool] = None) -> Any:
        here = self.__dlpack_device__()
        versioned = max_version is not None and max_version[0] >= 1
        if dl_device is not None and tuple(dl_device) != here:
            if tuple(dl_device) != (1, 0) or copy is False:
                raise BufferError(f"this tensor lies on {self.device.rpartition('device:')[2]}, "
                                  f"DLPack device {here}; copy_to() makes a copy elsewhere")
            return _native._tensor_dlpack(self._on_host(), versioned, True, None)
        return _native._tensor_dlpack(self, versioned, bool(copy), stream)

    def __dlpack_device__(self) -> Tuple[int, int]:
        index = _native.tensor_cuda_device(self)
        return (1, 0) if index < 0 else (2, index)

    def _tell_of_copies(self) -> None:
        global _told_of_copies  # pylint: disable=global-statement
        if _told_of_copies or self.is_on_host:
            return
        _told_of_copies = True
        _log.warning("NumPy reads a tensor on %s: it is copied to the host, now and each time; "
                     "take it by __dlpack__ to compute where it lies (this is logged once)",
                     self.device.rpartition("device:")[2])

    def __getitem__(self, index: Any) -> Any:
        return self.__array__()[index]

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
