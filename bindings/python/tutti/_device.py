"""Device names and device scopes."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Optional, Union

from tutti import _arguments, _native, _scope


class DeviceSpec:
    """A device name, /job:worker/replica:0/task:1/device:GPU:0, with every part optional: job,
    replica, task, device_type ("CPU", "GPU"), device_index. Immutable."""

    __slots__ = ("_handle",)

    def __init__(self, job: Optional[str] = None, replica: Optional[int] = None,
                 task: Optional[int] = None, device_type: Optional[str] = None,
                 device_index: Optional[int] = None):
        self._handle = _native.device_spec_create(job, replica, task, device_type, device_index)

    @classmethod
    def _of(cls, handle: Any) -> "DeviceSpec":
        spec = cls.__new__(cls)
        spec._handle = handle
        return spec

    @classmethod
    def from_string(cls, text: str) -> "DeviceSpec":
        """The spec of a text: "/job:ps/device:GPU:0", "/GPU:0" or "CPU:1"; ValueError names the
        part that does not read."""
        return cls._of(_native.device_spec_parse(text))

    parse = from_string

    def merge(self, inner: Union["DeviceSpec", str]) -> "DeviceSpec":
        """`inner` where it says something, else this one: how nested scopes combine."""
        if isinstance(inner, str):
            inner = DeviceSpec.from_string(inner)
        given = _arguments.handle_of("merge: inner", inner, DeviceSpec)
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


@contextlib.contextmanager
def device(name: Union[str, DeviceSpec, None]) -> Iterator[Optional[DeviceSpec]]:
    """A device scope: `with tutti.device("/job:ps"):`. Nested scopes merge, the inner one wins;
    None clears. Belongs to the thread of control (contextvars)."""
    if name is None:
        spec = None
    else:
        spec = DeviceSpec.from_string(name) if isinstance(name, str) else name
        _arguments.check("device: name", spec, DeviceSpec)
        outer = _scope.device.get()
        if outer is not None:
            spec = outer.merge(spec)
    token = _scope.device.set(spec)
    try:
        yield spec
    finally:
        _scope.device.reset(token)


def current_device() -> Optional[DeviceSpec]:
    """What the device scopes around here say together; None outside of any."""
    return _scope.device.get()
