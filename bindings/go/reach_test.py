"""Which functions of the C interface a Go program cannot reach: none but those named here.

reach_test.py <project> <exported symbols>
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "structure"))
from generated_bindings import written  # noqa: E402

# By what a Go program has in their place.
UNREACHED = {
    "tutti_api_version": "Version gives it as text",
    "tutti_cancellation_create_polled": "a context.Context is what cancels",
    "tutti_cancellation_is_cancelled": "a context.Context is asked itself",
    "tutti_context_get_class": "the type of a function says where it runs",
    "tutti_dataset_create_tf_record_from_paths": "TFRecords names its files by a dataset",
    "tutti_runtime_get_or_start_default": "a nil *Runtime is the default one",
    "tutti_status_report": "an error prints itself",
    "tutti_tensor_make_mutable": "a tensor may have several holders in Go: Copy",
    "tutti_treespec_create_leaf":
        "values and specs are made and read level by level, and by leaves",
    "tutti_treespec_get_leaf_count": "Value.Leaves and Spec.Leaves",
    "tutti_treespec_to_string": "Value.String and Spec.String",
    "tutti_value_find_tensor": "Value.TensorAt",
}


def text_of(paths):
    return "\n".join(path.read_text() for path in paths)


def main():
    project, symbols = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    swig = project / "bindings" / "swig"
    module = project / "bindings" / "go" / "tutti"
    headers = text_of([*swig.glob("facade/*.h"), *swig.glob("go/*.h"), *swig.glob("go/*.i")])
    forwards = written(project, "facade")
    headers += forwards
    called = set(re.findall(r"\btutti_\w+", headers))
    handles = set(re.findall(r"GO_HANDLE\((\w+)\)", written(project, "handles_go")))
    wrong = []
    for symbol in symbols.read_text().split():
        counted = re.fullmatch(r"(\w+)_(retain|release)", symbol)
        reached = counted.group(1) in handles or symbol in called if counted else symbol in called
        if not reached and symbol not in UNREACHED and not (counted and "treespec" in symbol):
            wrong.append(f"{symbol}: no function of the facade or of swig/go calls it")
        if reached and symbol in UNREACHED:
            wrong.append(f"{symbol}: is reached; {__file__} says that it is not")
    # A function that SWIG wraps is reached when the package calls it, and its tests are not the
    # package.
    go = text_of(path for path in module.glob("*.go") if not path.name.endswith("_test.go"))
    go += written(project, "go_datasets")
    wrapped = text_of([*swig.glob("facade/*.h"), *swig.glob("go/*.h")]) + forwards
    ignored = set(re.findall(r"%ignore \w+::(\w+);", headers))
    for name in re.findall(r"^inline [^(]*?[ *]([a-z]\w*)\(", wrapped, re.MULTILINE):
        if name not in ignored and not re.search(rf"native\.{name[0].upper()}{name[1:]}\b", go):
            wrong.append(f"{name}: the interface has it, and no Go file calls it")
    # What users copy shows a context.
    for page in [*project.glob("examples/go/*/*.go"), project / "bindings/go/README.md",
                 module / "doc.go"]:
        for call in re.findall(r"\w+\.[A-Z]\w*\(nil[,)]", page.read_text()):
            wrong.append(f"{page}: {call} ...: an example gives a context, and not nil")
    print("\n".join(wrong))
    return 1 if wrong else 0


sys.exit(main())
