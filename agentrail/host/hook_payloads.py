"""Arguments and results of host hooks: frozen values. Mutable field values are copies for one hook."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, TypeAlias

import attrs
import msgspec
from attrs import field, frozen

from agentrail.core.session.views import Status
from agentrail.errors import OptionError
from agentrail.frozen import EMPTY, frozen_json, not_json
from agentrail.messages import CallId, JsonObject, Message, SessionId
from agentrail.otp.field_rules import faults_of_fields
from agentrail.otp.guarded_calls import repr_of

RequestKind: TypeAlias = Literal["chat", "stream", "prompt"]
"""How a request's answer is returned: awaited, streamed, or not at all."""

MessageKind: TypeAlias = Literal["chat", "stream", "prompt", "steer", "respond"]
"""How a message with a user's words arrived."""

RequestOutcome: TypeAlias = Literal[
    "completed", "aborted", "failed", "not_found", "refused", "dropped", "shutdown"
]
"""Outcome of a request. `aborted` includes replacement by a later prompt, `dropped` means removed from the queue."""

STATUSES: Final[frozenset[int]] = frozenset({200, 201, 202, 400, 401, 402, 403, 404, 409, 422, 429, 500, 503})
"""Status codes allowed for an interceptor's answer."""

_HEADER: Final = re.compile(r"retry-after|www-authenticate|x-[a-z0-9-]{1,62}", re.IGNORECASE)
_HEADER_VALUE: Final = re.compile(r"[\x20-\x7e]{0,1000}")


class SessionReader(Protocol):
    """Read access to a request's session for a hook. Read-only."""

    async def messages(self, after: int = 0) -> Sequence[Message]:
        """Return the conversation after the first `after` messages.

        Raises:
            SessionDown: The session has ended.
        """
        ...

    async def status(self) -> Status:
        """Return the status of the session.

        Raises:
            SessionDown: The session has ended.
        """
        ...


class _Payload:
    """Base of all payloads."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON without `reader`, for logging."""
        return attrs.asdict(
            self,  # type: ignore[arg-type]  # each of them is one of attrs
            filter=lambda attribute, _: attribute.name != "reader",
            value_serializer=lambda _, __, value: _plain(value),
        )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


@frozen(kw_only=True)
class _OfUser(_Payload):
    tenant_id: str
    user_id: str


@frozen(kw_only=True)
class _OfAgent(_OfUser):
    agent_id: str


@frozen(kw_only=True)
class _OfSession(_OfAgent):
    session_id: SessionId
    reader: SessionReader | None = field(default=None, repr=False, eq=False)


@frozen(kw_only=True)
class ChatRequest(_OfAgent):
    """A user's message, as received.

    Attributes:
        message: Its text. Empty if there are only files.
        tenant_id: Id of the sender's tenant.
        user_id: Id of the sender.
        agent_id: Id of the requested profile.
        session_id: Target session. None if not given.
        mode: Working mode named by the caller, passed to a profile that is a function.
        client_id: The caller's name for the message, for safe retries. None for no name.
        metadata: Further data of the caller.
    """

    message: str
    session_id: SessionId | None = None
    mode: str | None = None
    client_id: str | None = None
    metadata: JsonObject = field(default=EMPTY, converter=frozen_json)


def frozen_scopes(given: AbstractSet[str] | Sequence[str]) -> frozenset[str]:
    scopes: Any = given  # annotations cannot be trusted here
    if isinstance(scopes, AbstractSet | list | tuple) and all(isinstance(one, str) for one in scopes):
        return frozenset(scopes)
    raise OptionError([f"scopes is {repr_of(scopes):.200}: expected a set of texts, such as {{'use'}}"])


@frozen(kw_only=True)
class Principal(_OfUser):
    """The caller.

    Attributes:
        tenant_id: Id of the tenant.
        user_id: Id of the user.
        scopes: Rights of the caller: `use`, `inspect`, `decide`.
    """

    scopes: frozenset[str] = field(default=frozenset({"use"}), converter=frozen_scopes)

    def __attrs_post_init__(self) -> None:
        if {type(self.tenant_id), type(self.user_id)} != {str}:  # first, as each call has one
            OptionError.raise_for([*faults_of_fields(self, Principal)])

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON with sorted scopes."""
        return {"tenant_id": self.tenant_id, "user_id": self.user_id, "scopes": sorted(self.scopes)}


@frozen(kw_only=True)
class ChatRequestContext(_Payload):
    """A message with a user's words, before any work was done for it.

    Attributes:
        kind: How it arrived.
        request: The message.
        agent_id: Id of the requested profile.
        principal: The caller.
        history: Earlier conversation that the caller gives a new session.
    """

    kind: MessageKind
    request: ChatRequest
    agent_id: str
    principal: Principal
    history: tuple[Message, ...] = field(default=(), repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON, with `history` if there is one."""
        told = {
            "kind": self.kind,
            "request": self.request.as_dict(),
            "agent_id": self.agent_id,
            "principal": self.principal.as_dict(),
        }
        if not self.history:
            return told
        return {**told, "history": [msgspec.to_builtins(one) for one in self.history]}


@frozen
class HandledResponse:
    """An interceptor's answer, instead of a session's.

    Attributes:
        body: A JSON object.
        status: One of 200, 201, 202, 400, 401, 402, 403, 404, 409, 422, 429, 500, 503.
        headers: `retry-after`, `www-authenticate` and `x-…`.

    Raises:
        OptionError: The plugin author's move: every fault at once.
    """

    body: Mapping[
        str, Any
    ]  # validated on creation: as JsonValue, a variable of type dict[str, str] would not fit
    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})

    def __attrs_post_init__(self) -> None:
        OptionError.raise_for([*self._faults()])
        object.__setattr__(self, "body", frozen_json(self.body))
        object.__setattr__(self, "headers", MappingProxyType(dict(self.headers)))

    def _faults(self) -> Iterator[str]:
        given: Any = self  # mypy takes the annotations at their word, and those are in doubt here
        if not isinstance(given.body, Mapping):
            yield f"body is {repr_of(given.body):.200}: expected a JSON object"
        elif (fault := not_json(given.body)) is not None:
            yield f"body is not JSON: {fault}"
        if type(given.status) is not int or given.status not in STATUSES:
            yield f"status is {repr_of(given.status):.50}: expected one of {', '.join(map(str, sorted(STATUSES)))}"
        if not isinstance(given.headers, Mapping):
            yield f"headers are {repr_of(given.headers):.200}: expected a mapping of names to values"
            return
        for name, value in given.headers.items():
            if not isinstance(name, str) or not _HEADER.fullmatch(name):
                yield f"header {repr_of(name):.80}: expected retry-after, www-authenticate or x-…"
            elif not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
                yield f"header {name!r} is {repr_of(value):.80}: expected printable ASCII on one line"


@frozen(kw_only=True)
class RequestContext(_OfSession):
    """A request, for the hooks at its start and end.

    Attributes:
        kind: How its answer is returned.
        tenant_id: Id of the sender's tenant.
        user_id: Id of the sender.
        session_id: Id of the session that handles it.
        agent_id: Id of the profile.
        request_id: Id of the request.
        started_at_ms: Start time, in milliseconds since 1970.
        outcome: Its outcome. None until its end.
        reader: Reader of its session. None at its start, and without a session.
    """

    kind: RequestKind
    request_id: str
    started_at_ms: int
    outcome: RequestOutcome | None = None


@frozen(kw_only=True)
class DayBudgetWarning(_Payload):
    """A daily budget of which 80 % are spent.

    Attributes:
        of: Kind of the budget's owner: a user, or the whole tenant.
        tenant_id: Id of the tenant.
        user_id: Id of the user. None for the budget of the tenant.
        used_usd: Cost since the last UTC midnight, in dollars.
        limit_usd: The budget, in dollars.
        resets_at_ms: Next UTC midnight, in milliseconds since 1970.
    """

    of: Literal["user", "tenant"]
    tenant_id: str
    user_id: str | None
    used_usd: float
    limit_usd: float
    resets_at_ms: int


@frozen(kw_only=True)
class AttachmentFile(_Payload):
    """A file sent with a message.

    Attributes:
        name: Cleaned name.
        mime_type: Type given by the caller.
        container_path: Path for the session's tools.
        size_kb: Size in KiB, rounded.
        size_bytes: Exact size in bytes.
    """

    name: str
    mime_type: str
    container_path: str
    size_kb: int
    size_bytes: int


@frozen
class AttachmentText:
    """An attachment handler's text about files.

    Attributes:
        context_text: Text placed before the message. None for no text.

    Raises:
        OptionError: The plugin author's move: the text is of another type.
    """

    context_text: str | None = None

    def __attrs_post_init__(self) -> None:
        given: Any = self.context_text
        if given is not None and not isinstance(given, str):
            raise OptionError([f"context_text is {repr_of(given):.200}: expected a text, or None"])


@frozen(kw_only=True)
class ToolCallContext(_OfSession):
    """Owner and origin of a call.

    Attributes:
        tenant_id: Id of the session's tenant.
        user_id: Id of the session's user.
        session_id: Id of the calling session.
        root_session_id: Id of the root session, the calling session itself or an ancestor.
        agent_id: Id of the profile.
        request_id: Id of the request. None in a cycle that no request started.
        reader: Reader of its session.
    """

    root_session_id: SessionId
    request_id: str | None = None


@frozen(kw_only=True)
class BeforeToolCall(_Payload):
    """A call that runs if no plugin denies it.

    Attributes:
        tool_name: Name of the tool.
        call_id: Id of the call.
        input: Its current arguments. A copy for this plugin, so changes have no effect elsewhere.
        context: Owner and origin of the call.
    """

    tool_name: str
    call_id: CallId
    input: dict[str, Any]
    context: ToolCallContext


@frozen(kw_only=True)
class AfterToolCall(_Payload):
    """A call whose last attempt returned, raised, or timed out.

    Attributes:
        tool_name: Name of the tool.
        call_id: Id of the call.
        input: The arguments it ran with. A copy for this plugin.
        result: Result of the call, after session plugins.
        is_error: Whether it failed.
        duration_ms: Run time of its last attempt, in milliseconds.
        context: Owner and origin of the call.
    """

    tool_name: str
    call_id: CallId
    input: dict[str, Any]
    result: str
    is_error: bool
    duration_ms: int
    context: ToolCallContext


@frozen
class Allow:
    """Permission for the call.

    Attributes:
        input: Replacement arguments, a JSON object. None to keep the current ones. Later plugins judge the replacement.

    Raises:
        OptionError: The plugin author's move: the input is not a JSON object.
    """

    input: Mapping[str, Any] | None = None

    def __attrs_post_init__(self) -> None:
        given: Any = self.input
        if given is None:
            return
        if not isinstance(given, Mapping):
            raise OptionError(
                [f"input is {repr_of(given):.200}: expected a JSON object, or None to run the original call"]
            )
        fault = not_json(given)
        if fault is not None:
            raise OptionError([f"input is not JSON: {fault}"])


@frozen
class Deny:
    """Denial of the call.

    Attributes:
        reason: Text for the model.

    Raises:
        OptionError: The plugin author's move: the reason is empty or of another type.
    """

    reason: str

    def __attrs_post_init__(self) -> None:
        given: Any = self.reason
        if not isinstance(given, str) or not given.strip():
            raise OptionError([f"reason is {repr_of(given):.200}: expected text for the model"])
