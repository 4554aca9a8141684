"""What people do while a session works: steer it, stop one call, answer its questions, and come too late."""

from typing import Literal

import pytest
import trio
from attrs import define

from agentrail.errors import (
    AlreadyResolved,
    ApprovalExpired,
    ClientIdReused,
    CycleAborted,
    InvalidResponse,
    PromptError,
    SteeringQueueFull,
    UnknownApproval,
)
from agentrail.events import (
    AgentEnd,
    AskUser,
    PromptQueued,
    PromptReceived,
    SteeringApplied,
    SteeringReceived,
    ToolExecutionStart,
    ToolKilled,
    ToolSkippedForSteering,
)
from agentrail.messages import JsonObject
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import HangingTool, RecordingTool
from tests.runtime.rig import calling, on_virtual_time, result_texts, saying, start_hanging, until

ASKED: JsonObject = {"question": "Which one?", "options": ["left", "right"]}


@define(kw_only=True, eq=False)
class AskingTool(RecordingTool):
    """A tool that is a question to the user, as `ask_user` will be."""

    name: str = "ask"
    answered_by: Literal["code", "user"] = "user"


def asking(then: str = "done") -> ScriptedModel:
    return ScriptedModel([calls(("ask", ASKED)), says(then)])


# --- steering


@pytest.mark.at(10, 47)
async def test_a_steer_stops_the_tools_of_the_batch_and_is_heard_behind_their_results(supervisor):
    """Each call is answered as skipped; then the model reads the steer, in one message of its own."""
    hang = HangingTool()
    model = calling("hang", then="Only the tests, then.")
    session = await supervisor.start_session(model=model, tools=[hang])
    async with session.subscribe() as events:
        await session.prompt("Go")
        await hang.started.wait()
        receipt = await session.steer("only the tests")
        assert receipt.status == "queued"
        seen = await until(events, AgentEnd)
    assert hang.stopped == 1
    assert [type(event) for event in seen if isinstance(event, ToolSkippedForSteering | SteeringApplied)] == [
        ToolSkippedForSteering,
        SteeringApplied,
    ]
    assert await result_texts(session) == ["[Skipped: the user steered the conversation]"]
    last = model.requests[-1].messages[-1]
    assert (last.origin, last.content[0].text) == ("steer", "only the tests")


async def test_steers_beyond_the_limit_are_refused(supervisor):
    """`SteeringQueueFull` with the limit; everybody hears that it was refused, and the others stay."""
    hang = HangingTool(killable=False)
    session = await start_hanging(supervisor, hang, max_steering_queue=1)
    kept = await session.steer("one")
    async with session.subscribe() as events:
        with pytest.raises(SteeringQueueFull, match="1 steers are already queued, the limit is 1"):
            await session.steer("two")
        heard = (await until(events, SteeringReceived))[-1]
    assert (heard.text, heard.status) == ("two", "rejected_full")
    assert (await session.status()).steers == (kept.ref,)


async def test_a_steer_that_says_nothing_or_too_much_is_refused(supervisor):
    """`PromptError`, as of a prompt, and nothing is published (3.14)."""
    session = await supervisor.start_session(model=saying())
    for text, words in (
        ("", "the prompt is empty: expected 1 byte to 1 MB of text"),
        (" \n", "empty"),
        ("x" * 1_000_001, "1000001 bytes, at most 1000000"),
        (7, "expected text, got 7"),
        (b"bytes", "expected text"),
        ({"text": "Hi"}, "expected text"),
    ):
        with pytest.raises(PromptError, match=words):
            await session.steer(text)
    assert (await session.status()).last_seq == 1


# --- the same message twice


@pytest.mark.at(11)
async def test_a_prompt_that_is_sent_again_under_its_name_happens_once(supervisor):
    """The first receipt comes back, also when its cycle is over; another text under the name is refused."""
    model = saying("Hi.")
    session = await supervisor.start_session(model=model)
    first = await session.prompt("Hello", client_id="web-1")
    await session.collect_reply()
    assert await session.prompt("Hello", client_id="web-1") == first
    with pytest.raises(ClientIdReused, match="'web-1' was already used for another message"):
        await session.prompt("Good bye", client_id="web-1")
    assert len(model.requests) == 1


async def test_a_steer_that_is_sent_again_under_its_name_happens_once(supervisor):
    """The first receipt comes back; as a prompt the name is taken."""
    hang = HangingTool(killable=False)
    session = await start_hanging(supervisor, hang)
    first = await session.steer("left", client_id="web-2")
    assert await session.steer("left", client_id="web-2") == first
    with pytest.raises(ClientIdReused):
        await session.prompt("left", client_id="web-2")
    assert (await session.status()).steers == (first.ref,)


@pytest.mark.at(35)
async def test_one_call_is_stopped_and_the_others_go_on(supervisor):
    """Its task ends, its result says why, its sibling and the cycle do not notice."""
    hang, other = HangingTool(), RecordingTool()
    session = await supervisor.start_session(model=calling("hang", "record"), tools=[hang, other])
    async with session.subscribe() as events:
        await session.prompt("Go")
        started = [(await until(events, ToolExecutionStart))[-1] for _ in range(2)]
        await hang.started.wait()
        call_id = next(event.call_id for event in started if event.name == "hang")
        await session.abort_tool(call_id, "it takes too long")
        seen = await until(events, AgentEnd)
    assert [(event.call_id, event.reason) for event in seen if isinstance(event, ToolKilled)] == [
        (call_id, "it takes too long")
    ]
    assert hang.stopped == 1
    assert await result_texts(session) == ["[Stopped: it takes too long]", "recorded"]


@pytest.mark.at(54, 67)
async def test_a_question_is_answered_once(supervisor):
    """`AlreadyResolved` says how and by whom; what never was is `UnknownApproval`; wrong answers change nothing."""
    session = await supervisor.start_session(model=asking(), tools=[AskingTool()])
    async with session.subscribe() as events:
        await session.prompt("Go")
        ref = (await until(events, AskUser))[-1].ref
    with pytest.raises(InvalidResponse, match="no option 2: expected 0 to 1"):
        await session.respond(ref, 2)
    with pytest.raises(InvalidResponse, match="the response is empty"):
        await session.respond(ref, " ")
    with pytest.raises(InvalidResponse, match="is a question: answer it with respond"):
        await session.approve(ref)
    await session.respond(ref, "left")
    with pytest.raises(AlreadyResolved) as caught:
        await session.respond(ref, "right")
    assert (caught.value.status, caught.value.by) == ("approved", "user")
    for decide in (session.approve, session.reject):
        with pytest.raises(UnknownApproval, match="there is no pending interaction 'nobody'"):
            await decide("nobody")
    with pytest.raises(UnknownApproval):
        await session.respond("nobody", "left")


@on_virtual_time
@pytest.mark.at(103)
async def test_a_question_that_nobody_answers_is_answered_by_the_clock(supervisor):
    """After its time the model goes on by itself; who answers then hears `ApprovalExpired`."""
    session = await supervisor.start_session(
        model=asking("The left one."), tools=[AskingTool(timeout_seconds=60)]
    )
    began = trio.current_time()
    async with session.subscribe() as events:
        await session.prompt("Go")
        ref = (await until(events, AskUser))[-1].ref
        # Time is virtual: the minute is over as soon as nobody has anything to do.
        with trio.fail_after(61):
            async for event in events:
                if isinstance(event, AgentEnd):
                    break
    assert trio.current_time() - began == pytest.approx(60, abs=0.1)
    (text,) = await result_texts(session)
    assert text.startswith("The user did not answer within 60 s.")
    with pytest.raises(ApprovalExpired):
        await session.respond(ref, "too late")


@on_virtual_time
@pytest.mark.at(103)
async def test_a_question_without_a_time_of_its_own_has_that_of_tools(supervisor):
    """`tool_timeout_seconds` is for tools that name no timeout, and for the questions among them too: none waits for ever."""
    session = await supervisor.start_session(
        model=asking("The left one."), tools=[AskingTool()], tool_timeout_seconds=42
    )
    assert await session.ask("Go", timeout_seconds=43) == "The left one."
    (text,) = await result_texts(session)
    assert text.startswith("The user did not answer within 42 s.")


@pytest.mark.at(70)
async def test_an_abort_answers_what_waits_for_a_person(supervisor):
    """Who asked for the text hears of the abort, and the next prompt meets no leftover."""
    session = await supervisor.start_session(model=asking("fresh"), tools=[AskingTool()])
    async with session.subscribe() as events, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def _abort() -> None:
            asked = (await until(events, AskUser))[-1]
            assert isinstance(asked, AskUser)
            await session.abort("no")
            with pytest.raises(AlreadyResolved, match="aborted, by abort"):
                await session.respond(asked.ref, "left")

        with pytest.raises(CycleAborted, match="no"):
            await session.ask("Go")
    assert await result_texts(session) == ["[Stopped: no]"]
    assert (await session.status()).questions == ()
    assert await session.ask("Again") == "fresh"


@pytest.mark.at(12)
async def test_prompts_at_the_same_time_are_all_answered_in_their_order(supervisor):
    """Each caller gets the reply to its own prompt, and the conversation has them one after the other."""
    session = await supervisor.start_session(model=saying(*(f"answer {n}" for n in range(5))))
    got = {}

    async def ask(name: str) -> None:
        got[name] = await session.ask(name)

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(ask, f"question {number}")
    said = [message.content[0].text for message in await session.messages()]
    assert sorted(got) == sorted(said[::2])
    assert [got[question] for question in said[::2]] == said[1::2]


@pytest.mark.at(101)
async def test_every_message_that_was_accepted_is_acknowledged_with_its_number(supervisor):
    """Sent at the same time, each receipt has the number of the event that tells of it, and all are in the history."""
    session = await supervisor.start_session(model=saying(*"abcde"))
    receipts = []

    async def send(number: int) -> None:
        receipts.append(await session.prompt(f"question {number}"))

    async with session.subscribe(kinds=[PromptReceived, PromptQueued, AgentEnd]) as events:
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(send, number)
        seen = [event for _ in range(5) for event in await until(events, AgentEnd)]
    numbers = {event.ref: event.meta.seq for event in seen if not isinstance(event, AgentEnd)}
    assert {receipt.ref: receipt.seq for receipt in receipts} == numbers
    refs = {getattr(message, "ref", None) for message in await session.messages()}
    assert numbers.keys() <= refs
