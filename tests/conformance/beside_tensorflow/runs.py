"""How many cases a comparison tries, and from which seed, as the other seeded tests have it."""

import os

ORDINARY_SCALE = 100


def of(ordinary, most_s):
    """The first seed, how many there are from it on, and the seconds after which no other one
    begins."""
    only = os.environ.get("TUTTI_TEST_SEED")
    if only:
        return int(only), 1, float("inf")
    scale = int(os.environ.get("TUTTI_TEST_SCALE") or ORDINARY_SCALE)
    first = int(os.environ.get("TUTTI_TEST_FIRST_SEED") or 0)
    return first, max(1, ordinary * scale // ORDINARY_SCALE), (
        most_s if scale <= ORDINARY_SCALE else float("inf"))
