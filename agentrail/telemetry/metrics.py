"""Metrics in the formats of Prometheus and OpenMetrics. Needs the extra `metrics`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import trio
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, openmetrics

from agentrail import outside
from agentrail.telemetry.metric_samples import (
    METRICS,
    OPEN_METRICS,
    PLAIN_TEXT,
    MetricFold,
    NamesOf,
    Sample,
    SeriesLimit,
    Values,
)
from agentrail.telemetry.reader import HeardEvent

ReadValues: TypeAlias = Callable[[], Awaitable[Mapping[tuple[str, ...], float]]]
"""Returns present values by metric and label values: of gauges, and of counters since the start."""

_KINDS: Final[dict[str, Any]] = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}
_CHANGES: Final = {"counter": "inc", "gauge": "set", "histogram": "observe"}


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
        """Create all metrics, without values."""
        self.registry: CollectorRegistry = _Registry()
        self.sources: list[ReadValues] = []
        self._limit = SeriesLimit()
        self._fold = MetricFold()
        self._last: dict[tuple[str, ...], float] = {}
        self._changes: dict[tuple[str, Values], Callable[..., None]] = {}
        self._made: dict[str, Any] = {}
        for name, one in METRICS.items():
            more = {"buckets": one.buckets} if one.buckets else {}
            self._made[name] = _KINDS[one.kind](name, one.help, one.labels, registry=self.registry, **more)

    def follow(self, names_of: NamesOf) -> None:
        """Use these names of sessions as label values."""
        self._fold.names_of = names_of

    async def take(self, events: Sequence[HeardEvent]) -> None:
        """Count committed events. Those that were counted before add nothing."""
        await trio.lowlevel.checkpoint()
        for origin, event in events:
            for sample in self._fold.feed(origin, event):
                self._add(sample)

    def first_needed(self, scope: str, session_id: str) -> None:
        """Return None: counters begin at 0 in each process."""

    def note_write(self, seconds: float, size_bytes: int) -> None:
        """Count a batch of records that was written to the store."""
        self._add(Sample("agentrail_journal_append_seconds", (), seconds))
        self._add(Sample("agentrail_journal_bytes_total", (), size_bytes))

    def note_hook(self, plugin: str, hook: str, seconds: float | None) -> None:
        """Count a hook of a host plugin, or its failure for None."""
        failed = seconds is None
        name = "agentrail_plugin_failures_total" if failed else "agentrail_host_hook_seconds"
        self._add(Sample(name, (plugin, hook), 1.0 if seconds is None else seconds))

    async def render(self, accept: str = "") -> tuple[str, bytes]:
        """Call all sources, and return the content type and the text of all metrics.

        Args:
            accept: The request's `Accept` header, which decides the format.
        """
        found = {key: value for read in self.sources for key, value in (await read()).items()}
        for name, one in METRICS.items():
            if (
                one.kind == "gauge" and one.labels
            ):  # otherwise a value that is not reported any more would stay
                self._made[name].clear()
        for (name, *values), value in found.items():
            is_sum = METRICS[name].kind == "counter"
            before = self._last.get((name, *values), 0.0) if is_sum else 0.0
            self._last[name, *values] = value
            self._change(name, tuple(values))(value - before)
        is_open = OPEN_METRICS.partition(";")[0] in accept
        encode = openmetrics.exposition.generate_latest if is_open else generate_latest
        text = await outside.offload(partial(encode, self.registry))
        return OPEN_METRICS if is_open else PLAIN_TEXT, text

    def _add(self, sample: Sample) -> None:
        name, values, value, trace_id = sample
        change = self._changes.get((name, values))
        if change is None:
            change = self._change(name, values)
        change(value) if trace_id is None else change(value, {"trace_id": trace_id})

    def _change(self, name: str, values: Values) -> Callable[..., None]:
        shown = self._limit.admit(name, values)
        change: Callable[..., None] = getattr(
            self._made[name].labels(*shown) if shown else self._made[name], _CHANGES[METRICS[name].kind]
        )
        if (
            shown == values and METRICS[name].kind != "gauge"
        ):  # other values are not kept: there is no end of them
            self._changes[name, values] = change
        return change


class _Registry(CollectorRegistry):
    def collect(self) -> Any:
        """Yield all metrics, without the time at which each series began. That would double the series."""
        for family in super().collect():
            family.samples = [one for one in family.samples if not one.name.endswith("_created")]
            yield family
