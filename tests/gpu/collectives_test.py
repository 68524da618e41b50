"""Collectives of tensors on GPUs in Python, with a fake driver that has two.

    collectives_test.py FAKE_DRIVER FAKE_NCCL OLD_NCCL      (PYTHONPATH leads to the package)
"""

import ctypes
import os
import subprocess
import sys
import threading
import unittest

FAKE = sys.argv.pop(1)
NCCL = sys.argv.pop(1)
OLD_NCCL = sys.argv.pop(1)
os.environ["TUTTI_CUDA_DRIVER"] = FAKE
os.environ["TUTTI_NCCL_LIBRARY"] = NCCL

import numpy as np  # noqa: E402, after the variable is set
import tutti  # noqa: E402


class CollectivesTest(unittest.TestCase):
    def setUp(self):
        self.ranks = tutti.Communicator.create_local(2)
        self.there = [tutti.Tensor(np.arange(4, dtype=np.float32) + rank).copy_to(f"GPU:{rank}")
                      for rank in range(2)]

    def run_ranks(self, body):
        results = [None, None]

        def run(rank):
            try:
                results[rank] = body(self.ranks[rank], self.there[rank])
            except tutti.errors.Error as error:
                results[rank] = error

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    def check(self, results, *expected):
        for rank, (result, values) in enumerate(zip(results, expected)):
            self.assertIsInstance(result, tutti.Tensor, result)
            self.assertTrue(result.device.endswith(f"/device:GPU:{rank}"), result.device)
            self.assertEqual(result.numpy().tolist(), values)

    def test_results_lie_on_the_gpu_of_each_rank(self):
        total = [1, 3, 5, 7]
        self.check(self.run_ranks(lambda c, x: c.all_reduce(x, timeout=60)), total, total)
        self.check(self.run_ranks(lambda c, x: c.all_reduce_many([x, x], "max", timeout=60)[1]),
                   [1, 2, 3, 4], [1, 2, 3, 4])
        self.check(self.run_ranks(lambda c, x: c.all_reduce_async(x, timeout=60).result()),
                   total, total)
        self.check(self.run_ranks(lambda c, x: c.reduce_scatter(x, timeout=60)), [1, 3], [5, 7])
        joined = [0, 1, 2, 3, 1, 2, 3, 4]
        self.check(self.run_ranks(lambda c, x: c.all_gather(x, timeout=60)), joined, joined)
        self.check(self.run_ranks(lambda c, x: c.all_to_all(x, timeout=60)),
                   [0, 1, 1, 2], [2, 3, 3, 4])
        self.check(self.run_ranks(lambda c, x: c.broadcast(x.copy(), 1, timeout=60)),
                   [1, 2, 3, 4], [1, 2, 3, 4])
        self.check(self.run_ranks(lambda c, x: c.all_reduce(x, out=x, timeout=60)), total, total)

        def passed(rank, tensor):
            if rank.rank == 0:
                rank.send(tensor, 1, timeout=60)
                return tensor
            return rank.receive(tensor, 0, timeout=60)
        self.check(self.run_ranks(passed), total, total)

    def test_nccl_is_used_where_it_is_asked_for(self):
        count = ctypes.CDLL(NCCL).tutti_fake_nccl_count_things
        options = tutti.distribute.experimental.CommunicationOptions(
            timeout_seconds=60,
            implementation=tutti.distribute.experimental.CommunicationImplementation.NCCL)
        total = [1, 3, 5, 7]
        self.check(self.run_ranks(lambda c, x: c.all_reduce(x, timeout=60)), total, total)
        self.assertEqual(count(), 0)
        self.check(self.run_ranks(lambda c, x: c.all_reduce(x, options=options)), total, total)
        self.assertEqual(count(), 2)
        for rank in self.ranks:
            rank.close()
        self.assertEqual(count(), 0)

    def test_ranks_that_disagree_are_told_so(self):
        errors = self.run_ranks(lambda c, x: c.all_reduce(
            x if c.rank == 1 else x.copy_to("CPU:0"), timeout=60))
        for error in errors:
            self.assertIsInstance(error, tutti.errors.InvalidArgumentError)
            self.assertRegex(str(error), "rank 1: all_reduce #1 got tensors on a GPU, rank 0 on "
                                         "the host; let the tensors of a call lie on GPUs on all")

    def test_the_tensors_of_a_call_lie_on_one_device(self):
        with self.assertRaisesRegex(
                tutti.errors.InvalidArgumentError,
                "rank 0: all_reduce #1: the tensor float32.4. lies on .*GPU:1, and the tensor "
                "float32.4. of the same call on .*GPU:0; the tensors of a rank's call lie on one "):
            self.ranks[0].all_reduce(self.there[0], out=self.there[1], timeout=60)

    def test_an_nccl_that_is_too_old_says_which_would_do(self):
        told = subprocess.run(
            [sys.executable, "-c",
             "import tutti; print(tutti.config.describe_plugins()[0]['nccl_reason'])"],
            capture_output=True, text=True, check=True, timeout=100,
            env={**os.environ, "TUTTI_NCCL_LIBRARY": OLD_NCCL}).stdout
        self.assertRegex(told, r"NCCL 2\.17\.3 \(.*, from TUTTI_NCCL_LIBRARY\) is too old; 2\.18 "
                               "or newer is needed: install one")

    def test_a_closed_one_refuses(self):
        rank = self.ranks[0]
        rank.close()
        with self.assertRaisesRegex(tutti.errors.FailedPreconditionError, "after close"):
            rank.all_reduce(self.there[0])


if __name__ == "__main__":
    unittest.main()
