"""All metrics, the values that their labels may have, and what each committed event adds to them. Pure."""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Container, Mapping
from functools import cached_property, lru_cache, partial
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from attrs import define, field, frozen

from agentrail import events
from agentrail.abc.event_reader import SessionOrigin
from agentrail.core.journal.span_names import PROVIDER_NAMES
from agentrail.core.session.state import Phase
from agentrail.core.values.trace_carriers import trace_id_of
from agentrail.errors import OptionError
from agentrail.messages import CallId, PromptRef, SessionId, TokenUsage, TraceContext

OTHER: Final = "other"
"""Label value for every name that is not configured, or that is one too many."""

DIRECTIONS: Final = ("input", "output", "cache_read", "cache_write")
PLAIN_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
DURATION: Final = "gen_ai_client_operation_duration_seconds"
TOKENS: Final = "gen_ai_client_token_usage"
FIRST_CHUNK: Final = "gen_ai_client_operation_time_to_first_chunk_seconds"

_ERRORS: Final = ("", "rate_limited", "overloaded", "transport", "timeout", "authentication", OTHER)

LABELS: Final[Mapping[str, int | tuple[str, ...]]] = MappingProxyType(
    {
        "phase": (*[phase.value for phase in Phase], "asleep"),
        "outcome": ("ok", "aborted", "blocked", "failed"),
        "direction": DIRECTIONS,
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
        OptionError.raise_for([f"label {label!r} is not bounded: use one of LABELS" for label in unknown])


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
    DURATION: Metric("histogram", "Duration of model requests.", (*_MODEL, "error_type"), 8, _SECONDS),
    TOKENS: Metric("histogram", "Tokens of model requests.", (*_MODEL, "gen_ai_token_type"), 10, _TOKENS),
    FIRST_CHUNK: Metric("histogram", "Time to the first chunk of a response.", _MODEL, 5, _SECONDS),
})
# fmt: on
"""All metrics by name."""

Series: TypeAlias = tuple[str, ...]
"""A metric's name, and its label values in the order of its labels."""


@define(eq=False)
class Total:
    """The state of one series: its sum, and for a histogram its counts and a recent example per bucket."""

    buckets: tuple[float, ...]
    counts: list[int]
    value: float = 0.0
    examples: dict[int, tuple[float, Callable[[], str]]] = field(factory=dict)

    def observe(self, value: float, trace: Callable[[], str] | None = None) -> None:
        self.value += value
        place = bisect_left(self.buckets, value)
        self.counts[place] += 1
        if trace is not None:
            self.examples[place] = (value, trace)


class MetricTotals:
    """The totals of all counters and histograms. All metrics together stay below 2,000 series."""

    def __init__(self) -> None:
        self._names: defaultdict[str, set[str]] = defaultdict(set)
        self._places: defaultdict[str, int] = defaultdict(int)
        self.by_series: dict[Series, Total] = {}
        for name, one in METRICS.items():
            if not one.labels and one.kind != "gauge":
                self._admit((name,))

    def of(self, series: Series) -> Total:
        return self.by_series.get(series) or self._admit(series)

    def add(self, series: Series, value: float = 1.0) -> None:
        self.of(series).value += value

    def observe(self, series: Series, value: float, trace: Callable[[], str] | None = None) -> None:
        self.of(series).observe(value, trace)

    def _admit(self, series: Series) -> Total:
        """Return the total of a series: its own, or that of `other` in the place of unknown and further names."""
        name, *values = series
        metric = METRICS[name]
        shown = (name, *map(self._value, metric.labels, values))
        if shown in self.by_series:
            return self.by_series[shown]
        pairs = zip(metric.labels, shown[1:], strict=True)
        reserved = (name, *[OTHER if isinstance(LABELS[label], int) else value for label, value in pairs])
        if shown != reserved:
            if self._places[name] >= metric.room:
                return self._admit(reserved)
            self._places[name] += 1
        total = self.by_series[shown] = Total(metric.buckets, [0] * (len(metric.buckets) + 1))
        return total

    def _value(self, label: str, value: str) -> str:
        size = LABELS[label]
        if isinstance(size, tuple):
            return value if value in size else size[-1]
        names = self._names[label]
        if value not in names and (len(names) >= size or _NAME.fullmatch(value) is None):
            return OTHER
        names.add(value)
        return value


NamesOf: TypeAlias = Callable[[str, str], Container[str] | None]
"""Returns the configured names of a session by its scope and id. None if it is not awake."""

MAX_SESSIONS: Final = 50_000
"""Number of sessions whose last event is remembered. The oldest is forgotten first."""

_KEPT_MODELS: Final = 200


class _ModelTotals:
    """The totals of a model and a profile. Each is looked up once, when it is needed: a series is shown from then on."""

    def __init__(self, totals: MetricTotals, profile: str, text: str) -> None:
        provider, _, model = text.partition(":")
        self._of, self._profile, self._names = totals.of, profile, (provider, model or provider)
        self._convention = ("chat", PROVIDER_NAMES.get(provider, provider), model or provider)

    @cached_property
    def first_chunk(self) -> Total:
        return self._of((FIRST_CHUNK, *self._convention))

    @cached_property
    def _usage(self) -> tuple[Total, ...]:
        sizes = [(TOKENS, *self._convention, kind) for kind in ("input", "output")]
        cost = ("agentrail_cost_dollars_total", self._profile, self._names[1])
        directions = [("agentrail_tokens_total", *self._names, direction) for direction in DIRECTIONS]
        return tuple(map(self._of, (*sizes, cost, *directions)))

    def count_usage(self, usage: TokenUsage, trace: Callable[[], str] | None) -> None:
        size_in, size_out, cost, sent, received, read, written = self._usage
        size_in.observe(usage.input, trace)
        size_out.observe(usage.output, trace)
        cost.value += usage.cost_usd or 0.0
        sent.value += usage.input
        received.value += usage.output
        read.value += usage.cache_read
        written.value += usage.cache_write

    @cached_property
    def answered(self) -> tuple[Total, Total]:
        return self.ended("ok", "")

    def ended(self, outcome: str, code: str) -> tuple[Total, Total]:
        """Return those of the duration and of the number of requests."""
        requests = ("agentrail_model_requests_total", *self._names, outcome)
        return self._of((DURATION, *self._convention, code)), self._of(requests)


@define(eq=False)
class _Session:
    origin: SessionOrigin
    profile: str
    seq: int = 0
    at_ms: int = 0
    names: Container[str] = ()
    began_at_ms: int | None = None
    trace: Callable[[], str] | None = None
    request: _ModelTotals | None = None
    asked_at_ms: int = 0
    blocked: set[CallId] = field(factory=set)
    callers: dict[PromptRef, TraceContext] = field(factory=dict)


class MetricFold:
    """Adds committed events to totals. An event that is read again adds nothing."""

    def __init__(self, names_of: NamesOf = lambda _scope, _session_id: None) -> None:
        self.names_of = names_of
        self.totals: MetricTotals = MetricTotals()
        self._sessions: dict[tuple[str, SessionId], _Session] = {}
        self._last: _Session | None = None
        self._model_totals = lru_cache(_KEPT_MODELS)(partial(_ModelTotals, self.totals))
        # The kinds of each cycle take one look-up: a failing pattern of a `match` costs 0.15 µs.
        self._frequent: dict[type, Callable[[_Session, Any, int], None] | None] = {
            events.PromptReceived: self._take_prompt,
            events.PromptQueued: self._take_prompt,
            events.AgentStart: self._start_cycle,
            events.RequestStart: self._start_request,
            events.MessageStart: self._start_message,
            events.ResponseComplete: self._complete_response,
            events.ToolCalls: None,
            events.ToolExecutionStart: None,
            events.ToolExecutionEnd: self._end_call,
            events.ToolExecutionMetrics: self._time_call,
            events.AgentEnd: lambda one, _, at_ms: self._end_cycle(one, "ok", at_ms),
        }

    def feed(self, origin: SessionOrigin, event: events.Event) -> None:
        """Add an event. Those of one session must come in order."""
        count, meta = self._frequent.get(type(event), self._count), event.meta
        if count is None or meta is None or meta.ephemeral:
            return
        one, seq, at_ms = self._last, meta.seq, meta.at_ms
        if one is None or one.origin is not origin:  # events of a session come together
            one = self._sessions.get((origin.scope, meta.session_id))
        # Another session may have taken the id, and its numbers begin again.
        if one is None or (seq <= one.seq and at_ms > one.at_ms):
            one = self._begin(origin, (origin.scope, meta.session_id))
        self._last, one.origin = one, origin
        if seq > one.seq:
            one.seq, one.at_ms = seq, max(at_ms, one.at_ms)
            count(one, event, at_ms)

    def _begin(self, origin: SessionOrigin, key: tuple[str, SessionId]) -> _Session:
        self._sessions.pop(key, None)
        profile = origin.user_data.get("agent_id", OTHER)
        one = self._sessions[key] = _Session(origin, profile if isinstance(profile, str) else OTHER)
        if len(self._sessions) > MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return one

    def _take_prompt(
        self, one: _Session, event: events.PromptReceived | events.PromptQueued, at_ms: int
    ) -> None:
        if event.trace is not None:
            one.callers[event.ref] = event.trace

    def _start_cycle(self, one: _Session, event: events.AgentStart, at_ms: int) -> None:
        one.began_at_ms, one.request = at_ms, None
        caller, origin = one.callers.pop(event.ref, None), one.origin
        one.trace = partial(trace_id_of, caller, origin.scope, origin.session_id, "cycle", event.ref)
        one.blocked.clear()

    def _start_request(self, one: _Session, event: events.RequestStart, at_ms: int) -> None:
        self._end_request(one, "aborted", at_ms)
        one.request = self._model_totals(one.profile, self._known(one, event.model))
        one.asked_at_ms = at_ms

    def _start_message(self, one: _Session, event: events.MessageStart, at_ms: int) -> None:
        if one.request is not None:  # otherwise it began before these metrics
            one.request.first_chunk.observe(_seconds(one.asked_at_ms, at_ms), one.trace)

    def _complete_response(self, one: _Session, event: events.ResponseComplete, at_ms: int) -> None:
        if one.request is not None:
            one.request.count_usage(event.usage, one.trace)
            self._end_request(one, "ok", at_ms)

    def _end_call(self, one: _Session, event: events.ToolExecutionEnd, at_ms: int) -> None:
        outcome = "blocked" if event.call_id in one.blocked else "failed" if event.result.is_error else "ok"
        self.totals.add(("agentrail_tool_calls_total", self._known(one, event.name), outcome))

    def _time_call(self, one: _Session, event: events.ToolExecutionMetrics, at_ms: int) -> None:
        self.totals.observe(("agentrail_tool_seconds",), event.duration_ms / 1000, one.trace)

    def _count(self, one: _Session, event: events.Event, at_ms: int) -> None:
        match event:
            case events.AgentError(error=error):
                self._end_request(one, "failed", at_ms, error.code)
                self._end_cycle(one, "failed", at_ms)
            case events.AgentAbort(ref=ended) if ended is not None or one.began_at_ms is not None:
                self._end_cycle(one, "aborted", at_ms)
            case (
                events.StreamError(error=error)
                | events.Retry(error=error)
                | events.ContextOverflow(error=error)
            ):
                self._end_request(one, "failed", at_ms, error.code)
            case events.ModelSwitched(by="fallback"):
                self._end_request(one, "failed", at_ms, OTHER)
            case events.PromptDropped(ref=ref) | events.PromptRejected(ref=ref) | events.PromptTaken(ref=ref):
                one.callers.pop(ref, None)
            case events.ToolBlocked(call_id=call_id):
                one.blocked.add(call_id)
            case events.AbortSettled(receipt=receipt) if receipt.settled:
                self.totals.observe(("agentrail_abort_seconds",), receipt.milliseconds / 1000, one.trace)
            case events.SessionRestarted():
                self.totals.add(("agentrail_restarts_total",))
            case events.PluginFailed(plugin=plugin, hook=hook):
                self.totals.add(("agentrail_plugin_failures_total", self._known(one, plugin), hook))
            case _:
                pass

    def _known(self, one: _Session, name: str) -> str:
        if name not in one.names:
            one.names = self.names_of(one.origin.scope, one.origin.session_id) or one.names
        return name if name in one.names else OTHER

    def _end_cycle(self, one: _Session, outcome: str, at_ms: int) -> None:
        self._end_request(one, "aborted", at_ms)
        self.totals.add(("agentrail_cycles_total", outcome, one.profile))
        if one.began_at_ms is not None:
            self.totals.observe(("agentrail_cycle_seconds",), _seconds(one.began_at_ms, at_ms), one.trace)
            one.began_at_ms = None

    def _end_request(self, one: _Session, outcome: str, at_ms: int, code: str = "") -> None:
        if one.request is not None:
            took, requests = one.request.answered if outcome == "ok" else one.request.ended(outcome, code)
            took.observe(_seconds(one.asked_at_ms, at_ms), one.trace)
            requests.value += 1
            one.request = None


def _seconds(from_ms: int, to_ms: int) -> float:
    return (to_ms - from_ms) / 1000 if to_ms > from_ms else 0.0  # a clock may go back
