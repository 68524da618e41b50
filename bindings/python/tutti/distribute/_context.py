"""Where the caller stands: the ambient strategy, and replica contexts."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence, Tuple, Union

from tutti import _arguments, _native, _scope, errors
from tutti._reduce_op import ReduceOp
from tutti._values import PerReplica
from tutti._variable import member
from tutti.distribute._communication import CommunicationOptions, hints_of, timeout_in

if TYPE_CHECKING:
    from tutti.distribute._strategy import Strategy


def _code(function: Callable[..., Any]) -> str:
    """What tells functions apart: replicas make a lambda each, of the same code. A text, because
    the library hands an object back by a thread of its own, which would be woken at every merge
    call."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None)
    if code is None:
        return f"{type(function).__name__} {id(type(function))}"
    return f"{code.co_name} {id(code)}"


def with_keywords(function: Callable[..., Any], args: Any, kwargs: Optional[Mapping[str, Any]],
                  leading: int = 0) -> Tuple[Callable[..., Any], Tuple[Any, ...]]:
    """Function and arguments such that keyword arguments cross as one more structure."""
    args = tuple(args)
    if not kwargs:
        return function, args

    def call(*given: Any) -> Any:
        return function(*given[:leading], *given[leading], **given[leading + 1])

    return call, (args, dict(kwargs))


class ReplicaContext(_native.Context):
    """What a replica function reaches the other replicas through; ends when the function returns
    (FailedPreconditionError afterwards). Threads: the replica's own."""

    __slots__ = ()

    @property
    def replica_id_in_sync_group(self) -> int:
        """The replica among all replicas in sync, 0 .. n-1."""
        return _native.context_replica_id(self)

    @property
    def num_replicas_in_sync(self) -> int:
        """All replicas of all workers."""
        return _native.context_replica_count(self)

    @property
    def global_rows(self) -> int:
        """Rows of this step over all replicas of all workers, when run was given a batch of a
        distributed iterator or a part of one; else -1. Scale a loss by 1 / global_rows and sum: the
        mean of means is wrong when batches are uneven.

        An array of a batch carries the number as long as it is that array: what is computed of it,
        a view, and a single byte string are no batch, and batches of different steps have no
        number in common: -1, which is no scale. So compute inside the replica function, or give
        run one array of the batch as it came beside what was made of it."""
        return _native.context_global_rows(self)

    @property
    def device(self) -> str:
        """The device of this replica."""
        return _native.context_device(self)

    @property
    def devices(self) -> Tuple[str]:
        """The same, in a tuple."""
        return (self.device,)

    @property
    def strategy(self) -> "Strategy":
        """The strategy that runs this function."""
        from tutti.distribute import _strategy

        handle = _native.context_strategy(self)
        return _strategy._strategy_of(_native._strategy_address(handle), handle)

    @property
    def is_cancelled(self) -> bool:
        """Whether the call was cancelled, ran out of time or failed in another replica: return
        soon."""
        return _native.context_is_cancelled(self)

    def all_reduce(self, reduce_op: Union[ReduceOp, str, int], value: Any,
                   options: Optional[CommunicationOptions] = None,
                   timeout: Optional[float] = None, *,
                   experimental_hints: Optional[CommunicationOptions] = None) -> Any:
        """Reduces every tensor of `value` over all replicas by reduce_op, a ReduceOp or its name;
        each gets the same bits. All replicas must call it with the same structure, dtypes and
        shapes; else all get an InvalidArgumentError that names both sides. AbortedError when
        another replica failed. IndexedSlices of all replicas are joined, by SUM or MEAN. options,
        also as experimental_hints: CommunicationOptions.

        >>> def step():
        ...     context = tutti.distribute.get_replica_context()
        ...     return context.all_reduce("mean", {"loss": context.replica_id_in_sync_group * 2.0})
        >>> strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        >>> [float(value) for value in strategy.run(step)["loss"].values]
        [1.0, 1.0]
        """
        if options is not None or experimental_hints is not None:
            options = hints_of(options, experimental_hints)
        return _native.context_all_reduce(self, member(ReduceOp, reduce_op, "reduce_op"), value,
                                          timeout_in(self, options, timeout))

    def all_gather(self, value: Any, axis: int, options: Optional[CommunicationOptions] = None,
                   timeout: Optional[float] = None, *,
                   experimental_hints: Optional[CommunicationOptions] = None) -> Any:
        """Joins every tensor of `value` of all replicas along `axis`, in replica order. options,
        also as experimental_hints: CommunicationOptions."""
        if options is not None or experimental_hints is not None:
            options = hints_of(options, experimental_hints)
        return _native.context_all_gather(self, value, axis, timeout_in(self, options, timeout))

    def merge_call(self, merge_fn: Callable[..., Any], args: Sequence[Any] = (),
                   kwargs: Optional[Mapping[str, Any]] = None,
                   timeout: Optional[float] = None) -> Any:
        """Runs merge_fn(strategy, *args, **kwargs) once for all replicas, on the thread that called
        run, in cross-replica context. Arrays and numbers of the arguments, and other objects that
        differ between replicas, are PerReplica there; of its result each replica gets its own part.
        All replicas must make the same number of merge calls (FailedPreconditionError) with the
        same function (InvalidArgumentError)."""
        function, given = with_keywords(merge_fn, args, kwargs, leading=1)

        def merge(strategy: Any, code: Any, *merged: Any) -> Any:
            if isinstance(code, PerReplica):
                names = [part.rsplit(" ", 1)[0] for part in code.values]
                raise errors.InvalidArgumentError(
                    f"the replicas reached the same merge call with different functions: "
                    f"{', '.join(names)}")
            return function(strategy, *merged)

        return _native.context_merge_call(self, merge, (_code(merge_fn), *given), timeout)

    def __repr__(self) -> str:
        try:
            return (f"<ReplicaContext {self.replica_id_in_sync_group} of "
                    f"{self.num_replicas_in_sync}>")
        except errors.FailedPreconditionError:
            return "<ReplicaContext that has ended>"


class UpdateContext(_native.Context):
    """Where an update function runs (strategy.extended.update), for one device: reads and writes of
    variables are those of the copy there. It is cross-replica context, in which run and collectives
    are a FailedPreconditionError, and ends with the function. Threads: the function's own."""

    __slots__ = ()

    @property
    def update_replica_id(self) -> int:
        """The number of the copy, 0 .. devices-1."""
        return _native.context_update_replica_id(self)

    @property
    def device(self) -> str:
        """The device of the copy."""
        return _native.context_device(self)

    @property
    def strategy(self) -> "Strategy":
        """The strategy whose update this is."""
        from tutti.distribute import _strategy

        handle = _native.context_strategy(self)
        return _strategy._strategy_of(_native._strategy_address(handle), handle)

    def __repr__(self) -> str:
        try:
            return f"<UpdateContext of copy {self.update_replica_id} on {self.device}>"
        except errors.FailedPreconditionError:
            return "<UpdateContext that has ended>"


class DefaultReplicaContext:
    """The replica context outside of every strategy: one replica, on its own."""

    replica_id_in_sync_group = 0
    num_replicas_in_sync = 1
    global_rows = -1
    device = ""
    devices = ("",)
    is_cancelled = False

    @property
    def strategy(self) -> "Strategy":
        return get_strategy()

    def all_reduce(self, reduce_op: Union[ReduceOp, str, int], value: Any,
                   options: Optional[CommunicationOptions] = None,
                   timeout: Optional[float] = None, *,
                   experimental_hints: Optional[CommunicationOptions] = None) -> Any:
        member(ReduceOp, reduce_op, "reduce_op")
        hints_of(options, experimental_hints)
        return value

    def all_gather(self, value: Any, axis: int, options: Optional[CommunicationOptions] = None,
                   timeout: Optional[float] = None, *,
                   experimental_hints: Optional[CommunicationOptions] = None) -> Any:
        hints_of(options, experimental_hints)
        return value

    def merge_call(self, merge_fn: Callable[..., Any], args: Sequence[Any] = (),
                   kwargs: Optional[Mapping[str, Any]] = None,
                   timeout: Optional[float] = None) -> Any:
        strategy = get_strategy()
        token = _scope.scope.set(_scope.CrossReplica(strategy))
        try:
            return merge_fn(strategy, *args, **(kwargs or {}))
        finally:
            _scope.scope.reset(token)

    def __repr__(self) -> str:
        return "<ReplicaContext of the default strategy>"


_default_replica_context = DefaultReplicaContext()


def get_strategy() -> "Strategy":
    """The strategy whose scope or replica function this is, else the default strategy."""
    scope = _scope.scope.get()
    if scope is None:
        from tutti.distribute import _strategy

        return _strategy.default_strategy()
    strategy: Strategy = scope.strategy
    return strategy


def has_strategy() -> bool:
    """Whether there is a strategy that is not the default one."""
    scope = _scope.scope.get()
    if scope is None:
        return False
    from tutti.distribute import _strategy

    return not isinstance(scope.strategy, _strategy.DefaultStrategy)


def get_replica_context() -> Union[ReplicaContext, Any]:
    """The context of the replica function that this is; None in cross-replica context."""
    scope = _scope.scope.get()
    if scope is None:
        return _default_replica_context
    return None if isinstance(scope, (_scope.CrossReplica, UpdateContext)) else scope


def in_cross_replica_context() -> bool:
    """Whether this is inside a strategy's scope, a merge function, an update function or
    cross-device ops."""
    return isinstance(_scope.scope.get(), (_scope.CrossReplica, UpdateContext))


def get_update_replica_id() -> Optional[int]:
    """In an update function (strategy.extended.update) the number of the device that it is called
    for, among those of the variable; None elsewhere."""
    scope = _scope.scope.get()
    return scope.update_replica_id if isinstance(scope, UpdateContext) else None


def experimental_set_strategy(strategy: Optional["Strategy"]) -> None:
    """Enters a strategy's scope for good, without a `with`; None goes back to the default.
    FailedPreconditionError inside a scope."""
    if strategy is not None:
        from tutti.distribute._strategy import Strategy

        _arguments.check("experimental_set_strategy: strategy", strategy, Strategy)
    scope = _scope.scope.get()
    if scope is not None and not getattr(scope, "pinned", False):
        raise errors.FailedPreconditionError(
            "experimental_set_strategy must not be called inside a strategy's scope")
    _scope.scope.set(None if strategy is None else _scope.CrossReplica(strategy, pinned=True))
