"""Functions of the vectors as expressions, in a run that has CONFORMANCE_TRACES set, where they can
be; as callbacks in the other one."""

import os

import tutti
from tutti.data import Function

TRACES = bool(os.environ.get("CONFORMANCE_TRACES"))
traced = []  # the names of the functions that were


def is_told(dataset):
    """Whether what elements are is known without a call of a function."""
    return "a spec that the first element tells" not in dataset.explain().splitlines()[0]


def either(name, called, of_what, output_signature=None):
    """`called` as a Function. of_what: gives the spec of what it gets, None where it is not
    known."""
    spec = of_what() if TRACES else None
    if spec is not None:
        try:
            made = tutti.data.expression(called, spec)
        except (TypeError, ValueError, AttributeError, tutti.errors.Error):
            pass  # of values, of byte strings: a callback takes them
        else:
            traced.append(name)
            return made
    return Function(called, output_signature=output_signature)
