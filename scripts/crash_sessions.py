"""The process that `scripts.crash --sessions` kills: a supervisor whose sessions answer prompts and run tools, on a store.

It brings back what it finds, waits until nothing works any more, says what each session remembers, and then prompts for ever. A tool
says that it acts in the moment in which it does.
"""

import logging
import random
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import trio
from attrs import define

from agentrail.abc import Ok, ToolContext, ToolOutcome
from agentrail.abc.store import Filters
from agentrail.messages import JsonObject, Text, ToolMessage, UserMessage
from agentrail.runtime.handle import Session
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.testing.expectations import check_history
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import RecordingTool
from scripts.crash_account import Asked, Asks, Failed, Frame, Looked, Ran, Ready, Remembers
from scripts.crash_worker import OpenStore, sayer

SESSIONS: Final = 4
REST_SECONDS: Final = 20.0


@define(kw_only=True, eq=False)
class Acting(RecordingTool):
    """A tool that says when it acts."""

    say: Callable[[Frame], None]

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Act."""
        await trio.lowlevel.checkpoint()
        self.say(Ran(ctx.session_id, ctx.operation_id, self.effect_class))
        await trio.lowlevel.checkpoint()
        return Ok(text="done")


def work_sessions(pipe: int, open_store: OpenStore, path: Path, seed: str) -> None:
    """Work with sessions on a store until killed; as `crash_worker.work`."""
    say = sayer(pipe)
    logging.disable()
    try:
        trio.run(_work, open_store, path, seed, say)
    except BaseException:
        say(Failed(traceback.format_exc()))
        raise


async def _work(open_store: OpenStore, path: Path, seed: str, say: Callable[[Frame], None]) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same prompts again

    def given(_: object = None) -> dict[str, Any]:
        tools = [Acting(name=name, effect_class=name, say=say) for name in ("once", "idempotent")]
        return {"model": FunctionModel(_answer), "tools": tools}

    async with open_nameless(store=open_store(path), resume="all", revive=given) as supervisor:
        sessions = [await _look(supervisor, one.session, say) for one in await _stored(supervisor)]
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


async def _look(supervisor: SessionSupervisor, name: str, say: Callable[[Frame], None]) -> Session:
    """Wait until a session that came back rests, and say what it remembers."""
    session = supervisor.session(name)
    await _rest(session)
    messages = await session.messages()
    check_history(messages)
    said = (message for message in messages if isinstance(message, UserMessage))
    texts = ["".join(part.text for part in message.content if isinstance(part, Text)) for message in said]
    say(Remembers(name, tuple(text for text in texts if text.startswith("prompt "))))
    return session


async def _prompt(session: Session, name: str, say: Callable[[Frame], None]) -> None:
    number = 0
    while True:
        number += 1
        text = f"prompt {name}-{number}"
        say(Asks(session.session_id, text))
        await session.prompt(text, client_id=f"{name}-{number}")
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
    return calls(("once", {}), ("idempotent", {}))
