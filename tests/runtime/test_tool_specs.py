"""The box of tools that a session begins with: one for all sessions that are given the same."""

from types import MappingProxyType
from typing import Any

import pytest

import agentrail
from agentrail.abc import Ok, ToolContext, ToolListing, ToolOutcome
from agentrail.errors import OptionError, ToolDefinitionError
from agentrail.messages import JsonObject, SessionId
from agentrail.runtime.tool_specs import MAX_KEPT, ToolSpecs
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from tests.runtime.rig import saying
from tests.thinned import each


def listing() -> ToolListing:
    return ToolListing(session_id=SessionId("s"), model="demo:", working_dir="/", user_data={})


class Search:
    """A tool with the four members that one must have."""

    name = "search"
    description = "Search."
    parameters = MappingProxyType({"type": "object", "properties": {"words": {"type": "string"}}})

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        return Ok(text=f"found {arguments['words']}")


def raises():
    return property(lambda self: 1 / 0)


MALFORMED: tuple[tuple[str, Any, str], ...] = (
    ("name", "a b", "'a b'"),
    ("name", "", "''"),
    ("name", "x" * 65, "x" * 65),
    ("description", " ", "description"),
    ("description", staticmethod(lambda _: None), "is None: expected a text, or a function"),
    ("description", staticmethod(lambda _: 1 / 0), "description of tool 'search' raised ZeroDivisionError"),
    ("parameters", {"type": "string"}, "object"),
    ("parameters", {"type": "object", "properties": {"a": {"type": "nothing"}}}, "$.properties.a"),
    (
        "parameters",
        {"type": "object", "properties": {"a": {"$ref": "http://x/y"}}},
        "inline it, because references are not fetched",
    ),
    ("name", 7, "a tool is named 7: expected a text"),
    ("name", raises(), "reading 'name' of tool '<Broken>' raised ZeroDivisionError"),
    ("description", 7, "the description of tool 'search' is 7"),
    ("description", raises(), "reading 'description' of tool 'search' raised ZeroDivisionError"),
    ("parameters", [], "the schema of tool 'search' is of type list: expected a JSON Schema as a dict"),
    (
        "parameters",
        raises(),
        "reading 'parameters' of tool 'search' raised ZeroDivisionError: division by zero",
    ),
    (
        "parameters",
        {"type": "object", "properties": {"a": {"default": object()}}},
        "the schema of tool 'search' is not JSON: $.properties.a.default is a object",
    ),
    ("killable", "yes", "tool 'search' has killable 'yes': expected True or False"),
    ("killable", raises(), "reading 'killable' of tool 'search' raised"),
    ("effect_class", "pur", "tool 'search' has effect_class 'pur': expected one of 'pure', 'idempotent'"),
    ("effect_class", ["pure"], "tool 'search' has effect_class ['pure']"),
    (
        "timeout_seconds",
        "x",
        "tool 'search' has timeout_seconds 'x': expected a number of seconds, or None",
    ),
    ("timeout_seconds", True, "tool 'search' has timeout_seconds True"),
    ("timeout_seconds", float("nan"), "tool 'search' has timeout_seconds nan: expected a finite number"),
    ("max_retries", -1, "tool 'search' has max_retries -1: expected a whole number >= 0, or None"),
    ("max_retries", 1.5, "tool 'search' has max_retries 1.5"),
    ("polling", 1, "tool 'search' has polling 1: expected True or False"),
    (
        "answered_by",
        "model",
        "tool 'search' has answered_by 'model': expected one of 'code', 'user', 'child', 'client', 'machine'",
    ),
    ("max_result_bytes", 0, "tool 'search' has max_result_bytes 0: expected a whole number above 0"),
    ("max_result_bytes", raises(), "reading 'max_result_bytes' of tool 'search' raised"),
    ("threaded", "no", "tool 'search' has threaded 'no': expected True or False"),
    ("label", "Search", "tool 'search' has label 'Search': expected a method that takes the arguments"),
    ("execute", None, "tool 'search' has execute None: expected an async method"),
    ("execute", lambda self, arguments, ctx: None, "expected an async method (`async def`) that takes"),
    ("reconcile", 3, "tool 'search' has reconcile 3: expected an async method (`async def`), or None"),
    ("reconcile", lambda self, op, ctx: None, "expected an async method (`async def`), or None"),
    (
        "effect_class",
        "reconcilable",
        "tool 'search' is 'reconcilable' and has no `reconcile(operation_id, ctx)`",
    ),
    ("killable", type("Mute", (), {"__repr__": lambda self: 1 / 0})(), "has killable <Mute>: expected"),
)


async def test_a_malformed_member_is_refused_by_its_name_and_that_of_the_tool(supervisor):
    """Whatever an author's object has in a member's place, `start_session` and `attach_tools` say which; nothing is started or attached (6.18)."""
    broken = [(type("Broken", (Search,), {member: value})(), words) for member, value, words in MALFORMED]
    for one, words in broken:
        with pytest.raises(ToolDefinitionError) as caught:
            await supervisor.start_session(model=saying("x"), tools=[one])
        assert words in str(caught.value)
    assert supervisor.statistics().started == 0
    model = saying("x")
    session = await supervisor.start_session(model=model)
    for one, words in broken:
        with pytest.raises(ToolDefinitionError) as caught:
            await session.attach_tools(RecordingTool(name="good"), one)
        assert words in str(caught.value)
    await session.ask("Hi")
    assert model.requests[0].tools.names == ()


def test_a_member_that_fails_once_is_refused_all_the_same():
    """Read again to see which it was, it may be fine: that is no reason to let it in."""
    moods = iter([1 / 3, None])

    class Fickle(Search):
        @property
        def killable(self):
            if next(moods) is not None:
                raise ValueError
            return True

    with pytest.raises(ToolDefinitionError, match="tool 'search' could be read once but not again"):
        ToolSpecs().of(Fickle(), listing)


async def test_what_a_class_lacks_is_named(supervisor):
    """Fewer than the four members are no tool, and the message says which are missing."""

    class Half:
        name = "half"
        description = "Half."

    with pytest.raises(OptionError, match="it has no parameters, execute"):
        await supervisor.start_session(model=saying("x"), tools=[Half()])
    session = await supervisor.start_session(model=saying("x"))
    with pytest.raises(OptionError, match="a class is not an instance: pass an instance"):
        await session.attach_tools(Search)


async def test_members_that_break_later_do_not_crash_the_session(supervisor):
    """Checked when it came, a tool may still fail to say how long it may take: then the session's own time holds."""

    class Breaks(Search):
        """Breaks when it is told to."""

        is_broken = False

        def __getattribute__(self, name):
            if name in {"timeout_seconds", "threaded", "effect_class"} and type(self).is_broken:
                raise ValueError(name)
            return super().__getattribute__(name)

    model = ScriptedModel([calls(("search", {"words": "a"})), says("done")])
    session = await supervisor.start_session(model=model, tools=[Breaks()])
    Breaks.is_broken = True
    assert await session.ask("go") == "done"
    assert (await session.status()).restarts == 0


def made(description="Look something up.", **members):
    """Make a tool object of its own, as a program does that makes one around each connection."""

    @agentrail.tool(description=description, **members)
    async def look_up(key: str, limit: int = 10) -> str:
        return f"{key} {limit}"

    return look_up


class Written:
    """A tool whose members are what the test says."""

    async def execute(self, arguments, ctx):
        """Never called."""

    def __init__(self, **members):
        self.name = "written"
        self.description = "Written by hand."
        self.parameters = {"type": "object"}
        vars(self).update(members)


@each(
    "malformed",
    [
        {"killable": 1},
        {"timeout_seconds": True},
        {"polling": 0},
        {"parameters": {"type": "object", "default": {1, 2}}},
        {"parameters": {"type": "object", "title": b"YWJj"}},
        {"parameters": {"type": "object", "default": float("nan")}},
        {"max_result_bytes": "many"},
        {"execute": None},
    ],
)
def test_what_resembles_a_tool_that_was_checked_is_checked_itself(malformed):
    """A value that only looks the same in a dictionary, or in JSON, is refused as if it had come first."""
    well = {"killable": True, "timeout_seconds": 1, "polling": False}
    if "parameters" in malformed:
        well["parameters"] = {"type": "object", "title": "YWJj", "default": [1, 2]}
        malformed = {**malformed, **{name: well[name] for name in ("killable", "timeout_seconds", "polling")}}
    specs = ToolSpecs()
    specs.of(Written(**well), listing)
    with pytest.raises(ToolDefinitionError):
        specs.of(Written(**{**well, **malformed}), listing)


def test_no_more_specs_are_kept_than_a_bound_says():
    """A program that never says the same twice keeps its memory; what it says often stays."""
    specs, often = ToolSpecs(), made()
    kept = specs.of(often, listing)
    for number in range(3 * MAX_KEPT):
        specs.of(Written(description=f"Number {number}."), listing)
        if number % 100 == 0:
            assert specs.of(made(), listing) is kept
    assert len(specs._by_content) == MAX_KEPT  # noqa: SLF001 - what nobody sees but in a list of processes


def test_a_tool_that_was_edited_is_read_again():
    """A spec is used again only while each member is the very object that was checked."""
    specs, tool = ToolSpecs(), Search()
    before = specs.of(tool, listing)
    assert specs.of(tool, listing) is before
    tool.description = "Search the archive."
    assert specs.of(tool, listing).description == "Search the archive."
    tool.parameters = {"type": "object", "properties": {}}
    assert specs.of(tool, listing).parameters == {"type": "object", "properties": {}}
    tool.parameters["required"] = ["words"]  # the same dict with other contents
    assert list(specs.of(tool, listing).parameters["required"]) == ["words"]
    tool.name = 7
    with pytest.raises(ToolDefinitionError, match="a tool is named 7"):
        specs.of(tool, listing)
