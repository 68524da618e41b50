"""What the reference has under this name."""

from tutti.data._options import AutoShardPolicy, DistributeOptions

# shard's "the workers decide", for both numbers.
SHARD_HINT = -1

__all__ = ["AutoShardPolicy", "DistributeOptions", "SHARD_HINT"]
