"""Trains a two-layer perceptron on handwritten digits, on several replicas of one process.

    PYTHONPATH=build/release/bindings/python python3 examples/python/train_digits.py
        [--replicas N] [--epochs E] [--batch B] [--seed S] [--data DIR]

Each replica computes the gradient of its part of a batch, scaled by one over the rows of the whole
batch; all_reduce adds the gradients, so that every replica takes the same step. At the end the
accuracy on the held-out fifth is printed, and the SHA-256 of each replica's weights: the program
fails when the accuracy is under 95 % or two replicas' weights differ in a bit.
"""

import argparse
import hashlib
import math
import os
import pathlib
import sys
import time

# Each replica computes on a thread of its own; NumPy's threads would fight over the same cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import perceptron
import tutti

LEARNING_RATE = 0.1
MOMENTUM = 0.9
LOWEST_ACCURACY = 95.0


def data_folder():
    """The nearest examples/data above the working directory, else the one beside this file."""
    here = pathlib.Path.cwd()
    for folder in (here, *here.parents):
        data = folder / "examples" / "data"
        if any(data.glob("digits-*.tfrecord")):
            return data
    return pathlib.Path(__file__).resolve().parent.parent / "data"


def is_held_out(number):
    """The fifth that examples/data/README.md names."""
    return number % 5 == 4


def digits(folder, held_out, batch, seed):
    """The images [n, 64] and labels [n] of one part, in batches; the training part shuffled."""
    files = tutti.data.Dataset.list_files(str(folder / "digits-*.tfrecord"), shuffle=False)
    records = (tutti.data.TFRecordDataset(files).enumerate()
               .filter(lambda number, record: is_held_out(number) == held_out)
               .map(lambda number, record: record,
                    output_signature=tutti.TensorSpec((), bytes)))
    examples = records.map(tutti.data.parse_example({"image": ([64], np.float32),
                                                     "label": ([], np.int64)}))
    if not held_out:
        examples = examples.shuffle(2000, seed=seed)
    return examples.batch(batch)


class Model:
    """The weights have one copy per replica, kept equal; each replica has a velocity of its own,
    which comes out equal because the gradients do."""

    def __init__(self, strategy, seed):
        self.strategy = strategy
        with strategy.scope():
            # All replicas bring the same update.
            self.weights = tutti.Variable(perceptron.initial(seed), name="weights",
                                          aggregation="only_first_replica")
            self.velocity = tutti.Variable(np.zeros(perceptron.PARAMETERS),
                                           name="velocity", synchronization="on_read",
                                           aggregation="mean")

    def train_step(self, batch):
        """Runs once per replica, concurrently."""
        replica = tutti.distribute.get_replica_context()
        loss, correct, gradient = perceptron.run(self.weights.data(), batch["image"],
                                                 batch["label"], scale=1 / replica.global_rows)
        gradient = replica.all_reduce("sum", gradient)
        update = MOMENTUM * self.velocity.data() + LEARNING_RATE * gradient
        self.velocity.assign(update)
        self.weights.assign_sub(update)
        return {"loss": loss, "correct": correct, "rows": len(batch["label"])}

    def evaluate_step(self, batch):
        loss, correct, _ = perceptron.run(self.weights.data(), batch["image"], batch["label"])
        return {"loss": loss, "correct": correct, "rows": len(batch["label"])}

    def run_epoch(self, step, batches):
        """Runs `step` for every batch and adds up what the replicas give."""
        loss, correct, rows = 0.0, 0, 0
        for batch in batches:
            score = self.strategy.reduce("sum", self.strategy.run(step, args=(batch,)))
            loss += score["loss"]
            correct += score["correct"]
            rows += score["rows"]
        return loss, correct, rows

    def train(self, epochs, batches):
        for epoch in range(1, epochs + 1):
            start = time.perf_counter()
            loss, correct, rows = self.run_epoch(self.train_step, batches)
            elapsed = time.perf_counter() - start
            print(f"epoch {epoch:2}/{epochs}: loss {loss / rows:.10f}, accuracy "
                  f"{100 * correct / rows:5.2f} %, {rows / elapsed:.0f} examples/s", flush=True)
            if not math.isfinite(loss):
                sys.exit("train_digits: the loss is not finite")


def whole_number(least):
    def parse(text):
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{number}: expected {least} or more")
        return number
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(description="Trains a perceptron on handwritten digits.")
    parser.add_argument("--replicas", type=whole_number(1), default=2)
    parser.add_argument("--epochs", type=whole_number(1), default=20)
    parser.add_argument("--batch", type=whole_number(1), default=16)
    parser.add_argument("--seed", type=whole_number(0), default=1)
    parser.add_argument("--data", type=pathlib.Path, help="folder of the digits; default: found "
                        "from the working directory")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    folder = arguments.data or data_folder()
    strategy = tutti.distribute.MirroredStrategy([f"CPU:{i}" for i in range(arguments.replicas)])
    model = Model(strategy, arguments.seed)
    training, held_out = (
        strategy.distribute_dataset(digits(folder, part, arguments.batch, arguments.seed))
        for part in (False, True))

    model.train(arguments.epochs, training)
    _, correct, rows = model.run_epoch(model.evaluate_step, held_out)
    accuracy = 100 * correct / rows if rows else 0.0
    print(f"held-out accuracy: {accuracy:.2f} %")

    hashes = [hashlib.sha256(copy).hexdigest() for copy in model.weights.copies()]
    for replica, value in enumerate(hashes):
        print(f"replica {replica} weights sha256: {value}")
    if len(set(hashes)) > 1:
        sys.exit("train_digits: the weights of the replicas differ")
    if accuracy < LOWEST_ACCURACY:
        sys.exit(f"train_digits: the accuracy is under {LOWEST_ACCURACY:.0f} %")


if __name__ == "__main__":
    main()
