"""A session on a server, for `agentrail chat --connect`: opening it, its history, and notices of a lost server."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

from agentrail.cli.resume_command import ComeBack
from agentrail.cli.resume_option import LATEST
from agentrail.cli.session_views import conversation
from agentrail.cli.top_command import read_token
from agentrail.errors import AgentrailError, OptionError
from agentrail.messages import PromptRef
from agentrail.remote.connect import connect
from agentrail.remote.remote_session import RemoteSession

_CONNECT_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 2.0
_RUNNING: Final = PromptRef("running")
"""Stands for the running cycle when a chat connects: a status does not name its prompt."""


@asynccontextmanager
async def open_far(url: str, wanted: str | None, agent: str | None) -> AsyncIterator[RemoteSession]:
    """Open a session on a server for a block. The session outlives it."""
    if wanted == LATEST:
        raise OptionError(
            ["--resume without an id is for sessions stored here: name a session of the server"]
        )
    async with connect(
        url, read_token(None), session_id=wanted, agent_id=agent, connect_seconds=_CONNECT_SECONDS
    ) as session:
        yield session


async def find_far(session: RemoteSession) -> ComeBack | None:
    """Return the history of a session on a server, or None for an unused one."""
    status = await session.status()
    if not status.last_seq:
        return None
    return ComeBack(
        session=session,  # type: ignore[arg-type]  # its calls are those of `Session`, as `agentrail.connect` promises
        after=status.last_seq,
        shown=tuple(conversation(await session.messages())),
        running=None if status.phase == "idle" else _RUNNING,
        queued=status.queued,
    )


async def watch_server(session: RemoteSession, say: Callable[[str], Awaitable[None]]) -> None:
    """Report when the server stops answering and when it is back, until cancelled. The session reconnects automatically."""
    is_gone = False
    while True:
        await trio.sleep(_LOOK_SECONDS)
        with trio.move_on_after(_LOOK_SECONDS) as waited:
            try:
                await session.status()
            except AgentrailError:  # such as an ended session: the reader of its events reports it
                return
        if waited.cancelled_caught and not is_gone:
            await say("the server does not answer; reconnecting. The conversation is stored there")
        elif is_gone and not waited.cancelled_caught:
            await say("the server is back")
        is_gone = waited.cancelled_caught
