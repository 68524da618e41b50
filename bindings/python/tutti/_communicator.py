"""Collectives between ranks, without a strategy on top."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple, Union

import numpy as np

from tutti import _arguments, _dtypes, _leaving, _native, errors
from tutti._cluster import Cluster
from tutti._dtypes import bfloat16
from tutti._reduce_op import ReduceOp
from tutti._stream import Stream
from tutti._tensor import Tensor, literals_as
from tutti._values import Future
from tutti._variable import member

if TYPE_CHECKING:
    from tutti.distribute._communication import CommunicationOptions, Waits

Op = Union[ReduceOp, str, int]
# A Stream, CUDA's handle as a number, or an object with __cuda_stream__, cuda_stream or ptr.
StreamLike = Any
_CUDA = (2, 13)  # DLPack's numbers of memory on a GPU
Options = Optional["CommunicationOptions"]


def _waits(timeout: Optional[float], options: Options, hints: Options, stream: StreamLike = None,
           *given: Any) -> "Waits":
    waits: "Waits" = timeout
    if options is not None or hints is not None:
        from tutti.distribute._communication import waits_of

        waits = waits_of(timeout, options, hints)
    if stream is None:
        return waits
    if not isinstance(stream, Stream):
        stream = Stream.wrap(stream, _gpu_of(given))
    limits = waits if isinstance(waits, tuple) else (waits, 0, 0)
    return limits[0], limits[1], limits[2], stream._handle


def _gpu_of(given: Sequence[Any]) -> str:
    """Where the first of them that lies on a GPU does."""
    for one in given:
        if isinstance(one, Tensor):
            if not one.is_on_host:
                return one.device
        elif hasattr(one, "__dlpack_device__"):
            kind, index = one.__dlpack_device__()
            if kind in _CUDA:
                return Stream.of_cuda_device(index).device
    raise errors.InvalidArgumentError(
        "a stream was given, and no tensor of the call lies on a GPU; pass a stream with tensors "
        "of its GPU only")


def _op(op: Op) -> int:
    return member(ReduceOp, op, "op")


def _like(value: Any, out: Any) -> Tuple[Any, Any]:
    """The value, and where its result goes: `out`, else a new array of the same kind, in the byte
    order of this machine. Numbers of Python get the dtype of `out`."""
    if out is not None:
        return literals_as("the value under `out`", value, getattr(out, "dtype", None)), out
    if hasattr(value, "__dlpack__") and not isinstance(value, (np.ndarray, np.generic)):
        tensor = value if isinstance(value, Tensor) else Tensor(value)
        if not tensor.is_on_host:
            return tensor, Tensor.empty(tensor.shape, tensor.dtype, device=tensor.device)
        if tensor.dtype is bfloat16:  # NumPy has none: the result is a Tensor, too
            return tensor, Tensor.empty(tensor.shape, bfloat16)
        return tensor, np.empty(tensor.shape, tensor.dtype)
    value = _native._array_of(value, False)
    return value, np.empty(value.shape, _own_byte_order(value.dtype))


def _own_byte_order(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.isnative else dtype.newbyteorder("=")


class Communicator(_arguments.NamesNearest):
    """One rank of a group. Every rank makes the same calls in the same order, each on a thread of
    its own; a call that differs between ranks is the same InvalidArgumentError on all of them.
    Results are bit-identical on all ranks. An error, a deadline and an abort end the epoch: later
    calls fail with the first error. Threads: one at a time per rank.

    value: an array, a Tensor, or what a Tensor is made of, numbers of Python with its dtypes
    (int32, float32) or with that of `out`; of the same dtype and shape on all ranks unless it is
    said otherwise. out: the array that is written, which may be `value` where it
    has its shape (in place); None: a new one. op: a ReduceOp or its name; float16 and bfloat16
    accumulate in float32. Tensors on GPUs, on all ranks of a call or on none, give tensors on the
    same GPU; NumPy's arrays are of the host. root: the rank that gives or gets. options, also as
    experimental_hints:
    tutti.distribute.experimental.CommunicationOptions, whose timeout_seconds counts where there is
    no timeout. stream: of the GPU that the tensors lie on: a tutti.Stream, CUDA's handle as a
    number (1: the default stream), or another library's stream (torch.cuda.Stream, CuPy's, whatever
    has `__cuda_stream__`). The call comes behind what has been given to it before, and what is
    given to it afterwards comes behind the results; InvalidArgumentError for another device's.

    Methods that end in _async return at once with a Future of the same result. Their calls run one
    after the other in the order of issue; a call without _async takes its turn behind them. Until
    the future is done, what was given must not be written and `out` not read. The timeout counts
    from the issue; giving up the wait for a future leaves the call alone.
    """

    __slots__ = ("_handle",)
    _handle: _native.tutti_communicator

    def __init__(self) -> None:
        raise TypeError("make communicators with Communicator.create(cluster) or "
                        "Communicator.create_local(size)")

    @classmethod
    def _of(cls, handle: _native.tutti_communicator) -> "Communicator":
        communicator = cls.__new__(cls)
        communicator._handle = handle
        return communicator

    @classmethod
    def create(cls, cluster: Cluster, name: Optional[str] = None,
               timeout: Optional[float] = None) -> "Communicator":
        """One rank per worker of `cluster`: every worker makes the same call with the same name.
        Workers of one machine share memory, others speak TCP (the setting transport). Making it
        again under the same name begins the next epoch."""
        seat = _arguments.handle_of("Communicator.create: cluster", cluster, Cluster)
        return cls._of(_native.communicator_create(seat, name, timeout))

    @classmethod
    def create_local(cls, size: int, name: Optional[str] = None) -> List["Communicator"]:
        """`size` ranks within this process.

        >>> [rank.rank for rank in tutti.Communicator.create_local(3)]
        [0, 1, 2]
        """
        return [cls._of(handle) for handle in _native.communicator_create_local((size, name))]

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

    def __repr__(self) -> str:
        return (f"<Communicator, rank {self.rank} of {self.size}, epoch {self.epoch}, "
                f"{self.transport}>")

    def split(self, color: Optional[int], key: int = 0, name: Optional[str] = None,
              timeout: Optional[float] = None) -> Optional["Communicator"]:
        """Ranks of one `color` (0 or more) form a communicator of their own, ordered by `key` and
        then by rank; every rank calls it. None, for the color and as the result: in none of them.
        """
        part = _native.communicator_split(self._handle, -1 if color is None else color, key, name,
                                          timeout)
        return None if part is None else self._of(part)

    def create_tensor(self, shape: Sequence[int], dtype: Any = np.float32) -> Tensor:
        """Zeros in memory that all ranks of one machine map: calls of this tensor, or of an array
        over it, need no copy into shared memory, where it lies so on all ranks (small calls copy
        it all the same: that is faster). Where ranks share no memory it is a tensor like any other.
        It outlives the communicator."""
        return Tensor._of(_native.communicator_create_tensor(
            self._handle, _dtypes.number_of(dtype), list(shape)))

    # ---- sums

    def all_reduce(self, value: Any, op: Op = ReduceOp.SUM, out: Any = None,
                   timeout: Optional[float] = None, *,
                   options: Options = None, experimental_hints: Options = None,
                   stream: StreamLike = None) -> Any:
        """Folds `value` of all ranks into `out` of every rank.

        >>> alone, = tutti.Communicator.create_local(1)  # of a job: Communicator.create(cluster)
        >>> alone.all_reduce(np.array([1.0, 2.0]), "mean").tolist()
        [1.0, 2.0]
        """
        value, out = _like(value, out)
        waits = _waits(timeout, options, experimental_hints, stream, value)
        _native.communicator_all_reduce(self._handle, value, _op(op), waits, out)
        return out

    def all_reduce_async(self, value: Any, op: Op = ReduceOp.SUM, out: Any = None,
                         timeout: Optional[float] = None, *,
                         options: Options = None, experimental_hints: Options = None,
                         stream: StreamLike = None) -> Future:
        """The same at once."""
        value, out = _like(value, out)
        waits = _waits(timeout, options, experimental_hints, stream, value)
        return Future._of(_native.communicator_all_reduce_async(
            self._handle, value, _op(op), waits, out), out)

    def all_reduce_many(self, values: Sequence[Any], op: Op = ReduceOp.SUM,
                        out: Optional[Sequence[Any]] = None,
                        timeout: Optional[float] = None, *,
                        options: Options = None, experimental_hints: Options = None,
                        stream: StreamLike = None) -> List[Any]:
        """Several `values`, of any dtypes and shapes, in one call; `out` has an array for each."""
        values, outs = self._many(values, out)
        waits = _waits(timeout, options, experimental_hints, stream, *values)
        _native.communicator_all_reduce_many(self._handle, values, _op(op), waits, outs)
        return outs

    def all_reduce_many_async(self, values: Sequence[Any], op: Op = ReduceOp.SUM,
                              out: Optional[Sequence[Any]] = None,
                              timeout: Optional[float] = None, *,
                              options: Options = None,
                              experimental_hints: Options = None,
                              stream: StreamLike = None) -> Future:
        """Several `values` at once; `out` has an array for each."""
        values, outs = self._many(values, out)
        waits = _waits(timeout, options, experimental_hints, stream, *values)
        return Future._of(_native.communicator_all_reduce_many_async(
            self._handle, values, _op(op), waits, outs), outs)

    @staticmethod
    def _many(values: Sequence[Any], out: Optional[Sequence[Any]]) -> Tuple[List[Any], List[Any]]:
        outs = [None] * len(values) if out is None else list(out)
        if len(outs) != len(values):
            return list(values), outs  # the library says how many there are of each
        pairs = [_like(value, into) for value, into in zip(values, outs)]
        return [value for value, _ in pairs], [made for _, made in pairs]

    def reduce(self, value: Any, op: Op = ReduceOp.SUM, root: int = 0, out: Any = None,
               timeout: Optional[float] = None, *,
               options: Options = None, experimental_hints: Options = None,
               stream: StreamLike = None) -> Any:
        """Folds `value` of all ranks into `out` of rank `root`; None on the others."""
        value, out = self._at_root(value, root, out)
        waits = _waits(timeout, options, experimental_hints, stream, value)
        _native.communicator_reduce(self._handle, value, _op(op), root, waits, out)
        return out

    def reduce_async(self, value: Any, op: Op = ReduceOp.SUM, root: int = 0, out: Any = None,
                     timeout: Optional[float] = None, *,
                     options: Options = None, experimental_hints: Options = None,
                     stream: StreamLike = None) -> Future:
        """The same at once."""
        value, out = self._at_root(value, root, out)
        waits = _waits(timeout, options, experimental_hints, stream, value)
        return Future._of(_native.communicator_reduce_async(
            self._handle, value, _op(op), root, waits, out), out)

    def _at_root(self, value: Any, root: int, out: Any) -> Tuple[Any, Any]:
        return _like(value, out) if self.rank == root else (value, None)

    def reduce_scatter(self, value: Any, op: Op = ReduceOp.SUM, out: Any = None,
                       timeout: Optional[float] = None, *,
                       options: Options = None, experimental_hints: Options = None,
                       stream: StreamLike = None) -> Any:
        """Folds `value` [size * m, ...] of all ranks; rank r gets rows r * m to (r + 1) * m of the
        result in `out` [m, ...], which may be that part of its own value."""
        value, out = self._part(value, out)
        waits = _waits(timeout, options, experimental_hints, stream, value)
        _native.communicator_reduce_scatter(self._handle, value, _op(op), waits, out)
        return out

    def reduce_scatter_async(self, value: Any, op: Op = ReduceOp.SUM, out: Any = None,
                             timeout: Optional[float] = None, *,
                             options: Options = None, experimental_hints: Options = None,
                             stream: StreamLike = None) -> Future:
        """The same at once."""
        value, out = self._part(value, out)
        waits = _waits(timeout, options, experimental_hints, stream, value)
        return Future._of(_native.communicator_reduce_scatter_async(
            self._handle, value, _op(op), waits, out), out)

    def _part(self, value: Any, out: Any) -> Tuple[Any, Any]:
        """The value, and room for one rank's rows of it."""
        if out is not None:
            return _like(value, out)
        if isinstance(value, Tensor) and not value.is_on_host:
            shares = [n // self.size for n in value.shape[:1]]
            return value, Tensor.empty(shares + list(value.shape[1:]), value.dtype,
                                       device=value.device)
        value = _native._array_of(value, False)
        rows = tuple(n // self.size for n in value.shape[:1])
        return value, np.empty(rows + value.shape[1:], _own_byte_order(value.dtype))

    # ---- parts

    def broadcast(self, array: Any, root: int = 0, timeout: Optional[float] = None, *,
                  stream: StreamLike = None) -> Any:
        """Copies `array` of rank `root` into `array` of every other rank, in place."""
        waits = _waits(timeout, None, None, stream, array)
        _native.communicator_broadcast(self._handle, root, waits, array)
        return array

    def broadcast_async(self, array: Any, root: int = 0,
                        timeout: Optional[float] = None, *,
                        stream: StreamLike = None) -> Future:
        """The same at once: `array` is not read before the future is done."""
        waits = _waits(timeout, None, None, stream, array)
        return Future._of(_native.communicator_broadcast_async(
            self._handle, root, waits, array), array)

    def all_gather(self, value: Any, out: Any = None, timeout: Optional[float] = None, *,
                   options: Options = None, experimental_hints: Options = None,
                   stream: StreamLike = None) -> Any:
        """Joins `value` [n, ...] of all ranks along axis 0; n may differ between ranks, unless
        there is an `out` [size * n, ...], of which `value` may be this rank's own part."""
        waits = _waits(timeout, options, experimental_hints, stream, value)
        if out is None:
            return _native.communicator_all_gather(self._handle, value, waits)
        value, out = _like(value, out)
        _native.communicator_all_gather_into(self._handle, value, waits, out)
        return out

    def all_gather_async(self, value: Any, out: Any = None,
                         timeout: Optional[float] = None, *,
                         options: Options = None, experimental_hints: Options = None,
                         stream: StreamLike = None) -> Future:
        """The same at once. Without `out` the result is read-only."""
        waits = _waits(timeout, options, experimental_hints, stream, value)
        if out is None:
            return Future._of(_native.communicator_all_gather_async(self._handle, value, waits))
        value, out = _like(value, out)
        return Future._of(_native.communicator_all_gather_into_async(
            self._handle, value, waits, out), out)

    def gather(self, value: Any, root: int = 0, timeout: Optional[float] = None, *,
               options: Options = None, experimental_hints: Options = None,
               stream: StreamLike = None) -> Any:
        """Joins as all_gather does, at rank `root` only: None on the others."""
        waits = _waits(timeout, options, experimental_hints, stream, value)
        return _native.communicator_gather(self._handle, value, root, waits)

    def gather_async(self, value: Any, root: int = 0, timeout: Optional[float] = None, *,
                     options: Options = None, experimental_hints: Options = None,
                     stream: StreamLike = None) -> Future:
        """The same at once. The result is read-only."""
        waits = _waits(timeout, options, experimental_hints, stream, value)
        return Future._of(_native.communicator_gather_async(self._handle, value, root, waits))

    def scatter(self, value: Any = None, root: int = 0, out: Any = None,
                timeout: Optional[float] = None, *,
                stream: StreamLike = None) -> Any:
        """Rank r gets rows r * m to (r + 1) * m of the root's `value` [size * m, ...] in `out`
        [m, ...], which every rank but the root must give; the root's may be its own part of the
        value."""
        value, out = self._scattered(value, root, out)
        waits = _waits(timeout, None, None, stream, value, out)
        _native.communicator_scatter(self._handle, value, root, waits, out)
        return out

    def scatter_async(self, value: Any = None, root: int = 0, out: Any = None,
                      timeout: Optional[float] = None, *,
                      stream: StreamLike = None) -> Future:
        """The same at once."""
        value, out = self._scattered(value, root, out)
        waits = _waits(timeout, None, None, stream, value, out)
        return Future._of(_native.communicator_scatter_async(
            self._handle, value, root, waits, out), out)

    def _scattered(self, value: Any, root: int, out: Any) -> Tuple[Any, Any]:
        if self.rank != root:
            if out is None:
                raise TypeError(f"scatter: rank {self.rank} needs out, an array for its rows: only "
                                f"the root, rank {root}, knows their shape")
            return None, out
        if value is None:
            raise TypeError(f"scatter: rank {root} is the root and needs a value")
        return self._part(value, out)

    def all_to_all(self, value: Any, send_rows: Optional[Sequence[int]] = None, out: Any = None,
                   timeout: Optional[float] = None, *,
                   stream: StreamLike = None) -> Any:
        """Rows p * m to (p + 1) * m of `value` [size * m, ...] go to rank p; `out` of the same
        shape gets rank p's rows for this rank in their place.

        With send_rows, a number for each rank, which may differ between ranks: the first
        send_rows[0] rows go to rank 0, the next send_rows[1] to rank 1 and so on, together all of
        them. The result is then a pair: a new array of what came, in rank order, and an array of
        how many rows came from each rank."""
        waits = _waits(timeout, None, None, stream, value)
        if send_rows is None:
            value, out = _like(value, out)
            _native.communicator_all_to_all(self._handle, value, waits, out)
            return out
        if out is not None:
            raise TypeError("all_to_all: with send_rows the result is a new array; leave out away")
        received = np.zeros(len(send_rows), np.int64)
        joined = _native.communicator_all_to_all_uneven(self._handle, value, send_rows, waits,
                                                        received)
        return joined, received

    def all_to_all_async(self, value: Any, out: Any = None,
                         timeout: Optional[float] = None, *,
                         stream: StreamLike = None) -> Future:
        """The same at once, for equally many rows to each rank."""
        value, out = _like(value, out)
        waits = _waits(timeout, None, None, stream, value)
        return Future._of(_native.communicator_all_to_all_async(
            self._handle, value, waits, out), out)

    # ---- transfers

    def send(self, value: Any, to: int, timeout: Optional[float] = None, *,
             stream: StreamLike = None) -> None:
        """Sends `value` to rank `to`, which calls receive with an array of the same dtype and
        shape; neither returns before both have come. No other rank takes part. Two ranks that send
        to each other at once wait for each other: let one of them receive first."""
        waits = _waits(timeout, None, None, stream, value)
        _native.communicator_send(self._handle, value, to, waits)

    def send_async(self, value: Any, to: int, timeout: Optional[float] = None, *,
                   stream: StreamLike = None) -> Future:
        """The same at once: `value` goes to rank `to`. The result is None."""
        waits = _waits(timeout, None, None, stream, value)
        return Future._of(_native.communicator_send_async(self._handle, value, to, waits))

    def receive(self, array: Any, source: int, timeout: Optional[float] = None, *,
                stream: StreamLike = None) -> Any:
        """Receives what rank `source` sends, into `array`."""
        waits = _waits(timeout, None, None, stream, array)
        _native.communicator_receive(self._handle, source, waits, array)
        return array

    def receive_async(self, array: Any, source: int, timeout: Optional[float] = None, *,
                      stream: StreamLike = None) -> Future:
        """The same at once: what rank `source` sends comes into `array`."""
        waits = _waits(timeout, None, None, stream, array)
        return Future._of(_native.communicator_receive_async(
            self._handle, source, waits, array), array)

    def barrier(self, timeout: Optional[float] = None) -> None:
        """Returns when every rank has called it."""
        _native.communicator_barrier(self._handle, timeout)

    def barrier_async(self, timeout: Optional[float] = None) -> Future:
        """The same at once. The result is None."""
        return Future._of(_native.communicator_barrier_async(self._handle, timeout))

    # ---- the end of an epoch

    def abort(self, message: str) -> None:
        """Ends the epoch: calls in flight and later ones fail on every rank with AbortedError and
        `message`."""
        _native.communicator_abort(self._handle, message)

    def revoke(self, message: str) -> None:
        """Ends the epoch more gently: no rank begins another call, those under way may end, and
        those that wait for a rank that will not come fail with AbortedError and `message`."""
        _native.communicator_revoke(self._handle, message)

    def shrink(self, timeout: Optional[float] = None) -> "Communicator":
        """The next epoch of this communicator, in an elastic job (the setting elastic) or within a
        process: the ranks that are left, in their old order. All of them call it but those that
        close this communicator, which nobody waits for; this epoch is revoked. An error tells of
        another death meanwhile, or that a rank gave the call up: then all that are left call it
        again. The old communicator is still to be closed. FailedPreconditionError in a job that is
        not elastic."""
        return self._of(_native.communicator_shrink(self._handle, timeout))

    def grow(self, least: int = 0, timeout: Optional[float] = None) -> "Communicator":
        """The same of all workers that are there, newcomers too, who create a communicator of this
        name. Waits until there are `least` ranks (0: whoever is there). FailedPreconditionError
        within a process, and for a part of another communicator (split)."""
        return self._of(_native.communicator_grow(self._handle, least, timeout))

    def all_gather_value(self, value: Any, timeout: Optional[float] = None, *,
                         options: Options = None, experimental_hints: Options = None) -> List[Any]:
        """What every rank brings, in their order: any structure of arrays, numbers and texts,
        another one on each rank. It travels as bytes that every language reads (as by
        tutti.io.serialize_value); large arrays go better by all_gather. A value that cannot be sent
        is an error on all ranks, and the epoch goes on.

        >>> alone, = tutti.Communicator.create_local(1)
        >>> alone.all_gather_value({"rank": alone.rank, "name": "w"})[0]["name"]
        'w'
        """
        values: List[Any] = _native.communicator_all_gather_value(
            self._handle, value, _waits(timeout, options, experimental_hints))
        return values

    def broadcast_value(self, value: Any = None, root: int = 0, timeout: Optional[float] = None, *,
                        options: Options = None, experimental_hints: Options = None) -> Any:
        """What rank `root` brings, on every rank; the others' value is not looked at. Else as
        all_gather_value."""
        return _native.communicator_broadcast_value(
            self._handle, value, root, _waits(timeout, options, experimental_hints))

    def close(self, timeout: Optional[float] = None) -> None:
        """Leaves; peers that still need this rank fail with UnavailableError."""
        _native.communicator_close(self._handle, timeout)

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, _: Any, error: Optional[BaseException], __: Any) -> None:
        """Closes. The other ranks hear of an exception that leaves the block, as by `abort`."""
        why = _leaving.reason(error)
        if why is not None:
            try:
                self.abort(f"rank {self.rank} has left by {why}")
            except errors.Error:  # it is closed already
                pass
        self.close()
