"""Secrets that a session knows are planted in each of its doors, and every byte that it wrote is searched (AT-154, AT-155, AT-156).

What is searched are the files of the store, its log and its blobs among them, the log, all events, all messages, exports, and what
`agentrail sessions` prints.
"""

import base64
import json
import logging
from collections.abc import Iterator
from urllib.parse import quote

import pytest
import trio

from agentrail import ToolContext, plugins as p, tool
from agentrail.abc import Secret
from agentrail.cli.sessions import show_session, trace
from agentrail.cli.stored import StorePlace
from agentrail.core.values.secret_forms import forms_of
from agentrail.core.wire.codec import encode_event
from agentrail.errors import CycleFailed, ProviderError
from agentrail.events import AskUser
from agentrail.runtime.agent import Agent
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.models import FunctionModel, Turn, calls, fails, says
from agentrail.testing.supervisors import open_nameless
from tests.runtime.rig import NoSandbox, on_bounded_time

PLAIN = "sk-canary-of-the-data-0815"
ODD = 'canary/+"quoted"\\<é>-4711'
KEY = "sk-canary-of-the-provider-23"
VARIABLE = "canary-of-a-variable-42"
SECRETS = (PLAIN, ODD, KEY, VARIABLE)
FORMS = sorted({form.encode() for secret in SECRETS for form in forms_of(secret)})
SAID = "Secret(…)"

pytestmark = [pytest.mark.at(154), pytest.mark.at(155), pytest.mark.at(156)]


def found_in(data: bytes) -> list[bytes]:
    """Which of them stand there, in which form."""
    return [form for form in FORMS if form in data]


def planted() -> str:
    """All of them, in all forms that a program may give them."""
    coded = base64.b64encode(f"user:{PLAIN}".encode()).decode()
    return " ".join([*SECRETS, json.dumps([ODD]), quote(ODD), coded, repr(ODD)])


def all_files(place) -> Iterator[bytes]:
    """All that was written below a directory."""
    files = [path for path in place.rglob("*") if path.is_file()]
    assert files
    return (path.read_bytes() for path in files)


class Sandbox(NoSandbox):
    """Was given a variable for its commands."""

    secrets = (VARIABLE,)


class Model(FunctionModel):
    """Holds a key, and says what it is told to say."""

    def __init__(self, *turns: Turn) -> None:
        script = iter(turns)
        super().__init__(lambda _request: next(script))
        self.secrets = (Secret(KEY),)


class Leaky(p.Plugin[tuple[str, ...]]):
    """Remembers all that it hears, and fails on purpose with it."""

    name = "leaky"

    def init(self, note: str = "") -> tuple[str, ...]:
        """Begin with what it was given."""
        return (note, planted())

    @p.on(p.AfterTool)
    def hear(self, event, state, ctx):
        """Remember; publish."""
        return p.Emit("heard", {planted(): planted()}, (*state, event.result.text, planted()))

    @p.on(p.AfterTurn)
    def fail(self, event, state, ctx):
        """Fail."""
        raise ValueError(planted())


@tool
async def leak(ctx: ToolContext, how: str = "text") -> str:
    """Leak by each door that a tool has.

    Args:
        ctx: What it leaks through.
        how: Which.
    """
    ctx.progress(f"at {planted()}")
    ctx.emit("leak", {planted(): [planted()]})
    match how:
        case "raise":
            raise ExceptionGroup(planted(), [ValueError(planted()), KeyError(ODD)])
        case "ask":
            return str(await ctx.ask_user(f"is it {planted()}?", [planted(), "no"]))
        case "child":
            return await ctx.run_session(f"look for {planted()}", system_prompt=planted())
        case "large":
            return planted() + " x" * 40_000 + planted()
        case _:
            return f"it is {planted()}"


@pytest.fixture
def told(caplog):
    """All that went to the log."""
    caplog.set_level(logging.DEBUG)
    return lambda: "\n".join(
        [record.getMessage() + str(record.exc_text) for record in caplog.records]
    ).encode()


OPTIONS = {
    "user_data": {"key": Secret(PLAIN), "deep": [{"other": Secret(ODD)}], "plain": PLAIN, PLAIN: "name"},
    "tools": [leak],
    "agents": [Agent(name="helper", description=f"knows {KEY}", system_prompt=f"say {KEY}")],
    "plugins": [(Leaky, {"note": f"noted {PLAIN}"})],
    "system_prompt": f"You know {planted()}.",
    "event_buffer_size": 10_000,
}


@on_bounded_time
async def test_what_is_planted_in_each_door_is_in_no_byte_that_was_written(tmp_path, told, capsys):
    """A whole life: prompts, tools, errors, questions, approvals, children, plugins, a crash; and all that is left of it."""
    place = tmp_path / "data"
    place.mkdir()
    model = Model(
        Turn(text=(f"<title>{KEY}</title>", *f"I know {planted()}"), thinking=f"hm {KEY}"),
        calls(
            ("leak", {}),
            ("leak", {"how": "raise"}),
            ("leak", {"how": "large"}),
            ("none", {planted(): planted()}),
        ),
        calls(("leak", {"how": "child"})),
        says(f"child says {planted()}"),
        calls(("leak", {"how": "ask"}), text=f"<status>{KEY}</status>"),
        says("well"),
        fails(ProviderError(f"refused {planted()}"), after=f"half of {KEY[:-3]}"),
        says("after all"),
        says("crashed no more"),
    )
    events = []
    async with open_nameless(
        lambda _n, _r: Sandbox(), store=SqliteStore(place / "sessions.db")
    ) as supervisor:
        session = await supervisor.start_session(model=model, sandbox=Sandbox(), session_id="s-1", **OPTIONS)

        async def listen(task_status=trio.TASK_STATUS_IGNORED):
            async with session.subscribe() as read:
                task_status.started()
                async for event in read:
                    events.append(event)
                    if isinstance(event, AskUser):
                        await session.respond(event.ref, f"it is {planted()}")

        async with trio.open_nursery() as nursery:
            await nursery.start(listen)
            await session.ask(f"what is {planted()}?", client_id=f"id {PLAIN}")
            await session.ask("use the tool")
            with pytest.raises(CycleFailed) as caught:
                await session.ask("again")
            assert found_in(str(caught.value).encode()) == []
            await session.update_plugin_opts("leaky", note=planted())
            await session.report_tool_source("mine", "parked", reason=f"lost {planted()}")
            reply = await session.ask("again")
            assert reply
            status, history = await session.status(), await session.messages()
            await session.abort(f"because of {planted()}")
            await session.rewind(to=5)
            fork = await session.fork(
                at=8, system_prompt=f"fork {planted()}", session_id="s-2", model=Model(says(KEY))
            )
            await fork.ask(f"and you, {planted()}?")
            exported = [
                await supervisor.export_session(one, format=form)
                for one in ("s-1", "s-2")
                for form in ("jsonl", "markdown")
            ]
            nursery.cancel_scope.cancel()
    written = [*all_files(tmp_path), told(), *exported, repr((status, history, events)).encode()]
    written += [encode_event(event) for event in events if event.meta is not None]
    capsys.readouterr()
    for one in ("s-1", "s-2"):
        for show in (show_session, trace):
            assert show(one, place=StorePlace(store=f"sqlite:{place / 'sessions.db'}")).value == 0
    assert trace("s-1", json=True, place=StorePlace(store=f"sqlite:{place / 'sessions.db'}")).value == 0
    printed = capsys.readouterr()
    written += [printed.out.encode(), printed.err.encode()]
    assert SAID in printed.out
    for data in written:
        assert found_in(data) == []
    whole = b"".join(written)
    for kind in ("ToolProgress", "PluginFailed", "AskUser", "Retry", "TitleGenerated", "SubagentEvent"):
        assert kind in {type(event).__name__ for event in events} or kind.encode() in whole
