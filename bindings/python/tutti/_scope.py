"""The ambient state of a thread of control, in contextvars: scope, device, runtime.

The scope variable holds None (the default strategy, replica context), a CrossReplica (inside
`strategy.scope()` and inside merge functions) or a ReplicaContext (inside a replica function). The
extension sets it around callbacks, also on replica threads.
"""

from __future__ import annotations

import contextvars
from typing import Any, Optional

scope: contextvars.ContextVar[Any] = contextvars.ContextVar("tutti_scope", default=None)
runtime: contextvars.ContextVar[Any] = contextvars.ContextVar("tutti_runtime", default=None)
device: contextvars.ContextVar[Optional[Any]] = contextvars.ContextVar("tutti_device", default=None)


class CrossReplica:
    """The scope variable's value in cross-replica context."""

    __slots__ = ("strategy", "pinned")

    def __init__(self, strategy: Any, pinned: bool = False):
        self.strategy = strategy
        self.pinned = pinned  # set by experimental_set_strategy, which no `with` ends
