"""`agentrail.connect`: a session on a server for as long as a block lasts. Trio."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from agentrail import outside
from agentrail.errors import AlreadyStarted, SessionDown, SessionUnknown, Unreachable
from agentrail.remote.dialing import Dial, address_of, dial_for
from agentrail.remote.frames import object_in
from agentrail.remote.link import Links, open_links
from agentrail.remote.session import RemoteSession
from agentrail.runtime.arguments import fault_of_wait, refuse


@asynccontextmanager
async def connect(  # noqa: PLR0913 - all that there is to say of it, by keyword
    url: str,
    token: str | None = None,
    session_id: str | None = None,
    agent_id: str | None = None,
    *,
    tls: ssl.SSLContext | None = None,
    connect_seconds: float | None = 30.0,
) -> AsyncIterator[RemoteSession]:
    """Work with a session on a server within the block, as with one in this process.

    Connections that are lost are opened again, for as long as the block lasts: after a quarter of a second, doubled each time up to ten.
    Calls wait meanwhile; put a timeout around them where that is not wanted.

    Args:
        url: Of the server: `https://agents.example`, with the path that it is mounted below. Over `http` all that is between reads the token.
        token: As in `Authorization: Bearer …`; None for a server without tokens on this machine.
        session_id: Which session; None for a new one.
        agent_id: The profile of a new session; None for the default. With `session_id` too, that session is created if there is none.
        tls: How the certificate of the server is judged; None for the machine's way.
        connect_seconds: How long to wait for the first connection; None for as long as it takes.

    Returns:
        A handle with the methods of `Session`, their results and their exceptions. Those that take code raise `NotRemote`.

    Raises:
        Unauthorized: Your move: the server does not take the token. It is not tried again.
        Unreachable: No server answered in time; or its certificate is not trusted, which is not tried again.
        SessionUnknown: Your move: there is no such session, or it is another's.
        ProfileUnknown, RemoteRefused: The server does not create such a session, or does not let this client in.
        OptionError: Your move: an argument that cannot be, or the extra `connect` is not installed.

    Cancellation: The connections are closed. The session on the server goes on, and so do its cycles.
    """
    address = address_of(url)
    refuse(fault_of_wait(connect_seconds), _fault_of_token(token))
    async with open_remote(dial_for(address, token, tls), session_id, agent_id, connect_seconds) as session:
        yield session


@asynccontextmanager
async def open_remote(
    dial: Dial, session_id: str | None, agent_id: str | None, connect_seconds: float | None
) -> AsyncIterator[RemoteSession]:
    """Do as `connect`, over what opens connections."""
    async with open_links(dial) as links:
        await _wait_connected(links, connect_seconds)
        yield RemoteSession(links, await _open_session(links, session_id, agent_id))


async def _wait_connected(links: Links, connect_seconds: float | None) -> None:
    with trio.move_on_after(float("inf") if connect_seconds is None else connect_seconds):
        await links.first.welcomed.wait()
    if links.first.fault is not None:
        raise links.first.fault
    if not links.first.welcomed.is_set():
        message = f"no server answered within {connect_seconds:g} s: look at the address, or try again later"
        raise Unreachable(message) from links.first.last_end


async def _open_session(links: Links, session_id: str | None, agent_id: str | None) -> str:
    if session_id is not None:
        try:
            await links.first.call("status", session_id, {})
        except SessionDown:
            return session_id  # what it published can still be read, and calls say how it ended
        except SessionUnknown:
            if agent_id is None:
                raise
        else:
            return session_id
    # Named here, so that one which is sent twice, because a connection was lost, creates one session.
    name = session_id or f"s-{outside.ids(16)}"
    answered = await links.first.ask("create", name, {"agent_id": agent_id})
    if answered.error is None:
        return str(object_in(answered.result).get("session_id", name))
    if isinstance(answered.error, AlreadyStarted) and (answered.was_repeated or session_id is not None):
        await links.first.call("status", name, {})  # whose it is
        return name
    raise answered.error


def _fault_of_token(token: object) -> str | None:
    if token is None or (
        isinstance(token, str) and token and token.isascii() and token.isprintable() and " " not in token
    ):
        return None
    return "token is empty, no text, or has a character that no token has: expected it as `agentrail token new` printed it"
