"""Decisions are records: a number that no other has, a date, a status, reasons."""

import datetime
import re

import pytest

from scripts.decisions_page import FOLDER, STATUS, decisions_page, read_records


def test_each_decision_has_a_number_a_date_a_status_and_reasons():
    """Numbers are dense, so that the next one is known; what took the place of a record is one."""
    records = [
        one for page in sorted(FOLDER.glob("*.md")) for one in read_records(page.read_text(encoding="utf-8"))
    ]
    numbers = [int(one.number) for one in records]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    assert len(numbers) > 500
    for one in records:
        assert datetime.date.fromisoformat(one.date)
        assert STATUS.fullmatch(one.status), one
        assert len(one.text) > 30, one
        assert one.title[-1] != ".", one


def test_the_page_of_decisions_lists_each():
    """By number, in the order of the subjects."""
    pages = sorted(FOLDER.glob("*.md"))
    expected = [one.number for page in pages for one in read_records(page.read_text(encoding="utf-8"))]
    assert re.findall(r"^\| \[(\d{4})\]\(decisions/", decisions_page(), re.MULTILINE) == expected


@pytest.mark.parametrize(
    "heading",
    [
        "What we did",
        "0001 · One",
        "0001 · One\n\n*yesterday · accepted*",
        "1 · One\n\n*2026-11-22 · accepted*",
    ],
)
def test_a_heading_that_is_no_record_is_refused(heading):
    """With what was expected."""
    with pytest.raises(ValueError, match="is no record: expected"):
        read_records(f"# A\n\n## {heading}\n\nBecause.\n")


def test_a_record_is_read():
    """One that another has taken the place of too."""
    text = "# A\n\n## 0001 · `x` is y\n\n*2026-11-22 · superseded by [0002](b.md#0002--z)*\n\nBecause.\n\nAnd so.\n"
    (record,) = read_records(text)
    assert (record.number, record.title, record.text) == ("0001", "`x` is y", "Because.\n\nAnd so.")
    assert record.anchor == "0001--x-is-y"
