"""Pages of events as JSON, bounded in size. Large values are replaced by their size, and clients request them separately."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from agentrail.core.wire.codec import encode_event
from agentrail.events import Event
from agentrail.gateway.inspection_replies import EventPageReply
from agentrail.runtime.event_history import PageOfEvents
from agentrail.runtime.event_subscription import number_of
from agentrail.wire.plain import encode_plain

MAX_PAGE_BYTES: Final = 1 << 20
MAX_VALUE_BYTES: Final = 16 << 10
"""Limit on a string in an event."""

MAX_OBJECT_BYTES: Final = 256 << 10
"""Limit on an object or a list in an event whose own values are all small."""

CUT: Final = "$cut"
"""The only field of the placeholder for a value that was cut: its size as JSON, in bytes."""

_WHOLE_ELSEWHERE: Final[Mapping[str, str]] = {"agent_end": "messages"}
"""By kind, a field that repeats the contents of earlier events. It is cut like a string."""


def encode_event_page(page: PageOfEvents, *, is_forth: bool, is_whole: bool = False) -> bytes:
    shown: list[bytes] = []
    size = 0
    order: Sequence[Event] = page.events if is_forth else page.events[::-1]
    for event in order:
        written = encode_event(event)
        if not is_whole and len(written) > MAX_VALUE_BYTES:
            written = cut_event(written)
        if shown and size + len(written) > MAX_PAGE_BYTES:
            break
        shown.append(written)
        size += len(written) + 1
    first, last, more = page.first, page.last, page.more
    if len(shown) < len(order):
        edge = number_of(order[len(shown) - 1])
        first, last, more = (first, edge, True) if is_forth else (edge, last, True)
    in_order = shown if is_forth else shown[::-1]
    return encode_plain(
        EventPageReply(
            events=tuple(map(msgspec.Raw, in_order)),
            first=first,
            last=last,
            more=more,
            kept_from=page.kept_from,
        )
    )


def cut_event(written: bytes) -> bytes:
    plain: dict[str, Any] = msgspec.json.decode(written)
    doubled = _WHOLE_ELSEWHERE.get(plain["kind"])
    cut = {name: _cut(value, is_doubled=name == doubled)[0] for name, value in plain.items()}
    return msgspec.json.encode(cut)


def _cut(value: Any, *, is_doubled: bool = False) -> tuple[Any, int]:
    """Return a value without its large parts, and its size in bytes."""
    match value:
        case str():
            size = len(msgspec.json.encode(value)) if len(value) > MAX_VALUE_BYTES // 6 else len(value) + 2
            return _bounded(value, size, MAX_VALUE_BYTES)
        case dict():
            parts = {name: _cut(one) for name, one in value.items()}
            size = sum(len(name) + 4 + one[1] for name, one in parts.items()) + 2
            most = MAX_VALUE_BYTES if is_doubled else MAX_OBJECT_BYTES
            return _bounded({name: one[0] for name, one in parts.items()}, size, most)
        case list():
            members = [_cut(one) for one in value]
            size = sum(one[1] + 1 for one in members) + 2
            most = MAX_VALUE_BYTES if is_doubled else MAX_OBJECT_BYTES
            return _bounded([one[0] for one in members], size, most)
        case _:
            return value, 8


def _bounded(value: Any, size: int, most: int) -> tuple[Any, int]:
    return (value, size) if size <= most else ({CUT: size}, 24)
