"""Who inspects sees how things stand, and changes nothing by it: what sleeps is read in its journal and goes on sleeping."""

import json
from typing import Any

import pytest
import trio

from agentrail.errors import OptionError, SessionDown, SessionUnknown, Unrevivable
from agentrail.gateway import calls
from agentrail.gateway.app import ROUTES, create_app
from agentrail.gateway.calls import CallAnswer
from agentrail.host import Host, HostPlugin, Principal, RequestContext
from agentrail.plugins import Action, AfterResponse, Context, Continue, Plugin, on
from agentrail.runtime.glancing import phase_of
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, calls as model_calls, says
from agentrail.testing.tools import RecordingTool
from tests.gateway.web import error_of, serving
from tests.host.hosting import ANN, BOB, answering, asked, hosting, profile
from tests.runtime.rig import on_bounded_time, on_virtual_time

OPERATOR = Principal(tenant_id="acme", user_id="olga", scopes=frozenset({"use", "inspect"}))
STRANGER = Principal(tenant_id="else", user_id="eve", scopes=frozenset({"use", "inspect"}))


def read(answer: CallAnswer) -> Any:
    """What a call says, as a client reads it."""
    return json.loads(answer.body)


async def all_of(host: Host, call: Any, session_id: str, page: int, of: str) -> list[Any]:
    """All pages of a call, one after the other."""
    found: list[Any] = []
    after: int | None = 0
    while after is not None:
        told = read(await call(host, OPERATOR, session_id, after=after, limit=page))
        assert len(told[of]) <= page
        found += told[of]
        after = told["next"]
    return found


@on_bounded_time
async def test_a_look_at_what_sleeps_wakes_nothing(tmp_path):
    """Behind a restart too: journal and conversation are those that its handle gave, in pages; so are those of one that has ended."""
    store = f"sqlite:{tmp_path}/a.db"
    model = ScriptedModel([model_calls(("book", {})), says("Booked."), says("Bye.")])
    profiles = [profile(model, tools=[RecordingTool(name="book")])]
    async with hosting(None, store=store, profiles=profiles) as host:
        await (await asked(host, session_id="main")).outcome()
        await (await asked(host, "Bye", by=BOB, session_id="gone")).outcome()
        await host.quiet()
        session = await host.session("main", ANN)
        messages = await session.messages()
        entries = await session.journal()
        usage = (await session.status()).usage
        await host.delete_session("gone", BOB)
    async with hosting(None, store=store, profiles=profiles) as host:
        shown = await all_of(host, calls.inspect_messages, "main", 3, "messages")
        assert len(shown) == len(messages) == 4
        assert [one["role"] for one in shown] == ["user", "assistant", "tool", "assistant"]
        used = read(await calls.inspect_messages(host, OPERATOR, "main"))["usage"]
        assert used["output"] == usage.output > 0
        trace = await all_of(host, calls.inspect_trace, "main", 2, "entries")
        assert [one["number"] for one in trace] == [*range(1, len(trace) + 1)]
        assert [one["hash"] for one in trace[: len(entries)]] == [one.hash for one in entries]
        assert any(line.startswith("run_tool") for one in trace for line in one["does"])
        assert all(one["at_ms"] > 0 for one in trace)
        assert (await all_of(host, calls.inspect_trace, "gone", 50, "entries"))[-1]["kind"] == "closed"
        assert len(await all_of(host, calls.inspect_messages, "gone", 50, "messages")) == 2
        for name in ("main", "gone"):
            with pytest.raises(SessionDown):
                host.supervisor.session(name, scope="acme")
        for call in (calls.inspect_trace, calls.inspect_messages):
            with pytest.raises(SessionUnknown):
                await call(host, STRANGER, "main")
        listed = read(await calls.inspect_sessions(host, OPERATOR))["sessions"]
        assert [(one["session_id"], one["phase"]) for one in listed] == [("main", "asleep")]


@on_virtual_time
async def test_one_that_sleeps_beside_its_handle_sleeps_on():
    """Idle for long enough it has left memory; a look reads its journal."""
    async with hosting(answering("One."), store="memory:", idle_after=60.0) as host:
        request = await asked(host, session_id="main")
        await request.outcome()
        await host.quiet()
        awake = read(await calls.inspect_messages(host, OPERATOR, "main"))
        await trio.sleep(200)
        assert phase_of(request.session) == "asleep"
        assert read(await calls.inspect_messages(host, OPERATOR, "main")) == awake
        assert read(await calls.inspect_trace(host, OPERATOR, "main"))["entries"]
        assert phase_of(request.session) == "asleep"


@on_virtual_time
async def test_without_a_store_there_is_no_journal_to_be_read():
    """That is said; the conversation is there as long as its session is."""
    async with hosting(answering("One.")) as host:
        await (await asked(host, session_id="main")).outcome()
        assert len(read(await calls.inspect_messages(host, OPERATOR, "main"))["messages"]) == 2
        with pytest.raises(OptionError, match="store"):
            await calls.inspect_trace(host, OPERATOR, "main")


class Nursing(HostPlugin):
    """Does not come back, and holds on."""

    name = "nursing"
    timeouts = {"on_request_start": 0.5}  # noqa: RUF012 - as a plugin author writes it
    done: trio.Event

    async def on_request_start(self, ctx: RequestContext) -> None:
        """Take no notice of a cancellation."""
        with trio.CancelScope(shield=True):
            await self.done.wait()


@on_virtual_time
async def test_the_tree_says_its_strategy_and_plugins_what_is_stuck():
    """The root is a supervisor, a session a worker; a hook that does not come back is named, with how often it failed."""
    nursing = Nursing()
    nursing.done = trio.Event()
    async with hosting(answering("One."), nursing) as host:
        await (await asked(host, session_id="main")).outcome()
        tree = read(await calls.inspect_tree(host, OPERATOR))
        assert (tree["kind"], tree["strategy"]) == ("supervisor", "dynamic")
        (session,) = tree["children"]
        assert (session["id"], session["strategy"], session["phase"], session["restarts"]) == (
            "main",
            None,
            "idle",
            0,
        )
        (told,) = read(await calls.inspect_plugins(host, OPERATOR))["plugins"]
        assert (told["stuck_hook"], told["failures"]) == ("on_request_start", 1)
        nursing.done.set()
        await trio.sleep(1)
        (told,) = read(await calls.inspect_plugins(host, OPERATOR))["plugins"]
        assert told["stuck_hook"] is None


@on_bounded_time
async def test_an_inspector_that_is_off_is_as_unknown_as_any_path():
    """Also on the page of the interface; and what is no answer is refused."""
    paths = [route.path.replace("{session_id}", "main") for route in ROUTES if route.scope == "inspect"]
    assert len(paths) == 9
    async with serving(answering("a"), inspector=False) as web:
        await web.post("/sessions", {"session_id": "main"})
        for path in paths:
            error_of(await web.client.get(path), 404, "route_unknown")
        page = (await web.client.get("/openapi.json")).json()["paths"]
        assert not [path for path in page if "inspect" in path]
        assert (await web.client.get("/sessions/main")).status_code == 200
    with pytest.raises(OptionError, match="inspector is 'no'"):
        create_app(profiles=[profile(answering())], inspector="no")


@on_bounded_time
async def test_the_address_that_is_printed_says_what_is_there():
    """Without a token, below whatever path: each place that it names is one."""
    for base in ("", "/agents"):
        async with serving(answering("a"), auth=lambda _: None, base_path=base) as web:
            told = (await web.client.get(f"{base}/")).json()
            assert told.pop("service") == "agentrail"
            assert told.pop("socket") == f"{base}/ws"
            assert sorted(told) == ["health", "interface", "ready"]
            for path in told.values():
                assert (await web.client.get(path)).status_code == 200


def test_no_option_does_nothing():
    """An operator who asks for what there is not is told, and not left to wonder; also where a name is nearly one."""
    for name in ("consoles", "webhook"):
        with pytest.raises(OptionError, match=f"there is no option '{name}'"):
            create_app(profiles=[profile(answering())], **{name: True})


class Counts(Plugin[int]):
    """Counts answers; made with an argument, so that no journal could make it again."""

    def __init__(self, word: str) -> None:
        """Count those with a word."""
        self.name = f"counts-{word}"
        self._word = word

    def init(self) -> int:
        """Begin with none."""
        return 0

    @on(AfterResponse)
    def after(self, event: AfterResponse, state: int, ctx: Context) -> Action[int]:
        """Count."""
        return Continue(state + (self._word in event.message.text))


@on_virtual_time
async def test_a_look_finds_the_plugins_of_its_profile():
    """Their code stands in no journal; where the profile is gone that is said, and no caller's fault."""
    store, model = MemoryStore(), answering("One.")
    profiles = [profile(model, plugins=[Counts("One")]), profile(model, "other")]
    async with hosting(None, store=store, profiles=profiles) as host:
        await (await asked(host, session_id="main")).outcome()
    async with hosting(None, store=store, profiles=profiles) as host:
        assert len(read(await calls.inspect_messages(host, OPERATOR, "main"))["messages"]) == 2
    async with hosting(None, store=store, profiles=profiles[1:]) as host:
        with pytest.raises(Unrevivable, match="counts-One"):
            await calls.inspect_messages(host, OPERATOR, "main")
        assert read(await calls.inspect_trace(host, OPERATOR, "main"))["entries"]
