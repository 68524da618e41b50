"""What the reference has under this name."""

from typing import Any, Callable, Optional, Union

from tutti.data._dataset import Dataset, _Path
from tutti.data._function import Function
from tutti.data._options import (AutoShardPolicy, DistributeOptions, ExternalStatePolicy,
                                 MapVectorizationOptions, OptimizationOptions, ThreadingOptions)
from tutti.data._records import TFRecordWriter

# shard's "the workers decide", for both numbers.
SHARD_HINT = -1

__all__ = ["AutoShardPolicy", "DistributeOptions", "ExternalStatePolicy",
           "MapVectorizationOptions", "OptimizationOptions", "SHARD_HINT", "TFRecordWriter",
           "ThreadingOptions", "snapshot", "unbatch"]


def snapshot(path: _Path, compression: Optional[str] = "AUTO",
             reader_func: Optional[Union[Callable[[Dataset], Dataset], Function]] = None,
             shard_func: Optional[Union[Callable[..., Any], Function]] = None
             ) -> Callable[[Dataset], Dataset]:
    """Dataset.snapshot, with its path, compression, reader_func and shard_func, as a function from
    a dataset to a dataset, for Dataset.apply."""
    return lambda dataset: dataset.snapshot(path, compression, reader_func, shard_func)


def unbatch() -> Callable[[Dataset], Dataset]:
    """Dataset.unbatch as a function from a dataset to a dataset, for Dataset.apply."""
    return lambda dataset: dataset.unbatch()
