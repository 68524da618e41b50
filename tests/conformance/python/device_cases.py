"""The cases of device_spec.json."""

import contextlib

import tutti
from vector_values import known, need
from walks import expect_error

DEVICE_FIELDS = ("job", "replica", "task", "device_type", "device_index")


def device_spec(case):
    def made(fields):
        known(fields, DEVICE_FIELDS)
        return tutti.DeviceSpec(**fields)

    if "parse" in case:
        return tutti.DeviceSpec.from_string(case["parse"])
    if "spec" in case:
        return made(case["spec"])
    if "merge" in case:
        outer, inner = (made(part) for part in case["merge"])
        return outer.merge(inner)
    with contextlib.ExitStack() as scopes:
        for scope in case["scopes"]:
            scopes.enter_context(tutti.device(scope))
        return tutti.current_device()


def run_device_spec(case):
    known(case, ("name", "parse", "spec", "merge", "scopes", "expect"))
    expected = case["expect"]
    if isinstance(expected, dict) and "error" in expected:
        expect_error(expected, lambda: device_spec(case))
        return
    spec = device_spec(case)
    if isinstance(expected, str):
        need(spec.to_string() == expected, "expected", expected, "found", spec)
    else:
        found = {name: getattr(spec, name) for name in DEVICE_FIELDS}
        found = {name: part for name, part in found.items() if part is not None}
        need(found == expected, "expected", expected, "found", found)
