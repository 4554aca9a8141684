"""What the calls of a handle may be given: each says what is wrong with one argument, before anything is sent.

Nothing here knows a session. What a value means (is there such a call, such a tool) is the core's to say; this is about
types only, so that a slip is answered where it was made and never reaches an event, a journal or the core.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, get_args

from agentrail.abc import Error, Ok
from agentrail.core.policy.prompt_settings import PromptSettings, faults_of_settings, settings_of
from agentrail.core.values.forms import MAX_ANSWER_CHARACTERS
from agentrail.errors import OptionError
from agentrail.events import ToolSourceState
from agentrail.frozen import TooDeep, frozen_json, not_json, too_large
from agentrail.runtime.options import fault_of_tool, is_provider

MAX_SOURCE_CHARACTERS: Final = 200
MAX_REASON_CHARACTERS: Final = 1_000
_DOOR: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}")


def refuse(*faults: str | None) -> None:
    """Refuse a call that has any fault, with all of them.

    Raises:
        OptionError: Your move: one of the arguments cannot be.
    """
    found = [fault for fault in faults if fault is not None]
    if found:
        raise OptionError(found)


def fault_of_text(name: str, value: object) -> str | None:
    """Say what is wrong with an argument that must be text."""
    return None if isinstance(value, str) else f"{name} is {value!r:.200}: expected a text"


def fault_of_choice(name: str, value: object, choices: tuple[str, ...]) -> str | None:
    """Say what is wrong with an argument that must be one of some words."""
    if isinstance(value, str) and value in choices:
        return None
    return f"{name} is {value!r:.200}: expected {' or '.join(map(repr, choices))}"


def fault_of_reason(value: object) -> str | None:
    """Say what is wrong with a reason, which people read in events."""
    return None if value is None else fault_of_text("reason", value)


def fault_of_via(value: object) -> str | None:
    """Say what is wrong with the name of a door; it stands in events, and telemetry counts by it."""
    if value is None or (isinstance(value, str) and _DOOR.fullmatch(value)):
        return None
    return f"via is {value!r:.80}: expected a name such as 'http', 1 to 32 of a-z 0-9 . _ -, or None"


def fault_of_user(value: object) -> str | None:
    """Return what is wrong with the id of the user who decides; None for a valid one, and for None."""
    if value is None or (isinstance(value, str) and _ID.fullmatch(value) and ".." not in value):
        return None
    expected = "1 to 128 of A-Z a-z 0-9 . _ : @ + -, the first a letter or digit, without '..', or None"
    return f"user is {value!r:.80}: expected {expected}"


def fault_of_request_id(value: object) -> str | None:
    """Say what is wrong with the id of a request."""
    if value is None or (isinstance(value, str) and _ID.fullmatch(value) and ".." not in value):
        return None
    expected = "1 to 128 of A-Z a-z 0-9 . _ : @ + -, the first a letter or digit, without '..', or None"
    return f"request_id is {value!r:.80}: expected {expected}"


def fault_of_digest(value: object) -> str | None:
    """Say what is wrong with the digest of a message."""
    if value is None or (isinstance(value, str) and _DIGEST.fullmatch(value)):
        return None
    return f"digest is {value!r:.80}: expected a SHA-256 in hexadecimal, 64 of 0-9 a-f, or None"


def decide_settings(given: object) -> PromptSettings | None:
    """Take what a caller wants of the model for one cycle; None for nothing, which no setting is as well.

    Raises:
        OptionError: Your move: a setting that there is not, or values that cannot be; all of them at once.
    """
    if given is None:
        return None
    faults = faults_of_settings(given)
    if faults:
        raise OptionError(faults)
    settings = settings_of(given)  # type: ignore[arg-type]  # it was looked at
    return None if settings == PromptSettings() else settings


def fault_of_flag(name: str, value: object) -> str | None:
    """Say what is wrong with a yes or no: `"no"` is none of them, and would count as yes."""
    return None if isinstance(value, bool) else f"{name} is {value!r:.200}: expected True or False"


def fault_of_wait(value: object) -> str | None:
    """Say what is wrong with a time to wait, in seconds; None is for as long as it takes."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None or (is_number and value >= 0):  # type: ignore[operator]  # it is a number; NaN is not above 0 either
        return None
    return f"timeout_seconds is {value!r:.200}: expected a number from 0, or None"


def fault_of_response(value: object) -> str | None:
    """Say what is wrong with the answer of a person."""
    if isinstance(value, dict):
        size = too_large(value, max_characters=MAX_ANSWER_CHARACTERS)
        fault = f"response has {size}" if size is not None else not_json(value, "response")
        return None if fault is None else f"{fault}: expected what JSON has, and not too much of it"
    if isinstance(value, str | int) and not isinstance(value, bool):
        return None
    return f"response is {value!r:.200}: expected a text, which of the options, from 0, or a dict for a form"


def fault_of_outcome(value: object) -> str | None:
    """Say what is wrong with the result that a client gives."""
    if not isinstance(value, Ok | Error):
        return f"outcome is {value!r:.200}: expected Ok('…') or Error('…')"
    text: object = value.text
    if not isinstance(text, str):
        return f"outcome has the text {text!r:.200}: expected a text"
    size = too_large(value.details)
    fault = f"outcome.details has {size}" if size is not None else not_json(value.details, "outcome.details")
    return None if fault is None else f"{fault}: expected what JSON has, and not too much of it"


def fault_of_edit(value: object) -> str | None:
    """Say what is wrong with the arguments that a call shall run with instead of its own."""
    if value is None:
        return None
    if not isinstance(value, dict):
        return f"arguments is {value!r:.200}: expected a dict, or None for those of the call"
    fault = not_json(value, "arguments")
    return None if fault is None else f"{fault}: expected what JSON has"


def fault_of_model(value: object) -> str | None:
    """Say what is wrong with a model."""
    if isinstance(value, str) or is_provider(value):
        return None
    return f"model is {value!r:.200}: expected a model string or a provider"


def fault_of_provider_opts(value: object) -> str | None:
    """Say what is wrong with a provider's options; without the value, which may be a key."""
    if value is None or isinstance(value, Mapping):
        try:
            frozen_json(value or {})
        except TooDeep as error:
            return f"provider_opts is {error}"
        return None
    return f"provider_opts is of type {type(value).__name__}: expected a mapping, such as {{'api_key': …}}, or None"


def faults_of_tools(values: Iterable[object]) -> list[str]:
    """Say what is wrong with tools, which come as arguments of their own."""
    return [
        f"{value!r:.200} is no tool: expected tools one by one, such as functions under @agentrail.tool; {fault}"
        for value in values
        if (fault := fault_of_tool(value)) is not None
    ]


def faults_of_names(values: Iterable[object]) -> list[str]:
    """Say what is wrong with names of tools, which come as arguments of their own."""
    return [
        f"{value!r:.200} is no name of a tool: expected texts one by one, such as detach_tools('read_file', 'grep')"
        for value in values
        if not isinstance(value, str)
    ]


def faults_of_source(source: object, state: object, reason: object) -> list[str]:
    """Say what is wrong with what is told of a source of tools."""
    states = get_args(ToolSourceState)
    faults = []
    if not isinstance(source, str) or not 1 <= len(source) <= MAX_SOURCE_CHARACTERS:
        faults.append(f"source is {source!r:.80}: expected a name of 1 to {MAX_SOURCE_CHARACTERS} characters")
    if not isinstance(state, str) or state not in states:
        faults.append(f"state is {state!r:.80}: expected one of {', '.join(states)}")
    fault = fault_of_reason(reason)
    if fault is None and isinstance(reason, str) and len(reason) > MAX_REASON_CHARACTERS:
        fault = f"reason has {len(reason):,} characters: expected at most {MAX_REASON_CHARACTERS:,}, so say it shorter"
    return faults if fault is None else [*faults, fault]
