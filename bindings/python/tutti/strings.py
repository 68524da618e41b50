"""Byte strings of tensors: what the reference has under this name, as far as files need it.

    tutti.strings.join(["part-", tutti.strings.as_string(7, width=3, fill="0")])   # b"part-007"

Texts are UTF-8 where they are given as str, and bytes, or arrays of them, where they come out.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np

from tutti import _dtypes, _native
from tutti._composites import RaggedTensor

__all__ = ["as_string", "join", "length", "lower", "reduce_join", "regex_full_match",
           "regex_replace", "split", "strip", "substr", "to_hash_bucket_fast",
           "to_hash_bucket_strong", "to_number", "upper"]


def _applied(name: str, inputs: Sequence[Any], numbers: Sequence[int] = (), dtype: Any = None,
             keep_dims: bool = False, text: str = "") -> Any:
    """An operation of expressions: of placeholders one more, of tensors what it gives."""
    from tutti.data._expression import Expr

    traced = next((value for value in inputs if isinstance(value, Expr)), None)
    if traced is not None:
        return traced._apply(name, inputs, numbers, dtype=dtype, keep_dims=keep_dims, text=text)
    number = _dtypes.INVALID if dtype is None else _dtypes.number_of(dtype)
    return _plain(_native.operation_apply(name, list(inputs), list(numbers), number, keep_dims,
                                          text))


def join(inputs: Sequence[Any], separator: str = "", name: Optional[str] = None) -> Any:
    """The byte strings of one place put together, in the order of `inputs`, with `separator`
    between them.

    inputs: texts, or tensors of them. What has no shape stands in every place; all others must have
    the same shape, which is the result's: bytes, or an array of them. ValueError for other shapes,
    TypeError for what is no text. A placeholder of an expression among them: one more. name: taken
    for the reference's callers. Threads: any.
    """
    if any(type(value).__name__ == "Expr" for value in inputs):
        texts = [value.encode() if isinstance(value, str) else value for value in inputs]
        return _applied("join_strings", texts, text=separator)
    return _plain(_native.tensor_join_strings(list(inputs), separator))


def as_string(input: Any, precision: int = -1, scientific: bool = False, shortest: bool = False,
              width: int = -1, fill: str = "", name: Optional[str] = None) -> Any:
    """The elements of a tensor as byte strings: integers, floats as 3.140000, booleans as true and
    false, complex numbers as (1.000000,2.000000); byte strings stay what they are.

    input: a number, an array, a Tensor. precision: digits behind a float's point. scientific:
    3.14e+00; shortest: the shorter one of both. width: at least so many characters, which `fill`
    fills up: "" or " " with blanks, "0" with zeros ("-" puts blanks behind the number, "+" gives
    each its sign). Returns bytes, or an array of them of the same shape. ValueError for options
    that contradict each other or that the dtype has not. name: taken for the reference's callers.
    Threads: any.
    """
    return _plain(_native.tensor_as_string(input, precision, scientific, shortest, width, fill))


def length(input: Any, name: Optional[str] = None, unit: str = "BYTE") -> Any:
    """How many bytes each byte string of a tensor has, int32; unit "UTF8_CHAR": how many characters
    of UTF-8.

    Like all below: input is a text, an array or a Tensor of texts, or a placeholder of an
    expression, which gives one more. name: taken for the reference's callers. Threads: any.
    """
    return _applied("string_length", [input], text=unit)


def _case(what: str, input: Any, encoding: str) -> Any:
    if encoding:
        raise ValueError(f"{what}: of {encoding!r} only the letters of ASCII are known here; leave "
                         "the encoding away")
    return _applied("string_" + what, [input])


def lower(input: Any, encoding: str = "", name: Optional[str] = None) -> Any:
    """The texts of input with A to Z as a to z; all other bytes stay. encoding: "" alone
    (ValueError). name: as in length."""
    return _case("lower", input, encoding)


def upper(input: Any, encoding: str = "", name: Optional[str] = None) -> Any:
    """The texts of input with a to z as A to Z; all other bytes stay. encoding: "" alone
    (ValueError). name: as in length."""
    return _case("upper", input, encoding)


def strip(input: Any, name: Optional[str] = None) -> Any:
    """The texts of input without the blanks of ASCII (space, \\t, \\n, \\v, \\f, \\r) at both ends.
    name: as in length."""
    return _applied("string_strip", [input])


def substr(input: Any, pos: Any, len: Any, name: Optional[str] = None, unit: str = "BYTE") -> Any:
    """`len` bytes of each text of input from `pos` on, counted from the end where it is negative; a
    negative len: to the end. unit "UTF8_CHAR": characters of UTF-8. Shapes broadcast. A position
    outside of its text is an InvalidArgumentError. name: as in length.

    >>> tutti.strings.substr(["hello", "world"], -3, 2).tolist()
    [b'll', b'rl']
    """
    return _applied("substr", [input, pos, len], text=unit)


def split(input: Any, sep: Optional[str] = None, maxsplit: int = -1,
          name: Optional[str] = None) -> Any:
    """The parts of texts between `sep`, at `maxsplit` places at most (-1: any number); sep None or
    "": between runs of blanks, without empty parts, but for what is behind the last of `maxsplit`
    cuts, which may be empty, as in tf.strings.split.

    input: a text, which gives a vector, or a vector of texts, which gives a RaggedTensor. For a
    fixed number of parts there is Expr.split. name: as in length.

    >>> tutti.strings.split(["a b", "c"]).to_list()
    [[b'a', b'b'], [b'c']]
    """
    from tutti.data._expression import Expr

    if isinstance(input, Expr):
        return input.split(sep, maxsplit)
    texts = _native._array_of(input, True)
    values = _applied("string_split", [texts], [maxsplit], text=sep or "")
    if np.ndim(texts) == 0:
        return values
    splits = _applied("string_split_row_splits", [texts], [maxsplit], text=sep or "")
    return RaggedTensor.from_row_splits(values, splits)


def reduce_join(inputs: Any, axis: Any = None, keepdims: bool = False, separator: str = "",
                name: Optional[str] = None) -> Any:
    """The texts of inputs along `axis` put together, with `separator` between them. Of several axes
    those along the first come first, and then, as texts of their own, along the next; None: all, in
    row-major order. keepdims: the axes stay with size 1. name: as in length."""
    axes = [] if axis is None else [axis] if isinstance(axis, int) else list(axis)
    return _applied("reduce_join", [inputs], axes, keep_dims=keepdims, text=separator)


def regex_full_match(input: Any, pattern: str, name: Optional[str] = None) -> Any:
    """Whether `pattern`, in RE2's syntax, matches each text of input from its begin to its end:
    booleans of its shape. A pattern that is none is an InvalidArgumentError. name: as in length.

    >>> tutti.strings.regex_full_match(["part-7", "part-x"], r"part-\\d+").tolist()
    [True, False]
    """
    return _applied("regex_full_match", [input], text=_pattern(pattern))


def regex_replace(input: Any, pattern: str, rewrite: Any, replace_global: bool = True,
                  name: Optional[str] = None) -> Any:
    r"""The texts of input with `rewrite` in place of what `pattern`, in RE2's syntax, matches.

    rewrite: one text, or a placeholder of one; \0 in it is what matched, \1 to \9 are the groups
    of the pattern, \\ is a backslash. replace_global: all matches, or else the first one. A
    pattern that is none and a rewrite with another group are InvalidArgumentErrors; the reference
    leaves the text as it is, or cuts out what matched, where the rewrite is wrong. name: as in
    length.

    >>> tutti.strings.regex_replace("2024-05-17", r"(\d+)-(\d+)-\d+", r"\2/\1")
    b'05/2024'
    """
    texts = [value.encode() if isinstance(value, str) else value for value in (input, rewrite)]
    return _applied("regex_replace", texts, [int(replace_global)], text=_pattern(pattern))


def to_hash_bucket_fast(input: Any, num_buckets: int, name: Optional[str] = None) -> Any:
    """A number from 0 up to `num_buckets` for each text of input, int64: FarmHash's Fingerprint64
    modulo num_buckets, the same in every process and release. Texts that share a bucket are found
    easily: where somebody might look for them, take to_hash_bucket_strong. InvalidArgumentError for
    num_buckets below 1. name: as in length.

    >>> tutti.strings.to_hash_bucket_fast(["a", "b"], 10).tolist()
    [9, 2]
    """
    return _applied("to_hash_bucket_fast", [input], [num_buckets])


def to_hash_bucket_strong(input: Any, num_buckets: int, key: Sequence[int],
                          name: Optional[str] = None) -> Any:
    """A number from 0 up to `num_buckets` for each text of input, int64: SipHash-2-4 under `key`
    modulo num_buckets. key: two integers of 64 bits, signed or not, which nobody else should know.
    InvalidArgumentError for another number of them, and for num_buckets below 1; ValueError for one
    of more bits. name: as in length.

    >>> tutti.strings.to_hash_bucket_strong(["a", "b"], 10, key=[1, 2]).tolist()
    [6, 4]
    """
    return _applied("to_hash_bucket_strong", [input], [num_buckets, *_key(key)])


def to_number(input: Any, out_type: Any = np.float32, name: Optional[str] = None) -> Any:
    """The numbers of `out_type` that the texts of input are, of the same shape. A text that is
    none, or one that the dtype does not hold, is an InvalidArgumentError. name: as in length."""
    return _applied("to_number", [input], dtype=out_type)


def _pattern(pattern: Any) -> str:
    """A pattern as the text that it is."""
    if isinstance(pattern, (str, bytes)):
        return pattern.decode() if isinstance(pattern, bytes) else pattern
    raise TypeError("a pattern is a str, which is compiled once, not an object of type "
                    f"{type(pattern).__name__}")


def _key(key: Sequence[int]) -> Sequence[int]:
    """The words of a key as int64."""
    words = [int(word) for word in key]
    for word in words:
        if not -1 << 63 <= word < 1 << 64:
            raise ValueError("key: a word of it has more than 64 bits; expected -2**63 to "
                             "2**64 - 1")
    return [word - (1 << 64) if word >> 63 == 1 else word for word in words]


def _plain(array: Any) -> Any:
    """What has no shape as a plain number or bytes, as elements of datasets are."""
    return array[()] if isinstance(array, np.ndarray) and array.ndim == 0 else array
