"""`PostgresStore` over a connection that is cut before and after each answer of the server, in each call of the port.

A call is a row of `CALLS`. It runs once uncut, which counts its answers and gives the expected outcome. Then it runs on data of its own for each
point: before or after one of these answers. Cutting each rule of `check_store` at each point would take half an hour, and would cut the same calls.
"""

from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import partial

import msgspec
import pytest
from attrs import frozen

from agentrail.abc.store import Filters, Node, OwedRow, Standing, TakeOver
from agentrail.core.journal.record import TAKEN, first_broken
from agentrail.errors import SessionNotFound, StoreUnavailable
from agentrail.stores.postgres import PostgresStore
from agentrail.testing.store_rules.trial import Author, blob_name, snapshot_behind
from tests.cutting_proxy import Cut, CuttingProxy, is_whole_postgres_answer
from tests.stores.postgres_databases import fresh_databases, through
from tests.thinned import sample

WORKS = Standing(is_working=True)
LATER = Standing(due_at_ms=10**15)
BLOB = b"large"
STEP_MS = 1_000.0
SAMPLED = 7
"""Points of a call of many statements that CI cuts at, besides both sides of its last answer. `make nightly` cuts at all of them."""


class Data:
    """What one run of a call has to itself: a scope, nodes and a kind of owed rows.

    Attributes:
        key: Its scope and kind, and the beginning of its nodes' names.
        store: Without a proxy.
    """

    def __init__(self, store, key):
        self.store = store
        self.key = key
        self.one = self.node("n1")
        self.two = self.node("n2")
        self.root = Author("root", scope=key)
        self.child = Author("child", scope=key)

    def node(self, name):
        return f"{self.key}-{name}"

    def begin(self, standing=Standing()):  # noqa: B008 - frozen
        """Create a root with a child, of a node without a heartbeat; another node has one."""
        self.store.beat(Node(id=self.two))
        opening = {"node": self.one, "standing": standing, "blobs": {blob_name(BLOB): BLOB}}
        self.store.create(self.root.opening("a", "b", "c", **opening))
        self.store.create(self.child.opening(root="root", parent="root", node=self.one))

    def owe(self):
        rows = [OwedRow(kind=self.key, id=name, body=b"x", node=self.one) for name in "ab"]
        self.store.change_owed(rows)

    def snapshot(self):
        self.begin()
        self.store.put_snapshot(snapshot_behind(self.root.records[2]))


def facts(data):
    """Return all that the store has of a run, apart from what a repeated call may change: how often a node took a tree."""
    found = []
    for one in data.store.find(Filters(scope=data.key)):
        records = data.store.read(one.scope, one.session, one.first_seq - 1)
        assert one.first_seq > 1 or first_broken(records) is None
        assert [record.seq for record in records] == list(range(one.first_seq, one.tail.seq + 1))
        bodies = [record.body for record in records if record.kind == "prompt"]
        taken = any(record.kind == TAKEN for record in records)
        shots = [shot.seq for shot in data.store.snapshots(one.scope, one.session)]
        row = (one.session, one.node, one.first_seq, one.events, one.standing, one.codec, one.deaths)
        found.append((row, bodies, taken, shots, data.store.size(one.scope, one.session) > 0))
    nodes = [
        (one.id, one.address, one.gone_at_ms)
        for one in data.store.nodes()
        if one.id.startswith(f"{data.key}-")
    ]
    return msgspec.to_builtins((found, nodes, data.store.owed(data.key)), str_keys=True)


@frozen(kw_only=True)
class Call:
    """A call of the port.

    Attributes:
        prepare: What is there before it.
        call: Receives a store and the data.
        again: The call that is made after a cut.
        done: What the repeated call may raise: it took effect before the cut.
        may_differ: Whether a repeated call answers otherwise, because it took effect before.
    """

    call: Callable[..., object]
    prepare: Callable[..., object] = Data.begin
    again: Callable[..., object] | None = None
    done: tuple[type[Exception], ...] = ()
    may_differ: bool = False


def create(store, data):
    blobs = {blob_name(BLOB): BLOB}
    opening = Author("root", scope=data.key).opening(
        "a", node=data.one, blobs=blobs, owner=data.key, max_of_owner=1
    )
    store.create(opening)
    store.create(Author("child", scope=data.key).opening(root="root", parent="root", node=data.one))


def append(store, data):
    """A repeated call sends the same records, which `made` has made."""
    return store.append(data.made)


def made(data, *, stored=0):
    data.begin()
    data.made = [
        data.root.write("d", blobs={blob_name(b"other"): b"other"}, codec=2, standing=LATER),
        data.child.write("e", events=3),
    ]
    if stored:
        data.store.append(data.made[:stored])
        first, second = data.made[0], data.root.write("f", standing=LATER)
        data.made[0] = msgspec.structs.replace(second, records=first.records + second.records)


def take(store, data):
    return [one.session for one in store.take(data.key, "root", data.two, "gone").sessions]


def take_many(store, data):
    wanted = [TakeOver(scope=data.key, root="root", node=data.two, cause="gone")]
    return [[one.session for one in answer.sessions] for answer in store.take_many(wanted)]


def claim(store, data, *, again=False):
    return [(one.session, one.deaths) for one in store.claim(data.two, again=again, codec=9)]


def reserved(data):
    """The owner of the tree lives again after another node has reserved it."""
    data.begin(standing=WORKS)
    claim(data.store, data)
    data.store.beat(Node(id=data.one))


def draw(store, data):
    """A draw whose answer is lost may have been stored: then the repeated one draws a second piece."""
    drawn = store.take_allowance(data.key, STEP_MS, 9 * STEP_MS)
    assert drawn.is_allowed
    assert drawn.full_at_ms - drawn.now_ms in (STEP_MS, 2 * STEP_MS)


def change_owed(store, data):
    store.change_owed([OwedRow(kind=data.key, id="c", body=b"y", node=data.one)], [(data.key, "a")])


def beat(store, data):
    return store.beat(Node(id=data.two, address="http://a")).before_ms > 0


def write(name, *arguments, **rest):
    """Return a call upon the root."""
    return Call(call=lambda store, data: getattr(store, name)(data.key, "root", *arguments), **rest)


CALLS = {
    "create": Call(call=create, prepare=lambda data: None),
    "append": Call(call=append, prepare=made),
    "append a stored one": Call(call=append, prepare=partial(made, stored=2)),
    "take": Call(call=take),
    "take_many": Call(call=take_many),
    "claim": Call(call=claim, again=partial(claim, again=True), prepare=partial(Data.begin, standing=WORKS)),
    "release": Call(call=lambda store, data: store.release(data.one, data.key, "root")),
    "release of a claim": Call(
        call=lambda store, data: store.release(data.two, data.key, "root"), prepare=reserved
    ),
    "claim of a live owner": Call(call=partial(claim, again=True), prepare=reserved),
    "put_snapshot": Call(call=lambda store, data: store.put_snapshot(snapshot_behind(data.root.records[1]))),
    "beat": Call(call=beat),
    "gone": Call(call=lambda store, data: store.gone(data.two)),
    "take_allowance": Call(call=draw),
    "change_owed": Call(call=change_owed, prepare=Data.owe),
    "adopt_owed": Call(
        call=lambda store, data: [row.id for row in store.adopt_owed(data.key, data.two)],
        prepare=Data.owe,
        may_differ=True,
    ),
    "delete": write("delete", done=(SessionNotFound,)),
    "trim": write("trim", 2, prepare=Data.snapshot, may_differ=True),
    "erase": write("erase", "user forgotten", may_differ=True),
    "now_ms": Call(call=lambda store, data: store.now_ms()),
    "get": Call(call=lambda store, data: store.get(data.key, "root").tail.seq),
    "read": Call(call=lambda store, data: [one.body for one in store.read(data.key, "root")]),
    "find": Call(call=lambda store, data: [one.session for one in store.find(Filters(scope=data.key))]),
    "newest": Call(call=lambda store, data: [one.session for one in store.newest(Filters(scope=data.key))]),
    "snapshots": Call(call=lambda store, data: len(store.snapshots(data.key, "root")), prepare=Data.snapshot),
    "blob": Call(call=lambda store, data: store.blob(blob_name(BLOB))),
    "nodes": Call(call=lambda store, data: data.two in [one.id for one in store.nodes()]),
    "owned": Call(call=lambda store, data: list(store.owned(data.one).values())),
    "orphans": Call(call=lambda store, data: len(store.orphans(0))),
    "due": Call(call=lambda store, data: len(store.due(0, 0))),
    "owed": Call(call=lambda store, data: len(store.owed(data.key)), prepare=Data.owe),
    "size": Call(call=lambda store, data: store.size(data.key, "root")),
    "secret": Call(call=lambda store, data: store.secret()),
}


class Line:
    """A database, with and without a proxy before it."""

    def __init__(self, url, proxy):
        self._url = url
        self._proxy = proxy
        self._store = PostgresStore(url)
        self._runs = 0

    def close(self):
        self._store.close()

    def run(self, one, where=None, place=0):
        """Make a call upon data of its own, cut at an answer unless `where` is None, and again until there is an answer.

        Returns:
            The answer, the facts, the number of answers of the server, and whether the first call was answered.
        """
        self._runs += 1
        data = Data(self._store, f"k{self._runs}")
        one.prepare(data)
        with closing(PostgresStore(through(self._proxy.port, self._url))) as store:
            store.now_ms()  # opens a reading connection
            answers, cuts = self._proxy.answers, self._proxy.cuts
            if where is not None:
                self._proxy.cut_at(where, skip=place)
            is_answered = True
            try:
                answer = one.call(store, data)
            except StoreUnavailable:
                is_answered = False
                answer = run_again(one, store, data)
            assert self._proxy.cuts == cuts + (where is not None)
            count = self._proxy.answers - answers
            if where is Cut.AFTER_ANSWER:
                call_again(store)  # over a closed connection
        said = msgspec.json.encode(facts(data)).replace(data.key.encode(), b"k")
        return answer, said, count, is_answered


def run_again(one, store, data):
    try:
        return (one.again or one.call)(store, data)
    except one.done:
        return None


def call_again(store):
    for call in (store.now_ms, partial(store.release, "none", "none", "none")):
        with suppress(StoreUnavailable):
            call()
        call()


@pytest.fixture(scope="module")
def line(postgres_session):
    port = postgres_session.port
    with ExitStack() as stack:
        proxy = stack.enter_context(CuttingProxy(port, is_whole=is_whole_postgres_answer))
        create = stack.enter_context(fresh_databases(postgres_session))
        yield stack.enter_context(closing(Line(create(), proxy)))


@pytest.mark.machine(18)
@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_was_cut_at_any_answer_can_be_repeated(name, line, postgres_server):
    """It raises `StoreUnavailable` unless the last answer came, and the repeated call ends where an uncut one does."""
    one = CALLS[name]
    expected, facts_after, count, _ = line.run(one)
    points = [(place, where) for place in range(count) for where in (Cut.BEFORE_ANSWER, Cut.AFTER_ANSWER)]
    last = points[-2:]
    for place, where in [*sample(points[:-2], SAMPLED), *last]:
        answer, said, _, is_answered = line.run(one, where, place)
        assert is_answered == ((place, where) == points[-1]), (where, place)
        assert said == facts_after, (where, place)
        assert one.done or one.may_differ or answer == expected, (where, place)
