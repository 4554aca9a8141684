"""What `make soak` serves: a support desk whose model, tools and plugins fail as often as not, kept in SQLite. For `agentrail serve`.

    SOAK_FOLDER=/tmp/desk agentrail serve benchmarks.gateway_soak.desk:app

A message says what becomes of it: `tool`, `broken`, `long`, `fail` … stand in it as words. `SOAK_BREAK` breaks a promise on purpose, so that
the soak can be seen to notice: `drop` loses an event on its way to readers, `early` acknowledges before the disk has it.
"""

import gc
import os
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import trio

from agentrail import plugins as p, tool
from agentrail.abc import Capabilities, ProviderContext
from agentrail.core.protocol.request import (
    ArgumentsDelta,
    Chunk,
    Completed,
    ModelRequest,
    TextDelta,
    ToolCallStarted,
)
from agentrail.core.values.toolbox import read_call
from agentrail.errors import Authentication, ProviderError
from agentrail.gateway import event_hub
from agentrail.gateway.app import create_app
from agentrail.host import (
    AfterToolCall,
    AgentProfile,
    Allow,
    BeforeToolCall,
    ChatRequestContext,
    Deny,
    HandledResponse,
    HostPlugin,
    Limits,
    Principal,
    RequestContext,
)
from agentrail.messages import AssistantMessage, Message, Text, TokenUsage, ToolMessage, UserMessage
from agentrail.runtime import ended_sessions, store_writer as outbox
from agentrail.runtime.session_options import SessionOptions
from agentrail.stores.sqlite import SqliteStore
from agentrail.telemetry.metrics import Metrics
from benchmarks.gateway_soak.account import names_in
from benchmarks.soak import KEPT

CHANCE: Final = random.Random()  # noqa: S311 - no secret; what fails when differs from run to run all the same
FAIL: Final = 0.0 if os.environ.get("SOAK_CALM") else 0.03
"""How often each thing fails that may."""

SWEEP_SECONDS: Final = 5.0

TOKEN_PREFIX: Final = "user-"  # noqa: S105 - the users of a soak


def may_fail() -> None:
    """Raise, now and then."""
    if CHANCE.random() < FAIL:
        message = "a plugin of the soak failed on purpose"
        raise ValueError(message)


class DeskModel:
    """Does what the last message says."""

    name = "desk"

    def capabilities(self, model: str) -> Capabilities:
        """Say nothing of it."""
        return Capabilities()

    def encode(self, request: ModelRequest) -> bytes:
        """There is no wire."""
        return b""

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Answer."""
        await trio.lowlevel.checkpoint()
        yield _Words(_plan(request))


def _plan(request: ModelRequest) -> list[Chunk | float | ProviderError]:
    """Say what is streamed: chunks, seconds in between, and what is raised."""
    said = next((one for one in reversed(request.messages) if isinstance(one, UserMessage)), None)
    text = "" if said is None else _text(said)
    is_answered = isinstance(request.messages[-1], ToolMessage)
    usage = TokenUsage(input=10, output=5)
    if not is_answered and ("tool" in text or "broken" in text):
        name = "broken" if "broken" in text else "look"
        call_id, arguments = f"c-{CHANCE.randrange(10**9)}", '{"place": "here"}'
        call = read_call(call_id, name, arguments)
        message = AssistantMessage(content=(call,), model=request.model, stop_reason="tool_use")
        return [ToolCallStarted(0, call_id, name), ArgumentsDelta(0, arguments), Completed("tool_use", message, usage)]  # fmt: skip
    if "fail" in text:
        return [TextDelta("so "), Authentication("the model is away")]
    words = [f"re {' '.join(names_in(text)[-1:])}", *(f" word{number}" for number in range(4))]
    gap = 0.3 if "long" in text else 0.005
    whole = AssistantMessage(content=(Text(text="".join(words)),), model=request.model, stop_reason="end")
    plan: list[Chunk | float | ProviderError] = []
    for word in words:
        plan += [TextDelta(word), gap]
    return [*plan, Completed("end", whole, usage)]


def _text(message: UserMessage) -> str:
    return " ".join(block.text for block in message.content if isinstance(block, Text))


class _Words:
    def __init__(self, plan: list[Chunk | float | ProviderError]) -> None:
        self._left = iter(plan)

    def __aiter__(self) -> "_Words":
        return self

    async def __anext__(self) -> Chunk:
        for step in self._left:
            if isinstance(step, float):
                await trio.sleep(step)
            elif isinstance(step, ProviderError):
                raise step
            else:
                return step
        raise StopAsyncIteration


@tool
async def look(place: str) -> str:
    """Look somewhere, which takes a while."""
    await trio.sleep(CHANCE.uniform(0, 0.1))
    return f"nothing to see {place}"


@tool
async def broken(place: str) -> str:
    """Raise."""
    await trio.lowlevel.checkpoint()
    message = f"nothing works {place}"
    raise RuntimeError(message)


class BadListener(p.Plugin[int]):
    """A plugin of each session, which fails now and then."""

    def init(self) -> int:
        """Begin."""
        return 0

    @p.on(p.BeforePrompt)
    def judge(self, event: Any, state: int, ctx: p.Context) -> p.Action[int]:
        """Fail, or go on: by what was said, since it runs again in a replay."""
        if "fault" in str(event):
            message = "a session plugin of the soak failed on purpose"
            raise ValueError(message)
        return p.Continue(state + 1)


class BadHost(HostPlugin):
    """Has every hook, each of which fails now and then."""

    name = "bad-host"
    timeouts: Mapping[str, float] = {"on_before_tool_call": 1.0, "on_request_end": 1.0}

    async def intercept_chat_request(self, ctx: ChatRequestContext) -> HandledResponse | None:
        """Fail."""
        may_fail()
        return None

    async def on_request_start(self, ctx: RequestContext) -> None:
        """Fail."""
        may_fail()

    async def on_before_tool_call(self, event: BeforeToolCall) -> Allow | Deny:
        """Deny, rewrite, fail, or hang."""
        may_fail()
        if CHANCE.random() < FAIL:
            return Deny("not today")
        if CHANCE.random() < FAIL:
            await trio.sleep_forever()
        return Allow({**event.input, "place": "there"}) if CHANCE.random() < FAIL else Allow()

    async def on_after_tool_call(self, event: AfterToolCall) -> None:
        """Fail."""
        may_fail()

    async def on_turn_persisted(self, ctx: RequestContext) -> None:
        """Fail, or read."""
        may_fail()
        assert ctx.reader is not None  # noqa: S101 - there is one by then
        await ctx.reader.messages()

    async def on_request_end(self, ctx: RequestContext) -> None:
        """Fail, or hang."""
        may_fail()
        if CHANCE.random() < FAIL:
            await trio.sleep_forever()


class Sweeper(HostPlugin):
    """Clears away what hangs together in cycles, such as exceptions with their frames, before it is counted.

    The command serves with a collector that looks at all seldom: what floats then is bounded, but not within a minute.
    """

    name = "sweeper"

    async def background(self) -> None:
        """Clear away, again and again."""
        while True:
            await trio.sleep(SWEEP_SECONDS)
            gc.collect()


async def provide(_about: ProviderContext, _messages: tuple[Message, ...]) -> Sequence[UserMessage]:
    """Give a note, or fail."""
    may_fail()
    return [UserMessage(content=(Text(text="be kind"),))]


def authenticate(headers: Mapping[str, str]) -> Principal | None:
    """Let in who has a token of the soak: it is the user's name."""
    token = headers.get("authorization", "").removeprefix("Bearer ")
    return Principal(tenant_id="soak", user_id=token) if token.startswith(TOKEN_PREFIX) else None


def _drop_events() -> None:
    """Lose one event of five hundred on its way to the readers."""
    put = event_hub.Hub._put  # noqa: SLF001 - it is broken on purpose

    def drop(self: Any, event: Any, subscription: Any) -> None:
        if event.meta is None or event.meta.ephemeral or CHANCE.random() > 1 / 500:
            put(self, event, subscription)

    event_hub.Hub._put = drop  # type: ignore[method-assign]  # noqa: SLF001 - as well


def _acknowledge_early() -> None:
    """Let what a step decided leave at once, and the disk be slow."""

    def put(_self: Any, _number: int, effects: Any, *_: Any, **__: Any) -> outbox.Leaving:
        return outbox.Leaving(at_once=tuple(effects))

    outbox.Outbox.put = put  # type: ignore[method-assign]
    append = SqliteStore.append

    def slowly(self: Any, *given: Any, **more: Any) -> Any:
        time.sleep(0.3)
        return append(self, *given, **more)

    SqliteStore.append = slowly  # type: ignore[method-assign]


def _make_app() -> Any:
    """Make the application."""
    for (
        name,
        value,
    ) in KEPT.items():  # else what is kept of sessions that have ended grows for five minutes, as it should
        setattr(ended_sessions, name, value)
    match os.environ.get("SOAK_BREAK"):
        case "drop":
            _drop_events()
        case "early":
            _acknowledge_early()
        case _:
            pass
    limits = Limits(
        messages_per_minute=10**6,
        messages_burst=10**6,
        calls_per_minute=10**6,
        calls_burst=10**6,
        max_sessions_per_principal=100,
    )
    desk = AgentProfile(
        id="desk",
        name="Desk",
        options=SessionOptions(
            model=DeskModel(), tools=[look, broken], plugins=[BadListener], sandbox="memory"
        ),
    )
    return create_app(
        profiles=[desk],
        plugins=[BadHost(), Sweeper()],
        context_providers=[provide],
        auth=authenticate,
        limits=limits,
        store=f"sqlite:{Path(os.environ.get('SOAK_FOLDER', '.')) / 'soak.db'}",
        environ={},
        idle_after=5.0,
        heartbeat=5.0,
        metrics=Metrics() if os.environ.get("SOAK_METRICS") else None,
        drain_timeout=2.0,
    )


app = _make_app()
