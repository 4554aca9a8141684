"""`ModelStore`: the rules of every store, and its faults as a node meets them."""

from functools import partial

import pytest
import trio

from agentrail import outside
from agentrail.abc.store import Node as Beating, OwedRow, Standing, TakeOver, take_all
from agentrail.errors import JournalBehind, StoreUnavailable
from agentrail.testing.check_store import STORE_RULES, check_store, store_rule_name
from agentrail.testing.clock import FakeClock
from agentrail.testing.faulty_store import CutStore
from agentrail.testing.simulation.facts import StoreCall
from agentrail.testing.simulation.log import WORLD, LifeLog
from agentrail.testing.simulation.machine import NodeMachine
from agentrail.testing.simulation.model_store import ModelStore
from agentrail.testing.simulation.tape import Tape
from agentrail.testing.store_rules.trial import Author


def fresh():
    return ModelStore(Tape(7), LifeLog())


class CutByModel(CutStore):
    """Lets the model itself lose a call or its answer."""

    def _call(self, name, *args, **options):
        cut = self._decide(name)
        if cut is not None:
            self._store.lose_answer(when=cut)
        return self._execute(name, *args, **options)


@pytest.mark.simulation(17)
@pytest.mark.parametrize("rule", STORE_RULES, ids=store_rule_name)
def test_it_keeps_the_rules_of_every_store(rule):
    """Also those of several nodes, and those of cut connections, with cuts of its own."""
    stores = []

    def make():
        stores.append(fresh())
        return stores[-1]

    def pass_lease():
        for store in stores:
            store.wrong_by_seconds += 15.001

    check_store(make, pass_lease=pass_lease, cut=CutByModel, rules=[rule])


class Node:
    """A machine of the world that calls the store as the product does, through offloaded functions."""

    def __init__(self, store, place):
        self.store = store
        self.machine = NodeMachine(7, place)

    async def call(self, name, *args, **options):
        with outside.installed(self.machine):
            return await outside.offload(partial(getattr(self.store, name), *args, **options))

    async def is_refused(self, name, *args, **options):
        try:
            await self.call(name, *args, **options)
        except StoreUnavailable:
            return True
        return False


@pytest.fixture
def store():
    return fresh()


@pytest.fixture
def log(store):
    return store._log  # noqa: SLF001 - the one that it was given


def calls_of(log, place):
    return [
        (line.facts.name, line.facts.trouble)
        for line in log.lines
        if line.place == place and isinstance(line.facts, StoreCall)
    ]


def run(life):
    trio.run(life, clock=FakeClock())


def test_each_place_has_its_own_faults_and_a_line_for_each_call(store, log):
    """The second beat of one node is lost after its commit. Another node notices nothing."""

    async def life():
        one, two = Node(store, "node-0"), Node(store, "node-1")
        store.lose_answer("node-0", 2, name="beat")
        refused = [
            await node.is_refused("beat", Beating(id=name)) for name, node in 2 * (("a", one), ("b", two))
        ]
        assert refused == [False, False, True, False]
        first, second = [line.facts.answer for line in log.lines if line.place == "node-0"]
        assert second.before_ms == first.at_ms

    run(life)
    assert calls_of(log, "node-0") == [("beat", ""), ("beat", "lost after")]
    assert calls_of(log, "node-1") == [("beat", ""), ("beat", "")]


def test_a_call_lost_before_its_commit_changes_nothing(store):
    """The session that was to be created does not exist."""

    async def life():
        node = Node(store, "node-0")
        store.lose_answer("node-0", when="before")
        assert await node.is_refused("create", Author("s").opening())
        assert await node.call("get", "", "s") is None

    run(life)


@pytest.mark.parametrize(
    ("begin", "reads", "writes"),
    [
        (lambda store: store.go_away(), False, False),
        (lambda store: store.fill(), True, False),
        (lambda store: store.exhaust(place="node-0"), False, False),
        (lambda store: store.exhaust(place="node-1"), True, True),
        (lambda store: store.go_away(names=["gone"]), True, False),
        (lambda store: store.slow(1.0), True, True),
    ],
    ids=["away", "full", "no connection", "no connection of another", "one call", "slow"],
)
def test_a_fault_lasts_until_it_is_mended(store, begin, reads, writes):
    """It refuses the calls that it is about, again and again, and none after `mend`."""

    async def life():
        node = Node(store, "node-0")
        begin(store)
        for _ in range(3):
            assert await node.is_refused("get", "", "s") is not reads
            assert await node.is_refused("gone", "n9") is not writes
        store.mend()
        assert not await node.is_refused("get", "", "s")
        assert not await node.is_refused("gone", "n9")

    run(life)


def test_a_late_answer_is_late_for_its_caller_only(store):
    """The effect is there at once."""

    async def life():
        one, two = Node(store, "node-0"), Node(store, "node-1")
        store.slow(3.0, place="node-0")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.call, "create", Author("s").opening())
            await trio.sleep(0.1)
            assert await two.call("get", "", "s") is not None
            assert trio.current_time() < 1
        assert 3 < trio.current_time() < 3.1

    run(life)


def test_after_a_restart_each_place_finds_its_connection_closed_once(store):
    """A place that called meanwhile has found that out already, and a new one has no connection to lose."""

    async def life():
        one, two, new = (Node(store, f"node-{number}") for number in range(3))
        for node in (one, two):
            await node.call("now_ms")
        store.restart(2.0)
        assert await one.is_refused("now_ms")
        await trio.sleep(2)
        assert [await node.is_refused("now_ms") for node in (one, two, two, new)] == [
            False,
            True,
            False,
            False,
        ]
        store.take_connection("node-0")
        assert [await node.is_refused("now_ms") for node in (two, one, one)] == [False, True, False]

    run(life)


def test_a_failover_to_a_synchronous_standby_loses_nothing(store):
    """What was acknowledged is there."""

    async def life():
        node = Node(store, "node-0")
        await node.call("create", Author("s").opening("a"))
        with pytest.raises(ValueError, match="synchronous standby"):
            store.fail_over(lost_commits=1)
        store.fail_over(seconds=0.5)
        await trio.sleep(0.5)
        assert await node.is_refused("now_ms")  # its connection was to the old server
        assert (await node.call("get", "", "s")).tail.seq == 2

    run(life)


def test_a_failover_may_lose_the_last_commits_and_no_others(store, log):
    """The standby has exactly what a store has that got the kept calls only, and an owner ahead of it is told."""

    async def life():
        node, author, twin = Node(store, "node-0"), Author("s"), fresh()
        store.is_synchronous = False
        secret = await node.call("secret")
        for step, (name, argument) in enumerate(
            [
                ("beat", Beating(id="n1")),
                ("create", author.opening("a")),
                ("append", [author.write("b")]),
                ("append", [author.write("c")]),
                ("gone", "n1"),
            ]
        ):
            await node.call(name, argument)
            if step < 3:
                twin.wrong_by_seconds = log.lines[-1].at - trio.current_time()
                getattr(twin, name)(argument)
            await trio.sleep(1)
        store.fail_over(lost_commits=2, seconds=0)
        await node.is_refused("now_ms")
        for name, *arguments in [("read", "", "s"), ("find",), ("nodes",)]:
            assert await node.call(name, *arguments) == getattr(twin, name)(*arguments)
        (behind,) = await node.call("append", [author.write("d")])
        assert isinstance(behind, JournalBehind)
        assert (behind.have, behind.acknowledged) == (3, 4)
        assert await node.call("secret") == secret

    run(life)
    (lost,) = [line.facts.answer for line in log.lines if line.said.startswith("fails over")]
    assert [call.name for call in lost] == ["append", "gone"]


def test_a_claim_skips_rows_that_other_transactions_lock(store):
    """It gets none, once. So does an adoption of owed rows. Other calls get what there is."""

    async def life():
        node = Node(store, "node-0")
        await node.call("create", Author("s").opening(standing=Standing(is_working=True)))
        await node.call("change_owed", [OwedRow(kind="webhook", id="a", body=b"x", node="n1")])
        for name, arguments in [("claim", ("n2",)), ("adopt_owed", ("webhook", "n2"))]:
            store.lock_rows("node-0")
            store.slow(0.1, seconds=1.0)
            assert len(await node.call("orphans")) == 1
            assert [len(await node.call(name, *arguments)) for _ in range(2)] == [0, 1]

    run(life)


def test_its_clock_is_its_own(store):
    """A wrong clock of a node does not change a time of the store. A wrong clock of the store changes all of them."""

    async def life():
        node = Node(store, "node-0")
        node.machine.wrong_by_seconds = 3600
        before = await node.call("beat", Beating(id="n1"))
        store.wrong_by_seconds = -3600
        after = await node.call("beat", Beating(id="n1"))
        assert before.at_ms < node.machine.wall() * 1000 - 3_500_000
        assert -3_600_000 <= after.at_ms - before.at_ms < -3_599_000

    run(life)


def test_an_answer_is_lost_as_its_call_is_logged(store, log):
    """A fault that strikes as a node asks the store takes the answer to this call, and no other."""
    log.watchers.append(lambda line: len(log.lines) == 2 and store.lose_answer(line.place))
    store.now_ms()
    with pytest.raises(StoreUnavailable, match="the connection was cut"):
        store.now_ms()
    store.now_ms()
    assert [line.facts.is_executed for line in log.lines] == [True] * 3


def test_congestion_delays_answers_and_loses_all_heartbeats_but_the_next(store):
    """Appends of the node go through, so it does not notice by them that others take it for dead."""
    store.congest(WORLD, 0.5, seconds=20.0)
    store.beat(Beating(id="n1"))
    with pytest.raises(StoreUnavailable, match="the connection was cut"):
        store.beat(Beating(id="n1"))
    store.create(Author("s").opening())


def test_the_clock_of_the_store_steps(store):
    """By seconds, forward or back."""
    before = store.now_ms()
    store.step_clock(-60.0)
    assert store.now_ms() - before == -60_000


def test_lines_say_what_was_called(store, log):
    """Numbers of appended records, sessions, refusals and lost answers."""
    author = Author("s")
    store.create(author.opening())
    store.append([author.write("a", "b"), author.write("c")])
    store.append([Author("t").write("x")])
    take_all(store, [TakeOver(scope="", root="s", node="n2", cause="gone")])
    store.lose_answer()
    with pytest.raises(StoreUnavailable):
        store.get("", "s")
    assert [(line.session, line.said) for line in log.lines] == [
        ("s", "create s"),
        ("s", "append s/2-3, s/4"),
        ("t", "append t/1: Fenced"),
        ("s", "take_many s"),
        ("s", "get s (lost after)"),
    ]
