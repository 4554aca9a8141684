"""Trace contexts: those of callers, and the ids of spans of ours. Pure. See W3C Trace Context, level 1."""

import hashlib
import re
from collections.abc import Mapping
from typing import Final

from agentrail.messages import SessionId, TraceContext

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


# Ids follow from what an event and a state both know: a tool learns its span before the span ends, each node and a
# later export make the same, and no id is drawn.

UNDECIDED: Final = "agentrail=undecided"
"""`tracestate` of a prompt to a child session if no caller decided about sampling: the journal must not depend on telemetry."""


def trace_id_of(caller: TraceContext | None, *names: str) -> str:
    """Return the caller's trace id, otherwise one that follows from the names."""
    return _hashed("trace", 16, names) if caller is None else caller.traceparent[3:35]


def span_id_of(kind: str, *names: str) -> str:
    return _hashed(kind, 8, names)


def trace_of_background(scope: str, parent: str, child_id: SessionId) -> str:
    """Return the trace id of a background agent, which may outlive its cycle, or nothing for another child session."""
    return trace_id_of(None, scope, parent, child_id) if child_id.startswith(f"{parent}:") else ""


def decision_of(caller: TraceContext | None) -> bool | None:
    """Return whether a caller wants its trace sampled, or None if none decided."""
    if caller is None or caller.tracestate == UNDECIDED:
        return None
    return bool(int(caller.traceparent[53:], 16) & 1)


def is_drawn(trace_id: str, ratio: float) -> bool:
    """Return whether OpenTelemetry's ratio sampler draws a trace that no caller decided about."""
    return ratio >= 1 or int(trace_id[16:], 16) < round(ratio * (1 << 64))


def traceparent_of(trace_id: str, span_id: str, *, sampled: bool) -> str:
    return f"00-{trace_id}-{span_id}-{sampled:02x}"


def _hashed(kind: str, size: int, names: tuple[str, ...]) -> str:
    text = "\0".join((kind, *names))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()
