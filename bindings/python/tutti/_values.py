"""Values that have a component per replica, optional values, futures."""

from __future__ import annotations

import contextlib
import functools
import typing
from typing import Any, Callable, Generator, Tuple

from tutti import _native, errors
from tutti._operators import ReadAsArray

Timeout = typing.Optional[float]  # in seconds; the name Optional is taken below


class DistributedValues:
    """One value per replica: PerReplica, Mirrored, and the variables of a strategy's scope. They go
    into strategy.run, which gives each replica its own, strategy.reduce, and
    strategy.local_results, which gives them all."""

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("distributed values come from strategy.run, from a distributed dataset, "
                        "or from strategy.distribute_values_from_function")

    @property
    def values(self) -> Tuple[Any, ...]:
        """The values of this process's replicas, in order."""
        return _native._value_components(self)

    def __repr__(self) -> str:
        return _native.value_to_string(self)


class PerReplica(DistributedValues):
    """What differs between replicas: batches of a distributed dataset, results of
    `strategy.run`."""

    __slots__ = ("_handle", "__weakref__")


class Mirrored(ReadAsArray, DistributedValues):
    """What is equal on all replicas because one operation made it: strategy.mirrored, say. It is
    read as the value that it is, by numpy(), float(), operators and NumPy's functions."""

    __slots__ = ("_handle", "__weakref__")

    def numpy(self) -> Any:
        """The value: an array, or a number where it has no axes. On the host, wherever it lies."""
        value = self.values[0]
        return value.numpy() if hasattr(value, "is_on_host") and not value.is_on_host else value

    @property
    def dtype(self) -> Any:
        """A numpy.dtype; object for byte strings."""
        return self.__array__().dtype

    @property
    def shape(self) -> Tuple[int, ...]:
        """The sizes."""
        return self.__array__().shape


class Optional:
    """A value that may be absent (has_value): what get_next_as_optional() of an iterator gives.
    element_spec: what the value is or would be, where somebody says it."""

    __slots__ = ("_has_value", "_value", "_spec", "_source")

    def __init__(self, has_value: bool, value: Any, element_spec: Any = None):
        self._has_value = has_value
        self._value = value
        self._spec = element_spec
        self._source: Any = None  # whoever gave it, and knows the spec

    @classmethod
    def from_value(cls, value: Any) -> "Optional":
        """An optional that holds `value`."""
        return cls(True, value)

    @classmethod
    def empty(cls, element_spec: Any = None) -> "Optional":
        """An optional that holds nothing, where a value of `element_spec` could be."""
        return cls(False, None, element_spec)

    @property
    def element_spec(self) -> Any:
        """Structure, dtypes and shapes of the value: as the iterator that it came from, or whoever
        made it empty, says; else of the value that it holds. None of an empty one that nobody said
        it of."""
        if self._spec is None and self._source is not None:
            self._spec, self._source = self._source.element_spec, None
        if self._spec is None and self._has_value:
            self._spec = _native.spec_from_value(self._value)
        return self._spec

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
    """A value or an error that comes later; completed once, by whoever made it. In a coroutine of
    asyncio `await future` gives the same as result(). Threads: any."""

    __slots__ = ("_handle", "_given")
    _handle: _native.tutti_future

    def __init__(self) -> None:
        self._handle = _native.future_create()
        self._given: Any = None

    @classmethod
    def _of(cls, handle: _native.tutti_future, given: Any = None) -> "Future":
        """The future of a call of the library, whose result is `given` where the call itself has
        none to give."""
        future = cls.__new__(cls)
        future._handle = handle
        future._given = given
        return future

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
        value = _native.future_result(self._handle)
        return value if self._given is None else self._given

    def __repr__(self) -> str:
        return f"<Future, {'done' if self.done() else 'under way'}>"

    def __await__(self) -> Generator[Any, None, Any]:
        if not self.done():
            import asyncio  # by who awaits, it is there already

            loop = asyncio.get_running_loop()
            ready = asyncio.Event()

            def wake(_: "Future") -> None:
                with contextlib.suppress(RuntimeError):  # the loop may have been closed meanwhile
                    loop.call_soon_threadsafe(ready.set)

            self.add_done_callback(wake)
            yield from ready.wait().__await__()
        return self.result()
