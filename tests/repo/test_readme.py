"""What the README says in numbers is so."""

import re
from pathlib import Path
from typing import get_args

from agentrail.events import SECTIONS

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_it_counts_the_kinds_of_events():
    """Each new kind changes a number there."""
    (events,) = re.findall(r"\| events \| (\d+) kinds", README)
    assert int(events) == sum(len(get_args(section)) for section in SECTIONS.values())
