"""Functions of records and texts beside TensorFlow's, on random input: parse_example,
parse_sequence_example, decode_csv, decode_raw and what stands for tf.strings. Each row's result
(dtype, shape, bits), or that it is refused, is the same, and so is the element_spec.

    parsers_test.py

TUTTI_TEST_SEED=1234 repeats one case, TUTTI_TEST_FIRST_SEED=1000 begins there, and
TUTTI_TEST_SCALE=1000 makes 4,000 of the 400; up to 100 nothing new begins after 60 seconds. Exits
with 77, which CTest shows as skipped, when TensorFlow is not installed here.
"""

import logging
import os
import random as random_numbers
import sys
import time
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
try:
    import tensorflow as tf
except ImportError as missing:
    print(f"SKIPPED: tensorflow is not installed for {sys.executable}: {missing}")
    sys.exit(77)

import numpy as np  # noqa: E402
import tutti  # noqa: E402
from tutti.data import FixedLenFeature, RaggedFeature, VarLenFeature  # noqa: E402

import runs  # noqa: E402
from sides import SIDES  # noqa: E402
from texts import difference, shown, spec_difference  # noqa: E402
from walk import Difference, attempt, fits, named  # noqa: E402

CASES_WANTED = 400
MOST_S = 60

TEXTS = (b"", b"a", b"7", b"-3", b" 12 ", b"1.5", b"1e3", b"abc", b"+4", b"nan", b"-inf",
         b"9223372036854775807", b"9223372036854775808", b"2147483648", b"1e400", b"1 2", b"TRUE",
         b"\xff\x00", b".5", b"5.", b"--1", b"1e", b"0.1", b"16777217", b"3.4028236e38")
DTYPES = {"int64": tf.int64, "float32": tf.float32, "bytes": tf.string}


def ours_of(dtype):
    return bytes if dtype == "bytes" else np.dtype(dtype)


def outcomes(side, dataset, most):
    """Each row, or the error that it is; going on behind errors."""
    rows, iterator = [], side.iterator(dataset)
    while len(rows) < most:
        try:
            rows.append(side.plain(next(iterator)))
        except StopIteration:
            return rows
        except Exception as error:
            rows.append(error)
    return rows


def compare(makes, most):
    """Both sides' datasets, made by `makes`: their specs and their rows."""
    (theirs, their_error), (ours, our_error) = (attempt(lambda: make(side))
                                                for make, side in zip(makes, SIDES))
    if their_error is not None or our_error is not None:
        if their_error is None or our_error is None or not fits(their_error, our_error):
            raise Difference(f"refused by {named(their_error)}\n  and by {named(our_error)}")
        return
    told = spec_difference(SIDES[0].plain_spec(theirs.element_spec),
                           SIDES[1].plain_spec(ours.element_spec), True)
    if told:
        raise Difference(f"element_spec: {told}")
    rows = [outcomes(side, dataset, most) for side, dataset in zip(SIDES, (theirs, ours))]
    if len(rows[0]) != len(rows[1]):
        raise Difference(f"{len(rows[0])} and {len(rows[1])} rows")
    for i, (a, b) in enumerate(zip(*rows)):
        if isinstance(a, Exception) or isinstance(b, Exception):
            if not isinstance(a, Exception) and isinstance(
                    b, tutti.errors.InvalidArgumentError) and "malformed" in str(b):
                continue  # TensorFlow reads some records that were cut off
            if not (isinstance(a, Exception) and isinstance(b, Exception) and fits(a, b)):
                raise Difference(f"row {i}:\n  theirs {_told(a)}\n  ours   {_told(b)}")
        else:
            told = difference(a, b)
            if told:
                raise Difference(f"row {i}: {told}")


def _told(row):
    return named(row) if isinstance(row, Exception) else shown(row)


# ---- tf.train.Example

def draw_numbers(random, dtype, count):
    if dtype == "bytes":
        return [random.choice(TEXTS) for _ in range(count)]
    if dtype == "float32":
        return [random.choice((0.5, -1.25, 3e38, 1e-30, 0.1)) for _ in range(count)]
    return [random.choice((0, 1, -1, 7, 2**62, -2**63, 300)) for _ in range(count)]


def feature(dtype, values):
    if dtype == "bytes":
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if dtype == "float32":
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def draw_features(random):
    """{name: (dtype, shape, default or None)}"""
    features = {}
    for name in random.sample(("a", "b", "c", "d"), random.randint(1, 3)):
        dtype = random.choice(tuple(DTYPES))
        shape = random.choice(((), (), (1,), (2,), (2, 2)))
        default = None
        if random.random() < 0.4:
            default = np.array(draw_numbers(random, dtype, int(np.prod(shape))),
                               object if dtype == "bytes" else dtype).reshape(shape)
        features[name] = (dtype, shape, default)
    return features


def draw_record(random, features, may_be_unset=True):
    """Mostly of these features; a few missing, empty, of another kind or another number.
    may_be_unset: or a Feature of no kind, which of a SequenceExample's context is an error of
    TensorFlow's, and missing as everywhere else here."""
    drawn = {}
    for name, (dtype, shape, _) in features.items():
        kind, count = dtype, int(np.prod(shape))
        odd = random.random()
        if odd < 0.08:
            continue
        if odd < 0.12:
            count += 1
        elif odd < 0.16:
            count = 0
        elif odd < 0.2:
            kind = random.choice(tuple(DTYPES))
        elif odd < 0.22 and may_be_unset:
            drawn[name] = tf.train.Feature()
            continue
        drawn[name] = feature(kind, draw_numbers(random, kind, count))
    if random.random() < 0.3:
        drawn["other"] = feature("int64", [1])
    return drawn


def case_example(random):
    features = draw_features(random)
    records = [tf.train.Example(features=tf.train.Features(
        feature=draw_record(random, features))).SerializeToString() for _ in range(5)]
    if random.random() < 0.2:
        records[2] = records[2][:random.randint(0, len(records[2]))]
    batch = random.choice((None, None, 1, 2))
    theirs = {name: tf.io.FixedLenFeature(
        shape, DTYPES[dtype], None if default is None else default.tolist())
        for name, (dtype, shape, default) in features.items()}
    ours = {name: FixedLenFeature(shape, ours_of(dtype), default)
            for name, (dtype, shape, default) in features.items()}

    def their_dataset(side):
        made = tf.data.Dataset.from_tensor_slices(records)
        if batch is None:
            return made.map(lambda x: tf.io.parse_single_example(x, theirs))
        return made.batch(batch).map(lambda x: tf.io.parse_example(x, theirs))

    def our_dataset(side):
        made = tutti.data.Dataset.from_tensor_slices(np.array(records, object))
        made = made if batch is None else made.batch(batch)
        return made.map(tutti.data.parse_example(ours))
    return f"parse_example({features}, batch {batch}) of {records}", (their_dataset, our_dataset)


def case_sequence(random):
    context, lists = draw_features(random), draw_features(random)
    lists = {f"list {name}": (dtype, shape, default) for name, (dtype, shape, default)
             in lists.items()}
    records = []
    for _ in range(4):
        drawn = {}
        for name, (dtype, shape, _) in lists.items():
            if random.random() < 0.1:
                continue
            steps = []
            for _ in range(random.randint(0, 3)):
                count = int(np.prod(shape)) + (random.random() < 0.03)
                kind = dtype if random.random() < 0.97 else random.choice(tuple(DTYPES))
                steps.append(feature(kind, draw_numbers(random, kind, count)))
            drawn[name] = tf.train.FeatureList(feature=steps)
        records.append(tf.train.SequenceExample(
            context=tf.train.Features(feature=draw_record(random, context, False)),
            feature_lists=tf.train.FeatureLists(feature_list=drawn)).SerializeToString())
    their_context = {name: tf.io.FixedLenFeature(
        shape, DTYPES[dtype], None if default is None else default.tolist())
        for name, (dtype, shape, default) in context.items()}
    missing = {name: random.random() < 0.5 for name in lists}
    their_lists = {name: tf.io.FixedLenSequenceFeature(shape, DTYPES[dtype],
                                                       allow_missing=missing[name])
                   for name, (dtype, shape, _) in lists.items()}
    our_context = {name: FixedLenFeature(shape, ours_of(dtype), default)
                   for name, (dtype, shape, default) in context.items()}
    our_lists = {}
    for name, (dtype, shape, _) in lists.items():
        default = (b"" if dtype == "bytes" else 0) if missing[name] else None
        our_lists[name] = FixedLenFeature(shape, ours_of(dtype), default)

    def their_dataset(side):
        return tf.data.Dataset.from_tensor_slices(records).map(
            lambda x: tf.io.parse_single_sequence_example(x, their_context, their_lists))

    def our_dataset(side):
        return tutti.data.Dataset.from_tensor_slices(np.array(records, object)).map(
            tutti.data.parse_sequence_example(our_context, our_lists))
    return (f"parse_sequence_example({context}, {lists}, missing {missing}) of {records}",
            (their_dataset, our_dataset))


ANY_LENGTH = ("sparse", "ragged")


def any_length(side_of, features):
    """The features of one side, {name: (dtype, kind)}."""
    made = {}
    for name, (dtype, kind) in features.items():
        if side_of == "theirs":
            made[name] = (tf.io.VarLenFeature(DTYPES[dtype]) if kind == "sparse" else
                          tf.io.RaggedFeature(DTYPES[dtype], row_splits_dtype=tf.int64))
        else:
            made[name] = (VarLenFeature if kind == "sparse" else RaggedFeature)(ours_of(dtype))
    return made


def draw_any_length(random, dtype):
    """A Feature, now and then of another kind, of no values, or of none."""
    odd = random.random()
    if odd < 0.06:
        return tf.train.Feature()
    kind = random.choice(tuple(DTYPES)) if odd < 0.09 else dtype
    return feature(kind, draw_numbers(random, kind, random.choice((0, 1, 1, 2, 3, 5))))


def case_sequence_of_any_length(random):
    def draw(prefix):
        return {prefix + name: (random.choice(tuple(DTYPES)), random.choice(ANY_LENGTH))
                for name in random.sample(("a", "b", "c"), random.randint(1, 2))}
    context, lists = draw(""), draw("list ")
    records = []
    for _ in range(4):
        given = {name: draw_any_length(random, dtype) for name, (dtype, _) in context.items()
                 if random.random() < 0.9}
        drawn = {name: tf.train.FeatureList(feature=[
            draw_any_length(random, dtype) for _ in range(random.randint(0, 4))])
                 for name, (dtype, _) in lists.items() if random.random() < 0.9}
        records.append(tf.train.SequenceExample(
            context=tf.train.Features(feature=given),
            feature_lists=tf.train.FeatureLists(feature_list=drawn)).SerializeToString())

    def their_dataset(side):
        features = any_length("theirs", context), any_length("theirs", lists)
        return tf.data.Dataset.from_tensor_slices(records).map(
            lambda x: tf.io.parse_single_sequence_example(x, *features))

    def our_dataset(side):
        return tutti.data.Dataset.from_tensor_slices(np.array(records, object)).map(
            tutti.data.parse_sequence_example(any_length("ours", context),
                                              any_length("ours", lists)))
    return (f"parse_sequence_example({context}, {lists}) of any length, of {records}",
            (their_dataset, our_dataset))


# ---- texts

def case_csv(random):
    delimiter = random.choice((",", ",", ";", "\t"))
    quotes = random.random() < 0.8
    na_value = random.choice(("", "", "NA"))
    kinds = [random.choice(("int32", "int64", "float32", "float64", "bytes"))
             for _ in range(random.randint(1, 4))]
    required = [random.random() < 0.3 for _ in kinds]
    width = len(kinds)
    columns = None
    if random.random() < 0.3:
        width = len(kinds) + random.randint(0, 2)
        columns = sorted(random.sample(range(width), len(kinds)))

    def field():
        odd = random.random()
        if odd < 0.45:
            return random.choice(("1", "-7", "0.5", "", "NA", " 3 ", "1e2", "12345678901"))
        if odd < 0.6:
            return random.choice(('"a"', '"a""b"', f'"x{delimiter}y"', '""', '"4"', '" 5"'))
        if odd < 0.64:
            return random.choice(('a"b', '"open', '"a"b', '"'))
        return random.choice(("12", "3", "x", "1", "2"))
    lines = []
    for _ in range(6):
        fields = width + (random.choice((-1, 1)) if random.random() < 0.04 else 0)
        lines.append(delimiter.join(field() for _ in range(fields)).encode())
    arrays = {"int32": np.int32(5), "int64": np.int64(6), "float32": np.float32(7.5),
              "float64": np.float64(8.5), "bytes": "none"}
    theirs = [tf.constant([] if must else [arrays[kind]],
                          tf.string if kind == "bytes" else kind)
              for kind, must in zip(kinds, required)]
    ours = [ours_of(kind) if must else arrays[kind] for kind, must in zip(kinds, required)]
    batch = random.choice((None, None, 2))

    def their_dataset(side):
        made = tf.data.Dataset.from_tensor_slices(lines)
        made = made if batch is None else made.batch(batch)
        return made.map(lambda x: tuple(tf.io.decode_csv(
            x, theirs, delimiter, quotes, na_value, columns)))

    def our_dataset(side):
        made = tutti.data.Dataset.from_tensor_slices(np.array(lines, object))
        made = made if batch is None else made.batch(batch)
        return made.map(tutti.data.decode_csv(ours, delimiter, quotes, na_value, columns))
    return (f"decode_csv({list(zip(kinds, required))}, {delimiter!r}, {quotes}, {na_value!r}, "
            f"{columns}, batch {batch}) of {lines}", (their_dataset, our_dataset))


def _of_each(rows, function, native=True):
    def made(side):
        return side.Dataset.from_tensor_slices(rows).map(
            side.called(lambda x: function(side, x)), **side.option(native))
    return made, made


def _texts(random):
    some = [random.choice(TEXTS) for _ in range(8)]
    array = np.empty(8, object)
    array[:] = some
    return array


def case_decode_raw(random):
    dtype = random.choice(("uint8", "int8", "int16", "uint16", "int32", "int64", "float32",
                           "float64"))
    width = np.dtype(dtype).itemsize * random.randint(0, 3) + (random.random() < 0.1)
    rows = np.empty(4, object)
    rows[:] = [random.randbytes(width) for _ in range(4)]
    return f"decode_raw({dtype}) of {rows.tolist()}", _of_each(
        rows, lambda side, x: side.decode_raw(x, dtype))


def case_to_number(random):
    dtype, rows = random.choice(("int32", "int64", "float32", "float64")), _texts(random)
    return f"to_number({dtype}) of {rows.tolist()}", _of_each(
        rows, lambda side, x: side.to_number(x, dtype))


def case_texts(random):
    kind, rows, text = random.randrange(3), _texts(random), random.choice(TEXTS)
    if kind == 0:
        return f"join({text}) of {rows.tolist()}", _of_each(
            rows, lambda side, x: side.join(x, text))
    if kind == 1:
        return f"length of {rows.tolist()}", _of_each(rows, lambda side, x: side.length(x))
    dtype = random.choice(("int64", "int32", "uint8", "int16", "bool", "float32", "float64"))
    numbers = np.array([random.choice((0, 1, 5, 100, 2.5, 1e10, 0.1, 7))
                        for _ in range(6)]).astype(dtype)
    return f"as_string of {numbers!r}", _of_each(numbers, lambda side, x: side.as_string(x))


CASES = {case_example: 5, case_sequence: 3, case_csv: 6, case_decode_raw: 1, case_to_number: 1,
         case_texts: 1, case_sequence_of_any_length: 3}


def main():
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    warnings.simplefilter("ignore")
    only = os.environ.get("TUTTI_TEST_SEED")
    first, wanted, most_s = runs.of(CASES_WANTED, MOST_S)
    begun, done, failed = time.monotonic(), 0, 0
    for seed in range(first, first + wanted):
        if done > 0 and time.monotonic() - begun >= most_s:
            break
        random = random_numbers.Random(seed)
        text, makes = random.choices(list(CASES), list(CASES.values()))[0](random)
        if only:
            print(text)
        try:
            compare(makes, 20)
        except Difference as told:
            failed += 1
            print(f"DIFFERENT seed {seed}: {text}\n  {told}", flush=True)
        done += 1
    print(f"cases: {done} of {wanted} in {time.monotonic() - begun:.1f} s, {failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
