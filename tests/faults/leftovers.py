"""What a job has left on the machine after its end: processes, abstract Unix sockets, TCP sockets,
shared memory.

Other jobs may run at the same time. So a process belongs to the job when it has the job's secret in
its environment, which children inherit, however they were started; and sockets and shared memory
are those that such processes had while the job ran, known by inode."""

import os
import pathlib
import re
import signal

PROC = pathlib.Path("/proc")
SHARED = re.compile(r"/memfd:|/dev/shm/|/SYSV")


def _read(path):
    try:
        return path.read_bytes()
    except OSError:  # it has ended, or is somebody else's
        return b""


def processes_with(variable, value):
    """The pids of the living processes that were started with VARIABLE=VALUE."""
    wanted = f"{variable}={value}".encode()
    return [int(folder.name) for folder in PROC.iterdir()
            if folder.name.isdigit() and wanted in _read(folder / "environ").split(b"\0")]


def shared_memory_of(pid):
    """(device, inode) -> name of what it has mapped or open."""
    found = {}
    for line in _read(PROC / str(pid) / "maps").decode(errors="replace").splitlines():
        fields = line.split(None, 5)
        if len(fields) == 6 and SHARED.search(fields[5]):
            found[(fields[3], int(fields[4]))] = fields[5]
    try:
        descriptors = list((PROC / str(pid) / "fd").iterdir())
    except OSError:
        return found
    for descriptor in descriptors:
        try:
            name, about = os.readlink(descriptor), os.stat(descriptor)
        except OSError:
            continue
        if SHARED.search(name):
            device = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}"
            found[(device, about.st_ino)] = name
    return found


def socket_inodes_of(pid):
    inodes = set()
    try:
        descriptors = list((PROC / str(pid) / "fd").iterdir())
    except OSError:
        return inodes
    for descriptor in descriptors:
        try:
            match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(descriptor))
        except OSError:
            continue
        if match:
            inodes.add(int(match.group(1)))
    return inodes


def unix_sockets():
    """inode -> name of all Unix sockets that have a name."""
    found = {}
    for line in (PROC / "net" / "unix").read_text(errors="replace").splitlines()[1:]:
        fields = line.split(None, 7)
        if len(fields) == 8:
            found[int(fields[6])] = fields[7]
    return found


def tcp_sockets():
    """inode -> local address of all TCP sockets that a process has open."""
    found = {}
    for table in ("tcp", "tcp6"):
        for line in _read(PROC / "net" / table).decode().splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[9] != "0":
                host, port = fields[1].split(":")
                found[int(fields[9])] = f"{host}:{int(port, 16)}"
    return found


def num_tcp_connections(pids):
    """Between these processes."""
    inodes = set().union(*(socket_inodes_of(pid) for pid in pids))
    ends = 0
    for table in ("tcp", "tcp6"):
        for line in _read(PROC / "net" / table).decode().splitlines()[1:]:
            fields = line.split()
            ends += len(fields) > 9 and fields[3] == "01" and int(fields[9]) in inodes
    return ends / 2


class Belongings:
    """What the processes with this variable have; look() may be called again while they run."""

    def __init__(self, variable, value):
        self._variable, self._value = variable, value
        self._memory = {}    # (device, inode) -> name
        self._sockets = {}   # inode -> name

    @staticmethod
    def _socket_names():
        return {**{inode: f"TCP socket {name}" for inode, name in tcp_sockets().items()},
                **{inode: f"Unix socket {name}" for inode, name in unix_sockets().items()}}

    def look(self):
        names = self._socket_names()
        for pid in processes_with(self._variable, self._value):
            self._memory.update(shared_memory_of(pid))
            self._sockets.update({inode: names[inode] for inode in socket_inodes_of(pid)
                                  if inode in names})

    def left(self):
        """What is still there, in words."""
        found = [f"process {pid} ({_read(PROC / str(pid) / 'comm').decode().strip()})"
                 for pid in processes_with(self._variable, self._value)]
        names = self._socket_names()
        found += [name for inode, name in self._sockets.items() if names.get(inode) == name]
        if self._memory:
            holders = {}
            for folder in PROC.iterdir():
                if folder.name.isdigit():
                    for key in shared_memory_of(int(folder.name)).keys() & self._memory.keys():
                        holders.setdefault(key, folder.name)
            found += [f"shared memory {self._memory[key]} in process {pid}"
                      for key, pid in holders.items()]
            found += [f"file {name}" for name in set(self._memory.values())
                      if name.startswith("/dev/shm/") and os.path.exists(name)]
        return found

    def kill(self):
        """Ends the processes that are left."""
        for pid in processes_with(self._variable, self._value):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
