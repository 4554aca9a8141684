"""URLs of shared stores, as libpq reads them: judged before use, and shown without password. Imports no driver."""

import importlib.util
import re
from typing import Final
from urllib.parse import unquote

from agentrail.distribution import install_command

NAMES: Final = "'memory:', 'sqlite:', 'sqlite:PATH' or 'postgres://USER@HOST/DATABASE'"
"""Store names, for messages."""

PRIVATE: Final = "postgres:"
"""As a store, the private PostgreSQL of `agentrail serve --nodes`. As memories or notes, the database of the store."""

_SCHEMES: Final = ("postgres://", "postgresql://")
_SEVERAL: Final = re.compile(r"[,;\s]\s*postgres(ql)?://", re.IGNORECASE)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
PASSWORDS: Final = frozenset({"password", "sslpassword"})
"""Parameters of libpq that hold one."""

_ENCODE: Final = "write special characters of the password with % codes, such as %40 for @"


def is_shared_store(name: object) -> bool:
    """Return whether this is the name of a store for several nodes, even if it has faults."""
    return isinstance(name, str) and name.startswith(("postgres:", "postgresql:"))


def is_of_several_nodes(store: object) -> bool:
    """Return whether nodes on several machines can use a store, given by name or opened."""
    return is_shared_store(store) or getattr(store, "is_shared", False) is True


def shown_store(name: str) -> str:
    """Return a store name without its password and parameters. Any scheme is assumed to hold a password."""
    scheme, slashes, rest = name.partition("://")
    if not slashes:
        return name
    # Up to the last @: a password with an unencoded / or ? must not be shown either. Without an @, it may still look like a port.
    user, at, place = rest.rpartition("@")
    place = re.sub(r":(?!\d{1,5}(?=[,/?#]|$))[^/?#]*", ":…", place.partition("?")[0])
    return f"{scheme}://{user.partition(':')[0]}{at}{place}"


def has_password(name: str) -> bool:
    """Return whether a URL has a password, which every user of the machine can read if it is an argument of a command."""
    if not is_shared_store(name):
        return False
    before, _, query = name.partition("://")[2].partition("?")
    return ":" in before.rpartition("@")[0] or any(key in PASSWORDS for key, _ in _parameters(query))


def _parameters(query: str) -> list[tuple[str, str | None]]:
    pairs = [one.partition("=") for one in query.split("&") if one]
    return [(unquote(key), value if equals else None) for key, equals, value in pairs]


def faults_of_url(name: str, option: str = "store") -> list[str]:
    """Return the faults of a URL of PostgreSQL. They never contain its password."""
    if _SEVERAL.search(name):
        return [f"{option} names several databases, expected one database: shards are not built"]
    if not name.startswith(_SCHEMES):
        return [f"{option} is {shown_store(name)!r:.80}: expected {NAMES}"]
    if _CONTROL.search(name) or " " in name:
        return [
            f"{option} is a URL with a line break, a space or another control character: remove it, or {_ENCODE}"
        ]
    shown = f"{option} is {shown_store(name)!r:.120}"
    before, _, query = name.partition("://")[2].partition("?")
    authority, _, path = before.partition("/")
    hosts = re.sub(r"\[[^]]*\]", "", authority.rpartition("@")[2]).split(",")
    ports = [one.partition(":")[2] for one in hosts]
    if authority.count("@") > 1 or "@" in path or any(port and not port.isdecimal() for port in ports):
        return [f"{shown}: its user, password and host cannot be told apart: {_ENCODE}"]
    if any(value is None for _, value in _parameters(query)):
        return [f"{shown}: a parameter after ? has no value, expected NAME=VALUE; {_ENCODE}"]
    if importlib.util.find_spec("psycopg") is None:
        return [f"{shown}: it needs psycopg, which is not installed: {install_command('postgres')}"]
    return []
