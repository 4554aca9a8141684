"""What a run says: a table for people, which is Markdown and can be pasted, and JSON for programs."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

import attrs

from agentrail.gc_settings import collector_state
from benchmarks.bars import build_in_use
from benchmarks.explain import Explanation
from benchmarks.measure import Effort, Row, Spread, Target, describe_collector

FORMAT: Final = 2
_COLUMNS: Final = (
    "workload", "what", "ours", "bare", "ratio (min–max)", "CPU s", "wall s", "must", "aim", "verdict",
)  # fmt: skip
_PACKAGES: Final = ("trio", "httpx", "httpx-sse", "h11", "jsonschema", "msgspec", "attrs")


def machine() -> Mapping[str, object]:
    """Describe the machine in general terms: enough to judge a figure, nothing that would name it."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "build": build_in_use(),
        "collector": attrs.asdict(collector_state()),
        "packages": {name: version(name) for name in _PACKAGES},
    }


def describe_run() -> str:
    """Say in a line what ran and how the collector is set, which decides about rows of many objects."""
    return (
        f"{platform.python_implementation()} {platform.python_version()}, {build_in_use()} build; "
        f"collector: {describe_collector(collector_state())}"
    )


def write_json(
    path: Path, rows: Sequence[Row], effort: Effort, explained: Mapping[str, Explanation] | None = None
) -> None:
    """Write all figures, and what was found out about missed rows."""
    document = {
        "format": FORMAT,
        "machine": machine(),
        "effort": attrs.asdict(effort),
        "rows": [
            {**attrs.asdict(row, filter=lambda field, _: field.name != "explain"), "verdict": row.verdict}
            for row in rows
        ],
        "missed": {what: attrs.asdict(found) for what, found in (explained or {}).items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def render_table(rows: Sequence[Row]) -> str:
    """Set the rows as a table of Markdown."""
    lines = [_COLUMNS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_COLUMNS))]
    rule = tuple("-" * width for width in widths)
    return "\n".join(
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))} |"
        for line in (lines[0], rule, *lines[1:])
    )


def render_missed(explained: Mapping[str, Explanation]) -> str:
    """Say of each missed row where its time or its memory goes."""
    return "\n".join(
        line
        for what, found in explained.items()
        for line in (f"\nmissed: {what}; where it goes:", *(f"    {line}" for line in found.lines()))
    )


def _cells(row: Row) -> tuple[str, ...]:
    must, aim = _target(row.target, row.unit)
    ratio = f"{row.ratio.median:.2f} × ({row.ratio.least:.2f}–{row.ratio.most:.2f})" if row.ratio else "–"
    return (
        row.workload,
        row.what,
        _figure(row.ours, row.unit),
        _figure(row.bare, row.unit),
        ratio,
        _number(row.cpu_seconds.median) if row.cpu_seconds else "–",
        _number(row.wall_seconds.median) if row.wall_seconds else "–",
        must,
        aim,
        row.verdict,
    )


def _figure(spread: Spread | None, unit: str) -> str:
    return f"{_number(spread.median)} {unit}" if spread else "–"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits say enough


def _target(target: Target | None, unit: str) -> tuple[str, str]:
    if target is None:
        return "–", "–"
    of = "×" if target.of == "ratio" else unit
    return f"{target.must:g} {of}", "–" if target.aim is None else f"{target.aim:g} {of}"
