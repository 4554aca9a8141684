"""Plugins in a session that runs: the stack is asked, its answers are carried out, and it can be changed between cycles."""

import time
from typing import cast

import attrs
import pytest
import trio

from agentrail import plugins as p
from agentrail.core.policy.budget import Budget
from agentrail.core.protocol.request import TextDelta, UsageUpdate
from agentrail.errors import (
    CycleAborted,
    CycleFailed,
    OptionError,
    PluginError,
    ProviderError,
    SessionRefused,
)
from agentrail.events import PluginEvent, PluginSlow
from agentrail.messages import TokenUsage
from agentrail.runtime.plugin_requests import decide_usage_so_far
from agentrail.runtime.supervisor_lifespan import open_sessions
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.testing.models import FunctionModel, ScriptedModel, Turn, calls, fails, says
from agentrail.testing.plugins import PuppetPlugin, read_rule
from agentrail.testing.tools import HangingTool
from tests.runtime.doors import Reader
from tests.runtime.rig import only, saying


@attrs.frozen
class Limit:
    """How long a prompt may be."""

    words: int = 3


class Short(p.Plugin[Limit]):
    def init(self, words: int = 3) -> Limit:
        return Limit(words)

    @p.on(p.BeforePrompt)
    def judge(self, event: p.BeforePrompt, state: Limit, ctx: p.Context) -> p.Action[Limit]:
        if len(event.text.split()) > state.words:
            return p.Abort(f"more than {state.words} words", state)
        return p.Continue(state)


class Slow(p.Plugin[int]):
    def init(self) -> int:
        return 0

    @p.on(p.BeforePrompt)
    def dawdle(self, event: p.BeforePrompt, state: int, ctx: p.Context) -> p.Action[int]:
        end = time.perf_counter() + 0.06
        while time.perf_counter() < end:
            pass
        return p.Continue(state)


class Telling(Reader):
    @p.on(p.RequestDone)
    def take(self, event: p.RequestDone, state: str, ctx: p.Context) -> p.Action[str]:
        if isinstance(event.result, p.RequestFailed):
            return p.Emit("read", f"{event.result.error.code}: {event.result.error.message}", state)
        assert isinstance(event.result, p.FileText)
        text = event.result.text or "nothing"
        return p.Emit("read", text, text)


def puppet(name: str, **rules: str) -> PuppetPlugin:
    """A plugin that answers by rules; `BeforeTool__shell` stands for `BeforeTool.shell`."""
    read = tuple(read_rule(key.replace("__", "."), value) for key, value in rules.items())
    return PuppetPlugin(read, name=name)


async def test_plugins_come_and_go_between_cycles(supervisor):
    """An attached one is asked from the next prompt on, a detached one is not."""
    session = await supervisor.start_session(model=saying("a", "b"))
    await session.attach_plugin(Short)
    with pytest.raises(CycleAborted):
        await session.ask("one two three four")
    await session.reload_plugin((Short, {"words": 4}))
    await session.detach_plugin("Short")
    assert await session.ask("one two three four") == "a"
    with pytest.raises(PluginError, match="no plugin is named 'Short'"):
        await session.detach_plugin("Short")


async def test_an_unknown_plugin_is_refused_during_a_cycle(supervisor):
    """Its name is known to be unknown now, unless a change of plugins waits that may add it."""
    model = ScriptedModel([calls(("hang", {}))])
    session = await supervisor.start_session(model=model, tools=[HangingTool()])
    await session.prompt("a")
    await trio.testing.wait_all_tasks_blocked()
    with trio.fail_after(5):
        for name in ("", "Shor"):
            with pytest.raises(PluginError, match=f"no plugin is named '{name}'"):
                await session.detach_plugin(name)
        with pytest.raises(PluginError, match="no plugin is named 'Short'"):
            await session.reload_plugin(Short)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.attach_plugin, Short)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(session.detach_plugin, "Short")
            await trio.testing.wait_all_tasks_blocked()
            await session.abort()


async def test_a_slow_plugin_is_named_once(supervisor):
    """Over 50 ms: one event, and no more within a minute."""
    session = await supervisor.start_session(model=saying("a", "b"), plugins=[Slow])
    async with only(session, PluginSlow) as events:
        await session.ask("one")
        await session.ask("two")
        await session.stop()
        slow = [event async for event in events]
    assert [(event.plugin, event.hook) for event in slow] == [("Slow", "BeforePrompt")]
    assert slow[0].milliseconds >= 50


async def test_a_plugin_gets_the_file_that_it_asked_for(supervisor):
    """The hook does not wait; the answer comes as a hook event of its own."""
    files = MemorySandbox({"notes.txt": "buy milk"})
    session = await supervisor.start_session(model=saying("a", "b"), plugins=[Telling], sandbox=files)
    with trio.fail_after(60):
        async with only(session, PluginEvent) as events:
            await session.ask("one")
            assert (await anext(events)).payload == "buy milk"


async def test_a_session_that_a_plugin_refuses_is_not_started(supervisor):
    """Whoever starts it is told why, and its id is free; one that the plugin lets in begins."""
    bouncer = puppet("bouncer", SessionStarted="abort:not today")
    with pytest.raises(
        SessionRefused, match="'mine' was not started: refused by a plugin: not today"
    ) as caught:
        await supervisor.start_session(model=ScriptedModel([]), plugins=[bouncer], session_id="mine")
    assert caught.value.session_id == "mine"
    assert supervisor.sessions() == ()
    assert supervisor.statistics().started == 0
    greeter = puppet("greeter", SessionStarted="emit:hello")
    session = await supervisor.start_session(model=ScriptedModel([]), plugins=[greeter], session_id="mine")
    async with session.subscribe(kinds=[PluginEvent]) as events:
        assert (await anext(events)).name == "hello"


async def test_a_model_that_is_switched_to_or_falls_back_is_found_with_its_options():
    """Those of a plugin's action, or of the session for models of the same provider (5.3); another vendor never sees that key."""
    found: list[tuple[str, dict[str, object]]] = []

    def resolve(name, opts):
        found.append((name, dict(opts)))
        return saying("ok")

    async with open_sessions(resolve, lambda _name, _root: MemorySandbox()) as supervisor:
        for rule in ("model:a:two", 'model:a:three?{"timeout": 5}', "model:b:four"):
            session = await supervisor.start_session(
                model="a:one", provider_opts={"api_key": "k"}, plugins=[puppet("router", BeforeRequest=rule)]
            )
            assert await session.ask("go") == "ok"
    own = ("a:one", {"api_key": "k"})
    assert found == [
        *(own, ("a:two", {"api_key": "k"})),
        *(own, ("a:three", {"timeout": 5})),
        *(own, ("b:four", {})),
    ]
    found.clear()
    opts = {"api_key": "k", "base_url": "http://localhost:1"}
    async with open_sessions(resolve, lambda _name, _root: MemorySandbox()) as supervisor:
        await supervisor.start_session(
            model="a:one", provider_opts=opts, fallback_models=["a:two", "b:three", "a:one"]
        )
    assert found == [("a:one", opts), ("a:two", opts), ("b:three", {})]


class AsksAModel(p.Plugin[str]):
    def init(self, model: str | None = None) -> str:
        return model or ""

    @p.on(p.BeforePrompt)
    def look(self, event: p.BeforePrompt, state: str, ctx: p.Context) -> p.Action[str]:
        return p.Request(p.CallModel(prompt="Is it fine?", model=state or None), "judge", state)

    @p.on(p.RequestDone)
    def take(self, event: p.RequestDone, state: str, ctx: p.Context) -> p.Action[str]:
        if isinstance(event.result, p.RequestFailed):
            return p.Emit("told", event.result.error.code, state)
        assert isinstance(event.result, p.ModelAnswer)
        return p.Emit("told", event.result.text, state)


def crashes(error: Exception, *, after: str = "") -> Turn:
    """A turn that ends with what no provider may raise."""
    return fails(cast("ProviderError", error), after=after)


async def test_options_that_a_model_does_not_take_are_no_bug_of_its_provider():
    """A plugin switched to the model with them: the cycle fails with the fault, and no report of a bug is wanted."""

    def resolve(name, opts):
        if opts:
            raise OptionError([f"provider option {opts!r} does not exist"])
        return saying("ok")

    router = puppet("router", BeforeRequest='model:a:two?{"volume": 11}')
    async with open_sessions(resolve, lambda _name, _root: MemorySandbox()) as supervisor:
        session = await supervisor.start_session(model="a:one", plugins=[router])
        with pytest.raises(CycleFailed) as caught:
            await session.ask("go")
    assert caught.value.error.code == "option_error"
    assert caught.value.error.message == "a:two cannot be used: provider option {'volume': 11} does not exist"


@pytest.mark.parametrize(
    ("budget_tokens", "plugin_request", "told", "spent"),
    [
        (5000, says("yes"), "yes", 2 * 15),
        (500, says("never asked"), "budget_exceeded", 15),
        (5000, fails(ProviderError("busy")), "provider_error", 15),
        (5000, fails(ProviderError("cut"), after="ye"), "provider_error", 1003 + 15),
        (5000, crashes(KeyError("choices")), "provider_crashed", 15),
        (5000, crashes(ExceptionGroup("many", [OSError("gone")]), after="ye"), "provider_crashed", 1003 + 15),
    ],
)  # fmt: skip
async def test_what_a_plugin_asks_a_model_is_paid_from_the_budget(
    supervisor, budget_tokens, plugin_request, told, spent
):
    """Reserved before, counted after; a question that cannot be paid is not asked, and its plugin hears so (3.5)."""
    model = FunctionModel(lambda request: plugin_request if request.attempt.startswith("e") else says("done"))
    session = await supervisor.start_session(
        model=model,
        plugins=[AsksAModel],
        budget=Budget(max_total_tokens=budget_tokens),
        max_output_tokens=100,
    )
    with trio.fail_after(60):
        async with only(session, PluginEvent) as events:
            assert await session.ask("go") == "done"
            heard = await anext(events)
    assert heard.payload == told
    assert len(model.requests) == (1 if told == "budget_exceeded" else 2)
    assert (await session.status()).budget_left.tokens == budget_tokens - spent


async def test_a_model_that_cannot_even_be_found_is_an_answer():
    """Whoever makes providers has bugs too: the plugin hears of it, and its session goes on."""

    def resolve(name, opts):
        if name == "judge:one":
            message = "no such table"
            raise RuntimeError(message)
        return saying("done")

    async with open_sessions(resolve, lambda _name, _root: MemorySandbox()) as supervisor:
        session = await supervisor.start_session(
            model="a:one", plugins=[(AsksAModel, {"model": "judge:one"})]
        )
        with trio.fail_after(60):
            async with session.subscribe(kinds=[PluginEvent]) as events:
                assert await session.ask("go") == "done"
                assert (await anext(events)).payload == "provider_crashed"
        assert (await session.status()).restarts == 0


def test_what_a_broken_request_used_is_what_was_reported_last():
    """Text alone says nothing of it, so nobody knows; a report counts until a later one."""
    text, report = TextDelta("a"), UsageUpdate(TokenUsage(input=7))
    assert decide_usage_so_far(TokenUsage(), text) is None
    assert decide_usage_so_far(None, report) == TokenUsage(input=7)
    assert decide_usage_so_far(TokenUsage(input=7), text) == TokenUsage(input=7)
