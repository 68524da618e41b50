"""Tutti and another library with C++ dependencies of its own live in one process, whichever is
loaded first, and both work.

The library is loaded with RTLD_DEEPBIND: TensorFlow brings a protobuf of another version into the
process's global scope, where ours would find it first (as long as ours is the distribution's shared
library and not a part of libtutti).

    cohabitation_test.py LIBRARY|package protobuf|grpc|jax|torch|tensorflow before|after

With `package` instead of a library it is the Python package that is imported, as it stands.

Exits with 77, which CTest shows as skipped, when the other library is not installed here.
"""

import ctypes
import importlib
import os
import secrets
import socket
import sys
import threading


def use_tutti(path):
    """Reads three numbers from a dataset through the C interface, prefetched by a thread."""
    tutti = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)
    for name in ("tutti_dataset_create_range", "tutti_dataset_prefetch", "tutti_iterator_create",
                 "tutti_iterator_next", "tutti_dataset_serialize", "tutti_runtime_shutdown",
                 "tutti_value_get_leaf_tensor", "tutti_tensor_get_data"):
        getattr(tutti, name).restype = ctypes.c_void_p

    def check(status):
        assert status is None, "a call of the C interface failed"

    dataset, iterator, definition = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    int64 = ctypes.c_int64
    check(tutti.tutti_dataset_create_range(None, int64(5), int64(8), int64(1), None,
                                           ctypes.byref(dataset)))
    check(tutti.tutti_dataset_prefetch(ctypes.byref(dataset), int64(2), None))
    check(tutti.tutti_dataset_serialize(dataset, ctypes.byref(definition)))  # protobuf inside
    check(tutti.tutti_iterator_create(dataset, None, None, ctypes.byref(iterator)))
    numbers = []
    while True:
        value = ctypes.c_void_p()
        check(tutti.tutti_iterator_next(iterator, None, ctypes.byref(value)))
        if not value:
            break
        tensor = ctypes.c_void_p(tutti.tutti_value_get_leaf_tensor(value, ctypes.c_size_t(0)))
        numbers.append(int64.from_address(tutti.tutti_tensor_get_data(tensor)).value)
        tutti.tutti_value_release(value)
    assert numbers == [5, 6, 7], numbers
    tutti.tutti_bytes_release(definition)
    tutti.tutti_iterator_release(iterator)
    tutti.tutti_dataset_release(dataset)
    check(tutti.tutti_runtime_shutdown(None, None))


def use_package():
    """Through the Python package: saves and restores a position, and lets two workers meet."""
    import tutti

    dataset = tutti.data.Dataset.range(10).shuffle(5, seed=1).batch(4)
    steps, again = iter(dataset), iter(dataset)
    next(steps)
    again.restore(steps.save())  # protobuf inside
    assert [list(step) for step in again] == [list(step) for step in steps]
    reduce_over_workers(tutti)


def reduce_over_workers(tutti):
    """Two workers of this process meet over gRPC and reduce."""
    os.environ["TUTTI_JOB_SECRET"] = secrets.token_hex(32)
    sockets = [socket.socket() for _ in range(2)]
    for reserved in sockets:  # nobody else gets these ports, and a worker may listen there
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
    cluster = {"worker": [f"127.0.0.1:{reserved.getsockname()[1]}" for reserved in sockets]}
    sums = []

    def work(worker):
        resolver = tutti.distribute.cluster_resolver.SimpleClusterResolver(
            cluster, task_type="worker", task_id=worker)
        with tutti.Runtime() as runtime, runtime.as_default():
            strategy = tutti.distribute.MultiWorkerMirroredStrategy(resolver, timeout=60)
            sums.append(float(strategy.reduce("sum", strategy.run(lambda: 1.0 + worker))))

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for reserved in sockets:
        reserved.close()
    assert sums == [3.0, 3.0], sums


def use_protobuf():
    from google.protobuf import struct_pb2

    message = struct_pb2.Struct()
    message["a"] = 1
    assert struct_pb2.Struct.FromString(message.SerializeToString()) == message


def use_grpc():
    import grpc
    from concurrent import futures

    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            channel.unary_unary("/no/such")(b"", timeout=30)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error
    server.stop(None).wait()


def use_jax():
    import jax

    assert int(jax.jit(lambda x: (x * x).sum())(jax.numpy.arange(4))) == 14


def use_torch():
    import torch

    assert (torch.ones(64, 64) @ torch.ones(64, 64)).sum().item() == 64**3


def use_tensorflow():
    import tensorflow

    assert int(tensorflow.reduce_sum(tensorflow.range(4))) == 6


def main():
    library, partner, order = sys.argv[1:]
    use = use_package if library == "package" else lambda: use_tutti(library)
    modules = {"protobuf": "google.protobuf", "grpc": "grpc"}
    try:
        if order == "before":
            use()
        importlib.import_module(modules.get(partner, partner))
    except ImportError as error:
        print(f"SKIPPED: {partner} is not installed for {sys.executable}: {error}")
        return 77
    use_partner = globals()[f"use_{partner}"]
    use_partner()
    use()
    use_partner()
    use()
    print(f"{partner} and tutti work in one process")
    return 0


if __name__ == "__main__":
    sys.exit(main())
