"""How values of a strategy's replicas become one on some devices, and how one gets to several."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Callable, Iterable, List, Optional, Sequence, Tuple, Union

from tutti import _native, _scope, errors
from tutti._reduce_op import ReduceOp
from tutti._variable import member
from tutti.distribute import _communication
from tutti.distribute._communication import CommunicationImplementation, CommunicationOptions

if TYPE_CHECKING:
    from tutti.distribute._strategy import Strategy


def _ambient_strategy(what: str) -> "Strategy":
    from tutti.distribute import _context

    if not _context.in_cross_replica_context():
        raise errors.FailedPreconditionError(
            f"{what} can be called in cross-replica context only: in a strategy's scope, a merge "
            f"function or an update function")
    return _context.get_strategy()


class CrossDeviceOps:
    """The base of cross-device ops, which MirroredStrategy takes. A class of one's own defines
    reduce_implementation, perhaps batch_reduce_implementation and broadcast_implementation:

        class Largest(tutti.distribute.CrossDeviceOps):
            def reduce_implementation(self, reduce_op, per_replica_value, destinations, options):
                strategy = tutti.distribute.get_strategy()
                return numpy.max(strategy.local_results(per_replica_value), axis=0)

    They run in cross-replica context, possibly on several threads at once; run and collectives are
    a FailedPreconditionError there. What they give has the dtype and shape of the replicas' values,
    one array or, for several destinations, a distributed value; anything else is a ValueError for
    who asked. Where the call has a timeout they run on another thread than the caller's, who gets a
    DeadlineExceededError then; what they give later is dropped.

    Destinations are as in StrategyExtended.
    """

    def reduce(self, reduce_op: Union[ReduceOp, str, int], per_replica_value: Any,
               destinations: Any, options: Optional[CommunicationOptions] = None) -> Any:
        """reduce_op of per_replica_value, a PerReplica or a variable, on the destinations: an array
        on one device, mirrored on several. In cross-replica context only. Of
        another value MEAN is the value, and SUM a ValueError with several replicas; so are values
        and destinations that are none. options: CommunicationOptions."""
        strategy = _ambient_strategy("CrossDeviceOps.reduce")
        return _native.reducer_reduce(
            reducer_of(self), strategy._handle, member(ReduceOp, reduce_op, "reduce_op"),
            per_replica_value, destinations, _waits(options))

    def batch_reduce(self, reduce_op: Union[ReduceOp, str, int],
                     value_destination_pairs: Iterable[Tuple[Any, Any]],
                     options: Optional[CommunicationOptions] = None) -> List[Any]:
        """reduce by reduce_op of many value_destination_pairs (value, destinations) at once: a list
        of results. ValueError for what is no sequence of pairs. options: CommunicationOptions."""
        strategy = _ambient_strategy("CrossDeviceOps.batch_reduce")
        return list(_native.reducer_batch_reduce(
            reducer_of(self), strategy._handle, member(ReduceOp, reduce_op, "reduce_op"),
            pairs_of(value_destination_pairs), _waits(options)))

    def broadcast(self, tensor: Any, destinations: Any) -> Any:
        """The array `tensor` on the destinations. In cross-replica context only."""
        strategy = _ambient_strategy("CrossDeviceOps.broadcast")
        return _native.reducer_broadcast(reducer_of(self), strategy._handle, tensor, destinations,
                                         None)

    def reduce_implementation(self, reduce_op: ReduceOp, per_replica_value: Any,
                              destinations: Any, options: CommunicationOptions) -> Any:
        """What reduce does, of a class of one's own: reduce_op (SUM or MEAN, or what an all_reduce
        of replicas asks for) of per_replica_value, which has an array for each replica, on
        destinations. options: CommunicationOptions."""
        raise NotImplementedError(f"{type(self).__name__} has no reduce_implementation")

    def batch_reduce_implementation(self, reduce_op: ReduceOp,
                                    value_destination_pairs: Sequence[Tuple[Any, Any]],
                                    options: CommunicationOptions) -> Sequence[Any]:
        """What batch_reduce does with reduce_op and value_destination_pairs; by default
        reduce_implementation of each pair. options: CommunicationOptions."""
        return [self.reduce_implementation(reduce_op, value, destinations, options)
                for value, destinations in value_destination_pairs]

    def broadcast_implementation(self, tensor: Any, destinations: Any) -> Any:
        """What broadcast does with `tensor` and destinations; by default the array itself for each
        device."""
        return tensor

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class _BuiltIn(CrossDeviceOps):
    """Those of the library: their implementations are the library's, also in a class derived."""

    _reducer: Any

    def reduce_implementation(self, reduce_op: ReduceOp, per_replica_value: Any,
                              destinations: Any, options: CommunicationOptions) -> Any:
        """reduce_op of per_replica_value on destinations, as the library does it. options:
        CommunicationOptions."""
        strategy = _ambient_strategy("reduce_implementation")
        return _native.reducer_reduce(
            self._reducer, strategy._handle, member(ReduceOp, reduce_op, "reduce_op"),
            per_replica_value, destinations, _waits(options))

    def batch_reduce_implementation(self, reduce_op: ReduceOp,
                                    value_destination_pairs: Sequence[Tuple[Any, Any]],
                                    options: CommunicationOptions) -> Sequence[Any]:
        """reduce_op of value_destination_pairs, as the library does it. options:
        CommunicationOptions."""
        strategy = _ambient_strategy("batch_reduce_implementation")
        results: Sequence[Any] = _native.reducer_batch_reduce(
            self._reducer, strategy._handle, member(ReduceOp, reduce_op, "reduce_op"),
            pairs_of(value_destination_pairs), _waits(options))
        return results

    def broadcast_implementation(self, tensor: Any, destinations: Any) -> Any:
        """The array `tensor` on destinations, as the library does it."""
        strategy = _ambient_strategy("broadcast_implementation")
        return _native.reducer_broadcast(self._reducer, strategy._handle, tensor, destinations,
                                         None)

    def __repr__(self) -> str:
        return f"<{_native.reducer_to_string(self._reducer)}>"


class AllReduce(_BuiltIn):
    """What a strategy does that was given no cross_device_ops: each element is read from all
    replicas and written once, in the order of the replicas."""

    def __init__(self) -> None:
        self._reducer = _native.reducer_all_reduce()


class ReductionToOneDevice(_BuiltIn):
    """All to one device, and from there to where they go.

    reduce_to_device: its name; None: the first destination. A ValueError or NotFoundError for one
    that is not there. accumulation_fn: makes one array of the list of the replicas' arrays; None:
    addition, in the order of the replicas. MEAN divides what it gives by their number.
    """

    def __init__(self, reduce_to_device: Optional[str] = None,
                 accumulation_fn: Optional[Callable[[List[Any]], Any]] = None):
        device = None if reduce_to_device is None else str(reduce_to_device)
        if accumulation_fn is None:
            self._reducer = _native.reducer_reduction_to_one_device(device)
            return
        if not callable(accumulation_fn):
            raise TypeError("accumulation_fn: a function is needed, not an object of type "
                            f"{type(accumulation_fn).__name__}")
        accumulate = accumulation_fn
        self._reducer = _native.reducer_accumulation(
            device, lambda strategy, *tensors: accumulate(list(tensors)))


class HierarchicalCopyAllReduce(_BuiltIn):
    """The arrays of a batch in num_packs packs, one fold each; 0: none is packed. A ValueError for
    a negative number. Results have the bits of those without cross_device_ops, but between GPUs:
    there packs go along a tree of the links between them and back, and of more than two GPUs sums
    and products of floats have the bits of that tree, the same on all of them."""

    def __init__(self, num_packs: int = 1):
        self._reducer = _native.reducer_hierarchical_copy_all_reduce(operator.index(num_packs))


class NcclAllReduce(_BuiltIn):
    """NVIDIA's library, between GPUs of which each has one array. What it cannot serve (values on
    the host, no NCCL, one of a version before 2.18) goes the way it goes without cross_device_ops,
    and the first such use says why in one warning. num_packs: as in HierarchicalCopyAllReduce."""

    def __init__(self, num_packs: int = 1):
        self._reducer = _native.reducer_nccl_all_reduce(operator.index(num_packs))


def _waits(options: Optional[CommunicationOptions]) -> Any:
    return _communication.waits_of(None, options, None)


def pairs_of(pairs: Any) -> List[Tuple[Any, Any]]:
    try:
        read = [tuple(pair) for pair in pairs]
    except TypeError:
        raise ValueError("value_destination_pairs: pairs (value, destinations) are needed, not "
                         f"{pairs!r}") from None
    return read


_OWN = {_BuiltIn.reduce_implementation, _BuiltIn.batch_reduce_implementation,
        _BuiltIn.broadcast_implementation}


def reducer_of(ops: CrossDeviceOps) -> Any:
    """The library's object for some ops. What it keeps of a program's own is the ops; the ops keep
    nothing of it, so that both can end."""
    cls = type(ops)
    if isinstance(ops, _BuiltIn) and {cls.reduce_implementation, cls.batch_reduce_implementation,
                                      cls.broadcast_implementation} == _OWN:
        return ops._reducer

    def call(strategy: Any, asked: str, value: Any, destinations: Any) -> Any:
        what, number, implementation, bytes_per_pack = asked.split(" ")
        if what == "broadcast":
            return ops.broadcast_implementation(value, destinations)
        options = CommunicationOptions(
            int(bytes_per_pack),
            implementation=list(CommunicationImplementation)[max(int(implementation), 1) - 1])
        if what == "reduce":
            return ops.reduce_implementation(ReduceOp(int(number)), value, destinations, options)
        return tuple(ops.batch_reduce_implementation(ReduceOp(int(number)), list(value), options))

    return _native.reducer_create(call, cls.__name__)
