"""Gradients that are reduced between ranks while the backward pass goes on."""

from __future__ import annotations

from typing import Any, Iterable, List, Optional, Union

from tutti import _arguments, _native
from tutti._communicator import Communicator
from tutti._reduce_op import ReduceOp
from tutti._tensor import Tensor
from tutti._variable import member


class BucketPlan:
    """Reduces gradients in place, a bucket at a time, as soon as all of a bucket are ready.

        plan = tutti.BucketPlan(communicator, gradients, op="mean")
        for batch in batches:
            for i in backward(batch):  # gradients[i] is complete
                plan.ready(i)
            plan.wait()                # all of them are reduced

    arrays: the gradients in the order in which the backward pass makes them (last layer first):
    writable NumPy arrays, Tensors, or what has `__dlpack__` (tensors of PyTorch), of the same
    dtypes and shapes in the same order on all ranks, none of them twice. op: a ReduceOp or its
    name. bytes_per_bucket: how large a bucket grows (None: 4 MiB), the same on all ranks. names: of
    each array, for messages. The ranks may report gradients in different orders: buckets travel one
    after the other. Any failure ends the epoch of the communicator. A wait for an array that nobody
    reports warns of it, by its name, after the setting wait_warning (30 s). Threads: any; wait one
    at a time.

    own_tensors: `arrays` only say which dtypes and shapes there are, and may be read-only or of
    another library (DLPack); the gradients are `tensors`, zeros that the plan makes side by side in
    memory that all ranks of one machine map, so that large buckets are reduced where they
    lie:

        plan = tutti.BucketPlan(communicator, parameters, own_tensors=True)
        gradients = [np.asarray(tensor) for tensor in plan.tensors]"""

    __slots__ = ("_handle", "_count")

    def __init__(self, communicator: Communicator, arrays: Iterable[Any],
                 op: Union[ReduceOp, str, int] = ReduceOp.MEAN,
                 bytes_per_bucket: Optional[int] = None, own_tensors: bool = False, *,
                 names: Optional[Iterable[str]] = None):
        if bytes_per_bucket is not None and bytes_per_bucket < 1:
            raise ValueError(f"bytes_per_bucket is {bytes_per_bucket}; expected 1 or more, or None")
        rank = _arguments.handle_of("BucketPlan: communicator", communicator, Communicator)
        arrays = list(arrays)
        if own_tensors:  # these are not written: read-only ones will do
            arrays = [Tensor(array) for array in arrays]
        self._handle = _native.bucket_plan_create(rank, arrays, member(ReduceOp, op, "op"),
                                                  bytes_per_bucket or 0, bool(own_tensors),
                                                  [] if names is None else list(names))
        self._count = len(arrays)

    @property
    def tensors(self) -> List[Tensor]:
        """What is reduced, in the order of the indices. They outlive the plan."""
        return [Tensor._of(_native.bucket_plan_tensor(self._handle, index))
                for index in range(self._count)]

    @property
    def num_buckets(self) -> int:
        """How many buckets there are."""
        return _native.bucket_plan_bucket_count(self._handle)

    def ready(self, index: int) -> None:
        """Says that the array at `index` is complete in this step; from now on nobody touches it
        until wait() has returned. FailedPreconditionError when it is ready already. Does not
        wait."""
        _native.bucket_plan_ready(self._handle, index)

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until all arrays are ready and reduced, and begins the next step.

        >>> alone, = tutti.Communicator.create_local(1)
        >>> bias, weight = np.ones(2), np.ones((2, 2))
        >>> plan = tutti.BucketPlan(alone, [bias, weight], "mean", names=["bias", "weight"])
        >>> for index in range(2):  # each as soon as the backward pass has made it
        ...     plan.ready(index)
        >>> plan.wait()
        >>> plan
        <bucket plan of 2 tensors (MEAN) in 1 buckets, 1 steps>
        """
        _native.bucket_plan_wait(self._handle, timeout)

    def __repr__(self) -> str:
        return f"<{_native.bucket_plan_to_string(self._handle)}>"
