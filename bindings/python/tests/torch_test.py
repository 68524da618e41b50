"""PyTorch's tensors are taken where arrays are, and batches become tensors, without a copy where
that can be. Where PyTorch is not installed it ends with 77."""

import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import numpy as np

try:
    import torch
except ImportError:
    torch = None

import tutti

if torch is None:
    print("PyTorch is not installed")
    sys.exit(77)


def on_ranks(count, body):
    """What body(rank) gives, of the ranks of one process."""
    results = [None] * count

    def run(i, ranks):
        with ranks:  # who fails says so to the others
            results[i] = body(ranks)

    all_ranks = tutti.Communicator.create_local(count)
    threads = [threading.Thread(target=run, args=(i, ranks)) for i, ranks in enumerate(all_ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class CollectivesTest(unittest.TestCase):
    def test_results_are_written_where_tensors_lie(self):
        for dtype in (torch.float32, torch.float64, torch.int64, torch.int32, torch.bfloat16,
                      torch.float16, torch.uint8):
            def body(ranks):
                out = torch.zeros(3, dtype=dtype)
                where = out.data_ptr()
                ranks.all_reduce(torch.tensor([1, 2, 3], dtype=dtype), out=out)
                sent = torch.full((2,), ranks.rank + 5, dtype=dtype)
                ranks.broadcast(sent, root=1)
                if ranks.rank == 0:
                    ranks.send(torch.tensor([7], dtype=dtype), 1)
                    got = 7
                else:
                    received = torch.zeros(1, dtype=dtype)
                    ranks.receive(received, 0)
                    got = int(received)
                gathered = torch.zeros(4, dtype=dtype)
                ranks.all_gather(torch.full((2,), ranks.rank, dtype=dtype), out=gathered)
                return (out.tolist(), out.data_ptr() == where, sent.tolist(), got,
                        gathered.tolist())

            for result in on_ranks(2, body):
                self.assertEqual(result, ([2, 4, 6], True, [6, 6], 7, [0, 0, 1, 1]), dtype)

    def test_parameters_that_want_gradients_are_broadcast(self):
        def body(ranks):
            layer = torch.nn.Linear(2, 1)
            with torch.no_grad():
                layer.weight.fill_(ranks.rank)
            ranks.broadcast(layer.weight)
            return layer.weight.tolist()

        self.assertEqual(on_ranks(2, body), [[[0, 0]], [[0, 0]]])

    def test_a_bucket_plan_reduces_gradients_in_place(self):
        def body(ranks):
            gradients = [torch.full((3,), ranks.rank + 1.0, dtype=torch.bfloat16),
                         torch.full((2, 2), 2.0 * ranks.rank)]
            plan = tutti.BucketPlan(ranks, gradients, "mean", names=["bias", "weight"])
            for i in range(2):
                plan.ready(i)
            plan.wait()
            return [gradient.tolist() for gradient in gradients]

        self.assertEqual(on_ranks(2, body), [[[1.5] * 3, [[1, 1], [1, 1]]]] * 2)

    def test_whole_values_may_hold_tensors(self):
        sent = on_ranks(2, lambda ranks: ranks.broadcast_value(
            {"w": torch.tensor([1.5, 2.5])} if ranks.rank == 0 else None))
        self.assertEqual([value["w"].tolist() for value in sent], [[1.5, 2.5]] * 2)

    def test_what_is_on_another_device_is_refused_by_its_name(self):
        alone, = tutti.Communicator.create_local(1)
        device = "cuda" if torch.cuda.is_available() else "meta"
        with self.assertRaisesRegex(Exception, device):
            alone.all_reduce(torch.ones(2, device=device))
        with self.assertRaisesRegex(Exception, device):
            alone.broadcast(torch.ones(2, device=device))


class CheckpointTest(unittest.TestCase):
    def test_dicts_of_tensors_and_numbers_come_back(self):
        model = torch.nn.Linear(3, 2)
        kept = {name: value.clone() for name, value in model.state_dict().items()}
        step = torch.tensor(7)
        half = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = tutti.train.Checkpoint(model=model.state_dict(), step=step, half=half)
            path = checkpoint.save(os.path.join(folder, "model"))
            with torch.no_grad():
                for value in model.parameters():
                    value.zero_()
                step.zero_()
                half.zero_()
            checkpoint.restore(path)
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, kept[name]), name)
        self.assertEqual((int(step), half.tolist()), (7, [1.5, -2.0]))


class DatasetTest(unittest.TestCase):
    def test_batches_become_tensors_without_a_warning(self):
        numbers = torch.arange(6, dtype=torch.float32).reshape(3, 2)
        dataset = tutti.data.Dataset.from_tensor_slices({"x": numbers, "y": torch.arange(3)})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for take in (torch.from_numpy, torch.from_dlpack, torch.as_tensor):
                batch, = dataset.batch(3).as_numpy_iterator(writable=True)
                made = take(batch["x"])
                made += 1  # of its own
                self.assertEqual(made.tolist(), [[1, 2], [3, 4], [5, 6]])
                self.assertEqual(take(batch["y"]).tolist(), [0, 1, 2])
        self.assertEqual(numbers[0].tolist(), [0, 1])

    def test_tensors_go_both_ways_by_dlpack(self):
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
            there = torch.tensor([[1, 0], [0, 1]], dtype=dtype)
            here = tutti.Tensor(there)
            self.assertEqual(torch.from_dlpack(here.copy()).tolist(), there.tolist())

    def test_a_function_of_a_dataset_may_give_tensors(self):
        mapped = tutti.data.Dataset.range(3).map(lambda x: torch.full((2,), float(x)))
        self.assertEqual([row.tolist() for row in mapped], [[0, 0], [1, 1], [2, 2]])

    def test_a_loader_with_processes_of_its_own_reads_a_dataset(self):
        program = pathlib.Path(__file__).with_name("torch_loader.py")
        done = subprocess.run([sys.executable, "-B", program], capture_output=True, text=True,
                              timeout=240)
        self.assertEqual((done.returncode, done.stdout), (0, "[0, 1, 2, 3, 4, 5]\n"), done.stderr)


class ReplicasTest(unittest.TestCase):
    def test_replicas_reduce_tensors(self):
        strategy = tutti.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

        def step():
            context = tutti.distribute.get_replica_context()
            gradient = torch.full((2,), context.replica_id_in_sync_group + 1.0)
            return np.asarray(context.all_reduce("sum", gradient))

        self.assertEqual([value.tolist() for value in strategy.run(step).values], [[3, 3]] * 2)


if __name__ == "__main__":
    unittest.main()
