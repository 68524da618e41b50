"""Options of datasets, each of which knows whether it was set."""

from __future__ import annotations

import enum
from typing import Any, ClassVar, Dict, List, Optional, Type

from tutti import _arguments, _native, errors
from tutti.data._stats import StatsAggregator


class AutoShardPolicy(enum.IntEnum):
    """How a dataset is divided between workers."""

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


class ExternalStatePolicy(enum.IntEnum):
    """What becomes of state outside of a dataset that is saved, which functions and generators of
    the program's may have: it is left out with a warning, without one, or to save an iterator or to
    serialise the dataset is a FailedPreconditionError. Where no policy is set nothing is said of
    it."""

    WARN = 0
    IGNORE = 1
    FAIL = 2


_OPTIMIZATIONS = (
    "apply_default_optimizations", "autotune", "autotune_buffers", "filter_fusion",
    "filter_with_random_uniform_fusion", "hoist_random_uniform", "map_and_batch_fusion",
    "map_and_filter_fusion", "map_fusion", "map_parallelization", "map_vectorization.enabled",
    "map_vectorization.use_choose_fastest", "native_functions", "noop_elimination",
    "parallel_batch", "reorder_data_discarding_ops", "shuffle_and_repeat_fusion")

# What a value of each option is.
_KINDS: Dict[str, type] = {
    "deterministic": bool,
    "experimental_slack": bool,
    "experimental_external_state_policy": ExternalStatePolicy,
    "threading.private_threadpool_size": int,
    "threading.max_intra_op_parallelism": int,
    "autotune.ram_budget": int,
    "experimental_distribute.auto_shard_policy": AutoShardPolicy,
    "experimental_distribute.num_devices": int,
    "experimental_distribute.share_files": bool,
    **{f"experimental_optimization.{name}": bool for name in _OPTIMIZATIONS},
    "experimental_optimization.autotune_cpu_budget": int,
    "experimental_stats.aggregator": StatsAggregator,
    "experimental_stats.counter_prefix": str,
    "experimental_stats.latency_all_edges": bool,
    "experimental_stats.prefix": str,
    "experimental_stats.profile": bool,
}
# Other names, of options and of groups.
_ALIASES = {"experimental_deterministic": "deterministic", "experimental_threading": "threading"}


class _Group:
    """The options under the prefix _PREFIX, as attributes: those of `dataset`, else its own."""

    __slots__ = ("_own", "_dataset")

    _PREFIX: ClassVar[str] = ""
    _own: Any
    _dataset: Any

    def __init__(self) -> None:
        object.__setattr__(self, "_own", _native.data_options_create())
        object.__setattr__(self, "_dataset", None)

    @classmethod
    def _of(cls, own: Any, dataset: Any = None) -> Any:
        """Options with a handle; those of a dataset change the dataset when they are set."""
        group = cls.__new__(cls)
        object.__setattr__(group, "_own", own)
        object.__setattr__(group, "_dataset", dataset)
        return group

    @property
    def _handle(self) -> Any:
        """The library's object: of a dataset, its options as they are now."""
        if self._dataset is None:
            return self._own
        return _native.dataset_options(self._dataset._handle)

    def _key(self, name: str) -> str:
        return self._PREFIX + (name if self._PREFIX else _ALIASES.get(name, name))

    def _names(self) -> List[str]:
        return [key[len(self._PREFIX):] for key in _KINDS if key.startswith(self._PREFIX)]

    def _read(self, key: str) -> Any:
        if _KINDS.get(key) is str:
            return _native.data_options_read_string(self._handle, key)
        if _KINDS.get(key) is StatsAggregator:
            aggregator = _native.data_options_stats_aggregator(self._handle)
            return None if aggregator is None else StatsAggregator._of(aggregator)
        try:
            number = _native.data_options_read(self._handle, key)
        except errors.InvalidArgumentError as error:
            raise errors.UnknownOptionError(error.message, error.details) from None
        return None if number is None else _KINDS[key](number)

    def _write(self, values: Dict[str, Any]) -> None:
        """Sets options by key; None takes one away."""
        handle = self._handle
        for key, value in values.items():
            kind = _KINDS.get(key)
            try:
                if value is None:
                    _native.data_options_clear(handle, key)
                elif kind is StatsAggregator:
                    _native.data_options_set_stats_aggregator(
                        handle, _arguments.handle_of(key, value, StatsAggregator))
                elif kind is str:
                    _native.data_options_set_string(handle, key, value)
                elif kind is bool or isinstance(value, bool):
                    _native.data_options_set_bool(handle, key, bool(value))
                else:
                    _native.data_options_set_int64(handle, key, value)
            except errors.InvalidArgumentError as error:
                if kind is not None:
                    raise
                raise errors.UnknownOptionError(error.message, error.details) from None
        if self._dataset is not None:
            self._dataset._handle = _native.dataset_replace_options(self._dataset._handle, handle)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # of protocols that ask whether it is there
            raise AttributeError(name)
        key = self._key(name)
        if key in _GROUPS:
            return _GROUPS[key]._of(self._own, self._dataset)
        return self._read(key)

    def __setattr__(self, name: str, value: Any) -> None:
        key = self._key(name)
        if key not in _GROUPS:
            self._write({key: value})
        elif isinstance(value, _GROUPS[key]):
            self._write({f"{key}.{part}": value._read(f"{key}.{part}") for part in value._names()})
        else:
            raise AttributeError(f"{key} is a group of options; set the options in it, or assign a "
                                 f"{_arguments.name_of(_GROUPS[key])}")

    def __dir__(self) -> List[str]:
        names = {name.partition(".")[0] for name in self._names()}
        return sorted({*super().__dir__(), *names, *(() if self._PREFIX else _ALIASES)})

    def _values(self) -> Dict[str, Any]:
        values = {name: self._read(self._PREFIX + name) for name in self._names()}
        return {name: value for name, value in values.items() if value is not None}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]  # they change

    def __repr__(self) -> str:
        def shown(value: Any) -> str:
            return value.name if isinstance(value, enum.Enum) else repr(value)

        values = ", ".join(f"{name}={shown(value)}" for name, value in self._values().items())
        return f"{type(self).__name__}({values})"


class Options(_Group):
    """Options of a dataset: `options.experimental_deterministic = False`,
    `options.experimental_distribute.auto_shard_policy = AutoShardPolicy.DATA`.

    experimental_deterministic (also deterministic; unset is True), experimental_slack (unset is
    False): bool. experimental_external_state_policy: ExternalStatePolicy. experimental_threading
    (also threading): ThreadingOptions. experimental_optimization: OptimizationOptions.
    experimental_distribute: DistributeOptions. experimental_stats: StatsOptions.
    autotune.ram_budget: int. An option that was not set
    reads as None, and to assign None takes it away. An unknown one is an AttributeError that names
    the nearest. Options are equal when the same ones are set, to the same values.

    autotune.ram_budget is how many bytes of elements the buffers of one iterator may hold in all
    (unset or 0: any number). Beyond it prefetch, parallel maps and parallel interleaves wait; what
    has to keep elements, as shuffle and batch do, is a ResourceExhaustedError that names the
    operation that keeps most, and a cache in memory is given up.

    experimental_slack: the thread of the last prefetch leaves the machine to who consumes a step:
    after each experimental_distribute.num_devices elements (unset: 1; a strategy sets it to its
    replicas in this process) it pauses for a fifth of the time that the last one lay ready.
    explain() names the prefetch, and says which options are kept without effect: what stands under
    experimental_optimization, but for native_functions and apply_default_optimizations.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Options):
            return NotImplemented
        return _native.data_options_equal(self._handle, other._handle)

    __hash__ = None

    def __str__(self) -> str:
        return _native.data_options_to_string(self._handle)

    def merge(self, options: Optional["Options"] = None, *,
              other: Optional["Options"] = None) -> "Options":
        """`options` where it was set, else this one; a value that changes is logged as a
        warning. `other` is another name of the argument."""
        given = other if options is None else options
        merged: Options = Options._of(_native.data_options_merge(
            self._handle, _arguments.handle_of("merge: options", given, Options)))
        return merged


class DistributeOptions(_Group):
    """The options under experimental_distribute: auto_shard_policy (AutoShardPolicy), num_devices
    (int, the elements that make one step, for experimental_slack), and share_files (Tutti's own;
    bool, unset is False): with fewer files than workers, which is an error otherwise under FILE and
    AUTO, the files are dealt out in as many parts as there are files, and workers that share a part
    take its elements, as they come out of the dataset, in turn.
    `options.experimental_distribute = DistributeOptions()` takes its place."""

    __slots__ = ()

    _PREFIX = "experimental_distribute."


class ThreadingOptions(_Group):
    """The options under experimental_threading: max_intra_op_parallelism and
    private_threadpool_size, 0 (the library chooses) or more."""

    __slots__ = ()

    _PREFIX = "threading."


class OptimizationOptions(_Group):
    """The options under experimental_optimization. autotune (bool, unset is True): AUTOTUNE follows
    what is measured, else it is a constant; autotune_buffers False: that of prefetch is one.
    autotune_cpu_budget (int, 0 is any number): calls that AUTOTUNE chooses for one iterator in all,
    but one for each operation. map_vectorization is a MapVectorizationOptions, the rest are
    booleans.

    native_functions (Tutti's own) says what functions become: True demands expressions, so that
    functions that are given to the dataset are traced as with native=True, and an iterator over one
    in which an operation calls Python is a FailedPreconditionError; False keeps functions that are
    given to the dataset callbacks. Unset, a function is traced where it makes no difference
    (Dataset.map). apply_default_optimizations False: batches of windows are not made without the
    windows (Dataset.window). The others are kept without effect: the library makes none of these
    rewritings, or makes them always."""

    __slots__ = ()

    _PREFIX = "experimental_optimization."


class MapVectorizationOptions(_Group):
    """The options under experimental_optimization.map_vectorization: enabled and
    use_choose_fastest, booleans without effect so far."""

    __slots__ = ()

    _PREFIX = "experimental_optimization.map_vectorization."


class StatsOptions(_Group):
    """The options under experimental_stats, for what is measured while a dataset is read.

    aggregator (StatsAggregator): where it is written; nothing is measured without one.
    latency_all_edges (bool, unset is False): every operation is measured, and not only what
    latency_stats says. prefix (str): stands with "::" before all names; counter_prefix (str) behind
    it in those of counters. profile (bool, unset is False): iterators measure what explain tells.
    """

    __slots__ = ()

    _PREFIX = "experimental_stats."


class _AutotuneOptions(_Group):
    """The options under autotune."""

    __slots__ = ()

    _PREFIX = "autotune."


_GROUPS: Dict[str, Type[_Group]] = {
    group._PREFIX[:-1]: group
    for group in (DistributeOptions, ThreadingOptions, OptimizationOptions,
                  MapVectorizationOptions, StatsOptions, _AutotuneOptions)}
