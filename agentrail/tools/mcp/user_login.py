"""The login of a user of a served program: from a link in a question, through the user's browser, to tokens in a file."""

import hmac
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import trio
from attrs import define, field

from agentrail import outside

LOGIN_SECONDS: Final = 600.0
"""Time limit of a login, and of the link that begins it."""

_SHOW_SECONDS: Final = 30.0
_INTERRUPTED: Final = "it was interrupted"


@define(eq=False)
class LoginAttempt:
    """A walk of one browser through the authorization server: the `Browser` of the library's flow.

    Attributes:
        cookie: Secret that only this browser has.
        state: Secret of the authorization server's answer, until it has come.
    """

    redirect_uri: str
    cookie: str
    state: str | None = None
    address: str | None = None
    reason: str | None = None
    answer: Mapping[str, str] = field(factory=dict)
    shown: trio.Event = field(factory=trio.Event)
    answered: trio.Event = field(factory=trio.Event)
    ended: trio.Event = field(factory=trio.Event)

    async def show(self, url: str) -> None:  # noqa: RUF029 - a callback of the library
        self.state = dict(parse_qsl(urlsplit(url).query)).get("state")
        self.address = url
        self.shown.set()

    async def wait_answer(self) -> Mapping[str, str]:
        await self.answered.wait()
        return self.answer

    def end(self, reason: str | None) -> None:
        self.state, self.reason = None, reason
        self.shown.set()
        self.ended.set()


LogIn: TypeAlias = Callable[[LoginAttempt], Awaitable[str | None]]
"""Logs in with a browser. Returns why that failed."""


class BrowserLogin:
    """The login of one principal at one source, as `agentrail.abc.UserLogin`.

    Attributes:
        reason: Why the last attempt failed.
    """

    def __init__(self, address: str, server: str, owner: str) -> None:
        self.server = server
        self.owner = owner
        self.user: str = ""
        self.reason: str | None = None
        self._address = address
        self._ticket = ""
        self._expires_at = 0.0
        self._attempt: LoginAttempt | None = None
        self._begun = trio.Event()
        self._running = trio.CancelScope()
        self._waiting: dict[trio.CancelScope, None] = {}

    # --- of the session

    def offer(self, user: str) -> str:
        """Return the link that begins the login: the same one until there is a login, or it is ten minutes old."""
        now = trio.current_time()
        if not self._ticket or now >= self._expires_at:
            self._ticket, self._expires_at = outside.ids(32), now + LOGIN_SECONDS
        self.user = user
        return f"{self._address}/{self.server}?ticket={self._ticket}"

    @contextmanager
    def until_done(self) -> Iterator[trio.CancelScope]:
        """Cancel the block as soon as there is a login."""
        with trio.CancelScope() as scope:
            self._waiting[scope] = None
            try:
                yield scope
            finally:
                self._waiting.pop(scope, None)

    # --- of the source

    async def serve(self, log_in: LogIn) -> None:
        """Carry out one attempt at a time, until one has succeeded. A later attempt ends the present one."""
        try:
            while True:
                await self._begun.wait()
                self._begun, attempt = trio.Event(), self._attempt
                if attempt is None:  # there was a login meanwhile
                    continue
                reason: str | None = f"there was no answer within {LOGIN_SECONDS / 60:g} minutes"
                with trio.move_on_after(LOGIN_SECONDS) as self._running:
                    reason = await log_in(attempt)
                if reason is None:
                    self.finish()
                    return
                if attempt is self._attempt:
                    self.reason = reason
                    attempt.end(reason)
        finally:
            self._end_attempt(_INTERRUPTED)

    def finish(self) -> None:
        """There is a login. The link and the answer of an authorization server are void from now on."""
        self._ticket, self.reason = "", None
        self._end_attempt(None)
        for scope in [*self._waiting]:
            scope.cancel(reason="the user has logged in")

    def _end_attempt(self, reason: str | None) -> None:
        if self._attempt is not None:
            self._attempt.end(reason)
            self._attempt = None

    # --- of the pages

    def takes(self, ticket: str) -> bool:
        return self._ticket != "" and trio.current_time() < self._expires_at and _same(ticket, self._ticket)

    async def begin(self, cookie: str) -> str:
        """Begin an attempt of the browser with this cookie. Return the address where it has to go, or nothing if that failed."""
        self._end_attempt(_INTERRUPTED)
        attempt = self._attempt = LoginAttempt(f"{self._address}/callback", cookie)
        self._running.cancel(reason="the user has begun again")
        self._begun.set()
        with trio.move_on_after(_SHOW_SECONDS):
            await attempt.shown.wait()
        return attempt.address or ""

    def awaits(self, state: str, cookie: str) -> bool:
        one = self._attempt
        if one is None or one.state is None:
            return False
        return _same(state, one.state) and _same(cookie, one.cookie)

    async def end(self, answer: Mapping[str, str]) -> str | None:
        """Take the answer of the authorization server, once. Return why the login failed."""
        attempt = self._attempt
        if attempt is None:
            return _INTERRUPTED
        attempt.state, attempt.answer = None, answer
        attempt.answered.set()
        await attempt.ended.wait()
        return attempt.reason


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())
