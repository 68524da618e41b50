"""Hints for collectives, in the reference's form."""

from __future__ import annotations

import enum
import math
import operator
import weakref
from typing import Any, Optional, Tuple, Union

from tutti import _arguments


class CommunicationImplementation(enum.Enum):
    """How ranks move the bytes of a collective; all of them ask for the same. AUTO: as the strategy
    says, else as the table of algorithms does. RING: from neighbour to neighbour, where ranks are
    linked by byte streams and the operation has such an algorithm. NCCL: NVIDIA's library.
    SHARED_MEMORY and TCP, of a strategy: these go before the setting transport. What cannot be as
    it is asked goes as AUTO, with one line of warning in the log that says why."""

    AUTO = "AUTO"
    RING = "RING"
    NCCL = "NCCL"
    SHARED_MEMORY = "SHARED_MEMORY"
    TCP = "TCP"


class CommunicationOptions:
    """Hints for collectives, of a strategy or of one call, whose own go before the strategy's.

    bytes_per_pack: many tensors are reduced in calls of at most so many bytes each; 0: as the
    strategy says, else in one call. timeout_seconds: how long a collective may take
    (DeadlineExceededError); 0: no limit; None: the strategy's, else the runtime's default.
    implementation: a CommunicationImplementation or its name. All ranks give the same
    bytes_per_pack and implementation; else all get an InvalidArgumentError that names both sides.
    Results do not depend on them.
    """

    __slots__ = ("bytes_per_pack", "timeout_seconds", "implementation")

    def __init__(self, bytes_per_pack: int = 0, timeout_seconds: Optional[float] = None,
                 implementation: Any = CommunicationImplementation.AUTO):
        bytes_per_pack = operator.index(bytes_per_pack)
        if bytes_per_pack < 0:
            raise ValueError(f"bytes_per_pack is {bytes_per_pack}; expected 0 or more")
        if timeout_seconds is not None and timeout_seconds < 0:
            raise ValueError(f"timeout_seconds is {timeout_seconds}; expected 0 or more, or None")
        self.bytes_per_pack = bytes_per_pack
        self.timeout_seconds = timeout_seconds
        self.implementation = CommunicationImplementation(implementation)

    def __repr__(self) -> str:
        return (f"CommunicationOptions(bytes_per_pack={self.bytes_per_pack}, "
                f"timeout_seconds={self.timeout_seconds}, "
                f"implementation={self.implementation.name})")


def of_workers(options: Optional[CommunicationOptions]) -> Tuple[int, int]:
    """The number of the implementation, and the bytes of a pack."""
    given = CommunicationOptions() if options is None else options
    return list(CommunicationImplementation).index(given.implementation) + 1, given.bytes_per_pack


# What was given to strategies, for calls that say nothing.
_of_strategies: "weakref.WeakKeyDictionary[Any, CommunicationOptions]" = (
    weakref.WeakKeyDictionary())


def check(options: Optional[CommunicationOptions]) -> None:
    if options is not None:
        _arguments.check("communication_options", options, CommunicationOptions)


def remember(strategy: Any, options: Optional[CommunicationOptions]) -> None:
    if options is not None and options.timeout_seconds is not None:
        _of_strategies[strategy] = options


# How a timeout crosses to the library: alone, or with hints.
Waits = Union[None, float, Tuple[Optional[float], int, int],
              Tuple[Optional[float], int, int, Any]]


def hints_of(options: Optional[CommunicationOptions],
             hints: Optional[CommunicationOptions]) -> Optional[CommunicationOptions]:
    """What a call was given as options or as experimental_hints."""
    if hints is not None:
        if options is not None:
            raise TypeError("options and experimental_hints are two names of one argument; give "
                            "one of them")
        options = hints
    if options is not None:
        _arguments.check("options", options, CommunicationOptions)
    return options


def _hinted(timeout: Optional[float], options: Optional[CommunicationOptions]) -> Waits:
    if options is None or (options.bytes_per_pack == 0
                           and options.implementation is CommunicationImplementation.AUTO):
        return timeout
    implementation, bytes_per_pack = of_workers(options)
    return timeout, bytes_per_pack, implementation


def waits_of(timeout: Optional[float], options: Optional[CommunicationOptions],
             hints: Optional[CommunicationOptions]) -> Waits:
    """How a call of a communicator waits: for as long as its own timeout says, else its options."""
    if options is None and hints is None:
        return timeout
    options = hints_of(options, hints)
    if timeout is None and options is not None and options.timeout_seconds is not None:
        timeout = options.timeout_seconds or math.inf
    return _hinted(timeout, options)


def timeout_in(context: Any, options: Optional[CommunicationOptions],
               timeout: Optional[float]) -> Waits:
    """How a collective in a replica context waits: for as long as the call's own timeout says, that
    of its options, that of its strategy's."""
    if options is None and (timeout is not None or not _of_strategies):
        return timeout
    if timeout is None and options is not None and options.timeout_seconds is not None:
        timeout = options.timeout_seconds or math.inf
    elif timeout is None and _of_strategies:
        timeout = _of_strategy(context.strategy)
    return _hinted(timeout, options)


def timeout_of(strategy: Any, timeout: Optional[float],
               options: Optional[CommunicationOptions] = None) -> Waits:
    """The same for a call of a strategy."""
    if timeout is None and options is not None and options.timeout_seconds is not None:
        timeout = options.timeout_seconds or math.inf
    elif timeout is None and _of_strategies:
        timeout = _of_strategy(strategy)
    return _hinted(timeout, options)


def _of_strategy(strategy: Any) -> Optional[float]:
    options = _of_strategies.get(strategy)
    return None if options is None else options.timeout_seconds or math.inf
