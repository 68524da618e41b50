"""Trains a two-layer perceptron on handwritten digits, on the replicas of one or several workers.

    PYTHONPATH=build/release/bindings/python python3 examples/python/train_digits.py
        [--replicas N | --devices NAMES] [--epochs E] [--batch B] [--seed S] [--data DIR]
        [--checkpoints DIR] [--save-every STEPS]

or under `tutti run --workers 2 --replicas 2 -- python3 ...`. Each replica computes the gradient of
its part of a batch, scaled by one over the rows of the whole batch; all_reduce adds the gradients,
so that every replica takes the same step. At the end the accuracy on the held-out fifth is printed,
and the SHA-256 of each replica's weights: the program fails when the accuracy is under 95 % or two
replicas' weights differ in a bit.

With `--devices GPU:0,GPU:1` weights and velocities lie on GPUs, and gradients are added up there;
NumPy computes on copies in the host's memory.

With --checkpoints, weights and place in the data are saved every few steps, and a program that is
started again goes on from there, to the same losses.
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
    # Several workers share every batch: the numbers of the examples decide to what part they
    # belong, and only a worker that reads all files knows them.
    options = tutti.data.Options()
    options.experimental_distribute.auto_shard_policy = tutti.data.AutoShardPolicy.DATA
    return examples.batch(batch).with_options(options)


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
        if replica.device.startswith("GPU"):
            gradient = tutti.Tensor(gradient).copy_to(replica.device)
        gradient = replica.all_reduce("sum", gradient)
        update = MOMENTUM * self.velocity.data() + LEARNING_RATE * gradient
        self.velocity.assign(update)
        self.weights.assign_sub(update)
        return {"loss": loss, "correct": correct, "rows": len(batch["label"])}

    def evaluate_step(self, batch):
        loss, correct, _ = perceptron.run(self.weights.data(), batch["image"], batch["label"])
        return {"loss": loss, "correct": correct, "rows": len(batch["label"])}

    def take_steps(self, step, batches, sums):
        """Runs `step` for every batch and adds to `sums` what the replicas of all workers give:
        loss, right ones, rows. Yields after each step."""
        for batch in batches:
            score = self.strategy.reduce("sum", self.strategy.run(step, args=(batch,)))
            sums += [score["loss"], score["correct"], score["rows"]]
            yield


class Progress:
    """How far training has come, in an array that checkpoints hold."""

    def __init__(self):
        self.numbers = np.array([1.0, 0, 0, 0, 0])

    epoch = property(lambda self: int(self.numbers[0]))
    steps = property(lambda self: int(self.numbers[1]))
    # Of the epoch that is running.
    sums = property(lambda self: self.numbers[2:])

    def next_epoch(self):
        self.numbers[0] += 1
        self.sums[:] = 0


class Training:
    def __init__(self, model, arguments, folder):
        self.model, self.arguments, self.folder = model, arguments, folder
        self.talks = model.strategy.worker == 0

    def run(self):
        progress = Progress()
        if self.arguments.checkpoints:
            self.manager(progress=progress.numbers).restore_or_initialize()
            if self.talks and progress.steps:
                print(f"going on after step {progress.steps}, in epoch {progress.epoch}")
        while progress.epoch <= self.arguments.epochs:
            start, rows_before = time.perf_counter(), progress.sums[2]
            self.run_epoch(progress)
            elapsed = time.perf_counter() - start
            loss, correct, rows = progress.sums
            if self.talks:
                print(f"epoch {progress.epoch:2}/{self.arguments.epochs}: loss {loss / rows:.10f}, "
                      f"accuracy {100 * correct / rows:5.2f} %, "
                      f"{(rows - rows_before) / elapsed:.0f} examples/s", flush=True)
            if not math.isfinite(loss):
                sys.exit("train_digits: the loss is not finite")
            progress.next_epoch()

    def run_epoch(self, progress):
        """One walk over the training part, in an order of its own, for the epoch is part of the
        seed."""
        model, arguments = self.model, self.arguments
        batches = iter(model.strategy.distribute_dataset(
            digits(self.folder, False, arguments.batch, arguments.seed + progress.epoch)))
        manager = None
        if arguments.checkpoints:
            manager = self.manager(progress=progress.numbers, weights=model.weights,
                                   velocity=model.velocity, batches=batches)
            if progress.sums[2] > 0:
                manager.restore_or_initialize()
        for _ in model.take_steps(model.train_step, batches, progress.sums):
            progress.numbers[1] += 1
            if manager and progress.steps % arguments.save_every == 0:
                manager.save(progress.steps)

    def manager(self, **objects):
        checkpoint = tutti.train.Checkpoint(strategy=self.model.strategy, **objects)
        return tutti.train.CheckpointManager(checkpoint, self.arguments.checkpoints)

    def accuracy(self):
        """On the held-out part, in percent."""
        sums = np.zeros(3)
        batches = self.model.strategy.distribute_dataset(
            digits(self.folder, True, self.arguments.batch, 0))
        for _ in self.model.take_steps(self.model.evaluate_step, batches, sums):
            pass
        return 100 * sums[1] / sums[2] if sums[2] else 0.0


def hashes_are_equal(strategy, weights):
    """Prints the hash of the weights of each of this worker's replicas, and compares those of all
    workers."""
    hashes = []
    for replica, copy in enumerate(weights.copies()):
        value = hashlib.sha256(np.asarray(copy).tobytes())
        print(f"worker {strategy.worker} replica {replica} weights sha256: {value.hexdigest()}",
              flush=True)
        hashes.append(np.frombuffer(value.digest(), np.uint8)[np.newaxis])
    mine = strategy.per_replica(hashes)
    return len(np.unique(strategy.gather(mine, axis=0), axis=0)) == 1


def whole_number(least):
    def parse(text):
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{number}: expected {least} or more")
        return number
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(description="Trains a perceptron on handwritten digits.")
    parser.add_argument("--replicas", type=whole_number(1), help="of this worker; default: as "
                        "TUTTI_REPLICAS says, else 1")
    parser.add_argument("--devices", type=lambda names: names.split(","), metavar="NAMES",
                        help="of this worker's replicas: GPU:0,GPU:1")
    parser.add_argument("--epochs", type=whole_number(1), default=20)
    parser.add_argument("--batch", type=whole_number(1), default=16)
    parser.add_argument("--seed", type=whole_number(0), default=1)
    parser.add_argument("--data", type=pathlib.Path, help="folder of the digits; default: found "
                        "from the working directory")
    parser.add_argument("--checkpoints", help="folder of the checkpoints; default: none")
    parser.add_argument("--save-every", type=whole_number(1), default=25, metavar="STEPS")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    devices = arguments.devices or (
        arguments.replicas and [f"CPU:{i}" for i in range(arguments.replicas)])
    strategy = tutti.distribute.MultiWorkerMirroredStrategy(devices=devices)
    model = Model(strategy, arguments.seed)
    training = Training(model, arguments, arguments.data or data_folder())

    if training.talks and arguments.devices:
        print("replicas on " + ", ".join(arguments.devices), flush=True)
    training.run()
    accuracy = training.accuracy()
    if training.talks:
        print(f"held-out accuracy: {accuracy:.2f} %")
    if not hashes_are_equal(strategy, model.weights):
        sys.exit("train_digits: the weights of the replicas differ")
    if accuracy < LOWEST_ACCURACY:
        sys.exit(f"train_digits: the accuracy is under {LOWEST_ACCURACY:.0f} %")


if __name__ == "__main__":
    main()
