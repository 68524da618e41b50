"""The tasks of a job of several processes, and their addresses."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Dict, List, Mapping, Optional, Union

from tutti import _native, errors


@dataclasses.dataclass(frozen=True)
class JobDef:
    """A job of a ClusterDef. name: "worker" and so on; tasks: a dict from task index to address."""

    name: str
    tasks: Dict[int, str]


@dataclasses.dataclass(frozen=True)
class ClusterDef:
    """A cluster as plain values, with the fields of the protocol buffer message of this name.

    job: a list of JobDef. Lists and dicts are copies: a change of them changes no ClusterSpec.
    There is no protobuf in this package: who has the message's class fills it in,

        message.job.add(name=job.name, tasks=job.tasks)

    and ClusterSpec reads that message as it reads a ClusterDef.
    """

    job: List[JobDef]


def _tasks_by_job(cluster: Any) -> Dict[str, Dict[int, str]]:
    jobs: Dict[str, Dict[int, str]] = {}
    for job in cluster.job:
        if job.name in jobs:
            raise errors.InvalidArgumentError(
                f"the ClusterDef has two jobs that are named {job.name!r}; expected one, with the "
                f"tasks of both")
        jobs[job.name] = dict(job.tasks)
    return jobs


class ClusterSpec:
    """The tasks of each job ("chief", "worker", "ps", "evaluator") with their addresses. Immutable.

        tutti.train.ClusterSpec({"worker": ["10.0.0.1:2222", "10.0.0.2:2222"],
                                 "ps": {1: "10.0.0.3:2222"}})

    cluster: a dict from job to a list of addresses, or to a dict from task index to address;
    another ClusterSpec; a ClusterDef, or the protocol buffer message of its name; or the same as
    JSON. ValueError names what cannot be an index or has another form, and a job of a ClusterDef
    that comes twice. Addresses are checked when a job is joined.
    """

    __slots__ = ("_handle",)
    _handle: _native.tutti_cluster_spec

    def __init__(self, cluster: Union["ClusterSpec", ClusterDef, Mapping[str, Any], str]):
        if isinstance(cluster, ClusterSpec):
            self._handle = cluster._handle
            return
        if hasattr(cluster, "job"):
            cluster = _tasks_by_job(cluster)
        if isinstance(cluster, Mapping):
            cluster = json.dumps(dict(cluster))
        if not isinstance(cluster, str):
            raise TypeError(f"a cluster spec is made of a dict from job to addresses, not of "
                            f"{type(cluster).__name__}")
        self._handle = _native.cluster_spec_create(cluster)

    @classmethod
    def _of(cls, handle: Any) -> "ClusterSpec":
        spec = cls.__new__(cls)
        spec._handle = handle
        return spec

    @property
    def jobs(self) -> List[str]:
        """The names of the jobs, sorted."""
        return [_native.cluster_spec_job(self._handle, i)
                for i in range(_native.cluster_spec_job_count(self._handle))]

    def num_tasks(self, job_name: str) -> int:
        """How many tasks the job job_name has; ValueError for an unknown one."""
        return len(self.task_indices(job_name))

    def task_indices(self, job_name: str) -> List[int]:
        """The indices of the tasks of job_name, growing; ValueError for an unknown job."""
        count = _native.cluster_spec_task_count(self._handle, job_name)
        if count == 0 and job_name not in self.jobs:
            raise errors.InvalidArgumentError(
                f"no job of this cluster is named {job_name!r}; there are {', '.join(self.jobs)}")
        return [_native.cluster_spec_task_index(self._handle, job_name, i) for i in range(count)]

    def task_address(self, job_name: str, task_index: int) -> str:
        """The address of task task_index of job_name; ValueError when there is no such task."""
        indices = self.task_indices(job_name)
        if task_index not in indices:
            raise errors.InvalidArgumentError(
                f"the job {job_name!r} has no task {task_index}; it has {indices}")
        return _native.cluster_spec_task_address(self._handle, job_name, task_index)

    def job_tasks(self, job_name: str) -> List[Optional[str]]:
        """The addresses of job_name by task index, None where an index is missing; ValueError for
        an unknown job."""
        indices = self.task_indices(job_name)
        return [_native.cluster_spec_task_address(self._handle, job_name, i)
                for i in range(indices[-1] + 1 if indices else 0)]

    def as_dict(self) -> Dict[str, Union[List[str], Dict[int, str]]]:
        """From job to its addresses: a list, or a dict from index where an index is missing."""
        jobs: Dict[str, Union[List[str], Dict[int, str]]] = {}
        for job in self.jobs:
            tasks = {i: self.task_address(job, i) for i in self.task_indices(job)}
            dense = list(tasks) == list(range(len(tasks)))
            jobs[job] = list(tasks.values()) if dense else tasks
        return jobs

    def as_cluster_def(self) -> ClusterDef:
        """The same as a ClusterDef: a JobDef for each job, in the order of their names."""
        return ClusterDef([JobDef(job, {i: self.task_address(job, i)
                                        for i in self.task_indices(job)}) for job in self.jobs])

    def to_json(self) -> str:
        """The "cluster" part of a TF_CONFIG."""
        return _native.cluster_spec_json(self._handle)

    def __bool__(self) -> bool:
        return _native.cluster_spec_job_count(self._handle) > 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClusterSpec):
            return NotImplemented
        return self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        return f"ClusterSpec({self.as_dict()!r})"
