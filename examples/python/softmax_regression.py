"""Softmax regression on handwritten digits: the shortest training program over several workers.

    PYTHONPATH=build/release/bindings/python python3 examples/python/softmax_regression.py
        [--epochs E] [--data DIR]

Alone or under `tutti run --workers 4 -- ...`. The same program stands in examples/c, examples/java
and examples/go; all four compute in float32 in the same order, so that any of them gives the same
weights, bit for bit, and the four can be the workers of one job (`examples/run polyglot`).
"""

import argparse
import hashlib
import sys

import numpy as np

import tutti

PIXELS, CLASSES = 64, 10
BATCH = 64  # rows over all replicas of all workers
LEARNING_RATE = np.float32(0.5)


def digits(folder):
    """The training part and the held-out part, in batches {"image": [n, 64], "label": [n]}. Each of
    several workers reads files of its own, for datasets are sharded by themselves."""
    files = tutti.data.Dataset.list_files(f"{folder}/digits-*.tfrecord", shuffle=False)
    examples = tutti.data.TFRecordDataset(files).map(
        tutti.data.parse_example({"image": ([PIXELS], np.float32), "label": ([], np.int64)}))
    examples = examples.cache()  # read and parsed once, by the first pass
    training = examples.shard(5, 0)
    for fifth in range(1, 4):
        training = training.concatenate(examples.shard(5, fifth))
    return training.shuffle(2000, seed=1).batch(BATCH), examples.shard(5, 4).batch(BATCH)


def softmax(weights, images):
    """The chances [n, 10] of the classes, and the pixels [n, 64] from 0 to 1. The last row of the
    weights [65, 10] are the biases. What is written as a loop is added up in that order."""
    pixels = images / np.float32(16)
    scores = np.tile(weights[PIXELS], (len(pixels), 1))
    for i in range(PIXELS):
        scores += pixels[:, i, np.newaxis] * weights[i]
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores.astype(np.float64)).astype(np.float32)
    total = np.zeros(len(pixels), np.float32)
    for j in range(CLASSES):
        total += chances[:, j]
    return chances / total[:, np.newaxis], pixels


def gradient_of(chances, pixels, labels):
    """Of the summed loss, by the weights."""
    chances[np.arange(len(labels)), labels] -= 1
    gradient = np.zeros((PIXELS + 1, CLASSES), np.float32)
    for row in range(len(labels)):
        gradient[:PIXELS] += pixels[row, :, np.newaxis] * chances[row]
        gradient[PIXELS] += chances[row]
    return gradient


class Model:
    def __init__(self, strategy):
        self.strategy = strategy
        with strategy.scope():
            # A copy per replica; what the replicas of all workers assign is summed.
            self.weights = tutti.Variable(np.zeros((PIXELS + 1, CLASSES), np.float32),
                                          name="weights", aggregation="sum")

    def evaluate_step(self, batch):
        chances, _ = softmax(self.weights.data(), batch["image"])
        return self.score(chances, batch["label"])

    def train_step(self, batch):
        """Runs once per replica, concurrently, each time on a part of a batch."""
        chances, pixels = softmax(self.weights.data(), batch["image"])
        score = self.score(chances, batch["label"])
        rows = tutti.distribute.get_replica_context().global_rows  # of the whole batch
        rate = LEARNING_RATE / np.float32(rows)
        self.weights.assign_sub(rate * gradient_of(chances, pixels, batch["label"]))
        return score

    @staticmethod
    def score(chances, labels):
        """Summed loss, right ones, rows."""
        own = chances[np.arange(len(labels)), labels].astype(np.float64)
        loss = -np.log(np.maximum(own, 1e-30)).sum()
        return np.array([loss, (chances.argmax(axis=1) == labels).sum(), len(labels)])

    def walk(self, step, batches):
        """One walk over the data: the sum of what the replicas of all workers gave."""
        return sum(self.strategy.reduce("sum", self.strategy.run(step, args=(batch,)))
                   for batch in batches)


def train(epochs, folder):
    strategy = tutti.distribute.MultiWorkerMirroredStrategy()  # the workers stand in TF_CONFIG
    model = Model(strategy)
    training, held_out = map(strategy.distribute_dataset, digits(folder))
    for epoch in range(1, epochs + 1):
        loss, _, rows = model.walk(model.train_step, training)
        print(f"epoch {epoch}: loss {loss / rows:.6f}", flush=True)
    _, right, rows = model.walk(model.evaluate_step, held_out)
    print(f"held-out accuracy: {100 * right / rows:.2f} %")
    weights = model.weights.numpy().astype("<f4")
    fingerprint = hashlib.sha256(weights).hexdigest()
    print(f"worker {strategy.worker} (Python): weights sha256 {fingerprint}", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Softmax regression on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--data", default="examples/data", help="folder of the digits")
    arguments = parser.parse_args()
    if arguments.epochs < 1:
        parser.error(f"--epochs {arguments.epochs}: expected 1 or more")
    try:
        train(arguments.epochs, arguments.data)
    except tutti.errors.Error as error:
        sys.exit(f"softmax_regression: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
