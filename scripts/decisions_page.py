"""The page of all decisions: number, what was decided, date and status, drawn from the records.

A record is a heading with a number that no other has, a line with its date and status, and the reasons. Records stand on a page for each
subject, in `docs/explanation/decisions/`, oldest first. One that no longer holds keeps its place and says which took it.
"""

import re
from pathlib import Path
from typing import Final

from attrs import frozen

from scripts.docsite.nav import ROOT
from scripts.docsite.pages import github_anchor, title_of

FOLDER: Final = ROOT / "docs" / "explanation" / "decisions"
DRAWN: Final = "<!-- Drawn from the records by `make docs`; edit those. -->"
RECORD: Final = re.compile(
    r"^## (?P<heading>(?P<number>\d{4}) · (?P<title>[^\n]+))\n\n\*(?P<date>\d{4}-\d{2}-\d{2}) · (?P<status>[^*\n]+)\*\n\n(?P<text>.*?)(?=^## |\Z)",
    re.MULTILINE | re.DOTALL,
)
STATUS: Final = re.compile(r"accepted|superseded by \[\d{4}\]\([^)]+\)")


@frozen(kw_only=True)
class DecisionRecord:
    """One decision.

    Attributes:
        number: What it is called, four digits.
        title: What was decided, as a sentence.
        date: When, as YYYY-MM-DD.
        status: `accepted`, or what took its place.
        text: The reasons.
        anchor: What its heading is linked by.
    """

    number: str
    title: str
    date: str
    status: str
    text: str
    anchor: str


def read_records(text: str) -> list[DecisionRecord]:
    """Read the records of a page, in the order in which they stand.

    Raises:
        ValueError: A heading of the second level is no record; the message has it.
    """
    found = [
        DecisionRecord(
            number=one["number"],
            title=one["title"],
            date=one["date"],
            status=one["status"],
            text=one["text"].strip(),
            anchor=github_anchor(one["heading"]),
        )
        for one in RECORD.finditer(text)
    ]
    known = {f"{one.number} · {one.title}" for one in found}
    for heading in re.findall(r"^## (.+)$", text, re.MULTILINE):
        if heading not in known:
            message = f"{heading!r} is no record: expected `## 0001 · What was decided`, and below it `*2026-11-22 · accepted*`"
            raise ValueError(message)
    return found


def decisions_page(folder: Path = FOLDER) -> str:
    """Write the list: a table for each subject.

    Raises:
        FileNotFoundError: There is no record.
    """
    lines = [
        "# What we decided",
        "",
        DRAWN,
        "",
        "Where a choice was open, or where we left the road that was drawn first. Each record has a number, a date and a status; a new one gets the next",
        "number, at the end of the page of its subject.",
        "",
    ]
    found = sorted(folder.glob("*.md"))
    if not found:
        message = f"there are no records in {folder}: the list would be empty"
        raise FileNotFoundError(message)
    for page in found:
        text = page.read_text(encoding="utf-8")
        lines += [
            f"## [{_subject(text)}](decisions/{page.name})",
            "",
            "| | what was decided | date | status |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| [{one.number}](decisions/{page.name}#{one.anchor}) | {one.title.replace('|', chr(92) + '|')} | {one.date} | {_plain(one.status)} |"
            for one in read_records(text)
        ]
        lines.append("")
    return "\n".join(lines)


def _subject(text: str) -> str:
    """Name what the records of a page are about."""
    subject = title_of(text).removeprefix("Decisions: ")
    return f"{subject[:1].upper()}{subject[1:]}"


def _plain(status: str) -> str:
    """Leave out where the link of a status leads: the list is on another page."""
    return re.sub(r"\[(\d{4})\]\([^)]+\)", r"\1", status)
