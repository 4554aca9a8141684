"""What a run says: a table for people, which is Markdown and can be pasted, and JSON for programs."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

import attrs

from benchmarks.measure import Effort, Row, Spread, Target

FORMAT: Final = 1
_COLUMNS: Final = ("workload", "what", "ours", "bare", "ratio (min–max)", "must", "aim", "verdict")
_PACKAGES: Final = ("trio", "httpx", "httpx-sse", "h11", "jsonschema", "msgspec", "attrs")


def machine() -> Mapping[str, object]:
    """Describe the machine in general terms: enough to judge a figure, nothing that would name it."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "packages": {name: version(name) for name in _PACKAGES},
    }


def write_json(path: Path, rows: Sequence[Row], effort: Effort) -> None:
    """Write all figures."""
    document = {
        "format": FORMAT,
        "machine": machine(),
        "effort": attrs.asdict(effort),
        "rows": [{**attrs.asdict(row), "verdict": row.verdict} for row in rows],
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


def _cells(row: Row) -> tuple[str, ...]:
    must, aim = _target(row.target, row.unit)
    ratio = f"{row.ratio.median:.2f} × ({row.ratio.least:.2f}–{row.ratio.most:.2f})" if row.ratio else "–"
    return (
        row.workload,
        row.what,
        _figure(row.ours, row.unit),
        _figure(row.bare, row.unit),
        ratio,
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
