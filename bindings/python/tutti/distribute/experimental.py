"""What the reference once had under this name."""

from __future__ import annotations

import warnings
from typing import Any, Optional

from tutti.distribute._communication import CommunicationImplementation, CommunicationOptions
from tutti.distribute._input import ValueContext
from tutti.distribute._strategy import CentralStorageStrategy
from tutti.distribute._strategy import MultiWorkerMirroredStrategy as _MultiWorkerMirroredStrategy

CollectiveCommunication = CommunicationImplementation

__all__ = ["CentralStorageStrategy", "CollectiveCommunication", "CollectiveHints",
           "CommunicationImplementation", "CommunicationOptions", "MultiWorkerMirroredStrategy",
           "ValueContext"]


class CollectiveHints(CommunicationOptions):
    """CommunicationOptions under the name and with the arguments of its beginnings; deprecated.
    bytes_per_pack and timeout_seconds are as there."""

    __slots__ = ()

    def __init__(self, bytes_per_pack: int = 0, timeout_seconds: Optional[float] = None):
        warnings.warn("CollectiveHints is deprecated; CommunicationOptions takes its place",
                      DeprecationWarning, stacklevel=2)
        super().__init__(bytes_per_pack, timeout_seconds)


class MultiWorkerMirroredStrategy(_MultiWorkerMirroredStrategy):
    """tutti.distribute.MultiWorkerMirroredStrategy with the arguments of its beginnings:
    communication, a CommunicationImplementation; cluster_resolver and devices are as there."""

    __slots__ = ()

    def __init__(self, communication: Any = CommunicationImplementation.AUTO,
                 cluster_resolver: Any = None, devices: Any = None, name: Optional[str] = None,
                 timeout: Optional[float] = None):
        super().__init__(cluster_resolver, CommunicationOptions(implementation=communication),
                         devices, name, timeout)
