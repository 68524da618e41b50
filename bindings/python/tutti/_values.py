"""Values that differ between replicas, optional values, futures."""

from __future__ import annotations

import functools
import typing
from typing import Any, Callable, Tuple

from tutti import _native, errors

Timeout = typing.Optional[float]  # in seconds; the name Optional is taken below


class DistributedValues:
    """One value per replica. What differs between replicas: batches of a distributed dataset,
    results of `strategy.run`."""

    __slots__ = ("_handle", "__weakref__")

    def __init__(self) -> None:
        raise TypeError("distributed values come from strategy.run, from a distributed dataset, "
                        "or from strategy.distribute_values_from_function")

    @property
    def values(self) -> Tuple[Any, ...]:
        """The values of this process's replicas, in order."""
        return _native._value_components(self)

    def __repr__(self) -> str:
        return _native.value_to_string(self)


class PerReplica(DistributedValues):
    """The class of all distributed values."""

    __slots__ = ()


class Optional:
    """A value that may be absent (has_value): what get_next_as_optional() of an iterator gives."""

    __slots__ = ("_has_value", "_value")

    def __init__(self, has_value: bool, value: Any):
        self._has_value = has_value
        self._value = value

    @classmethod
    def from_value(cls, value: Any) -> "Optional":
        """An optional that holds `value`."""
        return cls(True, value)

    @classmethod
    def empty(cls) -> "Optional":
        """An optional that holds nothing."""
        return cls(False, None)

    def has_value(self) -> bool:
        """Whether it holds a value."""
        return self._has_value

    def get_value(self) -> Any:
        """The value; InvalidArgumentError when there is none."""
        if not self._has_value:
            raise errors.InvalidArgumentError("the optional is empty: ask has_value() first")
        return self._value

    def __bool__(self) -> bool:
        return self._has_value

    def __repr__(self) -> str:
        return f"Optional({self._value!r})" if self._has_value else "Optional.empty()"


class Future:
    """A value or an error that comes later; completed once, by whoever made it. Threads: any."""

    __slots__ = ("_handle",)

    def __init__(self) -> None:
        self._handle = _native.future_create()

    def done(self) -> bool:
        """Whether it is completed."""
        return _native.future_is_done(self._handle)

    def set_result(self, value: Any) -> None:
        """Completes it with a value; FailedPreconditionError when it is done."""
        _native.future_complete(self._handle, None, value)

    def set_exception(self, exception: BaseException) -> None:
        """Completes it with an exception, which result() then raises."""
        _native.future_complete(self._handle, exception, None)

    def add_done_callback(self, fn: Callable[["Future"], Any]) -> None:
        """Calls fn(future) once it is done, at once if it is, on a thread of the runtime.

        fn is a notification: it may read result() and hand the future on, but not wait for anything
        (FailedPreconditionError). An exception that leaves it goes to sys.unraisablehook. fn and
        the future live until it has run."""
        if not callable(fn):
            raise TypeError(f"a function is needed, not an object of type {type(fn).__name__}")
        _native.future_on_ready(self._handle, functools.partial(fn, self))

    def wait(self, timeout: Timeout = None) -> None:
        """Waits until it is done, at most `timeout` seconds (DeadlineExceededError, which leaves
        the operation running)."""
        _native.future_wait(self._handle, timeout)

    def result(self, timeout: Timeout = None) -> Any:
        """Waits, then gives the value or raises the error."""
        if not self.done():
            _native.future_wait(self._handle, timeout)
        return _native.future_result(self._handle)
