"""Tutti: strategies, collectives and distributed datasets for training, over one runtime.

    import numpy as np
    import tutti

    strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        total = tutti.Variable(np.zeros(()), aggregation="sum")

    def step(batch):
        total.assign_add(float(batch.sum()))
        return batch.sum()

    for batch in strategy.distribute_dataset(tutti.data.Dataset.range(10).batch(4)):
        print(int(strategy.reduce("sum", strategy.run(step, args=(batch,)))))

Arrays that callbacks and iterators hand out are read-only NumPy views on the runtime's memory; what
has `__dlpack__` goes in and out without a copy. Blocking calls give up the GIL and end by Ctrl-C;
those that wait take `timeout` in seconds. A `name` stands in messages and logs. Errors are
the classes of tutti.errors.
"""

import threading as _threading
import typing as _typing

from tutti import _load  # before anything else that needs _native
from tutti import _native
from tutti import _arguments, _scope, _specs, errors
from tutti._dtypes import bfloat16, numpy_bfloat16 as _numpy_bfloat16
from tutti._tensor import Tensor
from tutti._specs import TensorSpec
from tutti._composites import (IndexedSlices, RaggedTensor, RaggedTensorSpec, SparseTensor,
                               SparseTensorSpec, _Composite, _CompositeSpec)
from tutti._values import (Future, Mirrored as _Mirrored, Optional as _Optional,
                           PerReplica as _PerReplica)
from tutti._device import DeviceSpec, current_device, device
from tutti._runtime import Runtime, config, shutdown
from tutti._stream import Event, Stream
from tutti._variable import Variable, variable_of as _variable_of
from tutti._reduce_op import ReduceOp
from tutti import data
from tutti import debugging
from tutti import ragged
from tutti import distribute
from tutti._cluster import Cluster
from tutti._communicator import Communicator
from tutti._bucket_plan import BucketPlan
from tutti import io
from tutti import random
from tutti import strings
from tutti import train
from tutti.debugging import Assert, assert_equal, assert_greater, assert_less, assert_rank
from tutti.distribute._context import ReplicaContext as _ReplicaContext
from tutti.distribute._context import UpdateContext as _UpdateContext
from tutti.distribute._strategy import _strategy_of

__version__ = _native.api_version()

__all__ = [
    "Assert", "BucketPlan", "Cluster", "Communicator", "DeviceSpec", "Event", "Future",
    "IndexedSlices", "RaggedTensor", "RaggedTensorSpec", "ReduceOp", "Runtime", "SparseTensor",
    "SparseTensorSpec", "Stream", "Tensor", "TensorSpec", "Variable", "assert_equal",
    "assert_greater", "assert_less", "assert_rank", "bfloat16", "config", "current_device",
    "data", "debugging", "device", "distribute", "errors", "io", "ragged", "random", "shutdown",
    "strings", "train",
]

_native._install({
    "make_error": errors._make,
    "error_type": errors.Error,
    "scope": _scope.scope,
    "runtime": _scope.runtime,
    "replica_context": _ReplicaContext,
    "update_context": _UpdateContext,
    "cross_replica": _scope.CrossReplica,
    "strategy_of": _strategy_of,
    "per_replica": _PerReplica,
    "mirrored": _Mirrored,
    "tensor": Tensor,
    "variable": Variable,
    "dataset": data.Dataset,
    "variant": data.Variant,
    "optional": _Optional,
    "variable_of": _variable_of,
    "wrap_dataset": data.Dataset._of,
    "wrap_optional": _Optional,
    "composite": _Composite,
    "composite_spec": _CompositeSpec,
    "make_spec": _specs.make,
    "read_spec": _specs.read,
    "named_tuple_type": _specs.named_tuple_type,
    "named_tuple_name": _specs.named_tuple_name,
    "bfloat16": _numpy_bfloat16,
    "main_thread": _threading.main_thread().ident,
})

if not _typing.TYPE_CHECKING:
    def __getattr__(name):
        raise _arguments.missing("tutti", __all__, name)
