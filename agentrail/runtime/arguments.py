"""Type checks for the arguments of a handle's calls, made before anything is sent."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, cast, get_args

import attrs
from msgspec.structs import astuple

from agentrail.abc import ChildRequest, Error, Ok
from agentrail.abc.tool_images import fault_of_image
from agentrail.core.policy.prompt_settings import PromptSettings, faults_of_settings, settings_of
from agentrail.core.values.question_forms import MAX_ANSWER_CHARACTERS
from agentrail.errors import OptionError, PromptError
from agentrail.events import ToolSourceState
from agentrail.frozen import TooDeep, frozen_json, not_json, too_large
from agentrail.messages import MAX_PROMPT_BYTES, Content, FileRef, Image, Text, UserBlock
from agentrail.otp.child_specs import is_amount
from agentrail.otp.field_rules import misfits
from agentrail.otp.guarded_calls import repr_of
from agentrail.runtime.session_keys import fault_of_scope
from agentrail.runtime.session_options import fault_of_tool, is_provider

MAX_SOURCE_CHARACTERS: Final = 200
MAX_REASON_CHARACTERS: Final = 1_000
_DOOR: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}")


def refuse(*faults: str | None) -> None:
    found = [fault for fault in faults if fault is not None]
    if found:
        raise OptionError(found)


def fault_of(name: str, value: object, annotation: Any) -> str | None:
    is_usual = type(value) is annotation and annotation is not float  # which may be infinite
    return None if is_usual else next(misfits(name, value, annotation), None)


def fault_of_whole(name: str, value: object, least: int, most: int | None = None) -> str | None:
    if type(value) is int and least <= value and (most is None or value <= most):
        return None
    expected = f">= {least}" if most is None else f"from {least} to {most}"
    return f"{name} is {repr_of(value):.200}: expected a whole number {expected}"


def faults_of_key(scope: object, session_id: object) -> tuple[str | None, str | None]:
    return fault_of("session_id", session_id, str), fault_of_scope("scope", scope)


def fault_of_via(value: object) -> str | None:
    """Return the fault of an entry point's name. Events include it, and telemetry groups by it."""
    if value is None or (isinstance(value, str) and _DOOR.fullmatch(value)):
        return None
    return f"via is {repr_of(value):.80}: expected a name such as 'http', 1 to 32 of a-z 0-9 . _ -, or None"


def _fault_of_id(name: str, value: object, *, needed: bool = False) -> str | None:
    if (value is None and not needed) or (
        isinstance(value, str) and _ID.fullmatch(value) and ".." not in value
    ):
        return None
    expected = "1 to 128 of A-Z a-z 0-9 . _ : @ + -, the first a letter or digit, without '..'"
    return f"{name} is {repr_of(value):.80}: expected {expected}{'' if needed else ', or None'}"


fault_of_client_id: Final = partial(_fault_of_id, "client_id", needed=True)
fault_of_user: Final = partial(_fault_of_id, "user")
fault_of_request_id: Final = partial(_fault_of_id, "request_id")


def fault_of_digest(value: object) -> str | None:
    if value is None or (isinstance(value, str) and _DIGEST.fullmatch(value)):
        return None
    return f"digest is {repr_of(value):.80}: expected a SHA-256 in hexadecimal, 64 of 0-9 a-f, or None"


def decide_settings(given: object) -> PromptSettings | None:
    if given is None:
        return None
    OptionError.raise_for(faults_of_settings(given))
    settings = settings_of(given)  # type: ignore[arg-type]  # checked above
    return None if settings == PromptSettings() else settings


def fault_of_wait(value: object, *, wait_for_people: object = False) -> str | None:
    if not (value is None or is_amount(value) or (isinstance(value, float) and value == math.inf)):
        return f"timeout_seconds is {repr_of(value):.200}: expected a number from 0, or None"
    if type(wait_for_people) is not bool:
        return f"wait_for_people is {repr_of(wait_for_people):.200}: expected True or False"
    return None


def fault_of_response(value: object) -> str | None:
    if isinstance(value, dict):
        size = too_large(value, max_characters=MAX_ANSWER_CHARACTERS)
        fault = f"response has {size}" if size is not None else not_json(value, "response")
        return None if fault is None else f"{fault}: expected JSON values within the limits"
    if isinstance(value, str | int) and not isinstance(value, bool):
        return None
    return f"response is {repr_of(value):.200}: expected a text, the index of an option, or a dict for a form"


def fault_of_outcome(value: object) -> str | None:
    if not isinstance(value, Ok | Error):
        return f"outcome is {repr_of(value):.200}: expected Ok('…') or Error('…')"
    text: object = value.text
    if not isinstance(text, str):
        return f"outcome has the text {repr_of(text):.200}: expected a text"
    size = too_large(value.details)
    fault = f"outcome.details has {size}" if size is not None else not_json(value.details, "outcome.details")
    return None if fault is None else f"{fault}: expected JSON values within the limits"


def fault_of_edit(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        return f"arguments is {repr_of(value):.200}: expected a dict, or None for the call's own arguments"
    fault = not_json(value, "arguments")
    return None if fault is None else f"{fault}: expected JSON values"


def fault_of_model(value: object) -> str | None:
    if isinstance(value, str) or is_provider(value):
        return None
    return f"model is {repr_of(value):.200}: expected a model string or a provider"


def fault_of_provider_opts(value: object) -> str | None:
    if value is None or isinstance(value, Mapping):
        try:
            frozen_json(value or {})
        except TooDeep as error:
            return f"provider_opts is {error}"
        return None
    return f"provider_opts is of type {type(value).__name__}: expected a mapping, such as {{'api_key': …}}, or None"


def faults_of_tools(values: Iterable[object]) -> list[str]:
    return [
        f"{repr_of(value):.200} is not a tool: expected tools as separate arguments, such as functions decorated with @agentrail.tool; {fault}"
        for value in values
        if (fault := fault_of_tool(value)) is not None
    ]


def faults_of_names(values: Iterable[object]) -> list[str]:
    return [
        f"{repr_of(value):.200} is not a tool name: expected texts as separate arguments, such as detach_tools('read_file', 'grep')"
        for value in values
        if not isinstance(value, str)
    ]


def faults_of_source(source: object, state: object, reason: object) -> Iterator[str | None]:
    states = get_args(ToolSourceState)
    if not isinstance(source, str) or not 1 <= len(source) <= MAX_SOURCE_CHARACTERS:
        yield f"source is {repr_of(source):.80}: expected a name of 1 to {MAX_SOURCE_CHARACTERS} characters"
    if not isinstance(state, str) or state not in states:
        yield f"state is {repr_of(state):.80}: expected one of {', '.join(states)}"
    yield fault_of("reason", reason, str | None)
    if isinstance(reason, str) and len(reason) > MAX_REASON_CHARACTERS:
        yield f"reason has {len(reason):,} characters: expected at most {MAX_REASON_CHARACTERS:,}, so shorten it"


# User input: blocks of the right types, not empty, within the limits.

Blocks: TypeAlias = tuple[UserBlock, ...]


def decide_blocks(content: Content) -> Blocks:
    blocks = (Text(text=content),) if isinstance(content, str) else _checked(content)
    words = [_words(block) for block in blocks]
    size = sum([len(text.encode("utf-8", "surrogatepass")) for text in words])
    if not any(map(str.strip, words)):
        message = "the prompt is empty: expected 1 byte to 1 MB of text"
        raise PromptError(message)
    if size > MAX_PROMPT_BYTES:
        message = (
            f"the prompt has {size} bytes, at most {MAX_PROMPT_BYTES} are allowed: put the rest into a file"
        )
        raise PromptError(message)
    return blocks


def words_in_blocks(blocks: Blocks) -> str:
    return "\n".join(_words(block) for block in blocks if not isinstance(block, Image))


def _checked(content: object) -> Blocks:
    if isinstance(content, bytes | bytearray) or not isinstance(content, Iterable):
        message = f"a prompt is {repr_of(content):.200}: expected text, or a sequence of Text, Image and FileRef blocks"
        raise PromptError(message)
    blocks = []
    for block in content:
        if not isinstance(block, Text | Image | FileRef):
            message = f"a prompt has {repr_of(block):.200}: expected text, or Text, Image and FileRef blocks"
            raise PromptError(message)
        if not all(isinstance(value, str) for value in astuple(block)):
            message = f"a prompt has {repr_of(block):.200}: expected text in each field of a block"
            raise PromptError(message)
        if isinstance(block, Image) and (fault := fault_of_image(block)) is not None:
            message = f"an image of a prompt {fault}"
            raise PromptError(message)
        blocks.append(block)
    return tuple(blocks)


def _words(block: UserBlock) -> str:
    match block:
        case Text(text=text):
            return text
        case Image(data=data):
            return data
        case FileRef(path=path):
            return path


def decide_text(text: object) -> str:
    if not isinstance(text, str):
        message = f"expected text, got {repr_of(text):.200}"
        raise PromptError(message)
    decide_blocks(text)
    return text


def decide_client_id(client_id: object) -> str | None:
    fault = None if client_id is None else fault_of_client_id(client_id)
    if fault is not None:
        raise OptionError([fault])
    return cast("str | None", client_id)


def decide_child(request: ChildRequest) -> ChildRequest:
    """Validate a tool's request for a child session: the type of each field and the size of its prompt."""
    decide_text(request.prompt)
    faults = []
    system_prompt: object = request.system_prompt
    if not isinstance(system_prompt, str | None):
        faults.append(f"system_prompt is {repr_of(system_prompt):.80}: expected text")
    names = _names(request.tools)
    if names is None and request.tools is not None:
        faults.append(f"tools is {repr_of(request.tools):.80}: expected a sequence of tool names")
    turns: object = request.max_turns
    if isinstance(turns, bool) or not isinstance(turns, int | None):
        faults.append(f"max_turns is {repr_of(turns):.80}: expected a whole number, 1 or more")
    agent: object = request.agent
    if not isinstance(agent, str | None):
        faults.append(f"agent is {repr_of(agent):.80}: expected the name of an agent")
    model: object = request.model
    if model is not None and (not isinstance(model, str) or ":" not in model):
        faults.append(f"model is {repr_of(model):.80}: expected a text such as 'openai:gpt-5-mini'")
    OptionError.raise_for(faults)
    return attrs.evolve(request, tools=names)


def _names(given: object) -> tuple[str, ...] | None:
    if isinstance(given, str) or not isinstance(given, Iterable):
        return None
    names = tuple(given)
    return names if all(isinstance(name, str) for name in names) else None
