"""What a function of a dataset becomes: an expression where that was demanded, or where it makes no
difference but to the speed; else a callback that knows why it is one."""

from __future__ import annotations

from typing import Any, Callable, FrozenSet, Optional

import numpy as np

from tutti import _native
from tutti._specs import DatasetSpec, TensorSpec
from tutti.data import _effects, _expression
from tutti.data._function import Function, gives_a_dataset_now

_OPTION = "experimental_optimization.native_functions"


def _fields(spec: Any) -> FrozenSet[str]:
    """The names of components that are attributes."""
    if isinstance(spec, dict):
        return frozenset().union(*map(_fields, spec.values()))
    if isinstance(spec, (tuple, list)):
        return frozenset(getattr(spec, "_fields", ())).union(*map(_fields, spec))
    return frozenset()


def _short(error: BaseException) -> str:
    text = str(error).split("\n")[0] or type(error).__name__
    return text if len(text) <= 120 else text[:117] + "..."


def _demanded(dataset: Any) -> Optional[bool]:
    number = _native.data_options_read(_native.dataset_options(dataset._handle), _OPTION)
    return None if number is None else bool(number)


def _unasked(function: Any, spec: Any, fits: Callable[[Any], Optional[str]]) -> Function:
    """The expression; an exception says why there is none. fits: why a spec is none of a result."""
    if spec is None:
        raise _effects.Effect("what elements are is not known before the first one")
    _effects.check(function, _fields(spec))
    return _expression._traced(function, spec, fits)


def choose(function: Any, dataset: Any, what: str, native: Optional[bool], spec: Callable[[], Any],
           fits: Callable[[Any], Optional[str]], callback: Callable[[str], Function],
           why_not: Optional[str] = None) -> Function:
    """native: as in Dataset.map. spec: of what the function gets, None where it is not known.
    callback: the function as one, with the reason for it. why_not: no expression, if it was not
    demanded, for this reason."""
    if isinstance(function, Function):
        if native:
            raise TypeError(f"{what}: native=True traces a Python function; a Function says itself "
                            "what it is")
        return function
    around = _expression._Trace.current()
    if native is None and around is not None:
        if around.strict:
            return _unasked(function, spec(), fits)
        native = True
    by_option = None if native is not None else _demanded(dataset)
    if native or by_option:
        known = spec()
        return _expression.expression(function, dataset.element_spec if known is None else known)
    if native is not None:
        return callback("native=False")
    if by_option is not None:
        return callback(f"the option {_OPTION} is False")
    if why_not is None and gives_a_dataset_now():
        why_not = "it is made anew for each element of another dataset"
    if why_not is not None:
        return callback(why_not)
    try:
        return _unasked(function, spec(), fits)
    except Exception as error:  # the callback meets it with its element, if it is one
        return callback(_short(error))


def of_elements(function: Any, dataset: Any, what: str, native: Optional[bool], slab: bool = False,
                output_signature: Any = None, name: Optional[str] = None) -> Function:
    """The function of a map."""
    why_not = "slab=True" if slab else None
    if output_signature is not None:
        why_not = "output_signature converts its results"
    return choose(
        function, dataset, what, native, lambda: _native.dataset_promised_spec(dataset._handle),
        lambda spec: "it gives a dataset" if hasattr(spec, "_handle") else None,
        lambda reason: Function._callback(function, slab, output_signature, name, reason), why_not)


def of_predicate(function: Any, dataset: Any, what: str, native: Optional[bool], slab: bool = False,
                 name: Optional[str] = None) -> Function:
    """The function of a filter or a take_while."""
    boolean = TensorSpec((), bool)
    return choose(
        function, dataset, what, native, lambda: _native.dataset_promised_spec(dataset._handle),
        lambda spec: None if spec == boolean else "it gives no boolean scalar",
        lambda reason: Function._callback(function, slab, boolean, name, reason),
        "slab=True" if slab else None)


def of_key(function: Any, dataset: Any, what: str, native: Optional[bool],
           name: Optional[str] = None) -> Function:
    """The function that gives an element's key, or the number of its shard."""
    return _of_integer(function, dataset, what, native,
                       lambda: _native.dataset_promised_spec(dataset._handle), name)


def _of_integer(function: Any, dataset: Any, what: str, native: Optional[bool],
                spec: Callable[[], Any], name: Optional[str]) -> Function:
    def fits(spec: Any) -> Optional[str]:
        is_integer = isinstance(spec, TensorSpec) and spec.shape == () and \
            getattr(spec.dtype, "kind", "") in ("i", "u")
        return None if is_integer else "it gives no integer scalar"

    return choose(
        function, dataset, what, native, spec, fits,
        lambda reason: Function._callback(function, False, None, name, reason))


def of_datasets(function: Any, dataset: Any, what: str, native: Optional[bool],
                name: Optional[str] = None) -> Function:
    """The function of a flat_map or an interleave."""
    return choose(
        function, dataset, what, native, lambda: _native.dataset_promised_spec(dataset._handle),
        lambda given: None if hasattr(given, "_handle") else "it gives no dataset",
        lambda reason: Function._callback(function, False, None, name, reason, True))


def of_window_size(function: Any, dataset: Any, key: Function,
                   name: Optional[str] = None) -> Function:
    """The function that gives the size of a key's windows."""
    return _of_integer(function, dataset, "group_by_window", None,
                       lambda: _key_in_windows(dataset, key), name)


def of_windows(function: Any, dataset: Any, key: Function, name: Optional[str] = None) -> Function:
    """The function that gives a dataset for a key and a window."""
    def spec() -> Any:
        of_key = _key_in_windows(dataset, key)
        element = _native.dataset_promised_spec(dataset._handle)
        if element is None and (_demanded(dataset) or _expression._Trace.current() is not None):
            element = dataset.element_spec
        return None if of_key is None or element is None else (of_key, DatasetSpec(element))

    return choose(
        function, dataset, "group_by_window", None, spec,
        lambda given: None if hasattr(given, "_handle") else "it gives no dataset",
        lambda reason: Function._callback(function, False, None, name, reason, True))


def _key_in_windows(dataset: Any, key: Function) -> Any:
    """The spec of a key as other functions get it; None where only its values tell."""
    spec = _native.dataset_promised_spec(dataset.map(key)._handle)
    if not isinstance(spec, TensorSpec):
        return None
    return TensorSpec((), np.uint64 if spec.dtype == np.uint64 else np.int64)


def of_state(function: Any, dataset: Any, initial_state: Any, native: Optional[bool],
             callback: Callable[[str], Function]) -> Function:
    """The function of a reduce."""
    state = _native.spec_from_value(initial_state)

    def spec() -> Any:
        element = _native.dataset_promised_spec(dataset._handle)
        if element is None and native:
            element = dataset.element_spec
        return None if element is None else (state, element)

    return choose(
        function, dataset, "reduce", native, spec,
        lambda made: None if made == state else "its result is not what the state was", callback)
