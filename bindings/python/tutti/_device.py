"""Device names and device scopes."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Iterator, Optional, Union

from tutti import _arguments, _native, _scope, errors


class DeviceSpec:
    """A device name, /job:worker/replica:0/task:1/device:GPU:0, with every part optional: job,
    replica, task, device_type ("CPU", "GPU"), device_index. A job that is a number is taken as its
    text. Immutable."""

    __slots__ = ("_handle",)

    def __init__(self, job: Union[str, int, None] = None, replica: Optional[int] = None,
                 task: Optional[int] = None, device_type: Optional[str] = None,
                 device_index: Optional[int] = None):
        if isinstance(job, int):
            job = str(job)
        self._handle = _native.device_spec_create(job, replica, task, device_type, device_index)

    @classmethod
    def _of(cls, handle: Any) -> "DeviceSpec":
        spec = cls.__new__(cls)
        spec._handle = handle
        return spec

    @classmethod
    def from_string(cls, spec: Optional[str] = None, *,
                    text: Optional[str] = None) -> "DeviceSpec":
        """The spec of a text: "/job:ps/device:GPU:0", "/GPU:0" or "CPU:1"; ValueError names the
        part that does not read, and the nearest that would. `text` is another name of the
        argument."""
        return cls._of(_native.device_spec_parse(spec if text is None else text))

    parse = from_string
    parse_from_string = from_string

    def merge(self, dev: Union["DeviceSpec", str, None] = None, *,
              inner: Union["DeviceSpec", str, None] = None) -> "DeviceSpec":
        """`dev` where it says something, else this one: how nested scopes combine. `inner` is
        another name of the argument."""
        dev = dev if inner is None else inner
        if isinstance(dev, str):
            dev = DeviceSpec.from_string(dev)
        given = _arguments.handle_of("make_merged_spec: dev", dev, DeviceSpec)
        return self._of(_native.device_spec_merge(self._handle, given))

    make_merged_spec = merge

    def replace(self, **parts: Any) -> "DeviceSpec":
        """The same with other parts."""
        names = ("job", "replica", "task", "device_type", "device_index")
        return DeviceSpec(**{**{name: getattr(self, name) for name in names}, **parts})

    def to_string(self) -> str:
        """The full form, "/job:ps/device:GPU:0"."""
        return _native.device_spec_text(self._handle)

    @property
    def job(self) -> Optional[str]:
        """The job, "worker" and so on; None where it is not said."""
        return _native.device_spec_job(self._handle)

    @property
    def replica(self) -> Optional[int]:
        """The replica; None where it is not said."""
        return _native.device_spec_replica(self._handle)

    @property
    def task(self) -> Optional[int]:
        """The task; None where it is not said."""
        return _native.device_spec_task(self._handle)

    @property
    def device_type(self) -> Optional[str]:
        """"CPU" or "GPU"; None where it is not said."""
        return _native.device_spec_type(self._handle)

    @property
    def device_index(self) -> Optional[int]:
        """The number of the device among those of its type; None where it is not said."""
        return _native.device_spec_index(self._handle)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceSpec):
            return NotImplemented
        return _native.device_spec_equal(self._handle, other._handle)

    def __hash__(self) -> int:
        return hash(self.to_string())

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return f"DeviceSpec({self.to_string()!r})"


# Tells `device()` from `device(None)`.
_NOT_GIVEN: Any = object()


@contextlib.contextmanager
def device(device_name: Union[str, DeviceSpec, None] = _NOT_GIVEN, *,
           name: Union[str, DeviceSpec, None] = None) -> Iterator[Optional[DeviceSpec]]:
    """A device scope: `with tutti.device("CPU:1"):`. Nested scopes merge, the inner one wins.
    device_name, also as `name`: a text, a DeviceSpec, or None, which clears; a function is a
    RuntimeError. Belongs to the thread of control (contextvars).

    What is made inside lies on that device: tensors, variables and datasets, and what run runs,
    where no strategy's scope says otherwise, for a strategy has devices of its own: a replica or
    update function begins on its device, whatever scope it is called in. A device that
    is not there is no error here, but a NotFoundError of what is made on it first, which names the
    devices that there are (config.set_soft_device_placement takes the CPU instead); a device of
    another job is an UnimplementedError."""
    if device_name is not _NOT_GIVEN:
        name = device_name
    if callable(name):
        raise errors.UnsupportedTypeError(
            "device: a name or a DeviceSpec is needed, not a function")
    if name is None:
        spec = None
    else:
        spec = DeviceSpec.from_string(name) if isinstance(name, str) else name
        _arguments.check("device: device_name", spec, DeviceSpec)
        outer = current_device()
        if outer is not None:
            spec = outer.merge(spec)
    token = _scope.device.set(spec)
    try:
        yield spec
    finally:
        _scope.device.reset(token)


def place() -> Optional[str]:
    """The full name of the device on which something is made here, None outside of any scope.
    NotFoundError for one that is not there."""
    spec = current_device()
    return None if spec is None else _native.device_place(spec.to_string())


def current_device() -> Optional[DeviceSpec]:
    """What the device scopes around here say together. Outside of any None, and in a replica or
    update function its device."""
    spec: Optional[DeviceSpec] = _scope.device.get()
    if spec is not None:
        return spec
    name: Optional[str] = getattr(_scope.scope.get(), "device", None)
    return None if name is None else _of_name(name)


@functools.lru_cache(maxsize=1024)
def _of_name(name: str) -> DeviceSpec:
    return DeviceSpec.from_string(name)
