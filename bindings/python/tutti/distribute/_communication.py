"""Hints for collectives, in the reference's form."""

from __future__ import annotations

import enum
import math
import warnings
import weakref
from typing import Any, Optional, Set, Tuple

from tutti import _arguments


class CommunicationImplementation(enum.Enum):
    """How the workers of a strategy reduce; all of them ask for the same. AUTO and RING: the
    library's own collectives, over what the setting transport says. NCCL: what is there takes its
    place, with a warning. SHARED_MEMORY and TCP go before the setting transport."""

    AUTO = "AUTO"
    RING = "RING"
    NCCL = "NCCL"
    SHARED_MEMORY = "SHARED_MEMORY"
    TCP = "TCP"


class CommunicationOptions:
    """Hints for collectives, of a strategy or of one call.

    timeout_seconds: how long a collective may take (DeadlineExceededError); 0: no limit; None: the
    runtime's default. Of a strategy of several workers: bytes_per_pack, tensors of one reduction
    travel in packs of at most so many bytes, the same on all workers; 0: as large as it goes; and
    the implementation. Given to one call these two have no effect, which a RuntimeWarning says.
    """

    __slots__ = ("bytes_per_pack", "timeout_seconds", "implementation")

    def __init__(self, bytes_per_pack: int = 0, timeout_seconds: Optional[float] = None,
                 implementation: Any = CommunicationImplementation.AUTO):
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


# What one call asked for and was told of.
_told: Set[str] = set()


def hints_of(options: Optional[CommunicationOptions],
             hints: Optional[CommunicationOptions]) -> Optional[CommunicationOptions]:
    """What a call was given as options or as experimental_hints; what cannot count for one call
    gives a warning, once."""
    if hints is not None:
        if options is not None:
            raise TypeError("options and experimental_hints are two names of one argument; give "
                            "one of them")
        options = hints
    if options is None:
        return None
    _arguments.check("options", options, CommunicationOptions)
    asked = {"bytes_per_pack": options.bytes_per_pack != 0,
             "implementation": options.implementation is not CommunicationImplementation.AUTO}
    for name, said in asked.items():
        if said and name not in _told:
            _told.add(name)
            warnings.warn(f"{name} has no effect on one call, of which timeout_seconds alone "
                          f"counts; give it to the strategy, as communication_options",
                          RuntimeWarning, stacklevel=3)
    return options


def timeout_in(context: Any, options: Optional[CommunicationOptions],
               timeout: Optional[float]) -> Optional[float]:
    """The timeout of a collective in a replica context: the call's own, that of its options, that
    of its strategy's."""
    if timeout is not None or (options is None and not _of_strategies):
        return timeout
    if options is None or options.timeout_seconds is None:
        return timeout_of(context.strategy, None) if _of_strategies else None
    return options.timeout_seconds or math.inf


def timeout_of(strategy: Any, timeout: Optional[float],
               hints: Optional[CommunicationOptions] = None) -> Optional[float]:
    """The same for a call of a strategy."""
    if timeout is None and hints is not None and hints.timeout_seconds is not None:
        return hints.timeout_seconds or math.inf
    if timeout is not None or not _of_strategies:
        return timeout
    options = _of_strategies.get(strategy)
    return None if options is None else options.timeout_seconds or math.inf
