"""strategy.extended: what a strategy does on devices."""

from __future__ import annotations

from typing import (TYPE_CHECKING, Any, Callable, Iterable, List, Mapping, Optional, Sequence,
                    Tuple, Union)

import numpy as np

from tutti import _arguments, _native, _scope, errors
from tutti._reduce_op import ReduceOp
from tutti._variable import Variable, member, variable_of
from tutti.distribute import _communication
from tutti.distribute._communication import CommunicationOptions
from tutti.distribute._context import UpdateContext
from tutti.distribute._cross_device_ops import pairs_of

if TYPE_CHECKING:
    from tutti.distribute._strategy import Strategy


class _Colocation:
    """What `with strategy.extended.colocate_vars_with(variable):` enters."""

    __slots__ = ("_strategy", "_variable")

    def __init__(self, strategy: "Strategy", variable: Variable):
        self._strategy = strategy
        self._variable = variable

    def __enter__(self) -> None:
        scope = _scope.scope.get()
        if not isinstance(scope, _scope.CrossReplica) or scope.strategy is not self._strategy:
            raise errors.FailedPreconditionError(
                f"colocate_vars_with must be used inside the scope of {self._strategy!r}")
        _native.strategy_colocate_vars_with(self._strategy._handle, self._variable._handle)

    def __exit__(self, *_: Any) -> None:
        pass


class StrategyExtended:
    """What a strategy does on devices, for libraries that are built upon it.

    Destinations say where: a distributed value and a mirrored variable stand for the replicas'
    devices, another variable for its device, another value for the host, a text for the device of
    that name. They are not written. All calls are made in cross-replica context; elsewhere they are
    a FailedPreconditionError.
    """

    __slots__ = ("_strategy",)

    experimental_require_static_shapes = False

    def __init__(self, strategy: "Strategy"):
        self._strategy = strategy

    # ---- devices

    @property
    def worker_devices(self) -> Tuple[str, ...]:
        """The devices of this process's replicas, "/job:localhost/replica:0/task:0/device:CPU:0".
        """
        handle = self._strategy._handle
        return tuple(_native.strategy_full_worker_device(handle, i)
                     for i in range(self._strategy.local_replica_count))

    @property
    def parameter_devices(self) -> Tuple[str, ...]:
        """The devices that variables lie on, in the same form."""
        devices: List[str] = []
        while True:
            device: Optional[str] = _native.strategy_parameter_device(
                self._strategy._handle, len(devices))
            if device is None:
                return tuple(devices)
            devices.append(device)

    def non_slot_devices(self, var_list: Iterable[Variable]) -> Tuple[str, ...]:
        """Where what belongs to no single variable of var_list goes: the parameter devices.
        ValueError for a variable of another strategy."""
        for variable in var_list:
            _arguments.check("non_slot_devices: var_list", variable, Variable)
            if not self.variable_created_in_scope(variable):
                raise errors.InvalidArgumentError(
                    f"non_slot_devices: variable {variable.name!r} belongs to another strategy "
                    f"than {self._strategy!r}")
        return self.parameter_devices

    # ---- values

    def reduce_to(self, reduce_op: Union[ReduceOp, str, int], value: Any, destinations: Any,
                  options: Optional[CommunicationOptions] = None,
                  timeout: Optional[float] = None) -> Any:
        """reduce_op, SUM or MEAN, of what the replicas of all workers have in `value`, one
        PerReplica or variable, on the destinations: an array on one device, mirrored on several. Of
        another value MEAN is the value, and SUM a ValueError with several replicas. Also a
        ValueError: another number of components, other shapes or dtypes, a variable of another
        strategy, destinations that are none. options: CommunicationOptions."""
        return _native.strategy_reduce_to(
            self._strategy._handle, member(ReduceOp, reduce_op, "reduce_op"), value, destinations,
            self._timeout(timeout, options))

    def batch_reduce_to(self, reduce_op: Union[ReduceOp, str, int],
                        value_destination_pairs: Iterable[Tuple[Any, Any]],
                        options: Optional[CommunicationOptions] = None,
                        timeout: Optional[float] = None) -> List[Any]:
        """reduce_to by reduce_op of many value_destination_pairs (value, destinations) at once: a
        list of results. options: CommunicationOptions."""
        return list(_native.strategy_batch_reduce_to(
            self._strategy._handle, member(ReduceOp, reduce_op, "reduce_op"),
            pairs_of(value_destination_pairs), self._timeout(timeout, options)))

    def broadcast_to(self, tensor: Any, destinations: Any,
                     timeout: Optional[float] = None) -> Any:
        """The array `tensor` on the destinations of this process."""
        return _native.strategy_broadcast_to(self._strategy._handle, tensor, destinations,
                                             self._timeout(timeout, None))

    def value_container(self, value: Any) -> Any:
        """What the value is a part of: the variable that an array of its `values` is a copy of, by
        its memory; else the value itself."""
        if not isinstance(value, np.ndarray):
            return value
        try:
            handle = _native.strategy_find_variable(self._strategy._handle, value)
        except errors.NotFoundError:
            return value
        return variable_of(_native._variable_address(handle), handle)

    # ---- updates

    def update(self, var: Variable, fn: Callable[..., Any], args: Sequence[Any] = (),
               kwargs: Optional[Mapping[str, Any]] = None, group: bool = True,
               timeout: Optional[float] = None) -> Any:
        """Calls fn(var, *args, **kwargs) for each device of this process that var has a copy on,
        one after the other, in an update context: reads and writes of variables are those of the
        copy on that device, whatever their aggregation, and each device gets its component of what
        is distributed in the arguments.

        group: the results as one value, mirrored where no argument differs between devices; else a
        tuple with one for each device. run and collectives in fn are a FailedPreconditionError. The
        first error ends it. ValueError for a variable of another strategy, and for a PerReplica
        among the arguments where there is one copy.
        """
        _arguments.check("update: var", var, Variable)
        handle, given = self._strategy._handle, tuple(args)
        if kwargs:
            given = (given, dict(kwargs))
            return self._outside_of_device_scopes(lambda: _native.strategy_update(
                handle, var._handle, lambda var, args, kwargs: fn(var, *args, **kwargs), given,
                group, timeout))
        return self._outside_of_device_scopes(lambda: _native.strategy_update(
            handle, var._handle, fn, given, group, timeout))

    def update_non_slot(self, colocate_with: Any, fn: Callable[..., Any],
                        args: Sequence[Any] = (), kwargs: Optional[Mapping[str, Any]] = None,
                        group: bool = True, timeout: Optional[float] = None) -> Any:
        """Calls fn(*args, **kwargs) for each device that colocate_with stands for, destinations or
        what non_slot_devices gave; group and the rest as in update."""
        handle, given = self._strategy._handle, tuple(args)
        if kwargs:
            given = (given, dict(kwargs))
            return self._outside_of_device_scopes(lambda: _native.strategy_update_non_slot(
                handle, colocate_with, lambda args, kwargs: fn(*args, **kwargs), given, group,
                timeout))
        return self._outside_of_device_scopes(lambda: _native.strategy_update_non_slot(
            handle, colocate_with, fn, given, group, timeout))

    def _outside_of_device_scopes(self, call: Callable[[], Any]) -> Any:
        # An update function begins on the device that it updates.
        from tutti.distribute import _strategy

        if _scope.device.get() is None or isinstance(self._strategy, _strategy.DefaultStrategy):
            return call()
        caller = _scope.device.set(None)
        try:
            return call()
        finally:
            _scope.device.reset(caller)

    # ---- variables

    def colocate_vars_with(self, colocate_with_variable: Variable) -> _Colocation:
        """A scope, inside that of the strategy alone (FailedPreconditionError), in which variables
        are made where colocate_with_variable lies; ValueError when that belongs to another
        strategy. All variables of a strategy lie on its parameter devices."""
        _arguments.check("colocate_vars_with", colocate_with_variable, Variable)
        return _Colocation(self._strategy, colocate_with_variable)

    def variable_created_in_scope(self, v: Variable) -> bool:
        """Whether v was made in this strategy's scope."""
        _arguments.check("variable_created_in_scope", v, Variable)
        return bool(_native.strategy_created_variable(self._strategy._handle, v._handle))

    # ---- replicas

    def call_for_each_replica(self, fn: Callable[..., Any], args: Sequence[Any] = (),
                              kwargs: Optional[Mapping[str, Any]] = None,
                              timeout: Optional[float] = None) -> Any:
        """strategy.run of fn(*args, **kwargs) without options."""
        return self._strategy.run(fn, args, kwargs, timeout=timeout)

    def _timeout(self, timeout: Optional[float],
                 options: Optional[CommunicationOptions]) -> Any:
        hints = _communication.hints_of(options, None)
        if isinstance(_scope.scope.get(), UpdateContext):
            return timeout
        return _communication.timeout_of(self._strategy, timeout, hints)

    def __repr__(self) -> str:
        return f"<StrategyExtended of {self._strategy!r}>"
