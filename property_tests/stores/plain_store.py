"""A store as simple as one can be: lists, and no thought of speed. What every other one is compared with."""

import hashlib

import msgspec
from attrs import field, mutable

from agentrail.abc.store import (
    Beat,
    Erasure,
    Filters,
    Node,
    SharedDraw,
    Standing,
    StoredSession,
    StoredSnapshot,
)
from agentrail.core.journal.erasure import closing_record, erased_record, is_erased
from agentrail.core.journal.record import ERASED, Record, Tail
from agentrail.errors import (
    AlreadyExists,
    Fenced,
    HeldBy,
    JournalBehind,
    OptionError,
    QuotaReached,
    SessionNotFound,
    StillNeeded,
    Trimmed,
)

LEASE_MS = 15_000


@mutable
class Plain:
    """A session: all its records, those that were dropped too."""

    opening: object
    root: str
    node: str
    opened: int
    written: int
    standing: Standing
    records: list[Record] = field(factory=list)
    first: int = 1
    shots: dict[int, StoredSnapshot] = field(factory=dict)
    blobs: set[str] = field(factory=set)
    owner: str = ""
    codec: int = 0
    deaths: int = 0
    claimed_by: str = ""

    @property
    def epoch(self):
        """The newest."""
        return self.records[-1].epoch

    def last_of(self, epoch):
        """The last number that is not of a later epoch; where all of these are dropped, the one in front of what is there."""
        return max([self.first - 1, *(r.seq for r in self.records[self.first - 1 :] if r.epoch <= epoch)])


class PlainStore:
    """Answers as a store does, but for the records of takeovers, which it is told."""

    def __init__(self, clock, *, forget_ms=LEASE_MS):
        self.clock = clock
        self.forget_ms = forget_ms
        self.sessions = {}
        self.beats = {}
        self.blobs = {}
        self.rows = {}
        self.full = {}

    # --- what is asked within

    def find_one(self, scope, session):
        """One session, or the error."""
        if (scope, session) not in self.sessions:
            raise SessionNotFound("none")  # noqa: EM101
        return self.sessions[scope, session]

    def find_root(self, scope, session):
        """One that is a root."""
        if (one := self.find_one(scope, session)).root != session:
            raise OptionError(["no root"])
        return one

    def tree(self, scope, root):
        """The sessions of a tree, by their keys."""
        return {key: one for key, one in self.sessions.items() if key[0] == scope and one.root == root}

    def is_alive(self, node):
        """Whether a node was heard of within the lease."""
        beat = self.beats.get(node)
        return beat is not None and not beat.gone_at_ms and self.clock() - beat.seen_at_ms < LEASE_MS

    def is_dead(self, node, silent=None):
        """Whether the sessions of a node may be taken, by one who has seen no heartbeat of those that are silent."""
        beat = self.beats.get(node)
        if beat is None or beat.gone_at_ms:
            return True
        return not self.is_alive(node) and (silent is None or silent.get(node) == beat.seen_at_ms)

    def forks_of(self, key):
        """Who was forked from a session, and at which number."""
        return {
            name: one.opening.forked_from[1]
            for (scope, name), one in self.sessions.items()
            if scope == key[0] and one.opening.forked_from and one.opening.forked_from[0] == key[1]
        }

    def stored(self, key):
        """What is said of a session."""
        one = self.sessions[key]
        last = one.records[-1]
        return StoredSession(
            scope=key[0],
            session=key[1],
            root=one.root,
            parent=one.opening.parent,
            forked_from=one.opening.forked_from,
            node=one.node,
            opened_at_ms=one.opened,
            written_at_ms=one.written,
            first_seq=one.first,
            tail=Tail(seq=last.seq, epoch=last.epoch, hash=last.hash),
            events=last.events,
            standing=one.standing,
            codec=one.codec,
            deaths=one.deaths,
        )

    # --- the port

    def create(self, opening):
        """As `Store.create`."""
        first = opening.records[0]
        key = (first.scope, first.session)
        if (there := self.sessions.get(key)) is not None:
            present = there.records[there.first - 1 : len(opening.records)]
            is_same = there.opening.records == opening.records and present
            if not is_same or any(one.kind == ERASED for one in present):
                raise AlreadyExists
            if there.epoch > 1:
                raise Fenced(key[1], durable_up_to=there.last_of(1))
            if there.node not in ("", opening.node):
                raise AlreadyExists
            return
        if opening.root != key[1] and self.find_one(first.scope, opening.root).node != opening.node:
            raise Fenced(key[1], durable_up_to=0)
        if opening.owner and opening.root == key[1] and opening.max_of_owner is not None:
            others = [
                one for at, one in self.sessions.items() if one.root == at[1] and one.owner == opening.owner
            ]
            if sum(not one.standing.has_ended for one in others) >= opening.max_of_owner:
                raise QuotaReached
        now = self.clock()
        one = Plain(opening, opening.root, opening.node, now, now, opening.standing, list(opening.records))
        one.owner, one.codec = opening.owner, opening.codec
        self.sessions[key] = one
        self.keep(one, opening.blobs)

    def keep(self, one, blobs):
        """Keep large values of a session."""
        one.blobs |= set(blobs)
        self.blobs |= blobs

    def decide_take(self, scope, root, node, force, *, silent=None, tail=None):  # noqa: PLR0913 - as in the port
        """Which sessions are taken, by their keys: those that get a record, and those that are given as they stand."""
        top = self.find_root(scope, root)
        is_moved = tail is not None and tail != self.stored((scope, root)).tail
        if is_moved or not force:
            holder = top.claimed_by if self.is_dead(top.node, silent) else top.node
            if is_moved or not (holder == node or self.is_dead(holder, silent)):
                raise HeldBy(root, node=top.node, address="", seen_ago_ms=0)
        top.claimed_by = ""
        tree = self.tree(scope, root)
        living = {key for key, one in tree.items() if not one.standing.has_ended}
        for one in tree.values():
            one.node = node
        return living, {(scope, root)} - living

    def write_takeover(self, record):
        """Write the record of a takeover, as the store made it."""
        one = self.sessions[record.scope, record.session]
        one.records.append(record)
        one.written = self.clock()

    def release(self, node, scope, root):
        """As `Store.release`."""
        top = self.sessions.get((scope, root))
        if top is not None and top.root == root and node in (top.node, top.claimed_by):
            self.end_claim(top)
            for one in self.tree(scope, root).values():
                one.node = "" if one.node == node else one.node

    def end_claim(self, top):
        """A reservation ends, and counts no death of the owner."""
        top.deaths -= bool(top.node and top.claimed_by and top.deaths)
        top.claimed_by = ""

    def claim(self, node, silent, *, codec, within_ms, skip, limit, again):  # noqa: PLR0913 - as in the port
        """As `Store.claim`."""
        due = self.clock() + within_ms
        wanting = {
            (scope, one.root)
            for (scope, _), one in self.sessions.items()
            if not one.standing.has_ended
            and (
                one.standing.is_working
                or (one.standing.due_at_ms is not None and one.standing.due_at_ms <= due)
            )
        }
        for one in self.sessions.values():
            if again and one.claimed_by == node and not self.is_dead(one.node, silent):
                self.end_claim(one)
        keys = [key for key in wanting - set(skip) if self.may_claim(key, node, silent, codec, again)]
        found = sorted(keys, key=lambda key: (self.sessions[key].deaths, key))[:limit]
        return tuple(self.reserve(key, node) for key in found)

    def may_claim(self, key, node, silent, codec, again):
        """Whether a tree is free for a node that reads records up to a codec."""
        top = self.sessions[key]
        is_free = top.claimed_by != node and self.is_dead(top.claimed_by, silent)
        return (
            top.node != node
            and self.is_dead(top.node, silent)
            and (is_free or (again and top.claimed_by == node))
            and all(one.codec <= codec for one in self.tree(*key).values())
        )

    def reserve(self, key, node):
        """Reserve a tree, and return its root with the deaths before that."""
        top, before = self.sessions[key], self.stored(key)
        if top.claimed_by == node:
            return msgspec.structs.replace(before, deaths=max(0, top.deaths - 1))
        top.deaths += bool(top.node or top.claimed_by)
        top.claimed_by = node
        return before

    def owned(self, node):
        """As `Store.owned`."""
        return {
            key: one.epoch
            for key, one in self.sessions.items()
            if one.node == node and not one.standing.has_ended
        }

    def append(self, batch):
        """As `Store.append`: None, or what a refusal says."""
        refused, answers = {}, []
        for append in batch:
            key = (append.scope, append.session)
            if key not in refused and (refusal := self.refusal(append)) is not None:
                refused[key] = refusal
            if key not in refused:
                one = self.sessions[key]
                new = [record for record in append.records if record.seq > len(one.records)]
                if new:
                    one.records += new
                    one.standing, one.written = append.standing, self.clock()
                    one.codec = max(one.codec, append.codec)
                    if (top := self.sessions.get((append.scope, one.root))) is not None:
                        top.deaths = 0
                    self.keep(one, append.blobs)
            answers.append(refused.get(key))
        return answers

    def refusal(self, append):
        """None for an append that goes in; else where the owner's records end, or which ones are missing in front of it."""
        one = self.sessions.get((append.scope, append.session))
        first = append.records[0]
        if one is None:
            return (Fenced, 0)
        if first.epoch > one.epoch or (first.epoch == one.epoch and first.seq > len(one.records) + 1):
            return (JournalBehind, len(one.records), first.seq - 1)
        there = {record.seq: record for record in one.records[one.first - 1 :]}
        is_same = all(there.get(record.seq, record) == record for record in append.records)
        return None if is_same and first.epoch == one.epoch else (Fenced, one.last_of(first.epoch))

    def read(self, scope, session, after, limit):
        """As `Store.read`."""
        one = self.find_one(scope, session)
        if after + 1 < one.first:
            raise Trimmed(session, first=one.first)
        return tuple(one.records[after : after + limit])

    def find(self, filters, after, limit):
        """As `Store.find`."""
        fitting = [
            key for key in sorted(self.sessions) if (after is None or key > after) and self.fits(key, filters)
        ]
        return tuple(self.stored(key) for key in fitting[:limit])

    def fits(self, key, filters: Filters):
        """Whether a session is looked for."""
        one = self.sessions[key]
        wanted = (
            (filters.scope, key[0]),
            (filters.root, one.root),
            (filters.owner, one.owner),
            (filters.node, one.node),
            (filters.is_working, one.standing.is_working),
            (filters.has_ended, one.standing.has_ended),
        )
        return (
            all(wish is None or wish == is_so for wish, is_so in wanted)
            and (not filters.only_roots or one.root == key[1])
            and (filters.written_before_ms is None or one.written < filters.written_before_ms)
            and (filters.written_after_ms is None or one.written >= filters.written_after_ms)
        )

    def put_snapshot(self, shot):
        """As `Store.put_snapshot`."""
        one = self.sessions.get((shot.scope, shot.session))
        if one is not None and one.records[shot.seq - 1].kind != ERASED:
            one.shots[shot.seq] = shot
            one.shots = dict(sorted(one.shots.items())[-2:])

    def snapshots(self, scope, session, at_most):
        """As `Store.snapshots`."""
        one = self.sessions.get((scope, session))
        shots = sorted(one.shots.items(), reverse=True) if one else ()
        return tuple(shot for seq, shot in shots if at_most is None or seq <= at_most)

    def beat(self, node):
        """As `Store.beat`: nodes that were silent for long, or are gone, and have nothing are forgotten."""
        now = self.clock()
        before = self.beats.get(node.id, Node(id=node.id))
        self.beats[node.id] = msgspec.structs.replace(node, seen_at_ms=now)
        needed = self.owners() | {one.claimed_by for one in self.sessions.values()}
        self.beats = {
            name: one for name, one in self.beats.items() if name in needed or not self.is_forgotten(one)
        }
        return Beat(at_ms=now, before_ms=before.seen_at_ms, was_gone=bool(before.gone_at_ms))

    def is_forgotten(self, node):
        """Whether a node that has nothing is forgotten."""
        is_gone = node.gone_at_ms and self.forget_ms == LEASE_MS
        return is_gone or self.clock() - node.seen_at_ms >= self.forget_ms

    def owners(self):
        """The nodes of sessions, of reservations and of owed rows."""
        claims = {one.claimed_by for one in self.sessions.values()}
        return claims | {one.node for one in (*self.sessions.values(), *self.rows.values())}

    def gone(self, node):
        """As `Store.gone`."""
        if node in self.beats and not self.beats[node].gone_at_ms:
            self.beats[node] = msgspec.structs.replace(self.beats[node], gone_at_ms=self.clock())
        return node in self.beats

    def nodes(self):
        """As `Store.nodes`, by their ids."""
        owners = self.owners()
        return {name: node for name, node in self.beats.items() if name in owners or self.is_alive(name)}

    def take_allowance(self, key, step_ms, limit_ms):
        """As `Store.take_allowance`. A time beyond the limit is from a larger burst, or from before the clock was set back."""
        now, latest = self.clock(), self.clock() + limit_ms + 0.5
        start = max(min(self.full.get(key, 0), latest), now)
        is_allowed = start + step_ms <= latest
        self.full[key] = start + step_ms if is_allowed else start
        return SharedDraw(is_allowed=is_allowed, full_at_ms=self.full[key], now_ms=now)

    def change_owed(self, put, drop):
        """As `OwedStore.change_owed`."""
        self.rows |= {(row.kind, row.id): row for row in put}
        for key in drop:
            self.rows.pop(key, None)

    def owed(self, kind, after, limit, node):
        """As `OwedStore.owed`."""
        rows = [row for key, row in sorted(self.rows.items()) if key[0] == kind and key[1] > after]
        return tuple(row for row in rows if node in (None, row.node))[:limit]

    def adopt_owed(self, kind, node, silent, limit):
        """As `OwedStore.adopt_owed`."""
        free = [
            row
            for row in self.owed(kind, "", 99, None)
            if row.node != node and self.is_dead(row.node, silent)
        ]
        adopted = tuple(msgspec.structs.replace(row, node=node) for row in free[:limit])
        self.change_owed(adopted, ())
        return adopted

    def orphans(self):
        """As `Store.orphans`, as a set of keys."""
        works = [
            (key[0], one.root)
            for key, one in self.sessions.items()
            if one.standing.is_working and not one.standing.has_ended
        ]
        return {root for root in works if not self.is_alive(self.sessions[root].node)}

    def due(self, now):
        """As `Store.due`: when, and which."""
        return sorted(
            (one.standing.due_at_ms, key)
            for key, one in self.sessions.items()
            if one.standing.due_at_ms is not None
            and one.standing.due_at_ms <= now
            and not one.standing.has_ended
            and not self.is_alive(one.node)
        )

    def delete(self, scope, session):
        """As `Store.delete`, without counting."""
        top = self.find_root(scope, session)
        tree = self.tree(scope, session)
        if {fork for key in tree for fork in self.forks_of(key) if (scope, fork) not in tree}:
            raise StillNeeded(session, by=["fork"])
        if self.is_alive(top.node) and not all(one.standing.has_ended for one in tree.values()):
            raise StillNeeded(session, by=["node"])
        for key in tree:
            del self.sessions[key]
        self.drop_blobs()

    def drop_blobs(self):
        """Drop the large values that no session has any more, and count them."""
        kept = {digest for one in self.sessions.values() for digest in one.blobs}
        before = len(self.blobs)
        self.blobs = {digest: content for digest, content in self.blobs.items() if digest in kept}
        return before - len(self.blobs)

    def erase(self, scope, session, why):
        """As `Store.erase`."""
        top = self.find_root(scope, session)
        tree = self.tree(scope, session)
        if self.is_alive(top.node) and not all(one.standing.has_ended for one in tree.values()):
            raise StillNeeded(session, by=["node"])
        erased = Erasure()
        for one in tree.values():
            there = one.records[one.first - 1 :]
            count = 0
            if not is_erased(there[-2:], why):
                count = sum(record.kind != ERASED for record in there)
                end = closing_record(one.records[-1], why, self.clock())
                one.records = [*(erased_record(record, why) for record in one.records), end]
                one.written = self.clock()
            one.blobs, snapshots, one.shots = set(), len(one.shots), {}
            one.standing, one.node, one.owner = Standing(has_ended=True), "", ""
            erased += Erasure(
                sessions=bool(count), records=count, snapshots=snapshots, blobs=self.drop_blobs()
            )
        return erased

    def trim(self, scope, session, before):
        """As `Store.trim`."""
        one = self.find_one(scope, session)
        if before > len(one.records):
            raise OptionError(["beyond the end"])
        if before <= one.first:
            return 0
        if not any(
            shot.seq >= before
            and shot.seq <= len(one.records)
            and shot.hash == one.records[shot.seq - 1].hash
            and shot.check == hashlib.blake2b(shot.hash + shot.state, digest_size=16).digest()
            for shot in one.shots.values()
        ):
            raise OptionError(["no snapshot"])
        if any(at >= one.first for at in self.forks_of((scope, session)).values()):
            raise StillNeeded(session, by=["fork"])
        dropped, one.first = before - one.first, before
        return dropped
