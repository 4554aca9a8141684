"""What the hooks of a host are given, and what they answer: frozen values, with exactly the documented fields.

Nothing here does anything. What a field holds that can be changed is a copy of that hook's own.
"""

import re
from collections.abc import Mapping, Sequence, Set as AbstractSet
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

import attrs
from attrs import field, frozen

from agentrail.core.session.projection import Status
from agentrail.errors import OptionError
from agentrail.frozen import EMPTY, frozen_json, not_json
from agentrail.messages import CallId, JsonObject, Message, SessionId

RequestKind: TypeAlias = Literal["chat", "stream", "prompt"]
"""How a request's answer is wanted: waited for, read as it comes, or not at all."""

MessageKind: TypeAlias = Literal["chat", "stream", "prompt", "steer", "respond"]
"""How a message came that holds a user's words."""

RequestOutcome: TypeAlias = Literal[
    "completed", "aborted", "failed", "not_found", "refused", "dropped", "shutdown"
]
"""What became of a request: `aborted` also where a later prompt took its place, `dropped` where its prompt was taken out of the queue."""

STATUSES: Final[frozenset[int]] = frozenset({200, 201, 202, 400, 401, 402, 403, 404, 409, 422, 429, 500, 503})
"""With what an interceptor may answer."""

_HEADER: Final = re.compile(r"retry-after|www-authenticate|x-[a-z0-9-]{1,62}", re.IGNORECASE)
_HEADER_VALUE: Final = re.compile(r"[\x20-\x7e]{0,1000}")


class SessionReader(Protocol):
    """What a hook may read of the session of its request. Nothing is changed through it."""

    async def messages(self, after: int = 0) -> Sequence[Message]:
        """Give the conversation behind so many messages.

        Raises:
            SessionDown: The session has ended.
        """
        ...

    async def status(self) -> Status:
        """Say how the session stands.

        Raises:
            SessionDown: The session has ended.
        """
        ...


class _Payload:
    """What all payloads have."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """Give plain JSON, without `reader`, so that a line of a log is one call."""
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
class ChatRequest(_Payload):
    """A message of a user, as it came.

    Attributes:
        message: What it says; empty where there are only files.
        tenant_id: Whose it is.
        user_id: Who of them.
        agent_id: Of the profile that is asked.
        session_id: Where it goes to; None where none was given.
        mode: What the caller calls the way it is to be worked on; a profile that is a function is given it.
        client_id: What the caller names it by, so that it can be sent again; None for no name.
        metadata: What the caller says besides.
    """

    message: str
    tenant_id: str
    user_id: str
    agent_id: str
    session_id: SessionId | None = None
    mode: str | None = None
    client_id: str | None = None
    metadata: JsonObject = field(default=EMPTY, converter=frozen_json)


def _frozen_texts(given: AbstractSet[str] | Sequence[str]) -> frozenset[str]:
    return frozenset(given)  # with its types: `frozenset` itself takes anything, as mypy reads it


@frozen(kw_only=True)
class Principal(_Payload):
    """Who is calling.

    Attributes:
        tenant_id: The tenant.
        user_id: The user.
        scopes: What they may do: `use`, `inspect`, `decide`.
    """

    tenant_id: str
    user_id: str
    scopes: frozenset[str] = field(default=frozenset({"use"}), converter=_frozen_texts)

    def as_dict(self) -> dict[str, Any]:
        """Give plain JSON; scopes are sorted."""
        return {"tenant_id": self.tenant_id, "user_id": self.user_id, "scopes": sorted(self.scopes)}


@frozen(kw_only=True)
class ChatRequestContext(_Payload):
    """A message with a user's words, before anything was done for it.

    Attributes:
        kind: How it came.
        request: What it says.
        agent_id: Of the profile that is asked.
        principal: Who is calling.
    """

    kind: MessageKind
    request: ChatRequest
    agent_id: str
    principal: Principal

    def as_dict(self) -> dict[str, Any]:
        """Give plain JSON."""
        return {
            "kind": self.kind,
            "request": self.request.as_dict(),
            "agent_id": self.agent_id,
            "principal": self.principal.as_dict(),
        }


@frozen
class HandledResponse:
    """An answer that an interceptor gives in place of a session.

    Attributes:
        body: A JSON object.
        status: Of 200, 201, 202, 400, 401, 402, 403, 404, 409, 422, 429, 500, 503.
        headers: `retry-after`, `www-authenticate` and `x-…`.
    """

    body: Mapping[
        str, Any
    ]  # looked at when it is made; as JsonValue no variable of a type such as dict[str, str] would fit
    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})

    def __attrs_post_init__(self) -> None:
        """Refuse what is no answer, where it is made, and keep a copy of the rest.

        Raises:
            OptionError: The plugin author's move; all faults at once.
        """
        faults = [*self._faults()]
        if faults:
            raise OptionError(faults)
        object.__setattr__(self, "body", frozen_json(self.body))
        object.__setattr__(self, "headers", MappingProxyType(dict(self.headers)))

    def _faults(self) -> list[str]:
        given: Any = self  # mypy takes the annotations at their word, and those are in doubt here
        faults = []
        if not isinstance(given.body, Mapping):
            faults.append(f"body is {given.body!r:.200}: expected a JSON object")
        elif (fault := not_json(given.body)) is not None:
            faults.append(f"body is no JSON: {fault}")
        if type(given.status) is not int or given.status not in STATUSES:
            faults.append(
                f"status is {given.status!r:.50}: expected one of {', '.join(map(str, sorted(STATUSES)))}"
            )
        if not isinstance(given.headers, Mapping):
            faults.append(f"headers are {given.headers!r:.200}: expected a mapping of names to values")
            return faults
        for name, value in given.headers.items():
            if not isinstance(name, str) or not _HEADER.fullmatch(name):
                faults.append(f"header {name!r:.80}: expected retry-after, www-authenticate or x-…")
            elif not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
                faults.append(f"header {name!r} is {value!r:.80}: expected printable ASCII on one line")
        return faults


@frozen(kw_only=True)
class RequestContext(_Payload):
    """A request, as the hooks of its beginning and its end see it.

    Attributes:
        kind: How its answer is wanted.
        tenant_id: Whose it is.
        user_id: Who of them.
        session_id: The session that works on it.
        agent_id: Of the profile.
        request_id: Its own name.
        started_at_ms: When it began, in milliseconds since 1970.
        outcome: What became of it; None until its end.
        reader: Reads its session; None at its beginning, and where there is no session.
    """

    kind: RequestKind
    tenant_id: str
    user_id: str
    session_id: SessionId
    agent_id: str
    request_id: str
    started_at_ms: int
    outcome: RequestOutcome | None = None
    reader: SessionReader | None = field(default=None, repr=False, eq=False)


@frozen(kw_only=True)
class AttachmentFile(_Payload):
    """A file that came with a message.

    Attributes:
        name: Cleaned.
        mime_type: As the caller says.
        container_path: Where the tools of the session find it.
        size_kb: Rounded.
        size_bytes: Exactly.
    """

    name: str
    mime_type: str
    container_path: str
    size_kb: int
    size_bytes: int


@frozen
class AttachmentText:
    """What an attachment handler has to say of files.

    Attributes:
        context_text: Stands before the message; None for nothing.
    """

    context_text: str | None = None

    def __attrs_post_init__(self) -> None:
        """Refuse what is no text, where it is made.

        Raises:
            OptionError: The plugin author's move.
        """
        given: Any = self.context_text
        if given is not None and not isinstance(given, str):
            raise OptionError([f"context_text is {given!r:.200}: expected a text, or None"])


@frozen(kw_only=True)
class ToolCallContext(_Payload):
    """Around a call: whose it is.

    Attributes:
        tenant_id: Whose session it is.
        user_id: Who of them.
        session_id: The session that calls.
        root_session_id: The session that no other one started, above that one or that one itself.
        agent_id: Of the profile.
        request_id: The request that it is for; None in a cycle that no request started.
        reader: Reads its session.
    """

    tenant_id: str
    user_id: str
    session_id: SessionId
    root_session_id: SessionId
    agent_id: str
    request_id: str | None = None
    reader: SessionReader | None = field(default=None, repr=False, eq=False)


@frozen(kw_only=True)
class BeforeToolCall(_Payload):
    """A call that may run if no plugin denies it.

    Attributes:
        tool_name: The tool.
        call_id: The call.
        input: Its arguments as they would run: a copy of this plugin's own, whose changes reach no other code.
        context: Whose it is.
    """

    tool_name: str
    call_id: CallId
    input: dict[str, Any]
    context: ToolCallContext


@frozen(kw_only=True)
class AfterToolCall(_Payload):
    """A call whose code returned, raised, or ran out of time for the last time.

    Attributes:
        tool_name: The tool.
        call_id: The call.
        input: The arguments that it ran with: a copy of this plugin's own.
        result: What the call was answered with, as session plugins left it.
        is_error: Whether it failed.
        duration_ms: How long the code of its last attempt took, in milliseconds.
        context: Whose it is.
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
    """The call may run.

    Attributes:
        input: A JSON object that is to run instead; None for what was asked about. Later plugins are asked about it.
    """

    input: Mapping[str, Any] | None = None

    def __attrs_post_init__(self) -> None:
        """Refuse what are no arguments, where they are made.

        Raises:
            OptionError: The plugin author's move.
        """
        given: Any = self.input
        if given is None:
            return
        if not isinstance(given, Mapping):
            raise OptionError(
                [f"input is {given!r:.200}: expected a JSON object, or None to run what was asked about"]
            )
        fault = not_json(given)
        if fault is not None:
            raise OptionError([f"input is no JSON: {fault}"])


@frozen
class Deny:
    """The call does not run.

    Attributes:
        reason: What the model reads.
    """

    reason: str

    def __attrs_post_init__(self) -> None:
        """Refuse what is no reason, where it is made.

        Raises:
            OptionError: The plugin author's move.
        """
        given: Any = self.reason
        if not isinstance(given, str) or not given.strip():
            raise OptionError([f"reason is {given!r:.200}: expected what the model is to read"])


MESSAGE_KINDS: Final[tuple[str, ...]] = get_args(MessageKind)
"""How a message may come."""
