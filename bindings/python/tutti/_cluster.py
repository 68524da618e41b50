"""This process's seat in a job of several processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from tutti import _leaving, _native, errors

if TYPE_CHECKING:
    from tutti.distribute.cluster_resolver import ClusterResolver


class Cluster:
    """This process's seat in a job: a rendezvous of the chief and all workers (chief first, then
    worker 0, 1, ...), which watch each other from then on. A runtime has one. Threads: any."""

    __slots__ = ("_handle",)
    _handle: _native.tutti_cluster

    def __init__(self) -> None:
        raise TypeError("join a cluster with Cluster.join(cluster_resolver)")

    @classmethod
    def join(cls, cluster_resolver: Optional["ClusterResolver"] = None,
             num_replicas: Optional[int] = None, timeout: Optional[float] = None) -> "Cluster":
        """Waits for all workers of `cluster_resolver` (None: TF_CONFIG), for `timeout` seconds,
        else as long as the setting join_timeout says. num_replicas: of this worker, equal on all.
        Where there is no cluster (no TF_CONFIG) it is one of this process alone, so that the same
        program can be run by itself. After the setting join_warning (10 s) it warns of who is
        missing.

        ValueError for a resolver that is wrong and, on every worker, for workers that do
        not fit together; UnavailableError when the first worker cannot be reached;
        UnauthenticatedError for another job secret; DeadlineExceededError names who has not come.

        >>> with tutti.Cluster.join() as cluster:  # alone, without TF_CONFIG
        ...     cluster.worker, cluster.num_workers
        (0, 1)
        """
        from tutti.distribute import cluster_resolver as resolvers

        return cls._of(_native.cluster_join(resolvers.handle_of(cluster_resolver),
                                            num_replicas or 0, timeout))

    @classmethod
    def _of(cls, handle: _native.tutti_cluster) -> "Cluster":
        cluster = cls.__new__(cls)
        cluster._handle = handle
        return cluster

    @property
    def worker(self) -> int:
        """This process's place among the workers, from 0."""
        return _native.cluster_worker(self._handle)

    @property
    def num_workers(self) -> int:
        """How many workers there are."""
        return _native.cluster_worker_count(self._handle)

    def describe(self, worker: int) -> str:
        """"worker 1 (pid 4711)", with its host where that is another one."""
        return _native.cluster_describe_worker(self._handle, worker)

    def check(self) -> None:
        """Raises what has ended the job: UnavailableError with the details "rank" and "worker" for
        a worker that died or fell silent, or what an abort said."""
        _native.cluster_check(self._handle)

    def abort(self, message: str) -> None:
        """Ends the job on all workers with AbortedError and `message`. Calls that are under way may
        still succeed."""
        _native.cluster_abort(self._handle, message)

    def close(self, timeout: Optional[float] = None) -> None:
        """Says goodbye to the others; what still needs this worker is an UnavailableError there."""
        _native.cluster_close(self._handle, timeout)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, _: Any, error: Optional[BaseException], __: Any) -> None:
        """Closes. The other workers hear of an exception that leaves the block: it ends the job, if
        that is not elastic."""
        why = _leaving.reason(error)
        if why is not None:
            try:
                _native.cluster_fail(self._handle,
                                     f"{self.describe(self.worker)} has left by {why}")
            except errors.Error:  # it is closed already
                pass
        self.close()

    def __repr__(self) -> str:
        return f"<Cluster, worker {self.worker} of {self.num_workers}>"
