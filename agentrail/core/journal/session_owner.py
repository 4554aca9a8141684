"""The owner of a session in a store's index: a hash of tenant and user. Pure, without store and host."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from agentrail.structs import decoder_of

NO_OWNER: Final = ""
"""Owner of a session that no host has started."""


def session_owner_key(user_data: Mapping[str, Any]) -> str:
    """Return the owner under which a session is stored: BLAKE2b-128 of tenant and user, in hexadecimal digits.

    Hashed, so that an index contains no personal names, and keys have one length.
    """
    tenant_id, user_id = user_data.get("tenant_id"), user_data.get("user_id")
    if not (isinstance(tenant_id, str) and isinstance(user_id, str)):
        return NO_OWNER
    # With its length first: otherwise "ab" + "c" and "a" + "bc" would be one owner.
    text = f"{len(tenant_id)}:{tenant_id}{user_id}"
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class _Config(msgspec.Struct, frozen=True):
    user_data: dict[str, Any] = {}


class _Data(msgspec.Struct, frozen=True):
    config: _Config = _Config()


class _Session(msgspec.Struct, frozen=True):
    data: _Data = _Data()


class _State(msgspec.Struct, frozen=True):
    session_state: _Session = _Session()


class _Opened(msgspec.Struct, frozen=True):
    state: _State = _State()


_STATE: Final = decoder_of(_State)
_OPENED: Final = decoder_of(_Opened)


def owner_in_opened(body: bytes) -> str:
    """Return the owner named by the body of an `opened` record. `NO_OWNER` if it is unreadable."""
    return _owner_in(_OPENED, body)


def owner_in_state(state: bytes) -> str:
    """Return the owner named by an encoded state, such as a snapshot. `NO_OWNER` if it is unreadable."""
    return _owner_in(_STATE, state)


def _owner_in(decoder: "msgspec.json.Decoder[Any]", text: bytes) -> str:
    try:
        found = decoder.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return NO_OWNER  # damaged, as the reader of the record will report
    state = found.state if isinstance(found, _Opened) else found
    return session_owner_key(state.session_state.data.config.user_data)
