"""A session moves to another node in the middle of a cycle, and a drained node leaves its sessions to others."""

from contextlib import asynccontextmanager, nullcontext, suppress

import pytest
import trio

from agentrail import tool
from agentrail.abc.store import Node
from agentrail.core.journal.record import TAKEN
from agentrail.core.session.state_codec import begun_in
from agentrail.errors import (
    AlreadyStarted,
    Fenced,
    HeldBy,
    OptionError,
    SessionBusy,
    SessionRested,
    Unreachable,
    Unrevivable,
)
from agentrail.events import AgentEnd, ApprovalRequired
from agentrail.outside import installed
from agentrail.plugins.human_approval import HumanApproval
from agentrail.runtime.session_moves import decide_targets
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, calls, says
from tests.runtime.nodes import Connection
from tests.runtime.rig import Inline, on_virtual_time, open_over

pytestmark = on_virtual_time


class Others:
    """Calls between supervisors of one process, by the ids of their nodes."""

    def __init__(self):
        self.nodes, self.cuts_before_take, self.take_after = {}, False, 0

    async def check_revive(self, node, scope, session_id):
        await self.nodes[node.id].check_revive(scope, session_id)

    async def take(self, node, scope, session_id):
        await trio.sleep(self.take_after)
        if self.cuts_before_take:
            message = "it died"
            raise Unreachable(message)
        await self.nodes[node.id].take_moved(scope, session_id)


@asynccontextmanager
async def two_nodes(revive, second=None, store=None):
    store, others = store or MemoryStore(is_shared=True), Others()
    with installed(Inline()):
        async with (
            open_over(store, resume="working", revive=revive) as one,
            open_over(store, resume="working", revive=second or revive) as two,
        ):
            for node in (one, two):
                others.nodes[node.nodes.node.id] = node
                node.call_nodes(others)
            yield store, one, two, others


class Work:
    """A tool of each class that ends when the test lets it, with a ledger of its calls outside of any session."""

    def __init__(self, effect):
        self.ledger, self.began, self.may_end = [], trio.Event(), trio.Event()

        @tool(effect_class=effect)
        async def work() -> str:
            """Work."""
            self.ledger.append("began")
            self.began.set()
            await self.may_end.wait()
            self.ledger.append("ended")
            return "worked"

        self.tool = work

    def options(self, _opening=None):
        def answer(request):
            return calls(("work", {})) if len(request.messages) == 1 else says("done")

        return {"model": FunctionModel(answer), "tools": [self.tool]}


async def followed(session, after, end):
    """The events after a number, up to the end of their kind or of the subscription, and whether the session moved."""
    seen = []
    async with session.subscribe(after=after) as events:
        async for event in events:
            seen.append(event)
            if isinstance(event, end):
                break
    return [one.meta.seq for one in seen if not one.meta.ephemeral], events.is_moved


async def moved(effect, *, ends_itself=False):
    work = Work(effect)
    async with two_nodes(work.options) as (store, one, two, _):
        session = await one.start_session(session_id="s", **work.options())
        numbers, after = [], {}

        async def read():
            numbers.extend((first := await followed(session, 0, AgentEnd))[0])
            after["moved"] = first[1]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await session.prompt("Hi")
            await work.began.wait()
            if ends_itself:
                nursery.start_soon(_end_after, work, 5)
            target = await one.move_session("s", two.nodes.node.id)
        assert target.id == two.nodes.node.id == store.get("", "s").node
        work.may_end.set()
        rest, _ = await followed(two.session("s"), numbers[-1], AgentEnd)
        assert after["moved"]
        every = [*numbers, *rest]
        assert every == list(range(1, len(every) + 1))
        return work.ledger, await two.session("s").messages(), store


async def _end_after(work, seconds):
    await trio.sleep(seconds)
    work.may_end.set()


@pytest.mark.machine(3)
@pytest.mark.parametrize("effect", ["pure", "idempotent"])
async def test_a_call_that_may_run_again_is_stopped_and_runs_again_on_the_other_node(effect):
    """A call that may run again is stopped and runs again on the other node."""
    ledger, messages, store = await moved(effect)
    assert ledger == ["began", "began", "ended"]
    assert "worked" in f"{messages[2]}"
    assert [b'"drain"' in one.body for one in store.read("", "s") if one.kind == TAKEN] == [True]


@pytest.mark.machine(3)
async def test_a_call_that_must_not_run_twice_ends_before_the_session_moves():
    """A call that must not run twice ends before the session moves."""
    ledger, messages, _ = await moved("once", ends_itself=True)
    assert ledger == ["began", "ended"]
    assert "worked" in f"{messages[2]}"


@pytest.mark.machine(4)
async def test_a_call_that_is_aborted_stops_before_its_moving_session_is_written():
    """The move waits for the call, so the session leaves with the step that aborts it. The call stops at once, although the store does not answer."""
    began, stopped_at = trio.Event(), []

    @tool(effect_class="once")
    async def work() -> str:
        """Work."""
        began.set()
        try:
            await trio.sleep_forever()
        finally:
            stopped_at.append(trio.current_time())

    options = {"model": FunctionModel(lambda _: calls(("work", {}))), "tools": [work]}
    connection = Connection(MemoryStore(is_shared=True))
    async with two_nodes(lambda _: options, store=connection) as (_, one, two, _):
        session = await one.start_session(session_id="s", **options)
        await session.prompt("Hi")
        await began.wait()

        async def abort():
            with suppress(SessionRested):
                await session.abort("enough")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.move_session, "s", two.nodes.node.id)
            await trio.sleep(1)
            connection.cut("append")
            nursery.start_soon(abort)
            aborted_at = trio.current_time()
            await trio.sleep(3)
            connection.mend()
    assert stopped_at == [pytest.approx(aborted_at, abs=0.1)]


async def test_a_call_that_does_not_end_refuses_the_move_and_nothing_changes():
    """A call that does not end refuses the move and nothing changes."""
    work = Work("once")
    async with two_nodes(work.options) as (store, one, _two, _):
        session = await one.start_session(session_id="s", **work.options())
        await session.prompt("Hi")
        await work.began.wait()
        epoch = store.get("", "s").tail.epoch
        with pytest.raises(SessionBusy, match=r"nothing has changed: work did not end within 2 s"):
            await one.move_session("s", within=2)
        assert (store.get("", "s").node, store.get("", "s").tail.epoch) == (one.nodes.node.id, epoch)
        work.may_end.set()
        await followed(session, 0, AgentEnd)
        assert work.ledger == ["began", "ended"]


async def test_a_drain_ends_although_a_move_that_waits_with_it_is_refused():
    """A drain ends although a move that waits with it is refused."""
    work = Work("once")
    async with two_nodes(work.options) as (store, one, _two, _), trio.open_nursery() as nursery:
        session = await one.start_session(session_id="s", **work.options())
        await session.prompt("Hi")
        await work.began.wait()
        begun_at = trio.current_time()

        async def move():
            with pytest.raises(SessionBusy):
                await one.move_session("s", within=2)

        nursery.start_soon(move)
        await trio.sleep(1)
        with trio.fail_after(10):
            await one.drain(3)
        assert trio.current_time() - begun_at == pytest.approx(4, abs=0.1)
        assert store.get("", "s").node != one.nodes.node.id


async def test_a_caller_that_gives_up_a_rest_ends_no_move_that_waits_with_it():
    """A caller that gives up a rest ends no move that waits with it."""
    work = Work("once")
    async with two_nodes(work.options) as (store, one, two, _):
        session = await one.start_session(session_id="s", **work.options())
        await session.prompt("Hi")
        await work.began.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.move_session, "s")
            await trio.sleep(1)
            with trio.move_on_after(1):
                await one.rest("s")
            work.may_end.set()
        assert store.get("", "s").node == two.nodes.node.id


@pytest.mark.machine(3)
async def test_a_stream_is_cut_and_its_words_are_withdrawn():
    """A stream is cut and its words are withdrawn."""
    began = trio.Event()

    async def slow(_request):
        began.set()
        await trio.sleep(0 if slow.is_fast else 100)
        return says("answer")

    slow.is_fast = False

    def give(_opening=None):
        return {"model": FunctionModel(slow)}

    async with two_nodes(give) as (_, one, two, _others):
        session = await one.start_session(session_id="s", **give())
        await session.prompt("Hi")
        await began.wait()
        slow.is_fast = True
        at = trio.current_time()
        await one.move_session("s", two.nodes.node.id)
        assert trio.current_time() - at < 1
        await followed(two.session("s"), 0, AgentEnd)
        assert "answer" in f"{(await two.session('s').messages())[-1]}"


@pytest.mark.machine(3)
async def test_a_pending_approval_is_the_same_card_on_the_other_node():
    """A pending approval is the same card on the other node."""
    work = Work("once")

    def give(_opening=None):
        return {**work.options(), "plugins": [(HumanApproval, {"require_approval_for": ["work"]})]}

    work.may_end.set()
    async with two_nodes(give) as (_, one, two, _others):
        session = await one.start_session(session_id="s", **give())
        await session.prompt("Hi")
        async with session.subscribe(after=0, kinds=[ApprovalRequired]) as events:
            card = (await anext(events)).approval
        await one.move_session("s", two.nodes.node.id)
        with pytest.raises(SessionRested):
            await session.approve(card.id)
        await two.session("s").approve(card.id)
        await followed(two.session("s"), 0, AgentEnd)
        assert work.ledger == ["began", "ended"]


@pytest.mark.machine(4)
async def test_a_target_without_the_code_refuses_the_move_and_nothing_changes():
    """A target without the code refuses the move and nothing changes."""
    work = Work("pure")

    def lacking(_opening):
        return {"model": work.options()["model"]}

    async with two_nodes(work.options, lacking) as (store, one, _two, _others):
        session = await one.start_session(session_id="s", **work.options())
        await session.prompt("Hi")
        await work.began.wait()
        before = store.get("", "s").tail
        with pytest.raises(Unrevivable):
            await one.move_session("s")
        assert store.get("", "s").tail == before
        assert store.get("", "s").node == one.nodes.node.id
        assert work.ledger == ["began"]


@pytest.mark.machine(4)
async def test_if_the_target_dies_before_it_takes_the_node_that_looks_first_does():
    """If the target dies before it takes the node that looks first does."""
    work = Work("idempotent")
    async with two_nodes(work.options) as (store, one, two, others):
        others.cuts_before_take = True
        session = await one.start_session(session_id="s", **work.options())
        await session.prompt("Hi")
        await work.began.wait()
        await one.move_session("s", two.nodes.node.id)
        with trio.fail_after(5):
            while len(work.ledger) < 2:  # noqa: ASYNC110 - as an observer outside would
                await trio.sleep(0.1)
        assert store.get("", "s").node in others.nodes


async def test_a_node_does_not_take_back_what_it_gives_away():
    """Its own look for sessions without an owner passes over one that another node is about to take."""
    work, asked = Work("idempotent"), []

    def lacking_after_the_check(opening):
        asked.append(opening)
        return work.options() if len(asked) == 1 else {"model": work.options()["model"]}

    async with two_nodes(work.options, lacking_after_the_check) as (store, one, two, others):
        others.take_after = 10
        session = await one.start_session(session_id="s", **work.options())
        await session.prompt("Hi")
        await work.began.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.move_session, "s", two.nodes.node.id)
            await trio.sleep(9)
            assert not store.get("", "s").node
        with trio.fail_after(5):
            while len(work.ledger) < 2:  # noqa: ASYNC110 - as an observer outside would
                await trio.sleep(0.1)
        assert store.get("", "s").node == one.nodes.node.id


@pytest.mark.machine(3)
@pytest.mark.parametrize("take_after", [1, 60])
async def test_a_caller_of_a_session_that_moves_does_not_take_it_back(take_after):
    """A message arrives here between the release and the take. It waits for the other node, and continues the session here if that one is late."""
    options = {"model": FunctionModel(lambda _: says("done"))}
    async with two_nodes(lambda _: options) as (store, one, two, others), trio.open_nursery() as nursery:
        others.take_after = take_after
        await (await one.start_session(session_id="s", **options)).ask("Hi")
        nursery.start_soon(one.move_session, "s", two.nodes.node.id)
        while store.get("", "s").node:  # noqa: ASYNC110 - as an observer outside would
            await trio.sleep(0.01)
        asked_at = trio.current_time()
        with pytest.raises(HeldBy) if take_after == 1 else nullcontext():
            await one.resume_session("s", **options)
        assert trio.current_time() - asked_at == pytest.approx(min(take_after, 2), abs=0.1)
        assert store.get("", "s").node == (two if take_after == 1 else one).nodes.node.id


async def test_a_move_names_what_is_wrong():
    """A move names what is wrong."""
    work = Work("pure")
    async with two_nodes(work.options) as (_, one, two, _others):
        await one.start_session(session_id="s", **work.options())
        with pytest.raises(OptionError, match="it is there"):
            await one.move_session("s", one.nodes.node.id)
        with pytest.raises(OptionError, match=f"not a living node: expected one of {two.nodes.node.id}"):
            await one.move_session("s", "n-unknown")
        with pytest.raises(HeldBy):
            await two.move_session("s")


async def test_a_move_prefers_the_node_with_the_lowest_load():
    """A move prefers the node with the lowest load."""
    nodes = [Node(id="a", load=3), Node(id="b", load=1), Node(id="c", load=2)]
    assert [one.id for one in decide_targets(None, "b", nodes)] == ["c", "a"]
    with pytest.raises(OptionError, match="no other node"):
        decide_targets(None, "a", nodes[:1])


async def test_a_move_to_any_node_passes_over_one_that_drains():
    """A drained node has the lowest load until its process is stopped."""
    options = {"model": FunctionModel(lambda _: says("done"))}
    async with (
        two_nodes(lambda _: options) as (store, one, two, others),
        open_over(store, resume="working", revive=lambda _: options) as three,
    ):
        others.nodes[three.nodes.node.id] = three
        for supervisor in (one, three):
            await supervisor.start_session(session_id=f"s-{supervisor.nodes.node.id}", **options)
        await two.drain(0)
        await trio.sleep(6)  # a heartbeat reports the load
        session_id = one.sessions()[0].session_id
        with pytest.raises(SessionRested, match=f"node {two.nodes.node.id} is draining"):
            await one.move_session(session_id, two.nodes.node.id)
        assert (
            (await one.move_session(session_id)).id == three.nodes.node.id == store.get("", session_id).node
        )


@pytest.mark.journal(29)
async def test_a_drain_under_fifty_cycles_loses_no_cycle_and_no_event():
    """A drain under fifty cycles loses no cycle and no event."""

    def give(_opening=None):
        async def answer(request):
            await trio.sleep(0.7)
            return calls(("step", {})) if len(request.messages) < 7 else says("done")

        return {"model": FunctionModel(answer), "tools": [step]}

    @tool(effect_class="idempotent")
    async def step() -> str:
        """Take a step."""
        await trio.sleep(0.9)
        return "stepped"

    async with two_nodes(give) as (_store, one, two, _others):
        ids = [f"s-{number:02}" for number in range(50)]
        numbers = {}

        async def follow(session_id):
            first, is_moved = await followed(one.session(session_id), 0, AgentEnd)
            assert is_moved
            while not _is_here(two, session_id):  # noqa: ASYNC110 - as a reader that connects again
                await trio.sleep(0.05)
            rest, _ = await followed(two.session(session_id), first[-1], AgentEnd)
            numbers[session_id] = [*first, *rest]

        async with trio.open_nursery() as nursery:
            for number, session_id in enumerate(ids):
                session = await one.start_session(session_id=session_id, **give())
                await session.prompt("Hi")
                nursery.start_soon(follow, session_id)
                await trio.sleep(0.01 * (number % 3))
            await trio.sleep(1)
            await one.drain(1.0)
            assert one.sessions() == ()
        for session_id in ids:
            assert numbers[session_id] == list(range(1, len(numbers[session_id]) + 1))
            assert "done" in f"{(await two.session(session_id).messages())[-1]}"


def _is_here(supervisor, session_id):
    return any(one.session_id == session_id for one in supervisor.sessions())


@pytest.mark.journal(29)
async def test_the_snapshot_of_a_stop_in_mid_cycle_names_what_has_begun():
    """The snapshot of a stop in mid cycle names what has begun."""
    work = Work("idempotent")
    async with two_nodes(work.options) as (store, one, _two, _others):
        session = await one.start_session(session_id="s", **work.options())
        await session.prompt("Hi")
        await work.began.wait()
        await one.drain(0.1)
        newest = store.snapshots("", "s")[0]
        assert len(begun_in(newest.state)) == 1
        assert newest.seq == max(
            one.seq for one in store.read("", "s") if one.kind != TAKEN and one.epoch == 1
        )


class Logged(MemoryStore):
    """A store with a writer's thread, and the order of its writes."""

    is_immediate = False  # type: ignore[misc]  # for this test

    def __init__(self):
        super().__init__(is_shared=True)
        self.log = []

    def append(self, batch):
        self.log.append("append")
        return super().append(batch)

    def put_snapshot(self, snapshot):
        self.log.append("snapshot")
        super().put_snapshot(snapshot)

    def release(self, node, scope, root):
        self.log.append("release")
        super().release(node, scope, root)


@pytest.mark.machine(3)
async def test_a_session_is_released_after_its_last_append_and_its_snapshot():
    """A session is released after its last append and its snapshot."""
    work, store = Work("idempotent"), Logged()
    async with two_nodes(work.options, store=store) as (_, one, two, _others):
        session = await one.start_session(session_id="s", **work.options())
        await session.prompt("Hi")
        await work.began.wait()
        await one.move_session("s", two.nodes.node.id)
        assert store.log[: store.log.index("release") + 1][-3:] == ["append", "snapshot", "release"]


async def test_a_session_that_was_refused_leaves_no_snapshot():
    """Another node took it while its last records waited for the store. What they hold is no state of the session."""
    work, store = Work("idempotent"), Logged()
    async with two_nodes(work.options, store=store) as (_, one, _two, _others):
        session = await one.start_session(session_id="s", **work.options())
        await session.prompt("Hi")
        await work.began.wait()
        cell = session._cell  # noqa: SLF001 - no call stops a session between its snapshot and the store's answer
        journal = cell.journal
        journal._put(cell.state, ())  # noqa: SLF001
        journal.refused(Fenced("s", durable_up_to=1))
        await journal.writer.wait_empty()
        assert "snapshot" not in store.log


@pytest.mark.machine(4)
@pytest.mark.parametrize("steps", range(0, 40, 3))
async def test_a_session_that_is_checked_can_be_resumed_meanwhile(steps):
    """A check for a move belongs to its task: another task that resumes the session meanwhile is told who holds it, and the node goes on."""
    work = Work("pure")
    async with two_nodes(work.options) as (_, one, two, _), trio.open_nursery() as nursery:
        await one.start_session(session_id="s", **work.options())
        nursery.start_soon(two.check_revive, "", "s")
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        with pytest.raises((HeldBy, AlreadyStarted)):
            await two.resume_session("s", **work.options())


@pytest.mark.machine(3)
async def test_a_session_that_is_resumed_while_it_leaves_is_not_released_afterwards():
    """Its last tool takes a while to end. The node that takes the session back meanwhile waits for that: it has an owner after that, on which it lives."""
    began = trio.Event()

    @tool(effect_class="idempotent")
    async def deaf() -> str:
        """Work, also when it is cancelled."""
        is_first = not began.is_set()
        began.set()
        with trio.CancelScope(shield=is_first):
            await trio.sleep(3 if is_first else 0)
        return "worked"

    def answer(request):
        return calls(("deaf", {})) if len(request.messages) == 1 else says("done")

    options = {"model": FunctionModel(answer), "tools": [deaf]}
    async with two_nodes(lambda _: options) as (store, one, two, _):
        session = await one.start_session(session_id="s", **options)
        await session.prompt("Hi")
        await began.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.move_session, "s", two.nodes.node.id)
            with trio.fail_after(10), suppress(HeldBy):  # whoever is first after that
                while True:
                    await trio.sleep(0.05)
                    with suppress(AlreadyStarted):
                        await one.resume_session("s", **options)
                        break
        await trio.sleep(5)
        assert [node.nodes.node.id for node in (one, two) if node.sessions()] == [store.get("", "s").node]
