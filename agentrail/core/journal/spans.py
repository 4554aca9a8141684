"""A session's events as spans: each cycle, request, tool call, child and compaction, named by OpenTelemetry's conventions. Pure.

One fold for both: it is fed live by the telemetry reader, and by an export of a journal. Events alone are enough for it, so both
make the same spans: names of tools that do not exist are known from `ToolCallUnknown`, the trace of a parent session from the
prompt that the parent sent. It holds open spans and queued prompts only. Ids follow from an event's own names.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import msgspec
from attrs import define, field

from agentrail import errors, events
from agentrail.core.journal import span_names as names
from agentrail.core.journal.timeline import marks_of
from agentrail.core.values import trace_carriers as traces
from agentrail.frozen import EMPTY
from agentrail.messages import CallId, SessionId, Text, TokenUsage, ToolCall, ToolResult

SpanKind: TypeAlias = Literal["internal", "client"]
SpanValue: TypeAlias = str | int | float | bool | tuple[str, ...]
Attributes: TypeAlias = dict[str, SpanValue]

MAX_ATTRIBUTE_BYTES: Final = 8_192
_MAX_NAME_CHARACTERS: Final = 256
_MAX_MOMENTS: Final = 128
"""The limit of OpenTelemetry's SDK for one span. A cycle may wait for days."""

_UNKNOWN_ERROR: Final = errors.ErrorInfo(code=names.OTHER_ERROR, message="")
_CODES: Final = frozenset(
    one.code
    for one in vars(errors).values()
    if isinstance(one, type) and issubclass(one, errors.AgentrailError) and isinstance(one.code, str)
)


class JournalSpan(msgspec.Struct, eq=False, kw_only=True, gc=False):
    """One span.

    Attributes:
        trace_id: That of its cycle: the caller's, the parent session's, or its own. 32 hexadecimal digits.
        span_id: Its own, 16 hexadecimal digits.
        parent_id: That of its parent, which may be in another process. Empty without one.
        sampled: Whether the caller of the trace wants it sampled, or None if none decided.
        number: Number of the event that began it.
        since: Number of the oldest event that it is made from.
        moments: Events within it: name, time in milliseconds since 1970, and attributes.
        links: Related spans: trace id, span id, and attributes.
    """

    trace_id: str
    span_id: str
    parent_id: str = ""
    name: str
    kind: SpanKind = "internal"
    sampled: bool | None = None
    number: int
    since: int
    began_at_ms: int
    ended_at_ms: int = 0
    attributes: Attributes = {}
    moments: tuple[tuple[str, int, Attributes], ...] = ()
    links: tuple[tuple[str, str, Attributes], ...] = ()
    error: str | None = None
    message: str = ""


@define(eq=False, kw_only=True)
class SessionSpans:
    """Makes the spans of one session from its events, in order, from any number at which nothing was open.

    Attributes:
        scope: Scope of the session.
        session: Its id.
        user_data: Its application's data, for the name of its profile in `agent_id` and its `tenant_id`.
        tenant: Whether the tenant is included.
        content: Whether prompts, arguments and results are included, at most 8 KiB of each.
        scrub: Replaces secrets in these.
    """

    scope: str = ""
    session: SessionId
    user_data: Mapping[str, object] = EMPTY
    tenant: bool = False
    content: bool = False
    scrub: Callable[[str], str] = str
    _seen: int = field(default=0, init=False)
    _at_ms: int = field(default=0, init=False)
    _prompts: dict[str, tuple[int, events.PromptReceived | events.PromptQueued]] = field(
        factory=dict, init=False
    )
    _cycle: JournalSpan | None = field(default=None, init=False)
    _ref: str = field(default="", init=False)
    _aborted: JournalSpan | None = field(default=None, init=False)
    _request: JournalSpan | None = field(default=None, init=False)
    _compaction: JournalSpan | None = field(default=None, init=False)
    _retry_reason: str = field(default="", init=False)
    _calls: dict[CallId, JournalSpan] = field(factory=dict, init=False)
    _approvals: dict[CallId, str] = field(factory=dict, init=False)
    _children: dict[SessionId, JournalSpan] = field(factory=dict, init=False)
    _closed: list[JournalSpan] = field(factory=list, init=False)

    @property
    def first_needed(self) -> int | None:
        """Number of the first event that an open span is made from: a fold from there on makes the same spans. None without any."""
        needed = [one.since for one in self._open()]
        return min(needed + [number for number, _ in self._prompts.values()], default=None)

    def feed(self, event: events.Event) -> tuple[JournalSpan, ...]:
        """Return the spans that an event closes. One that was fed before, or is ephemeral, closes none."""
        meta = event.meta
        if meta is None or meta.ephemeral or meta.seq <= self._seen:
            return ()
        self._seen = meta.seq
        hear = _SHORTCUTS.get(type(event), SessionSpans._hear)
        if hear is not None:
            hear(self, event, meta.at_ms)
        self._at_ms = max(meta.at_ms, self._at_ms)
        return self._take_closed() if self._closed else ()

    def close(self) -> tuple[JournalSpan, ...]:
        """Cut the open spans at the last event, for the end of a journal."""
        self._cut_all()
        return self._take_closed()

    def _cut_all(self) -> None:
        self._settle_abort()
        for span in self._open():
            self._cut(span, self._at_ms)
        self._cycle = self._request = self._compaction = None
        for kept in (self._calls, self._children, self._prompts):
            kept.clear()

    def _take_closed(self) -> tuple[JournalSpan, ...]:
        closed, self._closed = self._closed, []
        return tuple(closed)

    def _open(self) -> list[JournalSpan]:
        single = (self._request, self._compaction, self._aborted, self._cycle)
        single_open = [one for one in single if one is not None]
        return [*self._calls.values(), *self._children.values(), *single_open]

    # --- events: each method takes its kinds and passes on the others

    def _hear(self, event: events.Event, at_ms: int) -> None:
        match event:
            case events.PromptReceived() | events.PromptQueued():
                # Of a fold that began in the middle of a cycle, its spans would be others.
                self._prompts[event.ref] = (self.first_needed or self._seen, event)
            case events.PromptDropped() | events.PromptRejected() | events.PromptTaken():
                self._prompts.pop(event.ref, None)
            case events.AgentStart():
                self._begin_cycle(event, at_ms)
            case events.AgentEnd() | events.AgentAbort() | events.AgentError():
                self._end_cycle(event, at_ms)
            case events.AbortSettled(receipt=receipt):
                if self._aborted is not None:
                    self._aborted.attributes |= {
                        "agentrail.abort.milliseconds": receipt.milliseconds,
                        "agentrail.abort.unknown": len(receipt.unknown),
                        "agentrail.abort.survivors": len(receipt.survivors),
                    }
                self._settle_abort()
            case events.SessionRecovered(decisions=decisions):
                self._recover(len(decisions), at_ms)
            case events.SessionEnd():
                self._cut_all()
            case _:
                self._hear_of_request(event, at_ms)

    # --- cycles

    def _begin_cycle(self, event: events.AgentStart, at_ms: int) -> None:
        self._cut_rest(at_ms)
        self._settle_abort()
        self._cut(self._cycle, at_ms)  # left open by a rewind
        self._cycle, self._ref = None, event.ref
        since, prompt = self._prompts.pop(event.ref, (self._seen, None))
        caller = None if prompt is None else prompt.trace
        agent = self._word("agent_id")
        span = self._begin("cycle", event.ref, at_ms, f"invoke_agent {agent}".rstrip())
        span.since, span.sampled = since, traces.decision_of(caller)
        if caller is not None:
            span.trace_id, span.parent_id = caller.traceparent[3:35], caller.traceparent[36:52]
        known = (
            (names.GEN_AI_AGENT, agent),
            ("agentrail.tenant", self._word("tenant_id") if self.tenant else ""),
            ("agentrail.request_id", event.request_id),
            ("agentrail.via", event.via if prompt is None else prompt.via),
        )
        span.attributes |= {names.OPERATION: "invoke_agent"}
        span.attributes |= {name: value for name, value in known if value}
        if prompt is not None:
            said = "".join([one.text for one in prompt.content if isinstance(one, Text)])
            self._show(span, names.INPUT_MESSAGES, lambda: _messages("user", [_text_part(said)]))
        self._cycle = span

    def _end_cycle(self, event: events.AgentEnd | events.AgentAbort | events.AgentError, at_ms: int) -> None:
        if isinstance(event, events.AgentError):
            self._fail_request(event.error, at_ms)
        if isinstance(event, events.AgentAbort):  # the calls that it stopped have ended
            for survivor in self._calls.values():
                survivor.attributes["agentrail.survived"] = True
        self._cut_rest(at_ms)
        self._approvals.clear()
        span, self._cycle, self._ref = self._cycle, None, ""
        if span is None:  # an abort in idle
            return
        match event:
            case events.AgentEnd(usage=usage, stop_reason=reason, turns=turns):
                span.attributes |= {"agentrail.outcome": "done", "agentrail.stop_reason": reason}
                span.attributes |= {"agentrail.turns": turns, **_usage(usage)}
            case events.AgentAbort():
                span.attributes["agentrail.outcome"] = "aborted"
                span.ended_at_ms, self._aborted = at_ms, span  # `AbortSettled` has its receipt
                return
            case _:
                span.attributes["agentrail.outcome"] = "failed"
                self._fail(span, event.error)
        self._end(span, at_ms)

    def _settle_abort(self) -> None:
        if self._aborted is not None:
            self._end(self._aborted, self._aborted.ended_at_ms)
            self._aborted = None

    def _recover(self, decisions: int, at_ms: int) -> None:
        """Continue a cycle that was cut in a new span of its trace. Its calls keep their spans, whose ids their tools have."""
        before, self._cycle = self._cycle, None
        if before is None:
            return
        span = self._begin("cycle", f"{self._ref}\0{self._seen}", at_ms, before.name)
        span.trace_id, span.parent_id = before.trace_id, before.parent_id
        span.sampled, span.since = before.sampled, before.since
        span.attributes = {**before.attributes, **span.attributes, "agentrail.decisions": decisions}
        span.links += ((before.trace_id, before.span_id, {"agentrail.cause": "recovered"}),)
        self._cut(before, self._at_ms)
        self._cycle = span

    def _cut_rest(self, at_ms: int) -> None:
        """Cut what ends with its cycle."""
        self._retry_reason = ""
        if not (self._request or self._calls or self._children or self._compaction):
            return
        survivors = {key: one for key, one in self._calls.items() if "agentrail.survived" in one.attributes}
        ended = [one for key, one in self._calls.items() if key not in survivors]
        ended_ids = {one.span_id for one in ended}  # after a rewind, their children have no end either
        left = [key for key, one in self._children.items() if one.parent_id in ended_ids]
        for span in (self._request, self._compaction, *map(self._children.pop, left), *ended):
            self._cut(span, at_ms)
        self._request = self._compaction = None
        self._calls = survivors

    # --- requests

    def _hear_of_request(self, event: events.Event, at_ms: int) -> None:
        span = self._request
        match event:
            case events.RequestStart():
                self._begin_request(event, at_ms)
            case events.MessageStart():
                if span is not None:
                    span.attributes[names.TIME_TO_FIRST_CHUNK] = max(at_ms - span.began_at_ms, 0) / 1000
            case events.ResponseComplete():
                if span is not None:
                    self._end_request(span, event, at_ms)
            case events.ContextOverflow(error=error) | events.StreamError(error=error):
                self._fail_request(error, at_ms)
            case events.Retry(attempt=attempt, delay_ms=delay_ms, error=error):
                self._fail_request(error, at_ms)
                said: Attributes = {"agentrail.attempt": attempt, "agentrail.delay_ms": delay_ms}
                self._mark("agentrail.retry", at_ms, said | {names.ERROR_TYPE: self._retry_reason})
            case events.ModelSwitched(by="fallback"):
                self._fail_request(_UNKNOWN_ERROR, at_ms)
            case _:
                self._hear_of_call(event, at_ms)

    def _begin_request(self, event: events.RequestStart, at_ms: int) -> None:
        self._cut(self._request, at_ms)
        provider, _, model = _short(event.model).partition(":")
        self._request = span = self._begin("request", str(self._seen), at_ms, f"chat {model or provider}")
        span.kind = "client"
        span.attributes |= {
            names.OPERATION: "chat",
            names.PROVIDER: names.PROVIDER_NAMES.get(provider, provider),
            names.REQUEST_MODEL: model or provider,
            "agentrail.attempt": event.attempt,
            "agentrail.messages": event.messages,
        }
        if self._retry_reason:
            span.attributes["agentrail.retry_reason"] = self._retry_reason
        self._retry_reason = ""

    def _end_request(self, span: JournalSpan, event: events.ResponseComplete, at_ms: int) -> None:
        self._request = None
        usage = event.usage
        span.attributes |= {names.FINISH_REASONS: (event.stop_reason,), **_usage(usage)}
        model, requested = event.message.model, span.attributes[names.REQUEST_MODEL]
        if requested in {model, model.partition(":")[2]}:
            span.attributes[names.RESPONSE_MODEL] = requested
        elif self.content:
            span.attributes[names.RESPONSE_MODEL] = _short(model)
        self._show(span, names.OUTPUT_MESSAGES, partial(_messages, "assistant", _parts_of(event)))
        self._end(span, at_ms)

    def _fail_request(self, error: errors.ErrorInfo, at_ms: int) -> None:
        self._retry_reason = self._code_of(error.code)
        span, self._request = self._request, None
        if span is not None:
            self._fail(span, error)
            self._end(span, at_ms)

    # --- calls, children and compactions

    def _hear_of_call(self, event: events.Event, at_ms: int) -> None:
        match event:
            case events.ToolExecutionStart():
                self._begin_call(event, at_ms)
            case events.ToolBlocked(call_id=call_id, by=by) if call_id in self._calls:
                span = self._calls[call_id]
                span.attributes["agentrail.blocked_by"] = by
                _add_moment(span, "agentrail.plugin", at_ms, _acted(by, "before_tool", "blocked"))
            case events.ToolCallUnknown(call_id=call_id) if call_id in self._calls and not self.content:
                span = self._calls[call_id]
                span.name = f"execute_tool {names.OTHER_ERROR}"
                span.attributes[names.TOOL] = names.OTHER_ERROR
                span.attributes.pop("agentrail.mcp.server", None)
            case events.ToolKilled(call_id=call_id) if call_id in self._calls:
                self._calls[call_id].attributes["agentrail.killed"] = True
            case events.ToolRetry(call_id=call_id, attempt=attempt) if call_id in self._calls:
                self._calls[call_id].attributes["agentrail.attempts"] = attempt + 1
            case events.ToolExecutionEnd(call_id=call_id, result=result) if call_id in self._calls:
                span = self._calls.pop(call_id)
                self._show(span, names.CALL_RESULT, lambda: result.text)
                self._end_work(span, result, at_ms)
            case _:
                self._hear_of_child(event, at_ms)

    def _begin_call(self, event: events.ToolExecutionStart, at_ms: int) -> None:
        self._cut(self._calls.get(event.call_id), at_ms)  # left open by a rewind
        name = _short(event.name)
        self._calls[event.call_id] = span = self._begin(
            "call", f"{self._ref}\0{event.call_id}", at_ms, f"execute_tool {name}"
        )
        kind = "datastore" if name in names.DATASTORES else "function"
        span.attributes |= {names.OPERATION: "execute_tool", names.TOOL: name, names.TOOL_TYPE: kind}
        prefix, server, _ = (*name.split("__"), "", "")[:3]
        if prefix == "mcp":
            span.attributes |= {names.MCP_METHOD: "tools/call", "agentrail.mcp.server": server}
        if event.effect_class is not None:
            span.attributes["agentrail.effect_class"] = event.effect_class
        if event.call_id in self._approvals:
            span.attributes["agentrail.approval"] = self._approvals.pop(event.call_id)
        self._show(span, names.TOOL_CALL_ID, lambda: event.call_id)
        self._show(span, names.CALL_ARGUMENTS, lambda: _json(event.arguments))

    def _hear_of_child(self, event: events.Event, at_ms: int) -> None:
        match event:
            case events.SubagentStart():
                self._begin_child(event, at_ms)
            case events.SubagentEnd(child_id=child_id, result=result):
                ended = self._children.pop(child_id, None)
                if ended is not None:
                    self._end_work(ended, result, at_ms)
            case events.CompactStart():
                self._cut(self._compaction, at_ms)
                self._compaction = self._begin("compaction", str(self._seen), at_ms, "agentrail.compaction")
            case events.CompactEnd(removed=removed, tokens_before=before, tokens_after=after):
                span, self._compaction = self._compaction, None
                if span is not None:
                    span.attributes |= {"agentrail.removed": removed, "agentrail.tokens_before": before}
                    span.attributes["agentrail.tokens_after"] = after
                    self._end(span, at_ms)
            case events.CompactSkipped(by=by, reason=reason):
                self._cut(self._compaction, at_ms)
                self._compaction = None
                self._mark("agentrail.plugin", at_ms, _acted(by, "compact_due", f"skipped: {reason}"))
            case _:
                self._note(event, at_ms)

    def _begin_child(self, event: events.SubagentStart, at_ms: int) -> None:
        call = self._calls.get(event.call_id)
        self._children[event.child_id] = span = self._begin(
            "child", event.child_id, at_ms, "invoke_agent", call
        )
        own_trace = traces.trace_of_background(self.scope, self.session, event.child_id)
        if own_trace:
            if self._cycle is not None:
                started_by = self._id_of("call", f"{self._ref}\0{event.call_id}")
                span.links += ((self._cycle.trace_id, started_by, {}),)
            span.trace_id, span.parent_id = own_trace, ""
        depth = 1 if event.meta is None else len(event.meta.path)
        span.attributes |= {names.OPERATION: "invoke_agent", "agentrail.child": event.child_id}
        span.attributes["agentrail.depth"] = depth
        self._show(span, names.AGENT_DESCRIPTION, lambda: event.description)

    def _end_work(self, span: JournalSpan, result: ToolResult, at_ms: int) -> None:
        if result.is_error:
            self._fail(span, errors.ErrorInfo(code="tool_error", message=result.text))
        self._end(span, at_ms)

    # --- moments

    def _note(self, event: events.Event, at_ms: int) -> None:
        match event:
            case events.ApprovalRequired(approval=asked):
                said: Attributes = {"agentrail.approval": asked.id}
                _add_moment(self._cycle, "agentrail.approval.required", at_ms, said)
            case events.ApprovalResolved(approval=asked, status=status, by=by):
                self._approvals[asked.call_id] = status
                said = {"agentrail.approval": asked.id, "agentrail.status": status, "agentrail.by": by}
                _add_moment(self._cycle, "agentrail.approval.resolved", at_ms, said)
            case _:
                for one in marks_of(event, at_ms):
                    name = "agentrail.plugin" if one.plugin else f"agentrail.{one.action}"
                    self._mark(name, at_ms, _acted(one.plugin, one.hook, one.action))

    def _mark(self, name: str, at_ms: int, attributes: Attributes) -> None:
        """Add a moment to the active span: the request, otherwise the only call, otherwise the cycle."""
        calls = [one for one in self._calls.values() if "agentrail.survived" not in one.attributes]
        span = self._request or (calls[0] if len(calls) == 1 else None) or self._cycle
        _add_moment(span, name, at_ms, attributes)

    # --- spans

    def _word(self, key: str) -> str:
        value = self.user_data.get(key)
        return _short(value) if isinstance(value, str) else ""

    def _id_of(self, kind: str, name: str) -> str:
        return traces.span_id_of(kind, self.scope, self.session, name)

    def _begin(
        self, kind: str, own: str, at_ms: int, name: str, above: JournalSpan | None = None
    ) -> JournalSpan:
        above = above or self._cycle
        return JournalSpan(
            trace_id=traces.trace_id_of(None, self.scope, self.session, kind, own)
            if above is None
            else above.trace_id,
            span_id=self._id_of(kind, own),
            parent_id="" if above is None else above.span_id,
            name=name,
            number=self._seen,
            sampled=None if above is None else above.sampled,
            since=self._seen if above is None else above.since,
            began_at_ms=at_ms,
            attributes={names.CONVERSATION: self.session, "agentrail.event": self._seen},
        )

    def _end(self, span: JournalSpan, at_ms: int) -> None:
        span.ended_at_ms = max(at_ms, span.began_at_ms)
        self._closed.append(span)

    def _cut(self, span: JournalSpan | None, at_ms: int) -> None:
        """End a span whose own end never came."""
        if span is not None:
            span.attributes["agentrail.incomplete"] = True
            self._end(span, at_ms)

    def _fail(self, span: JournalSpan, error: errors.ErrorInfo) -> None:
        span.error = span.attributes[names.ERROR_TYPE] = self._code_of(error.code)
        span.message = self._shown(error.message) if self.content else ""

    def _show(self, span: JournalSpan, name: str, text: Callable[[], str]) -> None:
        if self.content:
            span.attributes[name] = self._shown(text())

    def _shown(self, text: str) -> str:
        # Secrets first: half of one would not be recognised.
        return self.scrub(text).encode(errors="replace")[:MAX_ATTRIBUTE_BYTES].decode(errors="ignore")

    def _code_of(self, code: str) -> str:
        return code if self.content or code in _CODES or code == "tool_error" else names.OTHER_ERROR


# The kinds of every cycle, without the patterns before theirs: a quarter of what its spans cost. None: no span hears of it.
_SHORTCUTS: Final[Mapping[type, Callable[[SessionSpans, events.Event, int], None] | None]] = {
    **dict.fromkeys((events.SessionStart, events.ToolCalls, events.ToolExecutionMetrics), None),
    **dict.fromkeys(
        (events.RequestStart, events.MessageStart, events.ResponseComplete),
        SessionSpans._hear_of_request,  # noqa: SLF001 - same module
    ),
    **dict.fromkeys(
        (events.ToolExecutionStart, events.ToolExecutionEnd),
        SessionSpans._hear_of_call,  # noqa: SLF001 - same module
    ),
}


def _short(name: str) -> str:
    # A lone surrogate cannot be exported, and would hold up all other spans.
    return name[:_MAX_NAME_CHARACTERS].encode(errors="replace").decode()


def _add_moment(span: JournalSpan | None, name: str, at_ms: int, attributes: Attributes) -> None:
    if span is not None and len(span.moments) < _MAX_MOMENTS:
        span.moments += ((name, at_ms, attributes),)


def _acted(plugin: str, hook: str, action: str) -> Attributes:
    said = (("agentrail.plugin", plugin), ("agentrail.hook", hook), ("agentrail.action", action))
    return {key: value for key, value in said if value}


def _usage(usage: TokenUsage) -> Attributes:
    """Return its counts but zeros: each attribute costs as much again as the rest of the fold."""
    counts = (
        (names.USAGE_INPUT, usage.input),
        (names.USAGE_OUTPUT, usage.output),
        (names.USAGE_CACHE_READ, usage.cache_read),
        (names.USAGE_CACHE_WRITE, usage.cache_write),
        (names.USAGE_REASONING, usage.reasoning),
    )
    said: Attributes = {name: count for name, count in counts if count}
    if usage.cost_usd is not None:  # 0 if it cost nothing
        said["agentrail.cost_usd"] = float(usage.cost_usd)
    return said


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _parts_of(event: events.ResponseComplete) -> Iterator[dict[str, Any]]:
    for block in event.message.content:
        match block:
            case Text(text=text):
                yield _text_part(text)
            case ToolCall(call_id=call_id, name=name, arguments=arguments):
                yield {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}
            case _:
                yield {"type": "generic", "generic_type": type(block).__name__.lower()}


def _messages(role: str, parts: Iterable[dict[str, Any]]) -> str:
    return _json([{"role": role, "parts": list(parts)}])


def _json(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=dict).decode()


# --- as OTLP

_KINDS: Final[Mapping[SpanKind, int]] = {"internal": 1, "client": 3}
_FAILED: Final = 2


def encode_otlp(spans: Iterable[JournalSpan]) -> bytes:
    """Encode spans as one line of JSON, same as OpenTelemetry's file exporter writes a request to export traces."""
    written = list(map(_written, spans))
    if not written:
        return b""
    scope = {"scope": {"name": "agentrail"}, "spans": written}
    resource = {"attributes": _attributes({"service.name": "agentrail"})}
    batch = {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}
    return msgspec.json.encode(batch) + b"\n"


def _written(span: JournalSpan) -> dict[str, Any]:
    said: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": _nano(span.began_at_ms),
        "endTimeUnixNano": _nano(span.ended_at_ms),
        "attributes": _attributes(span.attributes),
    }
    if span.parent_id:
        said["parentSpanId"] = span.parent_id
    if span.moments:
        said["events"] = [
            {"name": name, "timeUnixNano": _nano(at_ms), "attributes": _attributes(attributes)}
            for name, at_ms, attributes in span.moments
        ]
    if span.links:
        said["links"] = [
            {"traceId": trace_id, "spanId": span_id, "attributes": _attributes(attributes)}
            for trace_id, span_id, attributes in span.links
        ]
    failed = {"code": _FAILED} | ({"message": span.message} if span.message else {})
    return said | {"status": {} if span.error is None else failed}


def _nano(at_ms: int) -> str:
    # 64-bit numbers are text in JSON. Times before 1970 cannot be represented.
    return str(max(0, at_ms) * 1_000_000)


def _attributes(values: Mapping[str, SpanValue]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: SpanValue) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case several:
            return {"arrayValue": {"values": [_value(one) for one in several]}}
