"""Arguments of a wrong type: each call of a handle says so at the caller, and nothing of it reaches the session."""

import inspect
import math
import re
from functools import reduce
from typing import Any

import pytest
import trio

from agentrail.abc import Ok
from agentrail.errors import AgentrailError, OptionError, SessionDown
from agentrail.events import AgentEnd, AgentStart
from agentrail.runtime.session_handle import Session
from agentrail.testing.models import ScriptedModel
from agentrail.testing.plugins import PuppetPlugin
from agentrail.testing.tools import RecordingTool
from tests.runtime.rig import open_bare, saying


class Later:
    """Its call returns a coroutine, which counts as true."""

    async def __call__(self, event: object) -> bool:
        return False


ODD: Any = {1, 2}  # what no type checker would let through

# What is wrong with each, as a reader is told.
WRONG = {
    "ask": [
        (lambda s: s.ask("Hi", timeout_seconds="5"), "timeout_seconds is '5': expected a number from 0, or None"),
        (lambda s: s.ask("Hi", timeout_seconds=True), "timeout_seconds is True: expected a number from 0, or None"),
        (lambda s: s.ask("Hi", timeout_seconds=math.nan), "timeout_seconds is nan: expected a number from 0, or None"),
        (lambda s: s.ask("Hi", timeout_seconds=-1), "timeout_seconds is -1: expected a number from 0, or None"),
        (lambda s: s.ask("Hi", wait_for_people="x"), "wait_for_people is 'x': expected True or False"),
        (lambda s: s.ask("Hi", timeout_seconds=10**400), f"timeout_seconds is {10**400!r:.200}: expected a number from 0, or None"),
    ],
    "run": [
        (lambda s: s.run("Hi", timeout_seconds="5"), "timeout_seconds is '5': expected a number from 0, or None"),
        (lambda s: s.run("Hi", wait_for_people=1), "wait_for_people is 1: expected True or False"),
    ],
    "stream": [
        (lambda s: s.stream("Hi", kinds=5), "kinds is 5: expected classes of events"),
        (lambda s: s.stream("Hi", kinds=[[AgentEnd]]), "kinds has [<class 'agentrail.events.session_events.AgentEnd'>]: expected classes of events"),
        (lambda s: s.stream("Hi", deltas="no"), "deltas is 'no'"),
        (lambda s: s.stream("Hi", raise_on_failure=1), "raise_on_failure is 1"),
        (lambda s: s.stream("Hi", on_leave="stop"), "on_leave is 'stop': expected 'go_on' or 'abort'"),
        (lambda s: s.stream("Hi", buffer=0), "buffer is 0: expected a whole number >= 1"),
    ],
    "wait_for": [
        (lambda s: s.wait_for(5), "what is 5: expected an event class, or a function of one event"),
        (lambda s: s.wait_for(s.wait_for), "what is <bound method"),
        (lambda s: s.wait_for(Later()), "what is <tests.runtime.test_wrong_types.Later object"),
        (lambda s: s.wait_for(AgentEnd, wait_for_people=None), "wait_for_people is None: expected True or False"),
        (lambda s: s.wait_for(str), "what is the class str: expected an event class, such as AgentEnd"),
        (lambda s: s.wait_for(AgentEnd, timeout_seconds=math.nan), "timeout_seconds is nan: expected a number from 0, or None"),
    ],
    "prompt": [
        (lambda s: s.prompt("Hi", client_id=5), "client_id is 5: expected 1 to 128 of A-Z a-z 0-9 . _ : @ + -, the first a letter or digit, without '..'"),
        (lambda s: s.prompt("Hi", client_id="a..b"), "client_id is 'a..b': expected 1 to 128 of A-Z"),
        (lambda s: s.prompt("Hi", digest=5), "digest is 5: expected a SHA-256 in hexadecimal, 64 of 0-9 a-f, or None"),
        (lambda s: s.prompt("Hi", digest="F" * 64), f"digest is {'F' * 64!r}: expected a SHA-256"),
        (lambda s: s.prompt("Hi", digest="0" * 63), f"digest is {'0' * 63!r}: expected a SHA-256"),
        (lambda s: s.prompt("Hi", settings=5), "settings is 5: expected PromptSettings, or a mapping such as {'temperature': 0.2}"),
        (lambda s: s.prompt("Hi", settings={"temprature": 1}), "there is no setting 'temprature', did you mean 'temperature'"),
        (lambda s: s.prompt("Hi", settings={7: 1}), "there is no setting 7, expected one of instructions, max_cost_usd,"),
        (lambda s: s.prompt("Hi", settings={"temperature": "hot"}), "settings: temperature is 'hot': expected a number from 0 to 2"),
        (lambda s: s.prompt("Hi", settings={"temperature": math.nan}), "settings: temperature is nan: expected a number from 0 to 2"),
        (lambda s: s.prompt("Hi", settings={"temperature": True}), "settings: temperature is True: expected a number from 0 to 2"),
        (lambda s: s.prompt("Hi", settings={"top_p": 1.5}), "settings: top_p is 1.5: expected a number from 0 to 1"),
        (lambda s: s.prompt("Hi", settings={"max_output_tokens": 0}), "settings: max_output_tokens is 0: expected a whole number >= 1"),
        (lambda s: s.prompt("Hi", settings={"stop": ["a", ""]}), "settings: stop is ['a', '']: expected a text or up to 16 of them"),
        (lambda s: s.prompt("Hi", settings={"reasoning": "much"}), "settings: reasoning is 'much': expected off, low, medium, high or a number of tokens"),
        (lambda s: s.prompt("Hi", settings={"response_format": "json"}), "settings: response_format is 'json': expected a JSON Schema as a dict, or None"),
        (lambda s: s.prompt("Hi", settings={"response_format": {"type": "objekt"}}), "settings: response_format "),
        (lambda s: s.prompt("Hi", settings={"response_format": {5: "a"}}), "settings: response_format "),
        (lambda s: s.prompt("Hi", settings={"response_format": {"type": {5: "a"}}}), "settings: response_format "),
        (lambda s: s.prompt("Hi", settings={"tools": 7}), "settings: tools is 7: expected several client tools"),
        (
            lambda s: s.prompt("Hi", settings={"temperature": 3, "top_p": -1}),
            "settings: temperature is 3: expected a number from 0 to 2; settings: top_p is -1: expected a number from 0 to 1",
        ),
        (lambda s: s.prompt("Hi", via=5), "via is 5: expected a name such as 'http', 1 to 32 of a-z 0-9 . _ -, or None"),
        (lambda s: s.prompt("Hi", via=""), "via is '': expected a name such as 'http'"),
        (lambda s: s.prompt("Hi", via="h" * 33), f"via is {'h' * 33!r}: expected a name such as 'http'"),
        (lambda s: s.prompt("Hi", via="http\n"), "via is 'http\\n': expected a name such as 'http'"),
        (
            lambda s: s.prompt("Hi", request_id=b"r"),
            "request_id is b'r': expected 1 to 128 of A-Z a-z 0-9 . _ : @ + -, the first a letter or digit, without '..', or None",
        ),
        (lambda s: s.prompt("Hi", request_id="-r"), "request_id is '-r': expected 1 to 128"),
        (lambda s: s.prompt("Hi", request_id="r..s"), "request_id is 'r..s': expected 1 to 128"),
        (lambda s: s.prompt("Hi", request_id="r" * 129), f"request_id is {'r' * 129!r:.80}: expected 1 to 128"),
        (lambda s: s.prompt("Hi", via=1, request_id=2), "via is 1: expected a name such as 'http', 1 to 32 of a-z 0-9 . _ -, or None; request_id is 2: expected 1"),
    ],
    "go_on": [
        (lambda s: s.go_on(settings=["temperature"]), "settings is ['temperature']: expected PromptSettings"),
        (lambda s: s.go_on(client_id=5), "client_id is 5: expected 1 to 128 of A-Z a-z 0-9 . _ : @ + -, the first a letter or digit, without '..'"),
        (lambda s: s.go_on(via="HTTP"), "via is 'HTTP': expected a name such as 'http'"),
        (lambda s: s.go_on(request_id=5), "request_id is 5: expected 1 to 128"),
        (lambda s: s.go_on(digest=b""), "digest is b'': expected a SHA-256 in hexadecimal"),
    ],
    "journal": [
        (lambda s: s.journal("1"), "after is '1': expected a whole number >= 0"),
        (lambda s: s.journal("1" * 999), f"after is {'1' * 999!r:.200}: expected a whole number >= 0"),
        (lambda s: s.journal(), "a journal needs a store: open_supervisor(store='sqlite:')"),
        (lambda s: s.journal(-1, 0), "after is -1: expected a whole number >= 0; limit is 0: expected a whole number from 1 to 10000"),
    ],
    "turns": [
        (lambda s: s.turns("1"), "limit is '1': expected a whole number from 1 to 10000"),
        (lambda s: s.turns(0), "limit is 0: expected a whole number from 1 to 10000"),
        (lambda s: s.turns(), "a journal needs a store: open_supervisor(store='sqlite:')"),
    ],
    "state_at": [
        (lambda s: s.state_at(None), "number is None: expected a whole number >= 1"),
        (lambda s: s.state_at("1"), "number is '1': expected a whole number >= 1"),
        (lambda s: s.state_at(1), "a journal needs a store: open_supervisor(store='sqlite:')"),
    ],
    "fork": [
        (lambda s: s.fork("1"), "at is '1': expected a whole number >= 1"),
        (lambda s: s.fork(1, files=1), "files is 1: expected True or False"),
        (lambda s: s.fork(1, turn=1), "a number (1) and a turn (1) are both given: give one of them"),
        (lambda s: s.fork(), "a journal needs a store"),
    ],
    "rewind": [
        (lambda s: s.rewind(), "no target given: give the number of a record, or turn="),
        (lambda s: s.rewind(1, files="all"), "files is 'all': expected True or False"),
        (lambda s: s.rewind(1, files=True, force=None), "force is None: expected True or False"),
        (lambda s: s.rewind(1, force=True), "force applies only to files: give files=True too"),
        (lambda s: s.rewind(turn=1.5), "turn is 1.5: expected a whole number >= 1"),
        (lambda s: s.rewind(1), "a journal needs a store"),
    ],
    "receipt_of": [
        (lambda s: s.receipt_of(None), "client_id is None: expected 1 to 128 of A-Z a-z 0-9 . _ : @ + -, the first a letter or digit, without '..'"),
        (lambda s: s.receipt_of("my message"), "client_id is 'my message': expected 1 to 128 of A-Z"),
        (lambda s: s.receipt_of("c" * 129), f"client_id is {'c' * 129!r:.80}: expected 1 to 128 of A-Z a-z 0-9 . _ : @ + -, the first a letter or digit, without '..'"),
        (lambda s: s.receipt_of("c", digest="no"), "digest is 'no': expected a SHA-256 in hexadecimal, 64 of 0-9 a-f, or None"),
    ],
    "steer": [
        (lambda s: s.steer("Hi", client_id=""), "client_id is '': expected 1 to 128 of A-Z a-z 0-9 . _ : @ + -, the first a letter or digit, without '..'"),
        (lambda s: s.steer("Hi", via=True), "via is True: expected a name such as 'http'"),
        (lambda s: s.steer("Hi", request_id=""), "request_id is '': expected 1 to 128"),
    ],
    "collect_reply": [
        (lambda s: s.collect_reply(wait_for_people=[]), "wait_for_people is []: expected True or False"),
        (lambda s: s.collect_reply(timeout_seconds=[1]), "timeout_seconds is [1]: expected a number from 0, or None"),
    ],
    "abort": [
        (lambda s: s.abort(5), "reason is 5: expected a text"),
        (lambda s: s.abort(kill_tools=["all"]), "kill_tools is ['all']: expected 'killable', 'all' or 'none'"),
        (lambda s: s.abort(clear_queue="no"), "clear_queue is 'no': expected True or False"),
        (lambda s: s.abort(wait=5.0), "wait is 5.0: expected True or False"),
    ],
    "abort_tool": [
        (lambda s: s.abort_tool(5), "call_id is 5: expected a text"),
        (lambda s: s.abort_tool("c1", 5), "reason is 5: expected a text"),
    ],
    "approve": [
        (lambda s: s.approve(None), "approval_id is None: expected a text"),
        (lambda s: s.approve("a1", kind=["once"]), "kind is ['once']: expected 'once' or 'always'"),
        (lambda s: s.approve("a1", arguments=[1]), "arguments is [1]: expected a dict, or None for the call's own arguments"),
        (lambda s: s.approve("a1", arguments={"a": [math.nan]}), "arguments.a[0] is nan, which JSON cannot represent"),
        (lambda s: s.approve("a1", arguments={"a": b"x"}), "arguments.a is a bytes, which is not JSON"),
        (lambda s: s.approve("a1", auto_resume="no"), "auto_resume is 'no': expected True or False"),
    ],
    "reject": [
        (lambda s: s.reject(["a1"]), "approval_id is ['a1']: expected a text"),
        (lambda s: s.reject("a1", 5), "reason is 5: expected a text"),
        (lambda s: s.reject("a1", auto_resume=1), "auto_resume is 1: expected True or False"),
    ],
    "respond": [
        (lambda s: s.respond(5, "yes"), "ref is 5: expected a text"),
        (lambda s: s.respond("a1", 1.0), "response is 1.0: expected a text, the index of an option, or a dict for a form"),
        (lambda s: s.respond("a1", response=True), "response is True: expected a text, the index of an option, or a dict for a form"),
        (lambda s: s.respond("a1", None), "response is None"),
        (lambda s: s.respond("a1", {"a": object()}), "response.a is a object"),
        (lambda s: s.respond("a1", {"a": math.nan}), "response.a is nan"),
        (lambda s: s.respond("a1", {"a": "x" * 200_000}), "response has more than 100,000 characters"),
    ],
    "revoke_rule": [
        (lambda s: s.revoke_rule(5), "rule_id is 5: expected a text"),
    ],
    "break_on": [(lambda s: s.break_on(5), "tool is 5: expected a text")],
    "unbreak": [(lambda s: s.unbreak(None), "tool is None: expected a text")],
    "decline": [
        (lambda s: s.decline(5), "ref is 5: expected a text"),
        (lambda s: s.decline("a1", 5), "reason is 5: expected a text"),
    ],
    "answer": [
        (lambda s: s.answer(5, Ok(text="yes")), "ref is 5: expected a text"),
        (lambda s: s.answer("a1", "yes"), "outcome is 'yes': expected Ok('…') or Error"),
        (lambda s: s.answer("a1", Ok(text=ODD)), "outcome has the text {1, 2}: expected a text"),
        (lambda s: s.answer("a1", Ok(text="x", details=ODD)), "outcome.details"),
        (lambda s: s.answer("a1", Ok(text="x", details="x" * 2_000_000)), "outcome.details has more than 1,000,000 characters"),
    ],
    "switch_model": [
        (lambda s: s.switch_model(None), "model is None: expected a model string or a provider"),
        (lambda s: s.switch_model(ScriptedModel), f"model is {ScriptedModel!r}: expected a model string or a provider"),
        (
            lambda s: s.switch_model(saying("x"), "sk-a-key"),
            "provider_opts is of type str: expected a mapping, such as {'api_key': …}, or None",
        ),
    ],
    "attach_tools": [
        (lambda s: s.attach_tools(["read"]), "['read'] is not a tool: expected tools as separate arguments, such as functions decorated with @agentrail.tool"),
        (lambda s: s.attach_tools(print), f"{print!r} is not a tool: expected tools as separate arguments, such as functions decorated with @agentrail.tool"),
    ],
    "replace_tools": [
        (lambda s: s.replace_tools(RecordingTool), f"{RecordingTool!r} is not a tool: expected tools as separate arguments, such as functions decorated with @agentrail.tool"),
    ],
    "detach_tools": [
        (
            lambda s: s.detach_tools(["record"]),
            "['record'] is not a tool name: expected texts as separate arguments, such as detach_tools('read_file', 'grep')",
        ),
        (lambda s: s.detach_tools("record", None), "None is not a tool name: expected texts as separate arguments, such as detach_tools('read_file', 'grep')"),
    ],
    "update_plugin_opts": [(lambda s: s.update_plugin_opts(5), "plugin is 5: expected a text")],
    "detach_plugin": [(lambda s: s.detach_plugin({}), "name is {}: expected a text")],
    "compact": [(lambda s: s.compact(5), "reason is 5: expected a text")],
    "report_tool_source": [
        (lambda s: s.report_tool_source("", "ready"), "source is '': expected a name of 1 to 200 characters"),
        (lambda s: s.report_tool_source("s" * 201, "ready"), "source is 'sss"),
        (lambda s: s.report_tool_source(None, "ready"), "source is None: expected a name of 1 to 200 characters"),
        (
            lambda s: s.report_tool_source("mcp:files", "broken"),
            "state is 'broken': expected one of connecting, ready, restarting, parked, needs_login, changed, closed",
        ),
        (lambda s: s.report_tool_source("mcp:files", ["ready"]), "state is ['ready']: expected one of connecting"),
        (lambda s: s.report_tool_source("mcp:files", "ready", reason=5), "reason is 5: expected a text"),
        (
            lambda s: s.report_tool_source("mcp:files", "closed", reason="x" * 1_001),
            "reason has 1,001 characters: expected at most 1,000, so shorten it",
        ),
    ],
    "stop": [
        (lambda s: s.stop(None), "reason is None: expected a text"),
        (lambda s: s.stop(timeout_seconds="5"), "timeout_seconds is '5': expected a number from 0, or None"),
    ],
    "subscribe": [
        (lambda s: s.subscribe(deltas="no"), "deltas is 'no': expected True or False"),
        (lambda s: s.subscribe(kinds=5), "kinds is 5: expected classes of events"),
        (lambda s: s.subscribe(kinds=AgentEnd), f"kinds is {AgentEnd!r}: expected classes of events, such as [AgentEnd], or None"),
        (lambda s: s.subscribe(kinds=["agent_end"]), "kinds has 'agent_end': expected classes of events, such as AgentEnd"),
        (lambda s: s.subscribe(after="1"), "after is '1': expected a whole number >= 0"),
        (lambda s: s.subscribe(after=-1), "after is -1: expected a whole number >= 0"),
        (lambda s: s.subscribe(after=True), "after is True: expected a whole number >= 0"),
        (lambda s: s.subscribe(after=1.0), "after is 1.0: expected a whole number >= 0"),
        (lambda s: s.subscribe(buffer=0), "buffer is 0: expected a whole number >= 1"),
        (lambda s: s.subscribe(buffer=1.5), "buffer is 1.5: expected a whole number >= 1"),
        (lambda s: s.subscribe(buffer=True), "buffer is True: expected a whole number >= 1"),
    ],
}  # fmt: skip

TAKES_PLUGINS = {"attach_plugin": Session.attach_plugin, "reload_plugin": Session.reload_plugin}
"""They refuse with what a start does: `PluginError`."""


def calls_of_a_handle():
    methods = dict(inspect.getmembers(Session, inspect.isfunction))
    return {name: inspect.signature(value).parameters for name, value in methods.items() if name[0] != "_"}


def test_no_call_is_forgotten():
    """Every call of the handle that takes arguments has a row here."""
    takes = {name for name, parameters in calls_of_a_handle().items() if len(parameters) > 1}
    assert takes == {*WRONG, *TAKES_PLUGINS}


@pytest.mark.parametrize("name", WRONG)
async def test_an_argument_of_a_wrong_type_is_named(supervisor, name):
    """`OptionError` with what it got and what it takes; nothing is published, and the session is as it was."""
    session = await supervisor.start_session(model=saying("fine"), tools=[RecordingTool()])
    for call, words in WRONG[name]:
        with trio.fail_after(60), pytest.raises(OptionError) as caught:
            await call(session)
        assert str(caught.value).startswith(words.removesuffix("@agentrail.tool"))
        assert "sk-a-key" not in str(caught.value)
        assert (await session.status()).last_seq == 1, words
    assert await session.ask("Are you all right?") == "fine"


AFTER = {
    "go_on": lambda s: s.go_on(),
    "receipt_of": lambda s: s.receipt_of("web-1"),
    "prompt": lambda s: s.prompt("Hi"),
    "ask": lambda s: s.ask("Hi"),
    "run": lambda s: s.run("Hi"),
    "stream": lambda s: s.stream("Hi").__aenter__(),
    "wait_for": lambda s: s.wait_for(AgentStart),
    "collect_reply": lambda s: s.collect_reply(),
    "abort": lambda s: s.abort(),
    "status": lambda s: s.status(),
    "messages": lambda s: s.messages(),
    "steer": lambda s: s.steer("Hi"),
    "abort_tool": lambda s: s.abort_tool("c1"),
    "approve": lambda s: s.approve("a1"),
    "reject": lambda s: s.reject("a1"),
    "respond": lambda s: s.respond("a1", "yes"),
    "decline": lambda s: s.decline("a1"),
    "rules": lambda s: s.rules(),
    "revoke_rule": lambda s: s.revoke_rule("r1"),
    "break_on": lambda s: s.break_on(),
    "unbreak": lambda s: s.unbreak(),
    "answer": lambda s: s.answer("a1", Ok(text="yes")),
    "switch_model": lambda s: s.switch_model(saying("x")),
    "attach_tools": lambda s: s.attach_tools(RecordingTool(name="more")),
    "detach_tools": lambda s: s.detach_tools("record"),
    "replace_tools": lambda s: s.replace_tools(),
    "update_plugin_opts": lambda s: s.update_plugin_opts("planning"),
    "attach_plugin": lambda s: s.attach_plugin(PuppetPlugin((), name="a")),
    "detach_plugin": lambda s: s.detach_plugin("planning"),
    "reload_plugin": lambda s: s.reload_plugin(PuppetPlugin((), name="a")),
    "compact": lambda s: s.compact(),
    "report_tool_source": lambda s: s.report_tool_source("mcp:files", "ready"),
    "snapshot": lambda s: s.snapshot(),
    "stop": lambda s: s.stop(),
    "subscribe": lambda s: s.subscribe().__aenter__(),
}


@pytest.mark.parametrize("given", [5, None, "demo:", {"model": "demo:"}])
async def test_a_model_is_looked_for_in_options_alone(given):
    """They come from an operator's profile, and a mapping of the same names is none."""
    async with open_bare() as supervisor:
        with pytest.raises(OptionError, match=r"^options is .*: expected SessionOptions"):
            supervisor.fault_of_model(given)


async def test_a_long_argument_is_shown_by_its_beginning():
    """Not by a message of its size, and a text in place of a sequence not letter by letter."""
    long = "x" * 100_000
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=saying(), session_id="s-1")

        async def subscribe() -> None:
            session.subscribe(kinds=long)

        for call in (
            lambda: session.approve(long),
            lambda: session.abort_tool(long),
            lambda: session.detach_plugin(long),
            lambda: supervisor.start_session(model=saying(), session_id=long),
            lambda: supervisor.start_session(model=saying(), tools=long),
            lambda: supervisor.stop_session(long),
            subscribe,
        ):
            with pytest.raises(AgentrailError) as caught:
                await call()
            assert len(str(caught.value)) < 1_000


class Unprintable:
    """Its `repr` raises."""

    def __repr__(self) -> str:
        raise RuntimeError


DEEP: Any = reduce(lambda inner, _: [inner], range(9_999), list[Any]())


@pytest.mark.parametrize("value", [10**5000, DEEP, Unprintable()], ids=["number", "list", "object"])
async def test_an_argument_without_a_repr_is_refused_as_any_other(value):
    """Python writes no number of more than 4,300 digits and no list of 9,999 levels; the error is ours all the same."""
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=saying("fine"))
        for call in (
            lambda: session.prompt(value),
            lambda: session.stop(value),
            lambda: session.ask("Hi", timeout_seconds=value),
            lambda: session.ask("Hi", output=value),
            lambda: session.attach_tools(value),
            lambda: session.prompt("Hi", settings={"temperature": value}),
            lambda: supervisor.start_session(model=value),
            lambda: supervisor.start_session(model=saying(), mcp=[value]),
            lambda: supervisor.stop_session("s-1", scope=value),
        ):
            with pytest.raises(AgentrailError):
                await call()
        assert await session.ask("Hi") == "fine"


OF_A_STORE = ("journal", "turns", "state_at", "fork", "rewind")
"""Without one there is nothing to look into, whether the session is there or not."""


async def test_after_the_supervisor_closed_every_call_is_down():
    """`SessionDown` with the reason, from each call of a handle that somebody kept, and at once (3.14)."""
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=saying(), session_id="s-1", tools=[RecordingTool()])
        watched = session.monitor()
    # The last one reads what it is handed, also afterwards.
    assert {*AFTER, *OF_A_STORE, "monitor", "reads_answers"} == set(calls_of_a_handle())
    assert callable(session.reads_answers())
    for call in AFTER.values():
        with (
            trio.fail_after(60),
            pytest.raises(SessionDown, match="'s-1' is down: the supervisor was closed"),
        ):
            await call(session)
    with trio.fail_after(60):
        assert (await watched.wait()).reason == "the supervisor was closed"
    with pytest.raises(SessionDown):
        await supervisor.stop_session("s-1")
    with pytest.raises(SessionDown):
        supervisor.monitor("s-1")


@pytest.mark.parametrize("wrong", [0, None, [], {}, (), False])
@pytest.mark.parametrize("call", ["budget_use", "plugin_use"])
async def test_a_scope_that_is_empty_and_is_no_text_is_refused(call, wrong):
    """The statistics of no session, or an error of Python, would hide the mistake."""
    async with open_bare() as supervisor:
        with pytest.raises(OptionError, match=f"scope is {re.escape(repr(wrong))}: expected ''"):
            getattr(supervisor, call)(scope=wrong)
