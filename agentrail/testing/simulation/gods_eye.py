"""The truth of a simulated life, computed from its log: who owns a session, and which of its steps are durable. And what a checker is."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import inf
from typing import Any, ClassVar, Final, TypeAlias

from attrs import define, field

from agentrail.abc.store import StoredSession, Taken
from agentrail.core.journal.record import CLOSED, Record
from agentrail.core.journal.recorder import closed_draft
from agentrail.runtime.session_resume import NOT_AWAITED
from agentrail.testing.simulation.facts import WORLD_LEASE_SECONDS, Calm, NodeChange, SessionStep, StoreCall
from agentrail.testing.simulation.log import LineKind, LogLine

LineKey: TypeAlias = tuple[str, str]
"""A session, and something of it: a place, a call, a reader."""

GONE: Final = frozenset({"killed", "left", "failed"})
"""Changes after which a node no longer lives."""

_NOT_AWAITED: Final = closed_draft(NOT_AWAITED, at_ms=0, events=0).body

STALE_SECONDS: Final = 4 * WORLD_LEASE_SECONDS
"""Time in which each node that keeps its sessions has learned of a step of the store's clock."""


@define(eq=False)
class JournalView:
    """The store's view of one session."""

    root: str = ""
    epoch: int = 0
    node: str = ""
    place: str = ""
    """Place of the last owner, also after a release."""
    seq: int = 0
    events: int = 0
    events_of_the_last: int = 0
    """Number of the last event of the owner before this one."""
    taken_at: float = 0.0
    changed_at: float = 0.0
    is_working: bool = False
    is_given_up: bool = False
    """Whether a takeover closed it because its parent no longer waits for it. What was open in it stays open."""


class GodsEye:
    """The actual owner of each session, and its durable steps, computed from the lines. All checkers of a life share one.

    Attributes:
        journals: By session.
        steps: Steps that this line made durable, each with its session.
        records: Records that this line made durable.
        taken: Sessions that got another owner with this line.
        fault: What the store itself did wrong in this line.
        lost: Sessions of which the store lost records, or that have the id of a deleted one. Nothing more is judged about them.
        calm_at: When all faults ended.
        now: Time of this line.
        line: The line that it looked at last.
        clock: Each change of the store's clock, with its lead over the log's time from then on, as told to the first node.
        is_news: Whether this line changed the steps, the records, the owners or the fault.
    """

    def __init__(self) -> None:
        self.journals: dict[str, JournalView] = {}
        self.steps: list[tuple[str, SessionStep]] = []
        self.records: list[Record] = []
        self.blobs: Mapping[str, bytes] = {}
        self.taken: tuple[StoredSession, ...] = ()
        self.fault: str | None = None
        self.lost: dict[str, None] = {}
        self._deleted: dict[str, None] = {}
        self.calm_at: float | None = None
        self.now: float = 0.0
        self.line: LogLine | None = None
        self.clock: list[tuple[float, float]] = []
        self.is_news: bool = False
        self._places: dict[str, str] = {}
        self._nodes: dict[str, str] = {}  # the newest at each place that lives
        self._seen: dict[str, float] = {}  # the last heartbeat of each node that was not reported gone
        self._waiting: dict[LineKey, list[tuple[int, SessionStep, float]]] = {}
        self._void: dict[LineKey, list[SessionStep]] = {}
        # Of ended processes, by session: a call that failed may have stored their records nevertheless.
        self._unsure: dict[str, list[tuple[int, SessionStep, float]]] = {}

    def look(self, line: LogLine) -> None:
        self.line, self.now = line, line.at
        if self.is_news:
            self.steps, self.records, self.blobs, self.taken, self.fault = [], [], {}, (), None
            self.is_news = False
        facts = line.facts
        if isinstance(facts, SessionStep):
            self._step(line.place, line.session, facts)
            self.is_news = bool(self.steps)
        elif isinstance(facts, StoreCall):
            if facts.is_executed and not isinstance(facts.answer, BaseException):
                self._execute(line.place, facts.name, facts.arguments, facts.answer)
            if self.lost:
                self.steps = [one for one in self.steps if one[0] not in self.lost]
                self.records = [one for one in self.records if one.session not in self.lost]
            self.is_news = bool(self.steps or self.records or self.taken or self.fault)
        elif isinstance(facts, Calm):
            self.calm_at = line.at
        elif isinstance(facts, NodeChange) and facts.action in GONE:
            self._nodes.pop(line.place, None)  # a request that it sent may still be executed

    def place_of(self, session: str) -> str:
        """Return the place of a session's owner. Empty for none."""
        journal = self.journals.get(session)
        return "" if journal is None else self._places.get(journal.node, "")

    @property
    def has_one_place(self) -> bool:
        """Whether only one place has ever used the store."""
        return len(set(self._places.values())) == 1

    def is_owned(self, session: str) -> bool:
        """Whether the owner of a session lives."""
        node = self.journals[session].node
        return bool(node) and self._nodes.get(self._places.get(node, "")) == node

    def lead_of_nodes(self, own: float) -> tuple[float, float]:
        """Return bounds of the lead that the nodes' clocks have over the log's time. Without a shared store, a node has its own.

        They follow the store's clock. After a step forward some follow late, and after one back they run at half speed.
        """
        low = high = self.clock[-1][1] if self.clock else own
        for (_, before), (at, _) in pairwise(self.clock):
            since = self.now - at - STALE_SECONDS
            low, high = min(low, before if since < 0 else low), max(high, before - max(since, 0.0) / 2)
        return low, high

    def is_late(self, session: str, place: str) -> bool:
        """Whether another node has taken a session from this place, which may not know it yet."""
        return session in self.journals and self.journals[session].place not in {"", place}

    def waits(self, session: str, place: str, effect: object) -> bool:
        """Whether an effect belongs to a step that is not durable yet."""
        waiting = self._waiting.get((session, place), ())
        return any(one is effect for _, step, _ in waiting for one in step.effects)

    def waits_since(self, session: str, place: str) -> float:
        """Return when the oldest step was made that is not durable yet. Infinity for none."""
        waiting = self._waiting.get((session, place))
        return waiting[0][2] if waiting else inf

    def is_void(self, session: str, place: str, effect: object) -> bool:
        """Whether an effect belongs to a step that never became durable, because another node took the session."""
        return any(one is effect for step in self._void.get((session, place), ()) for one in step.effects)

    def _step(self, place: str, session: str, step: SessionStep) -> None:
        journal, key = self.journals.get(session), (session, place)
        waiting = self._waiting.setdefault(key, [])
        if self.is_late(session, place):
            if step.record or self._void.get(key):  # a query tells what was durable before the take
                self._void.setdefault(key, []).append(step)
        elif journal is None or step.record > journal.seq or waiting:
            waiting.append((step.record or (waiting[-1][0] if waiting else 0), step, self.now))
        else:
            self.steps.append((session, step))

    def _execute(self, place: str, name: str, arguments: Mapping[str, Any], answer: Any) -> None:
        if name == "beat":
            self._settle(arguments["node"].id, place)
            self._seen[arguments["node"].id] = self.now
            lead = answer.at_ms / 1000 - self.now
            if not self.clock or abs(lead - self.clock[-1][1]) > 1.0:
                self.clock.append((self.now, lead))
        elif name == "gone":
            self._seen.pop(arguments["node"], None)
        elif name == "create":
            self._create(place, arguments["opening"])
        elif name == "append":
            for append, refusal in zip(arguments["batch"], answer, strict=True):
                if refusal is None:
                    self._append(place, append)
        elif name == "take":
            self._take(place, arguments["node"], answer)
        elif name == "take_many":
            for one, taken in zip(arguments["wanted"], answer, strict=True):
                if isinstance(taken, Taken):
                    self._take(place, one.node, taken)
        elif name == "put_snapshot":
            snapshot, journal = arguments["snapshot"], self.journals.get(arguments["snapshot"].session)
            if journal is not None and snapshot.seq > journal.seq:
                self.fault = f"{place} stores a snapshot of record {snapshot.seq}, which is not durable"
        elif name == "release":
            for session in self._tree(arguments["root"]):
                if self.journals[session].node == arguments["node"]:
                    self.journals[session].node, self.journals[session].changed_at = "", self.now
        elif name == "delete":
            for session in self._tree(arguments["session"]):
                del self.journals[session]
                self._deleted[session] = None
        elif name == "fail_over":
            for call in answer:
                for append in call.arguments.get("batch", ()):
                    self.lost[append.session] = None
                if "opening" in call.arguments:
                    self.lost[call.arguments["opening"].records[0].session] = None
                named = call.arguments.get("session") or call.arguments.get("root") or ""
                self.lost.update(dict.fromkeys(self._tree(named)))

    def _tree(self, root: str) -> list[str]:
        return [session for session, journal in self.journals.items() if journal.root == root]

    def _settle(self, node: str, place: str) -> None:
        if node and node not in self._places:
            self._places[node] = place
            for key in [key for key in self._waiting if key[1] == place]:  # of an earlier process
                waiting = self._waiting.pop(key)
                if key[0] in self.journals and self.journals[key[0]].place == place:
                    self._unsure[key[0]] = waiting
            for key in [key for key in self._void if key[1] == place]:
                del self._void[key]
        if node:
            self._nodes[place] = node

    def _create(self, place: str, opening: Any) -> None:
        session, last = opening.session, opening.records[-1]
        if session in self.journals:
            owner = self.journals[session].node
            if owner not in ("", opening.node):
                self.fault = (
                    f"{place} creates it, although it exists and {self._places.get(owner, owner)} owns it"
                )
            return
        # The numbers and ids of one begin again, and the takeover of a tree is judged with its root.
        if session in self._deleted or opening.root in self.lost:
            self.lost[session] = None
        self._settle(opening.node, place)
        self.journals[session] = JournalView(
            root=opening.root, epoch=last.epoch, node=opening.node, is_working=opening.standing.is_working
        )
        self.journals[session].place = self._places.get(opening.node, "")
        self._grow(place, session, opening.records, opening.blobs)

    def _append(self, place: str, append: Any) -> None:
        journal, first = self.journals.get(append.session), append.records[0]
        if journal is None:
            return
        if first.epoch != journal.epoch:
            said = f"the store accepts record {first.seq} of epoch {first.epoch} from {place}"
            self.fault = f"{said}, although the session has epoch {journal.epoch}"
        journal.is_working, journal.changed_at = append.standing.is_working, self.now
        self._grow(place, append.session, append.records, append.blobs)

    def _grow(self, place: str, session: str, records: Iterable[Record], blobs: Mapping[str, bytes]) -> None:
        journal = self.journals[session]
        for record in records:
            if record.seq <= journal.seq:
                continue  # repeated
            if record.seq != journal.seq + 1:
                self.fault = f"the store accepts record {record.seq} directly after record {journal.seq}"
            journal.seq, journal.events = record.seq, record.events
            journal.is_given_up = record.kind == CLOSED and record.body == _NOT_AWAITED
            self.records.append(record)
        self.blobs = {**self.blobs, **blobs}
        waiting = self._waiting.get((session, place), [])
        while waiting and waiting[0][0] <= journal.seq:
            self.steps.append((session, waiting.pop(0)[1]))

    def _take(self, place: str, node: str, taken: Taken) -> None:
        self._settle(node, place)
        for one in taken.sessions:
            journal = self.journals.setdefault(one.session, JournalView(root=one.root))
            if one.standing.has_ended:
                pass  # it changes its owner without a record
            elif one.tail.epoch <= journal.epoch:
                self.fault = f"the epoch falls from {journal.epoch} to {one.tail.epoch} as {place} takes it"
            elif self._lives(journal.node, node):
                self.fault = f"{place} takes it from a living node, whose lease is not over"
            elif one.tail.seq <= journal.seq:
                self.fault = f"{place} takes {one.tail.seq - 1} records, although {journal.seq} were durable"
            # If no take came between, the records that are there are those of the last owner.
            durable = one.tail.seq - 1 if one.tail.epoch == journal.epoch + 1 else journal.seq
            own = (one.session, journal.place)
            known = [*self._unsure.pop(one.session, ()), *self._waiting.get(own, ())]
            self.steps += [(one.session, step) for seq, step, _ in known if seq <= durable]
            for key in [key for key in self._waiting if key[0] == one.session]:
                waiting = self._waiting.pop(key)
                void = [step for seq, step, _ in waiting if key != own or seq > durable]
                self._void.setdefault(key, []).extend(void)
            self._void.pop((one.session, place), None)  # of the time before: the taker reads the stored state
            journal.epoch, journal.node, journal.seq = one.tail.epoch, node, one.tail.seq
            journal.place = place
            journal.events = journal.events_of_the_last = one.events
            journal.taken_at = journal.changed_at = self.now
            journal.is_working = one.standing.is_working
        self.taken = (*self.taken, *taken.sessions)

    def _lives(self, node: str, taker: str) -> bool:
        """Whether the lease of another node is not over, by the time of the world."""
        is_up = self._nodes.get(self._places.get(node, "")) == node
        return is_up and node != taker and self.now - self._seen.get(node, -inf) < WORLD_LEASE_SECONDS


@define(eq=False)
class Checker:
    """A judge.

    Attributes:
        name: The promise that it holds.
        eye: The view of the life, which it may share with other judges.
        kinds: Kinds of lines that it reads. It also reads each line that makes a step or a record durable, or changes an owner.
    """

    name: ClassVar[str] = ""
    kinds: ClassVar[frozenset[LineKind]] = frozenset()

    eye: GodsEye = field(factory=GodsEye)

    def see(self, line: LogLine) -> str | None:
        """Return which promise a line breaks, as a sentence. None: it breaks none."""
        eye = self.eye
        if line is not eye.line:
            eye.look(line)
        if line.session in eye.lost or not (line.kind in self.kinds or eye.is_news):
            return None
        return self.judge(line)

    def judge(self, line: LogLine) -> str | None:
        raise NotImplementedError

    def finish(self) -> Iterable[str]:
        """Return the promises that the whole life broke."""
        return ()
