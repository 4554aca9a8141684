"""What changes while a session runs: its model and its tools; what is sent again by itself; and how it all is shown."""

import pytest

import agentrail
from agentrail.abc import Capabilities
from agentrail.errors import ModelNotFound, OptionError
from agentrail.events import AgentEnd, ModelSwitched, ToolExecutionEnd, ToolExecutionMetrics, ToolRetry
from agentrail.testing.models import ScriptedModel, says
from agentrail.testing.tools import HangingTool, RecordingTool
from tests.runtime.rig import calling, on_virtual_time, until, wants


class Named(ScriptedModel):
    """A scripted model under a name of its own, so that a session can tell two of them apart."""

    def __init__(self, name: str, *turns) -> None:
        super().__init__(turns)
        self.name = name


# --- another model


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


async def test_malformed_capabilities_are_refused_by_the_models_name(supervisor):
    """At the start, and when a session is switched to it; nothing is started, and nothing changes."""
    session = await supervisor.start_session(model=Named("good", says("still me")))
    for answer, words in (
        (lambda: "none", "returned a value of type str: expected agentrail.abc.Capabilities"),
        (lambda: Capabilities(context_window="big"), "returned context_window='big': expected a whole number >= 1"),
        (lambda: Capabilities(context_window=0), "returned context_window=0"),
        (lambda: Capabilities(max_output_tokens=1.5), "returned max_output_tokens=1.5"),
        (lambda: Capabilities(price=3), "returned price=3: expected a Price, or None"),
        (lambda: 1 / 0, "its provider raised ZeroDivisionError: division by zero when its capabilities were read"),
    ):  # fmt: skip
        members = {"capabilities": lambda self, model, answer=answer: answer()}
        bad = type("Bad", (ScriptedModel,), members)([])
        for call in (supervisor.start_session, session.switch_model):
            with pytest.raises(OptionError) as caught:
                await call(model=bad)
            assert words in str(caught.value)
            assert "scripted:object" in str(caught.value)
    assert (await session.status()).model == "good:object"
    assert await session.ask("who?") == "still me"


async def test_what_a_provider_says_of_its_model_is_heard(supervisor):
    """`ModelNotFound` out of `capabilities` is what it is; a provider without a name is refused by its type."""

    class Unknown(ScriptedModel):
        def capabilities(self, model):
            message = "there is no such model"
            raise ModelNotFound(message)

    with pytest.raises(ModelNotFound):
        await supervisor.start_session(model=Unknown([]))
    for name in ("", 7, property(lambda self: 1 / 0)):
        nameless = type("Nameless", (ScriptedModel,), {"name": name})([])
        with pytest.raises(OptionError, match="a provider of type Nameless whose name is not text"):
            await supervisor.start_session(model=nameless)


@pytest.mark.at(79)
async def test_a_snapshot_has_all_that_a_late_client_needs(supervisor):
    """Phase, running tools, prompts and steers that wait, and the number from which a subscription goes on; who subscribes has it too."""
    hang = HangingTool(killable=False)
    session = await supervisor.start_session(model=calling("hang"), tools=[hang])
    subscription = session.subscribe()
    assert subscription.snapshot is None
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
    async with subscription as events:
        assert events.snapshot.status.phase == "executing_tools"
        assert (events.snapshot.queued, events.snapshot.last_seq) == (snapshot.queued, steer.seq)
        await session.abort()
        assert (await anext(events)).meta.seq == steer.seq + 1


# --- once more


@pytest.mark.at(119)
@on_virtual_time
async def test_a_pure_tool_that_raises_is_run_again_and_its_sibling_is_not(supervisor):
    """Same call, same operation, next attempt; one pair of events, and the metrics count the attempts."""
    outcomes = iter([OSError("busy"), "a file", "once more than needed"])

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
    assert [context.attempt for context in flaky.contexts] == [1, 2]
    assert len({context.operation_id for context in flaky.contexts}) == 1
    assert [event.attempt for event in seen if isinstance(event, ToolRetry)] == [1]
    ends = [event for event in seen if isinstance(event, ToolExecutionEnd) and event.name == "flaky"]
    assert [event.result.text for event in ends] == ["a file"]
    attempts = {event.name: event.attempts for event in seen if isinstance(event, ToolExecutionMetrics)}
    assert attempts == {"flaky": 2, "record": 1}
    assert len(other.calls) == 1
