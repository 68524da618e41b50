#!/usr/bin/env python3
"""Checks that Python and Java reach everything the C interface offers (Go:
bindings/go/reach_test.py).

A C function is reached when the facade or the language's own part of bindings/swig uses it, and
what stands there for a language must in turn be used by the package that its users see; what the
build writes from the C headers counts as if it stood in the tree. The tables
name what a language does without and what it has instead; an entry that is not needed any more is
refused too, so that they stay true. References (_retain, _release) are counted by SWIG's handles.

    language_reach.py [ROOT]      prints each violation; exit status 1 when there is one
"""

import pathlib
import re
import sys

import tree_check
from generated_bindings import written

# C functions that no language needs, by what it has instead.
WITHOUT = {
    "tutti_api_version": "tutti_api_version_string",
    "tutti_cancellation_cancel": "a cancellation that asks whether the thread was interrupted",
    "tutti_cancellation_create": "a cancellation that asks whether the thread was interrupted",
    "tutti_code_get_name": "codes have a type of their own",
    "tutti_context_get_class": "where the caller stands is kept by the package (its scope)",
    "tutti_dataset_create_tf_record_from_paths":
        "a dataset of names, tutti_dataset_create_tf_record",
    "tutti_runtime_get_or_start_default": "no runtime means the default one",
    "tutti_status_report": "exceptions and errors, which print themselves",
    "tutti_tensor_make_mutable": "tutti_tensor_copy: who else holds an object is not known there",
    "tutti_treespec_equal": "tutti_spec_equal",
    "tutti_treespec_to_string": "tutti_spec_to_string and the language's own",
    "tutti_value_create_from_leaves": "values are made level by level",
    "tutti_value_find": "the parts of a value by key",
    "tutti_value_find_tensor": "the parts of a value by key",
}

LANGUAGES = {
    "python": {
        "sources": ["python/tutti", "swig/python"],
        "call": r"\b{}\b",
        "without": {
            "tutti_dtype_get_name": "the names of NumPy's dtypes",
            "tutti_spec_equal": "TensorSpec compares its parts",
            "tutti_spec_to_string": "structures of TensorSpec, which have a repr",
            "tutti_tensor_copy_into": "NumPy copies between views of tensors",
            "tutti_tensor_get_mutable_data": "arrays are as writable as their tensor",
            "tutti_treespec_get_leaf_count": "specs are walked level by level",
            "tutti_value_create_float64": "the tensor of a number, whose dtype depends on it",
            "tutti_value_create_int64": "the tensor of a number, whose dtype depends on it",
            "tutti_value_get_child_count": "values are walked as structures of leaves",
            "tutti_value_get_kind": "the type of the object",
        },
        "unused": {
            "cluster_resolver_cluster_spec": "cluster_resolver_ask_cluster_spec",
            "cluster_resolver_num_accelerators": "cluster_resolver_read_accelerators",
        },
    },
    "java": {
        "sources": ["java/src"],
        "call": r"\bNative(?:\.|::){}\b",
        "without": {
            "tutti_dtype_get_name": "the constants of DType",
            "tutti_dtype_get_size": "DType.byteSize",
            "tutti_tensor_create_from_data": "arrays are copied into a tensor that was made",
            "tutti_tensor_from_dlpack_unversioned": "DLPack 1.x alone, by address",
            "tutti_tensor_to_dlpack_unversioned": "DLPack 1.x alone, by address",
            "tutti_treespec_create_leaf": "the structure of a part comes with its spec",
            "tutti_value_leaf": "values are walked level by level",
        },
        "unused": {
            "cluster_resolver_cluster_spec": "cluster_resolver_ask_cluster_spec",
            "context_merge_call": "merge_call, which also compares the replicas' functions",
            "device_spec_equal": "a record compares its parts",
            "device_spec_index": "device_spec_number",
            "device_spec_replica": "device_spec_number",
            "device_spec_task": "device_spec_number",
        },
    },
}

DEFINITION = re.compile(r"^inline [^;{=]*?\b([a-z]\w*)\(", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def text_of(paths, endings):
    """The text of the files with one of some endings in files and folders, without C's comments."""
    parts = []
    for path in paths:
        files = [path] if path.is_file() else sorted(path.rglob("*"))
        for file in files:
            if file.suffix in endings:
                parts.append(COMMENT.sub("", file.read_text(encoding="utf-8")))
    return "\n".join(parts)


def check_language(language, table, symbols, bindings):
    swig = bindings / "swig"
    root = bindings.parent
    facade = text_of([swig / "facade"], {".h"}) + "\n" + COMMENT.sub("", written(root, "facade"))
    own = text_of([swig / language], {".h", ".i"})
    calls = set(re.findall(r"\btutti_\w+", facade + own))
    without = {**WITHOUT, **table["without"]}
    for symbol in symbols:
        if symbol.endswith(("_retain", "_release")):
            continue
        if symbol not in calls and symbol not in without:
            yield f"{language}: {symbol} cannot be reached; see tests/structure/language_reach.py"
        if symbol in calls and symbol in without:
            yield f"{language}: {symbol} is used now; take it off the list in language_reach.py"
    for symbol in sorted(set(table["without"]) - set(symbols)):
        yield f"{language}: {symbol} is no function of the C interface"

    # The facade for all languages; of the language's own part the functions that SWIG wraps.
    package = text_of([bindings / source for source in table["sources"]],
                      {".py", ".java", ".in", ".h", ".i"})
    package += "\n" + written(root, f"{language}_datasets")
    for name in sorted(set(DEFINITION.findall(facade))):
        used = re.search(table["call"].format(name), package) is not None
        if not used and name not in table["unused"]:
            yield f"{language}: {name} of the facade is not used by the package"
        if used and name in table["unused"]:
            yield f"{language}: {name} is used now; take it off the list in language_reach.py"
    access = swig / language / "access.h"
    if access.exists():
        for name in sorted(set(DEFINITION.findall(text_of([access], {".h"})))):
            if re.search(table["call"].format(name), package) is None:
                yield f"{language}: {name} of {access.name} is not used by the package"


def violations(root):
    root = pathlib.Path(root)
    symbols = (root / "capi" / "symbols.txt").read_text(encoding="utf-8").split()
    for symbol in sorted(set(WITHOUT) - set(symbols)):
        yield f"{symbol} is no function of the C interface"
    for language, table in LANGUAGES.items():
        yield from check_language(language, table, symbols, root / "bindings")


if __name__ == "__main__":
    sys.exit(tree_check.main(violations))
