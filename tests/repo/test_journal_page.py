"""The page of journals is complete: each kind, each field, each line of an outline, and the hash as the code makes it."""

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

import agentrail
from agentrail.abc.store import StoredSnapshot
from agentrail.core.journal.record import OWN_KINDS, RECORD_VERSION, Record
from agentrail.core.protocol.signals import Signal
from agentrail.core.wire.codec import SIGNAL_KINDS
from scripts.generate_docs import fields_in
from scripts.journal_page import NOT_RECORDED, OUTLINES, OWN_BODIES, WHEN

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "journal.md"


@pytest.fixture(scope="module")
def page():
    """What it says."""
    return PAGE.read_text(encoding="utf-8")


def test_every_kind_is_there(page):
    """Those that are no signals with when and what, and every signal that is recorded."""
    assert set(OWN_BODIES) == set(WHEN) == OWN_KINDS
    assert all(f"### `{kind}`\n\n{WHEN[kind]}" in page for kind in OWN_KINDS)
    assert set(get_args(Signal)) == set(SIGNAL_KINDS)
    for kind, tag in SIGNAL_KINDS.items():
        assert (f"- `{tag}`: [`{kind.__name__}`]" in page) is (kind.__name__ not in NOT_RECORDED)
        assert f"`{kind.__name__}`" in page


@pytest.mark.parametrize(
    "described", [Record, StoredSnapshot, *OWN_BODIES.values()], ids=lambda kind: kind.__name__
)
def test_every_field_has_its_sentence(described, page):
    """In the order of the class, and no field is forgotten."""
    fields = fields_in(described)
    assert {name for name, _ in fields} == {one.name for one in msgspec.structs.fields(described)}
    assert all(f"- `{name}`: {meaning}" in page for name, meaning in fields)


def test_every_line_of_an_outline_is_there(page):
    """By its first word, as the code writes it."""
    source = (
        Path(agentrail.__file__)
        .with_name("core")
        .joinpath("journal", "recorded_steps.py")
        .read_text(encoding="utf-8")
    )
    written = set(re.findall(r'return f?"([a-z_]+)(?:[ "])', source)) | set(
        re.findall(r'join\(\("([a-z_]+)"', source)
    )
    assert len(written) > 15
    assert {form.partition(" ")[0] for form in OUTLINES} == written
    assert all(f"- `{form}`" in page for form in OUTLINES)


def test_versions_are_those_of_the_code(page):
    """A version that is raised is raised here too."""
    assert page.count(f"| {RECORD_VERSION} |") == 3
