"""Distributed datasets: each step gives every replica its part of a global batch."""

from __future__ import annotations

import enum
from typing import Any, Optional, Tuple

from tutti import _arguments, _native, _values, errors


_REBATCH = {None: 0, "ceil": 1, "even": 2}


class InputReplicationMode(enum.Enum):
    """How many input pipelines there are: PER_WORKER, one for each worker; PER_REPLICA, one for
    each replica, for distribute_datasets_from_function of a MirroredStrategy only (elsewhere an
    UnimplementedError, which is a NotImplementedError)."""

    PER_WORKER = "PER_WORKER"
    PER_REPLICA = "PER_REPLICA"


class InputOptions:
    """How a dataset is distributed.

    experimental_prefetch_to_device, also as experimental_fetch_to_device and prefetch_to_device:
    what a thread makes before it is asked for, the element that each replica gets next, lies on the
    replica's device, and the slices of one more step lie on the host, where batches are cut; with
    False only the former are made ahead, and on the host, which for CPUs is the same memory.
    experimental_replication_mode: InputReplicationMode. experimental_place_dataset_on_device: True
    needs PER_REPLICA without prefetching to the device, else it is a ValueError; such a dataset
    makes nothing ahead. rebatch: how a batch of b rows is cut over n
    replicas: "ceil" (the default), slices of ceil(b / n) rows, trailing slices empty, never across
    batches; or "even", slices of static, nearly equal sizes, across batches.
    """

    __slots__ = ("experimental_prefetch_to_device", "experimental_replication_mode",
                 "experimental_place_dataset_on_device", "rebatch")

    def __init__(self, experimental_prefetch_to_device: Optional[bool] = True,
                 experimental_replication_mode: InputReplicationMode = (
                     InputReplicationMode.PER_WORKER),
                 experimental_place_dataset_on_device: bool = False, *,
                 experimental_fetch_to_device: Optional[bool] = None,
                 prefetch_to_device: Optional[bool] = None, rebatch: Optional[str] = None):
        for other in (experimental_fetch_to_device, prefetch_to_device):
            if other is not None:
                experimental_prefetch_to_device = other
        self.experimental_prefetch_to_device = experimental_prefetch_to_device
        _arguments.check("experimental_replication_mode", experimental_replication_mode,
                         InputReplicationMode)
        self.experimental_replication_mode = experimental_replication_mode
        self.experimental_place_dataset_on_device = experimental_place_dataset_on_device
        if rebatch not in _REBATCH:
            raise ValueError(f"rebatch: {rebatch!r} is none of 'ceil', 'even'")
        self.rebatch = rebatch

    @property
    def experimental_fetch_to_device(self) -> Optional[bool]:
        """Another name of experimental_prefetch_to_device."""
        return self.experimental_prefetch_to_device

    @experimental_fetch_to_device.setter
    def experimental_fetch_to_device(self, value: Optional[bool]) -> None:
        self.experimental_prefetch_to_device = value

    def _rebatch_number(self) -> int:
        return _REBATCH[self.rebatch]

    def _numbers(self) -> Tuple[Optional[bool], int, bool]:
        """prefetch_to_device, replication_mode, place_dataset_on_device."""
        mode = list(InputReplicationMode).index(self.experimental_replication_mode) + 1
        return (self.experimental_prefetch_to_device, mode,
                self.experimental_place_dataset_on_device)


class InputContext:
    """What a function that makes input pipelines is told: which of num_input_pipelines it makes
    (input_pipeline_id, from 0), and how many replicas there are in all (num_replicas_in_sync)."""

    __slots__ = ("num_input_pipelines", "input_pipeline_id", "num_replicas_in_sync")

    def __init__(self, num_input_pipelines: int = 1, input_pipeline_id: int = 0,
                 num_replicas_in_sync: int = 1):
        self.num_input_pipelines = int(num_input_pipelines)
        self.input_pipeline_id = int(input_pipeline_id)
        self.num_replicas_in_sync = int(num_replicas_in_sync)

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """global_batch_size / num_replicas_in_sync, which must divide (ValueError)."""
        if global_batch_size % self.num_replicas_in_sync:
            raise errors.InvalidArgumentError(
                f"a global batch of {global_batch_size} rows cannot be divided evenly over "
                f"{self.num_replicas_in_sync} replicas; use a multiple")
        return global_batch_size // self.num_replicas_in_sync

    def __repr__(self) -> str:
        return (f"InputContext(num_input_pipelines={self.num_input_pipelines}, "
                f"input_pipeline_id={self.input_pipeline_id}, "
                f"num_replicas_in_sync={self.num_replicas_in_sync})")


class ValueContext:
    """What a function that makes one replica's value is told: which it is of all replicas
    (replica_id_in_sync_group, from 0), and how many there are (num_replicas_in_sync)."""

    __slots__ = ("replica_id_in_sync_group", "num_replicas_in_sync")

    def __init__(self, replica_id_in_sync_group: int = 0, num_replicas_in_sync: int = 1):
        self.replica_id_in_sync_group = int(replica_id_in_sync_group)
        self.num_replicas_in_sync = int(num_replicas_in_sync)

    def __repr__(self) -> str:
        return (f"ValueContext(replica_id_in_sync_group={self.replica_id_in_sync_group}, "
                f"num_replicas_in_sync={self.num_replicas_in_sync})")


class DistributedIterator:
    """One walk over the steps of `dataset`. The leaves of a step's batch are PerReplica, or, where
    this process has one replica, its arrays: read-only views, numbers as arrays of rank 0. Give
    them to strategy.run as they are, whole or in parts: they tell it the rows of the step
    (ReplicaContext.global_rows). Threads: one at a time, in cross-replica context."""

    __slots__ = ("_handle", "__weakref__")

    def __init__(self, dataset: "DistributedDataset", timeout: Optional[float] = None):
        self._handle = _native.distributed_iterator_create(
            _arguments.handle_of("DistributedIterator: dataset", dataset, DistributedDataset),
            timeout)

    def __iter__(self) -> "DistributedIterator":
        return self

    def __next__(self) -> Any:
        return _native.distributed_iterator_next(self._handle, None)

    def next(self, timeout: Optional[float] = None) -> Any:
        """The next step's batch, whose leaves are PerReplica, or with one replica in this process
        plain arrays; StopIteration at the end."""
        return _native.distributed_iterator_next(self._handle, timeout)

    def get_next(self, timeout: Optional[float] = None) -> Any:
        """The next step's batch; OutOfRangeError at the end."""
        try:
            return _native.distributed_iterator_next(self._handle, timeout)
        except StopIteration:
            raise errors.OutOfRangeError("end of the distributed dataset") from None

    def get_next_as_optional(self, timeout: Optional[float] = None) -> _values.Optional:
        """The next step's batch as a tutti.data.Optional, which is empty at the end."""
        batch: _values.Optional = _native.distributed_iterator_next_optional(self._handle, timeout)
        batch._source = self
        return batch

    @property
    def element_spec(self) -> Any:
        """Structure, dtypes and shapes of a step, as DistributedDataset.element_spec."""
        return _native.distributed_iterator_element_spec(self._handle)

    def save(self, timeout: Optional[float] = None) -> bytes:
        """The position."""
        return _native.distributed_iterator_save(self._handle, timeout)

    def save_joint(self, timeout: Optional[float] = None) -> bytes:
        """The position of all workers, the same bytes on each; all call it behind the same step.
        Any number of workers goes on from it, with every element that is left once: what the
        workers had left is dealt to those that go on, in turn where several share it.
        FailedPreconditionError where that cannot be promised: for data that all workers read whole
        (policy OFF), a generator's, an order that is not deterministic, PER_REPLICA."""
        return _native.distributed_iterator_save_joint(self._handle, timeout)

    def restore(self, state: bytes, timeout: Optional[float] = None) -> None:
        """Goes to `state`, a saved position; what a dataset's iterator refuses is refused here. A
        joint one of another number of workers or replicas is restored by all workers together;
        steps may have fewer rows then than element_spec says."""
        _native.distributed_iterator_restore(self._handle, state, timeout)

    def explain(self, format: str = "text") -> str:
        """What this worker's pipelines have done so far, as tutti.data's Iterator.explain has it: a
        row of the run is a step, and the consumer is who asks for steps. Where that one waits and
        the pipelines are in time, the bottleneck is the other workers, or what lies between.
        `format`: "text", "json" or "svg"; as "json" it is what Dataset.gather_report adds up over
        all ranks. A restore begins anew. Threads: any, while another one iterates, too."""
        return _native.distributed_iterator_explain(self._handle, format)

    def close(self, timeout: Optional[float] = None) -> None:
        """Stops and joins its threads."""
        _native.distributed_iterator_close(self._handle, timeout)

    def __enter__(self) -> "DistributedIterator":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class DistributedDataset:
    """A dataset whose elements are steps: iterate it, and give each batch to `strategy.run`."""

    __slots__ = ("_handle", "__weakref__")
    _handle: _native.tutti_distributed_dataset

    def __init__(self) -> None:
        raise TypeError("distributed datasets come from strategy.distribute_dataset")

    @classmethod
    def _of(cls, handle: Any) -> "DistributedDataset":
        dataset = cls.__new__(cls)
        dataset._handle = handle
        return dataset

    @property
    def element_spec(self) -> Any:
        """The spec of a step, whose leaves are PerReplicaSpec, or, where this process has one
        replica, plain; the first dimension is None where a partial batch can occur."""
        return _native.distributed_dataset_element_spec(self._handle)

    def cardinality(self) -> int:
        """The number of steps, tutti.data.INFINITE_CARDINALITY or UNKNOWN_CARDINALITY."""
        return _native.distributed_dataset_cardinality(self._handle)

    def explain(self, format: str = "text") -> str:
        """How batches are cut and shared between the workers, and why, and the plan of this
        worker's part with what the iterator that was made last has done. `format`: "text", or of
        that plan alone "json" or "svg"."""
        if format == "text":
            return _native.distributed_dataset_explain(self._handle)
        return _native.distributed_dataset_explain_as(self._handle, format)

    def __iter__(self) -> DistributedIterator:
        return DistributedIterator(self)
