"""Statistics of datasets."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional

import numpy as np

from tutti import _arguments, _native
from tutti._communicator import Communicator


@dataclasses.dataclass(frozen=True)
class Histogram:
    """What StatsAggregator.histograms has by name: `count` samples, one for each element, of `sum`
    seconds in all, the least `min` and the largest `max`. counts[i] of them are at most limits[i]
    seconds, and more than limits[i - 1]; the last limit is infinite."""

    count: int
    sum: float
    min: float
    max: float
    limits: List[float]
    counts: List[int]


@dataclasses.dataclass(frozen=True)
class RankStatistics:
    """What one rank brought to StatsAggregator.gather: `counters` and `histograms` by name."""

    counters: Dict[str, int]
    histograms: Dict[str, Histogram]


@dataclasses.dataclass(frozen=True)
class JobStatistics(RankStatistics):
    """The sums over all ranks, and in `ranks`, in their order, what each of them brought."""

    ranks: List[RankStatistics]


def _counters(read: Dict[str, Any]) -> Dict[str, int]:
    return {name: int(number) for name, number in read["counters"].items()}


def _histograms(read: Dict[str, Any]) -> Dict[str, Histogram]:
    return {name: Histogram(int(one["count"]), float(one["sum"]), float(one["min"]),
                            float(one["max"]), np.asarray(one["limits"]).tolist(),
                            np.asarray(one["counts"]).tolist())
            for name, one in read["histograms"].items()}


class StatsAggregator:
    """Histograms and counters that datasets write while they are read: those whose options name it,
    `options.experimental_stats.aggregator = aggregator`.

    Measured is what stands under latency_stats(tag), and with
    `options.experimental_stats.latency_all_edges = True` every operation, as record_latency::NAME,
    or record_latency::OPERATION/DEPTH where the operation has no name (a source has the depth 1;
    operations of one kind and depth are added up). All iterators are added up, those that are gone,
    too. Two are equal when they are the same one. Any thread may read, while others iterate.
    """

    __slots__ = ("_handle",)

    _handle: Any

    def __init__(self) -> None:
        self._handle = _native.stats_aggregator_create()

    @classmethod
    def _of(cls, handle: Any) -> StatsAggregator:
        aggregator = cls.__new__(cls)
        aggregator._handle = handle
        return aggregator

    def counters(self) -> Dict[str, int]:
        """Numbers by name: of what is measured as `tag` its `tag::elements`, and its
        `tag::failures`, which are no samples."""
        return _counters(_native.stats_aggregator_read(self._handle))

    def histograms(self) -> Dict[str, Histogram]:
        """How long elements took, by name; what stands below is included, and of several elements
        that were made at once each has its share. Of calls that take less than about a microsecond
        one of about eight is measured, and the elements of the others are as those of the next
        one."""
        return _histograms(_native.stats_aggregator_read(self._handle))

    def to_prometheus(self) -> str:
        """All of it in the text format of Prometheus: a counter tutti_dataset_total and a histogram
        tutti_dataset_latency_seconds, with the names as the label "name"."""
        text: str = _native.stats_aggregator_to_prometheus(self._handle)
        return text

    def gather(self, communicator: Communicator, timeout: Optional[float] = None) -> JobStatistics:
        """The aggregators of all ranks of `communicator`, added up: a collective call, which every
        rank makes with one of its own.

        >>> alone, = tutti.Communicator.create_local(1)
        >>> tutti.data.experimental.StatsAggregator().gather(alone).counters
        {}
        """
        found: Dict[str, Any] = _native.stats_aggregator_gather(
            self._handle, _arguments.handle_of("gather: communicator", communicator, Communicator),
            timeout)
        return JobStatistics(_counters(found), _histograms(found),
                             [RankStatistics(_counters(one), _histograms(one))
                              for one in found["ranks"]])

    def _as_options(self) -> Any:
        options = _native.data_options_create()
        _native.data_options_set_stats_aggregator(options, self._handle)
        return options

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StatsAggregator):
            return NotImplemented
        same: bool = _native.data_options_equal(self._as_options(), other._as_options())
        return same

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"StatsAggregator({len(self.histograms())} histograms)"
