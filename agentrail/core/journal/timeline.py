"""The events of a session as spans for a timeline: cycles, requests, calls, gates, children and compactions. Pure."""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from attrs import define, field
from msgspec import Struct

from agentrail.events import (
    AbortSettled,
    ActionIgnored,
    AgentAbort,
    AgentEnd,
    AgentError,
    AgentResumed,
    AgentStart,
    AgentSuspended,
    ApprovalRequired,
    ApprovalResolved,
    BudgetWarning,
    CompactEnd,
    CompactSkipped,
    CompactStart,
    ContextOverflow,
    Event,
    Intervention,
    LargeResultOffloaded,
    LoopDetected,
    MessageStart,
    ModelSwitched,
    PluginEvent,
    PluginFailed,
    PluginOptsUpdated,
    PluginSlow,
    PromptReceived,
    RequestStart,
    ResponseComplete,
    Retry,
    SessionEnd,
    SessionRecovered,
    SessionRestarted,
    SteeringApplied,
    StreamError,
    SubagentEnd,
    SubagentEvent,
    SubagentStart,
    ToolBlocked,
    ToolCallUnknown,
    ToolExecutionEnd,
    ToolExecutionMetrics,
    ToolExecutionStart,
    ToolKilled,
    ToolRetry,
    ToolSkippedForSteering,
)
from agentrail.messages import Text

MAX_SPAN_WORDS: Final = 120
"""Maximum length of a prompt, or of a child's task, in a span."""

SpanOf: TypeAlias = Literal["cycle", "request", "call", "gate", "child", "compaction"]


class SpanMarkItem(Struct, frozen=True, kw_only=True):
    """An event within a span.

    Attributes:
        at_ms: Time in milliseconds since 1970.
        plugin: Plugin that acted, or empty if none did.
        hook: Hook event, or empty if unknown.
        action: Action such as `failed`, `slow`, `intervened`, `retry`.
        detail: Detail as a word or a number, or None if there is none.
    """

    at_ms: int
    plugin: str
    hook: str
    action: str
    detail: str | None


class SpanItem(Struct, eq=False, kw_only=True):
    """A span of a session's timeline.

    Attributes:
        key: Key of the span within the session.
        parent: Key of the parent span, or None without one.
        kind: `cycle`, `request`, `call`, `gate`, `child` or `compaction`.
        name: Name by the OpenTelemetry conventions.
        from_ms: Start in milliseconds since 1970.
        to_ms: End in milliseconds since 1970, or None while the span is open.
        seq: Number of the event that started it.
        to_seq: Number of the event that ended it.
        outcome: Outcome of the span, or the verdict of a gate.
        attempt: Attempt of a request or a call.
        tokens_in: Input tokens of the span itself.
        tokens_out: Output tokens of the span itself.
        cost_usd: Cost of these tokens, or None if unknown.
        marks: Events within the span.
        attributes: Further known attributes.
    """

    key: str
    parent: str | None
    kind: SpanOf
    name: str
    from_ms: int
    to_ms: int | None
    seq: int
    to_seq: int | None
    outcome: str | None
    attempt: int | None
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    marks: list[SpanMarkItem]
    attributes: dict[str, Any]


class Timeline:
    """The spans of one session and of its children, as known from its own events."""

    def __init__(self) -> None:
        self._spans: list[SpanItem] = []
        self._root = _Lane(self._spans, {}, None)
        self._lanes: dict[str, _Lane] = {}
        self._seq = 0

    @property
    def spans(self) -> tuple[SpanItem, ...]:
        """All spans, in the order in which they began. The fold owns them and keeps updating the open ones."""
        return tuple(self._spans)

    def hear(self, event: Event) -> None:
        meta = event.meta
        if meta is None or meta.ephemeral or meta.seq <= self._seq:
            return
        self._seq = meta.seq
        if not isinstance(event, SubagentEvent):
            self._root.hear(event, meta.seq, meta.at_ms)
            return
        inner = event.event.meta
        if inner is None or isinstance(event.event, SubagentEvent):
            return
        lane = self._lanes.get(inner.session_id)
        if lane is None:
            children = self._root.children
            lane = _Lane(self._spans, children, children.get(inner.session_id))
            self._lanes[inner.session_id] = lane
        lane.hear(event.event, meta.seq, inner.at_ms)


_OUTCOMES: Final[Mapping[type[Event], str]] = {
    ToolKilled: "killed",
    ToolSkippedForSteering: "skipped",
    ToolCallUnknown: "unknown",
    ToolBlocked: "blocked",
}


@define(eq=False)
class _Lane:
    """The spans of one session, and the open ones among them."""

    _spans: list[SpanItem]
    children: dict[str, SpanItem]  # of all lanes: the end of a child may arrive before its last events
    _above: SpanItem | None
    _seq: int = field(init=False, default=0)
    _at_ms: int = field(init=False, default=0)
    _cycle: SpanItem | None = field(init=False, default=None)
    _ended_cycle: SpanItem | None = field(init=False, default=None)
    _request: SpanItem | None = field(init=False, default=None)
    _first_request: SpanItem | None = field(init=False, default=None)
    _compaction: SpanItem | None = field(init=False, default=None)
    _calls: dict[str, SpanItem] = field(init=False, factory=dict)
    _gates: dict[str, SpanItem] = field(init=False, factory=dict)
    _prompts: dict[str, str] = field(init=False, factory=dict)

    def hear(self, event: Event, seq: int, at_ms: int) -> None:
        self._seq, self._at_ms = seq, at_ms
        match event:
            case PromptReceived(ref=ref, content=content):
                said = "".join([one.text for one in content if isinstance(one, Text)])
                self._prompts = {ref: said[:MAX_SPAN_WORDS]}
            case AgentStart():
                self._begin_cycle(event)
            case AgentEnd() | AgentAbort() | AgentError():
                self._end_cycle(event)
            case AbortSettled(receipt=receipt):
                if self._ended_cycle is not None:
                    self._ended_cycle.attributes["abort_ms"] = receipt.milliseconds
                    self._ended_cycle.attributes["unknown_calls"] = len(receipt.unknown)
            case SessionEnd():
                self._cut_all()
                self._end(self._cycle, "incomplete")
                self._cycle = None
            case RequestStart() | MessageStart() | ResponseComplete() | StreamError() | ContextOverflow():
                self._hear_request(event)
            case Retry() | ModelSwitched():
                self._hear_change(event)
            case ToolExecutionStart() | ToolExecutionEnd() | ToolExecutionMetrics() | ToolRetry():
                self._hear_call(event)
            case ToolBlocked() | ToolKilled() | ToolSkippedForSteering() | ToolCallUnknown():
                self._hear_verdict(event)
            case LargeResultOffloaded(call_id=call_id, path=path):
                if call_id in self._calls:
                    self._calls[call_id].attributes["offloaded"] = path
            case ApprovalRequired() | ApprovalResolved():
                self._hear_approval(event)
            case SubagentStart() | SubagentEnd():
                self._hear_child(event)
            case CompactStart() | CompactEnd() | CompactSkipped():
                self._hear_compaction(event)
            case _:
                for mark in marks_of(event, self._at_ms):
                    self._mark(mark)

    # --- cycles

    def _begin_cycle(self, event: AgentStart) -> None:
        self._cut_all()
        self._end(self._cycle, "incomplete")  # left open by a rewind, or by the start of a page
        span = self._begin("cycle", "invoke_agent", self._above)
        span.attributes["ref"] = event.ref
        prompt = self._prompts.pop(event.ref, None)
        if prompt is not None:
            span.attributes["prompt"] = prompt
        self._cycle, self._first_request = span, None

    def _end_cycle(self, event: AgentEnd | AgentAbort | AgentError) -> None:
        if isinstance(event, AgentError):
            self._fail_request(event.error.code)
        self._cut_all()
        span, self._cycle = self._cycle, None
        if span is None:  # an abort in idle
            return
        match event:
            case AgentEnd(usage=usage, stop_reason=reason, turns=turns):
                span.attributes |= {"stop_reason": reason, "turns": turns}
                span.attributes |= {"total_in": usage.input, "total_out": usage.output}
                span.attributes["total_usd"] = usage.cost_usd
                self._end(span, "done")
            case AgentAbort(reason=reason):
                span.attributes["reason"] = reason
                self._end(span, "aborted")
            case _:
                span.attributes["error"] = event.error.code
                self._end(span, "failed")
        self._ended_cycle = span

    # --- requests

    def _hear_request(
        self,
        event: RequestStart | MessageStart | ResponseComplete | StreamError | ContextOverflow,
    ) -> None:
        match event:
            case RequestStart(model=model, attempt=attempt, messages=messages):
                self._end(self._request, "incomplete")
                begun = self._begin("request", f"chat {model}", self._cycle)
                begun.attempt = attempt
                begun.attributes |= {"model": model, "messages": messages}
                if attempt == 1 or self._first_request is None:
                    self._first_request = begun
                begun.attributes["row"] = self._first_request.key
                self._request = begun
            case MessageStart():
                if self._request is not None:
                    self._request.attributes["first_chunk_ms"] = self._at_ms - self._request.from_ms
            case ResponseComplete(usage=usage, stop_reason=reason):
                span, self._request = self._request, None
                if span is not None:
                    span.tokens_in, span.tokens_out = usage.input, usage.output
                    span.cost_usd = usage.cost_usd
                    span.attributes |= {"stop_reason": reason, "cache_read": usage.cache_read}
                    span.attributes |= {"cache_write": usage.cache_write, "estimated": usage.estimated}
                    self._end(span, "done")
            case _:
                self._fail_request(event.error.code)

    def _hear_change(self, event: Retry | ModelSwitched) -> None:
        if isinstance(event, Retry):
            self._mark(_mark(self._at_ms, action="retry", detail=str(event.delay_ms)))
            self._fail_request(event.error.code)
            return
        self._mark(_mark(self._at_ms, plugin=event.by, action="model", detail=event.to_model))
        if event.by == "fallback":
            self._fail_request("fallback")

    def _fail_request(self, code: str) -> None:
        span, self._request = self._request, None
        if span is not None:
            span.attributes["error"] = code
            self._end(span, "error")

    # --- calls and gates

    def _hear_call(
        self,
        event: ToolExecutionStart | ToolExecutionEnd | ToolExecutionMetrics | ToolRetry,
    ) -> None:
        call_id = event.call_id
        if isinstance(event, ToolExecutionStart):
            span = self._begin("call", f"execute_tool {event.name}", self._cycle)
            span.attempt = 1
            span.attributes |= {"tool": event.name, "call_id": call_id}
            self._calls[call_id] = span
            for gate in self._gates.values():
                if gate.attributes.get("call_id") == call_id:
                    gate.parent = span.key
            return
        known = self._calls.get(call_id)
        if known is None:
            return
        match event:
            case ToolRetry(attempt=attempt, error=error):
                known.attempt = attempt + 1
                known.marks.append(_mark(self._at_ms, action="retry", detail=error.code))
            case ToolExecutionMetrics(duration_ms=duration_ms, attempts=attempts):
                known.attempt = attempts
                known.attributes["duration_ms"] = duration_ms
            case _:
                usual = "error" if event.result.is_error else "done"
                verdict = known.attributes.get("verdict")
                self._end(known, usual if verdict is None else str(verdict))
                del self._calls[call_id]
                self._gates = {
                    one: gate
                    for one, gate in self._gates.items()
                    if gate.attributes.get("call_id") != call_id
                }

    def _hear_verdict(
        self,
        event: ToolBlocked | ToolKilled | ToolSkippedForSteering | ToolCallUnknown,
    ) -> None:
        known = self._calls.get(event.call_id)
        if known is None:
            return
        known.attributes["verdict"] = _OUTCOMES[type(event)]
        if isinstance(event, ToolBlocked):
            gate = self._begin("gate", event.by, known)
            gate.attributes |= {"tool": event.name, "call_id": event.call_id, "by": event.by}
            self._end(gate, "blocked")

    def _hear_approval(self, event: ApprovalRequired | ApprovalResolved) -> None:
        asked = event.approval
        if isinstance(event, ApprovalRequired):
            above = self._calls.get(asked.call_id) or self._cycle
            gate = self._begin("gate", "approval", above)
            gate.attributes |= {"tool": asked.tool, "call_id": asked.call_id, "approval_id": asked.id}
            gate.to_ms, gate.outcome = self._at_ms, "waiting"
            self._gates[asked.id] = gate
            return
        known = self._gates.get(asked.id)
        if known is not None:
            known.outcome, known.to_seq = event.status, self._seq
            known.attributes |= {"by": event.by, "waited_ms": max(self._at_ms - known.from_ms, 0)}

    # --- children and compactions

    def _hear_child(self, event: SubagentStart | SubagentEnd) -> None:
        if isinstance(event, SubagentStart):
            above = self._calls.get(event.call_id) or self._cycle
            span = self._begin("child", "invoke_agent", above)
            span.attributes |= {"child_id": event.child_id, "call_id": event.call_id}
            span.attributes["description"] = event.description[:MAX_SPAN_WORDS]
            self.children[event.child_id] = span
            return
        known = self.children.get(event.child_id)
        if known is not None and known.to_ms is None:
            self._end(known, "error" if event.result.is_error else "done")

    def _hear_compaction(self, event: CompactStart | CompactEnd | CompactSkipped) -> None:
        if isinstance(event, CompactStart):
            self._end(self._compaction, "incomplete")
            self._compaction = self._begin("compaction", "compact", self._cycle)
            self._compaction.attributes["reason"] = event.reason
            return
        span, self._compaction = self._compaction, None
        if isinstance(event, CompactEnd):
            if span is not None:
                span.attributes |= {"removed": event.removed, "tokens_before": event.tokens_before}
                span.attributes["tokens_after"] = event.tokens_after
            self._end(span, "done")
            return
        self._end(span, "skipped")
        self._mark(_mark(self._at_ms, plugin=event.by, action="skipped", detail=event.reason))

    # --- spans

    def _mark(self, mark: SpanMarkItem) -> None:
        """Mark the active span: the open request, otherwise the only running call, otherwise the cycle."""
        calls = tuple(self._calls.values())
        span = self._request or (calls[0] if len(calls) == 1 else None) or self._cycle or self._above
        if span is not None:
            span.marks.append(mark)

    def _begin(self, kind: SpanOf, name: str, above: SpanItem | None) -> SpanItem:
        above = above or self._above
        span = SpanItem(
            key=f"{kind}:{self._seq}",
            parent=None if above is None else above.key,
            kind=kind,
            name=name,
            from_ms=self._at_ms,
            to_ms=None,
            seq=self._seq,
            to_seq=None,
            outcome=None,
            attempt=None,
            tokens_in=None,
            tokens_out=None,
            cost_usd=None,
            marks=[],
            attributes={},
        )
        self._spans.append(span)
        return span

    def _end(self, span: SpanItem | None, outcome: str) -> None:
        if span is not None:
            span.to_ms, span.to_seq = max(self._at_ms, span.from_ms), self._seq
            span.outcome = outcome

    def _cut_all(self) -> None:
        """End all spans of a cycle whose own end will not come."""
        for span in (self._request, self._compaction, *self._calls.values()):
            self._end(span, "incomplete")
        self._request = self._compaction = None
        self._calls = {}
        self._gates = {}


def _mark(
    at_ms: int, *, action: str, plugin: str = "", hook: str = "", detail: str | None = None
) -> SpanMarkItem:
    return SpanMarkItem(at_ms=at_ms, plugin=plugin, hook=hook, action=action, detail=detail)


def marks_of(event: Event, at_ms: int) -> tuple[SpanMarkItem, ...]:
    """Return what a plugin, a user or a supervisor did within a span, according to an event."""
    match event:
        case PluginFailed(plugin=plugin, hook=hook, error=error):
            told = [_mark(at_ms, plugin=plugin, hook=hook, action="failed", detail=error.code)]
        case PluginSlow(plugin=plugin, hook=hook, milliseconds=took):
            told = [_mark(at_ms, plugin=plugin, hook=hook, action="slow", detail=str(took))]
        case ActionIgnored(plugin=plugin, hook=hook, action=action):
            told = [_mark(at_ms, plugin=plugin, hook=hook, action="ignored", detail=action)]
        case Intervention(by=by):
            told = [_mark(at_ms, plugin=one, action="intervened") for one in by]
        case PluginOptsUpdated(plugin=plugin, success=success):
            detail = "applied" if success else "refused"
            told = [_mark(at_ms, plugin=plugin, action="options", detail=detail)]
        case PluginEvent(name=name):
            told = [_mark(at_ms, action="event", detail=name)]
        case SteeringApplied(count=count):
            told = [_mark(at_ms, action="steered", detail=str(count))]
        case AgentSuspended(waiting=waiting):
            told = [_mark(at_ms, action="suspended", detail=str(len(waiting)))]
        case AgentResumed(trigger=trigger):
            told = [_mark(at_ms, action="resumed", detail=trigger)]
        case LoopDetected(type=kind):
            told = [_mark(at_ms, action="loop", detail=kind)]
        case BudgetWarning():
            told = [_mark(at_ms, action="budget")]
        case SessionRestarted():
            told = [_mark(at_ms, action="restarted")]
        case SessionRecovered(decisions=decisions):
            told = [_mark(at_ms, action="recovered", detail=str(len(decisions)))]
        case _:
            told = []
    return tuple(told)
