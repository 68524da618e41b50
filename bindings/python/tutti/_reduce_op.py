"""How values of several replicas or ranks become one."""

import enum


class ReduceOp(enum.IntEnum):
    """Wherever one is taken, its name in any case does as well ("sum"). BAND, BOR and BXOR are of
    the bits, for integers and bool."""

    SUM = 1
    MEAN = 2
    MIN = 3
    MAX = 4
    PROD = 5
    BAND = 6
    BOR = 7
    BXOR = 8
