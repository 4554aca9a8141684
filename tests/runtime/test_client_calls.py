"""Tools of the client through the doors: who answers, who answers too late, what is no answer, and sessions without a client."""

from typing import Any

import pytest

from agentrail.abc import Ok
from agentrail.errors import OptionError
from agentrail.messages import JsonObject
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools.client import ClientTool

PLACE: JsonObject = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
SHOW = ClientTool(name="show_map", description="Show a place on the map.", parameters=PLACE)


def calling() -> ScriptedModel:
    """A model that makes one call of the client."""
    return ScriptedModel([calls(("show_map", {"place": "Lisbon"})), says("There.")])


WRONG: Any = {1, 2}


@pytest.mark.parametrize(
    ("ref", "outcome", "words"),
    [
        (7, Ok(text="x"), "ref is 7: expected a text"),
        ("s/a1", "x", r"outcome is 'x': expected Ok\('…'\) or Error"),
        ("s/a1", Ok(text=WRONG), "outcome has the text {1, 2}: expected a text"),
        ("s/a1", Ok(text="x", details=WRONG), "outcome.details"),
        ("s/a1", Ok(text="x", details="x" * 2_000_000), "outcome.details has more than 1,000,000 characters"),
    ],
)
async def test_what_is_no_answer_is_refused_at_the_door(supervisor, ref, outcome, words):
    """Before anything is sent."""
    session = await supervisor.start_session(model=calling(), tools=[SHOW])
    with pytest.raises(OptionError, match=words):
        await session.answer(ref, outcome)
