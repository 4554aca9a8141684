"""What an application gives its tools to work with: typed, live, and nowhere in what is stored, sent or shown (X-016)."""

from typing import Annotated

import attrs
import pytest

import agentrail
from agentrail.abc import ToolContext
from agentrail.core.session.state_codec import encode_session
from agentrail.core.wire.codec import encode_event, encode_signal
from agentrail.errors import OptionError, Unrevivable
from agentrail.runtime import session_actor as runtime_session
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools.task import TaskTool
from tests.runtime.rig import calling, until, wants

pytestmark = pytest.mark.experience("X-016")

SECRET = "correct horse battery staple"  # noqa: S105 - a text to look for


class Pool:
    """Says a secret of itself wherever it is shown."""

    def __repr__(self) -> str:
        return SECRET

    __str__ = __repr__


@agentrail.tool
async def look(ctx: ToolContext[Pool]) -> str:
    """Look at what it was given."""
    SEEN.append(ctx.deps)
    SHOWN.append(repr(ctx))
    return type(ctx.deps).__name__


SEEN: list[object] = []
SHOWN: list[str] = []


async def test_it_is_the_very_object_and_occurs_nowhere(supervisor, monkeypatch):
    """Not in signals, states, events, the history, the status, nor in what anything shows of itself; children have it too."""
    stepped = []
    real = runtime_session.step

    def watched(state, signal):
        stepped.append(encode_signal(signal))
        after = real(state, signal)
        stepped.append(encode_session(after[0]))
        return after

    monkeypatch.setattr(runtime_session, "step", watched)
    pool = Pool()
    SEEN.clear(), SHOWN.clear()
    task = calls(("task", {"description": "look too"}))
    model = ScriptedModel([wants("look"), task, wants("look"), says("child"), says("done")])
    options = agentrail.SessionOptions(model=model, tools=[look, TaskTool()], deps=pool)
    session = await supervisor.start_session(options)
    async with session.subscribe() as events:
        await session.prompt("go")
        published = [encode_event(event) for event in await until(events, agentrail.AgentEnd)]
    assert [pool, pool] == SEEN
    assert all(one is pool for one in SEEN)
    shown = [options, session, await session.status(), await session.snapshot(), await session.messages()]
    shown += [session._cell.ports, await supervisor.tree()]  # noqa: SLF001 - what it works with
    shown = [*map(repr, shown), *SHOWN]
    assert [one for one in shown if SECRET in one] == []
    assert [one for one in (*stepped, *published) if SECRET.encode() in one] == []


@pytest.mark.parametrize(
    ("deps", "words"),
    [
        (
            None,
            "no deps were given: tool 'look' takes a ToolContext[Pool], so pass start_session(deps=…) a Pool",
        ),
        (
            7,
            "deps is of type int: tool 'look' takes a ToolContext[Pool], so pass start_session(deps=…) a Pool",
        ),
    ],
)
async def test_of_a_wrong_type(supervisor, deps, words):
    """Refused when the session starts, by the class and not by what it says of itself."""
    with pytest.raises(OptionError) as refused:
        await supervisor.start_session(model=calling("look"), tools=[look], deps=deps)
    assert refused.value.faults == (words,)
    assert supervisor.sessions() == ()


async def test_of_a_context_that_says_nothing(supervisor):
    """A context takes anything, as does a protocol that cannot be looked at, and does not show it; so in one session without a supervisor."""
    found = []

    @agentrail.tool
    async def plain(ctx: Annotated[ToolContext, "its context"]) -> str:
        """Look."""
        found.append(ctx.deps)
        return "ok"

    for deps in (None, 7):
        session = await supervisor.start_session(model=calling("plain"), tools=[plain], deps=deps)
        await session.ask("go")
    assert found == [None, 7]
    (field,) = (field for field in attrs.fields(ToolContext) if field.name == "deps")
    assert not field.repr
    assert not field.eq

    async with agentrail.open_session(model="demo:fast", deps=Pool(), tools=[look]) as session:
        assert (await session.run("Hi")).text
    with pytest.raises(agentrail.SessionDown):
        await session.ask("Hi")


async def test_the_supervisor_gives_it_to_those_that_have_none():
    """By the id of the session; what was given wins, and a function that raises refuses the start."""
    asked = []

    def deps_for(session_id: str) -> object:
        asked.append(session_id)
        if session_id == "bad":
            raise KeyError(session_id)
        return Pool()

    SEEN.clear()
    script = {"m": ScriptedModel([wants("look"), says("done")] * 2)}
    async with agentrail.open_supervisor(environ={}, scripts=script, deps_for=deps_for) as supervisor:
        own = Pool()
        first = await supervisor.start_session(model="scripted:m", tools=[look], session_id="a")
        second = await supervisor.start_session(model="scripted:m", tools=[look], session_id="b", deps=own)
        await first.ask("go")
        await second.ask("go")
        with pytest.raises(KeyError):
            await supervisor.start_session(model="scripted:m", tools=[look], session_id="bad")
        assert [one.session_id for one in supervisor.sessions()] == ["a", "b"]
    assert asked == ["a", "bad"]
    assert isinstance(SEEN[0], Pool)
    assert SEEN[1] is own


async def test_a_function_that_raises_at_a_resume_affects_no_other_session():
    """Its session stays in the store, as one does whose code is missing."""

    def deps_for(session_id: str) -> object:
        return {"good": Pool()}[session_id]

    store, scripts = MemoryStore(lease_ms=0), {"m": ScriptedModel([says("done")])}
    async with agentrail.open_supervisor(environ={}, scripts=scripts, store=store) as supervisor:
        for name in ("bad", "good"):
            await supervisor.start_session(model="scripted:m", session_id=name)
    async with agentrail.open_supervisor(
        environ={}, scripts=scripts, store=store, resume="all", deps_for=deps_for
    ) as supervisor:
        assert [one.session_id for one in supervisor.sessions()] == ["good"]
        with pytest.raises(Unrevivable, match="its code, which raised KeyError: 'bad'"):
            await supervisor.resume_session("bad")
