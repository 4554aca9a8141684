"""The box of tools that a session begins with: one for all sessions that are given the same."""

from types import MappingProxyType

import pytest

import agentrail
from agentrail.abc import ToolListing
from agentrail.errors import ToolDefinitionError
from agentrail.messages import SessionId
from agentrail.runtime.tool_specs import ToolSpecs

LISTING = ToolListing(session_id=SessionId("s"), model="demo:", working_dir="/", user_data={})


@agentrail.tool
async def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@agentrail.tool
async def negate(a: int) -> int:
    """Negate an integer."""
    return -a


class Moody:
    """A tool that describes itself in another way each time."""

    name = "moody"
    parameters = MappingProxyType({"type": "object"})
    killable = True
    effect_class = "pure"
    timeout_seconds = None

    def __init__(self):
        self.told = 0

    def description(self, listing):
        """Count."""
        self.told += 1
        return f"time {self.told}"


def test_sessions_with_the_same_tools_share_a_box():
    """What was encoded for one is encoded for all."""
    specs = ToolSpecs()
    box = specs.box_of([add, negate], LISTING)
    assert box.names == ("add", "negate")
    assert specs.box_of([add, negate], LISTING) is box
    assert specs.box_of([add], LISTING).names == ("add",)
    assert specs.box_of([], LISTING).names == ()


def test_a_tool_that_says_something_else_gets_a_box_of_its_own():
    """No session sees a description that was made for another one."""
    specs, moody = ToolSpecs(), Moody()
    boxes = [specs.box_of([moody], LISTING) for _ in range(2)]
    assert [box.get("moody").description for box in boxes] == ["time 1", "time 2"]


def test_two_tools_of_one_name_are_refused_each_time():
    """What was refused is not kept."""
    specs = ToolSpecs()
    for _ in range(2):
        with pytest.raises(ToolDefinitionError, match="two tools are named 'add'"):
            specs.box_of([add, add], LISTING)
