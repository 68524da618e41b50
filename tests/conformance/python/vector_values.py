"""The values and specs of the conformance vectors: as Python's, and compared with what came."""

import numpy as np

import tutti
from tutti.data import Dataset, DatasetSpec, TensorSpec


class NotCovered(Exception):
    """The case names something that is not known here."""


class Failure(Exception):
    """The result is not the expected one."""


def need(condition, *message):
    if not condition:
        raise Failure(" ".join(str(part) for part in message))


def known(case, fields):
    unknown = set(case) - set(fields)
    if unknown:
        raise NotCovered(", ".join(sorted(unknown)))
    return case


def numbers(v):
    """Nested lists with "nan" and {"bytes"} in them."""
    if isinstance(v, list):
        return [numbers(item) for item in v]
    if isinstance(v, dict):
        return v["bytes"].encode()
    return float("nan") if v == "nan" else v


def flat(v):
    return [leaf for item in v for leaf in flat(item)] if isinstance(v, list) else [v]


def dtype_of(name):
    if name == "bytes":
        return bytes
    try:
        return np.dtype(name)
    except TypeError:
        raise NotCovered(f"dtype {name}") from None


def value(v, bare_int=np.int32, bare_real=np.float32):
    """The Python value of an input."""
    if isinstance(v, dict):
        if "t" in v:
            return tuple(value(item) for item in v["t"])
        if "d" in v:
            return {key: value(item) for key, item in v["d"].items()}
        if "bytes" in v:
            return v["bytes"].encode()
        if "sparse" in v:
            known(v["sparse"], ("indices", "values", "dense_shape"))
            return tutti.SparseTensor(v["sparse"]["indices"], value(v["sparse"]["values"]),
                                      v["sparse"]["dense_shape"])
        if "ragged" in v:
            return tutti.ragged.constant(numbers(v["ragged"]))
        known(v, ("dtype", "v"))
        return np.array(numbers(v["v"]), dtype_of(v["dtype"]))
    leaves = flat(numbers(v))
    if leaves and isinstance(leaves[0], bytes):
        return np.array(numbers(v), object)
    if all(isinstance(leaf, bool) for leaf in leaves) and leaves:
        return np.array(v, bool)
    real = any(isinstance(leaf, float) for leaf in leaves)
    return np.array(numbers(v), bare_real if real else bare_int)


def padding_of(v, leaf):
    """Shapes or values of padded_batch: null is None, and what is no structure is a leaf."""
    if isinstance(v, dict) and "t" in v:
        return tuple(padding_of(part, leaf) for part in v["t"])
    if isinstance(v, dict) and "d" in v:
        return {key: padding_of(part, leaf) for key, part in v["d"].items()}
    return None if v is None else leaf(v)


def described_spec(v):
    """The spec that a vector writes down."""
    if "t" in v:
        return tuple(described_spec(part) for part in v["t"])
    if "d" in v:
        return {key: described_spec(part) for key, part in v["d"].items()}
    for name, cls in (("sparse", tutti.SparseTensorSpec), ("ragged", tutti.RaggedTensorSpec)):
        if name in v:
            known(v, (name,))
            known(v[name], ("shape", "dtype"))
            return cls(v[name]["shape"], dtype_of(v[name]["dtype"]))
    known(v, ("shape", "dtype"))
    return TensorSpec(v["shape"], dtype_of(v["dtype"]))


def compare(actual, expected, dtype=None, tolerance=0.0, where=""):
    if isinstance(expected, dict) and "t" in expected:
        need(isinstance(actual, tuple) and len(actual) == len(expected["t"]),
             where, "expected a tuple", expected, "found", actual)
        for i, item in enumerate(expected["t"]):
            compare(actual[i], item, dtype, tolerance, f"{where}/{i}")
    elif isinstance(expected, dict) and "d" in expected:
        need(isinstance(actual, dict) and actual.keys() == expected["d"].keys(),
             where, "expected a dict", expected, "found", actual)
        for key, item in expected["d"].items():
            compare(actual[key], item, dtype, tolerance, f"{where}/{key}")
    elif isinstance(expected, dict) and "ds" in expected:
        need(isinstance(actual, Dataset), where, "expected a dataset, found", actual)
        elements = list(actual)
        need(len(elements) == len(expected["ds"]), where, "expected", expected, "found", elements)
        for i, item in enumerate(expected["ds"]):
            compare(elements[i], item, dtype, tolerance, f"{where}/{i}")
    elif isinstance(expected, dict) and "sparse" in expected:
        parts = known(expected["sparse"], ("indices", "values", "dense_shape"))
        need(isinstance(actual, tutti.SparseTensor), where, "expected", expected, "found", actual)
        compare(actual.indices, parts["indices"], where=f"{where}/indices")
        compare(actual.values, parts["values"], dtype, tolerance, f"{where}/values")
        compare(actual.dense_shape, parts["dense_shape"], where=f"{where}/dense_shape")
    elif isinstance(expected, dict) and "ragged" in expected:
        need(isinstance(actual, tutti.RaggedTensor), where, "expected", expected, "found", actual)
        need(actual.to_list() == numbers(expected["ragged"]), where, "expected", expected, "found",
             actual)
        need(dtype is None or actual.dtype == dtype, where, "expected", dtype, "found",
             actual.dtype)
    elif isinstance(expected, dict) and "bytes" in expected:
        need(actual == expected["bytes"].encode(), where, "expected", expected, "found", actual)
    else:
        if isinstance(expected, dict):
            known(expected, ("dtype", "v"))
            dtype, expected = dtype_of(expected["dtype"]), expected["v"]
        need(not isinstance(actual, (tuple, list, dict)), where, "expected", expected, "found",
             actual)
        wanted = np.array(numbers(expected), object if _texts(expected) else None)
        found = np.asarray(actual)
        if wanted.size == 0 and found.size == 0 and wanted.ndim == 1:
            need(found.shape[0] == 0, where, "expected no rows, found shape", found.shape)
        else:
            need(found.shape == wanted.shape, where, "expected shape", wanted.shape, "found", found)
            if wanted.dtype == object:
                need((found == wanted).all(), where, "expected", expected, "found", found)
            else:
                need(np.allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=0,
                                 atol=tolerance, equal_nan=True),
                     where, "expected", expected, "found", found)
        need(dtype is None or found.dtype == dtype, where, "expected", dtype, "found", found.dtype)


def _texts(v):
    leaves = flat(v)
    return bool(leaves) and isinstance(leaves[0], dict)


def compare_spec(actual, expected):
    if "t" in expected:
        need(isinstance(actual, tuple), "expected a tuple of specs, found", actual)
        for part, item in zip(actual, expected["t"]):
            compare_spec(part, item)
        need(len(actual) == len(expected["t"]), "expected", expected, "found", actual)
    elif "d" in expected:
        need(actual.keys() == expected["d"].keys(), "expected", expected, "found", actual)
        for key, item in expected["d"].items():
            compare_spec(actual[key], item)
    elif "ds" in expected:
        need(isinstance(actual, DatasetSpec), "expected", expected, "found", actual)
        compare_spec(actual.element_spec, expected["ds"])
    else:
        need(actual == described_spec(expected), "expected", expected, "found", actual)


def spec_of(elements):
    """The spec that all elements fit."""
    if not elements:
        raise NotCovered("a generator of no elements, whose spec nothing tells")
    first = elements[0]
    if isinstance(first, tuple):
        return tuple(spec_of([element[i] for element in elements]) for i in range(len(first)))
    if isinstance(first, dict):
        return {key: spec_of([element[key] for element in elements]) for key in first}
    if isinstance(first, bytes):
        return TensorSpec((), bytes)
    shapes = [element.shape for element in elements]
    shape = None
    if len({len(s) for s in shapes}) == 1:
        shape = tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes))
    return TensorSpec(shape, bytes if first.dtype == object else first.dtype)
