"""Datasets in traced functions: made of placeholders, and given by functions for flat_map and its
like."""

from __future__ import annotations

from typing import Any

from tutti import _native
from tutti.data._expression import Expr, _nodes, _Trace


def _placeholder_in(structure: Any) -> Any:
    """The first placeholder in a structure; None without one."""
    if isinstance(structure, Expr):
        return structure
    if isinstance(structure, dict):
        structure = tuple(structure.values())
    if isinstance(structure, (tuple, list)):
        for part in structure:
            found = _placeholder_in(part)
            if found is not None:
                return found
    return None


def _current(placeholder: Expr) -> _Trace:
    """The trace that runs, which captures placeholders of those around it."""
    placeholder._trace.check()
    trace = _Trace.current()
    return placeholder._trace if trace is None else trace


def source(maker: str, structure: Any) -> Any:
    """The handle of a dataset that `maker` makes of a structure with placeholders; None without
    any."""
    if maker != "range" and _Trace.current() is None:
        return None  # a list of many numbers is not looked through
    placeholder = _placeholder_in(structure)
    if placeholder is None:
        return None
    trace = _current(placeholder)
    no_input: Any = None
    return _native.expression_add_dataset(trace.handle, maker, no_input,
                                          _nodes(trace, structure))


def counted(dataset: Any, maker: str, count: Expr) -> Any:
    """The handle of a repeat, take or skip by a placeholder."""
    trace = _current(count)
    return _native.expression_add_dataset(trace.handle, maker, dataset._handle,
                                          _nodes(trace, count))
