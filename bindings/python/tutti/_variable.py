"""tutti.Variable: a tensor that lives as long as training does, with one copy per replica."""

from __future__ import annotations

import enum
import weakref
from typing import TYPE_CHECKING, Any, Callable, Optional, Tuple, Type, Union

import numpy as np

from tutti import _dtypes, _native, _scope
from tutti._tensor import Tensor, literals_as

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tutti.distribute import Strategy


class VariableSynchronization(enum.IntEnum):
    """When the copies of a variable are brought together. ON_WRITE (= AUTO): the copies are equal.
    ON_READ: each replica writes its own copy, and a read from outside aggregates them."""

    AUTO = 1
    NONE = 2
    ON_WRITE = 3
    ON_READ = 4


class VariableAggregation(enum.IntEnum):
    """How the replicas' tensors become one."""

    NONE = 1
    SUM = 2
    MEAN = 3
    ONLY_FIRST_REPLICA = 4


def member(cls: Type[enum.IntEnum], value: Any, what: str) -> int:
    """The number of an enum's member, given as member, number or name in any case."""
    if isinstance(value, str):
        try:
            return int(cls[value.upper()])
        except KeyError:
            pass
    else:
        try:
            return int(cls(value))
        except ValueError:
            pass
    names = ", ".join(repr(name.lower()) for name in cls.__members__)
    raise ValueError(f"{what}: {value!r} is none of {names}")


# Wrappers of live variables by address, so that a variable that comes back is the same object.
_wrappers: "weakref.WeakValueDictionary[int, Variable]" = weakref.WeakValueDictionary()


class Variable:
    """A variable of the strategy whose scope it is made in, with a copy of `initial_value` on every
    replica.

    initial_value: an array of any numeric dtype and shape, or what a Tensor is made of (of Python's
    own numbers a float makes it float32, an int int32), or a function without arguments that gives
    one. dtype: converts it; numbers of Python must fit (InvalidArgumentError). synchronization,
    aggregation: members of VariableSynchronization and VariableAggregation, or their names
    ("on_read", "sum"). trainable: True by default, False for ON_READ.

    ValueError for a bad combination, FailedPreconditionError inside a replica function. Threads:
    any; in replica context a write to an ON_WRITE variable is a step that all replicas must take
    together.
    """

    __slots__ = ("_handle", "__weakref__")

    def __init__(self, initial_value: Any, trainable: Optional[bool] = None,
                 name: Optional[str] = None, dtype: Any = None,
                 synchronization: Union[str, int] = VariableSynchronization.AUTO,
                 aggregation: Union[str, int] = VariableAggregation.NONE):
        from tutti import distribute

        if callable(initial_value) and not hasattr(initial_value, "__dlpack__"):
            initial_value = initial_value()
        if dtype is not None:
            initial_value = literals_as("Variable: initial_value", initial_value, dtype)
            if _dtypes.number_of(dtype) == _dtypes.BFLOAT16:
                initial_value = Tensor(initial_value, dtype)
            else:
                initial_value = np.asarray(initial_value, dtype)
        strategy, device = distribute.get_strategy(), _scope.device.get()
        self._handle = _native.variable_create(
            strategy._handle, initial_value, name,
            member(VariableSynchronization, synchronization, "synchronization"),
            member(VariableAggregation, aggregation, "aggregation"), trainable,
            None if device is None else device.to_string(), None)
        _wrappers[_native._variable_address(self._handle)] = self

    # ---- reading

    def numpy(self) -> Any:
        """A copy of the value: of this replica's copy in a replica function; outside, of the first
        copy (ON_WRITE) or of the copies aggregated (ON_READ)."""
        array = _native.variable_read(self._handle, None)
        return array[()] if isinstance(array, np.ndarray) and array.ndim == 0 else array

    def read_value(self) -> Any:
        """The same as numpy()."""
        return self.numpy()

    def value(self) -> Any:
        """The same as numpy()."""
        return self.numpy()

    def data(self) -> NDArray[Any]:
        """A read-only view of the live memory of this replica's copy (outside: of the first);
        later writes show through."""
        view: NDArray[Any] = _native.variable_data(self._handle)
        return view

    def copies(self) -> Tuple[NDArray[Any], ...]:
        """Read-only views of the live memory of all copies of this process."""
        return tuple(_native.variable_copy(self._handle, i)
                     for i in range(_native.variable_copy_count(self._handle)))

    # ---- writing

    def assign(self, value: Any, timeout: Optional[float] = None) -> "Variable":
        """Sets the value, of the variable's dtype and shape; Python's own numbers and lists of them
        are converted where the dtype holds them (else InvalidArgumentError).

        In a replica function ON_WRITE aggregates the replicas' tensors, and all replicas must come
        here (ValueError with aggregation NONE); ON_READ writes this replica's copy. Outside, every
        copy gets it; ON_READ with SUM gets value / replicas.
        """
        _native.variable_assign(self._handle, self._tensor(value), timeout)
        return self

    def assign_add(self, delta: Any, timeout: Optional[float] = None) -> "Variable":
        """Adds `delta`, as assign. Outside replicas ON_READ with SUM is a ValueError."""
        _native.variable_assign_add(self._handle, self._tensor(delta), timeout)
        return self

    def assign_sub(self, delta: Any, timeout: Optional[float] = None) -> "Variable":
        """Subtracts `delta`, as assign_add."""
        _native.variable_assign_sub(self._handle, self._tensor(delta), timeout)
        return self

    def _tensor(self, value: Any) -> Any:
        if isinstance(value, Variable):
            return value.data()
        return literals_as(f"variable {self.name!r}", value, self.dtype)

    # ---- what it is

    @property
    def name(self) -> str:
        """What it was called, or "Variable"."""
        return _native.variable_name(self._handle)

    @property
    def copy_names(self) -> Tuple[str, ...]:
        """"name", "name/replica_1", ..."""
        return tuple(_native.variable_copy_name(self._handle, i)
                     for i in range(_native.variable_copy_count(self._handle)))

    @property
    def dtype(self) -> Any:
        """A numpy.dtype, or tutti.bfloat16."""
        return _dtypes.dtype_of(_native.variable_dtype(self._handle))

    @property
    def shape(self) -> Tuple[int, ...]:
        """The sizes."""
        return tuple(_native.variable_dim(self._handle, i)
                     for i in range(_native.variable_rank(self._handle)))

    @property
    def synchronization(self) -> VariableSynchronization:
        """When the copies are brought together."""
        return VariableSynchronization(_native.variable_synchronization(self._handle))

    @property
    def aggregation(self) -> VariableAggregation:
        """How the tensors of replicas become one."""
        return VariableAggregation(_native.variable_aggregation(self._handle))

    @property
    def trainable(self) -> bool:
        """Whether training changes it; a mark for the caller."""
        return _native.variable_is_trainable(self._handle)

    @property
    def distribute_strategy(self) -> "Strategy":
        """The strategy that it belongs to."""
        from tutti.distribute import _strategy

        handle = _native.variable_strategy(self._handle)
        return _strategy._strategy_of(_native._strategy_address(handle), handle)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> NDArray[Any]:
        return np.asarray(self.numpy(), dtype)

    def __repr__(self) -> str:
        return _native.variable_to_string(self._handle)


def variable_of(address: int, handle: Any) -> Variable:
    """The wrapper of a variable that comes out of the library."""
    variable = _wrappers.get(address)
    if variable is None:
        variable = Variable.__new__(Variable)
        variable._handle = handle
        _wrappers[address] = variable
    return variable
