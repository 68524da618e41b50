"""What a user's program with annotations looks like to a type checker: mypy --strict accepts it,
and each expression has the type that stands beside it. It also runs."""

from __future__ import annotations

import asyncio
import pathlib
import tempfile
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple, TypeVar, Union

import numpy as np

import tutti
from tutti import data, distribute, errors, train

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import assert_type
else:
    T = TypeVar("T")

    def assert_type(value: T, kind: object) -> T:
        return value


def devices() -> None:
    spec = tutti.DeviceSpec.from_string("/job:worker/device:CPU:0")
    assert_type(spec, tutti.DeviceSpec)
    assert_type(spec.job, Optional[str])
    assert_type(spec.device_index, Optional[int])
    assert_type(tutti.config.list_devices("CPU"), List[str])
    assert_type(tutti.config.get("log_level"), str)
    assert_type(tutti.config.describe(), Dict[str, Dict[str, str]])
    with tutti.device("CPU:0") as inside:
        assert_type(inside, Optional[tutti.DeviceSpec])


def tensors() -> None:
    tensor = tutti.Tensor.zeros([2, 3], np.float32)
    assert_type(tensor, tutti.Tensor)
    assert_type(tensor.shape, Tuple[int, ...])
    assert_type(tensor.slice(0, 1).reshape(3).nbytes, int)
    assert_type(tensor.is_read_only, bool)
    whole: NDArray[Any] = tensor.numpy()
    assert whole.shape == (2, 3)
    assert_type(tutti.Tensor.from_bits([1, 2]).bits().size, int)


def datasets(folder: pathlib.Path) -> None:
    with data.TFRecordWriter(folder / "a.tfrecord", compression_type="GZIP") as writer:
        assert_type(writer, data.TFRecordWriter)
        writer.write(b"record")
    records = data.TFRecordDataset([folder / "a.tfrecord"], compression_type="GZIP")
    assert_type(records.take(1), data.Dataset)
    assert list(records) == [b"record"]
    (folder / "a.txt").write_bytes(b"line\n")
    lines = data.TextLineDataset(folder / "a.txt", num_parallel_reads=data.AUTOTUNE)
    assert_type(lines.take(1), data.Dataset)
    assert list(lines) == [b"line"]

    def square(x: np.int64) -> np.int64:
        return x * x

    squares = data.Dataset.range(10).map(square, num_parallel_calls=data.AUTOTUNE).batch(4)
    assert_type(squares, data.Dataset)
    assert_type(squares.cardinality(), int)
    assert_type(squares.explain(), str)
    options = data.Options()
    options.experimental_distribute.auto_shard_policy = data.AutoShardPolicy.DATA
    with iter(squares.with_options(options)) as iterator:
        assert_type(iterator, data.Iterator)
        assert_type(iterator.get_next_as_optional().has_value(), bool)
        assert_type(iterator.save(), bytes)
        assert_type(data.IteratorSpec.from_value(iterator), data.IteratorSpec)
        assert_type(data.IteratorSpec(None).is_compatible_with(iterator), bool)
        batch: NDArray[np.int64] = next(iterator)
        assert batch.tolist() == [16, 25, 36, 49]
    variant = data.experimental.to_variant(squares)
    assert_type(variant, data.Variant)
    assert_type(data.experimental.from_variant(variant, squares.element_spec), data.Dataset)
    assert_type(data.DatasetSpec(None, (2,)).dataset_shape, Optional[Tuple[Optional[int], ...]])
    signature = {"x": tutti.TensorSpec((None,), np.float32)}
    assert_type(signature["x"].shape, Optional[Tuple[Optional[int], ...]])
    generated = data.Dataset.from_generator(lambda: iter([{"x": [1.0]}]),
                                            output_signature=signature)
    assert_type(generated.apply(lambda d: d.repeat(2)), data.Dataset)


def training(folder: pathlib.Path) -> None:
    strategy = distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope() as inside:
        assert_type(inside, distribute.Strategy)
        weights = tutti.Variable(np.zeros(3), aggregation="sum")
    assert_type(weights.shape, Any)
    assert_type(weights.distribute_strategy, distribute.Strategy)
    assert_type(weights.aggregation, distribute.VariableAggregation)
    assert weights.data().shape == (3,)
    assert_type(weights.device, str)
    assert_type(weights.scatter_add(tutti.IndexedSlices(np.ones(1), [2])), tutti.Variable)
    assert isinstance(weights, distribute.DistributedValues)
    assert float((2 * weights + 1)[0]) == 1.0

    def step(batch: NDArray[np.int64]) -> float:
        replica = distribute.get_replica_context()
        assert_type(replica.num_replicas_in_sync, Union[int, Any])
        weights.assign_add(np.ones(3))
        total: float = replica.all_reduce(tutti.ReduceOp.SUM, float(batch.sum()))
        return total

    batches = strategy.distribute_dataset(data.Dataset.range(8).batch(4))
    assert_type(batches, distribute.DistributedDataset)
    steps = iter(batches)
    assert_type(steps, distribute.DistributedIterator)
    for batch in steps:
        results = strategy.run(step, args=(batch,), timeout=60)
        assert_type(strategy.local_results(results), Tuple[Any, ...])
        loss: float = strategy.reduce("mean", results)
        assert loss in (6.0, 22.0)

    checkpoint = train.Checkpoint(weights=weights)
    manager = train.CheckpointManager(checkpoint, folder / "run", max_to_keep=2)
    assert_type(manager.save(), str)
    assert_type(manager.latest_checkpoint, Optional[str])
    assert_type(checkpoint.restore(folder / "run" / "ckpt-1").assert_consumed(), train.LoadStatus)


def communicators() -> None:
    ranks = tutti.Communicator.create_local(1, name="alone")
    assert_type(ranks, List[tutti.Communicator])
    with ranks[0] as rank:
        assert_type(rank.transport, str)
        rank.all_reduce(np.ones(3), op="max", timeout=10.0)
        assert_type(rank.all_reduce_many([np.ones(3), [1.5]], tutti.ReduceOp.BAND
                                         if rank.size > 1 else "sum"), List[Any])
        future = rank.all_gather_async([1, 2])
        assert_type(future, tutti.Future)
        assert_type(rank.split(None), Optional[tutti.Communicator])
        gradients = [np.ones(3), np.ones(2)]
        own = tutti.BucketPlan(rank, gradients, own_tensors=True)
        assert_type(own.tensors, List[tutti.Tensor])
        plan = tutti.BucketPlan(rank, gradients, bytes_per_bucket=1 << 20)
        for i, _ in enumerate(gradients):
            plan.ready(i)
        plan.wait(timeout=10.0)
        assert_type(plan.num_buckets, int)

        async def later() -> int:
            joined = await future
            return len(joined)

        assert asyncio.run(later()) == 2


def failures() -> None:
    try:
        tutti.DeviceSpec.from_string("/nonsense")
    except errors.InvalidArgumentError as error:
        assert_type(error.code, int)
        assert_type(error.details, Dict[str, Any])
        assert_type(error.causes, Tuple[BaseException, ...])
        as_builtin: ValueError = error
        assert as_builtin.args
    future = tutti.Future()
    future.add_done_callback(lambda done: print(assert_type(done, tutti.Future)))
    future.set_result(3)
    assert_type(future.done(), bool)
    future.wait(timeout=60)


def main() -> None:
    devices()
    tensors()
    communicators()
    failures()
    with tempfile.TemporaryDirectory() as folder:
        datasets(pathlib.Path(folder))
        training(pathlib.Path(folder))


if __name__ == "__main__":
    main()
