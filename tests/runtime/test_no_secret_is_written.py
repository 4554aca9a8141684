"""Secrets that a session knows are planted in each of its doors, and every byte that it wrote is searched (AT-154, AT-155, AT-156).

What is searched are the files of the store, its log and its blobs among them, the log, all events, all messages, exports, and what
`agentrail sessions` prints.
"""

import base64
import json
import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import trio

from agentrail import ToolContext, plugins as p, tool
from agentrail.abc import MAX_RESULT_BYTES, Secret
from agentrail.cli.sessions_command import show_session, trace
from agentrail.cli.store_access import StorePlace
from agentrail.core.values.secret_encodings import secret_forms_of
from agentrail.core.wire.codec import encode_event
from agentrail.errors import AgentrailError, CycleFailed, ProviderError, Unrevivable
from agentrail.events import AgentEnd, AskUser, MessageDelta, SessionParked, ToolExecutionEnd
from agentrail.runtime.agent import Agent
from agentrail.stores.memory import MemoryStore
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.cancelling import crash
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.models import FunctionModel, Turn, calls, fails, says
from agentrail.testing.supervisors import open_nameless
from tests.runtime.rig import NoSandbox, calling, on_bounded_time, on_virtual_time, saying, until

PLAIN = "sk-canary-of-the-data-0815"
ODD = 'canary/+"quoted"\\<é>-4711'
KEY = "sk-canary-of-the-provider-23"
VARIABLE = "canary-of-a-variable-42"
SECRETS = (PLAIN, ODD, KEY, VARIABLE)
FORMS = sorted({form.encode() for secret in SECRETS for form in secret_forms_of(secret)})
SAID = "Secret(…)"

pytestmark = [pytest.mark.at(154), pytest.mark.at(155), pytest.mark.at(156)]


def found_in(data: bytes) -> list[bytes]:
    return [form for form in FORMS if form in data]


def planted() -> str:
    """All of them, in all forms that a program may give them."""
    coded = base64.b64encode(f"user:{PLAIN}".encode()).decode()
    return " ".join([*SECRETS, json.dumps([ODD]), quote(ODD), coded, repr(ODD)])


def all_files(place) -> Iterator[bytes]:
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
    name = "leaky"

    def init(self, note: str = "") -> tuple[str, ...]:
        return (note, planted())

    @p.on(p.AfterTool)
    def hear(self, event, state, ctx):
        return p.Emit("heard", {planted(): planted()}, (*state, event.result.text, planted()))

    @p.on(p.AfterTurn)
    def fail(self, event, state, ctx):
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
        case "cut":  # such that the middle, which is left out, begins in a key
            return "x" * (MAX_RESULT_BYTES // 2 - 20) + KEY + " y" * MAX_RESULT_BYTES
        case _:
            return f"it is {planted()}"


@pytest.fixture
def told(caplog):
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
async def test_what_is_planted_in_each_door_is_in_no_byte_that_was_written(
    tmp_path, told, capfd, monkeypatch
):
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
        fails(ProviderError(f"refused {planted()}"), after=f"most of {KEY[:-3]}"),
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
            await session.prompt(f"what is {planted()}?", client_id=f"id-{PLAIN}")
            await session.collect_reply()
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
                for form in ("jsonl", "markdown", "otlp")
            ]
            nursery.cancel_scope.cancel()
    written = [*all_files(tmp_path), told(), *exported, repr((status, history, events)).encode()]
    written += [encode_event(event) for event in events if event.meta is not None]
    monkeypatch.setattr(
        "agentrail.cli.store_access.send_logs_to_stderr", lambda **_: None
    )  # which are those of the tests
    capfd.readouterr()
    for one in ("s-1", "s-2"):
        for show in (show_session, trace):
            assert show(one, place=StorePlace(store=f"sqlite:{place / 'sessions.db'}")).value == 0
    assert trace("s-1", json=True, place=StorePlace(store=f"sqlite:{place / 'sessions.db'}")).value == 0
    printed = capfd.readouterr()
    written += [printed.out.encode(), printed.err.encode()]
    assert SAID in printed.out
    for data in written:
        assert [(form, data[max(0, data.find(form) - 300) :][:340]) for form in found_in(data)] == []
    heard = {type(event).__name__ for event in events}
    assert heard >= {
        "ToolProgress",
        "PluginFailed",
        "AskUser",
        "AgentError",
        "TitleGenerated",
        "StatusUpdate",
        "SubagentEvent",
    }


def words_of(history, number):
    """What the model said in its response of this number, from 0."""
    return [message.text for message in history if message.__class__.__name__ == "AssistantMessage"][number]


@on_virtual_time
async def test_a_stream_that_is_cut_at_every_byte_says_the_same():
    """In deltas, in the history, and in the journal: wherever a key is cut, and where the response fails in the middle of it."""
    cuts = range(1, len(KEY))
    turns = [says(f"it is {KEY[:cut]}", f"{KEY[cut:]}.") for cut in cuts]
    turns += [fails(ProviderError("broken"), after=f"it is {KEY[:cut]}") for cut in cuts]
    store = MemoryStore()
    async with open_nameless(lambda _n, _r: Sandbox(), store=store) as supervisor:
        session = await supervisor.start_session(model=Model(*turns), session_id="s-1", inline_tags=False)
        for _ in cuts:
            async with session.subscribe() as events:
                await session.prompt("and?")
                seen = await until(events, AgentEnd)
            assert (
                "".join([event.delta for event in seen if isinstance(event, MessageDelta)])
                == f"it is {SAID}."
            )
            assert await session.collect_reply() == f"it is {SAID}."
        for _ in cuts:
            with pytest.raises(CycleFailed):
                await session.ask("and?")
        written = b"".join([bytes(record.body) for record in store.read("", "s-1")])
    assert found_in(written) == []
    assert KEY[: len(KEY) // 2 + 1].encode() not in written


@on_virtual_time
async def test_a_result_that_is_too_long_is_not_cut_within_a_secret():
    """Half of one is not found any more: it is replaced before the middle is left out."""
    async with open_nameless(lambda _n, _r: Sandbox()) as supervisor:
        model = Model(calls(("leak", {"how": "cut"})), *[says("ok")] * 5)
        session = await supervisor.start_session(model=model, tools=[leak])
        async with session.subscribe() as events:
            await session.prompt("go")
            said = (await until(events, ToolExecutionEnd))[-1].result.text
    assert "bytes left out" in said
    assert KEY[:15] not in said


@pytest.mark.parametrize("cut", [10, 20])
@on_virtual_time
async def test_what_waits_is_let_go_at_an_abort(cut):
    """Less than half of a key as it is, more of it replaced; the history is the same when it is folded."""
    store = MemoryStore()
    model = Model(Turn(text=(f"it is {KEY[:cut]}",), pause_seconds=5), says("well"))
    async with open_nameless(lambda _n, _r: Sandbox(), store=store) as supervisor:
        session = await supervisor.start_session(model=model, session_id="s-1")
        async with session.subscribe() as events:
            await session.prompt("and?")
            await until(events, MessageDelta)
            await session.abort()
        said = words_of(await session.messages(), 0)
        assert said == f"it is {KEY[:cut] if cut == 10 else SAID}"
        past = await session.state_at((await session.journal())[-1].number)
        assert words_of(past.messages, 0) == said


@on_virtual_time
async def test_what_waits_is_let_go_when_a_stream_is_silent_and_what_follows_is_replaced():
    """No later than the session looks at the silence, ten seconds; a key gets through no pause, however long."""
    model = Model(Turn(text=(f"it is {KEY[:10]}", f"{KEY[10:]}. A bear"), pause_seconds=25))
    async with open_nameless(lambda _n, _r: Sandbox()) as supervisor:
        session = await supervisor.start_session(model=model)
        async with session.subscribe() as events:
            await session.prompt("and?")
            deltas = []
            async for event in events:
                deltas += [event.delta] if isinstance(event, MessageDelta) else []
                if isinstance(event, AgentEnd):
                    break
    assert deltas == ["it is ", KEY[:10], f"{SAID}. A bear"]


@on_bounded_time
async def test_code_of_the_application_has_the_value_and_the_core_its_handle():
    """A tool may use what a plugin may only know of."""
    seen = []

    @tool
    async def use(ctx: ToolContext) -> str:
        """Use the key."""
        key: Any = ctx.user_data["key"]
        seen.append(key)
        return f"used {key.reveal()}"

    class Looks(p.Plugin[int]):
        def init(self):
            return 0

        @p.on(p.AfterTool)
        def look(self, event, state, ctx):
            seen.append(ctx.user_data["key"])
            return p.Continue(state)

    store = MemoryStore()
    async with open_nameless(lambda _n, _r: NoSandbox(), store=FaultyStore(store)) as supervisor:
        session = await supervisor.start_session(
            model=calling("use", then="ok"),
            tools=[use],
            plugins=[Looks],
            user_data={"key": Secret(PLAIN)},
            session_id="s-1",
        )
        await session.ask("go")
        assert f"used {SAID}" in repr(await session.messages())
    assert seen == [Secret(PLAIN), SAID]
    async with open_nameless(lambda _n, _r: NoSandbox(), store=FaultyStore(store)) as supervisor:
        given = {"model": saying("back"), "tools": [use], "plugins": [Looks]}
        with pytest.raises(
            Unrevivable, match="user_data, which contains a Secret, whose value is never stored"
        ):
            await supervisor.resume_session("s-1", **given)
        session = await supervisor.resume_session("s-1", **given, user_data={"key": Secret(PLAIN)})
        assert await session.ask(f"is it {PLAIN}?") == "back"
    assert found_in(b"".join([bytes(record.body) for record in store.read("", "s-1")])) == []


@on_virtual_time
async def test_a_key_that_comes_with_a_request_or_a_switch_is_known_from_there_on():
    """Keys that change, and those of another model: also in the very stream that they were asked for."""

    class Rotating(FunctionModel):
        number = 0

        @property
        def secrets(self):
            return (f"rotated-key-{self.number:04}",)

    async with open_nameless(lambda _n, _r: NoSandbox()) as supervisor:

        def answer(request):
            model.number += 1
            return says(f"now {model.secrets[0]}", " rotated-key-0001")

        model = Rotating(answer)
        session = await supervisor.start_session(model=model)
        assert await session.ask("go") == f"now {SAID} {SAID}"
        assert await session.ask("go") == f"now {SAID} {SAID}"
        await session.switch_model(
            Model(says(KEY)), provider_opts={"headers": {"X-Token": "Bearer token-of-a-header"}}
        )
        assert await session.ask("a token-of-a-header") == SAID
        assert "token-of-a-header" not in repr(await session.messages())


@on_virtual_time
async def test_what_crashes_the_core_is_put_aside_without_secrets(told, monkeypatch):
    """A signal that cannot even be looked at; and the report of a session that crashed."""
    async with open_nameless(lambda _n, _r: Sandbox()) as supervisor:
        session = await supervisor.start_session(model=Model(says("ok"), says("ok")), restart="temporary")

        def broken(*_args):
            message = f"it was {KEY}"
            raise ValueError(message)

        with monkeypatch.context() as patch:
            patch.setattr("agentrail.runtime.signal_scrubber.settled", broken)
            with pytest.raises(AgentrailError) as caught:
                await session.prompt("go")
        assert found_in(str(caught.value).encode()) == []
        async with session.subscribe() as events:
            crash(session, f"crashed by {KEY}")
            parked = (await until(events, SessionParked))[-1]
    assert SAID in parked.reason
    assert found_in(parked.reason.encode()) == []
    assert found_in(told()) == []
    assert SAID in told().decode()


@on_virtual_time
async def test_a_session_that_knows_none_looks_once_and_makes_nothing():
    """What others pay for is nothing that it has."""
    async with open_nameless(lambda _n, _r: NoSandbox()) as supervisor:
        session = await supervisor.start_session(model=saying("ok"))
        assert await session.ask("sk-canary and so on") == "ok"
        cell = session._cell  # noqa: SLF001 - what it made
        assert cell.ports.withheld.known is None
        assert cell._cleaner is None  # noqa: SLF001 - the same
