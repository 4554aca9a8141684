"""Nodes over one store: what a node that is cut off stops and holds, and who takes its sessions."""

from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress

import pytest
import trio

from agentrail import ToolContext, tool
from agentrail.abc.living_nodes import Departures
from agentrail.abc.store import JOURNAL_BEHIND, Filters, Node, OwedRow, Standing
from agentrail.errors import (
    JournalBehind,
    SessionDown,
    SessionNotFound,
    StillNeeded,
    StoreUnavailable,
    Unrevivable,
)
from agentrail.events import AgentEnd, ApprovalRequired, ApprovalResolved, EventsLost
from agentrail.outside import installed
from agentrail.plugins.human_approval import HumanApproval
from agentrail.runtime.retention import KeepLimits
from agentrail.runtime.session_clock import now_ms, store_now_ms
from agentrail.stores.recall_memory import InMemoryNotes
from agentrail.testing.models import FunctionModel, calls, says
from tests.runtime.nodes import Connection, Machine, node_over, shared_store, taken_by
from tests.runtime.rig import eventually, on_virtual_time, open_over, until
from tests.stores.rig import opening

pytestmark = on_virtual_time

LEASE = 15


class Work:
    """A tool with a ledger of its effects outside any session: one a second, each with the fence of its call."""

    def __init__(self, effect="once", seconds=5):
        self.ledger, self.began = [], trio.Event()

        @tool(effect_class=effect)
        async def work(ctx: ToolContext) -> str:
            """Work."""
            self.began.set()
            for _ in range(seconds):
                self.ledger.append((trio.current_time(), ctx.fence))
                await trio.sleep(1)
            return "worked"

        self.tool = work

    def options(self, _opening=None):
        def answer(request):
            said = str(request.messages[-1])
            return says("done") if "worked" in said or "Outcome unknown" in said else calls(("work", {}))

        return {"model": FunctionModel(answer), "tools": [self.tool]}

    def epochs(self):
        return [epoch for _, (_, epoch) in self.ledger]


def hanging(_opening=None):
    """A model that never answers: the cycle of its session is work for the look."""

    async def answer(_request):
        await trio.sleep_forever()

    return {"model": FunctionModel(answer)}


def read_all(events):
    with suppress(trio.EndOfChannel):
        while True:
            events.next_nowait()


def forget_records(store, session, count):
    """Lose the last records of a session, as a failover to an asynchronous standby does."""
    del store._journals["", session].records[-count:]  # noqa: SLF001 - what no caller can ask for


def mark_working(store, session):
    store._journals["", session].standing = Standing(is_working=True)  # noqa: SLF001 - as the lost records left it
    store._working["", session] = None  # noqa: SLF001 - same


async def late_answer(connection, session, seconds):
    """Wait for the next call that reads the row of a session. Return the time of its answer, which is late by so much."""
    connection.late = ("get", session, seconds)
    while connection.late is not None:  # noqa: ASYNC110 - as an observer outside would
        await trio.sleep(0.001)
    return trio.current_time() + 0.005 + seconds


def take_time(store, session):
    return next(one.at_ms for one in store.read("", session) if one.kind == "taken")


@pytest.mark.journal(26)
@pytest.mark.machine(26)
@pytest.mark.parametrize("names", [("*",), ("beat",)], ids=["all calls fail", "only heartbeats fail"])
async def test_a_node_without_heartbeats_stops_its_tools_within_the_lease_and_is_taken_once(names):
    """A node without heartbeats stops its tools within the lease and is taken once."""
    store, clock = shared_store()
    work = Work(seconds=100)
    async with node_over(store, revive=work.options) as (one, connection):
        session = await one.start_session(session_id="s", **work.options())
        async with (
            session.subscribe(after=0) as events,
            node_over(store, revive=work.options) as (two, _),
        ):
            await session.prompt("Hi")
            await work.began.wait()
            await trio.sleep(7)  # a heartbeat of the second interval has gone through
            begun = clock()
            connection.cut(*names)
            await trio.sleep(LEASE + 5)
            taken_at = take_time(store, "s")
            assert LEASE * 1000 - 5_000 <= taken_at - begun <= (LEASE + 2) * 1000
            old = [at for at, (_, epoch) in work.ledger if epoch == 1]
            assert 1_700_000_000_000 + old[-1] * 1000 < taken_at
            connection.mend()
            await trio.sleep(10)
            read_all(events)
            assert events.is_moved
            assert [one.session_id for one in one.sessions()] == []
            assert [one.session_id for one in two.sessions()] == ["s"]
            assert taken_by(store, "s") == [2]
            assert work.epochs() == [1] * len(work.ledger)  # `once`: told as unknown, not repeated


@pytest.mark.machine(26)
async def test_nothing_begins_ten_seconds_after_the_last_heartbeat_though_appends_go_through():
    """Nothing begins ten seconds after the last heartbeat though appends go through."""
    store, _ = shared_store()
    work = Work()
    async with node_over(store, revive=work.options, resume="none") as (one, connection):
        session = await one.start_session(session_id="s", **work.options())
        connection.cut("beat")
        await trio.sleep(11)
        await session.prompt("Hi")
        await trio.sleep(20)
        assert work.ledger == []
        assert store.get("", "s").tail.seq > 1
        connection.mend()
        async with session.subscribe(after=0) as events:
            await until(events, AgentEnd)
        assert len(work.ledger) == 5


@pytest.mark.machine(26)
async def test_a_late_answer_does_not_prolong_the_trust_of_a_node():
    """A late answer does not prolong the trust of a node."""
    store, _ = shared_store()
    work = Work(seconds=100)
    async with node_over(store, revive=work.options, resume="none", store_patience=60.0) as (one, connection):
        session = await one.start_session(session_id="s", **work.options())
        await session.prompt("Hi")
        await work.began.wait()
        await trio.sleep(4)
        connection.answer_seconds = 8.0
        await trio.sleep(8)  # the heartbeat at 5 s is carried out at once, and answered at 13 s
        connection.cut("beat")
        await trio.sleep(30)
        ends = work.ledger[-1][0]
        assert 18 <= ends <= 20


@pytest.mark.journal(33)
@pytest.mark.parametrize("seconds", [8, 30])
async def test_a_store_that_was_away_moves_no_session_and_each_held_tool_runs_once(seconds):
    """A store that was away moves no session and each held tool runs once."""
    store, _ = shared_store()
    work = Work(effect="once", seconds=1)
    async with AsyncExitStack() as stack:
        one, first = await stack.enter_async_context(node_over(store, revive=work.options))
        two, second = await stack.enter_async_context(node_over(store, revive=work.options))
        sessions = [
            await one.start_session(session_id=f"s-{number}", **work.options()) for number in range(5)
        ]
        await trio.sleep(4)
        async with trio.open_nursery() as nursery:
            for session in sessions:
                nursery.start_soon(session.prompt, "Hi")
            await trio.testing.wait_all_tasks_blocked()
        for connection in (first, second):
            connection.cut()
        await trio.sleep(seconds)
        for connection in (first, second):
            connection.mend()
        for session in sessions:
            async with session.subscribe(after=0) as events:
                await until(events, AgentEnd)
        assert sorted(session for _, (session, _) in work.ledger) == [f"s-{number}" for number in range(5)]
        assert two.sessions() == ()
        assert [taken_by(store, f"s-{number}") for number in range(5)] == [[]] * 5


async def test_a_pure_tool_goes_on_without_a_lease_and_its_result_counts():
    """A pure tool goes on without a lease and its result counts."""
    store, _ = shared_store()
    work = Work(effect="pure", seconds=30)
    async with node_over(store, resume="none") as (one, connection):
        session = await one.start_session(session_id="s", **work.options())
        await session.prompt("Hi")
        await work.began.wait()
        connection.cut()
        await trio.sleep(LEASE + 5)
        connection.mend()
        async with session.subscribe(after=0) as events:
            await until(events, AgentEnd)
        assert len(work.ledger) == 30


async def test_a_stream_that_was_closed_without_a_lease_is_requested_again():
    """A stream that was closed without a lease is requested again."""
    store, _ = shared_store()
    asked = []

    async def answer(_request):
        asked.append(trio.current_time())
        if len(asked) == 1:
            await trio.sleep_forever()
        return says("done")

    async with node_over(store, resume="none") as (one, connection):
        session = await one.start_session(session_id="s", model=FunctionModel(answer))
        await session.prompt("Hi")
        await trio.sleep(1)
        connection.cut()
        await trio.sleep(LEASE + 5)
        assert len(asked) == 1
        mended = trio.current_time()
        connection.mend()
        async with session.subscribe(after=0) as events:
            await until(events, AgentEnd)
        assert asked[1] >= mended


async def test_a_stop_is_not_held_back():
    """A stop is not held back."""
    store, _ = shared_store()
    work = Work(seconds=100)
    async with node_over(store, resume="none") as (one, connection):
        session = await one.start_session(session_id="s", **work.options())
        await session.prompt("Hi")
        await work.began.wait()
        connection.cut()
        await trio.sleep(2)
        with pytest.raises(StoreUnavailable):
            await session.abort("enough", kill_tools="all")
        effects = len(work.ledger)
        await trio.sleep(3)
        assert len(work.ledger) == effects
        connection.mend()


@pytest.mark.journal(28)
async def test_each_tree_of_a_dead_node_is_taken_by_one_of_two_others():
    """Each tree of a dead node is taken by one of two others."""
    store, _ = shared_store()
    async with AsyncExitStack() as stack:
        one, first = await stack.enter_async_context(node_over(store, revive=hanging))
        for number in range(100):
            session = await one.start_session(session_id=f"s-{number}", **hanging())
            await session.prompt("Hi")
        two, _ = await stack.enter_async_context(node_over(store, revive=hanging))
        three, _ = await stack.enter_async_context(node_over(store, revive=hanging))
        await trio.sleep(3)
        first.cut()
        await trio.sleep(LEASE + 3)
        at_two, at_three = ({session.session_id for session in node.sessions()} for node in (two, three))
        assert at_two
        assert at_three
        assert not at_two & at_three
        assert at_two | at_three == {f"s-{number}" for number in range(100)}
        assert all(taken_by(store, f"s-{number}") == [2] for number in range(100))


async def test_a_node_with_a_longer_lease_keeps_its_sessions_between_heartbeats():
    """A node with a shorter lease takes them after the lease of their owner, and not before."""
    store, _ = shared_store()
    async with AsyncExitStack() as stack:
        one, first = await stack.enter_async_context(node_over(store, revive=hanging, lease=60.0))
        session = await one.start_session(session_id="s", **hanging())
        await session.prompt("Hi")
        await stack.enter_async_context(node_over(store, revive=hanging, lease=5.0))
        await trio.sleep(100)
        assert taken_by(store, "s") == []
        first.cut()
        await trio.sleep(35)
        assert taken_by(store, "s") == []
        await trio.sleep(60)
        assert taken_by(store, "s") == [2]


def raising_revive(opening):
    return {}[opening.session_id]


@pytest.mark.parametrize("revive", [raising_revive, lambda _: 5], ids=["raises", "odd answer"])
async def test_a_node_survives_a_bug_in_its_revive(revive):
    """Its own sessions go on, and a node with another `revive` takes the session, as in an update of one node after another."""
    store, _ = shared_store()
    async with AsyncExitStack() as stack:
        one, first = await stack.enter_async_context(node_over(store, revive=hanging))
        await (await one.start_session(session_id="s", **hanging())).prompt("Hi")
        two, _ = await stack.enter_async_context(node_over(store, revive=revive))
        own = await two.start_session(session_id="own", model=FunctionModel(lambda _: says("done")))
        await trio.sleep(3)
        first.cut()
        await trio.sleep(LEASE + 3)
        (failed,) = await two.resume_all("working")
        assert isinstance(failed.error, Unrevivable)
        assert await own.ask("Hi") == "done"
        await stack.enter_async_context(node_over(store, revive=hanging))
        await trio.sleep(90)
        assert taken_by(store, "s") == [2]


@pytest.mark.machine(17)
async def test_idle_sessions_of_a_dead_node_cost_no_query():
    """Idle sessions of a dead node cost no query."""
    store, _ = shared_store()
    store.beat(Node(id="dead", lease_ms=LEASE * 1000))
    async with AsyncExitStack() as stack:
        one, first = await stack.enter_async_context(node_over(store, revive=hanging))
        own = one.nodes.node.id
        for number in range(10_000):
            store.create(opening(f"idle-{number}", node=own, standing=Standing()))
        for number in range(300):
            session = await one.start_session(session_id=f"s-{number}", **hanging())
            await session.prompt("Hi")
        nodes = [await stack.enter_async_context(node_over(store, revive=hanging)) for _ in range(2)]
        await trio.sleep(3)
        first.cut()
        await trio.sleep(LEASE + 10)
        taken = [session.session_id for node, _ in nodes for session in node.sessions()]
        assert sorted(taken) == sorted(f"s-{number}" for number in range(300))
        asked = [session for _, connection in nodes for _, session in connection.calls]
        assert not [one for one in asked if str(one).startswith("idle-")]
        assert all(taken_by(store, f"s-{number}") == [2] for number in range(300))


@asynccontextmanager
async def working_pair(store):
    """A node with a session at work and its connection to the store, and another node."""
    async with node_over(store, revive=hanging) as (one, connection):
        session = await one.start_session(session_id="s", **hanging())
        await session.prompt("Hi")
        async with node_over(store, revive=hanging) as (two, _):
            yield one, connection, two


@pytest.mark.machine(28)
@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000])
async def test_a_step_of_the_store_s_clock_moves_nothing(step_ms):
    """A step of the store's clock moves nothing."""
    store, clock = shared_store()
    async with working_pair(store) as (one, _, two):
        await trio.sleep(17.2)
        clock.stepped_ms += step_ms
        await trio.sleep(2 * LEASE)
        assert taken_by(store, "s") == []
        assert two.sessions() == ()
        assert [one.session_id for one in one.sessions()] == ["s"]


@pytest.mark.parametrize("how", ["delete", "forget", "sweep"])
async def test_a_step_of_the_store_s_clock_deletes_no_session_of_a_living_node(how):
    """Another node could delete or erase it until the owner's next heartbeat. Once the owner has been silent for a lease, it can."""
    store, clock = shared_store()
    async with AsyncExitStack() as opened:
        one, connection = await opened.enter_async_context(node_over(store, revive=hanging))
        session = await one.start_session(session_id="s", user_data={"user_id": "ada"}, **hanging())
        keep = KeepLimits(size_bytes=1) if how == "sweep" else None
        two, _ = await opened.enter_async_context(node_over(store, keep=keep))
        await session.prompt("Hi")

        async def remove():
            if how == "delete":
                with suppress(StillNeeded):
                    await two.delete_session("s")
            elif how == "forget":
                await two.forget_user("ada")
            else:
                await two._shared.keeping.retention.sweep()  # noqa: SLF001 - otherwise hourly

        def kinds():
            return [] if store.get("", "s") is None else [one.kind for one in store.read("", "s")]

        await trio.sleep(17.2)
        before = kinds()
        clock.stepped_ms += 3_600_000
        await remove()
        assert before == kinds() != []
        assert (await session.status()).phase == "running"
        connection.cut()
        await trio.sleep(2 * LEASE)
        await remove()
        assert before != kinds()


async def test_a_dead_node_loses_its_sessions_within_a_lease_although_the_clock_was_set_back():
    """Its last heartbeat is an hour in the future then. Others have watched its silence by their own clocks, and that decides."""
    store, clock = shared_store()
    async with working_pair(store) as (_, connection, two):
        await trio.sleep(17.2)
        connection.cut()
        clock.stepped_ms -= 3_600_000
        await trio.sleep(LEASE - 5)  # its last heartbeat was up to 5 s before
        assert two.sessions() == ()
        await trio.sleep(10)
        assert [one.session_id for one in two.sessions()] == ["s"]


async def test_a_node_that_was_reported_gone_and_lives_loses_what_others_took():
    """A node that was reported gone and lives loses what others took."""
    store, _ = shared_store()
    async with working_pair(store) as (one, _, two):
        await trio.sleep(0.1)
        store.gone(one.nodes.node.id)
        await trio.sleep(10)
        assert [one.session_id for one in two.sessions()] == ["s"]
        assert one.sessions() == ()
        assert b'"gone"' in next(one.body for one in store.read("", "s") if one.kind == "taken")


def claimer(store):
    return store._journals["", "s"].claimed_by  # noqa: SLF001 - no call of the port tells


async def claimed(store, second):
    """Wait until a tree is reserved, by a node that needs seconds until it can take it."""
    second.answer_seconds = 0.5
    await eventually(lambda: claimer(store), 2 * LEASE)


async def test_an_owner_that_returns_before_its_reserved_tree_is_taken_keeps_it():
    """The refused take costs nothing: no record, no death, and the other node takes the tree once its owner is really dead."""
    store, _ = shared_store()
    async with AsyncExitStack() as stack:
        one, first = await stack.enter_async_context(node_over(store, revive=hanging))
        session = await one.start_session(session_id="s", **hanging())
        await session.prompt("Hi")
        two, second = await stack.enter_async_context(node_over(store, revive=hanging))
        first.cut()
        await claimed(store, second)
        first.mend()
        store.beat(one.nodes.node)
        await trio.sleep(LEASE)
        assert [name for name, _ in second.calls if name in ("take", "take_many")] != []
        found = store.get("", "s")
        assert (found.node, found.deaths, taken_by(store, "s")) == (one.nodes.node.id, 0, [])
        assert (claimer(store), two.sessions()) == ("", ())
        assert [one.session_id for one in one.sessions()] == ["s"]
        first.cut()
        await trio.sleep(2 * LEASE)
        assert [one.session_id for one in two.sessions()] == ["s"]


async def test_a_reservation_that_could_not_be_released_is_used_later():
    """The store is away between the claim of a tree and its take, and the release fails too: the same node takes the tree afterwards."""
    store, _ = shared_store()
    async with AsyncExitStack() as stack:
        one, first = await stack.enter_async_context(node_over(store, revive=hanging))
        session = await one.start_session(session_id="s", **hanging())
        await session.prompt("Hi")
        two, second = await stack.enter_async_context(node_over(store, revive=hanging))
        first.cut()
        await claimed(store, second)
        second.cut("take", "take_many", "release")
        await eventually(lambda: [name for name, _ in second.calls].count("release") == 2, LEASE)
        assert claimer(store) == two.nodes.node.id
        second.mend()
        await trio.sleep(LEASE)
        assert [one.session_id for one in two.sessions()] == ["s"]
        assert store.get("", "s").deaths <= 1


async def test_a_release_that_failed_does_not_release_a_session_that_woke_since():
    """A session hibernates, and the store does not release it. It wakes while the store takes no writes, and has an owner after that."""
    store, _ = shared_store()
    options = {"model": FunctionModel(lambda _: says("done"))}
    async with node_over(store, hibernate_after=1.0) as (one, connection), trio.open_nursery() as nursery:
        session = await one.start_session(session_id="s", **options)
        await session.ask("Hi")
        busy = await one.start_session(session_id="busy", **hanging())
        await busy.prompt("Hi")
        connection.cut("release")
        await trio.sleep(2.5)
        connection.cut("append", "release")
        nursery.start_soon(busy.steer, "its record is tried again and again")
        await trio.sleep(0.3)
        nursery.start_soon(session.ask, "Again")
        await trio.sleep(2)
        connection.mend()
        await trio.sleep(0.7)
        assert [one.session_id for one in one.sessions()] == ["busy", "s"]
        assert store.get("", "s").node == one.nodes.node.id


async def test_a_tree_with_two_deaths_is_parked_and_continues_on_request():
    """A tree with two deaths is parked and continues on request."""
    store, _ = shared_store()
    async with AsyncExitStack() as stack:
        one, first = await stack.enter_async_context(node_over(store, revive=hanging))
        session = await one.start_session(session_id="s", **hanging())
        await session.prompt("Hi")
        first.cut()
        for name in ("first", "second"):  # each claims it, and dies before it writes a record
            await trio.sleep(0.1)
            store.beat(Node(id=name))
            owner = one.nodes.node.id if name == "first" else "first"
            store.gone(owner)
            assert [row.session for row in store.claim(name, {}, codec=1)] == ["s"]
        store.gone("second")
        three, _ = await stack.enter_async_context(node_over(store, revive=hanging))
        await trio.sleep(3)
        assert three.sessions() == ()
        (parked,) = three.parked_sessions()
        assert parked.session_id == "s"
        assert "2 nodes in a row ended with it" in parked.reason
        assert "agentrail sessions resume s" in parked.reason
        await three.resume_session("s", **hanging())
        assert [one.session_id for one in three.sessions()] == ["s"]


async def test_a_tree_that_cannot_be_revived_here_is_left_to_others():
    """A tree that cannot be revived here is left to others."""
    store, _ = shared_store()
    work = Work(seconds=100)
    async with AsyncExitStack() as stack:
        one, first = await stack.enter_async_context(node_over(store, revive=work.options))
        session = await one.start_session(session_id="s", **work.options())
        await session.prompt("Hi")
        await work.began.wait()
        two, _ = await stack.enter_async_context(node_over(store))
        first.cut()
        await trio.sleep(LEASE + 10)
        assert two.sessions() == ()
        three, _ = await stack.enter_async_context(node_over(store, revive=work.options))
        await trio.sleep(LEASE + 3)  # it has to see for itself that the owner is silent
        assert [one.session_id for one in three.sessions()] == ["s"]


@pytest.mark.machine(14)
@pytest.mark.parametrize("is_away", [False, True])
async def test_a_session_whose_acknowledged_records_are_lost_is_parked_on_every_node(is_away):
    """Also if the store cannot take the note of it at once."""
    store, _ = shared_store()
    work = Work(seconds=1)
    async with AsyncExitStack() as stack:
        one, first = await stack.enter_async_context(node_over(store, revive=work.options))
        sessions = [await one.start_session(session_id=name, **work.options()) for name in ("lost", "kept")]
        for session in sessions:
            await session.ask("Hi")
        acknowledged = store.get("", "lost").tail.seq
        forget_records(store, "lost", 2)
        if is_away:
            first.cut("change_owed")
        with pytest.raises(Exception, match="acknowledged record"):
            await sessions[0].ask("And now?")
        await trio.sleep(3)
        first.mend()
        assert await sessions[1].ask("And now?") == "done"
        (parked,) = one.parked_sessions()
        assert (
            parked.session_id,
            str(acknowledged - 2) in parked.reason,
            str(acknowledged) in parked.reason,
        ) == (
            "lost",
            True,
            True,
        )
        mark_working(store, "lost")
        first.cut()
        two, _ = await stack.enter_async_context(node_over(store, revive=work.options))
        await trio.sleep(LEASE + 10)
        assert [one.session_id for one in two.sessions() if one.session_id == "lost"] == []
        assert [one.session_id for one in two.parked_sessions()] == ["lost"]
        with pytest.raises(JournalBehind, match=f"{acknowledged}"):
            await two.resume_session("lost", **work.options())
        await two.resume_session("lost", on_drift="go_on", **work.options())


async def test_a_look_at_the_nodes_asks_the_store_in_a_thread():
    """A look at the nodes asks the store for all that it needs in a thread."""
    store, _ = shared_store()
    async with node_over(store) as (one, connection):
        connection.calls.clear()
        assert await one.look_at_nodes(Departures(one.shared_node)) == frozenset()
        assert {"nodes", "now_ms"} <= {name for name, _ in connection.calls}


async def test_lost_records_are_found_among_those_of_thousands_of_sessions():
    """The lost records of a session are found among those of thousands of sessions."""
    store, _ = shared_store()
    async with node_over(store) as (one, _):
        session = await one.start_session(session_id="s2400", **hanging())
        await session.prompt("Hi")
    store.change_owed(
        [OwedRow(kind=JOURNAL_BEHIND, id=f"s{number:04}", body=b"1 3") for number in range(2500)]
    )
    async with node_over(store, resume="none") as (two, _):
        with pytest.raises(JournalBehind, match="record 3"):
            await two.resume_session("s2400", **hanging())


async def test_lost_records_whose_numbers_are_damaged_are_lost_records():
    """How many is unknown, as after a restored backup. It was an error of ours at each call of the session."""
    store, _ = shared_store()
    async with node_over(store) as (one, _):
        session = await one.start_session(session_id="s", **hanging())
        await session.prompt("Hi")
    store.change_owed([OwedRow(kind=JOURNAL_BEHIND, id="s", body=b"1 x")])
    async with node_over(store, resume="none") as (two, _):
        with pytest.raises(JournalBehind, match="may lack records after") as caught:
            await two.resume_session("s", **hanging())
        assert caught.value.acknowledged is None
        await two.resume_session("s", on_drift="go_on", **hanging())


@pytest.mark.parametrize("make_notes", [lambda: None, InMemoryNotes])
async def test_a_new_session_with_the_id_of_a_deleted_one_has_lost_no_records(make_notes):
    """What was noted of the deleted one would refuse it."""
    store, _ = shared_store()
    async with node_over(store, notes=make_notes()) as (one, _):
        session = await one.start_session(session_id="s", **hanging())
        await session.stop()
        store.change_owed([OwedRow(kind=JOURNAL_BEHIND, id="s", body=b"1 9")])
        await one.delete_session("s")
        await one.start_session(session_id="s", **hanging())
    async with node_over(store, resume="none") as (two, _):
        await two.resume_session("s", **hanging())


async def test_a_hibernated_session_that_another_node_woke_ends_its_readers():
    """A hibernated session that another node woke ends its readers."""
    store, _ = shared_store()
    options = {"model": FunctionModel(lambda _: says("done"))}
    async with AsyncExitStack() as stack:
        one, _ = await stack.enter_async_context(node_over(store, hibernate_after=1.0))
        session = await one.start_session(session_id="s", **options)
        await session.ask("Hi")
        events = await stack.enter_async_context(session.subscribe(after=0))
        await trio.sleep(3)
        assert one.statistics().asleep == 1
        two, _ = await stack.enter_async_context(node_over(store))
        await two.resume_session("s", **options)
        await trio.sleep(6)
        read_all(events)
        assert events.is_moved
        assert one.statistics().asleep == 0


async def test_all_hibernated_sessions_are_looked_up_at_once(monkeypatch):
    """One query of a store that can do so, whatever the number of sessions with readers."""
    store, _ = shared_store()
    asked = []

    def get_many(connection, places):
        asked.append(sorted(session for _, session in places))
        return tuple(connection.get(*place) for place in places)

    async with AsyncExitStack() as stack:
        node, connection = await stack.enter_async_context(node_over(store, hibernate_after=1.0))
        monkeypatch.setattr(type(connection), "get_many", get_many, raising=False)
        for name in "abc":
            session = await node.start_session(session_id=name, model=FunctionModel(lambda _: says("done")))
            await session.ask("Hi")
            await stack.enter_async_context(session.subscribe(after=0))
        await trio.sleep(3)
        assert node.statistics().asleep == 3
        asked.clear()
        await trio.sleep(6)
        assert asked
        assert set(map(tuple, asked)) == {("a", "b", "c")}


async def test_a_session_that_wakes_where_it_was_just_found_moved_keeps_its_sandbox():
    """A hibernated session that another node woke and released again is woken while the answer that it has moved is on its way."""
    store, _ = shared_store()
    options = {"model": FunctionModel(lambda _: says("done"))}
    async with node_over(store, hibernate_after=1.0) as (one, connection):
        session = await one.start_session(session_id="s", **options)
        await session.ask("Hi")
        sandbox = session._cell.ports.workspace.open()  # noqa: SLF001 - as its first tool does
        await trio.sleep(3)
        async with node_over(store) as (two, _):
            await two.resume_session("s", **options)
            answered_at = await late_answer(connection, "s", 4.0)
        await trio.sleep_until(answered_at - 0.02)
        assert one.statistics().asleep == 1
        assert await session.ask("Again") == "done"
        await trio.sleep(0.5)
        assert (one.statistics().asleep, sandbox.closed) == (0, 0)


async def test_a_session_that_woke_and_hibernates_again_is_not_the_one_that_had_moved():
    """A hibernated session that another node woke and released again wakes and hibernates again while the answer that it has moved is on its way."""
    store, _ = shared_store()
    options = {"model": FunctionModel(lambda _: says("done"))}
    async with node_over(store, hibernate_after=1.0) as (one, connection):
        session = await one.start_session(session_id="s", **options)
        await session.ask("Hi")
        await trio.sleep(3)
        async with node_over(store) as (two, _):
            await two.resume_session("s", **options)
            answered_at = await late_answer(connection, "s", 8.0)
        async with session.subscribe():
            assert await session.ask("Again") == "done"
            await trio.sleep_until(answered_at - 0.1)
            assert one.statistics().asleep == 1
            await trio.sleep(0.2)
            assert one.statistics().asleep == 1


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_session_that_ends_while_another_node_resumes_it_is_reported_as_down(is_deleted):
    """A session that ends while another node resumes it is reported as down, or as unknown once it is deleted."""
    store, _ = shared_store()
    options = {"model": FunctionModel(lambda _: says("done"))}
    async with node_over(store) as (one, _), node_over(store) as (two, connection):
        await (await one.start_session(session_id="s", **options)).ask("Hi")

        async def end():
            await late_answer(connection, "s", 3.0)
            await one.stop_session("s")
            if is_deleted:
                await one.delete_session("s")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end)
            with pytest.raises(SessionNotFound if is_deleted else SessionDown):
                await two.resume_session("s", **options)


async def test_a_node_survives_the_end_of_a_session_that_it_takes_over():
    """The owner was reported gone by mistake, and ends the session while the other node reads it."""
    store, _ = shared_store()
    async with (
        node_over(store, revive=hanging) as (one, _),
        node_over(store, revive=hanging) as (two, connection),
    ):
        await (await one.start_session(session_id="s", **hanging())).prompt("Hi")
        await trio.sleep(1)
        store.gone(one.nodes.node.id)
        await late_answer(connection, "s", 3.0)
        await one.stop_session("s")
        await trio.sleep(5)
        assert store.get("", "s").standing.has_ended
        assert (await two.start_session(session_id="other", **hanging())).session_id == "other"


@pytest.mark.parametrize("how", ["a message", "resume_session"])
async def test_readers_of_a_hibernated_session_get_what_another_node_published_meanwhile(how):
    """Whether the session returns with a message or with `resume_session`, which is how a node continues what a dead one has left."""
    store, _ = shared_store()
    options = {"model": FunctionModel(lambda _: says("done"))}
    async with node_over(store, hibernate_after=1.0) as (one, _):
        session = await one.start_session(session_id="s", **options)
        await session.ask("Hi")
        async with session.subscribe(after=0) as events:
            await trio.sleep(2)
            async with node_over(store) as (two, _):
                there = await two.resume_session("s", **options)
                for _ in range(100):  # more events than a returning session has in memory
                    await there.ask("Hi")
            if how == "a message":
                await session.ask("Again")
            else:
                await one.resume_session("s", **options)
            last = store.get("", "s").events
            numbers = []
            while not numbers or numbers[-1] < last:
                event = await anext(events)
                assert not isinstance(event, EventsLost)
                numbers += [] if event.meta.ephemeral else [event.meta.seq]
        assert numbers == list(range(1, last + 1))


async def test_a_parked_tree_that_is_resumed_by_its_id_meanwhile_keeps_its_owner():
    """A node reserves two trees in whose recovery others died. While it recovers the one, its operator resumes the other, which is to be parked."""
    store, _ = shared_store()
    async with AsyncExitStack() as stack:
        one, first = await stack.enter_async_context(node_over(store, revive=hanging))
        for session_id in ("other", "poison"):
            await (await one.start_session(session_id=session_id, **hanging())).prompt("Hi")
        first.cut()
        for name, owner, skip in (("first", one.nodes.node.id, ()), ("second", "first", [("", "other")])):
            await trio.sleep(0.1)
            store.beat(Node(id=name))
            store.gone(owner)
            assert len(store.claim(name, {}, codec=1, skip=skip)) == 2 - len(skip)
        store.gone("second")
        two, connection = await stack.enter_async_context(node_over(store, revive=hanging))
        await late_answer(connection, "other", 3.0)
        await two.resume_session("poison", **hanging())
        await trio.sleep(4)
        assert [one.session_id for one in two.parked_sessions()] == ["poison"]
        assert {one.session_id for one in two.sessions()} == {"other", "poison"}
        assert store.get("", "poison").node == two.nodes.node.id


async def test_different_leases_and_a_wrong_clock_are_reported(caplog):
    """Different leases and a wrong clock are reported."""
    store, _ = shared_store()
    async with AsyncExitStack() as stack:
        one, _ = await stack.enter_async_context(node_over(store))
        await stack.enter_async_context(node_over(store, lease=5.0, ahead=86_400.0))
        await trio.sleep(2)
        facts = await one.cluster_facts()
        assert list(facts.other_leases.values()) == [5.0]
        assert facts.clock_difference_seconds == pytest.approx(0, abs=0.1)
    said = caplog.text
    assert "other leases than the 15 s of this one" in said
    assert "the lease is 5 s: a third of it" in said
    assert said.count("differs from that of the store by 86400.0 s") == 1


async def test_a_living_node_with_the_same_address_is_reported_once(caplog):
    """Each reports the other one, and not a crashed predecessor at their address."""
    store, _ = shared_store()
    address = "http://127.0.0.1:8700"
    store.beat(Node(id="n-before", address=address))
    await trio.sleep(1)
    async with node_over(store, advertise=address) as (one, _):
        await trio.sleep(2)
        assert caplog.messages == []
        async with node_over(store, advertise=address) as (two, _):
            await trio.sleep(LEASE)
            told = "calls to this node can reach others, which advertise {} too: {}; give each node an address of its own"
            assert sorted(caplog.messages) == sorted(
                told.format(address, other.shared_node) for other in (one, two)
            )


async def test_a_tree_of_a_higher_codec_waits_and_is_reported():
    """A tree of a higher codec waits and is reported."""
    store, _ = shared_store()
    store.create(opening("newer", node="gone", standing=Standing(is_working=True), codec=2))
    async with node_over(store, revive=hanging) as (one, _):
        await trio.sleep(3)
        assert one.sessions() == ()
        facts = await one.cluster_facts()
        assert facts.needs_newer == {("", "newer"): 2}


@pytest.mark.machine(28)
async def test_an_approval_expires_by_the_store_s_clock_on_whichever_node():
    """The clock of one node is a day ahead, that of the other a day behind."""
    store, clock = shared_store()
    work = Work(seconds=1)

    def options(_opening=None):
        return {
            **work.options(),
            "plugins": [(HumanApproval, {"require_approval_for": ["work"]})],
            "approval_timeout_seconds": 60,
        }

    async with AsyncExitStack() as stack:
        one, first = await stack.enter_async_context(node_over(store, ahead=86_400, revive=options))
        session = await one.start_session(session_id="s", **options())
        async with session.subscribe(after=0) as events:
            await session.prompt("Hi")
            asked = (await until(events, ApprovalRequired))[-1]
        begun = clock()
        assert abs(asked.meta.at_ms - begun) < 1_000
        two, _ = await stack.enter_async_context(node_over(store, ahead=-86_400, revive=options))
        await trio.sleep(5)
        first.cut()
        await trio.sleep(50)
        assert two.sessions() == ()  # it waits for a user, and so for its timer
        await trio.sleep(10)
        async with two.session("s").subscribe(after=0) as events:
            resolved = (await until(events, ApprovalResolved))[-1]
        assert resolved.status == "timeout"
        assert resolved.meta.at_ms - begun == pytest.approx(60_000, abs=2_000)


@pytest.mark.machine(28)
async def test_the_signal_clock_follows_the_store_and_never_goes_back():
    """The signal clock follows the store and never goes back."""
    store, clock = shared_store()
    async with node_over(store, ahead=86_400):
        seen, was_ahead = [], False
        for step_ms in (0, 3_600_000, 0, -20_000, 0, 0, 0, 0, 0, 0):
            clock.stepped_ms += step_ms
            for _ in range(6):
                await trio.sleep(1)
                seen.append(now_ms())
                if (
                    step_ms == 0 and clock() < seen[-1] - 1_000
                ):  # the signal clock is ahead, since the store's was set back
                    assert store_now_ms() == pytest.approx(clock(), abs=100)
                    was_ahead = True
        assert was_ahead
        assert seen == sorted(seen)
        assert seen[-1] == pytest.approx(clock(), abs=100)


@pytest.mark.machine(28)
async def test_a_late_answer_does_not_move_the_clock(caplog):
    """A heartbeat that hung for 100 s says little about the time: approvals and timers would end 50 s early."""
    store, clock = shared_store()
    async with node_over(store) as (_, connection):
        await trio.sleep(6)
        connection.answer_seconds = 100.0
        await trio.sleep(6)
        connection.answer_seconds = 0.0
        for _ in range(110):
            await trio.sleep(1)
            assert now_ms() == pytest.approx(clock(), abs=100)
    assert "differs from that of the store" not in caplog.text
    assert caplog.text.count("no heartbeat of this node has reached the store") == 1


async def test_a_read_of_a_store_that_hangs_is_given_up():
    """A list over HTTP waited until the database answered. Sooner if the writer knows that it does not."""
    store, _ = shared_store()
    async with node_over(store) as (one, connection):
        session = await one.start_session(**hanging())
        connection.answer_seconds = 1_000.0
        for seconds in (30, 5):
            began = trio.current_time()
            with pytest.raises(StoreUnavailable, match=f"did not answer within {seconds} s"):
                await one.journals.find(Filters())
            assert trio.current_time() - began == pytest.approx(seconds, abs=1)
            with pytest.raises(StoreUnavailable):
                await session.prompt("Hi")


async def test_without_a_shared_store_its_time_is_that_of_the_signal_clock():
    """Without a shared store, its time is that of the signal clock."""
    assert store_now_ms() == pytest.approx(now_ms(), abs=100)


class ThreadedMachine(Machine):
    """A machine whose threads end although their callers are cancelled."""

    seconds = 0.0

    async def offload(self, function, /, *args, limiter=None, **_options):
        seconds = self.seconds
        async with limiter or nullcontext():
            with trio.CancelScope(shield=True):
                await trio.sleep(0.01 + seconds)
                return function(*args)


async def test_a_node_that_closes_sends_no_heartbeat_after_it_is_reported_gone():
    """A heartbeat under way does not bring the closed node back: others adopt what it owes without waiting for its lease."""
    store, _ = shared_store()
    connection = Connection(store)
    machine = ThreadedMachine(connection)
    with installed(machine):
        async with open_over(connection, resume="working") as supervisor:
            own = supervisor.nodes.node.id
            await trio.sleep(LEASE / 3 - 0.1)
            machine.seconds = 0.5
            await trio.sleep(0.2)
            machine.seconds = 0.0
    assert [name for name, _ in connection.calls if name in ("beat", "gone")][-1] == "gone"
    assert own not in [one.id for one in store.nodes() if not one.gone_at_ms]
