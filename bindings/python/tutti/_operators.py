"""What variables and mirrored values do in arithmetic: they are read, and NumPy computes."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Iterator, Optional

import numpy as np

from tutti import errors

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _beside(number: Any, dtype: Any) -> Any:
    """One of Python's own numbers in the dtype that stands beside it, where that holds it: a number
    alone says nothing of a dtype, whatever NumPy's version makes of it."""
    kind = getattr(dtype, "kind", "")
    if type(number) is float and kind == "f" or type(number) in (int, float) and kind == "c":
        return dtype.type(number)
    if type(number) is int and kind == "f":
        return dtype.type(number)
    if type(number) is int and kind in ("i", "u"):
        limits = np.iinfo(dtype)
        if limits.min <= number <= limits.max:
            return dtype.type(number)
    return number


def _binary(ufunc: Any, reflected: bool = False) -> Any:
    """The method of an operator, or of its reflection."""

    def apply(self: Any, other: Any) -> Any:
        if getattr(other, "__array_ufunc__", self) is None:
            return NotImplemented
        return ufunc(other, self) if reflected else ufunc(self, other)

    return apply


def _unary(ufunc: Any) -> Any:
    def apply(self: Any) -> Any:
        return ufunc(self)

    return apply


def _in_place() -> Any:
    def refuse(self: Any, other: Any) -> Any:
        raise errors.UnimplementedError(
            f"a {type(self).__name__} is not changed in place: assign_add(x) adds to a variable, "
            "and `a = a + x` gives an array under the same name")

    return refuse


class Arithmetic:
    """The operators of arithmetic, of anything that NumPy can read: they give arrays."""

    __slots__ = ()

    __add__, __radd__ = _binary(np.add), _binary(np.add, True)
    __sub__, __rsub__ = _binary(np.subtract), _binary(np.subtract, True)
    __mul__, __rmul__ = _binary(np.multiply), _binary(np.multiply, True)
    __matmul__, __rmatmul__ = _binary(np.matmul), _binary(np.matmul, True)
    __truediv__, __rtruediv__ = _binary(np.true_divide), _binary(np.true_divide, True)
    __floordiv__, __rfloordiv__ = _binary(np.floor_divide), _binary(np.floor_divide, True)
    __mod__, __rmod__ = _binary(np.remainder), _binary(np.remainder, True)
    __divmod__, __rdivmod__ = _binary(np.divmod), _binary(np.divmod, True)
    __pow__, __rpow__ = _binary(np.power), _binary(np.power, True)
    __and__, __rand__ = _binary(np.bitwise_and), _binary(np.bitwise_and, True)
    __or__, __ror__ = _binary(np.bitwise_or), _binary(np.bitwise_or, True)
    __xor__, __rxor__ = _binary(np.bitwise_xor), _binary(np.bitwise_xor, True)
    __lshift__, __rlshift__ = _binary(np.left_shift), _binary(np.left_shift, True)
    __rshift__, __rrshift__ = _binary(np.right_shift), _binary(np.right_shift, True)
    __neg__, __pos__, __abs__ = _unary(np.negative), _unary(np.positive), _unary(np.absolute)
    __invert__ = _unary(np.invert)


class ReadAsArray(Arithmetic):
    """An object that numpy() reads: arithmetic, comparisons, indexing and NumPy's functions take
    what it reads at that moment, and give arrays.

    `==` compares element by element, and the hash is that of the object: so `x in [v]` may find
    another variable of equal elements, or be a ValueError; `any(x is v for v in ...)` asks for the
    object, and so do the keys of a dict. `number in v` asks for an element. Of Python's own numbers
    the operators make one of the dtype. A `+=` and its like are refused: assign_add writes.
    """

    __slots__ = ()

    def numpy(self) -> Any:
        """What it reads as."""
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> NDArray[Any]:
        return np.asarray(self.numpy(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "at" or any(isinstance(out, ReadAsArray) for out in kwargs.get("out", ())):
            raise TypeError(f"numpy.{ufunc.__name__} cannot write into a {type(self).__name__}: "
                            "assign what it gives")
        read = [given.numpy() if isinstance(given, ReadAsArray) else given for given in inputs]
        dtype = next((getattr(value, "dtype", None) for given, value in zip(inputs, read)
                      if isinstance(given, ReadAsArray)), None)
        return getattr(ufunc, method)(*(_beside(value, dtype) for value in read), **kwargs)

    __lt__, __le__ = _binary(np.less), _binary(np.less_equal)
    __gt__, __ge__ = _binary(np.greater), _binary(np.greater_equal)
    __eq__, __ne__ = _binary(np.equal), _binary(np.not_equal)
    __hash__ = object.__hash__

    def __len__(self) -> int:
        return len(self.__array__())

    def __getitem__(self, index: Any) -> Any:
        return self.__array__()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.__array__())

    def __contains__(self, item: Any) -> bool:
        return bool(np.any(self.__array__() == item))

    def __bool__(self) -> bool:
        return bool(self.__array__())

    def __int__(self) -> int:
        return int(self.__array__().item())

    def __float__(self) -> float:
        return float(self.__array__().item())

    def __complex__(self) -> complex:
        return complex(self.__array__().item())

    def __index__(self) -> int:
        return operator.index(self.__array__().item())

    __iadd__, __isub__, __imul__, __imatmul__ = (_in_place() for _ in range(4))
    __itruediv__, __ifloordiv__, __imod__, __ipow__ = (_in_place() for _ in range(4))
    __ilshift__, __irshift__, __iand__, __ior__, __ixor__ = (_in_place() for _ in range(5))
