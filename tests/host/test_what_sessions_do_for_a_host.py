"""What the kernel does for a host, seen through one: late rewrites, calls that were being judged, context that counts and is kept (8.16)."""

import itertools
from typing import Any

import pytest
import trio

from agentrail.abc import AtEnd
from agentrail.core.policy.budget import Budget
from agentrail.errors import RateLimited, StoreUnavailable
from agentrail.events import RequestStart
from agentrail.host import Allow, BeforeToolCall, HostPlugin, HostRequest
from agentrail.messages import CallId, ToolMessage
from agentrail.plugins import BeforeRequest, Continue, Hints, HumanApproval, plugin as session_plugin
from agentrail.providers.http import HttpClients
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import AnthropicMessages, OpenAIChat
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, calls, fails, says
from agentrail.testing.tools import RecordingTool
from tests.host.hosting import ANN, asked, hosting, profile
from tests.host.rig import plugin
from tests.host.test_host_context import giving, note, texts_of
from tests.runtime.rig import on_virtual_time

BOOK = calls(("shell", {"city": "Lisbon"}))


async def to_porto(event: BeforeToolCall) -> Allow:
    """Make Porto of Faro, always."""
    return Allow({"city": "Porto"}) if event.input["city"] == "Faro" else Allow()


async def shown(request: HostRequest) -> tuple[Any, dict[str, Any]]:
    await trio.sleep(1)
    (approval,) = (await request.session.status()).approvals
    return approval, dict(approval.arguments)


@on_virtual_time
@pytest.mark.host("H-092")
async def test_what_a_plugin_makes_of_an_edit_is_shown_before_it_runs():
    """A person wrote Faro, so Porto waits for them; approved, exactly that runs. If both never agree, they are given up after three rounds."""
    tool = RecordingTool(name="shell")
    model = ScriptedModel([BOOK, says("Done."), BOOK, says("Done.")])
    options = {"session_tools": [tool], "session_plugins": [HumanApproval]}
    async with hosting(model, plugin("travel", on_before_tool_call=to_porto), **options) as host:
        request = await asked(host, session_id="main")
        first, arguments = await shown(request)
        assert arguments == {"city": "Lisbon"}
        await request.session.approve(first.id, arguments={"city": "Faro"})
        second, arguments = await shown(request)
        assert (arguments, tool.calls) == ({"city": "Porto"}, [])
        assert second.id != first.id
        await request.session.approve(second.id)
        assert await request.outcome() == "completed"
        assert tool.calls == [{"city": "Porto"}]

        request = await asked(host, session_id="main")
        seen = []
        for _ in range(3):
            approval, arguments = await shown(request)
            seen.append(arguments["city"])
            await request.session.approve(approval.id, arguments={"city": "Faro"})
        assert await request.outcome() == "completed"
        assert seen == ["Lisbon", "Porto", "Porto"]
        messages = await request.session.messages()
    assert tool.calls == [{"city": "Porto"}]
    told = [one for one in messages if isinstance(one, ToolMessage)][-1]
    assert "arguments_unstable" in told.results[0].text
    assert "'travel'" in told.results[0].text


class Mortal:
    """A store of a process that can be killed: from then on nothing of it arrives."""

    is_immediate = True

    def __init__(self, inner: MemoryStore) -> None:
        self._inner = inner
        self.is_killed = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)

        def reached(*given: Any, **options: Any) -> Any:
            if self.is_killed:
                message = "killed"
                raise StoreUnavailable(message)
            return found(*given, **options)

        return reached if callable(found) else found


class Judge(HostPlugin):
    """Lets each call run, at once or never, and counts."""

    name = "judge"
    timeouts = {"on_before_tool_call": 1000.0}  # noqa: RUF012 - as a plugin author writes it

    def __init__(self, *, hangs: bool) -> None:
        self.hangs = hangs
        self.seen: list[tuple[str, CallId]] = []

    async def on_before_tool_call(self, event: BeforeToolCall) -> Allow:
        self.seen.append((event.tool_name, event.call_id))
        if self.hangs:
            await trio.sleep_forever()
        return Allow()


@on_virtual_time
@pytest.mark.host("H-093")
async def test_a_call_that_was_being_judged_when_its_process_died_is_judged_again_once():
    """It never ran there; behind the recovery it runs once, and has one result."""
    store = MemoryStore(lease_ms=0)
    dying, tools = Mortal(store), [RecordingTool(name="shell"), RecordingTool(name="shell")]
    model = ScriptedModel([BOOK, says("Done.")])
    judges = [Judge(hangs=True), Judge(hangs=False)]
    before = [profile(model, tools=[tools[0]])]
    async with hosting(None, judges[0], store=dying, profiles=before, drain_timeout=0) as host:
        request = await asked(host, session_id="main")
        await trio.sleep(1)
        assert judges[0].seen
        dying.is_killed = True
    after = [profile(model, tools=[tools[1]])]
    async with hosting(None, judges[1], store=store, profiles=after) as host:
        told = await host.wait_for_request("main", request.request_id, ANN, within=60)
        assert (told.status, told.text) == ("completed", "Done.")
        messages = await (await host.session("main", ANN)).messages()
    assert (tools[0].calls, tools[1].calls) == ([], [{"city": "Lisbon"}])
    assert judges[0].seen == judges[1].seen
    results = [one for message in messages if isinstance(message, ToolMessage) for one in message.results]
    assert [one.call_id for one in results] == [judges[1].seen[0][1]]
    assert not results[0].is_error


@on_virtual_time
@pytest.mark.host("H-094")
@pytest.mark.parametrize("is_enough", [False, True])
async def test_what_providers_add_counts_before_it_is_sent(is_enough):
    """50,000 tokens of a provider: with a budget below that no request goes out; with one above, its messages are counted."""
    most = "word " * 20_000
    model = ScriptedModel([says("Hi.")])
    desk = profile(
        model, budget=Budget(max_total_tokens=60_000 if is_enough else 40_000), max_output_tokens=100
    )
    async with hosting(None, profiles=[desk], context_providers=[giving(most), giving(most)]) as host:
        request = await asked(host, session_id="main")
        async with request.events() as events:
            started = [event async for event in events if isinstance(event, RequestStart)]
        outcome = await request.outcome()
    if is_enough:
        assert (outcome, len(model.requests)) == ("completed", 1)
        assert [(one.messages, one.context_messages) for one in started] == [(3, 2)]
    else:
        assert (outcome, model.requests, started) == ("failed", [], [])
        assert request.record.error is not None
        assert "budget" in f"{request.record.error}".lower()


def bodies_of(model: ScriptedModel) -> dict[str, list[bytes]]:
    vendors = {
        "anthropic": AnthropicMessages(ProviderOptions.parse({}), HttpClients()),
        "openai": OpenAIChat(ProviderOptions.parse({}), HttpClients()),
    }
    return {name: [one.encode(request) for request in model.requests] for name, one in vendors.items()}


def same_beginning(one: bytes, other: bytes) -> bytes:
    at = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
    return one[:at]


@on_virtual_time
@pytest.mark.host("H-095")
@pytest.mark.parametrize("changes", [False, True])
async def test_the_bytes_of_a_request_are_a_prefix_of_the_next(changes):
    """Providers make equal messages anew each time; what changes stands at the end, and there it breaks no prefix."""
    model = ScriptedModel([says(f"answer {number}") for number in range(4)])
    times = iter(range(100))

    async def end(_about: Any, _messages: Any) -> AtEnd:
        await trio.lowlevel.checkpoint()
        return AtEnd([note(f"it is {next(times)} o'clock")])

    providers = [giving("You know Faro."), *([end] if changes else [])]
    async with hosting(model, context_providers=providers) as host:
        for number in range(4):
            await (await asked(host, f"question {number}", session_id="main")).outcome()
    assert texts_of(model.requests[1])[:4] == ["You know Faro.", "question 0", "answer 0", "question 1"]
    sizes = [len(texts_of(request)) for request in model.requests]
    assert sizes == [2 * number + 2 + changes for number in range(4)]
    for bodies in bodies_of(model).values():
        for number, (one, later) in enumerate(itertools.pairwise(bodies)):
            said = f"question {number}".encode()
            same = same_beginning(one, later)
            assert len(same) >= one.rindex(said) + len(said)
            assert (b"o'clock" in same) is False


@on_virtual_time
@pytest.mark.host("H-097")
async def test_a_turn_that_is_tried_again_asks_its_providers_once():
    """And again behind a restart of the process: what they gave stands nowhere."""
    store, provider = MemoryStore(), giving("You know Faro.")
    broken = fails(RateLimited("slow down", retry_after_seconds=0.0))
    model = ScriptedModel([broken] * 3 + [says("Hi."), says("So", " it", " is.", pause_seconds=60.0)])
    options: dict[str, Any] = {"store": store, "context_providers": [provider], "drain_timeout": 0}
    async with hosting(model, **options) as host:
        assert await (await asked(host, session_id="main")).outcome() == "completed"
        assert [texts_of(request) for request in model.requests] == [["You know Faro.", "Hi"]] * 4
        assert len(provider.asked) == 1
        request = await asked(host, "And?", session_id="main")
        await trio.sleep(1)
        assert len(provider.asked) == 2
    async with hosting(ScriptedModel([says("Again.")]), **options) as host:
        told = await host.wait_for_request("main", request.request_id, ANN, within=60)
        assert (told.status, told.text) == ("completed", "Again.")
    assert len(provider.asked) == 3
    assert provider.asked[1][1] == provider.asked[2][1]


@session_plugin(init=lambda: 0, hooks=(BeforeRequest,))
def marks(event, state, ctx):
    """End the cached prefix behind the first message, and behind what stands in front of all."""
    return Continue(state, hints=Hints(cache_points=("system", 0)))


def marks_in(request: Any) -> list[str]:
    points = request.cache_points
    return [one if one == "system" else request.messages[one].content[0].text for one in points]


@on_virtual_time
@pytest.mark.host("H-098")
@pytest.mark.parametrize("at_end", [False, True])
async def test_cache_points_mark_the_same_messages_with_and_without_a_provider(at_end):
    """Positions are those of the conversation, whatever stands in front of it."""
    marked = []
    for providers in ([], [giving("a", "b", at_end=at_end)]):
        model = ScriptedModel([says("One."), says("Two.")])
        async with hosting(model, context_providers=providers, session_plugins=[marks]) as host:
            for said in ("first", "second"):
                await (await asked(host, said, session_id="main")).outcome()
        marked.append([marks_in(request) for request in model.requests])
        added = 2 if providers else 0
        assert [len(request.messages) for request in model.requests] == [1 + added, 3 + added]
    assert marked[0] == marked[1] == [["system", "first"]] * 2
