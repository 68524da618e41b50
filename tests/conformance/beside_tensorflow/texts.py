"""What is compared: structures of NumPy's arrays, specs and errors of both libraries in one form,
and where two of them differ, in words."""

import numpy as np


class Kind(str):
    """Marks a tuple of this module's that stands for one leaf."""


def _is_leaf(value):
    return isinstance(value, tuple) and len(value) > 0 and isinstance(value[0], Kind)


def shown(value):
    """As a text of one line, not longer than a person reads."""
    text = " ".join(repr(value).split())
    return text if len(text) < 600 else text[:600] + "..."


def difference(theirs, ours):
    """Where two elements differ, in dtype, shape and bits; "" where nowhere."""
    if isinstance(theirs, np.ndarray) or isinstance(ours, np.ndarray):
        if not (isinstance(theirs, np.ndarray) and isinstance(ours, np.ndarray)):
            return f"{shown(theirs)} and {shown(ours)}"
        if theirs.shape != ours.shape:
            return f"shapes {theirs.shape} and {ours.shape}"
        if (theirs.dtype == object) != (ours.dtype == object) or (
                theirs.dtype != object and theirs.dtype != ours.dtype):
            return f"dtypes {theirs.dtype} and {ours.dtype}"
        if theirs.dtype == object:
            same = theirs.ravel().tolist() == ours.ravel().tolist()
        else:
            same = theirs.tobytes() == ours.tobytes()
        return "" if same else f"{shown(theirs)} and {shown(ours)}"
    if isinstance(theirs, (tuple, list)) and type(theirs) is type(ours):
        if len(theirs) != len(ours):
            return f"{len(theirs)} and {len(ours)} parts: {shown(theirs)} and {shown(ours)}"
        for i, (a, b) in enumerate(zip(theirs, ours)):
            told = difference(a, b)
            if told:
                return f"[{i}] {told}"
        return ""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        if sorted(theirs) != sorted(ours):
            return f"keys {sorted(theirs)} and {sorted(ours)}"
        for key in sorted(theirs):
            told = difference(theirs[key], ours[key])
            if told:
                return f"[{key!r}] {told}"
        return ""
    if theirs == ours and type(theirs) is type(ours):
        return ""
    return f"{shown(theirs)} and {shown(ours)}"


def _shapes_fit(theirs, ours):
    """Whether they exclude each other in nothing."""
    if theirs is None or ours is None:
        return True
    return len(theirs) == len(ours) and all(
        a is None or b is None or a == b for a, b in zip(theirs, ours))


def spec_difference(theirs, ours, exact):
    """Where two specs differ; not `exact`: each may know sizes that the other does not."""
    if _is_leaf(theirs) and _is_leaf(ours):
        if exact or theirs[0] != ours[0]:
            return "" if theirs == ours else f"{theirs} and {ours}"
        same = theirs[:2] == ours[:2] and theirs[3:] == ours[3:] and _shapes_fit(theirs[2], ours[2])
        return "" if same else f"{theirs} and {ours}"
    if isinstance(theirs, (tuple, list)) and type(theirs) is type(ours) and (
            len(theirs) == len(ours)) and not _is_leaf(theirs) and not _is_leaf(ours):
        parts = list(zip(theirs, ours))
    elif isinstance(theirs, dict) and isinstance(ours, dict) and sorted(theirs) == sorted(ours):
        parts = [(theirs[key], ours[key]) for key in sorted(theirs)]
    else:
        return f"{shown(theirs)} and {shown(ours)}"
    for a, b in parts:
        told = spec_difference(a, b, exact)
        if told:
            return told
    return ""
