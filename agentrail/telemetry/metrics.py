"""Metrics in the formats of Prometheus and OpenMetrics. Needs the extra `metrics`."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, Final, TypeAlias

import trio
from prometheus_client import CollectorRegistry, core, generate_latest, openmetrics

from agentrail import outside
from agentrail.telemetry.metric_totals import (
    METRICS,
    OPEN_METRICS,
    PLAIN_TEXT,
    MetricFold,
    MetricTotals,
    NamesOf,
    Series,
    Total,
)
from agentrail.telemetry.reader import HeardEvent

ReadValues: TypeAlias = Callable[[], Awaitable[Mapping[Series, float]]]
"""Returns the present values of series, such as gauges."""

_FAMILIES: Final[Mapping[str, Any]] = {
    "counter": core.CounterMetricFamily,
    "gauge": core.GaugeMetricFamily,
    "histogram": core.HistogramMetricFamily,
}


class Metrics:
    """Metrics of one supervisor and its host, for `open_supervisor` and `create_app`.

    Attributes:
        registry: Their registry, to which you can add collectors of your own.
        sources: Called at each scrape.
    """

    name: str = "metrics"
    has_cursors: bool = False
    rejected: int = 0

    def __init__(self) -> None:
        """Begin at 0."""
        self.sources: list[ReadValues] = []
        self._fold = MetricFold()
        self.totals: MetricTotals = self._fold.totals
        self._read: Mapping[Series, float] = {}
        self.registry: CollectorRegistry = CollectorRegistry()
        self.registry.register(self)

    def follow(self, names_of: NamesOf) -> None:
        """Use these names of sessions as label values."""
        self._fold.names_of = names_of

    async def take(self, events: Sequence[HeardEvent]) -> None:
        """Count committed events. Those that were counted before add nothing."""
        await trio.lowlevel.checkpoint()
        for origin, event in events:
            self._fold.feed(origin, event)

    def first_needed(self, scope: str, session_id: str) -> None:
        """Return None: counters begin at 0 in each process."""

    def note_write(self, seconds: float, size_bytes: int) -> None:
        """Count a batch of records that was written to the store."""
        self.totals.observe(("agentrail_journal_append_seconds",), seconds)
        self.totals.add(("agentrail_journal_bytes_total",), size_bytes)

    def note_hook(self, plugin: str, hook: str, seconds: float | None) -> None:
        """Count a hook of a host plugin, or its failure for None."""
        if seconds is None:
            self.totals.add(("agentrail_plugin_failures_total", plugin, hook))
        else:
            self.totals.observe(("agentrail_host_hook_seconds", plugin, hook), seconds)

    async def render(self, accept: str = "") -> tuple[str, bytes]:
        """Call all sources, and return the content type and the text of all metrics.

        Args:
            accept: The request's `Accept` header, which decides the format.
        """
        self._read = {series: value for read in self.sources for series, value in (await read()).items()}
        is_open = OPEN_METRICS.partition(";")[0] in accept
        encode = openmetrics.exposition.generate_latest if is_open else generate_latest
        text = await outside.offload(partial(encode, self.registry))
        return OPEN_METRICS if is_open else PLAIN_TEXT, text

    def collect(self) -> Iterator[core.Metric]:
        """Yield all metrics with their series. Called by the registry, possibly in another thread."""
        found: defaultdict[str, list[tuple[Series, Any]]] = defaultdict(list)
        for series, value in (*tuple(self.totals.by_series.items()), *self._read.items()):
            found[series[0]].append((series, value))
        for name, one in METRICS.items():
            family = _FAMILIES[one.kind](name, one.help, labels=one.labels)
            for (_, *values), value in found[name]:
                if one.kind == "histogram":
                    family.add_metric(values, [*_buckets_of(one.buckets, value)], value.value)
                else:
                    family.add_metric(values, value.value if isinstance(value, Total) else value)
            yield family


def _buckets_of(bounds: Sequence[float], total: Total) -> Iterator[tuple[str, float, core.Exemplar | None]]:
    for place, (bound, count) in enumerate(zip((*bounds, "+Inf"), accumulate(total.counts), strict=True)):
        example = total.examples.get(place)
        shown = None if example is None else core.Exemplar({"trace_id": example[1]()}, example[0])
        yield f"{bound}", count, shown
