"""The judges of a simulated life, one for each kind of promise. Each is a function of the log's lines alone, and reads what a line changed."""

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeAlias
from zlib import crc32

from attrs import define, field, frozen

from agentrail.core.policy.budget import Bound, Ledger
from agentrail.core.protocol.effects import PromptAgent, RunTool, SpawnChild, StartAgent, StartStream
from agentrail.core.protocol.signals import AbortCycle, Asked, ChunksArrived, Recovered, ToolFinished
from agentrail.events import (
    TERMINAL,
    AbortSettled,
    AgentAbort,
    ApprovalRequired,
    ApprovalResolved,
    Event,
    EventsLost,
    PromptDropped,
    PromptQueued,
    PromptReceived,
    PromptRejected,
    PromptTaken,
    SteeringReceived,
    ToolExecutionEnd,
)
from agentrail.messages import CallId
from agentrail.runtime import store_writer
from agentrail.runtime.persistence import STORE_PATIENCE_SECONDS
from agentrail.runtime.session_rest import STOPS_WORK
from agentrail.testing.promises import (
    PROMISES,
    callers,
    conversation,
    effect_promises,
    observed_step,
    state_promises,
)
from agentrail.testing.simulation.facts import (
    WORLD_LEASE_SECONDS,
    CallAnswered,
    CallAsked,
    Closed,
    LedgerEntry,
    Logged,
    NodeChange,
    Read,
    ReaderSubscribed,
    ReceivedAgain,
    SessionStep,
    StoreCall,
)
from agentrail.testing.simulation.gods_eye import GONE, Checker, GodsEye, LineKey
from agentrail.testing.simulation.log import LineKind, LogLine
from agentrail.testing.simulation.shadow import FoldEqualsLife

PATIENCE_SECONDS: Final = 60.0
"""Virtual time after which everything accepted must have ended, once all faults are over."""

SHADOWED: Final = 0.25
"""Share of the sessions that a shadow folds again."""

_BEGINS = store_writer._BEGINS  # noqa: SLF001 - our own test kit: the product's table is the one to judge by
_STOPS = store_writer._STOPS  # noqa: SLF001
_TOLD = store_writer._TOLD  # noqa: SLF001


# --- the whole life


@define(eq=False)
class Fences(Checker):
    """Epochs never fall. Nothing leaves a node before it is durable, and no work begins on it once another owns the session.

    One request of each session may leave before its record, if no other node uses the store.
    An event or an answer may still leave an old owner if its record was durable before the takeover: the new owner has the same.
    """

    name = "fences"
    kinds: ClassVar[frozenset[LineKind]] = frozenset({"effect", "event"})
    _ahead: dict[LineKey, StartStream] = field(init=False, factory=dict)

    def judge(self, line: LogLine) -> str | None:
        if self.eye.fault is not None:
            return f"{line.session}: {self.eye.fault}"
        journal = self.eye.journals.get(line.session)
        if journal is None or line.kind not in {"effect", "event"}:
            return None
        what, owner = line.facts, self.eye.place_of(line.session)
        said = f"{line.session}: {type(what).__name__} leaves {line.place}"
        if line.kind == "event":
            is_early = what.meta.seq > journal.events
            is_void = what.meta.seq > journal.events_of_the_last
        else:
            is_early = type(what) not in _STOPS and self.eye.waits(line.session, line.place, what)
            if is_early and isinstance(what, StartStream) and self.eye.has_one_place:
                before = self._ahead.get((line.session, line.place))
                is_early = before is not None and self.eye.waits(line.session, line.place, before)
                self._ahead[line.session, line.place] = what
            is_void = type(what) in _BEGINS or (
                type(what) in _TOLD and self.eye.is_void(line.session, line.place, what)
            )
        if owner not in ("", line.place) and is_void:
            return f"{said}, although {owner} owns the session since {journal.taken_at:.3f}"
        return f"{said} before its record is durable" if is_early else None


@define(eq=False)
class Ledgers(Checker):
    """A `once` tool acts at most once for each operation, any other at least once if its call has a good result. Each acts for a result.

    A call that has finished does not begin again, unless its tool crashed.
    """

    name = "at most once, at least once"
    kinds: ClassVar[frozenset[LineKind]] = frozenset({"effect", "tool"})
    _ran: dict[LineKey, RunTool] = field(init=False, factory=dict)
    _results: dict[LineKey, bool] = field(init=False, factory=dict)
    _acted: dict[str, list[tuple[str, LedgerEntry]]] = field(init=False, factory=dict)
    _tools: dict[str, None] = field(init=False, factory=dict)
    _begun: dict[LineKey, CallId] = field(init=False, factory=dict)
    _finished: dict[LineKey, None] = field(init=False, factory=dict)

    def judge(self, line: LogLine) -> str | None:
        for session, step in self.eye.steps:
            for event in step.events:
                if isinstance(event, ToolExecutionEnd):
                    self._results[session, event.call_id] = not event.result.is_error
            ended = step.signal
            if isinstance(ended, ToolFinished) and not ended.crashed and ended.asks is None:
                call = self._begun.get((session, ended.effect_id))
                self._finished |= {} if call is None else {(session, call): None}
        entry = line.facts
        if isinstance(entry, RunTool) and line.kind == "effect":
            self._ran[line.session, entry.call_id] = entry
            self._begun[line.session, entry.effect_id] = entry.call_id
            if (line.session, entry.call_id) in self._finished:
                return f"{line.session}: {entry.call_id} has finished, and begins again at {line.place}"
        if not isinstance(entry, LedgerEntry):
            return None
        self._tools[entry.tool] = None
        before = self._acted.setdefault(entry.operation_id, [])
        before.append((line.session, entry))
        if len(before) > 1 and entry.effect_class == "once":
            return f"{line.session}: {entry.tool} acts a {len(before)}. time for {entry.call_id}, and may act once"
        return None

    def finish(self) -> Iterator[str]:
        for key, run in self._ran.items():
            is_good = self._results.get(key) and key[0] not in self.eye.lost
            if is_good and run.name in self._tools and run.operation_id not in self._acted:
                yield f"{key[0]}: {run.name} has a result for {key[1]}, but never acted"
        if self.eye.calm_at is None:
            return  # the life was cut off
        for (session, entry), *_ in self._acted.values():
            journal = self.eye.journals.get(session)
            if (
                (session, entry.call_id) not in self._results
                and journal is not None
                and not (journal.is_working or journal.is_given_up)
            ):
                yield f"{session}: {entry.tool} acted for {entry.call_id}, which has no result"


@define(eq=False)
class GapFree(Checker):
    """Each reader gets the events of its session without a gap, or is told which it lost. All readers get equal events.

    No event comes twice over one connection. A client would drop it, so that its reader could not tell.
    """

    name = "gap-free events"
    kinds: ClassVar[frozenset[LineKind]] = frozenset({"read", "event"})
    _last: dict[LineKey, int] = field(init=False, factory=dict)
    _events: dict[tuple[str, int], object] = field(init=False, factory=dict)

    def judge(self, line: LogLine) -> str | None:
        facts = line.facts
        if isinstance(facts, ReceivedAgain):
            return f"{line.session}: {line.place} receives event {facts.seq} again"
        if isinstance(facts, ReaderSubscribed):
            return self._subscribe((facts.reader, line.session), facts.after)
        if isinstance(facts, Read):
            return self._read((facts.reader, line.session), facts.event)
        return self._keep(line.place, facts) if line.kind == "event" else None

    def _subscribe(self, key: LineKey, after: int | None) -> str | None:
        known = self._last.get(key)
        if after is None:
            self._last.pop(key, None)
        elif known is not None and after > known:
            return f"{key[1]}: {key[0]} has event {known} and reconnects after {after}"
        else:
            self._last[key] = after
        return None

    def _read(self, key: LineKey, event: Event) -> str | None:
        meta = event.meta
        assert meta is not None
        last = self._last.get(key)
        if isinstance(event, EventsLost):
            if last is not None and (event.from_seq > last + 1 or event.to_seq < last):
                lost = f"{event.from_seq} to {event.to_seq}"
                return f"{key[1]}: {key[0]} has event {last} and is told that {lost} are lost"
            self._last[key] = event.to_seq
            return None
        if meta.ephemeral:
            return None
        if meta.session_id == key[1]:
            self._last[key] = meta.seq
            if last is not None and meta.seq != last + 1:
                return f"{key[1]}: {key[0]} gets event {meta.seq} after event {last}"
        return self._keep(key[0], event)

    def _keep(self, who: str, event: Event) -> str | None:
        assert event.meta is not None
        key = (event.meta.session_id, event.meta.seq)
        known = self._events.setdefault(key, event)
        if known != event:
            return f"{key[0]}: event {key[1]} is {event!r} at {who}, and was {known!r}"
        return None


DEADLINE_SECONDS: Final = 5.0
"""How much an approval may expire too early: a node learns the store's time by its heartbeats."""

LATE_SECONDS: Final = 2 * WORLD_LEASE_SECONDS
"""How old the time of a step may be: its node may have stood still before it."""

OVERDUE_SECONDS: Final = 30.0
"""Calm virtual time after which an expired approval must be decided."""


@frozen
class _Deadline:
    """A deadline on the store's clock, when it was set, and the lead of its node's clock then, with its bounds."""

    seconds: float
    since: float
    lead: float
    low: float
    high: float


@define(eq=False)
class Approvals(Checker):
    """A call that needs approval runs once, on one node, and with the arguments that were approved. A pending one expires in time, by the store's clock.

    A node keeps the time that it waits. So a deadline may also pass by the time that the store had before a step of its clock.
    """

    name = "approvals"
    kinds: ClassVar[frozenset[LineKind]] = frozenset({"step", "effect", "tool"})
    # Digest, or None while it is not approved.
    _shown: dict[LineKey, str | None] = field(init=False, factory=dict)
    _ran: dict[LineKey, str] = field(init=False, factory=dict)
    _due: dict[LineKey, _Deadline] = field(init=False, factory=dict)
    _set: dict[LineKey, _Deadline] = field(init=False, factory=dict)

    def judge(self, line: LogLine) -> str | None:
        if isinstance(line.facts, SessionStep):  # its record may become durable much later
            for event in line.facts.events:
                if isinstance(event, ApprovalRequired) and event.approval.expires_at_ms is not None:
                    lead = event.approval.requested_at_ms / 1000 - line.at
                    until = event.approval.expires_at_ms / 1000
                    set_to = _Deadline(until, line.at, lead, *self.eye.lead_of_nodes(lead))
                    self._set[line.session, event.approval.call_id] = set_to
        for session, step in self.eye.steps:
            for event in step.events:
                if isinstance(event, ApprovalRequired):
                    said = self._begin((session, event.approval.call_id))
                    if said is not None:
                        return f"{session}: {event.approval.call_id} {said}"
                elif isinstance(event, ApprovalResolved):
                    digest = event.approval.arguments_hash if event.status == "approved" else None
                    self._shown[session, event.approval.call_id] = digest
                    due = self._due.pop((session, event.approval.call_id), None)
                    early = 0.0 if due is None else due.seconds - line.at - max(self._leads(due))
                    if event.status == "timeout" and early > DEADLINE_SECONDS:
                        return f"{session}: {event.approval.call_id} expires {early:.0f} s too early"
        run = line.facts
        if not isinstance(run, RunTool | LedgerEntry):
            return None
        key = (line.session, run.call_id)
        said = f"{line.session}: {run.call_id} runs at {line.place}"
        if key in self._shown and self._shown[key] is None:
            return f"{said}, and is not approved"
        if self._shown.get(key) not in (None, run.arguments_hash) and run.arguments_hash:
            return f"{said} with other arguments than those that were approved"
        if isinstance(run, RunTool):
            before = self._ran.setdefault((line.session, run.effect_id), line.place)
            if before != line.place or self._ran.get((line.session, f"{run.effect_id}/ran")):
                return f"{said} as {run.effect_id}, which ran at {before}"
            self._ran[line.session, f"{run.effect_id}/ran"] = line.place
        return None

    def _begin(self, call: LineKey) -> str | None:
        self._shown[call] = None
        due = self._set.pop(call, None)
        if due is None:
            return None
        self._due[call] = due
        is_right = due.low - LATE_SECONDS <= due.lead <= due.high + DEADLINE_SECONDS
        return None if is_right else f"has a deadline that is off by {due.lead - due.high:.0f} s"

    def _leads(self, due: _Deadline) -> list[float]:
        return [due.low, due.high, *(lead for at, lead in self.eye.clock if at > due.since)]

    def finish(self) -> Iterator[str]:
        """Return approvals that are still pending after their deadline."""
        given_up = {one for one, journal in self.eye.journals.items() if journal.is_given_up}
        for (session, call), due in self._due.items():
            passed = due.seconds - min(self._leads(due))
            seconds = self.eye.now - max(passed, self.eye.calm_at or self.eye.now)
            if seconds > OVERDUE_SECONDS and session not in self.eye.lost and session not in given_up:
                yield f"{session}: {call} has not expired, {seconds:.0f} s after its deadline"


_Stopped: TypeAlias = tuple[int, Mapping[CallId, str]]
"""The number of the last effect before an abort, and the names of the calls that it stopped."""

_NOTHING: Final[_Stopped] = (0, {})


@define(eq=False)
class Receipts(Checker):
    """After the receipt of an abort, nothing of its turn acts on any node, except what the receipt names."""

    name = "abort receipts"
    kinds: ClassVar[frozenset[LineKind]] = frozenset({"effect", "tool"})
    _aborted: dict[str, _Stopped] = field(init=False, factory=dict)
    _over: dict[str, _Stopped] = field(init=False, factory=dict)

    def judge(self, line: LogLine) -> str | None:
        for session, step in self.eye.steps:
            self._note(session, step)
        minted, calls = self._over.get(line.session, _NOTHING)
        what, said = line.facts, f"{line.session}: after the receipt of its abort"
        if isinstance(what, RunTool) and what.call_id in calls:
            return f"{said}, {what.call_id} begins at {line.place}"
        if isinstance(what, StartStream) and int(what.request.attempt[1:]) <= minted:
            return f"{said}, request {what.request.attempt} is sent by {line.place}"
        if isinstance(what, LedgerEntry) and what.call_id in calls:
            journal = self.eye.journals.get(line.session)
            # No lease excludes a stall between the decision and the effect: 9.5.3. A system that compares epochs refuses it.
            if journal is None or what.fence[1] in (0, journal.epoch):
                return f"{said}, {what.tool} acts for {what.call_id} at {line.place}"
        return None

    def _note(self, session: str, step: SessionStep) -> None:
        events = step.events
        if isinstance(step.signal, AbortCycle) and any(isinstance(event, AgentAbort) for event in events):
            stopped = {
                one.call.call_id: one.call.name
                for one in (*step.before.data.batch, *step.before.data.survivors)
            }
            for spared in step.after.data.survivors:
                stopped.pop(spared.call.call_id, None)
            # Prompts that waited may begin in the same step, with ids that are minted in it.
            self._aborted[session] = (
                step.before.data.minted,
                {**self._aborted.get(session, _NOTHING)[1], **stopped},
            )
        for event in events:
            if isinstance(event, AbortSettled) and session in self._aborted:
                minted, gone = self._aborted.pop(session)
                named = {one.name for one in (*event.receipt.stuck, *event.receipt.abandoned)}
                over = {
                    one: name
                    for one, name in gone.items()
                    if name not in named and one not in event.receipt.survivors
                }
                self._over[session] = minted, {**self._over.get(session, _NOTHING)[1], **over}


PATIENCE_OF_STOPS: Final = 1.0
"""Virtual time after which an effect that stops work must have left, whether or not the store answers."""


@define(eq=False)
class Stops(Checker):
    """What stops work leaves its node at once, also if the session is put to rest. Only a node that stands still is late."""

    name = "stops"
    kinds: ClassVar[frozenset[LineKind]] = frozenset({"step", "effect", "node"})
    _due: dict[int, tuple[LogLine, Any]] = field(init=False, factory=dict)

    def judge(self, line: LogLine) -> str | None:
        facts = line.facts
        if isinstance(facts, NodeChange):
            self._due = {key: due for key, due in self._due.items() if due[0].place != line.place}
        elif line.kind == "effect":
            self._due.pop(id(facts), None)
        elif isinstance(facts, SessionStep) and not facts.after.ended:
            self._due |= {id(one): (line, one) for one in facts.effects if type(one) in STOPS_WORK}
        for session in (one.session for one in self.eye.taken):
            self._due = {key: due for key, due in self._due.items() if due[0].session != session}
        late = next(iter(self._due.values()), None)
        if late is None or line.at - late[0].at <= PATIENCE_OF_STOPS:
            return None
        return f"{late[0].session}: {type(late[1]).__name__} of {late[0].at:.3f} has not left {late[0].place}"


@define(eq=False)
class Budgets(Checker):
    """What is spent and reserved fits the limit, over all owners of a session together, and a child gets what its parent has reserved."""

    name = "budgets"
    kinds: ClassVar[frozenset[LineKind]] = frozenset({"step", "effect"})
    _ledgers: dict[str, Ledger] = field(init=False, factory=dict)
    _out: dict[str, dict[str, Bound]] = field(init=False, factory=dict)
    _lent: dict[str, list[Any]] = field(init=False, factory=dict)

    def judge(self, line: LogLine) -> str | None:
        what, session = line.facts, line.session
        if isinstance(what, SessionStep):
            spent = what.signal.spent if isinstance(what.signal, ToolFinished) else None
            grown = what.after.data.usage.total - what.before.data.usage.total
            if spent is not None and grown not in (0, spent.usage.total):
                return (
                    f"{session}: a child used {spent.usage.total} tokens, of which its parent counts {grown}"
                )
            was, now = what.before.data.ledger, what.after.data.ledger
            if was is not None and now is not None and was.open is not now.open:
                held = dict(now.open)
                for reservation, _ in was.open:
                    if reservation not in held:
                        self._out.get(session, {}).pop(reservation, None)
            # The effects of a late owner never leave, and its ledger is out of date.
            is_late = self.eye.is_late(session, line.place)
            return None if now is None or is_late else self._judge_step(session, what, now)
        if line.kind == "effect" and isinstance(what, StartStream) and session in self._ledgers:
            name = f"{session}/{what.request.attempt}"
            bound = dict(self._ledgers[session].open).get(name)  # type: ignore[call-overload]
            if bound is not None:
                self._out.setdefault(session, {})[name] = bound
        return None

    def _judge_step(self, session: str, step: SessionStep, ledger: Ledger) -> str | None:
        before = self._ledgers.get(session)
        self._ledgers[session] = ledger
        path, own = step.after.data.config.path, step.after.data.config.budget
        lent = self._lent.get(path[-2], []) if len(path) > 1 else []
        if before is None and lent and own is not None and own not in lent:
            return f"{session}: its budget {own} was not lent by {path[-2]}"
        for effect in step.effects:
            if isinstance(effect, SpawnChild | StartAgent) and effect.budget is not None:
                self._lent.setdefault(session, []).append(effect.budget)
        spends = StartStream | SpawnChild | StartAgent | PromptAgent
        if not any(isinstance(effect, spends) for effect in step.effects):
            return None
        reserved = {**self._out.get(session, {}), **{str(name): bound for name, bound in ledger.open}}
        tokens = ledger.spent_tokens + sum(bound.tokens for bound in reserved.values())
        cost = ledger.spent_nano_usd + sum(bound.nano_usd for bound in reserved.values())
        limit, most = ledger.budget.max_total_tokens, ledger.budget.max_cost_usd
        if limit is not None and tokens > limit:
            return f"{session}: {tokens} tokens are spent and reserved, of {limit}"
        if most is not None and cost > round(most * 1e9):
            return f"{session}: ${cost / 1e9:.6f} are spent and reserved, of ${most:.6f}"
        return None


# --- the calm end

_MESSAGES: Final = (PromptReceived, PromptQueued, SteeringReceived)
_OPENS: Final = frozenset({PromptReceived, PromptQueued})
_ENDS: Final = TERMINAL | {PromptDropped, PromptRejected, PromptTaken}
MAX_PER_SECOND: Final = 1_000
MAX_IDLE_STEPS: Final = 100


@define(eq=False)
class Liveness(Checker):
    """At the calm end everything accepted has ended, every caller is answered, every outbox is empty, and nothing spins."""

    name = "liveness"
    kinds: ClassVar[frozenset[LineKind]] = frozenset({"person", "event", "step", "store", "node", "note"})
    # What, session, name: since when.
    _due: dict[tuple[str, str, str], float] = field(init=False, factory=dict)
    _asked: dict[str, tuple[str, str, str]] = field(init=False, factory=dict)
    # Sessions that publish no more, with the place.
    _silent: set[tuple[str, str]] = field(init=False, factory=set)
    _suspended: dict[str, bool] = field(init=False, factory=dict)
    _counts: dict[LineKey, tuple[int, int]] = field(init=False, factory=dict)
    _idle: dict[str, int] = field(init=False, factory=dict)

    def judge(self, line: LogLine) -> str | None:
        facts, session = line.facts, line.session
        for one, step in self.eye.steps:
            self._note(one, line, step)
        if isinstance(facts, CallAsked):
            self._due["no answer to", session, f"{facts.id} ({facts.request})"] = line.at
            if facts.key:  # since it was first sent, however often it was refused and sent again
                name = f"{line.place} ({facts.request} {facts.key})"
                self._asked[facts.id] = ("no final answer to", session, name)
                self._due.setdefault(self._asked[facts.id], line.at)
        elif isinstance(facts, CallAnswered):
            asked = self._asked.get(facts.id)
            if asked is not None and facts.is_final:
                self._due.pop(asked, None)
            for key in [
                key for key in self._due if key[0] == "no answer to" and key[2].startswith(f"{facts.id} ")
            ]:
                del self._due[key]
        elif line.kind == "event":
            self._due.pop(("not published:", session, f"{facts.meta.seq} at {line.place}"), None)
        elif isinstance(facts, Closed):
            self._note_end(session, line)
        if isinstance(facts, NodeChange) or self.eye.taken:
            gone = line.place if isinstance(facts, NodeChange) and facts.action in GONE else None
            # With the ended children below, which a takeover leaves as they are.
            taken = tuple([f"{one.session}." for one in self.eye.taken])
            for key in [key for key in self._due if key[0] == "not published:"]:
                if f"{key[1]}.".startswith(taken) or key[2].endswith(f" at {gone}"):
                    del self._due[key]
        return self._judge_speed(line) if isinstance(facts, SessionStep | StoreCall) else None

    def _note_end(self, session: str, line: LogLine) -> None:
        """A session that ends while the store is silent publishes no more: its readers find the rest in the store."""
        what, place = ("not published:", session), f" at {line.place}"
        waiting = [key for key in self._due if key[:2] == what and key[2].endswith(place)]
        since = min([self.eye.waits_since(session, line.place), *[self._due[key] for key in waiting]])
        if line.at - since > STORE_PATIENCE_SECONDS:
            self._silent.add((session, line.place))
            for key in waiting:
                del self._due[key]

    def _note(self, session: str, line: LogLine, step: SessionStep) -> None:
        event: Any
        if isinstance(step.signal, Recovered):
            self._silent.discard((session, line.place))
        for event in step.events:
            if event.meta.ephemeral:
                continue
            if (session, line.place) not in self._silent:
                self._due["not published:", session, f"{event.meta.seq} at {line.place}"] = line.at
            if type(event) in _OPENS:
                self._due["not ended:", session, event.ref] = line.at
            elif type(event) in _ENDS:
                self._due.pop(("not ended:", session, str(event.ref)), None)
        self._suspended[session] = bool(step.after.data.interactions)

    def _judge_speed(self, line: LogLine) -> str | None:
        key = (line.place, line.session if line.kind == "step" else line.facts.name)
        second, count = self._counts.get(key, (-1, 0))
        count = count + 1 if second == int(line.at) else 1
        self._counts[key] = int(line.at), count
        if line.kind == "step":
            is_idle = line.facts.before is line.facts.after and not line.facts.effects
            self._idle[key[1]] = self._idle.get(key[1], 0) + 1 if is_idle else 0
            if self._idle[key[1]] > MAX_IDLE_STEPS:
                return f"{key[1]} spins: {MAX_IDLE_STEPS} steps in a row without progress"
        return f"{key[0]} spins: {count} times {key[1]} in one second" if count > MAX_PER_SECOND else None

    def finish(self) -> Iterator[str]:
        """Return overdue answers and events, if the calm end was long enough."""
        if self.eye.calm_at is None:
            return
        for session, journal in self.eye.journals.items():
            if journal.is_working and not self.eye.is_owned(session):
                self._due["without owner, but with work:", session, ""] = journal.changed_at
        may_stay_open = {one for one, is_suspended in self._suspended.items() if is_suspended}
        may_stay_open |= {one for one, journal in self.eye.journals.items() if journal.is_given_up}
        for (what, session, name), since in self._due.items():
            is_excused = session in self.eye.lost or (what == "not ended:" and session in may_stay_open)
            seconds = self.eye.now - max(since, self.eye.calm_at)
            if seconds > PATIENCE_SECONDS and not is_excused:
                yield f"{session}: {what} {name} for {seconds:.0f} calm seconds".replace("  ", " ")


@define(eq=False)
class MessagesOnce(Checker):
    """A message that is sent again with its `client_id`, to whatever node, is accepted once."""

    name = "one prompt for each client_id"
    _refs: dict[tuple[str, str], str] = field(init=False, factory=dict)

    def judge(self, line: LogLine) -> str | None:
        for session, step in self.eye.steps:
            name, ref = getattr(step.signal, "client_id", None), getattr(step.signal, "ref", None)
            for event in step.events if name else ():
                is_refused = isinstance(event, SteeringReceived) and event.status == "rejected_full"
                # A prompt that ends a suspended cycle can queue other messages in its step, such as steers or the news of an agent.
                if isinstance(event, _MESSAGES) and not is_refused and event.ref == ref:
                    first = self._refs.setdefault((session, str(name)), event.ref)
                    if first != event.ref:
                        return f"{session}: message {name} was accepted twice, as {first} and {event.ref}"
        return None


class Promises(Checker):
    """The promises of `agentrail.testing.promises`, over each step of each session."""

    name = "promises of each step"
    kinds: ClassVar[frozenset[LineKind]] = frozenset({"step"})

    def judge(self, line: LogLine) -> str | None:
        step = line.facts
        if not isinstance(step, SessionStep):
            return None
        for promise in _promises_about(step):
            try:
                promise(step)
            except AssertionError as error:
                said = (promise.__doc__ or "").split("\n", 1)[0]
                return (
                    f"{line.session}: {type(step.signal).__name__} breaks {promise.__name__} ({said}) {error}"
                )
        return None


_OF_CHUNKS: Final = (
    conversation.people_see_what_is_said_without_tags,
    conversation.event_numbers_are_dense,
    state_promises.steps_follow_the_table,
)
_WAITING: Final = ("queue", "held", "steers", "cycle.ref")
_CALLS: Final = ("batch", "survivors", "interactions")
_OF_FIELDS: Final[Mapping[Callable[[observed_step.Seen], None], tuple[str, ...]]] = MappingProxyType(
    {
        conversation.history_only_grows: ("history",),
        conversation.tool_events_come_in_pairs: _CALLS,
        state_promises.agents_are_as_written: ("agents", "acting"),
        state_promises.owners_are_as_written: (*_CALLS, "open", "stream", "held"),
        state_promises.calls_are_as_written: _CALLS,
        effect_promises.tools_run_once_and_only_from_waiting: _CALLS,
        effect_promises.effect_ids_are_new: ("open", "minted"),
        effect_promises.nothing_started_is_forgotten: ("open", "minted"),
        callers.prompts_are_never_lost: _WAITING,
        callers.steers_are_never_lost: _WAITING,
        callers.what_a_prompt_came_with_goes_with_it: _WAITING,
        callers.callers_are_answered_once: (*_WAITING, *_CALLS, "teardown", "wishes", "stoppers"),
    }
)
"""Promises about these fields: asked when one of them changed, and about each signal with a caller."""

_NAMED: Final = tuple(sorted({name for names in _OF_FIELDS.values() for name in names} - {"cycle.ref"}))

_OF_REQUESTS: Final = (effect_promises.requests_have_the_context_of_their_turn,)
_OF_SOME_REQUESTS: Final = (
    conversation.requests_are_of_a_closed_history,
    conversation.requests_speak_every_dialect,
    conversation.history_is_valid,
)
"""Promises that read the whole conversation: asked at one request of sixteen, since it only grows between."""

_ALWAYS: Final = tuple(
    one
    for one in PROMISES
    # `FoldEqualsLife` repeats each step from its bytes.
    if one
    not in (*_OF_FIELDS, *_OF_REQUESTS, *_OF_SOME_REQUESTS, state_promises.the_same_again_gives_the_same)
)


def _promises_about(step: SessionStep) -> Iterator[Callable[[observed_step.Seen], None]]:
    if isinstance(step.signal, ChunksArrived):
        yield from _OF_CHUNKS
        return
    yield from _ALWAYS
    was, now, is_asked = step.before.data, step.after.data, isinstance(step.signal, Asked)
    changed = {name for name in _NAMED if getattr(was, name) is not getattr(now, name)}
    if getattr(was.cycle, "ref", None) != getattr(now.cycle, "ref", None):
        changed.add("cycle.ref")
    for promise, fields in _OF_FIELDS.items():
        if is_asked or not changed.isdisjoint(fields):
            yield promise
    for effect in step.effects:
        if isinstance(effect, StartStream):
            yield from _OF_REQUESTS
            # Drawn by its name: sessions that do the same have requests with the same numbers.
            if crc32(f"{now.config.session_id}/{effect.request.attempt}".encode()) % 16 == 0:
                yield from _OF_SOME_REQUESTS


@define(eq=False)
class Acknowledgements(Checker):
    """What users are told fits one order of their calls: each message, approval and question is a register that is set once.

    For such a register the search of Wing and Gong has a closed form, whatever the length of the window: see `_fits_one_order`.
    """

    name = "linearizable acknowledgements"
    kinds: ClassVar[frozenset[LineKind]] = frozenset({"person"})
    _registers: "dict[LineKey, list[_Call]]" = field(init=False, factory=dict)
    _open: "dict[str, tuple[LineKey, _Call]]" = field(init=False, factory=dict)

    def judge(self, line: LogLine) -> str | None:
        facts = line.facts
        if isinstance(facts, CallAsked) and facts.key and facts.request in _REGISTERED:
            key = line.session, facts.key
            call = _Call(line.at, facts.request, facts.user or line.place)
            self._registers.setdefault(key, []).append(call)
            self._open[facts.id] = key, call
        elif isinstance(facts, CallAnswered) and facts.id in self._open:
            key, call = self._open.pop(facts.id)
            if facts.outcome == "unknown":
                return None  # it may take effect at any time
            call.answered_at, call.is_repeated = line.at, facts.is_repeated
            call.sets = facts.outcome == "ok"
            if call.sets:
                call.shows = call.decides or facts.says
            elif facts.code == "already_resolved" and getattr(facts.value, "by", "user") in {
                "user",
                "client",
            }:
                call.shows = facts.says
                # A node may have passed it on again, after the owner that it asked first was lost. Clients have no user.
                by, user = getattr(facts.value, "by", ""), getattr(facts.value, "user", None)
                own = (by == "client" or user == call.user) and facts.says == call.decides
                call.sets = call.is_repeated = own
            if not _fits_one_order(self._registers[key]):
                said = facts.says or facts.code
                return f"{key[0]}: no order of the calls about {key[1]} explains the answer {said!r} to {facts.id}"
        return None


_SENDS: Final = frozenset({"prompt", "steer"})
_DECIDES: Final = MappingProxyType(
    {"approve": "approved", "reject": "rejected", "answer": "approved", "decline": "rejected"}
)
"""The status of a decision, as in `AlreadyResolved.status`."""

_REGISTERED: Final = _SENDS | {"receipt", *_DECIDES}


@define(eq=False)
class _Call:
    asked_at: float
    request: str
    user: str
    answered_at: float = float("inf")
    shows: str | None = None
    """The value of the register that its answer shows. Empty: it is not set. None: it shows nothing."""
    sets: bool = True
    """Whether it may have set the register."""
    is_repeated: bool = False
    """Whether it may have been sent twice, so that its answer also fits another call that decided the same."""

    @property
    def decides(self) -> str:
        return _DECIDES.get(self.request, "")


def _fits_one_order(calls: list[_Call]) -> bool:
    """Whether one call could have set the register after all calls that show it empty began, and before all that show its value ended."""
    full, empty = [one for one in calls if one.shows], [one for one in calls if one.shows == ""]
    if not full:
        return True
    value = full[0].shows
    decided = [one for one in full if one.sets and one.decides and not one.is_repeated]
    if any(one.shows != value for one in full) or len(decided) > 1:
        return False
    if any(early.asked_at >= late.answered_at for early in empty for late in full):
        return False
    return any(
        all(one.asked_at <= late.answered_at for late in full)
        and all(early.asked_at <= one.answered_at for early in empty)
        for one in decided
        or [one for one in calls if one.sets and (one.request in _SENDS or one.decides == value)]
    )


class NoBugs(Checker):
    """No call fails for a reason that no caller can do anything about: an exception that a gateway did not expect."""

    name = "no bug is logged"
    kinds: ClassVar[frozenset[LineKind]] = frozenset({"log"})

    def judge(self, line: LogLine) -> str | None:
        is_bug = isinstance(line.facts, Logged) and line.facts.is_error and _BUG.match(line.said)
        return line.said if is_bug else None


_BUG: Final = re.compile(
    r"logs: (call \S+ failed \(|a stream of session |a response of session |watched rows of )"
)


CHECKERS: Final[tuple[type[Checker], ...]] = (
    Promises,
    Fences,
    Ledgers,
    Acknowledgements,
    GapFree,
    Approvals,
    Budgets,
    Receipts,
    Stops,
    Liveness,
    MessagesOnce,
    NoBugs,
)


def standard_checkers(world: Any) -> tuple[Checker, ...]:
    """Return a judge for each kind of promise. One session in four is folded again, drawn by the seed."""
    eye, tape = GodsEye(), world.tape
    shadow = FoldEqualsLife(eye, lambda session: tape.generator(f"shadow/{session}").random() < SHADOWED)
    return (*(kind(eye) for kind in CHECKERS), shadow)
