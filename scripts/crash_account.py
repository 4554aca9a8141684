"""What a killed process was asked for, what it was told, and whether what is there afterwards fits both. No process enters."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec
from attrs import field, mutable

Line: TypeAlias = tuple[int, int, bytes]
"""A record as far as it counts here: number, epoch, hash."""


class Tries(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Said before records of one session are written, all or none of them: an opening or an append.

    Attributes:
        group: A number that no other has.
        session: Whose.
        lines: Which.
        blob: The digest of the large value that comes with them; empty for none.
    """

    group: int
    session: str
    lines: tuple[Line, ...]
    blob: str = ""


class Durable(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Said when groups are durable."""

    groups: tuple[int, ...]


class Takes(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Said before a tree is taken."""

    node: str
    root: str


class Took(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Said when it was: the `taken` record of one session."""

    session: str
    line: Line


class Drops(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Said before records of a session are dropped; before a number, or with its whole tree where it is 0."""

    session: str
    root: str
    before: int = 0


class Dropped(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Said when they are."""

    session: str
    before: int = 0


class Ran(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """An entry in the ledger of a tool: said in the moment in which it acts on the world.

    Attributes:
        session: Which called it.
        operation: Its id, which is that of the call whatever happens.
        effect_class: `once` or `idempotent`.
    """

    session: str
    operation: str
    effect_class: str


class Found(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """What is there of one session, as the next process finds it.

    Attributes:
        session: Which.
        root: Of its tree.
        first: The first number that is there.
        lines: Its records.
        takers: Which node wrote each `taken` record, by its number.
        operations: The calls of tools that a durable record names, and how often a record gives their outcome.
        title: What is said of how it stands: the number of the last record of an append.
        broken: The first number whose hash does not fit; 0 for none.
        lacks: Digests of large values that records name and that are not there.
    """

    session: str
    root: str
    first: int
    lines: tuple[Line, ...]
    takers: dict[int, str]
    operations: dict[str, int]
    title: str
    broken: int
    lacks: tuple[str, ...]


class Asks(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Said before a session is prompted."""

    session: str
    text: str


class Asked(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Said when the receipt came."""

    session: str
    text: str


class Remembers(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The prompts in the conversation of a session that came back, and that rests."""

    session: str
    texts: tuple[str, ...]


class Looked(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Said when each session that is there was said, and nothing was done yet."""


class Ready(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Said when all that was found was said, and the process begins to work."""


class Failed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Said by a process that ends by itself, which none should."""

    why: str


Frame: TypeAlias = (
    Tries
    | Durable
    | Takes
    | Took
    | Drops
    | Dropped
    | Ran
    | Found
    | Asks
    | Asked
    | Remembers
    | Looked
    | Ready
    | Failed
)

MAX_NAMED: Final = 5


class Lost(AssertionError):
    """A promise was broken; the message says which, and by what."""


@mutable
class Account:
    """Of one store: what was tried, what was acknowledged, and what the tools of it did.

    Attributes:
        attempted: Groups by their number.
        durable: The groups that were acknowledged.
        ran: How often each operation of a tool acted, with its session and effect class.
        recovered: How many records the last process found.
    """

    attempted: dict[int, Tries] = field(factory=dict)
    durable: set[int] = field(factory=set)
    taken: dict[tuple[str, int], Line] = field(factory=dict)
    takers: set[tuple[str, str]] = field(factory=set)
    trimmed_to: dict[str, int] = field(factory=dict)
    trims: Counter[str] = field(factory=Counter)
    doomed: dict[str, str] = field(factory=dict)
    deleted: set[str] = field(factory=set)
    ran: Counter[tuple[str, str, str]] = field(factory=Counter)
    epochs: dict[str, int] = field(factory=dict)
    asked: dict[str, str] = field(factory=dict)
    receipts: set[str] = field(factory=set)
    remembered: dict[str, tuple[str, ...]] = field(factory=dict)
    recovered: int = 0

    def hear(self, frame: Frame) -> None:
        """Take down what a process says, in the order in which it says it.

        Raises:
            Lost: It says that it failed, or a tool that must not run twice did.
        """
        match frame:
            case Tries():
                self.attempted[frame.group] = frame
            case Durable():
                self.durable.update(frame.groups)
            case Takes():
                self.takers.add((frame.node, frame.root))
            case Took():
                self.taken[frame.session, frame.line[0]] = frame.line
            case Drops(before=0):
                self.doomed[frame.session] = frame.root
            case Drops():
                self.trims[frame.session] = max(self.trims[frame.session], frame.before)
            case Dropped(before=0):
                self.deleted.add(frame.session)
            case Dropped():
                self.trimmed_to[frame.session] = frame.before
            case Ran():
                self._count(frame)
            case Failed():
                raise Lost(frame.why)
            case Asks():
                self.asked[frame.text] = frame.session
            case Asked():
                self.receipts.add(frame.text)
            case Remembers():
                self.remembered[frame.session] = frame.texts
            case Found() | Looked() | Ready():
                pass

    def _count(self, ran: Ran) -> None:
        key = (ran.session, ran.operation, ran.effect_class)
        self.ran[key] += 1
        if ran.effect_class == "once" and self.ran[key] > 1:
            message = f"operation {ran.operation} of session {ran.session!r} is `once` and ran {self.ran[key]} times"
            raise Lost(message)

    def check(self, found: Sequence[Found]) -> None:
        """Compare what a process found with all that was said before.

        Args:
            found: Each session that is there.

        Raises:
            Lost: What was acknowledged is not there, or what is there was never attempted, or is there by halves; a journal
                has gaps, a wrong hash, or an epoch that falls; a tool ran without a durable record of its call.
        """
        there = {one.session: one for one in found}
        self.recovered = sum(len(one.lines) for one in found)
        for one in found:
            self._check_journal(one)
        by_session: dict[str, dict[int, Line]] = defaultdict(dict)
        for one in found:
            by_session[one.session] = {line[0]: line for line in one.lines}
        self._check_groups(there, by_session)
        self._check_takeovers(there, by_session)
        _name("sessions that were deleted are there", sorted(self.deleted & there.keys()))
        halves = [one for one, root in self.doomed.items() if (one in there) != (root in there)]
        _name("sessions are there without the others of their tree, or the others without them", halves)
        self._check_ledger(there)

    def check_conversations(self) -> None:
        """Compare what sessions remember with what they were told: each acknowledged prompt is there, once, and no other is.

        Raises:
            Lost: One is lost, there twice, in another session, or was never given.
        """
        there = Counter(text for texts in self.remembered.values() for text in texts)
        _name("prompts have a receipt and are not there", sorted(self.receipts - there.keys()))
        _name("prompts are there that were never given", sorted(there.keys() - self.asked.keys()))
        _name("prompts are there more than once", sorted(text for text, count in there.items() if count > 1))
        for name, texts in self.remembered.items():
            _name(
                f"session {name!r} has prompts of another", [one for one in texts if self.asked[one] != name]
            )
        self.recovered += there.total()
        self.remembered.clear()

    def _check_journal(self, one: Found) -> None:
        name = one.session
        if one.broken:
            message = f"session {name!r}: the hash of record {one.broken} does not fit"
            raise Lost(message)
        numbers = [seq for seq, _, _ in one.lines]
        if numbers != list(range(one.first, one.first + len(numbers))) or not numbers:
            message = f"session {name!r} has gaps: from {one.first} there are {numbers}"
            raise Lost(message)
        epochs = [epoch for _, epoch, _ in one.lines]
        if epochs != sorted(epochs) or epochs[-1] < self.epochs.get(name, 0):
            message = f"session {name!r}: an epoch falls in {epochs}, or below {self.epochs.get(name, 0)}"
            raise Lost(message)
        self.epochs[name] = epochs[-1]
        if one.first > max(1, self.trims[name]) or one.first < self.trimmed_to.get(name, 1):
            message = f"session {name!r} begins at {one.first}, and was trimmed to {self.trimmed_to.get(name, 1)} at least"
            raise Lost(message)
        _name(f"session {name!r} lacks values that its records name", one.lacks)

    def _check_groups(self, there: dict[str, Found], lines: dict[str, dict[int, Line]]) -> None:
        known: dict[str, set[Line]] = defaultdict(set)
        ends: Counter[str] = Counter()
        for group, tried in self.attempted.items():
            known[tried.session].update(tried.lines)
            one = there.get(tried.session)
            if one is None:
                if group in self.durable and tried.session not in self.doomed:
                    message = (
                        f"session {tried.session!r} is not there, and its group {group} was acknowledged"
                    )
                    raise Lost(message)
                continue
            wanted = [line for line in tried.lines if line[0] >= one.first]
            kept = [line for line in wanted if lines[tried.session].get(line[0]) == line]
            if len(kept) not in (0, len(wanted)) or (len(kept) < len(wanted) and group in self.durable):
                state = "acknowledged" if group in self.durable else "attempted"
                message = (
                    f"session {tried.session!r}: of group {group}, {state}, with records {tried.lines[0][0]} to "
                    f"{tried.lines[-1][0]} only {len(kept)} of {len(wanted)} are there"
                )
                raise Lost(message)
            if kept or not wanted:
                ends[tried.session] = max(ends[tried.session], tried.lines[-1][0])
        for name, one in there.items():
            strange = [line[0] for line in one.lines if line not in known[name] and line[0] not in one.takers]
            _name(f"session {name!r} has records that were never attempted", strange)
            if one.title != str(ends[name]):
                message = f"session {name!r} stands as behind {one.title!r}, and its last append ends at {ends[name]}"
                raise Lost(message)

    def _check_takeovers(self, there: dict[str, Found], lines: dict[str, dict[int, Line]]) -> None:
        for (name, seq), line in self.taken.items():
            one = there.get(name)
            is_lost = one is not None and seq >= one.first and lines[name].get(seq) != line
            if is_lost or (one is None and name not in self.doomed):
                message = f"session {name!r}: the takeover at {seq} was acknowledged and is not there"
                raise Lost(message)
        for name, one in there.items():
            strange = [node for node in one.takers.values() if (node, one.root) not in self.takers]
            _name(f"session {name!r} was taken by nodes that never tried to", strange)

    def _check_ledger(self, there: dict[str, Found]) -> None:
        for session, operation, _ in self.ran:
            one = there.get(session)
            if one is not None and one.first == 1 and operation not in one.operations:
                message = f"operation {operation} of session {session!r} ran, and no durable record names it"
                raise Lost(message)
        for one in there.values():
            twice = [operation for operation, outcomes in one.operations.items() if outcomes > 1]
            _name(f"session {one.session!r} has two outcomes of operations", twice)


def _name(what: str, wrong: Iterable[object]) -> None:
    if named := list(wrong):
        message = f"{what}: {', '.join(map(str, named[:MAX_NAMED]))}, {len(named)} in all"
        raise Lost(message)
