"""The two libraries behind one interface: tf.data, and tutti.data under the same names. A step of a
pipeline is written once and applied to a dataset of each."""

import numpy as np
import tensorflow as tf
import tutti
from tutti.data import Expr

from texts import Kind


def flattened(element):
    """The leaves of an element in the order in which both libraries count them."""
    if isinstance(element, dict):
        return [leaf for key in sorted(element) for leaf in flattened(element[key])]
    if isinstance(element, (tuple, list)):
        return [leaf for part in element for leaf in flattened(part)]
    return [element]


def _each(function, x):
    """Of byte strings, each for itself."""
    if isinstance(x, np.ndarray):
        made = [function(item) for item in x.ravel()]
        return np.array(made).reshape(x.shape) if made else np.zeros(x.shape, np.int32)
    return function(x)


class TensorFlow:
    """tf.data, called as its users do; its functions are traced by it, without autograph, which
    only costs time here."""

    name = "tf.data"
    data = tf.data
    Dataset = tf.data.Dataset
    TFRecordDataset = tf.data.TFRecordDataset
    TextLineDataset = tf.data.TextLineDataset
    FixedLengthRecordDataset = tf.data.FixedLengthRecordDataset

    def __init__(self):
        self.options = tf.data.Options()
        self.options.autotune.enabled = False
        self.options.experimental_optimization.apply_default_optimizations = False
        self.options.threading.private_threadpool_size = 2

    def iterator(self, dataset):
        return iter(dataset.with_options(self.options))

    def tensors(self, arrays):
        """A structure of arrays as what from_tensor_slices takes."""
        return arrays

    def function(self, body, native=None):
        return {"map_func": tf.autograph.experimental.do_not_convert(body)}

    def called(self, body, native=None):
        return tf.autograph.experimental.do_not_convert(body)

    def option(self, native):
        return {}

    def spec(self, shape, dtype):
        return tf.TensorSpec(shape, tf.string if dtype is bytes else dtype)

    def cardinality(self, dataset):
        return int(dataset.cardinality().numpy())

    # ---- what functions are made of

    def constant(self, x, number):
        return tf.constant(number, x.dtype)

    def cast(self, x, dtype):
        return tf.cast(x, dtype)

    def floor(self, x):
        return tf.floor(x)

    def maximum(self, x, number):
        return tf.maximum(x, self.constant(x, number))

    def minimum(self, x, number):
        return tf.minimum(x, self.constant(x, number))

    def length(self, x):
        return tf.strings.length(x)

    def join(self, x, text):
        return tf.strings.join([x, text])

    def as_string(self, x):
        return tf.strings.as_string(x)

    def to_number(self, x, dtype):
        return tf.strings.to_number(x, dtype)

    def decode_raw(self, x, dtype):
        return tf.io.decode_raw(x, dtype)

    def stack(self, x):
        return tf.stack([x, x])

    def concatenate(self, x):
        return tf.concat([x, x], 0)

    def expand(self, x):
        return tf.expand_dims(x, 0)

    def flatten(self, x):
        return tf.reshape(x, [-1])

    def sum(self, x):
        return tf.reduce_sum(x)

    def largest(self, x):
        return tf.reduce_max(x)

    def every(self, x):
        return tf.reduce_all(x)

    def some(self, x):
        return tf.reduce_any(x)

    def negate(self, x):
        return tf.logical_not(x)

    def where(self, condition, x, y):
        return tf.where(condition, x, y)

    def grown(self, x, most):
        """A vector of x % most elements x."""
        return tf.fill([tf.cast(x % self.constant(x, most), tf.int32)], x)

    def rows(self, x):
        """How many rows an array has."""
        return tf.shape(x)[0]

    def fail_at(self, x, number):
        with tf.control_dependencies([tf.debugging.assert_none_equal(x, self.constant(x, number))]):
            return tf.identity(x)

    def one(self, dtype):
        return tf.constant(1, dtype)

    def add(self, x, y):
        return x + y

    def plain(self, element):
        """What an element holds, in NumPy's terms."""
        if isinstance(element, dict):
            return {key: self.plain(part) for key, part in element.items()}
        if isinstance(element, tuple):
            return tuple(self.plain(part) for part in element)
        if isinstance(element, tf.data.Dataset):
            return [self.plain(row) for row in element]
        if isinstance(element, tf.RaggedTensor):
            return (Kind("ragged"), self.plain(element.flat_values),
                    tuple(np.asarray(s) for s in element.nested_row_splits))
        if isinstance(element, tf.sparse.SparseTensor):
            return (Kind("sparse"), np.asarray(element.indices), self.plain(element.values),
                    np.asarray(element.dense_shape))
        value = element.numpy()
        if isinstance(value, bytes):
            return np.array(value, object)
        return np.asarray(value)

    def plain_spec(self, spec):
        if isinstance(spec, dict):
            return {key: self.plain_spec(part) for key, part in spec.items()}
        if isinstance(spec, tuple):
            return tuple(self.plain_spec(part) for part in spec)
        if isinstance(spec, tf.data.DatasetSpec):
            return [self.plain_spec(spec.element_spec)]
        shape = None if spec.shape.rank is None else tuple(spec.shape.as_list())
        dtype = "bytes" if spec.dtype == tf.string else spec.dtype.name
        if isinstance(spec, tf.RaggedTensorSpec):
            return (Kind("ragged"), dtype, shape, spec.row_splits_dtype.name)
        if isinstance(spec, tf.SparseTensorSpec):
            return (Kind("sparse"), dtype, shape)
        return (Kind("tensor"), dtype, shape)


class Tutti:
    """tutti.data. `native` is what functions are to be: None is the library's choice."""

    name = "tutti.data"
    data = tutti.data
    Dataset = tutti.data.Dataset
    TFRecordDataset = tutti.data.TFRecordDataset
    TextLineDataset = tutti.data.TextLineDataset
    FixedLengthRecordDataset = tutti.data.FixedLengthRecordDataset

    def iterator(self, dataset):
        return iter(dataset)

    def tensors(self, arrays):
        return arrays

    def called(self, body, native=None):
        return body

    def option(self, native):
        return {"native": native}

    def spec(self, shape, dtype):
        return tutti.data.TensorSpec(shape, dtype)

    def cardinality(self, dataset):
        return dataset.cardinality()

    # ---- what functions are made of: of placeholders, or of NumPy's arrays and numbers

    def constant(self, x, number):
        return number

    def cast(self, x, dtype):
        return x.astype(dtype)

    def floor(self, x):
        return np.floor(x)

    def maximum(self, x, number):
        return np.maximum(x, number)

    def minimum(self, x, number):
        return np.minimum(x, number)

    def length(self, x):
        if isinstance(x, Expr):
            return x.string_length()
        return _each(lambda text: np.int32(len(text)), x)

    def join(self, x, text):
        if isinstance(x, Expr):
            return x.join(text)
        return tutti.strings.join([x, text])

    def as_string(self, x):
        return x.as_string() if isinstance(x, Expr) else tutti.strings.as_string(x)

    def to_number(self, x, dtype):
        if isinstance(x, Expr):
            return x.to_number(dtype)
        try:
            return _each(np.dtype(dtype).type, x).astype(dtype)
        except ValueError as error:
            raise tutti.errors.InvalidArgumentError(str(error)) from None

    def decode_raw(self, x, dtype):
        if isinstance(x, Expr):
            return x.decode_raw(dtype)
        if len(x) % np.dtype(dtype).itemsize:
            raise tutti.errors.InvalidArgumentError("decode_raw: no whole number of elements")
        return np.frombuffer(x, dtype)

    def stack(self, x):
        return np.stack([x, x])

    def concatenate(self, x):
        return np.concatenate([x, x], 0)

    def expand(self, x):
        return np.expand_dims(x, 0)

    def flatten(self, x):
        return np.reshape(x, -1)

    def sum(self, x):
        return np.sum(x).astype(x.dtype)

    def largest(self, x):
        return np.max(x)

    def every(self, x):
        return np.all(x)

    def some(self, x):
        return np.any(x)

    def negate(self, x):
        return np.logical_not(x)

    def where(self, condition, x, y):
        if isinstance(condition, Expr):
            return np.where(condition, x, y)
        made = np.where(condition, x, y)
        return made[()] if made.ndim == 0 else made

    def grown(self, x, most):
        return np.full(int(x % most), x)

    def rows(self, x):
        return np.int32(len(x))

    def fail_at(self, x, number):
        if isinstance(x, Expr):
            return x + 0 // (x - number)
        if x == number:
            raise tutti.errors.InvalidArgumentError(f"{number} is where it fails")
        return x

    def one(self, dtype):
        return np.dtype(dtype).type(1)

    def add(self, x, y):
        return x + y

    def plain(self, element):
        if isinstance(element, dict):
            return {key: self.plain(part) for key, part in element.items()}
        if isinstance(element, tuple):
            return tuple(self.plain(part) for part in element)
        if isinstance(element, tutti.data.Dataset):
            return [self.plain(row) for row in element]
        if isinstance(element, tutti.RaggedTensor):
            splits = []
            while isinstance(element, tutti.RaggedTensor):
                splits.append(np.asarray(element.row_splits))
                element = element.values
            return (Kind("ragged"), self.plain(element), tuple(splits))
        if isinstance(element, tutti.SparseTensor):
            return (Kind("sparse"), np.asarray(element.indices), self.plain(element.values),
                    np.asarray(element.dense_shape))
        if isinstance(element, bytes):
            return np.array(element, object)
        return np.asarray(element)

    def plain_spec(self, spec):
        if isinstance(spec, dict):
            return {key: self.plain_spec(part) for key, part in spec.items()}
        if isinstance(spec, tuple):
            return tuple(self.plain_spec(part) for part in spec)
        if isinstance(spec, tutti.data.DatasetSpec):
            return [self.plain_spec(spec.element_spec)]
        if isinstance(spec, tutti.data.NoneTensorSpec):
            return (Kind("none"),)
        dtype = "bytes" if spec.dtype is bytes else np.dtype(spec.dtype).name
        if isinstance(spec, tutti.RaggedTensorSpec):
            return (Kind("ragged"), dtype, spec.shape, np.dtype(spec.row_splits_dtype).name)
        if isinstance(spec, tutti.SparseTensorSpec):
            return (Kind("sparse"), dtype, spec.shape)
        return (Kind("tensor"), dtype, spec.shape)


SIDES = (TensorFlow(), Tutti())
