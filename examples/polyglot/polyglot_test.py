"""What the job of four workers in four languages promises, tried with `tutti run`.

    polyglot_test.py TUTTI WORKER TEST
"""

import json
import os
import pathlib
import random
import re
import secrets
import selectors
import signal
import subprocess
import sys
import time

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1] / "tests" / "faults"))

from leftovers import Belongings  # noqa: E402

TUTTI, WORKER = sys.argv[1:3]
LANGUAGES = ["C", "Python", "Java", "Go"]
COMPARE = [sys.executable, "-B", str(FOLDER / "compare.py")]
MARK = "POLYGLOT_TEST"
HANG_S = 60.0
TRACES = re.compile(r"Traceback|^\[worker \d\]\s+(?:at|File) |goroutine \d|Exception in thread",
                    re.M)


def four_workers_come_to_the_same_weights():
    with subprocess.Popen([TUTTI, "run", "--workers", "4", "--", WORKER],
                          stdout=subprocess.PIPE, text=True) as job:
        compared = subprocess.run(COMPARE, stdin=job.stdout, capture_output=True, text=True,
                                  timeout=240)
    output = compared.stdout
    print(output, compared.stderr)
    assert job.returncode == compared.returncode == 0, (job.returncode, compared.returncode)
    found = re.findall(r"^\[worker (\d)\] worker (\d) \((\w+)\): weights sha256 ([0-9a-f]{64})$",
                       output, re.M)
    assert sorted(found) == [(str(i), str(i), language, found[0][3])
                             for i, language in enumerate(LANGUAGES)], found
    assert output.endswith("polyglot: four workers in four languages, the same weights: sha256 "
                           f"{found[0][3]}\n")
    check_learning(output)


def check_learning(output):
    accuracies = re.findall(r"^\[worker \d\] held-out accuracy: (\S+) %$", output, re.M)
    assert len(accuracies) == 4 and len(set(accuracies)) == 1, accuracies
    assert float(accuracies[0]) >= 90, accuracies
    losses = [re.findall(rf"^\[worker {i}\] epoch (\d+): loss (\S+)$", output, re.M)
              for i in range(4)]
    assert losses[0] == losses[1] == losses[2] == losses[3], losses
    assert [int(epoch) for epoch, _ in losses[0]] == list(range(1, 21)), losses
    assert float(losses[0][-1][1]) < float(losses[0][0][1]) / 2, losses


def each_language_alone_comes_to_the_same_weights():
    """The arithmetic itself is the same: nobody else's gradients smooth a difference over."""
    found = {}
    for language in LANGUAGES:
        result = alone(language, "--epochs", "5")
        print(result.stdout, result.stderr)
        assert result.returncode == 0, (language, result.returncode)
        line = rf"^worker 0 \({language}\): weights sha256 ([0-9a-f]{{64}})$"
        found[language] = re.findall(line, result.stdout, re.M)
    assert all(found.values()), found
    assert len({hashes[0] for hashes in found.values()}) == 1, found


def alone(language, *arguments):
    environment = {**os.environ, "POLYGLOT_LANGUAGE": language}
    environment.pop("TF_CONFIG", None)
    return subprocess.run([WORKER, *arguments], capture_output=True, text=True, timeout=240,
                          env=environment)


def killed_workers_are_named_in_each_language():
    """One of the four is killed amid training; the others say who is gone and end. Each language
    gets its turn. POLYGLOT_TEST_SEED repeats a run."""
    seed = int(os.environ.get("POLYGLOT_TEST_SEED") or secrets.randbits(32))
    print(f"POLYGLOT_TEST_SEED={seed}", flush=True)
    chance = random.Random(seed)
    for victim in chance.sample(range(4), 4):
        kill_one(victim, chance.uniform(0, 1))


def kill_one(victim, delay_s):
    value = secrets.token_hex(16)
    belongings = Belongings(MARK, value)
    job = subprocess.Popen([TUTTI, "run", "--workers", "4", "--grace", f"{HANG_S:g}s", "--", WORKER,
                            "--epochs", "1000000"], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, env={**os.environ, MARK: value})
    try:
        reader = Reader(job.stdout)
        assert reader.read_until(HANG_S, lambda text: all(f"[worker {i}] epoch 1:" in text
                                                          for i in range(4))), reader.text
        reader.read_until(delay_s, lambda text: False)
        belongings.look()
        assert job.poll() is None, reader.text
        pid = pid_of(victim, value)
        before = len(reader.text)
        killed_at = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        has_ended = reader.read_until(HANG_S, lambda text: reader.ended)
        assert has_ended, f"hangs:\n{reader.text[before:]}"
        status = job.wait(HANG_S)
        took_s = time.monotonic() - killed_at
        said = reader.text[before:]
        # Which end `tutti run` sees first decides about the status: a process with many threads
        # takes a moment to end, and the others may have ended in it.
        assert status in (1, 128 + signal.SIGKILL), (status, said)
        assert re.search(rf"^tutti run: .*worker {victim}\b.* was killed by SIGKILL", said,
                         re.M), said
        check_survivors(victim, said)
        while belongings.left():  # a process that has ended may keep its files for a moment
            assert time.monotonic() < killed_at + HANG_S, belongings.left()
            reader.read_until(0.02, lambda text: False)
        print(f"worker {victim} ({LANGUAGES[victim]}) killed {delay_s:.3f} s after all had trained"
              f", the job over {took_s:.3f} s later", flush=True)
    finally:
        belongings.kill()
        job.stdout.close()
        job.wait()


def check_survivors(victim, said):
    assert not TRACES.search(said), said
    for i, language in enumerate(LANGUAGES):
        if i == victim:
            continue
        errors = re.findall(rf"^\[worker {i}\] softmax_regression: (.*)$", said, re.M)
        assert len(errors) == 1, (language, said)
        assert re.search(r"UNAVAILABLE|UnavailableError|ABORTED|AbortedError|"
                         r"TuttiException\.(Unavailable|Aborted):", errors[0]), errors
        assert re.search(rf"worker {victim}\b.*\bgone\b", errors[0]), (language, said)


class Reader:
    """The output of a job, read until a condition holds or time is over."""

    def __init__(self, stream):
        self.text = ""
        self.ended = False
        self._descriptor = stream.fileno()
        self._selector = selectors.DefaultSelector()
        self._selector.register(stream, selectors.EVENT_READ)

    def read_until(self, bound_s, condition):
        give_up = time.monotonic() + bound_s
        while not condition(self.text):
            left = give_up - time.monotonic()
            if left <= 0:
                return False
            if self.ended:
                time.sleep(min(left, 0.1))
            elif self._selector.select(left):
                data = os.read(self._descriptor, 1 << 16)
                self.text += data.decode(errors="replace")
                self.ended = not data
        return True


def pid_of(worker, value):
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            variables = pathlib.Path("/proc", name, "environ").read_bytes().decode().split("\0")
        except (OSError, UnicodeDecodeError):
            continue
        config = [text for text in variables if text.startswith("TF_CONFIG=")]
        if f"{MARK}={value}" in variables and config:
            if json.loads(config[0].partition("=")[2])["task"]["index"] == worker:
                return int(name)
    raise AssertionError(f"worker {worker} is not there")


def the_comparison_notices_differences():
    lines = [f"[worker {i}] worker {i} ({language}): weights sha256 {'ab' * 32}"
             for i, language in enumerate(LANGUAGES)]

    def compared(*changed):
        text = "".join(f"{line}\n" for line in changed)
        result = subprocess.run(COMPARE, input=text, capture_output=True, text=True, timeout=60)
        assert result.stdout.startswith(text), result.stdout
        return result.returncode, result.stdout[len(text):] + result.stderr

    assert compared("[worker 0] epoch 1: loss 2", *lines) == (
        0, "polyglot: four workers in four languages, the same weights: sha256 " + "ab" * 32 + "\n")
    for i, language in enumerate(LANGUAGES):
        others = lines[:i] + lines[i + 1:]
        status, said = compared(*others, lines[i][:-1] + "c")
        assert status == 1 and "polyglot: the weights differ: " in said, said
        assert f"{language} {'ab' * 31}ac" in said, said
        status, said = compared(*others)
        assert status == 1 and f"polyglot: no weights from {language};" in said, said
    status, said = compared(*lines, lines[0])
    assert status == 1 and "weights from 5 workers" in said, said
    status, said = compared()
    assert status == 1 and "no weights from C, Python, Java and Go;" in said, said


def errors_are_one_clear_line():
    for language in LANGUAGES:
        result = alone(language, "--data", "/no/such/folder")
        said = result.stderr.splitlines()
        assert result.returncode == 1, (language, result)
        assert len(said) == 1 and said[0].startswith("softmax_regression: "), (language, said)
        assert "/no/such/folder/digits-*.tfrecord" in said[0], (language, said)
        for bad in (["--epochs", "0"], ["--epochs", "many"], ["--epochs"], ["--no-such", "1"]):
            result = alone(language, *bad)
            assert result.returncode == 2 and result.stderr, (language, bad, result)
            assert not TRACES.search(result.stderr), (language, result.stderr)
    result = alone("Cobol")
    assert result.returncode == 2, result
    assert 'POLYGLOT_LANGUAGE is "Cobol"; expected C, Python, Java or Go' in result.stderr, result


globals()[sys.argv[3]]()
