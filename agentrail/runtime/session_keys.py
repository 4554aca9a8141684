"""Scopes of session ids: an id is unique in its scope, and sessions of two scopes are invisible to each other."""

import re
from typing import Final

from agentrail.otp.guarded_calls import repr_of

NO_SCOPE: Final = ""
"""Scope of sessions that were started without one."""

_SCOPE: Final = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127})?")


def key_of(scope: str, session_id: str) -> str:
    """Return the unique name of a session: `scope/id`, or its id without a scope."""
    return f"{scope}/{session_id}" if scope or "/" in session_id else session_id


def is_in(scope: str, key: object) -> bool:
    before, slash, _ = str(key).partition("/")
    return (before if slash else NO_SCOPE) == scope


def fault_of_scope(name: str, value: object) -> str | None:
    if isinstance(value, str) and _SCOPE.fullmatch(value) and ".." not in value:
        return None
    return f"{name} is {repr_of(value):.200}: expected '' or 1 to 128 of A-Z a-z 0-9 . _ : @ + -, the first a letter or digit, without '..'"
