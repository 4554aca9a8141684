"""A stored session as one self-contained HTML page: waterfall, conversation with its decisions, and cost. Pure.

The page loads nothing, and its policy forbids scripts: whatever a model, a tool or a user wrote is shown as text.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Final

from attrs import field, frozen

from agentrail import events
from agentrail.abc.store import StoredSession
from agentrail.cli.chat_notices import notice_of, show_decision, show_milliseconds
from agentrail.cli.session_views import joined_words, moment, shorten, show_head, show_usage
from agentrail.cli.store_access import shown_id
from agentrail.core.journal.replay import ReplayStep
from agentrail.core.journal.timeline import SpanItem, Timeline
from agentrail.core.protocol.effects import Publish
from agentrail.events import Event
from agentrail.frozen import thawed
from agentrail.messages import PromptRef, TokenUsage
from agentrail.runtime.tree_secrets import without_known

MAX_PAGE_VALUE_BYTES: Final = 64 * 1024
"""Limit on each text, argument object and result, in bytes of UTF-8."""

_INDENT: Final = "\u2003"  # as wide as a letter, and not folded by HTML

_STYLE: Final = """
body { background: var(--ground); color: var(--text); font: var(--type)/var(--line) var(--sans); margin: 0 auto;
  max-width: 1100px; padding: var(--s4); }
h1 { font-size: var(--type-title); overflow-wrap: anywhere; }
h2 { font-size: var(--type-large); margin-top: var(--s6); }
pre { font: var(--type-code)/var(--line) var(--mono); margin: var(--s1) 0; overflow-wrap: anywhere; white-space: pre-wrap; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--hairline); padding: var(--s1) var(--s2); text-align: left; vertical-align: top; }
th { color: var(--dim); font-weight: normal; }
td.name { overflow-wrap: anywhere; width: 40%; }
td.number, th.number { text-align: right; white-space: nowrap; }
svg { display: block; height: 12px; width: 100%; }
rect { fill: var(--accent); }
.error rect, .failed rect, .blocked rect, .killed rect { fill: var(--bad); }
.aborted rect, .waiting rect, .incomplete rect { fill: var(--warn); }
.entry { border-left: 3px solid var(--hairline); margin: var(--s2) 0; padding-left: var(--s3); }
.entry.user { border-color: var(--accent); }
.entry.model { border-color: var(--ok); }
.entry.fault { border-color: var(--bad); }
.entry.decision { border-color: var(--warn); }
.what { color: var(--dim); font-size: var(--type-small); }
"""


@frozen(kw_only=True)
class _Entry:
    """A part of the conversation, or a decision about it."""

    kind: str
    at_ms: int
    what: str
    text: str = ""


@frozen(kw_only=True)
class _Cycle:
    """A cycle with its entries, and what each model used in it."""

    number: int
    at_ms: int
    entries: list[_Entry] = field(factory=list)
    used: dict[str, TokenUsage] = field(factory=dict)


class _Gathered:
    """The spans and the cycles of a session, from its steps."""

    def __init__(self, opened_at_ms: int) -> None:
        self.timeline = Timeline()
        self.cycles = [_Cycle(number=0, at_ms=opened_at_ms)]
        self._prompts: dict[PromptRef, _Entry] = {}
        self._model = ""

    def feed(self, step: ReplayStep) -> None:
        at_ms = step.walked.record.at_ms
        answers = [f"plugin {asked}" for asked in step.asked if asked.answer != "Continue"]
        self.cycles[-1].entries.extend(_Entry(kind="decision", at_ms=at_ms, what=one) for one in answers)
        for effect in step.walked.effects:
            if isinstance(effect, Publish) and not (effect.event.meta is None or effect.event.meta.ephemeral):
                self._hear(effect.event, effect.event.meta.at_ms)

    @property
    def waiting(self) -> tuple[_Entry, ...]:
        """The prompts that no cycle has taken."""
        return tuple(self._prompts.values())

    def _hear(self, event: Event, at_ms: int) -> None:
        self.timeline.hear(event)
        match event:
            case (
                events.PromptReceived(ref=ref, content=content)
                | events.PromptQueued(ref=ref, content=content)
            ):
                self._prompts[ref] = _Entry(kind="user", at_ms=at_ms, what="user", text=joined_words(content))
            case events.AgentStart(ref=ref):
                self.cycles.append(_Cycle(number=len(self.cycles), at_ms=at_ms))
                if ref in self._prompts:
                    self.cycles[-1].entries.append(self._prompts.pop(ref))
            case events.RequestStart(model=model):
                self._model = model
            case events.ResponseComplete(usage=usage):
                used = self.cycles[-1].used
                used[self._model] = used[self._model] + usage if self._model in used else usage
            case _:
                pass
        self.cycles[-1].entries.extend(_entries_of(event, at_ms))


def trace_page(
    stored: StoredSession, word: str, steps: Iterable[ReplayStep], *, tokens: str
) -> Iterator[str]:
    """Yield the page in pieces. Known secrets are replaced, as in every output of the command.

    Args:
        stored: The session, as the store lists it.
        word: Its status, as in `sessions list`.
        steps: Its replayed records, with the plugins' answers.
        tokens: Style sheet with the colours, sizes and distances: that of the console.
    """
    gathered = _Gathered(stored.opened_at_ms)
    for step in steps:
        gathered.feed(step)
    place = f"agentrail sessions trace {shown_id(stored)} --json"
    style = f"{tokens}{_STYLE}"
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = _text(stored.standing.title or stored.session)
    yield "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield "<meta name='viewport' content='width=device-width, initial-scale=1'>"
    yield f"<title>{title}</title><style>{style}</style></head><body><main>\n<h1>{title}</h1>\n"
    yield f"<pre>{_text(chr(10).join(show_head(stored, word)))}</pre>\n"
    yield "<h2>Timeline</h2>\n"
    yield from _waterfall(gathered.timeline.spans, stored.written_at_ms)
    yield "<h2>Conversation</h2>\n"
    for cycle in gathered.cycles:
        if cycle.entries:
            name = f"Cycle {cycle.number}" if cycle.number else "Before the first cycle"
            yield f"<h3>{name}, {moment(cycle.at_ms)}</h3>\n"
        yield from (_drawn(entry, place) for entry in cycle.entries)
    if gathered.waiting:
        yield "<h3>Not taken by a cycle</h3>\n"
        yield from (_drawn(entry, place) for entry in gathered.waiting)
    yield "<h2>Cost</h2>\n"
    yield from _cost(gathered.cycles)
    yield "</main></body></html>\n"


def _entries_of(event: Event, at_ms: int) -> Iterator[_Entry]:
    match event:
        case events.ResponseComplete(message=message, usage=usage):
            yield _Entry(kind="model", at_ms=at_ms, what=f"model, {show_usage(usage)}", text=message.text)
        case events.ToolExecutionStart(name=name, arguments=arguments):
            yield _Entry(kind="call", at_ms=at_ms, what=f"call of {name}", text=_json(arguments))
        case events.ToolExecutionEnd(name=name, result=result):
            kind, what = ("fault", "error") if result.is_error else ("result", "result")
            yield _Entry(kind=kind, at_ms=at_ms, what=f"{what} of {name}", text=result.words)
        case events.ToolBlocked(name=name, reason=reason, by=by):
            yield _Entry(kind="decision", at_ms=at_ms, what=f"{name} was blocked by {by}", text=reason)
        case events.ApprovalResolved(approval=approval, status=status, by=by, user=user):
            what = f"approval of {approval.tool}: {status} by {user or by}"
            yield _Entry(kind="decision", at_ms=at_ms, what=what, text=_json(approval.arguments))
        case events.SessionRecovered(decisions=decisions):
            said = "\n".join(show_decision(one) for one in decisions)
            yield _Entry(kind="decision", at_ms=at_ms, what="recovered", text=said)
        case events.AgentEnd(stop_reason=reason, usage=usage):
            yield _Entry(kind="end", at_ms=at_ms, what=f"done ({reason}), {show_usage(usage)}")
        case _:
            notice = notice_of(event)
            if notice is not None:
                yield _Entry(kind="notice", at_ms=at_ms, what="notice", text=notice)


def _drawn(entry: _Entry, place: str) -> str:
    body = f"<pre>{_bounded(entry.text, place)}</pre>" if entry.text else ""
    head = f"{moment(entry.at_ms)[11:]} · {_text(entry.what)}"
    return f"<div class='entry {entry.kind}'><div class=what>{head}</div>{body}</div>\n"


def _waterfall(spans: Sequence[SpanItem], written_at_ms: int) -> Iterator[str]:
    if not spans:
        yield "<p>No cycle has begun.</p>\n"
        return
    depths: dict[str, int] = {}
    begin = min(span.from_ms for span in spans)
    whole = max(1, max(span.to_ms or written_at_ms for span in spans) - begin)
    yield "<table><thead><tr><th>Span<th class=number>Took<th>Time<tbody>\n"
    for span in spans:
        depth = depths[span.key] = 0 if span.parent is None else depths.get(span.parent, 0) + 1
        took = (span.to_ms or written_at_ms) - span.from_ms
        left, width = 100 * (span.from_ms - begin) / whole, max(0.2, 100 * took / whole)
        outcome = "" if span.outcome in {None, "done"} else f" ({span.outcome})"
        yield f"<tr class='{_text(span.outcome or '')}'><td class=name>{_INDENT * depth}{_text(shorten(span.name))}{_text(outcome)}"
        yield f"<td class=number>{show_milliseconds(took)}<td><svg><rect x='{left:.4g}%' width='{width:.4g}%' height=12 /></svg>\n"
    yield "</table>\n"


def _cost(cycles: Iterable[_Cycle]) -> Iterator[str]:
    yield "<table><thead><tr><th>Cycle<th>Model<th>Used<tbody>\n"
    for cycle in cycles:
        for model, usage in cycle.used.items():
            yield f"<tr><td>{cycle.number}<td>{_text(model)}<td>{show_usage(usage)}\n"
    yield "</table>\n"


# --- text


def _text(value: str) -> str:
    return escape(without_known(value).encode("utf-8", "replace").decode())


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(thawed(value), ensure_ascii=False, indent=2)


def _bounded(value: str, place: str) -> str:
    """Return at most 64 KiB of a text, escaped, and where the rest is."""
    whole = without_known(value).encode("utf-8", "replace")
    if len(whole) <= MAX_PAGE_VALUE_BYTES:
        return escape(whole.decode())
    shown = whole[:MAX_PAGE_VALUE_BYTES].decode("utf-8", "ignore")
    return f"{escape(shown)}\n<em>… {len(whole) - len(shown.encode()):,} more bytes: {escape(place)}</em>"
