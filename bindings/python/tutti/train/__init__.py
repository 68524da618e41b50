"""What the processes of a job are called and where they listen; and checkpoints, by which a job
goes on where it was."""

from tutti._cluster_spec import ClusterDef, ClusterSpec, JobDef
from tutti.train._checkpoint import Checkpoint, CheckpointManager, LoadStatus, latest_checkpoint

__all__ = ["Checkpoint", "CheckpointManager", "ClusterDef", "ClusterSpec", "JobDef", "LoadStatus",
           "latest_checkpoint"]
