"""Jobs that a real Slurm starts find themselves.

    slurm_test.py [CLASS]
"""

import os
import pathlib
import re
import sys
import unittest

import real_slurm

SOURCE = pathlib.Path(os.environ["TUTTI_SOURCE_DIR"])
COMMAND = os.environ["TUTTI_COMMAND"]
# Every worker adds what it is, with the resolver's cluster.
PROGRAM = """
import numpy as np, tutti
from tutti.distribute.cluster_resolver import SlurmClusterResolver
resolver = SlurmClusterResolver(port_base={port}, gpus_per_node=0)
print("task", *resolver.get_task_info(), resolver.cluster_spec().as_dict(), flush=True)
strategy = tutti.distribute.MultiWorkerMirroredStrategy(resolver)
def step():
    context = tutti.distribute.get_replica_context()
    return context.all_reduce("sum", np.float32(1 + context.replica_id_in_sync_group))
print("sum", float(strategy.run(step)), flush=True)
"""


class SlurmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.slurm = cls.enterClassContext(real_slurm.RealSlurm())
        secret = cls.slurm.folder / "secret"
        secret.write_text("0123456789abcdef0123456789abcdef\n")
        secret.chmod(0o600)
        cls.secret = {"TUTTI_JOB_SECRET_FILE": str(secret)}


class ResolverTest(SlurmTest):
    def test_each_task_is_a_worker_of_one_job(self):
        status, said = self.slurm.srun("--nodes=2", "--ntasks-per-node=2", sys.executable, "-B",
                                       "-c", PROGRAM.format(port=21800), **self.secret)
        self.assertEqual(status, 0, said)
        self.assertEqual(said.count("sum 10.0\n"), 4, said)
        for task in range(4):
            self.assertIn(f"task worker {task} {{'worker': ['n1:21800', 'n1:21801', 'n2:21800', "
                          "'n2:21801']}", said)

    def test_one_task_fewer_than_the_other_node(self):
        status, said = self.slurm.srun("--ntasks=3", "--nodes=2", sys.executable, "-B", "-c",
                                       PROGRAM.format(port=21810), **self.secret)
        self.assertEqual(status, 0, said)
        self.assertEqual(said.count("sum 6.0\n"), 3, said)

    def test_tasks_are_dealt_in_turn_or_refused(self):
        words = ["--nodes=2", "--ntasks-per-node=2", "--kill-on-bad-exit=1", sys.executable,
                 "-B", "-c", PROGRAM.format(port=21820)]
        status, said = self.slurm.srun("--distribution=cyclic", *words, **self.secret)
        self.assertEqual(status, 0, said)
        self.assertEqual(said.count("sum 10.0\n"), 4, said)
        self.assertIn("['n1:21820', 'n2:21820', 'n1:21821', 'n2:21821']", said)
        status, said = self.slurm.srun("--distribution=plane=1", *words, **self.secret)
        self.assertNotEqual(status, 0, said)
        self.assertIn("start them with srun --distribution=block", said)


class CommandTest(SlurmTest):
    def test_the_digits_are_learnt_by_two_tasks(self):
        status, said = self.slurm.srun(
            "--nodes=2", "--ntasks-per-node=1", COMMAND, "run", "--", sys.executable, "-B",
            str(SOURCE / "examples/python/train_digits.py"), **self.secret)
        self.assertEqual(status, 0, said)
        self.assertRegex(said, re.compile("accuracy|loss", re.I))

    def test_without_a_secret_it_says_how_to_make_one(self):
        status, said = self.slurm.srun("--nodes=2", COMMAND, "run", "--", "true")
        self.assertEqual(status, 2, said)
        self.assertIn("the job has no secret", said)
        self.assertIn("TUTTI_JOB_SECRET_FILE=FILE", said)

    def test_what_is_sruns_is_refused(self):
        status, said = self.slurm.srun("--nodes=2", COMMAND, "run", "--timeout", "5s", "--", "true",
                                       **self.secret)
        self.assertEqual(status, 2, said)
        self.assertIn("leave out --elastic, --max-restarts, --timeout", said)

    def test_workers_on_one_machine_are_started_as_ever(self):
        status, said = self.slurm.srun("--ntasks=1", COMMAND, "run", "--workers", "2", "--",
                                       "sh", "-c", "echo $TF_CONFIG")
        self.assertEqual(status, 0, said)
        self.assertEqual(said.count("127.0.0.1"), 4, said)

    def test_a_task_that_fails_ends_the_step_and_the_others_hear_why(self):
        program = """
import tutti
strategy = tutti.distribute.MultiWorkerMirroredStrategy()
def step():
    context = tutti.distribute.get_replica_context()
    if context.replica_id_in_sync_group == 1:
        raise ValueError("no rows in shard 7")
    return context.all_reduce("sum", 1.0)
strategy.run(step)
"""
        status, said = self.slurm.srun("--nodes=2", "--ntasks-per-node=1", COMMAND, "run", "--",
                                       sys.executable, "-B", "-c", program, **self.secret)
        self.assertNotEqual(status, 0, said)
        self.assertIn("no rows in shard 7", said)


class BatchTest(SlurmTest):
    def test_the_example_script_is_taken_and_runs(self):
        script = SOURCE / "examples/slurm/train_digits.sbatch"
        output = self.slurm.folder / "job.out"
        status, said = self.slurm.run(
            "sbatch", "--wait", "--nodes=2", f"--output={output}", str(script),
            TUTTI=COMMAND, PYTHON=sys.executable, HOME=str(self.slurm.folder),
            PROGRAM=str(SOURCE / "examples/python/train_digits.py"))
        printed = output.read_text() if output.exists() else ""
        self.assertEqual(status, 0, said + printed)
        self.assertRegex(printed, re.compile("accuracy|loss", re.I))


if __name__ == "__main__":
    real_slurm.enter_namespace()
    unittest.main()
