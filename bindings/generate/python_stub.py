"""Writes the type stub of the native module, _native.pyi, from what SWIG reads.

    python_stub.py OUTPUT

The facade's functions say by types and names of their parameters how these cross, and python.i
defines it for each kind. Here stands what that means for the caller, kind by kind; a kind that is
unknown here ends the build, as a parameter without a typemap would end up as a raw pointer. What
python.i leaves out of the Python signature (outputs, the ambient runtime and context) is left out
here, and outputs become results.
"""

import re
import sys

import facade
import handles
import output
from table import ROOT, Table, TableError

SWIG = ROOT / "bindings" / "swig"

# The type of a parameter, by its C type and name, or by the type alone.
PARAMETERS = {
    "bool": "bool",
    "int32_t": "int",
    "int64_t": "SupportsIndex",
    "size_t": "SupportsIndex",
    "tutti_optional_int64": "Optional[SupportsIndex]",
    "tutti_tristate": "Optional[object]",
    "const char *": "Optional[str]",
    "const tutti_call_options *call": "Waits",
    "const tutti_call_options *issue": "Waits",
    "const tutti_call_options *leaving": "Waits",
    "const tutti_value *": "Any",
    "const tutti_tensor *": "Any",
    "tutti_tensor *mutable_tensor": "Any",
    "tutti_tensor *root_output": "Any",
    "const tutti_spec *": "Any",
    "tutti_status *failure": "Optional[BaseException]",
    "tutti_host_handle": "Callable[..., Any]",
    "tutti_host_handle log_sink": "Any",
    "tutti_function *reader_func": "Optional[tutti_function]",
    "tutti_function *shard_func": "Optional[tutti_function]",
    "tutti_runtime *given_runtime": "Optional[tutti_runtime]",
    "const tutti_runtime *given_runtime": "Optional[tutti_runtime]",
    "tutti_reducer *given_reducer": "Optional[tutti_reducer]",
    "tutti_context *context": "Context",
    "const tutti_context *context": "Context",
}
# Several parameters that are one in Python.
GROUPS = [
    ("size_t size, const char *name, tutti_communicator **out_communicators",
     "ranks: Tuple[int, Optional[str]]", "List[tutti_communicator]"),
    ("size_t count, const tutti_value *const *values", "values: Sequence[Any]", None),
    ("size_t count, const tutti_tensor *const *tensors", "tensors: Sequence[Any]", None),
    ("size_t count, tutti_tensor *const *mutable_tensors", "mutable_tensors: Sequence[Any]", None),
    ("size_t output_count, tutti_tensor *const *mutable_tensors", "mutable_tensors: Sequence[Any]",
     None),
    ("size_t count, const tutti_cluster_resolver *const *resolvers",
     "resolvers: Sequence[tutti_cluster_resolver]", None),
    ("size_t rank_count, const int64_t *send_rows", "send_rows: Sequence[SupportsIndex]", None),
    ("size_t received_count, int64_t *received_rows", "received_rows: Any", None),
    ("size_t count, const char *const *texts", "texts: Sequence[str]", None),
    ("size_t count, const char *const *keys, size_t value_count, const char *const *values",
     "keys: Sequence[str], values: Sequence[str]", None),
    ("size_t rank, const int64_t *dims", "dims: Sequence[SupportsIndex]", None),
    ("size_t dtype_count, const int64_t *dtypes", "dtypes: Sequence[SupportsIndex]", None),
    ("size_t number_count, const int64_t *numbers", "numbers: Sequence[SupportsIndex]", None),
    ("const void *bytes, size_t size", "data: Any", None),
    ("size_t value_count, const char *const *values", "values: Sequence[str]", None),
    ("size_t count, const tutti_feature *const *features", "features: Any", None),
]
LEFT_OUT = {"tutti_runtime *runtime", "tutti_context *ambient"}
OUTPUTS = {
    "tutti_tensor **out_array": "Any",
    "tutti_value **out_value": "Any",
    "tutti_value **out_element": "Any",
    "tutti_value **out_step": "Any",
    "tutti_value **out_optional_step": "Any",
    "tutti_spec **out_spec": "Any",
    "tutti_bytes **out_text": "str",
    "tutti_bytes **out_bytes": "bytes",
    "tutti_optional_int64 *out_number": "Optional[int]",
    "int64_t *out_count": "int",
}
RESULTS = {
    "void": "None",
    "tutti_status *": "None",
    "bool": "bool",
    "int32_t": "int",
    "int64_t": "int",
    "uintptr_t": "int",
    "const char *": "str",
    "tutti_optional_int64": "Optional[int]",
}
# Where the kind of the output says too little: a text that may be missing is None, a number is
# there whenever the call succeeds.
KNOWN_RESULTS = {
    "checkpoint_manager_latest": "Optional[str]",
    "checkpoint_restore": "int",
    "cluster_resolver_rpc_layer": "Optional[str]",
    "cluster_resolver_task_type": "Optional[str]",
    "communicator_split": "Optional[tutti_communicator]",
    "device_spec_job": "Optional[str]",
    "device_spec_type": "Optional[str]",
    "strategy_cluster_resolver": "Optional[tutti_cluster_resolver]",
}
# Where a handle may be None: TF_CONFIG's resolver, one size for all windows, a device's stream.
OPTIONAL_HANDLES = {"cluster_join": "resolver", "tensor_copy_to": "stream",
                    "strategy_multi_worker_mirrored": "resolver",
                    "dataset_group_by_window": "window_size_func"}
# package.i: what only the Python package needs, whose results are PyObject *.
PACKAGE = """
def _install(parts: Dict[str, Any], /) -> None: ...
def _end() -> None: ...
def _strategy_address(strategy: tutti_strategy, /) -> int: ...
def _variable_address(variable: tutti_variable, /) -> int: ...
def _numpy_dtype(dtype: int, /) -> Any: ...
def _dtype_number(dtype: Any, /) -> int: ...
def _array_of(object: Any, declared: bool, /) -> NDArray[Any]: ...
def _tensor_array(tensor: Any, /) -> Any: ...
def _tensor_dlpack(tensor: Any, versioned: bool, copy: bool, stream: Optional[int], /) -> Any: ...
def _tensor_of_cuda(object: Any, address: int, byte_size: int, dtype: int,
                    dims: Sequence[int], dtypes: Sequence[int], read_only: bool,
                    device: str, /) -> Any: ...
def _tensor_bits(tensor: Any, /) -> Any: ...
def _check_composite(data: Any, /) -> None: ...
def _value_components(value: Any, /) -> Tuple[Any, ...]: ...
"""
HEADER = '''"""The native module, as the package calls it. Generated from the facade; not public."""

from typing import (Any, Callable, Dict, List, Optional, Sequence, SupportsIndex, Tuple, Union,
                    final)

from numpy.typing import NDArray

# Seconds, or these with the bytes of a pack and the number of an implementation.
Waits = Union[None, float, Tuple[Optional[float], int, int],
              Tuple[Optional[float], int, int, "tutti_stream"]]
'''

FUNCTION = re.compile(r"^inline\s+([\w\s*]+?[\s*])(\w+)\(([^)]*)\)\s*\{", re.M)


class UnknownKind(TableError):
    """A kind of parameter or result that the tables here do not have."""

    def __init__(self, kind):
        super().__init__(f"what does \"{kind}\" mean for a caller in Python? Say so in the tables "
                         "of bindings/generate/python_stub.py, as python.i does for SWIG")


def parameter(text, classes):
    """The Python parameter of one in C: "name: type"."""
    kind, name = re.fullmatch(r"(.*?)(\w+)", text).groups()
    name = name + "_" if name in ("in", "from", "is") else name
    python = PARAMETERS.get(text) or PARAMETERS.get(kind.strip())
    handle = re.fullmatch(r"(?:const )?(\w+) \*", kind.strip() + (" *" if "*" not in kind else ""))
    if python is None and "*" in kind and handle and handle.group(1) in classes:
        python = handle.group(1)
    if python is None:
        raise UnknownKind(text)
    return f"{name}: {python}"


def result_of(result, name):
    python = RESULTS.get(" ".join(result.split()))
    if python is None:
        raise UnknownKind(f"the result {result.strip()} of {name}")
    return python


def declaration(result, name, parameters, classes):
    text = ", ".join(" ".join(part.split()) for part in parameters.split(",") if part.strip())
    python = result_of(result, name)
    fixed = []
    for group, replacement, output in GROUPS:
        if group in text:
            text = text.replace(group, f"#{len(fixed)}")
            fixed.append(replacement)
            python = output or python
    arguments = []
    for part in text.split(", ") if text else []:
        if part.startswith("#"):
            arguments.append(fixed[int(part[1:])])
        elif part in LEFT_OUT:
            continue
        elif part in OUTPUTS:
            python = OUTPUTS[part]
        elif "**" in part:
            python = re.fullmatch(r"(\w+) \*\*\w+", part).group(1)
            if python not in classes:
                raise UnknownKind(part)
        else:
            arguments.append(parameter(part, classes))
            given, _, kind = arguments[-1].partition(": ")
            if OPTIONAL_HANDLES.get(name) == given:
                arguments[-1] = f"{given}: Optional[{kind}]"
    python = KNOWN_RESULTS.get(name, python)
    if arguments:
        arguments.append("/")
    return f"def {name}({', '.join(arguments)}) -> {python}: ..."


def stub(table: Table) -> str:
    interface = (SWIG / "tutti.i").read_text()
    classes = handles.classes(table)
    ignored = set(re.findall(r"%ignore tutti_facade::(\w+);", interface))
    lines = [HEADER]
    for name in classes:
        lines.append(f"@final\nclass {name}:\n    thisown: bool\n")
    lines.append("class Context: ...\n")
    sources = [facade.header(table)]
    for by_hand in re.findall(r'^%include "(facade/(?!forwards)\w+\.h)"', interface, re.M):
        sources.append((SWIG / by_hand).read_text())
    for source in sources:
        for match in FUNCTION.finditer(re.sub(r"//.*", "", source)):
            if match.group(2) not in ignored:
                lines.append(declaration(*match.groups(), classes))
    lines.append(PACKAGE)
    return "\n".join(lines)


if __name__ == "__main__":
    output.main(stub, sys.argv)
