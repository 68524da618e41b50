"""Cluster resolvers: they find which processes a job has, and which of them this one is."""

from __future__ import annotations

import abc
import operator
from typing import Any, Dict, Mapping, Optional, Tuple, Union

from tutti import _arguments, _native, _runtime
from tutti._cluster_spec import ClusterSpec

__all__ = ["ClusterResolver", "SimpleClusterResolver", "SlurmClusterResolver",
           "TFConfigClusterResolver", "UnionResolver"]


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


class SlurmClusterResolver(_LibraryResolver):
    """Reads what srun tells each task of a step, anew at each question.

    jobs: {"ps": 1, "worker": 3}, in the order in which they take Slurm's tasks; None: every task is
    a worker. port_base: the first port on each node. gpus_per_node: None: those that nvidia-smi
    lists, else 0. gpus_per_task: None: those of a node by its tasks. tasks_per_node: a number, or
    {"n1": 2, "n2": 1}; None: as Slurm says. auto_set_gpu: cluster_spec() puts this task's part of
    the node's GPUs into CUDA_VISIBLE_DEVICES. rpc_layer: what addresses begin with. RuntimeError
    where Slurm has not started this process, or has fewer tasks or GPUs than are asked for, and
    where tasks are dealt to nodes neither in blocks, srun's default, nor in turn.
    """

    def __init__(self, jobs: Optional[Mapping[str, int]] = None, port_base: int = 8888,
                 gpus_per_node: Optional[int] = None, gpus_per_task: Optional[int] = None,
                 tasks_per_node: Union[Mapping[str, int], int, None] = None,
                 auto_set_gpu: bool = True, rpc_layer: str = "grpc"):
        super().__init__(jobs=_counts(jobs), port_base=port_base, gpus_per_node=gpus_per_node,
                         gpus_per_task=gpus_per_task, tasks_per_node=_counts(tasks_per_node),
                         auto_set_gpu=auto_set_gpu, rpc_layer=rpc_layer, task_type=None,
                         task_id=None)

    def _make(self, **options: Any) -> Any:
        return _native.cluster_resolver_slurm(
            options["jobs"], options["tasks_per_node"], options["port_base"],
            options["gpus_per_node"], options["gpus_per_task"], options["auto_set_gpu"],
            options["rpc_layer"], options["task_type"], options["task_id"])

    def get_task_info(self) -> Tuple[Optional[str], Optional[int]]:
        """The job of this process and its index there; None and None for a task of no job."""
        return self.task_type, self.task_id


class UnionResolver(ClusterResolver):
    """Several resolvers (args) as one, each asked anew at each question: its cluster has the jobs
    of all of them. kwargs: task_type, task_id and rpc_layer, which beat what the first of them
    says, who answers everything else.

    TypeError for what is no resolver, ValueError without any. Lists of one job are joined in order;
    where one has gaps all keep their indices, and a task that comes twice is a KeyError when the
    cluster is read.
    """

    def __init__(self, *args: ClusterResolver, **kwargs: Any):
        if not args:
            raise ValueError("UnionResolver: no cluster resolver is given; expected at least one")
        for resolver in args:
            _arguments.check("UnionResolver: each argument", resolver, ClusterResolver)
        for name in kwargs:
            if name not in ("rpc_layer", "task_type", "task_id"):
                raise TypeError(f"UnionResolver: there is no argument {name!r}; expected "
                                "rpc_layer, task_type or task_id")
        self._resolvers = args
        self._given = kwargs

    def _handle_now(self) -> Any:
        return _native.cluster_resolver_union(
            [handle_of(resolver) for resolver in self._resolvers], self._given.get("task_type"),
            self._given.get("task_id"), self._given.get("rpc_layer"))

    def cluster_spec(self) -> ClusterSpec:
        """The tasks of all clusters as they are now."""
        return ClusterSpec._of(_native.cluster_resolver_cluster_spec(self._handle_now()))

    def master(self, task_type: Optional[str] = None, task_id: Optional[int] = None,
               rpc_layer: Optional[str] = None) -> str:
        """The address of the task (task_type, task_id), else the first resolver's master."""
        if task_type is None or task_id is None:
            layer = self.rpc_layer if rpc_layer is None else rpc_layer
            return self._resolvers[0].master(rpc_layer=layer)
        return _native.cluster_resolver_master(self._handle_now(), task_type, task_id, rpc_layer)

    def num_accelerators(self, task_type: Optional[str] = None, task_id: Optional[int] = None,
                         config_proto: Any = None) -> Dict[str, int]:
        """What the first resolver says of the task (task_type, task_id); config_proto is passed
        on to it."""
        return self._resolvers[0].num_accelerators(task_type, task_id, config_proto)

    @property
    def environment(self) -> str:
        """What the first resolver says."""
        return self._resolvers[0].environment

    @property
    def task_type(self) -> Optional[str]:
        """The job of this process: as given, else as the first resolver says."""
        given: Optional[str] = self._given.get("task_type")
        return self._resolvers[0].task_type if given is None else given

    @task_type.setter
    def task_type(self, task_type: Optional[str]) -> None:
        self._given["task_type"] = task_type

    @property
    def task_id(self) -> Optional[int]:
        """The index of this process within its job: as given, else as the first resolver says."""
        given: Optional[int] = self._given.get("task_id")
        return self._resolvers[0].task_id if given is None else given

    @task_id.setter
    def task_id(self, task_id: Optional[int]) -> None:
        self._given["task_id"] = task_id

    @property
    def rpc_layer(self) -> Optional[str]:
        """How processes speak: as given, else as the first resolver says."""
        given: Optional[str] = self._given.get("rpc_layer")
        return self._resolvers[0].rpc_layer if given is None else given

    @rpc_layer.setter
    def rpc_layer(self, rpc_layer: Optional[str]) -> None:
        self._given["rpc_layer"] = rpc_layer


def _counts(counts: Union[Mapping[str, int], int, None]) -> Optional[str]:
    """A number or numbers by name as the library reads them."""
    if counts is None:
        return None
    if not isinstance(counts, Mapping):
        return str(operator.index(counts))
    return ", ".join(f"{name}:{operator.index(count)}" for name, count in counts.items())


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
