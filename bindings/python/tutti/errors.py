"""Exceptions: one class per error code, each of which is also the built-in one would expect.

Every exception has `code` (a number of the canonical codes), `message`, `details` (a dict: "rank",
"file", "offset", "index" ... with int, float or str values) and `causes` (a tuple of exceptions).
An exception that a function of yours raised inside a callback comes back as itself instead; a
StopIteration, which would end a loop in silence, as the cause of a RuntimeError.
"""

from __future__ import annotations

import builtins
from typing import Any, Dict, Mapping, Optional, Tuple, Type

__all__ = [
    "Error", "CancelledError", "UnknownError", "InvalidArgumentError", "DeadlineExceededError",
    "NotFoundError", "AlreadyExistsError", "PermissionDeniedError", "ResourceExhaustedError",
    "FailedPreconditionError", "AbortedError", "OutOfRangeError", "UnimplementedError",
    "InternalError", "UnavailableError", "DataLossError", "UnauthenticatedError",
]


class Error(Exception):
    """Base class of all errors that the library reports: message, details and causes are what the
    module says of them."""

    code: int = 2
    code_name: str = "UNKNOWN"

    def __init__(self, message: str = "", details: Optional[Mapping[str, Any]] = None,
                 causes: Tuple[BaseException, ...] = ()):
        super().__init__(message)
        self.message = message
        self.details: Dict[str, Any] = dict(details or {})
        self.causes = tuple(causes)

    def __str__(self) -> str:
        return self.message

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message!r})"

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.message, self.details, self.causes)


class CancelledError(Error, RuntimeError):
    """The call was cancelled."""

    code, code_name = 1, "CANCELLED"


class UnknownError(Error, RuntimeError):
    """An error without a code of its own."""

    code, code_name = 2, "UNKNOWN"


class InvalidArgumentError(Error, ValueError):
    """An argument is wrong whatever the state of things."""

    code, code_name = 3, "INVALID_ARGUMENT"


class InvalidTypeError(InvalidArgumentError, TypeError):
    """An argument's dtype or structure is wrong."""


class UnknownOptionError(InvalidArgumentError, AttributeError):
    """An option of that name does not exist."""


class DeadlineExceededError(Error, TimeoutError):
    """The call's timeout has passed."""

    code, code_name = 4, "DEADLINE_EXCEEDED"


class NotFoundError(Error, LookupError):
    """What was named does not exist."""

    code, code_name = 5, "NOT_FOUND"


class FileMissingError(NotFoundError, FileNotFoundError):
    """A file that was named does not exist."""


class KeyMissingError(NotFoundError, KeyError):
    """A key or name that was given does not exist."""


class AlreadyExistsError(Error, FileExistsError):
    """What was to be made exists."""

    code, code_name = 6, "ALREADY_EXISTS"


class PermissionDeniedError(Error, PermissionError):
    """The caller may not do this."""

    code, code_name = 7, "PERMISSION_DENIED"


class ResourceExhaustedError(Error, MemoryError):
    """Memory, disk or another resource is short."""

    code, code_name = 8, "RESOURCE_EXHAUSTED"


class FailedPreconditionError(Error, RuntimeError):
    """The call cannot be made in this state, or from here."""

    code, code_name = 9, "FAILED_PRECONDITION"


class UnsupportedTypeError(FailedPreconditionError, TypeError):
    """The call cannot be made with an object of this kind: len() of a dataset whose length is not
    known, say."""


class AbortedError(Error, RuntimeError):
    """The operation was ended because another part of it failed."""

    code, code_name = 10, "ABORTED"


class OutOfRangeError(Error, RuntimeError):
    """Past the end, as `get_next` raises at the end of a dataset."""

    code, code_name = 11, "OUT_OF_RANGE"


class UnimplementedError(Error, NotImplementedError):
    """This is not supported."""

    code, code_name = 12, "UNIMPLEMENTED"


class InternalError(Error, RuntimeError):
    """A defect of the library."""

    code, code_name = 13, "INTERNAL"


class UnavailableError(Error, RuntimeError):
    """A peer is gone."""

    code, code_name = 14, "UNAVAILABLE"


class DataLossError(Error, RuntimeError):
    """Data is damaged."""

    code, code_name = 15, "DATA_LOSS"


class UnauthenticatedError(Error, RuntimeError):
    """The peer did not prove who it is."""

    code, code_name = 16, "UNAUTHENTICATED"


_BY_CODE: Dict[int, Type[Error]] = {
    cls.code: cls
    for cls in (CancelledError, UnknownError, InvalidArgumentError, DeadlineExceededError,
                NotFoundError, AlreadyExistsError, PermissionDeniedError, ResourceExhaustedError,
                FailedPreconditionError, AbortedError, OutOfRangeError, UnimplementedError,
                InternalError, UnavailableError, DataLossError, UnauthenticatedError)
}

# Details by which an error says that it is about a type, and about a file.
_TYPE_DETAILS = frozenset(("dtype", "expected_dtype", "found_dtype", "structure"))
_FILE_DETAILS = frozenset(("file", "path", "pattern", "patterns"))


def _make(code: int, message: str, details: Dict[str, Any],
          causes: Tuple[BaseException, ...]) -> Error:
    """The exception of an error that the library reported."""
    cls = _BY_CODE.get(code, UnknownError)
    if cls is InvalidArgumentError and not _TYPE_DETAILS.isdisjoint(details):
        cls = InvalidTypeError
    elif cls is NotFoundError:
        cls = KeyMissingError if _FILE_DETAILS.isdisjoint(details) else FileMissingError
    error = cls(message, details, causes)
    if isinstance(error, builtins.OSError) and isinstance(details.get("file"), str):
        error.filename = details["file"]
    if causes:
        error.__cause__ = causes[0]
    return error
