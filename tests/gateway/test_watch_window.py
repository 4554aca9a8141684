"""The window of a watcher, and watches of a made-up source: whatever happens in whatever order, a watcher ends with what it may see now."""

import random
from functools import partial
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given, settings, strategies as st

from agentrail.gateway import row_watches as watches_module
from agentrail.gateway.error_responses import CallRefused
from agentrail.gateway.row_watches import Watches, WatchKind
from agentrail.gateway.watch_window import PART_BYTES, WatchWindow
from agentrail.host import row_sources
from agentrail.host.hook_payloads import Principal
from agentrail.host.row_sources import ChangeLog, TakenRows
from agentrail.wire.rows import RowFilter, SessionRow, WaitingCounts, row_fits
from tests.runtime.rig import on_virtual_time

KEYS = [f"k{number}" for number in range(8)]


class Told:
    """The rows that one client has, made of the parts that it was told."""

    def __init__(self):
        self.rows = {}
        self.total = 0
        self.parts = []

    def take(self, part):
        """Take a part, as a client does."""
        self.parts.append(part)
        self.total = part.total
        assert sum(map(len, part.rows[:-1])) < PART_BYTES
        for text in part.rows:
            row = msgspec.json.decode(text)
            self.rows[row["session_id"]] = row
        for key in part.gone:
            del self.rows[key]  # nothing is taken away that was not told


class Given(dict[str, Any]):
    """Rows by key, the one that changed last behind all others."""

    def written(self, key):
        """Give a row as JSON."""
        value = self.get(key)
        return None if value is None else msgspec.json.encode({"session_id": key, "value": value})


def catch_up(window, given, told, most=10_000):
    """Take all parts that there are, or some of them."""
    for _ in range(most):
        part = window.next_part(given.written)
        if part is None:
            return
        told.take(part)


@settings(max_examples=150)
@given(
    changes=st.lists(
        st.tuples(st.sampled_from(KEYS), st.none() | st.integers(0, 3), st.booleans(), st.integers(0, 2)),
        max_size=40,
    ),
    limit=st.integers(1, 10),
)
def test_a_client_ends_with_the_rows_that_changed_last(changes, limit):
    """Whatever changed, came and went, and however seldom it was told; never more than the limit."""
    given_rows, window, told = Given(), WatchWindow(RowFilter(limit=limit)), Told()
    matching = {}
    for key, value, is_wanted, parts in changes:
        given_rows.pop(key, None)
        matching.pop(key, None)
        if value is not None:
            given_rows[key] = value
            if is_wanted:
                matching[key] = value
        window.note(key, is_wanted=key in matching)
        window.close_gaps()
        catch_up(window, given_rows, told, parts)
        assert window.total == len(matching)
    catch_up(window, given_rows, told)
    last = dict(list(matching.items())[-limit:])
    assert {key: row["value"] for key, row in told.rows.items()} == last
    assert not window.has_more
    if told.parts:
        assert len(told.rows) <= limit


def test_a_log_forgets_the_oldest_changes_and_says_so(monkeypatch):
    """Whoever has seen fewer looks at all rows again."""
    monkeypatch.setattr(row_sources, "MAX_CHANGES", 3)
    log = ChangeLog()
    for key in "abcab":
        log.note(key)
    assert log.since(0) == ["b", "a", "c"]
    assert log.since(4) == ["b"]
    log.note("d")
    log.note("e")
    assert log.since(0) is None
    assert log.since(log.version) == []


# --- watches of a source that is made up


class People(TakenRows):
    """Rows that belong to users, for a test to change."""

    def __init__(self):
        super().__init__(self.all_rows, every_seconds=0.05)
        self.now = {}

    async def all_rows(self):
        """Give all."""
        return dict(self.now)

    def is_of(self, key, user_id):
        """Say whose a row is."""
        row = self.row(key)
        return row is not None and row.user == user_id

    def fits(self, row, wanted):
        """As of sessions."""
        return row_fits(row, wanted)


def kind(source, scope="use"):
    """A kind of watch with one source."""
    return WatchKind(name="people", open_feed=lambda host, tenant: source, scope=scope)


def row_of(key, user, **more):
    """A row of a user."""
    none = WaitingCounts(approvals=0, questions=0)
    return SessionRow(session_id=key, phase="idle", waiting=none, changed_at_ms=1, user=user, **more)


@pytest.mark.parametrize("seed", range(6))
@on_virtual_time
async def test_watchers_of_all_kinds_end_with_what_they_may_see(seed):
    """Owners, filters, limits and slow readers at random: no one is told of another's row, and all are level in the end."""
    chance = random.Random(seed)  # noqa: S311 - of a test
    source, people = People(), {}
    users = ["ann", "bob", "boss"]
    async with trio.open_nursery() as nursery:
        row_watches = Watches(None, nursery, kinds={"people": kind(source)}, has_inspector=True)
        for number in range(9):
            user = chance.choice(users)
            wanted = RowFilter(
                agent_id=chance.choice([None, None, "desk"]),
                phase=chance.choice([None, None, "idle"]),
                q=chance.choice([None, None, "refund"]),
                ended=chance.choice([None, False]),
                limit=chance.choice([3, 500]),
            )
            scopes = ("use", "inspect") if user == "boss" else ("use",)
            principal = Principal(tenant_id="acme", user_id=user, scopes=scopes)
            told = people[number, user] = Told(), wanted
            nursery.start_soon(_watch_slowly, row_watches, principal, told, chance)
        keys = [f"s{number}" for number in range(12)]
        for _ in range(300):
            await trio.sleep(chance.choice([0, 0.01, 0.2]))
            key = chance.choice(keys)
            if chance.random() < 0.2:
                source.now.pop(key, None)
            else:
                source.now[key] = row_of(
                    key,
                    chance.choice(users),
                    agent_id=chance.choice(["desk", "eval"]),
                    title=chance.choice([None, "Refund 4411", "Import"]),
                    ended=chance.random() < 0.2,
                )
        await trio.sleep(60)
        for (_, user), (told, wanted) in people.items():
            may_see = {
                key for key, row in source.now.items() if row_fits(row, wanted) and user in ("boss", row.user)
            }
            assert told.total == len(may_see)
            assert told.rows.keys() <= may_see
            assert len(told.rows) == min(len(may_see), wanted.limit)
            for key, row in told.rows.items():
                assert row == msgspec.to_builtins(source.now[key])
        assert row_watches.open_feeds == 1
        nursery.cancel_scope.cancel()


async def _watch_slowly(watches, principal, told_and_wanted, chance):
    told, wanted = told_and_wanted

    async def wait_room():
        await trio.sleep(chance.choice([0, 0, 0.5, 5]))

    async def tell(part):
        for text in part.rows:
            row = msgspec.json.decode(text)
            assert row["user"] == principal.user_id or "inspect" in principal.scopes
        told.take(part)

    found = watches.kind_of("people", principal)
    await watches.watch(found, wanted, principal, wait_room=wait_room, begin=tell, tell=tell)


@on_virtual_time
async def test_a_feed_is_followed_once_and_let_go_with_the_last_watcher():
    """One that fails ends its watches with an error, and the next watch begins a new one."""
    made = []

    class Failing(People):
        async def run(self, up):
            up.set()
            await trio.sleep(5)
            raise ValueError

    def open_feed(host, tenant):
        made.append(Failing() if len(made) == 1 else People())
        return made[-1]

    known = WatchKind(name="people", open_feed=open_feed)
    ann = Principal(tenant_id="acme", user_id="ann")
    async with trio.open_nursery() as nursery:
        row_watches = Watches(None, nursery, kinds={"people": known}, has_inspector=False)
        silent = {"wait_room": trio.lowlevel.checkpoint, "begin": _ignore, "tell": _ignore}
        watch = partial(row_watches.watch, known, RowFilter(), ann, **silent)
        with trio.move_on_after(1):
            async with trio.open_nursery() as inner:
                inner.start_soon(watch)
                inner.start_soon(watch)
        assert (len(made), row_watches.open_feeds) == (1, 0)
        with pytest.raises(CallRefused) as raised:
            await watch()
        assert raised.value.answer.code == "internal"
        assert (len(made), row_watches.open_feeds) == (2, 0)
        with trio.move_on_after(1):
            await watch()
        assert (len(made), row_watches.open_feeds) == (3, 0)


async def _ignore(part):  # noqa: ASYNC124 - in the place of one that waits
    pass


def test_a_kind_needs_its_scope_and_the_inspector():
    """What is for those who inspect is refused without the scope, and unknown where there is no inspector."""
    use, inspect = (
        Principal(tenant_id="t", user_id="u", scopes=scopes) for scopes in (("use",), ("use", "inspect"))
    )
    kinds = {"people": kind(People(), scope="inspect")}
    there = Watches(None, None, kinds=kinds, has_inspector=True)
    assert there.kind_of("people", inspect).scope == "inspect"
    with pytest.raises(CallRefused) as refused:
        there.kind_of("people", use)
    assert refused.value.answer.code == "forbidden"
    assert "inspect" in refused.value.answer.message
    absent = Watches(None, None, kinds=kinds, has_inspector=False)
    with pytest.raises(CallRefused) as unknown:
        absent.kind_of("people", inspect)
    assert unknown.value.answer.code == "field_invalid"
    assert watches_module.ROUND_SECONDS >= 0.25
