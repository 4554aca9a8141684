"""What is stepped is what its bytes say, at each door of a session: what people, models, tools and files bring is settled first."""

import math
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import trio

from agentrail import Error, Ok, ToolContext, plugins as p, tool
from agentrail.core.protocol.signals import ChildPublished, Signal
from agentrail.core.wire.codec import decode_signal, encode_signal
from agentrail.core.wire.settling import settled
from agentrail.errors import AgentrailError, OptionError, ProviderError
from agentrail.messages import Text
from agentrail.testing.models import ScriptedModel, calls, fails, says

runtime_session: Any = import_module("agentrail.runtime.session")
"""What steps; its names are looked at here."""

HALF = "half \ud83d of it"
PAIR = "\ud83d\ude00"


@pytest.fixture
def stepped(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Signal]]:
    """Every signal that a session of this test steps; each has to come back from its bytes as it is."""
    seen: list[Signal] = []
    real = runtime_session.step

    def watched(state: Any, signal: Any) -> Any:
        seen.append(signal)
        return real(state, signal)

    monkeypatch.setattr(runtime_session, "step", watched)
    yield seen
    for signal in seen:
        assert decode_signal(encode_signal(signal)) == signal
        assert settled(signal) is signal


def said_in(signals: list[Signal]) -> str:
    """All that was stepped, as one text."""
    return "".join(encode_signal(signal).decode() for signal in signals)


@tool
async def hostile(ctx: ToolContext) -> Ok:
    """Say all that no UTF-8 and no JSON can hold."""
    ctx.report_progress(HALF)
    pair: Any = (1, 2)
    ctx.emit("news", {"a": [HALF, pair]})
    return Ok(text=HALF, details={"a": HALF, HALF: pair})


@tool
async def plain(ctx: ToolContext, a: list[Any]) -> Ok:
    """Give something plain."""
    ctx.report_progress("on it")
    return Ok(text="fine", details={"a": list(a)})


@tool
async def wrong(ctx: ToolContext) -> Error:
    """Fail with such words."""
    del ctx
    raise ValueError(HALF)


@tool
async def asks(ctx: ToolContext) -> Ok:
    """Ask such a question."""
    return Ok(text=await ctx.ask_user(HALF, options=(HALF,)) or "")


async def test_what_people_say(supervisor, stepped):
    """Prompts, steers, reasons: half of a character is one that says so, two halves are the character."""
    session = await supervisor.start_session(model=ScriptedModel([says("a"), says("b"), says("c")]))
    await session.prompt([Text(text=HALF), Text(text=PAIR)], client_id=HALF)
    await session.collect_reply()
    await session.steer(HALF)
    await session.collect_reply()
    await session.abort(HALF)
    await session.compact(HALF)
    for call in (session.approve(HALF), session.reject(HALF, HALF), session.respond(HALF, HALF)):
        with pytest.raises(AgentrailError):
            await call
    with pytest.raises(AgentrailError):
        await session.abort_tool(HALF, HALF)
    with pytest.raises(AgentrailError):
        await session.detach_plugin(HALF)
    await session.detach_tools(HALF)
    await session.stop(HALF)
    assert "half \ufffd of it" in said_in(stepped)
    assert "\U0001f600" in said_in(stepped)


async def test_what_models_and_tools_say(supervisor, stepped):
    """Texts and arguments of a model, results, details, progress, events and crashes of a tool."""
    model = ScriptedModel(
        [
            calls(
                ("hostile", {}), ("wrong", '{"a": "\\ud83d"}'), ("gone " + HALF, '{"a": ["\\ud83d", 1e999]}')
            ),
            says(HALF),
            fails(ProviderError(HALF)),
        ]
    )
    session = await supervisor.start_session(model=model, tools=[hostile, wrong])
    await session.ask("go")
    with pytest.raises(AgentrailError):
        await session.ask("go")
    assert "half \ufffd of it" in said_in(stepped)


async def test_what_a_tool_asks(supervisor, stepped):
    """Its question, and the answer of a person."""
    session = await supervisor.start_session(
        model=ScriptedModel([calls(("asks", {})), says("thanks")]), tools=[asks]
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.ask, "go")
        while not (questions := (await session.status()).questions):
            await trio.lowlevel.checkpoint()
        await session.respond(questions[0].ref, HALF)
    assert "half \ufffd of it" in said_in(stepped)


class Reads(p.Plugin[int]):
    """Asks for a file of such a name, and is told that there is none; publishes such words too."""

    def init(self) -> int:
        """Begin."""
        return 0

    @p.on(p.BeforeRequest)
    def ask(self, event: p.BeforeRequest, state: int, ctx: p.Context) -> p.Action[int]:
        """Ask."""
        del event, ctx
        return p.Request(p.ReadFile(HALF), "tag", state)


async def test_what_is_done_for_plugins(supervisor, stepped):
    """The answer to what a plugin asked for, also where it says why there is none; options that are no JSON are refused."""
    session = await supervisor.start_session(model=ScriptedModel([says("a")]), plugins=[Reads])
    await session.ask("go")
    for options in ({"a": math.nan}, {"a": {1}}, {"a": object()}):
        with pytest.raises(OptionError, match=r"options.a is"):
            await session.update_plugin_opts("Reads", **options)
    await session.update_plugin_opts("Reads", a=HALF, b=(1, 2))
    assert "half \ufffd of it" in said_in(stepped)


async def test_what_children_publish(supervisor, stepped):
    """Their events reach the session above as they were published."""

    @tool
    async def delegates(ctx: ToolContext) -> Ok:
        """Let a session work."""
        return Ok(text=await ctx.run_session(HALF))

    model = ScriptedModel([calls(("delegates", {})), says(HALF), says("done")])
    session = await supervisor.start_session(model=model, tools=[delegates])
    assert await session.ask("go") == "done"
    assert any(isinstance(signal, ChildPublished) for signal in stepped)


async def test_what_is_plain_is_stepped_as_it_came(supervisor, monkeypatch):
    """The very object: nothing is copied, and nothing is written."""
    pairs: list[tuple[Signal, Signal]] = []

    def watched(signal: Any) -> Any:
        pairs.append((signal, settled(signal)))
        return pairs[-1][1]

    monkeypatch.setattr(runtime_session, "settled", watched)
    model = ScriptedModel([calls(("plain", {"a": [1, 2.5, None]})), says("done, Ünïcode")])
    session = await supervisor.start_session(model=model, tools=[plain])
    await session.ask("go: 你好")
    assert len(pairs) > 4
    assert all(given is made for given, made in pairs)
