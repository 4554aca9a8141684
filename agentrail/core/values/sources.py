"""The sources that a result names: where what it says is written. Tools put them into the details of their results, under `sources`.

They are how it is known what a session has read, and what one above it may cite. What is cited, and whether it is held, does not enter.
"""

from collections.abc import Mapping
from typing import Final

from agentrail.messages import JsonValue

MAX_SOURCES: Final = 2_000
"""How many are kept of one session; of more the first ones are forgotten."""

MAX_CITED_CHARACTERS: Final = 1_000
"""A longer one is none: no citation is as long."""


WITHOUT_SOURCES: Final[tuple[str, ...]] = ()
"""Of one that has read nothing."""


def sources_in(details: JsonValue) -> tuple[str, ...]:
    """Give the sources that the details of a result name, in order; none where they name none."""
    listed = details.get("sources") if isinstance(details, Mapping) else None
    if not isinstance(listed, tuple | list):
        return ()
    return tuple([one for one in listed if isinstance(one, str) and len(one) <= MAX_CITED_CHARACTERS])


def more_sources(known: tuple[str, ...], found: tuple[str, ...]) -> tuple[str, ...]:
    """Add sources to those that are known, each once, the newest last."""
    return tuple(dict.fromkeys((*known, *found)))[-MAX_SOURCES:] if found else known
