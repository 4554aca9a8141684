"""Buses without sessions behind them: what they publish is made up, with the numbers that are due."""

from collections.abc import Iterable
from functools import partial

from agentrail.core.session.views import snapshot_of
from agentrail.events import AgentStart, Envelope, Event, MessageDelta, SessionEnd, ToolCalls
from agentrail.messages import PromptRef, SessionId
from agentrail.runtime.event_bus import EventBus
from agentrail.runtime.event_subscription import TakenSnapshot
from tests.core.worlds import new_session

PLENTY = 1 << 20


class Followed:
    """A session that is nothing but a bus; how it stands nobody looks at."""

    group_id: str | None = None

    def __init__(self, keep: int, name: str = "s", scope: str = "") -> None:
        self.scope = scope
        self.bus = EventBus(Envelope(SessionId(name), 0, 0, (SessionId(name),)), keep=keep)

    def take_snapshot(self) -> TakenSnapshot:
        """Say that it has not begun."""
        state = new_session()
        return partial(snapshot_of, state.phase, state.data, 0)


def publish(bus: EventBus, kind: str) -> Event:
    """Let the session say something, with the number that is due."""
    ephemeral = kind == "delta"
    place = Envelope(bus.session_id, bus.last_seq + (not ephemeral), 0, (bus.session_id,), ephemeral)
    event: Event
    match kind:
        case "calls":
            event = ToolCalls(count=1, meta=place)
        case "start":
            event = AgentStart(ref=PromptRef("p"), meta=place)
        case "delta":
            event = MessageDelta(delta="a", meta=place)
        case _:
            event = SessionEnd(reason="enough", meta=place)
    bus.publish(event)
    return event


def number_of(event: Event) -> int:
    """Its number."""
    assert event.meta is not None
    return event.meta.seq


def committed(events: Iterable[Event]) -> list[Event]:
    """Those with a number of their own."""
    return [event for event in events if event.meta is not None and not event.meta.ephemeral]
