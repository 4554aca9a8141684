"""What the README says in numbers is so."""

import re
from pathlib import Path
from typing import get_args

import pytest

from agentrail.blueprints.builder import built_in_plugins
from agentrail.errors import ToolDefinitionError
from agentrail.events import SECTIONS
from agentrail.tools import builtin

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_it_counts_the_kinds_of_events():
    """Each new kind changes a number there."""
    (events,) = re.findall(r"(\d+) kinds of events", README)
    assert int(events) == sum(len(get_args(section)) for section in SECTIONS.values())


def test_it_counts_what_is_built_in():
    """Plugins, and tools with those that are given by their names alone."""
    with pytest.raises(ToolDefinitionError) as caught:
        builtin("none of them")
    tools = str(caught.value).partition("There are: ")[2].split(", ")
    numbers = {
        what: re.findall(rf"^- \*\*{what.title()}\*\*: .*?(\d+) are built in", README, re.MULTILINE)
        for what in ("plugins", "tools")
    }
    assert numbers == {"plugins": [f"{len(built_in_plugins())}"], "tools": [f"{len(tools)}"]}
