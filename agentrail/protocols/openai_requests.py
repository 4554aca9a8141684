"""Requests of OpenAI clients: the parameters, tools and content that both interfaces share. Pure.

A request is read completely before anything is done. An invalid one raises `WireRefused`.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from attrs import field, frozen

from agentrail.core.policy.prompt_settings import PromptSettings, faults_of_settings, settings_of
from agentrail.core.session.views import Status
from agentrail.core.values.toolbox import ToolSpec
from agentrail.messages import (
    AssistantMessage,
    CallId,
    Image,
    Message,
    SessionId,
    Text,
    TokenUsage,
    ToolMessage,
    ToolResult,
    UserBlock,
    UserMessage,
)
from agentrail.protocols.decisions import ClientDecision, refuse_request
from agentrail.wire.operations import AnswerBody


@frozen(kw_only=True)
class OpenAiPlan:
    """Plan for a request: the decisions come first, then the words.

    Attributes:
        words: The user's new message, or empty.
        history: Past of a new session.
        goes_on: Whether the model answers the end of that past.
        differs: Whether the client has answers unknown to the session.
    """

    decisions: tuple[ClientDecision, ...] = ()
    words: tuple[UserBlock, ...] = field(default=(), repr=False)
    history: tuple[Message, ...] = field(default=(), repr=False)
    goes_on: bool = False
    differs: bool = False

    @property
    def past_words(self) -> tuple[UserBlock, ...]:
        """The last words of the user in a past that the model answers. Empty for any other."""
        said = [one.content for one in self.history if isinstance(one, UserMessage)] if self.goes_on else []
        return said[-1] if said else ()


# --- parameters

ClientSystem: TypeAlias = Literal["append", "ignore", "refuse"]
"""Handling of a client's system prompt: a section after the profile's own, left out, or refused."""

_ONLY: Final[Mapping[str, tuple[Any, ...]]] = {
    "n": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "audio": (),
    "modalities": (["text"],),
    "functions": ([],),
    "function_call": ("auto", "none"),
    "tool_choice": ("auto", "none"),
}
"""Refused parameters, with the values that ask for nothing."""

_SETTINGS: Final[Mapping[str, str]] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "max_output_tokens": "max_output_tokens",
    "stop": "stop",
    "reasoning": "reasoning",
    "reasoning_effort": "reasoning",
    "response_format": "response_format",
    "text": "response_format",
}
"""Parameters that are settings of the cycle, with the names of these settings."""

_EFFORTS: Final[Mapping[Any, str]] = {"none": "off", "minimal": "low", "xhigh": "high"}
_TAKEN: Final = frozenset({"model", "stream", "stream_options", "metadata", "user", "tools", *_ONLY})
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_.-]")
MAX_METADATA: Final = 16
MAX_IGNORED: Final = 32
"""Parameters named to a client. The names are its own, and go into a header."""


@frozen(kw_only=True)
class OpenAiParameters:
    """Parameters of a request.

    Attributes:
        settings: Settings of its cycle, with the client's tools and system prompt.
        wants_reasoning: Whether the client asks for reasoning, so that it is shown.
    """

    settings: PromptSettings
    ignored: tuple[str, ...]
    is_stream: bool
    includes_usage: bool
    wants_reasoning: bool
    metadata: Mapping[str, str]


ReadParameters: TypeAlias = Callable[[Mapping[str, Any], Collection[str], Sequence[str]], OpenAiParameters]
"""`read_parameters` as a profile allows it."""


@frozen(kw_only=True)
class OpenAiAsked:
    """A request, completely read.

    Attributes:
        messages: Its messages without instructions.
        session_id: The session to continue, and `new_id` the one to create if it is unknown.
        is_kept: Whether its session is stored.
    """

    parameters: OpenAiParameters
    messages: tuple[Message, ...] = field(repr=False)
    session_id: str | None = None
    new_id: SessionId | None = None
    is_kept: bool = True

    def begin(self) -> OpenAiPlan:
        """Return the plan for a new session."""
        last = self.messages[-1]
        if isinstance(last, UserMessage):
            return OpenAiPlan(words=last.content, history=self.messages[:-1])
        return OpenAiPlan(history=self.messages, goes_on=True)


def read_parameters(
    plain: Mapping[str, Any],
    own: Collection[str],
    instructions: Sequence[str],
    *,
    client_system: ClientSystem = "append",
    allows_settings: bool = True,
) -> OpenAiParameters:
    """Read the parameters. Their interface reads those in `own` itself."""
    given = {name: value for name, value in plain.items() if value is not None}
    section = "\n\n".join(instructions)
    for name, harmless in _ONLY.items():
        if name in given and given[name] not in harmless:
            refuse_request(name, "is not supported with this value", "unsupported_parameter")
    wanted = {setting: _setting_of(name, given[name]) for name, setting in _SETTINGS.items() if name in given}
    wants_reasoning = wanted.get("reasoning") not in (None, "off")
    ignored = [name for name in given if name not in {*_TAKEN, *_SETTINGS, *own}]
    if not allows_settings:
        ignored += [name for name in given if name in _SETTINGS]
        wanted = {}
    if section and client_system == "refuse":
        refuse_request(
            "instructions", "are refused: this model has its own system prompt", "unsupported_parameter"
        )
    if section and client_system == "ignore":
        ignored.append("instructions")
    elif section:
        wanted["instructions"] = section
    wanted["tools"] = () if given.get("tool_choice") == "none" else read_tools(given.get("tools", ()))
    faults = faults_of_settings(wanted)
    if faults:
        what, _, message = faults[0].removeprefix("settings: ").partition(" ")
        refuse_request(next((name for name in given if _SETTINGS.get(name) == what), what), message)
    stream_options = given.get("stream_options", {})
    return OpenAiParameters(
        settings=settings_of(wanted),
        ignored=tuple([_UNFIT.sub("?", name[:64]) for name in ignored[:MAX_IGNORED]]),
        is_stream=flag_in(given, "stream"),
        includes_usage=isinstance(stream_options, Mapping) and flag_in(stream_options, "include_usage"),
        wants_reasoning=wants_reasoning,
        metadata=_metadata_of(given),
    )


def _setting_of(name: str, value: Any) -> Any:
    match name, value:
        case ("reasoning", {**inner}):
            return _setting_of("reasoning_effort", inner.get("effort"))
        case ("reasoning_effort", str()):
            return _EFFORTS.get(value, value)
        case ("text", {**inner}):
            return _schema_of(inner.get("format", {"type": "text"}), "text.format")
        case ("response_format", _):
            return _schema_of(value, name)
        case _:
            return value


def _schema_of(form: Any, place: str) -> Any:
    match form:
        case {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return {"type": "object"}
        case {"type": "json_schema", "json_schema": {"schema": schema}}:
            return schema
        case {"type": "json_schema", "schema": schema}:
            return schema
        case _:
            return refuse_request(place, "is neither text, json_object nor a json_schema with its schema")


def _metadata_of(given: Mapping[str, Any]) -> dict[str, str]:
    metadata = given.get("metadata", {})
    if not isinstance(metadata, dict) or len(metadata) > MAX_METADATA:
        refuse_request("metadata", f"is not an object of at most {MAX_METADATA} texts")
    told = {**({"user": given["user"]} if "user" in given else {}), **metadata}
    return {name: text_in(told, name, "metadata.") if one != "" else "" for name, one in told.items()}


def read_tools(given: Any) -> tuple[ToolSpec, ...]:
    """Read the functions of a client. `faults_of_settings` judges their names and schemas."""
    specs: list[ToolSpec] = []
    for place, one in enumerate(array(given, "tools")):
        where = f"tools[{place}]"
        if not isinstance(one, Mapping) or one.get("type") != "function":
            refuse_request(f"{where}.type", "is not function, the only supported type", "unsupported_tool")
        told = one.get("function", one)  # nested in Chat Completions, flat in Responses
        schema = told.get("parameters") if isinstance(told, Mapping) else None
        match told:
            case {"name": str(name)} if isinstance(schema, dict | None):
                words = told.get("description")
                described = words if isinstance(words, str) and words else name
                parameters = schema or {"type": "object", "properties": {}}
                specs.append(
                    ToolSpec(name=name, description=described, parameters=parameters, answered_by="client")
                )
            case _:
                refuse_request(where, "has no name, or parameters that are not a schema")
    return tuple(specs)


# --- content

_DATA_URL: Final = re.compile(r"data:(image/[a-z0-9.+-]+);base64,([A-Za-z0-9+/]+={0,2})")


def read_content(content: Any, place: str) -> tuple[UserBlock, ...]:
    """Read the content of a message: a text, or parts with text and images."""
    if isinstance(content, str):
        return (Text(text=content),) if content else ()
    blocks: list[UserBlock] = []
    for number, part in enumerate(array(content, place)):
        match part:
            case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
                blocks += [Text(text=text)] if text else []
            case {"type": "refusal", "refusal": str(text)}:
                blocks.append(Text(text=text))
            case {"type": "image_url", "image_url": {"url": str(url)}}:
                blocks.append(_image(url, f"{place}[{number}].image_url"))
            case {"type": "input_image", "image_url": str(url)}:
                blocks.append(_image(url, f"{place}[{number}].image_url"))
            case _:
                refuse_request(
                    f"{place}[{number}]", "is no part of text or an image", "unsupported_parameter"
                )
    return tuple(blocks)


def _image(url: str, place: str) -> Image:
    found = _DATA_URL.fullmatch(url)
    if found is None or len(found[2]) % 4:
        refuse_request(
            place, "is no data: URL of an image in base64, and nothing is fetched", "unsupported_parameter"
        )
    return Image(media_type=found[1], data=found[2])


def text_of_content(content: Any, place: str) -> str:
    """Return the text of content without images."""
    blocks = read_content(content, place)
    if not all(isinstance(block, Text) for block in blocks):
        refuse_request(place, "has parts other than text", "unsupported_parameter")
    return "".join([block.text for block in blocks if isinstance(block, Text)])


def result_in_past(call_id: str, text: str, names: Mapping[str, str]) -> ToolMessage:
    """Return the result of a past call. `names` are the tools of the calls so far."""
    call = CallId(call_id)
    return ToolMessage(results=(ToolResult(call_id=call, name=names.get(call, "unknown"), text=text),))


def check_results(
    results: Mapping[str, str], status: Status, past: Sequence[Message], place: str
) -> tuple[AnswerBody, ...]:
    """Return the answers to the client's calls, if they are those of all open ones and of no other. `place` is where it sent them."""
    refs: dict[str, str] = {call.call_id: call.ref for call in status.client_calls}
    made = {call.call_id for one in past if isinstance(one, AssistantMessage) for call in one.calls}
    for call_id in results:
        if call_id not in refs:
            code = "already_resolved" if call_id in made else "unknown_call"
            refuse_request(place, f"must not answer {call_id!r:.80}, a call that does not wait", code)
    missing = [call_id for call_id in refs if call_id not in results]
    if missing:
        refuse_request(place, f"must have a result of the open call {missing[0]!r:.80}", "result_missing")
    return tuple([AnswerBody(ref=refs[call_id], text=text) for call_id, text in results.items()])


# --- helpers


def usage_shape(usage: TokenUsage, taken: str, made: str) -> dict[str, Any]:
    """Return the usage of a cycle, with an interface's names for the tokens taken and made."""
    cached = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
    return {
        f"{taken}_tokens": usage.input,
        f"{made}_tokens": usage.output,
        "total_tokens": usage.total,
        f"{taken}_tokens_details": cached,
        f"{made}_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def json_text(value: Any) -> str:
    """Return arguments as both interfaces write them."""
    return json.dumps(value, ensure_ascii=False)


def array(given: Any, place: str) -> Sequence[Any]:
    """Return an array, or refuse anything else."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        refuse_request(place, "is not an array")
    return given


def text_in(given: Mapping[str, Any], name: str, before: str = "") -> str:
    """Return a text, or refuse anything else and an empty one."""
    value = given.get(name)
    if not isinstance(value, str) or not value:
        refuse_request(before + name, "is missing or is not text")
    return value


def flag_in(given: Mapping[str, Any], name: str) -> bool:
    """Return whether a flag is set."""
    value = given.get(name) or False
    if not isinstance(value, bool):
        refuse_request(name, "is neither true nor false")
    return value
