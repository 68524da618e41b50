"""Checkpoints: objects of a strategy that are saved and restored together."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Dict, Iterator as Iterable, List, Optional, Tuple, Union

import numpy as np

from tutti import _arguments, _native, distribute
from tutti._cluster import Cluster
from tutti._communicator import Communicator
from tutti._tensor import Tensor
from tutti._variable import Variable
from tutti.data import Iterator
from tutti.distribute import DistributedIterator

_SINGLE_FILE = ".safetensors"
_Path = Union[str, "os.PathLike[str]"]


def _objects_in(name: str, thing: Any) -> "Iterable[Tuple[str, Any]]":
    """The objects of a nested structure, named by their way in it: "layers/0/bias"."""
    if isinstance(thing, Checkpoint):
        thing = thing._structure
    if isinstance(thing, dict):
        for key, child in thing.items():
            yield from _objects_in(f"{name}/{key}" if name else str(key), child)
    elif isinstance(thing, (list, tuple)):
        for i, child in enumerate(thing):
            yield from _objects_in(f"{name}/{i}" if name else str(i), child)
    else:
        yield name, thing


class LoadStatus:
    """What restore gives: every object of the checkpoint has been restored, or restore would have
    raised. unused: the names in it that no object has taken."""

    __slots__ = ("_unused",)

    def __init__(self, unused: List[str]):
        self._unused = unused

    def assert_consumed(self) -> "LoadStatus":
        """AssertionError when the file holds values that no object has taken."""
        if self._unused:
            raise AssertionError(f"the checkpoint holds values for {', '.join(self._unused)}, "
                                 "and there are no such objects")
        return self

    def assert_existing_objects_matched(self) -> "LoadStatus":
        """Always so."""
        return self

    def assert_nontrivial_match(self) -> "LoadStatus":
        """Always so."""
        return self

    def expect_partial(self) -> "LoadStatus":
        """Values that no object takes are passed over silently anyway."""
        return self


class Checkpoint:
    """Variables, iterators and arrays under names, which are saved and restored together.

        checkpoint = tutti.train.Checkpoint(weights=weights, steps=iterator)
        path = checkpoint.save("run/ckpt")      # "run/ckpt-1"
        checkpoint.restore(path)

    Objects: tutti.Variable, iterators of distributed and of other datasets, NumPy arrays, Tensors
    and what has `__dlpack__` (tensors of PyTorch) that can be written to (a restore writes into
    them), other checkpoints, and dicts and lists of all these. `root`, a dict, gives objects whose
    names are no keyword. strategy: by default that of the first variable, else the current one.
    communicator: without a strategy, its ranks save and restore together. cluster: the same with
    all workers, by a communicator that is made here, so that all of them make the checkpoint. In a
    process that is one of several workers, saving with neither is a FailedPreconditionError: the
    workers would overwrite each other's files.

    The files are safetensors, which other programs read; a manifest beside them, written last,
    makes the checkpoint exist. Under a strategy over several workers every worker makes the same
    calls with the same objects and a directory that all of them see; variables are saved once,
    iterators by each worker for itself. The order in which objects are given does not matter: they
    are saved and restored in that of their names as UTF-8 bytes, in every language. A restore that
    raises has changed nothing, on any worker.
    Threads: one at a time, in cross-replica context.
    """

    __slots__ = ("_handle", "_structure", "_names", "save_counter", "__weakref__")

    def __init__(self, root: Optional[Dict[str, Any]] = None, *,
                 strategy: Optional[distribute.Strategy] = None,
                 communicator: Optional[Communicator] = None, cluster: Optional[Cluster] = None,
                 **objects: Any):
        if isinstance(root, Checkpoint):
            root = root._structure
        both = set(root or ()) & set(objects)
        if both:
            raise ValueError(f"the names {', '.join(sorted(both))} are given twice")
        self._structure: Dict[str, Any] = {**(root or {}), **objects}
        self.save_counter = 0
        named = list(_objects_in("", self._structure))
        self._handle = self._made(named, strategy, communicator, cluster)
        self._names = [name for name, _ in named]
        for name, thing in named:
            self._add(name, thing)

    @staticmethod
    def _made(named: List[Tuple[str, Any]], strategy: Optional[distribute.Strategy],
              communicator: Optional[Communicator], cluster: Optional[Cluster]) -> Any:
        if (strategy is not None) + (communicator is not None) + (cluster is not None) > 1:
            raise ValueError("Checkpoint: strategy, communicator and cluster say the same: who "
                             "saves together; give one of them")
        if cluster is not None:
            communicator = Communicator.create(cluster, name="checkpoint")
        if communicator is not None:
            return _native.checkpoint_create_for_communicator(
                _arguments.handle_of("Checkpoint: communicator", communicator, Communicator))
        if strategy is None:
            strategy = next((thing.distribute_strategy for _, thing in named
                             if isinstance(thing, Variable)), None) or distribute.get_strategy()
        return _native.checkpoint_create(
            _arguments.handle_of("Checkpoint: strategy", strategy, distribute.Strategy))

    def _add(self, name: str, thing: Any) -> None:
        if isinstance(thing, Variable):
            _native.checkpoint_add_variable(self._handle, name, thing._handle)
        elif isinstance(thing, DistributedIterator):
            _native.checkpoint_add_distributed_iterator(self._handle, name, thing._handle)
        elif isinstance(thing, Iterator):
            _native.checkpoint_add_iterator(self._handle, name, thing._handle)
        elif isinstance(thing, (np.ndarray, Tensor)) or hasattr(thing, "__dlpack__"):
            _native.checkpoint_add_tensor(self._handle, name, thing)
        else:
            raise TypeError(f"{name}: a {type(thing).__name__} cannot be saved; give variables, "
                            "iterators, arrays that can be written to, or dicts and lists of them")

    def __getattr__(self, name: str) -> Any:
        try:
            return object.__getattribute__(self, "_structure")[name]
        except (KeyError, AttributeError):
            raise AttributeError(f"the checkpoint has no object {name!r}") from None

    def save(self, file_prefix: _Path, timeout: Optional[float] = None) -> str:
        """Saves as `<file_prefix>-<save_counter>`, counting up, and returns that path.

        >>> import tempfile
        >>> weights = np.array([1.0, 2.0])
        >>> checkpoint = tutti.train.Checkpoint(weights=weights)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = checkpoint.save(folder + "/model")
        ...     weights[:] = 0
        ...     _ = checkpoint.restore(path)
        >>> weights.tolist()
        [1.0, 2.0]
        """
        number = self.save_counter + 1
        path = f"{os.fspath(file_prefix)}-{number}"
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        _native.checkpoint_save(self._handle, path, number, timeout)
        self.save_counter = number
        return path

    def restore(self, save_path: Optional[_Path], timeout: Optional[float] = None) -> LoadStatus:
        """Gives every object what the checkpoint save_path holds; None does nothing.

        NotFoundError when there is no such checkpoint or no value for an object, ValueError for
        another dtype or shape, DataLossError naming a file that is missing, cut off or changed.
        """
        if save_path is None:
            return LoadStatus([])
        path = os.fspath(save_path)
        self.save_counter = _native.checkpoint_restore(self._handle, path, timeout)
        with open(path + ".json", encoding="utf-8") as manifest:
            names = json.load(manifest)["names"]
        return LoadStatus([name for name in names if name not in self._names])

    def write(self, file_prefix: _Path, timeout: Optional[float] = None) -> str:
        """Saves as file_prefix, this very path, and returns it. One that ends with ".safetensors"
        is a single file for other programs, without a manifest; FailedPreconditionError when
        several workers have iterators among the objects."""
        path = os.fspath(file_prefix)
        if path.endswith(_SINGLE_FILE):
            _native.checkpoint_write(self._handle, path, timeout)
        else:
            _native.checkpoint_save(self._handle, path, self.save_counter, timeout)
        return path

    def read(self, save_path: _Path, timeout: Optional[float] = None) -> LoadStatus:
        """As restore, of what write wrote as save_path; also of a safetensors file of another
        program."""
        path = os.fspath(save_path)
        if not path.endswith(_SINGLE_FILE):
            return self.restore(path, timeout)
        _native.checkpoint_read(self._handle, path, timeout)
        return LoadStatus([])


class CheckpointManager:
    """The checkpoints of one directory, of which the last few stay.

        manager = tutti.train.CheckpointManager(checkpoint, "run", max_to_keep=3)
        manager.restore_or_initialize()
        ...
        manager.save()                           # "run/ckpt-<number>"

    max_to_keep: None keeps all. checkpoint_name: the files' name. init_fn: called by
    restore_or_initialize when there is no checkpoint. One program at a time saves into a directory:
    a save removes what a killed one has left half written.
    """

    __slots__ = ("_handle", "_checkpoint", "_directory", "_name", "_init_fn", "__weakref__")

    def __init__(self, checkpoint: Checkpoint, directory: _Path, max_to_keep: Optional[int] = 5,
                 checkpoint_name: str = "ckpt", init_fn: Optional[Callable[[], Any]] = None):
        if max_to_keep is not None and max_to_keep < 1:
            raise ValueError(f"max_to_keep must be 1 or more, or None, got {max_to_keep}")
        self._checkpoint = checkpoint
        self._directory = os.fspath(directory)
        self._name = checkpoint_name
        self._init_fn = init_fn
        self._handle = _native.checkpoint_manager_create(
            _arguments.handle_of("CheckpointManager: checkpoint", checkpoint, Checkpoint),
            self._directory, -1 if max_to_keep is None else max_to_keep,
            checkpoint_name)

    @property
    def checkpoint(self) -> Checkpoint:
        """What is saved."""
        return self._checkpoint

    @property
    def directory(self) -> str:
        """Where it is saved."""
        return self._directory

    @property
    def latest_checkpoint(self) -> Optional[str]:
        """The path of the checkpoint that was saved last, None when there is none."""
        return _native.checkpoint_manager_latest(self._handle) or None

    @property
    def checkpoints(self) -> List[str]:
        """The paths of all that are there, the one saved last at the end."""
        return list(_native.checkpoint_manager_list(self._handle))

    def save(self, checkpoint_number: Optional[int] = None,
             timeout: Optional[float] = None) -> str:
        """Saves as <directory>/<name>-<checkpoint_number>, by default counting up, and removes the
        oldest beyond max_to_keep; returns the path."""
        number = (self._checkpoint.save_counter + 1 if checkpoint_number is None
                  else int(checkpoint_number))
        path = _native.checkpoint_manager_save(self._handle, number, timeout)
        self._checkpoint.save_counter = number
        return path

    def restore_or_initialize(self, timeout: Optional[float] = None) -> Optional[str]:
        """Restores the checkpoint that was saved last and returns its path; without one calls
        init_fn, if given, and returns None. DataLossError naming a file that is damaged; an older
        checkpoint is never taken instead."""
        number = _native.checkpoint_manager_restore_latest(self._handle, timeout)
        if number is None:
            if self._init_fn is not None:
                self._init_fn()
            return None
        self._checkpoint.save_counter = number
        return os.path.join(self._directory, f"{self._name}-{number}")


def latest_checkpoint(checkpoint_dir: _Path, checkpoint_name: str = "ckpt") -> Optional[str]:
    """The path of the checkpoint that was saved last in checkpoint_dir under checkpoint_name, None
    when there is none."""
    return CheckpointManager(Checkpoint(), checkpoint_dir,
                             checkpoint_name=checkpoint_name).latest_checkpoint
