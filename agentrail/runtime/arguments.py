"""What the calls of a handle may be given: each says what is wrong with one argument, before anything is sent.

Nothing here knows a session. What a value means (is there such a call, such a tool) is the core's to say; this is about
types only, so that a slip is answered where it was made and never reaches an event, a journal or the core.
"""

from collections.abc import Iterable, Mapping

from agentrail.errors import OptionError
from agentrail.frozen import TooDeep, frozen_json, not_json
from agentrail.runtime.options import fault_of_tool, is_provider


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


def fault_of_reason(value: object) -> str | None:
    """Say what is wrong with a reason, which people read in events."""
    return None if value is None else fault_of_text("reason", value)


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
    if isinstance(value, str | int) and not isinstance(value, bool):
        return None
    return f"response is {value!r:.200}: expected a text, or which of the options, from 0"


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
