"""`ask(output=…)` and `run`: the answer as a value; a wrong one is put right once, a fenced one is taken (X-003)."""

import dataclasses
import datetime
import enum
from typing import Annotated, Literal, NamedTuple, TypedDict
from uuid import UUID

import attrs
import msgspec
import pytest

from agentrail.errors import CycleAborted, CycleFailed, ReplyTimeout, TypeFault
from agentrail.messages import UserMessage
from agentrail.plugins import OutputFilter
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import HangingTool, RecordingTool
from tests.runtime.rig import calling, saying

pytestmark = pytest.mark.experience("X-003")


class Point(msgspec.Struct, frozen=True):
    x: int
    y: int = 0


@attrs.frozen
class City:
    name: str
    people: int


@dataclasses.dataclass
class Meeting:
    day: datetime.date
    who: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.who:
            message = "a meeting needs somebody in `who`"
            raise ValueError(message)


class Movie(TypedDict):
    title: str
    year: int


class Pair(NamedTuple):
    a: int
    b: int


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Tree(msgspec.Struct):
    name: str
    branches: "list[Tree]" = []


TYPES = [
    (Point, '{"x": 1, "y": 2}', Point(1, 2)),
    (City, '{"name": "Lisbon", "people": 5}', City("Lisbon", 5)),
    (Meeting, '{"day": "2026-02-27", "who": ["Ann"]}', Meeting(datetime.date(2026, 2, 27), ["Ann"])),
    (Movie, '{"title": "M", "year": 1931}', {"title": "M", "year": 1931}),
    (Pair, '{"a": 1, "b": 2}', Pair(1, 2)),
    (Tree, '{"name": "a", "branches": [{"name": "b"}]}', Tree("a", [Tree("b")])),
    (Point | City, '{"value": {"name": "Porto", "people": 2}}', City("Porto", 2)),
    (list[Point], '{"value": [{"x": 1}]}', [Point(1)]),
    (dict[str, int], '{"a": 1}', {"a": 1}),
    (tuple[int, str], '{"value": [1, "a"]}', (1, "a")),
    (set[int], '{"value": [1, 2]}', {1, 2}),
    (frozenset[str], '{"value": ["a"]}', frozenset({"a"})),
    (int, '{"value": 7}', 7),
    (float, '{"value": 7.5}', 7.5),
    (bool, '{"value": true}', True),
    (str | None, '{"value": null}', None),
    (Colour, '{"value": "blue"}', Colour.BLUE),
    (Literal["yes", "no"], '{"value": "no"}', "no"),
    (datetime.datetime, '{"value": "2026-11-21T10:00:00Z"}', datetime.datetime(2026, 11, 21, 10, tzinfo=datetime.UTC)),
    (UUID, '{"value": "12345678-1234-5678-1234-567812345678"}', UUID("12345678-1234-5678-1234-567812345678")),
    (Annotated[int, msgspec.Meta(ge=1)], '{"value": 1}', 1),
    (list[Point | City], '{"value": [{"x": 1}, {"name": "a", "people": 1}]}', [Point(1), City("a", 1)]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "value"), [pytest.param(*row, id=str(row[0])) for row in TYPES])
async def test_twenty_types(supervisor, kind, text, value):
    """Bare, in a fence, and in a fence with prose around it: the value; and the text is the document."""
    for around in ("{}", "```json\n{}\n```", "Here it is:\n\n```\n{}\n```\nAs you wished."):
        session = await supervisor.start_session(model=saying(*[around.format(text)] * 2))
        assert await session.ask("Go", output=kind) == value
        reply = await session.run("Go", output=kind)
        assert (reply.output, reply.text, reply.turns) == (value, text, 1)


WRONG = [
    (City, "Lisbon has five people.", "no JSON"),
    (City, '{"name": "Lisbon"}', "people"),
    (City, '{"name": "Lisbon", "people": "five"}', "$.people"),
    (City, '{"name": "Lisbon", "people": 5, "mayor": "Ann"}', "mayor"),
    (
        City,
        '```json\n{"name": "a", "people": 1}\n```\nor\n```json\n{"name": "b", "people": 2}\n```',
        "no JSON",
    ),
    (Meeting, '{"day": "2026-02-30", "who": ["Ann"]}', "$.day"),
    (Meeting, '{"day": "2026-02-27", "who": []}', "a meeting needs somebody in `who`"),
    (Point | City, '{"value": {"name": "Lisbon"}}', "people"),
]


@pytest.mark.parametrize(("kind", "wrong", "words"), [pytest.param(*row, id=row[1][:30]) for row in WRONG])
async def test_a_wrong_answer_is_put_right_once_and_a_second_one_ends_the_cycle(
    supervisor, kind, wrong, words
):
    """The model hears what is wrong, in the words of what reads it; the error has a code, what is wrong, and the text."""
    right = {City: TYPES[1], Meeting: TYPES[2]}.get(kind, TYPES[6])
    model = saying(wrong, right[1], "not yet", wrong, "next")
    session = await supervisor.start_session(model=model)
    reply = await session.run("Go", output=kind)
    assert (reply.output, reply.turns) == (right[2], 2)
    said = model.requests[1].messages[-1]
    assert isinstance(said, UserMessage)
    assert words in said.content[0].text

    with pytest.raises(CycleFailed) as failed:
        await session.ask("Go", output=kind)
    assert failed.value.error.code == "response_format"
    assert words in str(failed.value)
    assert failed.value.text == wrong
    assert await session.ask("And now?") == "next"


async def test_only_the_answer_is_judged_and_given(supervisor):
    """Text next to a call is not an answer, and inline tags are removed. The session's own format is returned bare."""
    model = ScriptedModel([calls(("record", {}), text="I will look."), says('{"x": 1}')])
    session = await supervisor.start_session(model=model, tools=[RecordingTool()])
    assert await session.ask("Go", output=Point) == Point(1)
    assert len(model.requests) == 2

    model = ScriptedModel([calls(("record", {}), text="<status>looking</status>I look."), says("<title>Rain</title>It rains.")])  # fmt: skip
    session = await supervisor.start_session(model=model, tools=[RecordingTool()])
    reply = await session.run("Weather?")
    assert (reply.text, reply.all_text) == ("It rains.", "I look.\n\nIt rains.")
    assert await session.collect_reply() == "It rains."

    session = await supervisor.start_session(
        model=saying('```json\n{"x": 1}\n```', "<title>T</title>One. "), response_format={"type": "object"}
    )
    assert await session.ask("Go") == '{"x": 1}'


async def test_the_model_is_told_the_schema(supervisor):
    """Of this prompt alone, in the way of its vendor. A type that is none is refused before anything is sent, with the field."""
    model = saying('{"x": 1}', "free")
    session = await supervisor.start_session(model=model)
    await session.ask("Go", output=Point)
    await session.ask("Go")
    schema = model.requests[0].response_format
    assert schema["required"] == ["x"]
    assert schema["additionalProperties"] is False
    assert model.requests[1].response_format is None

    class Plain:
        def __init__(self, pool: object) -> None:
            self.pool = pool

    @dataclasses.dataclass
    class Holder:
        inner: Plain

    model = saying("free")
    session = await supervisor.start_session(model=model)
    for call in (session.ask, session.run):
        with pytest.raises(TypeFault, match="inner"):
            await call("Go", output=Holder)
    assert model.requests == []
    assert (await session.status()).queued == ()


async def test_a_plugin_that_changes_the_answer(supervisor):
    """What it made of it is what is read; where that cannot be, the caller hears so, with the text."""
    model = saying('{"name": "Lisbon", "people": 5}')
    session = await supervisor.start_session(model=model, plugins=[(OutputFilter, {"patterns": ["Lisbon"]})])
    assert (await session.ask("Go", output=City)).name == "[filtered]"
    model = saying('{"x": 41}', '{"x": 41}')
    session = await supervisor.start_session(model=model, plugins=[(OutputFilter, {"patterns": ["41"]})])
    with pytest.raises(CycleFailed) as failed:
        await session.ask("Go", output=Point)
    assert failed.value.error.code == "response_format"


async def test_other_ends(supervisor):
    """An abort and a time that is up are what they are without a type."""
    tool = HangingTool()
    session = await supervisor.start_session(model=calling("hang"), tools=[tool])
    with pytest.raises(ReplyTimeout):
        await session.run("Go", output=City, timeout_seconds=0.05)
    with pytest.raises(ReplyTimeout):
        await session.ask("Go", output=City, timeout_seconds=0.05)
    await session.abort("enough", clear_queue=True)
    with pytest.raises(CycleAborted):
        await session.collect_reply()
