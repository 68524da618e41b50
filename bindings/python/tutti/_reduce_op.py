"""How values of several replicas or ranks become one."""

import enum


class ReduceOp(enum.IntEnum):
    """Wherever one is taken, its name in any case does as well ("sum")."""

    SUM = 1
    MEAN = 2
    MIN = 3
    MAX = 4
    PROD = 5
