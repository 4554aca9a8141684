"""What is stepped is what its bytes say, at each door of a session: what people, models, tools and files bring is settled first."""

import math
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from agentrail import plugins as p
from agentrail.core.protocol.signals import Signal
from agentrail.core.wire.codec import decode_signal, encode_signal
from agentrail.core.wire.normalize import settled
from agentrail.errors import AgentrailError, OptionError
from agentrail.messages import Text
from tests.runtime.rig import saying

runtime_session: Any = import_module("agentrail.runtime.session_actor")
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
    return "".join(encode_signal(signal).decode() for signal in signals)


async def test_what_people_say(supervisor, stepped):
    """Prompts, steers, reasons: half of a character is one that says so, two halves are the character."""
    session = await supervisor.start_session(model=saying("a", "b", "c"))
    await session.prompt([Text(text=HALF), Text(text=PAIR)])
    with pytest.raises(OptionError):
        await session.prompt("Hi", client_id=HALF)
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


class Reads(p.Plugin[int]):
    """Asks for a file of such a name, and is told that there is none; publishes such words too."""

    def init(self) -> int:
        return 0

    @p.on(p.BeforeRequest)
    def ask(self, event: p.BeforeRequest, state: int, ctx: p.Context) -> p.Action[int]:
        del event, ctx
        return p.Request(p.ReadFile(HALF), "tag", state)


async def test_what_is_done_for_plugins(supervisor, stepped):
    """The answer to what a plugin asked for, also where it says why there is none; options that are no JSON are refused."""
    session = await supervisor.start_session(model=saying("a"), plugins=[Reads])
    await session.ask("go")
    for options in ({"a": math.nan}, {"a": {1}}, {"a": object()}):
        with pytest.raises(OptionError, match=r"options.a is"):
            await session.update_plugin_opts("Reads", **options)
    await session.update_plugin_opts("Reads", a=HALF, b=(1, 2))
    assert "half \ufffd of it" in said_in(stepped)
