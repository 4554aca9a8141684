"""The audit log: a line of JSON for each decision in committed events, chained by hashes.

A line contains no prompt, argument, result or reason. docs/how-to/keep-an-audit-log.md describes its fields.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, Final, TypeAlias

import msgspec
from attrs import define, field
from msgspec.structs import replace

from agentrail import events, outside
from agentrail.abc.event_reader import SessionOrigin
from agentrail.core.journal.record import OPENED, TAKEN, Record, decode_opened, decode_taken
from agentrail.core.policy.calls import hash_arguments
from agentrail.core.session.approval_details import rule_id_of
from agentrail.core.session.approval_rules import rule_of
from agentrail.core.session.state import Rule
from agentrail.errors import StoreUnavailable
from agentrail.events import Event
from agentrail.messages import SessionId
from agentrail.structs import decoder_of
from agentrail.telemetry.reader import HeardEvent


class AuditLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One decision, identified by scope, session and event number. Empty fields are omitted."""

    n: int = 0
    at_ms: int
    scope: str = ""
    session: str
    event: int
    what: str
    verdict: str
    by: str
    user: str = ""
    id: str = ""
    tool: str = ""
    call: str = ""
    arguments: str = ""
    rule: str = ""
    via: str = ""
    node: str = ""

    @property
    def key(self) -> tuple[str, str, int]:
        return self.scope, self.session, self.event


_DECISIONS: Final[Mapping[type, tuple[str, str, str]]] = {
    # what, verdict unless the event has a status, and by whom unless the event says it
    events.PromptReceived: ("prompt", "accepted", "session"),
    events.PromptQueued: ("prompt", "queued", "session"),
    events.PromptDropped: ("prompt", "dropped", "session"),
    events.PromptRejected: ("prompt", "rejected", "plugin"),
    events.PromptTaken: ("prompt", "taken", "plugin"),
    events.AgentStart: ("cycle", "started", "session"),
    events.AgentAbort: ("cycle", "aborted", "session"),
    events.SessionRecovered: ("session", "recovered", "session"),
    events.ToolExecutionStart: ("call", "requested", "model"),
    events.ToolBlocked: ("call", "blocked", "plugin"),
    events.ToolKilled: ("call", "stopped", "session"),
    events.ToolSkippedForSteering: ("call", "skipped", "caller"),
    events.ToolExecutionMetrics: ("call", "ran", "session"),
    events.ToolTookEffect: ("call", "took_effect", "session"),
    events.ApprovalRequired: ("approval", "required", "plugin"),
    events.ApprovalResolved: ("approval", "resolved", "user"),
    events.ToolApprovedAlways: ("rule", "created", "user"),
    events.UserResponded: ("question", "answered", "user"),
    events.UserDeclined: ("question", "declined", "user"),
}
MAX_AUDITED_SESSIONS: Final = 50_000
"""Number of sessions whose last line a writer remembers, so that an event that comes again gets no second line."""

_NAME: Final = re.compile(r"[A-Za-z0-9_.:/@+-]{1,128}")
_ENDING: Final = re.compile(rb'(\{.*),"hash":"([0-9a-f]{64})"\}\n', re.DOTALL)


Nodes: TypeAlias = Sequence[tuple[int, str]]
"""The nodes of a session in order, each with the number of the last event before it."""


def nodes_in(records: Iterable[Record]) -> Nodes:
    return [
        (0, decode_opened(one.body).node) if one.kind == OPENED else (one.events, decode_taken(one.body).node)
        for one in records
        if one.kind in {OPENED, TAKEN}
    ]


def is_decision(event: Event) -> bool:
    return type(event) in _DECISIONS


def line_of(origin: SessionOrigin, event: Event, nodes: Nodes, last: AuditLine | None) -> AuditLine:
    """Return the line of a decision. `last` is the previous line of its session."""
    meta, (what, verdict, by) = event.meta, _DECISIONS[type(event)]
    assert meta is not None  # noqa: S101 - it was published
    source = getattr(event, "approval", event)
    arguments, rule = getattr(source, "arguments", None), None
    if isinstance(event, events.ToolApprovedAlways):
        rule = Rule(tool=event.tool, family=event.command_family, exact=event.exact)
    elif isinstance(event, events.ApprovalResolved) and event.by == "rule":
        rule = rule_of(event.approval.tool, event.approval.arguments)
    said = {
        "verdict": getattr(event, "status", verdict),
        "by": getattr(event, "by", by),
        "user": getattr(
            event, "user", origin.user_data.get("user_id") if what in {"prompt", "cycle"} else None
        ),
        "id": getattr(source, "id", getattr(source, "ref", None)),
        "via": getattr(event, "via", None),
        "tool": _name(getattr(source, "tool", getattr(source, "name", None))),
        "call": getattr(source, "call_id", None),
        "arguments": None if arguments is None else hash_arguments(arguments),
        "rule": None if rule is None else rule_id_of(rule),
        "node": next((node for before, node in reversed(nodes) if before < meta.seq), None),
    }
    if last is not None and last.call == said["call"]:  # a refusal directly follows its request
        said["arguments"] = said["arguments"] or last.arguments
    known: dict[str, Any] = {
        name: value.encode("utf-8", "replace").decode()
        for name, value in said.items()
        if isinstance(value, str)
    }
    return AuditLine(
        at_ms=meta.at_ms, scope=origin.scope, session=meta.session_id, event=meta.seq, what=what, **known
    )


def _name(name: str | None) -> str | None:
    """Return a name, or `_OTHER` for free text: models call tools that do not exist."""
    return name if not name or _NAME.fullmatch(name) else "_OTHER"


@define
class AuditTail:
    """The end of a log: number and hash of its last line, and the last line of each session, or of the `most` last ones."""

    n: int = 0
    hash: str = "0" * 64
    last: dict[tuple[str, str], AuditLine] = field(factory=dict)
    most: float = inf

    def has(self, scope: str, session: str, event: int, at_ms: int) -> bool:
        """Whether a decision has a line. A later event with a lower number is of a new session with an old id."""
        last = self.last.get((scope, session))
        return last is not None and event <= last.event and at_ms <= last.at_ms

    def hash_of(self, text: bytes) -> str:
        return hashlib.sha256(self.hash.encode() + text).hexdigest()

    def move(self, line: AuditLine, hashed: str) -> None:
        self.n, self.hash, before = line.n, hashed, self.last.pop((line.scope, line.session), line)
        at_ms = max(before.at_ms, line.at_ms)  # the clock may have gone back
        self.last[line.scope, line.session] = replace(line, at_ms=at_ms)
        if len(self.last) > self.most:
            del self.last[next(iter(self.last))]

    def seal(self, line: AuditLine) -> bytes:
        """Return a line with the next number and its hash."""
        line = replace(line, n=self.n + 1)
        text = msgspec.json.encode(line)[:-1]
        self.move(line, self.hash_of(text))
        return b'%b,"hash":"%b"}\n' % (text, self.hash.encode())


_LINES: Final = decoder_of(AuditLine)


def read_audit_line(raw: bytes) -> tuple[AuditLine, str, bytes] | None:
    """Return a line, its hash and the bytes that this covers. None if it is not a line of an audit log."""
    found = _ENDING.fullmatch(raw)
    try:
        return found and (_LINES.decode(found[1] + b"}"), found[2].decode(), found[1])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def faults_of_log(log: Iterable[bytes], tail: AuditTail, expect: tuple[int, str] | None) -> Iterator[str]:
    """Yield the faults of a log, each with the number of a line. Afterwards `tail` is its end."""
    for raw in log:
        n, known = tail.n + 1, read_audit_line(raw)
        if known is None:
            tail.n = n
            yield f"line {n} is not a line of an audit log" if raw.endswith(b"\n") else f"line {n} is cut off"
            continue
        line, stated, text = known
        if line.n != n:
            yield f"line {line.n} is in the place of line {n}"
        elif stated != tail.hash_of(text):
            yield f"line {n} does not match its hash: it was changed, or the line before it was"
        if tail.has(*line.key, line.at_ms):
            yield f"line {line.n} repeats an earlier decision"
        if expect is not None and expect[0] == line.n and expect[1] != stated:
            yield f"line {line.n} has the hash {stated}, expected {expect[1]}"
        tail.move(line, stated)
    if expect is not None and expect[0] > tail.n:
        yield f"line {expect[0]} is missing: the log ends with line {tail.n}"


class AuditLog:
    """Consumer that writes the audit log. After an unexpected error it reads the log again, as after a restart."""

    name: str = "audit"
    has_cursors: bool = True
    rejected: int = 0

    def __init__(
        self,
        read: Callable[[], Iterable[bytes]],
        append: Callable[[bytes], None],
        look: Callable[[str, SessionId, int], Sequence[Record]],
    ) -> None:
        """Create it from functions that block: to read the log, to append to it durably, and to read a session's records after a number."""
        self._read, self._append, self._look = read, append, look
        self._nodes: dict[tuple[str, str], tuple[Nodes, int]] = {}  # and the last record that was read
        self._tail: AuditTail | None = None

    def open(self) -> AuditTail:
        tail = AuditTail(most=MAX_AUDITED_SESSIONS)
        for known in map(read_audit_line, self._read()):
            if known is not None:  # otherwise `audit verify` reports it
                tail.move(*known[:2])
        self._tail = tail
        return tail

    async def take(self, events: Sequence[HeardEvent]) -> None:
        await outside.offload(self._take, events)

    def first_needed(self, scope: str, session_id: str) -> int | None:
        return None

    def _take(self, taken: Sequence[HeardEvent]) -> None:
        tail, self._tail = self._tail or self.open(), None
        n, hashed = tail.n, tail.hash
        last = {place: tail.last.get(place) for one, _ in taken for place in [(one.scope, one.session_id)]}
        try:
            self._write(tail, taken)
        except (OSError, StoreUnavailable) as error:
            tail.n, tail.hash = n, hashed
            for place in last:
                tail.last.pop(place, None)
            tail.last |= {place: line for place, line in last.items() if line is not None}
            # If the file was moved away, a new log begins.
            self._tail = None if isinstance(error, FileNotFoundError) else tail
            raise
        self._tail = tail

    def _write(self, tail: AuditTail, taken: Sequence[HeardEvent]) -> None:
        lines: list[bytes] = []
        for origin, event in taken:
            meta, place = event.meta, (origin.scope, origin.session_id)
            if isinstance(event, events.SessionEnd):  # nothing follows it, and a restart reads the log again
                self._nodes.pop(place, None)
                tail.last.pop(place, None)
            if meta is None or not is_decision(event) or tail.has(*place, meta.seq, meta.at_ms):
                continue
            last = tail.last.get(place)
            is_new = place not in self._nodes or last is None or meta.seq <= last.event
            if is_new or isinstance(event, events.SessionRecovered):  # by another node, perhaps
                nodes, seq = ((), 0) if is_new else self._nodes[place]
                read = self._look(origin.scope, SessionId(origin.session_id), seq)
                self._nodes[place] = (*nodes, *nodes_in(read)), read[-1].seq if read else seq
                if len(self._nodes) > MAX_AUDITED_SESSIONS:
                    del self._nodes[next(iter(self._nodes))]
            lines.append(tail.seal(line_of(origin, event, self._nodes[place][0], last)))
        if lines:
            self._append(b"".join(lines))
