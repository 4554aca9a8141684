"""Ownership of sessions, and valid ids: rules over values. No message repeats an id."""

import enum
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import msgspec
from attrs import frozen

from agentrail.core.journal.session_owner import session_owner_key
from agentrail.frozen import EMPTY
from agentrail.host.hook_payloads import Principal
from agentrail.messages import JsonObject, JsonValue, SessionId

METADATA_KEY: Final = "metadata"
"""Key of `user_data` for the creator's metadata."""

_TEMPORARY_KEY: Final = "temporary"

OWN_KEYS: Final = ("tenant_id", "user_id", "agent_id", METADATA_KEY, _TEMPORARY_KEY)
"""Keys of `user_data` that the host sets, and no profile."""

DECIDE: Final = "decide"
"""The scope that decides the pending approvals and questions of other users of the tenant."""

_SESSION_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}")
_DERIVED: Final = re.compile(r"cid-[0-9a-f]{40}")

_RULE: Final = "expected 1 to 128 of A-Z a-z 0-9 . _ : {more}-, the first a letter or digit, without '..'"


def fault_of_session_id(name: str, value: object) -> str | None:
    return None if _is_one(_SESSION_ID, value) else f"{name} is not a valid id: {_RULE.format(more='')}"


def fault_of_name(name: str, value: object) -> str | None:
    return None if _is_one(_NAME, value) else f"{name} is not a valid id: {_RULE.format(more='@ + ')}"


def _is_one(rule: re.Pattern[str], value: object) -> bool:
    # `fullmatch`, because `$` accepts a trailing newline. Characters are listed, because `\w` includes other
    # alphabets.
    return isinstance(value, str) and rule.fullmatch(value) is not None and ".." not in value


def faults_of_principal(principal: object) -> list[str]:
    if not isinstance(principal, Principal):
        return [
            f"principal is of type {type(principal).__name__}: expected Principal(tenant_id=…, user_id=…)"
        ]
    given: Any = principal  # mypy takes the annotations at their word, and those are in doubt here
    faults = [
        fault_of_name("tenant_id", given.tenant_id),
        fault_of_name("user_id", given.user_id),
        *["scopes contains a value that is not text" for one in given.scopes if not isinstance(one, str)],
    ]
    return [fault for fault in faults if fault is not None]


@frozen
class SessionOwner:
    """Owner of a session, and the unit of limits: one user of one tenant."""

    tenant_id: str
    user_id: str

    @classmethod
    def of(cls, principal: Principal) -> "SessionOwner":
        return cls(principal.tenant_id, principal.user_id)


def owner_of_session(user_data: Mapping[str, Any]) -> SessionOwner | None:
    """Return the owner of a session. None if no host started it."""
    tenant_id, user_id = user_data.get("tenant_id"), user_data.get("user_id")
    if isinstance(tenant_id, str) and isinstance(user_id, str):
        return SessionOwner(tenant_id, user_id)
    return None


def owner_key_of(owner: SessionOwner) -> str:
    return session_owner_key({"tenant_id": owner.tenant_id, "user_id": owner.user_id})


def profile_of_session(user_data: Mapping[str, Any]) -> str | None:
    agent_id = user_data.get("agent_id")
    return agent_id if isinstance(agent_id, str) else None


def metadata_of_session(user_data: Mapping[str, Any]) -> JsonObject:
    metadata = user_data.get(METADATA_KEY)
    return metadata if isinstance(metadata, Mapping) else EMPTY


def is_temporary(user_data: Mapping[str, Any]) -> bool:
    """Return whether a session is in no list, and deleted when it ends. See `Host.create`."""
    return user_data.get(_TEMPORARY_KEY) is True


def user_data_of(
    owner: SessionOwner, agent_id: str, metadata: JsonObject = EMPTY, *, keep: bool = True
) -> dict[str, JsonValue]:
    own: dict[str, JsonValue] = {
        "tenant_id": owner.tenant_id,
        "user_id": owner.user_id,
        "agent_id": agent_id,
    }
    if metadata:
        own[METADATA_KEY] = cast("JsonValue", metadata)
    return own if keep else {**own, _TEMPORARY_KEY: True}


class Access(enum.Enum):
    """A caller's access to a session id."""

    OPEN = enum.auto()
    CREATE = enum.auto()
    UNKNOWN = enum.auto()
    TAKEN = enum.auto()


def decide_access(
    owner: SessionOwner, session_id: str, user_data: Mapping[str, Any] | None, *, creates: bool
) -> Access:
    if user_data is None:
        return Access.CREATE if creates and not is_derived(session_id) else Access.UNKNOWN
    if owner_of_session(user_data) == owner:
        return Access.OPEN
    return Access.TAKEN if creates else Access.UNKNOWN


def session_id_for(owner: SessionOwner, client_id: str) -> SessionId:
    """Return the session id for a request with a client id only. Deterministic, so that repetitions find it."""
    # Half of the length limit: ids of children combine their parent's id and a call id, and must stay valid.
    return SessionId(f"cid-{_digest([owner.tenant_id, owner.user_id, client_id])[:40]}")


def is_derived(session_id: str) -> bool:
    """Return whether an id has the form of `session_id_for`, which callers must not choose themselves.

    A user could otherwise guess another user's id and lock them out by creating that session first.
    """
    return _DERIVED.fullmatch(session_id) is not None


def digest_of_message(
    message: str, attachments: Iterable[tuple[str, str, str]] = (), mode: str | None = None
) -> str:
    """Return the digest that identifies a message under its client id, without handlers' additions."""
    return _digest([message, [list(one) for one in attachments], mode])


def _digest(parts: object) -> str:
    # JSON, so that no two values have one form, unlike joined texts. Invalid UTF-8 is still distinguished.
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
