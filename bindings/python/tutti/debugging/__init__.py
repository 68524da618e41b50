"""Assertions about tensors, and checks that no NaN or infinity goes unseen.

    tutti.debugging.assert_equal(x, y, message="after the first layer")
    dataset = dataset.map(lambda x: tutti.debugging.check_numerics(x, "input"))
    tutti.debugging.enable_check_numerics()   # from here on training says where a NaN comes from

A tensor is what NumPy makes an array of: arrays, numbers, lists of them, what has __dlpack__ or is
a Tensor. An assertion is also made of variables (every copy), per-replica values (every component)
and structures of them; its error says which one it was about. One that fails is an
InvalidArgumentError, which is a ValueError, and where it is about a dtype a TypeError: `message`
comes first, then what does not hold at which index, then the first `summarize` elements (3 unless
given, all for a negative number). A literal, a number or list of Python's, takes the dtype of the
other side where its value fits.
"""

from tutti.debugging import experimental
from tutti.debugging._assertions import (
    Assert, assert_all_finite, assert_equal, assert_greater, assert_greater_equal, assert_integer,
    assert_less, assert_less_equal, assert_near, assert_negative, assert_non_negative,
    assert_non_positive, assert_none_equal, assert_positive, assert_proper_iterable, assert_rank,
    assert_rank_at_least, assert_rank_in, assert_same_float_dtype, assert_scalar, assert_shapes,
    assert_type, check_numerics, is_numeric_tensor)
from tutti.debugging._numerics import (
    disable_check_numerics, enable_check_numerics, get_log_device_placement,
    set_log_device_placement)

from tutti.debugging._rows import assert_rows

__all__ = [
    "Assert", "assert_all_finite", "assert_equal", "assert_greater", "assert_greater_equal",
    "assert_integer", "assert_less", "assert_less_equal", "assert_near", "assert_negative",
    "assert_non_negative", "assert_non_positive", "assert_none_equal", "assert_positive",
    "assert_proper_iterable", "assert_rank", "assert_rank_at_least", "assert_rank_in",
    "assert_rows", "assert_same_float_dtype", "assert_scalar", "assert_shapes", "assert_type",
    "check_numerics", "disable_check_numerics", "enable_check_numerics", "experimental",
    "get_log_device_placement", "is_numeric_tensor", "set_log_device_placement",
]
