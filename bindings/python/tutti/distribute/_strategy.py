"""Strategies."""

from __future__ import annotations

import contextvars
import weakref
from typing import (TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple,
                    Type, Union)

import numpy as np

from tutti import _arguments, _native, _runtime, _scope, errors
from tutti._device import device
from tutti._reduce_op import ReduceOp
from tutti._variable import member
from tutti.data._dataset import Dataset
from tutti.distribute import cluster_resolver as resolvers
from tutti.distribute import _communication
from tutti.distribute._communication import CommunicationOptions
from tutti.distribute._context import UpdateContext, with_keywords
from tutti.distribute import _cross_device_ops
from tutti.distribute._cross_device_ops import CrossDeviceOps
from tutti.distribute._extended import StrategyExtended
from tutti.distribute._input import DistributedDataset, InputContext, InputOptions, ValueContext
from tutti.distribute._run_options import RunOptions

if TYPE_CHECKING:
    from tutti._cluster import Cluster
    from tutti._communicator import Communicator

# Live strategies by address, so that a strategy that comes out of the library is the same object.
_wrappers: "weakref.WeakValueDictionary[int, Strategy]" = weakref.WeakValueDictionary()


class _StrategyScope:
    """What `with strategy.scope():` enters and leaves; any number of times, also nested."""

    __slots__ = ("_strategy", "_tokens", "_devices")

    # What is done in a scope is done on this device, but for what replicas do; None: as outside.
    _device: Optional[str] = None

    def __init__(self, strategy: "Strategy"):
        self._strategy = strategy
        self._tokens: List["contextvars.Token[Any]"] = []
        self._devices: List[Any] = []

    def __enter__(self) -> "Strategy":
        scope = _scope.scope.get()
        if isinstance(scope, UpdateContext) and scope.strategy is self._strategy:
            self._tokens.append(_scope.scope.set(scope))
            return self._strategy
        if scope is not None and not isinstance(scope, (_scope.CrossReplica, UpdateContext)):
            raise errors.FailedPreconditionError(
                "a strategy's scope cannot be entered inside a replica function")
        if scope is not None and scope.strategy is not self._strategy:
            raise errors.FailedPreconditionError(
                f"the scope of {self._strategy!r} cannot be entered inside that of "
                f"{scope.strategy!r}: leave that one first")
        self._tokens.append(_scope.scope.set(_scope.CrossReplica(self._strategy)))
        if self._device is not None:
            self._devices.append(device(self._device))
            self._devices[-1].__enter__()
        return self._strategy

    def __exit__(self, *_: Any) -> None:
        if self._devices:
            self._devices.pop().__exit__(None, None, None)
        _scope.scope.reset(self._tokens.pop())


class _WorkerScope(_StrategyScope):
    """That of several workers: on the worker's own CPU."""

    __slots__ = ()
    _device = "/CPU:0"


def _stacked(arrays: Any) -> Any:
    """The same structure, with one array for each list."""
    if isinstance(arrays, list):
        return np.stack([np.asarray(_stacked(part)) for part in arrays]) if arrays else (
            np.asarray(arrays))
    if isinstance(arrays, dict):
        return {key: _stacked(part) for key, part in arrays.items()}
    if isinstance(arrays, tuple):
        parts = [_stacked(part) for part in arrays]
        return type(arrays)(*parts) if hasattr(arrays, "_fields") else tuple(parts)
    return arrays


class Strategy(_arguments.NamesNearest):
    """The same function on several replicas, concurrently: replica 0 on the thread that calls run,
    the others on threads of the strategy. Threads: any; of two concurrent runs the later one is a
    FailedPreconditionError."""

    __slots__ = ("_handle", "__weakref__")

    def _adopt(self, handle: Any) -> None:
        self._handle = handle
        _wrappers[_native._strategy_address(handle)] = self

    # ---- what it is

    @property
    def num_replicas_in_sync(self) -> int:
        """All replicas of all workers."""
        return _native.strategy_num_replicas_in_sync(self._handle)

    @property
    def local_replica_count(self) -> int:
        """The replicas of this process."""
        return _native.strategy_local_replica_count(self._handle)

    @property
    def worker_devices(self) -> Tuple[str, ...]:
        """The devices of this process's replicas."""
        return tuple(_native.strategy_worker_device(self._handle, i)
                     for i in range(self.local_replica_count))

    @property
    def worker(self) -> int:
        """This process's place among the strategy's workers, 0 where there is one only."""
        return _native.strategy_worker(self._handle)

    @property
    def num_workers(self) -> int:
        """The workers, this one included."""
        return _native.strategy_worker_count(self._handle)

    @property
    def cluster_resolver(self) -> Optional[resolvers.ClusterResolver]:
        """What found the workers of a MultiWorkerMirroredStrategy; None for other strategies."""
        handle = _native.strategy_cluster_resolver(self._handle)
        return None if handle is None else resolvers._LibraryResolver._of(handle)

    @property
    def extended(self) -> StrategyExtended:
        """What a strategy does on devices."""
        return StrategyExtended(self)

    def explain(self) -> str:
        """Lines that say where replicas and variables are, how the strategy reduces, and, where it
        was given cross-device ops, how often these were used for tensors of which dtype and
        shape."""
        return _native.strategy_explain(self._handle)

    @property
    def cluster(self) -> "Optional[Cluster]":
        """The cluster that the strategy's workers sit in, which Cluster.join gives as well; None
        for a strategy of this process alone."""
        from tutti._cluster import Cluster

        handle = _native.strategy_cluster(self._handle)
        return None if handle is None else Cluster._of(handle)

    @property
    def communicator(self) -> "Communicator":
        """A communicator of the strategy's workers, a rank each, for collectives of the program's
        own between runs. All strategies of a job give the same one, until its epoch has ended or it
        was closed: then all workers ask again, and the next is formed with all of them. Of a
        strategy of this process alone it has one rank."""
        from tutti._communicator import Communicator

        return Communicator._of(_native.strategy_communicator(self._handle, None))

    def scope(self) -> _StrategyScope:
        """Cross-replica context with this as the ambient strategy: variables that are made there
        have a copy per replica. May be entered again inside itself; entering another strategy's
        scope there is a FailedPreconditionError.

        >>> strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        >>> with strategy.scope():
        ...     weights = tutti.Variable([1.0, 2.0])
        >>> len(strategy.experimental_local_results(weights))
        2
        """
        return _StrategyScope(self)

    # ---- running

    def run(self, fn: Callable[..., Any], args: Sequence[Any] = (),
            kwargs: Optional[Mapping[str, Any]] = None, options: Optional[RunOptions] = None,
            timeout: Optional[float] = None) -> Any:
        """Calls `fn(*args, **kwargs)` once per replica, concurrently, and returns when no call is
        running any more.

        Replica i gets component i of every PerReplica in the arguments and the value itself of
        every other; arrays arrive as read-only views. Results are joined leaf by leaf: the
        identical object, None and equal strings stay one value; numbers become scalars of float32
        and int32 as in a Tensor, and tensors become PerReplica (with one replica they stay what
        they are).

        An exception of a replica stops the others and comes out as itself. options: RunOptions.
        timeout: seconds (DeadlineExceededError): looked at when a replica enters a collective and
        when all have returned, and the end of what they wait for.

        >>> strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        >>> def step():
        ...     context = tutti.distribute.get_replica_context()
        ...     return context.all_reduce("sum", context.replica_id_in_sync_group + 1)
        >>> [int(value) for value in strategy.run(step).values]
        [3, 3]
        """
        if kwargs:
            fn, args = with_keywords(fn, args, kwargs)
        elif args.__class__ is not tuple:
            args = tuple(args)
        device = _scope.device.get()
        if options is None and device is None:
            return _native.strategy_run(self._handle, fn, args, timeout)
        options = RunOptions() if options is None else options
        _arguments.check("run: options", options, RunOptions)
        caller = None
        if not isinstance(self, DefaultStrategy):  # replicas begin on devices of their own
            caller = _scope.device.set(None)
        try:
            return _native.strategy_run_with_options(
                self._handle, fn, args, options.experimental_enable_dynamic_batch_size,
                options.experimental_bucketizing_dynamic_shape,
                None if device is None else device.to_string(), timeout)
        finally:
            if caller is not None:
                _scope.device.reset(caller)

    experimental_run_v2 = run

    def experimental_run(self, fn: Callable[..., Any], input_iterator: Any = None,
                         timeout: Optional[float] = None) -> Any:
        """run under an older name: fn gets the next step of input_iterator, or no argument."""
        args = () if input_iterator is None else (next(input_iterator),)
        return self.run(fn, args, timeout=timeout)

    def call_for_each_replica(self, fn: Callable[..., Any], args: Sequence[Any] = (),
                              kwargs: Optional[Mapping[str, Any]] = None,
                              timeout: Optional[float] = None) -> Any:
        """run without options: fn(*args, **kwargs) once per replica."""
        return self.run(fn, args, kwargs, timeout=timeout)

    # ---- values

    def reduce(self, reduce_op: Union[ReduceOp, str, int], value: Any, axis: Optional[int] = None,
               timeout: Optional[float] = None, *,
               options: Optional[CommunicationOptions] = None,
               experimental_hints: Optional[CommunicationOptions] = None) -> Any:
        """Reduces every leaf of `value` over all replicas, on the host. reduce_op: SUM or MEAN.

        axis None: across replicas only, equal shapes (the ValueError names both). With an axis also
        along it inside each replica; MEAN then divides by the number of elements of all replicas. A
        value that is not distributed: MEAN gives it back, SUM is a ValueError with several
        replicas. Of a Mirrored value MEAN gives the value, SUM adds its components. IndexedSlices
        are joined, without an axis. options, also as experimental_hints: CommunicationOptions.

        >>> strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        >>> losses = strategy.run(
        ...     lambda: tutti.distribute.get_replica_context().replica_id_in_sync_group * 1.0)
        >>> float(strategy.reduce("mean", losses))
        0.5
        """
        hints = _communication.hints_of(options, experimental_hints)
        return _native.strategy_reduce(self._handle, member(ReduceOp, reduce_op, "reduce_op"),
                                       value, axis,
                                       _communication.timeout_of(self, timeout, hints))

    def gather(self, value: Any, axis: int, timeout: Optional[float] = None, *,
               options: Optional[CommunicationOptions] = None,
               experimental_hints: Optional[CommunicationOptions] = None) -> Any:
        """Joins every distributed leaf of `value` along `axis`, in replica order: rank >= 1, equal
        sizes on all other axes. options, experimental_hints: as in reduce."""
        hints = _communication.hints_of(options, experimental_hints)
        return _native.strategy_gather(self._handle, value, axis,
                                       _communication.timeout_of(self, timeout, hints))

    def local_results(self, value: Any) -> Tuple[Any, ...]:
        """The values of this process's replicas, in order; of a value that is not distributed a
        tuple of one."""
        results: Tuple[Any, ...] = _native.strategy_local_results(self._handle, value)
        return results

    experimental_local_results = local_results

    def distribute_values_from_function(self, value_fn: Callable[[ValueContext], Any],
                                        timeout: Optional[float] = None) -> Any:
        """A distributed value from one call of value_fn(ValueContext) per replica of this process,
        in order."""
        return _native.strategy_create_values(
            self._handle, lambda given: value_fn(ValueContext(**given)), timeout)

    experimental_distribute_values_from_function = distribute_values_from_function

    def per_replica(self, values: Sequence[Any]) -> Any:
        """A distributed value of `values`, one per replica of this process, all of one
        structure."""
        return _native.strategy_create_per_replica(self._handle, list(values))

    def mirrored(self, value: Any) -> Any:
        """`value` on every replica of this process: a structure whose leaves are Mirrored, which
        are read as they are. ValueError (InvalidArgumentError) for what has a component or a copy
        per replica already."""
        return _native.strategy_create_mirrored_value(self._handle, value)

    # ---- datasets

    def distribute_dataset(self, dataset: Dataset, options: Optional[InputOptions] = None,
                           timeout: Optional[float] = None) -> DistributedDataset:
        """Cuts every batch of `dataset` over the replicas: b rows into slices of
        ceil(b / replicas), trailing slices empty, never across batches (or as options.rebatch
        says). The elements must be batches (ValueError). A step's leaves are PerReplica, with one
        replica in this process plain arrays.

        Several workers share the data by the dataset's option
        experimental_distribute.auto_shard_policy: FILE, each reads files of its own, and fewer
        files than workers are a ValueError on every worker, unless the option
        experimental_distribute.share_files lets several of them take the elements of a file in
        turn; DATA, each reads all and takes its part; OFF, each takes all; AUTO (the default), FILE
        where there are files, else DATA.

        >>> strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        >>> steps = strategy.distribute_dataset(tutti.data.Dataset.range(8).batch(4))
        >>> [[part.tolist() for part in step.values] for step in steps]
        [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
        """
        _arguments.check("distribute_dataset: dataset", dataset, Dataset)
        options = InputOptions() if options is None else options
        _arguments.check("distribute_dataset: options", options, InputOptions)
        return DistributedDataset._of(_native.strategy_distribute_dataset(
            self._handle, dataset._handle, options._rebatch_number(),
            *options._numbers(), timeout))

    experimental_distribute_dataset = distribute_dataset

    def distribute_datasets_from_function(self, dataset_fn: Callable[[InputContext], Dataset],
                                          options: Optional[InputOptions] = None,
                                          timeout: Optional[float] = None) -> DistributedDataset:
        """One dataset per input pipeline, dataset_fn(InputContext), which is called here; its
        elements go to the replicas one each, in turn, or, with InputReplicationMode.PER_REPLICA, to
        the one whose pipeline it is, and nothing is rebatched or sharded. Where the data ends in
        the middle of a step, replicas without any get batches of 0 rows, and zeros for elements of
        rank 0. options: InputOptions."""
        options = InputOptions() if options is None else options
        _arguments.check("distribute_datasets_from_function: options", options, InputOptions)
        return DistributedDataset._of(_native.strategy_distribute_datasets_from_function(
            self._handle, lambda given: dataset_fn(InputContext(**given)),
            *options._numbers(), timeout))

    experimental_distribute_datasets_from_function = distribute_datasets_from_function

    def experimental_make_numpy_dataset(self, numpy_input: Any) -> Dataset:
        """The slices of `numpy_input` along axis 0, as of Dataset.from_tensor_slices, to batch and
        distribute: an array, or a tuple or dict of them, whose sizes along axis 0 are equal
        (ValueError); a list of arrays is stacked. Arrays are not copied: do not write to them
        afterwards. TypeError for None."""
        if numpy_input is None:
            raise TypeError("experimental_make_numpy_dataset: numpy_input: arrays are needed, not "
                            "None")
        return Dataset.from_tensor_slices(_stacked(numpy_input))

    # ---- the end

    def close(self, timeout: Optional[float] = None) -> None:
        """Stops and joins the replica threads; later calls are FailedPreconditionError."""
        _native.strategy_close(self._handle, timeout)

    def __enter__(self) -> "Strategy":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        seat = f", worker {self.worker} of {self.num_workers}" if self.num_workers > 1 else ""
        count = self.num_replicas_in_sync
        return (f"<{_native.strategy_type_name(self._handle)} of {count} "
                f"replica{'' if count == 1 else 's'} on {', '.join(self.worker_devices)}{seat}>")


def _names(devices: Optional[Sequence[str]]) -> List[str]:
    if isinstance(devices, str):
        devices = [devices]
    return [str(device) for device in devices or ()]


class MirroredStrategy(Strategy):
    """One replica per device, variables mirrored on all.

    devices: names such as "CPU:0", "CPU:1" (logical devices, as many as are named); None: all GPUs,
    else the CPU. A device twice or unknown is a ValueError. cross_device_ops: a CrossDeviceOps, by
    which reduce and reduce_to, writes of replicas into variables and their all_reduce of SUM and
    MEAN go (explain says for which tensors); None or "auto": the library chooses;
    "reduction_to_one_device": a ReductionToOneDevice().
    """

    __slots__ = ()

    def __init__(self, devices: Optional[Sequence[str]] = None,
                 cross_device_ops: Union[CrossDeviceOps, str, None] = None,
                 name: Optional[str] = None, timeout: Optional[float] = None):
        number, reducer = 1, None
        if isinstance(cross_device_ops, CrossDeviceOps):
            reducer = _cross_device_ops.reducer_of(cross_device_ops)
        else:
            known = {None: 1, "auto": 1, "reduction_to_one_device": 2}.get(cross_device_ops)
            if known is None:
                raise ValueError(f"cross_device_ops: {cross_device_ops!r} is no CrossDeviceOps and "
                                 f"none of None, 'auto', 'reduction_to_one_device'")
            number = known
        self._adopt(_native.strategy_mirrored(_names(devices), number, reducer, name, timeout))


class CentralStorageStrategy(Strategy):
    """One replica per device, variables on one device: each has one copy, for which the replicas'
    writes are aggregated, and which is updated once. It is in tutti.distribute.experimental, too.

    compute_devices: the replicas' ("CPU:0", "CPU:1"); None: all GPUs, else the CPU.
    parameter_device: where variables are; None: the CPU. A device that is not there is a
    ValueError. An ON_READ variable has a copy for each replica all the same, on that device.
    """

    __slots__ = ()

    def __init__(self, compute_devices: Optional[Sequence[str]] = None,
                 parameter_device: Optional[str] = None, name: Optional[str] = None,
                 timeout: Optional[float] = None):
        parameter = None if parameter_device is None else str(parameter_device)
        self._adopt(_native.strategy_central_storage(_names(compute_devices), parameter, None,
                                                     name, timeout))


class MultiWorkerMirroredStrategy(Strategy):
    """The replicas of several processes, each with equally many devices, variables mirrored on all.

        strategy = tutti.distribute.MultiWorkerMirroredStrategy()   # each worker with its TF_CONFIG

    cluster_resolver: says who the workers are and which of them this process is; None reads the
    variable TF_CONFIG, and without one this process is alone. devices: as in MirroredStrategy;
    None: as many replicas as the setting replicas says, else all GPUs, else the CPU. The
    constructor waits for all workers: timeout in seconds, else the setting join_timeout.
    communication_options: hints for collectives, above all how long one may take.

    Every worker makes the same calls on its strategy in the same order: this one, creating
    variables, distributing datasets, run, reduce, gather. Replicas are numbered through all
    workers. When a worker dies, whatever waits for it is an UnavailableError that names it (details
    "rank", "worker"). Every connection proves the job secret (TUTTI_JOB_SECRET_FILE,
    TUTTI_JOB_SECRET; on loopback a file of the user's own).
    """

    __slots__ = ("_resolver",)

    def __init__(self, cluster_resolver: Optional[resolvers.ClusterResolver] = None,
                 communication_options: Optional[CommunicationOptions] = None,
                 devices: Optional[Sequence[str]] = None, name: Optional[str] = None,
                 timeout: Optional[float] = None):
        _communication.check(communication_options)
        if isinstance(devices, str):
            devices = [devices]
        names = [str(device) for device in devices or ()]
        self._adopt(_native.strategy_multi_worker_mirrored(
            resolvers.handle_of(cluster_resolver), names, name,
            *_communication.of_workers(communication_options), timeout))
        if cluster_resolver is None:
            cluster_resolver = resolvers.TFConfigClusterResolver()
        self._resolver = cluster_resolver
        _communication.remember(self, communication_options)

    @classmethod
    def over(cls, communicator: "Communicator", name: Optional[str] = None,
             timeout: Optional[float] = None) -> "MultiWorkerMirroredStrategy":
        """One whose workers are the ranks of `communicator`, all of which call this, with as many
        replicas each as the setting replicas says, else all GPUs, else the CPU. It lasts as long as
        the communicator's epoch: of an elastic job the next one is made over what shrink or grow
        gives. What it needs it splits from the communicator, of which nothing else may be under way
        meanwhile."""
        from tutti._communicator import Communicator

        strategy = cls.__new__(cls)
        strategy._adopt(_native.strategy_for_communicator(
            _arguments.handle_of("communicator", communicator, Communicator), name, timeout))
        _communication.remember(strategy, None)
        return strategy

    def scope(self) -> _StrategyScope:
        """As Strategy.scope, and in the device scope "/CPU:0" (tutti.current_device)."""
        return _WorkerScope(self)

    @property
    def cluster_resolver(self) -> Optional[resolvers.ClusterResolver]:
        """What was given, else a TFConfigClusterResolver."""
        return getattr(self, "_resolver", None) or super().cluster_resolver


class OneDeviceStrategy(Strategy):
    """Everything on one device ("CPU:0")."""

    __slots__ = ()

    def __init__(self, device: str, name: Optional[str] = None, timeout: Optional[float] = None):
        self._adopt(_native.strategy_one_device(str(device), name, timeout))


class _DefaultScope:
    """What `with get_strategy().scope():` enters where there is no strategy: nothing."""

    __slots__ = ("_strategy",)

    def __init__(self, strategy: "DefaultStrategy"):
        self._strategy = strategy

    def __enter__(self) -> "DefaultStrategy":
        scope = _scope.scope.get()
        if scope is not None:
            raise errors.FailedPreconditionError(
                f"the scope of the default strategy cannot be entered inside that of "
                f"{scope.strategy!r}: leave that one first")
        return self._strategy

    def __exit__(self, *_: Any) -> None:
        pass


class DefaultStrategy(Strategy):
    """The strategy outside of every scope: one replica, nothing distributed."""

    __slots__ = ()

    def scope(self) -> Any:
        """Where no scope is already: what is done inside is done as outside, in the default replica
        context. Inside another strategy's scope it is a FailedPreconditionError."""
        return _DefaultScope(self)


_default: Optional[DefaultStrategy] = None


def _forget_default() -> None:
    global _default
    _default = None


_runtime._after_shutdown.append(_forget_default)


def default_strategy() -> DefaultStrategy:
    global _default
    known = _default
    if known is not None and _scope.runtime.get() is None:
        return known
    strategy = DefaultStrategy()
    strategy._adopt(_native.strategy_default())
    if _scope.runtime.get() is None:
        _default = strategy
    return strategy


_TYPES: Dict[str, Type[Strategy]] = {
    "MirroredStrategy": MirroredStrategy, "OneDeviceStrategy": OneDeviceStrategy,
    "MultiWorkerMirroredStrategy": MultiWorkerMirroredStrategy, "DefaultStrategy": DefaultStrategy,
    "CentralStorageStrategy": CentralStorageStrategy}


def _strategy_of(address: int, handle: Any) -> Strategy:
    """The wrapper of a strategy that comes out of the library."""
    strategy = _wrappers.get(address)
    if strategy is None:
        cls = _TYPES.get(_native.strategy_type_name(handle), Strategy)
        strategy = object.__new__(cls)
        strategy._adopt(handle)
    return strategy
