"""Cluster resolvers: they find which processes a job has, and which of them this one is."""

from __future__ import annotations

import abc
import operator
from typing import Any, Dict, Mapping, Optional, Union

from tutti import _arguments, _native, _runtime
from tutti._cluster_spec import ClusterSpec

__all__ = ["ClusterResolver", "SimpleClusterResolver", "TFConfigClusterResolver"]


class ClusterResolver(abc.ABC):
    """Base class of all resolvers. One of your own defines cluster_spec() and master(), and sets
    _task_type, _task_id and _rpc_layer, or defines the properties."""

    @abc.abstractmethod
    def cluster_spec(self) -> ClusterSpec:
        """The tasks of the cluster as they are now."""

    @abc.abstractmethod
    def master(self, task_type: Optional[str] = None, task_id: Optional[int] = None,
               rpc_layer: Optional[str] = None) -> str:
        """The address to connect to, of the task (task_type, task_id) or of the master, with
        rpc_layer and "://" in front."""

    def num_accelerators(self, task_type: Optional[str] = None, task_id: Optional[int] = None,
                         config_proto: Any = None) -> Dict[str, int]:
        """The accelerators of a task, {"GPU": 8}; none: {}. By default those of this machine, for
        every task: a resolver of another kind may tell tasks (task_type, task_id) apart.
        config_proto: taken, and without effect."""
        _check_task(task_type, task_id)
        count = len(_runtime.config.list_devices("GPU"))
        return {"GPU": count} if count else {}

    @property
    def environment(self) -> str:
        """"" here, "google" there."""
        return ""

    @property
    def task_type(self) -> Optional[str]:
        """The job of this process, "worker" and so on; None when it is not known."""
        return getattr(self, "_task_type", None)

    @task_type.setter
    def task_type(self, task_type: Optional[str]) -> None:
        self._task_type = task_type

    @property
    def task_id(self) -> Optional[int]:
        """The index of this process within its job; None when it is not known."""
        return getattr(self, "_task_id", None)

    @task_id.setter
    def task_id(self, task_id: Optional[int]) -> None:
        self._task_id = task_id

    @property
    def rpc_layer(self) -> Optional[str]:
        """How processes speak, "grpc"."""
        return getattr(self, "_rpc_layer", None)

    @rpc_layer.setter
    def rpc_layer(self, rpc_layer: Optional[str]) -> None:
        self._rpc_layer = rpc_layer


class _LibraryResolver(ClusterResolver):
    """A resolver of the library's; what is set afterwards makes another."""

    def __init__(self, **options: Any):
        self._options = options
        self._handle = self._make(**options)

    def _make(self, **options: Any) -> Any:
        raise TypeError("this resolver came out of the library and cannot be changed")

    def _change(self, **options: Any) -> None:
        changed = {**self._options, **options}
        self._handle = self._make(**changed)
        self._options = changed

    @classmethod
    def _of(cls, handle: Any) -> "_LibraryResolver":
        resolver = cls.__new__(cls)
        resolver._options, resolver._handle = {}, handle
        return resolver

    def cluster_spec(self) -> ClusterSpec:
        """The tasks of the cluster as they are now."""
        return ClusterSpec._of(_native.cluster_resolver_cluster_spec(self._handle))

    def master(self, task_type: Optional[str] = None, task_id: Optional[int] = None,
               rpc_layer: Optional[str] = None) -> str:
        """The address to connect to, "grpc://10.0.0.1:2222", of the task (task_type, task_id) or of
        the master; "" for an empty cluster. rpc_layer: instead of "grpc"."""
        return _native.cluster_resolver_master(self._handle, task_type, task_id, rpc_layer)

    def num_accelerators(self, task_type: Optional[str] = None, task_id: Optional[int] = None,
                         config_proto: Any = None) -> Dict[str, int]:
        """The accelerators of this task, {"GPU": 8}; none: {}. Nothing is known of another one's:
        task_type, task_id and config_proto are without effect, as is documented."""
        _check_task(task_type, task_id)
        count = _native.cluster_resolver_num_accelerators(self._handle)
        return {"GPU": count} if count else {}

    @property
    def environment(self) -> str:
        """"" here, "google" there."""
        return _native.cluster_resolver_environment(self._handle)

    @property
    def task_type(self) -> Optional[str]:
        """The job of this process, "worker" and so on; None when it is not known."""
        return _native.cluster_resolver_task_type(self._handle)

    @task_type.setter
    def task_type(self, task_type: Optional[str]) -> None:
        self._change(task_type=task_type)

    @property
    def task_id(self) -> Optional[int]:
        """The index of this process within its job; None when it is not known."""
        return _native.cluster_resolver_task_id(self._handle)

    @task_id.setter
    def task_id(self, task_id: Optional[int]) -> None:
        self._change(task_id=task_id)

    @property
    def rpc_layer(self) -> Optional[str]:
        """How processes speak, "grpc"."""
        return _native.cluster_resolver_rpc_layer(self._handle)

    @rpc_layer.setter
    def rpc_layer(self, rpc_layer: Optional[str]) -> None:
        self._change(rpc_layer=rpc_layer)


class SimpleClusterResolver(_LibraryResolver):
    """Says what it was given: cluster_spec, master, task_type, task_id, environment, rpc_layer.

    num_accelerators: of this task, {"GPU": 8} or a number; None: what the machine has.
    """

    def __init__(self, cluster_spec: Union[ClusterSpec, Mapping[str, Any]], master: str = "",
                 task_type: Optional[str] = None, task_id: Optional[int] = None,
                 environment: str = "",
                 num_accelerators: Union[Mapping[str, int], int, None] = None,
                 rpc_layer: Optional[str] = None):
        super().__init__(cluster_spec=ClusterSpec(cluster_spec), master=master, task_type=task_type,
                         task_id=task_id, environment=environment,
                         num_accelerators=num_accelerators, rpc_layer=rpc_layer)

    def _make(self, **options: Any) -> Any:
        return _native.cluster_resolver_simple(
            options["cluster_spec"]._handle, options["master"], options["task_type"],
            options["task_id"], options["environment"], _count(options["num_accelerators"]),
            options["rpc_layer"])

    def num_accelerators(self, task_type: Optional[str] = None, task_id: Optional[int] = None,
                         config_proto: Any = None) -> Dict[str, int]:
        """What it was given, whatever the task; by default what the machine has, {"GPU": 8}.
        task_type, task_id, config_proto: without effect, as is documented."""
        _check_task(task_type, task_id)
        given = self._options["num_accelerators"]
        return dict(given) if isinstance(given, Mapping) else super().num_accelerators()


class TFConfigClusterResolver(_LibraryResolver):
    """Reads the variable TF_CONFIG, anew at each question:

        {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]},
         "task": {"type": "worker", "index": 1}}

    Arguments (task_type, task_id, rpc_layer, environment) beat what it says. Without the variable
    the cluster is empty; one that is wrong is a ValueError that says where.
    """

    def __init__(self, task_type: Optional[str] = None, task_id: Optional[int] = None,
                 rpc_layer: Optional[str] = None, environment: Optional[str] = None):
        super().__init__(task_type=task_type, task_id=task_id, rpc_layer=rpc_layer,
                         environment=environment)

    def _make(self, **options: Any) -> Any:
        return _native.cluster_resolver_tf_config(options["task_type"], options["task_id"],
                                                  options["rpc_layer"], options["environment"])


def _check_task(task_type: Optional[str], task_id: Optional[int]) -> None:
    if task_type is not None and not isinstance(task_type, str):
        raise TypeError(f"task_type: a str is needed, not an object of type "
                        f"{type(task_type).__name__}")
    if task_id is not None and operator.index(task_id) < 0:
        raise ValueError(f"task_id is {task_id}; expected 0 or more, or None")


def _count(accelerators: Union[Mapping[str, int], int, None]) -> Optional[int]:
    if isinstance(accelerators, Mapping):
        return sum(accelerators.values())
    return accelerators


def handle_of(resolver: Optional[ClusterResolver]) -> Any:
    """The library's resolver for one of any class; None stays None, which means TF_CONFIG."""
    if resolver is None or isinstance(resolver, _LibraryResolver):
        return None if resolver is None else resolver._handle
    _arguments.check("cluster_resolver", resolver, ClusterResolver)
    return SimpleClusterResolver(
        resolver.cluster_spec(), task_type=resolver.task_type, task_id=resolver.task_id,
        environment=resolver.environment, num_accelerators=resolver.num_accelerators(),
        rpc_layer=resolver.rpc_layer)._handle
