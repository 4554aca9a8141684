"""Ends open streams and sockets when their token expires or is revoked."""

import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, Protocol

import attrs
import trio

from agentrail import outside
from agentrail.gateway.authorization import CallerCheck, CallHead
from agentrail.gateway.error_responses import ErrorAnswer
from agentrail.gateway.node_token import NODE_HEADER
from agentrail.gateway.sse_frames import DoneReason
from agentrail.gateway.stream_watchdog import WatchedStream, in_turns
from agentrail.host.hook_payloads import Principal

EXPIRY_SECONDS: Final = 1.0
"""Time limit for noticing an expired token of an open stream or subscription."""

JUDGED_EVERY_SECONDS: Final = 30.0
"""Seconds between two calls of `auth` for one open call."""

MAX_JUDGED_AT_ONCE: Final = 16
"""Limit on concurrent calls of `auth` for open calls."""

UNAUTHORIZED_STATUS: Final = 401


class OpenCall(Protocol):
    @property
    def head(self) -> CallHead: ...

    @property
    def principal(self) -> Principal | None:
        """Its caller, or None before authentication."""
        ...

    def end_unauthorized(self) -> None: ...


@attrs.frozen(eq=False)
class OpenStream:
    """A stream of a route as an open call."""

    head: CallHead
    principal: Principal
    stream: WatchedStream

    def end_unauthorized(self) -> None:
        self.stream.finish("unauthorized")


@attrs.define(eq=False)
class _Judged:
    """Time of the next check of an open call."""

    due_at: float = 0.0
    """On Trio's clock; infinity during a check."""
    expires_at: float = math.inf
    """In seconds since 1970."""


class CallWatch:
    def __init__(self, check: CallerCheck) -> None:
        self._check = check
        self._open: dict[OpenCall, _Judged] = {}
        self._forwarded: dict[str, OpenCall] = {}
        self._asked = trio.CapacityLimiter(MAX_JUDGED_AT_ONCE)

    @contextmanager
    def watched(self, one: OpenCall) -> Iterator[None]:
        token = one.head.headers.get(NODE_HEADER)
        if token is None:
            self._open[one] = _Judged()
        else:  # judged by the node that its client has called
            self._forwarded[token] = one
        try:
            yield
        finally:
            self._open.pop(one, None)
            self._forwarded.pop(token or "", None)

    def end_forwarded(self, token: str, reason: DoneReason) -> bool:
        """End the stream of a request of another node. False if it has none, such as for a whole answer."""
        one = self._forwarded.get(token)
        if isinstance(one, OpenStream):
            one.stream.finish(reason)
        return one is not None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, nursery, name="judge open calls")
            nursery.start_soon(self._check.follow_tokens, self._judge_all, name="follow the token file")
            yield
            nursery.cancel_scope.cancel(reason="there are no open requests any more")

    def _judge_all(self) -> None:
        for judged in self._open.values():
            if judged.due_at < math.inf:  # a running check already uses the new tokens
                judged.due_at = 0.0

    async def _watch(self, nursery: trio.Nursery) -> None:
        while True:
            await trio.sleep(EXPIRY_SECONDS)
            async for one, judged in in_turns(self._open.items()):
                principal = one.principal
                is_due = trio.current_time() >= judged.due_at or outside.wall() >= judged.expires_at
                if principal is not None and is_due and judged.due_at < math.inf:
                    judged.due_at, judged.expires_at = math.inf, math.inf
                    nursery.start_soon(self._judge, one, principal, judged)

    async def _judge(self, one: OpenCall, principal: Principal, judged: _Judged) -> None:
        async with self._asked:
            found = await self._check.check_again(one.head, principal)
        if one not in self._open:
            return
        if isinstance(found, Principal) and principal.scopes <= found.scopes:
            expires_at = self._check.expires_at(one.head)
            judged.expires_at = math.inf if expires_at is None else expires_at
        elif not isinstance(found, ErrorAnswer) or found.status == UNAUTHORIZED_STATUS:
            one.end_unauthorized()
            return
        judged.due_at = trio.current_time() + JUDGED_EVERY_SECONDS  # even if `auth` failed
