"""What the reference has under this name."""

from typing import Callable

from tutti.data._dataset import Dataset, SqlDataset
from tutti.data._options import (AutoShardPolicy, DistributeOptions, ExternalStatePolicy,
                                 MapVectorizationOptions, OptimizationOptions, ThreadingOptions)
from tutti.data._records import TFRecordWriter

# shard's "the workers decide", for both numbers.
SHARD_HINT = -1

__all__ = ["AutoShardPolicy", "DistributeOptions", "ExternalStatePolicy",
           "MapVectorizationOptions", "OptimizationOptions", "SHARD_HINT", "SqlDataset",
           "TFRecordWriter", "ThreadingOptions", "unbatch"]


def unbatch() -> Callable[[Dataset], Dataset]:
    """Dataset.unbatch as a function from a dataset to a dataset, for Dataset.apply."""
    return lambda dataset: dataset.unbatch()
