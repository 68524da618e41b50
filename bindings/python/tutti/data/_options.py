"""Options of datasets, each of which knows whether it was set."""

from __future__ import annotations

import enum
from typing import Any, List, Tuple

from tutti import _arguments, _native


class AutoShardPolicy(enum.IntEnum):
    """How a dataset is divided between workers."""

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


_BOOLEANS = frozenset(("deterministic", "experimental_slack",
                       "experimental_optimization.apply_default_optimizations"))
_INTEGERS = frozenset(("threading.private_threadpool_size",
                       "threading.max_intra_op_parallelism", "autotune.ram_budget",
                       "experimental_distribute.auto_shard_policy",
                       "experimental_distribute.num_devices"))
_GROUPS = frozenset(key.partition(".")[0] for key in _BOOLEANS | _INTEGERS if "." in key)


def _set(handle: Any, key: str, value: Any) -> None:
    if isinstance(value, bool) or key in _BOOLEANS:
        _native.data_options_set_bool(handle, key, bool(value))
    else:
        _native.data_options_set_int64(handle, key, value)


class _Group:
    """The options under one prefix, as attributes."""

    __slots__ = ("_handle", "_prefix", "_dataset")

    def __init__(self, handle: Any, prefix: str, dataset: Any = None):
        object.__setattr__(self, "_handle", handle)
        object.__setattr__(self, "_prefix", prefix)
        object.__setattr__(self, "_dataset", dataset)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        key = self._prefix + name
        if key in _GROUPS:
            return _Group(self._handle, key + ".", self._dataset)
        number = _native.data_options_read(self._handle, key)
        if number is None:
            return None
        if key in _BOOLEANS:
            return bool(number)
        return AutoShardPolicy(number) if name == "auto_shard_policy" else number

    def __setattr__(self, name: str, value: Any) -> None:
        key = self._prefix + name
        if key in _GROUPS:
            if key != "experimental_distribute" or not isinstance(value, DistributeOptions):
                raise AttributeError(f"{key} is a group of options; set the options in it")
            for name, number in value._set_options():
                setattr(getattr(self, key), name, number)
            return
        _set(self._handle, key, value)
        if self._dataset is not None:
            change = _native.data_options_create()
            _set(change, key, value)
            self._dataset._handle = _native.dataset_with_options(self._dataset._handle, change)


class Options(_Group):
    """Options of a dataset: `options.deterministic = False`,
    `options.experimental_distribute.auto_shard_policy = AutoShardPolicy.DATA`.

    deterministic, experimental_slack, experimental_optimization.apply_default_optimizations: bool.
    threading.private_threadpool_size, threading.max_intra_op_parallelism, autotune.ram_budget,
    experimental_distribute.auto_shard_policy, experimental_distribute.num_devices: int. An option
    that was not set reads as None; an unknown one is an InvalidArgumentError that names the known.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_native.data_options_create(), "")

    @classmethod
    def _of(cls, handle: Any, dataset: Any = None) -> "Options":
        """Options with a handle; those of a dataset change the dataset when they are set."""
        options = cls.__new__(cls)
        _Group.__init__(options, handle, "", dataset)
        return options

    def merge(self, other: "Options") -> "Options":
        """`other` where it was set, else this one."""
        given = _arguments.handle_of("merge: other", other, Options)
        return self._of(_native.data_options_merge(self._handle, given))

    def __repr__(self) -> str:
        values = {key: _native.data_options_read(self._handle, key)
                  for key in sorted(_BOOLEANS | _INTEGERS)}
        shown = ", ".join(f"{key}={value}" for key, value in values.items() if value is not None)
        return f"Options({shown})"


class DistributeOptions(_Group):
    """The options under experimental_distribute on their own:
    `options.experimental_distribute = DistributeOptions()` sets those that are set."""

    __slots__ = ()

    _PREFIX = "experimental_distribute."

    def __init__(self) -> None:
        super().__init__(_native.data_options_create(), self._PREFIX)

    def _set_options(self) -> List[Tuple[str, Any]]:
        names = [key[len(self._PREFIX):] for key in sorted(_INTEGERS | _BOOLEANS)
                 if key.startswith(self._PREFIX)]
        return [(name, getattr(self, name)) for name in names if getattr(self, name) is not None]
