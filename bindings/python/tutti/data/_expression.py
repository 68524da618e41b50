"""Functions that are traced: called once with placeholders, whose operations run natively."""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from tutti import _dtypes, _native, errors, strings
from tutti._composites import RaggedTensor, SparseTensor
from tutti._specs import DatasetSpec, TensorSpec
from tutti._tensor import Tensor
from tutti.data import _effects, _numpy_rules
from tutti.data._function import RAGGED, VAR_LEN, Function

_MISSING = -(1 << 63)

# NumPy's functions of one or two elements, by the operation that they are.
_UFUNCS: Dict[Any, str] = {
    getattr(np, name): name for name in (
        "add", "subtract", "multiply", "floor_divide", "remainder", "power", "minimum", "maximum",
        "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "equal",
        "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
        "logical_xor", "logical_not", "negative", "absolute", "sign", "square", "invert", "sqrt",
        "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "tanh", "floor", "ceil", "trunc",
        "rint", "isnan", "isinf", "isfinite")}

_Axis = Union[None, int, Sequence[int]]


_running = threading.local()  # .traces: of this thread, the innermost last


class _Trace:
    """The nodes of one trace, which lives as long as the call of the function, on its thread.
    Inside of the function another one may be traced, which captures its placeholders."""

    def __init__(self, spec: Any, strict: bool = False):
        self.strict = strict  # nothing may differ from what the callback would give
        self.handle = _native.expression_create(spec)
        self.thread = threading.get_ident()
        self.alive = True
        self.around = _Trace.current()

    @staticmethod
    def current() -> Optional["_Trace"]:
        """The innermost trace of this thread."""
        traces: List[_Trace] = getattr(_running, "traces", [])
        return traces[-1] if traces else None

    def __enter__(self) -> "_Trace":
        _running.traces = getattr(_running, "traces", []) + [self]
        return self

    def __exit__(self, *_: Any) -> None:
        _running.traces = _running.traces[:-1]
        self.alive = False

    def _capture(self, value: "Expr", what: str) -> int:
        around, captured = self.around, value._trace
        while around is not None and around is not captured:
            around = around.around
        if around is None or self.around is None:
            raise errors.InvalidArgumentError(
                f"{what}: a placeholder of another trace is used; a function that is traced takes "
                "its own, and those of the functions around it")
        captured.check()
        node: int = _native.expression_capture(self.handle, self.around.handle,
                                               self.around.node(value, what))
        return node

    def check(self) -> None:
        if not self.alive:
            raise errors.FailedPreconditionError(
                "a placeholder was used after the function that it was given to had returned; what "
                "is kept of a trace is its result")
        if threading.get_ident() != self.thread:
            raise errors.FailedPreconditionError(
                "a placeholder was used on another thread than the one that traces")

    def apply(self, name: str, inputs: Sequence[Any], numbers: Sequence[int] = (),
              dtype: Any = None, keep_dims: bool = False, text: str = "") -> "Expr":
        self.check()
        nodes = [self.node(value, name) for value in inputs]
        number = _dtypes.INVALID if dtype is None else _dtypes.number_of(dtype)
        result = Expr._of(self, _native.expression_add_operation(
            self.handle, name, nodes, list(numbers), number, keep_dims, text))
        if self.strict:
            _numpy_rules.check(name, inputs, result, numbers)
        return result

    def node(self, value: Any, what: str) -> int:
        """The node of an operand: a placeholder's own, a number that adapts, or a tensor."""
        if isinstance(value, Expr):
            return value._node if value._trace is self else self._capture(value, what)
        weak = type(value) in (bool, int, float, complex)
        if type(value) is int and not -(1 << 63) <= value < 1 << 64:
            raise errors.InvalidArgumentError(f"{what}: {value} is an integer of no dtype")
        if weak:
            wide = np.uint64 if type(value) is int and value >= 1 << 63 else \
                {bool: np.bool_, int: np.int64, float: np.float64,
                 complex: np.complex128}[type(value)]
            value = np.asarray(value, wide)
        node: int = _native.expression_add_constant(self.handle, value, weak)
        return node


def _axes(axis: _Axis) -> List[int]:
    if axis is None:
        return []
    return [int(axis)] if isinstance(axis, (int, np.integer)) else [int(a) for a in axis]


def _kind(of: Any) -> str:
    """NumPy's letter for the kind of a dtype; "" for bytes and where there is none."""
    return getattr(getattr(of, "dtype", None), "kind", "")


def _binary(name: str, reflected: bool = False) -> Any:
    def apply(self: "Expr", other: Any) -> Any:
        return self._pair(name, other, self) if reflected else self._pair(name, self, other)

    return apply


def _unary(name: str) -> Any:
    def apply(self: "Expr") -> "Expr":
        return self._trace.apply(name, [self])

    return apply


class Expr:
    """A placeholder: a component of an element that is not there yet, or what was computed of some.

    It has `dtype` and `shape` of one row (None where a size is not known), Python's operators,
    basic indexing (integers, slices, `...`, None), an array of integers or a placeholder of some
    as an index of axis 0, and what NumPy has for arrays: numpy.add, sqrt, exp, where, sum, mean,
    concatenate, stack, take, reshape, clip and so on take it. What it cannot be is known: `if`,
    `while`, `and`, `or`, `not`, int(), float(), numpy.asarray and iteration over an axis whose size
    is not known are errors that say so (TypeError).

    Numbers of Python take the dtype of the placeholder that they meet, and are an
    InvalidArgumentError where that does not hold them; two dtypes are one, too: astype() casts.
    Integers wrap; `//` and `%` are as Python's; `/` of integers is in float64; sums and products of
    integers are in int64 or uint64, and means of them in float64. A zero divisor of integers is an
    InvalidArgumentError of the row alone, as it comes out of the iterator.
    """

    __slots__ = ("_trace", "_node", "_spec")
    _trace: _Trace
    _node: int
    _spec: Optional[TensorSpec]
    __hash__: Any = None

    def __init__(self) -> None:
        raise TypeError("an Expr is made by tracing: Dataset.map(function, native=True), or "
                        "tutti.data.expression(function, spec)")

    @classmethod
    def _of(cls, trace: _Trace, node: int) -> "Expr":
        made = cls.__new__(cls)
        made._trace = trace
        made._node = node
        made._spec = None
        return made

    def _known(self) -> TensorSpec:
        if self._spec is None:
            self._spec = _native.expression_spec(self._trace.handle, self._node)
        return self._spec

    @property
    def dtype(self) -> Any:
        """A numpy.dtype, `bytes`, or tutti.bfloat16."""
        return self._known().dtype

    @property
    def shape(self) -> Tuple[Optional[int], ...]:
        """Of one row."""
        shape = self._known().shape
        assert shape is not None
        if self._trace.strict and None in shape:
            raise self._refuse("a size that is not known")
        return shape

    @property
    def ndim(self) -> int:
        """How many axes a row has."""
        shape = self._known().shape
        assert shape is not None
        return len(shape)

    @property
    def size(self) -> int:
        """How many elements a row has; TypeError where a size is not known."""
        if None in self.shape:
            raise TypeError(f"{self!r} has a size that is not known while it is traced")
        return int(np.prod(self.shape, dtype=np.int64))  # type: ignore[arg-type]

    def __repr__(self) -> str:
        if self._trace.strict and self._trace.alive:
            raise _numpy_rules.Differs("a placeholder is made a text")
        return self._text()

    def _text(self) -> str:
        text = _native.expression_to_string(self._trace.handle, self._node)
        return f"<Expr {text}: {self._known()}>"

    def _pair(self, name: str, a: Any, b: Any) -> Any:
        for other in (a, b):
            if not isinstance(other, _OPERANDS):
                return NotImplemented
        return self._apply(name, [a, b])

    def _apply(self, name: str, inputs: Sequence[Any], *args: Any, **kwargs: Any) -> "Expr":
        """In the innermost trace, which captures what belongs to those around it."""
        self._trace.check()
        trace = _Trace.current()
        return (self._trace if trace is None else trace).apply(name, inputs, *args, **kwargs)

    # ---- operators

    __add__, __radd__ = _binary("add"), _binary("add", True)
    __sub__, __rsub__ = _binary("subtract"), _binary("subtract", True)
    __mul__, __rmul__ = _binary("multiply"), _binary("multiply", True)
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _binary("floor_divide", True)
    __mod__, __rmod__ = _binary("remainder"), _binary("remainder", True)
    __pow__, __rpow__ = _binary("power"), _binary("power", True)
    __and__, __rand__ = _binary("bitwise_and"), _binary("bitwise_and", True)
    __or__, __ror__ = _binary("bitwise_or"), _binary("bitwise_or", True)
    __xor__, __rxor__ = _binary("bitwise_xor"), _binary("bitwise_xor", True)
    __lshift__, __rlshift__ = _binary("left_shift"), _binary("left_shift", True)
    __rshift__, __rrshift__ = _binary("right_shift"), _binary("right_shift", True)
    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __eq__, __ne__ = _binary("equal"), _binary("not_equal")
    __neg__, __abs__, __invert__ = _unary("negative"), _unary("absolute"), _unary("invert")

    def __pos__(self) -> "Expr":
        return self

    def __truediv__(self, other: Any) -> Any:
        return self._divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._divide(other, self)

    def _divide(self, a: Any, b: Any) -> Any:
        """Integers are divided in float64."""
        if _kind(self) in ("i", "u"):
            if self._trace.strict and isinstance(a, Expr) and isinstance(b, Expr):
                raise _numpy_rules.Differs("/ of integers is by what is no constant")
            a, b = (x if _kind(x) not in ("i", "u") else
                    x.astype(np.float64) if isinstance(x, Expr) else np.asarray(x, np.float64)
                    for x in (a, b))
        return self._pair("divide", a, b)

    # ---- what is not known while it is traced

    def _refuse(self, what: str) -> TypeError:
        if self._trace.strict:
            return _numpy_rules.Differs(f"{what}: the value is not known while it is traced")
        return TypeError(
            f"{what}: {self!r} is a placeholder, whose value is not known while the function is "
            "traced; numpy.where chooses between two values, & | ~ stand for and, or, not, and "
            "without native=True the function is called for each element")

    def __bool__(self) -> bool:
        raise self._refuse("if, while, and, or, not")

    def __int__(self) -> int:
        raise self._refuse("int()")

    def __float__(self) -> float:
        raise self._refuse("float()")

    def __index__(self) -> int:
        raise self._refuse("an index or range()")

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        raise self._refuse("numpy.asarray, or a function that no expression has")

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a scalar")
        if self.shape[0] is None:
            raise self._refuse("len()")
        return self.shape[0]

    def __iter__(self) -> Iterator["Expr"]:
        return (self[i] for i in range(len(self)))

    def __contains__(self, item: Any) -> bool:
        raise self._refuse("in")

    # ---- elements in other places

    def __getitem__(self, index: Any) -> "Expr":
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) == 1 and isinstance(parts[0], (Expr, list, np.ndarray)):
            return self.take(parts[0], axis=0)
        taken = sum(1 for part in parts if part is not None and part is not Ellipsis)
        if taken > self.ndim:
            raise IndexError(f"{taken} indices for {self!r}, which has {self.ndim} axes")
        if Ellipsis not in [part for part in parts if not isinstance(part, (Expr, np.ndarray))]:
            parts = parts + (Ellipsis,)
        result, axis = self, 0
        for part in parts:
            if part is Ellipsis:
                axis += self.ndim - taken
            elif part is None:
                result = self._apply("expand_dims", [result], [axis])
                axis += 1
            elif isinstance(part, slice):
                bounds = [_MISSING if bound is None else int(bound)
                          for bound in (part.start, part.stop, part.step)]
                result = self._apply("slice", [result], [_MISSING] * (3 * axis) + bounds)
                axis += 1
            elif isinstance(part, (int, np.integer)) and not isinstance(part, bool):
                result = self._apply("index", [result], [axis, int(part)])
            else:
                raise TypeError("a placeholder is indexed by integers, slices, ... and None, or by "
                                "one array of integers, not by an object of type "
                                f"{type(part).__name__}")
        return result

    def astype(self, dtype: Any) -> "Expr":
        """Cast to `dtype` by the rules of Tensor.cast."""
        return self if _dtypes.same(self.dtype, dtype) else self._apply("cast", [self],
                                                                             dtype=dtype)

    def reshape(self, *shape: Any) -> "Expr":
        """Under the shape `shape`, sizes or a tuple of some, of which one may be -1."""
        alone = len(shape) == 1 and not isinstance(shape[0], (int, np.integer))
        dims = shape[0] if alone else shape
        return self._apply("reshape", [self], [int(dim) for dim in dims])

    def ravel(self) -> "Expr":
        """As one axis."""
        return self.reshape(-1)

    def flatten(self) -> "Expr":
        """As one axis."""
        return self.ravel()

    def transpose(self, *axes: Any) -> "Expr":
        """With its axes in the order `axes`, turned round without any."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return self._apply("transpose", [self], [int(axis) for axis in order or ()])

    @property
    def T(self) -> "Expr":
        """With its axes turned round."""
        return self.transpose()

    def take(self, indices: Any, axis: Optional[int] = None) -> "Expr":
        """What stands at `indices`, integers, along `axis`; None: of all elements in order. A place
        that is not there is an InvalidArgumentError of its row."""
        table = self.ravel() if axis is None else self
        places = indices if isinstance(indices, Expr) else np.asarray(indices)
        return self._apply("take", [table, places], [axis or 0])

    def clip(self, min: Any = None, max: Any = None) -> "Expr":
        """At least `min` and at most `max`; None: without that bound."""
        result = self
        if min is not None:
            result = self._apply("maximum", [result, min])
        return result if max is None else self._apply("minimum", [result, max])

    # ---- folds

    def _fold(self, name: str, axis: _Axis, keepdims: bool) -> "Expr":
        return self._apply(name, [self], _axes(axis), keep_dims=keepdims)

    def _wide(self) -> "Expr":
        if _kind(self) == "u":
            return self.astype(np.uint64)
        return self.astype(np.int64) if _kind(self) in ("i", "b") else self

    def sum(self, axis: _Axis = None, keepdims: bool = False) -> "Expr":
        """The sum over `axis`, one or several; None: over all. keepdims: they stay with size 1. Of
        integers and booleans in 64 bits."""
        return self._wide()._fold("sum", axis, keepdims)

    def prod(self, axis: _Axis = None, keepdims: bool = False) -> "Expr":
        """The product over `axis`, in the dtype that sum has. keepdims: as in sum."""
        return self._wide()._fold("prod", axis, keepdims)

    def mean(self, axis: _Axis = None, keepdims: bool = False) -> "Expr":
        """The mean over `axis`, of integers and booleans in float64. keepdims: as in sum."""
        real = self.astype(np.float64) if _kind(self) in ("i", "u", "b") else self
        return real._fold("mean", axis, keepdims)

    def min(self, axis: _Axis = None, keepdims: bool = False) -> "Expr":
        """The smallest over `axis`, NaN where one is. keepdims: as in sum."""
        return self._fold("min", axis, keepdims)

    def max(self, axis: _Axis = None, keepdims: bool = False) -> "Expr":
        """The largest over `axis`, NaN where one is. keepdims: as in sum."""
        return self._fold("max", axis, keepdims)

    def any(self, axis: _Axis = None, keepdims: bool = False) -> "Expr":
        """Whether one over `axis` is true, or not 0. keepdims: as in sum."""
        return self._truth()._fold("any", axis, keepdims)

    def all(self, axis: _Axis = None, keepdims: bool = False) -> "Expr":
        """Whether all over `axis` are true, or not 0. keepdims: as in sum."""
        return self._truth()._fold("all", axis, keepdims)

    def _truth(self) -> "Expr":
        return self if _kind(self) == "b" else self != 0

    def argmin(self, axis: Optional[int] = None, keepdims: bool = False) -> "Expr":
        """The place, int64, of the first smallest along `axis`; None: in all elements. keepdims: as
        in sum."""
        return self._fold("argmin", axis, keepdims)

    def argmax(self, axis: Optional[int] = None, keepdims: bool = False) -> "Expr":
        """The place, int64, of the first largest along `axis`; None: in all elements. keepdims: as
        in sum."""
        return self._fold("argmax", axis, keepdims)

    # ---- complex numbers

    @property
    def real(self) -> "Expr":
        """The real part; of real numbers they themselves."""
        return self._apply("real", [self]) if _kind(self) == "c" else self

    @property
    def imag(self) -> "Expr":
        """The imaginary part; of real numbers 0."""
        if _kind(self) == "c":
            return self._apply("imag", [self])
        never: Expr = (self != self) & (self == self)
        return never.astype(self.dtype)

    def conj(self) -> "Expr":
        """The conjugate; of real numbers they themselves."""
        return self._apply("conjugate", [self]) if _kind(self) == "c" else self

    def conjugate(self) -> "Expr":
        """As conj()."""
        return self.conj()

    # ---- byte strings

    def one_hot(self, depth: int, dtype: Any = np.float32) -> "Expr":
        """Along a new last axis `depth` elements, 1 at the place that it is and 0 elsewhere."""
        return self._apply("one_hot", [self], [depth], dtype=dtype)

    def decode_raw(self, dtype: Any) -> "Expr":
        """Of byte strings: their bytes as numbers of `dtype`, along a new last axis."""
        return self._apply("decode_raw", [self], dtype=dtype)

    def as_string(self) -> "Expr":
        """Numbers as texts, in the form that tutti.strings.as_string gives them."""
        return self._apply("as_string", [self])

    def to_number(self, dtype: Any = np.float32) -> "Expr":
        """Of texts: the numbers that they are; blanks around one do not count, and a float that is
        too large is infinity. A text that is none is an InvalidArgumentError of its row."""
        return self._apply("to_number", [self], dtype=dtype)

    def string_length(self, unit: str = "BYTE") -> "Expr":
        """Of byte strings: how many bytes each has, int32; unit "UTF8_CHAR": characters."""
        return self._apply("string_length", [self], text=unit)

    def lower(self) -> "Expr":
        """Of byte strings: with ASCII letters in lower case, as bytes.lower()."""
        return self._apply("string_lower", [self])

    def upper(self) -> "Expr":
        """Of byte strings: with ASCII letters in upper case, as bytes.upper()."""
        return self._apply("string_upper", [self])

    def strip(self) -> "Expr":
        """Of byte strings: without ASCII blanks at both ends, as bytes.strip()."""
        return self._apply("string_strip", [self])

    def substr(self, pos: Any, len: Any = -1, unit: str = "BYTE") -> "Expr":
        """Of byte strings: `len` bytes from `pos` on, which counts from the end where it is
        negative; a negative len: to the end. unit "UTF8_CHAR": characters. A position outside is an
        InvalidArgumentError of its row."""
        return self._apply("substr", [self, pos, len], text=unit)

    def split(self, sep: Any = None, maxsplit: int = -1, parts: int = 0) -> Any:
        """Of byte strings: the parts between `sep`, or between runs of blanks where it is None, at
        `maxsplit` places at most (-1: any number). Of one text a vector; of a vector of texts a
        RaggedTensor; parts: that many, along a new last axis, and another number is an
        InvalidArgumentError of its row."""
        separator = "" if sep is None else sep.decode() if isinstance(sep, bytes) else sep
        cut = {"numbers": [maxsplit, parts], "text": separator}
        values = self._apply("string_split", [self], **cut)
        if parts or self.ndim == 0:
            return values
        return RaggedTensor._of(values, self._apply("string_split_row_splits", [self], **cut))

    def regex_full_match(self, pattern: str) -> "Expr":
        """Of byte strings: whether `pattern`, in RE2's syntax, matches all of it, booleans. A
        pattern that is none is an InvalidArgumentError here."""
        return self._apply("regex_full_match", [self], text=strings._pattern(pattern))

    def regex_replace(self, pattern: str, rewrite: Any, replace_global: bool = True) -> "Expr":
        r"""Of byte strings: with `rewrite`, one text, in place of what `pattern`, in RE2's syntax,
        matches; \0 in it is what matched, \1 to \9 are the groups. replace_global: all matches,
        or else the first one. A pattern that is none, and a rewrite with a group that it has not,
        are InvalidArgumentErrors: here, or of its row where the rewrite is a placeholder."""
        text = rewrite.encode() if isinstance(rewrite, str) else rewrite
        return self._apply("regex_replace", [self, text], [int(replace_global)],
                           text=strings._pattern(pattern))

    def to_hash_bucket_fast(self, num_buckets: int) -> "Expr":
        """Of byte strings: FarmHash's Fingerprint64 modulo `num_buckets`, int64."""
        return self._apply("to_hash_bucket_fast", [self], [num_buckets])

    def to_hash_bucket_strong(self, num_buckets: int, key: Sequence[int]) -> "Expr":
        """Of byte strings: SipHash-2-4 under `key`, two integers of 64 bits, modulo `num_buckets`,
        int64."""
        return self._apply("to_hash_bucket_strong", [self], [num_buckets, *strings._key(key)])

    def reduce_join(self, axis: _Axis = None, keepdims: bool = False,
                    separator: str = "") -> "Expr":
        """Of byte strings: those along `axis`, one or several, None: all, put together in the order
        of tutti.strings.reduce_join, with `separator` between them. keepdims: as in sum."""
        return self._apply("reduce_join", [self], _axes(axis), keep_dims=keepdims, text=separator)

    def join(self, *others: Any, separator: str = "") -> "Expr":
        """Of byte strings: this one, then the others, with `separator` between them."""
        return self._apply("join_strings", [self, *others], text=separator)

    def call(self, function: Function) -> Any:
        """What `function`, of tutti.data.parse_example or decode_csv, makes of byte strings: a dict
        of its features by name, or a tuple of its columns. A sparse or ragged feature is a
        SparseTensor or RaggedTensor of placeholders, which may be what the traced function
        gives."""
        if not isinstance(function, Function) or (function._features is None and
                                                  function._columns is None):
            raise TypeError("call: the function that tutti.data.parse_example or decode_csv gives "
                            f"is needed, not an object of type {type(function).__name__}")
        self._trace.check()
        if function._columns is not None:
            return tuple(Expr._of(self._trace, _native.expression_add_call(
                self._trace.handle, function._handle, self._node, leaf))
                for leaf in range(function._columns))
        leaves = (Expr._of(self._trace, _native.expression_add_call(
            self._trace.handle, function._handle, self._node, leaf)) for leaf in range(1 << 62))
        features: Dict[str, Any] = {}
        for key, kind in sorted((function._features or {}).items()):
            if kind == VAR_LEN:
                features[key] = SparseTensor._of(next(leaves), next(leaves), next(leaves))
            elif kind == RAGGED and self.ndim > 0:
                features[key] = RaggedTensor._of(next(leaves), next(leaves))
            else:
                features[key] = next(leaves)
        return features

    # ---- NumPy

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            told = method if method != "__call__" else ", ".join(sorted(kwargs))
            raise self._refuse(f"numpy.{ufunc.__name__} with {told}")
        if ufunc is np.true_divide:
            return self._divide(*inputs)
        if ufunc is np.positive:
            return inputs[0]
        if ufunc is np.conjugate:
            return inputs[0].conj()
        name = _UFUNCS.get(ufunc)
        if name is None:
            raise self._refuse(f"numpy.{ufunc.__name__}, which no expression has")
        if name.startswith("logical_"):
            inputs = tuple(x._truth() if isinstance(x, Expr) else x for x in inputs)
        return self._apply(name, inputs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        known = _FUNCTIONS.get(func)
        if known is None:
            raise self._refuse(f"numpy.{getattr(func, '__name__', func)}, which no expression has")
        return known(self, *args, **kwargs)


def _method(name: str) -> Any:
    return lambda self, a, *args, **kwargs: getattr(a, name)(*args, **kwargs)


_OPERANDS = (Expr, bool, int, float, complex, bytes, np.generic, np.ndarray, Tensor)
_FUNCTIONS: Dict[Any, Any] = {
    getattr(np, name): _method(name) for name in (
        "sum", "prod", "mean", "min", "max", "any", "all", "argmin", "argmax", "reshape", "ravel",
        "transpose", "take", "clip")}
_FUNCTIONS.update({
    np.where: lambda self, condition, x, y: self._apply("where", [condition, x, y]),
    np.stack: lambda self, arrays, axis=0: self._apply("stack", list(arrays), [axis]),
    np.concatenate: lambda self, arrays, axis=0: self._apply("concatenate", list(arrays),
                                                                   [axis]),
    np.expand_dims: lambda self, a, axis: self._apply("expand_dims", [a], [axis]),
    np.square: lambda self, x: self._apply("square", [x]),
    np.real: lambda self, val: val.real,
    np.imag: lambda self, val: val.imag,
    np.angle: lambda self, z: self._apply("angle", [z]),
    np.char.lower: lambda self, a: a.lower(),
    np.char.upper: lambda self, a: a.upper(),
    np.char.strip: lambda self, a: a.strip(),
    np.char.str_len: lambda self, a: a.string_length().astype(np.int64),
    np.shape: lambda self, a: a.shape,
    np.ndim: lambda self, a: a.ndim,
})


def _placeholders(trace: _Trace, spec: Any, leaves: Iterator[int]) -> Any:
    if isinstance(spec, dict):
        return {key: _placeholders(trace, spec[key], leaves) for key in sorted(spec)}
    if isinstance(spec, tuple) and hasattr(spec, "_fields"):
        return type(spec)(*(_placeholders(trace, part, leaves) for part in spec))
    if isinstance(spec, (tuple, list)):
        return type(spec)(_placeholders(trace, part, leaves) for part in spec)
    node = _native.expression_add_parameter(trace.handle, next(leaves))
    return _dataset_in_element(trace, node) if isinstance(spec, DatasetSpec) else \
        Expr._of(trace, node)


def _dataset_in_element(trace: _Trace, node: int) -> Any:
    """A dataset that stands in the element, such as a window."""
    from tutti.data._dataset import Dataset

    no_input: Any = None
    return Dataset._of(_native.expression_add_dataset(trace.handle, "element", no_input,
                                                      np.int64(node)))


def _nodes(trace: _Trace, result: Any) -> Any:
    """The structure of a result, with nodes in the place of its leaves. A list is one tensor, as it
    is in an element."""
    if isinstance(result, dict):
        return {key: _nodes(trace, part) for key, part in result.items()}
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*(_nodes(trace, part) for part in result))
    if isinstance(result, tuple):
        return tuple(_nodes(trace, part) for part in result)
    if isinstance(result, (SparseTensor, RaggedTensor)):
        return type(result)._of(*(_nodes(trace, part) for part in result._parts))
    if isinstance(result, list):
        result = trace.apply("stack", result, [0])
    return np.int64(trace.node(result, "the result of the traced function"))


def _spec_of(result: Any) -> Any:
    if isinstance(result, dict):
        return {key: _spec_of(part) for key, part in result.items()}
    if isinstance(result, tuple):
        parts = [_spec_of(part) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    return result._known() if isinstance(result, Expr) else _native.spec_from_value(result)


def _traced(function: Callable[..., Any], element_spec: Any,
            fits: Optional[Callable[[Any], Optional[str]]] = None) -> Function:
    """fits: the expression must not differ from the callback, and this says why a spec is none of
    what it gives."""
    with _Trace(element_spec, fits is not None) as trace:
        element = _placeholders(trace, element_spec, iter(range(1 << 62)))
        plain = type(element) is tuple
        result = function(*element) if plain else function(element)
        handle: Any = getattr(result, "_handle", None)
        gives_dataset = isinstance(handle, _native.tutti_dataset)
        if fits is not None:
            if not gives_dataset:
                _check_result(result)
            why_not = fits(result if gives_dataset else _spec_of(result))
            if why_not is not None:
                raise _numpy_rules.Differs(why_not)
        if gives_dataset:
            return Function._of(_native.expression_dataset_function(trace.handle, handle))
        return Function._of(_native.expression_function(trace.handle, _nodes(trace, result)))


def _check_result(result: Any) -> None:
    """What a result may be for the callback and the expression to give the same."""
    if isinstance(result, (dict, tuple)):
        for part in result.values() if isinstance(result, dict) else result:
            _check_result(part)
    elif isinstance(result, (np.ndarray, np.generic)):
        if result.dtype.kind not in "biufc":
            raise _numpy_rules.Differs(f"it gives an array of {result.dtype}")
    elif not isinstance(result, Expr) and type(result) not in (bool, int, float, bytes):
        raise _numpy_rules.Differs(f"it gives an object of type {type(result).__name__}")


def expression(function: Callable[..., Any], element_spec: Any) -> Function:
    """The native function that `function` is: it is called once, now, with placeholders (Expr) in
    the place of an element of `element_spec`, and what it does with them is what runs.

        double = tutti.data.expression(lambda x: x * 2, tutti.data.TensorSpec((), np.int64))
        tutti.data.Dataset.range(4).map(double)                  # 0, 2, 4, 6

    It runs without Python, on many elements at once, can be serialised, and takes no part in what
    `function` does besides: a counter counts once. element_spec: a TensorSpec of known rank, or a
    structure of some; the parts of a tuple are arguments of their own. The result: a structure of
    placeholders, of sparse and ragged tensors of placeholders, of numbers and arrays; or a dataset.
    In the place of a DatasetSpec, of a window, stands a Dataset, which has elements only in the
    dataset that the function makes of it. TypeError for
    what asks a placeholder for its value, such as an `if`; InvalidArgumentError for operations,
    dtypes and shapes that do not fit. For Dataset.reduce the element is a tuple of the state and an
    element.
    """
    if not callable(function):
        raise TypeError(f"expression: a function is needed, not an object of type "
                        f"{type(function).__name__}")
    return _traced(function, element_spec)
