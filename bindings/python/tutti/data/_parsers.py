"""Native functions over records: lines of comma-separated values, and tf.train.SequenceExample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional, Sequence, Tuple

import numpy as np

from tutti import _dtypes, _native
from tutti._tensor import Tensor
from tutti.data._function import FIXED, Function, described


def parse_sequence_example(context_features: Optional[Mapping[str, Any]] = None,
                           sequence_features: Optional[Mapping[str, Any]] = None) -> Function:
    """The native function from a serialised tf.train.SequenceExample (bytes, a scalar) to a pair: a
    dict of its context features, and a dict of its feature lists, each with the number of its steps
    in front.

    context_features, sequence_features: {name: (shape, dtype)} or {name: FixedLenFeature(...)}, as
    in parse_example; the shape is of one step. A feature list with a default_value takes it for
    steps without values, and is empty where it is missing; another one is required. Those of any
    length: VarLenFeature is a SparseTensor, of a list [steps, most values]; RaggedFeature is an
    array in the context, and of a list a RaggedTensor, a row a step; a list of these may be
    missing. A FixedLenSequenceFeature is one of the context alone (ValueError). Malformed and
    missing features are an InvalidArgumentError at iteration, which names feature and step.

    >>> def feature(kind, values):  # what protobuf writes for a few small numbers
    ...     numbers = bytes([10, len(values), *values])
    ...     return bytes([kind << 3 | 2, len(numbers)]) + numbers
    >>> steps = b"".join(bytes([10, 5]) + feature(3, [n]) for n in (7, 8))
    >>> entry = b"\\n\\x01a\\x12" + bytes([len(steps)]) + steps
    >>> lists = b"\\n" + bytes([len(entry)]) + entry
    >>> record = b"\\x12" + bytes([len(lists)]) + lists
    >>> parse = tutti.data.parse_sequence_example(sequence_features={"a": ((), np.int64)})
    >>> (context, sequences), = tutti.data.Dataset.from_tensors(record).map(parse)
    >>> sequences["a"].tolist()
    [7, 8]
    """
    context = described("parse_sequence_example: context_features", context_features or {})
    sequences = described("parse_sequence_example: sequence_features", sequence_features or {})
    return Function._of(
        _native.function_parse_sequence_example(context + sequences, len(context)))


def _column_of(default: Any) -> Tuple[int, Any]:
    """dtype and default of a column; a dtype, or an array without elements: it is required."""
    if isinstance(default, Tensor):
        default = default.numpy()
    is_dtype = isinstance(default, (type, np.dtype))
    if isinstance(default, np.generic) and not isinstance(default, (bytes, str)):
        default = np.asarray(default)  # float64 is a float of Python's, too
    if not is_dtype and not isinstance(default, np.ndarray):
        # A number of the program's own is what it is elsewhere in this interface's reference.
        given = list(default) if isinstance(default, (list, tuple)) else [default]
        if all(isinstance(x, (bytes, str)) for x in given) and given:
            default = np.array([x.encode() if isinstance(x, str) else x for x in given], object)
        elif all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in given) and given:
            whole = all(isinstance(x, int) for x in given)
            default = np.array(given, np.int32 if whole else np.float32)
        else:
            default = np.array(given)
    if is_dtype:
        return _dtypes.number_of(default), None
    if default.size > 1 or default.ndim > 1:
        raise ValueError("decode_csv: a default is a scalar, a list of one, or without elements "
                         f"where the field is required, not of the shape {list(default.shape)}")
    wanted = bytes if default.dtype == object else default.dtype
    return _dtypes.number_of(wanted), None if default.size == 0 else default.reshape(())


def decode_csv(record_defaults: Sequence[Any], field_delim: str = ",", use_quote_delim: bool = True,
               na_value: str = "", select_cols: Optional[Sequence[int]] = None,
               names: Optional[Sequence[str]] = None) -> Function:
    """The native function from records of comma-separated values (bytes of any shape, a line each)
    to a tuple of columns, each of that shape.

    record_defaults: of each column a default, which says its dtype: a number, a string, an array of
    one element, or a list of one; a dtype, or an array without elements, makes the field required.
    Python's numbers are int32 and float32. field_delim: one character. use_quote_delim: fields may
    stand in quotes, as in RFC 4180. na_value: what stands for a missing value besides nothing.
    select_cols: which fields of a record the columns are, growing, and what stands behind the last
    one is not looked at; None: a record has these alone, and an empty one has none.
    names: of the columns, for messages. An InvalidArgumentError at iteration names record and
    field; spaces around numbers do not count. Function of map, and of Expr.call.

    >>> lines = tutti.data.Dataset.from_tensor_slices([b'1,"a, b",0.5', b'2,,'])
    >>> decode = tutti.data.decode_csv([np.int64, "?", 1.5])
    >>> [(int(n), text, float(x)) for n, text, x in lines.map(decode)]
    [(1, b'a, b', 0.5), (2, b'?', 1.5)]
    """
    columns = [_column_of(default) for default in record_defaults]
    if names is not None and len(names) != len(columns):
        raise ValueError(f"decode_csv: {len(names)} names for {len(columns)} columns")
    found = [("" if names is None else names[i], number, (), default, FIXED)
             for i, (number, default) in enumerate(columns)]
    made = Function._of(_native.function_decode_csv(
        found, list(select_cols or ()), field_delim, na_value, use_quote_delim))
    made._columns = len(columns)
    return made
