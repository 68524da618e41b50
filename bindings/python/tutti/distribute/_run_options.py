"""Options of Strategy.run."""

from __future__ import annotations

from typing import Any


class RunOptions:
    """How the step of Strategy.run is compiled. Nothing is compiled here: replicas run functions of
    the program, for which these have no effect, as in the reference outside of TPUs.

    experimental_enable_dynamic_batch_size: of TPUs, whether batches may be partial.
    experimental_bucketizing_dynamic_shape: of TPUs, whether shapes are padded to few. What is no
    bool is a TypeError.
    """

    __slots__ = ("experimental_enable_dynamic_batch_size", "experimental_bucketizing_dynamic_shape")

    def __init__(self, experimental_enable_dynamic_batch_size: bool = True,
                 experimental_bucketizing_dynamic_shape: bool = False):
        self.experimental_enable_dynamic_batch_size = _flag(
            "experimental_enable_dynamic_batch_size", experimental_enable_dynamic_batch_size)
        self.experimental_bucketizing_dynamic_shape = _flag(
            "experimental_bucketizing_dynamic_shape", experimental_bucketizing_dynamic_shape)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, RunOptions) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return (f"RunOptions(experimental_enable_dynamic_batch_size="
                f"{self.experimental_enable_dynamic_batch_size}, "
                f"experimental_bucketizing_dynamic_shape="
                f"{self.experimental_bucketizing_dynamic_shape})")


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name}: a bool is needed, not an object of type {type(value).__name__}")
    return value
