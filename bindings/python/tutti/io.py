"""Tensors as byte strings: what the reference has under this name, as far as record files need it.

    texts = dataset.map(tutti.io.serialize_tensor)
    dataset = texts.map(lambda x: tutti.io.parse_tensor(x, numpy.int64))
"""

from __future__ import annotations

from typing import Any, Dict, Optional

from tutti import _dtypes, _native
from tutti.strings import _plain

__all__ = ["make_example", "parse_tensor", "parse_value", "serialize_tensor", "serialize_value"]


def serialize_tensor(tensor: Any, name: Optional[str] = None) -> bytes:
    """A tensor, of any shape and dtype, as bytes: the message TensorProto, byte for byte what
    TensorFlow's function of this name gives.

    tensor: a number, an array, a Tensor. name: taken for the reference's callers. Threads: any.
    """
    return bytes(_plain(_native.tensor_serialize(tensor)))


def parse_tensor(serialized: Any, out_type: Any, name: Optional[str] = None) -> Any:
    """The tensor that serialize_tensor, or TensorFlow's, made bytes of: an array, a number where it
    has no shape, bytes for byte strings.

    serialized: these bytes. out_type: its dtype; ValueError where it is another one, and for bytes
    that are no tensor. name: taken for the reference's callers. Threads: any.
    """
    return _plain(_native.tensor_parse(serialized, _dtypes.number_of(out_type)))


def make_example(features: Dict[str, Any]) -> bytes:
    """A serialised tf.train.Example, which tutti.data.parse_example reads and every other program
    that knows the format.

    features: an array, a number, a text or bytes, or a list of these, for each name. Integers and
    booleans become an int64_list, floats a float_list (of float32), byte strings and texts a
    bytes_list, with the elements in row-major order: shapes are the reader's to know. Equal
    features give equal bytes. InvalidArgumentError naming the feature for anything else. Threads:
    any.
    """
    return _native.example_create(features)


def serialize_value(value: Any) -> bytes:
    """A structure of arrays, numbers and texts as bytes, which every language of the library reads,
    and whoever has the definitions of its messages (ValueDef).

    value: dicts, lists, tuples of arrays, numbers, texts, datasets (their definitions).
    FailedPreconditionError for objects that live in this process only. Threads: any.
    """
    return _native.value_serialize(value)


def parse_value(serialized: bytes) -> Any:
    """The structure in `serialized`, which serialize_value, or its like in another language, made
    of it; InvalidArgumentError for bytes that are none. Threads: any."""
    return _native.value_parse(serialized)
