"""Trace context of a caller, from a carrier such as the headers of a request. Pure. See W3C Trace Context, level 1."""

import re
from collections.abc import Mapping
from typing import Final

from agentrail.messages import TraceContext

PARENT_CHARACTERS: Final = 55
MAX_STATE_CHARACTERS: Final = 512
MAX_STATE_MEMBERS: Final = 32

_PARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_STATE_MEMBER: Final = re.compile(
    r"([a-z0-9][a-z0-9_\-*/@]{0,255})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)


def read_trace(given: object) -> tuple[TraceContext | None, bool]:
    """Return the trace context of a carrier, and whether a malformed part of it was left out.

    A malformed `tracestate` leaves the `traceparent` valid. Other members of the carrier are ignored.
    """
    if isinstance(given, TraceContext):
        given = {"traceparent": given.traceparent, "tracestate": given.tracestate}
    if not isinstance(given, Mapping):
        return None, given is not None
    parent, state = given.get("traceparent"), given.get("tracestate")
    if parent is None:
        return None, False
    known = _parent_in(parent)
    if known is None:
        return None, True
    if state is None or state == "":
        return TraceContext(traceparent=known), False
    if not _is_state(state):
        return TraceContext(traceparent=known), True
    return TraceContext(traceparent=known, tracestate=state), False


def _parent_in(value: object) -> str | None:
    if not isinstance(value, str) or _PARENT.match(value) is None:
        return None
    parent, rest = value[:PARENT_CHARACTERS], value[PARENT_CHARACTERS:]
    # Only later versions may append fields.
    return parent if not rest or (rest.startswith("-") and not parent.startswith("00")) else None


def _is_state(value: object) -> bool:
    if not isinstance(value, str) or len(value) > MAX_STATE_CHARACTERS:
        return False
    members = [member for member in (part.strip(" \t") for part in value.split(",")) if member]
    found = [_STATE_MEMBER.fullmatch(member) for member in members]
    keys = {one[1] for one in found if one is not None}
    return len(keys) == len(members) <= MAX_STATE_MEMBERS
