"""`demo:`, a scripted model: newcomers without a key see streaming, tools and errors."""

import re
import tomllib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import trio
from attrs import evolve, frozen
from msgspec.structs import replace

from agentrail.abc import Capabilities
from agentrail.core.policy.budget import Price
from agentrail.core.protocol.request import Chunk, ModelRequest, ReasoningDelta, TextDelta, UsageUpdate
from agentrail.core.values.sample_values import SampleValues
from agentrail.core.values.toolbox import ToolSpec
from agentrail.messages import (
    AssistantMessage,
    FileRef,
    Image,
    JsonObject,
    JsonValue,
    Message,
    Text,
    TokenUsage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentrail.providers.json_text import encode_json
from agentrail.providers.response_builder import ResponseBuilder

# The scenes of `demo:support`, `demo:coder` and `demo:reader`, without clock, randomness or requests.
# The tools that they call are defined with the profiles.

_SMALL_NUMBER: Final = re.compile(r"\d{1,9}")
_PLAIN_WORD: Final = re.compile(r"[a-z]{3,}")
_SCENES: Final = Path(__file__).with_name("demo_scenes.toml")


@frozen(kw_only=True)
class SceneTurn:
    text: str
    thinking: str = ""
    calls: Sequence[tuple[str, JsonObject]] = ()
    pace: float = 1.0
    otherwise: str | None = None


@frozen(kw_only=True)
class Scene:
    """The responses to one kind of prompt.

    Attributes:
        words: Words that the prompt must contain, in any order.
    """

    words: frozenset[str]
    turns: tuple[SceneTurn, ...]
    number: int = 17


def is_staged(model_name: str) -> bool:
    """Return whether a model plays scenes, given its name after `demo:`."""
    return model_name in scenes()


def decide_turn(model_name: str, prompt: str, place: int, *, has_failed: bool = False) -> SceneTurn | None:
    words = frozenset(_PLAIN_WORD.findall(prompt.lower()))
    scene = next((one for one in scenes().get(model_name, ()) if one.words <= words), None)
    if scene is None:
        return None
    if place >= len(scene.turns):  # a steer makes a cycle longer than its scene
        return SceneTurn(text="That is all there is to it in this demo.")
    turn = scene.turns[place]
    if has_failed and turn.otherwise is not None:
        return SceneTurn(text=turn.otherwise)
    found = _SMALL_NUMBER.search(prompt)
    number = scene.number if found is None else int(found.group())
    calls = tuple([(name, _filled(arguments, number)) for name, arguments in turn.calls])
    return evolve(turn, text=turn.text.replace("{number}", f"{number}"), calls=calls)


def _filled(arguments: JsonObject, number: int) -> JsonObject:
    return {key: number if value == "{number}" else value for key, value in arguments.items()}


@cache
def scenes() -> Mapping[str, tuple[Scene, ...]]:
    """Return the scenes by model name. The first scene whose words occur in the prompt is played."""
    read: dict[str, list[dict[str, Any]]] = tomllib.loads(_SCENES.read_text(encoding="utf-8"))
    return {name: tuple(map(_scene_of, listed)) for name, listed in read.items()}


def _scene_of(read: dict[str, Any]) -> Scene:
    turns = tuple([SceneTurn(**{"calls": (), **turn}) for turn in read.pop("turns")])
    return Scene(words=frozenset(read.pop("words")), turns=turns, **read)


NAME: Final = "demo"
INTRODUCTION: Final = (
    "This is a demo without any intelligence: a key in ANTHROPIC_API_KEY or OPENAI_API_KEY, or a server in "
    "OPENAI_BASE_URL, brings a real model. "
)
_PIECES: Final = re.compile(r"\S+\s*|\s+")
# Price of a mid-range model, so that pages about spending have something to show.
_PRETENDED: Final = Price(input=3.0, output=15.0, cache_read=0.3)
_WINDOW: Final = 200_000
_MAX_FILES: Final = 3
_SHOWN: Final = 200
_BYTES_PER_TOKEN: Final = 4
# Tools with these names are assumed to behave like the built-in ones.
_BUILT_IN: Final = frozenset({
    "read_file", "write_file", "edit_file", "shell", "grep", "glob", "list_dir",
    "task", "write_todos", "ask_user", "compact_conversation",
})  # fmt: skip
_SOURCE: Final = re.compile(
    r"\.(py|pyi|js|ts|tsx|go|rs|c|h|cc|cpp|java|rb|sh|ex|hs|lua|sql|toml|cfg|ini|json|md|rst|txt)$"
)
_FILE_LINE: Final = re.compile(r"^\[file\] (.+) \(\d+ bytes\)$", re.MULTILINE)
_DIR_LINE: Final = re.compile(r"^\[dir\]\s+(.+)$", re.MULTILINE)
_MAX_NUMBER: Final = 1e15
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w])")
# Single quotes are excluded, because they are usually apostrophes.
_QUOTED: Final = re.compile(r"[\"“`]([^\"“”`]+)[\"”`]")
_FIRST_WORD: Final = re.compile(r"^\W*\w+\W*")
_CAPITALISED: Final = re.compile(r"\b[A-ZÀ-Þ][\w’-]*(?:\s+[A-ZÀ-Þ][\w’-]*)*")
_WORD: Final = re.compile(r"[^\W_]{3,}")
_FILLERS: Final = (
    "the and for with what which this that from are was has have get set give given you your can how who why when "
    "where does its not all any into out about tell please show return returns use uses now there here is"
)
_SAYS_NOTHING: Final = frozenset(_FILLERS.split())


class Demo:
    name = NAME

    def __init__(self, *, pause_seconds: float = 0.02) -> None:
        """Set the pause between two words, in seconds. `demo:fast` makes none."""
        self._pause_seconds = pause_seconds

    def capabilities(self, model: str) -> Capabilities:
        """Return minimal capabilities and a price of 0. Scene models pretend to have a price."""
        if is_staged(model):
            return Capabilities(context_window=_WINDOW, reasoning=True, price=_PRETENDED)
        return Capabilities(price=Price(input=0, output=0))

    def encode(self, request: ModelRequest) -> bytes:
        """Return an empty body, because nothing is sent."""
        return b""

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        turn = _plan(request)
        pause_seconds = 0.0 if request.model_name == "fast" else self._pause_seconds * turn.pace
        async with aclosing(_paced(_chunks(request, turn), pause_seconds)) as chunks:
            yield chunks


async def _paced(chunks: Sequence[Chunk], pause_seconds: float) -> AsyncGenerator[Chunk, None]:
    await trio.lowlevel.checkpoint()
    for chunk in chunks:
        if pause_seconds and isinstance(chunk, TextDelta | ReasoningDelta):
            await trio.sleep(pause_seconds)
        yield chunk


def respond(request: ModelRequest) -> list[Chunk]:
    return _chunks(request, _plan(request))


def _chunks(request: ModelRequest, plan: SceneTurn) -> list[Chunk]:
    calls_before = sum(
        len(message.calls) for message in request.messages if isinstance(message, AssistantMessage)
    )
    draft = ResponseBuilder(provider=NAME, model=request.model, attempt=request.attempt)
    chunks: list[Chunk] = [draft.thinking(word) for word in _PIECES.findall(plan.thinking)]
    chunks += [draft.text(word) for word in _PIECES.findall(plan.text)]
    for number, (name, arguments) in enumerate(plan.calls, calls_before + 1):
        started = draft.start_call(f"call_{number}", name)
        chunks += [started, draft.arguments(started.index, encode_json(arguments).decode())]
    usage = TokenUsage(  # estimated by the rule for missing usage; the price is usually 0
        input=sum(len(_words_of(message)) for message in request.messages) // _BYTES_PER_TOKEN,
        output=len(plan.thinking + plan.text) // _BYTES_PER_TOKEN,
        reasoning=len(plan.thinking) // _BYTES_PER_TOKEN,
        estimated=True,
    )
    if is_staged(request.model_name):
        usage = replace(usage, cost_usd=_PRETENDED.cost_usd(usage))
    return [*chunks, UsageUpdate(usage), draft.completed("tool_use" if plan.calls else "end", usage)]


# --- decisions


def _plan(request: ModelRequest) -> SceneTurn:
    start = _cycle_start(request.messages)
    prompt = _words_of(request.messages[start]) if request.messages else ""
    cycle, before = request.messages[start + 1 :], request.messages[:start]
    tools = {} if request.tool_choice == "none" else {spec.name: spec for spec in request.tools}
    answers = [message for message in cycle if isinstance(message, AssistantMessage)]
    calls = {call.call_id: call for message in answers for call in message.calls}
    results = [
        (calls[result.call_id], result)
        for message in cycle
        if isinstance(message, ToolMessage)
        for result in message.results
        if result.call_id in calls
    ]
    last_batch = max(len(answers[-1].calls), 1) if answers else 1
    has_failed = any(result.is_error for _, result in results[-last_batch:])
    staged = decide_turn(request.model_name, prompt, len(answers), has_failed=has_failed)
    if staged is not None:
        known = tuple([call for call in staged.calls if call[0] in tools])
        return evolve(staged, text=_steered(cycle) + staged.text, calls=known)
    plan = _after(results, tools) if results else _first(prompt, before, tools)
    is_greeting = not any(isinstance(message, AssistantMessage) for message in request.messages)
    return SceneTurn(
        text=(INTRODUCTION if is_greeting else "") + _steered(cycle) + plan.text, calls=plan.calls
    )


def _cycle_start(messages: Sequence[Message]) -> int:
    prompts = [
        n
        for n, message in enumerate(messages)
        if isinstance(message, UserMessage) and message.origin == "prompt"
    ]
    return prompts[-1] if prompts else 0


def _steered(cycle: Sequence[Message]) -> str:
    fresh: list[str] = []
    for message in cycle:
        if isinstance(message, AssistantMessage):
            fresh.clear()
        elif isinstance(message, UserMessage) and message.origin == "steer":
            fresh.append(_words_of(message))
    return "".join(f"You steered: {text}\n" for text in fresh)


def _first(prompt: str, before: Sequence[Message], tools: Mapping[str, ToolSpec]) -> SceneTurn:
    own = [spec for name, spec in sorted(tools.items()) if name not in _BUILT_IN]
    chosen = _matching(prompt, own) or _used_last(before, own)
    if chosen is not None:
        return _asking(chosen, prompt)
    if "list_dir" in tools:
        return SceneTurn(
            text="I will look around in the working directory first.", calls=(("list_dir", {"path": "."}),)
        )
    asked_for = _matching(prompt, [spec for _, spec in sorted(tools.items())])
    # A built-in tool requested by name, such as `shell`, without a directory to list.
    if asked_for is not None:
        return _asking(asked_for, prompt)
    known = f"No word of it names a tool ({', '.join(sorted(tools)[:5])})" if tools else "I have no tools"
    return SceneTurn(text=f"You said: {_shown(prompt)}\n{known}, so I can only talk.")


def _asking(spec: ToolSpec, prompt: str) -> SceneTurn:
    calls = ((spec.name, _arguments(prompt, spec.parameters)),)
    return SceneTurn(text=f"I will ask the tool {spec.name}.", calls=calls)


def _after(results: list[tuple[ToolCall, ToolResult]], tools: Mapping[str, ToolSpec]) -> SceneTurn:
    names = [call.name for call, _ in results]
    last_call, last = results[-1]
    if last_call.name == "list_dir" and "read_file" not in names:
        if last.is_error:
            return SceneTurn(text=f"The directory could not be listed: {_shown(last.text)}")
        chosen = _worth_reading(last.text)
        if chosen and "read_file" in tools:
            calls = tuple(("read_file", {"path": name}) for name in chosen)
            *others, end = chosen
            named = f"{', '.join(others)} and {end}" if others else end
            return SceneTurn(text=f"{_counted(last.text)} I will read {named}.", calls=calls)
        return SceneTurn(text=f"{_counted(last.text)} There is nothing in it that I could read.")
    if "read_file" in names:
        listing = next((result.text for call, result in results if call.name == "list_dir"), "")
        lines = [_first_line(call, result) for call, result in results if call.name == "read_file"]
        return SceneTurn(text="\n".join([f"{_counted(listing)} The first lines of what I read:", *lines]))
    quotes = [
        f"{call.name} failed: {_shown(result.text)}"
        if result.is_error
        else f"{call.name} says: {_shown(result.text)}"
        for call, result in results
    ]
    return SceneTurn(text="\n".join(quotes))


# --- choice of a user's tool and its arguments


def _words(text: str) -> set[str]:
    spread = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return {word.lower() for word in _WORD.findall(spread.replace("_", " "))} - _SAYS_NOTHING


def _matching(prompt: str, tools: Sequence[ToolSpec]) -> ToolSpec | None:
    """Return the tool that shares most words with the prompt. Words of its name count double. None if none is shared."""
    words = _words(prompt)
    best, most = None, 0
    for spec in tools:
        score = 2 * len(words & _words(spec.name)) + len(words & _words(spec.description))
        if score > most:
            best, most = spec, score
    return best


def _used_last(before: Sequence[Message], tools: Sequence[ToolSpec]) -> ToolSpec | None:
    known = {spec.name: spec for spec in tools}
    used = [
        call.name
        for message in before
        if isinstance(message, AssistantMessage)
        for call in message.calls
        if call.name in known
    ]
    return known[used[-1]] if used else None


def _arguments(prompt: str, schema: JsonObject) -> JsonObject:
    """Fill parameters from the prompt: texts with quoted or capitalised words, numbers with its numbers."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return {}
    names = (
        _QUOTED.findall(prompt)
        or _CAPITALISED.findall(_FIRST_WORD.sub("", prompt))  # capitalised only by its position
        or _CAPITALISED.findall(prompt)
    )
    numbers = _NUMBER.findall(_QUOTED.sub(" ", prompt))  # numbers in a quoted text belong to it
    samples = SampleValues(root=schema, words=(prompt,))
    filled: dict[str, JsonValue] = {}
    for name, given in properties.items():
        parameter = samples.resolved(given)
        value = _value(parameter, samples.kind_of(parameter), names, numbers)
        if value is None and isinstance(required, list) and name in required:
            value = samples.of(given)
        if value is not None:
            filled[name] = value
    return filled


def _value(parameter: JsonObject, kind: str, names: list[str], numbers: list[str]) -> JsonValue:
    choices = parameter.get("enum")
    if isinstance(choices, list) and choices:
        return choices[0]
    match kind:
        case "string" if names:
            return names.pop(0).strip()
        case "integer" if numbers:
            return int(_bounded(numbers.pop(0)))
        case "number" if numbers:
            return _bounded(numbers.pop(0))
        case _:
            return None


def _bounded(digits: str) -> float:
    """Parse a number. One of five thousand digits would be infinite, which JSON cannot express."""
    return max(-_MAX_NUMBER, min(float(digits), _MAX_NUMBER))


# --- words


def _words_of(message: Message) -> str:
    match message:
        case UserMessage(content=content):
            return " ".join(_block_words(block) for block in content)
        case AssistantMessage():
            return message.text
        case ToolMessage(results=results):
            return " ".join(result.text for result in results)


def _block_words(block: Text | Image | FileRef) -> str:
    match block:
        case Text(text=text):
            return text
        case Image(name=name):
            return name
        case FileRef(path=path):
            return path


def _worth_reading(listing: str) -> list[str]:
    """Return up to three names: a README first, then sources by name."""
    names = _FILE_LINE.findall(listing)
    readable = [name for name in names if _SOURCE.search(name) or name.lower().startswith("readme")]
    return sorted(readable, key=lambda name: (not name.lower().startswith("readme"), name))[:_MAX_FILES]


def _counted(listing: str) -> str:
    below, files = len(_DIR_LINE.findall(listing)), len(_FILE_LINE.findall(listing))
    return f"The directory holds {below} {'directory' if below == 1 else 'directories'} and {files} {'file' if files == 1 else 'files'}."


def _first_line(call: ToolCall, result: ToolResult) -> str:
    path = (call.arguments or {}).get("path", "?")
    if result.is_error:
        return f"- {path} could not be read: {_shown(result.text)}"
    for line in result.text.splitlines():
        _, tab, text = line.partition("\t")
        if tab and text.strip():
            return f"- {path}: {_shown(text)}"
    return f"- {path} is empty"


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[:_SHOWN] + "…"
