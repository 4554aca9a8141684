"""Providers of context of a host and of its plugins: in order, each within its time, and every failure told as its plugin's (8.3.5)."""

import logging
import operator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from agentrail.abc import MAX_CONTEXT_BYTES, AtEnd, Secret
from agentrail.events import CompactEnd, RequestStart
from agentrail.host.host_lifespan import HOOK, providers_of
from agentrail.host.plugin_chain import open_hook_runner
from agentrail.messages import AssistantMessage, CallId, Text, ToolCall, UserMessage
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import RecordingTool
from tests.host.hosting import asked, hosting
from tests.host.rig import Reports, hang, order, plugin, raising, shielded
from tests.runtime.rig import on_virtual_time, only, saying

OURS = {"tenant_id": "acme", "user_id": "ada"}


def note(text):
    return UserMessage(content=(Text(text=text),))


def giving(*texts, at_end=False):
    """A provider that gives these, and keeps what it was asked."""

    async def give(about, messages):
        await trio.lowlevel.checkpoint()
        give.asked.append((about, messages))
        given = [note(text) for text in texts]
        return AtEnd(given) if at_end else given

    give.asked = []
    return give


def texts_of(request):
    return [
        block.text for message in request.messages for block in message.content if isinstance(block, Text)
    ]


class Told(list[Any]):
    """What the application was told of failures: plugin, hook, and the error."""

    async def hear(self, *failure):
        self.append(failure)


@asynccontextmanager
async def hosted(app, *plugins, store=None, **options):
    async with open_hook_runner(**options) as runner, open_nameless(store=store) as supervisor:
        yield supervisor, providers_of(app, order(*plugins), runner), runner


async def ask(model, app, *plugins, user_data=OURS, **options):
    """Play one prompt; gives how long it took."""
    async with hosted(app, *plugins, **options) as (supervisor, providers, _):
        session = await supervisor.start_session(
            model=model, context_providers=providers, user_data=user_data
        )
        began = trio.current_time()
        assert await session.ask("Hi", timeout_seconds=None) == "fine"
        return trio.current_time() - began


@on_virtual_time
async def test_those_of_the_application_come_first_and_then_each_plugins():
    """In the order of the plugins; what is to stand at the end stands there."""
    model, asked = saying("fine"), giving("of a", at_end=True)
    await ask(
        model,
        [giving("of the app")],
        plugin("b", context_providers=[giving("of b"), giving("more of b")]),
        plugin("a", context_providers=[asked], priority=5),
    )
    assert texts_of(model.requests[0]) == ["of the app", "of b", "more of b", "Hi", "of a"]
    [(about, messages)] = asked.asked
    assert dict(about.user_data) == OURS
    assert about.session_id.startswith("s-")
    assert [message.content[0].text for message in messages] == ["Hi"]


@on_virtual_time
@pytest.mark.host("H-020")
async def test_without_providers_sessions_do_not_ask():
    """Not even for nothing."""
    async with hosted([], plugin("a", on_request_start=hang)) as (supervisor, providers, _):
        assert providers == ()
        session = await supervisor.start_session(model=saying("fine"), context_providers=providers)
        assert not session._cell.state.data.config.gathers_context  # noqa: SLF001 - what no caller sees


not_async = operator.is_
"""Which its code does not show: there is no Python code."""


@on_virtual_time
@pytest.mark.host("H-035")
@pytest.mark.parametrize("whose", ["plugin", "app"])
@pytest.mark.parametrize(
    ("bad", "kind", "seconds"),
    [
        (raising(ValueError("broken")), "ValueError", 0),
        (raising(BaseExceptionGroup("two", [ValueError(), OSError()])), "ExceptionGroup", 0),
        (hang, "HookTimeout", 10),
        (shielded(60), "HookTimeout", 11),
        (not_async, "TypeError", 0),
    ],
    ids=["raises", "raises two", "hangs", "shields itself", "is not async"],
)
async def test_one_that_fails_is_reported_once_and_the_others_are_kept(caplog, bad, kind, seconds, whose):
    """As its plugin's failure, or as the application's; the log has no second word of it."""
    model, reports = saying("fine"), Reports()
    app = [giving("first"), bad] if whose == "app" else [giving("first")]
    plugins = [plugin("bad", context_providers=[bad])] if whose == "plugin" else []
    with caplog.at_level(logging.WARNING):
        took = await ask(
            model,
            app,
            *plugins,
            plugin("last", context_providers=[giving("last")]),
            on_plugin_error=reports.hear,
        )
    assert texts_of(model.requests[0]) == ["first", "last", "Hi"]
    assert reports == [("bad" if whose == "plugin" else "(app)", HOOK, kind)]
    assert took == pytest.approx(seconds, abs=0.1)
    assert caplog.records == []


def made_of(name, make):
    """A provider of this name, which gives what a function makes of the conversation."""

    async def give(_about, messages):
        await trio.lowlevel.checkpoint()
        return make(messages)

    give.__name__ = give.__qualname__ = name
    return give


CALL = ToolCall(call_id=CallId("c"), name="t", arguments={})
TOO_MUCH = note("x" * (MAX_CONTEXT_BYTES + 1))
OF_A_MODEL = AssistantMessage(content=(CALL,), model="x:m")


@on_virtual_time
@pytest.mark.host("H-037")
@pytest.mark.parametrize(
    ("bad", "words", "kept"),
    [
        (
            made_of("echo", lambda past: [note("noon"), *past]),
            "echo: message 1 is dropped: it repeats the conversation",
            ["noon"],
        ),
        (
            made_of("calls", lambda _: [note("noon"), OF_A_MODEL]),
            "calls: message 1 is dropped: it is of type AssistantMessage",
            ["noon"],
        ),
        (
            made_of("much", lambda _: [note("noon"), TOO_MUCH]),
            "much: message 1 is dropped: it raises the total above 102,400 bytes",
            ["noon"],
        ),
        (made_of("no_list", lambda _: note("noon")), "no_list: it returned UserMessage", []),
    ],
)
async def test_what_may_not_be_added_is_left_out_and_reported(caplog, bad, words, kept):
    """The model sees the history once; what else its provider gave is added. The log has no second word of it."""
    model, told = saying("fine"), Told()
    with caplog.at_level(logging.WARNING):
        await ask(model, [], plugin("bad", context_providers=[bad]), on_plugin_error=told.hear)
    assert texts_of(model.requests[0]) == [*kept, "Hi"]
    [(name, hook, error)] = told
    assert (name, hook) == ("bad", HOOK)
    assert words in str(error)
    assert caplog.records == []


@on_virtual_time
@pytest.mark.host("H-038")
async def test_what_is_added_stands_in_no_list_and_no_journal():
    """Only its count and its digest do."""
    store, model = MemoryStore(), saying(*["fine"] * 6, "all was fine", "fine")
    async with hosted([], plugin("a", context_providers=[giving("Faro it is")]), store=store) as opened:
        supervisor, providers, _ = opened
        session = await supervisor.start_session(
            model=model, context_providers=providers, session_id="s", sandbox=MemorySandbox()
        )
        async with session.subscribe(kinds=[RequestStart]) as events:
            await session.ask("Hi")
            started = await anext(events)
        for _ in range(5):
            await session.ask("And?")
        assert all(texts_of(request)[0] == "Faro it is" for request in model.requests)
        async with only(session, CompactEnd) as ends:
            await session.compact()
            await anext(ends)
        assert len(model.requests) == 7
        assert "Faro" not in "".join(texts_of(model.requests[-1]))
        fork = await session.fork(model=model)
        said = [repr(message) for one in (session, fork) for message in await one.messages()]
    assert (started.context_messages, len(started.context_digest)) == (1, 64)
    assert len(said) > 2
    assert "Faro" not in "".join(said)
    records = store.read("", "s", 0, 10_000)
    assert len(records) > 20
    assert all(b"Faro" not in record.body for record in records)


@on_virtual_time
@pytest.mark.host("H-039")
async def test_each_model_request_of_a_cycle_asks_each_provider_again():
    """With the history as of then."""
    first, second = giving("one"), giving("two", at_end=True)
    model = ScriptedModel([calls(("record", {})), calls(("record", {})), says("done")])
    async with hosted([first], plugin("a", context_providers=[second])) as (supervisor, providers, _):
        session = await supervisor.start_session(
            model=model, context_providers=providers, tools=[RecordingTool()]
        )
        assert await session.ask("Hi") == "done"
    for provider in (first, second):
        assert [len(messages) for _, messages in provider.asked] == [1, 3, 5]


@on_virtual_time
@pytest.mark.host("H-088")
async def test_the_secrets_that_a_provider_was_given_are_in_no_log(caplog):
    """Of a session's user data, where the host was given nothing to tell it to; a short one too, which the log does not know by itself."""

    async def leak(about, messages):
        await trio.lowlevel.checkpoint()
        raise ValueError(f"key {about.user_data['key'].reveal()} was refused")  # noqa: EM102, TRY003

    async def leak_too(about, messages):
        await trio.lowlevel.checkpoint()
        return about.user_data["key"].reveal()

    with caplog.at_level(logging.WARNING):
        await ask(
            saying("fine"),
            [],
            plugin("a", context_providers=[leak, leak_too]),
            user_data={"key": Secret("s3cret")},
        )
    one, other = [record.getMessage() for record in caplog.records]
    assert one.startswith("host plugin 'a' failed in context_providers: ValueError: key Secret")
    assert other.startswith("host plugin 'a' failed in context_providers: WrongAnswer: ")
    assert "s3cret" not in caplog.text


@on_virtual_time
@pytest.mark.parametrize("is_added", [False, True], ids=["removed", "added"])
async def test_plugins_that_come_and_go_reach_sessions_that_began_before(is_added):
    """A new plugin's context did not reach them, and after the removal of the last one no session could be resumed."""
    store, session_id = MemoryStore(lease_ms=0), ""
    for has_plugin in (not is_added, is_added):
        model = saying("fine")
        plugins = [plugin("a", context_providers=[giving("It is noon.")])] if has_plugin else []
        async with hosting(model, *plugins, store=store) as host:
            request = await asked(host, **({"session_id": session_id} if session_id else {}))
            session_id = request.session_id
            assert await request.outcome() == "completed"
        assert ("It is noon." in texts_of(model.requests[0])) is has_plugin
