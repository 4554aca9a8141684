"""Who a session belongs to, and what may be an id: rules over values.

An id comes from a caller, so it is looked at before anything is done with it, and no message repeats one. Nothing here looks a session
up: what stands in its `user_data` is given, and children have that of their root, so they belong to whom their root belongs.
"""

import enum
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import msgspec
from attrs import frozen

from agentrail.core.journal.session_owner import session_owner_key
from agentrail.frozen import EMPTY
from agentrail.host.payloads import Principal
from agentrail.messages import JsonObject, JsonValue, SessionId

METADATA_KEY: Final = "metadata"
"""Under which `user_data` has what the caller said of a session when it was created."""

OWN_KEYS: Final = ("tenant_id", "user_id", "agent_id", METADATA_KEY)
"""The keys of `user_data` that the host sets, and no profile."""

DECIDE: Final = "decide"
"""The scope that decides the pending approvals and questions of other users of the tenant."""

_SESSION_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}")
_DERIVED: Final = re.compile(r"cid-[0-9a-f]{40}")

_RULE: Final = "expected 1 to 128 of A-Z a-z 0-9 . _ : {more}-, the first a letter or digit, without '..'"


def fault_of_session_id(name: str, value: object) -> str | None:
    """Say what is wrong with the id of a session, without repeating it; None when it is one."""
    return None if _is_one(_SESSION_ID, value) else f"{name} is no id: {_RULE.format(more='')}"


def fault_of_name(name: str, value: object) -> str | None:
    """Say what is wrong with the id of a tenant, a user, a profile or a client, without repeating it; None when it is one."""
    return None if _is_one(_NAME, value) else f"{name} is no id: {_RULE.format(more='@ + ')}"


def _is_one(rule: re.Pattern[str], value: object) -> bool:
    # `fullmatch`, since `$` lets an end of line through; and all signs by name, since `\w` knows other alphabets.
    return isinstance(value, str) and rule.fullmatch(value) is not None and ".." not in value


def faults_of_principal(principal: object) -> list[str]:
    """Say all that is wrong with what says who is calling: it may have been made by the application's own `authenticate`."""
    if not isinstance(principal, Principal):
        return [
            f"principal is of type {type(principal).__name__}: expected Principal(tenant_id=…, user_id=…)"
        ]
    given: Any = principal  # mypy takes the annotations at their word, and those are in doubt here
    faults = [
        fault_of_name("tenant_id", given.tenant_id),
        fault_of_name("user_id", given.user_id),
        *(None if isinstance(one, str) else "scopes has what is no text" for one in given.scopes),
    ]
    return [fault for fault in faults if fault is not None]


@frozen
class SessionOwner:
    """To whom a session belongs, and by whom limits are counted: one user of one tenant, whatever their scopes are.

    Attributes:
        tenant_id: The tenant.
        user_id: Who of them.
    """

    tenant_id: str
    user_id: str

    @classmethod
    def of(cls, principal: Principal) -> "SessionOwner":
        """Take out of a principal what does not change with the token that they use."""
        return cls(principal.tenant_id, principal.user_id)


def owner_of_session(user_data: Mapping[str, Any]) -> SessionOwner | None:
    """Read to whom a session belongs; None for one that no host has started, which belongs to no caller."""
    tenant_id, user_id = user_data.get("tenant_id"), user_data.get("user_id")
    if isinstance(tenant_id, str) and isinstance(user_id, str):
        return SessionOwner(tenant_id, user_id)
    return None


def owner_key_of(owner: SessionOwner) -> str:
    """Return the key under which the store finds the sessions of a user."""
    return session_owner_key({"tenant_id": owner.tenant_id, "user_id": owner.user_id})


def profile_of_session(user_data: Mapping[str, Any]) -> str | None:
    """Read which profile a session was started with; None for one that no host has started."""
    agent_id = user_data.get("agent_id")
    return agent_id if isinstance(agent_id, str) else None


def metadata_of_session(user_data: Mapping[str, Any]) -> JsonObject:
    """Read what the caller said of a session when it was created; nothing where they said nothing, or no host has started it."""
    metadata = user_data.get(METADATA_KEY)
    return metadata if isinstance(metadata, Mapping) else EMPTY


def user_data_of(owner: SessionOwner, agent_id: str, metadata: JsonObject = EMPTY) -> dict[str, JsonValue]:
    """Say what the host writes into the `user_data` of a session that it starts: exactly `OWN_KEYS`, without metadata where there is none."""
    own: dict[str, JsonValue] = {
        "tenant_id": owner.tenant_id,
        "user_id": owner.user_id,
        "agent_id": agent_id,
    }
    return {**own, METADATA_KEY: cast("JsonValue", metadata)} if metadata else own


class Access(enum.Enum):
    """What a caller may do with a session id.

    Attributes:
        CREATE: There is none of this id: it may be created.
        UNKNOWN: To this caller there is none, and none is created: 404. Said alike of one that there is not, and of another's.
        TAKEN: It would be created, and is another user's of the same tenant: 404 too, with the hint to leave the id out.
    """

    OPEN = enum.auto()
    CREATE = enum.auto()
    UNKNOWN = enum.auto()
    TAKEN = enum.auto()


def decide_access(
    owner: SessionOwner, session_id: str, user_data: Mapping[str, Any] | None, *, creates: bool
) -> Access:
    """Decide what a caller may do with a session id that they gave."""
    if user_data is None:
        return Access.CREATE if creates and not is_derived(session_id) else Access.UNKNOWN
    if owner_of_session(user_data) == owner:
        return Access.OPEN
    return Access.TAKEN if creates else Access.UNKNOWN


def session_id_for(owner: SessionOwner, client_id: str) -> SessionId:
    """Give the id of the session that a request creates which brings a client id and no session id: always the same one.

    So a request that is sent again, also after a restart of the process, finds what it created the first time. It is beyond reach
    of other users: `decide_access` lets no caller create an id of this form by giving it.
    """
    # Half a line: ids of children are made of their parent's and that of a call, and are to remain ids.
    return SessionId(f"cid-{_digest([owner.tenant_id, owner.user_id, client_id])[:40]}")


def is_derived(session_id: str) -> bool:
    """Say whether an id has the form of those that follow from a client id.

    A user may know another's name, and guess client ids such as `order-5`: who could create that session first would keep the other
    one from it for good.
    """
    return _DERIVED.fullmatch(session_id) is not None


def digest_of_message(
    message: str, attachments: Iterable[tuple[str, str, str]] = (), mode: str | None = None
) -> str:
    """Give what tells a message from another one under the same client id: of what was sent, and not of what handlers made of it."""
    return _digest([message, [list(one) for one in attachments], mode])


def _digest(parts: object) -> str:
    # JSON, so that no two values have one form: joined texts would. What cannot be UTF-8 is told apart all the same.
    return hashlib.sha256(msgspec.json.encode(_without_surrogates(parts))).hexdigest()


def _without_surrogates(value: object) -> object:
    if isinstance(value, list):
        return [_without_surrogates(one) for one in value]
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return {"surrogates": value.encode("utf-8", "surrogatepass").hex()}
    return value
