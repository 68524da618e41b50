"""Runtimes and their settings."""

from __future__ import annotations

import atexit
import contextlib
import json
import sys
import weakref
from types import SimpleNamespace
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

from tutti import _leaving, _native, _scope
from tutti._device_configuration import DeviceConfiguration

_runtimes: "weakref.WeakSet[Runtime]" = weakref.WeakSet()
_default_sink = SimpleNamespace(function=None)
_sinks: List[SimpleNamespace] = []  # those the library has seen, and may call: never let go
_after_shutdown: List[Any] = []  # functions that forget what belonged to the default runtime

# How long the end of the process waits for callbacks that do not return.
_EXIT_TIMEOUT_S = 5.0


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class _Settings:
    """Reading and writing settings, of one runtime or of the default one."""

    def _pointer(self) -> Any:
        return _scope.runtime.get()

    def _sink(self) -> SimpleNamespace:
        handle = self._pointer()
        return next((r._log_sink for r in list(_runtimes) if r._handle is handle), _default_sink)

    def set(self, key: str, value: Any) -> None:
        """Changes a setting of the running runtime: log_level, compute_threads, memory_limit,
        default_timeout, flight_recorder_dir, soft_device_placement; replicas, join_timeout,
        silence_limit, transport, elastic, reproducible (1: sums of floats have the same bits
        however the ranks are spread over hosts, and the replicas of a strategy over workers) and
        collective_table (see describe_collectives) for what is made afterwards. An unknown key or a
        bad value is an InvalidArgumentError, logical_cpu_devices, which is fixed at start, a
        FailedPreconditionError."""
        _native.runtime_set(self._pointer(), key, _text(value))

    def get(self, key: str) -> str:
        """The effective value of the setting `key`, as text."""
        return _native.runtime_read_setting(self._pointer(), key)

    def describe(self) -> Dict[str, Dict[str, str]]:
        """All settings: {key: {"value": ..., "source": "argument", "variable", "file" or
        "default"}}."""
        settings: Dict[str, Dict[str, str]] = json.loads(_native.runtime_describe(self._pointer()))
        return settings

    def set_random_seed(self, seed: Optional[int]) -> None:
        """The seed behind every dataset operation that was given none; None goes back to random
        ones."""
        _native.runtime_set_random_seed(self._pointer(), seed)

    def set_log_sink(self, fn: Optional[Callable[[str, str], Any]]) -> None:
        """Sends the lines of the log to fn(level, line) instead of standard error; level is
        "debug", "info", "warning" or "error". None goes back, and so does the end of the process.

        fn is called by one thread at a time; lines that are written meanwhile follow. It must not
        call the library (FailedPreconditionError). An exception that leaves it goes to
        sys.unraisablehook. The former sink is not running any more on return.
        """
        if fn is not None and not callable(fn):
            raise TypeError(f"a function is needed, not an object of type {type(fn).__name__}")
        sink = self._sink()
        if fn is not None and not any(known is sink for known in _sinks):
            _sinks.append(sink)
        before, sink.function = sink.function, fn
        try:
            _native.runtime_set_log_sink(self._pointer(), None if fn is None else sink)
        except BaseException:
            sink.function = before
            raise

    def describe_collectives(self) -> str:
        """Which algorithm a collective takes, a row a line, as the setting collective_table reads
        it: collective, where, ranks, up to how many bytes, algorithm, chunk. The first row that
        fits a call holds."""
        return _native.runtime_describe_collectives(self._pointer())

    def dump_recorder(self) -> Any:
        """The last records of the flight recorder, as parsed JSON."""
        return json.loads(_native.runtime_dump_recorder(self._pointer()))


class Runtime(_Settings):
    """A runtime of its own beside the process's default one: threads, memory, settings.

    `settings`, and `more` of them as keywords, beat the environment variables TUTTI_*. Inside
    `with runtime.as_default():` whatever is made belongs to it. Threads: any.
    """

    def __init__(self, settings: Optional[Mapping[str, Any]] = None, **more: Any):
        merged = {**(settings or {}), **more}
        self._handle = _native.runtime_create(list(merged), [_text(v) for v in merged.values()])
        self._log_sink = SimpleNamespace(function=None)
        _runtimes.add(self)

    def _pointer(self) -> Any:
        return self._handle

    @property
    def is_running(self) -> bool:
        """Whether the runtime can be used."""
        return _native.runtime_is_running(self._handle)

    def __repr__(self) -> str:
        return f"<Runtime, {'running' if self.is_running else 'shut down'}>"

    @contextlib.contextmanager
    def as_default(self) -> Iterator["Runtime"]:
        """Makes this the ambient runtime of the thread of control."""
        token = _scope.runtime.set(self._handle)
        try:
            yield self
        finally:
            _scope.runtime.reset(token)

    def shutdown(self, timeout: Optional[float] = None) -> None:
        """Closes all that belongs to the runtime and joins its threads."""
        try:
            _native.runtime_shutdown(self._handle, timeout)
        finally:
            self._log_sink.function = None

    def __enter__(self) -> "Runtime":
        return self

    def __exit__(self, *_: Any) -> None:
        self.shutdown()


class _Config(_Settings, DeviceConfiguration):
    """`tutti.config`: the settings and the devices of the ambient runtime."""

    def list_devices(self, device_type: Optional[str] = None) -> List[str]:
        """The names of this process's devices of a type ("CPU", "GPU"; None: all)."""
        return _native.device_list(device_type).split()

    def describe_device(self, name: str) -> Dict[str, Any]:
        """What is known of a device ("GPU:0"): name, type and memory.

        Of a GPU also device_name, compute_capability (a pair), multiprocessors, memory_bytes,
        l2_bytes, bus_id, uuid, integrated, driver_version, and kernels: whether the plugin has
        machine code for it. Sizes are in bytes. NotFoundError for a device that is not there.
        """
        device: Dict[str, Any] = json.loads(_native.device_describe(name))
        if "compute_capability" in device:
            device["compute_capability"] = tuple(device["compute_capability"])
        return device

    def describe_plugins(self) -> List[Dict[str, Any]]:
        """The plugins for devices: of each name, file, devices (how many), version, and reason.

        version is None where it is not opened; reason says why there are no devices, else None.
        nccl has version, file and origin, who had it; None where there is none, and then
        nccl_reason says why.
        """
        plugins: List[Dict[str, Any]] = json.loads(_native.device_describe_plugins())
        return plugins


config = _Config()


def shutdown(timeout: Optional[float] = None) -> None:
    """Shuts the default runtime down; it starts again with the next use.

    Everything that belonged to it fails with FailedPreconditionError from then on. timeout: seconds
    to wait for callbacks that are still running (DeadlineExceededError; the rest is shut down all
    the same).
    """
    try:
        _native.runtime_shutdown(None, timeout)
    finally:
        _default_sink.function = None
        for forget in _after_shutdown:
            forget()


def _shut_down_at_exit() -> None:
    """Before the interpreter ends: joins our threads, which must not need the GIL afterwards.

    A daemon thread cannot start the default runtime again: it gets a FailedPreconditionError.
    """
    def end(runtime: Any) -> None:
        if runtime is None:
            _native.runtime_end_default(_EXIT_TIMEOUT_S)
        else:
            _native.runtime_shutdown(runtime, _EXIT_TIMEOUT_S)

    # Set where an exception that nobody has caught ended the program.
    why = _leaving.reason(getattr(sys, "last_value", None)) if not hasattr(sys, "ps1") else None
    try:
        for runtime in [None, *(r._handle for r in list(_runtimes))]:
            try:
                if why is not None:
                    _native.runtime_fail(runtime, f"the program of a worker has ended by {why}")
                end(runtime)
            except Exception:  # a forked child, or a callback that does not return: leave it
                pass
    finally:  # also when Ctrl-C ends the wait
        for sink in _sinks:
            sink.function = None  # its lines go to standard error from now on
        _native._end()


atexit.register(_shut_down_at_exit)
