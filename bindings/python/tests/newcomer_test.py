"""What a newcomer meets: names in messages, memory of other libraries, checkpoints of a job, whole
values between ranks."""

import copy
import gzip
import hashlib
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest

import numpy as np

import tutti
from tutti import errors


def on_ranks(size, body):
    """body(communicator) on a thread per rank; the results in rank order."""
    ranks = tutti.Communicator.create_local(size)
    results = [None] * size

    def run(i):
        try:
            results[i] = body(ranks[i])
        except BaseException as error:  # noqa: B902
            results[i] = error
            ranks[i].abort(str(error))  # nobody waits for it

    threads = [threading.Thread(target=run, args=(i,)) for i in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rank in ranks:
        rank.close()
    return results


class Memory:
    """What another array library's tensor shows of itself, a CPU's or not."""

    def __init__(self, array, device=(1, 0), versioned=True):
        self.array = array
        self.tensor = tutti.Tensor(array)
        self.type = device
        self.device = "cuda:3" if device[0] == 2 else "cpu"
        self.versioned = versioned
        self.dtype = array.dtype

    def __dlpack_device__(self):
        return self.type

    def __dlpack__(self, **options):
        if options and not self.versioned:
            raise TypeError("max_version is not known here")
        return self.tensor.__dlpack__(**options)


class Copying(Memory):
    def __dlpack__(self, **_):
        return self.tensor.__dlpack__(max_version=(1, 0), copy=True)


class ForeignMemoryTest(unittest.TestCase):
    def test_results_go_into_what_has_dlpack(self):
        for versioned in (True, False):
            def body(ranks, versioned=versioned):
                out = Memory(np.zeros(3, np.float32), versioned=versioned)
                given = ranks.all_reduce(Memory(np.full(3, 2, np.float32)), out=out)
                self.assertIs(given, out)
                number = Memory(np.full(2, ranks.rank, np.int64))
                ranks.broadcast(number, root=1)
                if ranks.rank == 0:
                    ranks.send(Memory(np.array([7.5])), 1)
                    got = None
                else:
                    got = Memory(np.zeros(1))
                    ranks.receive(got, 0)
                return (out.array.tolist(), number.array.tolist(),
                        None if got is None else got.array.tolist())

            self.assertEqual(on_ranks(2, body),
                             [([4, 4, 4], [1, 1], None), ([4, 4, 4], [1, 1], [7.5])])

    def test_plans_and_checkpoints_take_it(self):
        alone, = tutti.Communicator.create_local(1)
        gradients = [Memory(np.ones(2, np.float32)), Memory(np.ones(3))]
        plan = tutti.BucketPlan(alone, gradients, "sum", names=["bias", "weight"])
        self.assertEqual(repr(plan), "<bucket plan of 2 tensors (SUM) in 1 buckets, 0 steps>")
        plan.ready(0)
        plan.ready(1)
        plan.wait()
        with self.assertRaisesRegex(errors.FailedPreconditionError, r"tensor 1 \(weight\)"):
            plan.ready(1)
            plan.ready(1)
        with tempfile.TemporaryDirectory() as folder:
            state = {"w": Memory(np.arange(3.0)), "t": tutti.Tensor(np.arange(2))}
            checkpoint = tutti.train.Checkpoint(model=state)
            path = checkpoint.save(os.path.join(folder, "ckpt"))
            state["w"].array[:] = 0
            checkpoint.restore(path)
            self.assertEqual(state["w"].array.tolist(), [0, 1, 2])

    def test_what_cannot_be_written_is_refused(self):
        alone, = tutti.Communicator.create_local(1)
        ones = np.ones(2)
        fixed = np.zeros(2)
        fixed.flags.writeable = False
        with self.assertRaisesRegex(ValueError, "read-only"):
            alone.all_reduce(ones, out=Memory(fixed))
        with self.assertRaisesRegex(ValueError, "copy of itself"):
            alone.all_reduce(ones, out=Copying(np.zeros(2)))
        for use in (lambda: alone.all_reduce(ones, out=Memory(np.zeros(2), device=(2, 3))),
                    lambda: tutti.Tensor(Memory(np.zeros(2), device=(2, 3)))):
            with self.assertRaisesRegex(BufferError, r"lies on cuda:3 .*copy it there first"):
                use()

    def test_bfloat16_needs_no_detour(self):
        half = tutti.Tensor([1.5, 2.5], dtype="bfloat16")
        alone, = tutti.Communicator.create_local(1)
        total = alone.all_reduce(half)
        self.assertEqual(tutti.Tensor(total).dtype, tutti.bfloat16)
        self.assertEqual(tutti.Tensor(total).cast(np.float32).numpy().tolist(), [1.5, 2.5])

    def test_a_tracked_tensor_gives_its_memory(self):
        class Tracked(Memory):
            requires_grad = True

            def detach(self):
                return Memory(self.array)

            def __dlpack__(self, **_):
                raise BufferError("it requires grad")

        weight = Tracked(np.zeros(2))
        alone, = tutti.Communicator.create_local(1)
        alone.all_reduce(np.ones(2), out=weight)
        self.assertEqual(weight.array.tolist(), [1, 1])

    def test_batches_may_be_written_on_request(self):
        data = np.arange(4.0)
        dataset = tutti.data.Dataset.from_tensor_slices({"x": data, "n": ["a"] * 4}).batch(2)
        fixed = next(iter(dataset))
        self.assertFalse(fixed["x"].flags.writeable)
        for batch in dataset.as_numpy_iterator(writable=True):
            self.assertTrue(batch["x"].flags.writeable)
            batch["x"] += 1
            np.from_dlpack(batch["x"])
        self.assertEqual(data.tolist(), [0, 1, 2, 3])


class ValuesTest(unittest.TestCase):
    def test_whole_values_go_between_ranks(self):
        def body(ranks):
            mine = {"rank": ranks.rank, "name": "worker " * ranks.rank,
                    "losses": np.arange(ranks.rank + 1.0)}
            everyone = ranks.all_gather_value(mine)
            config = ranks.broadcast_value({"lr": 0.5} if ranks.rank == 2 else None, root=2)
            return [(v["rank"], v["name"], v["losses"].tolist()) for v in everyone], config["lr"]

        expected = [(0, "", [0]), (1, "worker ", [0, 1]), (2, "worker worker ", [0, 1, 2])]
        self.assertEqual(on_ranks(3, body), [(expected, 0.5)] * 3)

    def test_one_that_cannot_be_sent_fails_on_all_and_the_epoch_goes_on(self):
        def body(ranks):
            try:
                ranks.all_gather_value(object() if ranks.rank == 1 else 1)
            except errors.Error as error:
                return str(error), int(ranks.all_reduce(np.int64(1)))
            return None

        failed = on_ranks(2, body)
        self.assertIn("rank 1 has no value", failed[0][0])
        self.assertEqual([count for _, count in failed], [2, 2])

    def test_values_come_back_from_their_bytes(self):
        value = {"a": [1, 2.5], "b": ("text", np.arange(3))}
        again = tutti.io.parse_value(tutti.io.serialize_value(value))
        self.assertEqual((again["a"], again["b"][0], again["b"][1].tolist()),
                         ([1, 2.5], "text", [0, 1, 2]))
        with self.assertRaisesRegex(errors.InvalidArgumentError, "2 bytes are no value"):
            tutti.io.parse_value(b"\xff\xff")

    def test_datasets_and_tensors_pickle(self):
        dataset = tutti.data.Dataset.range(7).skip(2).batch(2)
        again = pickle.loads(pickle.dumps(dataset))
        self.assertEqual([x.tolist() for x in again], [x.tolist() for x in dataset])
        for value, dtype in (([[1, 2]], np.int16), ([b"a", b"bc"], bytes), ([1.5], "bfloat16"),
                             (3.0, np.float64)):
            tensor = tutti.Tensor(value, dtype=dtype)
            self.assertTrue(pickle.loads(pickle.dumps(tensor)).equal(tensor))
        mapped = dataset.map(lambda x: x, native=False)
        with self.assertRaises(errors.FailedPreconditionError):
            pickle.dumps(mapped)
        self.assertIs(copy.deepcopy(mapped), mapped)
        self.assertEqual(copy.copy(tensor).address, tensor.address)
        self.assertNotEqual(copy.deepcopy(tensor).address, tensor.address)

    def test_an_exception_says_at_which_element(self):
        dataset = tutti.data.Dataset.from_tensor_slices([1, 2, 0, 4]).map(lambda x: 1 // int(x))
        with self.assertRaises(ZeroDivisionError) as caught:
            list(dataset)
        if sys.version_info >= (3, 11):
            self.assertEqual(caught.exception.__notes__, ["in map: element 2"])

    def test_an_exception_says_at_which_record_of_which_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "numbers.txt")
            with open(path, "w") as lines:
                lines.write("1\n2\nx\n4\n")
            for calls in (None, 2):
                numbers = tutti.data.TextLineDataset(path).skip(1).map(
                    lambda line: int(line), num_parallel_calls=calls)
                with self.assertRaises(ValueError) as caught:
                    list(numbers)
                if sys.version_info >= (3, 11):
                    self.assertEqual(caught.exception.__notes__,
                                     [f'in map: element 1 (record 2 of "{path}")'])
            examples = tutti.data.TextLineDataset(path).map(tutti.data.parse_example(
                {"x": tutti.data.FixedLenFeature((), np.int64)}))
            with self.assertRaisesRegex(errors.Error, "record 0 of .*numbers.txt") as caught:
                list(examples)
            self.assertEqual(caught.exception.details["source_file"], path)


class NamesTest(unittest.TestCase):
    def test_the_nearest_name_is_said(self):
        dataset = tutti.data.Dataset.range(2)
        alone, = tutti.Communicator.create_local(1)
        for use, nearest in ((lambda: dataset.shufle(2), "shuffle"),
                             (lambda: alone.allreduce(1), "all_reduce"),
                             (lambda: tutti.data.Datset, "Dataset"),
                             (lambda: tutti.Communicater, "Communicator"),
                             (lambda: tutti.distribute.get_strategy().runn, "run"),
                             (lambda: tutti.distribute.MirorredStrategy, "MirroredStrategy")):
            with self.assertRaisesRegex(AttributeError, f"did you mean '{nearest}'"):
                use()
        self.assertFalse(hasattr(dataset, "wholly_else"))

    def test_messages_have_the_names_of_the_package(self):
        alone, = tutti.Communicator.create_local(1)
        uses = (lambda: tutti.data.Dataset.range("x"), lambda: alone.all_reduce(1, op="sum", out=3),
                lambda: tutti.data.Dataset.range(3).batch(-1), lambda: alone.split("red"),
                lambda: tutti.Tensor([1, 2]).slice(5, 9), lambda: tutti.config.set("log_levl", 1),
                lambda: tutti.data.Dataset.range(3).batch(2, name=5))
        for use in uses:
            with self.assertRaises(Exception) as caught:
                use()
            self.assertIsNone(
                re.search(r"\b(tutti_\w+|(communicator|dataset|tensor|runtime|variable)_\w+)",
                          str(caught.exception)), caught.exception)

    def test_objects_say_what_they_are(self):
        alone, = tutti.Communicator.create_local(1)
        self.assertEqual(repr(alone), "<Communicator, rank 0 of 1, epoch 1, in_process>")
        future = tutti.Future()
        self.assertEqual(repr(future), "<Future, under way>")
        future.set_result(1)
        self.assertEqual(repr(future), "<Future, done>")
        with tutti.Runtime() as runtime:
            self.assertEqual(repr(runtime), "<Runtime, running>")
        self.assertEqual(repr(runtime), "<Runtime, shut down>")

    def test_a_misspelt_variable_is_warned_of_once(self):
        text = "import tutti; tutti.config.get('log_level'); tutti.Runtime().shutdown()"
        run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                             env={**os.environ, "TUTTI_LOG_LEVL": "debug", "TUTTI_MINE": "1"},
                             check=True)
        self.assertEqual(run.stderr.count("TUTTI_LOG_LEVL is not known; did you mean "
                                          "TUTTI_LOG_LEVEL?"), 1, run.stderr)
        self.assertNotIn("TUTTI_MINE", run.stderr)


class JobTest(unittest.TestCase):
    def test_a_strategy_has_its_cluster_and_a_communicator(self):
        strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        self.assertIsNone(strategy.cluster)
        self.assertEqual((strategy.communicator.rank, strategy.communicator.size), (0, 1))

    def test_a_program_without_a_cluster_is_a_job_of_one(self):
        text = """
            import numpy, tutti
            with tutti.Cluster.join() as cluster, tutti.Communicator.create(cluster) as ranks:
                assert (cluster.worker, cluster.num_workers) == (0, 1)
                assert ranks.all_reduce(numpy.ones(2)).tolist() == [1, 1]
        """
        variables = {k: v for k, v in os.environ.items() if k != "TF_CONFIG"}
        subprocess.run([sys.executable, "-c", textwrap.dedent(text)], env=variables, check=True)

    def test_checkpoints_of_a_communicator_are_of_all_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            def body(ranks):
                weights = np.full(2, 5.0)
                steps = iter(tutti.data.Dataset.range(9).shard(2, ranks.rank))
                next(steps)
                checkpoint = tutti.train.Checkpoint(communicator=ranks, w=weights, steps=steps)
                path = checkpoint.save(os.path.join(folder, "ckpt"))
                weights[:] = 0
                before = next(steps)
                checkpoint.restore(path)
                return weights.tolist(), int(before), int(next(steps)), path

            results = on_ranks(2, body)
            self.assertEqual([r[:3] for r in results], [([5, 5], 2, 2), ([5, 5], 3, 3)])
            files = sorted(os.listdir(folder))
            self.assertIn("ckpt-1.worker-1-of-2.safetensors", files)

    def test_in_a_job_of_several_one_for_oneself_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            text = """
                import numpy, sys, tutti
                checkpoint = tutti.train.Checkpoint(w=numpy.zeros(2))
                for save in (lambda: checkpoint.save(sys.argv[1] + "/a"),
                             lambda: checkpoint.write(sys.argv[1] + "/a.safetensors")):
                    try:
                        save()
                    except tutti.errors.FailedPreconditionError as error:
                        assert "worker 1 of 2 of a job, as TF_CONFIG says" in str(error), error
                        assert "overwrite each other's files" in str(error), error
                        assert "communicator" in str(error), error
                    else:
                        sys.exit("it was saved")
                alone, = tutti.Communicator.create_local(1)
                own = tutti.train.Checkpoint(communicator=alone, w=numpy.zeros(2))
                own.save(sys.argv[1] + "/b")
            """
            config = {"cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:2"]},
                      "task": {"type": "worker", "index": 1}}
            subprocess.run([sys.executable, "-c", textwrap.dedent(text), folder], check=True,
                           env={**os.environ, "TF_CONFIG": json.dumps(config)})
            self.assertNotIn("a-1.json", os.listdir(folder))


class ExamplesTest(unittest.TestCase):
    def test_what_is_written_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "train.tfrecord")
            with tutti.data.ExampleWriter(path) as examples:
                for i in range(3):
                    examples.write({"image": np.full((2, 2), i, np.float32), "label": i,
                                    "name": f"digit {i}"})
            parsed = tutti.data.TFRecordDataset(path).map(tutti.data.parse_example({
                "image": tutti.data.FixedLenFeature((2, 2), np.float32),
                "label": tutti.data.FixedLenFeature((), np.int64),
                "name": tutti.data.FixedLenFeature((), bytes)}))
            read = [(e["image"].tolist(), int(e["label"]), e["name"]) for e in parsed]
            self.assertEqual(read[2], ([[2, 2], [2, 2]], 2, b"digit 2"))

    def test_the_digits_are_made_by_it(self):
        data = pathlib.Path(__file__).resolve().parents[3] / "examples" / "data"
        shards = [sorted(data.glob("digits-*.tfrecord"))[i] for i in range(8)]
        features = {"image": tutti.data.FixedLenFeature((64,), np.float32),
                    "label": tutti.data.FixedLenFeature((), np.int64)}
        rows = {}
        for i, shard in enumerate(shards):
            parsed = tutti.data.TFRecordDataset(shard).map(tutti.data.parse_example(features))
            for j, example in enumerate(parsed):
                rows[8 * j + i] = [*example["image"].astype(int), int(example["label"])]
        order = sorted(range(len(rows)), key=lambda i: hashlib.sha256(b"digit %d" % i).digest())
        lines = [""] * len(rows)
        for at, index in enumerate(order):
            lines[index] = ",".join(map(str, rows[at]))
        with tempfile.TemporaryDirectory() as folder:
            table = os.path.join(folder, "digits.csv.gz")
            with gzip.open(table, "wt", encoding="ascii") as out:
                out.write("\n".join(lines))
            subprocess.run([sys.executable, "-B", str(data / "make_digits.py"), table, "--out",
                            folder], check=True, capture_output=True)
            for shard in shards:
                self.assertEqual((pathlib.Path(folder) / shard.name).read_bytes(),
                                 shard.read_bytes(), shard.name)

    def test_the_bytes_are_those_of_the_message(self):
        # Example.features {key: "a", value.int64_list [1]}, all of them field 1 but the last, 3.
        self.assertEqual(tutti.io.make_example({"a": 1}).hex(), "0a0c0a0a0a016112051a030a0101")
        self.assertEqual(tutti.io.make_example({"b": "x", "a": [1, 300]}),
                         tutti.io.make_example({"a": np.array([1, 300]), "b": b"x"}))
        with self.assertRaisesRegex(errors.InvalidArgumentError, 'feature "c"'):
            tutti.io.make_example({"c": 1j})


if __name__ == "__main__":
    unittest.main()
