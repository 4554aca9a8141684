"""What a caller says of a session or a message besides its words: how much of it is taken, and that it is JSON.

Pure. Where it goes is not said here: that of a message is in `ChatRequest.metadata`, that of a session in its `user_data`.
"""

from collections.abc import Mapping
from typing import Any, Final

from agentrail.errors import OptionError, TooLarge
from agentrail.frozen import canonical_json, not_json, thawed, too_large
from agentrail.host.limits import Limits

MAX_METADATA_LEVELS: Final = 64
"""How deep metadata may be nested, itself counted: it stands inside of events and records, which may not be too deep either."""


def check_metadata(metadata: object, limits: Limits) -> None:
    """Refuse metadata that is no JSON object, or too much.

    Raises:
        OptionError: The caller's move: it is none; the message says where.
        TooLarge: The caller's move: it has too many bytes, or is too deep.
    """
    if not isinstance(metadata, Mapping):
        raise OptionError([f"metadata is of type {type(metadata).__name__}: expected a JSON object"])
    if not metadata:
        return
    most = limits.max_metadata_bytes
    # In front of what walks through it, so that it is not walked through for long.
    if too_large(metadata, max_characters=most) is None:
        fault = not_json(metadata, "metadata")
        if fault is not None:
            raise OptionError([fault])
        if _levels_of(metadata) > MAX_METADATA_LEVELS:
            message = f"metadata is nested more deeply than {MAX_METADATA_LEVELS} levels: make it flatter"
            raise TooLarge(message)
        if len(canonical_json(thawed(metadata))) <= most:
            return
    message = (
        f"metadata has more than {most:,} bytes as JSON: keep what is large where it is, and give its name"
    )
    raise TooLarge(message)


def _levels_of(value: Any) -> int:
    """Count how deep a value is nested; one that `not_json` has let pass, so it ends."""
    match value:
        case Mapping():
            return 1 + max((_levels_of(one) for one in value.values()), default=0)
        case list() | tuple():
            return 1 + max((_levels_of(one) for one in value), default=0)
        case _:
            return 0
