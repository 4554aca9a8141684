"""Signals as lines of a scenario: one table defines how the line of each signal is read and written."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, assert_never

import msgspec

from agentrail.core.policy.budget import Budget, Spent, spent_of
from agentrail.core.policy.prompt_settings import PromptSettings, settings_of
from agentrail.core.protocol.hooks import (
    FileText,
    FileWritten,
    Found,
    InstructionsFound,
    MemoryKept,
    ModelAnswer,
    NotesIndex,
    RequestFailed,
    UnreadInstructions,
)
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.request import Chunk, ModelFacts, ReasoningDelta, TextDelta, UsageUpdate
from agentrail.core.protocol.signals import (
    AgentTools,
    ChildPublished,
    ChunksArrived,
    LateValue,
    Respond,
    ResponseCompleted,
    Signal,
)
from agentrail.core.protocol.tool_changes import Change, RequestCompaction, UpdateContext, UpdateTodos
from agentrail.core.protocol.tool_questions import ToolQuestion
from agentrail.core.values.instruction_order import InstructionFile
from agentrail.core.values.notes_markdown import NoteTopic
from agentrail.core.values.toolbox import ToolSpec, read_call
from agentrail.core.wire.codec import SIGNAL_KINDS, decode_event, encode_event
from agentrail.errors import CodecError, ErrorInfo
from agentrail.events import AbortReceipt, Event, LeftBehind, MessageDelta, StatusUpdate, Todo, UnknownEvent
from agentrail.messages import (
    AssistantBlock,
    AssistantMessage,
    CallId,
    Image,
    Message,
    Text,
    Thinking,
    TokenUsage,
    ToolCall,
    ToolMessage,
    ToolResult,
    TraceContext,
    UserBlock,
    UserMessage,
)
from agentrail.structs import converter_of
from agentrail.testing.scenario_syntax import (
    JSON,
    LIST,
    TEXT,
    Line,
    LineWords,
    Pair,
    Part,
    Said,
    ScenarioError,
    ScenarioWord,
    WordForm,
    free,
    option,
    quote,
    scenario_name,
    within,
)

# Changes of a tool to its session, as one option: `changes=[{"compact": "to"}]`.


def decode_changes(listed: Iterable[Mapping[str, Any]]) -> tuple[Change, ...]:
    return tuple(map(_decode, listed))


def encode_changes(changes: Iterable[Change]) -> list[dict[str, Any]]:
    return [_encode(change) for change in changes]


def _decode(written: Mapping[str, Any]) -> Change:
    match written:
        case {"todos": todos}:
            return UpdateTodos(todos=tuple(Todo(**todo) for todo in todos))
        case {"context": key, "value": value}:
            return UpdateContext(key=key, value=value)
        case {"compact": reason}:
            return RequestCompaction(reason=reason)
        case _:
            message = f"{dict(written)!r} is not a change; expected todos, context and value, or compact"
            raise ValueError(message)


def _encode(change: Change) -> dict[str, Any]:
    match change:
        case UpdateTodos(todos=todos):
            return {"todos": [msgspec.structs.asdict(todo) for todo in todos]}
        case UpdateContext(key=key, value=value):
            return {"context": key, "value": value}
        case RequestCompaction(reason=reason):
            return {"compact": reason}
        case _ as never:
            assert_never(never)


SCRIPTED_MODEL: Final = "scripted:model"

_GRAMMAR: Final = """
    Prompt             ref+signal_id @content reply= client_id= via= request=request_id digest= settings= trace=
    GoOn               ref+signal_id client_id= via= request=request_id digest= settings=
    Steer              ref+signal_id "text" client_id= via= request=request_id
    Abort              signal_id "reason" kill=kill_tools clear_queue= wait= children= ref=
    AbortTool          signal_id call_id "reason"
    Stop               signal_id "reason"
    ReplyQuery         signal_id
    StatusQuery        signal_id
    MessagesQuery      signal_id
    SnapshotQuery      signal_id
    ReceiptQuery       signal_id client_id= digest=
    Approve            signal_id approval_id how= arguments= resume=auto_resume
    Reject             signal_id approval_id "reason" resume=auto_resume
    Respond            signal_id ref @response
    Decline            signal_id ref "reason"
    RevokeRule         signal_id tool family=command_family [exact] breakpoint=
    AgentCommand       signal_id action name= agent= text= [now]
    AnswerCall         signal_id ref "text" [error:is_error] details=
    ToolAsked          signal_id effect_id "question" @options timeout=timeout_ms schema= url=
    ToolWantsChild     signal_id effect_id "prompt" system_prompt= @tools max_turns= agent= model=
    SwitchModel        signal_id model opts_changed=
    ChangeTools        signal_id attach= detach= replace= generation= sections= agents=
    ToolSourceReported signal_id source state "reason"
    UpdatePluginOpts   signal_id plugin options= [narrows]
    ChangePlugins      signal_id change name entry=
    Compact            signal_id "reason"
    Started
    Restarted          incarnation "reason" spent=
    Recovered          cause= open= attempt= semantics= spent= hooks=host_hooks gathers=gathers_context models=
    Parked             "reason" spent=
    StepCrashed        signal_kind @crash asked_by= owed_by=
    BudgetLent         budget=
    PluginLagged       plugin hook ms=milliseconds
    StreamStarted      effect_id
    ChunksArrived      effect_id @chunks
    ResponseCompleted  effect_id @message usage= jitter= misfit=
    StreamFailed       effect_id @error usage= jitter=
    ToolProgressed     effect_id "text"
    ChildStarted       effect_id child_id "description"
    ChildPublished     effect_id @event child=child_id
    ToolEmitted        effect_id "name" payload=
    ToolAnsweredEarly       effect_id "text" details= started=started_at_ms?@at_ms ran=ran_ms
    ToolFinished       effect_id "text" [error:is_error] [crashed] details= jitter= started=started_at_ms?@at_ms [late] changes= spent= images= ran=ran_ms asks= @value
    HostJudged         effect_id "deny" arguments= by=
    HostTold           effect_id
    AgentIdled         effect_id outcome "text" turns= spent=
    AgentEnded         effect_id "reason" [lost:is_lost] spent= @receipt
    TimerFired         effect_id jitter= pinged=pinged_at_ms
    PluginRequestFinished effect_id @result
    ContextGathered    effect_id count= digest= tokens=
    TeardownFinished   effect_id @receipt @values
"""


def read_signal(text: str, at_ms: int) -> Signal:
    kind, _, _ = text.partition(" ")
    line = _LINES.get(kind)
    if line is None:
        message = f"{text!r} is not a command; expected one of {', '.join(_LINES)}"
        raise ScenarioError(message)
    words = LineWords.of(text, f"{kind} {line.usage}")
    words.take_name()
    signal: Signal = line.read(words, at_ms=at_ms)
    words.check_that_all_was_read(kind)
    return signal


def print_signal(signal: Signal) -> str:
    kind = scenario_name(SIGNAL_KINDS[type(signal)])
    return " ".join((kind, *_LINES[kind].write(signal)))


def read_message(text: str) -> Message:
    """Parse the line of an initial message: its role, and texts, calls and results as in signals."""
    words = LineWords.of(text)
    fields: dict[str, Message] = {}
    within("message", _MESSAGES).read(words, fields)
    words.check_that_all_was_read("a message")
    return fields["message"]


# --- values with their own notation


def block_word(block: AssistantBlock) -> str:
    match block:
        case Text(text=text):
            return quote(text)
        case Thinking(text=text):
            return f"thinking={quote(text)}"
        case ToolCall(call_id=call_id, name=name, arguments=None, malformed=malformed):
            return f"{call_id}:{name}={quote(malformed or '')}"
        case ToolCall(call_id=call_id, name=name, arguments=arguments):
            return f"{call_id}:{name}" + (f"={json.dumps(arguments)}" if arguments else "")
        case _:
            return type(block).__name__.lower()


def _block_of(word: ScenarioWord) -> AssistantBlock | None:
    match word:
        case Said(text):
            return Text(text=text)
        case Pair("thinking", text):
            return Thinking(text=text, provider="scripted")
        case Pair(key, value, is_quoted) if ":" in key:
            call_id, _, name = key.partition(":")
            return read_call(call_id, name, value if is_quoted else json.dumps(value))
        case str() if ":" in word:
            call_id, _, name = word.partition(":")
            return read_call(call_id, name, "")
        case _:
            return None


def _blocks_in(words: LineWords) -> tuple[AssistantBlock, ...]:
    return tuple(filter(None, map(_block_of, words.take_all(lambda word: _block_of(word) is not None))))


def plain_tool(name: str) -> ToolSpec:
    return ToolSpec(name=name, description="", parameters={"type": "object"})


def _usage_of(text: str) -> TokenUsage:
    read, written, *cost = text.split("/")
    return TokenUsage(input=int(read), output=int(written), cost_usd=float(cost[0]) if cost else 0.0)


def _usage_word(usage: TokenUsage) -> str:
    return f"{usage.input}/{usage.output}{f'/{usage.cost_usd:g}' if usage.cost_usd else ''}"


def _trace_of(word: str) -> TraceContext:
    parent, _, state = word.partition(";")
    return TraceContext(traceparent=parent, tracestate=state)


def _left_behind(word: str) -> LeftBehind:
    name, age, pid, *_ = (*word.split("@"), "", "")
    return LeftBehind(name=name, age_ms=int(age or 0), pid=int(pid) if pid else None)


def _left_word(left: LeftBehind) -> str:
    if left.pid is not None:
        return f"{left.name}@{left.age_ms}@{left.pid}"
    return f"{left.name}@{left.age_ms}" if left.age_ms else left.name


_USAGE: Final = WordForm("read/written or read/written/usd", _usage_of, _usage_word, TokenUsage())


def _image_of(word: str) -> Image:
    media_type, colon, data = word.partition(":")
    if not colon:
        message = "expected image/png:BASE64"
        raise ValueError(message)
    return Image(media_type=media_type, data=data)


def _json_word(value: object) -> str:
    return JSON.encode(msgspec.to_builtins(value))


_USED: Final = option("usage", _USAGE, TokenUsage())
FORMS: Final[Mapping[Any, WordForm]] = MappingProxyType(
    {
        TokenUsage: _USAGE,
        # Usage of a child, all of it reported.
        Spent: WordForm(
            _USAGE.expected, lambda s: spent_of(_usage_of(s), None), lambda one: _usage_word(one.usage)
        ),
        Budget: WordForm(
            "a number of tokens",
            lambda text: Budget(max_total_tokens=int(text)),
            lambda one: str(one.max_total_tokens),
        ),
        ModelFacts: WordForm("a model", lambda name: ModelFacts(model=name), attrgetter("model")),
        ToolSpec: WordForm("a tool", plain_tool, attrgetter("name")),
        LeftBehind: WordForm("name@milliseconds@pid", _left_behind, _left_word),
        Image: WordForm("image/png:BASE64", _image_of, lambda one: f"{one.media_type}:{one.data}"),
        tuple[Change, ...]: WordForm(
            "changes", decode_changes, lambda changes: JSON.encode(encode_changes(changes))
        ),
        PromptSettings: WordForm("a JSON object of settings", settings_of, _json_word),
        tuple[tuple[str, str | None], ...]: WordForm(
            "a JSON list of pairs", converter_of(tuple[tuple[str, str | None], ...]), _json_word
        ),
        AgentTools: WordForm("a JSON list of pairs", converter_of(AgentTools), _json_word),
        ToolQuestion: WordForm("a JSON object of a question", converter_of(ToolQuestion), _json_word),
        TraceContext: WordForm(
            "traceparent, or traceparent;tracestate",
            _trace_of,
            lambda one: ";".join(filter(None, msgspec.structs.astuple(one))),
        ),
        PluginRecord | None: WordForm("what stands for a plugin", converter_of(PluginRecord), _json_word),
    }
)
"""The notation of values of these types."""

SETTINGS_FORM: Final = FORMS[PromptSettings]


# --- parts of only one line


def _read_response(words: LineWords) -> Mapping[str, Any]:
    blocks = _blocks_in(words)
    called = any(isinstance(block, ToolCall) for block in blocks)
    fields: dict[str, Any] = {}
    option("stop", TEXT, name="stop_reason", unless_said="tool_use" if called else "end").read(words, fields)
    return {"message": AssistantMessage(content=blocks, model=SCRIPTED_MODEL, **fields), **fields}


def _write_response(signal: ResponseCompleted) -> Iterator[str]:
    yield from map(block_word, signal.message.content)
    yield f"stop={signal.stop_reason}"


def _read_chunks(words: LineWords) -> Mapping[str, Any]:
    fields: dict[str, Any] = {}
    _USED.read(words, fields)
    chunks: list[Chunk] = [
        TextDelta(block.text) if isinstance(block, Text) else ReasoningDelta(block.text)
        for block in _blocks_in(words)
        if isinstance(block, Text | Thinking)
    ]
    return {"chunks": (*chunks, *map(UsageUpdate, fields.values()))}


def _write_chunks(signal: ChunksArrived) -> Iterator[str]:
    # Chunks that the core ignores are not written. Only the last total counts, and it is written after the rest.
    totals = [chunk.usage for chunk in signal.chunks if isinstance(chunk, UsageUpdate)]
    for chunk in signal.chunks:
        if isinstance(chunk, TextDelta | ReasoningDelta):
            yield f"{'thinking=' if isinstance(chunk, ReasoningDelta) else ''}{quote(chunk.text)}"
    yield from (f"usage={_usage_word(usage)}" for usage in totals[-1:] if usage != TokenUsage())


def _read_answer(words: LineWords) -> Mapping[str, Any]:
    chosen, filled = words.take_option("option"), words.take_option("form")
    if filled is not None:
        return {"response": filled.value}
    return {"response": int(chosen.value) if chosen else words.take_text() or ""}


def _write_answer(signal: Respond) -> Iterator[str]:
    if isinstance(signal.response, Mapping):
        yield f"form={json.dumps(signal.response, ensure_ascii=False)}"
    else:
        yield quote(signal.response) if isinstance(signal.response, str) else f"option={signal.response}"


def _read_published(words: LineWords) -> Mapping[str, Any]:
    whole = words.take_option("event")
    if whole is not None:
        return {"event": _event_of(whole.value)}
    text = words.take_text() or ""
    return {"event": MessageDelta(delta=text) if words.take_flag("delta") else StatusUpdate(text=text)}


def _write_published(signal: ChildPublished) -> Iterator[str]:
    match signal.event:
        case MessageDelta(delta=text):
            yield from (quote(text), "delta")
        case StatusUpdate(text=text):
            yield quote(text)
        case event:  # an event without its own notation is written in its wire format
            yield f"event={encode_event(event).decode()}"


def _event_of(written: object) -> Event:
    try:
        event = decode_event(json.dumps(written))
    except CodecError as error:
        raise ScenarioError(str(error)) from error
    if isinstance(event, UnknownEvent):
        message = f"{written!r:.200} is an unknown event"
        raise ScenarioError(message)
    return event


def _read_lost(words: LineWords) -> Mapping[str, Any]:
    fields: dict[str, Any] = {"usage": None}
    if not words.take_flag("lost"):
        del fields["usage"]
        _USED.read(words, fields)
    return fields


def _write_lost(failed: RequestFailed) -> Iterator[str]:
    return iter(("lost",)) if failed.usage is None else _USED.write(failed)


def _texts_or_list(
    name: str, form: WordForm, of_text: Callable[[str], object], text_of: Callable[[Any], str | None]
) -> Part:
    """Return a part for a field whose values are texts, or for all of them as one list if some are not."""
    listed = option(name, form, ())

    def read(words: LineWords) -> Mapping[str, Any]:
        said = words.take_all(lambda word: isinstance(word, Said))
        fields: dict[str, Any] = {name: tuple([of_text(word.text) for word in said])}
        listed.read(words, fields)
        return fields

    def write(value: Any) -> Iterator[str]:
        said = [text for text in map(text_of, getattr(value, name)) if text is not None]
        return map(quote, said) if len(said) == len(getattr(value, name)) else listed.write(value)

    return free(f'"text"…|{name}=[…]', read, write)


def _read_instructions(words: LineWords) -> Mapping[str, Any]:
    said: dict[str, Any] = {}
    for pair in words.take_all(lambda word: isinstance(word, Pair) and isinstance(word.value, dict)):
        said[pair.key] = pair.value
    return {
        "files": tuple(InstructionFile(path=path, text=text) for path, text in said.pop("files", {}).items()),
        "unread": tuple(
            UnreadInstructions(path=path, reason=reason) for path, reason in said.pop("unread", {}).items()
        ),
        **said,
    }


def _write_instructions(found: InstructionsFound) -> Iterator[str]:
    if found.files:
        yield f"files={json.dumps({one.path: one.text for one in found.files}, ensure_ascii=False)}"
    if found.unread:
        yield f"unread={json.dumps({one.path: one.reason for one in found.unread}, ensure_ascii=False)}"


def _read_notes(words: LineWords) -> Mapping[str, Any]:
    said = {pair.key: pair.value for pair in words.take_all(lambda word: isinstance(word, Pair))}
    topics = said.get("topics", {})
    return {
        "topics": tuple(
            NoteTopic(name=name, size_bytes=size, at_ms=at_ms) for name, (size, at_ms) in topics.items()
        ),
        "added": tuple(said.get("added", ())),
    }


def _write_notes(index: NotesIndex) -> Iterator[str]:
    if index.topics:
        topics = {one.name: [one.size_bytes, one.at_ms] for one in index.topics}
        yield f"topics={json.dumps(topics, ensure_ascii=False)}"
    if index.added:
        yield f"added={json.dumps(index.added, ensure_ascii=False)}"


def _read_results(words: LineWords) -> Mapping[str, Any]:
    calls = words.take_all(lambda word: isinstance(word, Pair) and ":" in word.key)
    parts = ((pair.key.partition(":"), str(pair.value)) for pair in calls)
    return {"results": tuple(ToolResult(call_id=key, name=name, text=text) for (key, _, name), text in parts)}


def _write_results(message: ToolMessage) -> Iterator[str]:
    return (f"{result.call_id}:{result.name}={quote(result.text)}" for result in message.results)


def _read_values(words: LineWords) -> tuple[LateValue, ...]:
    said = words.take_all(lambda word: isinstance(word, Pair) and word.key.startswith("late:"))
    parts = ((pair.key.split(":"), str(pair.value)) for pair in said)
    return tuple(
        LateValue(call_id=CallId(key[1]), name=key[2], text=text, is_error=key[3:] == ["error"])
        for key, text in parts
    )


def _write_values(values: Iterable[LateValue]) -> Iterator[str]:
    for one in values:
        yield f"late:{one.call_id}:{one.name}{':error' if one.is_error else ''}={quote(one.text)}"


_TEXTS: Final = _texts_or_list(
    "content",
    WordForm("a JSON list of blocks", converter_of(tuple[UserBlock, ...]), _json_word),
    lambda text: Text(text=text),
    lambda block: block.text if isinstance(block, Text) else None,
)
_BLOCKS: Final = free(
    '"text"… thinking="text"… CALL:TOOL={…}…',
    lambda words: {"content": _blocks_in(words)},
    lambda message: map(block_word, message.content),
)
# --- lines, and lines within lines

RECEIPT: Final = Line(
    AbortReceipt,
    "ended=tasks_ended reaped=processes_reaped stuck= abandoned= committed= unknown= survivors= ms=milliseconds",
    forms=FORMS,
)
"""The line of an abort receipt."""

_MESSAGES: Final = {
    "user": Line(UserMessage, "@content", {"content": _TEXTS}),
    "assistant": Line(AssistantMessage, "@content", {"content": _BLOCKS}, fixed={"model": SCRIPTED_MODEL}),
    "results": Line(
        ToolMessage, "@results", {"results": free('CALL:TOOL="text"…', _read_results, _write_results)}
    ),
}
_FAILED: Final[Mapping[str, Part | Line]] = {
    "error": Line(ErrorInfo, '"message" code=?failed [retryable] after=retry_after_seconds'),
    "lost": free("[lost] usage=…", _read_lost, _write_lost),
}
_RESULTS: Final = {
    "file": Line(FileText, '"text" path=?file'),
    "written": Line(FileWritten, "path=?file bytes=written_bytes"),
    "answer": Line(ModelAnswer, '"text" usage=', forms=FORMS),
    "found": Line(
        Found,
        "@entries words_only=",
        {"entries": _texts_or_list("entries", LIST, str, lambda one: one if isinstance(one, str) else None)},
    ),
    "instructions": Line(
        InstructionsFound,
        "@instructions",
        {"instructions": free("files={…} unread={…}", _read_instructions, _write_instructions)},
    ),
    "kept": Line(MemoryKept, "id=entry_id"),
    "notes": Line(NotesIndex, "@notes", {"notes": free("topics={…} added=[…]", _read_notes, _write_notes)}),
    "failed": Line(RequestFailed, "@error @lost", _FAILED),
}
_SPECIAL: Final[Mapping[str, Part | Line | Mapping[str, Line]]] = {
    "content": _TEXTS,
    "response": free('"text"|option=…|form={…}', _read_answer, _write_answer),
    "options": option("options", LIST, ()),
    "tools": option("tools", LIST, None),
    "crash": within("error", Line(ErrorInfo, '"message"', fixed={"code": "internal"})),
    "chunks": free('"text"… thinking="text"… usage=…', _read_chunks, _write_chunks),
    "message": free('"text"… thinking="text"… CALL:TOOL={…}… stop=…', _read_response, _write_response),
    "error": Line(ErrorInfo, 'code "message" [retryable] after=retry_after_seconds'),
    "event": free('"text" [delta] | event={…}', _read_published, _write_published),
    "result": _RESULTS,
    "receipt": RECEIPT,
    "value": free(
        'late:CALL:TOOL="text"',
        lambda words: {"value": next(iter(_read_values(words)), None)},
        lambda signal: _write_values(() if signal.value is None else (signal.value,)),
    ),
    "values": free(
        'late:CALL:TOOL="text"…',
        lambda words: {"values": _read_values(words)},
        lambda signal: _write_values(signal.values),
    ),
}
_KINDS: Final = {scenario_name(kind): signal for signal, kind in SIGNAL_KINDS.items()}
_LINES: Final[Mapping[str, Line]] = {
    name: Line(_KINDS[name], " ".join(grammar), _SPECIAL, FORMS)
    for name, *grammar in map(str.split, _GRAMMAR.strip().splitlines())
}
