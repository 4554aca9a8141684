"""The handle: what each method of `Session` does, and what it refuses. The errors are those of docs/reference/session.md."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from agentrail.errors import (
    AgentrailError,
    PromptError,
    PromptQueueFull,
    ReplyTimeout,
    SessionDown,
)
from agentrail.events import AgentEnd, AgentStart, PromptQueued, SessionEnd
from agentrail.messages import FileRef, Image, Text
from agentrail.testing.models import ScriptedModel, says
from agentrail.testing.tools import HangingTool, StubbornTool
from tests.runtime.rig import on_virtual_time, open_bare, rest, saying, start_hanging, until, wants
from tests.runtime.test_wrong_types import AFTER

# --- prompt and ask


async def test_a_prompt_in_a_cycle_waits_its_turn(supervisor):
    """It gets its position in the queue, and its cycle starts by itself when the one before is over."""
    hang = HangingTool()
    session = await supervisor.start_session(
        model=ScriptedModel([wants("hang"), says("two"), says("three")]), tools=[hang]
    )
    async with session.subscribe() as events:
        await session.prompt("one")
        await hang.started.wait()
        receipts = [await session.prompt("two"), await session.prompt("three")]
        assert [(receipt.queued, receipt.position) for receipt in receipts] == [(True, 0), (True, 1)]
        assert (await session.status()).queued == tuple(receipt.ref for receipt in receipts)
        await session.abort()
        seen = [*await until(events, AgentEnd), *await until(events, AgentEnd)]
    queued = [(event.ref, event.position) for event in seen if isinstance(event, PromptQueued)]
    assert queued == [(receipts[0].ref, 0), (receipts[1].ref, 1)]
    assert [event.ref for event in seen if isinstance(event, AgentStart)][1:] == [
        receipt.ref for receipt in receipts
    ]


async def test_content_may_be_blocks(supervisor):
    """Text, pictures and files go into the history as they were given."""
    session = await supervisor.start_session(model=saying("Nice."))
    blocks = [Text(text="Look:"), Image(media_type="image/png", data="aGk="), FileRef(path="a.py")]
    await session.ask(blocks)
    assert (await session.messages())[0].content == tuple(blocks)


def odd(kind: Any, **fields: Any) -> Any:
    """A block that no type checker lets through."""
    return kind(**fields)


CONTENTS = [
    *(
        (nothing, "the prompt is empty: expected 1 byte to 1 MB of text")
        for nothing in ("", " \n", [], [Text(text="")])
    ),
    *((other, "expected text") for other in (None, 5, {"text": "Hi"})),
    (b"bytes", "a prompt is b'bytes': expected text"),
    ([Text(text="a"), 42], "a prompt has 42: expected text, or Text, Image and FileRef"),
    *(
        ([Text(text="a"), block], f"a prompt has {type(block).__name__}.*: expected text in each field")
        for block in (
            odd(Text, text=5),
            odd(Text, text=None),
            odd(Image, media_type=None, data="eA=="),
            odd(Image, media_type="image/png", data=b"x"),
            odd(Image, media_type="image/png", data="eA==", name=1),
            odd(FileRef, path=Path("a")),
        )
    ),
    *(
        ([Text(text="a"), Image(**{"media_type": "image/png", "data": "aGk="} | wrong)], words)
        for wrong, words in (
            ({"data": "a?"}, "an image of a prompt has data that is not base64"),
            ({"data": "aGk"}, "an image of a prompt has data that is not base64"),
            ({"data": ""}, "an image of a prompt has the data ''"),
            ({"media_type": "text/html"}, "an image of a prompt has the media type 'text/html'"),
        )
    ),
]


async def test_a_prompt_that_is_empty_or_has_other_blocks_is_refused(supervisor):
    """`PromptError` names what is taken and shows the block; nothing is published, and a good one beside it is not taken either."""
    session = await supervisor.start_session(model=saying())
    for content, words in CONTENTS:
        for call in (session.prompt, session.ask):
            with pytest.raises(PromptError, match=words):
                await call(content)
    assert (await session.status()).last_seq == 1


async def test_a_full_queue_refuses(supervisor):
    """`PromptQueueFull` goes to the sender alone; the ones who wait stay."""
    hang = HangingTool()
    session = await start_hanging(supervisor, hang, max_prompt_queue=1)
    kept = await session.prompt("two")
    with pytest.raises(PromptQueueFull, match="1 prompts are already queued, the limit is 1"):
        await session.ask("three")
    assert (await session.status()).queued == (kept.ref,)


@on_virtual_time
async def test_collect_reply_waits_for_the_running_cycle(supervisor):
    """Asked in the middle, it answers at the end; its own timeout leaves the cycle alone."""
    session = await supervisor.start_session(model=ScriptedModel([says("a", "b", pause_seconds=1)]))
    await session.prompt("Hi")
    with pytest.raises(ReplyTimeout):
        await session.collect_reply(timeout_seconds=0.5)
    assert await session.collect_reply() == "ab"
    assert await session.collect_reply() == "ab"


async def test_two_aborts_at_once_get_the_same_receipt(supervisor):
    """The second finds nothing more to stop, and waits for the teardown of the first."""
    hang = HangingTool()
    session = await start_hanging(supervisor, hang)
    receipts = []

    async def abort() -> None:
        receipts.append(await session.abort())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(abort)
        nursery.start_soon(abort)
    assert receipts[0] == receipts[1]
    assert receipts[0].tasks_ended == 1


# --- stop, and after it


@on_virtual_time
async def test_stop_that_times_out_goes_on(supervisor):
    """`ReplyTimeout`; the session ends all the same."""
    hang = HangingTool()
    session = await start_hanging(supervisor, hang)
    async with session.subscribe() as events:
        with pytest.raises(ReplyTimeout):
            await session.stop(timeout_seconds=0)
        assert isinstance((await rest(events))[-1], SessionEnd)


async def test_on_a_session_that_has_ended_every_call_raises(supervisor):
    """`SessionDown` with id and reason; nobody hangs."""
    session = await supervisor.start_session(model=saying(), session_id="s-1")
    await session.stop("enough")
    for name in ("prompt", "ask", "collect_reply", "abort", "status", "messages", "stop", "subscribe"):
        with trio.fail_after(60), pytest.raises(SessionDown, match="session 's-1' is down: enough"):
            await AFTER[name](session)


@pytest.mark.at(37)
async def test_calls_on_their_way_when_the_session_ends_are_answered(supervisor):
    """Whoever waits at the end gets `SessionDown` or an answer, whatever the order was."""
    session = await supervisor.start_session(model=saying())
    outcomes = []

    async def ask_status() -> None:
        try:
            outcomes.append(await session.status())
        except SessionDown as error:
            outcomes.append(error)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(ask_status)
            nursery.start_soon(session.stop)
            for _ in range(10):
                nursery.start_soon(ask_status)
    assert len(outcomes) == 20


CALLS = {name: call for name, call in AFTER.items() if name not in {"stream", "subscribe", "wait_for"}}


@pytest.mark.at(37)
@pytest.mark.parametrize("way", ["close", "cancel", "error"])
@on_virtual_time
async def test_every_call_is_answered_while_its_supervisor_closes(way):
    """A cycle runs whose tool takes two seconds to stop; each call, before and meanwhile, gets a reply or a typed error."""
    results: list[tuple[str, object]] = []
    sent = 0

    async def call(name, session) -> None:
        try:
            results.append((name, await CALLS[name](session)))
        except AgentrailError as error:
            results.append((name, error))

    async def keep_calling(nursery, session) -> None:
        nonlocal sent
        for _ in range(40):
            for name in CALLS:
                # Whoever ends or breaks off the cycle comes too late to be the reason of the end.
                if name not in {"stop", "abort"} or closing.is_set():
                    sent += 1
                    nursery.start_soon(call, name, session)
            await trio.sleep(0.1)

    closing = trio.Event()
    stubborn = StubbornTool(deaf_seconds=2.0)
    with trio.fail_after(60):
        async with trio.open_nursery() as callers:
            with suppress(KeyError), trio.CancelScope() as scope:
                async with open_bare() as supervisor:
                    session = await start_hanging(supervisor, stubborn)
                    callers.start_soon(keep_calling, callers, session)
                    await trio.sleep(0.25)
                    closing.set()
                    if way == "cancel":
                        scope.cancel()
                        await trio.sleep_forever()
                    if way == "error":
                        message = "body"
                        raise KeyError(message)
    assert len(results) == sent
    assert {name for name, result in results if isinstance(result, SessionDown)} == set(CALLS)
