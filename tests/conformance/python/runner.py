"""Runs the conformance vectors through the Python package.

    PYTHONPATH=<build>/bindings/python python3 runner.py [folder]

The folder of the vectors is the argument, else TUTTI_CONFORMANCE_DIR, else ../vectors. Prints each
failure, the names of the cases that are not covered (those that name an op, a function or a field
that is not known here), and one line of totals. Exits non-zero when a case fails or none
passes.
"""

import itertools
import json
import os
import pathlib
import secrets
import sys

import numpy as np

import tutti
from tutti.data import Dataset, Function, IteratorSpec
from tutti.distribute import VariableAggregation, VariableSynchronization
from debugging_cases import run_debugging
from device_cases import run_device_spec
from files import CaseFolder, record_files
from functions import (TRACED, dataset_function, function, is_traceable, key_function, numbers_of,
                       reducer, signature, snapshot_function, window_function)
from plain_ops import PLAIN_OPS  # generated: the build puts it on the path
from traces import TRACES, traced
from vector_values import (NotCovered, compare, compare_spec, described_spec, known, need,
                           padding_of, spec_of, value)
from walks import Walks, expect_error, is_error
from workers import mirrored, run_workers


# ---- datasets

def transform(dataset, node, op):
    """One op with an `input`, which is `dataset`."""
    if TRACES and op in ("map", "filter", "take_while") and node["fn"] in TRACED and \
            is_traceable(dataset):
        names = ("num_parallel_calls", "deterministic") if op == "map" else ()
        known(node, ("op", "input", "fn", "arg", *names))
        traced.append(node["fn"])
        return getattr(dataset, op)(TRACED[node["fn"]](node.get("arg")), native=True,
                                    **{name: node[name] for name in names if name in node})
    if op == "map":
        names = ("num_parallel_calls", "deterministic")
        known(node, ("op", "input", "fn", "arg", *names))
        name, arg = node["fn"], node.get("arg")
        return dataset.map(function(name, arg), output_signature=signature(name, arg, dataset),
                           **{name: node[name] for name in names if name in node})
    if op in ("flat_map", "interleave"):
        names = {"flat_map": (), "interleave": ("cycle_length", "block_length",
                                                "num_parallel_calls", "deterministic")}[op]
        known(node, ("op", "input", "fn", "arg", *names))
        return getattr(dataset, op)(dataset_function(node["fn"], node.get("arg"), dataset),
                                    **{name: node[name] for name in names if name in node})
    if op == "window_lists":  # each window as one batch
        windows = transform(dataset, {**node, "op": "window"}, "window")
        return windows.flat_map(function("zip_batch", node["size"]))
    if op == "group_by_window":
        known(node, ("op", "input", "key_func", "key_arg", "reduce_func", "reduce_arg",
                     "window_size"))
        return dataset.group_by_window(
            key_function(node["key_func"], node.get("key_arg"), dataset),
            window_function(node["reduce_func"], node.get("reduce_arg"), dataset),
            node["window_size"])
    if op == "padded_batch":
        names = ("batch_size", "padded_shapes", "padding_values", "drop_remainder")
        known(node, ("op", "input", *names))
        given = {name: node[name] for name in names if name in node}
        # Bare numbers are Python's own, as one writes them.
        leaves = {"padded_shapes": lambda shape: shape,
                  "padding_values": lambda v: value(v) if isinstance(v, dict) else v}
        return dataset.padded_batch(**{
            name: padding_of(v, leaves[name]) if name in leaves else v
            for name, v in given.items()})
    if op == "bucket_by_sequence_length":
        names = ("bucket_boundaries", "bucket_batch_sizes", "pad_to_bucket_boundary", "no_padding",
                 "drop_remainder")
        known(node, ("op", "input", "key_func", "key_arg", *names))
        return dataset.bucket_by_sequence_length(
            key_function(node["key_func"], node.get("key_arg"), dataset),
            **{name: node[name] for name in names if name in node})
    if op == "dense_to_sparse_batch":
        known(node, ("op", "input", "batch_size", "row_shape"))
        return dataset.dense_to_sparse_batch(node["batch_size"], node["row_shape"])
    if op == "snapshot":
        known(node, ("op", "input", "path", "compression", "shard_func", "shard_arg",
                     "reader_func", "reader_arg"))
        given = {name: node[name] for name in ("path", "compression") if name in node}
        for which in ("shard", "reader"):
            if f"{which}_func" in node:
                given[f"{which}_func"] = snapshot_function(node[f"{which}_func"],
                                                           node.get(f"{which}_arg"))
        return dataset.snapshot(**given)
    if op == "apply":
        known(node, ("op", "input", "transformation"))
        inner = node["transformation"]
        return dataset.apply(lambda d: transform(d, inner, inner["op"]))
    if op == "shuffle":
        names = ("buffer_size", "seed", "reshuffle_each_iteration")
        known(node, ("op", "input", *names))
        return dataset.shuffle(**{name: node[name] for name in names if name in node})
    if op == "shuffle_and_repeat":
        known(node, ("op", "input", "buffer_size", "count", "seed"))
        return dataset.apply(tutti.data.experimental.shuffle_and_repeat(
            node["buffer_size"], node.get("count"), node.get("seed")))
    if op == "with_options":
        known(node, ("op", "input", "options"))
        return dataset.with_options(options_of(node["options"]))
    if op not in PLAIN_OPS:
        raise NotCovered(f"op {op}")
    names, given = ["op", "input"], {}
    for name, (kind, parameter) in PLAIN_OPS[op].items():
        if kind == "function":
            names += ["fn", "arg"]
            given[parameter] = function(node["fn"], node.get("arg"))
        else:
            names.append(name)
            if name in node:
                given[parameter] = build(node[name]) if kind == "dataset" else node[name]
    known(node, names)
    return getattr(dataset, op)(**given)


def datasets(structure):
    if "t" in structure:
        return tuple(datasets(item) for item in structure["t"])
    if "d" in structure:
        return {key: datasets(item) for key, item in structure["d"].items()}
    return build(structure)


def build(node):
    op = node["op"]
    if op == "range":
        known(node, ("op", "start", "stop", "step", "output_type"))
        return Dataset.range(node.get("start", 0), node["stop"], node.get("step", 1),
                             output_type=node.get("output_type"))
    if op in ("from_tensors", "from_tensor_slices"):
        known(node, ("op", "value"))
        return getattr(Dataset, op)(value(node["value"]))
    if op == "from_generator":
        return from_generator(node)
    if op in READERS:
        return read_files(node)
    if op == "paths":
        known(node, ("op", "files"))
        return Dataset.from_tensor_slices(np.array(node["files"], dtype=object))
    if op == "list_files":
        known(node, ("op", "file_pattern", "shuffle", "seed"))
        return Dataset.list_files(**{key: item for key, item in node.items() if key != "op"})
    if op == "sql":  # `database` is a file by now
        known(node, ("op", "database", "query", "output_types", "driver_name"))
        return tutti.data.experimental.SqlDataset(
            node.get("driver_name", "sqlite"), node["database"], node["query"],
            tuple(node["output_types"]))
    if op == "zip":
        known(node, ("op", "inputs"))
        return Dataset.zip(datasets(node["inputs"]))
    if op == "choose_from_datasets":
        known(node, ("op", "inputs", "choices", "stop_on_empty_dataset"))
        return Dataset.choose_from_datasets(datasets(node["inputs"]), build(node["choices"]),
                                            node.get("stop_on_empty_dataset", True))
    if op == "sample_from_datasets":
        names = ("weights", "seed", "stop_on_empty_dataset", "rerandomize_each_iteration")
        known(node, ("op", "inputs", *names))
        given = {name: node[name] for name in names if name in node}
        if isinstance(given.get("weights"), dict):
            given["weights"] = build(given["weights"])
        return Dataset.sample_from_datasets(datasets(node["inputs"]), **given)
    if "input" not in node:
        raise NotCovered(f"op {op}")
    return transform(build(node["input"]), node, op)


READERS = {"records": tutti.data.TFRecordDataset, "text_lines": tutti.data.TextLineDataset,
           "fixed_length_records": tutti.data.FixedLengthRecordDataset}


def read_files(node):
    op = node["op"]
    options = ["compression_type", "buffer_size", "num_parallel_reads"]
    if op == "fixed_length_records":
        options += ["record_bytes", "header_bytes", "footer_bytes"]
    known(node, ("op", "files", *options))
    given = {name: node[name] for name in options if name in node}
    if op == "records":
        return numbers_of(READERS[op](record_files(node["files"]), **given))
    return READERS[op](node["files"], **given)


def from_generator(node):
    """The i-th iteration gives list i, later ones the last."""
    by_pass = "elements_by_pass" in node
    known(node, ("op", "elements_by_pass" if by_pass else "elements", "signature"))
    passes = [[value(element) for element in elements]
              for elements in (node["elements_by_pass"] if by_pass else [node["elements"]])]
    started = itertools.count()
    spec = (described_spec(node["signature"]) if "signature" in node
            else spec_of(sum(passes, [])))
    return Dataset.from_generator(lambda: passes[min(next(started), len(passes) - 1)],
                                  output_signature=spec, name=json.dumps(node, default=str))


def cardinality(dataset):
    names = {tutti.data.INFINITE_CARDINALITY: "INFINITE", tutti.data.UNKNOWN_CARDINALITY: "UNKNOWN"}
    return names.get(dataset.cardinality(), dataset.cardinality())


POLICIES = {"experimental_external_state_policy": tutti.data.experimental.ExternalStatePolicy,
            "experimental_distribute.auto_shard_policy": tutti.data.AutoShardPolicy}


def options_of(described):
    options = tutti.data.Options()
    for key, item in described.items():
        group, _, name = key.rpartition(".")
        setattr(getattr(options, group) if group else options, name,
                member(POLICIES[key], item) if isinstance(item, str) else item)
    return options


def compare_options(node, expected):
    """What the dataset has, or what the first options are once the second are merged into them."""
    if node["op"] == "options":
        known(node, ("op", "input", "names"))
        options = build(node["input"]).options()
    else:
        known(node, ("op", "first", "second", "names"))
        options = options_of(node["first"]).merge(options_of(node["second"]))
    for key in node["names"]:
        found = options
        for name in key.split("."):
            found = getattr(found, name)
        found = getattr(found, "name", found)  # of a policy
        need(found == expected[key] and type(found) is type(expected[key]), "expected", key, "=",
             expected[key], "found", found)


def reduce(node, expected, case):
    known(node, ("op", "input", "initial", "fn"))
    dataset, initial = build(node["input"]), value(node["initial"])
    function_or_expression = reducer(node["fn"], initial, dataset)
    native = None if isinstance(function_or_expression, Function) else False
    state = dataset.reduce(initial, function_or_expression, native=native)
    if not is_error(expected):
        compare(state, expected, case.get("dtype"), case.get("tolerance", 0.0))
    return state


def iterator_specs(node, expected):
    """Two specs of iterators: whether they are compatible, or the spec that values of both fit."""
    known(node, ("op", "spec", "with"))
    left, right = (IteratorSpec(described_spec(node[key])) for key in ("spec", "with"))
    if node["op"] == "iterator_spec_is_compatible":
        found = left.is_compatible_with(right)
        need(found is expected, "expected", expected, "found", found)
        return found
    found = left.most_specific_compatible_type(right)
    if not is_error(expected):
        need(isinstance(found, IteratorSpec), "expected the spec of an iterator, found", found)
        compare_spec(found.element_spec, expected)
    return found


def variant(node, expected):
    """A variant is a scalar of its own dtype, and the dataset again."""
    known(node, ("op", "input"))
    known(expected, ("shape", "dtype"))
    dataset = build(node["input"])
    made = tutti.data.experimental.to_variant(dataset)
    need(made.shape == tuple(expected["shape"]) and made.dtype == expected["dtype"], "expected",
         expected, "found", made)
    back = tutti.data.experimental.from_variant(made, dataset.element_spec)
    need(list(back) == list(dataset), "another dataset came back", list(back))
    return made


def terminal(node, expected, case):
    if node["op"] in ("options", "merge_options"):
        return compare_options(node, expected)
    if node["op"] == "reduce":
        return reduce(node, expected, case)
    if node["op"] in ("iterator_spec_is_compatible", "iterator_spec_most_specific"):
        return iterator_specs(node, expected)
    if node["op"] == "to_variant":
        return variant(node, expected)
    if node["op"] not in ("cardinality", "element_spec", "iterator_element_spec"):
        raise NotCovered(f"op {node['op']}")
    known(node, ("op", "input"))
    dataset = build(node["input"])
    if node["op"] == "iterator_element_spec":
        result = iter(dataset).element_spec
    else:
        result = cardinality(dataset) if node["op"] == "cardinality" else dataset.element_spec
    if is_error(expected):
        return result
    if node["op"] == "cardinality":
        need(result == expected, "expected", expected, "found", result)
    else:
        compare_spec(result, expected)
    return result


def expect_property(expected, node):
    known(expected, ("permutation_of", "buffer", "not_identity", "two_equal_halves",
                     "two_different_permutations", "same_when_built_again", "two_permutations_of"))
    found = [int(x) for x in build(node)]
    half = len(found) // 2
    first, second = found[:half], found[half:]
    if "permutation_of" in expected:
        wanted = list(range(int(expected["permutation_of"][len("range("):-1])))
        need(sorted(found) == wanted, "expected a permutation, found", found)
        need(not expected.get("not_identity") or found != wanted, "it is the identity")
        size = expected.get("buffer", len(found))
        need(all(i >= v - size + 1 for i, v in enumerate(found)), "left a buffer of", size, found)
    if "two_permutations_of" in expected:
        wanted = sorted(expected["two_permutations_of"])
        need(sorted(first) == wanted and sorted(second) == wanted, "found", found)
    if "two_equal_halves" in expected:
        need(first == second, "the halves differ:", found)
    if "two_different_permutations" in expected:
        need(sorted(first) == sorted(second) and first != second, "found", found)
    if "same_when_built_again" in expected:
        need(found == [int(x) for x in build(node)], "built again it gives another order")


def is_walk(expected):
    """Whether it is what one walk gives, which may be repeated."""
    return isinstance(expected, list) or "multiset" in expected or is_error(expected)


def known_fields(case):
    """What `expect` says decides which fields the case may have besides."""
    fields = ("name", "before", "dataset", "expect")
    if case.get("terminal"):
        known(case, (*fields, "terminal", "dtype", "tolerance"))
    elif is_walk(case["expect"]):
        known(case, (*fields, "cardinality", "dtype", "tolerance", "api", "iterate"))
    elif "passes" in case["expect"]:
        known(case, (*fields, "cardinality", "dtype", "tolerance", "api"))
    else:
        known(case, (*fields, "cardinality"))


def run_walks(case, node):
    expected, walks, dataset = case["expect"], Walks(case), build(node)
    if "cardinality" in case:
        need(cardinality(dataset) == case["cardinality"], "expected cardinality",
             case["cardinality"], "found", cardinality(dataset))
    if is_walk(expected):
        for _ in range(case.get("iterate", 1)):
            if is_error(expected):
                return list(dataset)
            walks.walk(dataset, expected)
    elif "passes" in expected:
        walks.passes(dataset, expected)
    else:
        expect_property(expected, node)
    return None


def run_dataset(case):
    known_fields(case)
    expected = case["expect"]
    with CaseFolder() as folder:
        node = folder.with_paths(case["dataset"])
        for earlier in folder.with_paths(case.get("before", [])):
            list(build(earlier))

        def run():
            if case.get("terminal"):
                return terminal(node, expected, case)
            return run_walks(case, node)

        if is_error(expected):
            expect_error(expected, run)
        else:
            run()


# ---- strategies

def run_distribute(case):
    known(case, ("name", "dataset", "workers", "replicas_per_worker", "expect", "api", "skip_steps",
                 "take_steps", "policy"))
    if case.get("api", "get_next_as_optional") != "get_next_as_optional":
        raise NotCovered(f"api {case['api']}")
    if case.get("policy", "AUTO") not in tutti.data.AutoShardPolicy.__members__:
        raise NotCovered(f"policy {case['policy']}")

    def steps(strategy):
        dataset = build(case["dataset"])
        if "policy" in case:
            options = tutti.data.Options()
            options.experimental_distribute.auto_shard_policy = (
                tutti.data.AutoShardPolicy[case["policy"]])
            dataset = dataset.with_options(options)
        iterator = iter(strategy.distribute_dataset(dataset))
        limit = case.get("skip_steps", 0) + case.get("take_steps", 1 << 30)
        found = []
        while len(found) < limit:
            if "api" in case:
                step = iterator.get_next_as_optional()
                if not step.has_value():
                    break
                step = step.get_value()
            else:
                step = next(iterator, None)
                if step is None:
                    break
            found.append(strategy.local_results(step))
        return found[case.get("skip_steps", 0):]

    def work(strategy, worker):
        expected = case["expect"]
        if isinstance(expected, dict):
            if "error" in expected:
                expect_error(expected, lambda: steps(strategy))
                return
            expected = [[tensor] for tensor in expected[f"worker{worker}"]]
        found = steps(strategy)
        need(len(found) == len(expected), "expected", len(expected), "steps, found", found)
        for i, step in enumerate(found):
            need(len(step) == len(expected[i]), "expected", expected[i], "found", step)
            for replica, part in enumerate(step):
                compare(part, expected[i][replica],
                        where=f"worker {worker}, step {i}, replica {replica}:")

    run_workers(case["workers"], case["replicas_per_worker"], work)


def member(enum, name):
    if name not in enum.__members__:
        raise NotCovered(f"{enum.__name__} {name}")
    return enum[name]


def run_reduce(case):
    known(case, ("name", "op", "axis", "gather", "per_replica", "expect", "tolerance", "dtype"))
    values = [value(v) for v in case["per_replica"]]
    with mirrored(len(values)) as strategy:
        def result():
            per_replica = strategy.distribute_values_from_function(
                lambda context: values[context.replica_id_in_sync_group])
            if "gather" in case:
                return strategy.gather(per_replica, axis=case["gather"])
            return strategy.reduce(member(tutti.distribute.ReduceOp, case["op"]), per_replica,
                                   axis=case.get("axis"))

        if isinstance(case["expect"], dict) and "error" in case["expect"]:
            expect_error(case["expect"], result)
        else:
            compare(result(), case["expect"], case.get("dtype"), case.get("tolerance", 0.0))


def value_function(described):
    (kind, argument), = described.items()
    functions = {
        "constant": lambda context: value(argument),
        "component_of": lambda context: value(argument)[context.replica_id_in_sync_group],
        "replica_id": lambda context: context.replica_id_in_sync_group,
        "num_replicas": lambda context: context.num_replicas_in_sync,
    }
    if kind not in functions:
        raise NotCovered(f"value_fn {kind}")
    return functions[kind]


def run_values(case):
    known(case, ("name", "replicas", "value_fn", "args", "run", "local", "reduce", "expect",
                 "variable", "run_assign_add", "run_scatter", "read", "copies_equal", "error",
                 "mirrored"))
    functions = {
        None: lambda x: x,
        "double": lambda x: x * 2,
        "all_reduce_sum": lambda x: tutti.distribute.get_replica_context().all_reduce("sum", x),
        "replica_id":
            lambda: tutti.distribute.get_replica_context().replica_id_in_sync_group,
    }
    if case.get("run") not in functions:
        raise NotCovered(f"run {case['run']}")
    with mirrored(case["replicas"]) as strategy:
        if "variable" in case:
            run_variable(case, strategy)
            return
        if len(case.get("args", ())) > 1:
            raise NotCovered("several args")
        args = tuple(value(arg) for arg in case.get("args", ()))
        if "value_fn" in case:
            args = (strategy.distribute_values_from_function(value_function(case["value_fn"])),)
        if "mirrored" in case:
            args = (strategy.mirrored(value(case["mirrored"])),)
            need(isinstance(args[0], tutti.distribute.Mirrored), "no Mirrored:", args[0])
        if "mirrored" in case and "run" not in case:
            result = args[0]  # run would give what differs
        else:
            result = strategy.run(functions[case.get("run")], args=args)
        if "local" in case:
            local = strategy.local_results(result)
            need(len(local) == len(case["local"]), "expected", case["local"], "found", local)
            for i, part in enumerate(local):
                compare(part, case["local"][i], where=f"replica {i}:")
        if "reduce" in case:
            op = member(tutti.distribute.ReduceOp, case["reduce"])
            compare(strategy.reduce(op, result), case["expect"])


def run_variable(case, strategy):
    described = case["variable"]
    known(described, ("value", "synchronization", "aggregation", "made_in_replicas"))

    def make():
        return tutti.Variable(
            value(described["value"]),
            synchronization=member(VariableSynchronization, described["synchronization"]),
            aggregation=member(VariableAggregation, described["aggregation"]))

    in_replicas = described.get("made_in_replicas", False)
    with strategy.scope():
        variable = None if in_replicas else make()
    scatter = case.get("run_scatter")

    def add():
        replica = tutti.distribute.get_replica_context().replica_id_in_sync_group
        written = make() if in_replicas else variable
        if scatter is None:
            return written.assign_add(value(case["run_assign_add"][replica]))
        known(scatter, ("op", "values", "indices"))
        delta = tutti.IndexedSlices(value(scatter["values"][replica]),
                                    value(scatter["indices"][replica]))
        return getattr(written, "scatter_" + scatter["op"].lower())(delta)

    if "error" in case:
        expect_error({"error": case["error"]}, lambda: strategy.run(add))
        return
    variable = strategy.run(add)
    compare(variable.numpy(), case["read"])
    if case.get("copies_equal"):
        for copy in variable.copies():
            compare(np.asarray(copy), case["read"])


FILES = {"dataset.json": run_dataset, "dataset_ops.json": run_dataset,
         "dataset_own.json": run_dataset, "distribute.json": run_distribute,
         "reduce.json": run_reduce, "values.json": run_values, "values_own.json": run_values,
         "device_spec.json": run_device_spec, "debugging.json": run_debugging,
         "debugging_own.json": run_debugging}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                          os.environ.get("TUTTI_CONFORMANCE_DIR") or
                          pathlib.Path(__file__).resolve().parent.parent / "vectors")
    files = sorted(folder.glob("dataset*.json" if TRACES else "*.json"))
    if not files:
        sys.exit(f"conformance Python: there are no vectors in {folder}")
    os.environ["TUTTI_JOB_SECRET"] = secrets.token_hex(32)  # of the workers of this run
    os.environ.pop("TUTTI_JOB_SECRET_FILE", None)
    passed, not_covered, failed = 0, [], []
    for path in files:
        for case in json.loads(path.read_text()):
            name = f"{path.stem}.{case['name']}"
            try:
                if path.name not in FILES:
                    raise NotCovered(path.name)
                FILES[path.name](case)
                passed += 1
            except NotCovered as reason:
                not_covered.append(f"{name} ({reason})")
            except Exception as error:  # a case that fails in any way must not end the others
                failed.append(name)
                print(f"FAILED {name}: {type(error).__name__}: {error}")
    for name in not_covered:
        print(f"not covered: {name}")
    print(f"conformance Python: {passed} passed, {len(not_covered)} not covered, "
          f"{len(failed)} failed")
    if TRACES:
        print(f"{len(traced)} functions were traced: {', '.join(sorted(set(traced)))}")
    return 1 if failed or not passed or (TRACES and not traced) else 0


if __name__ == "__main__":
    sys.exit(main())
