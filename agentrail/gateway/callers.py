"""Lets callers in: asks `auth` who calls, and keeps count of those who are none. What is decided about a call stands in `access`.

No body is read here and no route is known. Of an `authenticate` of the application that fails nothing is told but that it failed:
what it raised may hold the headers of the call.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs
import trio

from agentrail import outside
from agentrail.errors import OptionError
from agentrail.gateway.access import (
    ANYONE_HERE,
    UNAUTHORIZED,
    AccessRules,
    CallHead,
    FailedAuthentications,
    name_user,
    too_many_failures,
)
from agentrail.gateway.answers import ErrorAnswer, error_answer
from agentrail.gateway.token_file import follow_token_file
from agentrail.gateway.tokens import Tokens
from agentrail.host.identity import faults_of_principal
from agentrail.host.payloads import Principal
from agentrail.logs import Logger
from agentrail.runtime.crashes import raise_what_travels

LOGGER: Final = Logger("agentrail.gateway")

Authenticate: TypeAlias = Callable[[Mapping[str, str]], Principal | Awaitable[Principal | None] | None]
"""Gets the headers of a call, names in lower case, and says who calls; None for no one. Sync or async. A principal with an empty
`user_id` speaks for its tenant, and the call names the user."""


class CallerCheck:
    """Who may call one server, and how each call is answered that may not.

    Attributes:
        rules: From where.
    """

    def __init__(
        self,
        auth: Authenticate | None,
        rules: AccessRules,
        *,
        timeout_seconds: float = 10.0,
        max_failures_per_minute: int = 10,
    ) -> None:
        """Know of no call yet.

        Args:
            auth: `Tokens`, or a function of the application; None where this machine alone may call.
            rules: From where; whether they need a token follows from `auth`.
            timeout_seconds: How long `auth` may take.
            max_failures_per_minute: How many failed calls of one address are answered 401 and not 429; `Limits` has the number.

        Raises:
            OptionError: The operator's move: `auth` cannot be called.
        """
        if auth is not None and not callable(auth):
            raise OptionError(
                [f"auth is {type(auth).__name__}: expected Tokens, or authenticate(headers), or None"]
            )
        self.rules: AccessRules = attrs.evolve(rules, needs_token=auth is not None)
        self._auth = auth
        self._timeout_seconds = timeout_seconds
        self._failures = FailedAuthentications(limit=max_failures_per_minute)

    def admit_more(
        self, *, auth: Authenticate | None = None, hosts: Sequence[str] = (), origins: Sequence[str] = ()
    ) -> None:
        """Add what the operator says who starts a server to what its application was made with.

        Args:
            auth: Asked from now on.
            hosts: Besides `allowed_hosts`.
            origins: Besides `allowed_origins`; where there were none, these are all.

        Raises:
            OptionError: The operator's move: the application has an `auth` of its own, or a name that no header could be.
        """
        if auth is not None and self._auth is not None:
            raise OptionError(["the application has its own `auth`: leave --token-file out, or `auth`"])
        asked = self._auth if auth is None else auth
        listed = (*(self.rules.allowed_origins or ()), *origins)
        self.rules = attrs.evolve(
            self.rules,
            allowed_hosts=(*self.rules.allowed_hosts, *hosts),
            allowed_origins=listed or self.rules.allowed_origins,
            needs_token=asked is not None,
        )
        self._auth = asked

    async def admit(self, head: CallHead) -> Principal | ErrorAnswer:
        """Judge a call by its head, and say who calls.

        Returns:
            The principal, whose `user_id` is empty where a token speaks for its tenant and no header names the user; or what
            refuses the call.

        Cancellation: Is passed on to `auth`. Nothing is counted.
        """
        refused = self.rules.judge(head)
        if refused is not None:
            return refused
        found = ANYONE_HERE if self._auth is None else await self._ask(self._auth, head)
        return found if isinstance(found, ErrorAnswer) else name_user(found, head.headers)

    async def check_again(self, head: CallHead, principal: Principal) -> Principal | ErrorAnswer:
        """Judge the caller of an open socket or stream as a new call with its head would be judged.

        A token that is no longer valid is not counted among the failures of its address: it was valid when it came.

        Args:
            head: The head of the call, with its token.
            principal: The caller, as admitted.

        Returns:
            The caller with the scopes of now; or the refusal: 401 if the token expired, was revoked or is another user's now, 503 if `auth`
            failed.

        Cancellation: Is passed on to `auth`.
        """
        if self._auth is None:
            return principal
        if isinstance(self._auth, Tokens):
            found: Principal | ErrorAnswer | None = self._auth(head.headers)
        else:
            found = await self._ask_application(self._auth, head)
        if isinstance(found, ErrorAnswer):
            return found
        if found is None or found.tenant_id != principal.tenant_id:
            return UNAUTHORIZED
        if found.user_id not in ("", principal.user_id):
            return UNAUTHORIZED
        return attrs.evolve(principal, scopes=found.scopes)

    def expires_at(self, head: CallHead) -> float | None:
        """Say when the token of a call that was admitted ends, in seconds since 1970; None where it does not, or only `auth` knows."""
        return self._auth.expires_at(head.headers) if isinstance(self._auth, Tokens) else None

    async def follow_tokens(self, changed: Callable[[], object]) -> None:
        """Let in whom the token file names, as long as the server runs.

        Args:
            changed: Called when other tokens hold.

        Cancellation: As of `follow_token_file`.
        """
        if isinstance(self._auth, Tokens):
            await follow_token_file(self._auth, changed)

    async def _ask(self, auth: Authenticate, head: CallHead) -> Principal | ErrorAnswer:
        # Its tokens cannot be guessed: the right one is let in whatever was tried before.
        if isinstance(auth, Tokens):
            return auth(head.headers) or self._failures.failed(head.peer, outside.monotonic())
        wait = self._failures.wait_of(head.peer, outside.monotonic())
        if wait > 0:
            return too_many_failures(wait)
        answer = await self._ask_application(auth, head)
        return answer or self._failures.failed(head.peer, outside.monotonic())

    async def _ask_application(self, auth: Authenticate, head: CallHead) -> Principal | ErrorAnswer | None:
        found: Any = None
        try:
            with trio.CancelScope(deadline=trio.current_time() + self._timeout_seconds) as scope:
                found = auth(head.headers)
                if inspect.isawaitable(found):
                    found = await found
        except BaseException as raised:  # noqa: ASYNC103, BLE001 - an edge; what travels is asked
            raise_what_travels(raised)
            return _failed(f"it raised {type(raised).__name__}")  # noqa: ASYNC104 - what travels was asked
        if scope.cancelled_caught:
            return _failed(f"it took longer than {self._timeout_seconds:g} s")
        fault = None if found is None else fault_of_caller(found)
        return found if fault is None else _failed(fault)


def fault_of_caller(found: object) -> str | None:
    """Say what is wrong with what an `authenticate` gave, without repeating it; None for a principal, also one without a user."""
    if isinstance(found, Principal) and found.user_id == "":
        found = attrs.evolve(found, user_id=found.tenant_id)
    return "; ".join(faults_of_principal(found)) or None


def _failed(why: str) -> ErrorAnswer:
    LOGGER.error("authenticate failed, so a call was refused: %s", why)
    return error_answer("plugin_failed", "the server could not find out who calls")
