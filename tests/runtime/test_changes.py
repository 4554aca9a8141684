"""What changes while a session runs: its model and its tools; what is sent again by itself; and how it all is shown."""

import gc
import json
import weakref
from typing import Any

import pytest
import trio

import agentrail
from agentrail.abc import Capabilities
from agentrail.errors import (
    BadRequest,
    CycleFailed,
    ModelNotFound,
    OptionError,
    Overloaded,
    RateLimited,
    SessionDown,
    ToolDefinitionError,
    Transport,
)
from agentrail.events import (
    AgentEnd,
    MessageDelta,
    ModelSwitched,
    Retry,
    StreamError,
    ToolExecutionEnd,
    ToolExecutionMetrics,
    ToolRetry,
    ToolsUpdated,
)
from agentrail.messages import ToolMessage
from agentrail.testing.expectations import check_history
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, fails, says
from agentrail.testing.tools import CrashingTool, HangingTool, RecordingTool
from tests.runtime.rig import calling, on_virtual_time, only, saying, until, wants

ANY_CAPABILITIES: Any = Capabilities  # what no type checker would let through


class Named(ScriptedModel):
    """A scripted model under a name of its own, so that a session can tell two of them apart."""

    def __init__(self, name: str, *turns) -> None:
        """Take the name and the turns."""
        super().__init__(turns)
        self.name = name


# --- another model


async def test_the_next_request_goes_to_the_new_model(supervisor):
    """A request that is out keeps its own; the event says who was asked before and who is asked now."""
    hang = HangingTool()
    first, second = Named("first", wants("hang")), Named("second", says("from the second"))
    session = await supervisor.start_session(model=first, tools=[hang])
    async with session.subscribe() as events:
        await session.prompt("Go")
        await hang.started.wait()
        await session.switch_model(second)
        assert (await session.status()).model == "second:object"
        (call,) = (await session.status()).running_tools
        await session.abort_tool(call.call_id)
        seen = await until(events, AgentEnd)
    (switched,) = [event for event in seen if isinstance(event, ModelSwitched)]
    assert (switched.from_model, switched.to_model, switched.by) == ("first:object", "second:object", "user")
    assert await session.collect_reply() == "from the second"
    assert (len(first.requests), len(second.requests)) == (1, 1)


async def test_a_model_that_nobody_knows_changes_nothing(supervisor):
    """`ModelNotFound` as at the start, and the session goes on with the model that it had (3.14)."""
    session = await supervisor.start_session(model=saying("still me"))
    with pytest.raises(ModelNotFound, match="nope:x"):
        await session.switch_model("nope:x")
    assert await session.ask("Who are you?") == "still me"


async def test_the_model_that_is_asked_already_is_no_other():
    """Nothing is published and nothing changes, its options included; other options for it are a change."""
    model, opts = "openai-chat:m", {"api_key": "k-1", "base_url": "http://127.0.0.1:9"}
    async with agentrail.open_supervisor(environ={}) as supervisor:
        session = await supervisor.start_session(model=model, provider_opts=opts)
        before = (await session.status()).last_seq
        await session.switch_model(model)
        await session.switch_model(model, dict(opts))
        status = await session.status()
        assert (status.last_seq, status.model) == (before, model)
        async with session.subscribe() as events:
            await session.switch_model(model, {**opts, "api_key": "k-2"})
            (switched,) = await until(events, ModelSwitched)
        assert (switched.from_model, switched.to_model) == (model, model)
        assert switched.provider_opts_changed
        second = Named("second", says("second"))
        await session.switch_model(second)
        before = (await session.status()).last_seq
        await session.switch_model(second)
        assert (await session.status()).last_seq == before


async def test_a_session_keeps_one_object_that_it_was_switched_to(supervisor):
    """However often it is given another, no more are held than it can ask; those of its options stay."""
    first = Named("first", says("first again"))
    session = await supervisor.start_session(model=first)
    dead = []
    for number in range(20):
        model = Named("next", says(f"next {number}"))
        dead.append(weakref.ref(model))
        await session.switch_model(model)
        assert await session.ask("who?") == f"next {number}"
        del model
    gc.collect()
    assert sum(one() is not None for one in dead) == 1
    await session.switch_model(first)
    assert await session.ask("who?") == "first again"


async def test_a_model_that_is_asked_is_not_forgotten(supervisor):
    """A request that is out, and its attempts to come, keep their object when others come and go."""
    hang = HangingTool()
    first, second = (
        Named("first", wants("hang"), says("x")),
        Named("second", wants("hang"), says("from the second")),
    )
    session = await supervisor.start_session(model=first, tools=[hang])
    await session.switch_model(second)
    await session.prompt("Go")
    await hang.started.wait()
    for _ in range(3):
        await session.switch_model(Named("other", says("from another")))
    (call,) = (await session.status()).running_tools
    await session.abort_tool(call.call_id)
    assert await session.collect_reply() == "from another"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda: "none", "gave a value of type str: expected agentrail.abc.Capabilities"),
        (
            lambda: ANY_CAPABILITIES(context_window="big"),
            "gave context_window='big': expected a whole number from 1",
        ),
        (lambda: ANY_CAPABILITIES(context_window=0), "gave context_window=0"),
        (lambda: ANY_CAPABILITIES(max_output_tokens=1.5), "gave max_output_tokens=1.5"),
        (lambda: ANY_CAPABILITIES(price=3), "gave price=3: expected a Price, or None"),
        (lambda: 1 / 0, "its provider raised ZeroDivisionError: division by zero when it was asked"),
    ],
)
async def test_malformed_capabilities_are_refused_by_the_models_name(supervisor, answer, words):
    """At the start, and when a session is switched to it; nothing is started, and nothing changes."""

    class Bad(ScriptedModel):
        """Says something else of itself."""

        def capabilities(self, model):
            """Say it."""
            return answer()

    with pytest.raises(OptionError) as caught:
        await supervisor.start_session(model=Bad([]))
    assert words in str(caught.value)
    assert "scripted:object" in str(caught.value)
    session = await supervisor.start_session(model=Named("good", says("still me")))
    with pytest.raises(OptionError):
        await session.switch_model(Bad([]))
    assert (await session.status()).model == "good:object"
    assert await session.ask("who?") == "still me"


async def test_what_a_provider_says_of_its_model_is_heard(supervisor):
    """`ModelNotFound` out of `capabilities` is what it is; a provider without a name is refused by its type."""

    class Unknown(ScriptedModel):
        """Knows none."""

        def capabilities(self, model):
            """Refuse."""
            message = "there is no such model"
            raise ModelNotFound(message)

    with pytest.raises(ModelNotFound):
        await supervisor.start_session(model=Unknown([]))
    for name in ("", 7, property(lambda self: 1 / 0)):
        nameless = type("Nameless", (ScriptedModel,), {"name": name})([])
        with pytest.raises(OptionError, match="a provider of type Nameless whose name is no text"):
            await supervisor.start_session(model=nameless)


# --- other tools


async def test_tools_are_there_for_the_next_request(supervisor):
    """Attached, replaced and detached all at once, with one `ToolsUpdated` each; the receipt lists what was not there."""
    model = saying("one", "two", "three")
    session = await supervisor.start_session(model=model, tools=[RecordingTool(name="a")])
    async with only(session, ToolsUpdated) as events:
        attached = await session.attach_tools(RecordingTool(name="c"), RecordingTool(name="b"))
        await session.ask("one")
        detached = await session.detach_tools("a", "nobody", "b")
        await session.ask("two")
        replaced = await session.replace_tools(RecordingTool(name="d"))
        await session.ask("three")
        seen = [await until(events, ToolsUpdated) for _ in range(3)]
    assert [request.tools.names for request in model.requests] == [("a", "b", "c"), ("c",), ("d",)]
    assert [(event.attached, event.detached) for (event,) in seen] == [
        (("b", "c"), ()),
        ((), ("a", "b")),
        (("d",), ("c",)),
    ]
    assert (attached.attached, detached.detached, detached.missing) == (("b", "c"), ("a", "b"), ("nobody",))
    assert (replaced.attached, replaced.detached) == (("d",), ("c",))


async def test_detaching_what_is_not_there_is_no_error(supervisor):
    """The receipt lists it, nothing is published, nothing changes (3.14)."""
    session = await supervisor.start_session(model=saying())
    receipt = await session.detach_tools("nobody")
    assert (receipt.detached, receipt.missing) == ((), ("nobody",))
    assert (await session.status()).last_seq == 1


async def test_two_tools_of_one_name_are_refused_before_anything_changes(supervisor):
    """`ToolDefinitionError`; not even the first of them is there."""
    model = saying("ok")
    session = await supervisor.start_session(model=model)
    with pytest.raises(ToolDefinitionError, match="record"):
        await session.attach_tools(RecordingTool(), RecordingTool())
    await session.ask("Hi")
    assert model.requests[0].tools.names == ()


async def test_a_call_keeps_the_tool_that_it_began_with(supervisor):
    """A call that waits for its slot runs the tool of its batch, although another has its name by then."""
    hang, old = HangingTool(), RecordingTool(answer="old")
    new = RecordingTool(answer="new")
    model = ScriptedModel([wants("hang", "record"), wants("record"), says("done")])
    session = await supervisor.start_session(model=model, tools=[hang, old], max_parallel_tools=1)
    async with session.subscribe() as events:
        await session.prompt("Go")
        await hang.started.wait()
        await session.attach_tools(new)
        (call,) = (await session.status()).running_tools
        await session.abort_tool(call.call_id, "enough")
        await until(events, AgentEnd)
    messages = await session.messages()
    check_history(messages)
    results = [result.text for message in messages for result in getattr(message, "results", ())]
    assert results == ["[Stopped: enough]", "old", "new"]


# --- what a late client sees


@pytest.mark.at(79)
async def test_a_snapshot_has_all_that_a_late_client_needs(supervisor):
    """Phase, running tools, prompts and steers that wait, and the number from which a subscription goes on."""
    hang = HangingTool(killable=False)
    session = await supervisor.start_session(model=calling("hang"), tools=[hang])
    await session.prompt("Go")
    await hang.started.wait()
    queued = await session.prompt("And then?")
    steer = await session.steer("left")
    snapshot = await session.snapshot()
    assert snapshot.status.phase == "executing_tools"
    assert [call.name for call in snapshot.status.running_tools] == ["hang"]
    assert [(one.ref, one.steer, one.content[0].text) for one in snapshot.queued] == [
        (steer.ref, True, "left"),
        (queued.ref, False, "And then?"),
    ]
    assert snapshot.last_seq == snapshot.status.last_seq == steer.seq


@on_virtual_time
async def test_a_snapshot_has_the_text_that_streams(supervisor):
    """What the response has said so far, which no committed event has yet."""
    session = await supervisor.start_session(model=ScriptedModel([says("one ", "two", pause_seconds=1)]))
    async with session.subscribe() as events:
        await session.prompt("Hi")
        await until(events, MessageDelta)
    assert (await session.snapshot()).text == "one "
    await session.collect_reply()
    assert (await session.snapshot()).text == ""


@on_virtual_time
async def test_a_snapshot_has_the_end_of_the_conversation(supervisor):
    """The last fifty messages, in the step in which it is taken; how many there are says its status."""
    session = await supervisor.start_session(model=saying(*(f"{n}" for n in range(27))))
    for n in range(27):
        await session.ask(f"{n}?")
        if n == 1:
            assert (await session.snapshot()).last_messages == await session.messages()
    snapshot, messages = await session.snapshot(), await session.messages()
    assert snapshot.last_messages == messages[-50:] == messages[4:]
    assert snapshot.status.messages == 54


# --- once more


@on_virtual_time
async def test_a_request_that_fails_is_sent_again(supervisor):
    """Before its first chunk and after it; what was shown is withdrawn, and only the whole answer is said."""
    model = ScriptedModel(
        [fails(Overloaded("busy")), fails(Transport("lost"), after="Half an ans"), says("All of it.")]
    )
    session = await supervisor.start_session(model=model)
    async with session.subscribe() as events:
        assert await session.ask("Hi") == "All of it."
        seen = await until(events, AgentEnd)
    shown = [event for event in seen if isinstance(event, Retry | StreamError)]
    assert [type(event) for event in shown] == [Retry, StreamError, Retry]
    assert [event.attempt for event in seen if isinstance(event, Retry)] == [2, 3]
    assert [message.text for message in (await session.messages())[1:]] == ["All of it."]


@on_virtual_time
async def test_a_pause_is_as_long_as_the_server_asks(supervisor):
    """The next request is not sent a moment sooner."""
    model = ScriptedModel([fails(RateLimited("slow down", retry_after_seconds=20)), says("Hi.")])
    session = await supervisor.start_session(model=model)
    began = trio.current_time()
    assert await session.ask("Hi") == "Hi."
    assert trio.current_time() - began == pytest.approx(20, abs=0.1)


async def test_what_will_not_pass_is_not_tried_again(supervisor):
    """The cycle fails with the first answer of the server, and the session is usable (3.12)."""
    model = ScriptedModel([fails(BadRequest("no such field")), says("back")])
    session = await supervisor.start_session(model=model)
    with pytest.raises(CycleFailed, match="no such field") as caught:
        await session.ask("Hi")
    assert caught.value.error.code == "bad_request"
    assert await session.ask("Again") == "back"


@on_virtual_time
async def test_an_abort_ends_a_pause(supervisor):
    """Nothing is out, so there is nothing to wait for; the timer of the old cycle starts nothing in a new one."""
    model = ScriptedModel([fails(RateLimited("slow down", retry_after_seconds=50)), says("new")])
    session = await supervisor.start_session(model=model)
    async with session.subscribe() as events:
        await session.prompt("Hi")
        await until(events, Retry)
    began = trio.current_time()
    receipt = await session.abort()
    assert (receipt.tasks_ended, trio.current_time() - began) == (0, 0)
    assert await session.ask("Again") == "new"
    await trio.sleep(100)
    assert len(model.requests) == 2


@pytest.mark.at(119)
@on_virtual_time
async def test_a_pure_tool_that_raises_is_run_again_and_its_sibling_is_not(supervisor):
    """Same call, same operation, next attempt; one pair of events, and the metrics count the attempts."""
    outcomes = iter([OSError("busy"), OSError("busy"), "a file"])

    def answer(_arguments) -> str:
        outcome = next(outcomes)
        if isinstance(outcome, OSError):
            raise outcome
        return str(outcome)

    flaky = RecordingTool(name="flaky", effect_class="pure", answer=answer)
    other = RecordingTool()
    session = await supervisor.start_session(model=calling("flaky", "record"), tools=[flaky, other])
    async with session.subscribe() as events:
        assert await session.ask("Go") == "done"
        seen = await until(events, AgentEnd)
    assert [context.attempt for context in flaky.contexts] == [1, 2, 3]
    assert len({context.operation_id for context in flaky.contexts}) == 1
    assert [event.attempt for event in seen if isinstance(event, ToolRetry)] == [1, 2]
    ends = [event for event in seen if isinstance(event, ToolExecutionEnd) and event.name == "flaky"]
    assert [event.result.text for event in ends] == ["a file"]
    attempts = {event.name: event.attempts for event in seen if isinstance(event, ToolExecutionMetrics)}
    assert attempts == {"flaky": 3, "record": 1}
    assert len(other.calls) == 1


async def test_a_tool_that_may_run_only_once_is_not_run_again(supervisor):
    """What it raised is its result, at once."""
    crash = CrashingTool()
    session = await supervisor.start_session(model=calling("crash"), tools=[crash])
    assert await session.ask("Go") == "done"
    assert len(crash.calls) == 1


@on_virtual_time
async def test_a_timeout_is_a_result_and_no_reason_to_run_a_tool_again(supervisor):
    """Also of a pure tool: what took too long once would take too long again."""
    hang = HangingTool(effect_class="pure", timeout_seconds=30)
    session = await supervisor.start_session(model=calling("hang"), tools=[hang])
    assert await session.ask("Go") == "done"
    assert len(hang.calls) == 1


@on_virtual_time
async def test_a_steer_in_the_pause_of_a_tool_skips_its_next_attempt(supervisor):
    """The model hears the steer at once, and the tool is not run again."""
    crash = CrashingTool(effect_class="pure")
    heard = []

    def model(request):
        heard.append(request.messages[-1])
        return wants("crash") if len(heard) == 1 else says("done")

    session = await supervisor.start_session(model=FunctionModel(model), tools=[crash], tool_max_retries=9)
    async with session.subscribe() as events:
        await session.prompt("Go")
        await until(events, ToolRetry)
        await session.steer("leave it")
        await until(events, AgentEnd)
    runs = len(crash.calls)
    await trio.sleep(1_000)
    assert len(crash.calls) == runs
    assert (heard[-1].origin, heard[-1].content[0].text) == ("steer", "leave it")


# --- what a model and a tool may do about tools


async def test_a_tool_may_attach_tools_to_its_own_session(supervisor):
    """The next request of the same cycle offers them, and the call that brought them is not touched."""
    sessions = []

    class Attaches(RecordingTool):
        async def execute(self, arguments, ctx):
            await sessions[0].attach_tools(RecordingTool(name="fresh"))
            await sessions[0].detach_tools("brings")
            return await super().execute(arguments, ctx)

    model = ScriptedModel([wants("brings"), wants("fresh", "brings"), says("done")])
    sessions.append(await supervisor.start_session(model=model, tools=[Attaches(name="brings")]))
    with trio.fail_after(10):
        assert await sessions[0].ask("Go") == "done"
    assert [request.tools.names for request in model.requests] == [("brings",), ("fresh",), ("fresh",)]
    first, second = [message for message in await sessions[0].messages() if isinstance(message, ToolMessage)]
    assert [result.text for result in first.results] == ["recorded"]
    assert [result.is_error for result in second.results] == [False, True]  # a call to a detached tool
    assert "brings" in second.results[1].text


async def test_arguments_of_five_megabytes_are_an_answer_to_the_model(supervisor):
    """Nothing runs, the model reads how much is taken, and the session goes on."""
    tool = RecordingTool()
    model = ScriptedModel([calls(("record", {"text": "x" * 5_000_000})), says("shorter, then")])
    session = await supervisor.start_session(model=model, tools=[tool])
    assert await session.ask("Go") == "shorter, then"
    (result,) = (await session.messages())[2].results
    assert result.is_error
    assert "at most 1048576 are taken" in result.text
    assert tool.calls == []


# --- after the end


@pytest.mark.parametrize(
    "call",
    [
        lambda session: session.steer("Hi"),
        lambda session: session.abort_tool("c1"),
        lambda session: session.approve("a1"),
        lambda session: session.reject("a1"),
        lambda session: session.respond("a1", "yes"),
        lambda session: session.snapshot(),
        lambda session: session.switch_model(saying("x")),
        lambda session: session.attach_tools(RecordingTool()),
        lambda session: session.detach_tools("record"),
        lambda session: session.replace_tools(),
    ],
    ids=[
        "steer", "abort_tool", "approve", "reject", "respond", "snapshot", "switch_model", "attach", "detach", "replace",
    ],
)  # fmt: skip
async def test_on_a_session_that_has_ended_these_calls_raise_too(supervisor, call):
    """`SessionDown` with id and reason; nobody hangs (3.14)."""
    session = await supervisor.start_session(model=saying(), session_id="s-1")
    await session.stop("enough")
    with trio.fail_after(5), pytest.raises(SessionDown, match="session 's-1' is down: enough"):
        await call(session)


def wrong(value: Any) -> Any:
    """A value that a type checker would refuse."""
    return value


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (RecordingTool(name="a b"), "a b"),
        (RecordingTool(name=""), "''"),
        (RecordingTool(name="x" * 65), "x" * 65),
        (RecordingTool(description=" "), "description"),
        (RecordingTool(parameters={"type": "string"}), "object"),
        (
            RecordingTool(parameters={"type": "object", "properties": {"a": {"type": "nothing"}}}),
            r"\$.properties.a",
        ),
        (
            RecordingTool(parameters={"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}),
            "nothing is fetched",
        ),
        (RecordingTool(effect_class="reconcilable"), "reconcile"),
        (RecordingTool(name=wrong(7)), "a tool is named 7"),
        (RecordingTool(description=wrong(7)), "the description of tool 'record' is 7: expected a text"),
        (RecordingTool(description=wrong(lambda _: None)), "is None: expected a text, or a function"),
        (
            RecordingTool(description=wrong(lambda _: 1 / 0)),
            "the description of tool 'record' raised ZeroDivisionError: division by zero .*: expected a function",
        ),
        (RecordingTool(parameters=wrong([])), "is of type list: expected a JSON Schema as a dict"),
        (RecordingTool(effect_class=wrong("safe")), "has effect_class 'safe': expected one of 'pure'"),
    ],
    ids=[
        *("name", "no-name", "long-name", "description", "no-object", "schema", "ref", "reconcile"),
        *("name-type", "description-type", "described-type", "describing", "schema-type", "effect-class"),
    ],
)
async def test_a_tool_that_cannot_be_is_refused_with_those_beside_it(supervisor, bad, words):
    """`ToolDefinitionError` says what is wrong, and nothing is attached (6.18)."""
    model = saying("ok")
    session = await supervisor.start_session(model=model)
    with pytest.raises(ToolDefinitionError, match=words):
        await session.attach_tools(RecordingTool(name="good"), bad)
    await session.ask("Hi")
    assert model.requests[0].tools.names == ()


async def test_too_many_arguments_are_refused_with_the_limit(supervisor):
    """Over 1 MiB the call is answered with an error, and the tool never runs (6.18)."""
    record = RecordingTool()
    model = ScriptedModel([calls(("record", json.dumps({"a": "x" * (1 << 20)}))), says("ok")])
    session = await supervisor.start_session(model=model, tools=[record])
    assert await session.ask("Hi") == "ok"
    (result,) = (await session.messages())[2].results
    assert result.is_error
    assert "at most 1048576 are taken. Send less in one call." in result.text
    assert record.calls == []
