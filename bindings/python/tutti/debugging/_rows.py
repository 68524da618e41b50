"""Assertions as native functions of datasets."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Sequence

from tutti import _dtypes, _native
from tutti.data._function import Function
from tutti.debugging import _assertions
from tutti.debugging._assertions import _rank_number, _shown

# What tutti_assertion numbers.
_COMPARISONS, _CONDITIONS, _RANKS, _TYPE, _TRUE = 0, 16, 32, 48, 49
_SHAPES, _SAME_FLOAT_DTYPE = 50, 51


def _number_of(assertion: Callable[..., Any]) -> int:
    names: Dict[Callable[..., Any], int] = {
        _assertions.assert_equal: _assertions.EQUAL + _COMPARISONS,
        _assertions.assert_none_equal: _assertions.NONE_EQUAL + _COMPARISONS,
        _assertions.assert_less: _assertions.LESS + _COMPARISONS,
        _assertions.assert_less_equal: _assertions.LESS_EQUAL + _COMPARISONS,
        _assertions.assert_greater: _assertions.GREATER + _COMPARISONS,
        _assertions.assert_greater_equal: _assertions.GREATER_EQUAL + _COMPARISONS,
        _assertions.assert_near: _assertions.NEAR + _COMPARISONS,
        _assertions.assert_positive: _assertions.POSITIVE + _CONDITIONS,
        _assertions.assert_negative: _assertions.NEGATIVE + _CONDITIONS,
        _assertions.assert_non_positive: _assertions.NON_POSITIVE + _CONDITIONS,
        _assertions.assert_non_negative: _assertions.NON_NEGATIVE + _CONDITIONS,
        _assertions.assert_all_finite: _assertions.ALL_FINITE + _CONDITIONS,
        _assertions.check_numerics: _assertions.NUMERICS + _CONDITIONS,
        _assertions.assert_integer: _assertions.INTEGER + _CONDITIONS,
        _assertions.assert_scalar: _assertions.SCALAR + _CONDITIONS,
        _assertions.assert_rank: _assertions.RANK_EQUAL + _RANKS,
        _assertions.assert_rank_at_least: _assertions.RANK_AT_LEAST + _RANKS,
        _assertions.assert_rank_in: _assertions.RANK_IN + _RANKS,
        _assertions.assert_type: _TYPE,
        _assertions.Assert: _TRUE,
        _assertions.assert_shapes: _SHAPES,
        _assertions.assert_same_float_dtype: _SAME_FLOAT_DTYPE,
    }
    try:
        return names[assertion]
    except (KeyError, TypeError):
        raise TypeError(f"assert_rows: an assertion about one tensor, or about one and another, of "
                        f"this module is needed, not {assertion!r}") from None


def _text_of_shapes(shapes: Mapping[str, Iterable[Any]]) -> str:
    symbols = _assertions._Symbols()
    texts = []
    for path, shape in shapes.items():
        if ";" in path:
            raise ValueError(f"assert_rows: {path!r} is no path: it has a ';'")
        texts.append(f"{path}=" + ",".join(symbols.text_of(axis) for axis in shape))
    return ";".join(texts)


def assert_rows(assertion: Callable[..., Any], y: Any = None, *, path: str = "", y_path: str = "",
                rtol: Any = None, atol: Any = None, ranks: Sequence[Any] = (),
                tf_type: Any = None, message: Optional[str] = None,
                summarize: Optional[int] = None,
                shapes: Optional[Mapping[str, Iterable[Any]]] = None) -> Function:
    """The native function for Dataset.map that gives an element on as it is where an assertion
    holds for it, and fails where not.

        dataset = dataset.map(debugging.assert_rows(debugging.assert_less, np.float32(1), path="x"))

    It looks at many rows at once without calling Python, and is serialisable. The error, an
    InvalidArgumentError, names node, element, leaf and, where elements are read from files, the
    record (details: index, node, row, source_file, source_record). What is known of
    the dataset's elements (paths, dtypes, ranks) is checked by map.

    assertion: one of this module's, such as assert_less or check_numerics; Assert is of booleans.
    y: what each row is compared with, broadcast, of the rows' dtype; y_path: or the leaf that it is
    compared with. path: keys, fields and indexes joined by '/': the leaves there and below, all
    without it. ranks: of those about ranks. tf_type: of assert_type, and of
    assert_same_float_dtype, which is about the leaves together. rtol, atol: of assert_near. shapes:
    of assert_shapes, paths with the shapes of a row, {"image": ("N", 3), "mask": ("N",)}.
    message, summarize: as the module says. Threads: any.
    """
    number = _number_of(assertion)
    wanted = _dtypes.INVALID if tf_type is None else _dtypes.number_of(tf_type)
    return Function._of(_native.function_assertion(
        number, y, [_rank_number("assert_rows", rank) for rank in ranks], path, y_path, message,
        _shown(summarize), wanted, rtol, atol,
        None if shapes is None else _text_of_shapes(shapes)))
