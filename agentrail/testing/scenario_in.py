"""What goes into a scenario, read: a line of text to a signal, or to a message that a session begins with.

Only what stands on one line enters this file, each command with an example; the whole file stands in `scenario`, and
`scenario_lines` writes what is read here. `c1:list_dir={"path": "."}` is a call of a tool, its arguments an object, or in
quotes whatever else the model wrote.
"""

import json
from collections.abc import Iterator
from typing import Final

from agentrail.core.budget import Spent, spent_of
from agentrail.core.hooks import FileText, FileWritten, Found, ModelAnswer, RequestFailed, RequestResult
from agentrail.core.request import Chunk, EffectId, ModelFacts, TextDelta, ThinkingDelta, UsageUpdate
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
    ToolAsked,
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
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentrail.testing.scenario_changes import decode_changes
from agentrail.testing.scenario_words import Command, Pair, Said, ScenarioError, Word

SCRIPTED_MODEL: Final = "scripted:model"


def decode_signal(text: str, at_ms: int) -> Signal:
    """Read the signal that a line stands for; `encode_signal` writes it.

    Args:
        text: The line behind its time.
        at_ms: The time.

    Raises:
        ScenarioError: Your move: no such command, or an option that it does not take.
    """
    command = Command.of(text)
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
    command = Command.of(text)
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


def _call_of(command: Command, at_ms: int) -> Signal | None:
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
        case [
            "ToolAsked",
            name,
            effect,
        ]:  # ToolAsked q1 t2 "Which one?" options=["left", "right"] timeout=5000
            return ToolAsked(
                at_ms=at_ms,
                signal_id=SignalId(name),
                effect_id=EffectId(effect),
                question=command.said() or "",
                options=tuple(command.option("options", "") or ()),
                timeout_ms=command.number("timeout") or None,
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


def _outcome_of(command: Command, at_ms: int) -> Signal | None:
    """Read what the world answers; the first name is the effect that the core minted."""
    match command.names:
        case ["StreamStarted", effect]:  # StreamStarted r1
            return StreamStarted(at_ms=at_ms, effect_id=EffectId(effect))
        case ["ChunksArrived", effect]:  # ChunksArrived r1 thinking="Hm." "It is " "a file." usage=9/1
            chunks = tuple(_chunks_of(command))
            usage = _usage_of(command)
            if usage != TokenUsage():
                chunks = (*chunks, UsageUpdate(usage))
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
                jitter=float(command.option("jitter", "0")),
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
        case ["ErrandFinished", effect, "failed", *flags] if set(flags) <= {"retryable", "lost"}:
            # ErrandFinished e3 failed "no such directory" code=io_error · … retryable after=20 usage=9/4 · … lost
            error = ErrorInfo(
                code=command.option("code", "failed"),
                message=command.said() or "",
                retryable="retryable" in flags,
                retry_after_seconds=float(command.option("after", "0")) or None,
            )
            used = _usage_of(command)
            result = RequestFailed(error=error, usage=None if "lost" in flags else used)
            return ErrandFinished(at_ms=at_ms, effect_id=EffectId(effect), result=result)
        case ["TimerFired", effect]:  # TimerFired w3 · TimerFired s1 jitter=0.5 pinged=90000
            return TimerFired(
                at_ms=at_ms,
                effect_id=EffectId(effect),
                jitter=float(command.option("jitter", "0")),
                pinged_at_ms=command.number("pinged"),
            )
        case ["ChildStarted", effect, child]:  # ChildStarted t2 scenario.c1 · t2 scenario.c1.1 "Look left"
            return ChildStarted(
                at_ms=at_ms,
                effect_id=EffectId(effect),
                child_id=SessionId(child),
                description=command.said(),
            )
        case ["ChildPublished", effect, *flags] if set(flags) <= {
            "delta"
        }:  # t2 "Hm" delta child=scenario.c1.1
            said = command.said() or ""
            event: Event = MessageDelta(delta=said) if flags else StatusUpdate(text=said)
            by = command.option("child", "") or None
            return ChildPublished(at_ms=at_ms, effect_id=EffectId(effect), event=event, child_id=by)
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
        ):  # ToolFinished t2 "no such file" error · … crashed jitter=0.5 · … changes=[{"compact": "too long"}] · … spent=9/4
            return ToolFinished(
                at_ms=at_ms,
                effect_id=EffectId(effect),
                text=command.said() or "",
                details=command.option("details", "") or None,
                is_error="error" in flags,
                started_at_ms=command.number("started", at_ms),
                crashed="crashed" in flags,
                jitter=float(command.option("jitter", "0")),
                changes=decode_changes(command.option("changes", "")),
                late="late" in flags,
                spent=_spent_of(command),
            )
        case [
            "TeardownFinished",
            effect,
        ]:  # TeardownFinished d3 ended=2 reaped=3 stuck=shell@5000,disk@5000@77 committed=c3 abandoned=… unknown=c2 survivors=c1 ms=40
            receipt = AbortReceipt(
                tasks_ended=command.number("ended"),
                processes_reaped=command.number("reaped"),
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


def _spent_of(command: Command) -> Spent | None:
    """Read `spent=9/4`: what a child used, all of it reported; with what it cost `spent=9/4/0.02`."""
    if not any(pair.key == "spent" for pair in command.pairs):
        return None
    return spent_of(_usage_of(command, "spent"), None)


def _usage_of(command: Command, key: str = "usage") -> TokenUsage:
    """Read `usage=9/4`, or with what it cost `usage=9/4/0.02`."""
    read, written, *cost = command.option(key, "0/0").split("/")
    return TokenUsage(input=int(read), output=int(written), cost_usd=float(cost[0]) if cost else 0.0)


def _plain_tool(name: str) -> ToolSpec:
    return ToolSpec(name=name, description="", parameters={"type": "object"})


def _notice_of(command: Command, at_ms: int) -> Signal | None:
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


def _chunks_of(command: Command) -> Iterator[Chunk]:
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


def _blocks_of(command: Command) -> Iterator[AssistantBlock]:
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


def _left_behind(word: str) -> LeftBehind:
    name, age, pid, *_ = (*word.split("@"), "", "")
    return LeftBehind(name=name, age_ms=int(age or 0), pid=int(pid) if pid else None)
