"""Trains the digits on two logical GPUs of one device, through ctypes.

    digits.py LIBTUTTI FOLDER [DEVICES]      FOLDER: examples/data; DEVICES: "GPU:0,GPU:1"

The arithmetic is PyTorch's on the device where it is there, else NumPy's on copies. Batches reach
the replicas on their GPUs; gradients are added up there, and the copies of the weights end with the
same bits. Ends with 77 where there is no GPU.
"""

import ctypes
import glob
import os
import struct
import sys
import time

os.environ["TUTTI_LOGICAL_GPU_DEVICES"] = "2"
try:
    import numpy as np
except ImportError as missing:
    print("skipped:", missing)
    sys.exit(77)
try:
    import torch
    if not torch.cuda.is_available():
        torch = None
except ImportError:
    torch = None

from library import Library, Tensor  # noqa: E402, after the variable is set

EPOCHS, BATCH, RATE, MOMENTUM = 15, 64, 0.1, 0.9
INPUTS, HIDDEN, CLASSES = 64, 64, 10
ENDS = np.cumsum([INPUTS * HIDDEN, HIDDEN, HIDDEN * CLASSES, CLASSES])
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
                            ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)
SUM, ONLY_FIRST = 1, 4


def fields(message):
    """(number, bytes or int) of a message of protobuf's, of the kinds that tf.train.Example has."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = varint()
        yield key >> 3, message[at:at + size]
        at += size


def digits(folder):
    """Images [n, 64] and labels [n] of all files, in their order."""
    images, labels = [], []
    for name in sorted(glob.glob(os.path.join(folder, "digits-*.tfrecord"))):
        data = open(name, "rb").read()
        at = 0
        while at < len(data):
            size, = struct.unpack_from("<Q", data, at)
            example = data[at + 12:at + 12 + size]
            at += size + 16
            (_, features), = fields(example)
            for _, entry in fields(features):
                (_, key), (_, feature) = fields(entry)
                (_, numbers), = fields(feature)
                if key == b"image":
                    images.append(np.frombuffer(b"".join(v for _, v in fields(numbers)), "<f4"))
                elif key == b"label":
                    (_, packed), = fields(numbers)
                    labels.append(packed if isinstance(packed, int) else packed[0])
    return np.stack(images), np.array(labels, np.int64)


def gradient_of(xp, weights, images, labels, scale):
    """The number that is right, and the gradient of scale times the loss; of xp, PyTorch or NumPy.
    """
    hidden_weights, hidden_bias, output_weights, output_bias = (
        weights[begin:end] for begin, end in zip([0, *ENDS[:-1].tolist()], ENDS.tolist()))
    hidden_weights = hidden_weights.reshape(INPUTS, HIDDEN)
    output_weights = output_weights.reshape(HIDDEN, CLASSES)
    pixels = images / 16
    hidden = (pixels @ hidden_weights + hidden_bias).clip(0)
    scores = hidden @ output_weights + output_bias
    scores = scores - (scores.max(axis=1, keepdims=True) if xp is np
                       else scores.max(dim=1, keepdim=True).values)
    chances = xp.exp(scores)
    chances = chances / (chances.sum(axis=1, keepdims=True) if xp is np
                         else chances.sum(dim=1, keepdim=True))
    right = (chances.argmax(1) == labels).sum()
    rows = xp.arange(len(labels)) if xp is np else xp.arange(len(labels), device=labels.device)
    chances[rows, labels] -= 1
    chances *= scale
    back = (chances @ output_weights.T) * (hidden > 0)
    parts = [pixels.T @ back, back.sum(0), hidden.T @ chances, chances.sum(0)]
    return right, (np.concatenate if xp is np else xp.cat)([part.reshape(-1) for part in parts])


class Training:
    def __init__(self, library, names):
        self.library = library
        devices = (ctypes.c_char_p * 2)(*(name.encode() for name in names))
        self.strategy = ctypes.c_void_p(library.made(
            "tutti_strategy_create_mirrored", None, ctypes.c_size_t(2), devices, None, None))
        start = np.zeros(ENDS[-1], np.float32)
        chance = np.random.default_rng(1)
        start[:ENDS[0]] = chance.uniform(-1, 1, ENDS[0]) * np.sqrt(6 / INPUTS)
        start[ENDS[1]:ENDS[2]] = chance.uniform(-1, 1, ENDS[2] - ENDS[1]) * np.sqrt(6 / HIDDEN)
        self.weights = ctypes.c_void_p(library.made(
            "tutti_variable_create", self.strategy, library.tensor(start),
            library.variable_options(aggregation=ONLY_FIRST), None))
        self.velocity = [None, None]
        self.right = [0, 0]
        self.devices = [None, None]
        self.function = FUNCTION(self.step)

    def step(self, context, batch, _out, _user_data):
        """Of one replica; an exception becomes a status."""
        try:
            self.step_or_raise(ctypes.c_void_p(context), ctypes.c_void_p(batch))
            return None
        except Exception as error:
            return self.library.plain("tutti_status_create", 13, repr(error).encode()[:2000],
                                      result=ctypes.c_void_p)

    def step_or_raise(self, context, batch):
        library = self.library
        replica = library.plain("tutti_context_get_replica_id", context)
        device = library.plain("tutti_context_get_device", context, result=ctypes.c_char_p)
        rows = library.plain("tutti_context_get_global_rows", context)

        def borrowed(name, *arguments):
            pointer = ctypes.c_void_p(library.made(name, *arguments))
            library.plain("tutti_tensor_retain", pointer, result=None)
            return Tensor(library, pointer.value)

        images = borrowed("tutti_value_find_tensor", batch, b"image")
        labels = borrowed("tutti_value_find_tensor", batch, b"label")
        weights = borrowed("tutti_variable_get_data", self.weights, context)
        self.devices[replica] = images.device, weights.device
        assert (images.cuda_device < 0 and b"CPU" in device
                or images.device.endswith(device.decode())), (images.device, device)
        if torch is None:
            right, gradient = gradient_of(np, weights.numpy(), images.numpy(), labels.numpy(),
                                          np.float32(1 / rows))
            mine = library.tensor(gradient).copy_to(device.decode())
        else:
            # What is shared cannot be written, which PyTorch does not know of its tensors.
            here = [one.copy_to(device.decode()) if one.is_read_only else one
                    for one in (weights, images, labels)]
            right, gradient = gradient_of(torch, *map(torch.from_dlpack, here), 1 / rows)
            mine = library.from_dlpack(gradient)
        self.right[replica] += int(right)
        value = ctypes.c_void_p(library.made("tutti_value_create_tensor", mine))
        summed = ctypes.c_void_p(library.made("tutti_context_all_reduce", context, SUM, value,
                                              None))
        leaf = library.plain("tutti_value_get_leaf_tensor", summed, ctypes.c_size_t(0),
                             result=ctypes.c_void_p)
        library.plain("tutti_tensor_retain", ctypes.c_void_p(leaf), result=None)
        total = Tensor(library, leaf)
        if torch is not None and total.is_read_only:
            total = total.copy_to(device.decode())
        total_of = total.numpy() if torch is None else torch.from_dlpack(total)
        old = self.velocity[replica]
        update = RATE * total_of if old is None else MOMENTUM * old + RATE * total_of
        self.velocity[replica] = update
        given = (library.tensor(update).copy_to(device.decode()) if torch is None
                 else library.from_dlpack(update))
        library.call("tutti_variable_assign_sub", self.weights, context, given, None)
        for done in (value, summed):
            library.plain("tutti_value_release", done, result=None)

    def epoch(self, images, labels, seed):
        """The share that is right, and how many steps there were."""
        library = self.library
        self.right = [0, 0]
        steps = 0
        dataset = library.batches({"image": images, "label": labels}, BATCH, seed)
        distributed = ctypes.c_void_p(library.made(
            "tutti_strategy_distribute_dataset", self.strategy, dataset, None, None))
        iterator = ctypes.c_void_p(library.made(
            "tutti_distributed_iterator_create", distributed, None))
        while True:
            batch = library.made("tutti_distributed_iterator_next", iterator, None)
            if not batch:
                break
            result = ctypes.c_void_p(library.made(
                "tutti_strategy_run", self.strategy, self.function, None,
                ctypes.c_void_p(batch), None))
            for done in (ctypes.c_void_p(batch), result):
                library.plain("tutti_value_release", done, result=None)
            steps += 1
        library.plain("tutti_distributed_iterator_release", iterator, result=None)
        library.plain("tutti_distributed_dataset_release", distributed, result=None)
        library.plain("tutti_dataset_release", dataset, result=None)
        return sum(self.right) / len(labels), steps

    def copies(self):
        """The weights of each replica, on the host."""
        copies = []
        for copy in range(2):
            live = self.library.plain("tutti_variable_get_copy", self.weights,
                                      ctypes.c_size_t(copy), result=ctypes.c_void_p)
            self.library.plain("tutti_tensor_retain", ctypes.c_void_p(live), result=None)
            copies.append(Tensor(self.library, live).numpy())
        return copies


def main(path, folder, devices="GPU:0,GPU:1"):
    library = Library(path)
    names = devices.split(",")
    if "GPU:1" in names and "GPU:1" not in library.devices(b"GPU"):
        print("skipped: no GPU:", library.text("tutti_device_describe_plugins", None))
        return 77
    training = Training(library, names)
    images, labels = digits(folder)
    held_out = np.arange(len(labels)) % 5 == 4
    began = time.perf_counter()
    all_steps = 0
    # A fake GPU computes on this machine's cores: one epoch shows that it goes.
    epochs = EPOCHS if torch is not None else 3
    for epoch in range(epochs):
        share, steps = training.epoch(images[~held_out], labels[~held_out], epoch + 1)
        all_steps += steps
    seconds = time.perf_counter() - began
    first, second = training.copies()
    assert first.tobytes() == second.tobytes(), "the replicas' weights differ"
    right, _ = gradient_of(np, first, images[held_out], labels[held_out], 1.0)
    accuracy = 100 * int(right) / int(held_out.sum())
    print(f"  digits on {devices} by {'PyTorch' if torch is not None else 'NumPy'}: "
          f"{accuracy:.2f} % of the held-out part, {1e3 * seconds / all_steps:.2f} ms a step")
    print("  a replica's batch and weights:", training.devices)
    least = 95 if torch is not None else 85
    assert accuracy >= least, f"under {least} %"
    library.shut_down()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
