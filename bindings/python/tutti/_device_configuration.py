"""What physical devices are presented as, and where things are placed that cannot lie elsewhere."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

from tutti import _arguments, _native

_BYTES_PER_MEGABYTE = 1 << 20


class PhysicalDevice(NamedTuple):
    """A device of this machine: name ("/physical_device:CPU:0"), device_type ("CPU", "GPU")."""

    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """A device as programs name it: name ("/device:CPU:0"), device_type ("CPU", "GPU")."""

    name: str
    device_type: str


class LogicalDeviceConfiguration:
    """One of the logical devices that a physical one is presented as. memory_limit: megabytes;
    None: no limit, which a CPU must have, whose logical devices share its memory.
    experimental_priority: of GPUs, without effect."""

    __slots__ = ("memory_limit", "experimental_priority")

    def __init__(self, memory_limit: Optional[float] = None,
                 experimental_priority: Optional[int] = None):
        self.memory_limit = memory_limit
        self.experimental_priority = experimental_priority

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LogicalDeviceConfiguration):
            return NotImplemented
        return (self.memory_limit, self.experimental_priority) == (
            other.memory_limit, other.experimental_priority)

    def __hash__(self) -> int:
        return hash((self.memory_limit, self.experimental_priority))

    def __repr__(self) -> str:
        return (f"LogicalDeviceConfiguration(memory_limit={self.memory_limit}, "
                f"experimental_priority={self.experimental_priority})")


# The class of tutti.config has attributes with the names of these classes.
_Physical = Union[PhysicalDevice, str]
_PhysicalDevices = List[PhysicalDevice]
_LogicalDevices = List[LogicalDevice]
_Configuration = List[LogicalDeviceConfiguration]
_Configurations = Sequence[LogicalDeviceConfiguration]


def _megabytes(size: int) -> Union[int, float]:
    whole, rest = divmod(size, _BYTES_PER_MEGABYTE)
    return whole if rest == 0 else size / _BYTES_PER_MEGABYTE


def _physical(names: str) -> _PhysicalDevices:
    return [PhysicalDevice(name, name.split(":")[1]) for name in names.split()]


def _name_of(what: str, device: _Physical) -> str:
    if isinstance(device, PhysicalDevice):
        return device.name
    _arguments.check(what, device, str)
    return device


class DeviceConfiguration:
    """The devices of `tutti.config`. Configuration holds until devices are used, by a strategy, a
    variable, a device scope or list_logical_devices; what would change later is a
    FailedPreconditionError, which is a RuntimeError."""

    LogicalDeviceConfiguration = LogicalDeviceConfiguration
    PhysicalDevice = PhysicalDevice
    LogicalDevice = LogicalDevice

    def list_physical_devices(self, device_type: Optional[str] = None) -> _PhysicalDevices:
        """The devices of this machine of device_type ("CPU", "GPU"; None: all)."""
        return _physical(_native.device_list_physical(device_type))

    def list_logical_devices(self, device_type: Optional[str] = None) -> _LogicalDevices:
        """The devices as programs name them, of device_type ("CPU", "GPU"; None: all). Fixes the
        configuration."""
        return [LogicalDevice("/device:" + name, name.split(":")[0])
                for name in _native.device_list(device_type).split()]

    def get_visible_devices(self, device_type: Optional[str] = None) -> _PhysicalDevices:
        """The devices of this machine that are used, of device_type ("CPU", "GPU"; None: all)."""
        return _physical(_native.device_list_visible(device_type))

    def set_visible_devices(self, devices: Union[_Physical, Sequence[_Physical]],
                            device_type: Optional[str] = None) -> None:
        """Uses of device_type (None: all) only `devices`, as list_physical_devices gives them.
        ValueError for a device of another type, and where no CPU is left: the host cannot be
        hidden. NotFoundError for a device that is not there."""
        given = [devices] if isinstance(devices, (PhysicalDevice, str)) else list(devices)
        _native.device_set_visible(
            device_type, [_name_of("set_visible_devices: devices", one) for one in given])

    def get_logical_device_configuration(self, device: _Physical) -> Optional[_Configuration]:
        """As what `device`, a physical one, was set to be presented; None where it was not set."""
        name = _name_of("get_logical_device_configuration: device", device)
        count = _native.device_read_logical(name)
        if count is None:
            return None
        limits = [_native.device_read_logical_limit(name, i) for i in range(count)]
        return [LogicalDeviceConfiguration(_megabytes(limit) if limit else None)
                for limit in limits]

    def set_logical_device_configuration(self, device: _Physical,
                                         logical_devices: _Configurations) -> None:
        """Presents `device`, as list_physical_devices gives it, as `logical_devices`, which are
        then all that there are; those of a GPU share its memory. ValueError for none, for a
        memory_limit of a CPU, and for limits that are together more than a GPU has; NotFoundError
        for a device that is not there."""
        what = "set_logical_device_configuration: logical_devices"
        limits = []
        for one in logical_devices:
            _arguments.check(what, one, LogicalDeviceConfiguration)
            limits.append(0 if one.memory_limit is None
                          else int(one.memory_limit * _BYTES_PER_MEGABYTE))
        _native.device_set_logical(
            _name_of("set_logical_device_configuration: device", device), limits)

    def get_memory_info(self, device: str) -> Dict[str, int]:
        """Bytes that the tensors of `device` ("GPU:0") take ("current"), and the most that they
        have taken ("peak"); of a CPU those of all tensors and buffers. NotFoundError for a device
        that is not there."""
        return {"current": _native.device_read_used_bytes(device),
                "peak": _native.device_read_peak_bytes(device)}

    def reset_memory_stats(self, device: str) -> None:
        """From now on the peak of `device`, a GPU, is what is used now. ValueError for a CPU,
        NotFoundError for a device that is not there."""
        _native.device_reset_peak_bytes(device)

    def set_soft_device_placement(self, enabled: bool) -> None:
        """enabled: whether what is made on a device that is not there, or cannot hold tensors, lies
        on CPU:0; else it is an error."""
        _native.runtime_set(self._pointer(), "soft_device_placement", "1" if enabled else "0")

    def get_soft_device_placement(self) -> bool:
        """Whether set_soft_device_placement has been switched on."""
        return _native.runtime_read_setting(self._pointer(), "soft_device_placement") == "1"

    def _pointer(self) -> Any:
        raise NotImplementedError
