"""The strategies of a case: one of this process, or those of several workers."""

import os
import socket
import threading

import tutti

# The type of the replicas' devices.
DEVICE = os.environ.get("CONFORMANCE_DEVICE", "CPU")


def mirrored(replicas):
    return tutti.distribute.MirroredStrategy([f"{DEVICE}:{i}" for i in range(replicas)])


def reserved_addresses(count):
    """So many addresses of the loopback interface that nobody else gets, and the sockets that see
    to it: the ports stay bound in a way that lets a worker listen there all the same (Linux: both
    sockets have SO_REUSEADDR, and these do not listen)."""
    sockets = [socket.socket() for _ in range(count)]
    for reserved in sockets:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
    return [f"127.0.0.1:{reserved.getsockname()[1]}" for reserved in sockets], sockets


def run_workers(workers, replicas, body):
    """Calls body(strategy, worker) once per worker: several are runtimes of their own, each on a
    thread of its own."""
    if workers == 1:
        with mirrored(replicas) as strategy:
            body(strategy, 0)
        return
    addresses, sockets = reserved_addresses(workers)
    cluster = tutti.train.ClusterSpec({"worker": addresses})
    errors = [None] * workers

    def work(worker):
        resolver = tutti.distribute.cluster_resolver.SimpleClusterResolver(
            cluster, task_type="worker", task_id=worker)
        try:
            with tutti.Runtime() as runtime, runtime.as_default():
                body(tutti.distribute.MultiWorkerMirroredStrategy(
                    resolver, devices=[f"{DEVICE}:{i}" for i in range(replicas)]), worker)
        except Exception as error:  # raised below, where all workers have ended
            errors[worker] = error

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for reserved in sockets:
        reserved.close()
    for error in errors:
        if error is not None:
            raise error
