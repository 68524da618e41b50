"""What train_digits promises, tried with the program itself.

    train_digits_test.py PROGRAM TEST
"""

import math
import os
import re
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1]


def run(*arguments, folder=None):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, cwd=folder,
                          timeout=240)


def losses(output):
    return [float(loss) for loss in re.findall(r"^epoch .*: loss (\S+),", output, re.M)]


def hashes(output):
    return dict(re.findall(r"^replica (\d+) weights sha256: ([0-9a-f]{64})$", output, re.M))


def default_run_reaches_the_accuracy_from_any_folder():
    with tempfile.TemporaryDirectory() as elsewhere:
        result = run(folder=elsewhere)
    print(result.stdout, result.stderr)
    assert result.returncode == 0
    accuracy = float(re.search(r"^held-out accuracy: (\S+) %$", result.stdout, re.M)[1])
    assert accuracy >= 97, accuracy
    found = hashes(result.stdout)
    assert sorted(found) == ["0", "1"] and len(set(found.values())) == 1, found


def one_and_four_replicas_learn_alike():
    one, four = (run("--replicas", n, "--epochs", "20") for n in ("1", "4"))
    print(one.stdout, four.stdout, four.stderr)
    assert len(losses(one.stdout)) == len(losses(four.stdout)) == 20
    for a, b in zip(losses(one.stdout), losses(four.stdout)):
        assert math.isclose(a, b, rel_tol=1e-4), (a, b)
    assert len(hashes(four.stdout)) == 4 and len(set(hashes(four.stdout).values())) == 1


def a_tail_with_empty_replicas_stays_finite():
    # 1,438 examples in batches of 479 leave one over: three of four replicas get no row.
    result = run("--replicas", "4", "--batch", "479", "--epochs", "30")
    print(result.stdout, result.stderr)
    found = losses(result.stdout)
    assert len(found) == 30 and all(math.isfinite(loss) for loss in found)
    assert found[-1] < found[0] / 2, "it does not learn"
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
        assert result.returncode == 1 and "DATA_LOSS" in result.stderr, result.stderr
        assert "digits-0.tfrecord" in result.stderr, result.stderr
    for bad in (["--replicas", "0"], ["--batch", "many"], ["--no-such-option"], ["extra"]):
        result = run(*bad)
        assert result.returncode == 2 and result.stderr, (bad, result)
    assert "--replicas" in run("--help").stdout


globals()[sys.argv[2]]()
