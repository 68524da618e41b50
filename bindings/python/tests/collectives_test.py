"""Every collective of a communicator, at once and later; groups, epochs and bucket plans."""

import asyncio
import concurrent.futures
import gc
import subprocess
import sys
import threading
import unittest

import numpy as np

import tutti
from tutti import errors

from multi_worker_test import Job, run

HANG_S = 60
RANKS = 3


def on_all(work, ranks=RANKS):
    """Runs work(communicator) on a thread per rank; the results in order."""
    communicators = tutti.Communicator.create_local(ranks)
    with concurrent.futures.ThreadPoolExecutor(ranks) as pool:
        return [f.result(HANG_S) for f in [pool.submit(work, c) for c in communicators]]


def plain(result):
    """A result as lists, which compare."""
    if isinstance(result, (tuple, list)):
        return [plain(part) for part in result]
    return None if result is None else np.asarray(result).tolist()


class Foreign:
    """An array of another library, which speaks DLPack and nothing of NumPy's."""

    def __init__(self, array):
        self.tensor = tutti.Tensor(array)

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)


# One call of every kind: how it is made, and what rank r of three gets. Each has an _async form.
CALLS = {
    "all_reduce": (lambda c, call: call(np.full(2, c.rank + 1.0), "prod"),
                   lambda r: [6.0, 6.0]),
    "all_reduce_many": (lambda c, call: call([np.full(2, c.rank), np.float32(c.rank), [True]],
                                             "max"),
                        lambda r: [[2, 2], 2.0, [True]]),
    "reduce": (lambda c, call: call([c.rank, 1], "sum", root=1),
               lambda r: [3, 3] if r == 1 else None),
    "reduce_scatter": (lambda c, call: call(np.arange(6.0).reshape(6, 1) * c.rank, "mean"),
                       lambda r: [[2.0 * r], [2.0 * r + 1]]),
    "broadcast": (lambda c, call: call(np.full(3, c.rank, np.int16), root=2),
                  lambda r: [2, 2, 2]),
    "all_gather": (lambda c, call: call(np.full((c.rank, 1), c.rank)),
                   lambda r: [[1], [2], [2]]),
    "gather": (lambda c, call: call(np.full(c.rank, c.rank), root=1),
               lambda r: [1, 2, 2] if r == 1 else None),
    "scatter": (lambda c, call: call(np.arange(6)) if c.rank == 0 else
                call(out=np.empty(2, np.int64)),
                lambda r: [2 * r, 2 * r + 1]),
    "all_to_all": (lambda c, call: call(np.arange(3) + 10 * c.rank),
                   lambda r: [r, 10 + r, 20 + r]),
    "barrier": (lambda c, call: call(), lambda r: None),
}


class CollectivesTest(unittest.TestCase):
    def test_every_rank_gets_what_the_collective_says(self):
        for name, (use, expected) in CALLS.items():
            with self.subTest(name):
                results = on_all(lambda c: plain(use(c, getattr(c, name))))
                self.assertEqual(results, [expected(r) for r in range(RANKS)])

    def test_every_asynchronous_form_gives_the_same(self):
        for name, (use, expected) in CALLS.items():
            with self.subTest(name):
                def work(c):
                    future = use(c, getattr(c, name + "_async"))
                    self.assertIsInstance(future, tutti.Future)
                    return plain(future.result(HANG_S))

                self.assertEqual(on_all(work), [expected(r) for r in range(RANKS)])

    def test_many_calls_run_in_the_order_of_issue(self):
        def work(c):
            array = np.ones(100)
            futures = []
            for _ in range(10):  # each triples what the one before it left
                futures.append(c.all_reduce_async(array, "sum", out=array))
            gathered = c.all_gather(np.full(1, c.rank))  # waits for its turn
            self.assertTrue(all(future.done() for future in futures))
            self.assertIs(futures[-1].result(), array)
            return array[0], gathered.tolist()

        self.assertEqual(on_all(work), [(3.0 ** 10, [0, 1, 2])] * RANKS)

    def test_bits_fold(self):
        def work(c):
            value = np.array([1 << c.rank, 7], np.uint8)
            return [c.all_reduce(value, op).tolist() for op in
                    ("band", tutti.ReduceOp.BOR, "BXOR")], c.all_reduce(np.bool_(c.rank), "bor")

        for bits, truth in on_all(work):
            self.assertEqual(bits, [[0, 7], [7, 7], [7, 7]])
            self.assertTrue(truth)
        communicator, = tutti.Communicator.create_local(1)
        with self.assertRaises(errors.InvalidArgumentError):
            communicator.all_reduce(np.ones(2), "band")

    def test_a_value_of_foreign_byte_order_gives_a_native_result(self):
        def work(c):
            value = np.arange(6).astype(">f8")
            results = [c.all_reduce(value), c.all_reduce_many([value])[0], c.reduce_scatter(value),
                       c.all_to_all(value), c.all_reduce_async(value).result(HANG_S),
                       c.reduce_scatter_async(value).result(HANG_S),
                       c.all_to_all_async(value).result(HANG_S)]
            self.assertEqual({r.dtype.str for r in results}, {np.dtype(np.float64).str})
            return plain(results)

        for r, results in enumerate(on_all(work)):
            summed = [3.0 * i for i in range(6)]
            part = summed[2 * r:2 * r + 2]
            turned = [2.0 * r, 2.0 * r + 1] * 3
            self.assertEqual(results, [summed, summed, part, turned, summed, part, turned])

    def test_results_go_where_the_caller_says(self):
        def work(c):
            r = c.rank
            outs = [np.empty(2), np.empty((), np.int32)]
            given = c.all_reduce_many([np.ones(2), np.int32(r)], out=outs)
            self.assertIs(given[0], outs[0])
            self.assertIs(given[1], outs[1])
            total = np.zeros(4)
            self.assertIs(c.reduce(np.ones(2), root=2, out=total[::2] if r == 2 else None) is None,
                          r != 2)
            rows = np.empty((1, 2))
            self.assertIs(c.reduce_scatter(np.ones((3, 2)), out=rows), rows)
            joined = np.empty((3, 2), np.float32)
            self.assertIs(c.all_gather(np.full((1, 2), r, np.float32), out=joined), joined)
            turned = tutti.Tensor.zeros([3], np.float64)
            self.assertIs(c.all_to_all(np.full(3, float(r)), out=turned), turned)
            later = np.empty((3, 1), np.int64)
            self.assertIs(c.all_gather_async(np.full((1, 1), r), out=later).result(HANG_S), later)
            self.assertEqual(later.tolist(), [[0], [1], [2]])
            return plain([outs, total, rows, joined, turned])

        for r, result in enumerate(on_all(work)):
            self.assertEqual(result, [[[3, 3], 3], [3, 0, 3, 0] if r == 2 else [0] * 4, [[3, 3]],
                                      [[0, 0], [1, 1], [2, 2]], [0, 1, 2]])

    def test_a_part_of_the_own_array_is_written_and_read_in_place(self):
        def work(c):
            mine = slice(2 * c.rank, 2 * c.rank + 2)
            whole = np.arange(6.0)
            c.reduce_scatter(whole, out=whole[mine])
            c.all_gather(whole[mine], out=whole)
            return whole.tolist()

        self.assertEqual(on_all(work), [[0, 3, 6, 9, 12, 15]] * RANKS)

    def test_rows_go_to_ranks_in_unequal_parts(self):
        def work(c):
            r = c.rank  # r rows to rank 0, none to rank 1, one to rank 2
            joined, received = c.all_to_all(np.full((r + 1, 2), r), send_rows=[r, 0, 1])
            self.assertEqual(received.dtype, np.int64)
            return joined.tolist(), received.tolist()

        self.assertEqual(on_all(work), [
            ([[1, 1], [2, 2], [2, 2]], [0, 1, 2]), ([], [0, 0, 0]),
            ([[0, 0], [1, 1], [2, 2]], [1, 1, 1])])

    def test_transfers_are_between_two_ranks(self):
        def work(c):
            if c.rank == 0:
                c.send(np.arange(4), to=2)
                return c.receive(np.empty(1), source=2).tolist()
            if c.rank == 2:
                first = c.receive_async(np.empty(4, np.int64), source=0)
                c.send_async(first.result(HANG_S)[3:].astype(float), to=0).result(HANG_S)
            return None

        self.assertEqual(on_all(work), [[3.0], None, None])

    def test_all_ranks_in_one_coroutine(self):
        async def work():
            ranks = tutti.Communicator.create_local(RANKS)
            futures = [c.all_reduce_async(np.full(2, c.rank)) for c in ranks]
            totals = [await future for future in futures]
            self.assertEqual((await futures[0]).tolist(), [3, 3])  # once more, when it is done
            with self.assertRaises(errors.DeadlineExceededError):
                await ranks[0].barrier_async(timeout=0.01)
            return plain(totals)

        self.assertEqual(asyncio.run(work()), [[3, 3]] * RANKS)

    def test_a_coroutine_that_gives_up_leaves_the_call_alone(self):
        ranks = tutti.Communicator.create_local(2)

        async def wait(future):
            return await future

        async def work():
            given_up = asyncio.ensure_future(wait(ranks[0].all_reduce_async(np.ones(1))))
            left = asyncio.ensure_future(wait(ranks[0].all_reduce_async(np.full(1, 2.0))))
            await asyncio.sleep(0)  # both wait
            given_up.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await given_up
            return left.done()

        self.assertFalse(asyncio.run(work()))  # the loop has gone before the calls are done
        self.assertEqual(ranks[1].all_reduce(np.ones(1)).tolist(), [2.0])
        self.assertEqual(ranks[1].all_reduce(np.ones(1)).tolist(), [3.0])

    def test_callbacks_of_futures_run_on_a_thread_of_the_runtime(self):
        ranks = tutti.Communicator.create_local(2)
        told, threads = threading.Event(), []

        def tell(future):
            threads.append((threading.get_ident(), future.result().tolist()))
            told.set()

        first = ranks[0].all_reduce_async(np.ones(1))
        first.add_done_callback(tell)
        ranks[1].all_reduce_async(np.ones(1)).result(HANG_S)
        self.assertTrue(told.wait(HANG_S))
        self.assertEqual(threads[0][1], [2.0])
        self.assertNotEqual(threads[0][0], threading.get_ident())

    def test_arrays_live_until_their_call_is_done_whoever_drops_them(self):
        ranks = tutti.Communicator.create_local(2)
        out = np.zeros(1 << 16)
        ranks[0].all_reduce_async(np.ones(1 << 16), out=out)  # nobody keeps the future
        gc.collect()
        self.assertEqual(ranks[1].all_reduce(np.ones(1 << 16))[-1], 2.0)
        ranks[0].barrier_async()
        ranks[1].barrier()
        self.assertEqual(out.tolist()[-1], 2.0)

    def test_a_communicator_dropped_with_calls_under_way_ends_them(self):
        ranks = tutti.Communicator.create_local(2)
        ended = threading.Event()
        future = ranks[0].all_reduce_async(np.ones(3))
        future.add_done_callback(lambda _: ended.set())
        del ranks
        gc.collect()
        self.assertTrue(ended.wait(HANG_S))
        with self.assertRaises(errors.Error):
            future.result()

    def test_errors_of_a_call_are_those_of_its_future(self):
        first, _ = tutti.Communicator.create_local(2)
        future = first.all_reduce_async(np.ones(2), timeout=0.02)
        behind = first.barrier_async()
        with self.assertRaises(TimeoutError):
            future.result(HANG_S)
        with self.assertRaises(errors.Error):
            behind.result(HANG_S)
        with self.assertRaises(errors.Error):  # the epoch has ended
            first.barrier()

        first, second = tutti.Communicator.create_local(2)
        waiting = first.receive_async(np.empty(2), source=1)
        second.abort("enough")
        with self.assertRaisesRegex(errors.AbortedError, "enough"):
            waiting.result(HANG_S)

    def test_wrong_arguments_fail_at_issue(self):
        read_only = np.zeros(3)
        read_only.flags.writeable = False
        for error, use in [
                (TypeError, lambda c: c.broadcast_async([1, 2])),
                (ValueError, lambda c: c.all_reduce_async(read_only, out=read_only)),
                (ValueError, lambda c: c.all_reduce_async(np.ones(2), "median")),
                (ValueError, lambda c: c.all_reduce_async(np.ones(2), out=np.ones(3))),
                (TypeError, lambda c: c.all_reduce_async(np.ones(2), timeout="soon")),
                (ValueError, lambda c: c.reduce_async(np.ones(2), root=1)),
                (TypeError, lambda c: c.all_reduce_many(7)),
                (ValueError, lambda c: c.all_reduce_many([np.ones(2)], out=[])),
                (TypeError, lambda c: c.scatter()),
                (TypeError, lambda c: c.send(np.ones(1), to="me")),
                (ValueError, lambda c: c.receive(np.ones(1), source=3)),
        ]:
            with self.assertRaises(error) as caught:
                use(tutti.Communicator.create_local(1)[0])
            self.assertTrue(str(caught.exception))

    def test_wrong_rows_are_told(self):
        communicator, = tutti.Communicator.create_local(1)
        for error, rows in [(ValueError, [1, 2]), (ValueError, []), (ValueError, [3]),
                            (ValueError, [-1]), (TypeError, ["2"]), (TypeError, 2.5),
                            (OverflowError, [1 << 70])]:
            with self.subTest(rows=rows), self.assertRaises(error):
                tutti.Communicator.create_local(1)[0].all_to_all(np.ones(2), send_rows=rows)
        with self.assertRaisesRegex(TypeError, "leave out away"):
            communicator.all_to_all(np.ones(2), send_rows=[2], out=np.ones(2))
        with self.assertRaisesRegex(TypeError, "rank 1 needs out"):
            tutti.Communicator.create_local(2)[1].scatter()

    def test_calls_that_differ_between_ranks_fail_alike(self):
        def work(c):
            try:
                c.reduce_scatter(np.ones(6), "sum" if c.rank else "max")
            except errors.InvalidArgumentError as error:
                return str(error)

        first, *others = on_all(work)
        self.assertEqual([first] * 2, others)
        self.assertIn("max", first.lower())


class GroupTest(unittest.TestCase):
    def test_ranks_of_one_color_form_a_group(self):
        def work(c):
            part = c.split(None if c.rank == 1 else 4, key=-c.rank, name="outer", timeout=HANG_S)
            if part is None:
                return None
            return part.rank, part.size, part.all_gather(np.full(1, c.rank)).tolist()

        self.assertEqual(on_all(work, 4), [(2, 3, [3, 2, 0]), None, (1, 3, [3, 2, 0]),
                                           (0, 3, [3, 2, 0])])

    def test_tensors_of_a_communicator_are_zeros_and_outlive_it(self):
        def work(c):
            tensor = c.create_tensor([2, 3], np.int16)
            array = np.asarray(tensor)
            array[1] += c.rank
            c.all_reduce(array[1], out=array[1])
            c.close()
            return tensor.shape, array.tolist()

        self.assertEqual(on_all(work, 3), [((2, 3), [[0, 0, 0], [3, 3, 3]])] * 3)

    def test_a_revoked_epoch_begins_no_call(self):
        first, second = tutti.Communicator.create_local(2)
        first.revoke("we regroup")
        for communicator in (first, second):
            with self.assertRaisesRegex(errors.AbortedError, "we regroup"):
                communicator.barrier()

    def test_ranks_of_one_process_shrink_and_do_not_grow(self):
        first, second = tutti.Communicator.create_local(2)
        second.close()
        rest = first.shrink(timeout=HANG_S)
        self.assertEqual((rest.size, rest.rank, rest.epoch), (1, 0, first.epoch + 1))
        self.assertEqual(rest.all_reduce(np.ones(2)).tolist(), [1.0, 1.0])
        with self.assertRaisesRegex(errors.FailedPreconditionError, "make another group"):
            rest.grow(2)


class BucketPlanTest(unittest.TestCase):
    def test_gradients_are_reduced_in_whatever_order_they_are_ready(self):
        def work(c):
            gradients = [np.empty((4, 2)), np.empty(3, np.float32), np.empty(1)]
            plan = tutti.BucketPlan(c, gradients, op="mean", bytes_per_bucket=16)
            self.assertEqual(plan.num_buckets, 3)
            for step in range(3):
                for i in np.roll(np.arange(3), c.rank + step):
                    gradients[i][...] = c.rank * 10 + i
                    plan.ready(i)
                plan.wait(HANG_S)
                for i, gradient in enumerate(gradients):
                    self.assertEqual(set(gradient.ravel().tolist()), {10.0 + i})
            return True

        self.assertEqual(on_all(work), [True] * RANKS)

    def test_a_plan_may_make_the_gradients(self):
        def work(c):
            like = [np.empty((4, 2)), np.empty(3, np.float32), np.empty(0, np.int32)]
            plan = tutti.BucketPlan(c, like, op="sum", own_tensors=True)
            gradients = [np.asarray(tensor) for tensor in plan.tensors]
            self.assertEqual([(g.dtype, g.shape) for g in gradients],
                             [(a.dtype, a.shape) for a in like])
            for step in range(2):
                for i, gradient in enumerate(gradients):
                    gradient[...] = c.rank + i
                    plan.ready(i)
                plan.wait(HANG_S)
                for i in range(2):
                    self.assertEqual(set(gradients[i].ravel().tolist()),
                                     {float(sum(range(RANKS)) + i * RANKS)})
            del plan
            gradients[0][...] = 1
            return True

        self.assertEqual(on_all(work), [True] * RANKS)

    def test_what_a_plan_takes_as_pattern_need_not_be_writable(self):
        communicator, = tutti.Communicator.create_local(1)
        read_only = np.ones((4, 2), np.float32)
        read_only.flags.writeable = False
        swapped = np.ones(3, ">f8")
        foreign = Foreign(np.ones(5, np.int32))
        like = [read_only, swapped, foreign, tutti.Tensor.zeros([2])]
        plan = tutti.BucketPlan(communicator, like, "sum", own_tensors=True)
        self.assertEqual([(t.dtype, t.shape) for t in plan.tensors],
                         [(np.float32, (4, 2)), (np.float64, (3,)), (np.int32, (5,)),
                          (np.float32, (2,))])

    def test_a_plan_takes_its_arrays_from_any_iterable(self):
        communicator, = tutti.Communicator.create_local(1)
        arrays = [np.ones(2), np.ones(3)]
        for own in (False, True):
            plan = tutti.BucketPlan(communicator, (a for a in arrays), "sum", own_tensors=own)
            self.assertEqual([t.shape for t in plan.tensors], [(2,), (3,)])

    def test_one_bucket_holds_small_gradients(self):
        communicator, = tutti.Communicator.create_local(1)
        tensor = tutti.Tensor.zeros([3], np.float32)
        plan = tutti.BucketPlan(communicator, [np.ones(2), tensor, np.ones(5)], "sum")
        self.assertLessEqual(plan.num_buckets, 2)
        plan.ready(0)
        with self.assertRaises(errors.FailedPreconditionError):
            plan.ready(0)

    def test_a_wait_ends_by_its_timeout(self):
        plan = tutti.BucketPlan(tutti.Communicator.create_local(1)[0], [np.ones(2), np.ones(2)])
        plan.ready(1)
        with self.assertRaises(TimeoutError):
            plan.wait(timeout=0.02)

    def test_wrong_plans_are_told(self):
        communicator, = tutti.Communicator.create_local(1)
        array = np.ones(2)
        for error, use in [
                (TypeError, lambda: tutti.BucketPlan(None, [array])),
                (TypeError, lambda: tutti.BucketPlan(communicator, [[1, 2]])),
                (TypeError, lambda: tutti.BucketPlan(communicator, 3)),
                (ValueError, lambda: tutti.BucketPlan(communicator, [array, array])),
                (ValueError, lambda: tutti.BucketPlan(communicator, [array], "median")),
                (ValueError, lambda: tutti.BucketPlan(communicator, [array], bytes_per_bucket=0)),
                ((IndexError, ValueError),
                 lambda: tutti.BucketPlan(communicator, [array]).ready(1)),
                (ValueError, lambda: tutti.BucketPlan(communicator, [array]).ready(-1)),
        ]:
            with self.assertRaises(error) as caught:
                use()
            self.assertTrue(str(caught.exception))


class TableTest(unittest.TestCase):
    def test_the_table_of_algorithms_can_be_read_and_changed(self):
        with tutti.Runtime() as runtime:
            row, *_ = rows = runtime.describe_collectives().splitlines()
            self.assertIn("all_reduce", row)
            runtime.set("collective_table", "rows:" + rows[-1])
            self.assertEqual(runtime.describe_collectives().splitlines()[0].split(),
                             rows[-1].split())
            with self.assertRaises(errors.InvalidArgumentError):
                runtime.set("collective_table", "rows:all_reduce nowhere any any magic")


class ProcessesTest(unittest.TestCase):
    PROGRAM = """
        with tutti.Cluster.join() as cluster:
            with tutti.Communicator.create(cluster) as c:
                peer = 1 - me
                transfer = (lambda: c.send(np.arange(2), to=1) or [0, 1]) if me == 0 else (
                    lambda: c.receive(np.empty(2, np.int64), source=0).tolist())
                joined, received = c.all_to_all(np.full(3, me), send_rows=[1, 2])
                gradients = [np.full(2, float(me)), np.full(3, float(me))]
                plan = tutti.BucketPlan(c, gradients)
                for i in ([0, 1] if me else [1, 0]):
                    plan.ready(i)
                plan.wait()
                part = c.split(me)
                say(c.transport,
                    plain(c.all_reduce_many([[me, 1], [0.5]])),
                    plain([c.all_reduce_async(np.full(3, me + 1)).result()])[0],
                    c.reduce_scatter(np.arange(4)).tolist(), transfer(),
                    joined.tolist(), received.tolist(), plain(gradients), part.size)
                c.barrier()
        """

    def test_between_processes(self):
        for transport in ("shared_memory", "tcp"):
            with self.subTest(transport):
                lines = run(self.PROGRAM, TUTTI_TRANSPORT=transport)
                for me, (line,) in enumerate(lines):
                    self.assertEqual(line, [
                        transport, [[1, 2], [1.0]], [3, 3, 3], [[0, 2], [4, 6]][me], [0, 1],
                        [[0, 1], [0, 0, 1, 1]][me], [[1, 1], [2, 2]][me],
                        [[0.5] * 2, [0.5] * 3], 1])

    def test_an_elastic_job_shrinks_and_grows(self):
        for last_words in ("os._exit(0)", "with cluster, first: raise LookupError('no rows')"):
            with self.subTest(last_words):
                self.shrinks_and_grows(last_words)

    def shrinks_and_grows(self, last_words):
        life = 1
        with Job("""
            cluster = tutti.Cluster.join()
            first = tutti.Communicator.create(cluster, name="job")
            if me == 2 and os.environ["LIFE"] == "1":
                first.barrier()
                """ + last_words + """
            now = first
            if me != 2:
                first.barrier()
                try:
                    first.all_reduce(np.ones(3))
                    raise AssertionError("rank 2 did not go")
                except (errors.UnavailableError, errors.AbortedError) as error:
                    first.revoke(str(error))
                rest = first.shrink(timeout=50)
                say(rest.rank, rest.size, rest.epoch > first.epoch,
                    rest.all_reduce(np.ones(1)).tolist())
                now = rest.grow(3, timeout=50)
            say(now.rank, now.size, now.all_gather(np.full(1, me)).tolist())
            now.barrier()
            """, workers=3, TUTTI_ELASTIC="1", LIFE=lambda worker: str(life)) as job:
            job[2].communicate(timeout=HANG_S)
            for worker in (0, 1):
                self.assertEqual(job.line(worker), [worker, 2, True, [2.0]])
            life = 2
            job.processes[2] = job._start(2)
            for worker in range(3):
                self.assertEqual(job.end(worker), [[worker, 3, [0, 1, 2]]])

    def test_nobody_waits_for_a_rank_that_closed_and_stays_in_the_job(self):
        lines = run("""
            cluster = tutti.Cluster.join()
            now = tutti.Communicator.create(cluster, name="job")
            now.barrier()
            if me == 1:
                now.close()
                now = tutti.Communicator.create(cluster, name="job")
            else:
                now = now.shrink(timeout=50)
                say(now.rank, now.size, now.all_reduce(np.ones(1)).tolist())
                now = now.grow(3, timeout=50)
            say(now.rank, now.size, now.all_gather(np.full(1, me)).tolist())
            now.barrier()
            """, workers=3, TUTTI_ELASTIC="1")
        together = [[worker, 3, [0, 1, 2]] for worker in range(3)]
        self.assertEqual(lines, [[[0, 2, [2.0]], together[0]], [together[1]],
                                 [[1, 2, [2.0]], together[2]]])

    def test_a_program_may_end_with_calls_under_way(self):
        program = """
import numpy as np
import tutti

ranks = tutti.Communicator.create_local(2)
future = ranks[0].all_reduce_async(np.ones(3))
future.add_done_callback(lambda future: print(future.done()))
plan = tutti.BucketPlan(ranks[1], [np.ones(2), np.ones(2)])
plan.ready(0)
"""
        ran = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True,
                             timeout=HANG_S)
        self.assertEqual((ran.returncode, ran.stdout, ran.stderr), (0, "True\n", ""))


if __name__ == "__main__":
    unittest.main()
