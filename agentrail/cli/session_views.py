"""Stored sessions as text for the user: a row of a list, a cycle as a tree, a record as a line. Pure functions."""

import datetime
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from agentrail import events
from agentrail.abc.store import StoredSession
from agentrail.cli.chat_notices import notice_of, show_decision, show_milliseconds
from agentrail.cli.event_text import Piece, first_line, on_one_line, show_arguments
from agentrail.cli.store_access import shown_id
from agentrail.core.journal.record import ERASED, Record, decode_erased
from agentrail.core.journal.replay import ReplayStep
from agentrail.core.protocol.effects import Publish
from agentrail.core.session.views import Status
from agentrail.events import Event
from agentrail.messages import (
    AssistantMessage,
    CallId,
    Message,
    Text,
    TokenUsage,
    ToolMessage,
    UserBlock,
    UserMessage,
)
from agentrail.runtime.journal_state import PastState
from agentrail.structs import END_OF_CALENDAR_MS, picked_fields

_SHORT: Final = 72

# --- a list


def standing_word(stored: StoredSession, *, is_owned: bool) -> str:
    """Return a session's status in a word or two. Only a living owner shows that it runs, never the stored state."""
    standing = stored.standing
    if standing.has_ended:
        return "ended"
    if standing.waits_for:
        return "waits for you"
    if standing.is_working:
        return "running" if is_owned else "interrupted"
    return "open" if is_owned else "idle"


def show_rows(sessions: Sequence[tuple[StoredSession, str]]) -> Iterator[str]:
    names = [shown_id(stored) for stored, _ in sessions]
    width = max((len(name) for name in names), default=0)
    for name, (stored, word) in zip(names, sessions, strict=True):
        line = f"{name:<{width}}  {word:<13}  {moment(stored.written_at_ms)}  {stored.tail.seq:>6} records"
        title = shorten(stored.standing.title)
        yield f"{line}  {title}".rstrip()


def row_as_json(stored: StoredSession, word: str) -> str:
    forked = None if stored.forked_from is None else list(stored.forked_from)
    return json.dumps(
        {
            "session": stored.session,
            "scope": stored.scope,
            "root": stored.root,
            "parent": stored.parent or None,
            "forked_from": forked,
            "stands": word,
            "waits_for": stored.standing.waits_for,
            "records": stored.tail.seq,
            "first_record": stored.first_seq,
            "events": stored.events,
            "opened_at_ms": stored.opened_at_ms,
            "written_at_ms": stored.written_at_ms,
            "title": stored.standing.title,
        },
        ensure_ascii=False,
    )


# --- a conversation


def conversation(messages: Iterable[Message]) -> Iterator[Piece]:
    for message in messages:
        match message:
            case UserMessage(content=content, origin=origin):
                mark = ">" if origin == "prompt" else f"({origin})"
                yield Piece("out", f"{mark} {joined_words(content)}\n")
            case AssistantMessage() as said:
                if said.text:
                    yield Piece("out", said.text if said.text.endswith("\n") else f"{said.text}\n")
                for call in said.calls:
                    given = call.arguments
                    shown = shorten(call.malformed or "") if given is None else show_arguments(given)
                    yield Piece("err", f"→ {call.name}({shown})\n")
            case ToolMessage(results=results):
                for result in results:
                    first, more = first_line(result.words)
                    mark = "✗" if result.is_error else "✓"
                    behind = f" (+{more} lines)" if more else ""
                    yield Piece("err", f"  {mark} {first}{behind}\n")


def joined_words(content: Iterable[UserBlock]) -> str:
    return " ".join(
        block.text if isinstance(block, Text) else f"[{type(block).__name__.lower()}]" for block in content
    )


# --- cycles as trees


class CycleTree:
    """Draws the cycles of a session from its steps: times, tokens, cost, tools, gates, plugin answers."""

    def __init__(self) -> None:
        self._cycles = 0
        self._turns = 0
        self._asked_for: dict[str, str] = {}
        self._began: dict[CallId, int] = {}
        self._cycle_at_ms = 0

    def feed(self, step: ReplayStep) -> Iterator[str]:
        for asked in step.asked:
            if asked.answer != "Continue":
                yield f"    plugin {asked}"
        for effect in step.walked.effects:
            if isinstance(effect, Publish) and not (effect.event.meta is None or effect.event.meta.ephemeral):
                yield from self._lines(effect.event, effect.event.meta.at_ms)

    def _lines(self, event: Event, at_ms: int) -> Iterator[str]:
        match event:
            case (
                events.PromptReceived(ref=ref, content=content)
                | events.PromptQueued(ref=ref, content=content)
            ):
                self._asked_for[ref] = joined_words(content)
            case events.AgentStart(ref=ref):
                self._cycles, self._turns, self._cycle_at_ms = self._cycles + 1, 0, at_ms
                yield f"cycle {self._cycles}  {moment(at_ms)}  {shorten(self._asked_for.pop(ref, ''))}".rstrip()
            case events.RequestStart(model=model, messages=messages, attempt=attempt):
                self._turns += attempt == 1
                again = f", attempt {attempt}" if attempt > 1 else ""
                yield f"  turn {self._turns}  {model}, {messages} messages{again}"
            case events.ResponseComplete(message=message, usage=usage):
                said = shorten(message.text) or "no words"
                yield f"    said {said}  ({show_usage(usage)})"
            case events.ToolExecutionStart(name=name, call_id=call_id, arguments=arguments):
                self._began[call_id] = at_ms
                yield f"    → {name}({show_arguments(arguments)})"
            case events.ToolExecutionEnd(name=name, call_id=call_id, result=result):
                mark = "✗" if result.is_error else "✓"
                took = show_milliseconds(at_ms - self._began.pop(call_id, at_ms))
                yield f"    {mark} {name}: {first_line(result.words)[0]}  ({took})"
            case events.ToolBlocked(name=name, reason=reason, by=by):
                yield f"    ✗ {name} was blocked by {by}: {shorten(reason)}"
            case events.ApprovalResolved(approval=approval, status=status, by=by, user=user):
                yield f"    gate {approval.tool}: {status} by {user or by}"
            case events.SessionRecovered(decisions=decisions):
                yield f"  recovered  {moment(at_ms)}"
                yield from (f"    {show_decision(one)}" for one in decisions)
            case events.AgentEnd(stop_reason=reason, usage=usage):
                yield f"  done ({reason}) in {show_milliseconds(at_ms - self._cycle_at_ms)}, {show_usage(usage)}"
            case _:
                notice = notice_of(event)
                if notice is not None:
                    yield f"  {on_one_line(notice)}"


def show_usage(usage: TokenUsage) -> str:
    cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.4f}"
    return f"{usage.input} tokens in, {usage.output} out{cost}"


def show_head(stored: StoredSession, word: str) -> Iterator[str]:
    yield f"session   {shown_id(stored)}  {word}"
    yield f"opened    {moment(stored.opened_at_ms)}"
    yield f"written   {moment(stored.written_at_ms)}, {stored.tail.seq} records, {stored.events} events"
    if stored.parent:
        yield f"works for {stored.parent}"
    if stored.forked_from is not None:
        yield f"forked    from {stored.forked_from[0]} at {stored.forked_from[1]}"


def show_waits(status: Status, waiting: Sequence[str]) -> Iterator[str]:
    """Yield a session's status after its last record."""
    yield f"model     {status.model}"
    yield f"used      {show_usage(status.usage)}"
    yield from (f"waits for {line}" for line in waiting)
    if status.queued:
        yield f"queued    {len(status.queued)} prompts"


def show_past(stored: StoredSession, past: PastState, waiting: Sequence[str]) -> Iterator[str]:
    """Yield a session's state after a record: its phase, pending requests and conversation."""
    status = past.status
    yield f"session   {shown_id(stored)}, after record {past.number} of {stored.tail.seq}"
    yield f"at        {moment(past.at_ms)}, event {past.snapshot.last_seq}"
    yield f"phase     {status.phase}"
    yield from show_waits(status, waiting)
    if past.snapshot.text:
        yield f"heard     {shorten(past.snapshot.text)}"
    yield f"messages  {len(past.messages)}"
    for piece in conversation(past.messages):
        yield from (f"  {line}" for line in piece.text.rstrip("\n").split("\n"))


def past_as_json(stored: StoredSession, past: PastState) -> str:
    said = picked_fields(stored, "session", "scope")
    said |= picked_fields(past, "number", "at_ms", "snapshot", "messages")
    return msgspec.json.encode(said, enc_hook=dict).decode()


# --- records


def show_record(record: Record) -> Iterator[str]:
    """Yield a record's number, owner, time and kind, then its decisions. Contains no text of the conversation."""
    yield f"{record.seq:>6}  {moment(record.at_ms)}  epoch {record.epoch}  {record.kind}  events {record.events}"
    for line in record.does.split("\n") if record.does else ():
        yield f"        {line}"
    if record.kind == ERASED:
        was = decode_erased(record.body)
        yield f"        was {was.kind or 'there'}, {was.length:,} bytes: {on_one_line(was.why)}"


# --- parts of lines


def moment(at_ms: int) -> str:
    if not 0 <= at_ms < END_OF_CALENDAR_MS:  # of a damaged row
        return f"{at_ms} ms"
    at = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}"


def shorten(text: str) -> str:
    line = on_one_line(text)
    return line if len(line) <= _SHORT else f"{line[: _SHORT - 1]}…"
