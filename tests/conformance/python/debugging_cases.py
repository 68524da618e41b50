"""The cases of debugging.json and debugging_own.json."""

import numpy as np

from tutti import debugging
from tutti.data import Dataset
from vector_values import NotCovered, dtype_of, known, need, value
from walks import expect_error

COMPARISONS = ("equal", "none_equal", "less", "less_equal", "greater", "greater_equal", "near")
CONDITIONS = ("positive", "negative", "non_positive", "non_negative", "integer", "scalar")


def run_assertion(case):
    name = case["assert"]
    if name == "shapes":
        known(case, ("name", "assert", "shapes", "ok", "error", "message_names"))
        debugging.assert_shapes([(np.zeros(shape, np.float32), spec)
                                 for shape, spec in case["shapes"]])
        return
    known(case, ("name", "assert", "rows", "x", "y", "ok", "error", "message_names"))
    if "rows" in case:
        run_rows(name, case)
    elif name in COMPARISONS:
        getattr(debugging, f"assert_{name}")(value(case["x"]), value(case["y"]))
    elif name in CONDITIONS:
        getattr(debugging, f"assert_{name}")(value(case["x"]))
    elif name in ("check_numerics", "all_finite"):
        check = getattr(debugging, name if name == "check_numerics" else f"assert_{name}")
        x = value(case["x"])
        need(check(x, "checked") is x, "the tensor itself is given back")
    else:
        raise NotCovered(f"assert {name}")


def run_rows(name, case):
    """x is the rows of a dataset, through whose native function they pass."""
    assertion = getattr(debugging, name if name == "check_numerics" else f"assert_{name}")
    check = debugging.assert_rows(assertion, value(case["y"]) if "y" in case else None)
    rows = value(case["x"])
    passed = list(Dataset.from_tensor_slices(rows).map(check))
    need(len(passed) == len(rows) == case["rows"], case["rows"], "rows are due", len(passed))


def run_debugging(case):
    if "is_numeric" in case:
        known(case, ("name", "is_numeric", "expect"))
        dtype = dtype_of(case["is_numeric"])
        tensor = np.array([b""], object) if dtype is bytes else np.zeros(1, dtype)
        found = debugging.is_numeric_tensor(tensor)
        need(found is case["expect"], "expected", case["expect"], "found", found)
    elif case["ok"]:
        run_assertion(case)
    else:
        expected = {"error": case.get("error", "INVALID_ARGUMENT")}
        if "message_names" in case:
            expected["message_names"] = case["message_names"]
        expect_error(expected, lambda: run_assertion(case))
