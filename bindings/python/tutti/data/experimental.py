"""What the reference has under this name."""

from typing import Any, Callable, Optional, Sequence, Union

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
           "assert_cardinality", "bucket_by_sequence_length", "choose_from_datasets",
           "dense_to_sparse_batch", "from_variant", "group_by_window", "latency_stats",
           "sample_from_datasets", "shuffle_and_repeat", "snapshot", "to_variant", "unbatch"]


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


def assert_cardinality(expected_cardinality: int) -> Callable[[Dataset], Dataset]:
    """Dataset.assert_cardinality, with its expected_cardinality, as a function from a dataset to a
    dataset, for Dataset.apply."""
    return lambda dataset: dataset.assert_cardinality(expected_cardinality)


def bucket_by_sequence_length(
        element_length_func: Union[Callable[..., Any], Function], bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int], padded_shapes: Any = None, padding_values: Any = None,
        pad_to_bucket_boundary: bool = False, no_padding: bool = False,
        drop_remainder: bool = False) -> Callable[[Dataset], Dataset]:
    """Dataset.bucket_by_sequence_length as a function from a dataset to a dataset, for
    Dataset.apply.

    element_length_func, bucket_boundaries, bucket_batch_sizes, padded_shapes, padding_values,
    pad_to_bucket_boundary, no_padding, drop_remainder: as there.
    """
    return lambda dataset: dataset.bucket_by_sequence_length(
        element_length_func, bucket_boundaries, bucket_batch_sizes, padded_shapes, padding_values,
        pad_to_bucket_boundary, no_padding, drop_remainder)


def choose_from_datasets(datasets: Sequence[Dataset], choice_dataset: Dataset,
                         stop_on_empty_dataset: bool = False) -> Dataset:
    """Dataset.choose_from_datasets, which by default passes over choices of datasets that have
    ended.

    datasets, choice_dataset, stop_on_empty_dataset: as there.
    """
    return Dataset.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)


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


def sample_from_datasets(datasets: Sequence[Dataset], weights: Any = None,
                         seed: Optional[int] = None,
                         stop_on_empty_dataset: bool = False) -> Dataset:
    """Dataset.sample_from_datasets.

    datasets, weights, seed, stop_on_empty_dataset: as there.
    """
    return Dataset.sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)


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
