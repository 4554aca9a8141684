"""Each store beside a plain one, under random calls of owners old and new: every answer is the same, and all that is there."""

import hashlib
import itertools
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from agentrail.abc.store import Filters, Node, OwedRow, Standing, TakeOver, take_all
from agentrail.core.journal.record import TAKEN, Tail, TakenBody, first_broken
from agentrail.errors import AgentrailError, Fenced
from agentrail.stores.append_rules import FORGET_NODE_MS
from agentrail.stores.memory import MemoryStore
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.store_rules.trial import Author, blob_name, snapshot_behind
from property_tests.stores.plain_store import LEASE_MS, PlainStore
from property_tests.stores.server_beside_model import ServerBesideModel
from tests.cutting_proxy import Cut, CuttingProxy, is_whole_postgres_answer
from tests.stores.postgres_databases import fresh_databases, run_sql
from tests.stores.rig import Clock

SESSIONS = st.sampled_from("abcd")
SCOPES = st.sampled_from(["", "", "", "x"])
NODES = st.sampled_from(["n1", "n2", "n3"])
DUE = st.none() | st.integers(0, 5) | st.just(1_060_000)
SILENT = st.none() | st.dictionaries(NODES, st.booleans())  # whether it is the last heartbeat
CODECS = st.sampled_from([0, 0, 1, 2])
KINDS = st.sampled_from(["webhook", "cursor"])
OWED_ROWS = st.builds(
    OwedRow, kind=KINDS, id=st.sampled_from("abc"), body=st.binary(max_size=2), node=NODES | st.just("")
)
STANDINGS = st.builds(
    Standing,
    is_working=st.booleans(),
    has_ended=st.sampled_from([False, False, False, True]),
    waits_for=st.integers(0, 2),
    due_at_ms=DUE,
    title=st.sampled_from(["", "é"]),
)
BLOBS = st.lists(st.sampled_from([b"", b"one", b"two\0"]), max_size=2).map(
    lambda contents: {blob_name(content): content for content in contents}
)
OWNERS = st.sampled_from(["", "ann", "bob"])
BEGINNINGS = st.fixed_dictionaries(
    {
        "node": NODES,
        "owner": OWNERS,
        "standing": STANDINGS,
        "blobs": BLOBS,
        "codec": CODECS,
        "max_of_owner": st.sampled_from([None, None, 0, 1, 2]),
    }
)
FILTERS = st.builds(
    Filters,
    scope=st.none() | SCOPES,
    root=st.none() | SESSIONS,
    owner=st.none() | OWNERS,
    node=st.none() | NODES | st.just(""),
    is_working=st.none() | st.booleans(),
    has_ended=st.none() | st.booleans(),
    only_roots=st.booleans(),
    written_before_ms=st.none() | st.integers(1_000_000, 1_200_000),
    written_after_ms=st.none() | st.integers(1_000_000, 1_200_000),
)


def by_key(found):
    """Sort sessions."""
    return sorted(found, key=lambda one: (one.scope, one.session))


def answer_of(call, *arguments, **options):
    """What a call gives, or the class of what it raises."""
    try:
        return call(*arguments, **options)
    except AgentrailError as error:
        return type(error)


def said_by(refusal):
    """None, or the class and the numbers of a refused append."""
    match refusal:
        case None:
            return None
        case Fenced():
            return (Fenced, refusal.durable_up_to)
        case _:
            return (type(refusal), refusal.have, refusal.acknowledged)


EMPTY = """TRUNCATE agentrail.session, agentrail.record, agentrail.snapshot, agentrail.blob, agentrail.blob_use, agentrail.owed, agentrail.allowance;
DELETE FROM agentrail.node WHERE id <> ''"""


class StoreBesidePlain(RuleBasedStateMachine):
    """Owners that write, take, give up and come back too late, upon both stores at once."""

    forget_ms = FORGET_NODE_MS
    overwrites = True

    def __init__(self):
        super().__init__()
        self.clock = Clock()
        self.plain = PlainStore(self.clock, forget_ms=self.forget_ms)
        self.folder = tempfile.TemporaryDirectory()
        self.store = self.open_store()
        self.numbers = itertools.count()
        self.openings = []
        self.authors = []
        self.made = []

    def open_store(self):
        """Open what is compared."""
        return MemoryStore(now_ms=self.clock, lease_ms=LEASE_MS)

    def teardown(self):
        """Close it."""
        self.store.close()
        self.folder.cleanup()

    def key(self, data):
        """The key of a session: mostly of one that is there."""
        there = sorted(self.plain.sessions)
        if there and data.draw(st.integers(0, 7)):
            return data.draw(st.sampled_from(there))
        return data.draw(st.tuples(SCOPES, SESSIONS))

    def watched(self, silent):
        """The heartbeats that a node has watched: the last ones, or earlier ones."""
        beats = self.plain.beats
        return silent and {
            name: beats[name].seen_at_ms if is_last and name in beats else 1
            for name, is_last in silent.items()
        }

    def text(self):
        """A body that no other record has."""
        return f'{{"n":{next(self.numbers)}}}'

    # --- what writes

    @initialize(data=st.data(), sessions=st.lists(SESSIONS, max_size=4))
    def begin_some(self, data, sessions):
        """Some journals are there from the beginning."""
        for session in sessions:
            self.begin(data, session, data.draw(SCOPES), data.draw(BEGINNINGS))

    @rule(data=st.data(), session=SESSIONS, scope=SCOPES, rest=BEGINNINGS)
    def create(self, data, session, scope, rest):
        """Begin a journal."""
        self.begin(data, session, scope, rest)

    def begin(self, data, session, scope, rest):
        """Begin a journal: a root, a fork, or a child of one that is there or not."""
        author = Author(session, scope=scope)
        others = [key for key, one in self.plain.sessions.items() if key[0] == scope and one.root == key[1]]
        root = data.draw(st.sampled_from([session, session, *(name for _, name in others), "unknown"]))
        parent = "" if root == session else root
        fork = None
        if others and not parent and data.draw(st.booleans()):
            _, name = data.draw(st.sampled_from(others))
            fork = (name, data.draw(st.integers(1, len(self.plain.sessions[scope, name].records))))
        bodies = [self.text() for _ in range(data.draw(st.integers(1, 3)))]
        opening = author.opening(*bodies, root=root, parent=parent, forked_from=fork, **rest)
        self.open_both(opening, author)

    @precondition(lambda self: self.openings)
    @rule(data=st.data(), node=st.none() | NODES)
    def create_again(self, data, node):
        """The same opening again, by its node or another one."""
        opening = data.draw(st.sampled_from(self.openings))
        self.open_both(opening if node is None else msgspec.structs.replace(opening, node=node), None)

    def open_both(self, opening, author):
        """Begin it in both."""
        expected = answer_of(self.plain.create, opening)
        assert answer_of(self.store.create, opening) == expected
        if expected is None and author is not None:
            self.authors.append(author)
            self.openings.append(opening)

    @precondition(lambda self: self.authors)
    @rule(
        data=st.data(),
        count=st.integers(1, 3),
        is_sent=st.booleans(),
        standing=STANDINGS,
        blobs=BLOBS,
        codec=CODECS,
    )
    def write(self, data, count, is_sent, **rest):
        """An owner, old or new, makes an append; it is sent, or lies there until it is."""
        author = data.draw(st.sampled_from(self.authors))
        made = author.write(*(self.text() for _ in range(count)), events=len(author.records), **rest)
        self.made.append(made)
        if is_sent:
            self.append_both([made])

    @precondition(lambda self: self.made)
    @rule(data=st.data())
    def send(self, data):
        """Some of what was made is sent, again or for the first time, in some order."""
        newest = st.integers(0, len(self.made) - 1).map(lambda back: self.made[-1 - back])
        batch = data.draw(st.lists(newest, min_size=1, max_size=4))
        self.append_both(batch)

    @precondition(lambda self: self.made)
    @rule(data=st.data())
    def send_all(self, data):
        """All that an owner made is sent in order; what is durable of it, too."""
        of = data.draw(st.sampled_from(self.made))
        self.append_both([one for one in self.made if (one.scope, one.session) == (of.scope, of.session)])

    @precondition(lambda self: self.pairs())
    @rule(data=st.data())
    def send_joined(self, data):
        """Two appends of one owner that follow each other are sent as one."""
        one, two = data.draw(st.sampled_from(self.pairs()))
        self.append_both([msgspec.structs.replace(two, records=one.records + two.records)])

    def pairs(self):
        """Appends of one owner that follow each other."""
        return [
            (one, two)
            for one, two in itertools.pairwise(self.made)
            if (one.scope, one.session, one.records[-1].epoch, one.records[-1].seq + 1)
            == (two.scope, two.session, two.records[0].epoch, two.records[0].seq)
        ]

    def append_both(self, batch):
        """Append to both."""
        assert [said_by(one) for one in self.store.append(batch)] == self.plain.append(batch)

    @rule(
        data=st.data(),
        node=NODES,
        force=st.booleans(),
        cause=st.sampled_from(["start", "gone"]),
        silent=SILENT,
    )
    def take(self, data, node, force, cause, silent):
        """Make a node the owner of a tree, which it has perhaps folded before."""
        silent = self.watched(silent)
        scope, session = self.key(data)
        ends = [Tail()]
        if (one := self.plain.sessions.get((scope, session))) is not None:
            ends += [Tail(seq=last.seq, epoch=last.epoch, hash=last.hash) for last in one.records[-2:]]
        tail = data.draw(st.none() | st.sampled_from(ends))
        decided = answer_of(self.plain.decide_take, scope, session, node, force, silent=silent, tail=tail)
        taken = answer_of(self.store.take, scope, session, node, cause, force=force, silent=silent, tail=tail)
        self.check_taken((scope, session), node, cause, decided, taken)

    @rule(data=st.data(), node=NODES, force=st.booleans(), silent=SILENT)
    def take_many(self, data, node, force, silent):
        """Make a node the owner of some trees at once: each is taken or refused as by itself."""
        silent = self.watched(silent)
        keys = dict.fromkeys(self.key(data) for _ in range(data.draw(st.integers(0, 3))))
        decided = [answer_of(self.plain.decide_take, *key, node, force, silent=silent) for key in keys]
        wanted = [
            TakeOver(scope=scope, root=name, node=node, cause="gone", force=force, silent=silent)
            for scope, name in keys
        ]
        answers = take_all(self.store, wanted)
        for key, one, answer in zip(keys, decided, answers, strict=True):
            given = type(answer) if isinstance(answer, AgentrailError) else answer
            self.check_taken(key, node, "gone", one, given)

    def check_taken(self, top, node, cause, decided, taken):
        """A tree was taken by the store as the plain one decided."""
        scope, session = top
        if isinstance(decided, type):
            assert taken == decided
            return
        assert not isinstance(taken, type), taken
        living, as_they_stand = decided
        for key in living:
            before = self.plain.stored(key)
            (record,) = self.store.read(*key, before.tail.seq)
            assert first_broken([record], before.tail) is None
            assert (record.kind, record.epoch, record.at_ms) == (TAKEN, before.tail.epoch + 1, self.clock())
            assert record.events == before.events
            body = msgspec.json.decode(record.body, type=TakenBody)
            assert (body.node, body.cause) == (node, cause)
            self.plain.write_takeover(record)
            self.authors.append(Author(key[1], scope=scope, tail=self.plain.stored(key).tail))
        assert taken.sessions[0].session == session
        assert sorted(taken.sessions, key=lambda one: one.session) == [
            self.plain.stored(key) for key in sorted(living | as_they_stand)
        ]

    @rule(data=st.data(), node=NODES)
    def release(self, data, node):
        """A node gives a tree up, whether it is its own or not."""
        scope, session = self.key(data)
        self.store.release(node, scope, session)
        self.plain.release(node, scope, session)

    @precondition(lambda self: self.plain.sessions)
    @rule(data=st.data(), broken=st.sampled_from([{}, {}, {}, {"state": b"other"}, {"hash": bytes(16)}]))
    def put_snapshot(self, data, broken):
        """A snapshot behind the last record; sometimes one that is damaged."""
        one = data.draw(st.sampled_from(list(self.plain.sessions.values())))
        shot = msgspec.structs.replace(snapshot_behind(one.records[-1], self.text().encode()), **broken)
        self.store.put_snapshot(shot)
        self.plain.put_snapshot(shot)

    @rule(
        data=st.data(),
        node=NODES,
        silent=SILENT,
        codec=CODECS,
        within_ms=st.sampled_from([0, 60_000]),
        limit=st.integers(0, 4),
        again=st.booleans(),
    )
    def claim(self, data, node, silent, again, **rest):
        """Reserve trees of the dead. Those that a node had reserved before may come in any order."""
        silent = self.watched(silent)
        skip = (
            data.draw(st.frozensets(st.sampled_from(sorted(self.plain.sessions))))
            if self.plain.sessions
            else ()
        )
        expected = self.plain.claim(node, silent, skip=skip, again=again, **rest)
        claimed = self.store.claim(node, silent, skip=skip, again=again, **rest)
        assert by_key(claimed) == by_key(expected) if again else claimed == expected

    @rule(node=NODES, address=st.sampled_from(["", "http://a"]))
    def beat(self, node, address):
        """A node is heard of."""
        assert self.store.beat(Node(id=node, address=address)) == self.plain.beat(
            Node(id=node, address=address)
        )

    @rule(node=NODES)
    def gone(self, node):
        """A node is reported to have ended."""
        assert self.store.gone(node) == self.plain.gone(node)

    @rule(key=st.sampled_from("ab"), step_ms=st.sampled_from([1_000, 7_000]), burst=st.integers(0, 3))
    def take_allowance(self, key, step_ms, burst):
        """A piece of an allowance is drawn."""
        drawn = self.store.take_allowance(key, step_ms, burst * step_ms)
        assert drawn == self.plain.take_allowance(key, step_ms, burst * step_ms)

    @rule(
        put=st.lists(OWED_ROWS, max_size=3),
        drop=st.lists(st.tuples(KINDS, st.sampled_from("abc")), max_size=2),
    )
    def change_owed(self, put, drop):
        """Owed rows come and go."""
        self.store.change_owed(put, drop)
        self.plain.change_owed(put, drop)

    @rule(kind=KINDS, node=NODES, silent=SILENT, limit=st.integers(0, 3))
    def adopt_owed(self, kind, node, silent, limit):
        """A node adopts rows of the dead."""
        silent = self.watched(silent)
        adopted = self.store.adopt_owed(kind, node, silent, limit)
        assert adopted == self.plain.adopt_owed(kind, node, silent, limit)

    @rule(kind=KINDS, after=st.sampled_from(["", "a", "b"]), limit=st.integers(0, 3), node=st.none() | NODES)
    def owed(self, kind, after, limit, node):
        """Owed rows, in pages."""
        assert self.store.owed(kind, after, limit, node=node) == self.plain.owed(kind, after, limit, node)

    @rule(data=st.data())
    def delete(self, data):
        """A tree is deleted; ids are new in life, so its old owners say nothing more of one that comes after it."""
        scope, session = self.key(data)
        gone = set(self.plain.tree(scope, session))
        expected = answer_of(self.plain.delete, scope, session)
        freed = answer_of(self.store.delete, scope, session)
        if expected is not None:
            assert freed == expected
            return
        assert freed > 0
        self.authors = [one for one in self.authors if (one.scope, one.session) not in gone]
        self.made = [one for one in self.made if (one.scope, one.session) not in gone]

    @rule(data=st.data(), why=st.sampled_from(["user forgotten", "user forgotten", "retention"]))
    def erase(self, data, why):
        """What was said in a tree is removed, for the first time or again; what its old owners say is refused from then on."""
        scope, session = self.key(data)
        assert answer_of(self.store.erase, scope, session, why) == answer_of(
            self.plain.erase, scope, session, why
        )

    @rule()
    def overwrite_removed(self):
        """The file is written anew: nothing that is there changes by that."""
        assert self.store.overwrite_removed() is self.overwrites

    @rule(data=st.data(), before=st.integers(1, 9))
    def trim(self, data, before):
        """The beginning of a journal is dropped."""
        scope, session = self.key(data)
        assert answer_of(self.store.trim, scope, session, before) == answer_of(
            self.plain.trim, scope, session, before
        )

    @rule(seconds=st.sampled_from([1, 1, 5, 15, 16]))
    def pass_time(self, seconds):
        """The clock of the store goes on."""
        self.set_clock(self.clock.now + seconds * 1000)

    def set_clock(self, now):
        """Set the clock of both."""
        self.clock.now = now

    # --- what reads

    @rule(data=st.data(), after=st.integers(0, 9), limit=st.integers(0, 9))
    def read(self, data, after, limit):
        """A part of a journal."""
        scope, session = self.key(data)
        found = answer_of(self.store.read, scope, session, after, limit)
        assert found == answer_of(self.plain.read, scope, session, after, limit)

    @rule(filters=FILTERS, after=st.none() | st.tuples(SCOPES, SESSIONS), limit=st.integers(0, 9))
    def find(self, filters, after, limit):
        """Sessions by filters, in pages."""
        assert self.store.find(filters, after=after, limit=limit) == self.plain.find(filters, after, limit)

    @rule(data=st.data(), at_most=st.none() | st.integers(0, 9))
    def snapshots(self, data, at_most):
        """The snapshots up to a number."""
        scope, session = self.key(data)
        assert self.store.snapshots(scope, session, at_most) == self.plain.snapshots(scope, session, at_most)

    @rule(now=st.integers(0, 6), limit=st.integers(0, 5))
    def what_is_to_be_done(self, now, limit):
        """Orphans and timers that are due, up to a limit."""
        orphans = sorted(self.plain.orphans())
        for after in (None, *orphans):
            behind = [key for key in orphans if after is None or key > after]
            found = self.store.orphans(limit, after=after)
            assert [(one.scope, one.session) for one in found] == behind[:limit]
        times = [one.standing.due_at_ms for one in self.store.due(now - self.store.now_ms(), limit)]
        assert times == [at for at, _ in self.plain.due(now)][:limit]

    @invariant()
    def what_is_to_be_done_is_the_same(self):
        """All orphans, and all timers that are ever due, in their order."""
        assert {(one.scope, one.session) for one in self.store.orphans()} == self.plain.orphans()
        due = self.store.due(5 - self.store.now_ms())
        assert [one.standing.due_at_ms for one in due] == [at for at, _ in self.plain.due(5)]
        assert {(one.scope, one.session) for one in due} == {key for _, key in self.plain.due(5)}

    @invariant()
    def all_that_is_there_is_the_same(self):
        """Every session, every record, every value, and the nodes."""
        found = self.store.find(limit=99)
        assert found == self.plain.find(Filters(), None, 99)
        for one in found:
            plain = self.plain.sessions[one.scope, one.session]
            assert self.store.get(one.scope, one.session) == one
            assert self.store.read(one.scope, one.session, one.first_seq - 1) == tuple(
                plain.records[plain.first - 1 :]
            )
            assert first_broken(plain.records) is None
            key = (one.scope, one.session)
            assert self.store.snapshots(*key) == self.plain.snapshots(*key, None)
            whole = answer_of(self.store.read, *key)
            assert whole == answer_of(self.plain.read, *key, 0, 1000)
        for content in (b"", b"one", b"two\0"):
            digest = hashlib.sha256(content).hexdigest()
            assert self.store.blob(digest) == self.plain.blobs.get(digest)
        assert {node.id: node for node in self.store.nodes()} == self.plain.nodes()
        for name in ("n1", "n2", "n3"):
            assert self.store.owned(name) == self.plain.owned(name)
        for kind in ("webhook", "cursor"):
            assert self.store.owed(kind) == self.plain.owed(kind, "", 99, None)


class SqliteBesidePlain(StoreBesidePlain):
    """The same for `SqliteStore`, which is closed and opened again in between."""

    forget_ms = LEASE_MS

    def open_store(self):
        """Open the file."""
        path = Path(self.folder.name) / "sessions.db"
        return SqliteStore(path, wall=lambda: self.clock() / 1000, lease_ms=LEASE_MS)

    @rule()
    def reopen(self):
        """Close it, and open what it kept: one process writes a file, so all nodes that it heard of are gone."""
        self.store.close()
        for node in self.plain.beats:
            self.plain.gone(node)
        self.store = self.open_store()


PLANS = st.lists(
    st.none() | st.just("answer") | st.tuples(st.sampled_from(list(Cut)[::-1]), st.integers(0, 5)),
    min_size=1,
    max_size=20,
)
"""What happens to the calls that write, in turn: nothing, a lost answer, or a connection cut at one of the server's answers."""


class PostgresBesidePlain(StoreBesidePlain):
    """The same for `PostgresStore` and its model in simulated worlds, in one database that is emptied for each example. Some calls are cut."""

    overwrites = False

    def __init__(self, url, proxy):
        self.url = url
        self.proxy = proxy
        run_sql(url, EMPTY)
        super().__init__()
        self.set_clock(self.clock.now)

    def open_store(self):
        """Open the database, beside a model."""
        return ServerBesideModel(self.url, self.proxy, self.clock)

    def set_clock(self, now):
        """Set the clock of the server too."""
        super().set_clock(now)
        run_sql(self.url, f"UPDATE public.clock SET ms = {now}")  # noqa: S608 - a number

    @initialize(plans=PLANS)
    def plan(self, plans):
        """Plan the cuts."""
        self.store.plans.extend(plans)

    @invariant()
    def sizes_are_the_same(self):
        """Both stores count the same bytes."""
        for key in self.plain.sessions:
            assert self.store.size(*key) > 0

    @rule()
    def reopen(self):
        """Close it, and open it again: other nodes write meanwhile, so none is gone."""
        self.store.reopen()


@pytest.mark.simulation(17)
def test_postgres_store(postgres_server):
    """The same answers, and the same data, as a plain store and the model of simulated worlds: also after calls that were cut."""
    with (
        fresh_databases(postgres_server) as create,
        CuttingProxy(postgres_server.port, is_whole=is_whole_postgres_answer) as proxy,
    ):
        url = create()
        some = settings(
            max_examples=min(200, max(6, settings.default.max_examples // 4)), stateful_step_count=25
        )
        run_state_machine_as_test(lambda: PostgresBesidePlain(url, proxy), settings=some)


TestMemoryStore = StoreBesidePlain.TestCase
TestSqliteStore = SqliteBesidePlain.TestCase
TestMemoryStore.settings = settings(stateful_step_count=40)
TestSqliteStore.settings = settings(stateful_step_count=30)
