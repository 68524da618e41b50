"""Streams and events of GPUs: the order of work there."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from tutti import _arguments, _native


class Stream:
    """A stream of the GPU `device`, on which work is done in the order of the calls, later than
    they return. Threads: any.

        stream = tutti.Stream("GPU:0")
        copy = tensor.copy_to("GPU:0", stream=stream)
        stream.synchronize()

    InvalidArgumentError for a CPU, NotFoundError names the devices that there are. What has
    `__cuda_stream__` takes it (CUDA's Python packages)."""

    __slots__ = ("_handle",)

    def __init__(self, device: str = "GPU:0"):
        self._handle = _native.stream_create(device)

    @classmethod
    def _of(cls, handle: Any) -> "Stream":
        stream = cls.__new__(cls)
        stream._handle = handle
        return stream

    @classmethod
    def wrap(cls, handle: Any, device: str = "GPU:0") -> "Stream":
        """Another library's stream of that device: CUDA's handle, or an object with
        `__cuda_stream__`, `cuda_stream` (torch) or `ptr` (CuPy), whose 0 is the default stream. As
        a number that is 1, and 2 that of the calling thread; InvalidArgumentError for 0 and for
        another device's. It stays its owner's, who must not destroy it before this object goes."""
        for name in ("__cuda_stream__", "cuda_stream", "ptr"):
            if hasattr(handle, name):
                asked = getattr(handle, name)
                asked = asked() if callable(asked) else asked
                handle = int(asked[1] if isinstance(asked, tuple) else asked) or 1
                break
        return cls._of(_native.stream_wrap(device, handle))

    @classmethod
    def of_device(cls, device: str) -> "Stream":
        """The stream on which the library works on a device by itself."""
        return cls._of(_native.device_stream(device))

    @classmethod
    def of_cuda_device(cls, index: int) -> "Stream":
        """The same of the device that CUDA gives the number `index`, as DLPack does: what a
        producer of DLPack's has to be given as `stream`."""
        return cls._of(_native.device_find_stream(index))

    @property
    def handle(self) -> int:
        """CUDA's handle."""
        return _native.stream_handle(self._handle)

    @property
    def device(self) -> str:
        """The device's short name, "GPU:0"."""
        return _native.stream_device(self._handle)

    def __cuda_stream__(self) -> Tuple[int, int]:
        return 0, self.handle

    def synchronize(self, timeout: Optional[float] = None) -> None:
        """Waits until all that has been given to it is done. DataLossError for an error of that
        work; after `timeout` seconds DeadlineExceededError, and the work goes on."""
        _native.stream_synchronize(self._handle, timeout)

    def wait_event(self, event: "Event") -> None:
        """What is given to it later runs after the event, of whichever device. Does not wait."""
        _native.stream_wait_event(
            self._handle, _arguments.handle_of("Stream.wait_event: event", event, Event))

    def wait_stream(self, earlier: "Stream") -> None:
        """What is given to it later runs after all that `earlier` has now. Does not wait."""
        _native.stream_wait_stream(
            self._handle, _arguments.handle_of("Stream.wait_stream: earlier", earlier, Stream))

    def __repr__(self) -> str:
        return f"<tutti.Stream {self.handle:#x} of {self.device}>"


class Event:
    """A point in the work of a stream of the GPU `device`. Until it is recorded it counts as
    reached. timed: elapsed() takes it. Threads: any; record() one at a time."""

    __slots__ = ("_handle",)

    def __init__(self, device: str = "GPU:0", timed: bool = False):
        self._handle = _native.event_create(device, timed)

    def record(self, stream: Stream) -> None:
        """It is reached when what has been given to `stream` is done. InvalidArgumentError for a
        stream of another device."""
        _native.event_record(self._handle,
                             _arguments.handle_of("Event.record: stream", stream, Stream))

    def query(self) -> bool:
        """Whether it is reached."""
        return bool(_native.event_query(self._handle))

    def synchronize(self, timeout: Optional[float] = None) -> None:
        """Waits until it is reached; errors as of Stream.synchronize."""
        _native.event_synchronize(self._handle, timeout)

    def elapsed(self, end: "Event") -> float:
        """Seconds from this event to a later one, `end`; both timed, and reached."""
        nanoseconds = _native.event_read_elapsed(
            self._handle, _arguments.handle_of("Event.elapsed: end", end, Event))
        return nanoseconds / 1e9

