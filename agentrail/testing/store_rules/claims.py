"""Rules of a store that nodes share: reservations, reports of dead nodes, allowances, owed rows with an owner."""

from functools import partial
from typing import Final

from msgspec.structs import replace

from agentrail.abc.store import Filters, Heartbeats, Node, OwedRow, OwedStore, Standing, TakeOver, take_all
from agentrail.core.values.port_members import offers
from agentrail.errors import HeldBy, QuotaReached
from agentrail.messages import SessionId
from agentrail.testing.rule_failures import expect_error, expect_same
from agentrail.testing.store_rules.trial import Author, StoreTrial, session_ids

_WORKS: Final = Standing(is_working=True)


def _claimed(trial: StoreTrial, node: str, **options: object) -> list[str]:
    return session_ids(trial.store.claim(node, **options))  # type: ignore[arg-type]  # those of `claim`


def _heartbeats(trial: StoreTrial) -> Heartbeats:
    return {one.id: one.seen_at_ms for one in trial.store.nodes()}


def _begin_of_the_dead(trial: StoreTrial, *names: str) -> list[Author]:
    authors = [trial.begin(name, standing=_WORKS) for name in names]
    trial.store.beat(Node(id="n2"))
    trial.store.beat(Node(id="n3"))
    return authors


def no_tree_is_claimed_by_two_nodes(trial: StoreTrial) -> None:
    """Working trees and due timers without a live owner are reserved, each by one node, without a record. Idle trees are not."""
    _begin_of_the_dead(trial, "a", "b", "c")
    trial.begin("idle")
    trial.begin("ended", standing=Standing(is_working=True, has_ended=True))
    trial.begin("top")
    trial.begin("child", root="top", parent="top", standing=_WORKS)
    now = trial.store.now_ms()
    trial.begin("timer", standing=Standing(due_at_ms=now + 60_000))
    trial.begin("of n3", node="n3", standing=_WORKS)
    expect_same(_claimed(trial, "n2", limit=2), ["a", "b"], "the first two trees")
    expect_same(_claimed(trial, "n3"), ["c", "top"], "the trees for another node")
    expect_same(_claimed(trial, "n2"), [], "trees that are all reserved or owned by a live node")
    expect_same(_claimed(trial, "n2", within_ms=90_000), ["timer"], "the trees with a timer that is soon due")
    expect_same(len(trial.records("a")), 1, "records of a reserved tree")
    again = trial.store.claim("n2", again=True)
    expect_same(session_ids(again), ["a", "b"], "the node's own reservations")
    expect_same([one.deaths for one in again], [0, 0], "their deaths before they were reserved")
    trial.begin("last", standing=_WORKS)
    expect_same(_claimed(trial, "new"), ["last"], "the tree for a node without a heartbeat")
    expect_same(_claimed(trial, "new"), [], "the trees for it that it has reserved itself")


def a_reservation_ends(trial: StoreTrial) -> None:
    """A reservation holds off other nodes until `take`, `release`, or the death of the node that made it, which stays known until then."""
    _begin_of_the_dead(trial, "a", "b", "c")
    expect_same(_claimed(trial, "n2"), ["a", "b", "c"], "the trees")
    expect_error(HeldBy, lambda: trial.store.take("", SessionId("a"), "n3", "gone"), "taking a reserved tree")
    trial.store.take("", SessionId("a"), "n2", "gone")
    trial.store.release("n3", "", SessionId("b"))
    expect_same(_claimed(trial, "n3"), [], "trees while the reservations hold")
    trial.store.release("n2", "", SessionId("b"))
    expect_same(_claimed(trial, "n3"), ["b"], "the released tree")
    trial.store.gone("n2")
    expect_same(sorted(_claimed(trial, "n3")), ["a", "c"], "the trees of the dead node")
    trial.pass_lease()
    assert "n3" in [one.id for one in trial.store.nodes()], "a silent node with reservations is not known"
    trial.store.beat(Node(id="n2"))
    expect_same(
        sorted(_claimed(trial, "n2", silent=_heartbeats(trial))), ["b", "c"], "the trees of the silent node"
    )


def a_reservation_gives_nothing_while_the_owner_lives(trial: StoreTrial) -> None:
    """A reserved tree is taken only while its owner is dead. An owner whose heartbeat is back keeps it, and takes it again."""
    (author,) = _begin_of_the_dead(trial, "s")
    expect_same(_claimed(trial, "n2"), ["s"], "the tree")
    trial.store.beat(Node(id="n1"))
    take = partial(trial.store.take, "", SessionId("s"))
    wanted = TakeOver(scope="", root=SessionId("s"), node="n2", cause="lease_over", tail=author.tail)
    for _ in range(2):  # a refusal changes nothing
        expect_error(HeldBy, lambda: take("n2", "gone"), "taking a reserved tree whose owner lives")
        (answer,) = take_all(trial.store, [wanted])
        assert isinstance(answer, HeldBy), f"taking it among others, got {answer!r}"
        expect_same(answer.node, "n1", "the node that holds it")
    expect_same((trial.stored("s").node, len(trial.records("s"))), ("n1", 1), "the owner, and the records")
    trial.keep(author.write("works", standing=_WORKS))
    trial.store.gone("n1")
    expect_same(take("n2", "gone").sessions[0].node, "n2", "the owner, after the first is dead again")
    trial.store.gone("n2")
    expect_same(_claimed(trial, "n3"), ["s"], "the tree of the second")
    trial.store.beat(Node(id="n2"))
    expect_same(take("n2", "start").sessions[0].node, "n2", "the owner, after it takes its own tree")


def a_released_reservation_leaves_the_owner(trial: StoreTrial) -> None:
    """A node that releases a tree that it has only reserved leaves its owner. The death that it counted is taken back, once."""
    (author, *_) = _begin_of_the_dead(trial, "s", "free")
    trial.store.release("n1", "", SessionId("free"))
    expect_same(_claimed(trial, "n2"), ["free", "s"], "the trees")
    trial.store.beat(Node(id="n1"))
    for _ in range(2):  # the first answer may be lost
        trial.store.release("n2", "", SessionId("s"))
        trial.store.release("n2", "", SessionId("free"))
    expect_same((trial.stored("s").node, trial.stored("free").node), ("n1", ""), "the owners")
    expect_same((trial.stored("s").deaths, trial.stored("free").deaths), (0, 0), "their deaths")
    trial.keep(author.write("works", standing=_WORKS))
    trial.begin("child", root="s", parent="s")
    trial.store.gone("n1")
    expect_same(_claimed(trial, "n2"), ["free", "s"], "the trees for the node that released them")
    trial.store.gone("n2")
    expect_same(_claimed(trial, "n3"), ["free", "s"], "the trees for another node")
    trial.store.release("n3", "", SessionId("s"))
    expect_same(trial.stored("s").deaths, 1, "deaths after one owner and one claimer died")


def a_claim_again_ends_old_reservations(trial: StoreTrial) -> None:
    """With `again`, a node's reservations of trees whose owners live again end. Otherwise no node could reserve those trees later."""
    _begin_of_the_dead(trial, "s", "other")
    expect_same(_claimed(trial, "n2", limit=1), ["other"], "the first tree")
    expect_same(_claimed(trial, "n3"), ["s"], "the tree for another node")
    trial.store.beat(Node(id="n1"))
    for _ in range(2):
        expect_same(_claimed(trial, "n2", again=True), [], "reserved trees of a live owner")
    expect_same((trial.stored("other").node, trial.stored("other").deaths), ("n1", 0), "owner and deaths")
    trial.store.gone("n1")
    expect_same(_claimed(trial, "n3"), ["other"], "the tree after its owner is dead again")
    expect_same(_claimed(trial, "n3", again=True), ["other", "s"], "all trees of that node")


def deaths_are_counted(trial: StoreTrial) -> None:
    """Each claim from a dead owner counts a death, fewest come first, and a record of the tree's own work ends the count."""
    (author, *_) = _begin_of_the_dead(trial, "a")
    (first,) = trial.store.claim("n2")
    taken = trial.store.take("", SessionId("a"), "n2", "gone").sessions[0]
    expect_same((first.deaths, trial.stored("a").deaths), (0, 1), "deaths at the claim, and after the take")
    trial.begin("b", standing=_WORKS)
    trial.store.gone("n2")
    found = trial.store.claim("n3")
    expect_same(
        [(one.session, one.deaths) for one in found], [("b", 0), ("a", 1)], "the order, and the deaths"
    )
    taken = trial.store.take("", SessionId("a"), "n3", "gone").sessions[0]
    expect_same(trial.stored("a").deaths, 2, "deaths of a tree that only changed its owners")
    author = Author("a", tail=taken.tail)
    trial.keep(author.write("works", standing=_WORKS))
    expect_same(trial.stored("a").deaths, 0, "deaths after a record")
    trial.store.take("", SessionId("b"), "n3", "gone")
    child = trial.begin("child", root="b", parent="b", node="n3")
    expect_same(trial.stored("b").deaths, 1, "deaths of a tree that has begun a child")
    trial.keep(child.write("works"))
    expect_same(trial.stored("b").deaths, 0, "deaths of a tree after a record of a child")


def no_newer_tree_is_claimed(trial: StoreTrial) -> None:
    """A tree with a record of a higher codec than the node's is left out, whichever of its sessions has it. So are skipped ones."""
    _begin_of_the_dead(trial, "old", "skipped")
    new = trial.begin("new", standing=_WORKS, codec=1)
    trial.begin("top", standing=_WORKS)
    child = trial.begin("child", root="top", parent="top", standing=_WORKS)
    trial.keep(child.write("a", codec=2, standing=_WORKS), new.write("b", codec=0, standing=_WORKS))
    expect_same((trial.stored("child").codec, trial.stored("new").codec), (2, 1), "the highest codecs")
    skip = {("", SessionId("skipped"))}
    expect_same(_claimed(trial, "n2", codec=0, skip=skip), ["old"], "the trees for codec 0")
    expect_same(_claimed(trial, "n2", codec=1, skip=skip), ["new"], "the trees for codec 1")
    expect_same(_claimed(trial, "n2", codec=2, skip=skip), ["top"], "the trees for codec 2")
    expect_same(_claimed(trial, "n3"), ["skipped"], "the tree that another node skipped")


def an_expired_lease_needs_a_silent_owner(trial: StoreTrial) -> None:
    """With `silent`, the store's clock alone lets no node take: a step of it would make live owners look dead."""
    trial.store.beat(Node(id="n1"))
    trial.begin("s", standing=_WORKS)
    take = partial(trial.store.take, "", SessionId("s"), "n2", "lease_over")
    earlier = _heartbeats(trial)
    expect_same(trial.store.claim("n2", earlier), (), "trees of a node with a heartbeat in its lease")
    expect_error(HeldBy, lambda: take(silent=earlier), "taking within the lease")
    trial.pass_lease()
    trial.store.beat(Node(id="n1"))
    trial.pass_lease()
    last = _heartbeats(trial)
    for silent, what in (({}, "was not silent"), (earlier, "had another heartbeat since it was watched")):
        expect_same(trial.store.claim("n2", silent), (), f"trees of a node that {what}")
        expect_error(HeldBy, partial(take, silent=silent), f"taking from a node that {what}")
    expect_same(_claimed(trial, "n2", silent=last), ["s"], "the tree of a silent node")
    expect_error(HeldBy, lambda: take(silent={}), "taking it after its owner was heard again")
    expect_same(take(silent=last).sessions[0].node, "n2", "the owner, after it was reserved")


def a_tree_is_taken_as_it_was_read(trial: StoreTrial) -> None:
    """With `tail`, a tree is taken only if its journal ends there: the taker has folded nothing else."""
    author = trial.begin("s", standing=_WORKS)
    folded = author.tail
    trial.keep(author.write("later", standing=_WORKS))
    take = partial(trial.store.take, "", SessionId("s"), "n2", "gone")
    expect_error(HeldBy, lambda: take(tail=folded), "taking with an earlier end")
    expect_same(trial.stored("s").node, "n1", "the owner")
    expect_same(take(tail=author.tail).sessions[0].node, "n2", "the owner, with the current end")


def a_node_is_reported_gone(trial: StoreTrial) -> None:
    """The sessions of a node that is gone are taken at once. Its next heartbeat says so once, and makes it live again."""
    assert not trial.store.gone("n1"), "an unknown node is known"
    first = trial.store.beat(Node(id="n1"))
    expect_same((first.before_ms, first.was_gone), (0, False), "the first heartbeat")
    trial.begin("s")
    expect_same((trial.store.gone("n1"), trial.store.gone("n1")), (True, True), "a known node, twice")
    (found,) = (one for one in trial.store.nodes() if one.id == "n1")
    assert found.gone_at_ms >= first.at_ms, f"gone at {found.gone_at_ms}, before its heartbeat"
    back = trial.store.beat(Node(id="n1"))
    expect_same((back.before_ms, back.was_gone), (first.at_ms, True), "the heartbeat of a node that lives")
    assert not trial.store.beat(Node(id="n1")).was_gone, "a heartbeat reports it twice"
    held = partial(trial.store.take, "", SessionId("s"), "n2", "gone")
    expect_error(HeldBy, held, "taking from a node that lives")
    trial.store.gone("n1")
    expect_same(held().sessions[0].node, "n2", "the owner")


def owned_sessions_are_listed(trial: StoreTrial) -> None:
    """A node's sessions that have not ended are listed with their epochs."""
    trial.begin("a", scope="team")
    trial.begin("b", node="n2")
    trial.begin("c", standing=Standing(has_ended=True))
    trial.store.take("team", SessionId("a"), "n1", "start")
    expect_same(dict(trial.store.owned("n1")), {("team", SessionId("a")): 2}, "the sessions of n1")
    expect_same(dict(trial.store.owned("unknown")), {}, "the sessions of an unknown node")


def an_allowance_is_shared(trial: StoreTrial) -> None:
    """A burst of an allowance is drawn once, by key, and comes back with the time. A refused draw takes nothing."""
    step = 1_000 / 3
    draws = [trial.store.take_allowance("ann", step, step * 3) for _ in range(5)]
    expect_same([one.is_allowed for one in draws[:3]], [True] * 3, "a burst of three")
    late = draws[-1].now_ms - draws[0].now_ms
    assert late >= step or not draws[3].is_allowed, f"a fourth draw within {late} ms is allowed"
    assert draws[4].full_at_ms <= draws[2].full_at_ms + 2 * late + 1, "a refused draw takes something"
    assert trial.store.take_allowance("bob", step, step * 3).is_allowed, "another key shares the allowance"
    trial.pass_lease()
    assert trial.store.take_allowance("ann", step, step * 3).is_allowed, "nothing came back with the time"


def a_user_has_so_many_sessions(trial: StoreTrial) -> None:
    """`max_of_owner` limits a user's roots that have not ended. The same opening again, children, and other users are fine."""
    opening = partial(Author.opening, owner="ann", max_of_owner=2)
    second = opening(Author("b"))
    trial.store.create(opening(Author("a")))
    trial.store.create(second)
    trial.store.create(second)
    trial.store.create(opening(Author("child"), root="a", parent="a"))
    expect_error(QuotaReached, lambda: trial.store.create(opening(Author("c"))), "a third session")
    trial.begin("d", owner="bob", max_of_owner=1)
    trial.begin("e", owner="ann", standing=Standing(has_ended=True))
    ending = Author("b", tail=trial.stored("b").tail).write("end", standing=Standing(has_ended=True))
    trial.keep(ending)
    trial.store.create(opening(Author("f")))
    hers = trial.store.find(Filters(owner="ann", only_roots=True))
    expect_same(session_ids(hers), ["a", "b", "e", "f"], "her sessions")


def owed_rows_have_one_owner(trial: StoreTrial) -> None:
    """Owed rows are listed by node. Those of a dead node, or of none, are adopted once, by one node."""
    store = trial.store
    if not offers(store, OwedStore):
        return
    for name in ("n1", "n2", "n3"):
        store.beat(Node(id=name))
    rows = [
        OwedRow(kind="letter", id=str(at), body=b"x", node=node) for at, node in enumerate(("n1", "n2", ""))
    ]
    store.change_owed(rows)
    expect_same(store.owed("letter", node="n1"), (rows[0],), "the rows of n1")
    expect_same(store.owed("letter"), tuple(rows), "all rows")
    mine = replace(rows[2], node="n2")
    expect_same(store.adopt_owed("letter", "n2"), (mine,), "the rows of no node")
    expect_same(store.adopt_owed("letter", "n3"), (), "rows whose nodes live")
    store.gone("n1")
    expect_same([one.id for one in store.adopt_owed("letter", "n3")], ["0"], "the rows of a dead node")
    expect_same([one.id for one in store.owed("letter", node="n2")], ["1", "2"], "the rows of n2")
