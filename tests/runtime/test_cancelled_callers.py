"""Callers that are cancelled at any step: each gets `Cancelled` and leaves nothing half done, and its session continues."""

import gc
import weakref
from contextlib import suppress
from functools import partial

import pytest
import trio

from agentrail import Agent, plugins as p
from agentrail.core.journal.record import REWOUND
from agentrail.errors import (
    CycleWaiting,
    JournalBehind,
    MailboxFull,
    PluginError,
    SessionNotFound,
    SessionRested,
)
from agentrail.events import AgentAbort, ModelSwitched
from agentrail.messages import UserMessage
from agentrail.outside import installed
from agentrail.plugins import Permissions
from agentrail.plugins.human_approval import HumanApproval
from agentrail.runtime.crashes import raise_what_travels
from agentrail.runtime.session_actor import MAILBOX_CAPACITY
from agentrail.runtime.supervisor_lifespan import open_sessions
from agentrail.stores.memory import MemoryStore
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import HangingTool, RecordingTool
from tests.actors.test_cancelled_starts import CancelAtStep
from tests.garbage import without_collector
from tests.runtime.nodes import node_over, shared_store
from tests.runtime.rig import (
    Inline,
    NoSandbox,
    on_virtual_time,
    open_bare,
    open_over,
    saying,
    start_hanging,
    until,
)

SCOUT = Agent(name="scout", description="Looks.", system_prompt="You look.", background=True)
MAX_STEPS = 200


async def struck_at(step, call):
    """Make a call that is cancelled at a step of the run, and return whether it was. No error but `Cancelled` leaves it."""
    with trio.CancelScope() as scope:
        instrument = CancelAtStep(step, scope)
        trio.lowlevel.add_instrument(instrument)
        try:
            await call()
        except trio.Cancelled:  # not in a group, which no `except trio.Cancelled` catches
            return True
        finally:
            trio.lowlevel.remove_instrument(instrument)
            await settle_shielded()
    assert not scope.cancelled_caught
    return False


async def settle_shielded():
    with trio.CancelScope(shield=True):
        await trio.testing.wait_all_tasks_blocked()


# --- rules for the sessions below


@pytest.mark.parametrize("kept", [False, True])
@on_virtual_time
async def test_a_rule_reaches_the_sessions_below_or_none(kept):
    """A deny holds for the background agent exactly if it holds for the session, whenever the caller is cancelled."""
    step, is_struck = 0, True
    while is_struck:
        step += 1
        assert step < MAX_STEPS
        pay = RecordingTool(name="pay")

        def answer(request):
            last = request.messages[-1]
            said = getattr(last.content[0], "text", "") if getattr(last, "content", None) else ""
            is_child = (request.system or "").startswith("You look")
            if said == "spawn":
                return calls(("spawn_agent", {"agent": "scout", "task": "idle"}))
            return (
                calls(("pay", {"by": "agent" if is_child else "root"})) if "pay now" in said else says("ok")
            )

        async with open_over(MemoryStore() if kept else None) as supervisor:
            session = await supervisor.start_session(
                model=FunctionModel(answer), tools=[pay], agents=[SCOUT], plugins=[(Permissions, {"allow": ["*"]})]
            )  # fmt: skip
            await session.ask("spawn")
            await session.agents.wait()
            is_struck = await struck_at(
                step, partial(session.update_plugin_opts, "Permissions", deny=["pay"])
            )
            await session.agents.send("agent-1", "pay now")
            await session.agents.wait()
            await session.ask("pay now")
            assert [one["by"] for one in pay.calls] in ([], ["agent", "root"])


@pytest.mark.parametrize("kept", [False, True])
@on_virtual_time
async def test_a_breakpoint_is_set_and_ended_everywhere_or_nowhere(kept):
    """The session and its background agent both have it, or neither of them, whenever the caller is cancelled."""
    async with open_over(MemoryStore() if kept else None) as supervisor:
        pay = RecordingTool(name="pay")
        model = FunctionModel(
            lambda request: (
                calls(("spawn_agent", {"agent": "scout", "task": "idle"}))
                if isinstance(request.messages[-1], UserMessage)
                and not (request.system or "").startswith("You look")
                else says("ok")
            )
        )
        session = await supervisor.start_session(
            model=model, tools=[pay], agents=[SCOUT], plugins=[(Permissions, {"allow": ["*"]})]
        )
        await session.ask("spawn")
        await session.agents.wait()
        for change, undo in ((session.break_on, session.unbreak), (session.unbreak, session.break_on)):
            if change == session.unbreak:
                await session.break_on("pay")
            before, step, is_struck = len(await session.rules()), 0, True
            while is_struck:
                step += 1
                assert step < MAX_STEPS
                is_struck = await struck_at(step, partial(change, "pay"))
                after = len(await session.rules())
                assert {before, after} <= {0, 2}
                if after != before:
                    await undo("pay")


# --- nothing is prepared for a message that is not sent


def open_named():
    """Open a supervisor that finds a model by every name, with any options."""
    return open_sessions(lambda _model, _opts: saying("hi"), lambda _name, _root: NoSandbox())


async def test_the_options_of_a_model_stay_if_the_caller_is_cancelled_first():
    """A deadline in the past: the later switch to the same options is still a change, and is published."""
    model, opts = "some:m", {"base_url": "http://127.0.0.1:9"}
    async with open_named() as supervisor:
        session = await supervisor.start_session(model=model, provider_opts=opts)
        for _ in range(2):
            with trio.CancelScope(deadline=-1) as scope:
                await session.switch_model(model, {**opts, "timeout": 2})
            assert scope.cancelled_caught
        async with session.subscribe() as events:
            await session.switch_model(model, {**opts, "timeout": 2})
            (switched,) = await until(events, ModelSwitched)
        assert switched.provider_opts_changed


async def held_full(session, nursery):
    """Fill the mailbox of a session that does not read it. Return what empties it."""

    async def fill():
        with suppress(MailboxFull):
            await session.status()

    await session.status()
    mailbox = session._cell.mailbox  # noqa: SLF001 - held, so that it fills
    mailbox.hold()
    for _ in range(MAILBOX_CAPACITY):
        nursery.start_soon(fill)
    await trio.testing.wait_all_tasks_blocked()
    return mailbox.release


async def test_the_options_of_a_model_stay_if_the_mailbox_is_full():
    """The switch is refused, and the session still has its own options: switching to them changes nothing."""
    model, opts = "some:m", {"base_url": "http://127.0.0.1:9"}
    async with open_named() as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.start_session(model=model, provider_opts=opts)
        refused = []

        async def switch():
            try:
                await session.switch_model(model, {**opts, "timeout": 2})
            except MailboxFull as error:
                refused.append(error)

        release = await held_full(session, nursery)
        await switch()
        release()
        await trio.testing.wait_all_tasks_blocked()
        before = (await session.status()).last_seq
        await session.switch_model(model, opts)
        assert (len(refused), (await session.status()).last_seq) == (1, before)


class Noted(p.Plugin[int]):
    """Does nothing."""

    def init(self) -> int:
        """Give no state."""
        return 0

    @p.on(p.BeforeTool)
    def note(self, event: p.BeforeTool, state: int, ctx: p.Context) -> p.Action[int]:
        """Go on."""
        return p.Continue(state)


@pytest.mark.parametrize("deadline", [-1, 0.5])
@on_virtual_time
async def test_a_plugin_is_not_held_for_a_caller_that_was_cancelled(supervisor, deadline):
    """Cancelled before it sends, or while the cycle lasts: once the change is made and undone, its object is freed."""
    hang = HangingTool()
    session = await start_hanging(supervisor, hang)
    plugin = Noted()
    known = weakref.ref(plugin)
    with trio.CancelScope(deadline=trio.current_time() + deadline) as scope:
        await session.attach_plugin(plugin)
    assert scope.cancelled_caught
    del plugin
    await session.abort(kill_tools="all")
    if deadline > 0:
        await trio.testing.wait_all_tasks_blocked()
        members = session._cell.state.data.stack.members  # noqa: SLF001 - no call lists plugins
        assert [one.plugin for one in members] == [known()]
        del members
        await session.detach_plugin("Noted")
    gc.collect()
    assert known() is None


@pytest.mark.parametrize("attach", ["attach_tools", "replace_tools", "attach_plugin"])
async def test_code_that_a_full_mailbox_refuses_is_not_held(supervisor, attach):
    """The caller has the error, and the session has nothing."""
    async with trio.open_nursery() as nursery:
        session = await supervisor.start_session(model=saying("hi"))
        release = await held_full(session, nursery)
        code = Noted() if attach == "attach_plugin" else RecordingTool()
        known = weakref.ref(code)
        with pytest.raises(MailboxFull):
            await getattr(session, attach)(code)
        release()
        del code
        gc.collect()
        assert known() is None


async def test_code_that_a_cancelled_caller_replaced_is_not_held(supervisor):
    """The change remains in effect, and the session lets go of the tool and the model of before."""
    model, tool = saying("hi"), RecordingTool()
    session = await supervisor.start_session(model=saying("first"))
    await session.switch_model(model)
    await session.attach_tools(tool)
    known = weakref.ref(model), weakref.ref(tool)
    del model, tool
    mailbox = session._cell.mailbox  # noqa: SLF001 - held, so that the callers wait
    for change, code in ((session.switch_model, saying("then")), (session.attach_tools, RecordingTool())):
        mailbox.hold()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(change, code)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        mailbox.release()
    assert await session.ask("go") == "then"
    gc.collect()
    assert [one() for one in known] == [None, None]


@pytest.mark.parametrize("call", ["run", "collect_reply", "wait_for", "attach_plugin"])
@on_virtual_time
async def test_the_error_of_a_refused_call_is_freed_without_the_collector(call):
    """Its traceback refers to the frames that it passed through: none of them may refer to it."""
    approval = (HumanApproval, {"require_approval_for": ["hint"]})
    async with open_bare() as supervisor:
        session = await supervisor.start_session(
            model=FunctionModel(lambda _: calls(("hint", {}))),
            tools=[RecordingTool(name="hint")],
            plugins=[approval],
        )
        await session.prompt("Hi")
        await trio.sleep(1)
        given = {"run": ("Hi",), "wait_for": (AgentAbort,), "attach_plugin": (HumanApproval,)}
        known = None
        with without_collector():
            try:
                await getattr(session, call)(*given.get(call, ()))
            except (CycleWaiting, PluginError) as error:
                known = weakref.ref(error)
            await trio.lowlevel.checkpoint()
            assert known is not None
            assert known() is None


async def test_the_error_of_a_call_of_a_store_is_freed_without_the_collector(tmp_path):
    """It was raised in a thread, whose frames refer to the call that carries it."""
    async with open_over(SqliteStore(tmp_path / "sessions.db")) as supervisor:
        known = None
        with without_collector():
            try:
                await supervisor.delete_session("s-none")
            except SessionNotFound as error:
                known = weakref.ref(error)
            await trio.sleep(0.1)  # the thread forgets its last call when it waits for the next one
            assert known is not None
            assert known() is None


# --- one error, not a group of them


@on_virtual_time
async def test_a_rewind_is_cancelled_without_a_group():
    """At every step; afterwards the session answers."""
    step, is_struck = 0, True
    while is_struck:
        step += 1
        assert step < MAX_STEPS
        with installed(Inline()):
            async with open_over(FaultyStore(MemoryStore())) as supervisor:
                session = await supervisor.start_session(model=saying("one", "two"))
                assert await session.ask("first") == "one"
                is_struck = await struck_at(step, partial(session.rewind, 2))
                assert await session.ask("second") == "two"


@on_virtual_time
async def test_a_drain_is_cancelled_without_a_group():
    """At every step; the sessions that have not stopped yet continue."""
    step, is_struck = 0, True
    while is_struck:
        step += 1
        assert step < MAX_STEPS
        store, _ = shared_store()
        async with node_over(store) as (node, _):
            sessions = [await node.start_session(model=saying("one", "two")) for _ in range(2)]
            for session in sessions:
                assert await session.ask("first") == "one"
            is_struck = await struck_at(step, partial(node.drain, 1.0))
            for session in sessions:
                with suppress(SessionRested):
                    assert await session.ask("second") == "two"
            assert is_struck or node.sessions() == ()


class Behind(FaultyStore):
    """A store that is found to have lost records as it is given a rewind."""

    def append(self, batch):
        if any(record.kind == REWOUND for one in batch for record in one.records):
            return tuple([JournalBehind(one.session, have=1, acknowledged=2) for one in batch])
        return super().append(batch)


@on_virtual_time
async def test_a_rewind_over_a_store_that_lost_records():
    """It raises the error of the store, not a group with it."""
    with installed(Inline()):
        async with open_over(Behind(MemoryStore())) as supervisor:
            session = await supervisor.start_session(model=saying("one"))
            await session.ask("first")
            with pytest.raises(JournalBehind, match="acknowledged"):
                await session.rewind(2)


async def test_an_error_that_travels_is_freed_without_the_collector():
    """Each stream whose client left kept 200 objects in a cycle: the frame that raised its cancellation again referred to it."""
    with without_collector():
        known = []
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.lowlevel.checkpoint()
            except BaseException as raised:  # noqa: ASYNC103, BLE001 - cancellation is raised again
                known.append(weakref.ref(raised))
                raise_what_travels(raised)
        await trio.lowlevel.checkpoint()  # Trio itself refers to it for the rest of the step
        assert scope.cancelled_caught
        assert [one() for one in known] == [None]
