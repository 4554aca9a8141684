"""`agentrail.connect`: a session on a server, for the duration of a block. Trio."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from agentrail import outside
from agentrail.errors import AlreadyStarted, SessionDown, SessionUnknown, Unreachable
from agentrail.remote.dialer import Dial, address_of, dial_for
from agentrail.remote.frame_codec import object_in
from agentrail.remote.link import Links, open_links
from agentrail.remote.remote_session import RemoteSession
from agentrail.runtime.arguments import fault_of, fault_of_wait, refuse


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
    """Use a session on a server within the block, like a local one.

    Lost connections are reopened as long as the block lasts, after 0.25 to 10 seconds. Calls wait meanwhile.

    Args:
        url: Address of the server: `https://agents.example`, with the path that it is mounted at. With `http`, anyone on the
            network path can read the token.
        token: Token as in `Authorization: Bearer …`, or None for a server without tokens on this machine.
        session_id: Id of the session, or None for a new one.
        agent_id: Profile of a new session, or None for the default. Together with `session_id`, the session is created if it
            does not exist.
        tls: TLS settings that verify the server's certificate, or None for the system's.
        connect_seconds: Time limit for the first connection, in seconds, or None for no limit.

    Returns:
        A handle with the methods of `Session`, their results and their exceptions. Methods that take code raise `NotRemote`.

    Raises:
        Unauthorized: Your move: the server does not accept the token. There is no retry.
        Unreachable: No server answered in time. Or its certificate is not trusted, without a retry.
        SessionUnknown: Your move: the session does not exist, or belongs to another user.
        ProfileUnknown, RemoteRefused: The server refuses to create such a session, or refuses this client.
        OptionError: Your move: an invalid argument, or the extra `connect` is not installed.

    Cancellation: The connections are closed. The session on the server and its cycles continue.
    """
    address = address_of(url)
    refuse(
        fault_of_wait(connect_seconds),
        _fault_of_token(token),
        fault_of("session_id", session_id, str | None),
        fault_of("agent_id", agent_id, str | None),
    )
    async with open_remote(dial_for(address, token, tls), session_id, agent_id, connect_seconds) as session:
        yield session


@asynccontextmanager
async def open_remote(
    dial: Dial, session_id: str | None, agent_id: str | None, connect_seconds: float | None
) -> AsyncIterator[RemoteSession]:
    async with open_links(dial) as links:
        with trio.move_on_after(float("inf") if connect_seconds is None else connect_seconds):
            await links.first.welcomed.wait()
        if links.first.fault is not None:
            faults, links.first.fault = [links.first.fault], None  # its traceback refers to this frame
            raise faults.pop()
        if not links.first.welcomed.is_set():
            message = (
                f"no server answered within {connect_seconds:g} s: check the address, or try again later"
            )
            raise Unreachable(message) from links.first.last_end
        yield RemoteSession(links, await _open_session(links, session_id, agent_id))


async def _open_session(links: Links, session_id: str | None, agent_id: str | None) -> str:
    if session_id is not None:
        try:
            await links.first.call("status", session_id, {})
        except SessionDown:
            return session_id  # its events can still be read, and calls report how it ended
        except SessionUnknown:
            if agent_id is None:
                raise
        else:
            return session_id
    # The id is chosen here, so that a command repeated after a lost connection creates only one session.
    name = session_id or f"s-{outside.ids(16)}"
    try:
        made = await links.first.call("create", name, {"agent_id": agent_id})
    except AlreadyStarted:  # by the same command, which was repeated, or by another client
        await links.first.call("status", name, {})  # checks the session's owner
        return name
    return str(object_in(made).get("session_id", name))


def _fault_of_token(token: object) -> str | None:
    if token is None or (
        isinstance(token, str) and token and token.isascii() and token.isprintable() and " " not in token
    ):
        return None
    return "token is empty, not text, or contains a character that tokens cannot have: expected it as `agentrail token new` printed it"
