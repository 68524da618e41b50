"""Checkpoints, by which a job goes on where it was."""

from tutti.train._checkpoint import Checkpoint, CheckpointManager, LoadStatus, latest_checkpoint

__all__ = ["Checkpoint", "CheckpointManager", "LoadStatus", "latest_checkpoint"]
