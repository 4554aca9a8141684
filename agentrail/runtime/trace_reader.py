"""Trace contexts of prompts, tool calls and child sessions. Malformed ones of callers are left out and counted."""

from attrs import define

from agentrail.core.session.state import Cycle, SessionData
from agentrail.core.values import trace_carriers as traces
from agentrail.messages import CallId, SessionId, TraceContext


@define(eq=False)
class TraceReader:
    """Reads and makes the trace contexts of one supervisor.

    Attributes:
        malformed: How many were malformed, as a whole or in their `tracestate`.
        ratio: Share of the traces that are sampled if no caller decides. 0 without telemetry.
        tells_providers: Whether requests to models carry their trace.
    """

    malformed: int = 0
    ratio: float = 0.0
    tells_providers: bool = False

    def read(self, given: object) -> TraceContext | None:
        trace, is_malformed = traces.read_trace(given)
        self.malformed += is_malformed
        return trace

    def of_call(self, known: SessionData, call_id: CallId) -> str:
        """Return a call's span as `traceparent`, or nothing outside a cycle."""
        return "" if known.cycle is None else self._of_span(known, known.cycle, "call", f"\0{call_id}")

    def of_requests(self, known: SessionData) -> str:
        """Return the cycle's span as `traceparent`, or nothing outside a cycle."""
        return "" if known.cycle is None else self._of_span(known, known.cycle, "cycle")

    def _of_span(self, known: SessionData, cycle: Cycle, kind: str, own: str = "") -> str:
        trace_id, decided = _trace_id(known), traces.decision_of(cycle.trace)
        names = known.config.scope, known.config.session_id, f"{cycle.ref}{own}"
        span_id = traces.span_id_of(kind, *names)
        sampled = traces.is_drawn(trace_id, self.ratio) if decided is None else decided
        return traces.traceparent_of(trace_id, span_id, sampled=sampled)


def trace_of_child(known: SessionData, child_id: SessionId) -> TraceContext | None:
    """Return the trace of a child session's prompts: below its span, and in a trace of its own for a background agent."""
    cycle, config = known.cycle, known.config
    names = config.scope, config.session_id, child_id
    span_id, own = traces.span_id_of("child", *names), traces.trace_of_background(*names)
    if cycle is None and not own:
        return None
    decided = None if cycle is None else traces.decision_of(cycle.trace)
    traceparent = traces.traceparent_of(own or _trace_id(known), span_id, sampled=bool(decided))
    if cycle is None or cycle.trace is None or decided is None:
        return TraceContext(traceparent=traceparent, tracestate=traces.UNDECIDED)
    return TraceContext(traceparent=traceparent, tracestate=cycle.trace.tracestate)


def _trace_id(known: SessionData) -> str:
    cycle, config = known.cycle, known.config
    ref = "" if cycle is None else cycle.ref
    caller = None if cycle is None else cycle.trace
    return traces.trace_id_of(caller, config.scope, config.session_id, "cycle", ref)
