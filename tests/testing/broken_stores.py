"""Stores that are broken on purpose, one way each, under the rule that has to notice."""

# ruff: noqa: SLF001 - a broken store reaches into ours

import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec

from agentrail.abc.store import Filters, take_all
from agentrail.core.journal.record import sealed
from agentrail.errors import AlreadyExists, Fenced, HeldBy, OptionError, SessionNotFound, StillNeeded, Trimmed
from agentrail.stores.memory import MemoryStore
from agentrail.testing.store_rules import claims, durability, journal_rules, ownership, queries

replace = msgspec.structs.replace


def overriding(kind: type[Any], **methods: Callable[..., Any]) -> type[Any]:
    """A class with other methods. Each gets that of the class, bound, then the object and the arguments."""

    def method(name: str, wrong: Callable[..., Any]) -> Callable[..., Any]:
        own = getattr(kind, name, None)
        return lambda self, *given, **named: wrong(own and partial(own, self), self, *given, **named)

    return type("Broken", (kind,), {name: method(name, wrong) for name, wrong in methods.items()})


broken = partial(overriding, MemoryStore)


def altered(change):
    """A store that says something else of sessions."""
    return broken(
        get=lambda own, _store, *key: (found := own(*key)) and change(found),
        find=lambda own, _store, *given, **place: tuple(map(change, own(*given, **place))),
    )


def misread(change):
    """A store that gives other records."""
    return broken(read=lambda own, _store, *given: tuple(map(change, own(*given))))


def one_by_one(wrong):
    """A store whose appends of a batch are each given to a function, with what writes them."""
    return broken(
        append=lambda own, store, batch: tuple(wrong(lambda one: own([one])[0], store, one) for one in batch)
    )


def journal_of(store, one):
    """The journal to which an append belongs."""
    return store._journals[one.scope, one.session]


def end_of(store, one):
    """The number of the last record of the session of an append, or 0."""
    found = store.get(one.scope, one.session)
    return found.tail.seq if found else 0


def refused(one, end):
    """The answer to an append of an old owner."""
    return Fenced(one.session, durable_up_to=end)


def refuse(error):
    """Raise an error."""
    raise error


def ignoring(error, call):
    """Call something, and pass over one kind of error."""
    try:
        return call()
    except error:
        return None


# --- journals


def _encoded_anew(record):
    try:
        return replace(record, body=msgspec.json.encode(msgspec.json.decode(record.body)))
    except msgspec.DecodeError:
        return record


def _takes_one_case(own, store, opening):
    like = (one.session for one in store.find(Filters(scope=opening.records[0].scope)))
    if any(name.casefold() == opening.root.casefold() and name != opening.root for name in like):
        raise AlreadyExists(opening.root)
    own(opening)


def _opens_once(own, store, opening):
    if store.get(opening.records[0].scope, opening.records[0].session):
        raise AlreadyExists(opening.root)
    own(opening)


def _opens_for_any_node(own, store, opening):
    found = store.get(opening.records[0].scope, opening.records[0].session)
    own(replace(opening, node=found.node) if found else opening)


def _takes_gaps(write, store, one):
    if end_of(store, one) < one.records[0].seq - 1:
        journal_of(store, one).extend(one.records, 0)
    return write(one)


def _overwrites(_write, store, one):
    journal_of(store, one).records[one.records[0].seq - 1 :] = one.records


def _compares_bodies_only(write, store, one):
    there = {(r.seq, r.body) for r in store.read(one.scope, one.session) if r.epoch == one.records[0].epoch}
    return None if all((r.seq, r.body) in there for r in one.records) else write(one)


def _writes_repeats(write, store, one):
    if write(one) is None and end_of(store, one) >= one.records[-1].seq:
        journal_of(store, one).standing = one.standing


def _writes_what_is_free(write, _store, one):
    answer = write(one)
    if answer is not None:
        for record in one.records:
            write(replace(one, records=(record,)))
    return answer


def _one_transaction(own, store, batch):
    for one in batch:
        found = store.get(one.scope, one.session)
        if found is None or found.tail.epoch != one.records[0].epoch:
            return tuple(refused(each, 0) for each in batch)
    return own(batch)


def _stops_at_a_refusal(own, _store, batch):
    answers = list(own(batch))
    place = next((number for number, one in enumerate(answers) if one), len(answers))
    return tuple(answers[:place] + answers[place : place + 1] * (len(answers) - place))


class Torn(MemoryStore):
    """While it writes the last record but one is missing."""

    _is_writing = False

    def append(self, batch):
        """Take some time."""
        self._is_writing = True
        answers = super().append(batch)
        time.sleep(0.002)
        self._is_writing = False
        return answers

    def read(self, *arguments):
        """Leave one out meanwhile."""
        records = super().read(*arguments)
        return records[:-2] + records[-1:] if self._is_writing else records


DropsOutlines = misread(lambda record: replace(record, does=""))
EndsAtNul = misread(lambda record: replace(record, body=record.body.split(b"\0")[0]))
ReadsAsLatin = misread(lambda record: replace(record, body=record.body.decode("latin-1").encode()))
TellsNoCaseApart = broken(create=_takes_one_case)
EncodesAnew = misread(_encoded_anew)
KnowsNoLimit = broken(read=lambda own, _, scope, session, after=0, limit=0: own(scope, session, after))
BeginsAtTheNumber = broken(
    read=lambda own, _, scope, session, after=0, limit=1000: own(scope, session, max(0, after - 1), limit)
)
SaysYes = broken(append=lambda own, _, batch: own(batch) and (None,) * len(batch))
TakesGaps = one_by_one(_takes_gaps)
Overwrites = one_by_one(_overwrites)
ComparesBodiesOnly = one_by_one(_compares_bodies_only)
RefusesRepeats = one_by_one(
    lambda write, store, one: (
        refused(one, end) if (end := end_of(store, one)) >= one.records[-1].seq else write(one)
    )
)
WritesRepeats = one_by_one(_writes_repeats)
RefusesRepeatsThatGoOn = one_by_one(
    lambda write, store, one: (
        refused(one, end)
        if one.records[0].seq <= (end := end_of(store, one)) < one.records[-1].seq
        else write(one)
    )
)
DropsWhatGoesOn = one_by_one(
    lambda write, store, one: write(
        replace(one, records=[r for r in one.records if r.seq <= end])
        if one.records[0].seq <= (end := end_of(store, one))
        else one
    )
)
OpensOnce = broken(create=_opens_once)
OpensEverything = broken(create=lambda own, _, opening: ignoring(AlreadyExists, partial(own, opening)))
OpensForAnyNode = broken(create=_opens_for_any_node)
WritesWhatIsFree = one_by_one(_writes_what_is_free)  # as `INSERT OR IGNORE` does
OneTransaction = broken(append=_one_transaction)
StopsAtARefusal = broken(append=_stops_at_a_refusal)
MixesScopes = one_by_one(
    lambda write, _, one: write(replace(one, records=tuple(replace(r, scope="") for r in one.records)))
)
Backwards = broken(append=lambda own, _, batch: own(batch[::-1])[::-1])
GoesOnBehindARefusal = one_by_one(lambda write, _, one: write(one))


# --- owners


def _rebases(write, store, one):
    answer = write(one)
    found = store.get(one.scope, one.session)
    if answer is not None and found is not None:
        records, _ = sealed(one.records, found.tail, scope=one.scope, session=one.session)
        return write(replace(one, records=records))
    return answer


def _fences_by_number(write, store, one):
    answer = write(one)
    if one.records[0].seq == end_of(store, one) + 1:
        journal_of(store, one).extend(one.records, 0)
        return None
    return answer


def _takes_any_epoch_ahead(write, store, one):
    answer = write(one)
    tail = store.get(one.scope, one.session).tail
    if one.records[0].epoch > tail.epoch and one.records[0].seq == tail.seq + 1:
        journal_of(store, one).extend(one.records, 0)
        return None
    return answer


def _forgets_events(own, store, *given, force=False):
    taken = own(*given, force=force)
    for one in taken.sessions:
        journal = journal_of(store, one)
        journal.records[-1] = replace(journal.records[-1], events=0)
    return taken


def _resets_standings(own, store, scope, root, *given, force=False):
    for key in store._tree(scope, root):
        journal = store._journals[key]
        journal.standing = replace(journal.standing, is_working=False, waits_for=0)
    return own(scope, root, *given, force=force)


def _takes_ended(own, store, scope, root, *given, force=False):
    for key in store._trees.get((scope, root), ()):
        store._journals[key].standing = replace(store._journals[key].standing, has_ended=False)
    return own(scope, root, *given, force=force)


def _hides_ended(own, _store, *given, force=False):
    taken = own(*given, force=force)
    return replace(taken, sessions=tuple(one for one in taken.sessions if not one.standing.has_ended))


def _holds_from_itself(own, store, *given, **force):
    scope, root, node, cause = given
    again = ", again" if store._is_alive(node, store._lease()) else ""
    return own(scope, root, f"{node}{again}", cause, **force)


def _holds_for_ever(own, store, *given, **force):
    found = store.get(*given[:2])
    if found and not force.get("force") and found.node != given[2] and found.node in store._nodes:
        raise HeldBy(given[1], node=found.node, address=store._nodes[found.node].address, seen_ago_ms=0)
    return own(*given, **force)


def _holds_for_the_unheard(own, store, *given, **force):
    found = store.get(*given[:2])
    if found and found.node and found.node not in store._nodes:
        raise HeldBy(given[1], node=found.node, address="", seen_ago_ms=0)
    return own(*given, **force)


def _releases_for_any_node(own, store, node, scope, root):
    found = store.get(scope, root)
    own(found.node if found else node, scope, root)


def _releases_children(own, store, node, scope, root):
    own(node, scope, root)
    if (found := store.get(scope, root)) is not None and found.node == node:
        store._own(store._journals[scope, root], "")


def _root_of(store, scope, session):
    found = store.get(scope, session)
    return found.root if found else session


def _take_all(store, wanted):
    """Take one by one."""
    return take_all(SimpleNamespace(take=store.take), wanted)


def _takes_what_it_refuses(_own, store, wanted):
    answers = _take_all(store, wanted)
    for one, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, HeldBy):
            store.take(one.scope, one.root, one.node, one.cause, force=True)
    return answers


Rebases = one_by_one(_rebases)  # what an old owner says stands behind what the new one said
TellsTheEnd = one_by_one(lambda write, store, one: write(one) and refused(one, end_of(store, one)))
ForgivesRepeats = one_by_one(  # what a simulation found
    lambda write, store, one: (
        answer
        if (answer := write(one)) and not set(one.records) <= set(store.read(one.scope, one.session))
        else None
    )
)
ForgivesOpenings = broken(create=lambda own, _, opening: ignoring(Fenced, partial(own, opening)))
FencesByNumber = one_by_one(_fences_by_number)  # as the primary key alone does
TakesAnyEpochAhead = one_by_one(_takes_any_epoch_ahead)
KnowsOneCause = broken(
    take=lambda own, _, scope, root, node, cause, force=False: own(scope, root, node, "gone", force=force)
)
ForgetsEvents = broken(take=_forgets_events)
ResetsStandings = broken(take=_resets_standings)
KnowsRootsOnly = broken(_tree=lambda _own, _, scope, root: [(scope, root)])
TakesEnded = broken(take=_takes_ended)
ChildrenFirst = broken(_tree=lambda own, _, scope, root: own(scope, root)[::-1])
HidesEnded = broken(take=_hides_ended)
HoldsNothing = broken(
    _is_alive=lambda _own, _, node, lease: False,
    take=lambda own, _, *given, force=False: own(*given, force=True),
)
HoldsFromItself = broken(take=_holds_from_itself)
HearsOnce = broken(beat=lambda own, store, node: node.id in store._nodes or own(node))
HoldsForTheUnheard = broken(take=_holds_for_the_unheard)
IgnoresForce = broken(take=lambda own, _, *given, force=False: own(*given))
ReleasesForAnyNode = broken(release=_releases_for_any_node)
ReleasesChildren = broken(release=_releases_children)
TakesChildren = broken(
    take=lambda own, store, scope, root, *given, force=False: own(
        scope, _root_of(store, scope, root), *given, force=force
    )
)
TakesAllOrNothing = broken(
    take_many=lambda _own, store, wanted: tuple(
        store.take(one.scope, one.root, one.node, one.cause, force=one.force) for one in wanted
    )
)
TakesManyByName = broken(
    take_many=lambda _own, store, wanted: _take_all(store, sorted(wanted, key=lambda one: one.root))
)
TakesWhatItRefuses = broken(take_many=_takes_what_it_refuses)
ForcesNone = broken(
    take_many=lambda _own, store, wanted: _take_all(store, [replace(one, force=False) for one in wanted])
)
BeginsAnyChild = broken(_check_tree=lambda _own, _, opening: None)
ForgetsEarlyOwners = one_by_one(  # knows the last owner but one, and none before it
    lambda write, store, one: (
        write(one) if one.records[0].epoch >= store.get(one.scope, one.session).tail.epoch - 1 else None
    )
)


# --- nodes


def _claims_as(change):
    """A store that claims with other options."""
    return broken(claim=lambda own, _store, node, *silent, **options: own(node, *silent, **change(options)))


def _poison_first(own, _store, *given, **options):
    return own(*given, **options)[::-1]


def _takes_what_it_reserved(own, store, *given, **options):
    is_reserved = store._journals[given[:2]].claimed_by == given[2]
    return own(*given, **{**options, "force": is_reserved or options.get("force", False)})


def _holds_from_owners(own, store, scope, root, node, *given, **options):
    holder = store._journals[scope, root].claimed_by
    if holder not in ("", node) and store._is_alive(holder, store._lease()):
        raise HeldBy(root, node=holder, address="", seen_ago_ms=0)
    return own(scope, root, node, *given, **options)


def _releases_for_claimers(own, store, node, scope, root):
    top = store._journals[scope, root]
    own(top.node if top.claimed_by == node else node, scope, root)


def _takes_back_twice(own, store, node, scope, root):
    own(node, scope, root)
    store._journals[scope, root].deaths -= 1


def _current(store, silent):
    return silent and {name: store._nodes[name].seen_at_ms for name in silent}


def _keeps_old_reservations(own, store, node, *silent, **options):
    store._end_claim = lambda _top: None
    try:
        return own(node, *silent, **options)
    finally:
        del store._end_claim


ReservesNothing = broken(_reserve=lambda _own, _store, top, node: top.stored())
ReservesForEver = broken(release=lambda _own, _store, *given: None)
TakesWhatItReserved = broken(take=_takes_what_it_reserved)
HoldsFromOwners = broken(take=_holds_from_owners)
ReleasesForClaimers = broken(release=_releases_for_claimers)
CountsReleasedDeaths = broken(_end_claim=lambda _own, _store, top: setattr(top, "claimed_by", ""))
TakesBackTwice = broken(release=_takes_back_twice)
KeepsOldReservations = broken(claim=_keeps_old_reservations)
PoisonFirst = broken(claim=_poison_first)
CountsNoDeaths = broken(
    _reserve=lambda own, store, top, node: (top.__setattr__("deaths", -1), own(top, node))[1]
)
ClaimsAnyCodec = _claims_as(lambda options: {**options, "codec": 99})
TrustsTheClock = broken(
    claim=lambda own, _store, node, silent=None, **options: own(node, **options),
    take=lambda own, _store, *given, silent=None, **options: own(*given, **options),
)
TrustsOldWatches = broken(
    claim=lambda own, store, node, silent=None, **options: own(node, _current(store, silent), **options),
    take=lambda own, store, *given, silent=None, **options: own(
        *given, silent=_current(store, silent), **options
    ),
)
TakesAnyTail = broken(take=lambda own, _store, *given, tail=None, **options: own(*given, **options))
KnowsNobodyGone = broken(gone=lambda _own, store, node: node in store._nodes)
OwnsWhatEnded = broken(
    owned=lambda _own, store, node: {
        key: one.tail.epoch for key, one in store._journals.items() if one.node == node
    }
)
AllowsEverything = broken(
    take_allowance=lambda own, _store, key, *pace: replace(own(key, *pace), is_allowed=True)
)
SharesOneKey = broken(take_allowance=lambda own, _store, key, *pace: own("", *pace))
CountsChildren = broken(_count_open_roots=lambda _own, store, owner: len(store._of_owner.get(owner, ())))
KnowsNoQuota = broken(create=lambda own, _store, opening: own(replace(opening, max_of_owner=None)))
OwesForAnyNode = broken(owed=lambda own, _store, *given, node=None: own(*given))
AdoptsFromTheLiving = broken(
    _is_alive=lambda own, _store, *given: own(*given),
    adopt_owed=lambda _own, store, kind, node, *rest: store.owed(kind),
)


# --- finding


def _sorts_as_people_do(own, _store, filters=Filters(), after=None, limit=100):  # noqa: B008 - frozen
    every = sorted(own(filters, limit=999), key=lambda one: (one.scope.casefold(), one.session.casefold()))
    return tuple(one for one in every if after is None or (one.scope, one.session) > after)[:limit]


def _begins_at_the_place(own, store, filters=Filters(), after=None, limit=100):  # noqa: B008 - frozen
    at = store.get(*after) if after else None
    return ((at,) if at else ()) + own(filters, after=after, limit=limit)[: limit - bool(at)]


def _orphans_without_pages(own, _store, limit=100, after=None):
    return tuple(one for one in own(999) if after is None or (one.scope, one.session) >= after)[:limit]


def _everyone_is_an_orphan(_own, store, limit=100, after=None):
    works = store.find(Filters(is_working=True, has_ended=False))
    return tuple(store.get(one.scope, one.root) for one in works)[:limit]


def orphans_that(are):
    """A store that finds only some orphans."""
    return broken(
        orphans=lambda own, _, limit=100, after=None: tuple(filter(are, own(999, after=after)))[:limit]
    )


def finds_without(field):
    """A store that does without one filter."""
    return broken(
        find=lambda own, _, filters=Filters(), **place: own(  # noqa: B008 - frozen
            replace(filters, **{field: getattr(Filters(), field)}), **place
        )
    )


KnowsNoTitles = altered(lambda one: replace(one, standing=replace(one.standing, title="")))
KnowsNoForks = altered(lambda one: replace(one, forked_from=None))
WrittenWhenOpened = altered(lambda one: replace(one, written_at_ms=one.opened_at_ms))
SortsAsPeopleDo = broken(find=_sorts_as_people_do)
BeginsAtThePlace = broken(find=_begins_at_the_place)
ListsTheOldest = broken(newest=lambda own, _, *given, **place: own(*given, **place)[::-1])
ListsByName = broken(
    newest=lambda _, store, filters, before=None, limit=100: tuple(
        sorted(store.find(filters), key=lambda one: one.session, reverse=True)
    )[:limit]
)
RepeatsTheLastOne = broken(
    newest=lambda own, _, filters, before=None, limit=100: own(
        filters, before=before and (before[0], before[1] + "\0"), limit=limit
    )
)
OrphansWithoutPages = broken(orphans=_orphans_without_pages)
OrphansThemselves = orphans_that(lambda one: one.standing.is_working)  # not what works below them
OrphansHadAnOwner = orphans_that(lambda one: one.node)
OrphansWithoutLimit = broken(orphans=lambda own, _, limit=100, after=None: own(999, after=after))
EveryoneIsAnOrphan = broken(orphans=_everyone_is_an_orphan)
DueByName = broken(
    due=lambda own, _, within=0, limit=100: tuple(sorted(own(within, 999), key=lambda one: one.session))[
        :limit
    ]
)
DueWithoutOwner = broken(  # leaves the timers of nodes that died where they are
    due=lambda own, _, within=0, limit=100: tuple(one for one in own(within, 999) if not one.node)[:limit]
)
DueOnlyNow = broken(due=lambda own, _, within=0, limit=100: own(0, limit))
EndedAreDue = broken(
    due=lambda own, store, within=0, limit=100: own(within, limit) + store.find(Filters(has_ended=True))
)
KnowsTheHeardOnly = broken(
    nodes=lambda own, store: tuple(one for one in own() if store._is_alive(one.id, store._lease()))
)
ForgetsNoNode = broken(nodes=lambda _own, store: tuple(store._nodes.values()))
BelievesNodes = broken(nodes=lambda own, _: tuple(replace(one, seen_at_ms=0) for one in own()))


# --- keeping


def _keeps_the_first(own, store, snapshot):
    if len(store.snapshots(snapshot.scope, snapshot.session)) < 2:
        own(snapshot)


def _looks_at_snapshots(own, store, snapshot):
    if (snapshot.scope, snapshot.session) not in store._journals or snapshot.state != b"damaged":
        own(snapshot)


def _leaves_values(own, store, scope, session, **rest):
    kept = dict(store._blobs)
    size = own(scope, session, **rest)
    store._blobs.update(kept)
    return size


def _drops_shared_values(own, store, scope, session, **rest):
    size = own(scope, session, **rest)
    store._blobs.clear()
    return size


def _without_forks(own, store, *given, **rest):
    store._forks.clear()
    return own(*given, **rest)


def _owners_need_nothing(own, store, scope, session, **rest):
    owner = store.get(scope, session)
    store.release(owner.node if owner else "", scope, session)
    return own(scope, session, **rest)


def _owners_need_what_ended(own, store, scope, session, **rest):
    found = store.get(scope, session)
    if found and store._is_alive(found.node, store._lease()) and found.root == session:
        raise StillNeeded(session, by=[found.node])
    return own(scope, session, **rest)


def _looks_at_roots_only(own, store, scope, session, written_before_ms=None):
    found = store.get(scope, session)
    if found and written_before_ms is not None and found.written_at_ms >= written_before_ms:
        raise StillNeeded(session, by=["itself"])
    return own(scope, session)


def measures_without(part):
    """A store that leaves something out of the size of a journal."""

    def size(own, store, scope, session):
        journal = store._journals.get((scope, session))
        return own(scope, session) - (part(store, journal) if journal else 0)

    return broken(size=size)


def _reads_what_is_left(own, _store, scope, session, after=0, limit=1000):
    try:
        return own(scope, session, after, limit)
    except Trimmed as error:
        return own(scope, session, error.first - 1, limit)


def _trims_with_any_snapshot(own, store, scope, session, before):
    if any(one.seq >= before for one in store.snapshots(scope, session)):
        return store._journals[scope, session].trim(before)
    return own(scope, session, before)


def _names_other_scopes(own, store, scope, session):
    try:
        return own(scope, session)
    except SessionNotFound as error:
        raise SessionNotFound(str(error), nearest=[name for _, name in store._keys]) from error


def _raises_where_it_is_unknown(own, store, batch):
    for one in batch:
        if store.get(one.scope, one.session) is None:
            raise SessionNotFound(one.session)
    return own(batch)


class KeepsWhatWasGiven(MemoryStore):
    """The mapping itself, and no copy of what is in it."""

    def append(self, batch):
        """Keep the later values."""
        self.given = batch[0].blobs
        return super().append(batch)

    def create(self, opening):
        """Keep the first values."""
        super().create(replace(opening, blobs={}))
        self.first = opening.blobs

    def blob(self, digest):
        """Look in both."""
        return {**self.first, **self.given}.get(digest)


class ClosesOnce(MemoryStore):
    """Fails the second time."""

    closed = 0

    def close(self):
        """Count."""
        self.closed += 1
        assert self.closed != 2, "it is closed"


def _forgets_epochs(_own, store):
    store.__class__ = SaysYes
    return store


DropsFirstValues = broken(create=lambda own, _, opening: own(replace(opening, blobs={})))
DropsLaterValues = broken(append=lambda own, _, batch: own([replace(one, blobs={}) for one in batch]))
HasNothingEmpty = broken(blob=lambda own, _, digest: own(digest) or None)
KeepsOneSnapshot = broken(snapshots=lambda own, _, *given: own(*given)[:1])
OldestFirst = broken(snapshots=lambda own, _, *given: own(*given)[::-1])
KeepsTheFirst = broken(put_snapshot=_keeps_the_first)
SnapshotsBelow = broken(
    snapshots=lambda own, _, scope, session, at_most=None: own(scope, session, at_most and at_most - 1)
)
LooksAtSnapshots = broken(put_snapshot=_looks_at_snapshots)  # to refuse damaged ones is for readers
LeavesValues = broken(delete=_leaves_values)
DropsSharedValues = broken(delete=_drops_shared_values)
CountsNothing = broken(delete=lambda own, _, *given, **rest: own(*given, **rest) * 0)
ForksNeedNothing = broken(delete=_without_forks, trim=_without_forks)
OwnersNeedNothing = broken(delete=_owners_need_nothing)
DeletesChildren = broken(
    delete=lambda own, store, scope, session, **rest: own(scope, _root_of(store, scope, session), **rest)
)
OwnersNeedWhatEnded = broken(delete=_owners_need_what_ended)
HoldsForEver = broken(
    _is_alive=lambda _own, store, node, lease: node in store._nodes,
    take=_holds_for_ever,
    delete=_owners_need_what_ended,
)
DeletesWhatWoke = broken(delete=lambda own, _, scope, session, **rest: own(scope, session))
LooksAtRootsOnly = broken(delete=_looks_at_roots_only)  # a child may work while its root waits
DeletesTheLastMoment = broken(
    delete=lambda own, _, *key, written_before_ms=None: own(
        *key, written_before_ms=written_before_ms and written_before_ms + 1
    )
)
CountsCharacters = measures_without(
    lambda _, one: sum(len(r.body) - len(r.body.decode()) for r in one.records)
)
SharesSizes = measures_without(
    lambda store, one: sum(len(store._blobs[name]) for name in one.blobs if store._holders[name] > 1)
)
MeasuresRecords = measures_without(lambda _, one: sum(len(s.state) for s in one.snapshots.values()))
ReadsWhatIsLeft = broken(read=_reads_what_is_left)
TrimsOneMore = broken(trim=lambda own, _, scope, session, before: own(scope, session, before + 1))
SaysItBeginsAtOne = altered(lambda one: replace(one, first_seq=1))
TrimsAnything = broken(trim=lambda own, _, *given: ignoring(OptionError, partial(own, *given)) or 0)
TrimsWithAnySnapshot = broken(trim=_trims_with_any_snapshot)
TellsOfOtherScopes = broken(_get=_names_other_scopes)
RaisesWhereItIsUnknown = broken(append=_raises_where_it_is_unknown)
DeletesNothing = broken(delete=lambda own, store, *key, **rest: own(*key, **rest) if store.get(*key) else 0)
Forgets = broken(reopened=lambda _own, store: MemoryStore(now_ms=store._clock))
ForgetsEpochs = broken(reopened=_forgets_epochs)


# --- cuts


class TellsTheFirstTakeover(MemoryStore):
    """Gives who asks again what it was given the first time."""

    def __init__(self, **options):
        super().__init__(**options)
        self.taken = {}

    def take(self, scope, root, node, cause, **options):
        """Remember it."""
        taken = super().take(scope, root, node, cause, **options)
        return self.taken.setdefault((scope, root, node), taken)


def _takes_once(own, store, *given, **force):
    found = store.get(*given[:2])
    if found and found.node == given[2]:
        raise OptionError([f"{found.node} owns it"])
    return own(*given, **force)


def _batches_once(write, store, one):
    found = store.get(one.scope, one.session)
    if found and found.tail.epoch == one.records[0].epoch and found.tail.seq >= one.records[0].seq:
        one = replace(one, records=sealed(one.records, found.tail, scope=one.scope, session=one.session)[0])
    return write(one)


def _drops_before_it_puts(own, _store, put, drop=()):
    own([], drop)
    own(put)


def _drops_once(own, store, put, drop=()):
    there = {(row.kind, row.id) for kind in ("letter", "bill") for row in store.owed(kind)}
    there |= {(row.kind, row.id) for row in put}
    if put and not there.issuperset(drop):
        raise OptionError(["it is not there"])
    own(put, drop)


def _owes_for_sessions(own, store, scope, session, **given):
    store.change_owed([], [("letter", session)])
    return own(scope, session, **given)


def _forgets_what_is_owed(_own, store):
    store.change_owed([], [("letter", row.id) for row in store.owed("letter")])
    return store


TrimsOnce = broken(
    trim=lambda own, _, *given: own(*given) or refuse(OptionError(["there is nothing to drop"]))
)
TakesOnce = broken(take=_takes_once)
BatchesOnce = one_by_one(_batches_once)  # a batch that was there is written behind itself
OwesByIdAlone = broken(
    change_owed=lambda own, _, put, drop=(): own(
        [replace(row, kind="") for row in put], [("", name) for _, name in drop]
    ),
    owed=lambda own, _, kind, *page: tuple(replace(row, kind=kind) for row in own("", *page)),
)
OwesTheLatestFirst = broken(owed=lambda own, _, *given: own(*given)[::-1])
DropsBeforeItPuts = broken(change_owed=_drops_before_it_puts)
DropsOnce = broken(change_owed=_drops_once)  # it cannot drop what is not there
OwesForSessions = broken(delete=_owes_for_sessions)
ForgetsWhatIsOwed = broken(reopened=_forgets_what_is_owed)


# --- erasing


def _erases_roots_only(own, store, scope, session, why):
    tree, store._trees[scope, session] = store._trees[scope, session], [(scope, session)]
    try:
        return own(scope, session, why)
    finally:
        store._trees[scope, session] = tree


def erasing(change):
    """A store that does something to each erased journal, given its records, snapshots and values of before."""

    def erase(own, store, scope, session, why):
        before = {key: (list(one.records), dict(one.snapshots)) for key, one in store._journals.items()}
        values, erased = dict(store._blobs), own(scope, session, why)
        for key in store._tree(scope, session):
            change(store, store._journals[key], *before[key], values)
        return erased

    return broken(erase=erase)


def _leaves_outlines(_store, journal, records, _snapshots, _values):
    erased = zip(journal.records, records, strict=False)
    journal.records[: len(records)] = [replace(one, does=was.does) for one, was in erased]


def _leaves_titles(_store, journal, *_before):
    journal.standing = replace(journal.standing, title="what-ada-has-said")


def _leaves_snapshots(_store, journal, _records, snapshots, _values):
    journal.snapshots = snapshots


def _ends_nothing(_store, journal, records, *_before):
    del journal.records[len(records) :]


def _erases_anew(_store, journal, *_before):
    journal.records = [
        replace(one, body=one.body.replace(b"retention", b"user forgotten")) for one in journal.records
    ]


def _finds_what_was_erased(own, store, filters=Filters(), **place):  # noqa: B008 - frozen
    if filters.owner:
        return tuple(store._journals[key].stored() for key in store._of_owner.get(filters.owner, ()))
    return own(filters, **place)


class LosesErasures(MemoryStore):
    """Opened again it has what it had."""

    def erase(self, scope, session, why):
        """Remember it."""
        self.kept = {
            key: (one.records, one.standing, one.snapshots, one.blobs) for key, one in self._journals.items()
        }
        return super().erase(scope, session, why)

    def reopened(self):
        """Bring it back."""
        for key, kept in self.kept.items():
            one = self._journals[key]
            one.records, one.standing, one.snapshots, one.blobs = kept
        return self


def _takes_late_snapshots(_own, store, snapshot):
    journal = store._journals.get((snapshot.scope, snapshot.session))
    if journal is not None:
        journal.snapshots[snapshot.seq] = snapshot


def _erases_nothing_of_the_living(own, store, scope, session, why):
    top = store._journals.get((scope, session))
    if top is not None and store._is_alive(top.node, store._lease()):
        raise StillNeeded(session, by=[f"node {top.node}"])
    return own(scope, session, why)


ErasesRootsOnly = broken(erase=_erases_roots_only)
LeavesOutlines = erasing(_leaves_outlines)
LeavesTitles = erasing(_leaves_titles)
LeavesOwners = broken(_disown=lambda _own, _, key, owner: None, find=_finds_what_was_erased)
LeavesSnapshots = erasing(_leaves_snapshots)
LeavesErasedValues = erasing(lambda store, _journal, _records, _shots, values: store._blobs.update(values))
EndsNothing = erasing(_ends_nothing)  # old owners go on
ErasesAnew = erasing(_erases_anew)  # says each time why, and ends it again
TakesLateSnapshots = broken(put_snapshot=_takes_late_snapshots)
ErasesWhatIsAtWork = broken(_check_left=lambda _own, _, top, keys: None)
ErasesNothingOfTheLiving = broken(erase=_erases_nothing_of_the_living)

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
    claims.no_tree_is_claimed_by_two_nodes: (ReservesNothing,),
    claims.a_reservation_ends: (ReservesNothing, ReservesForEver),
    claims.a_reservation_gives_nothing_while_the_owner_lives: (TakesWhatItReserved, HoldsFromOwners),
    claims.a_released_reservation_leaves_the_owner: (
        ReleasesForClaimers,
        CountsReleasedDeaths,
        TakesBackTwice,
    ),
    claims.a_claim_again_ends_old_reservations: (KeepsOldReservations,),
    claims.deaths_are_counted: (PoisonFirst, CountsNoDeaths),
    claims.no_newer_tree_is_claimed: (ClaimsAnyCodec,),
    claims.an_expired_lease_needs_a_silent_owner: (TrustsTheClock, TrustsOldWatches),
    claims.a_tree_is_taken_as_it_was_read: (TakesAnyTail,),
    claims.a_node_is_reported_gone: (KnowsNobodyGone,),
    claims.owned_sessions_are_listed: (OwnsWhatEnded,),
    claims.an_allowance_is_shared: (AllowsEverything, SharesOneKey),
    claims.a_user_has_so_many_sessions: (CountsChildren, KnowsNoQuota),
    claims.owed_rows_have_one_owner: (OwesForAnyNode, AdoptsFromTheLiving),
    queries.it_is_said_how_a_session_stands: (KnowsNoTitles, KnowsNoForks, WrittenWhenOpened),
    queries.sessions_are_found_by_filters: tuple(map(finds_without, Filters.__struct_fields__)),
    queries.sessions_are_found_in_pages: (SortsAsPeopleDo, BeginsAtThePlace),
    queries.sessions_are_listed_by_their_opening: (ListsTheOldest, ListsByName, RepeatsTheLastOne),
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
