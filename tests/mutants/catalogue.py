"""Planted bugs: each breaks one guarantee on purpose, and one test has to notice. `make mutants` applies them one at a time.

A bug is a patch file in this folder, so it can be read, reviewed and applied by hand (`git apply`). Above the patch it has
four fields:

    Bug: event is published before its record is durable
    Breaks: nothing is published and no work starts before its record is durable
    Killed-by: tests/runtime/test_outbox.py::test_an_event_waits_for_its_record

`Breaks` names a promise, or rows of the acceptance list as `AT-039, AT-040`; the test is marked with these rows. The test is the
fastest that sees the bug, not the only one. Bugs that an operator can make are not here: `scripts.ast_mutants` draws those.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

FOLDER: Final = Path(__file__).parent
_ROW: Final = re.compile(r"AT-(\d{3})")


@frozen(kw_only=True)
class Mutant:
    """One bug."""

    name: str
    breaks: str
    file: str
    edits: tuple[tuple[str, str], ...]
    killed_by: str
    rows: tuple[int, ...] = ()

    def apply(self, source: str) -> str | None:
        """Return the module's source with the bug; None if the text of a hunk is not in it exactly once."""
        for old, new in self.edits:
            if source.count(old) != 1:
                return None
            source = source.replace(old, new)
        return source


def parse(text: str) -> Mutant:
    """Read a patch file with its fields."""
    head, is_patch, patch = text.partition("--- a/")
    fields = dict(line.split(": ", 1) for line in head.splitlines() if line)
    missing = {"Bug", "Breaks", "Killed-by"} - fields.keys()
    lines = patch.splitlines(keepends=True)
    file = lines[0].strip() if is_patch else ""
    edits = tuple(_edits(lines[2:]))
    if missing or not file.startswith("agentrail/") or not edits:
        message = (
            f"expected the fields Bug, Breaks and Killed-by above a patch of one module, got {text[:200]!r}"
        )
        raise ValueError(message)
    return Mutant(
        name=fields["Bug"],
        breaks=fields["Breaks"],
        file=file.removeprefix("agentrail/"),
        edits=edits,
        killed_by=fields["Killed-by"],
        rows=tuple(int(row) for row in _ROW.findall(fields["Breaks"])),
    )


def _edits(lines: list[str]) -> Iterator[tuple[str, str]]:
    hunks: list[list[str]] = []
    for line in lines:
        if line.startswith("@@"):
            hunks.append([])
        elif hunks:
            hunks[-1].append(line if line.strip("\n") else " \n")  # editors strip the space of an empty line
    for hunk in hunks:
        yield (
            "".join(line[1:] for line in hunk if line[0] in " -"),
            "".join(line[1:] for line in hunk if line[0] in " +"),
        )


def read_all(folder: Path = FOLDER) -> Mapping[str, Mutant]:
    """Read every patch file of a folder, by file name."""
    return {path.name: parse(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.patch"))}


MUTANTS: Final[tuple[Mutant, ...]] = tuple(read_all().values())
