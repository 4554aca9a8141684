"""The table of `agentrail top`: sessions in the width of a terminal. Pure functions without terminal, connection or clock."""

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from attrs import define, evolve, field, frozen

from agentrail.cli.event_text import on_one_line as joined
from agentrail.wire.inspection_rows import TreeRow
from agentrail.wire.rows import SessionRow

SortBy: TypeAlias = Literal["phase", "title", "model", "tool", "speed", "tokens", "cost", "age", "restarts"]
"""The sort order of sessions."""

SORT_KEYS: Final[Mapping[str, SortBy]] = {
    "p": "phase",
    "n": "title",
    "m": "model",
    "t": "tool",
    "s": "speed",
    "k": "tokens",
    "c": "cost",
    "a": "age",
    "r": "restarts",
}
"""The keys of the sort orders. The same key again reverses the order."""

SPEED_SECONDS: Final = 10.0
"""Time over which tokens per second are counted, in seconds."""

_PHASES: Final = ("executing_tools", "streaming", "running", "waiting", "idle", "asleep", "ended")
_WORDS: Final = {"executing_tools": "working"}
_ROUND: Final = 1_000
_UNITS: Final = ("", "k", "M", "G")
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


@frozen(kw_only=True)
class TopView:
    """The view of the table.

    Attributes:
        first: The index of the top row, from 0.
    """

    sort: SortBy = "age"
    is_turned: bool = False
    first: int = 0
    with_ended: bool = False


@define(eq=False)
class Speeds:
    """The tokens per second of each session in the last seconds, by the viewer's clock."""

    _seen: dict[str, list[tuple[float, int]]] = field(factory=dict)

    def note(self, rows: Iterable[SessionRow], now: float) -> None:
        """Record the rows at a time in seconds, and drop older samples."""
        kept: dict[str, list[tuple[float, int]]] = {}
        for row in rows:
            if row.tokens is None:
                continue
            times = [one for one in self._seen.get(row.session_id, []) if one[0] >= now - SPEED_SECONDS]
            before = self._seen.get(row.session_id, [])
            if before and not times:
                times = [(now - SPEED_SECONDS, before[-1][1])]
            if not times or times[-1][1] != row.tokens or len(times) == 1:
                times.append((now, row.tokens))
            kept[row.session_id] = times
        self._seen = kept

    def of(self, session_id: str, now: float) -> float:
        """Return the tokens per second of a session, or 0 without any usage."""
        times = [one for one in self._seen.get(session_id, []) if one[0] >= now - SPEED_SECONDS]
        if len(times) < 2:  # noqa: PLR2004 - a difference has two ends
            return 0.0
        return max(0, times[-1][1] - times[0][1]) / max(1.0, now - times[0][0])


def press(view: TopView, key: str, *, rows: int, page: int) -> TopView:
    """Return the view after a key. An unknown key does not change it."""
    if key in SORT_KEYS:
        sort = SORT_KEYS[key]
        return evolve(view, sort=sort, is_turned=not view.is_turned if sort == view.sort else False, first=0)
    if key == "e":
        return evolve(view, with_ended=not view.with_ended, first=0)
    steps = {"up": -1, "down": 1, "page_up": -page, "page_down": page, "home": -rows, "end": rows}
    first = min(max(view.first + steps.get(key, 0), 0), max(0, rows - page))
    return evolve(view, first=first)


def shown_rows(rows: Iterable[SessionRow], view: TopView, speed: Callable[[str], float]) -> list[SessionRow]:
    """Return the rows of a table in order. Rows without a value, such as an unknown price, come last in both directions."""
    wanted = [row for row in rows if view.with_ended or not row.ended]
    known = [row for row in wanted if _value(row, view.sort, speed) is not None]
    unknown = [row for row in wanted if _value(row, view.sort, speed) is None]
    known.sort(key=lambda row: row.session_id)
    known.sort(
        key=lambda row: _value(row, view.sort, speed),  # type: ignore[arg-type,return-value]  # of one sort they are of one type
        reverse=(view.sort in _GREATEST_FIRST) != view.is_turned,
    )
    return [*known, *sorted(unknown, key=lambda row: row.session_id)]


_GREATEST_FIRST: Final = frozenset({"speed", "tokens", "cost", "age", "restarts"})


def _value(row: SessionRow, sort: SortBy, speed: Callable[[str], float]) -> float | str | None:
    match sort:
        case "phase":
            phase = phase_word(row)
            return _PHASES.index(phase) if phase in _PHASES else len(_PHASES)
        case "title":
            return (row.title or row.first_words or "").casefold() or None
        case "model":
            return row.model
        case "tool":
            return None if row.tool is None else row.tool.name
        case "speed":
            return speed(row.session_id)
        case "tokens":
            return row.tokens
        case "cost":
            return row.cost_usd
        case "restarts":
            return row.restarts
        case _:
            return row.changed_at_ms


def phase_word(row: SessionRow) -> str:
    if row.ended:
        return "ended"
    return "waiting" if row.suspended else row.phase


# --- the table


def draw_table(
    rows: Sequence[SessionRow], *, width: int, now_ms: int, speed: Callable[[str], float], sort: SortBy
) -> list[str]:
    """Draw the headings and rows, each line at most as wide as the terminal."""
    columns = _columns(width)
    head = "  ".join(
        _fit(_heading(name, sort), size, is_number=is_number) for name, size, is_number in columns
    )
    lines = [head.rstrip()]
    for row in rows:
        cells = _cells(row, now_ms, speed(row.session_id))
        lines.append(
            "  ".join(
                _fit(cells[name], size, is_number=is_number) for name, size, is_number in columns
            ).rstrip()
        )
    return lines


def _columns(width: int) -> list[tuple[SortBy | Literal["profile"], int, bool]]:
    fixed: list[tuple[SortBy | Literal["profile"], int, bool]] = [
        ("phase", 9, False),
        ("tool", 14, False),
        ("speed", 6, True),
        ("tokens", 6, True),
        ("cost", 8, True),
        ("age", 5, True),
        ("restarts", 3, True),
        ("profile", 12, False),
        ("model", 18, False),
    ]
    least = 16
    while len(fixed) > 1 and sum(size + 2 for _, size, _ in fixed) + least > width:
        fixed.pop()
    title = max(1, width - sum(size + 2 for _, size, _ in fixed))
    return [fixed[0], ("title", title, False), *fixed[1:]]


_HEADINGS: Final = {
    "phase": "PHASE",
    "title": "TITLE",
    "tool": "TOOL",
    "speed": "TOK/S",
    "tokens": "TOKENS",
    "cost": "COST",
    "age": "AGE",
    "restarts": "RST",
    "profile": "PROFILE",
    "model": "MODEL",
}


def _heading(name: str, sort: SortBy) -> str:
    return f"{_HEADINGS[name]}*" if name == sort and name != "restarts" else _HEADINGS[name]


def _cells(row: SessionRow, now_ms: int, speed: float) -> dict[str, str]:
    phase = phase_word(row)
    waits = row.waiting.approvals + row.waiting.questions
    more = f" +{row.running - 1}" if row.running > 1 else ""
    tool = "" if row.tool is None else f"{plain(row.tool.name)}{more}"
    return {
        "phase": _WORDS.get(phase, phase),
        "title": plain(row.title or row.first_words or row.session_id),
        "tool": f"! {waits} wait{'s' if waits == 1 else ''}" if waits and not tool else tool,
        "speed": f"{speed:.1f}" if speed else "",
        "tokens": "" if row.tokens is None else scaled(row.tokens),
        "cost": "" if row.cost_usd is None else f"${row.cost_usd:.2f}",
        "age": age(now_ms - row.changed_at_ms),
        "restarts": f"{row.restarts}" if row.restarts else "",
        "profile": plain(row.agent_id or ""),
        "model": plain(row.model or ""),
    }


def scaled(number: float) -> str:
    """Format a number of tokens briefly: `940`, `12.3k`, `1.2M`."""
    place = 0
    while number >= _ROUND - 0.5 and place < len(_UNITS) - 1:
        number, place = number / _ROUND, place + 1
    return (
        f"{number:.0f}{_UNITS[place]}"
        if place == 0 or number >= _ROUND / 10
        else f"{number:.1f}{_UNITS[place]}"
    )


def age(ms: float) -> str:
    seconds = max(0, int(ms // 1_000))
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _fit(text: str, width: int, *, is_number: bool) -> str:
    """Pad or truncate a text to exactly `width` columns, with a mark if it is cut."""
    if columns_of(text) > width:
        kept = ""
        for char in text:
            if columns_of(kept + char) > width - 1:
                break
            kept += char
        text = f"{kept}…"
    blank = " " * max(0, width - columns_of(text))
    return blank + text if is_number else text + blank


def plain(text: str) -> str:
    """Join untrusted text to one line, without control or bidirectional formatting characters."""
    line = joined(text)
    return line if line.isascii() else "".join(char for char in line if unicodedata.category(char) != "Cf")


def columns_of(text: str) -> int:
    """Count the terminal columns of a text. Some characters take two, and some none."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.combining(char) or unicodedata.category(char) == "Cf"
        else 2
        if unicodedata.east_asian_width(char) in "WF"
        else 1
        for char in text
    )


def server_words(nodes: Iterable[TreeRow]) -> str:
    """Count the MCP servers of a tree, and name those that are not running. Empty if there are none."""
    servers = [node for node in nodes if node.kind == "source"]
    down = [
        f", {plain(one.name.removeprefix('mcp '))} {one.status}" for one in servers if one.status != "running"
    ]
    plural = "" if len(servers) == 1 else "s"
    return f"  {len(servers)} MCP server{plural}{''.join(down)}" if servers else ""


def head_lines(  # noqa: PLR0913, PLR0917 - the parts of one line
    rows: Sequence[SessionRow], total: int, line: str, server: str, width: int, tools: str = ""
) -> list[str]:
    working = sum(phase_word(row) in ("running", "streaming", "executing_tools") for row in rows)
    waiting = sum(row.waiting.approvals + row.waiting.questions for row in rows)
    known = [row.cost_usd for row in rows if row.cost_usd is not None]
    cost = f"${sum(known):.2f}" + (
        "" if len(known) == sum(row.tokens is not None for row in rows) else " and more"
    )
    said = f"{plain(server)}  {line}  {total} session{'' if total == 1 else 's'}  {working} working  {waiting} waiting  {cost}{tools}"
    return [_fit(said, width, is_number=False).rstrip()]


def foot_line(width: int) -> str:
    said = "q quit  e ended  ↑↓ scroll  sort: p phase n title t tool s tok/s k tokens c cost a age r restarts m model"
    return _fit(said, width, is_number=False).rstrip()
