"""Collectives between ranks, without a strategy on top."""

from __future__ import annotations

from typing import Any, List, Optional, Union

import numpy as np

from tutti import _arguments, _native
from tutti._reduce_op import ReduceOp
from tutti._cluster import Cluster
from tutti._variable import member


class Communicator:
    """One rank of a group. Every rank makes the same calls in the same order, each on a thread of
    its own; a call that differs between ranks is the same InvalidArgumentError on all of them.
    Results are bit-identical on all ranks. An error, a deadline and an abort end the epoch: later
    calls fail with the first error. Threads: one at a time per rank."""

    __slots__ = ("_handle",)
    _handle: _native.tutti_communicator

    def __init__(self) -> None:
        raise TypeError("make communicators with Communicator.create(cluster) or "
                        "Communicator.create_local(size)")

    @classmethod
    def create(cls, cluster: Cluster, name: Optional[str] = None,
               timeout: Optional[float] = None) -> "Communicator":
        """One rank per worker of `cluster`: every worker makes the same call with the same name.
        Workers of one machine share memory, others speak TCP (the setting transport). Making it
        again under the same name begins the next epoch."""
        communicator = cls.__new__(cls)
        seat = _arguments.handle_of("Communicator.create: cluster", cluster, Cluster)
        communicator._handle = _native.communicator_create(seat, name, timeout)
        return communicator

    @classmethod
    def create_local(cls, size: int, name: Optional[str] = None) -> List["Communicator"]:
        """`size` ranks within this process."""
        communicators = []
        for handle in _native.communicator_create_local((size, name)):
            communicator = cls.__new__(cls)
            communicator._handle = handle
            communicators.append(communicator)
        return communicators

    @property
    def rank(self) -> int:
        """This one among the ranks, from 0."""
        return _native.communicator_rank(self._handle)

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return _native.communicator_size(self._handle)

    @property
    def epoch(self) -> int:
        """How often a communicator of this name has been made, from 1."""
        return _native.communicator_epoch(self._handle)

    @property
    def transport(self) -> str:
        """How the ranks reach each other: "in_process", "shared_memory", "tcp" or "mixed"."""
        return _native.communicator_transport(self._handle)

    def all_reduce(self, value: Any, op: Union[ReduceOp, str, int] = ReduceOp.SUM, out: Any = None,
                   timeout: Optional[float] = None) -> Any:
        """Folds `value` of all ranks, the same shape and dtype everywhere, into `out` (default: a
        new array), which may be `value` itself. op: a ReduceOp or its name. float16
        and bfloat16 accumulate in float32."""
        if out is None:
            value = np.asarray(value)
            out = np.empty(value.shape, value.dtype)
        _native.communicator_all_reduce(self._handle, value, member(ReduceOp, op, "op"), timeout,
                                        out)
        return out

    def broadcast(self, array: Any, root: int = 0, timeout: Optional[float] = None) -> Any:
        """Copies `array` of rank `root` into `array` of every other rank, in place."""
        _native.communicator_broadcast(self._handle, root, timeout, array)
        return array

    def all_gather(self, value: Any, timeout: Optional[float] = None) -> Any:
        """Joins `value` [n, ...] of all ranks along axis 0; n may differ between ranks."""
        return _native.communicator_all_gather(self._handle, value, timeout)

    def barrier(self, timeout: Optional[float] = None) -> None:
        """Returns when every rank has called it."""
        _native.communicator_barrier(self._handle, timeout)

    def abort(self, message: str) -> None:
        """Ends the epoch: calls in flight and later ones fail on every rank with AbortedError and
        `message`."""
        _native.communicator_abort(self._handle, message)

    def close(self, timeout: Optional[float] = None) -> None:
        """Leaves; peers that still need this rank fail with UnavailableError."""
        _native.communicator_close(self._handle, timeout)

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
