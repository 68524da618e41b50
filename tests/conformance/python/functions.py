"""The functions that the vectors name: called with an element, whose parts come one by one."""

import operator

import numpy as np

import tutti
from tutti.data import Dataset, DatasetSpec, Function, TensorSpec
from traces import either, is_told, traced
from vector_values import NotCovered, spec_of, value

PREDICATES = ("less", "greater", "equal", "even", "always_true")


def zipped(*parts):
    """The elements of a structure of windows."""
    return Dataset.zip(parts[0] if len(parts) == 1 else parts)


def numbers_of(records):
    """The numbers that records hold."""
    return records.map(lambda record: np.frombuffer(record, np.int64)[0],
                       output_signature=TensorSpec((), np.int64))


def function(name, arg):
    def like(x):
        return np.asarray(arg, np.asarray(x).dtype)[()]

    def fail_at(x):
        if x == like(x):
            raise tutti.errors.InvalidArgumentError(f"fail_at: this is the element {x}")
        return x

    functions = {
        "add": lambda x: x + like(x),
        "square": lambda x: x * x,
        "mod": lambda x: x % like(x),
        "identity": lambda *parts: parts[0] if len(parts) == 1 else parts,
        "fail_at": fail_at,
        "less": lambda x: x < like(x),
        "greater": lambda x: x > like(x),
        "equal": lambda x: x == like(x),
        "even": lambda x: x % 2 == 0,
        "always_true": lambda *_: True,
        "fill_self": lambda x: np.full(int(x), x),
        "upper": lambda x: x.upper(),
        "length": lambda x: np.int64(len(x)),
        "with_square": lambda x: (x, x * x),
        "as_dict": lambda x: {"x": x, "square": x * x},
        "swap": lambda x, y: (y, x),
        "add_components": operator.add,
        "component": lambda *parts: (parts[0] if isinstance(arg, str) else parts)[arg],
        "constant": lambda *_: value(arg),
        "range": Dataset.range,
        "count_from": lambda x: Dataset.range(x, x + arg),
        "from_tensor_slices": lambda *parts: Dataset.from_tensor_slices(
            parts[0] if len(parts) == 1 else parts),
        "from_tensors_repeat": lambda x: Dataset.from_tensors(x).repeat(arg),
        "batch": lambda window: window.batch(arg),
        "zip": zipped,
        "zip_batch": lambda *parts: zipped(*parts).batch(arg),
        "fill_self_slices": lambda x: Dataset.from_tensor_slices(np.full(int(x), x)),
        "text_lines": lambda path: tutti.data.TextLineDataset(path),
        "records": lambda path: numbers_of(tutti.data.TFRecordDataset(path)),
    }
    if name not in functions:
        raise NotCovered(f"function {name}")
    return functions[name]


# The same functions as they are traced: numbers adapt to what they meet.
TRACED = {
    "add": lambda arg: lambda x: x + arg,
    "square": lambda arg: lambda x: x * x,
    "mod": lambda arg: lambda x: x % arg,
    "identity": lambda arg: lambda *parts: parts[0] if len(parts) == 1 else parts,
    "less": lambda arg: lambda x: x < arg,
    "greater": lambda arg: lambda x: x > arg,
    "equal": lambda arg: lambda x: x == arg,
    "even": lambda arg: lambda x: x % 2 == 0,
    "always_true": lambda arg: lambda *_: True,
    "with_square": lambda arg: lambda x: (x, x * x),
    "as_dict": lambda arg: lambda x: {"x": x, "square": x * x},
    "swap": lambda arg: lambda x, y: (y, x),
    "add_components": lambda arg: operator.add,
    "component": lambda arg: lambda *parts: (parts[0] if isinstance(arg, str) else parts)[arg],
}


def is_traceable(dataset):
    """Whether elements are tensors of known rank, which is known without a call of a function."""
    if not is_told(dataset):
        return False
    leaves = [dataset.element_spec]
    while any(isinstance(leaf, (tuple, list, dict)) for leaf in leaves):
        leaves = [part for leaf in leaves for part in
                  (leaf.values() if isinstance(leaf, dict) else
                   leaf if isinstance(leaf, (tuple, list)) else [leaf])]
    return leaves != [] and all(isinstance(leaf, TensorSpec) and leaf.shape is not None
                                for leaf in leaves)


def dataset_function(name, arg, dataset):
    """A function that gives datasets, with its output spec where that is known."""
    output = None
    if name == "identity":
        output = dataset.element_spec
    elif name in ("range", "count_from"):
        output = DatasetSpec(TensorSpec((), np.int64))
    return either(name, function(name, arg), lambda: element_of(dataset), output)


def element_of(dataset):
    """The spec of its elements, None where the first one tells it."""
    return dataset.element_spec if is_told(dataset) else None


def key_function(name, arg, dataset):
    """The key of an element."""
    keys = {"index_mod": lambda index, *_: index % arg}
    key = keys[name] if name in keys else TRACED[name](arg) if name in TRACED else \
        function(name, arg)
    return either(name, key, lambda: element_of(dataset))


def written_and_read(prefix, key, window):
    """The window's elements, written to a file of their key and read from it."""
    path = tutti.strings.join([prefix, tutti.strings.as_string(key)]).decode()
    tutti.data.TFRecordWriter(path).write(window.map(tutti.io.serialize_tensor))
    return tutti.data.TFRecordDataset(path).map(lambda x: tutti.io.parse_tensor(x, np.int64))


def window_function(name, arg, dataset):
    """A function of a key and a window."""
    functions = {
        "window_batch": lambda _, window: window.batch(arg),
        "window_take": lambda _, window: window.take(arg),
        "window_padded_batch": lambda _, window: window.padded_batch(arg),
        "key_and_batch": lambda key, window: Dataset.zip(
            (Dataset.from_tensors(key).repeat(), window.batch(arg))),
        "write_and_read": lambda key, window: written_and_read(arg, key, window),
    }
    if name not in functions:
        raise NotCovered(f"function {name}")

    def of_windows():
        element = element_of(dataset)
        return None if element is None else (TensorSpec((), np.int64), DatasetSpec(element))
    return either(name, functions[name], of_windows)


def snapshot_function(name, arg):
    """One that gives the shard of an element, or reads the shards."""
    functions = {
        "shard_mod": lambda x: x % arg,
        "flat": lambda shards: shards.flat_map(lambda shard: shard),
        "interleaved": lambda shards: shards.interleave(lambda shard: shard, cycle_length=arg),
    }
    if name not in functions:
        raise NotCovered(f"function {name}")
    return functions[name]


def reducer(name, initial, dataset):
    """A function of state and element."""
    functions = {
        "count": lambda state, _: state + 1,
        "sum": lambda state, x: state + x,
        "max": lambda state, x: max(state, x),
        "last": lambda _, x: x,
        "append": lambda state, x: np.append(state, x),
        "sum_and_count": lambda state, x: (state[0] + x, state[1] + 1),
        "sum_components": lambda state, pair: state + pair[0] + pair[1],
        "to_pair": lambda state, _: (state, state),
        "to_float": lambda state, _: np.float32(state),
    }
    if name not in functions:
        raise NotCovered(f"function {name}")

    def of_states():
        element = element_of(dataset)
        return None if element is None else (Dataset.from_tensors(initial).element_spec, element)
    so_far = len(traced)
    made = either(name, functions[name], of_states)
    return made if len(traced) > so_far else functions[name]


def signature(name, arg, dataset):
    """The output spec of a map function; None where the first row decides."""
    if name in PREDICATES:
        return None
    if name == "upper":
        return TensorSpec((), bytes)
    if name == "length":
        return TensorSpec((), np.int64)
    if name == "constant":
        return spec_of([value(arg)])
    spec = dataset.element_spec
    specs = {
        "fill_self": lambda: TensorSpec((None,), spec.dtype),
        "with_square": lambda: (spec, spec),
        "as_dict": lambda: {"x": spec, "square": spec},
        "swap": lambda: (spec[1], spec[0]),
        "add_components": lambda: spec[0],
        "component": lambda: spec[arg],
    }
    return specs[name]() if name in specs else spec
