"""The plugin's kernels on tensors and streams of other frameworks, without a copy between them.

    frameworks.py LIBTUTTI_CUDA PLUGIN_H FRAMEWORK      FRAMEWORK: torch, cupy or jax

Needs a GPU; ends with 77 where the framework is not installed. Speaks to the plugin through
ctypes, as a host of the smallest kind; the order of the table's functions is read from the header.
"""

import ctypes
import re
import sys

SUM, FLOAT32 = 1, 12


class Host(ctypes.Structure):
    """tutti_plugin_host."""

    MAKE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p)
    RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p)
    RESERVE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint64)
    UNRESERVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint64)
    _fields_ = [("struct_size", ctypes.c_size_t), ("abi_version", ctypes.c_uint32),
                ("context", ctypes.c_void_p), ("make_status", MAKE), ("release_status", RELEASE),
                ("log", LOG), ("reserve_memory", RESERVE), ("unreserve_memory", UNRESERVE)]


class Plugin:
    """The table's functions by name; a status that is returned is raised."""

    def __init__(self, library, header):
        text = open(header, encoding="utf-8").read()
        body = text[text.index("typedef struct tutti_plugin_api"):]
        self.order = re.findall(r"\(\*(\w+)\)\(", body[:body.index("} tutti_plugin_api;")])
        self.messages = []

        def make(_context, code, message):
            self.messages.append(f"{code}: {message.decode()}")
            return len(self.messages)

        self.host = Host(ctypes.sizeof(Host), 1 << 16, None, Host.MAKE(make),
                         Host.RELEASE(lambda *_: None), Host.LOG(lambda *_: None),
                         Host.RESERVE(lambda *_: None), Host.UNRESERVE(lambda *_: None))
        loaded = ctypes.CDLL(library)
        api, self.plugin = ctypes.c_void_p(), ctypes.c_void_p()
        loaded.tutti_plugin_open.restype = ctypes.c_void_p
        self.check(loaded.tutti_plugin_open(ctypes.byref(self.host), ctypes.byref(api),
                                            ctypes.byref(self.plugin)))
        # size_t, uint32_t (padded) and two texts come before the functions.
        self.functions = (ctypes.c_void_p * (4 + len(self.order))).from_address(api.value)

    def check(self, status):
        if status:
            sys.exit(self.messages[status - 1])

    def call(self, name, *arguments, result=ctypes.c_void_p):
        types = [ctypes.c_void_p if type(a) is type(ctypes.byref(ctypes.c_int())) else type(a)
                 for a in arguments]
        function = ctypes.CFUNCTYPE(result, *types)
        found = function(self.functions[4 + self.order.index(name)])(*arguments)
        if result is ctypes.c_void_p:
            self.check(found)
        return found

    def wrap(self, handle):
        stream = ctypes.c_void_p()
        self.call("wrap_stream", self.plugin, ctypes.c_int32(0), ctypes.c_uint64(handle),
                  ctypes.byref(stream))
        return stream

    def sum(self, stream, inputs, elements, out):
        addresses = (ctypes.c_void_p * len(inputs))(*inputs)
        self.call("reduce", stream, ctypes.c_int32(SUM), ctypes.c_int32(FLOAT32),
                  ctypes.cast(addresses, ctypes.c_void_p), ctypes.c_uint64(len(inputs)),
                  ctypes.c_uint64(elements), ctypes.c_void_p(out))


def with_torch(plugin):
    import torch
    side = torch.cuda.Stream()
    for stream, handle in ((side, side.cuda_stream), (torch.cuda.default_stream(), 1)):
        with torch.cuda.stream(stream):
            # Large: a stream that was not respected would read what is not written yet.
            tensors = [torch.randn(1 << 26, device="cuda") * (i + 1) for i in range(4)]
            out = torch.full_like(tensors[0], float("nan"))
            plugin.sum(plugin.wrap(handle), [t.data_ptr() for t in tensors], out.numel(),
                       out.data_ptr())
            expected = tensors[0] + tensors[1] + tensors[2] + tensors[3]
            assert torch.equal(out, expected), "the sum differs from PyTorch's"
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            times = {"tutti": [], "torch": []}
            wrapped = plugin.wrap(handle)
            for name, work in (("tutti", lambda: plugin.sum(
                    wrapped, [t.data_ptr() for t in tensors], out.numel(), out.data_ptr())),
                               ("torch", lambda: tensors[0] + tensors[1] + tensors[2]
                                + tensors[3])):
                for _ in range(12):
                    begin.record()
                    work()
                    end.record()
                    end.synchronize()
                    times[name].append(begin.elapsed_time(end))
            print("  sum of 4 x 256 MiB float32:",
                  ", ".join(f"{name} {sorted(t)[len(t) // 2]:.3f} ms" for name, t in times.items()))
    return torch.__version__


def with_cupy(plugin):
    import cupy
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        arrays = [cupy.random.standard_normal(1 << 24, dtype=cupy.float32) for _ in range(3)]
        out = cupy.empty_like(arrays[0])
        plugin.sum(plugin.wrap(stream.ptr), [a.data.ptr for a in arrays], out.size, out.data.ptr)
        assert bool((out == arrays[0] + arrays[1] + arrays[2]).all()), "the sum differs from CuPy's"
    return cupy.__version__


def with_jax(plugin):
    import os
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.numpy as jnp
    import numpy as np
    arrays = [jax.random.normal(jax.random.key(i), (1 << 20,), jnp.float32) for i in range(3)]
    out = jnp.zeros((1 << 20,), jnp.float32)
    jax.block_until_ready([*arrays, out])
    stream = plugin.wrap(1)
    plugin.sum(stream, [a.unsafe_buffer_pointer() for a in arrays], 1 << 20,
               out.unsafe_buffer_pointer())
    plugin.call("wait_for_stream", stream, ctypes.c_void_p())
    expected = np.asarray(arrays[0]) + np.asarray(arrays[1]) + np.asarray(arrays[2])
    # A new array: JAX may have kept a copy of `out` on the host.
    assert np.array_equal(np.asarray(out + 0), expected), "the sum differs from JAX's"
    return jax.__version__


def main(library, header, framework):
    plugin = Plugin(library, header)
    if plugin.call("device_count", plugin.plugin, result=ctypes.c_int32) == 0:
        reason = plugin.call("why_no_device", plugin.plugin, result=ctypes.c_char_p)
        print("skipped:", reason.decode())
        return 77
    check = {"torch": with_torch, "cupy": with_cupy, "jax": with_jax}[framework]
    try:
        version = check(plugin)
    except ImportError as error:
        print("skipped:", error)
        return 77
    print(f"  {framework} {version}: its tensors and streams are the plugin's")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
