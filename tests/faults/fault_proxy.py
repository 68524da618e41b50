"""A proxy between the workers of one machine, which disturbs one of their connections.

All TCP connections lead through it (redirect_connect.c). Those to the workers' control ports pass
as they are. Of the others, which carry tensors, it knows where messages of the handshake and frames
begin and end, and nothing else. When the moment of its Plan has come on one of them, it does what
the plan says there, once:

  reset, truncate   the connection ends at that byte, with a reset or in good order
  blackhole         from that byte on nothing gets through, and nothing ends; of all connections
  mute              the same of this connection alone
  slow              the bytes stand still for a while, and then trickle
  flip              one bit is another one
  stale_epoch       the frame is of an epoch before, with the checksum that belongs to it
  duplicate         the frame, or message of the handshake, comes twice
  signal            the callback of the plan: the bytes pass as they are
"""

import dataclasses
import random
import select
import socket
import struct
import threading
import time
import typing

HANDSHAKE_MAGIC = b"TUTTIpr1"
HANDSHAKE_HEADER = 15
HANDSHAKE_WORKERS = 16     # where the first message has who connects, and to whom
HANDSHAKE_MESSAGES = 2  # each way
FRAME_HEADER = 48
SLOW_S = 1.0

MOMENTS = ("connect", "handshake", "mid", "between")


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82f63b78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC = _crc_table()


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = (crc >> 8) ^ _CRC[(crc ^ byte) & 0xff]
    return crc ^ 0xffffffff


@dataclasses.dataclass
class Plan:
    fault: str
    moment: str
    chance: random.Random
    on_moment: typing.Callable[[], None] = lambda: None

    def __post_init__(self):
        self.way = self.chance.randrange(2)        # 0: from who connected
        self.message = 0 if self.moment == "connect" else self.chance.randrange(HANDSHAKE_MESSAGES)
        self.frame = self.chance.randrange(2, 40)  # mid, between; of that way of the connection
        self.position = self.chance.random()       # within it


class _Stream:
    """One way of one connection: cuts it into units and lets them go on."""

    def __init__(self, proxy, link, way):
        self.proxy, self.link, self.way = proxy, link, way
        self.pending = b""
        self.handshakes = 0
        self.frames = 0

    def take(self, data):
        """What of it goes on now; disturbs it when the moment has come."""
        self.pending += data
        out = []
        while True:
            size = self._unit_size()
            if size is None or len(self.pending) < size:
                return b"".join(out)
            unit, self.pending = self.pending[:size], self.pending[size:]
            greets = self.handshakes < HANDSHAKE_MESSAGES
            number = self.handshakes if greets else self.frames
            if greets and number == 0 and self.way == 0:
                self.link.workers = struct.unpack_from("<qq", unit, HANDSHAKE_WORKERS)
            if greets:
                self.handshakes += 1
            else:
                self.frames += 1
            if self.proxy.is_moment(self, greets, number, unit):
                self.proxy.disturbed = self.link.workers
                out.append(self.proxy.disturb(self.link, b"".join(out), unit, greets))
                if self.link.ended or self.link.muted or self.proxy.blackhole.is_set():
                    return b""
                out = out[-1:]
            else:
                out.append(unit)

    def _unit_size(self):
        if self.handshakes < HANDSHAKE_MESSAGES:
            if len(self.pending) < HANDSHAKE_HEADER:
                return None
            assert self.pending.startswith(HANDSHAKE_MAGIC), self.pending[:16]
            return HANDSHAKE_HEADER + struct.unpack_from("<H", self.pending, 13)[0]
        if len(self.pending) < FRAME_HEADER:
            return None
        assert self.pending.startswith(b"ttlk"), self.pending[:16]
        body, data = struct.unpack_from("<II", self.pending, 32)
        return FRAME_HEADER + body + data


class _Link:
    """One connection: a socket on each side."""

    def __init__(self, proxy, connector, acceptor, carries_tensors):
        self.proxy = proxy
        self.ends = (connector, acceptor)
        self.workers = ()  # who connected and to whom, once that is known
        self.ended = False
        self.muted = False
        self.streams = [_Stream(proxy, self, way) for way in (0, 1)] if carries_tensors else None
        self.lock = threading.Lock()
        self.open_ways = 2
        for way in (0, 1):
            proxy.start(self.pump, way)

    def pump(self, way):
        source, sink = self.ends[way], self.ends[1 - way]
        try:
            while not self.ended:
                data = source.recv(1 << 16)
                if self.muted or self.proxy.blackhole.is_set():
                    if not data:
                        return  # and nobody learns of it
                    continue
                if self.ended:
                    break
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    break
                sink.sendall(self.streams[way].take(data) if self.streams else data)
        except OSError:
            if not self.muted and not self.proxy.blackhole.is_set():
                self.end(reset=True)
        with self.lock:
            self.open_ways -= 1
            if self.open_ways == 0:
                self.end()

    def end(self, reset=False):
        self.ended = True
        for end in self.ends:
            try:
                if reset:
                    # A thread that reads would keep the socket open: this wakes it, and says
                    # nothing to the other side.
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    end.shutdown(socket.SHUT_RD)
                else:
                    end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()


class FaultProxy:
    """with FaultProxy(plan) as proxy: ... proxy.variables(library) ... proxy.control_ports"""

    def __init__(self, plan):
        self.plan = plan
        self.control_ports = set()
        self.blackhole = threading.Event()
        self.happened_at = None
        self.disturbed = ()  # the two workers whose connection it was
        self.problem = None
        self._lock = threading.Lock()
        self._links = []
        self._threads = []
        self._stopping = False
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("0.0.0.0", 0))
        self._listener.listen(64)

    def __enter__(self):
        self.start(self._accept)
        return self

    def __exit__(self, *failure):
        self._stopping = True
        for link in list(self._links):
            link.end()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def variables(self, library):
        port = self._listener.getsockname()[1]
        return {"LD_PRELOAD": library, "REDIRECT_CONNECT_PORT": str(port)}

    def start(self, body, *arguments):
        def guarded():
            try:
                body(*arguments)
            except Exception as problem:  # pylint: disable=broad-except
                self.problem = self.problem or problem
        thread = threading.Thread(target=guarded, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while not self._stopping:
            if not select.select([self._listener], [], [], 0.05)[0]:
                continue
            connector, _ = self._listener.accept()
            high, low = map(int, connector.getsockname()[0].split(".")[2:])
            port = 256 * high + low
            acceptor = socket.socket()
            try:
                acceptor.connect(("127.0.0.1", port))
            except OSError:
                acceptor.close()
                connector.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connector.close()
                continue
            for end in (connector, acceptor):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._links.append(_Link(self, connector, acceptor, port not in self.control_ports))

    # ---- The moment

    def is_moment(self, stream, greets, number, unit):
        plan = self.plan
        if self.happened_at is not None or stream.way != plan.way:
            return False
        framed = plan.fault == "stale_epoch"
        if plan.moment in ("connect", "handshake"):
            come = (not greets and number == 0) if framed else (greets and number == plan.message)
        else:
            # In the middle of an operation is in the middle of a frame that has more than a header.
            come = not greets and number >= plan.frame and (
                plan.moment == "between" or len(unit) > FRAME_HEADER)
        if not come:
            return False
        with self._lock:
            if self.happened_at is not None:
                return False
            self.happened_at = time.monotonic()
        return True

    def disturb(self, link, before, unit, greets):
        """What goes on instead of `before` and `unit`."""
        plan = self.plan
        begins = plan.moment in ("connect", "between")
        at = 0 if begins else 1 + int(plan.position * (len(unit) - 2))
        sink = link.ends[1 - plan.way]
        if plan.fault in ("reset", "truncate"):
            sink.sendall(before + unit[:at])
            link.end(reset=plan.fault == "reset")
            return b""
        if plan.fault in ("blackhole", "mute"):
            sink.sendall(before + unit[:at])
            if plan.fault == "mute":
                link.muted = True
            else:
                self.blackhole.set()
            return b""
        if plan.fault == "slow":
            sink.sendall(before + unit[:at])
            time.sleep(SLOW_S)
            for byte in range(at, min(at + 200, len(unit))):
                sink.sendall(unit[byte:byte + 1])
                time.sleep(0.002)
            return unit[at + 200:]
        if plan.fault == "flip":
            # Of a frame the header, or what a checksum in it covers.
            covered = len(unit) if greets else FRAME_HEADER + struct.unpack_from("<I", unit, 32)[0]
            bit = int(plan.position * 8 * covered)
            flipped = bytearray(unit)
            flipped[bit // 8] ^= 1 << bit % 8
            return before + bytes(flipped)
        if plan.fault == "stale_epoch":
            epoch = struct.unpack_from("<q", unit, 8)[0]
            head = unit[:8] + struct.pack("<q", epoch - 1) + unit[16:FRAME_HEADER - 4]
            return before + head + struct.pack("<I", crc32c(head)) + unit[FRAME_HEADER:]
        if plan.fault == "duplicate":
            return before + unit + unit
        sink.sendall(before + unit[:at])
        plan.on_moment()
        return unit[at:]
