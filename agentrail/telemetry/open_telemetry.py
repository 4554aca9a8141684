"""Spans of all sessions for an official exporter of OpenTelemetry. The library is patched nowhere, and imported when telemetry opens."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, Literal

import trio
from attrs import field, frozen

from agentrail import outside
from agentrail.abc.event_reader import SessionOrigin
from agentrail.core.journal.spans import JournalSpan, SessionSpans
from agentrail.core.values.trace_carriers import is_drawn
from agentrail.distribution import install_command
from agentrail.errors import OptionError
from agentrail.events import Event, SessionStart
from agentrail.messages import SessionId
from agentrail.otp.field_rules import misfits
from agentrail.otp.guarded_calls import repr_of
from agentrail.telemetry.otel_variables import is_address, is_installed, is_share
from agentrail.telemetry.reader import HeardEvent

SPANS_AT_ONCE: Final = 512
"""Maximum spans of one call of an exporter."""

_EVENTS_A_TURN: Final = 256


@frozen(kw_only=True)
class OpenTelemetry:
    """Spans of all sessions, for a collector or any backend that speaks OTLP. Needs the extra `otel`.

        open_supervisor(telemetry=OpenTelemetry(exporter="http://localhost:4318/v1/traces"))

    Attributes:
        exporter: Full address of an OTLP endpoint (HTTP and protobuf), or any official `SpanExporter`, which stays yours to
            shut down. None: the official exporter, with its variables `OTEL_EXPORTER_OTLP_*`.
        content: Whether prompts, answers, arguments and results are included, after secrets are replaced, 8 KiB of each.
        tenant: Whether spans name the tenant of a host.
        resource: Attributes of the process, such as `service.name`, which is `agentrail` unless set.
        sample: Share of the traces that are exported, from 0 to 1, drawn by trace id. A caller's sampling flag counts more.
        propagate: `providers` lets requests to model vendors carry their trace. None: they carry none.
    """

    exporter: Any = None
    content: bool = False
    tenant: bool = False
    resource: Mapping[str, Any] = field(factory=dict)
    sample: float = 1.0
    propagate: Literal["providers"] | None = None

    def __attrs_post_init__(self) -> None:
        OptionError.raise_for([*self._faults()])

    def _faults(self) -> Iterator[str]:
        given: Any = self  # annotations cannot be trusted here
        if not is_installed("opentelemetry.exporter.otlp.proto.http"):
            yield f"telemetry needs the official libraries: {install_command('otel')}"
        for name, kind in (("content", bool), ("tenant", bool), ("propagate", Literal["providers"] | None)):
            yield from misfits(f"{name} of telemetry", getattr(given, name), kind)
        if not isinstance(given.resource, Mapping):
            yield f"resource of telemetry is {repr_of(given.resource):.80}: expected attributes by name"
        if isinstance(given.sample, str) or not is_share(given.sample):
            yield f"sample of telemetry is {repr_of(given.sample):.80}: expected a number from 0 to 1"
        is_exporter = given.exporter is None or callable(getattr(given.exporter, "export", None))
        if not is_exporter and not is_address(given.exporter):
            yield f"exporter of telemetry is {repr_of(given.exporter):.200}: expected an address, or a SpanExporter"

    def consumer(self, scrub: Callable[[str], str] = str) -> "SpanConsumer":
        """Return a consumer for one supervisor.

        Args:
            scrub: Replaces secrets in content.
        """
        return SpanConsumer(self, scrub)

    def fold(self, origin: SessionOrigin, scrub: Callable[[str], str]) -> SessionSpans:
        """Return a fold that makes the spans of one session, for `consumer`."""
        return SessionSpans(
            scope=origin.scope,
            session=SessionId(origin.session_id),
            user_data=origin.user_data,
            tenant=self.tenant,
            content=self.content,
            scrub=scrub,
        )

    def is_sampled(self, span: JournalSpan) -> bool:
        """Return whether a span is exported."""
        return is_drawn(span.trace_id, self.sample) if span.sampled is None else span.sampled


def faults_of_telemetry(given: object) -> list[str]:
    is_right = given is None or isinstance(given, OpenTelemetry)
    return [] if is_right else [f"telemetry is {repr_of(given):.80}: expected OpenTelemetry(…), or None"]


class SpanConsumer:
    """Makes spans of the events of a supervisor, and exports them in a thread."""

    name: str = "spans"
    has_cursors: bool = True

    def __init__(self, options: OpenTelemetry, scrub: Callable[[str], str]) -> None:
        self.rejected: int = 0
        """Spans that the backend has refused for good."""
        self._options = options
        self._scrub = scrub
        self._sdk: Any = import_module("agentrail.telemetry.sdk_spans")
        is_own = options.exporter is None or isinstance(options.exporter, str)
        self._exporter = (
            self._sdk.OtlpExporter(options.exporter, self._reject) if is_own else options.exporter
        )
        self._resource = {"service.name": "agentrail", **options.resource}
        self._folds: dict[tuple[str, str], SessionSpans] = {}
        # What the folds needed when their spans were last exported.
        self._needed: dict[tuple[str, str], int | None] = {}
        self._fed: Sequence[HeardEvent] = ()
        self._made: list[JournalSpan] = []
        self._limiter = trio.CapacityLimiter(1)

    async def take(self, events: Sequence[HeardEvent]) -> None:
        if events is not self._fed:  # otherwise its spans are made, and could not be exported
            await self._feed(events)
            self._fed = events
        await self.export()
        self._fed = ()
        for key in dict.fromkeys((origin.scope, origin.session_id) for origin in dict(events)):
            self._needed[key] = self._folds[key].first_needed
            if self._needed[key] is None:  # nothing is open, so the next events begin a fold of their own
                del self._folds[key], self._needed[key]

    async def _feed(self, events: Sequence[HeardEvent]) -> None:
        last, fold = None, None
        for number, (origin, event) in enumerate(events, 1):
            if fold is None or origin is not last:
                last, fold = origin, self._fold_of(origin, event)
            closed = fold.feed(event)
            if closed:
                self.add(closed)
            if number % _EVENTS_A_TURN == 0:
                await trio.lowlevel.checkpoint()

    def _fold_of(self, origin: SessionOrigin, first: Event) -> SessionSpans:
        key = (origin.scope, origin.session_id)
        fold = self._folds.get(key)
        if fold is None or isinstance(first, SessionStart):  # its id may be that of an ended session
            fold = self._folds[key] = self._options.fold(origin, self._scrub)
        return fold

    def add(self, spans: Iterable[JournalSpan]) -> int:
        """Keep the sampled spans for the next export, and return their number."""
        sampled = [span for span in spans if self._options.is_sampled(span)]
        self._made += sampled
        return len(sampled)

    async def export(self) -> None:
        while self._made:
            batch = self._made[:SPANS_AT_ONCE]
            call = (self._sdk.send_spans, self._exporter, self._resource, batch)
            await outside.offload(*call, abandon_on_cancel=True, limiter=self._limiter)
            del self._made[:SPANS_AT_ONCE]

    def first_needed(self, scope: str, session_id: str) -> int | None:
        return self._needed.get((scope, session_id))

    def _reject(self, count: int) -> None:
        self.rejected += count
