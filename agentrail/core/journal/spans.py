"""A journal as spans: each cycle, request, tool call and child, named by OpenTelemetry's conventions. Pure."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec
from attrs import define, field

from agentrail import errors
from agentrail.core.journal.fold import Walked
from agentrail.core.protocol.effects import Publish
from agentrail.core.session.views import tools_of
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentError,
    AgentStart,
    ApprovalRequired,
    ApprovalResolved,
    Event,
    PromptReceived,
    RequestStart,
    ResponseComplete,
    Retry,
    SessionRecovered,
    StreamError,
    SubagentEnd,
    SubagentStart,
    ToolBlocked,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolKilled,
)
from agentrail.messages import CallId, SessionId, Text, TokenUsage, ToolCall

CONVENTIONS: Final = "https://opentelemetry.io/schemas/1.37.0"
"""The conventions for names."""

SpanKind: TypeAlias = Literal["internal", "client"]
SpanValue: TypeAlias = str | int | float | bool | tuple[str, ...]

_OTHER: Final = "_OTHER"
"""The conventions' value for an unknown error or name."""

_PROVIDERS: Final = {"google": "gcp.gemini", "openai-chat": "openai"}
_CODES: Final = frozenset(
    one.code
    for one in vars(errors).values()
    if isinstance(one, type) and issubclass(one, errors.AgentrailError) and isinstance(one.code, str)
)


@define(eq=False, kw_only=True)
class JournalSpan:
    """One span.

    Attributes:
        trace_id: That of its cycle, or of the cycle above. 32 hexadecimal digits.
        span_id: Its own, 16 hexadecimal digits.
    """

    trace_id: str
    span_id: str
    parent_id: str = ""
    name: str
    kind: SpanKind = "internal"
    began_at_ms: int
    ended_at_ms: int = 0
    attributes: dict[str, SpanValue] = field(factory=dict)
    moments: list[tuple[str, int, dict[str, SpanValue]]] = field(factory=list)
    error: str | None = None
    message: str = ""


class SpanTree:
    """Makes the spans of a tree of sessions, one journal after the other: the root first, and parents before children."""

    def __init__(self, *, content: bool = True) -> None:
        self._content = content
        self._above: dict[SessionId, JournalSpan] = {}

    def spans_of(self, scope: str, session: SessionId, walked: Iterable[Walked]) -> tuple[JournalSpan, ...]:
        """Return the spans of one session, in the order in which they began."""
        found = _SessionSpans(scope, session, self._above, content=self._content)
        for one in walked:
            found.feed(one)
        return found.close()


class _SessionSpans:
    """Follows the events of one session, and tracks the open spans."""

    def __init__(
        self, scope: str, session: SessionId, above: dict[SessionId, JournalSpan], *, content: bool
    ) -> None:
        self._scope = scope
        self._session = session
        self._above = above
        self._content = content
        self._spans: list[JournalSpan] = []
        self._open: dict[int, JournalSpan] = {}  # an ordered set: spans equal only themselves
        self._cycle: JournalSpan | None = None
        self._request: JournalSpan | None = None
        self._calls: dict[CallId, JournalSpan] = {}
        self._children: dict[SessionId, JournalSpan] = {}
        self._prompts: dict[str, str] = {}
        self._tools: frozenset[str] = frozenset()
        self._end_ms = 0

    def feed(self, one: Walked) -> None:
        self._end_ms = max(self._end_ms, one.record.at_ms)
        self._tools = frozenset(tools_of(one.before.data).names) | frozenset(tools_of(one.after.data).names)
        for effect in one.effects:
            if isinstance(effect, Publish):
                meta = effect.event.meta
                if meta is not None and not meta.ephemeral:
                    self._hear(effect.event, meta.seq, meta.at_ms)

    def close(self) -> tuple[JournalSpan, ...]:
        for span in tuple(self._open.values()):
            self._cut(span, self._end_ms)
        return tuple(self._spans)

    # --- events

    def _hear(self, event: Event, number: int, at_ms: int) -> None:
        match event:
            case PromptReceived(ref=ref, content=content):
                if self._content:
                    self._prompts[ref] = "".join(one.text for one in content if isinstance(one, Text))
            case AgentStart(ref=ref):
                self._begin_cycle(ref, number, at_ms)
            case AgentEnd() | AgentAbort() | AgentError():
                self._end_cycle(event, at_ms)
            case RequestStart() | ResponseComplete() | StreamError():
                self._hear_request(event, number, at_ms)
            case ToolExecutionStart() | ToolExecutionEnd() | ToolBlocked() | ToolKilled():
                self._hear_call(event, number, at_ms)
            case SubagentStart() | SubagentEnd():
                self._hear_child(event, number, at_ms)
            case ApprovalRequired() | ApprovalResolved() | Retry() | SessionRecovered():
                self._note(event, at_ms)
            case _:
                pass

    def _begin_cycle(self, ref: str, number: int, at_ms: int) -> None:
        self._cut_all_of_a_cycle(at_ms)
        self._cut(self._cycle, at_ms)  # left open by a rewind
        above = self._above.get(self._session)
        span = self._begin("cycle", number, at_ms, "invoke_agent", above)
        span.attributes |= {"gen_ai.operation.name": "invoke_agent"}
        prompt = self._prompts.pop(ref, None)
        if prompt is not None:
            span.attributes["gen_ai.input.messages"] = _messages("user", [_text_part(prompt)])
        self._cycle = span

    def _end_cycle(self, event: AgentEnd | AgentAbort | AgentError, at_ms: int) -> None:
        span, self._cycle = self._cycle, None
        self._cut_all_of_a_cycle(at_ms)
        if span is None:  # an abort in idle
            return
        match event:
            case AgentEnd(usage=usage, stop_reason=reason, turns=turns):
                span.attributes |= {"agentrail.outcome": "done", "agentrail.stop_reason": reason}
                span.attributes |= {"agentrail.turns": turns, **_usage(usage)}
            case AgentAbort():
                span.attributes["agentrail.outcome"] = "aborted"
            case _:
                span.attributes["agentrail.outcome"] = "failed"
                self._fail(span, event.error.code, event.error.message)
        self._end(span, at_ms)

    def _hear_request(
        self, event: RequestStart | ResponseComplete | StreamError, number: int, at_ms: int
    ) -> None:
        if isinstance(event, RequestStart):
            provider, _, model = event.model.partition(":")
            span = self._begin("request", number, at_ms, f"chat {model or provider}", self._cycle)
            span.kind = "client"
            span.attributes |= {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
                "gen_ai.request.model": model or provider,
                "agentrail.attempt": event.attempt,
                "agentrail.messages": event.messages,
            }
            self._cut(self._request, at_ms)
            self._request = span
            return
        open_one, self._request = self._request, None
        if open_one is None:
            return
        if isinstance(event, StreamError):
            self._fail(open_one, event.error.code, event.error.message)
        else:
            open_one.attributes |= {"gen_ai.response.finish_reasons": (event.stop_reason,)}
            open_one.attributes |= _usage(event.usage)
            if self._content:
                open_one.attributes["gen_ai.response.model"] = event.message.model
                said = _messages("assistant", list(_parts_of(event)), event.stop_reason)
                open_one.attributes["gen_ai.output.messages"] = said
        self._end(open_one, at_ms)

    def _hear_call(
        self,
        event: ToolExecutionStart | ToolExecutionEnd | ToolBlocked | ToolKilled,
        number: int,
        at_ms: int,
    ) -> None:
        if isinstance(event, ToolExecutionStart):
            name = event.name if self._content or event.name in self._tools else _OTHER
            span = self._begin("call", number, at_ms, f"execute_tool {name}", self._cycle)
            span.attributes |= {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.type": "function",
            }
            if self._content:
                span.attributes["gen_ai.tool.call.id"] = event.call_id
                span.attributes["gen_ai.tool.call.arguments"] = _json(event.arguments)
            self._calls[event.call_id] = span
            return
        known = self._calls.get(event.call_id)
        if known is None:
            return
        match event:
            case ToolBlocked(by=by):
                known.attributes["agentrail.blocked_by"] = by
            case ToolKilled():
                known.attributes["agentrail.killed"] = True
            case _:
                if self._content:
                    known.attributes["gen_ai.tool.call.result"] = event.result.text
                if event.result.is_error:
                    self._fail(known, "tool_error", event.result.text)
                del self._calls[event.call_id]
                self._end(known, at_ms)

    def _hear_child(self, event: SubagentStart | SubagentEnd, number: int, at_ms: int) -> None:
        if isinstance(event, SubagentStart):
            above = self._calls.get(event.call_id) or self._cycle
            span = self._begin("child", number, at_ms, "invoke_agent", above)
            span.attributes |= {"gen_ai.operation.name": "invoke_agent", "agentrail.child": event.child_id}
            if self._content:
                span.attributes["gen_ai.agent.description"] = event.description
            self._children[event.child_id] = self._above[event.child_id] = span
            return
        child = self._children.pop(event.child_id, None)
        if child is not None:
            if event.result.is_error:
                self._fail(child, "tool_error", event.result.text)
            self._end(child, at_ms)

    def _note(
        self, event: ApprovalRequired | ApprovalResolved | Retry | SessionRecovered, at_ms: int
    ) -> None:
        if self._cycle is None:
            return
        name, said = "agentrail.approval.required", dict[str, SpanValue]()
        match event:
            case ApprovalRequired():
                pass
            case ApprovalResolved(status=status, by=by):
                name, said = "agentrail.approval.resolved", {"agentrail.status": status, "agentrail.by": by}
            case Retry(attempt=attempt, delay_ms=delay_ms, error=error):
                name = "agentrail.retry"
                said = {"agentrail.attempt": attempt, "agentrail.delay_ms": delay_ms}
                said["error.type"] = self._code_of(error.code)
            case _:
                name, said = "agentrail.recovered", {"agentrail.decisions": len(event.decisions)}
        self._cycle.moments.append((name, at_ms, said))

    # --- spans

    def _begin(self, what: str, number: int, at_ms: int, name: str, above: JournalSpan | None) -> JournalSpan:
        span_id = _id_of("span", 8, self._scope, self._session, what, number)
        span = JournalSpan(
            trace_id=_id_of("trace", 16, self._scope, self._session, what, number)
            if above is None
            else above.trace_id,
            span_id=span_id,
            parent_id="" if above is None else above.span_id,
            name=name,
            began_at_ms=at_ms,
            attributes={"gen_ai.conversation.id": self._session, "agentrail.event": number},
        )
        self._spans.append(span)
        self._open[id(span)] = span
        return span

    def _end(self, span: JournalSpan, at_ms: int) -> None:
        span.ended_at_ms = max(at_ms, span.began_at_ms)
        self._open.pop(id(span), None)

    def _cut(self, span: JournalSpan | None, at_ms: int) -> None:
        """End a span whose own end never came."""
        if span is not None:
            span.attributes["agentrail.incomplete"] = True
            self._end(span, at_ms)

    def _cut_all_of_a_cycle(self, at_ms: int) -> None:
        for one in (self._request, *self._calls.values()):
            self._cut(one, at_ms)
        self._request = None
        self._calls.clear()

    def _fail(self, span: JournalSpan, code: str, message: str) -> None:
        span.error = self._code_of(code)
        span.attributes["error.type"] = span.error
        span.message = message if self._content else ""

    def _code_of(self, code: str) -> str:
        return code if self._content or code in _CODES or code == "tool_error" else _OTHER


def _id_of(what: str, size: int, *parts: object) -> str:
    text = "\0".join(map(str, (what, *parts)))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()


def _usage(usage: TokenUsage) -> dict[str, SpanValue]:
    said: dict[str, SpanValue] = {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
    }
    if usage.cost_usd is not None:
        said["agentrail.cost_usd"] = float(usage.cost_usd)
    return said


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _parts_of(event: ResponseComplete) -> Iterator[dict[str, Any]]:
    for block in event.message.content:
        match block:
            case Text(text=text):
                yield _text_part(text)
            case ToolCall(call_id=call_id, name=name, arguments=arguments):
                yield {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}
            case _:
                yield {"type": type(block).__name__.lower()}


def _messages(role: str, parts: list[dict[str, Any]], finish_reason: str = "") -> str:
    message: dict[str, Any] = {"role": role, "parts": parts}
    return _json([message | ({"finish_reason": finish_reason} if finish_reason else {})])


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
    scope = {"scope": {"name": "agentrail"}, "spans": written, "schemaUrl": CONVENTIONS}
    resource = {"attributes": _attributes({"service.name": "agentrail"})}
    batch = {"resourceSpans": [{"resource": resource, "scopeSpans": [scope], "schemaUrl": CONVENTIONS}]}
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
