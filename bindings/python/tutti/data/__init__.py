"""Datasets: definitions of a sequence of elements, and what reads and writes them.

Elements are NumPy scalars and arrays (`bytes` and arrays of objects for byte strings) in nested
tuples, dicts and lists. Arrays that an iterator or a callback hands out are read-only views on the
runtime's memory. A list of numbers is one tensor; use a tuple for a structure.
"""

import typing as _typing

from tutti import _arguments
from tutti._composites import RaggedTensorSpec, SparseTensorSpec
from tutti._specs import (DatasetSpec, IteratorSpec, NoneTensorSpec, OptionalSpec, TensorSpec,
                          VariantSpec)
from tutti._values import Optional
from tutti.data._dataset import (AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset,
                                 Iterator, Variant)
from tutti.data._expression import Expr, expression
from tutti.data._files import FixedLengthRecordDataset, TextLineDataset, TFRecordDataset
from tutti.data._function import (FixedLenFeature, FixedLenSequenceFeature, Function,
                                  RaggedFeature, VarLenFeature, parse_example, register_function,
                                  registered_function, unregister_function)
from tutti.data._options import AutoShardPolicy, Options
from tutti.data._parsers import decode_csv, parse_sequence_example
from tutti.data._records import ExampleWriter, TFRecordWriter
from tutti.data import experimental

__all__ = [
    "AUTOTUNE", "AutoShardPolicy", "Dataset", "DatasetSpec", "ExampleWriter", "Expr",
    "FixedLenFeature", "FixedLenSequenceFeature", "FixedLengthRecordDataset", "Function",
    "INFINITE_CARDINALITY", "Iterator", "IteratorSpec", "NoneTensorSpec", "Optional",
    "OptionalSpec", "Options", "RaggedFeature", "RaggedTensorSpec", "SparseTensorSpec",
    "TFRecordDataset", "TFRecordWriter", "TensorSpec", "TextLineDataset", "UNKNOWN_CARDINALITY",
    "VarLenFeature", "Variant", "VariantSpec",
    "decode_csv", "experimental", "expression", "parse_example", "parse_sequence_example",
    "register_function", "registered_function", "unregister_function",
]

if not _typing.TYPE_CHECKING:
    def __getattr__(name):
        raise _arguments.missing("tutti.data", __all__, name)
