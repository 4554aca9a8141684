"""`session.agents`: what the tools for agents in the background do for a model, for the program that holds the session (12.2.2)."""

import attrs
import pytest
import trio
import trio.testing

from agentrail import blocking
from agentrail.core.policy.budget import Budget
from agentrail.errors import OptionError, SessionDown, StoreUnavailable
from agentrail.messages import Text, TokenUsage
from agentrail.runtime import background_agents
from agentrail.runtime.agent import Agent
from agentrail.runtime.crashes import TaskCrashed
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools.task import TaskTool
from tests.runtime.rig import on_virtual_time, open_over
from tests.runtime.test_background_agents import SCOUT, SPAWN, hangs

HANG = calls(("hang", {}))


def answered(request):
    return says(f"seen: {request.messages[-1].content[-1].text}")


async def start(supervisor, **options):
    return await supervisor.start_session(model=FunctionModel(answered), **({"agents": [SCOUT]} | options))


async def test_an_agent_is_started_waited_for_told_more_and_closed(supervisor):
    """Without any cycle of the session."""
    session = await start(supervisor)
    assert await session.agents.list() == ()
    assert await session.agents.wait() == ()
    name = await session.agents.spawn("scout", "Look.")
    assert name == "agent-1"
    with trio.fail_after(60):
        (idle,) = await session.agents.wait()
    assert (idle.status, idle.outcome, idle.answer, idle.turns) == ("idle", "finished", "seen: Look.", 1)
    assert idle.usage.total > 0
    await session.agents.send(name, "And there?")
    with trio.fail_after(60):
        (again,) = await session.agents.wait([name])
        assert again.answer == "seen: And there?"
        closed = await session.agents.close(name, "enough")
    assert (closed.status, closed.reason, closed.session_id) == ("ended", "enough", idle.session_id)
    assert await session.agents.list() == (closed,)
    assert (await session.agents.wait([name], until="closed")) == (closed,)


async def test_one_that_hangs_is_waited_for_no_longer_than_was_said_and_closed_at_once(
    supervisor, autojump_clock
):
    """`any` is content with the first; a time that is up is no error, `status` says who is still at work."""

    def model(request):
        return answered(request) if "quick" in str(request.messages) else HANG

    session = await supervisor.start_session(model=FunctionModel(model), agents=[hangs()])
    slow = await session.agents.spawn("scout", "slowly", name="slow")
    quick = await session.agents.spawn("scout", "quick", name="quick")
    assert await session.agents.spawn("scout", "quick", name="quick") == quick
    found = await session.agents.wait([slow, quick], match="any")
    assert {one.name: one.status for one in found} == {"slow": "working", "quick": "idle"}
    found = await session.agents.wait(timeout_seconds=5)
    assert [one.status for one in found] == ["working", "idle"]
    assert (await session.agents.close(slow, now=True)).status == "ended"


async def test_what_cannot_be_is_refused_with_its_reason(supervisor):
    """The limits are those of the model's calls."""
    session = await start(supervisor, agents=[SCOUT], budget=Budget(max_total_tokens=100_000))
    agents = session.agents
    for call, said in (
        (lambda: agents.spawn("nobody", "x"), "There is no agent 'nobody' for the background. Agents: scout"),
        (lambda: agents.spawn("scout", " "), "The task is empty"),
        (lambda: agents.spawn("scout", "x", name="a b"), "take 1 to 64 of"),
        (lambda: agents.send("agent-9", "x"), "There is no agent 'agent-9'"),
        (lambda: agents.close("agent-9"), "There is no agent 'agent-9'"),
        (lambda: agents.wait(["agent-9"]), "no agent was ever called 'agent-9'"),
        (lambda: agents.wait("agent-1"), "names is 'agent-1': expected a sequence"),
        (lambda: agents.wait(5), "names is 5: expected a sequence, each a text, or None"),
        (lambda: agents.wait(["agent-1", 5]), "names is ('agent-1', 5): expected a sequence, each a text"),
        (lambda: agents.wait(match="one"), "match is 'one'"),
        (lambda: agents.wait(until="now"), "until is 'now'"),
        (lambda: agents.wait(timeout_seconds=-1), "timeout_seconds is -1"),
        (lambda: agents.spawn(5, "x"), "agent is 5"),
        (lambda: agents.close("a", 5), "reason is 5"),
        (lambda: agents.close("a", None), "reason is None: expected a text"),  # its record could not be read
        (lambda: agents.close("a", 0), "reason is 0: expected a text"),
    ):
        with pytest.raises(OptionError) as caught:
            await call()
        assert said in str(caught.value)
    for number in range(8):
        await agents.spawn("scout", f"task {number}")
    with pytest.raises(OptionError, match="8 agents are alive, at most 8 may be"):
        await agents.spawn("scout", "one more")
    await session.stop()
    with pytest.raises(SessionDown):
        await agents.list()


async def test_calls_of_the_session_are_not_those_of_its_agents(supervisor):
    """`session.agents` once had all of them: half of them failed there, and the others meant the session."""
    session = await supervisor.start_session(model=FunctionModel(lambda _: HANG), agents=[hangs()])
    found = {name for name in dir(session.agents) if not name.startswith("_")}
    assert found == {"close", "list", "send", "spawn", "wait"}


async def test_a_wait_ends_with_its_session(supervisor):
    """And says so, as every call does."""
    session = await supervisor.start_session(model=FunctionModel(lambda _: HANG), agents=[hangs()])
    await session.agents.spawn("scout", "slowly")
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(SessionDown):
                await session.agents.wait()

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        await session.stop()


def test_a_blocking_session_has_them_too():
    """With the same names, and as futures."""
    with blocking.Supervisor() as supervisor:
        session = supervisor.start_session(model=FunctionModel(answered), agents=[SCOUT])
        name = session.agents.spawn("scout", "Look.")
        (found,) = session.agents.wait([name], timeout_seconds=20)
        assert found.answer == "seen: Look."
        assert session.agents.futures.close(name).result(20).status == "ended"
        assert [one.name for one in session.agents.list()] == [name]


@on_virtual_time
async def test_a_close_that_a_rewind_overtakes_says_so():
    """The agent has ended then, as the rewind stops all work, and the session never had it."""
    async with open_over(MemoryStore()) as supervisor:
        model = FunctionModel(lambda request: HANG if request.system == "You look." else says("ok"))
        session = await supervisor.start_session(model=model, agents=[hangs()])
        await session.ask("One")
        name = await session.agents.spawn("scout", "Look.")
        async with trio.open_nursery() as nursery:

            async def close():
                with pytest.raises(OptionError, match="'agent-1' has ended, and a rewind"):
                    await session.agents.close(name)

            nursery.start_soon(close)
            await trio.sleep(1)
            await session.rewind(turn=1)
        assert await session.agents.list() == ()


async def tell(session):
    """Send its agent a message, and expect the answer to that."""
    await session.agents.send("agent-1", "Two.")
    (found,) = await session.agents.wait(["agent-1"], timeout_seconds=5)
    assert (found.status, found.answer) == ("idle", "seen: Two.")


@on_virtual_time
async def test_a_message_right_after_a_restart_reaches_an_agent():
    """After a crash, and in another process: the agent was idle, and its session is found a moment later."""
    store = MemoryStore(lease_ms=0)
    async with open_over(store) as supervisor:
        session = await start(supervisor, session_id="boss")
        await session.agents.spawn("scout", "One.")
        await session.agents.wait()
        supervisor.session("boss")._cell.mailbox.put_control(TaskCrashed(ValueError("bad")))  # noqa: SLF001 - a crash from inside
        await tell(session)
    async with open_over(store) as supervisor:
        await tell(await supervisor.resume_session("boss", model=FunctionModel(answered), agents=[SCOUT]))


async def test_a_command_whose_text_is_null_is_read_again(monkeypatch):
    """Versions that did not check the reason recorded it; the session could not be resumed without a snapshot."""
    monkeypatch.setattr(MemoryStore, "put_snapshot", lambda *_args, **_options: None)
    store = MemoryStore(lease_ms=0)
    async with open_over(store) as supervisor:
        session = await start(supervisor, session_id="boss")
        name = await session.agents.spawn("scout", "One.")
        await session.agents.wait()
        with monkeypatch.context() as patched:
            patched.setattr(background_agents, "refuse", lambda *_: None)
            closed = await session.agents.close(name, None)
        commands = [one for one in store.read("", "boss") if one.kind == "agent_command"]
        assert b"null" in commands[-1].body
    async with open_over(store) as supervisor:
        again = await supervisor.resume_session("boss", model=FunctionModel(answered), agents=[SCOUT])
        assert await again.agents.list() == (closed,)


class Dying:
    """A store that is not immediate, and takes no more records of agents once its process is about to stop."""

    is_immediate = False

    def __init__(self, inner):
        self.inner, self.is_dying = inner, False

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def append(self, batch):
        if self.is_dying and (of_root := [one for one in batch if one.session == "boss"]) != list(batch):
            self.inner.append(of_root)
            message = "killed"
            raise StoreUnavailable(message)
        return self.inner.append(batch)


@on_virtual_time
async def test_an_agent_whose_message_was_lost_with_the_process_is_idle_again():
    """Its parent had recorded the message and the agent had not: the wait ends, and the share of the budget is back."""
    options = {"budget": Budget(max_total_tokens=100_000), "max_output_tokens": 100, "agents": [SCOUT]}
    inner = MemoryStore(lease_ms=0)
    dying = Dying(inner)
    async with open_over(dying, store_patience=0.2) as supervisor:
        session = await start(supervisor, session_id="boss", **options)
        await session.agents.spawn("scout", "One.")
        await session.agents.wait()
        dying.is_dying = True
        await session.agents.send("agent-1", "Two.")
    async with open_over(inner) as supervisor:
        session = await supervisor.resume_session("boss", model=FunctionModel(answered), **options)
        (found,) = await session.agents.wait(["agent-1"], timeout_seconds=5)
        assert (found.status, found.outcome) == ("idle", "failed")
        assert found.answer == "[It failed: its last message was lost when the process stopped]"
        status = await session.status()
        assert status.budget_left.tokens + status.usage.total == 100_000


def leading(scout, *wanted):
    """Make a model of a session whose agent makes these calls when it is told to spawn, and then rests."""

    def answer(request):
        last = request.messages[-1]
        if request.system == "You look.":
            return scout(request)
        said = "".join(block.text for block in getattr(last, "content", ()) if isinstance(block, Text))
        return calls(*wanted) if "Spawn" in said and request.system == "You lead." else says("on")

    return answer


def greedy(request):
    turn = calls(("read", {"n": len(request.messages)}))
    return attrs.evolve(turn, usage=TokenUsage(input=500, output=50))


async def start_leading(supervisor, *turns):
    """Start the session, with an agent that has had its first cycle and whose own agents have come to rest."""
    lead = Agent(name="lead", description="Leads.", system_prompt="You lead.", background=True)
    read = RecordingTool(name="read", answer="x")
    options = {"budget": Budget(max_total_tokens=100_000), "max_output_tokens": 100, "max_agent_depth": 2}
    session = await supervisor.start_session(
        model=FunctionModel(leading(*turns)), session_id="boss", agents=[lead, attrs.evolve(SCOUT, tools=None)], tools=[read], **options
    )  # fmt: skip
    await session.agents.spawn("lead", "Spawn.")
    await session.agents.wait()
    await trio.sleep(60)
    return session


async def left(session):
    return (await session.status()).budget_left.tokens


async def test_what_waits_for_an_agent_of_an_agent_is_paid_for(supervisor, autojump_clock):
    """Its next cycle begins when the agent between is idle: nobody else is lent what that may spend."""
    more = ("send_input", {"name": "agent-1", "text": "More."})
    session = await start_leading(supervisor, greedy, SPAWN, more)
    spent = (await supervisor.session("boss:agent-1").status()).usage.total
    assert spent > 30_000
    assert spent + await left(session) <= 100_000


async def test_an_agent_that_could_not_start_costs_nothing(supervisor):
    """Its share of the budget comes back whole."""
    await start(supervisor, session_id="boss:agent-1")
    budget = Budget(max_total_tokens=100_000)
    session = await start(supervisor, session_id="boss", budget=budget, max_output_tokens=100)
    await session.agents.spawn("scout", "Look.")
    (found,) = await session.agents.wait(["agent-1"], until="closed")
    assert "is already alive" in found.reason
    assert await left(session) == 100_000


async def test_a_share_that_agents_of_an_agent_return_is_used_by_its_next_cycles(supervisor, autojump_clock):
    """It is booked once, and not again with each cycle in which other agents work."""
    session = await start_leading(supervisor, answered, SPAWN)
    before = await left(session)
    for text in ("Rest.", "Spawn.", "Rest.", "Spawn."):
        await session.agents.send("agent-1", text)
        await session.agents.wait()
        await trio.sleep(60)
    assert await left(session) == before


@pytest.mark.parametrize(
    ("end", "is_background"),
    [
        ("abort", False),
        ("abort", True),
        ("stop", False),
        ("rest", False),
        ("rest", True),
        ("crash", False),
    ],
)
@on_virtual_time
async def test_what_ends_right_after_a_restart_ends_with_all_that_was_restored(end, is_background):
    """The session's record of the restart is not written by then: its agents are there already, and at work."""
    call = SPAWN if is_background else ("task", {"description": "Look.", "subagent_type": "scout"})

    def model(request):
        if request.system == "You look.":
            return says("slow", pause_seconds=100)
        return calls(call) if len(request.messages) == 1 else says("on")

    options = {"model": FunctionModel(model), "agents": [SCOUT], "tools": [TaskTool()]}
    store = Dying(MemoryStore(lease_ms=0))
    async with open_over(store) as supervisor:
        session = await supervisor.start_session(session_id="boss", **options)
        await session.prompt("go")
        await trio.sleep(1)
    async with open_over(store) as supervisor:
        session = await supervisor.resume_session("boss", **options)
        match end:
            case "abort":
                (child,) = (await session.abort()).children
                assert child.tasks_ended == 1
            case "stop":
                await session.stop()
            case "rest":
                await supervisor.rest("boss", within=0)
            case "crash":
                supervisor.session("boss")._cell.mailbox.put_control(TaskCrashed(ValueError("bad")))  # noqa: SLF001 - from inside
        await trio.sleep(1)
        assert supervisor.statistics().live == (1 if end in {"abort", "crash"} else 0)
