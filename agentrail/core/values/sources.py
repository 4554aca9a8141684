"""The sources of a result: where its facts were written.

Tools put them into the details of their results, under `sources`.
"""

from collections.abc import Mapping
from typing import Final

from agentrail.messages import JsonValue

MAX_SOURCES: Final = 2_000
"""Number of sources kept per session. Beyond it the oldest are forgotten."""

MAX_CITED_CHARACTERS: Final = 1_000
"""A longer text is ignored: no citation is as long."""


WITHOUT_SOURCES: Final[tuple[str, ...]] = ()
"""The sources of a session that has read nothing."""


def sources_in(details: JsonValue) -> tuple[str, ...]:
    """Return the sources in the details of a result, in order. Empty if there are none."""
    listed = details.get("sources") if isinstance(details, Mapping) else None
    if not isinstance(listed, tuple | list):
        return ()
    return tuple([one for one in listed if isinstance(one, str) and len(one) <= MAX_CITED_CHARACTERS])


def more_sources(known: tuple[str, ...], found: tuple[str, ...]) -> tuple[str, ...]:
    """Add sources to the known ones, each once, the newest last."""
    return tuple(dict.fromkeys((*known, *found)))[-MAX_SOURCES:] if found else known
