"""A job of worker processes for tests: started, watched line by line, killed, cleaned up.

Each worker gets TF_CONFIG with loopback addresses and a job secret of the job's own. The ports are
held by sockets that are bound and do not listen, so that nobody else gets them before the workers do.
"""

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import threading
import time

HANG_S = 60  # no step of a test takes that long unless something hangs


class Ports:
    """Loopback ports that stay ours: a worker that listens on one sets SO_REUSEADDR, as these do."""

    def __init__(self, count):
        self.sockets = []
        for _ in range(count):
            held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", 0))
            self.sockets.append(held)

    def addresses(self):
        return [f"127.0.0.1:{held.getsockname()[1]}" for held in self.sockets]

    def close(self):
        for held in self.sockets:
            held.close()


class Worker:
    def __init__(self, index, command, environment):
        self.index = index
        self.lines = []  # (monotonic seconds when it was read, text)
        self.changed = threading.Condition()
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, errors="replace",
                                        start_new_session=True)
        self.ended = None
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        self.waiter = threading.Thread(target=self._wait)
        self.waiter.start()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append((time.monotonic(), line.rstrip("\n")))
                self.changed.notify_all()

    def _wait(self):
        self.process.wait()
        with self.changed:
            self.ended = time.monotonic()
            self.changed.notify_all()

    @property
    def pid(self):
        return self.process.pid

    def output(self):
        with self.changed:
            return "\n".join(line for _, line in self.lines)

    def wait_for_line(self, pattern, timeout=HANG_S):
        """The first line that matches, as (time read, match). Fails when the worker ends before."""
        compiled = re.compile(pattern)
        seen = 0
        deadline = time.monotonic() + timeout
        with self.changed:
            while True:
                for at, line in self.lines[seen:]:
                    found = compiled.search(line)
                    if found:
                        return at, found
                seen = len(self.lines)
                left = deadline - time.monotonic()
                if left <= 0 or (self.ended and not self.reader.is_alive()):
                    why = "ended" if self.ended else f"printed no such line in {timeout} s"
                    raise AssertionError(f"worker {self.index} {why}; wanted {pattern!r}, got:\n" +
                                         "\n".join(line for _, line in self.lines))
                self.changed.wait(min(left, 0.2))

    def wait_for_end(self, timeout=HANG_S):
        """The exit status."""
        self.waiter.join(timeout)
        if self.waiter.is_alive():
            raise AssertionError(f"worker {self.index} (pid {self.pid}) hangs; it printed:\n" +
                                 self.output())
        return self.process.returncode

    def send(self, number):
        self.process.send_signal(number)


class Job:
    """Use it as a context: leaving it kills what is left and checks that nothing is."""

    def __init__(self, workers, command, variables=None):
        self.ports = Ports(workers)
        self.secret = secrets.token_hex(32)
        self.sockets_before = abstract_sockets()
        base = {key: value for key, value in os.environ.items() if not key.startswith("TUTTI_")}
        base.update({"TUTTI_JOB_SECRET": self.secret, "OMP_NUM_THREADS": "1"})
        base.update(variables or {})
        self.workers = []
        for index in range(workers):
            environment = dict(base)
            environment["TF_CONFIG"] = json.dumps({
                "cluster": {"worker": self.ports.addresses()},
                "task": {"type": "worker", "index": index}})
            self.workers.append(Worker(index, command, environment))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        sessions = [worker.pid for worker in self.workers]
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.send(signal.SIGCONT)
                worker.process.kill()
            worker.process.wait()
        for pid in processes_of_sessions(sessions):
            os.kill(pid, signal.SIGKILL)
        for worker in self.workers:
            worker.reader.join()
            worker.process.stdout.close()
        self.ports.close()

    def wait_ready(self):
        for worker in self.workers:
            worker.wait_for_line("^ready ")

    def check_nothing_left(self, forked_children=False):
        """After the workers have ended: no process, no socket, no file in shared memory."""
        for worker in self.workers:
            worker.wait_for_end()
        deadline = time.monotonic() + HANG_S
        sessions = [worker.pid for worker in self.workers]
        while time.monotonic() < deadline:
            left = [] if not forked_children else processes_of_sessions(sessions)
            if not left:
                break
            time.sleep(0.1)
        left = processes_of_sessions(sessions)
        assert not left, f"processes are left: {left}"
        mine = abstract_sockets() - self.sockets_before
        assert not mine, f"sockets are left: {mine}"
        files = [name for name in os.listdir("/dev/shm") if "tutti" in name]
        assert not files, f"shared memory is left: {files}"


def abstract_sockets():
    """Addresses of ours in the abstract namespace."""
    with open("/proc/net/unix", encoding="utf-8") as table:
        return set(re.findall(r"@tutti-\S+", table.read()))


def processes_of_sessions(sessions):
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) in sessions and fields[0] != "Z":
            found.append(int(name))
    return found


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
