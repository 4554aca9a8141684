"""Hosts of several nodes over one store: limits, webhooks, temporary sessions and lists are those of one host (docs: run on many machines)."""

import base64
from collections import Counter
from contextlib import asynccontextmanager, suppress

import pytest
import trio
import trio.lowlevel

import agentrail
from agentrail.abc.living_nodes import is_first, living_nodes
from agentrail.abc.store import TEMPORARY_SESSIONS, Beat, Node, Standing
from agentrail.errors import (
    DayBudgetSpent,
    HeldBy,
    OptionError,
    QuotaReached,
    SessionDown,
    SessionRested,
    StoreUnavailable,
)
from agentrail.host import Limits, Webhooks
from agentrail.host.identity import SessionOwner
from agentrail.host.quotas import LOOK_AGAIN_SECONDS
from agentrail.host.session_feed import SessionFeed
from agentrail.host.webhook_delivery import MESSAGES, WATCHES, decode_owed_message
from agentrail.runtime.event_history import PageAsked
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.stores.memory import MemoryStore
from agentrail.testing.faulty_store import CutStore
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import HangingTool, RecordingTool
from agentrail.tools.mcp import McpServer
from tests.host.hosting import ANN, BOB, EVE, answering, asked, hosting
from tests.runtime.rig import on_virtual_time
from tests.runtime.test_spending import Priced
from tests.stores.rig import opening

SECRET = "whsec_" + base64.b64encode(b"twenty-four bytes or more").decode()
HOOK = "https://hooks.example/in"
LOGIN = McpServer("tracker", url="https://tracker.example/mcp", auth="oauth")


def shared_store():
    return MemoryStore(now_ms=now_ms, is_shared=True)


class Line(CutStore):
    """The line of a node to its store. A beat into a dead line is lost without a word, which alone ends no supervisor.

    Attributes:
        misses: How many of the next calls with a name fail.
        loses: The calls that are carried out, and whose answers are lost.
    """

    def __init__(self, store, machine):
        super().__init__(store, self._fails)
        self._machine = machine
        self.misses, self.loses = Counter(), set()

    def _fails(self, name):
        self.misses[name] -= 1
        if self._machine.is_dead or self.misses[name] >= 0:
            return "before"
        return "after" if name in self.loses else None

    def beat(self, node):
        return Beat(at_ms=0) if self._machine.is_dead else self._store.beat(node)


class Machine:
    """A node that can be killed: from then on nothing of it reaches the store, or anyone else.

    Attributes:
        host: Its host.
    """

    def __init__(self, store):
        self._store = store
        self.is_dead = False
        self.scope = trio.CancelScope()
        self.host = None
        self.line = Line(store, self)

    @property
    def id(self):
        return self.host.supervisor.shared_node

    def kill(self, *, is_known=True):
        """End its process. `is_known`: whether its successor reports that."""
        self.is_dead = True
        self.scope.cancel()
        if is_known:
            self._store.gone(self.id)


@asynccontextmanager
async def nodes(store, *models, **options):
    """Open a node for each model, over one store."""
    machines = [Machine(store) for _ in models]

    async def run(machine, model, own, task_status):
        with machine.scope, suppress(StoreUnavailable):
            async with hosting(model, store=machine.line, **(options | own)) as host:
                machine.host = host
                task_status.started()
                await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        for place, (machine, model) in enumerate(zip(machines, models, strict=True)):
            own = {name: value[place] for name, value in options.items() if isinstance(value, list)}

            async def start(task_status, machine=machine, model=model, own=own):
                await run(machine, model, own, task_status)

            await nursery.start(start)
        yield machines
        for machine in machines:
            machine.scope.cancel()


class Receiver:
    """Counts attempts of all nodes, by message.

    Attributes:
        tries: Node and id of each attempt, in order.
        taken: Id and request of each accepted message, in order.
        most_at_once: Largest number of attempts of one message at a time.
    """

    def __init__(self):
        self.tries, self.taken = [], []
        self.hangs = {}
        self.most_at_once = 0
        self._now = Counter()

    def of(self, place):
        """The way of one node to it."""

        async def send(sent):
            message = dict(sent.headers)["webhook-id"]
            self.tries.append((place, message))
            self._now[message] += 1
            self.most_at_once = max(self.most_at_once, self._now[message])
            try:
                if place in self.hangs:
                    await self.hangs[place].wait()
                else:
                    await trio.sleep(0.5)
            finally:
                self._now[message] -= 1
            if place in self.hangs:
                await trio.sleep_forever()
            self.taken.append((place, message))
            return 200

        return Webhooks(secret=SECRET, send=send)


async def beat_as_a_chat(store):
    """Be a node that is no server, such as that of `agentrail chat`, and sorts first."""
    while True:
        store.beat(Node(id="a-chat", lease_ms=15_000))
        await trio.sleep(5)


async def never_answering(_request):
    await trio.sleep_forever()


def sent_by(messages, session):
    return [one.id for one in messages if one.session_id == session]


@pytest.mark.machine(12)
@on_virtual_time
async def test_webhooks_of_a_dead_node_are_sent_by_one_other():
    """Each of 40 is accepted once, never sent by two nodes at once, in order per session, and with at most two attempts."""
    store, receiver = shared_store(), Receiver()
    receiver.hangs[0] = trio.Event()
    hooks = [receiver.of(place) for place in range(3)]
    async with nodes(store, answering(*["One."] * 40), webhooks=hooks[:1]) as (first,):
        for number in range(40):
            await (await asked(first.host, session_id=f"s-{number % 8}", webhook=HOOK)).outcome()
        await trio.sleep(1)
        owed = sorted(
            map(decode_owed_message, store.owed(MESSAGES, node=first.id)), key=lambda one: one.number
        )
        assert (len(owed), store.owed(WATCHES)) == (40, ())
        async with nodes(store, answering(), answering(), webhooks=hooks[1:]):
            await trio.sleep(6)
            assert {place for place, _ in receiver.tries} == {0}, "its owner lives"
            first.kill()
            receiver.hangs[0].set()  # with the process its attempts end
            await trio.sleep(60)
            assert store.owed(MESSAGES) == ()
    taken = [message for _, message in receiver.taken]
    for session in {one.session_id for one in owed}:
        mine = sent_by(owed, session)
        assert [message for message in taken if message in mine] == mine
    assert sorted(taken) == sorted(one.id for one in owed)
    assert len({place for place, _ in receiver.taken}) == 1
    assert max(Counter(message for _, message in receiver.tries).values()) <= 2
    assert receiver.most_at_once == 1


@on_virtual_time
async def test_what_a_dead_server_owed_is_done_by_another_while_a_chat_is_open():
    """A node that is no server sorts first among the living, and does nothing about webhooks and temporary sessions."""
    store, receiver = shared_store(), Receiver()
    receiver.hangs[0] = trio.Event()
    hooks = [receiver.of(place) for place in range(2)]
    async with nodes(store, answering("One.", "Two."), webhooks=hooks[:1]) as (first,):
        await (await asked(first.host, session_id="s", webhook=HOOK)).outcome()
        await (await asked(first.host, session_id="t", keep=False)).outcome()
        async with nodes(store, answering(), webhooks=hooks[1:]), trio.open_nursery() as nursery:
            nursery.start_soon(beat_as_a_chat, store)
            await trio.sleep(20)
            first.kill()
            await trio.sleep(800)
            assert [place for place, _ in receiver.taken] == [1]
            assert (store.owed(MESSAGES), store.owed(TEMPORARY_SESSIONS)) == ((), ())
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("fault", ["the answer of the adoption is lost", "no row can be read after it"])
@on_virtual_time
async def test_what_a_node_adopts_while_its_store_fails_is_done_later(fault):
    """Rows of a dead node are its own from then on, so no other node would send its webhooks and delete its temporary sessions."""
    store, receiver = shared_store(), Receiver()
    receiver.hangs[0] = trio.Event()
    hooks = [receiver.of(place) for place in range(2)]
    async with nodes(store, answering("One.", "Two."), webhooks=hooks[:1]) as (first,):
        await (await asked(first.host, session_id="s", webhook=HOOK)).outcome()
        await (await asked(first.host, session_id="t", keep=False)).outcome()
        async with nodes(store, answering(), webhooks=hooks[1:]) as (second,):
            if fault == "no row can be read after it":
                second.line.misses["owed"] = 10**6
            else:
                second.line.loses = {"adopt_owed"}
            first.kill()
            await trio.sleep(100)
            assert store.owed(MESSAGES, node=second.id)
            assert store.owed(TEMPORARY_SESSIONS, node=second.id)
            second.line.misses.clear()
            second.line.loses = set()
            await trio.sleep(800)
            assert [place for place, _ in receiver.taken] == [1]
            assert (store.owed(MESSAGES), store.owed(TEMPORARY_SESSIONS)) == ((), ())


@on_virtual_time
async def test_the_outcome_of_a_session_that_a_node_could_not_take_for_a_moment_is_sent_soon():
    """A node that inherits a watched request, and cannot take its session at first, tries again at its next look."""
    store, receiver = shared_store(), Receiver()
    hooks = [receiver.of(place) for place in range(2)]
    async with nodes(store, FunctionModel(never_answering), webhooks=hooks[:1]) as (first,):
        await asked(first.host, session_id="s", webhook=HOOK)
        await trio.sleep(1)
        async with nodes(store, answering("One."), webhooks=hooks[1:]) as (second,):
            second.line.misses["take"] = 10**6
            first.kill()
            await trio.sleep(10)
            second.line.misses.clear()
            await trio.sleep(30)
            assert [place for place, _ in receiver.taken] == [1]


@pytest.mark.machine(24)
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"session_sandbox": "local"}, ["profile 'desk'", "local sandbox", "files_are_shared=True"]),
        ({"memories": "sqlite:"}, ["memories is 'sqlite:'", "'postgres:'", "RecallStore"]),
        ({"memories": "memory:"}, ["memories is 'memory:'", "'postgres:'", "RecallStore"]),
        ({"notes": "files:/notes"}, ["notes is 'files:/notes'", "'postgres:'", "NoteStore"]),
        ({"mcp": [LOGIN]}, ["MCP server 'tracker'", "auth='oauth'", "client_credentials"]),
        ({"session_mcp": [LOGIN]}, ["MCP server 'tracker'", "auth='oauth'", "client_credentials"]),
    ],
)
@on_virtual_time
async def test_content_that_stays_on_one_machine_is_refused_with_several_nodes(given, words):
    """By the name of the option, with the way out; a store of one process takes the same."""
    for store in (shared_store(), "postgres://db.example/agents"):
        with pytest.raises(OptionError) as raised:
            async with hosting(answering(), store=store, **given):
                pass  # not reached
        assert all(word in str(raised.value) for word in words)
        if {*given} & {"memories", "notes"}:
            with pytest.raises(OptionError) as raised:
                async with agentrail.open_supervisor(store=store, **given):
                    pass  # not reached
            assert all(word in str(raised.value) for word in words)


@pytest.mark.parametrize("option", ["memories", "notes"])
@on_virtual_time
async def test_the_database_of_the_store_needs_one(option):
    """A store in files has none, nor has one that is open and is no database."""
    for store in (None, "memory:", shared_store()):
        for refused in (
            hosting(answering(), store=store, **{option: "postgres:"}),
            agentrail.open_supervisor(store=store, **{option: "postgres:"}),
        ):
            with pytest.raises(OptionError, match=f"{option} is 'postgres:', the database of the store, but"):
                async with refused:
                    pass  # not reached


@on_virtual_time
async def test_directories_that_all_nodes_share_are_taken(tmp_path):
    """Directories that all nodes share are taken."""
    async with hosting(
        answering(),
        store=shared_store(),
        files_are_shared=True,
        session_sandbox="local",
        session_working_dir=tmp_path,
    ):
        await trio.lowlevel.checkpoint()


@on_virtual_time
async def test_sessions_of_a_user_are_counted_over_all_nodes():
    """Ended ones no longer, and those of another user never."""
    store = shared_store()
    limits = Limits(max_sessions_per_principal=3)
    async with nodes(store, answering(*["Yes."] * 9), answering(*["Yes."] * 9), limits=limits) as machines:
        first, second = (machine.host for machine in machines)
        for number, host in enumerate((first, second, first)):
            await (await asked(host, session_id=f"s-{number}")).outcome()
        for host in (first, second):
            with pytest.raises(QuotaReached):
                await asked(host, session_id="s-more")
        await (await asked(second, by=EVE, session_id="s-eve")).outcome()
        await first.delete_session("s-0", ANN)
        await (await asked(second, session_id="s-more")).outcome()


@on_virtual_time
async def test_sessions_that_hibernate_on_one_node_and_ended_on_another_do_not_count():
    """Sessions that hibernate on one node and ended on another do not count on the first one."""
    store, limits = shared_store(), Limits(max_sessions_per_principal=2)
    async with nodes(store, answering(*["Yes."] * 3), answering(), limits=limits, idle_after=5) as machines:
        first, second = (machine.host for machine in machines)
        for number in range(2):
            await (await asked(first, session_id=f"s-{number}")).outcome()
        await trio.sleep(8)
        with pytest.raises(QuotaReached):
            await asked(first, session_id="s-more")
        await second.delete_session("s-0", ANN)
        await (await asked(first, session_id="s-more")).outcome()


@on_virtual_time
async def test_the_first_living_node_sweeps_for_all():
    """The first living node sweeps for all."""
    known = [Node(id="n-1", seen_at_ms=1_000), Node(id="n-2", seen_at_ms=1_000)]
    living = living_nodes(known, 2_000)
    assert [is_first(one, living) for one in ("n-1", "n-2")] == [True, False]
    assert is_first("n-2", living_nodes(known, 2_000, silent={"n-1"}))
    gone = [Node(id="n-1", seen_at_ms=1_000, gone_at_ms=1_500), known[1]]
    assert is_first("n-2", living_nodes(gone, 2_000))
    assert is_first("n-2", living_nodes([], 2_000)), "a node that reads no row sweeps rather than nobody"


@on_virtual_time
async def test_a_feed_shows_within_five_seconds_what_another_node_wrote():
    """A feed shows within five seconds what another node wrote."""
    store = shared_store()
    async with nodes(store, answering("One.", "Two."), answering()) as (writer, reader):
        await (await asked(writer.host, session_id="early")).outcome()
        feed = SessionFeed(reader.host._parts.sessions, ANN.tenant_id)  # noqa: SLF001 - as its hub opens it
        async with trio.open_nursery() as nursery:
            up = trio.Event()
            nursery.start_soon(feed.run, up)
            await up.wait()
            assert [*feed.sessions.rows] == ["early"]
            before_ms = feed.sessions.rows["early"].changed_at_ms
            await trio.sleep(6)
            await (await asked(writer.host, session_id="late")).outcome()
            await (await asked(writer.host, session_id="early")).outcome()
            await trio.sleep(5.5)
            assert {*feed.sessions.rows} == {"early", "late"}
            assert feed.sessions.rows["early"].changed_at_ms > before_ms
            nursery.cancel_scope.cancel()


@on_virtual_time
async def test_a_session_that_hibernates_on_one_node_continues_there_after_it_died_with_another():
    """It hibernates on the first node, and is woken on the second, which dies in the middle of its cycle."""
    store, is_slow = shared_store(), [False]

    async def answer(_request):
        if is_slow.pop():
            await trio.sleep_forever()
        return says("Done.")

    async with nodes(store, *[FunctionModel(answer)] * 2, idle_after=60) as (first, second):
        await (await asked(first.host, session_id="s")).outcome()
        await trio.sleep(65)
        is_slow[:] = [False, True]
        await asked(second.host, session_id="s")
        await trio.sleep(1)
        second.kill()
        await trio.sleep(5)
        assert first.host.supervisor.statistics().asleep == 0
        assert not store.get(ANN.tenant_id, "s").standing.is_working
        assert store.get(ANN.tenant_id, "s").node == first.id


@on_virtual_time
async def test_a_session_that_moved_away_and_was_stopped_there_has_ended_on_every_node():
    """The node that it had left answered that it rests, and clients tried again for ever."""
    store = shared_store()
    async with nodes(store, FunctionModel(never_answering), answering("Done.")) as (one, two):
        await asked(one.host, session_id="s")
        await trio.sleep(1)
        one.is_dead = True  # until the other one has taken its sessions
        await trio.sleep(30)
        assert store.get(ANN.tenant_id, "s").node == two.id
        one.is_dead = False
        await trio.sleep(10)
        await (await two.host.session("s", ANN)).stop()
        for host in (one.host, two.host):
            with pytest.raises(SessionDown) as down:
                await host.session("s", ANN)
            assert not isinstance(down.value, SessionRested)


@on_virtual_time
async def test_a_session_that_another_node_continues_after_the_look_has_not_ended(monkeypatch):
    """It hibernates here. A reader wakes it between the look and the message, which is how this node learns of its owner."""
    find = SessionSupervisor.facts_of
    models = answering("Done."), FunctionModel(never_answering)
    async with nodes(shared_store(), *models, idle_after=5) as (first, second):
        await (await asked(first.host, session_id="s")).outcome()
        await trio.sleep(8)
        await asked(second.host, session_id="s")

        async def look(self, session_id, *, scope=""):
            facts = await find(self, session_id, scope=scope)
            if self is first.host.supervisor and facts.is_here:
                with pytest.raises(SessionRested):
                    await self.session(session_id, scope=scope).status()
            return facts

        monkeypatch.setattr(SessionSupervisor, "facts_of", look)
        with pytest.raises(HeldBy):
            await asked(first.host, "And?", session_id="s")


@on_virtual_time
async def test_events_of_a_session_that_hibernates_on_two_nodes_are_read_to_the_last():
    """The first node does not stop where the session was when it hibernated there."""
    store = shared_store()
    async with nodes(store, *[answering(*["Done."] * 3)] * 2, idle_after=5) as machines:
        for machine in machines:
            await (await asked(machine.host, session_id="s")).outcome()
            await trio.sleep(8)
        pages = [await one.host.read_events("s", ANN, PageAsked(limit=100)) for one in machines]
        assert store.get(ANN.tenant_id, "s").events == pages[0].last == pages[1].last


@on_virtual_time
async def test_events_of_a_deleted_session_are_not_those_of_a_new_one_with_its_id():
    """The node on which the first one ended still knows it. Its events may be another user's."""
    store = shared_store()
    async with nodes(store, answering(*["One."] * 3), answering("Two."), idle_after=5) as machines:
        first, second = (machine.host for machine in machines)
        for _ in range(3):
            await (await asked(first, "secret", session_id="s")).outcome()
        await first.delete_session("s", ANN, purge=True)
        await (await asked(second, by=BOB, session_id="s")).outcome()
        await trio.sleep(8)
        page = await first.read_events("s", BOB, PageAsked(limit=100))
        assert page.last == store.get(ANN.tenant_id, "s").events
        assert "secret" not in f"{page.events}"


@on_virtual_time
async def test_a_node_row_shows_whether_its_profiles_are_the_same(caplog):
    """Others are named in the log once a minute."""
    store = shared_store()
    tools = [[RecordingTool(name="shell")], [RecordingTool(name="shell")], [RecordingTool(name="other")]]
    async with nodes(store, answering(), answering(), answering(), session_tools=tools) as machines:
        await trio.sleep(6)
        digests = {node.id: node.digest for node in store.nodes()}
        first, same, other = (digests[machine.id] for machine in machines)
        assert first
        assert first == same != other
        await trio.sleep(50)
        told = [line for line in caplog.messages if "serve other profiles" in line]
        assert len(told) == 3
        assert sum(machines[2].id in line for line in told) == 2
        await trio.sleep(60)
        assert sum("serve other profiles" in line for line in caplog.messages) == 6


@on_virtual_time
@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_budget_of_a_day_holds_over_all_nodes(is_deleted):
    """Spending is read from the journals, at most two seconds old, and of deleted sessions from rows."""
    store = shared_store()
    limits = Limits(cost_per_day_usd=0.03)
    models = [Priced([says("Yes.")] * 9) for _ in range(2)]
    async with nodes(store, *models, limits=limits) as (first, second):
        await second.host.budgets.check(SessionOwner.of(ANN))
        request = await asked(first.host)
        await request.outcome()
        if is_deleted:
            await first.host.delete_session(request.session_id, ANN, purge=True)
        await trio.sleep(LOOK_AGAIN_SECONDS + 0.1)
        with pytest.raises(DayBudgetSpent):
            await asked(second.host)
        await (await asked(second.host, by=EVE)).outcome()


@on_virtual_time
async def test_sessions_that_wait_for_a_newer_version_are_named_by_ready():
    """The nodes stay ready: a balancer must not leave out all nodes of the old version."""
    store = shared_store()
    async with hosting(answering(), store=store) as host:
        assert {result.reason for result in await host.ready()} == {""}
        store.create(opening("newer", node="gone", standing=Standing(is_working=True), codec=99))
        reasons = {result.name: (result.is_ready, result.reason) for result in await host.ready()}
    assert reasons["store"] == (True, "sessions_need_newer")
    assert all(is_ready for is_ready, _ in reasons.values())


@on_virtual_time
async def test_a_node_whose_heartbeats_do_not_reach_the_store_is_not_ready():
    """A node whose heartbeats do not reach the store is not ready, and the result has the code of the reason."""
    cut = set()
    line = CutStore(shared_store(), lambda name: "before" if name in cut else None)
    async with hosting(answering(), store=line) as host:
        assert all(result.is_ready for result in await host.ready())
        cut.add("beat")
        await trio.sleep(12)  # two thirds of a lease, and a beat
        failed = [result for result in await host.ready() if not result.is_ready]
        assert [(result.name, result.reason) for result in failed] == [("store", "store_unavailable")]
        cut.clear()
        await trio.sleep(6)
        assert all(result.is_ready for result in await host.ready())


@on_virtual_time
async def test_after_a_cancelled_drain_nobody_waits_for_its_cycles():
    """Of a node with two running cycles, also if its sessions were about to move; the close then takes no drain time."""
    hang = HangingTool()
    model = FunctionModel(lambda _request: calls((hang.name, {})))
    async with hosting(model, store=shared_store(), session_tools=[hang], drain_timeout=20) as host:
        for session_id in ("a", "b"):
            await asked(host, session_id=session_id)
        with trio.move_on_after(1) as waiting:
            await host.drain()
        assert waiting.cancelled_caught
        began = trio.current_time()
        await host.drain()
        assert trio.current_time() == began
