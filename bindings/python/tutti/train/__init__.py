"""What the processes of a job are called and where they listen; and checkpoints, by which a job
goes on where it was."""

from tutti._cluster_spec import ClusterSpec
from tutti.train._checkpoint import Checkpoint, CheckpointManager, LoadStatus, latest_checkpoint

__all__ = ["Checkpoint", "CheckpointManager", "ClusterSpec", "LoadStatus", "latest_checkpoint"]
