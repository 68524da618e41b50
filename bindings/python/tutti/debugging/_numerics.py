"""What is said while training: checks of what passes by, and lines about placement."""

from __future__ import annotations

import operator

from tutti import _native

_CHECKED_ALWAYS = False


def enable_check_numerics(stack_height_limit: int = 30, path_length_limit: int = 50) -> None:
    """From now on a NaN or an infinity is an InvalidArgumentError where it enters or leaves a
    collective, a reduction over replicas, the update of a variable or a checkpoint, or is returned
    by a replica's function.

    The error names the operation and its number, the variable or the path in the structure, replica
    and worker or rank, dtype and shape, how many elements are NaN, +Inf and -Inf, and the first of
    them. Where several workers or ranks take part, it fails on all of them with the error of the
    one that brought it in. It holds for calls of this thread and of the replicas that it runs;
    between the workers of a strategy it is enough that one has enabled it. Calling it twice is as
    calling it once.

    stack_height_limit, path_length_limit: taken for the reference's callers and checked; the
    traceback is Python's own. ValueError for one below 1. Threads: any.
    """
    for what, limit in (("stack_height_limit", stack_height_limit),
                        ("path_length_limit", path_length_limit)):
        if operator.index(limit) < 1:
            raise ValueError(f"enable_check_numerics: {what} is {limit}; expected 1 or more")
    if not _native.debugging_is_checking_numerics():
        _native.debugging_enable_check_numerics(_CHECKED_ALWAYS)


def disable_check_numerics() -> None:
    """Ends what enable_check_numerics began on this thread; without it nothing happens.
    Threads: any."""
    _native.debugging_disable_check_numerics()


def set_log_device_placement(enabled: bool) -> None:
    """Whether a line of the log says of each variable, per-replica value, run, dataset and
    collective from now on which devices it is on, and why; false at first.

    enabled: true or false, for the whole process. Under a log level that leaves out "info" the
    lines come with the lowest that it does not. Threads: any.
    """
    _native.debugging_set_log_device_placement(bool(enabled))


def get_log_device_placement() -> bool:
    """Whether placements are logged. Threads: any."""
    return _native.debugging_is_logging_device_placement()
