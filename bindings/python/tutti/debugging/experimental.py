"""Dumps of what passes through operations, for people to look at afterwards.

    writer = tutti.debugging.experimental.enable_dump_debug_info(
        "dumps", tensor_debug_mode="FULL_HEALTH")
    ...
    writer.FlushExecutionFiles()      # then, in a shell: tutti debug dumps

One file set per process; several processes may share the directory.
"""

from __future__ import annotations

import json
import operator
import os
from typing import Any, Callable, Dict, Iterable, Optional, Union

from tutti import _dtypes, _native

__all__ = ["DebugEventsWriter", "disable_dump_debug_info", "enable_dump_debug_info",
           "read_dump_debug_info"]

_MODES = {"NO_TENSOR": 1, "CURT_HEALTH": 2, "CONCISE_HEALTH": 3, "FULL_HEALTH": 4, "SHAPE": 5}
_NUM_DTYPES = 16
_Path = Union[str, "os.PathLike[str]"]


class DebugEventsWriter:
    """What writes a dump's files; enable_dump_debug_info makes it.

    number: of the dump, the library's own. dump_root: its directory."""

    def __init__(self, number: int, dump_root: str):
        self._number = operator.index(number)
        self._dump_root = os.fspath(dump_root)

    @property
    def dump_root(self) -> str:
        """The directory of the dump."""
        return self._dump_root

    def FlushExecutionFiles(self) -> None:
        """Writes the events that wait. RuntimeError when the dump has ended; the disk's error where
        it cannot be written. Threads: any."""
        _native.debugging_flush_execution_files(self._number)

    def FlushNonExecutionFiles(self) -> None:
        """Writes what is known of the process and of the dump; fails as FlushExecutionFiles.
        Threads: any."""
        _native.debugging_flush_non_execution_files(self._number)


def _mask_of(tensor_dtypes: Union[None, Iterable[Any], Callable[[Any], Any]]) -> int:
    """A bit for each dtype that is taken; 0 for all."""
    if tensor_dtypes is None:
        return 0
    if callable(tensor_dtypes):
        numbers = [number for number in range(1, _NUM_DTYPES + 1)
                   if tensor_dtypes(_dtypes.dtype_of(number))]
    elif isinstance(tensor_dtypes, (list, tuple)):
        numbers = [_dtypes.number_of(dtype) for dtype in tensor_dtypes]
    else:
        raise ValueError("enable_dump_debug_info: tensor_dtypes is a list or tuple of dtypes or a "
                         f"function of one, not of type {type(tensor_dtypes).__name__}")
    # No dtype at all is a choice, too: the bit of none.
    return sum(1 << number for number in set(numbers)) or 1


def enable_dump_debug_info(
        dump_root: _Path, tensor_debug_mode: str = "NO_TENSOR", circular_buffer_size: int = 1000,
        op_regex: Optional[str] = None,
        tensor_dtypes: Union[None, Iterable[Any], Callable[[Any], Any]] = None
        ) -> DebugEventsWriter:
    """From now on tensors that come into collectives, reductions, updates of variables and
    checkpoints, or out of them and of replicas' functions, leave an event each, of all threads of
    the process. Returns the writer, whose Flush methods bring them to the disk.

    dump_root: a directory, made where it is missing. tensor_debug_mode: "NO_TENSOR" (operation,
    name, replica, step and dtype alone), "CURT_HEALTH" (whether there is a NaN or an infinity),
    "CONCISE_HEALTH" (how many), "FULL_HEALTH" (and the rank and signs) or "SHAPE".
    circular_buffer_size: how many of the most recent events are kept until they are flushed; 0 or
    less: all are written, a thousand at a time. op_regex: matched at the beginning of an
    operation's name, "all_reduce" or "assign_add", in ECMAScript's syntax. tensor_dtypes: a list or
    tuple of dtypes, or a function that says of a dtype whether it is taken.

    Once more with the same root it goes on; another root ends the dump before. ValueError for
    another mode or buffer size than that of a dump that goes on, and for an expression that does
    not read. Threads: any.
    """
    if tensor_debug_mode not in _MODES:
        raise ValueError(f"enable_dump_debug_info: tensor_debug_mode is {tensor_debug_mode!r}; "
                         f"expected one of {', '.join(_MODES)}")
    root = os.fspath(dump_root)
    number = _native.debugging_enable_dump(root, _MODES[tensor_debug_mode], circular_buffer_size,
                                           op_regex, _mask_of(tensor_dtypes))
    return DebugEventsWriter(number, root)


def disable_dump_debug_info() -> None:
    """Ends the dump; what was not flushed is gone. Without one nothing happens. Threads: any."""
    _native.debugging_disable_dump()


def read_dump_debug_info(dump_root: _Path) -> Dict[str, Any]:
    """The dumps of all processes in a directory: "processes"; "events", dicts in the order of time;
    "first_not_finite", the first with a NaN or an infinity, or None; "damaged", files that do not
    read to their end, and why.

    dump_root: as it was given. FileNotFoundError where there is no dump, DataLossError where what
    is known of a process does not read. Threads: any.
    """
    found: Dict[str, Any] = json.loads(_native.debugging_read_dumps(os.fspath(dump_root)))
    return found
