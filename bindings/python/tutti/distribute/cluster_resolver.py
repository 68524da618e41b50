"""Cluster resolvers: they find which processes a job has, and which of them this one is."""

from __future__ import annotations

import abc
import json
import operator
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple, Union

from tutti import _arguments, _native, _runtime
from tutti._cluster_spec import ClusterSpec

__all__ = ["ClusterResolver", "GCEClusterResolver", "KubernetesClusterResolver",
           "SimpleClusterResolver", "SlurmClusterResolver", "TFConfigClusterResolver",
           "UnionResolver"]


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

    def _read(self, name: str) -> Any:
        """What the resolver says of "task_type", "task_id" or "rpc_layer"; None: nothing."""
        return getattr(self, "_" + name, None)

    def _change(self, **options: Any) -> None:
        """Makes it say `options` instead."""
        for name, value in options.items():
            setattr(self, "_" + name, value)

    @property
    def task_type(self) -> Optional[str]:
        """The job of this process, "worker" and so on; None when it is not known."""
        task_type: Optional[str] = self._read("task_type")
        return task_type

    @task_type.setter
    def task_type(self, task_type: Optional[str]) -> None:
        self._change(task_type=task_type)

    @property
    def task_id(self) -> Optional[int]:
        """The index of this process within its job; None when it is not known."""
        task_id: Optional[int] = self._read("task_id")
        return task_id

    @task_id.setter
    def task_id(self, task_id: Optional[int]) -> None:
        self._change(task_id=task_id)

    @property
    def rpc_layer(self) -> Optional[str]:
        """How processes speak, "grpc"; None when it is not known."""
        rpc_layer: Optional[str] = self._read("rpc_layer")
        return rpc_layer

    @rpc_layer.setter
    def rpc_layer(self, rpc_layer: Optional[str]) -> None:
        self._change(rpc_layer=rpc_layer)


class _LibraryResolver(ClusterResolver):
    """A resolver of the library's; what is set afterwards makes another."""

    def __init__(self, **options: Any):
        self._options = options
        self._handle = self._make(**options)

    def _make(self, **options: Any) -> Any:
        raise NotImplementedError

    def _change(self, **options: Any) -> None:
        if not self._options:  # it came out of the library
            self._handle = _native.cluster_resolver_changed(
                self._handle, options.get("task_type"), options.get("task_id"),
                options.get("rpc_layer"))
            return
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
        return ClusterSpec._of(_native.cluster_resolver_ask_cluster_spec(self._handle, None))

    def master(self, task_type: Optional[str] = None, task_id: Optional[int] = None,
               rpc_layer: Optional[str] = None) -> str:
        """The address to connect to, "grpc://10.0.0.1:2222", of the task (task_type, task_id) or of
        the master; "" for an empty cluster. rpc_layer: instead of "grpc"."""
        return _native.cluster_resolver_master(self._handle, task_type, task_id, rpc_layer)

    def num_accelerators(self, task_type: Optional[str] = None, task_id: Optional[int] = None,
                         config_proto: Any = None) -> Dict[str, int]:
        """The accelerators of a task by types of devices, {"GPU": 8}; none: {}. Nothing is known of
        other tasks than this one: task_type, task_id and config_proto are without effect, as is
        documented."""
        _check_task(task_type, task_id)
        counts: Dict[str, int] = json.loads(
            _native.cluster_resolver_read_accelerators(self._handle, task_type, task_id))
        return {device: count for device, count in counts.items() if count}

    @property
    def environment(self) -> str:
        """"" here, "google" there."""
        return _native.cluster_resolver_environment(self._handle)

    def _read(self, name: str) -> Any:
        read = {"task_type": _native.cluster_resolver_task_type,
                "task_id": _native.cluster_resolver_task_id,
                "rpc_layer": _native.cluster_resolver_rpc_layer}
        return read[name](self._handle)


class SimpleClusterResolver(_LibraryResolver):
    """Says what it was given: cluster_spec, master, task_type, task_id, environment, rpc_layer.

    num_accelerators: of each task, {"GPU": 8} or a number of GPUs; None: none. Nothing is detected.
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
            options["task_id"], options["environment"],
            _accelerators(options["num_accelerators"]), options["rpc_layer"])


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


class KubernetesClusterResolver(_LibraryResolver):
    """Asks Kubernetes for the running pods of each job, in the natural order of their names, anew
    at each question, as the pod's service account, which needs the right to list pods.

    job_to_label_mapping: the label selectors of each job's pods, {"worker": ["job-name=a"]}; None:
    worker has "job-name=tensorflow". tf_server_port: of each task. rpc_layer: what addresses begin
    with. override_client: a client of the package kubernetes, or whatever has its
    list_pod_for_all_namespaces(label_selector=...), which is asked instead. host_ip: the addresses
    of the pods' nodes. account_folder, namespace: of the service account, by default the pod's.
    timeout: seconds for a question, 30 by default. Unless they are set, task_type and task_id are
    those of the pod with this machine's name. RuntimeError that names a pod that does not run, and
    outside of pods; the classes of `errors` for what the server refuses.
    """

    def __init__(self, job_to_label_mapping: Optional[Mapping[str, Iterable[str]]] = None,
                 tf_server_port: int = 8470, rpc_layer: str = "grpc", override_client: Any = None,
                 *, host_ip: bool = False, account_folder: Optional[str] = None,
                 namespace: Optional[str] = None, timeout: Optional[float] = None):
        mapping = job_to_label_mapping or {"worker": ["job-name=tensorflow"]}
        self._labels = {job: list(labels) for job, labels in mapping.items()}
        self._client = override_client
        super().__init__(port=tf_server_port, rpc_layer=rpc_layer, task_type=None, task_id=None,
                         host_ip=host_ip, account_folder=account_folder, namespace=namespace,
                         timeout=timeout)

    def _make(self, **options: Any) -> Any:
        if self._client is not None:
            return _native.cluster_resolver_kubernetes_client(
                _PodsOfClient(self._client), json.dumps(self._labels), options["port"],
                options["rpc_layer"], options["task_type"], options["task_id"],
                options["host_ip"], _nanoseconds(options["timeout"]))
        return _native.cluster_resolver_kubernetes(
            json.dumps(self._labels), options["port"], options["rpc_layer"], options["task_type"],
            options["task_id"], options["host_ip"], options["account_folder"],
            options["namespace"], _nanoseconds(options["timeout"]))


class GCEClusterResolver(_LibraryResolver):
    """Asks Google Compute Engine for the running instances of a group, in the natural order of
    their names, anew at each question.

    project, zone: of the group; None: this instance's. instance_group: its name. port: of each
    task. task_type, task_id: of this process; all instances are of that job. rpc_layer: what
    addresses begin with. credentials: "default" is this instance's account; a text is a token; an
    object has the attribute `token`, which is read for each request. service: a client of the
    package googleapiclient, or whatever has its instanceGroups().listInstances(...).execute() and
    instances().get(...).execute(), which is asked instead; credentials are not looked at then.
    endpoint, ca_file: where the service is, and whose certificates it has. timeout: seconds for a
    question, 30 by default.
    """

    def __init__(self, project: Optional[str], zone: Optional[str], instance_group: str,
                 port: int = 8470, task_type: str = "worker", task_id: int = 0,
                 rpc_layer: str = "grpc", credentials: Any = "default", service: Any = None, *,
                 endpoint: Optional[str] = None, ca_file: Optional[str] = None,
                 timeout: Optional[float] = None):
        self._service = service
        super().__init__(project=project, zone=zone, instance_group=instance_group, port=port,
                         task_type=task_type, task_id=task_id, rpc_layer=rpc_layer,
                         credentials=credentials, endpoint=endpoint, ca_file=ca_file,
                         timeout=timeout)

    def _make(self, **options: Any) -> Any:
        credentials = options["credentials"]
        has_service = self._service is not None
        has_credentials = not has_service and not isinstance(credentials, (str, type(None)))
        if has_service or has_credentials:
            return _native.cluster_resolver_gce_service(
                options["instance_group"], _AnswersOfService(self._service, credentials),
                has_service, has_credentials, options["project"], options["zone"],
                options["port"], options["task_type"], options["task_id"], options["rpc_layer"],
                options["endpoint"], options["ca_file"], _nanoseconds(options["timeout"]))
        return _native.cluster_resolver_gce(
            options["instance_group"], options["project"], options["zone"], options["port"],
            options["task_type"], options["task_id"], options["rpc_layer"],
            None if credentials == "default" else credentials, options["endpoint"],
            options["ca_file"], _nanoseconds(options["timeout"]))


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
        return ClusterSpec._of(_native.cluster_resolver_ask_cluster_spec(self._handle_now(), None))

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

    def _read(self, name: str) -> Any:
        given = self._given.get(name)
        return getattr(self._resolvers[0], name) if given is None else given

    def _change(self, **options: Any) -> None:
        self._given.update(options)


def _counts(counts: Union[Mapping[str, int], int, None]) -> Optional[str]:
    """A number or numbers by name as the library reads them."""
    if counts is None:
        return None
    if not isinstance(counts, Mapping):
        return str(operator.index(counts))
    return ", ".join(f"{name}:{operator.index(count)}" for name, count in counts.items())


def _nanoseconds(seconds: Optional[float]) -> int:
    return 0 if seconds is None else max(1, int(seconds * 1e9))


def _check_task(task_type: Optional[str], task_id: Optional[int]) -> None:
    if task_type is not None and not isinstance(task_type, str):
        raise TypeError(f"task_type: a str is needed, not an object of type "
                        f"{type(task_type).__name__}")
    if task_id is not None and operator.index(task_id) < 0:
        raise ValueError(f"task_id is {task_id}; expected 0 or more, or None")


def _accelerators(counts: Union[Mapping[str, int], int, None]) -> Optional[str]:
    """Numbers by types of devices, or one of GPUs, as the library reads them."""
    if counts is None:
        return None
    if not isinstance(counts, Mapping):
        counts = {"GPU": counts}
    return json.dumps({device: operator.index(count) for device, count in counts.items()})


class _PodsOfClient:
    """A user's client as the library asks it."""

    def __init__(self, client: Any):
        self._client = client

    def __call__(self, call: str, label: str, page: str) -> str:
        """All that the client lists, in one page, as Kubernetes writes it."""
        pods = self._client.list_pod_for_all_namespaces(label_selector=label).items
        return json.dumps({"items": [
            {"metadata": {"name": pod.metadata.name},
             "status": {"phase": pod.status.phase, "podIP": getattr(pod.status, "pod_ip", None),
                        "hostIP": getattr(pod.status, "host_ip", None)}} for pod in pods]})


class _AnswersOfService:
    """A user's service, or its credentials, as the library asks them."""

    def __init__(self, service: Any, credentials: Any):
        self._service = service
        self._credentials = credentials

    def __call__(self, call: str, project: str = "", zone: str = "", name: str = "",
                 page: str = "") -> str:
        """All that the service lists, in one page, as Compute Engine writes it."""
        if call == "token":
            return str(self._credentials.token or "")
        place = {"project": project or None, "zone": zone or None}
        if call == "get_instance":
            return json.dumps(self._service.instances().get(**place, instance=name).execute())
        request = self._service.instanceGroups().listInstances(
            **place, instanceGroup=name, body={"instanceState": "RUNNING"})
        items: List[Any] = []
        while request is not None:
            answer = request.execute()
            items += answer.get("items", [])
            request = self._service.instanceGroups().listInstances_next(
                previous_request=request, previous_response=answer)
        return json.dumps({"items": items})


class _Answers:
    """A resolver of the user's as the library asks it."""

    def __init__(self, resolver: ClusterResolver):
        self._resolver = resolver

    def __call__(self, call: str, task_type: str, task_id: str, rpc_layer: str) -> str:
        resolver = self._resolver
        task = (task_type or None, int(task_id) if task_id else None)
        if call == "cluster_spec":
            return ClusterSpec(resolver.cluster_spec()).to_json()
        if call == "num_accelerators":
            return _accelerators(resolver.num_accelerators(*task)) or ""
        if call == "master":
            return resolver.master(*task, rpc_layer or None) or ""
        answer = getattr(resolver, call)
        return "" if answer is None else str(answer)


def handle_of(resolver: Optional[ClusterResolver]) -> Any:
    """The library's resolver for one of any class; None stays None, which means TF_CONFIG."""
    if resolver is None or isinstance(resolver, _LibraryResolver):
        return None if resolver is None else resolver._handle
    _arguments.check("cluster_resolver", resolver, ClusterResolver)
    if isinstance(resolver, UnionResolver):
        return resolver._handle_now()
    return _native.cluster_resolver_own(type(resolver).__name__, _Answers(resolver))
