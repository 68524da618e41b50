"""tutti.Variable: a tensor that lives as long as training does, with one copy per replica."""

from __future__ import annotations

import enum
import threading
import weakref
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple, Type, Union

import numpy as np

from tutti import _arguments, _dtypes, _native, _scope
from tutti._composites import IndexedSlices
from tutti._device import current_device
from tutti._operators import ReadAsArray
from tutti._tensor import Tensor, literals_as
from tutti._values import DistributedValues

if TYPE_CHECKING:
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


# Wrappers of live variables by address, so that a variable that comes back is the same object, also
# for the replicas that made it together.
_wrappers: "weakref.WeakValueDictionary[int, Variable]" = weakref.WeakValueDictionary()
_wrappers_lock = threading.Lock()


# More than any shape has, and less than the number that stands for an unknown rank.
_MOST_AXES = 1 << 16
# Stands alone for any shape (facade/strategy.h).
_ANY_SHAPE = -1 << 63


def _sizes(shape: Any) -> List[int]:
    if shape is None:
        return []
    if shape is Ellipsis or getattr(shape, "rank", 0) is None:
        return [_ANY_SHAPE]
    return [-1 if size is None else size for size in shape]


class Variable(ReadAsArray):
    """A variable of the strategy whose scope it is made in, with a copy of `initial_value` on every
    replica.

    initial_value: an array of any dtype and shape, or what a Tensor is made of (of Python's own
    numbers a float makes it float32, an int int32; a text makes it byte strings), or a function
    without arguments that gives one. dtype: converts it; numbers of Python must fit
    (InvalidArgumentError). synchronization, aggregation: members of VariableSynchronization and
    VariableAggregation, or their names ("on_read", "sum"). trainable: True by default, False for
    ON_READ. shape: what every value has to fit, None for a size that may change from one
    assignment to the next; `...`, or a shape without a rank like TensorShape(None), for any shape.
    Without it a variable keeps the shape of its initial value.

    In a replica function all replicas must come here, and get one variable, whose value is that of
    replica 0; InvalidArgumentError naming both replicas where dtype, shape, name or options differ.
    Of a strategy with copies it is a MirroredVariable or a SyncOnReadVariable. In arithmetic, in
    comparisons (`==` element by element; the hash is the object's) and in NumPy's functions it is
    read. ValueError for a bad combination. Threads: any; in replica context a write to an ON_WRITE
    variable is a step that all replicas must take together.
    """

    __slots__ = ("_handle", "__weakref__")
    _handle: Any

    def __new__(cls, initial_value: Any, trainable: Optional[bool] = None,
                name: Optional[str] = None, dtype: Any = None,
                synchronization: Union[str, int] = VariableSynchronization.AUTO,
                aggregation: Union[str, int] = VariableAggregation.NONE,
                shape: Any = None) -> "Variable":
        from tutti import distribute

        if callable(initial_value) and not hasattr(initial_value, "__dlpack__"):
            initial_value = initial_value()
        strategy, device = distribute.get_strategy(), current_device()
        sizes = _sizes(shape)
        handle = _native.variable_create(
            strategy._handle, _initial(initial_value, dtype), name,
            member(VariableSynchronization, synchronization, "synchronization"),
            member(VariableAggregation, aggregation, "aggregation"), trainable,
            shape is not None, sizes, None if device is None else device.to_string(), None)
        return variable_of(_native._variable_address(handle), handle)

    # ---- reading

    def numpy(self) -> Any:
        """A copy of the value: of this replica's copy in a replica function; outside, of the first
        copy (ON_WRITE) or of the copies aggregated (ON_READ). On the host, wherever they lie."""
        array = _native.variable_read(self._handle, None)
        if isinstance(array, Tensor) and not array.is_on_host:
            array = array.numpy()
        return array[()] if isinstance(array, np.ndarray) and array.ndim == 0 else array

    @property
    def values(self) -> Tuple[Any, ...]:
        """What the copies of this process hold, in the order of their replicas: read-only arrays,
        as copies() gives them."""
        if not self._moves():
            return self.copies()
        return self.distribute_strategy.local_results(self)

    def read_value(self) -> Any:
        """The same as numpy(); of a copy on a GPU a Tensor, a copy there."""
        array = _native.variable_read(self._handle, None)
        on_gpu = isinstance(array, Tensor) and not array.is_on_host
        return array if on_gpu else self.numpy()

    def value(self) -> Any:
        """The same as read_value()."""
        return self.read_value()

    def data(self) -> Any:
        """A read-only view of the live memory of this replica's copy (outside: of the first);
        later writes show through: an array, or a Tensor where it lies on a GPU. ValueError
        (InvalidArgumentError) for byte strings and where the shape leaves sizes open."""
        return _native.variable_data(self._handle)

    def copies(self) -> Tuple[Any, ...]:
        """Read-only views of the live memory of all copies of this process, as data() gives them.
        Byte strings, and a shape that leaves sizes open, have none (OutOfRangeError): `values`
        reads them."""
        return tuple(_native.variable_copy(self._handle, i)
                     for i in range(_native.variable_copy_count(self._handle)))

    # ---- writing

    def assign(self, value: Any, use_locking: bool = False, name: Optional[str] = None,
               read_value: bool = True, timeout: Optional[float] = None) -> Any:
        """Sets the value, of the variable's dtype and shape; Python's own numbers and lists of them
        are converted where the dtype holds them (else InvalidArgumentError).

        In a replica function ON_WRITE aggregates the replicas' tensors, and all replicas must come
        here (ValueError with aggregation NONE); ON_READ writes this replica's copy. Outside, every
        copy gets it; ON_READ with SUM gets value / replicas. The variable is the result, or None
        where read_value is False. use_locking, name: taken, and without effect.
        """
        _native.variable_assign(self._handle, self._tensor(value), timeout)
        return self if read_value else None

    def assign_add(self, delta: Any, use_locking: bool = False, name: Optional[str] = None,
                   read_value: bool = True, timeout: Optional[float] = None) -> Any:
        """Adds `delta`, as assign, with read_value and use_locking as there. Outside replicas
        ON_READ with SUM is a ValueError, and so are byte strings everywhere.

        >>> weights = tutti.Variable([1.0, 2.0])
        >>> weights.assign_add([0.5, 0.5]).numpy().tolist()
        [1.5, 2.5]
        """
        _native.variable_assign_add(self._handle, self._tensor(delta), timeout)
        return self if read_value else None

    def assign_sub(self, delta: Any, use_locking: bool = False, name: Optional[str] = None,
                   read_value: bool = True, timeout: Optional[float] = None) -> Any:
        """Subtracts `delta`, as assign_add, with read_value and use_locking as there."""
        _native.variable_assign_sub(self._handle, self._tensor(delta), timeout)
        return self if read_value else None

    def scatter_add(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                    name: Optional[str] = None, timeout: Optional[float] = None) -> "Variable":
        """Adds rows: row indices[i] gets values[i] added; of an index that comes several times all
        are.

        sparse_delta: IndexedSlices of the variable's dtype and row shape. ValueError
        (InvalidArgumentError) that names an index which is outside, before anything is written. In
        a replica function ON_WRITE joins the slices of all replicas in their order, and all must
        come here: for MEAN they are divided by the number of replicas, for ONLY_FIRST_REPLICA they
        are replica 0's, with NONE it is a ValueError; ON_READ changes this replica's copy. Outside
        every copy is changed; ON_READ with SUM is a ValueError. use_locking, name: without effect.
        """
        return self._scatter("scatter_add", 1, sparse_delta, timeout)

    def scatter_sub(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                    name: Optional[str] = None, timeout: Optional[float] = None) -> "Variable":
        """Subtracts rows, as scatter_add, with sparse_delta and use_locking as there."""
        return self._scatter("scatter_sub", 2, sparse_delta, timeout)

    def scatter_update(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                       name: Optional[str] = None, timeout: Optional[float] = None) -> "Variable":
        """Sets rows, as scatter_add adds them, with sparse_delta and use_locking as there; of an
        index that comes several times the last counts. In a replica function SUM and MEAN are a
        NotImplementedError: choose ONLY_FIRST_REPLICA."""
        return self._scatter("scatter_update", 3, sparse_delta, timeout)

    def scatter_min(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                    name: Optional[str] = None, timeout: Optional[float] = None) -> "Variable":
        """Sets rows to the smaller of themselves and the values, as scatter_update, with
        sparse_delta and use_locking as there."""
        return self._scatter("scatter_min", 4, sparse_delta, timeout)

    def scatter_max(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                    name: Optional[str] = None, timeout: Optional[float] = None) -> "Variable":
        """Sets rows to the larger of themselves and the values, as scatter_update, with
        sparse_delta and use_locking as there."""
        return self._scatter("scatter_max", 5, sparse_delta, timeout)

    def scatter_mul(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                    name: Optional[str] = None, timeout: Optional[float] = None) -> "Variable":
        """Multiplies rows by the values, as scatter_update, with sparse_delta and use_locking as
        there; an index may come several times."""
        return self._scatter("scatter_mul", 6, sparse_delta, timeout)

    def scatter_div(self, sparse_delta: IndexedSlices, use_locking: bool = False,
                    name: Optional[str] = None, timeout: Optional[float] = None) -> "Variable":
        """Divides rows by the values, as scatter_mul, with sparse_delta and use_locking as there;
        by an integer 0 is a ValueError."""
        return self._scatter("scatter_div", 7, sparse_delta, timeout)

    def _scatter(self, what: str, number: int, sparse_delta: Any,
                 timeout: Optional[float]) -> "Variable":
        _arguments.check(f"{what}: sparse_delta", sparse_delta, IndexedSlices)
        _native.variable_scatter(self._handle, number, sparse_delta, timeout)
        return self

    def _tensor(self, value: Any) -> Any:
        if isinstance(value, Variable):
            return value.read_value()
        if isinstance(value, ReadAsArray):
            return value.numpy()
        dtype = self.dtype
        if dtype is bytes:
            return _initial(value, bytes)
        return literals_as(f"variable {self.name!r}", value, dtype)

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
        """A numpy.dtype, `bytes` for byte strings, or tutti.bfloat16."""
        return _dtypes.dtype_of(_native.variable_dtype(self._handle))

    @property
    def device(self) -> str:
        """Where this replica's copy (outside: the first) is placed:
        "/job:localhost/replica:0/task:0/device:CPU:0"."""
        replica = getattr(_scope.scope.get(), "replica_id_in_sync_group", 0)
        return self.copy_devices[replica % len(self.copy_devices)]

    @property
    def copy_devices(self) -> Tuple[str, ...]:
        """Where the copies of this process are placed."""
        return tuple(_native.variable_copy_device(self._handle, i)
                     for i in range(_native.variable_copy_count(self._handle)))

    @property
    def shape(self) -> Any:
        """The sizes: a tuple of numbers, None where the shape that was given leaves one open; None
        for any shape."""
        rank = _native.variable_rank(self._handle)
        if not 0 <= rank <= _MOST_AXES:
            return None
        sizes = [_native.variable_dim(self._handle, i) for i in range(rank)]
        return tuple(None if size < 0 else size for size in sizes)

    def _moves(self) -> bool:
        # Whether each write puts new memory in the place of the old.
        shape = self.shape
        return self.dtype is bytes or shape is None or None in shape

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

    def __repr__(self) -> str:
        return _native.variable_to_string(self._handle)


class DistributedVariable(Variable, DistributedValues):
    """A variable of a strategy's scope, with a copy per replica."""

    __slots__ = ()


class MirroredVariable(DistributedVariable):
    """One whose copies are equal: ON_WRITE."""

    __slots__ = ()


class SyncOnReadVariable(DistributedVariable):
    """One whose copies differ, until a read outside of replicas aggregates them: ON_READ."""

    __slots__ = ()


# By TUTTI_DISTRIBUTION_*.
_CLASSES = {0: Variable, 2: MirroredVariable, 3: SyncOnReadVariable}


def _initial(value: Any, dtype: Any) -> Any:
    """What the extension makes the first tensor of."""
    if isinstance(value, ReadAsArray):
        value = value.numpy()
    number = None if dtype is None else _dtypes.number_of(dtype)
    if number == _dtypes.BYTES or dtype is None and _is_text(value):
        return np.asarray(value, object)
    if number is None:
        return value
    value = literals_as("Variable: initial_value", value, dtype)
    if number == _dtypes.BFLOAT16:
        return Tensor(value, dtype)
    return np.asarray(value, dtype)


def _is_text(value: Any) -> bool:
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return isinstance(value, (str, bytes))


def variable_of(address: int, handle: Any) -> Variable:
    """The wrapper of a variable that comes out of the library."""
    with _wrappers_lock:
        variable = _wrappers.get(address)
        if variable is None:
            variable = object.__new__(_CLASSES[_native.variable_distribution(handle)])
            variable._handle = handle
            _wrappers[address] = variable
        return variable
