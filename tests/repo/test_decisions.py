"""Decisions are records: a number of their own, a date, and three short paragraphs."""

import datetime
import re

import pytest

from scripts.decisions_page import FOLDER, LAST_NUMBER, MAX_WORDS, decisions_page, read_records

RECORD = "*2026-11-22*\n\n**Context.** A.\n\n**Decision.** B.\n\n**Consequences.** C.\n"


def all_records():
    """Every record of every page."""
    return [
        one for page in sorted(FOLDER.glob("*.md")) for one in read_records(page.read_text(encoding="utf-8"))
    ]


def test_each_record_has_a_number_a_date_a_title_and_few_words():
    """No number is given twice, and none is above the highest one ever given."""
    records = all_records()
    numbers = [int(one.number) for one in records]
    assert len(numbers) > 50
    assert len(set(numbers)) == len(numbers)
    assert max(numbers) <= LAST_NUMBER, "raise LAST_NUMBER in scripts/decisions_page.py"
    for one in records:
        assert datetime.date.fromisoformat(one.date)
        assert len(one.text.split()) <= MAX_WORDS, one.title
        assert re.match(r"[A-Z`\"]", one.title), one.title
        assert one.title[-1] != ".", one.title


def test_the_page_of_decisions_lists_each():
    """By topic, in the order of the pages."""
    expected = [one.number for one in all_records()]
    assert re.findall(r"^- \[(\d{4})\]\(decisions/", decisions_page(), re.MULTILINE) == expected


@pytest.mark.parametrize(
    "heading",
    [
        "Our choice",
        "0001 · One",
        f"1 · One\n\n{RECORD}",
        f"0001 · One\n\n{RECORD.replace('2026-11-22', 'yesterday')}",
        f"0001 · One\n\n{RECORD.replace('Decision', 'Choice')}",
    ],
)
def test_a_heading_without_a_record_is_refused(heading):
    """The message shows the expected form."""
    with pytest.raises(ValueError, match="does not begin a record: expected"):
        read_records(f"# A\n\n## {heading}\n\nBecause.\n")


def test_a_record_is_read():
    """Its text ends where the next record begins."""
    text = f"# A\n\n## 0001 · `x` is y\n\n{RECORD}\n## 0002 · z\n\n{RECORD}"
    first, second = read_records(text)
    assert (first.number, first.title, second.title) == ("0001", "`x` is y", "z")
    assert first.text == "**Context.** A.\n\n**Decision.** B.\n\n**Consequences.** C."
    assert first.anchor == "0001--x-is-y"
