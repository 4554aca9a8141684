"""Gauges of a supervisor: its load at each scrape, names of its sessions, and the duration of its writes."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Final, Protocol, TypeAlias

import trio

from agentrail.core.session.views import configured_names
from agentrail.runtime.session_keys import key_of
from agentrail.runtime.supervisor import SessionSupervisor

_STRETCH: Final = 500
"""Sessions that are looked at before other tasks run."""

Gauges: TypeAlias = Mapping[tuple[str, ...], float]
"""Values by the name of a metric and its label values."""


class Measuring(Protocol):
    """The part of `Metrics` that a supervisor uses."""

    sources: list[Any]

    def follow(self, names_of: Callable[[str, str], frozenset[str] | None], /) -> None: ...
    def note_write(self, seconds: float, size_bytes: int, /) -> None: ...


class LoopLag(trio.abc.Instrument):
    """Measures how long each round of the event loop kept all others waiting."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._longest = 0.0

    def after_io_wait(self, timeout: float) -> None:
        self._began = perf_counter()

    def before_io_wait(self, timeout: float) -> None:
        if self._began is not None:
            self._longest = max(self._longest, perf_counter() - self._began)

    def take(self) -> float:
        """Return the longest round since the last call."""
        longest, self._longest = self._longest, 0.0
        return longest


@contextmanager
def measured(supervisor: SessionSupervisor, metrics: Measuring) -> Iterator[None]:
    """Let metrics read a supervisor for the duration of the block."""
    shared, lag = supervisor._shared, LoopLag()  # noqa: SLF001 - part of the supervisor

    def names_of(scope: str, session_id: str) -> frozenset[str] | None:
        cell = supervisor._seen(key_of(scope, session_id))  # noqa: SLF001 - one that has just ended too
        return None if cell is None or cell.is_asleep else configured_names(cell.state.data)

    async def read() -> Gauges:
        told, keeping = supervisor.statistics(), shared.keeping
        load: defaultdict[tuple[str, ...], float] = defaultdict(float)
        load["agentrail_sessions", "asleep"] = told.asleep
        load["agentrail_approvals_pending",] = sum(one.waits_for for one in shared.asleep.values())
        for place, entry in enumerate(tuple(shared.entries.values())):
            if place % _STRETCH == 0:
                await trio.lowlevel.checkpoint()
            if not entry.cell.is_asleep and not entry.cell.state.ended:
                state = entry.cell.state
                load["agentrail_sessions", state.phase.value] += 1
                load["agentrail_approvals_pending",] += len(state.data.interactions)
                load["agentrail_queue_length",] += len(state.data.queue)
        return {
            **load,
            ("agentrail_survivors",): len(told.left_behind),
            ("agentrail_parked_sessions",): told.parked,
            ("agentrail_store_available",): keeping is None or keeping.writer.is_available,
            ("agentrail_loop_lag_seconds",): lag.take(),
            ("agentrail_telemetry_behind_events",): sum(one.behind for one in told.consumers),
            ("agentrail_events_dropped_total", "queue_full"): sum(one.dropped for one in told.consumers),
            ("agentrail_events_dropped_total", "rejected"): sum(one.rejected for one in told.consumers),
            **{("agentrail_mcp_servers", state): count for state, count in supervisor.sources.states().items()},
        }  # fmt: skip

    metrics.follow(names_of)
    if shared.keeping is not None:
        shared.keeping.writer.on_written = metrics.note_write
    metrics.sources.append(read)
    trio.lowlevel.add_instrument(lag)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(lag)
