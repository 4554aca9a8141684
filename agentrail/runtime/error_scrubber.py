"""Removal of the application's secrets from texts: errors that models and callers read, and the log."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from attrs import define

from agentrail.abc import Secret
from agentrail.abc.held_secrets import secrets_in
from agentrail.runtime.ports import Ports

Scrub: TypeAlias = Callable[[str], str]

MIN_HEADER_CHARACTERS: Final = 8
"""Shorter header values are not keys, and would match everywhere."""


def scrub_of(ports: Ports) -> Scrub:
    return _Scrubber(ports)


# Not a `partial`, which is four times as large: each of ten thousand idle sessions has one.
@define(eq=False, repr=False, weakref_slot=False)
class _Scrubber:
    _ports: Ports

    def __call__(self, text: str) -> str:
        ports = self._ports
        keys = [*_keys_in(ports.provider_opts.values())]
        return without_secrets(ports.withheld.replaced(text), {"user_data": ports.user_data, "keys": keys})


def _keys_in(known: Iterable[Mapping[str, Any]]) -> Iterator[Secret]:
    for options in known:
        key = options.get("api_key")
        if isinstance(key, str | Secret):
            yield key if isinstance(key, Secret) else Secret(key)
        headers = options.get("headers")
        for value in headers.values() if isinstance(headers, Mapping) else ():
            if isinstance(value, str) and len(value) >= MIN_HEADER_CHARACTERS:
                yield Secret(value)


def without_secrets(text: str, user_data: Mapping[str, object]) -> str:
    values = {secret.reveal() for secret in secrets_in(user_data)} - {""}
    for value in sorted(values, key=len, reverse=True):  # one may be a prefix of another
        text = text.replace(value, repr(Secret(value)))
    return text
