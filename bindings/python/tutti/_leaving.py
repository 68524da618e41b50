"""Why a process leaves its job: what its peers are told of an exception that ends a block or a
program."""

from typing import Optional

from tutti import errors

_MOST_CHARACTERS = 500


def reason(error: Optional[BaseException]) -> Optional[str]:
    """"ValueError: no rows"; None where nothing went wrong, and for what the peers know already:
    that somebody else is gone."""
    if error is None or isinstance(error, (errors.UnavailableError, errors.AbortedError)):
        return None
    if isinstance(error, SystemExit) and error.code in (None, 0):
        return None
    if isinstance(error, GeneratorExit):  # a generator that nobody reads to its end
        return None
    try:
        said = str(error)
    except Exception:  # the user's class
        said = ""
    said = said.strip().split("\n")[0]
    name = type(error).__name__
    return f"{name}: {said}"[:_MOST_CHARACTERS] if said else name
