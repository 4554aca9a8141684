"""The picture of a cycle: what a session publishes while it answers one prompt, over time. Drawn from a real run.

The run is a session with a model of the test kit, two tools and a person, on virtual time: it takes no time, and is the same in every
process. Where each bar begins and ends is read from the events alone; nothing in the picture is set by hand but colours and names of lanes.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import escape
from types import MappingProxyType
from typing import Final, Literal

import trio
from attrs import evolve, frozen

import agentrail
from agentrail import outside
from agentrail.abc import Tool
from agentrail.events import (
    EPHEMERAL,
    AgentEnd,
    AgentResumed,
    AgentStart,
    AgentSuspended,
    ApprovalRequired,
    Envelope,
    Event,
    RequestStart,
    ResponseComplete,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from agentrail.plugins import HumanApproval
from agentrail.testing.clock import FakeClock
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.seeded import SeededMachine

Theme = Literal["light", "dark"]

COLOURS: Final[Mapping[Theme, Mapping[str, str]]] = MappingProxyType(
    {
        "light": MappingProxyType(
            {"page": "#ffffff", "text": "#1f2430", "faint": "#667085", "line": "#d5dae3", "on": "#ffffff"}
            | {"cycle": "#3f51b5", "model": "#00796b", "tool": "#b45309", "person": "#ad1457"}
        ),
        "dark": MappingProxyType(
            {"page": "#1b1e26", "text": "#e6e9f0", "faint": "#9aa3b5", "line": "#363c4a", "on": "#12141a"}
            | {"cycle": "#9fa8da", "model": "#80cbc4", "tool": "#ffcc80", "person": "#f48fb1"}
        ),
    }
)

WIDTH: Final = 960
LEFT: Final = 108
RIGHT: Final = 24
TOP: Final = 46
LANE: Final = 38
BAR: Final = 24


@frozen(kw_only=True)
class Bar:
    """What takes time.

    Attributes:
        lane: Where it is drawn.
        kind: Its colour.
        said: What stands in it.
        begins_ms: From the prompt on.
        ends_ms: The same.
    """

    lane: str
    kind: str
    said: str
    begins_ms: int
    ends_ms: int


# --- the run


@agentrail.tool(effect_class="pure")
async def find_trains(to: str) -> str:
    """Find the trains to a city."""
    await trio.sleep(1.1)
    return f"{to}: 9:12, 11:40"


@agentrail.tool(effect_class="pure")
async def read_budget() -> str:
    """Read what may be spent."""
    await trio.sleep(0.8)
    return "80 EUR"


@agentrail.tool
async def book(train: str) -> str:
    """Book a seat on a train."""
    await trio.sleep(0.5)
    return f"booked: {train}"


async def _live() -> list[Event]:
    script = ScriptedModel(
        [
            evolve(calls(("find_trains", {"to": "Porto"}), ("read_budget", {})), pause_seconds=0.6),
            evolve(calls(("book", {"train": "9:12"})), pause_seconds=0.6),
            says("Your seat ", "on the 9:12 ", "is booked.", pause_seconds=0.25),
        ]
    )
    people = (HumanApproval, {"require_approval_for": ["book"]})
    seen: list[Event] = []
    tools: list[Tool] = [find_trains, read_budget, book]
    async with (
        agentrail.open_session(model=script, tools=tools, plugins=[people]) as session,
        session.stream("A seat to Porto, please.") as events,
    ):
        async for event in events:
            seen.append(event)
            if isinstance(event, ApprovalRequired):
                await trio.sleep(1.4)  # a person reads what is to be booked
                await session.approve(event.approval.id)
    return seen


@cache
def live_through() -> tuple[Event, ...]:
    """Run the session, and give what it published."""
    with outside.installed(SeededMachine("the picture of a cycle")):
        return tuple(trio.run(_live, clock=FakeClock()))


# --- from events to bars


def envelope_of(event: Event) -> Envelope:
    """Give what a subscriber finds in every event."""
    if event.meta is None:
        message = f"{event!r} was not published: expected events of a session"
        raise ValueError(message)
    return event.meta


def bars_of(events: Sequence[Event]) -> list[Bar]:
    """Pair what begins with what ends it."""
    zero = envelope_of(events[0]).at_ms
    begun: dict[str, tuple[int, str]] = {}
    bars: list[Bar] = []

    def begin(key: str, event: Event, said: str) -> None:
        begun[key] = (envelope_of(event).at_ms - zero, said)

    def end(key: str, event: Event, lane: str, kind: str) -> None:
        began, said = begun.pop(key)
        bars.append(
            Bar(lane=lane, kind=kind, said=said, begins_ms=began, ends_ms=envelope_of(event).at_ms - zero)
        )

    turns = 0
    for event in events:
        match event:
            case AgentStart():
                begin("cycle", event, "the cycle")
            case RequestStart():
                turns += 1
                begin("turn", event, f"turn {turns}")
            case ResponseComplete():
                end("turn", event, "model", "model")
            case ToolExecutionStart(name=name, call_id=call_id):
                begin(call_id, event, name)
            case ToolExecutionEnd(call_id=call_id):
                end(call_id, event, f"tool {begun[call_id][1]}", "tool")
            case AgentSuspended():
                begin("person", event, "suspended: a person decides")
            case AgentResumed():
                end("person", event, "person", "person")
            case AgentEnd():
                end("cycle", event, "session", "cycle")
            case _:
                pass
    return bars


# --- from bars to a picture


def draw_timeline(theme: Theme) -> str:
    """Draw the run as SVG, in the colours of a theme."""
    events = live_through()
    bars = bars_of(events)
    tools = [bar.lane for bar in sorted(bars, key=lambda bar: bar.begins_ms) if bar.kind == "tool"]
    lanes = ["session", "model", *tools, "person"]
    zero, end = envelope_of(events[0]).at_ms, envelope_of(events[-1]).at_ms
    per_ms = (WIDTH - LEFT - RIGHT) / (end - zero)
    events_at = TOP + LANE * len(lanes) + 16
    height = events_at + 78
    colours = COLOURS[theme]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
        "<style>text { font-family: system-ui, sans-serif; font-size: 13px }</style>",
        "<title>One cycle over time: turns of the model, calls of tools, a person, and the events that say so</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{colours["page"]}"/>',
        f'<text x="{LEFT}" y="26" fill="{colours["text"]}" style="font-weight: 600">“A seat to Porto, please.”</text>',
        *_scale(end - zero, per_ms, events_at + 14, colours),
        *_lanes(lanes, colours),
        *(_bar(bar, lanes.index(bar.lane), per_ms, colours) for bar in bars),
        *_dots(events, zero, per_ms, events_at, colours),
        "</svg>",
    ]
    return "\n".join(lines)


def _scale(duration_ms: int, per_ms: float, bottom: int, colours: Mapping[str, str]) -> Iterator[str]:
    for second in range(duration_ms // 1000 + 1):
        x = LEFT + second * 1000 * per_ms
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{bottom}" stroke="{colours["line"]}"/>'
        yield f'<text x="{x + 4:.1f}" y="{bottom + 54}" fill="{colours["faint"]}" style="font-size: 11px">{second} s</text>'


def _lanes(lanes: Sequence[str], colours: Mapping[str, str]) -> Iterator[str]:
    for place, lane in enumerate(lanes):
        y = TOP + place * LANE + BAR / 2 + 5
        yield f'<text x="{LEFT - 12}" y="{y:.0f}" text-anchor="end" fill="{colours["faint"]}">{escape(lane.partition(" ")[0])}</text>'


def _bar(bar: Bar, lane: int, per_ms: float, colours: Mapping[str, str]) -> str:
    x, y = LEFT + bar.begins_ms * per_ms, TOP + lane * LANE
    width = max(3.0, (bar.ends_ms - bar.begins_ms) * per_ms)
    said = f'<text x="{x + 8:.1f}" y="{y + 16.5:.1f}" fill="{colours["on"]}" style="font-size: 12px">{escape(bar.said)}</text>'
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" rx="4" fill="{colours[bar.kind]}"/>{said}'


def _dots(
    events: Sequence[Event], zero: int, per_ms: float, y: int, colours: Mapping[str, str]
) -> Iterator[str]:
    """One dot for each event, those of one instant below each other; committed ones are full, ephemeral ones are rings."""
    yield f'<text x="{LEFT - 12}" y="{y + 5}" text-anchor="end" fill="{colours["faint"]}">events</text>'
    there: dict[int, int] = {}
    for event in events:
        at = envelope_of(event).at_ms - zero
        place = there[at] = there.get(at, -1) + 1
        x = LEFT + at * per_ms + 5 + 9 * (place // 6)
        fill = colours["page"] if type(event) in EPHEMERAL else colours["cycle"]
        yield (
            f'<circle cx="{x:.1f}" cy="{y + 9 * (place % 6)}" r="3.2" fill="{fill}" stroke="{colours["cycle"]}">'
            f"<title>{envelope_of(event).seq} {type(event).__name__}</title></circle>"
        )
