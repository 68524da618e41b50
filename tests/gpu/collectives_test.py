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

    def test_futures_and_groups(self):
        nccl = tutti.distribute.experimental.CommunicationOptions(
            implementation=tutti.distribute.experimental.CommunicationImplementation.NCCL)
        for options in None, nccl:
            self.setUp()

            def body(c, x, options=options):
                peer, theirs, more = 1 - c.rank, x.copy(), x.copy()
                # Not both send first.
                moves = [c.send_async(x, peer, 60) if c.rank == turn
                         else c.receive_async(theirs, peer, 60) for turn in range(2)]
                sums = c.all_reduce_many_async([x, more], "max", timeout=60, options=options)
                joined = c.all_gather_async(x, timeout=60, options=options)
                for move in moves:
                    move.result()
                self.assertEqual(theirs.numpy().tolist(), [peer, peer + 1, peer + 2, peer + 3])
                for one in sums.result():
                    self.assertEqual(one.numpy().tolist(), [1, 2, 3, 4])
                part = c.split(0, -c.rank)
                turned = part.all_gather(x, timeout=60, options=options)
                self.assertEqual(turned.numpy().tolist(), [1, 2, 3, 4, 0, 1, 2, 3])
                part.close()
                return joined.result()
            joined = [0, 1, 2, 3, 1, 2, 3, 4]
            self.check(self.run_ranks(body), joined, joined)

    def test_calls_keep_the_order_of_a_stream(self):
        class Torchs:
            def __init__(self, stream):
                self.cuda_stream = stream.handle

        class Cupys:
            def __init__(self, stream):
                self.ptr = stream.handle

        class Default:
            ptr = 0

        total = [1, 3, 5, 7]
        own = [tutti.Stream(f"GPU:{rank}") for rank in range(2)]
        for kind in (lambda stream: stream, lambda stream: stream.handle, Torchs, Cupys,
                     lambda stream: Default, lambda stream: 1):
            self.check(self.run_ranks(lambda c, x, kind=kind: c.all_reduce(
                x, timeout=60, stream=kind(own[c.rank]))), total, total)
        self.check(self.run_ranks(lambda c, x: c.all_reduce_async(
            x, timeout=60, stream=own[c.rank]).result()), total, total)
        joined = [0, 1, 2, 3, 1, 2, 3, 4]
        every = [
            lambda c, x, s: c.all_reduce_many([x, x], timeout=60, stream=s)[1],
            lambda c, x, s: c.all_reduce_many_async([x, x], timeout=60, stream=s).result()[1],
            lambda c, x, s: c.all_gather(x, timeout=60, stream=s),
            lambda c, x, s: c.all_gather_async(x, timeout=60, stream=s).result(),
            lambda c, x, s: c.reduce_scatter(x, timeout=60, stream=s),
            lambda c, x, s: c.reduce_scatter_async(x, timeout=60, stream=s).result(),
            lambda c, x, s: c.all_to_all(x, timeout=60, stream=s),
            lambda c, x, s: c.all_to_all(x, [2, 2], timeout=60, stream=s)[0],
            lambda c, x, s: c.all_to_all_async(x, timeout=60, stream=s).result(),
            lambda c, x, s: c.broadcast(x.copy(), 1, 60, stream=s),
            lambda c, x, s: c.broadcast_async(x.copy(), 1, 60, stream=s).result(),
        ]
        expected = [(total, total)] * 2 + [(joined, joined)] * 2 + [([1, 3], [5, 7])] * 2
        expected += [([0, 1, 1, 2], [2, 3, 3, 4])] * 3 + [([1, 2, 3, 4], [1, 2, 3, 4])] * 2
        for call, values in zip(every, expected):
            self.check(self.run_ranks(lambda c, x, call=call: call(c, x, own[c.rank])), *values)

        def at_root(c, x):
            s = own[c.rank]
            made = [c.reduce(x, root=0, timeout=60, stream=s),
                    c.reduce_async(x, root=0, timeout=60, stream=s).result(),
                    c.gather(x, 0, 60, stream=s), c.gather_async(x, 0, 60, stream=s).result()]
            if c.rank == 0:
                self.assertEqual([one.numpy().tolist() for one in made],
                                 [total, total, joined, joined])
                c.send(x, 1, 60, stream=s)
                c.send_async(x, 1, 60, stream=s).result()
            else:
                c.receive(x, 0, 60, stream=s)
                c.receive_async(x, 0, 60, stream=s).result()
            half = tutti.Tensor(np.zeros(2, np.float32)).copy_to(x.device)
            c.scatter(x, 0, half, 60, stream=s)
            c.scatter_async(x, 0, half, 60, stream=s).result()
            return half
        self.check(self.run_ranks(at_root), [0, 1], [2, 3])

    def test_another_devices_stream_is_refused(self):
        alone, = tutti.Communicator.create_local(1)
        with self.assertRaisesRegex(tutti.errors.InvalidArgumentError,
                                    "the stream is one of GPU:1, and the tensors lie on GPU:0; "
                                    "pass one of theirs"):
            alone.all_reduce(self.there[0], stream=tutti.Stream("GPU:1"))
        alone, = tutti.Communicator.create_local(1)
        for stream in tutti.Stream("GPU:1"), 1:
            with self.assertRaisesRegex(tutti.errors.InvalidArgumentError,
                                        "no tensor of the call lies on a GPU"):
                alone.all_reduce(np.zeros(2), stream=stream)
        alone, = tutti.Communicator.create_local(1)
        with self.assertRaisesRegex(tutti.errors.InvalidArgumentError, "stream 0 says nothing"):
            alone.all_reduce(self.there[0], stream=0)

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
