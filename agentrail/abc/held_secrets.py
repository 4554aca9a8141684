"""Where secrets are found that an application or an adapter holds: in data, in the options of a provider, in variables for commands.

They are found by where they stand, never by how they look. What is done with them does not enter.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from agentrail.abc.secret import Secret
from agentrail.otp.edges import call_guarded

_TELLING: Final = re.compile(r"auth(?!or(?!i[sz]))|key|token|secret|passw|cookie|credential", re.IGNORECASE)
"""Names of headers and variables whose values are keys; others, such as `application/json`, stand in ordinary texts."""

_LETS_IN: Final = re.compile(r"(?:basic|bearer|token|apikey)\s+", re.IGNORECASE)
"""What stands in front of a key in a header."""


def secrets_held_by(adapter: object) -> tuple[str, ...]:
    """Say what a provider or a sandbox holds that may stand in no record, log or export of the sessions that use it.

    Not a member of the ports: most adapters hold nothing. One that does has an attribute `secrets`, a tuple of texts and `Secret`s: its key,
    or what it was given for its commands. It is asked when a session gets it, and behind each beginning of a stream.
    """
    held = call_guarded(lambda _: None, getattr, adapter, "secrets", None)
    if not isinstance(held, tuple | list):
        return ()
    texts = [one.reveal() if isinstance(one, Secret) else one for one in held]
    return tuple([text for text in texts if isinstance(text, str)])


def keys_in(options: Mapping[str, Any]) -> Iterator[Secret]:
    """Find what the options of a provider hold that may not be told."""
    yield from secrets_in(options)
    key = options.get("api_key")
    if isinstance(key, str):
        yield Secret(key)
    headers = options.get("headers")
    for name, value in headers.items() if isinstance(headers, Mapping) else ():
        if isinstance(value, str) and _TELLING.search(str(name)):
            yield Secret(value)
            yield Secret(_LETS_IN.sub("", value, count=1))
    yield from _passwords_in(options.get("base_url"))


def _passwords_in(url: object) -> Iterator[Secret]:
    try:
        password = urlsplit(url).password if isinstance(url, str) else None
    except ValueError:  # of an address that is none
        return
    if password:
        yield Secret(password)


def secrets_in(value: object) -> Iterator[Secret]:
    """Find each `Secret` in data, at any depth."""
    match value:
        case Secret():
            yield value
        case Mapping():
            for item in value.values():
                yield from secrets_in(item)
        case list() | tuple():
            for item in value:
                yield from secrets_in(item)
        case _:
            pass


def secrets_in_variables(variables: Mapping[str, str | Secret]) -> tuple[str, ...]:
    """Find the values of variables for commands that may not be told: each `Secret`, and those whose name says so, such as `GITHUB_TOKEN`."""
    return tuple(
        [
            value.reveal() if isinstance(value, Secret) else value
            for name, value in variables.items()
            if isinstance(value, Secret) or _TELLING.search(name)
        ]
    )
