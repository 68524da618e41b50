"""A two-layer perceptron for 8x8 digits: 64 pixels, 64 hidden units (ReLU), 10 classes (softmax).

Its parameters are one row of numbers, in the order hidden weights, hidden biases, output weights,
output biases. Plain NumPy; the arithmetic of examples/c/perceptron.c, in float64: the order in
which gradients are added up then shows in no digit that is printed, however many replicas there
are.
"""

import numpy as np

INPUTS, HIDDEN, CLASSES = 64, 64, 10
PARAMETERS = INPUTS * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES


def draw(seed, count):
    """`count` numbers in [-1, 1) with 24 bits, by SplitMix64 (Steele, Lea, Flood 2014)."""
    with np.errstate(over="ignore"):
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = np.uint64(seed) + steps
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(40)).astype(np.float64) / 8388608 - 1


def split(parameters):
    """Views of the four parts."""
    ends = np.cumsum([INPUTS * HIDDEN, HIDDEN, HIDDEN * CLASSES])
    hidden, hidden_bias, output, output_bias = np.split(parameters, ends)
    return (hidden.reshape(INPUTS, HIDDEN), hidden_bias, output.reshape(HIDDEN, CLASSES),
            output_bias)


def initial(seed):
    """He et al. 2015: weights uniform in +-sqrt(6 / fan_in), biases zero."""
    parameters = np.zeros(PARAMETERS)
    hidden, _, output, _ = split(parameters)
    numbers = draw(seed, hidden.size + output.size)
    hidden[...] = np.sqrt(6 / INPUTS) * numbers[:hidden.size].reshape(hidden.shape)
    output[...] = np.sqrt(6 / HIDDEN) * numbers[hidden.size:].reshape(output.shape)
    return parameters


def run(parameters, images, labels, scale=None):
    """Scores images [n, 64] against labels [n], n >= 0: the summed loss and the number that is
    right. With `scale` also the gradient of scale * loss, else None."""
    hidden_weights, hidden_bias, output_weights, output_bias = split(parameters)
    rows = np.arange(len(labels))
    pixels = images / 16
    hidden = np.maximum(pixels @ hidden_weights + hidden_bias, 0)
    scores = hidden @ output_weights + output_bias
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    loss = -np.log(np.maximum(chances[rows, labels], 1e-30)).sum()
    correct = int((chances.argmax(axis=1) == labels).sum())
    if scale is None:
        return loss, correct, None

    chances[rows, labels] -= 1
    chances *= scale
    gradient = np.empty(PARAMETERS)
    to_hidden, to_hidden_bias, to_output, to_output_bias = split(gradient)
    to_output[...] = hidden.T @ chances
    to_output_bias[...] = chances.sum(axis=0)
    back = (chances @ output_weights.T) * (hidden > 0)
    to_hidden[...] = pixels.T @ back
    to_hidden_bias[...] = back.sum(axis=0)
    return loss, correct, gradient
