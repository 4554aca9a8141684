"""What goes into a scenario: a line of text to a signal, and back.

Only what stands on one line enters this file; what comes out stands in `scenario_out`, the whole file in `scenario`.
Words are separated by spaces. A text stands in quotes, as in JSON; `key=value` is an option; `c1:list_dir={"path": "."}` is a
call of a tool, its arguments an object, or in quotes whatever else the model wrote.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias, assert_never

from attrs import field, frozen

from agentrail.core.hooks import (
    FileText,
    FileWritten,
    Found,
    ModelAnswer,
    RequestFailed,
    RequestResult,
)
from agentrail.core.request import Chunk, EffectId, ModelFacts, TextDelta, ThinkingDelta
from agentrail.core.signals import (
    Abort,
    AbortTool,
    Approve,
    ChangePlugins,
    ChangeTools,
    ChildPublished,
    ChildStarted,
    ChunksArrived,
    Compact,
    ErrandFinished,
    MessagesQuery,
    Parked,
    PluginLagged,
    Prompt,
    Reject,
    ReplyQuery,
    Respond,
    ResponseCompleted,
    Restarted,
    Signal,
    SignalId,
    SnapshotQuery,
    Started,
    StatusQuery,
    Steer,
    StepCrashed,
    Stop,
    StreamFailed,
    StreamStarted,
    SwitchModel,
    TeardownFinished,
    TimerFired,
    ToolEmitted,
    ToolFinished,
    ToolProgressed,
    UpdatePluginOpts,
)
from agentrail.core.toolbox import ToolSpec, read_call
from agentrail.errors import ErrorInfo
from agentrail.events import AbortReceipt, Event, LeftBehind, MessageDelta, StatusUpdate
from agentrail.messages import (
    ApprovalId,
    AssistantBlock,
    AssistantMessage,
    CallId,
    Message,
    PromptRef,
    QuestionRef,
    SessionId,
    SteerRef,
    Text,
    Thinking,
    TokenUsage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentrail.testing.scenario_changes import decode_changes, encode_changes

SCRIPTED_MODEL: Final = "scripted:model"


class ScenarioError(ValueError):
    """A scenario that cannot be read: the message names the line, what was expected and what stands there."""


# --- words


@frozen
class Said:
    """A text in quotes."""

    text: str


@frozen
class Pair:
    """`key=value`; the value is a bare word, a text, or a JSON object."""

    key: str
    value: Any
    quoted: bool = False


Word: TypeAlias = str | Said | Pair

_BARE: Final = re.compile(r"[^\s\"=]+")
_VALUE: Final = re.compile(r"[^\s\"]*")
_JSON: Final = json.JSONDecoder()


def split_words(text: str) -> tuple[Word, ...]:
    """Split one line into its words.

    Raises:
        ScenarioError: Your move: quotes or braces that are not closed, or an option without a name.
    """
    words: list[Word] = []
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
        elif text[position] == '"':
            said, position = _json_at(text, position)
            words.append(Said(said))
        else:
            bare = _BARE.match(text, position)
            if bare is None:
                message = f"expected a name before '=' at column {position + 1} of {text!r}"
                raise ScenarioError(message)
            position = bare.end()
            if text[position : position + 1] != "=":
                words.append(bare[0])
            elif text[position + 1 : position + 2] in ('"', "{", "["):
                value, position = _json_at(text, position + 1)
                words.append(Pair(bare[0], value, quoted=isinstance(value, str)))
            else:
                plain = _VALUE.match(text, position + 1)
                assert plain is not None  # it matches the empty string too
                position = plain.end()
                text_behind = ""
                if text[position : position + 1] == '"':  # block:"not today"
                    text_behind, position = _json_at(text, position)
                words.append(Pair(bare[0], plain[0] + text_behind))
    return tuple(words)


def quote(text: str) -> str:
    """Write a text as one word."""
    return json.dumps(text, ensure_ascii=False)


def _json_at(text: str, position: int) -> tuple[Any, int]:
    try:
        return _JSON.raw_decode(text, position)
    except json.JSONDecodeError as error:
        message = f"expected JSON at column {position + 1} of {text!r}: {error.msg}"
        raise ScenarioError(message) from None


@frozen
class _Command:
    """One line on its way to a signal. What nobody has asked for when the signal is made is an error."""

    text: str
    names: list[str]
    texts: list[str]
    pairs: list[Pair]
    words: tuple[Word, ...] = field(repr=False)

    @classmethod
    def of(cls, text: str) -> "_Command":
        words = split_words(text)
        return cls(
            text,
            [word for word in words if isinstance(word, str)],
            [word.text for word in words if isinstance(word, Said)],
            [word for word in words if isinstance(word, Pair)],
            words,
        )

    def said(self) -> str | None:
        """Take the next text, if there is one."""
        return self.texts.pop(0) if self.texts else None

    def option(self, key: str, default: str, choices: Sequence[str] = ()) -> Any:
        """Take an option."""
        for pair in self.pairs:
            if pair.key == key:
                self.pairs.remove(pair)
                if choices and pair.value not in choices:
                    message = f"{self.text!r}: expected {key}={'|'.join(choices)}, got {pair.value!r}"
                    raise ScenarioError(message)
                return pair.value
        return default

    def is_on(self, key: str, *, default: bool) -> bool:
        """Take an option that is yes or no."""
        return bool(self.option(key, "yes" if default else "no", ("yes", "no")) == "yes")

    def names_in(self, key: str) -> tuple[str, ...]:
        """Take an option that lists names."""
        return tuple(filter(None, self.option(key, "").split(",")))

    def number(self, key: str, default: int = 0) -> int:
        """Take an option that is a number."""
        return int(self.option(key, str(default)))

    def check_that_all_was_read(self) -> None:
        """Refuse what no part of the signal was made of."""
        if self.texts or self.pairs:
            left = [*map(quote, self.texts), *(pair.key for pair in self.pairs)]
            message = f"{self.text!r}: {self.names[0]} takes no {', '.join(left)}"
            raise ScenarioError(message)


# --- in: commands to signals


def decode_signal(text: str, at_ms: int) -> Signal:
    """Read the signal that a line stands for; `encode_signal` writes it.

    Args:
        text: The line behind its time.
        at_ms: The time.

    Raises:
        ScenarioError: Your move: no such command, or an option that it does not take.
    """
    command = _Command.of(text)
    signal = _call_of(command, at_ms) or _outcome_of(command, at_ms) or _notice_of(command, at_ms)
    if signal is None:
        message = f"{text!r} is no command: each stands with an example in agentrail/testing/scenario_in.py"
        raise ScenarioError(message)
    command.check_that_all_was_read()
    return signal


def decode_message(text: str) -> Message:
    """Read a message that a session begins with.

    Args:
        text: Who, and what: words, calls and results as in signals.

    Raises:
        ScenarioError: Your move: nobody speaks like that.
    """
    command = _Command.of(text)
    message: Message
    match command.names:
        case ["user"]:  # message user "What is in here?"
            message = UserMessage(content=tuple(Text(text=said) for said in command.texts))
            command.texts.clear()
        case ["assistant", *calls] if all(map(_is_call, calls)):  # message assistant "I look." c1:list_dir
            message = AssistantMessage(content=tuple(_blocks_of(command)), model=SCRIPTED_MODEL)
        case ["results"]:  # message results c1:list_dir="README.md"
            message = ToolMessage(results=tuple(map(_result_of, command.pairs)))
            command.pairs.clear()
        case _:
            complaint = f"expected user, assistant or results, and what they say; got {text!r}"
            raise ScenarioError(complaint)
    command.check_that_all_was_read()
    return message


def _result_of(pair: Pair) -> ToolResult:
    call_id, _, name = pair.key.partition(":")
    return ToolResult(call_id=CallId(call_id), name=name, text=str(pair.value))


def _call_of(command: _Command, at_ms: int) -> Signal | None:
    """Read what people say. The first name is both the caller and, of a prompt, its ref."""
    match command.names:
        case ["Prompt", name]:  # Prompt p1 "What is in here?" reply=text
            content = tuple(Text(text=text) for text in command.texts)
            command.texts.clear()
            return Prompt(
                at_ms=at_ms,
                signal_id=SignalId(name),
                ref=PromptRef(name),
                content=content,
                reply=command.option("reply", "receipt", ("receipt", "text")),
                client_id=command.option("client_id", "") or None,
            )
        case ["Steer", name]:  # Steer s1 "rather in French" client_id=x
            return Steer(
                at_ms=at_ms,
                signal_id=SignalId(name),
                ref=SteerRef(name),
                text=command.said() or "",
                client_id=command.option("client_id", "") or None,
            )
        case ["AbortTool", name, call]:  # AbortTool k1 c2 "it takes too long"
            return AbortTool(
                at_ms=at_ms, signal_id=SignalId(name), call_id=CallId(call), reason=command.said()
            )
        case ["Abort", name]:  # Abort a1 "changed my mind" kill=none clear_queue=yes wait=no
            return Abort(
                at_ms=at_ms,
                signal_id=SignalId(name),
                reason=command.said(),
                kill_tools=command.option("kill", "killable", ("killable", "all", "none")),
                clear_queue=command.is_on("clear_queue", default=False),
                wait=command.is_on("wait", default=True),
            )
        case ["Stop", name]:  # Stop s1 "that is all"
            return Stop(at_ms=at_ms, signal_id=SignalId(name), reason=command.said() or "stopped")
        case ["ReplyQuery", name]:  # ReplyQuery q1
            return ReplyQuery(at_ms=at_ms, signal_id=SignalId(name))
        case ["StatusQuery", name]:  # StatusQuery q1
            return StatusQuery(at_ms=at_ms, signal_id=SignalId(name))
        case ["MessagesQuery", name]:  # MessagesQuery q1
            return MessagesQuery(at_ms=at_ms, signal_id=SignalId(name))
        case ["SnapshotQuery", name]:  # SnapshotQuery q1
            return SnapshotQuery(at_ms=at_ms, signal_id=SignalId(name))
        case [
            "Approve",
            name,
            approval,
        ]:  # Approve y1 scenario/a4 how=always arguments={"path": "b"} resume=no
            return Approve(
                at_ms=at_ms,
                signal_id=SignalId(name),
                approval_id=ApprovalId(approval),
                how=command.option("how", "once", ("once", "always")),
                arguments=command.option("arguments", "") or None,
                auto_resume=command.is_on("resume", default=True),
            )
        case ["Reject", name, approval]:  # Reject n1 scenario/a4 "not this file" resume=yes
            return Reject(
                at_ms=at_ms,
                signal_id=SignalId(name),
                approval_id=ApprovalId(approval),
                reason=command.said(),
                auto_resume=command.is_on("resume", default=False),
            )
        case [
            "Respond",
            name,
            ref,
        ]:  # Respond y1 scenario/a4 "the second one" · Respond y1 scenario/a4 option=1
            said, option = command.said(), command.option("option", "")
            return Respond(
                at_ms=at_ms,
                signal_id=SignalId(name),
                ref=QuestionRef(ref),
                response=int(option) if option else said or "",
            )
        case ["SwitchModel", name, model]:  # SwitchModel m1 scripted:other opts_changed=yes
            facts = ModelFacts(model=model)
            changed = command.is_on("opts_changed", default=False)
            return SwitchModel(at_ms=at_ms, signal_id=SignalId(name), model=facts, opts_changed=changed)
        case ["ChangeTools", name]:  # ChangeTools k1 attach=grep,glob detach=shell replace=yes generation=1
            return ChangeTools(
                at_ms=at_ms,
                signal_id=SignalId(name),
                attach=tuple(map(_plain_tool, command.names_in("attach"))),
                detach=command.names_in("detach"),
                replace=command.is_on("replace", default=False),
                generation=command.number("generation", 1),
            )
        case ["UpdatePluginOpts", name, plugin]:  # UpdatePluginOpts u1 Guard options={"strict": true}
            options = command.option("options", "") or {}
            return UpdatePluginOpts(at_ms=at_ms, signal_id=SignalId(name), plugin=plugin, options=options)
        case ["ChangePlugins", name, "detach", plugin]:  # ChangePlugins u1 detach Guard
            return ChangePlugins(at_ms=at_ms, signal_id=SignalId(name), change="detach", name=plugin)
        case ["Compact", name]:  # Compact k1 "it grows long"
            return Compact(at_ms=at_ms, signal_id=SignalId(name), reason=command.said())
        case _:
            return None


def _outcome_of(command: _Command, at_ms: int) -> Signal | None:
    """Read what the world answers; the first name is the effect that the core minted."""
    match command.names:
        case ["StreamStarted", effect]:  # StreamStarted r1
            return StreamStarted(at_ms=at_ms, effect_id=EffectId(effect))
        case ["ChunksArrived", effect]:  # ChunksArrived r1 thinking="Hm." "It is " "a file."
            chunks = tuple(_chunks_of(command))
            return ChunksArrived(at_ms=at_ms, effect_id=EffectId(effect), chunks=chunks)
        case ["ResponseCompleted", effect, *calls] if all(map(_is_call, calls)):
            # ResponseCompleted r1 thinking="Hm." "Let me look." c1:list_dir={"path": "."} stop=tool_use usage=9/4
            stop = command.option("stop", "tool_use" if any(map(_is_call, command.words)) else "end")
            message = AssistantMessage(
                content=tuple(_blocks_of(command)), model=SCRIPTED_MODEL, stop_reason=stop
            )
            return ResponseCompleted(
                at_ms=at_ms,
                effect_id=EffectId(effect),
                message=message,
                usage=_usage_of(command),
                stop_reason=stop,
            )
        case ["StreamFailed", effect, code, *flags] if set(flags) <= {"retryable"}:
            # StreamFailed r1 overloaded "try later" retryable after=20 jitter=0.5 usage=9/0
            error = ErrorInfo(
                code=code,
                message=command.said() or "",
                retryable=bool(flags),
                retry_after_seconds=float(command.option("after", "0")) or None,
            )
            return StreamFailed(
                at_ms=at_ms,
                effect_id=EffectId(effect),
                error=error,
                usage=_usage_of(command),
                jitter=float(command.option("jitter", "0")),
            )
        case ["ErrandFinished", effect, "file"]:  # ErrandFinished e3 file "what is in it" path=AGENTS.md
            result: RequestResult = FileText(path=command.option("path", "file"), text=command.said())
            return ErrandFinished(at_ms=at_ms, effect_id=EffectId(effect), result=result)
        case ["ErrandFinished", effect, "written"]:  # ErrandFinished e3 written path=AGENTS.md bytes=20
            result = FileWritten(path=command.option("path", "file"), written_bytes=command.number("bytes"))
            return ErrandFinished(at_ms=at_ms, effect_id=EffectId(effect), result=result)
        case ["ErrandFinished", effect, "answer"]:  # ErrandFinished e3 answer "APPROVED" usage=9/4
            result = ModelAnswer(text=command.said() or "", usage=_usage_of(command))
            return ErrandFinished(at_ms=at_ms, effect_id=EffectId(effect), result=result)
        case ["ErrandFinished", effect, "found"]:  # ErrandFinished e3 found "one" "another"
            result = Found(entries=tuple(command.texts))
            command.texts.clear()
            return ErrandFinished(at_ms=at_ms, effect_id=EffectId(effect), result=result)
        case ["ErrandFinished", effect, "failed", *flags] if set(flags) <= {"retryable"}:
            # ErrandFinished e3 failed "no such directory" code=io_error · e4 failed "try later" retryable after=20
            error = ErrorInfo(
                code=command.option("code", "failed"),
                message=command.said() or "",
                retryable=bool(flags),
                retry_after_seconds=float(command.option("after", "0")) or None,
            )
            result = RequestFailed(error=error)
            return ErrandFinished(at_ms=at_ms, effect_id=EffectId(effect), result=result)
        case ["TimerFired", effect]:  # TimerFired w3
            return TimerFired(at_ms=at_ms, effect_id=EffectId(effect))
        case ["ChildStarted", effect, child]:  # ChildStarted t2 scenario.c1
            return ChildStarted(at_ms=at_ms, effect_id=EffectId(effect), child_id=SessionId(child))
        case ["ChildPublished", effect, *flags] if set(flags) <= {"delta"}:  # ChildPublished t2 "Hm" delta
            said = command.said() or ""
            event: Event = MessageDelta(delta=said) if flags else StatusUpdate(text=said)
            return ChildPublished(at_ms=at_ms, effect_id=EffectId(effect), event=event)
        case ["ToolProgressed", effect]:  # ToolProgressed t2 "half of it"
            return ToolProgressed(at_ms=at_ms, effect_id=EffectId(effect), text=command.said() or "")
        case ["ToolEmitted", effect]:  # ToolEmitted t2 "ticket" payload={"id": 7}
            payload = command.option("payload", "") or None
            return ToolEmitted(
                at_ms=at_ms, effect_id=EffectId(effect), name=command.said() or "", payload=payload
            )
        case ["ToolFinished", effect, *flags] if (
            set(flags)
            <= {
                "error",
                "crashed",
                "late",
            }
        ):  # ToolFinished t2 "no such file" error · … error crashed jitter=0.5 · … changes=[{"compact": "too long"}]
            return ToolFinished(
                at_ms=at_ms,
                effect_id=EffectId(effect),
                text=command.said() or "",
                details=command.option("details", "") or None,
                is_error="error" in flags,
                started_at_ms=at_ms,
                crashed="crashed" in flags,
                jitter=float(command.option("jitter", "0")),
                changes=decode_changes(command.option("changes", "")),
                late="late" in flags,
            )
        case [
            "TeardownFinished",
            effect,
        ]:  # TeardownFinished d3 ended=2 stuck=shell@5000 abandoned=… committed=c3 unknown=c2 survivors=c1 ms=40
            receipt = AbortReceipt(
                tasks_ended=command.number("ended"),
                stuck=tuple(map(_left_behind, command.names_in("stuck"))),
                abandoned=tuple(map(_left_behind, command.names_in("abandoned"))),
                committed=tuple(map(CallId, command.names_in("committed"))),
                unknown=tuple(map(CallId, command.names_in("unknown"))),
                survivors=tuple(map(CallId, command.names_in("survivors"))),
                milliseconds=command.number("ms"),
            )
            return TeardownFinished(at_ms=at_ms, effect_id=EffectId(effect), receipt=receipt)
        case _:
            return None


def _usage_of(command: _Command) -> TokenUsage:
    """Read `usage=9/4`, or with what it cost `usage=9/4/0.02`."""
    read, written, *cost = command.option("usage", "0/0").split("/")
    return TokenUsage(input=int(read), output=int(written), cost_usd=float(cost[0]) if cost else 0.0)


def usage_word(usage: TokenUsage) -> str:
    """Write what was used, and what that cost unless it was nothing."""
    cost = f"/{usage.cost_usd:g}" if usage.cost_usd else ""
    return f"usage={usage.input}/{usage.output}{cost}"


def _plain_tool(name: str) -> ToolSpec:
    return ToolSpec(name=name, description="", parameters={"type": "object"})


def _notice_of(command: _Command, at_ms: int) -> Signal | None:
    """Read what the supervisor says."""
    match command.names:
        case ["Started"]:  # Started
            return Started(at_ms=at_ms)
        case ["Restarted", incarnation]:  # Restarted 2 "the interpreter crashed"
            return Restarted(at_ms=at_ms, reason=command.said() or "", incarnation=int(incarnation))
        case ["PluginLagged", plugin, hook]:  # PluginLagged Guard BeforeTool ms=80
            milliseconds = command.number("ms")
            return PluginLagged(at_ms=at_ms, plugin=plugin, hook=hook, milliseconds=milliseconds)
        case ["Parked"]:  # Parked "the interpreter crashed"
            return Parked(at_ms=at_ms, reason=command.said() or "")
        case [
            "StepCrashed",
            kind,
        ]:  # StepCrashed Prompt "a user message needs a block" asked_by=p1 owed_by=r1
            asked_by, owed_by = command.option("asked_by", ""), command.option("owed_by", "")
            return StepCrashed(
                at_ms=at_ms,
                signal_kind=kind,
                error=ErrorInfo(code="internal", message=command.said() or ""),
                asked_by=SignalId(asked_by) if asked_by else None,
                owed_by=EffectId(owed_by) if owed_by else None,
            )
        case _:
            return None


def _chunks_of(command: _Command) -> Iterator[Chunk]:
    for word in command.words:
        match word:
            case Said(text):
                yield TextDelta(text)
            case Pair("thinking", text):
                yield ThinkingDelta(text)
            case _:
                continue
    command.texts.clear()
    command.pairs[:] = [pair for pair in command.pairs if pair.key != "thinking"]


def _blocks_of(command: _Command) -> Iterator[AssistantBlock]:
    for word in command.words:
        match word:
            case Said(text):
                yield Text(text=text)
            case Pair("thinking", text):
                yield Thinking(text=text, provider="scripted")
            case Pair(key, value, quoted) if ":" in key:
                call_id, _, name = key.partition(":")
                yield read_call(call_id, name, value if quoted else json.dumps(value))
            case str(bare) if ":" in bare:
                call_id, _, name = bare.partition(":")
                yield read_call(call_id, name, "")
            case _:
                continue
    command.texts.clear()
    command.pairs[:] = [pair for pair in command.pairs if pair.key != "thinking" and ":" not in pair.key]


def _is_call(word: Word) -> bool:
    return ":" in (word.key if isinstance(word, Pair) else word if isinstance(word, str) else "")


# --- in, backwards: signals to commands


def encode_signal(signal: Signal) -> str:
    """Write the line that stands for a signal; `decode_signal` reads it."""
    return " ".join(filter(None, (type(signal).__name__, *_words_of(signal))))


def _words_of(signal: Signal) -> Iterator[str]:
    match signal:
        case Prompt(ref=ref, content=content, reply=reply, client_id=client_id):
            yield ref
            yield from (quote(block.text) for block in content if isinstance(block, Text))
            yield from unless(reply == "receipt", f"reply={reply}")
            yield from unless(client_id is None, f"client_id={client_id}")
        case Steer(ref=ref, text=text, client_id=client_id):
            yield ref
            yield quote(text)
            yield from unless(client_id is None, f"client_id={client_id}")
        case AbortTool(signal_id=name, call_id=call, reason=reason):
            yield name
            yield call
            yield from _texts(reason)
        case Abort(signal_id=name, reason=reason):
            yield name
            yield from _texts(reason)
            yield from unless(signal.kill_tools == "killable", f"kill={signal.kill_tools}")
            yield from unless(not signal.clear_queue, "clear_queue=yes")
            yield from unless(signal.wait, "wait=no")
        case Stop(signal_id=name, reason=reason):
            yield name
            yield quote(reason)
        case ReplyQuery() | StatusQuery() | MessagesQuery() | SnapshotQuery():
            yield signal.signal_id
        case Approve(signal_id=name, approval_id=approval, arguments=arguments):
            yield name
            yield approval
            yield from unless(signal.how == "once", "how=always")
            yield from unless(arguments is None, f"arguments={json.dumps(arguments)}")
            yield from unless(signal.auto_resume, "resume=no")
        case Reject(signal_id=name, approval_id=approval, reason=reason):
            yield name
            yield approval
            yield from _texts(reason)
            yield from unless(not signal.auto_resume, "resume=yes")
        case Respond(signal_id=name, ref=ref, response=response):
            yield name
            yield ref
            yield quote(response) if isinstance(response, str) else f"option={response}"
        case SwitchModel(signal_id=name, model=model):
            yield name
            yield model.model
            yield from unless(not signal.opts_changed, "opts_changed=yes")
        case ChangeTools(signal_id=name, attach=attach, detach=detach):
            yield name
            yield from unless(not attach, f"attach={','.join(spec.name for spec in attach)}")
            yield from unless(not detach, f"detach={','.join(detach)}")
            yield from unless(not signal.replace, "replace=yes")
            yield f"generation={signal.generation}"
        case Compact(signal_id=name, reason=reason):
            yield name
            yield from _texts(reason)
        case Started():
            return
        case Restarted(reason=reason, incarnation=incarnation):
            yield str(incarnation)
            yield quote(reason)
        case Parked(reason=reason):
            yield quote(reason)
        case PluginLagged(plugin=plugin, hook=hook, milliseconds=milliseconds):
            yield plugin
            yield hook
            yield f"ms={milliseconds}"
        case StepCrashed(signal_kind=kind, error=error, asked_by=asked_by, owed_by=owed_by):
            yield kind
            yield quote(error.message)
            yield from unless(asked_by is None, f"asked_by={asked_by}")
            yield from unless(owed_by is None, f"owed_by={owed_by}")
        case StreamStarted(effect_id=effect):
            yield effect
        case ChunksArrived(effect_id=effect, chunks=chunks):
            yield effect
            yield from map(_chunk_word, chunks)
        case ResponseCompleted(effect_id=effect, message=message, usage=usage):
            yield effect
            yield from map(block_word, message.content)
            yield f"stop={signal.stop_reason}"
            yield from unless(usage == TokenUsage(), usage_word(usage))
        case StreamFailed(effect_id=effect, error=error, usage=usage, jitter=jitter):
            yield effect
            yield error.code
            yield quote(error.message)
            yield from unless(not error.retryable, "retryable")
            yield from unless(error.retry_after_seconds is None, f"after={error.retry_after_seconds}")
            yield from unless(usage == TokenUsage(), usage_word(usage))
            yield from unless(not jitter, f"jitter={jitter}")
        case TimerFired(effect_id=effect):
            yield effect
        case ErrandFinished(effect_id=effect, result=result):
            yield effect
            yield from _result_words(result)
        case UpdatePluginOpts(signal_id=name, plugin=plugin, options=options):
            yield name
            yield plugin
            yield f"options={json.dumps(options)}"
        case ChangePlugins(signal_id=name, change=change):
            yield name
            yield change
            yield signal.name or repr(signal.entry)
        case ToolProgressed(effect_id=effect, text=text):
            yield effect
            yield quote(text)
        case ChildStarted(effect_id=effect, child_id=child):
            yield effect
            yield child
        case ChildPublished(effect_id=effect, event=MessageDelta(delta=text)):
            yield effect
            yield quote(text)
            yield "delta"
        case ChildPublished(effect_id=effect, event=event):
            yield effect
            yield quote(event.text if isinstance(event, StatusUpdate) else type(event).__name__)
        case ToolEmitted(effect_id=effect, name=name, payload=payload):
            yield effect
            yield quote(name)
            yield from unless(payload is None, f"payload={json.dumps(payload)}")
        case ToolFinished(effect_id=effect, text=text, is_error=is_error):
            yield effect
            yield quote(text)
            yield from unless(not is_error, "error")
            yield from unless(not signal.crashed, "crashed")
            yield from unless(signal.details is None, f"details={json.dumps(signal.details)}")
            yield from unless(not signal.jitter, f"jitter={signal.jitter}")
            yield from unless(not signal.late, "late")
            yield from unless(not signal.changes, f"changes={json.dumps(encode_changes(signal.changes))}")
        case TeardownFinished(effect_id=effect, receipt=receipt):
            yield effect
            yield from receipt_words(receipt)
        case _:
            assert_never(signal)


def _result_words(result: RequestResult) -> Iterator[str]:
    match result:
        case FileText(path=path, text=text):
            yield "file"
            yield from _texts(text)
            yield f"path={path}"
        case FileWritten(path=path, written_bytes=written_bytes):
            yield "written"
            yield f"path={path}"
            yield f"bytes={written_bytes}"
        case ModelAnswer(text=text, usage=usage):
            yield "answer"
            yield quote(text)
            yield from unless(usage == TokenUsage(), usage_word(usage))
        case Found(entries=entries):
            yield "found"
            yield from (quote(str(entry)) for entry in entries)
        case RequestFailed(error=error):
            yield "failed"
            yield quote(error.message)
            yield from unless(error.code == "failed", f"code={error.code}")
            yield from unless(not error.retryable, "retryable")
            yield from unless(error.retry_after_seconds is None, f"after={error.retry_after_seconds}")
        case _:
            assert_never(result)


def block_word(block: AssistantBlock) -> str:
    """Write one block of a response as one word."""
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


def _chunk_word(chunk: Chunk) -> str:
    match chunk:
        case TextDelta(text=text):
            return quote(text)
        case ThinkingDelta(text=text):
            return f"thinking={quote(text)}"
        case _:  # what the core does not look at needs no word
            return ""


def receipt_words(receipt: AbortReceipt) -> Iterator[str]:
    """Write what an abort found, as options."""
    yield from unless(not receipt.tasks_ended, f"ended={receipt.tasks_ended}")
    yield from unless(not receipt.stuck, f"stuck={','.join(map(_age_word, receipt.stuck))}")
    yield from unless(not receipt.abandoned, f"abandoned={','.join(map(_age_word, receipt.abandoned))}")
    yield from unless(not receipt.committed, f"committed={','.join(receipt.committed)}")
    yield from unless(not receipt.unknown, f"unknown={','.join(receipt.unknown)}")
    yield from unless(not receipt.survivors, f"survivors={','.join(receipt.survivors)}")
    yield from unless(not receipt.milliseconds, f"ms={receipt.milliseconds}")


def _age_word(left: LeftBehind) -> str:
    return f"{left.name}@{left.age_ms}" if left.age_ms else left.name


def _left_behind(word: str) -> LeftBehind:
    name, _, age = word.partition("@")
    return LeftBehind(name=name, age_ms=int(age or 0))


def unless(usual: bool, word: str) -> Iterator[str]:  # noqa: FBT001 - reads as a sentence where it is used
    """Give the word, unless it says what is usual."""
    if not usual:
        yield word


def _texts(text: str | None) -> Iterator[str]:
    if text is not None:
        yield quote(text)
