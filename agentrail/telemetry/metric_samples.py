"""All metrics, the values that their labels may have, and the samples that each committed event adds. Pure."""

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from attrs import define, field, frozen

from agentrail import events
from agentrail.abc.event_reader import SessionOrigin
from agentrail.core.journal.span_names import PROVIDERS
from agentrail.core.session.state import Phase
from agentrail.core.values.trace_carriers import trace_id_of
from agentrail.errors import OptionError
from agentrail.messages import CallId, PromptRef, SessionId, TraceContext

OTHER: Final = "other"
"""Label value for every name that is not configured, or that is one too many."""

PLAIN_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_ERRORS: Final = ("", "rate_limited", "overloaded", "transport", "timeout", "authentication", OTHER)

LABELS: Final[Mapping[str, int | tuple[str, ...]]] = MappingProxyType(
    {
        "phase": (*[phase.value for phase in Phase], "asleep"),
        "outcome": ("ok", "aborted", "blocked", "failed"),
        "direction": ("input", "output", "cache_read", "cache_write"),
        "transport": ("sse", "websocket"),
        "reason": ("queue_full", "rejected"),
        "state": ("connecting", "ready", "restarting", "parked", "needs_login", "changed", "closed"),
        "profile": 50,
        "provider": 20,
        "model": 100,
        "tool": 300,
        "plugin": 50,
        "hook": 40,
        "error_type": _ERRORS,
        "gen_ai_operation_name": ("chat",),
        "gen_ai_token_type": ("input", "output"),
        "gen_ai_provider_name": 20,
        "gen_ai_request_model": 100,
    }
)
"""The only labels: each with all of its values, of which the last stands for unknown ones, or with its number of names."""

_NAME: Final = re.compile(r"[A-Za-z0-9_.:/@+-]{1,120}")

_SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS: Final = tuple([float(4**power) for power in range(14)])
_HOOK_SECONDS: Final = (0.005, 0.05, 0.5, 5.0)
_MODEL: Final = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")


@frozen
class Metric:
    """A metric: its kind, its help text, its labels, how many combinations of names they may have, and its buckets."""

    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    room: int = 0
    buckets: tuple[float, ...] = ()

    def __attrs_post_init__(self) -> None:
        """Refuse labels without a bounded set of values, such as an id."""
        unknown = [label for label in self.labels if label not in LABELS]
        if unknown:
            raise OptionError([f"label {label!r} is not bounded: use one of LABELS" for label in unknown])


# fmt: off
METRICS: Final[Mapping[str, Metric]] = MappingProxyType({
    "agentrail_sessions": Metric("gauge", "Live sessions.", ("phase",)),
    "agentrail_cycles_total": Metric("counter", "Ended cycles.", ("outcome", "profile"), 60),
    "agentrail_cycle_seconds": Metric("histogram", "Duration of ended cycles.", (), 0, _SECONDS),
    "agentrail_model_requests_total": Metric("counter", "Model requests of cycles, each attempt.", ("provider", "model", "outcome"), 220),
    "agentrail_tokens_total": Metric("counter", "Tokens of answered model requests. Input includes cached tokens.", ("provider", "model", "direction"), 400),
    "agentrail_cost_dollars_total": Metric("counter", "Cost of answered model requests with a known price.", ("profile", "model"), 110),
    "agentrail_tool_calls_total": Metric("counter", "Ended tool calls.", ("tool", "outcome"), 330),
    "agentrail_tool_seconds": Metric("histogram", "Duration of executed tool calls.", (), 0, _SECONDS),
    "agentrail_abort_seconds": Metric("histogram", "Time until stopped work had ended.", (), 0, _SECONDS),
    "agentrail_survivors": Metric("gauge", "Stopped tools whose threads keep running."),
    "agentrail_restarts_total": Metric("counter", "Restarts of crashed sessions."),
    "agentrail_parked_sessions": Metric("gauge", "Sessions parked since the start of the process."),
    "agentrail_approvals_pending": Metric("gauge", "Pending approvals and questions."),
    "agentrail_queue_length": Metric("gauge", "Queued prompts of all sessions."),
    "agentrail_journal_append_seconds": Metric("histogram", "Duration of writes to the store.", (), 0, _SECONDS),
    "agentrail_journal_bytes_total": Metric("counter", "Bytes of the bodies of written records."),
    "agentrail_store_available": Metric("gauge", "Whether the store takes records."),
    "agentrail_loop_lag_seconds": Metric("gauge", "Longest time that the event loop was held since the last scrape."),
    "agentrail_subscribers": Metric("gauge", "Open streams and sockets.", ("transport",)),
    "agentrail_events_dropped_total": Metric("counter", "Events that telemetry lost.", ("reason",)),
    "agentrail_telemetry_behind_events": Metric("gauge", "Events that telemetry has yet to handle."),
    "agentrail_plugin_failures_total": Metric("counter", "Failed hooks of plugins.", ("plugin", "hook"), 40),
    "agentrail_host_hook_seconds": Metric("histogram", "Duration of hooks of host plugins.", ("plugin", "hook"), 20, _HOOK_SECONDS),
    "agentrail_mcp_servers": Metric("gauge", "MCP servers in use.", ("state",)),
    "gen_ai_client_operation_duration_seconds": Metric("histogram", "Duration of model requests.", (*_MODEL, "error_type"), 8, _SECONDS),
    "gen_ai_client_token_usage": Metric("histogram", "Tokens of model requests.", (*_MODEL, "gen_ai_token_type"), 10, _TOKENS),
    "gen_ai_client_operation_time_to_first_chunk_seconds": Metric("histogram", "Time to the first chunk of a response.", _MODEL, 5, _SECONDS),
})
# fmt: on
"""All metrics by name."""

Values: TypeAlias = tuple[str, ...]


class SeriesLimit:
    """Decides the label values of each sample, so that all metrics together stay below 2,000 series."""

    def __init__(self) -> None:
        self._names: defaultdict[str, set[str]] = defaultdict(set)
        self._admitted: defaultdict[str, set[Values]] = defaultdict(set)

    def admit(self, name: str, values: Values) -> Values:
        """Return the label values to use: the given ones, or `other` in the place of unknown and further names."""
        metric, admitted = METRICS[name], self._admitted[name]
        shown = tuple(map(self._value, metric.labels, values))
        pairs = zip(metric.labels, shown, strict=True)
        reserved = tuple([OTHER if isinstance(LABELS[label], int) else value for label, value in pairs])
        if shown == reserved or shown in admitted:
            return shown
        if len(admitted) >= metric.room:
            return reserved
        admitted.add(shown)
        return shown

    def _value(self, label: str, value: str) -> str:
        size = LABELS[label]
        if isinstance(size, tuple):
            return value if value in size else size[-1]
        names = self._names[label]
        if value not in names and (len(names) >= size or _NAME.fullmatch(value) is None):
            return OTHER
        names.add(value)
        return value


class Sample(NamedTuple):
    """An increment of a counter, an observation of a histogram with its trace, or the value of a gauge."""

    name: str
    values: Values = ()
    value: float = 1.0
    trace_id: str | None = None


NamesOf: TypeAlias = Callable[[str, SessionId], Container[str] | None]
"""Returns the configured names of a session by its scope and id. None if it is not awake."""

MAX_SESSIONS: Final = 50_000
"""Number of sessions whose last event is remembered. The oldest is forgotten first."""


@define(eq=False)
class _SessionCounts:
    seq: int = 0
    at_ms: int = 0
    profile: str = OTHER
    names: Container[str] = ()
    began_at_ms: int | None = None
    trace_id: str | None = None
    request: tuple[str, str, int] | None = None  # its provider, its model and its time
    blocked: set[CallId] = field(factory=set)
    callers: dict[PromptRef, TraceContext] = field(factory=dict)


class MetricFold:
    """Turns committed events into samples. An event that is read again adds nothing."""

    def __init__(self, names_of: NamesOf = lambda _scope, _session_id: None) -> None:
        self.names_of = names_of
        self._sessions: dict[tuple[str, SessionId], _SessionCounts] = {}

    def feed(self, origin: SessionOrigin, event: events.Event) -> tuple[Sample, ...]:
        """Return the samples of an event. Those of one session must come in order."""
        meta = event.meta
        if meta is None or meta.ephemeral:
            return ()
        key = (origin.scope, meta.session_id)
        one = self._sessions.get(key)
        # Another session may have taken the id, and its numbers begin again.
        if one is None or (meta.seq <= one.seq and meta.at_ms > one.at_ms):
            self._sessions.pop(key, None)
            one = self._sessions[key] = _SessionCounts()
            if len(self._sessions) > MAX_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
        if meta.seq <= one.seq:
            return ()
        one.seq, one.at_ms = meta.seq, max(meta.at_ms, one.at_ms)
        if isinstance(event, events.AgentStart | events.RequestStart):
            one.names = self.names_of(*key) or one.names
            one.profile = str(origin.user_data.get("agent_id", OTHER))
        if isinstance(event, events.AgentStart):
            one.began_at_ms, one.request = meta.at_ms, None
            one.trace_id = trace_id_of(one.callers.pop(event.ref, None), *key, "cycle", event.ref)
            one.blocked.clear()
        return tuple(_samples(one, event, meta.at_ms))


def _samples(one: _SessionCounts, event: events.Event, at_ms: int) -> Iterator[Sample]:
    match event:
        case events.RequestStart(model=text):
            yield from _of_request_end(one, "aborted", at_ms)
            provider, _, model = _known(text, one.names).partition(":")
            one.request = (provider, model or provider, at_ms)
        case events.PromptReceived(ref=prompt, trace=trace) | events.PromptQueued(ref=prompt, trace=trace):
            if trace is not None:
                one.callers[prompt] = trace
        case (
            events.PromptDropped(ref=prompt)
            | events.PromptRejected(ref=prompt)
            | events.PromptTaken(ref=prompt)
        ):
            one.callers.pop(prompt, None)
        case events.ToolBlocked(call_id=call_id):
            one.blocked.add(call_id)
        case events.ToolExecutionEnd(name=name, call_id=call_id, result=result):
            outcome = "blocked" if call_id in one.blocked else "failed" if result.is_error else "ok"
            yield Sample("agentrail_tool_calls_total", (_known(name, one.names), outcome))
        case events.ToolExecutionMetrics(duration_ms=duration_ms):
            yield Sample("agentrail_tool_seconds", (), duration_ms / 1000, one.trace_id)
        case events.ModelSwitched(by="fallback"):
            yield from _of_request_end(one, "failed", at_ms, OTHER)
        case events.AgentEnd():
            yield from _of_cycle_end(one, "ok", at_ms)
        case events.AgentError(error=error):
            yield from _of_request_end(one, "failed", at_ms, error.code)
            yield from _of_cycle_end(one, "failed", at_ms)
        case events.AgentAbort(ref=ref) if ref is not None or one.began_at_ms is not None:
            yield from _of_cycle_end(one, "aborted", at_ms)
        case events.AbortSettled(receipt=receipt) if receipt.settled:
            yield Sample("agentrail_abort_seconds", (), receipt.milliseconds / 1000, one.trace_id)
        case events.SessionRestarted():
            yield Sample("agentrail_restarts_total")
        case events.PluginFailed(plugin=plugin, hook=hook):
            yield Sample("agentrail_plugin_failures_total", (_known(plugin, one.names), hook))
        case _:
            yield from _of_request(one, event, at_ms)


def _of_cycle_end(one: _SessionCounts, outcome: str, at_ms: int) -> Iterator[Sample]:
    yield from _of_request_end(one, "aborted", at_ms)
    yield Sample("agentrail_cycles_total", (outcome, one.profile))
    if one.began_at_ms is not None:
        yield Sample("agentrail_cycle_seconds", (), _seconds(one.began_at_ms, at_ms), one.trace_id)
    one.began_at_ms = None


def _of_request(one: _SessionCounts, event: events.Event, at_ms: int) -> Iterator[Sample]:
    if one.request is None:  # it began before these metrics
        return
    provider, model, asked_at_ms = one.request
    labels = ("chat", PROVIDERS.get(provider, provider), model)
    match event:
        case events.MessageStart():
            name = "gen_ai_client_operation_time_to_first_chunk_seconds"
            yield Sample(name, labels, _seconds(asked_at_ms, at_ms), one.trace_id)
        case (
            events.StreamError(error=error) | events.Retry(error=error) | events.ContextOverflow(error=error)
        ):
            yield from _of_request_end(one, "failed", at_ms, error.code)
        case events.ResponseComplete(usage=usage):
            for direction in ("input", "output", "cache_read", "cache_write"):
                yield Sample(
                    "agentrail_tokens_total", (provider, model, direction), getattr(usage, direction)
                )
            yield Sample("gen_ai_client_token_usage", (*labels, "input"), usage.input, one.trace_id)
            yield Sample("gen_ai_client_token_usage", (*labels, "output"), usage.output, one.trace_id)
            if usage.cost_usd is not None:
                yield Sample("agentrail_cost_dollars_total", (one.profile, model), usage.cost_usd)
            yield from _of_request_end(one, "ok", at_ms)
        case _:
            pass


def _of_request_end(one: _SessionCounts, outcome: str, at_ms: int, code: str = "") -> Iterator[Sample]:
    if one.request is not None:
        (provider, model, asked_at_ms), one.request = one.request, None
        yield Sample("agentrail_model_requests_total", (provider, model, outcome))
        labels = ("chat", PROVIDERS.get(provider, provider), model, code)
        seconds = _seconds(asked_at_ms, at_ms)
        yield Sample("gen_ai_client_operation_duration_seconds", labels, seconds, one.trace_id)


def _known(name: str, names: Container[str]) -> str:
    return name if name in names else OTHER


def _seconds(from_ms: int, to_ms: int) -> float:
    return max(to_ms - from_ms, 0) / 1000  # a clock may go back
