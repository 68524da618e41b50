"""Steps of random pipelines. Each `draw` takes the pipeline so far (its spec, as tf.data says it)
and gives a step, which is applied to a dataset of either library; None where it does not fit."""

import random as random_numbers

import numpy as np

import bodies
from bodies import TEXTS, draw_predicate, draw_result, draw_term, leaves_of
from sides import flattened

MOST_ELEMENTS = 50


class Step:
    """text: what it is, for people. apply(side, dataset). is_callback: it may tell less of specs
    in advance than tf.data. shuffles: the order is not to be compared behind it. passes_over: some
    elements of its input are not asked for."""

    def __init__(self, text, apply, is_callback=False, shuffles=False, passes_over=False):
        self.text, self.apply = text, apply
        self.is_callback, self.shuffles, self.passes_over = is_callback, shuffles, passes_over
        self.calls = text.startswith(("map", "flat_map", "interleave"))
        # Whether it may call a function of Python's, by which nobody can tell pipelines apart.
        self.may_call_back = is_callback or "native=None" in text or "native=False" in text or (
            text.startswith("from_generator"))


class Pipeline:
    """What is known of a pipeline while it grows."""

    def __init__(self, seed, files):
        self.random = random_numbers.Random(seed)
        self.files = files
        self.native = self.random.choice((None, True, False))
        self.spec = None
        self.cardinality = 0
        self.is_shuffled = False
        self.may_call_back = False
        self.is_learnt = True  # whether ours knows what its elements are,
        self.is_promised = True  # and says so of all of them

    leaves = property(lambda self: leaves_of(self.spec))
    holds_datasets = property(lambda self: bodies.holds(self.spec, list))
    is_infinite = property(lambda self: self.cardinality == -1)

    def native_for(self, result=None):
        """What a function is to be: an expression only where it can be one."""
        leaves = self.leaves
        if result is not None and bodies.needs_callback(result):
            return False
        if leaves is None or not self.is_learnt or any(leaf.shape is None for leaf in leaves):
            return False
        if not self.is_promised and not all(leaf.is_known for leaf in leaves):
            return False  # an expression would be of the first element's sizes
        return self.native

    def number(self, low, high):
        """Mostly a good one, seldom one that is refused."""
        if self.random.random() < 0.02:
            return self.random.choice((0, -1, -2))
        return self.random.randint(low, high)


# ---- sources

def _array(random, rows, depth=0):
    shape = (rows,) + tuple(random.randint(1, 3) for _ in range(random.choice((0, 0, 0, 1, 1, 2))))
    dtype = random.choice(bodies.INTEGERS + bodies.FLOATS + ("bool", "bytes", "int64"))
    count = int(np.prod(shape))
    if dtype == "bytes":
        items = np.empty(count, object)
        items[:] = [random.choice(TEXTS) for _ in range(count)]
        return items.reshape(shape)
    low = 0 if dtype == "uint8" else -5
    items = np.array([random.randint(low, 12) for _ in range(count)], np.float64)
    if dtype in bodies.FLOATS:
        items /= 2
    if dtype == "bool":
        items = items > 3
    return items.astype(dtype).reshape(shape)


def _structure(random, rows, depth=0):
    drawn = random.random()
    if depth < 2 and drawn < 0.25:
        return tuple(_structure(random, rows, depth + 1) for _ in range(random.randint(1, 3)))
    if depth < 2 and drawn < 0.4:
        return {key: _structure(random, rows, depth + 1)
                for key in random.sample("abcd", random.randint(1, 3))}
    return _array(random, rows)


def _told(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {_told(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple):
        return "(" + ", ".join(_told(v) for v in value) + ",)"
    return f"np.array({value.tolist()!r}, {value.dtype}).reshape({value.shape})"


def draw_source(pipeline):
    random = pipeline.random
    kind = random.choice(("range", "range", "slices", "slices", "slices", "slices", "tensors",
                          "records", "lines", "fixed", "generator", "zip", "names"))
    if kind == "range":
        start, stop = random.randint(-4, 4), random.randint(-2, 14)
        step = random.choice((1, 1, 2, 3, -1, -2, 0 if random.random() < 0.1 else 1))
        dtype = random.choice((None, None, None, "int32", "float32", "float64", "uint8"
                               if min(start, stop) >= 0 else "int64"))
        extra = {} if dtype is None else {"output_type": np.dtype(dtype)}
        return Step(f"range({start}, {stop}, {step}, {dtype})",
                    lambda side, _: side.Dataset.range(start, stop, step, **extra))
    if kind == "slices":
        structure = _structure(random, random.choice((0, 1, 3, 5, 8, 13)))
        if random.random() < 0.02:
            structure = (structure, np.zeros(2, np.int64))
        return Step(f"from_tensor_slices({_told(structure)})",
                    lambda side, _: side.Dataset.from_tensor_slices(structure))
    if kind == "tensors":
        structure = _structure(random, random.choice((0, 1, 3)))
        return Step(f"from_tensors({_told(structure)})",
                    lambda side, _: side.Dataset.from_tensors(structure))
    if kind == "generator":
        rows = random.randint(0, 6)
        arrays = _array(random, rows)
        shape = random.choice((arrays.shape[1:], (None,) * (arrays.ndim - 1)))
        dtype = bytes if arrays.dtype == object else arrays.dtype
        # Each pass has arrays of its own: TensorFlow writes what it computes into what it is given.
        return Step(f"from_generator(rows of {_told(arrays)}, {shape})",
                    lambda side, _: side.Dataset.from_generator(
                        lambda: iter(arrays.copy()), output_signature=side.spec(shape, dtype)))
    if kind == "zip":
        counts = [random.choice((0, 2, 5, 9)) for _ in range(random.randint(2, 3))]
        as_dict = random.random() < 0.3

        def zipped(side, _):
            parts = [side.Dataset.range(count) for count in counts]
            return side.Dataset.zip(dict(zip("xyz", parts)) if as_dict else tuple(parts))
        return Step(f"zip of ranges of {counts}{' in a dict' if as_dict else ''}", zipped)
    return _file_source(pipeline, kind)


def _file_source(pipeline, kind):
    random, files = pipeline.random, pipeline.files
    if kind == "names":
        return Step("list_files(shuffle=False)", lambda side, _: side.Dataset.list_files(
            files.pattern, shuffle=False))
    if kind == "records":
        readers = random.choice((None, None, 1, 2, 3))
        compression = random.choice((None, None, "GZIP", "ZLIB"))
        given = files.some_of(random, files.records[compression])
        return Step(f"TFRecordDataset({given}, {compression}, num_parallel_reads={readers})",
                    lambda side, _: side.TFRecordDataset(given, compression,
                                                         num_parallel_reads=readers))
    if kind == "lines":
        given = files.some_of(random, files.lines)
        return Step(f"TextLineDataset({given})", lambda side, _: side.TextLineDataset(given))
    width, header, footer = (random.randint(1, 5), random.randint(0, 3), random.randint(0, 3))
    given = files.some_of(random, files.long)
    return Step(f"FixedLengthRecordDataset({given}, {width}, {header}, {footer})",
                lambda side, _: side.FixedLengthRecordDataset(given, width, header, footer))


# ---- transformations of any element

def draw_take(p):
    n = max(p.number(0, 9), -1)
    return Step(f"take({n})", lambda side, d: d.take(n))


def draw_skip(p):
    n = max(p.number(0, 4), -1)
    return Step(f"skip({n})", lambda side, d: d.skip(n), passes_over=True)


def draw_shard(p):
    n = max(p.number(1, 4), 0)
    i = p.random.randint(0, max(n - 1, 0)) if p.random.random() < 0.95 else n
    return Step(f"shard({n}, {i})", lambda side, d: d.shard(n, i), passes_over=True)


def draw_repeat(p):
    n = p.random.choice((0, 1, 2, 2, 3, 3, None, -1)) if p.random.random() < 0.7 else 2
    return Step(f"repeat({n})", lambda side, d: d.repeat(n))


def draw_batch(p):
    if p.holds_datasets:
        return None  # neither library has a use for what would come out
    n, drop = p.number(1, 5), p.random.choice((True, False))
    calls = p.random.choice((None, None, None, 2))
    extra = {} if calls is None else {"num_parallel_calls": calls}
    return Step(f"batch({n}, {drop}, {extra})",
                lambda side, d: d.batch(n, drop_remainder=drop, **extra), passes_over=drop)


def draw_enumerate(p):
    n = p.random.choice((0, 0, 5, -3))
    return Step(f"enumerate({n})", lambda side, d: d.enumerate(n))


def draw_prefetch(p):
    n = p.random.choice((0, 1, 2, 5, -1)) if p.random.random() < 0.98 else -2
    return Step(f"prefetch({n})", lambda side, d: d.prefetch(n))


def draw_cache(p):
    if p.is_infinite:
        return None
    path = p.files.fresh() if p.random.random() < 0.3 and not p.holds_datasets else None
    if path is None:
        return Step("cache()", lambda side, d: d.cache())
    return Step("cache(file)", lambda side, d: d.cache(f"{path}-{side.name}"))


def draw_concatenate(p):
    kind, n = p.random.randrange(4), p.random.randint(0, 5)
    if kind == 0:
        return Step("concatenate(itself)", lambda side, d: d.concatenate(d))
    if kind == 1:
        return Step(f"concatenate(its skip({n}))", lambda side, d: d.concatenate(d.skip(n)),
                    passes_over=True)
    if kind == 2:
        return Step(f"behind its take({n})", lambda side, d: d.take(n).concatenate(d))
    return Step("concatenate(range)", lambda side, d: d.concatenate(side.Dataset.range(n)))


def draw_zip(p):
    kind, n = p.random.randrange(4), p.random.randint(0, 9)
    if kind == 0:
        return Step(f"zip with range({n})",
                    lambda side, d: side.Dataset.zip((d, side.Dataset.range(n))))
    if kind == 1:
        return Step("zip of a dict", lambda side, d: side.Dataset.zip(
            {"b": d, "a": side.Dataset.range(n).repeat()}))
    if kind == 2:
        return Step("zip with itself", lambda side, d: side.Dataset.zip((d, d.skip(1))),
                    passes_over=True)
    return Step("zip alone", lambda side, d: side.Dataset.zip((d,)))


def draw_window(p):
    if p.leaves is None:
        return None  # ours takes no composites
    size, drop = p.number(1, 4), p.random.choice((True, False))
    shift = p.random.choice((None, None, 1, 2, 3))
    stride = p.random.choice((1, 1, 1, 2, 3))
    return Step(f"window({size}, {shift}, {stride}, {drop})",
                lambda side, d: d.window(size, shift, stride, drop), passes_over=True)


def draw_choose(p):
    n = p.random.randint(1, 3)
    most = n - 1 if p.random.random() < 0.93 else n
    choices = np.array([p.random.randint(0, most) for _ in range(p.random.randint(0, 12))],
                       np.int64)
    stop = p.random.choice((True, False))
    return Step(f"choose_from_datasets({n} skips of it, {choices.tolist()}, {stop})",
                lambda side, d: side.Dataset.choose_from_datasets(
                    [d.skip(i) for i in range(n)],
                    side.Dataset.from_tensor_slices(choices), stop), passes_over=True)


def draw_sample(p):
    if p.leaves is None:
        return None
    if p.random.random() < 0.5:  # one that is always drawn, among others
        n = p.random.randint(1, 3)
        weights = [0.0] * n
        weights[p.random.randrange(n)] = 2.0
        return Step(f"sample_from_datasets({n} takes of it, {weights}, stop_on_empty_dataset)",
                    lambda side, d: side.Dataset.sample_from_datasets(
                        [d.take(i + 1) for i in range(n)], weights, seed=7,
                        stop_on_empty_dataset=True), passes_over=True)
    at = p.random.randint(0, 4)
    weights = p.random.choice((None, [0.25, 0.75]))
    return Step(f"sample_from_datasets(what is before and from {at}, {weights})",
                lambda side, d: side.Dataset.sample_from_datasets(
                    [d.take(at), d.skip(at)], weights, seed=7, stop_on_empty_dataset=False),
                shuffles=True, passes_over=True)


def draw_snapshot(p):
    if p.is_infinite or p.leaves is None or p.may_call_back:
        return None
    compression, path = p.random.choice((None, "AUTO", "GZIP", "SNAPPY")), p.files.fresh()
    return Step(f"snapshot({compression})",
                lambda side, d: d.snapshot(f"{path}-{side.name}", compression))


def draw_options(p):
    deterministic = p.random.choice((True, False))

    def apply(side, d):
        options = side.data.Options()
        options.deterministic = True
        options.experimental_slack = deterministic
        return d.with_options(options)
    return Step("with_options(deterministic)", apply)


def draw_shuffle(p):
    if p.random.random() < 0.5:
        return Step("shuffle(1)", lambda side, d: d.shuffle(1, seed=3))
    n = p.number(2, 9)
    return Step(f"shuffle({n})", lambda side, d: d.shuffle(n, seed=5), shuffles=True)


def draw_assert_cardinality(p):
    n = p.cardinality if p.cardinality >= 0 and p.random.random() < 0.7 else p.random.randint(0, 5)
    return Step(f"assert_cardinality({n})", lambda side, d: d.apply(
        side.data.experimental.assert_cardinality(n)))


# ---- transformations with functions, or of some elements only

def draw_map(p):
    leaves = p.leaves
    if leaves is None:
        return None
    result = draw_result(p.random, leaves)
    native = p.native_for(result)
    calls = p.random.choice((None, None, 2, -1))
    return Step(f"map({result!r}, native={native}, num_parallel_calls={calls})",
                lambda side, d: d.map(side.called(bodies.body(side, result)),
                                      num_parallel_calls=calls, **side.option(native)),
                is_callback=native is not True)


def _predicate_step(p, name):
    leaves = p.leaves
    drawn = None if leaves is None else draw_predicate(p.random, leaves)
    if drawn is None:
        return None
    term, on, text = drawn
    native = False if term.needs_callback() else p.native_for()

    def apply(side, d):
        return getattr(d, name)(side.called(lambda *e: on(side, flattened(e))),
                                **side.option(native))
    return Step(f"{name}({text}, native={native})", apply)


def draw_filter(p):
    return None if p.is_infinite else _predicate_step(p, "filter")


def draw_take_while(p):
    return None if p.is_infinite else _predicate_step(p, "take_while")


def draw_unique(p):
    leaves = p.leaves
    if p.is_infinite or leaves is None:
        return None
    good = len(leaves) == 1 and leaves[0].dtype in ("int64", "int32", "bytes")
    if not good and p.random.random() < 0.9:
        return None
    return Step("unique()", lambda side, d: d.unique())


def draw_unbatch(p):
    leaves = p.leaves
    if leaves is None or not all(leaf.is_array for leaf in leaves) and p.random.random() < 0.97:
        return None
    if any(0 in (leaf.shape or ()) for leaf in leaves):
        return None  # TensorFlow dies of it
    return Step("unbatch()", lambda side, d: d.unbatch())


def _padding_of(p, structure, leaves):
    """padded_shapes for it, drawn: None, or a structure of sizes."""
    if p.random.random() < 0.6:
        return None

    def shapes(spec):
        if isinstance(spec, dict):
            return {key: shapes(part) for key, part in spec.items()}
        if len(spec) > 0 and isinstance(spec[0], str):
            return [p.random.choice((None, None, 3, 4, 1, size)) for size in spec[2]]
        return tuple(shapes(part) for part in spec)
    return shapes(structure)


def draw_padded_batch(p):
    leaves = p.leaves
    if leaves is None or not p.is_learnt or any(leaf.shape is None for leaf in leaves):
        return None
    n, drop = p.number(1, 4), p.random.choice((True, False))
    shapes = _padding_of(p, p.spec, leaves)
    values = None
    if len(leaves) == 1 and leaves[0].is_number and p.random.random() < 0.4:
        values = np.dtype(leaves[0].dtype).type(7)
        if isinstance(p.spec, dict) or not isinstance(p.spec[0], str):
            values = None
    return Step(f"padded_batch({n}, {shapes}, {values!r}, {drop})",
                lambda side, d: d.padded_batch(n, padded_shapes=shapes, padding_values=values,
                                               drop_remainder=drop), passes_over=drop)


def draw_sparse_batch(p):
    leaves = p.leaves
    if leaves is None or len(leaves) != 1 or leaves[0].shape is None or isinstance(p.spec, dict) \
            or not isinstance(p.spec[0], str):
        return None
    n = p.random.randint(1, 4)
    shape = [p.random.choice((None, 3, 6)) for _ in leaves[0].shape]
    return Step(f"dense_to_sparse_batch({n}, {shape})",
                lambda side, d: d.apply(
                    side.data.experimental.dense_to_sparse_batch(n, shape)))


def draw_bucket(p):
    leaves = p.leaves
    if p.is_infinite or leaves is None or any(leaf.shape is None for leaf in leaves):
        return None
    if not p.is_learnt:
        return None
    arrays = [i for i, leaf in enumerate(leaves) if leaf.is_array]
    if not arrays:
        return None
    index = p.random.choice(arrays)
    bounds = sorted(p.random.sample(range(1, 6), p.random.randint(1, 3)))
    sizes = [p.random.randint(1, 3) for _ in range(len(bounds) + 1)]
    drop = p.random.random() < 0.3
    to_bound, no_padding = p.random.choice(((False, False),) * 7 + ((True, False), (False, True)))
    to_bound = to_bound and p.is_promised
    return Step(f"bucket_by_sequence_length(rows of leaf{index}, {bounds}, {sizes}, "
                f"{to_bound}, {no_padding}, {drop})",
                lambda side, d: d.bucket_by_sequence_length(
                    side.called(lambda *e: side.rows(flattened(e)[index])), bounds, sizes,
                    pad_to_bucket_boundary=to_bound, no_padding=no_padding,
                    drop_remainder=drop), is_callback=True, passes_over=drop)


def _of_windows(p):
    """A function of windows, one for each component, that gives a dataset of elements."""
    how, n = p.random.randrange(4), p.random.randint(1, 4)

    def zipped(side, parts):
        whole = parts[0] if len(parts) == 1 else parts
        if len(parts) == 1 and not isinstance(whole, (tuple, dict)):
            return whole
        return side.Dataset.zip(whole)

    def on(side, *parts):
        d = zipped(side, parts)
        if how == 1:
            return d.batch(n)
        return d.take(n) if how == 2 else d.skip(1).repeat(2) if how == 3 else d
    return on, f"{('elements', f'batch({n})', f'take({n})', 'skip(1).repeat(2)')[how]} of windows"


def _datasets(p):
    """A function that gives a dataset for each element, its text, and whether it is a callback."""
    random, leaves = p.random, p.leaves
    if leaves is None:
        if isinstance(p.spec, list) or all(
                isinstance(part, list) for part in
                (p.spec.values() if isinstance(p.spec, dict) else p.spec)):
            on, text = _of_windows(p)
            return on, text, False
        return None
    how, n = random.randrange(3), random.randint(0, 3)
    if how == 0:
        drawn = draw_term(random, leaves, 2, lambda l: l.is_scalar and l.dtype == "int64")
        if drawn is None or drawn[0].needs_callback():
            return None
        term = drawn[0]

        def ranges(side, *element):
            x = term.on(side, flattened(element))
            inner = side.Dataset.range(x % 4)
            return inner.map(side.called(lambda y: y + x), **side.option(native))
        native = p.native_for()
        return ranges, f"range({term!r} % 4).map(+)", native
    if how == 1 and all(leaf.is_array for leaf in leaves):
        return (lambda side, *element: side.Dataset.from_tensor_slices(
            element[0] if len(element) == 1 else element)), "from_tensor_slices", p.native_for()
    return (lambda side, *element: side.Dataset.from_tensors(
        element[0] if len(element) == 1 else element).repeat(n)), f"from_tensors.repeat({n})", \
        p.native_for()


def draw_flat_map(p):
    drawn = None if p.is_infinite else _datasets(p)
    if drawn is None:
        return None
    on, text, native = drawn
    return Step(f"flat_map({text}, native={native})",
                lambda side, d: d.flat_map(side.called(lambda *e: on(side, *e)),
                                           **side.option(native)), is_callback=native is not True)


def draw_interleave(p):
    drawn = None if p.is_infinite else _datasets(p)
    if drawn is None:
        return None
    on, text, native = drawn
    cycle, block = p.number(1, 4), p.number(1, 3)
    cycle = 0 if cycle == -1 else cycle  # AUTOTUNE: each library's own choice
    calls = p.random.choice((None, None, 1, 2))
    return Step(f"interleave({text}, {cycle}, {block}, {calls}, native={native})",
                lambda side, d: d.interleave(side.called(lambda *e: on(side, *e)), cycle, block,
                                             calls, deterministic=True, **side.option(native)),
                is_callback=native is not True)


def draw_group_by_window(p):
    leaves = p.leaves
    if p.is_infinite or leaves is None:
        return None
    drawn = draw_term(p.random, leaves, 2, lambda l: l.is_scalar and l.is_integer)
    if drawn is None:
        return None
    term, by, size = drawn[0], p.random.randint(1, 4), p.number(1, 4)
    how, n = p.random.randrange(3), p.random.randint(1, 3)

    def window(key, w):
        return (w.batch(n), w, w.take(n))[how]
    return Step(f"group_by_window({term!r} % {by}, {('batch', 'all', 'take')[how]} {n}, {size})",
                lambda side, d: d.group_by_window(
                    side.called(lambda *e: side.cast(term.on(side, flattened(e)) % by, "int64")),
                    side.called(window), size), is_callback=True)


def draw_end(p):
    """What ends some of the pipelines: reduce, which gives an element in the place of a dataset."""
    leaves = p.leaves
    if p.is_infinite or p.is_shuffled or leaves is None or p.random.random() < 0.7:
        return None
    drawn = draw_term(p.random, leaves, 2, lambda l: l.is_scalar and l.is_integer)
    if drawn is None:
        return None
    term, native = drawn[0], p.native_for()
    initial = (np.int64(0), {"x": np.int64(p.random.randint(-3, 3))})

    def reduced(side, state, element):
        count, rest = state
        x = side.cast(term.on(side, flattened(element)), "int64")
        return count + 1, {"x": rest["x"] * 3 + x}
    return Step(f"reduce({initial}, count, {term!r}, native={native})",
                lambda side, d: d.reduce(initial, side.called(
                    lambda state, element: reduced(side, state, element)), **side.option(native)))


ANY = {draw_take: 3, draw_skip: 2, draw_shard: 2, draw_repeat: 2, draw_batch: 5, draw_enumerate: 1,
       draw_prefetch: 1, draw_cache: 1, draw_concatenate: 2, draw_zip: 2, draw_window: 2,
       draw_choose: 2, draw_sample: 1, draw_snapshot: 1, draw_options: 1, draw_shuffle: 1,
       draw_assert_cardinality: 1, draw_map: 7, draw_filter: 4, draw_take_while: 1, draw_unique: 1,
       draw_unbatch: 3, draw_padded_batch: 4, draw_sparse_batch: 1, draw_bucket: 2,
       draw_flat_map: 4, draw_interleave: 4, draw_group_by_window: 2}
# What no order matters to.
EACH_ALONE = {draw_map: 3, draw_filter: 3, draw_unbatch: 1, draw_prefetch: 1, draw_options: 1,
              draw_flat_map: 1}


def draw_step(pipeline):
    among = EACH_ALONE if pipeline.is_shuffled else ANY
    if pipeline.is_infinite and pipeline.random.random() < 0.7:
        return draw_take(pipeline)
    while True:
        step = pipeline.random.choices(list(among), list(among.values()))[0](pipeline)
        if step is not None and not (step.shuffles and not 0 <= pipeline.cardinality <= 30):
            return step
