"""What train_digits promises, tried with the program itself, alone and under `tutti run`.

    train_digits_test.py TUTTI TEST PROGRAM...
"""

import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile

TUTTI = sys.argv[1]
PROGRAM = sys.argv[3:]
# As many as reach the accuracy that the programs demand.
FEW_EPOCHS = ["--epochs", "10"]


def run(*arguments, folder=None):
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, cwd=folder,
                          timeout=240)


def on_workers(options, *arguments):
    return subprocess.run([TUTTI, "run", *options, "--", *PROGRAM, *arguments],
                          capture_output=True, text=True, timeout=240)


def losses(output):
    """By epoch."""
    found = re.findall(r"^(?:\[worker \d+\] )?epoch +(\d+)/\d+: loss (\S+),", output, re.M)
    return {int(epoch): float(loss) for epoch, loss in found}


def hashes(output):
    """By (worker, replica)."""
    found = re.findall(r"worker (\d+) replica (\d+) weights sha256: ([0-9a-f]{64})$", output, re.M)
    return {(int(worker), int(replica)): value for worker, replica, value in found}


def default_run_reaches_the_accuracy_from_any_folder():
    with tempfile.TemporaryDirectory() as elsewhere:
        result = run(folder=elsewhere)
    print(result.stdout, result.stderr)
    assert result.returncode == 0
    accuracy = float(re.search(r"^held-out accuracy: (\S+) %$", result.stdout, re.M)[1])
    assert accuracy >= 97, accuracy
    found = hashes(result.stdout)
    assert sorted(found) == [(0, 0)], found


def one_and_four_replicas_learn_alike():
    one, four = (run("--replicas", n, *FEW_EPOCHS) for n in ("1", "4"))
    print(one.stdout, four.stdout, four.stderr)
    check_alike(losses(one.stdout), losses(four.stdout))
    assert one.returncode == four.returncode == 0  # they judge accuracy and weights themselves
    assert len(hashes(four.stdout)) == 4 and len(set(hashes(four.stdout).values())) == 1


def check_alike(one, other):
    assert sorted(one) == sorted(other) == list(range(1, 11)), (one, other)
    for epoch, loss in one.items():
        assert math.isclose(loss, other[epoch], rel_tol=1e-4), (epoch, loss, other[epoch])


def two_workers_learn_like_one_process():
    alone = run("--replicas", "4", *FEW_EPOCHS)
    together = on_workers(["--workers", "2", "--replicas", "2"], *FEW_EPOCHS)
    print(together.stdout, together.stderr)
    assert together.returncode == 0
    check_alike(losses(alone.stdout), losses(together.stdout))
    found = hashes(together.stdout)
    assert sorted(found) == [(0, 0), (0, 1), (1, 0), (1, 1)] and len(set(found.values())) == 1
    assert re.search(r"^\[worker 1\] worker 1 replica 1 weights sha256: ", together.stdout, re.M)


def three_workers_over_tcp_with_an_odd_batch():
    # Parts of unequal size, and in the last batch of an epoch workers without any row.
    os.environ["TUTTI_TRANSPORT"] = "tcp"
    together = on_workers(["--workers", "3", "--replicas", "2"], "--epochs", "4", "--batch", "19")
    alone = run("--epochs", "4", "--batch", "19")
    print(together.stdout, together.stderr)
    found, expected = losses(together.stdout), losses(alone.stdout)
    assert len(found) == 4, found
    for epoch, loss in expected.items():
        assert math.isclose(loss, found[epoch], rel_tol=1e-4), (epoch, loss, found)
    assert len(hashes(together.stdout)) == 6 and len(set(hashes(together.stdout).values())) == 1


def a_job_that_lost_a_worker_goes_on_from_its_checkpoint():
    """Worker 1 is killed in the third epoch; the job starts again and comes to the same losses as
    one that nobody disturbed."""
    undisturbed = on_workers(["--workers", "2", "--replicas", "2"], *FEW_EPOCHS)
    with tempfile.TemporaryDirectory() as folder:
        mark = f"TRAIN_DIGITS_TEST={folder}"
        job = subprocess.Popen(
            ["env", mark, TUTTI, "run", "--workers", "2", "--replicas", "2", "--max-restarts", "1",
             "--",
             *PROGRAM, *FEW_EPOCHS, "--checkpoints", os.path.join(folder, "run")],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        output = ""
        killed = None
        for line in job.stdout:
            output += line
            if killed is None and "epoch  3/10" in line:
                killed = worker_one(mark)
                os.kill(killed, signal.SIGKILL)
        status = job.wait(240)
    print(undisturbed.stdout, output)
    assert killed is not None and status == 0, status
    assert f"worker 1 (pid {killed}) was killed by SIGKILL" in output
    assert "starting again (1 of 1)" in output
    found = re.search(r"going on after step (\d+), in epoch (\d+)", output)
    assert found and int(found[1]) > 0, "no checkpoint was found"
    assert losses(output) == losses(undisturbed.stdout)
    assert hashes(output) == hashes(undisturbed.stdout)


def worker_one(mark):
    """The pid of the worker 1 whose environment has the mark."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", encoding="utf-8", errors="replace") as file:
                variables = file.read().split("\0")
        except OSError:
            continue
        config = [text for text in variables if text.startswith("TF_CONFIG=")]
        if mark in variables and config:
            if json.loads(config[0].partition("=")[2])["task"]["index"] == 1:
                return int(name)
    raise AssertionError("worker 1 is not there")


def gpus_learn_like_cpus():
    """With TUTTI_CUDA_DRIVER, a driver of two GPUs."""
    few = ["--epochs", "1", "--batch", "128"]
    on_cpus, on_gpus = run("--replicas", "2", *few), run("--devices", "GPU:0,GPU:1", *few)
    print(on_gpus.stdout, on_gpus.stderr)
    assert "replicas on GPU:0, GPU:1\n" in on_gpus.stdout
    assert len(losses(on_gpus.stdout)) == 1 and len(hashes(on_gpus.stdout)) == 2
    assert losses(on_gpus.stdout) == losses(on_cpus.stdout), on_cpus.stdout
    assert hashes(on_gpus.stdout) == hashes(on_cpus.stdout), on_cpus.stdout
    refused = run("--devices", "GPU:0,GPU:9", *few)
    assert refused.returncode == 1 and "no GPU:9" in refused.stderr, refused.stderr


def a_tail_with_empty_replicas_stays_finite():
    # 1,438 examples in batches of 479 leave one over: three of four replicas get no row.
    # A step of one row throws the weights far, and how far depends on the row: the seed is one
    # whose last epoch ends with an ordinary one.
    result = run("--replicas", "4", "--batch", "479", "--epochs", "30", "--seed", "2")
    print(result.stdout, result.stderr)
    found = losses(result.stdout)
    assert len(found) == 30 and all(math.isfinite(loss) for loss in found.values())
    assert found[30] < found[1] / 2, "it does not learn"
    assert len(set(hashes(result.stdout).values())) == 1


def too_low_an_accuracy_fails():
    result = run("--epochs", "1", "--batch", "1000")
    assert result.returncode == 1, result.returncode
    assert "the accuracy is under 95 %" in result.stderr, result.stderr
    assert "held-out accuracy: " in result.stdout


def errors_are_clear():
    result = run("--data", "/no/such/folder")
    assert result.returncode == 1 and "/no/such/folder/digits-*.tfrecord" in result.stderr
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "digits-0.tfrecord"), "wb") as file:
            file.write(b"this is no record file")
        result = run("--data", folder)
        assert result.returncode == 1, result.returncode
        assert re.search(r"DATA_LOSS|DataLossError|TuttiException\.DataLoss:",
                         result.stderr), result.stderr
        assert "digits-0.tfrecord" in result.stderr, result.stderr
    for bad in (["--replicas", "0"], ["--batch", "many"], ["--no-such-option"], ["extra"]):
        result = run(*bad)
        assert result.returncode == 2 and result.stderr, (bad, result)
    assert "--replicas" in run("--help").stdout


globals()[sys.argv[2]]()
