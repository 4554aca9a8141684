"""Finds secrets in data, provider options and command variables, by their place and never by their look."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from agentrail.abc.secret import Secret
from agentrail.otp.guarded_calls import call_guarded

_TELLING: Final = re.compile(r"auth(?!or(?!i[sz]))|key|token|secret|passw|cookie|credential", re.IGNORECASE)
"""Names of headers and variables whose values are keys. Values of other names, such as `application/json`, occur in ordinary texts."""

_LETS_IN: Final = re.compile(r"(?:basic|bearer|token|apikey)\s+", re.IGNORECASE)
"""Prefix of a key in a header."""


def secrets_held_by(adapter: object) -> tuple[str, ...]:
    """Return the secrets of a provider, a sandbox or a source of keys, which no record, log or export may contain.

    Such an adapter has an attribute `secrets`, a tuple of strings and `Secret`s. Read when a session gets the adapter, and after each stream starts.
    """
    held = call_guarded(lambda _: None, getattr, adapter, "secrets", None)
    if not isinstance(held, tuple | list):
        return ()
    texts = [one.reveal() if isinstance(one, Secret) else one for one in held]
    return tuple([text for text in texts if isinstance(text, str)])


def keys_in(options: Mapping[str, Any]) -> Iterator[Secret]:
    """Yield the secrets in a provider's options."""
    yield from secrets_in(options)
    key = options.get("api_key")
    if isinstance(key, str):
        yield Secret(key)
    yield from map(Secret, secrets_held_by(key))
    headers = options.get("headers")
    for name, value in headers.items() if isinstance(headers, Mapping) else ():
        if isinstance(value, str) and _TELLING.search(str(name)):
            yield Secret(value)
            yield Secret(_LETS_IN.sub("", value, count=1))
    yield from _passwords_in(options.get("base_url"))


def _passwords_in(url: object) -> Iterator[Secret]:
    try:
        password = urlsplit(url).password if isinstance(url, str) else None
    except ValueError:  # from an invalid address
        return
    if password:
        yield Secret(password)


def secrets_in(value: object) -> Iterator[Secret]:
    """Yield each `Secret` in data, at any depth."""
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
    """Return each `Secret`, and each value whose name marks it as one, such as `GITHUB_TOKEN`."""
    return tuple(
        [
            value.reveal() if isinstance(value, Secret) else value
            for name, value in variables.items()
            if isinstance(value, Secret) or _TELLING.search(name)
        ]
    )
