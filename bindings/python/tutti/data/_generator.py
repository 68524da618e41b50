"""What Dataset.from_generator is given, as the library takes it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tutti._specs import TensorSpec
from tutti._tensor import Tensor


def argument(value: Any) -> Any:
    """One of a generator's args as an element has it, and not to be changed by anybody."""
    if isinstance(value, tuple):
        return tuple(argument(part) for part in value)
    if isinstance(value, dict):
        return {key: argument(part) for key, part in value.items()}
    tensor = Tensor(value.encode() if isinstance(value, str) else value).copy()
    if not isinstance(tensor.dtype, np.dtype) and tensor.dtype is not bytes:
        return tensor  # of bfloat16, where NumPy has none
    array = tensor.numpy()
    if not isinstance(array, np.ndarray):
        return array
    array.flags.writeable = False
    return array if array.ndim else array[()]


def signature(types: Any, shapes: Any) -> Any:
    """The spec of an element from output_types and output_shapes; without shapes: of any."""
    if isinstance(types, dict):
        return {key: signature(dtype, None if shapes is None else shapes[key])
                for key, dtype in types.items()}
    if isinstance(types, (tuple, list)):
        parts = [signature(dtype, None if shapes is None else shapes[i])
                 for i, dtype in enumerate(types)]
        return tuple(parts)
    return TensorSpec(shapes, types)
