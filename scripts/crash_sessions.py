"""The process that `scripts.crash --sessions` kills: a supervisor whose sessions answer prompts and run tools, on a store.

It brings back what it finds, waits until nothing works any more, says what each session remembers, and then prompts for ever. A tool
says that it acts in the moment in which it does. Each prompt asks for one call that is `once`, so its entry in the ledger is its prompt:
a call that another life makes for the same prompt counts as the same one.
"""

import logging
import random
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import trio
from attrs import define

from agentrail import plugins as p
from agentrail.abc import Ok, ToolContext, ToolOutcome
from agentrail.abc.store import Filters
from agentrail.errors import AlreadyStarted, SessionDown
from agentrail.messages import JsonObject, Text, ToolMessage, UserMessage
from agentrail.runtime.persistence import Durability
from agentrail.runtime.session_handle import Session
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.testing.cancelling import check_history
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import RecordingTool
from scripts.crash_account import Asked, Asks, Failed, Frame, Looked, Ran, Ready, Remembers
from scripts.crash_worker import OpenStore, sayer

SESSIONS: Final = 4
REST_SECONDS: Final = 60.0
SLOW_SECONDS: Final = 0.06
"""Longer than a handler may take without being reported."""

SLOW_RATE: Final = 0.02

Change: TypeAlias = Literal["nothing", "blocks once", "blocks idempotent", "says more", "waits", "rewrites"]
"""What a plugin does in one life: the next life may have another one."""

CHANGES: Final[tuple[Change, ...]] = get_args(Change)


class Changing(p.Plugin[int]):
    """A guard that may be slow, and another one in each life of its process. It listens to the same hooks in all of them."""

    name = "changing"
    priority = 50
    hooks = frozenset({p.BeforePrompt, p.BeforeTool, p.AfterTurn})

    def __init__(self, change: Change, chance: random.Random, *, is_slow: bool) -> None:
        """Be this in this life."""
        self._change, self._chance, self._is_slow = change, chance, is_slow

    def init(self) -> int:
        """Begin with nothing."""
        return 0

    def handle(self, event: p.HookEvent, state: int, ctx: p.Context) -> p.Action[int]:
        """Answer as it does in this life, and sometimes late."""
        del ctx
        if self._is_slow and self._chance.random() < SLOW_RATE:
            time.sleep(SLOW_SECONDS)
        match self._change, event:
            case ("blocks once", p.BeforeTool(name="once")) | (
                "blocks idempotent",
                p.BeforeTool(name="idempotent"),
            ):
                return p.BlockTool("not in this life", state)
            case "rewrites", p.BeforeTool(name="idempotent", arguments=arguments):
                return p.ReplaceToolArgs({**arguments, "more": "1"}, state)
            case "says more", p.AfterTurn():
                return p.Emit("more", {}, state)
            case "waits", p.BeforePrompt():
                return p.Request(p.ReadFile("no such file"), "file", state, wait=True)
            case _:
                return p.Continue(state)


@define(kw_only=True, eq=False)
class Acting(RecordingTool):
    """A tool that says when it acts."""

    say: Callable[[Frame], None]

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Act."""
        await trio.lowlevel.checkpoint()
        operation = arguments["prompt"] if self.effect_class == "once" else ctx.operation_id
        self.say(Ran(ctx.session_id, str(operation), self.effect_class))
        await trio.lowlevel.checkpoint()
        return Ok(text="done")


def work_sessions(  # noqa: PLR0913 - what a life is like
    pipe: int,
    open_store: OpenStore,
    path: Path,
    seed: str,
    *,
    is_slow: bool = False,
    is_changed: bool = False,
    durability: Durability = "grouped",
) -> None:
    """Work with sessions on a store until killed; as `crash_worker.work`.

    Args:
        pipe: As there.
        open_store: As there.
        path: As there.
        seed: As there.
        is_slow: Whether handlers of their plugin sometimes take longer than they may.
        is_changed: Whether this life has another plugin than the one before.
        durability: The option of the supervisor.
    """
    say = sayer(pipe)
    logging.disable()
    try:
        chance = random.Random(seed)  # noqa: S311 - the same life again
        change = chance.choice(CHANGES) if is_changed else "nothing"
        plugin = Changing(change, chance, is_slow=is_slow)
        trio.run(_work, open_store, path, seed, say, plugin, durability)
    except BaseException:
        say(Failed(traceback.format_exc()))
        raise


async def _work(  # noqa: PLR0913, PLR0917 - what a life is like
    open_store: OpenStore,
    path: Path,
    seed: str,
    say: Callable[[Frame], None],
    plugin: Changing,
    durability: Durability,
) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same prompts again

    def given(_: object = None) -> dict[str, Any]:
        tools = [Acting(name=name, effect_class=name, say=say) for name in ("once", "idempotent")]
        return {"model": FunctionModel(_answer), "tools": tools, "plugins": [plugin]}

    opened = open_nameless(store=open_store(path), resume="all", revive=given, durability=durability)
    async with opened as supervisor:
        found = await _stored(supervisor)
        sessions = [await _look(supervisor, one.session, say) for one in found]
        say(Looked())
        async with trio.open_nursery() as nursery:
            for number in range(len(sessions), SESSIONS):
                name = f"s{seed}-{number}"
                sessions.append(await supervisor.start_session(session_id=name, **given()))
            say(Ready())
            for session in sessions:
                nursery.start_soon(_prompt, session, f"{seed}-{chance.randrange(2**40)}", say)


async def _stored(supervisor: SessionSupervisor) -> Any:
    return await supervisor.find(Filters(only_roots=True, has_ended=False), limit=SESSIONS + 1)


async def _let_go_on(supervisor: SessionSupervisor, name: str) -> Session:
    """Resume a session that is parked, as a person would, and return it at rest. One that is resumed by itself may be parked yet."""
    while True:
        with suppress(AlreadyStarted):
            await supervisor.resume_session(name, on_drift="go_on")
        with suppress(SessionDown):
            session = supervisor.session(name)
            await _rest(session)
            return session
        await trio.sleep(0.01)


async def _look(supervisor: SessionSupervisor, name: str, say: Callable[[Frame], None]) -> Session:
    """Wait until a session that came back rests, and say what it remembers."""
    session = await _let_go_on(supervisor, name)
    messages = await session.messages()
    check_history(messages)
    texts = [_text_of(message) for message in messages if isinstance(message, UserMessage)]
    say(Remembers(name, tuple(text for text in texts if text.startswith("prompt "))))
    return session


async def _prompt(session: Session, name: str, say: Callable[[Frame], None]) -> None:
    number = 0
    while True:
        number += 1
        text = f"prompt {name}-{number}"
        say(Asks(session.session_id, text))
        # The answer to the one is a receipt, at once. The record of the other waits for company, and its request for none.
        ask = session.ask if number % 2 else session.prompt
        await ask(text, client_id=f"{name}-{number}")
        say(Asked(session.session_id, text))
        await _rest(session)


async def _rest(session: Session) -> None:
    with trio.fail_after(REST_SECONDS):
        while True:
            status = await session.status()
            if status.phase == "idle" and not status.queued:
                return
            await trio.sleep(0.001)


def _answer(request: Any) -> Any:
    if isinstance(request.messages[-1], ToolMessage):
        return says("a ", "word")
    return calls(("once", {"prompt": _text_of(request.messages[-1])}), ("idempotent", {}))


def _text_of(message: UserMessage) -> str:
    return "".join(part.text for part in message.content if isinstance(part, Text))
