"""The tasks of a job of several processes, and their addresses."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Optional, Union

from tutti import _native, errors


class ClusterSpec:
    """The tasks of each job ("chief", "worker", "ps", "evaluator") with their addresses. Immutable.

        tutti.train.ClusterSpec({"worker": ["10.0.0.1:2222", "10.0.0.2:2222"],
                                 "ps": {1: "10.0.0.3:2222"}})

    cluster: a dict from job to a list of addresses, or to a dict from task index to address;
    another ClusterSpec; or the same as JSON. ValueError names an address without a port, or one
    that comes twice.
    """

    __slots__ = ("_handle",)
    _handle: _native.tutti_cluster_spec

    def __init__(self, cluster: Union["ClusterSpec", Mapping[str, Any], str]):
        if isinstance(cluster, ClusterSpec):
            self._handle = cluster._handle
            return
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
