"""libtutti through ctypes, for a Python that the extension was not built for: any from 3.8 on.

    library = Library("libtutti.so.0")
    tensor = library.tensor(numpy_array).copy_to("GPU:0")
    torch.from_dlpack(tensor)

Only what tests/gpu needs of the C interface. A status that a function returns is raised as Refused.
"""

import ctypes

import numpy as np

_DTYPES = {1: np.bool_, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 6: np.uint8,
           7: np.uint16, 8: np.uint32, 9: np.uint64, 10: np.float16, 12: np.float32,
           13: np.float64, 14: np.complex64, 15: np.complex128}
_NUMBERS = {np.dtype(dtype): number for number, dtype in _DTYPES.items()}

_capsule = ctypes.pythonapi
_capsule.PyCapsule_New.restype = ctypes.py_object
_capsule.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_capsule.PyCapsule_GetPointer.restype = ctypes.c_void_p
_capsule.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Refused(Exception):
    """What a status said; `code` is its number."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Optional(ctypes.Structure):
    """tutti_optional_int64."""

    _fields_ = [("present", ctypes.c_int64), ("value", ctypes.c_int64)]


class View(ctypes.Structure):
    """tutti_string_view."""

    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class DlpackOptions(ctypes.Structure):
    """tutti_dlpack_options."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("copy", ctypes.c_int32), ("stream", Optional)]


class CopyOptions(ctypes.Structure):
    """tutti_tensor_copy_options."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("stream", ctypes.c_void_p),
                ("pinned", ctypes.c_int32)]


class VariableOptions(ctypes.Structure):
    """tutti_variable_options."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p),
                ("synchronization", ctypes.c_int32), ("aggregation", ctypes.c_int32),
                ("trainable", ctypes.c_int32), ("dims", ctypes.c_void_p),
                ("rank", ctypes.c_size_t), ("device", ctypes.c_char_p)]


class Handle:
    """An object of the library's, released with the last use."""

    release = ""

    def __init__(self, library, pointer):
        self.library, self.pointer = library, ctypes.c_void_p(pointer)

    @property
    def _as_parameter_(self):
        return self.pointer

    def __del__(self):
        self.library.plain(self.release, self.pointer, result=None)


class Stream(Handle):
    release = "tutti_stream_release"

    @property
    def handle(self):
        return self.library.plain("tutti_stream_get_handle", self)

    def wait_stream(self, earlier):
        self.library.call("tutti_stream_wait_stream", self, earlier)

    def synchronize(self):
        self.library.call("tutti_stream_synchronize", self, None)


class Tensor(Handle):
    release = "tutti_tensor_release"

    @property
    def address(self):
        return self.library.plain("tutti_tensor_get_address", self)

    @property
    def cuda_device(self):
        return self.library.plain("tutti_tensor_get_cuda_device", self)

    @property
    def shape(self):
        rank = self.library.plain("tutti_tensor_get_rank", self)
        dims = self.library.plain("tutti_tensor_get_dims", self, result=ctypes.c_void_p)
        return tuple((ctypes.c_int64 * rank).from_address(dims)) if rank else ()

    @property
    def is_read_only(self):
        return bool(self.library.plain("tutti_tensor_is_read_only", self, result=ctypes.c_int32))

    @property
    def device(self):
        return self.library.text("tutti_device_of_tensor", self)

    def copy_to(self, device, stream=None, pinned=False):
        options = CopyOptions(ctypes.sizeof(CopyOptions),
                              None if stream is None else stream.pointer, 1 if pinned else 0)
        return Tensor(self.library, self.library.made(
            "tutti_tensor_copy_to", None, self, device.encode(), ctypes.byref(options), None))

    def numpy(self):
        """A copy on the host."""
        here = self if self.cuda_device < 0 else self.copy_to("CPU:0")
        dtype = _DTYPES[self.library.plain("tutti_tensor_get_dtype", here)]
        size = self.library.plain("tutti_tensor_get_byte_size", here)
        data = self.library.plain("tutti_tensor_get_data", here, result=ctypes.c_void_p)
        raw = bytearray(ctypes.string_at(data, size)) if size else bytearray()
        return np.frombuffer(raw, dtype).reshape(here.shape)

    def __dlpack_device__(self):
        index = self.cuda_device
        return (1, 0) if index < 0 else (2, index)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        versioned = max_version is not None and max_version[0] >= 1
        options = DlpackOptions(ctypes.sizeof(DlpackOptions), 1 if copy else 0,
                                Optional(0 if stream is None else 1, stream or 0))
        managed = self.library.made(
            "tutti_tensor_to_dlpack" if versioned else "tutti_tensor_to_dlpack_unversioned",
            self, ctypes.byref(options))
        return _capsule.PyCapsule_New(managed, b"dltensor_versioned" if versioned else b"dltensor",
                                      None)


class Library:
    def __init__(self, path):
        self.loaded = ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL)

    def plain(self, name, *arguments, result=ctypes.c_int64):
        """A function that cannot fail."""
        function = getattr(self.loaded, name)
        function.restype = result
        return function(*arguments)

    def call(self, name, *arguments):
        """A function that returns a status."""
        status = self.plain(name, *arguments, result=ctypes.c_void_p)
        if not status:
            return
        status = ctypes.c_void_p(status)
        code = self.plain("tutti_status_get_code", status, result=ctypes.c_int32)
        message = self.plain("tutti_status_get_message", status, result=ctypes.c_char_p).decode()
        self.plain("tutti_status_release", status, result=None)
        raise Refused(code, message)

    def made(self, name, *arguments):
        """... and gives an object, by its last parameter."""
        out = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(out))
        return out.value

    def text(self, name, *arguments):
        given = ctypes.c_void_p(self.made(name, *arguments))
        view = self.plain("tutti_bytes_get_view", given, result=View)
        text = ctypes.string_at(view.data, view.size).decode()
        self.plain("tutti_bytes_release", given, result=None)
        return text

    def devices(self, kind=None):
        return self.text("tutti_device_list", None, kind).split()

    def tensor(self, array):
        array = np.ascontiguousarray(array)
        dims = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
        return Tensor(self, self.made(
            "tutti_tensor_create_from_data", None, _NUMBERS[array.dtype],
            ctypes.c_size_t(array.ndim), dims, array.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(array.nbytes)))

    def stream(self, device):
        return Stream(self, self.made("tutti_stream_create", None, device.encode()))

    def own_stream(self, device):
        """The one on which the library works by itself."""
        return Stream(self, self.made("tutti_device_get_stream", None, device.encode()))

    def wrap_stream(self, device, handle):
        return Stream(self, self.made("tutti_stream_wrap", None, device.encode(),
                                      ctypes.c_int64(handle)))

    def from_dlpack(self, producer):
        """A tensor over the producer's memory; its work so far comes first."""
        kind, index = producer.__dlpack_device__()
        options = {}
        if int(kind) == 2:
            stream = Stream(self, self.made("tutti_device_find_stream", None,
                                            ctypes.c_int64(index)))
            options["stream"] = stream.handle
        try:
            capsule = producer.__dlpack__(max_version=(1, 0), **options)
        except TypeError:  # one that knows DLPack before 1.0 alone
            capsule = producer.__dlpack__(**options)
        versioned = bool(_capsule.PyCapsule_IsValid(capsule, b"dltensor_versioned"))
        managed = _capsule.PyCapsule_GetPointer(
            capsule, b"dltensor_versioned" if versioned else b"dltensor")
        tensor = Tensor(self, self.made(
            "tutti_tensor_from_dlpack" if versioned else "tutti_tensor_from_dlpack_unversioned",
            None, ctypes.c_void_p(managed)))
        _capsule.PyCapsule_SetName(
            capsule, b"used_dltensor_versioned" if versioned else b"used_dltensor")
        return tensor

    def variable_options(self, aggregation):
        return ctypes.byref(VariableOptions(ctypes.sizeof(VariableOptions), None, 0, aggregation))

    def batches(self, arrays, rows, seed):
        """A dataset of batches of so many rows of arrays by name, in an order of the seed's."""
        tensors = [self.tensor(array) for array in arrays.values()]
        values = (ctypes.c_void_p * len(tensors))(
            *(self.made("tutti_value_create_tensor", tensor) for tensor in tensors))
        keys = (ctypes.c_char_p * len(tensors))(*(key.encode() for key in arrays))
        whole = ctypes.c_void_p(self.made("tutti_value_create_dict",
                                          ctypes.c_size_t(len(tensors)), keys, values))
        dataset = ctypes.c_void_p(self.made("tutti_dataset_create_from_tensor_slices", None, whole,
                                            None))
        self.call("tutti_dataset_shuffle", ctypes.byref(dataset), ctypes.c_int64(4096),
                  ctypes.byref(ctypes.c_int64(seed)), None)
        self.call("tutti_dataset_batch", ctypes.byref(dataset), ctypes.c_int64(rows), None)
        for value in (*values, whole.value):
            self.plain("tutti_value_release", ctypes.c_void_p(value), result=None)
        return dataset

    def shut_down(self):
        self.call("tutti_runtime_shutdown", None, None)
