"""Stores that are broken on purpose, one way each, under the rule that has to notice."""

# ruff: noqa: D101, D102 - the name says what is wrong; the methods are those of the port

import time
from typing import ClassVar

import msgspec

from agentrail.abc.store import Filters, take_all
from agentrail.core.journal.record import Tail, sealed
from agentrail.errors import AlreadyExists, Fenced, HeldBy, OptionError, SessionNotFound, StillNeeded, Trimmed
from agentrail.stores.memory import MemoryStore
from agentrail.testing.store_rules import (
    durability,
    journal_rules,
    ownership,
    queries,
)

replace = msgspec.structs.replace


class Altered(MemoryStore):
    """Says something else of sessions."""

    def alter(self, one):
        return one

    def get(self, scope, session):
        found = super().get(scope, session)
        return found and self.alter(found)

    def find(self, filters=Filters(), **place):  # noqa: B008 - frozen
        return tuple(map(self.alter, super().find(filters, **place)))


class Misread(MemoryStore):
    """Gives other records."""

    def misread(self, record):
        return record

    def read(self, *arguments):
        return tuple(map(self.misread, super().read(*arguments)))


# --- journals


class DropsOutlines(Misread):
    def misread(self, record):
        return replace(record, does="")


class EndsAtNul(Misread):
    def misread(self, record):
        return replace(record, body=record.body.split(b"\0")[0])


class ReadsAsLatin(Misread):
    def misread(self, record):
        return replace(record, body=record.body.decode("latin-1").encode())


class TellsNoCaseApart(MemoryStore):
    def create(self, opening):
        like = (one.session for one in self.find(Filters(scope=opening.records[0].scope)))
        if any(name.casefold() == opening.root.casefold() and name != opening.root for name in like):
            message = f"there is a session like {opening.root!r}"
            raise AlreadyExists(message)
        super().create(opening)


class EncodesAnew(Misread):
    def misread(self, record):
        try:
            return replace(record, body=msgspec.json.encode(msgspec.json.decode(record.body)))
        except msgspec.DecodeError:
            return record


class KnowsNoLimit(MemoryStore):
    def read(self, scope, session, after=0, limit=1000):
        return super().read(scope, session, after)


class BeginsAtTheNumber(MemoryStore):
    def read(self, scope, session, after=0, limit=1000):
        return super().read(scope, session, max(0, after - 1), limit)


class SaysYes(MemoryStore):
    """Tells each append to be durable."""

    def append(self, batch):
        super().append(batch)
        return (None,) * len(batch)


class TakesGaps(MemoryStore):
    def append(self, batch):
        for one in batch:
            if self.get(one.scope, one.session).tail.seq < one.records[0].seq - 1:
                self._journals[one.scope, one.session].extend(one.records, 0)
        return super().append(batch)


class Overwrites(MemoryStore):
    def append(self, batch):
        for one in batch:
            journal_rules = self._journals[one.scope, one.session].records
            journal_rules[one.records[0].seq - 1 :] = one.records
        return (None,) * len(batch)


class ComparesBodiesOnly(MemoryStore):
    def append(self, batch):
        there = {
            (record.seq, record.body)
            for one in batch
            for record in self.read(one.scope, one.session)
            if record.epoch == one.records[0].epoch
        }
        return tuple(
            None
            if all((r.seq, r.body) in there for r in one.records)
            else super(ComparesBodiesOnly, self).append([one])[0]
            for one in batch
        )


class RefusesRepeats(MemoryStore):
    def append(self, batch):
        answers = []
        for one in batch:
            found = self.get(one.scope, one.session)
            if found and one.records[-1].seq <= found.tail.seq:
                answers.append(Fenced(one.session, durable_up_to=found.tail.seq))
            else:
                answers += super().append([one])
        return tuple(answers)


class WritesRepeats(MemoryStore):
    def append(self, batch):
        for one in batch:
            (answer,) = super().append([one])
            if answer is None and self.get(one.scope, one.session).tail.seq >= one.records[-1].seq:
                self._journals[one.scope, one.session].standing = one.standing
        return (None,) * len(batch)


class RefusesRepeatsThatGoOn(MemoryStore):
    def append(self, batch):
        answers = []
        for one in batch:
            end = self.get(one.scope, one.session).tail.seq
            if one.records[0].seq <= end < one.records[-1].seq:
                answers.append(Fenced(one.session, durable_up_to=end))
            else:
                answers += super().append([one])
        return tuple(answers)


class DropsWhatGoesOn(MemoryStore):
    def append(self, batch):
        kept = []
        for one in batch:
            end = self.get(one.scope, one.session).tail.seq
            kept.append(
                replace(one, records=[r for r in one.records if r.seq <= end])
                if one.records[0].seq <= end
                else one
            )
        return super().append(kept)


class OpensOnce(MemoryStore):
    def create(self, opening):
        if self.get(opening.records[0].scope, opening.records[0].session):
            message = "there is session 's'"
            raise AlreadyExists(message)
        super().create(opening)


class OpensEverything(MemoryStore):
    def create(self, opening):
        try:
            super().create(opening)
        except AlreadyExists:
            return


class OpensForAnyNode(MemoryStore):
    def create(self, opening):
        found = self.get(opening.records[0].scope, opening.records[0].session)
        super().create(replace(opening, node=found.node) if found else opening)


class WritesWhatIsFree(MemoryStore):
    """As `INSERT OR IGNORE` does."""

    def append(self, batch):
        answers = []
        for one in batch:
            (answer,) = super().append([one])
            if answer is not None:
                for record in one.records:
                    super().append([replace(one, records=(record,))])
            answers.append(answer)
        return tuple(answers)


class OneTransaction(MemoryStore):
    """Where one session of a batch is refused all are."""

    def append(self, batch):
        for one in batch:
            found = self.get(one.scope, one.session)
            if found is None or found.tail.epoch != one.records[0].epoch:
                return tuple(Fenced(one.session, durable_up_to=0) for one in batch)
        return super().append(batch)


class StopsAtARefusal(MemoryStore):
    def append(self, batch):
        answers = list(super().append(batch))
        if (refused := next((one for one in answers if one), None)) is not None:
            place = answers.index(refused)
            answers[place:] = [refused] * (len(answers) - place)
        return tuple(answers)


class MixesScopes(MemoryStore):
    def append(self, batch):
        return super().append(
            [replace(one, records=tuple(replace(r, scope="") for r in one.records)) for one in batch]
        )


class Backwards(MemoryStore):
    def append(self, batch):
        return super().append(batch[::-1])[::-1]


class GoesOnBehindARefusal(MemoryStore):
    def append(self, batch):
        return tuple(super(GoesOnBehindARefusal, self).append([one])[0] for one in batch)


class Torn(MemoryStore):
    """While it writes the last record but one is missing."""

    _is_writing = False

    def append(self, batch):
        self._is_writing = True
        answers = super().append(batch)
        time.sleep(0.002)
        self._is_writing = False
        return answers

    def read(self, *arguments):
        journal_rules = super().read(*arguments)
        return journal_rules[:-2] + journal_rules[-1:] if self._is_writing else journal_rules


# --- owners


class Rebases(MemoryStore):
    """Writes what an old owner says behind what the new one said."""

    def append(self, batch):
        answers = []
        for one in batch:
            (answer,) = super().append([one])
            found = self.get(one.scope, one.session)
            if answer is not None and found is not None:
                journal_rules, _ = sealed(one.records, found.tail, scope=one.scope, session=one.session)
                (answer,) = super().append([replace(one, records=journal_rules)])
            answers.append(answer)
        return tuple(answers)


class TellsTheEnd(MemoryStore):
    """Tells an old owner the last number of the new one."""

    def append(self, batch):
        return tuple(
            answer and Fenced(one.session, durable_up_to=self.get(one.scope, one.session).tail.seq)
            for one, answer in zip(batch, super().append(batch), strict=True)
        )


class ForgivesRepeats(MemoryStore):
    """Tells an old owner that what is durable is durable: what a simulation found."""

    def append(self, batch):
        return tuple(
            None if set(one.records) <= set(self.read(one.scope, one.session)) else answer
            for one, answer in zip(batch, super().append(batch), strict=True)
        )


class ForgivesOpenings(MemoryStore):
    def create(self, opening):
        try:
            super().create(opening)
        except Fenced:
            return


class FencesByNumber(MemoryStore):
    """As the primary key alone does."""

    def append(self, batch):
        answers = []
        for one in batch:
            (answer,) = super().append([one])
            found = self.get(one.scope, one.session)
            if found is not None and one.records[0].seq == found.tail.seq + 1:
                self._journals[one.scope, one.session].extend(one.records, 0)
                answer = None
            answers.append(answer)
        return tuple(answers)


class TakesAnyEpochAhead(MemoryStore):
    def append(self, batch):
        answers = []
        for one in batch:
            (answer,) = super().append([one])
            tail = self.get(one.scope, one.session).tail
            if one.records[0].epoch > tail.epoch and one.records[0].seq == tail.seq + 1:
                self._journals[one.scope, one.session].extend(one.records, 0)
                answer = None
            answers.append(answer)
        return tuple(answers)


class KnowsOneCause(MemoryStore):
    def take(self, scope, root, node, cause, *, force=False):
        return super().take(scope, root, node, "gone", force=force)


class ForgetsEvents(MemoryStore):
    def take(self, *arguments, force=False):
        taken = super().take(*arguments, force=force)
        for one in taken.sessions:
            journal = self._journals[one.scope, one.session]
            journal.records[-1] = replace(journal.records[-1], events=0)
        return taken


class ResetsStandings(MemoryStore):
    def take(self, scope, root, *arguments, force=False):
        for key in self._tree(scope, root):
            self._journals[key].standing = replace(
                self._journals[key].standing, is_working=False, waits_for=0
            )
        return super().take(scope, root, *arguments, force=force)


class KnowsRootsOnly(MemoryStore):
    """Takes, releases and deletes a root without its tree."""

    def _tree(self, scope, root):
        return [(scope, root)]


class TakesEnded(MemoryStore):
    def take(self, scope, root, *arguments, force=False):
        for key in self._trees.get((scope, root), ()):
            self._journals[key].standing = replace(self._journals[key].standing, has_ended=False)
        return super().take(scope, root, *arguments, force=force)


class ChildrenFirst(MemoryStore):
    def _tree(self, scope, root):
        return super()._tree(scope, root)[::-1]


class HidesEnded(MemoryStore):
    def take(self, *arguments, force=False):
        taken = super().take(*arguments, force=force)
        return replace(taken, sessions=tuple(one for one in taken.sessions if not one.standing.has_ended))


class HoldsNothing(MemoryStore):
    def _is_alive(self, node, now):
        return False


class HoldsForEver(MemoryStore):
    def _is_alive(self, node, now):
        return node in self._nodes


class HoldsFromItself(MemoryStore):
    """An owner that lives may not take its own tree again."""

    def take(self, scope, root, node, cause, *, force=False):
        if self._is_alive(node, self.now_ms()):
            return super().take(scope, root, f"{node}, again", cause, force=force)
        return super().take(scope, root, node, cause, force=force)


class HearsOnce(MemoryStore):
    def beat(self, node):
        if node.id not in self._nodes:
            super().beat(node)


class HoldsForTheUnheard(MemoryStore):
    """A node is alive until it was heard of, and then for a lease."""

    def take(self, scope, root, node, cause, *, force=False):
        found = self.get(scope, root)
        if found and found.node and found.node not in self._nodes:
            raise HeldBy(root, node=found.node, address="", seen_ago_ms=0)
        return super().take(scope, root, node, cause, force=force)


class IgnoresForce(MemoryStore):
    def take(self, *arguments, force=False):
        return super().take(*arguments)


class ReleasesForAnyNode(MemoryStore):
    def release(self, node, scope, root):
        found = self.get(scope, root)
        super().release(found.node if found else node, scope, root)


class ReleasesChildren(MemoryStore):
    def release(self, node, scope, root):
        super().release(node, scope, root)
        if (found := self.get(scope, root)) is not None and found.node == node:
            self._own(self._journals[scope, root], "")


class TakesChildren(MemoryStore):
    def take(self, scope, root, *arguments, force=False):
        found = self.get(scope, root)
        return super().take(scope, found.root if found else root, *arguments, force=force)


class TakesAllOrNothing(MemoryStore):
    """Raises what one of many trees is refused for."""

    def take_many(self, wanted):
        return tuple(self.take(one.scope, one.root, one.node, one.cause, force=one.force) for one in wanted)


class TakesManyByName(MemoryStore):
    def take_many(self, wanted):
        return take_all(MemoryStoreView(self), sorted(wanted, key=lambda one: one.root))


class TakesWhatItRefuses(MemoryStore):
    """Looks whether it is held when it has written."""

    def take_many(self, wanted):
        answers = take_all(MemoryStoreView(self), wanted)
        for one, answer in zip(wanted, answers, strict=True):
            if isinstance(answer, HeldBy):
                self.take(one.scope, one.root, one.node, one.cause, force=True)
        return answers


class ForcesNone(MemoryStore):
    def take_many(self, wanted):
        return take_all(MemoryStoreView(self), [replace(one, force=False) for one in wanted])


class MemoryStoreView:
    """A store that takes one by one."""

    def __init__(self, store):
        self.take = store.take


class OrphansWithoutPages(MemoryStore):
    def orphans(self, limit=100, *, after=None):
        found = super().orphans(999)
        return tuple(one for one in found if after is None or (one.scope, one.session) >= after)[:limit]


class BeginsAnyChild(MemoryStore):
    def _check_tree(self, opening):
        return


class ForgetsEarlyOwners(MemoryStore):
    """Knows the last owner but one, and none before it."""

    def append(self, batch):
        return tuple(
            None if one.records[0].epoch < self.get(one.scope, one.session).tail.epoch - 1 else answer
            for one, answer in zip(batch, super().append(batch), strict=True)
        )


# --- finding


class KnowsNoTitles(Altered):
    def alter(self, one):
        return replace(one, standing=replace(one.standing, title=""))


class KnowsNoForks(Altered):
    def alter(self, one):
        return replace(one, forked_from=None)


class WrittenWhenOpened(Altered):
    def alter(self, one):
        return replace(one, written_at_ms=one.opened_at_ms)


class Ignores(MemoryStore):
    """Finds without one of the filters."""

    field: ClassVar = ""

    def find(self, filters=Filters(), **place):  # noqa: B008 - frozen
        return super().find(replace(filters, **{self.field: getattr(Filters(), self.field)}), **place)


def ignoring(field):
    """A store that does without one filter."""
    return type(f"Ignores_{field}", (Ignores,), {"field": field})


class SortsAsPeopleDo(MemoryStore):
    def find(self, filters=Filters(), *, after=None, limit=100):  # noqa: B008 - frozen
        every = super().find(filters, limit=999)
        keys = sorted(every, key=lambda one: (one.scope.casefold(), one.session.casefold()))
        behind = [one for one in keys if after is None or (one.scope, one.session) > after]
        return tuple(behind[:limit])


class BeginsAtThePlace(MemoryStore):
    def find(self, filters=Filters(), *, after=None, limit=100):  # noqa: B008 - frozen
        at = self.get(*after) if after else None
        found = super().find(filters, after=after, limit=limit)
        return ((at,) if at else ()) + found[: limit - bool(at)]


class OrphansThemselves(MemoryStore):
    """Looks at roots alone, and not at what works below them."""

    def orphans(self, limit=100, *, after=None):
        return tuple(one for one in super().orphans(999, after=after) if one.standing.is_working)[:limit]


class OrphansHadAnOwner(MemoryStore):
    def orphans(self, limit=100, *, after=None):
        return tuple(one for one in super().orphans(999, after=after) if one.node)[:limit]


class OrphansWithoutLimit(MemoryStore):
    def orphans(self, limit=100, *, after=None):
        return super().orphans(999, after=after)


class EveryoneIsAnOrphan(MemoryStore):
    def orphans(self, limit=100, *, after=None):
        works = self.find(Filters(is_working=True, has_ended=False))
        return tuple(self.get(one.scope, one.root) for one in works)[:limit]


class DueByName(MemoryStore):
    def due(self, within_ms=0, limit=100):
        return tuple(sorted(super().due(within_ms, 999), key=lambda one: one.session))[:limit]


class DueWithoutOwner(MemoryStore):
    """Leaves the timers of nodes that died where they are."""

    def due(self, within_ms=0, limit=100):
        return tuple(one for one in super().due(within_ms, 999) if not one.node)[:limit]


class DueOnlyNow(MemoryStore):
    def due(self, within_ms=0, limit=100):
        return super().due(0, limit)


class EndedAreDue(MemoryStore):
    def due(self, within_ms=0, limit=100):
        return super().due(within_ms, limit) + self.find(Filters(has_ended=True))


class KnowsTheHeardOnly(MemoryStore):
    def nodes(self):
        return tuple(one for one in super().nodes() if self._is_alive(one.id, self.now_ms()))


class ForgetsNoNode(MemoryStore):
    def nodes(self):
        return tuple(self._nodes.values())


class BelievesNodes(MemoryStore):
    """Keeps the time that a node gives."""

    def nodes(self):
        return tuple(replace(one, seen_at_ms=0) for one in super().nodes())


# --- keeping


class DropsFirstValues(MemoryStore):
    def create(self, opening):
        super().create(replace(opening, blobs={}))


class DropsLaterValues(MemoryStore):
    def append(self, batch):
        return super().append([replace(one, blobs={}) for one in batch])


class HasNothingEmpty(MemoryStore):
    def blob(self, digest):
        return super().blob(digest) or None


class KeepsOneSnapshot(MemoryStore):
    def snapshots(self, *arguments):
        return super().snapshots(*arguments)[:1]


class OldestFirst(MemoryStore):
    def snapshots(self, *arguments):
        return super().snapshots(*arguments)[::-1]


class KeepsTheFirst(MemoryStore):
    def put_snapshot(self, snapshot):
        if len(self.snapshots(snapshot.scope, snapshot.session)) < 2:
            super().put_snapshot(snapshot)


class SnapshotsBelow(MemoryStore):
    def snapshots(self, scope, session, at_most=None):
        return super().snapshots(scope, session, None if at_most is None else at_most - 1)


class LooksAtSnapshots(MemoryStore):
    """Refuses damaged ones: that is for those who read."""

    def put_snapshot(self, snapshot):
        if self._journals.get((snapshot.scope, snapshot.session)) is None or snapshot.state != b"damaged":
            super().put_snapshot(snapshot)


class LeavesValues(MemoryStore):
    def delete(self, scope, session, **rest):
        kept = dict(self._blobs)
        size = super().delete(scope, session, **rest)
        self._blobs.update(kept)
        return size


class DropsSharedValues(MemoryStore):
    def delete(self, scope, session, **rest):
        size = super().delete(scope, session, **rest)
        self._blobs.clear()
        return size


class CountsNothing(MemoryStore):
    def delete(self, scope, session, **rest):
        super().delete(scope, session, **rest)
        return 0


class ForksNeedNothing(MemoryStore):
    def delete(self, scope, session, **rest):
        self._forks.clear()
        return super().delete(scope, session, **rest)

    def trim(self, scope, session, before):
        self._forks.clear()
        return super().trim(scope, session, before)


class OwnersNeedNothing(MemoryStore):
    def delete(self, scope, session, **rest):
        owner = self.get(scope, session)
        self.release(owner.node if owner else "", scope, session)
        return super().delete(scope, session, **rest)


class DeletesChildren(MemoryStore):
    def delete(self, scope, session, **rest):
        found = self.get(scope, session)
        return super().delete(scope, found.root if found else session, **rest)


class OwnersNeedWhatEnded(MemoryStore):
    def delete(self, scope, session, **rest):
        found = self.get(scope, session)
        if found and self._is_alive(found.node, self.now_ms()) and found.root == session:
            raise StillNeeded(session, by=[found.node])
        return super().delete(scope, session, **rest)


class DeletesWhatWoke(MemoryStore):
    def delete(self, scope, session, *, written_before_ms=None):
        return super().delete(scope, session)


class LooksAtRootsOnly(MemoryStore):
    """Forgets that a child may be at work while its root waits."""

    def delete(self, scope, session, *, written_before_ms=None):
        found = self.get(scope, session)
        if found and written_before_ms is not None and found.written_at_ms >= written_before_ms:
            raise StillNeeded(session, by=["itself"])
        return super().delete(scope, session)


class DeletesTheLastMoment(MemoryStore):
    def delete(self, scope, session, *, written_before_ms=None):
        before = None if written_before_ms is None else written_before_ms + 1
        return super().delete(scope, session, written_before_ms=before)


class CountsCharacters(MemoryStore):
    def size(self, scope, session):
        journal = self._journals.get((scope, session))
        size = super().size(scope, session)
        return size - (sum(len(r.body) - len(r.body.decode()) for r in journal.records) if journal else 0)


class SharesSizes(MemoryStore):
    """Counts a value only where no other session has it."""

    def size(self, scope, session):
        journal = self._journals.get((scope, session))
        shared = [one for one in (journal.blobs if journal else ()) if self._holders[one] > 1]
        return super().size(scope, session) - sum(len(self._blobs[one]) for one in shared)


class MeasuresRecords(MemoryStore):
    def size(self, scope, session):
        journal = self._journals.get((scope, session))
        return super().size(scope, session) - sum(
            len(s.state) for s in (journal.snapshots if journal else {}).values()
        )


class ReadsWhatIsLeft(MemoryStore):
    def read(self, scope, session, after=0, limit=1000):
        try:
            return super().read(scope, session, after, limit)
        except Trimmed as error:
            return super().read(scope, session, error.first - 1, limit)


class TrimsOneMore(MemoryStore):
    def trim(self, scope, session, before):
        return super().trim(scope, session, before + 1)


class SaysItBeginsAtOne(Altered):
    def alter(self, one):
        return replace(one, first_seq=1)


class TrimsAnything(MemoryStore):
    def trim(self, scope, session, before):
        try:
            return super().trim(scope, session, before)
        except OptionError:
            return 0


class TrimsWithAnySnapshot(MemoryStore):
    def trim(self, scope, session, before):
        if any(one.seq >= before for one in self.snapshots(scope, session)):
            return self._journals[scope, session].trim(before)
        return super().trim(scope, session, before)


class TellsOfOtherScopes(MemoryStore):
    def _nearest(self, scope, session):
        return [name for _, name in self._keys]


class RaisesWhereItIsUnknown(MemoryStore):
    def append(self, batch):
        for one in batch:
            if self.get(one.scope, one.session) is None:
                message = "there is none"
                raise SessionNotFound(message)
        return super().append(batch)


class DeletesNothing(MemoryStore):
    def delete(self, scope, session, **rest):
        return super().delete(scope, session, **rest) if self.get(scope, session) else 0


class KeepsWhatWasGiven(MemoryStore):
    """The mapping itself, and no copy of what is in it."""

    def append(self, batch):
        self.given = batch[0].blobs
        return super().append(batch)

    def create(self, opening):
        super().create(replace(opening, blobs={}))
        self.first = opening.blobs

    def blob(self, digest):
        return {**self.first, **self.given}.get(digest)


class ClosesOnce(MemoryStore):
    closed = 0

    def close(self):
        self.closed += 1
        assert self.closed != 2, "it is closed"


class Forgets(MemoryStore):
    """Is empty when it is opened again."""

    def reopened(self):
        return MemoryStore(now_ms=self._clock)


class ForgetsEpochs(MemoryStore):
    """Opened again it lets everything in that has the next number."""

    def reopened(self):
        self.__class__ = SaysYes
        return self


# --- cuts


class TrimsOnce(MemoryStore):
    def trim(self, scope, session, before):
        dropped = super().trim(scope, session, before)
        if not dropped:
            raise OptionError(["there is nothing to drop"])
        return dropped


class TakesOnce(MemoryStore):
    """An owner that asks again is told that the tree is held, and by itself."""

    def take(self, scope, root, node, cause, *, force=False):
        found = self.get(scope, root)
        if found and found.node == node:
            raise OptionError([f"{node} owns it"])
        return super().take(scope, root, node, cause, force=force)


class TellsTheFirstTakeover(MemoryStore):
    """Gives who asks again what it was given the first time."""

    def __init__(self, **options):
        super().__init__(**options)
        self.taken = {}

    def take(self, scope, root, node, cause, *, force=False):
        taken = super().take(scope, root, node, cause, force=force)
        return self.taken.setdefault((scope, root, node), taken)


class BatchesOnce(MemoryStore):
    """A batch that was there is written behind itself."""

    def append(self, batch):
        moved = []
        for one in batch:
            found = self.get(one.scope, one.session)
            if found and found.tail.epoch == one.records[0].epoch and found.tail.seq >= one.records[0].seq:
                tail = Tail(seq=found.tail.seq, epoch=found.tail.epoch, hash=found.tail.hash)
                moved.append(
                    replace(one, records=sealed(one.records, tail, scope=one.scope, session=one.session)[0])
                )
            else:
                moved.append(one)
        return super().append(moved)


class OwesByIdAlone(MemoryStore):
    """Takes rows of another kind for the same."""

    def change_owed(self, put, drop=()):
        super().change_owed([replace(row, kind="") for row in put], [("", name) for _, name in drop])

    def owed(self, kind, after="", limit=1000):
        return tuple(replace(row, kind=kind) for row in super().owed("", after, limit))


class OwesTheLatestFirst(MemoryStore):
    def owed(self, kind, after="", limit=1000):
        return super().owed(kind, after, limit)[::-1]


class DropsBeforeItPuts(MemoryStore):
    def change_owed(self, put, drop=()):
        super().change_owed([], drop)
        super().change_owed(put)


class DropsOnce(MemoryStore):
    """Cannot drop what is not there."""

    def change_owed(self, put, drop=()):
        there = {(row.kind, row.id) for kind in ("letter", "bill") for row in self.owed(kind)}
        missing = [name for name in drop if name not in there and name not in {(r.kind, r.id) for r in put}]
        if missing and put:
            raise OptionError([f"{missing} is not there"])
        super().change_owed(put, drop)


class OwesForSessions(MemoryStore):
    """What has the name of a session goes with it."""

    def delete(self, scope, session, **given):
        self.change_owed([], [("letter", session)])
        return super().delete(scope, session, **given)


class ForgetsWhatIsOwed(MemoryStore):
    def reopened(self):
        self.change_owed([], [("letter", row.id) for row in self.owed("letter")])
        return self


# --- erasing


class ErasesRootsOnly(MemoryStore):
    def erase(self, scope, session, why):
        tree, self._trees[scope, session] = self._trees[scope, session], [(scope, session)]
        try:
            return super().erase(scope, session, why)
        finally:
            self._trees[scope, session] = tree


class _ChangesWhatItErased(MemoryStore):
    """Erases, and does something to the journals."""

    def changed(self, journal, before):
        raise NotImplementedError

    def erase(self, scope, session, why):
        before = {key: list(one.records) for key, one in self._journals.items()}
        shots = {key: dict(one.snapshots) for key, one in self._journals.items()}
        values, erased = dict(self._blobs), super().erase(scope, session, why)
        for key in self._tree(scope, session):
            self.changed(self._journals[key], (before[key], shots[key], values))
        return erased


class LeavesOutlines(_ChangesWhatItErased):
    def changed(self, journal, before):
        old = before[0]
        journal.records = [
            replace(one, does=was.does) for one, was in zip(journal.records, old, strict=False)
        ] + journal.records[len(old) :]


class LeavesTitles(_ChangesWhatItErased):
    def changed(self, journal, before):
        journal.standing = replace(journal.standing, title="what-ada-has-said")


class LeavesOwners(MemoryStore):
    def _disown(self, key, owner):
        pass

    def find(self, filters=Filters(), *, after=None, limit=100):  # noqa: B008 - frozen
        if filters.owner:
            return tuple(self._journals[key].stored() for key in self._of_owner.get(filters.owner, ()))
        return super().find(filters, after=after, limit=limit)


class LeavesSnapshots(_ChangesWhatItErased):
    def changed(self, journal, before):
        journal.snapshots = before[1]


class LeavesErasedValues(_ChangesWhatItErased):
    def changed(self, journal, before):
        self._blobs.update(before[2])


class EndsNothing(_ChangesWhatItErased):
    """Old owners go on."""

    def changed(self, journal, before):
        journal.records = journal.records[: len(before[0])]


class ErasesAnew(_ChangesWhatItErased):
    """Says each time why, and ends it again."""

    def changed(self, journal, before):
        journal.records = [
            replace(one, body=one.body.replace(b"retention", b"user forgotten")) for one in journal.records
        ]


class LosesErasures(MemoryStore):
    def erase(self, scope, session, why):
        self.kept = {
            key: (one.records, one.standing, one.snapshots, one.blobs) for key, one in self._journals.items()
        }
        return super().erase(scope, session, why)

    def reopened(self):
        for key, kept in self.kept.items():
            one = self._journals[key]
            one.records, one.standing, one.snapshots, one.blobs = kept
        return self


class TakesLateSnapshots(MemoryStore):
    def put_snapshot(self, snapshot):
        journal = self._journals.get((snapshot.scope, snapshot.session))
        if journal is not None:
            journal.snapshots[snapshot.seq] = snapshot


class ErasesWhatIsAtWork(MemoryStore):
    def _check_left(self, top, keys):
        pass


class ErasesNothingOfTheLiving(MemoryStore):
    def erase(self, scope, session, why):
        top = self._journals.get((scope, session))
        if top is not None and self._is_alive(top.node, self.now_ms()):
            raise StillNeeded(session, by=[f"node {top.node}"])
        return super().erase(scope, session, why)


BROKEN = {
    journal_rules.records_come_back_as_they_were_written: (DropsOutlines, MixesScopes),
    journal_rules.any_text_is_kept: (EndsAtNul, ReadsAsLatin, TellsNoCaseApart),
    journal_rules.bytes_of_a_body_are_not_read: (EncodesAnew,),
    journal_rules.journals_are_read_in_pages: (KnowsNoLimit, BeginsAtTheNumber),
    journal_rules.numbers_have_no_gaps: (SaysYes, TakesGaps),
    journal_rules.a_number_is_given_once: (SaysYes, Overwrites, ComparesBodiesOnly),
    journal_rules.the_same_append_again_is_fine: (RefusesRepeats, WritesRepeats, BatchesOnce),
    journal_rules.a_repeated_append_may_go_on: (RefusesRepeatsThatGoOn, DropsWhatGoesOn),
    journal_rules.the_same_opening_again_is_fine: (OpensOnce, OpensEverything, OpensForAnyNode),
    journal_rules.an_append_goes_in_whole_or_not_at_all: (WritesWhatIsFree,),
    journal_rules.sessions_of_a_batch_do_not_depend_on_each_other: (
        OneTransaction,
        StopsAtARefusal,
        MixesScopes,
    ),
    journal_rules.appends_of_one_session_go_in_order: (Backwards, GoesOnBehindARefusal),
    journal_rules.readers_see_whole_journals_while_one_is_written: (Torn,),
    ownership.an_old_owner_is_refused: (Rebases, TellsTheEnd, SaysYes),
    ownership.a_repeated_append_of_an_old_owner_is_refused: (ForgivesRepeats, ForgivesOpenings),
    ownership.what_an_old_owner_has_queued_is_refused: (FencesByNumber, Rebases),
    ownership.an_epoch_that_was_never_given_is_refused: (TakesAnyEpochAhead,),
    ownership.a_takeover_is_written_down: (KnowsOneCause, ForgetsEvents, ResetsStandings),
    ownership.a_tree_is_taken_together: (KnowsRootsOnly, TakesEnded, ChildrenFirst),
    ownership.an_ended_root_is_given_as_it_stands: (HidesEnded, TakesEnded),
    ownership.a_living_owner_keeps_its_tree: (HoldsNothing, HoldsForEver, HoldsFromItself),
    ownership.a_beat_begins_the_lease_anew: (HearsOnce, HoldsForTheUnheard),
    ownership.force_takes_from_the_living: (IgnoresForce,),
    ownership.a_tree_is_released_by_its_owner: (ReleasesForAnyNode, ReleasesChildren, KnowsRootsOnly),
    ownership.only_roots_are_taken: (TakesChildren,),
    ownership.many_trees_are_taken_each_by_itself: (
        TakesAllOrNothing,
        TakesManyByName,
        TakesWhatItRefuses,
        ForcesNone,
    ),
    ownership.an_old_owner_begins_no_child: (BeginsAnyChild,),
    ownership.one_of_many_takes: (ForgetsEarlyOwners,),
    queries.it_is_said_how_a_session_stands: (KnowsNoTitles, KnowsNoForks, WrittenWhenOpened),
    queries.sessions_are_found_by_filters: tuple(map(ignoring, Filters.__struct_fields__)),
    queries.sessions_are_found_in_pages: (SortsAsPeopleDo, BeginsAtThePlace),
    queries.orphans_are_found: (
        OrphansThemselves,
        OrphansHadAnOwner,
        OrphansWithoutLimit,
        OrphansWithoutPages,
        EveryoneIsAnOrphan,
    ),
    queries.due_timers_are_found: (DueByName, DueWithoutOwner, DueOnlyNow, EndedAreDue, HoldsNothing),
    queries.nodes_are_known: (KnowsTheHeardOnly, ForgetsNoNode, BelievesNodes),
    durability.large_values_are_kept: (DropsFirstValues, DropsLaterValues, HasNothingEmpty),
    durability.the_last_two_snapshots_are_kept: (
        *(KeepsOneSnapshot, OldestFirst, KeepsTheFirst, SnapshotsBelow, LooksAtSnapshots),
    ),
    durability.whole_trees_are_deleted: (KnowsRootsOnly, LeavesValues, DropsSharedValues, CountsNothing),
    durability.what_is_needed_is_not_deleted: (ForksNeedNothing, OwnersNeedNothing, HoldsForEver),
    durability.what_was_written_since_is_not_deleted: (
        DeletesWhatWoke,
        LooksAtRootsOnly,
        DeletesTheLastMoment,
    ),
    durability.sizes_are_told: (CountsCharacters, SharesSizes, MeasuresRecords),
    durability.only_roots_are_deleted: (DeletesChildren, OwnersNeedWhatEnded),
    durability.journals_are_trimmed: (ReadsWhatIsLeft, TrimsOneMore, SaysItBeginsAtOne),
    durability.nothing_is_trimmed_without_a_snapshot: (TrimsAnything, TrimsWithAnySnapshot, ForksNeedNothing),
    durability.what_is_unknown_is_said_to_be: (TellsOfOtherScopes, RaisesWhereItIsUnknown, DeletesNothing),
    durability.what_is_given_stays_what_is_kept: (KeepsWhatWasGiven,),
    durability.what_was_said_is_erased: (
        ErasesRootsOnly,
        LeavesOutlines,
        LeavesTitles,
        LeavesOwners,
        LeavesSnapshots,
        LeavesErasedValues,
        EndsNothing,
    ),
    durability.erasing_again_changes_nothing: (ErasesAnew,),
    durability.nothing_comes_to_what_was_erased: (EndsNothing, TakesLateSnapshots),
    durability.what_is_at_work_is_not_erased: (ErasesWhatIsAtWork, ErasesNothingOfTheLiving),
    durability.what_was_erased_is_so_again: (LosesErasures,),
    durability.a_store_is_closed_twice: (ClosesOnce,),
    durability.what_was_kept_is_there_again: (Forgets, ForgetsEpochs),
    queries.what_is_owed_is_kept_by_kind_and_id: (OwesByIdAlone, OwesTheLatestFirst),
    queries.what_is_owed_changes_as_a_whole: (DropsBeforeItPuts, DropsOnce),
    queries.what_is_owed_outlives_its_session: (OwesForSessions,),
    queries.what_is_owed_is_there_again: (ForgetsWhatIsOwed,),
    journal_rules.a_call_that_was_cut_can_be_repeated: (
        OpensOnce,
        RefusesRepeats,
        TrimsOnce,
        TakesOnce,
        TellsTheFirstTakeover,
    ),
    journal_rules.a_life_with_many_cuts_comes_to_the_same: (RefusesRepeats, BatchesOnce, ForgivesRepeats),
}
"""For each rule the stores that break it."""
