"""What `demo:` does: it says what it is, uses the tools there are, and answers a steer (7.11)."""

from agentrail.core.protocol.request import Completed, ModelRequest, TextDelta
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.messages import (
    AssistantMessage,
    CallId,
    FileRef,
    Image,
    JsonObject,
    Message,
    Text,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentrail.providers.demo import Demo, respond
from tests.providers.transcripts import completed, request_of, said

ANY: JsonObject = {"type": "object", "properties": {"path": {"type": "string"}}}
FILES = (
    ToolSpec(name="list_dir", description="List a directory.", parameters=ANY),
    ToolSpec(name="read_file", description="Read a file.", parameters=ANY),
)
WEATHER = ToolSpec(
    name="get_weather",
    description="Say how the weather is in a city.",
    parameters={
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "unit": {"enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city"],
    },
)
LISTING = """\
[dir]  src/
[file] README.md (1234 bytes)
[file] b.py (10 bytes)
[file] a.py (10 bytes)
[file] c.py (10 bytes)
[file] logo.png (10 bytes)
[link] x -> y"""


class _Talk:
    def __init__(self, *specs: ToolSpec) -> None:
        self.tools = Toolbox(specs)
        self.messages: list[Message] = []

    def request(self, **fields: object) -> ModelRequest:
        return request_of(*self.messages, model="demo:", tools=self.tools, **fields)

    def turn(self, **fields: object) -> Completed:
        end = completed(respond(self.request(**fields)))
        self.messages.append(end.message)
        return end

    def prompt(self, text: str) -> Completed:
        self.messages.append(said(text))
        return self.turn()

    def steer(self, text: str) -> None:
        self.messages.append(UserMessage(content=(Text(text=text),), origin="steer"))

    def answer(self, *texts: str, is_error: bool = False) -> Completed:
        asking = self.messages[-1]
        assert isinstance(asking, AssistantMessage)
        results = [
            ToolResult(call_id=call.call_id, name=call.name, text=text, is_error=is_error)
            for call, text in zip(asking.calls, texts, strict=True)
        ]
        self.messages.append(ToolMessage(results=tuple(results)))
        return self.turn()


def _calls(end: Completed) -> list[tuple[str, object]]:
    return [(call.name, call.arguments) for call in end.message.calls]


def test_it_lists_then_reads_then_sums_up():
    """The directory, then up to three files in one batch with the README first, then names and first lines."""
    talk = _Talk(*FILES)
    assert _calls(talk.prompt("What is in here?")) == [("list_dir", {"path": "."})]
    assert _calls(talk.answer(LISTING)) == [
        ("read_file", {"path": name}) for name in ("README.md", "a.py", "b.py")
    ]
    end = talk.answer("1\t# A title\n2\ttext", "1\t\n2\timport os", "")
    assert end.stop_reason == "end"
    for words in ("1 directory and 5 files", "README.md: # A title", "a.py: import os", "b.py is empty"):
        assert words in end.message.text


def _listed(*specs: ToolSpec, listing: str = LISTING, is_error: bool = False) -> tuple[_Talk, Completed]:
    talk = _Talk(*specs)
    talk.prompt("What is in here?")
    return talk, talk.answer(listing, is_error=is_error)


def test_what_cannot_be_read_is_reported_as_what_it_is():
    """A directory that cannot be listed, a file that cannot be read, nothing to read, and no tool to read with."""
    _, end = _listed(*FILES, listing="Permission denied", is_error=True)
    assert "could not be listed: Permission denied" in end.message.text
    talk, _ = _listed(*FILES, listing="[file] a.py (10 bytes)")
    assert "a.py could not be read: No such file" in talk.answer("No such file", is_error=True).message.text
    _, end = _listed(*FILES, listing="[file] logo.png (1 bytes)")
    assert "nothing in it that I could read" in end.message.text
    assert _listed(FILES[0])[1].stop_reason == "end"


def test_a_tool_of_the_user_that_shares_a_word_is_called_and_used_again():
    """Texts are filled with names in the prompt, numbers with numbers, choices with the first; a follow-up means the same tool."""
    talk = _Talk(*FILES, WEATHER)
    end = talk.prompt("What will the weather be in New York for 3 days?")
    assert _calls(end) == [("get_weather", {"city": "New York", "days": 3, "unit": "celsius"})]
    assert "get_weather says: 21 degrees" in talk.answer("21 degrees").message.text
    assert _calls(talk.prompt("And in Porto?")) == [("get_weather", {"city": "Porto", "unit": "celsius"})]
    assert "get_weather failed: no idea" in talk.answer("no idea", is_error=True).message.text


def test_the_tool_that_shares_most_is_chosen():
    """A word of the name counts double, words that say nothing count nothing; of pictures and files it sees the names."""
    schema = {"type": "object", "properties": {}}
    other = ToolSpec(name="tell_time", description="Tell what the time is in a city.", parameters=schema)
    assert _calls(_Talk(other, WEATHER).prompt("What is the weather in the city?"))[0][0] == "get_weather"
    assert _calls(_Talk(WEATHER).prompt("What is this for?")) == []

    blocks = (
        Text(text="Look:"),
        Image(media_type="image/png", data="", name="cat.png"),
        FileRef(path="a.py"),
    )
    end = completed(respond(request_of(UserMessage(content=blocks), model="demo:")))
    assert "Look: cat.png a.py" in end.message.text


def test_it_names_the_tools_that_a_prompt_does_not():
    """A prompt that matches no tool is no sign that there is none; of many, five are named."""
    assert "names a tool (get_weather), so" in _Talk(WEATHER).prompt("Hello").message.text
    assert "I have no tools, so" in _Talk().prompt("Hello").message.text
    many = [ToolSpec(name=f"t{number}", description="Do it.", parameters=ANY) for number in range(9)]
    assert "(t0, t1, t2, t3, t4)" in _Talk(*many).prompt("Hello").message.text


def test_required_parameters_always_get_a_value():
    """Of the right kind, when the prompt has none; quoted words come before capitalised ones."""
    kinds = {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": ["null", "number"]},
        "flag": {"type": "boolean"},
        "list": {"type": "array"},
        "map": {"type": "object"},
        "maybe": {"anyOf": [{"type": "null"}, {"type": "integer"}]},
        "choice": {"$ref": "#/$defs/Color"},
        "place": {"$ref": "#/$defs/Place"},
    }
    place = {
        "type": "object",
        "properties": {"floor": {"type": "integer", "minimum": 3}},
        "required": ["floor"],
    }
    defined = {"Color": {"enum": ["red", "blue"]}, "Place": place}
    spec = ToolSpec(
        name="probe",
        description="",
        parameters={"type": "object", "properties": kinds, "required": list(kinds), "$defs": defined},
    )
    ((_, arguments),) = _calls(_Talk(spec).prompt("probe it"))
    expected = {"text": "probe it", "count": 1, "share": 1, "flag": False, "list": [], "map": {}, "maybe": 1}
    expected |= {"choice": "red", "place": {"floor": 3}}
    assert arguments == expected
    assert spec.faults(arguments) == ()
    ((_, arguments),) = _calls(_Talk(spec).prompt('probe "the thing" of Bob 2 0.5 7'))
    given = {"text": "the thing", "count": 2, "share": 0.5, "maybe": 7}
    assert given.items() <= arguments.items()
    bare = ToolSpec(name="probe", description="", parameters={"type": "object"})
    assert _calls(_Talk(bare).prompt("probe")) == [("probe", {})]


def test_a_steer_is_quoted_in_the_next_text_and_only_there():
    """Messages carry their origin, and the work goes on."""
    talk = _Talk(*FILES)
    talk.prompt("What is in here?")
    talk.messages.append(
        ToolMessage(results=(ToolResult(call_id=CallId("call_1"), name="list_dir", text=LISTING),))
    )
    talk.steer("Only the README, please")
    end = talk.turn()
    assert end.message.text.startswith("You steered: Only the README, please\n")
    assert end.message.calls
    assert "You steered" not in talk.answer("1\ta", "1\tb", "1\tc").message.text


async def test_words_come_with_pauses_and_fast_ones_without(autojump_clock):
    """20 ms between words, so that people see streaming; `demo:fast` for tests."""
    for model, pause_seconds in (("demo:", 0.02), ("demo:fast", 0.0)):
        request = request_of("Hello there", model=model)
        started = autojump_clock.current_time()
        async with Demo().open_stream(request) as chunks:
            seen = [chunk async for chunk in chunks]
        words = sum(isinstance(chunk, TextDelta) for chunk in seen)
        assert words > 10
        assert abs(autojump_clock.current_time() - started - words * pause_seconds) < 0.001
        assert seen == respond(request)
