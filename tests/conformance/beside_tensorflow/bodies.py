"""Functions of pipelines, drawn at random: what they make of an element's leaves, written as data,
so that the same function is TensorFlow's operations on one side and NumPy's, or an expression, on
the other."""

import numpy as np

from sides import flattened
from texts import Kind

INTEGERS = ("int64", "int32", "uint8", "int16")
FLOATS = ("float32", "float64")
TEXTS = (b"", b"a", b"7", b"-3", b"abc", b"12", b"a,b")


def _signed(leaf):
    return leaf.dtype in ("int64", "int32", "int16") + FLOATS


class Leaf:
    """A leaf as far as it is known: its dtype, and its sizes, of which some may be None."""

    def __init__(self, dtype, shape):
        self.dtype, self.shape = dtype, shape

    def of(self, dtype=None, shape=False):
        return Leaf(dtype or self.dtype, self.shape if shape is False else shape)

    is_integer = property(lambda self: self.dtype in INTEGERS)
    is_number = property(lambda self: self.dtype in INTEGERS + FLOATS)
    is_scalar = property(lambda self: self.shape == ())
    is_array = property(lambda self: self.shape is not None and len(self.shape) > 0)
    is_known = property(lambda self: self.shape is not None and None not in self.shape)


def leaves_of(spec):
    """The leaves of a spec in the form of texts.py; None where one is no tensor."""
    if isinstance(spec, dict):
        return _joined(leaves_of(spec[key]) for key in sorted(spec))
    if isinstance(spec, list):
        return None
    if len(spec) > 0 and isinstance(spec[0], Kind):
        return [Leaf(spec[1], spec[2])] if spec[0] == "tensor" else None
    return _joined(leaves_of(part) for part in spec)


def holds(spec, kind):
    """Whether anything in a spec is of `kind`: list for datasets."""
    if isinstance(spec, kind):
        return True
    if isinstance(spec, (dict, tuple)):
        parts = spec.values() if isinstance(spec, dict) else spec
        return any(holds(part, kind) for part in parts)
    return False


def _joined(parts):
    joined = []
    for part in parts:
        if part is None:
            return None
        joined += part
    return joined


def _twice(size):
    return None if size is None else 2 * size


def _items(leaf):
    return int(np.prod(leaf.shape)) if leaf.is_known else None


# Of each operation: which leaves it takes, its numbers, what it does on a side, the leaf that comes
# out, and whether an expression has it.
OPERATIONS = {
    "add": (lambda l: l.is_number, lambda r: r.randint(0, 9), lambda s, x, n: x + n,
            lambda l, n: l),
    "times": (lambda l: l.is_number, lambda r: r.randint(0, 4), lambda s, x, n: x * n,
              lambda l, n: l),
    "from": (lambda l: l.is_number, lambda r: r.randint(0, 9), lambda s, x, n: n - x,
             lambda l, n: l),
    "floor_divide": (lambda l: l.is_integer, lambda r: r.randint(1, 5), lambda s, x, n: x // n,
                     lambda l, n: l),
    "modulo": (lambda l: l.is_integer, lambda r: r.randint(1, 5), lambda s, x, n: x % n,
               lambda l, n: l),
    "halve": (lambda l: l.dtype in FLOATS, None, lambda s, x: x * 0.5, lambda l: l),
    "floor": (lambda l: l.dtype in FLOATS, None, lambda s, x: s.floor(x), lambda l: l),
    "at_least": (lambda l: l.is_number, lambda r: r.randint(0, 9),
                 lambda s, x, n: s.maximum(x, n), lambda l, n: l),
    "at_most": (lambda l: l.is_number, lambda r: r.randint(0, 9),
                lambda s, x, n: s.minimum(x, n), lambda l, n: l),
    "negative": (_signed, None, lambda s, x: -x, lambda l: l),
    "absolute": (_signed, None, lambda s, x: abs(x), lambda l: l),
    "cast": (lambda l: l.is_integer or l.dtype == "bool",
             lambda r: r.choice(("int64", "int32", "uint8", "int16", "float32", "float64")),
             lambda s, x, d: s.cast(x, d), lambda l, d: l.of(d)),
    "less": (lambda l: l.is_number, lambda r: r.randint(0, 9), lambda s, x, n: x < n,
             lambda l, n: l.of("bool")),
    "at_least_as_large": (lambda l: l.is_number, lambda r: r.randint(0, 9),
                          lambda s, x, n: x >= n, lambda l, n: l.of("bool")),
    "not": (lambda l: l.dtype == "bool", None, lambda s, x: s.negate(x), lambda l: l),
    "chosen": (lambda l: l.is_number, lambda r: r.randint(0, 9),
               lambda s, x, n: s.where(x < n, x, x + x), lambda l, n: l),
    "length": (lambda l: l.dtype == "bytes", None, lambda s, x: s.length(x),
               lambda l: l.of("int32")),
    "joined": (lambda l: l.dtype == "bytes", lambda r: r.choice(TEXTS),
               lambda s, x, t: s.join(x, t), lambda l, t: l),
    "as_string": (lambda l: l.is_integer or l.dtype == "bool", None,
                  lambda s, x: s.as_string(x), lambda l: l.of("bytes")),
    "to_number": (lambda l: l.dtype == "bytes" and l.is_scalar,
                  lambda r: r.choice(("int64", "int32", "float32", "float64")),
                  lambda s, x, d: s.to_number(x, d), lambda l, d: l.of(d)),
    "stacked": (lambda l: l.shape is not None and len(l.shape) < 3, None,
                lambda s, x: s.stack(x), lambda l: l.of(shape=(2,) + l.shape)),
    "concatenated": (lambda l: l.is_array, None, lambda s, x: s.concatenate(x),
                     lambda l: l.of(shape=(_twice(l.shape[0]),) + l.shape[1:])),
    "expanded": (lambda l: l.shape is not None and len(l.shape) < 3, None,
                 lambda s, x: s.expand(x), lambda l: l.of(shape=(1,) + l.shape)),
    "flattened": (lambda l: l.shape is not None, None, lambda s, x: s.flatten(x),
                  lambda l: l.of(shape=(_items(l),))),
    "sum": (lambda l: l.dtype in ("int64", "int32") and l.shape is not None, None,
            lambda s, x: s.sum(x), lambda l: l.of(shape=())),
    "first": (lambda l: l.is_array and l.shape[0] not in (None, 0), None, lambda s, x: x[0],
              lambda l: l.of(shape=l.shape[1:])),
    "rest": (lambda l: l.is_array, None, lambda s, x: x[1:],
             lambda l: l.of(shape=((None if l.shape[0] is None else max(l.shape[0] - 1, 0)),)
                            + l.shape[1:])),
    "grown": (lambda l: l.is_scalar and l.is_integer, lambda r: r.randint(1, 5),
              lambda s, x, n: s.grown(x, n), lambda l, n: l.of(shape=(None,))),
    "fails_at": (lambda l: l.is_scalar and l.dtype in ("int64", "int32"),
                 lambda r: r.randint(-2, 9), lambda s, x, n: s.fail_at(x, n), lambda l, n: l),
}
CALLBACKS_ALONE = ("grown",)


class Term:
    """A leaf of the result: a leaf of the element, by its number, and operations on it."""

    def __init__(self, index, operations):
        self.index, self.operations = index, operations

    def __repr__(self):
        return "".join([f"leaf{self.index}"] + [
            f".{name}({', '.join(map(repr, numbers))})" for name, *numbers in self.operations])

    def on(self, side, leaves):
        x = leaves[self.index]
        for name, *numbers in self.operations:
            x = OPERATIONS[name][2](side, x, *numbers)
        return x

    def needs_callback(self):
        return any(name in CALLBACKS_ALONE for name, *_ in self.operations)


def draw_term(random, leaves, most, wanted=None, names=tuple(OPERATIONS)):
    """A term whose leaf fits `wanted`; None where none was found."""
    for _ in range(20):
        index = random.randrange(len(leaves))
        leaf, operations = leaves[index], []
        for _ in range(random.randint(0, most)):
            name = random.choice(names)
            fits, draw, _, after = OPERATIONS[name]
            if not fits(leaf) or (name == "fails_at" and random.random() < 0.7):
                continue
            numbers = [] if draw is None else [draw(random)]
            operations.append((name, *numbers))
            leaf = after(leaf, *numbers)
        if wanted is None or wanted(leaf):
            return Term(index, operations), leaf
    return None


def draw_result(random, leaves, depth=0):
    """The structure of a result, with terms in the place of its leaves."""
    drawn = random.random()
    if depth < 2 and drawn < 0.2:
        return tuple(draw_result(random, leaves, depth + 1) for _ in range(random.randint(1, 3)))
    if depth < 2 and drawn < 0.3:
        return {key: draw_result(random, leaves, depth + 1)
                for key in random.sample("abcd", random.randint(1, 2))}
    term, _ = draw_term(random, leaves, 3)
    return term


def terms_of(result):
    if isinstance(result, Term):
        return [result]
    parts = result.values() if isinstance(result, dict) else result
    return [term for part in parts for term in terms_of(part)]


def needs_callback(result):
    return any(term.needs_callback() for term in terms_of(result))


def _built(side, result, leaves):
    if isinstance(result, Term):
        return result.on(side, leaves)
    if isinstance(result, dict):
        return {key: _built(side, part, leaves) for key, part in result.items()}
    return tuple(_built(side, part, leaves) for part in result)


def body(side, result):
    """The function of an element that gives `result`."""
    return lambda *element: _built(side, result, flattened(element))


def draw_predicate(random, leaves):
    """A term that is a boolean without axes, and its text; None where the leaves have none."""
    drawn = draw_term(random, leaves, 2, lambda l: l.is_number or l.dtype == "bool")
    if drawn is None:
        drawn = draw_term(random, leaves, 2, lambda l: l.is_number or l.dtype == "bool",
                          ("length", "as_string"))
        if drawn is None:
            return None
    term, leaf = drawn
    if leaf.shape is None:
        return None
    how = random.randrange(3)
    at, by = random.randint(0, 9), random.randint(2, 4)
    if leaf.dtype != "bool" and leaf.dtype not in INTEGERS:
        how = 0

    def on(side, leaves):
        x = term.on(side, leaves)
        if leaf.dtype != "bool":
            x = x < at if how == 0 else x % by == at % by if how == 1 else x >= at
        if leaf.shape == ():
            return x
        return side.every(x) if at % 2 else side.some(x)

    return term, on, f"predicate {how}, {at}, {by} of {term!r}"
