"""Tensors of the library and of other frameworks by DLPack, both ways, at the same addresses.

    exchange.py LIBTUTTI FRAMEWORK      FRAMEWORK: torch, cupy, jax, or tutti (the library itself)

Needs a GPU (with `tutti` the fake one does). Ends with 77 where the framework is not installed.
"""

import sys
import time

try:
    import numpy as np
except ImportError as missing:
    print("skipped:", missing)
    sys.exit(77)

from library import Library  # noqa: E402, it needs NumPy


def numbers(count):
    return np.arange(count, dtype=np.float32) % 1000 - 500


def torch_ways(library, own):
    import torch
    there = library.tensor(numbers(1 << 20)).copy_to("GPU:0")
    seen = torch.from_dlpack(there)
    assert seen.data_ptr() == there.address, "PyTorch copied"
    assert np.array_equal(seen.cpu().numpy(), numbers(1 << 20)), "PyTorch sees other numbers"
    # On a stream of PyTorch's, which ours waits for.
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        seen = torch.from_dlpack(there)
        seen.mul_(2)
    own.wait_stream(library.wrap_stream("GPU:0", side.cuda_stream))
    assert np.array_equal(there.numpy(), numbers(1 << 20) * 2), "PyTorch's work is not seen"
    # The other way: large, so that a stream that is not respected reads too early.
    with torch.cuda.stream(side):
        theirs = torch.zeros(1 << 26, device="cuda")
        for _ in range(20):
            theirs += 1
        taken = library.from_dlpack(theirs)
    assert taken.address == theirs.data_ptr(), "the library copied"
    assert taken.device.endswith("/device:GPU:0"), taken.device
    assert (taken.numpy() == 20).all(), "the library reads before PyTorch's work is done"
    strided = torch.arange(12, device="cuda", dtype=torch.int64).reshape(3, 4)[:, 1:3]
    assert np.array_equal(library.from_dlpack(strided).numpy(), strided.cpu().numpy()), "strides"
    # The memory lives as long as either side holds it.
    expected = theirs[:5].cpu().numpy()
    del theirs
    torch.cuda.empty_cache()
    assert np.array_equal(taken.numpy()[:5], expected), "the memory went with PyTorch's tensor"
    kept = torch.from_dlpack(library.tensor(numbers(100)).copy_to("GPU:0"))
    assert np.array_equal(kept.cpu().numpy(), numbers(100)), "the memory went with the library's"
    began = time.perf_counter()
    for _ in range(1000):
        torch.from_dlpack(there)
    print(f"  torch.from_dlpack: {(time.perf_counter() - began) * 1e3:.1f} us a call")
    return "PyTorch " + torch.__version__


def cupy_ways(library, own):
    import cupy
    there = library.tensor(numbers(1 << 16)).copy_to("GPU:0")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        seen = cupy.from_dlpack(there)
        assert seen.data.ptr == there.address, "CuPy copied"
        seen *= 2
    own.wait_stream(library.wrap_stream("GPU:0", stream.ptr))
    assert np.array_equal(there.numpy(), numbers(1 << 16) * 2), "CuPy's work is not seen"
    with stream:
        theirs = cupy.zeros(1 << 24, dtype=cupy.float32)
        for _ in range(20):
            theirs += 1
        taken = library.from_dlpack(theirs)
    assert taken.address == theirs.data.ptr, "the library copied"
    assert (taken.numpy() == 20).all(), "the library reads before CuPy's work is done"
    return "CuPy " + cupy.__version__


def jax_ways(library, own):
    import os
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.numpy as jnp
    there = library.tensor(numbers(1 << 16)).copy_to("GPU:0")
    own.synchronize()
    seen = jax.dlpack.from_dlpack(there)
    assert seen.unsafe_buffer_pointer() == there.address, "JAX copied"
    assert np.array_equal(np.asarray(seen), numbers(1 << 16)), "JAX sees other numbers"
    theirs = jnp.arange(1 << 20, dtype=jnp.float32) * 3
    taken = library.from_dlpack(theirs)
    assert taken.address == theirs.unsafe_buffer_pointer(), "the library copied"
    assert np.array_equal(taken.numpy(), np.asarray(theirs)), "the library sees other numbers"
    return "JAX " + jax.__version__


def own_ways(library, own):
    there = library.tensor(numbers(1000).reshape(10, 100)).copy_to("GPU:0")
    side = library.stream("GPU:0")
    for stream in (None, -1, 1, 2, own.handle, side.handle):
        for version in (None, (1, 0)):
            capsule = there.__dlpack__(stream=stream, max_version=version)

            class Producer:
                def __dlpack_device__(self):
                    return there.__dlpack_device__()

                def __dlpack__(self, **_):
                    return capsule

            taken = library.from_dlpack(Producer())
            assert taken.address == there.address, "it was copied"
            assert np.array_equal(taken.numpy(), there.numpy()), "other numbers"
    moved = there.copy_to("GPU:0", stream=side).copy_to("CPU:0", pinned=True)
    assert np.array_equal(moved.numpy(), there.numpy()), "other numbers"
    return "the library"


def main(path, framework):
    library = Library(path)
    if not library.devices(b"GPU"):
        print("skipped: no GPU:", library.text("tutti_device_describe_plugins", None))
        return 77
    ways = {"torch": torch_ways, "cupy": cupy_ways, "jax": jax_ways, "tutti": own_ways}[framework]
    try:
        name = ways(library, library.own_stream("GPU:0"))
    except ImportError as error:
        print("skipped:", error)
        return 77
    print(f"  {name}: DLPack both ways, at the same addresses")
    library.shut_down()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
