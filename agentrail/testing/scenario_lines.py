"""What goes into a scenario, written down: a signal to its line. `scenario_in` reads what is written here.

Only what stands on one line enters this file; `scenario_out` writes what comes out, with the words for blocks and receipts that
are the same on both sides.
"""

import json
from collections.abc import Iterator
from typing import assert_never

from agentrail.core.hooks import FileText, FileWritten, Found, ModelAnswer, RequestFailed, RequestResult
from agentrail.core.request import Chunk, TextDelta, ThinkingDelta, UsageUpdate
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
from agentrail.events import AbortReceipt, Event, LeftBehind, MessageDelta, StatusUpdate
from agentrail.messages import AssistantBlock, Text, Thinking, TokenUsage, ToolCall
from agentrail.testing.scenario_changes import encode_changes
from agentrail.testing.scenario_words import perhaps, quote, unless


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
            yield from perhaps(reason)
        case Abort(signal_id=name, reason=reason):
            yield name
            yield from perhaps(reason)
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
            yield from perhaps(reason)
            yield from unless(not signal.auto_resume, "resume=yes")
        case Respond(signal_id=name, ref=ref, response=response):
            yield name
            yield ref
            yield quote(response) if isinstance(response, str) else f"option={response}"
        case ToolAsked(signal_id=name, effect_id=effect, question=question, options=options):
            yield name
            yield effect
            yield quote(question)
            yield from unless(not options, f"options={json.dumps(options, ensure_ascii=False)}")
            yield from unless(signal.timeout_ms is None, f"timeout={signal.timeout_ms}")
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
            yield from perhaps(reason)
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
            totals = (chunk.usage for chunk in reversed(chunks) if isinstance(chunk, UsageUpdate))
            usage = next(totals, TokenUsage())
            yield from unless(usage == TokenUsage(), usage_word(usage))
        case ResponseCompleted(effect_id=effect, message=message, usage=usage):
            yield effect
            yield from map(block_word, message.content)
            yield f"stop={signal.stop_reason}"
            yield from unless(usage == TokenUsage(), usage_word(usage))
            yield from unless(not signal.jitter, f"jitter={signal.jitter}")
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
            yield from unless(not signal.jitter, f"jitter={signal.jitter}")
            yield from unless(not signal.pinged_at_ms, f"pinged={signal.pinged_at_ms}")
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
            yield from perhaps(signal.description)
        case ChildPublished(effect_id=effect, event=event):
            yield effect
            yield quote(_published_words(event))
            yield from unless(not isinstance(event, MessageDelta), "delta")
            yield from unless(signal.child_id is None, f"child={signal.child_id}")
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
            yield from unless(signal.started_at_ms == signal.at_ms, f"started={signal.started_at_ms}")
            yield from unless(not signal.late, "late")
            yield from unless(not signal.changes, f"changes={json.dumps(encode_changes(signal.changes))}")
            if signal.spent is not None:
                yield usage_word(signal.spent.usage, "spent")
        case TeardownFinished(effect_id=effect, receipt=receipt):
            yield effect
            yield from receipt_words(receipt)
        case _:
            assert_never(signal)


def _published_words(event: Event) -> str:
    match event:
        case MessageDelta(delta=text) | StatusUpdate(text=text):
            return text
        case _:
            return type(event).__name__


def _result_words(result: RequestResult) -> Iterator[str]:
    match result:
        case FileText(path=path, text=text):
            yield "file"
            yield from perhaps(text)
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
        case RequestFailed(error=error, usage=usage):
            yield "failed"
            yield quote(error.message)
            yield from unless(usage is not None, "lost")
            yield from unless(usage is None or usage == TokenUsage(), usage_word(usage or TokenUsage()))
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
        case (
            _
        ):  # what the core does not look at needs no word; of totals the last one is written behind the rest
            return ""


def receipt_words(receipt: AbortReceipt) -> Iterator[str]:
    """Write what an abort found, as options."""
    yield from unless(not receipt.tasks_ended, f"ended={receipt.tasks_ended}")
    yield from unless(not receipt.processes_reaped, f"reaped={receipt.processes_reaped}")
    yield from unless(not receipt.stuck, f"stuck={','.join(map(_age_word, receipt.stuck))}")
    yield from unless(not receipt.abandoned, f"abandoned={','.join(map(_age_word, receipt.abandoned))}")
    yield from unless(not receipt.committed, f"committed={','.join(receipt.committed)}")
    yield from unless(not receipt.unknown, f"unknown={','.join(receipt.unknown)}")
    yield from unless(not receipt.survivors, f"survivors={','.join(receipt.survivors)}")
    yield from unless(not receipt.milliseconds, f"ms={receipt.milliseconds}")


def _age_word(left: LeftBehind) -> str:
    if left.pid is not None:
        return f"{left.name}@{left.age_ms}@{left.pid}"
    return f"{left.name}@{left.age_ms}" if left.age_ms else left.name


def usage_word(usage: TokenUsage, key: str = "usage") -> str:
    """Write what was used, and what that cost unless it was nothing."""
    cost = f"/{usage.cost_usd:g}" if usage.cost_usd else ""
    return f"{key}={usage.input}/{usage.output}{cost}"
