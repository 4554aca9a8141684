"""Which session is meant: an id is unique in its scope, and sessions of two scopes do not know each other.

The scope stands beside the id, and never in it: events, prompts and tools show the id alone. Where one text must name a session among
those of all scopes (a child of the supervisor, a log, a position), it is the key.
"""

import re
from typing import Final

NO_SCOPE: Final = ""
"""The scope of sessions that were started without one."""

_SCOPE: Final = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127})?")


def key_of(scope: str, session_id: str) -> str:
    """Name a session among all: `scope/id`; without a scope its id.

    No scope has a slash. An id that has one (of a child, made of the id that a model gave its call) stands behind an empty scope, so
    that no two sessions have one key.
    """
    return f"{scope}/{session_id}" if scope or "/" in session_id else session_id


def is_in(scope: str, key: object) -> bool:
    """Say whether the key is of a session of this scope."""
    before, slash, _ = str(key).partition("/")
    return (before if slash else NO_SCOPE) == scope


def fault_of_scope(name: str, value: object) -> str | None:
    """Say what is wrong with a scope, if anything is."""
    if isinstance(value, str) and _SCOPE.fullmatch(value) and ".." not in value:
        return None
    return f"{name} is {value!r:.200}: expected '' or 1 to 128 of A-Z a-z 0-9 . _ : @ + -, the first a letter or digit, without '..'"
