"""The models for tests: what a script says is what a provider would send."""

import pytest

from agentrail.core.protocol.request import (
    EffectId,
    ModelRequest,
)
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import OptionError
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says

REQUEST = ModelRequest(attempt=EffectId("r1"), model="scripted:x", system=None, messages=(), tools=Toolbox())


async def chunks_of(model, request=REQUEST):
    async with model.open_stream(request) as stream:
        return [chunk async for chunk in stream]


@pytest.mark.parametrize(
    ("turns", "words"),
    [
        (
            [[says("one"), says("two")]],
            r"turns\[0\] is \[Turn\(.* expected turns, such as .* in a flat list",
        ),
        ([says("one"), "two"], r"turns\[1\] is 'two': expected turns, such as says\('Hello.'\)"),
        (says("one"), r"turns is Turn\(.* in a list"),
        ("one", "turns is 'one': .* in a list"),
        (None, "turns is None"),
    ],
)
def test_a_script_says_what_it_takes(turns, words):
    """A slip is answered where it was made, and not by a crash in the first request."""
    with pytest.raises(OptionError, match=words):
        ScriptedModel(turns)


def test_calls_are_pairs():
    """A name and its arguments side by side are refused by name, rather than unpacked."""
    with pytest.raises(
        OptionError,
        match=r"^a call is 'ab': expected a pair, such as .*; a call is \{'path': 'a'\}: expected",
    ):
        calls("ab", {"path": "a"})


async def test_a_function_that_gives_no_turn_is_told_so():
    """Sync or async; and what is no function is refused at once."""

    async def late(request):
        return "late"

    for answer in (lambda request: [says("one")], lambda request: None, late):
        with pytest.raises(OptionError, match=r"the function gave .*: expected turns, such as"):
            await chunks_of(FunctionModel(answer))
    with pytest.raises(OptionError, match="answer is 'Hello': expected a function from a ModelRequest"):
        FunctionModel("Hello")
