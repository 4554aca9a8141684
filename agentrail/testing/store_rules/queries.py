"""Rules of queries that read no journal: the state of sessions and nodes, and undelivered webhooks."""

from collections.abc import Sequence
from contextlib import closing
from typing import Final

from msgspec.structs import replace

from agentrail.abc.store import Filters, Node, OwedRow, OwedStore, Standing, StoredSession, get_all
from agentrail.core.values.port_members import offers
from agentrail.messages import SessionId
from agentrail.testing.rule_failures import expect_same
from agentrail.testing.store_rules.trial import AT_MS, StoreTrial, session_ids


def it_is_said_how_a_session_stands(trial: StoreTrial) -> None:
    """Each field of a session has its last written value, and its times are those of the store."""
    start = trial.store.now_ms()
    trial.begin("s", "a", scope="team", node="n7", forked_from=("p", 3), standing=Standing(title="before"))
    opened = trial.stored("s", "team")
    standing = Standing(is_working=True, waits_for=3, due_at_ms=AT_MS + 5, title="Ü 'x'\n😀")
    child = trial.begin("c", scope="team", root="s", parent="s", node="n7")
    trial.keep(child.write("b", standing=standing, events=9))
    end = trial.store.now_ms()
    assert start <= opened.opened_at_ms <= opened.written_at_ms <= end, f"{opened} has no times of the store"
    found = trial.stored("c", "team")
    expect_same(found.standing, standing, "its status")
    expect_same((found.root, found.parent, found.forked_from), ("s", "s", None), "its place in the tree")
    expect_same((found.node, found.events, found.tail), ("n7", 9, child.tail), "owner, last event, end")
    expect_same((opened.root, opened.parent, opened.forked_from), ("s", "", ("p", 3)), "the place of a fork")
    trial.pass_lease()
    start = trial.store.now_ms()
    trial.keep(child.write("c", standing=Standing(has_ended=True)))
    later = trial.stored("c", "team")
    expect_same(later.standing, Standing(has_ended=True), "its status")
    expect_same(later.opened_at_ms, found.opened_at_ms, "its opening time")
    assert found.written_at_ms < start <= later.written_at_ms <= trial.store.now_ms(), (
        f"the time of the last write is {later.written_at_ms}, not the store's at that record"
    )


def sessions_are_found_by_filters(trial: StoreTrial) -> None:
    """Each filter excludes the sessions that do not match it, and several filters combine."""
    trial.begin("a", standing=Standing(is_working=True))
    trial.begin("b", root="a", parent="a", standing=Standing(has_ended=True))
    trial.begin("c", node="n2", owner="ann")
    trial.begin("d", scope="team", node="n3", owner="ann")
    trial.store.release("n3", "team", SessionId("d"))
    trial.pass_lease()
    late = trial.store.now_ms()
    trial.begin("e", scope="team", owner="bob", standing=Standing(is_working=True))
    for filters, expected in (
        (Filters(), "abcde"),
        (Filters(scope=""), "abc"),
        (Filters(scope="team"), "de"),
        (Filters(scope="te"), ""),
        (Filters(root=SessionId("a")), "ab"),
        (Filters(scope="team", root=SessionId("a")), ""),
        (Filters(owner="ann"), "cd"),
        (Filters(scope="team", owner="ann"), "d"),
        (Filters(owner=""), "ab"),
        (Filters(owner="unknown"), ""),
        (Filters(node="n1"), "abe"),
        (Filters(node=""), "d"),
        (Filters(node="unknown"), ""),
        (Filters(is_working=True), "ae"),
        (Filters(is_working=False), "bcd"),
        (Filters(has_ended=True), "b"),
        (Filters(has_ended=False), "acde"),
        (Filters(only_roots=True), "acde"),
        (Filters(written_before_ms=late), "abcd"),
        (Filters(written_before_ms=0), ""),
        (Filters(written_after_ms=late), "e"),
        (Filters(written_after_ms=0), "abcde"),
        (Filters(scope="", node="n1", is_working=True, only_roots=True, has_ended=False), "a"),
        (Filters(scope="team", is_working=True, written_before_ms=late), ""),
    ):
        expect_same("".join(session_ids(trial.store.find(filters))), expected, f"the sessions for {filters}")
    expect_same(trial.store.find()[0], trial.stored("a"), "one session in `find` and `get`")


def sessions_are_found_in_pages(trial: StoreTrial) -> None:
    """Sessions are found in the order of scopes and ids, by code points. A page starts after a position that need not exist."""
    keys = sorted(
        (scope, name) for scope in ("", "B", "a", "é") for name in ("B", "a", "a b", "é", "😀", "10", "9")
    )
    for scope, name in reversed(keys):
        trial.begin(name, scope=scope)
    for limit in (1, 5, len(keys), 999):
        found: list[tuple[str, str]] = []
        while page := trial.store.find(after=found[-1] if found else None, limit=limit):
            assert len(page) <= limit, f"a page of at most {limit} has {len(page)} sessions"
            found += [(one.scope, one.session) for one in page]
            assert len(found) <= len(keys), f"pages of {limit} repeat: {found}"
        expect_same(found, keys, f"the sessions in pages of {limit}")
    behind = trial.store.find(Filters(scope="a"), after=("a", "9z"), limit=2)
    expect_same(session_ids(behind), ["B", "a"], "the page after an unknown place")
    expect_same(trial.store.find(limit=0), (), "an empty page")
    wanted = [*keys[::-1], ("unknown", "a"), ("a", "unknown"), keys[0]]
    places = [(scope, SessionId(name)) for scope, name in wanted]
    alone = tuple(trial.store.get(*place) for place in places)
    expect_same(get_all(trial.store, places), alone, "many sessions read at once, and each alone")
    expect_same(get_all(trial.store, []), (), "no sessions read at once")


def sessions_are_listed_by_their_opening(trial: StoreTrial) -> None:
    """The newest come first, those of one millisecond in descending order of their ids, in pages that fit the filters."""
    for name in ("c", "a", "é"):
        trial.begin(name, scope="team", owner="ann")
    trial.pass_lease()
    trial.begin("b", scope="team", owner="ann")
    trial.begin("d", scope="team", owner="bob", standing=Standing(has_ended=True))
    trial.begin("e", scope="team", root="a", parent="a")
    trial.begin("f")
    team = Filters(scope="team")
    rows = sorted(trial.store.find(team), key=lambda one: (one.opened_at_ms, one.session), reverse=True)
    for limit in (1, 2, 99):
        found: tuple[StoredSession, ...] = ()
        while page := trial.store.newest(team, before=_place(found), limit=limit):
            assert len(page) <= limit, f"a page of at most {limit} has {len(page)} sessions"
            found += page
            assert len(found) <= len(rows), f"pages of {limit} repeat: {session_ids(found)}"
        expect_same(found, tuple(rows), f"the sessions in pages of {limit}")
    for filters, expected in (
        (Filters(scope="team", owner="ann", only_roots=True), "abcé"),
        (Filters(scope="team", has_ended=True), "d"),
        (Filters(scope=""), "f"),
        (Filters(scope="te"), ""),
    ):
        names = "".join(sorted(session_ids(trial.store.newest(filters))))
        expect_same(names, expected, f"the newest for {filters}")
    expect_same(trial.store.newest(team, limit=0), (), "an empty page")


def _place(found: Sequence[StoredSession]) -> tuple[int, str] | None:
    return (found[-1].opened_at_ms, found[-1].session) if found else None


def orphans_are_found(trial: StoreTrial) -> None:
    """Roots of trees with unfinished work are found if their owner is missing or silent for a lease, each once."""
    works, rests, ended = Standing(is_working=True), Standing(), Standing(is_working=True, has_ended=True)
    for node in ("dead", "alive"):
        trial.store.beat(Node(id=node))
    for name, node, standing in (
        ("a-dead", "dead", works),
        ("b-dead-rests", "dead", rests),
        ("c-alive", "alive", works),
        ("d-none", "never heard of", works),
        ("e-ended", "dead", ended),
        ("f-tree", "dead", rests),
        ("g-none-rests", "never heard of", rests),
        ("h-released", "alive", works),
    ):
        trial.begin(name, node=node, standing=standing)
    for child in ("y", "z"):
        trial.begin(child, root="f-tree", parent="f-tree", node="dead", standing=works)
    trial.store.release("alive", "", SessionId("h-released"))
    expect_same(
        sorted(session_ids(trial.store.orphans())),
        ["d-none", "h-released"],
        "orphans while all nodes are alive",
    )
    trial.pass_lease()
    trial.store.beat(Node(id="alive"))
    expected = ["a-dead", "d-none", "f-tree", "h-released"]
    expect_same(sorted(session_ids(trial.store.orphans())), expected, "orphans")
    expect_same((len(trial.store.orphans(2)), trial.store.orphans(0)), (2, ()), "orphans up to a limit")
    pages = [session_ids(trial.store.orphans(3, after=("", after))) for after in ("a", *expected[2:])]
    expect_same(pages, [expected[:3], expected[3:], []], "orphans, in pages")
    (orphan,) = (one for one in trial.store.orphans() if one.session == "f-tree")
    expect_same(orphan, trial.stored("f-tree"), "the facts of an orphan")
    trial.store.take("", SessionId("a-dead"), "alive", "lease_over")
    expect_same(sorted(session_ids(trial.store.orphans())), expected[1:], "orphans after one was taken")


def due_timers_are_found(trial: StoreTrial) -> None:
    """Sessions with a due timer, on the clock of the store, and without a living owner are found, the longest due first."""
    trial.store.beat(Node(id="dead"))
    now = trial.store.now_ms()
    for name, node, due in (
        ("second", "gone", now - 2_000),
        ("first", "gone", now - 3_000),
        ("later", "gone", now + _A_DAY_MS),
        ("none", "gone", None),
        ("alive", "alive", now - 3_000),
        ("dead", "dead", now - 1_000),
        ("at once", "gone", now),
    ):
        trial.begin(name, node=node, standing=Standing(due_at_ms=due))
        if node == "gone":
            trial.store.release(node, "", SessionId(name))
    trial.begin("ended", standing=Standing(due_at_ms=now - 4_000, has_ended=True))
    trial.pass_lease()
    trial.store.beat(Node(id="alive"))
    expected = ["first", "second", "dead", "at once"]
    expect_same(session_ids(trial.store.due()), expected, "sessions whose timer is due")
    expect_same(session_ids(trial.store.due(0, 2)), expected[:2], "the two due longest")
    expect_same(trial.store.due(0, 0), (), "a limit of no due sessions")
    soon = session_ids(trial.store.due(_A_DAY_MS))
    expect_same(soon, [*expected, "later"], "sessions whose timer is due within a day")
    (taken,) = trial.store.take("", SessionId("first"), "alive", "start").sessions
    expect_same(taken.standing.due_at_ms, now - 3_000, "the due time of a taken session")
    expect_same(session_ids(trial.store.due()), expected[1:], "due sessions after one was taken")


_A_DAY_MS: Final = 86_400_000


def nodes_are_known(trial: StoreTrial) -> None:
    """Nodes are known with all their data and the time of their last beat, for a lease, or while they own a session."""
    expect_same(trial.store.nodes(), (), "nodes of an empty store")
    owner = Node(id="n1", address="http://a", version="1.2.3", pid=2**22, boot="b-1")
    start = trial.store.now_ms()
    trial.store.beat(owner)
    trial.store.beat(Node(id="silent", seen_at_ms=1))
    end = trial.store.now_ms()
    trial.begin("s")
    known = {node.id: node for node in trial.store.nodes()}
    expect_same(sorted(known), ["n1", "silent"], "nodes")
    for node in known.values():
        assert start <= node.seen_at_ms <= end, f"{node} has no heartbeat on the clock of the store"
    expect_same(replace(known["n1"], seen_at_ms=0), owner, "the facts of a node")
    trial.pass_lease()
    expect_same([node.id for node in trial.store.nodes()], ["n1"], "nodes after a lease")
    trial.store.beat(Node(id="n1", version="1.2.4"))
    (again,) = trial.store.nodes()
    expect_same((again.version, again.address), ("1.2.4", ""), "the latest facts of a node")
    assert again.seen_at_ms > known["n1"].seen_at_ms, "it was not heard of again"


# Undelivered webhooks, for stores that are an `OwedStore`.


def _row(name: str, body: bytes = b"{}", kind: str = "letter") -> OwedRow:
    return OwedRow(kind=kind, id=name, body=body)


def what_is_owed_is_kept_by_kind_and_id(trial: StoreTrial) -> None:
    """Owed rows are returned byte for byte, by id, in pages, and per kind. The last row of an id counts."""
    store = trial.store
    if not offers(store, OwedStore):
        return
    expect_same(store.owed("letter"), (), "pending rows of an empty store")
    store.change_owed([], [("letter", "a")])
    rows = [_row("a", b"\0\xff"), _row("b", b""), _row("c\0é", b"c")]
    store.change_owed([rows[2], rows[0], _row("a", b"other", "bill"), rows[1]])
    expect_same(store.owed("letter"), tuple(rows), "pending rows")
    expect_same(store.owed("letter", "a", 1), (rows[1],), "a page of pending rows")
    expect_same(store.owed("letter", "c\0é"), (), "rows after the last one")
    expect_same(store.owed("letter", limit=0), (), "an empty page")
    expect_same(store.owed("bill"), (_row("a", b"other", "bill"),), "pending rows of another kind")
    again = _row("b", b"again")
    store.change_owed([again])
    expect_same(store.owed("letter", "a", 1), (again,), "a replaced row")


def what_is_owed_changes_as_a_whole(trial: StoreTrial) -> None:
    """One call puts and then drops rows. Dropping a missing row, or repeating the call, is harmless."""
    store = trial.store
    if not offers(store, OwedStore):
        return
    store.change_owed([_row("a"), _row("b")])
    for _ in range(2):
        store.change_owed([_row("c"), _row("d")], [("letter", "a"), ("letter", "d"), ("letter", "never")])
    expect_same([row.id for row in store.owed("letter")], ["b", "c"], "pending rows")


def what_is_owed_outlives_its_session(trial: StoreTrial) -> None:
    """Owed rows belong to no session: they stay when one is deleted."""
    store = trial.store
    if not offers(store, OwedStore):
        return
    author = trial.begin("s", node="")
    store.change_owed([_row("s")])
    store.delete("", SessionId(author.session))
    expect_same(store.owed("letter"), (_row("s"),), "pending rows")


def what_is_owed_is_there_again(trial: StoreTrial) -> None:
    """After reopening, the store has the same owed rows."""
    if trial.reopen is None or not offers(trial.store, OwedStore):
        return
    trial.store.change_owed([_row("a"), _row("b", b"b")], [("letter", "a")])
    with closing(trial.reopen(trial.store)) as again:
        assert offers(again, OwedStore), "the reopened store has lost the pending rows"
        expect_same(again.owed("letter"), (_row("b", b"b"),), "pending rows")
