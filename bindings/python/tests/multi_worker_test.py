"""MultiWorkerMirroredStrategy with real worker processes, over the loopback interface."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import tutti

HANG_S = 60

# What every worker's program begins with. `say` prints one JSON line.
PROLOGUE = """
import json, os, sys, time
import numpy as np
import tutti
from tutti import distribute, errors
from tutti.data import Dataset

def say(*things):
    print(json.dumps(things), flush=True)

def plain(value):
    return [np.asarray(part).tolist() for part in value]

def context():
    return distribute.get_replica_context()

me = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
"""


def reserved_addresses(count):
    """So many addresses of the loopback interface that nobody else gets, and the sockets that see
    to it: the ports stay bound in a way that lets a worker listen there all the same (Linux: both
    sockets have SO_REUSEADDR, and these do not listen)."""
    sockets = [socket.socket() for _ in range(count)]
    for reserved in sockets:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
    return [f"127.0.0.1:{reserved.getsockname()[1]}" for reserved in sockets], sockets


class Job:
    """Worker processes that run the same program; ends those that are left."""

    def __init__(self, program, workers=2, replicas=1, start=None, **variables):
        self.addresses, self.sockets = reserved_addresses(workers)
        self.program = PROLOGUE + textwrap.dedent(program)
        self.secret = secrets.token_hex(32)
        self.replicas = replicas
        self.variables = variables
        self.processes = {worker: self._start(worker)
                          for worker in (range(workers) if start is None else start)}

    def _start(self, worker):
        variables = {**os.environ, "TUTTI_JOB_SECRET": self.secret,
                     "TUTTI_REPLICAS": str(self.replicas),
                     "TF_CONFIG": json.dumps({"cluster": {"worker": self.addresses},
                                              "task": {"type": "worker", "index": worker}})}
        variables.update({name: value(worker) if callable(value) else value
                          for name, value in self.variables.items()})
        return subprocess.Popen([sys.executable, "-B", "-c", self.program], text=True,
                                env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __getitem__(self, worker):
        return self.processes[worker]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
            process.communicate()
        for reserved in self.sockets:
            reserved.close()

    def line(self, worker):
        """The next line that a worker says."""
        text = self[worker].stdout.readline()
        if not text:
            raise AssertionError(f"worker {worker} ended: {self[worker].communicate()[1]}")
        return json.loads(text)

    def end(self, worker):
        """The remaining lines, when the worker has ended well."""
        out, error = self[worker].communicate(timeout=HANG_S)
        if self[worker].returncode != 0:
            raise AssertionError(f"worker {worker} ended with {self[worker].returncode}: {error}")
        return [json.loads(text) for text in out.splitlines()]


def run(program, **options):
    """The lines of every worker, all of which end well."""
    with Job(program, **options) as job:
        return [job.end(worker) for worker in job.processes]


def is_asleep(pid):
    with open(f"/proc/{pid}/task/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "S"


class StrategyTest(unittest.TestCase):
    def test_replicas_are_numbered_through_all_workers(self):
        first, second = run("""
            strategy = distribute.MultiWorkerMirroredStrategy()
            say(strategy.worker, strategy.num_workers, strategy.num_replicas_in_sync,
                strategy.local_replica_count, type(strategy.cluster_resolver).__name__,
                strategy.cluster_resolver.task_id)
            say(repr(strategy))
            ids = strategy.run(lambda: context().replica_id_in_sync_group)
            say(plain(strategy.local_results(ids)))
            """, replicas=2)
        self.assertEqual(first[0][:4], [0, 2, 4, 2])
        self.assertEqual(second[0][:4], [1, 2, 4, 2])
        self.assertEqual([lines[0][5] for lines in (first, second)], [0, 1])
        self.assertIn("worker 1 of 2", second[1][0])
        self.assertEqual([lines[2][0] for lines in (first, second)], [[0, 1], [2, 3]])

    def test_reductions_go_over_all_workers_and_give_the_same_everywhere(self):
        lines = run("""
            strategy = distribute.MultiWorkerMirroredStrategy()
            def step():
                i = context().replica_id_in_sync_group
                total = context().all_reduce("sum", {"a": np.full(3, i, np.float32), "b": (i,)})
                joined = context().all_gather(np.full((1 + i, 1), i), axis=0)
                return {"total": total, "joined": joined, "mine": float(i)}
            result = strategy.run(step)
            for part in strategy.local_results(result):
                say(part["total"]["a"].tolist(), int(part["total"]["b"][0]),
                    part["joined"][:, 0].tolist())
            say(float(strategy.reduce("sum", result["mine"])),
                float(strategy.reduce("mean", result["mine"], axis=None)),
                strategy.gather(strategy.distribute_values_from_function(
                    lambda given: np.full(2, given.replica_id_in_sync_group)), axis=0).tolist())
            def merge(strategy, mine):
                return strategy.reduce("sum", mine)
            merged = strategy.run(lambda: context().merge_call(
                merge, args=(1 + context().replica_id_in_sync_group,)))
            say(plain(strategy.local_results(merged)))
            """, replicas=2)
        self.assertEqual(lines[0], lines[1])
        self.assertEqual(lines[0][0], [[6.0] * 3, 6, [0, 1, 1, 2, 2, 2, 3, 3, 3, 3]])
        self.assertEqual(lines[0][2], [6.0, 1.5, [0, 0, 1, 1, 2, 2, 3, 3]])
        self.assertEqual(lines[0][3], [[10, 10]])

    def test_variables_stay_alike_on_all_workers(self):
        lines = run("""
            strategy = distribute.MultiWorkerMirroredStrategy()
            with strategy.scope():
                weights = tutti.Variable(np.full(2, 10.0 + me), aggregation="sum")
                counts = tutti.Variable(0.0, synchronization="on_read", aggregation="sum")
                first = tutti.Variable(0.0, aggregation="only_first_replica")
            say(weights.numpy().tolist())
            def step():
                i = float(context().replica_id_in_sync_group)
                weights.assign_add(np.full(2, i))
                counts.assign_add(i)
                first.assign(7.0 + i)
            for _ in range(3):
                strategy.run(step)
            say(weights.numpy().tolist(), float(counts.numpy()), float(first.numpy()),
                plain(weights.copies()))
            """, replicas=2)
        self.assertEqual(lines[0], lines[1])
        # Worker 0's initial value holds everywhere.
        self.assertEqual(lines[0], [[[10.0, 10.0]],
                                    [[28.0, 28.0], 18.0, 7.0, [[28.0, 28.0]] * 2]])

    def test_a_resolver_may_be_given(self):
        lines = run("""
            from tutti.distribute import cluster_resolver
            config = json.loads(os.environ.pop("TF_CONFIG"))
            resolver = cluster_resolver.SimpleClusterResolver(
                tutti.train.ClusterSpec(config["cluster"]), task_type="worker", task_id=me)
            strategy = distribute.MultiWorkerMirroredStrategy(resolver, devices=["CPU:0", "CPU:3"])
            assert strategy.cluster_resolver is resolver
            say(strategy.worker_devices, float(strategy.reduce("sum", strategy.run(
                lambda: context().replica_id_in_sync_group * 1.0))))
            """)
        self.assertEqual(lines, [[[["/device:CPU:0", "/device:CPU:3"], 6.0]]] * 2)

    def test_workers_reach_each_other_as_they_are_asked_to(self):
        program = """
            from tutti.distribute.experimental import CommunicationOptions
            options = CommunicationOptions(bytes_per_pack=8, implementation=os.environ["ASKED"])
            try:
                strategy = distribute.MultiWorkerMirroredStrategy(None, options, ["CPU:0"])
                say(plain(strategy.run(lambda: context().all_reduce(
                    "sum", [np.full(3, me), np.ones(1), np.float32(me)]))))
            except errors.InvalidArgumentError as error:
                say(str(error))
            """
        for asked in ("TCP", "SHARED_MEMORY"):
            self.assertEqual(run(program, ASKED=asked), [[[[[1, 1, 1], [2.0], 1.0]]]] * 2)
        for (text,), in run(program, ASKED=lambda worker: ("TCP", "SHARED_MEMORY")[worker]):
            self.assertIn("the transport of worker 0 is tcp, of worker 1 shared_memory", text)

    def test_the_implementation_of_one_call_chooses_its_algorithm(self):
        program = """
            from tutti.distribute.experimental import CommunicationOptions
            ring = CommunicationOptions(implementation="RING", timeout_seconds=60)
            cluster = tutti.Cluster.join()
            communicator = tutti.Communicator.create(cluster)
            sums = [communicator.all_reduce(np.arange(5) / (1 + me), options=options).tolist()
                    for options in (None, ring, None)]
            communicator.all_gather([me], options=ring)
            try:
                communicator.all_reduce_many([np.ones(1)], options=ring if me == 1 else None)
            except errors.InvalidArgumentError as error:
                with open(error.details["flight_record"]) as record:
                    events = json.load(record)["events"]
                say(sums[0] == sums[1] == sums[2], str(error),
                    [event["arguments"]["algorithm"] for event in events
                     if event["phase"] == "end" and event["arguments"].get("code") == 0
                     and event["name"] in ("all_reduce", "all_gather")])
            """
        with tempfile.TemporaryDirectory() as folder:
            lines = run(program, TUTTI_TRANSPORT="tcp", TUTTI_FLIGHT_RECORDER_DIR=folder)
        for (same, text, algorithms), in lines:
            self.assertTrue(same)
            self.assertIn("rank 1: all_reduce #5 asks for the communication RING, rank 0 for AUTO",
                          text)
            # The numbers of flat_fold, chain and ring.
            self.assertEqual(algorithms, [0, 9, 0, 10])

    def test_communicators_have_a_rank_per_worker(self):
        lines = run("""
            cluster = tutti.Cluster.join()
            assert (cluster.worker, cluster.num_workers) == (me, 2)
            assert f"pid {os.getpid()}" in cluster.describe(me), cluster.describe(me)
            cluster.check()
            communicator = tutti.Communicator.create(cluster, name="mine")
            say(communicator.rank, communicator.size, communicator.transport,
                communicator.all_reduce(np.arange(4) + me).tolist(),
                communicator.broadcast(np.full(2, me), root=1).tolist(),
                communicator.all_gather(np.full(1 + me, me)).tolist())
            communicator.barrier()
            """, TUTTI_TRANSPORT="tcp")
        for rank, (line,) in enumerate(lines):
            self.assertEqual(line, [rank, 2, "tcp", [1, 3, 5, 7], [1, 1], [0, 1, 1]])

    def test_workers_of_one_machine_share_memory(self):
        lines = run("""
            with tutti.Cluster.join() as cluster:
                with tutti.Communicator.create(cluster) as communicator:
                    say(communicator.transport, communicator.all_reduce(np.ones(100000)).sum())
                    communicator.barrier()
            """)
        self.assertEqual(lines, [[["shared_memory", 200000.0]]] * 2)

    def test_workers_of_one_machine_reduce_tensors_where_they_lie(self):
        lines = run("""
            with tutti.Cluster.join() as cluster:
                with tutti.Communicator.create(cluster) as communicator:
                    gradients = np.asarray(communicator.create_tensor([300000]))
                    part = communicator.split(0)
                    elsewhere = np.zeros(300000, np.float32)
                    for group in communicator, part:
                        for given in gradients, gradients if me else elsewhere:
                            given[:] = 1 + me
                            total = group.all_reduce(given)
                            say(float(total.sum()) / total.size)
                    part.close()
                gradients += 1
                say(float(gradients.max()))
            """)
        self.assertEqual(lines, [[[3.0]] * 4 + [[2.0]], [[3.0]] * 4 + [[3.0]]])


class DatasetTest(unittest.TestCase):
    PROGRAM = """
        strategy = distribute.MultiWorkerMirroredStrategy()
        def steps(dataset, policy=None, options=None):
            if policy:
                given = tutti.data.Options()
                given.experimental_distribute.auto_shard_policy = tutti.data.AutoShardPolicy[policy]
                dataset = dataset.with_options(given)
            distributed = strategy.distribute_dataset(dataset, options)
            return [plain(strategy.local_results(step)) for step in distributed]
        """

    def test_every_policy_shares_the_data_its_way(self):
        with tempfile.TemporaryDirectory() as folder:
            for i in range(2):
                with tutti.data.TFRecordWriter(f"{folder}/{i}.tfrecord") as writer:
                    for number in range(6 * i, 6 * i + 6):
                        writer.write(bytes([number]))
            lines = run(self.PROGRAM + """
        files = sorted(os.listdir(os.environ["FOLDER"]))
        records = tutti.data.TFRecordDataset([os.path.join(os.environ["FOLDER"], f) for f in files])
        numbers = records.map(lambda record: np.int64(record[0]),
                              output_signature=tutti.TensorSpec((), np.int64)).batch(4)
        for policy in ("FILE", "AUTO", "DATA", "OFF"):
            say(steps(numbers, policy))
        """, FOLDER=folder)
        by_file = [[[[0, 1]], [[2, 3]], [[4]], [[5]]], [[[6, 7]], [[8, 9]], [[10]], [[11]]]]
        by_data = [[[[0, 1]], [[4, 5]], [[8, 9]]], [[[2, 3]], [[6, 7]], [[10, 11]]]]
        for worker, found in enumerate(lines):
            whole = [[[2 * i, 2 * i + 1]] for i in range(6)]
            self.assertEqual([line[0] for line in found],
                             [by_file[worker], by_file[worker], by_data[worker], whole])

    def test_workers_share_a_file_where_there_are_fewer_files_than_workers(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "numbers.tfrecord")
            with tutti.data.TFRecordWriter(path) as writer:
                for number in range(12):
                    writer.write(bytes([number]))
            lines = run(self.PROGRAM + """
        numbers = tutti.data.TFRecordDataset(os.environ["RECORDS"]).map(
            lambda record: np.int64(record[0]),
            output_signature=tutti.TensorSpec((), np.int64)).batch(4)
        try:
            steps(numbers, "FILE")
        except errors.InvalidArgumentError as error:
            say("share_files" in str(error))
        options = tutti.data.Options()
        options.experimental_distribute.share_files = True
        say(steps(numbers.with_options(options), "FILE"))
        """, RECORDS=path)
        self.assertEqual([found[0] for found in lines], [[True], [True]])
        of_each = [sorted(number for step in found[1][0] for part in step for number in part)
                   for found in lines]
        self.assertEqual(sorted(of_each[0] + of_each[1]), list(range(12)))
        self.assertEqual([len(numbers) for numbers in of_each], [8, 4])  # batches, in turn

    def test_workers_that_run_out_go_on_with_empty_batches_and_know_the_rows(self):
        first, second = run(self.PROGRAM + """
        distributed = strategy.distribute_datasets_from_function(
            lambda given: Dataset.range(3 if given.input_pipeline_id == 0 else 1).batch(1))
        for batch in distributed:
            result = strategy.run(lambda b: (len(b), context().global_rows), args=(batch,))
            say([[int(n) for n in part] for part in strategy.local_results(result)])
        """)
        self.assertEqual([line[0] for line in first], [[[1, 2]], [[1, 1]], [[1, 1]]])
        self.assertEqual([line[0] for line in second], [[[1, 2]], [[0, 1]], [[0, 1]]])

    def test_even_slices_are_turned_from_worker_to_worker(self):
        first, second = run(self.PROGRAM + """
        say(steps(Dataset.range(14).batch(7, drop_remainder=True), "OFF",
                  distribute.InputOptions(rebatch="even")))
        """, replicas=2)
        sizes = [[[len(part) for part in step] for step in lines[0][0]]
                 for lines in (first, second)]
        self.assertEqual(sizes, [[[2, 2], [2, 1]] * 2, [[2, 1], [2, 2]] * 2])

    def test_a_plan_says_how_the_data_is_shared(self):
        first, _ = run(self.PROGRAM + """
        say(strategy.distribute_dataset(Dataset.range(8).batch(4)).explain())
        """)
        self.assertIn("DATA", first[0][0])

    def test_a_position_is_saved_and_restored(self):
        lines = run(self.PROGRAM + """
        distributed = strategy.distribute_dataset(Dataset.range(12).batch(4))
        walk = iter(distributed)
        next(walk)
        state = walk.save()
        rest = [plain(strategy.local_results(step)) for step in walk]
        again = iter(distributed)
        again.restore(state)
        say(rest == [plain(strategy.local_results(step)) for step in again], len(rest))
        """)
        self.assertEqual(lines, [[[True, 2]]] * 2)

    def test_too_few_files_are_the_same_error_on_every_worker(self):
        with tempfile.TemporaryDirectory() as folder:
            with tutti.data.TFRecordWriter(f"{folder}/only.tfrecord") as writer:
                writer.write(b"1")
            for policy in ("FILE", "AUTO"):
                lines = run(self.PROGRAM + f"""
        records = tutti.data.TFRecordDataset([os.environ["FOLDER"] + "/only.tfrecord"]).batch(2)
        try:
            steps(records, {policy!r})
        except errors.InvalidArgumentError as error:
            say(str(error))
        """, FOLDER=folder)
                self.assertEqual(lines[0], lines[1])
                for word in ("DATA", "OFF", "2", "1"):
                    self.assertIn(word, lines[0][0][0])


class CheckpointTest(unittest.TestCase):
    def test_workers_that_name_objects_in_other_orders_save_and_restore_together(self):
        with tempfile.TemporaryDirectory() as folder:
            lines = run("""
        strategy = distribute.MultiWorkerMirroredStrategy()
        with strategy.scope():
            made = {name: tutti.Variable(np.int64(i), aggregation="sum")
                    for i, name in enumerate(("b", "a", "\uffff", "\U0001f600"))}
            counts = {name: tutti.Variable(np.float64(0), synchronization="on_read",
                                           aggregation="sum") for name in ("x", "y")}
        # What is saved of these takes both workers, so that the order counts.
        strategy.run(lambda: [count.assign_add(context().replica_id_in_sync_group + 1.0)
                              for count in counts.values()])
        rows = iter(strategy.distribute_dataset(Dataset.range(8).batch(2)))
        next(rows)
        objects = {**made, "counts": counts, "rows": rows}
        if me == 1:
            objects = {name: objects[name] for name in reversed(list(objects))}
            objects["counts"] = {name: counts[name] for name in reversed(list(counts))}
        checkpoint = tutti.train.Checkpoint(objects, strategy=strategy)
        path = checkpoint.save(os.path.join(os.environ["FOLDER"], "ckpt"))
        expected = plain(strategy.local_results(next(rows)))
        for variable in made.values():
            variable.assign(100)
        checkpoint.restore(path).assert_consumed()
        say([int(variable.numpy()) for variable in made.values()],
            [int(count.numpy()) for count in counts.values()],
            expected == plain(strategy.local_results(next(rows))))
        """, FOLDER=folder)
        self.assertEqual(lines, [[[[0, 1, 2, 3], [3, 3], True]]] * 2)


class FailureTest(unittest.TestCase):
    def test_a_task_that_is_not_in_the_cluster_is_a_value_error(self):
        with Job("""
            try:
                distribute.MultiWorkerMirroredStrategy()
            except ValueError as error:
                say(str(error))
            """, workers=2, start=[5]) as job:
            self.assertIn("worker:1", job.end(5)[0][0])

    def test_another_job_secret_is_refused_by_name(self):
        with Job("""
            try:
                # Worker 1 is refused while worker 0 is there, which waits in vain.
                distribute.MultiWorkerMirroredStrategy(timeout=60 if me else 12)
            except errors.Error as error:
                say(error.code_name, str(error))
            """, TUTTI_JOB_SECRET=lambda worker: f"{worker}" * 32) as job:
            (waiting,), (refused,) = job.end(0), job.end(1)
        self.assertEqual(refused[0], "UNAUTHENTICATED", refused)
        self.assertIn("secret", refused[1])
        self.assertEqual(waiting[0], "DEADLINE_EXCEEDED", waiting)
        self.assertIn("worker:1", waiting[1])

    def test_workers_with_unequal_numbers_of_replicas_are_refused_together(self):
        with Job("""
            try:
                distribute.MultiWorkerMirroredStrategy()
            except ValueError as error:
                say(str(error))
            """, TUTTI_REPLICAS=lambda worker: str(1 + worker)) as job:
            first, second = job.end(0), job.end(1)
        self.assertEqual(first, second)
        self.assertIn("replica", first[0][0])

    def test_a_worker_that_is_killed_is_named_on_the_others(self):
        for wait in ('strategy.run(lambda: context().all_reduce("sum", 1.0))',
                     'strategy.reduce("sum", strategy.run(lambda: 1.0))',
                     'next(walk)'):
            with self.subTest(wait), Job(f"""
                strategy = distribute.MultiWorkerMirroredStrategy()
                walk = iter(strategy.distribute_datasets_from_function(
                    lambda given: Dataset.range(5).repeat().filter(lambda x: True).batch(1)))
                strategy.run(lambda: context().all_reduce("sum", 1.0))
                say(os.getpid())
                if me == 1:
                    time.sleep({HANG_S})
                try:
                    while True:
                        {wait}
                except errors.UnavailableError as error:
                    say(str(error), error.details, time.time())
                """) as job:
                pid = job.line(1)[0]
                job.line(0)
                killed = time.time()
                job[1].kill()
                message, details, seen = job.end(0)[0]
                print(f"{wait}: a killed worker is known after {1000 * (seen - killed):.0f} ms",
                      file=sys.stderr)
                self.assertIn(str(pid), message)
                self.assertEqual((details["rank"], details["worker"]), (1, 1))

    def test_a_worker_that_ends_has_left_and_has_not_died(self):
        with Job("""
            cluster = tutti.Cluster.join()
            communicator = tutti.Communicator.create(cluster)
            if me == 0:
                try:
                    communicator.barrier()
                except errors.UnavailableError as error:
                    say(str(error))
            """) as job:
            job.end(1)
            (message,), = job.end(0)
        self.assertIn("left", message)

    def test_peers_hear_of_the_exception_that_a_worker_leaves_by(self):
        # Leaving the block of a communicator, of a cluster, and the program itself.
        for program in ('''
                with tutti.Cluster.join() as cluster:
                    with tutti.Communicator.create(cluster) as ranks:
                        work(ranks.barrier)
                ''', '''
                with tutti.Cluster.join() as cluster:
                    work(tutti.Communicator.create(cluster).barrier)
                ''', '''
                strategy = distribute.MultiWorkerMirroredStrategy()
                work(lambda: strategy.run(lambda: context().all_reduce("sum", 1.0)))
                '''):
            with self.subTest(program), Job(textwrap.dedent('''
                def work(step):
                    step()
                    if me == 1:
                        raise LookupError("no rows in shard 7")
                    try:
                        while True:
                            step()
                    except (errors.AbortedError, errors.UnavailableError) as error:
                        say(type(error).__name__, str(error))
                ''') + textwrap.dedent(program)) as job:
                job[1].wait(HANG_S)
                (kind, message), = job.end(0)
                self.assertEqual(kind, "AbortedError", message)
                self.assertIn("LookupError: no rows in shard 7", message)

    def test_an_abort_ends_the_job_on_all_workers(self):
        first, second = run("""
            cluster = tutti.Cluster.join()
            communicator = tutti.Communicator.create(cluster)
            if me == 1:
                cluster.abort("enough for today")
            for call in (communicator.barrier, cluster.check):
                try:
                    while True:
                        call()
                except errors.AbortedError as error:
                    say(str(error))
            """)
        for lines in (first, second):
            self.assertEqual(len(lines), 2, lines)
            for line in lines:
                self.assertIn("enough for today", line[0])

    def test_the_silence_of_a_worker_is_reported(self):
        with Job(f"""
            strategy = distribute.MultiWorkerMirroredStrategy()
            say("ready")
            if me == 1:
                time.sleep({HANG_S})
            try:
                strategy.run(lambda: context().all_reduce("sum", 1.0))
            except errors.UnavailableError as error:
                say(str(error), error.details)
            """, TUTTI_SILENCE_LIMIT="5s") as job:
            job.line(0), job.line(1)
            job[1].send_signal(signal.SIGSTOP)
            message, details = job.end(0)[0]
        self.assertEqual(details["worker"], 1)
        self.assertIn("worker 1", message)


class ForkTest(unittest.TestCase):
    def test_a_forked_child_is_told_so_and_the_worker_goes_on(self):
        lines = run("""
            strategy = distribute.MultiWorkerMirroredStrategy()
            strategy.run(lambda: context().all_reduce("sum", 1.0))
            child = os.fork()
            if child == 0:
                try:
                    strategy.run(lambda: None)
                except errors.FailedPreconditionError as error:
                    sys.exit(0 if "fork" in str(error) else 1)
                sys.exit(2)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            say(status, float(strategy.reduce("sum", strategy.run(lambda: 1.0))))
            """)
        self.assertEqual(lines, [[[0, 2.0]]] * 2)


class InterruptTest(unittest.TestCase):
    """Ctrl-C while the others are waited for. The time that it takes is printed."""

    def interrupted(self, name, program, start):
        with Job(program, start=start) as job:
            job.line(0)
            end = time.monotonic() + HANG_S
            while not is_asleep(job[0].pid) and time.monotonic() < end:
                pass
            sent = time.time()
            job[0].send_signal(signal.SIGINT)
            (caught,), = job.end(0)
            print(f"{name}: {1000 * (caught - sent):.0f} ms", file=sys.stderr)

    def test_while_the_other_workers_have_not_come(self):
        self.interrupted("joining", """
            say("ready")
            try:
                distribute.MultiWorkerMirroredStrategy()
            except KeyboardInterrupt:
                say(time.time())
            """, [0])

    def test_while_another_worker_does_not_take_part(self):
        self.interrupted("all_reduce", f"""
            strategy = distribute.MultiWorkerMirroredStrategy()
            if me == 1:
                time.sleep({HANG_S})
            say("ready")
            try:
                strategy.run(lambda: context().all_reduce("sum", 1.0))
            except KeyboardInterrupt:
                say(time.time())
            """, None)


if __name__ == "__main__":
    unittest.main()
