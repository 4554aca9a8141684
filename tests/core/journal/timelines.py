"""The timeline of a whole journal at once."""

from collections.abc import Iterable

from agentrail.core.journal.timeline import SpanItem, Timeline
from agentrail.events import Event


def timeline_of(events: Iterable[Event]) -> tuple[SpanItem, ...]:
    """Return the spans of some events."""
    timeline = Timeline()
    for event in events:
        timeline.hear(event)
    return timeline.spans
