"""Runs the conformance vectors through the Python package.

    PYTHONPATH=<build>/bindings/python python3 runner.py [folder]

The folder of the vectors is the argument, else TUTTI_CONFORMANCE_DIR, else ../vectors. Prints each
failure, the names of the cases that are not covered (those that name an op, a function or a field
that is not known here), and one line of totals. Exits non-zero when a case fails or none
passes.
"""

import contextlib
import json
import os
import pathlib
import secrets
import socket
import sys
import tempfile
import threading

import numpy as np

import tutti
from tutti.data import Dataset, TensorSpec
from tutti.distribute import VariableAggregation, VariableSynchronization
from vector_values import Failure, NotCovered, compare, compare_spec, known, need, spec_of, value


def expect_error(expected, run):
    known(expected, ("error", "message_names"))
    try:
        result = run()
    except tutti.errors.Error as error:
        need(error.code_name == expected["error"], "expected", expected["error"], "found",
             error.code_name, error)
        for name in expected.get("message_names", ()):
            need(name in str(error), f"the message does not name {name!r}:", error)
    else:
        need(False, "expected", expected["error"], "found", result)


# ---- datasets

def function(name, arg):
    def like(x):
        return np.asarray(arg, np.asarray(x).dtype)[()]

    functions = {
        "add": lambda x: x + like(x),
        "square": lambda x: x * x,
        "less": lambda x: x < like(x),
        "equal": lambda x: x == like(x),
        "always_true": lambda *_: True,
        "fill_self": lambda x: np.full(int(x), x),
        "upper": lambda x: x.upper(),
        "component": lambda *parts: parts[arg],
        "constant": lambda *_: value(arg),
    }
    if name not in functions:
        raise NotCovered(f"function {name}")
    return functions[name]


def signature(name, arg, dataset):
    """The output spec of a map function."""
    if name == "upper":
        return TensorSpec((), bytes)
    if name == "constant":
        return spec_of([value(arg)])
    spec = dataset.element_spec
    if name == "component":
        return spec[arg]
    return TensorSpec((None,), spec.dtype) if name == "fill_self" else spec


def transform(dataset, node, op):
    """One op with an `input`, which is `dataset`."""
    def given(**names):
        """The arguments of the case under the names that the method has for them."""
        known(node, ("op", "input", *names))
        return {name: node[key] for key, name in names.items() if key in node}

    if op == "map":
        known(node, ("op", "input", "fn", "arg"))
        name, arg = node["fn"], node.get("arg")
        return dataset.map(function(name, arg), output_signature=signature(name, arg, dataset))
    if op == "filter":
        known(node, ("op", "input", "fn", "arg"))
        return dataset.filter(function(node["fn"], node.get("arg")))
    if op == "apply":
        known(node, ("op", "input", "transformation"))
        inner = node["transformation"]
        return dataset.apply(lambda d: transform(d, inner, inner["op"]))
    if op == "concatenate":
        known(node, ("op", "input", "other"))
        return dataset.concatenate(build(node["other"]))
    methods = {
        "batch": {"batch_size": "batch_size", "drop_remainder": "drop_remainder"},
        "repeat": {"count": "count"},
        "enumerate": {"start": "start"},
        "prefetch": {"buffer_size": "buffer_size"},
        "shard": {"num_shards": "num_shards", "index": "index"},
        "skip": {"count": "count"},
        "take": {"count": "count"},
        "shuffle": {"buffer_size": "buffer_size", "seed": "seed",
                    "reshuffle_each_iteration": "reshuffle_each_iteration"},
    }
    if op not in methods:
        raise NotCovered(f"op {op}")
    return getattr(dataset, op)(**given(**methods[op]))


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
        known(node, ("op", "elements"))
        elements = [value(element) for element in node["elements"]]
        return Dataset.from_generator(lambda: elements, output_signature=spec_of(elements))
    if op == "records":
        known(node, ("op", "files"))
        return (tutti.data.TFRecordDataset(record_files(node["files"]))
                .map(lambda record: np.frombuffer(record, np.int64)[0],
                     output_signature=TensorSpec((), np.int64)))
    if op == "zip":
        known(node, ("op", "inputs"))
        return Dataset.zip(datasets(node["inputs"]))
    if "input" not in node:
        raise NotCovered(f"op {op}")
    return transform(build(node["input"]), node, op)


_folder = tempfile.TemporaryDirectory(prefix="tutti-conformance-")
_record_files = {}
_record_files_lock = threading.Lock()


def record_files(lists):
    """A TFRecord file for each list of numbers; the same lists give the same files, also to several
    workers at once."""
    with _record_files_lock:
        key = json.dumps(lists)
        if key not in _record_files:
            paths = [f"{_folder.name}/{len(_record_files)}-{i}" for i in range(len(lists))]
            for path, items in zip(paths, lists):
                with tutti.data.TFRecordWriter(path) as writer:
                    for item in items:
                        writer.write(np.int64(item).tobytes())
            _record_files[key] = paths
        return _record_files[key]


def terminal(node):
    known(node, ("op", "input"))
    dataset = build(node["input"])
    if node["op"] == "cardinality":
        names = {tutti.data.INFINITE_CARDINALITY: "INFINITE",
                 tutti.data.UNKNOWN_CARDINALITY: "UNKNOWN"}
        return names.get(dataset.cardinality(), dataset.cardinality())
    if node["op"] == "element_spec":
        return dataset.element_spec
    raise NotCovered(f"op {node['op']}")


def expect_property(expected, node):
    known(expected, ("permutation_of", "not_identity", "two_equal_halves",
                     "two_different_permutations", "same_when_built_again", "two_permutations_of"))
    found = [int(x) for x in build(node)]
    half = len(found) // 2
    first, second = found[:half], found[half:]
    if "permutation_of" in expected:
        wanted = list(range(int(expected["permutation_of"][len("range("):-1])))
        need(sorted(found) == wanted, "expected a permutation, found", found)
        need(not expected.get("not_identity") or found != wanted, "it is the identity")
    if "two_permutations_of" in expected:
        wanted = sorted(expected["two_permutations_of"])
        need(sorted(first) == wanted and sorted(second) == wanted, "found", found)
    if "two_equal_halves" in expected:
        need(first == second, "the halves differ:", found)
    if "two_different_permutations" in expected:
        need(sorted(first) == sorted(second) and first != second, "found", found)
    if "same_when_built_again" in expected:
        need(found == [int(x) for x in build(node)], "built again it gives another order")


def run_dataset(case):
    known(case, ("name", "dataset", "expect", "dtype", "terminal", "iterate", "tolerance"))
    node, expected = case["dataset"], case["expect"]
    if isinstance(expected, dict) and "error" in expected:
        expect_error(expected, lambda: list(build(node)))
    elif case.get("terminal"):
        result = terminal(node)
        if node["op"] == "element_spec":
            compare_spec(result, expected)
        else:
            need(result == expected, "expected", expected, "found", result)
    elif isinstance(expected, dict):
        expect_property(expected, node)
    else:
        dataset = build(node)
        for _ in range(case.get("iterate", 1)):
            elements = list(dataset)
            need(len(elements) == len(expected), "expected", len(expected), "elements, found",
                 elements)
            for i, element in enumerate(elements):
                compare(element, expected[i], case.get("dtype"), case.get("tolerance", 0.0), i)


# ---- strategies

def mirrored(replicas):
    return tutti.distribute.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])


def reserved_addresses(count):
    """So many addresses of the loopback interface that nobody else gets, and the sockets that see
    to it: the ports stay bound in a way that lets a worker listen there all the same (Linux: both
    sockets have SO_REUSEADDR, and these do not listen)."""
    sockets = [socket.socket() for _ in range(count)]
    for reserved in sockets:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
    return [f"127.0.0.1:{reserved.getsockname()[1]}" for reserved in sockets], sockets


def run_workers(workers, replicas, body):
    """Calls body(strategy, worker) once per worker: several are runtimes of their own, each on a
    thread of its own."""
    if workers == 1:
        with mirrored(replicas) as strategy:
            body(strategy, 0)
        return
    addresses, sockets = reserved_addresses(workers)
    cluster = tutti.train.ClusterSpec({"worker": addresses})
    errors = [None] * workers

    def work(worker):
        resolver = tutti.distribute.cluster_resolver.SimpleClusterResolver(
            cluster, task_type="worker", task_id=worker)
        try:
            with tutti.Runtime() as runtime, runtime.as_default():
                body(tutti.distribute.MultiWorkerMirroredStrategy(
                    resolver, devices=[f"CPU:{i}" for i in range(replicas)]), worker)
        except Exception as error:  # raised below, where all workers have ended
            errors[worker] = error

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for reserved in sockets:
        reserved.close()
    for error in errors:
        if error is not None:
            raise error


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
                 "variable", "run_assign_add", "read", "copies_equal", "error"))
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
    known(described, ("value", "synchronization", "aggregation"))
    with strategy.scope():
        variable = tutti.Variable(
            value(described["value"]),
            synchronization=member(VariableSynchronization, described["synchronization"]),
            aggregation=member(VariableAggregation, described["aggregation"]))
    deltas = [value(v) for v in case["run_assign_add"]]

    def add():
        replica = tutti.distribute.get_replica_context().replica_id_in_sync_group
        variable.assign_add(deltas[replica])

    if "error" in case:
        expect_error({"error": case["error"]}, lambda: strategy.run(add))
        return
    strategy.run(add)
    compare(variable.numpy(), case["read"])
    if case.get("copies_equal"):
        for copy in variable.copies():
            compare(copy, case["read"])


# ---- devices

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


FILES = {"dataset.json": run_dataset, "distribute.json": run_distribute, "reduce.json": run_reduce,
         "values.json": run_values, "device_spec.json": run_device_spec}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                          os.environ.get("TUTTI_CONFORMANCE_DIR") or
                          pathlib.Path(__file__).resolve().parent.parent / "vectors")
    files = sorted(folder.glob("*.json"))
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
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
