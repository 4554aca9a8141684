"""The workloads of the host alone, without a word of HTTP: what a request costs beside its session, with plugins, at gate 6, with a provider.

All in CPU time of this process, by turns in one run: first the one, then the other, again and again, so that a busy machine does no harm.
"""

import statistics
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from time import process_time
from typing import Any

import trio

from agentrail import Session
from agentrail.abc import ProviderContext
from agentrail.events import AgentEnd
from agentrail.host import (
    AfterToolCall,
    AgentProfile,
    Allow,
    BeforeToolCall,
    ChatRequest,
    ChatRequestContext,
    Deny,
    HandledResponse,
    Host,
    HostPlugin,
    HostRequest,
    Limits,
    Principal,
    RequestContext,
    open_host,
)
from agentrail.messages import AssistantMessage, Message, SessionId, Text, UserMessage
from agentrail.runtime.session_options import SessionOptions
from benchmarks.bare import ANSWER
from benchmarks.bars import target_of
from benchmarks.measure import Effort, Row, Sample, Target, repeat
from benchmarks.ours import StubModel, add, expect

_TURNS = 40
_IN_A_TURN = 10
_CALLS = 20
_PLUGINS = 10
_ANN = Principal(tenant_id="bench", user_id="ann")


class EveryHook(HostPlugin):
    """Has every hook of a request and of a call, and nothing to say."""

    def __init__(self, number: int) -> None:
        """Be one of several."""
        self.name = f"every-hook-{number}"

    async def intercept_chat_request(self, ctx: ChatRequestContext) -> HandledResponse | None:
        """Let it pass."""
        return None

    async def on_request_start(self, ctx: RequestContext) -> None:
        """Say nothing."""

    async def on_before_tool_call(self, event: BeforeToolCall) -> Allow | Deny:
        """Let it pass."""
        return Allow()

    async def on_after_tool_call(self, event: AfterToolCall) -> None:
        """Say nothing."""

    async def on_turn_persisted(self, ctx: RequestContext) -> None:
        """Say nothing."""

    async def on_request_end(self, ctx: RequestContext) -> None:
        """Say nothing."""


class JudgeOnly(HostPlugin):
    """Judges calls, and has nothing against any."""

    name = "judge-only"

    async def on_before_tool_call(self, event: BeforeToolCall) -> Allow | Deny:
        """Let it pass."""
        return Allow()


async def _provide(_about: ProviderContext, _messages: tuple[Message, ...]) -> Sequence[UserMessage]:
    return [UserMessage(content=(Text(text="be kind"),))]


Ask = Callable[[], Awaitable[None]]


async def _take_turns(one: Ask, other: Ask, turns: int) -> tuple[float, float]:
    """Give what both cost, by turns: the median CPU of each, in seconds."""
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(2):
        await one()
        await other()
    for _ in range(turns):
        for ask, times in ((one, spent[0]), (other, spent[1])):
            began_at = process_time()
            for _ in range(_IN_A_TURN):
                await ask()
            times.append((process_time() - began_at) / _IN_A_TURN)
    return statistics.median(spent[0]), statistics.median(spent[1])


async def _open(stack: AsyncExitStack, calls: int, *plugins: HostPlugin, **options: Any) -> Host:
    model = StubModel(calls=calls)
    profile = AgentProfile(
        id="desk", name="Desk", options=SessionOptions(model=model, tools=[add], max_parallel_tools=_CALLS)
    )
    limits = Limits(max_sessions_per_principal=10**6)
    return await stack.enter_async_context(
        open_host(profiles=[profile], plugins=plugins, store=None, environ={}, limits=limits, **options)
    )


async def _ask_host(host: Host, session_id: str) -> None:
    message = ChatRequest(
        message="please add 2 and 3",
        tenant_id="bench",
        user_id="ann",
        agent_id="",
        session_id=SessionId(session_id),
    )
    request = await host.submit(message, _ANN)
    assert isinstance(request, HostRequest)  # noqa: S101 - no plugin answers
    await request.outcome()
    expect("the answer", request.record.text, ANSWER)
    await host.quiet()


async def _ask_session(session: Session) -> None:
    """Do the same without the host: prompt, and read events to the end."""
    async with session.subscribe(kinds=[AgentEnd]) as events:
        await session.prompt("please add 2 and 3")
        end = await anext(events)
    assert isinstance(end, AgentEnd)  # noqa: S101 - no other kind was asked for
    said = end.messages[-1]
    expect("the answer", isinstance(said, AssistantMessage) and said.content[0] == Text(text=ANSWER), True)  # noqa: FBT003 - what it is to be


async def _host_beside_session(turns: int) -> Sample:
    """What a request through the host costs, beside its session alone."""
    async with AsyncExitStack() as stack:
        host = await _open(stack, 1)
        alone = await host.create(_ANN, session_id="alone")
        await host.create(_ANN, session_id="asked")
        whole, bare = await _take_turns(
            partial(_ask_host, host, "asked"), partial(_ask_session, alone), turns
        )
    return {"whole": whole, "added": whole - bare}


async def _beside_another(turns: int, calls: int, each: int, *plugins: HostPlugin, **options: Any) -> Sample:
    """What plugins, or providers, add to a request; for each of so many calls."""
    async with AsyncExitStack() as stack:
        with_them = await _open(stack, calls, *plugins, **options)
        without = await _open(stack, calls)
        for host in (with_them, without):
            await host.create(_ANN, session_id="asked")
        whole, bare = await _take_turns(
            partial(_ask_host, with_them, "asked"), partial(_ask_host, without, "asked"), turns
        )
    return {"whole": whole, "added": (whole - bare) / each}


def requests_through_the_host(effort: Effort) -> list[Row]:
    """What the host, ten plugins, gate 6 and a provider add."""
    turns, rounds = effort.of(_TURNS), min(effort.rounds, 3)
    ten = [EveryHook(number) for number in range(_PLUGINS)]
    sides: list[tuple[str, Target, Callable[[], Sample]]] = [
        (
            "a request of one call, through the host; what that adds to its session alone",
            target_of("host adds"),
            partial(trio.run, _host_beside_session, turns),
        ),
        (
            "the same behind ten plugins with every hook; what they add",
            target_of("ten plugins add"),
            partial(trio.run, _beside_another, turns, 1, 1, *ten),
        ),
        (
            f"gate 6 with one hook that answers at once, of {_CALLS} calls; what it adds to each",
            target_of("gate 6 adds"),
            partial(trio.run, _beside_another, turns, _CALLS, _CALLS, JudgeOnly()),
        ),
        (
            "a provider that answers at once; what it adds to each of two model requests",
            target_of("a provider adds"),
            partial(trio.run, partial(_beside_another, context_providers=[_provide]), turns, 1, 2),
        ),
    ]
    rows = []
    for title, target, side in sides:
        taken = repeat(side, rounds, warm_up=False)
        rows.append(taken.row("gateway-host", "added", f"{title}: CPU", unit="µs", factor=1e6, target=target))
    return rows
