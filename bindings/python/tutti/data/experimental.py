"""What the reference has under this name."""

from typing import Any, Callable, Optional, Union

from tutti import _arguments, _native, errors
from tutti.data._dataset import Dataset, Variant, _Path
from tutti.data._files import SqlDataset
from tutti.data._function import Function
from tutti.data._options import (AutoShardPolicy, DistributeOptions, ExternalStatePolicy,
                                 MapVectorizationOptions, OptimizationOptions, StatsOptions,
                                 ThreadingOptions)
from tutti.data._records import TFRecordWriter
from tutti.data._stats import Histogram, StatsAggregator

# shard's "the workers decide", for both numbers.
SHARD_HINT = -1

__all__ = ["AutoShardPolicy", "DistributeOptions", "ExternalStatePolicy", "Histogram",
           "MapVectorizationOptions", "OptimizationOptions", "SHARD_HINT", "SqlDataset",
           "StatsAggregator", "StatsOptions", "TFRecordWriter", "ThreadingOptions",
           "dense_to_sparse_batch", "from_variant", "group_by_window", "latency_stats",
           "shuffle_and_repeat", "snapshot", "to_variant", "unbatch"]


def from_variant(variant: Any, structure: Any, *, timeout: Optional[float] = None) -> Dataset:
    """The dataset that `variant` is: a tutti.data.Variant, or the dataset that one has become in an
    element.

    structure: the spec of an element. InvalidArgumentError that names both, unless the dataset's
    own is compatible with it; a dataset that does not say what its elements are computes one here,
    waiting at most `timeout` seconds (DeadlineExceededError).
    """
    if not isinstance(variant, (Variant, Dataset)):
        raise errors.InvalidTypeError(
            "from_variant: a tutti.data.Variant is needed, not an object of type "
            f"{type(variant).__name__}; make one with to_variant")
    return Dataset._of(_native.dataset_from_variant(variant, structure, timeout))


def dense_to_sparse_batch(batch_size: int, row_shape: Any) -> Callable[[Dataset], Dataset]:
    """Dataset.dense_to_sparse_batch, with its batch_size and row_shape, as a function from a
    dataset to a dataset, for Dataset.apply."""
    return lambda dataset: dataset.dense_to_sparse_batch(batch_size, row_shape)


def group_by_window(key_func: Union[Callable[..., Any], Function],
                    reduce_func: Union[Callable[[Any, Dataset], Dataset], Function],
                    window_size: Optional[int] = None,
                    window_size_func: Union[Callable[[Any], int], Function, None] = None
                    ) -> Callable[[Dataset], Dataset]:
    """Dataset.group_by_window as a function from a dataset to a dataset, for Dataset.apply.

    key_func, reduce_func, window_size, window_size_func: as there; exactly one of the last two is
    given.
    """
    return lambda dataset: dataset.group_by_window(key_func, reduce_func, window_size,
                                                   window_size_func)


def latency_stats(tag: str) -> Callable[[Dataset], Dataset]:
    """Dataset.latency_stats, with its tag, as a function from a dataset to a dataset, for
    Dataset.apply."""
    return lambda dataset: dataset.latency_stats(tag)


def shuffle_and_repeat(buffer_size: int, count: Optional[int] = None,
                       seed: Optional[int] = None) -> Callable[[Dataset], Dataset]:
    """Dataset.shuffle_and_repeat as a function from a dataset to a dataset, for Dataset.apply.

    buffer_size, count (None or -1: for ever), seed: as there.
    """
    return lambda dataset: dataset.shuffle_and_repeat(buffer_size, count, seed)


def snapshot(path: _Path, compression: Optional[str] = "AUTO",
             reader_func: Optional[Union[Callable[[Dataset], Dataset], Function]] = None,
             shard_func: Optional[Union[Callable[..., Any], Function]] = None
             ) -> Callable[[Dataset], Dataset]:
    """Dataset.snapshot, with its path, compression, reader_func and shard_func, as a function from
    a dataset to a dataset, for Dataset.apply."""
    return lambda dataset: dataset.snapshot(path, compression, reader_func, shard_func)


def to_variant(dataset: Dataset) -> Variant:
    """`dataset` as a scalar, a tutti.data.Variant; from_variant gives it back."""
    variant = Variant.__new__(Variant)
    variant._handle = _arguments.handle_of("to_variant: dataset", dataset, Dataset)
    return variant


def unbatch() -> Callable[[Dataset], Dataset]:
    """Dataset.unbatch as a function from a dataset to a dataset, for Dataset.apply."""
    return lambda dataset: dataset.unbatch()
