"""A caller never waits for a store longer than its patience, whatever it called (AT-032), and nothing is sent twice because of that."""

from collections.abc import Awaitable, Callable
from typing import Any

import trio
import trio.testing
from hypothesis import example, given, strategies as st

from agentrail import Session, open_supervisor
from agentrail.errors import EventMissed, StoreUnavailable
from agentrail.events import AgentEnd, AgentStart
from agentrail.messages import Text, UserMessage
from agentrail.outside import installed
from agentrail.testing.models import FunctionModel, says
from tests.runtime.disks import Disk, StoreOnDisk

PATIENCE_SECONDS = 5.0
CYCLE_SECONDS = 4.0
SLACK_SECONDS = 2.0
"""Commits, and the pauses between attempts at them."""


async def read_stream(session: Session) -> str:
    """Stream to the end."""
    async with session.stream("pay") as events:
        async for _ in events:
            pass
    return events.reply.text


async def prompt_then(session: Session, wait: Callable[[], Awaitable[Any]]) -> Any:
    """Prompt, then wait for what comes of it."""
    await session.prompt("pay")
    return await wait()


CALLS: dict[str, Callable[[Session], Awaitable[Any]]] = {
    "ask": lambda session: session.ask("pay"),
    "named ask": lambda session: session.ask("pay", client_id="c"),
    "run": lambda session: session.run("pay"),
    "named run": lambda session: session.run("pay", client_id="c"),
    "stream": read_stream,
    "collect_reply": lambda session: prompt_then(session, session.collect_reply),
    "wait_for": lambda session: prompt_then(session, lambda: session.wait_for(AgentEnd)),
    "wait_for a start": lambda session: prompt_then(session, lambda: session.wait_for(AgentStart)),
}


@given(
    call=st.sampled_from(sorted(CALLS)),
    begins=st.integers(0, 30).map(lambda fifths: fifths / 5),
    lasts=st.sampled_from((0.3, 3.0, 5.5, 9.0, 60.0)),
    hangs=st.booleans(),
)
@example(call="ask", begins=1.0, lasts=60.0, hangs=True)  # in the middle of the cycle
@example(call="stream", begins=0.0, lasts=60.0, hangs=False)  # before the prompt
@example(call="wait_for", begins=4.0, lasts=60.0, hangs=True)  # at the last commit
def test_no_caller_waits_longer_than_patience(call: str, begins: float, lasts: float, *, hangs: bool) -> None:
    """It is answered, or it hears `StoreUnavailable` in time; then the answer comes all the same, to one prompt."""
    trio.run(
        play, call, Disk(1.0 + begins, lasts, hangs=hangs), clock=trio.testing.MockClock(autojump_threshold=0)
    )


async def play(call: str, disk: Disk) -> None:
    """Call while the store is away, look at what the caller hears, and again when the store is back."""
    model = FunctionModel(
        lambda request: says(f"paid {len(asked(request.messages))}", pause_seconds=CYCLE_SECONDS / 2)
    )
    with installed(disk):
        async with open_supervisor(store=StoreOnDisk(disk), store_patience=PATIENCE_SECONDS) as supervisor:
            session = await supervisor.start_session(model=model, session_id="s")
            await trio.sleep_until(1.0)
            is_refused = False
            with trio.fail_after(CYCLE_SECONDS + PATIENCE_SECONDS + SLACK_SECONDS):
                try:
                    await CALLS[call](session)
                except StoreUnavailable:
                    is_refused = True
            assert not is_refused or disk.ends - disk.begins > PATIENCE_SECONDS
            await trio.sleep_until(disk.ends + CYCLE_SECONDS + SLACK_SECONDS)
            if call.startswith("named"):
                assert await session.ask("pay", client_id="c") == "paid 1"
                assert (await session.run("pay", client_id="c")).text == "paid 1"
            try:
                assert (await session.wait_for(AgentEnd)).messages[0].content[0].text == "pay"  # type: ignore[union-attr]  # it is a prompt
            except EventMissed:
                assert is_refused  # before the prompt was taken
            assert asked(await session.messages()) in ([["pay"]] if not is_refused else [["pay"], []])


def asked(messages: Any) -> list[str]:
    """What the user said."""
    return [
        "".join(block.text for block in one.content if isinstance(block, Text))
        for one in messages
        if isinstance(one, UserMessage)
    ]
