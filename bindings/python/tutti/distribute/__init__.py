"""Strategies: the same step on several replicas, with variables and reductions in lockstep.

Contexts. Outside everything there is the default strategy: one replica, in replica context. Inside
`with strategy.scope():` is cross-replica context; inside a function that `strategy.run` runs is
replica context; inside a merge function is cross-replica context again. Exactly one of
`in_cross_replica_context()` and `get_replica_context() is not None` holds. The state belongs to the
thread of control (contextvars) and reaches the replicas' threads.
"""

import typing as _typing

from tutti import _arguments
from tutti._reduce_op import ReduceOp
from tutti._specs import PerReplicaSpec
from tutti._values import DistributedValues, Mirrored, PerReplica
from tutti._variable import (DistributedVariable, MirroredVariable, SyncOnReadVariable,
                             VariableAggregation, VariableSynchronization)
from tutti.distribute import cluster_resolver
from tutti.distribute._context import (ReplicaContext, UpdateContext, experimental_set_strategy,
                                       get_replica_context, get_strategy, get_update_replica_id,
                                       has_strategy, in_cross_replica_context)
from tutti.distribute._cross_device_ops import (AllReduce, CrossDeviceOps,
                                                HierarchicalCopyAllReduce, NcclAllReduce,
                                                ReductionToOneDevice)
from tutti.distribute._extended import StrategyExtended
from tutti.distribute._input import (DistributedDataset, DistributedIterator, InputContext,
                                     InputOptions, InputReplicationMode, ValueContext)
from tutti.distribute._run_options import RunOptions
from tutti.distribute._strategy import (CentralStorageStrategy, MirroredStrategy,
                                        MultiWorkerMirroredStrategy, OneDeviceStrategy, Strategy,
                                        _strategy_of)
from tutti.distribute import experimental

__all__ = [
    "AllReduce", "CentralStorageStrategy", "CrossDeviceOps", "DistributedDataset",
    "DistributedIterator", "DistributedValues", "DistributedVariable", "HierarchicalCopyAllReduce",
    "InputContext", "InputOptions", "InputReplicationMode", "Mirrored", "MirroredStrategy",
    "MirroredVariable", "MultiWorkerMirroredStrategy", "NcclAllReduce", "OneDeviceStrategy",
    "PerReplica", "PerReplicaSpec", "ReduceOp", "ReductionToOneDevice", "ReplicaContext",
    "RunOptions", "Strategy", "StrategyExtended", "SyncOnReadVariable", "UpdateContext",
    "ValueContext", "VariableAggregation", "VariableSynchronization", "cluster_resolver",
    "experimental", "experimental_set_strategy", "get_replica_context", "get_strategy",
    "get_update_replica_id", "has_strategy", "in_cross_replica_context",
]

if not _typing.TYPE_CHECKING:
    def __getattr__(name):
        raise _arguments.missing("tutti.distribute", __all__, name)
