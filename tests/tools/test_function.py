"""`@tool`: what runs, where it runs, and what is refused when the decorator runs."""

import dataclasses
import functools
import threading
from typing import Annotated

import pytest
import trio

from agentrail import outside
from agentrail.abc import Error, Ok, ToolUpdate
from agentrail.core.protocol.tool_changes import UpdateContext
from agentrail.core.values.toolbox import ToolSpec
from agentrail.errors import ToolDefinitionError
from agentrail.tools.function import tool
from tests.tools.rig import CTX


async def test_a_plain_function_runs_in_a_worker_thread_unless_it_says_otherwise():
    """A `def` may block, so it does not run in the event loop; `thread=False` says that it does not."""

    def where() -> str:
        """Say which thread runs."""
        return str(threading.get_ident())

    here = str(threading.get_ident())
    assert await tool(where).execute({}, CTX) != Ok(text=here)
    assert await tool(thread=False)(where).execute({}, CTX) == Ok(text=here)


async def test_an_inline_function_that_blocks_the_loop_is_named(caplog, monkeypatch):
    """Over 50 ms, once a minute, also when it raises: all other sessions waited meanwhile."""
    clock = iter([0.0, 0.04, 1.0, 1.06, 2.0, 2.2, 70.0, 70.1])
    monkeypatch.setattr(outside, "stopwatch", lambda: next(clock))

    @tool(thread=False)
    def blocks(fails: bool = False) -> str:  # noqa: FBT001, FBT002 - an argument of the tool
        """Block."""
        if fails:
            message = "in the end"
            raise ValueError(message)
        return "done"

    for _ in range(3):
        await blocks.execute({}, CTX)
    with pytest.raises(ValueError, match="in the end"):
        await blocks.execute({"fails": True}, CTX)
    said = "and all sessions with it: remove thread=False, so that it runs in a worker thread"
    assert [record.message for record in caplog.records] == [
        f"tool 'blocks' blocked the event loop for 60 ms, {said}",
        f"tool 'blocks' blocked the event loop for 100 ms, {said}",
    ]


def _nothing() -> None:
    """Do nothing."""


def _undocumented() -> None:
    pass


def test_what_cannot_be_a_tool_is_refused_at_once():
    """The decorator says what is wrong with an option, and what to do; nothing waits for the first call."""
    for options, words in (
        ({"description": " "}, "'_nothing' has no description"),
        ({"name": "read file"}, "'_nothing' has the name 'read file', expected 1 to 64 of A-Z"),
        ({"name": "x" * 65}, "give another name with name="),
        ({"name": ""}, "has the name ''"),
        ({"effect_class": "reconcilable"}, "needs a way to find out: give a function with reconcile="),
        ({"effect_class": "reconcilable", "reconcile": _nothing}, "an async function: write `async def`"),
        (
            {"effect_class": "safe"},
            "has effect_class='safe', expected 'pure', 'idempotent', 'reconcilable' or 'once'",
        ),
        ({"label": trio.sleep}, "has label=<function sleep"),
        ({"label": "a call"}, "has label='a call', expected a function without `async`"),
        ({"description": trio.sleep}, "expected a text, or a function without `async`"),
        ({"name": 5}, "has the name 5, expected 1 to 64 of A-Z"),
        ({"max_result_bytes": "1"}, "has max_result_bytes='1', expected a whole number >= 1"),
        ({"timeout_seconds": 0}, "has timeout_seconds=0, expected finite seconds above 0, or None"),
        ({"timeout_seconds": float("nan")}, "has timeout_seconds=nan"),
        ({"timeout_seconds": float("inf")}, "has timeout_seconds=inf"),
        ({"timeout_seconds": 10**400}, "expected finite seconds above 0, or None"),
        ({"timeout_seconds": "5"}, "has timeout_seconds='5'"),
        ({"max_retries": -1}, "has max_retries=-1, expected a whole number >= 0, or None"),
        ({"max_retries": 1.5}, "has max_retries=1.5"),
        ({"killable": "no"}, "has killable='no', expected True or False"),
        ({"thread": "no"}, "has thread='no', expected True or False"),
        ({"polling": 1}, "has polling=1, expected True or False"),
        ({"abandonable": None}, "has abandonable=None, expected True or False"),
        ({"answered_by": "me"}, "has answered_by='me', expected 'code', 'user' or 'client'"),
        (
            {"abandonable": True, "thread": False},
            "is abandonable but does not run in a thread: only a worker thread can be abandoned",
        ),
    ):
        with pytest.raises(ToolDefinitionError) as caught:
            tool(**options)(_nothing)
        assert words in str(caught.value)


def test_what_is_no_function_with_a_description_is_refused_at_once():
    """Without a docstring or a name, a class, a part of another."""
    without = "'_undocumented' has no description: write a docstring, or give one with descr"
    for function, words in (
        (_undocumented, without),
        (int, "a function written with def or async def, got <class 'int'>: wrap it in one"),
        (len, "got <built-in function len>"),
        (functools.partial(_nothing), "got functools.partial"),
    ):
        with pytest.raises(ToolDefinitionError) as caught:
            tool(function)
        assert words in str(caught.value)
    with pytest.raises(ToolDefinitionError, match="has the name '<lambda>'"):
        tool(description="x")(lambda: None)


async def test_an_effect_is_a_result():
    """What changes the session goes through as it is; its text is never empty."""

    @tool
    async def remember() -> ToolUpdate:
        """Remember."""
        return ToolUpdate(UpdateContext(key="memory", value=1), text="")

    outcome = await remember.execute({}, CTX)
    assert outcome == ToolUpdate(UpdateContext(key="memory", value=1), text="[no output]")


@dataclasses.dataclass(frozen=True)
class City:
    name: str


@dataclasses.dataclass(frozen=True)
class Spot:
    north: float
    east: float


LISBON = City("Lisbon")


@tool
async def forecast(
    where: City | Spot,
    days: int = 3,
    also: list[City | Spot | None] | None = None,
    back: City | Spot = LISBON,
) -> str:
    """Forecast the weather.

    Args:
        where: A city, or a spot.
        days: How many.
        also: Other places.
        back: Where from.
        weather: No such parameter.

    Returns:
        A text.
    """
    return repr((where, days, also, back))


async def test_a_parameter_may_be_one_of_several_classes():
    """The first that fits is what the function gets; a default that is left out is the very object."""
    properties = forecast.parameters["properties"]
    either = {"anyOf": [{"$ref": "#/$defs/City"}, {"$ref": "#/$defs/Spot"}]}
    assert properties["where"] == {"description": "A city, or a spot.", **either}
    assert properties["back"] == {"description": "Where from.", **either, "default": {"name": "Lisbon"}}
    assert properties["also"]["default"] is None
    assert forecast.parameters["required"] == ["where"]
    assert forecast.parameters["$defs"].keys() == {"City", "Spot"}
    ToolSpec(name="forecast", description="F.", parameters=forecast.parameters).check()
    call = {"where": {"north": 38.0, "east": -9.1}, "also": [{"name": "Porto"}, None]}
    outcome = await forecast.execute(call, CTX)
    assert outcome == Ok(text=repr((Spot(38.0, -9.1), 3, [City("Porto"), None], LISBON)))


async def test_a_wrong_key_is_an_error_for_the_model_with_its_place():
    """No schema says of which type the keys of an object are."""

    @tool
    async def count(pages: dict[int, str]) -> None:
        """Count."""

    outcome = await count.execute({"pages": {"one": "a"}}, CTX)
    assert outcome == Error(text='Invalid arguments for "count": key in $.pages: Expected `int`, got `str`')


async def test_what_fits_no_class_is_an_error_for_the_model():
    """With its place, also where the schema was not asked before."""
    none = "$.where: matches none of the 2 allowed types: as `City`, $.where.name: expected"
    where = {"name": "a"}
    for arguments, words in (
        ({"where": {"name": 1}}, none),
        ({"where": where, "also": [3]}, "$.also[0]: expected `City | Spot | None`, got `int`"),
        ({"where": where, "days": "a"}, "$.days: Expected `int`, got `str`"),
        ({}, "$: Object missing required field `where`"),
        ({"where": where, "x": 1}, "$: Object contains unknown field `x`"),
    ):
        outcome = await forecast.execute(arguments, CTX)
        assert isinstance(outcome, Error)
        assert outcome.text.startswith(f'Invalid arguments for "forecast": {words}')


def test_docstrings_describe_parameters_that_the_annotation_does_not():
    """In three styles; the description of the tool is the first paragraph, which ends before they begin."""

    def google(a: int, b: Annotated[str, "annotated"], c: Annotated[int, "inside"] | None = None) -> None:
        """Do it.

        Args:
            a: The first,
                over two lines.
            b: not this text
            c: nor this
        """

    def numpy(a: int, b: str = "x") -> None:
        """Do it.

        Parameters
        ----------
        a : int
            The first.
        b
            The second.
        """

    def sphinx(a: int, b: list[City]) -> None:
        """Do it.

        :param a: The first.
        :param list b: The second.
        """

    def tight(a: int, b: int) -> None:
        """Do it.
        :param a: The first.
        :param b: The second.
        """  # noqa: D205 - as many write it

    said = tool(google).parameters["properties"]
    assert said["a"] == {"description": "The first, over two lines.", "type": "integer"}
    assert said["b"]["description"] == "annotated"
    either = [{"description": "inside", "type": "integer"}, {"type": "null"}]
    assert said["c"] == {"anyOf": either, "default": None}
    for made in (tool(numpy), tool(sphinx), tool(tight)):
        told = [one["description"] for one in made.parameters["properties"].values()]
        assert told == ["The first.", "The second."]
        assert made.description == "Do it."
