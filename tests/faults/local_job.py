"""The workers of one job on this machine, started without a supervisor, so that nobody but Tutti
itself tells the survivors of a death. Lines and ends carry the time at which they were seen."""

import json
import os
import secrets
import selectors
import signal
import socket
import subprocess
import time

SECRET = "TUTTI_JOB_SECRET"


class Worker:
    def __init__(self, index, process):
        self.index = index
        self.process = process
        self.pid = process.pid
        self.lines = []          # (time, text), stdout and stderr
        self.ended_at = None
        self.status = None       # as subprocess has it: -9 is SIGKILL
        self._partial = b""

    @property
    def running(self):
        return self.ended_at is None

    def take(self, data, now):
        *lines, self._partial = (self._partial + data).split(b"\n")
        self.lines += [(now, line.decode(errors="replace")) for line in lines]

    def finish(self, now):
        if self._partial:
            self.take(b"\n", now)


class LocalJob:
    """with LocalJob(3, ["python3", "train.py"]) as job: ..."""

    def __init__(self, num_workers, command, variables=None, control_ports=None):
        """`control_ports`: a set to which the workers' control ports are added before they
        start."""
        self.secret = secrets.token_hex(32)
        self.workers = []
        self._selector = selectors.DefaultSelector()
        self._ports = [self._reserve_port() for _ in range(num_workers)]
        numbers = [port.getsockname()[1] for port in self._ports]
        if control_ports is not None:
            control_ports.update(numbers)
        addresses = [f"127.0.0.1:{number}" for number in numbers]
        try:
            for index in range(num_workers):
                self._start(index, command, addresses, variables or {})
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _reserve_port():
        # Bound and not listening: nobody else gets it, and a server with SO_REUSEADDR can.
        reserved = socket.socket()
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        return reserved

    def _start(self, index, command, addresses, variables):
        environment = dict(os.environ)
        environment.pop("TUTTI_JOB_SECRET_FILE", None)
        environment.update({
            "TF_CONFIG": json.dumps({"cluster": {"worker": addresses},
                                     "task": {"type": "worker", "index": index}}),
            SECRET: self.secret, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", **variables})
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0,
                                   start_new_session=True)
        worker = Worker(index, process)
        os.set_blocking(process.stdout.fileno(), False)
        self._selector.register(process.stdout, selectors.EVENT_READ, (self._on_output, worker))
        self._selector.register(os.pidfd_open(process.pid), selectors.EVENT_READ,
                                (self._on_end, worker))
        self.workers.append(worker)

    def _on_output(self, worker, stream):
        now = time.monotonic()
        data = stream.read(1 << 16)
        if data:
            worker.take(data, now)
        elif data is not None:
            self._selector.unregister(stream)
            worker.finish(now)

    def _on_end(self, worker, pidfd):
        worker.ended_at = time.monotonic()
        self._selector.unregister(pidfd)
        os.close(pidfd)
        worker.status = worker.process.wait()
        # What it wrote before it ended is there already; a child of it may hold the other end.
        if not worker.process.stdout.closed:
            data = worker.process.stdout.read(1 << 20)
            if data:
                worker.take(data, worker.ended_at)

    def pump(self, condition, bound_s):
        """Waits until the condition holds; False when it does not within the bound."""
        give_up = time.monotonic() + bound_s
        while not condition():
            left = give_up - time.monotonic()
            if left <= 0 or not self._selector.get_map():
                return condition()
            for key, _ in self._selector.select(min(left, 0.1)):
                handle, worker = key.data
                handle(worker, key.fileobj)
        return True

    def kill(self, index):
        """kill -9, and the time of it."""
        now = time.monotonic()
        os.kill(self.workers[index].pid, signal.SIGKILL)
        return now

    def close(self):
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.kill()
                worker.process.wait()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, int):
                os.close(key.fileobj)
        self._selector.close()
        for worker in self.workers:
            worker.process.stdout.close()
        for port in self._ports:
            port.close()

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()
