"""A caller's model settings and client tools for one cycle alone, in addition to those of the session and its provider.

They travel with the prompt into the journal, through the queue and into the cycle, and end with it.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import asdict, force_setattr, replace

from agentrail.core.policy.response_format import fault_of_format
from agentrail.core.values.toolbox import ToolSpec
from agentrail.errors import ToolDefinitionError
from agentrail.errors.name_guesses import guess_name
from agentrail.frozen import TooDeep, canonical_json, frozen_json, not_json, too_large
from agentrail.messages import JsonObject
from agentrail.otp.child_specs import is_amount, is_whole
from agentrail.otp.guarded_calls import repr_of
from agentrail.structs import Value, converter_of, picked_fields

_Effort: TypeAlias = Literal["off", "low", "medium", "high"]

_EFFORTS: Final = ("off", "low", "medium", "high")
MAX_STOP_TEXTS: Final = 16
MAX_STOP_CHARACTERS: Final = 1_000
MAX_INSTRUCTIONS_CHARACTERS: Final = 100_000
MAX_CLIENT_TOOLS: Final = 64
MAX_CLIENT_TOOLS_BYTES: Final = 64 * 1_024
"""Limit on the names, descriptions and schemas of all client tools of a prompt, as JSON."""


class PromptSettings(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A caller's settings for one cycle.

    Attributes:
        temperature: As defined by the vendor, from 0 to 2.
        top_p: As defined by the vendor, from 0 to 1.
        max_output_tokens: Limit for each response. A smaller limit in the provider's options still applies.
        stop: Texts that end the answer. Empty: those of the provider's options.
        reasoning: `off`, `low`, `medium`, `high`, or a budget in tokens if the format supports one.
        response_format: JSON Schema of the cycle's last answer, in place of that of the session.
        tools: Client tools of this cycle, in addition to the tools of the session: `ClientTool(…).spec`. At most 64, of
            64 KiB in total. A name of the session's own tools is refused. If the session gains a tool of that name later, its
            own tool is used.
        instructions: Last section of the system prompt in this cycle, after all sections of the session.
        max_cost_usd: Limit for the cost of the cycle and its children, in dollars, in addition to the session's budget.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    stop: tuple[str, ...] = ()
    reasoning: _Effort | int | None = None
    response_format: JsonObject | None = None
    tools: tuple[ToolSpec, ...] = ()
    instructions: str | None = None
    max_cost_usd: float | None = None

    def __post_init__(self) -> None:
        """Freeze the schema. The caller keeps its own copy."""
        if self.response_format is not None:
            with suppress(TooDeep):  # refused where the settings are used
                force_setattr(self, "response_format", frozen_json(self.response_format))


SETTINGS: Final = PromptSettings.__struct_fields__


def faults_of_settings(given: object) -> list[str]:
    """Return all faults of a caller's settings: `PromptSettings`, or a mapping of the same names."""
    if isinstance(given, PromptSettings):
        given = asdict(given)
    if not isinstance(given, Mapping):
        return [
            f"settings is {repr_of(given):.200}: expected PromptSettings, or a mapping such as {{'temperature': 0.2}}"
        ]
    faults = [_unknown(name) for name in given if name not in SETTINGS]
    for name in SETTINGS:
        value = given.get(name)
        if value is None or (name in {"stop", "tools"} and value == ()):
            continue
        if name == "tools":
            faults += [f"settings: {fault}" for fault in _faults_of_tools(value)]
            continue
        fault = fault_of_format(value) if name == "response_format" else _fault(name, value)
        if fault is not None:
            faults.append(f"settings: {fault}")
    return faults


def settings_of(given: PromptSettings | Mapping[str, Any]) -> PromptSettings:
    """Return settings from values in which `faults_of_settings` found no fault."""
    values = asdict(given) if isinstance(given, PromptSettings) else dict(given)
    stop = values.get("stop") or ()
    values["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    for name in ("temperature", "top_p", "max_cost_usd"):
        if values.get(name) is not None:
            values[name] = float(values[name])
    values["tools"] = tuple(map(_client_tool, values.get("tools") or ()))
    return PromptSettings(**values)


def with_cost_limit(settings: PromptSettings | None, most_usd: float) -> PromptSettings:
    """Return settings whose cycle costs no more than an operator allows."""
    settings = settings or PromptSettings()
    return replace(settings, max_cost_usd=min(settings.max_cost_usd or math.inf, float(most_usd)))


def _unknown(name: object) -> str:
    return f"there is no setting {repr_of(name):.80}, {guess_name(str(name), sorted(SETTINGS))}"


def _fault(name: str, value: object) -> str | None:
    match name:
        case "temperature":
            expected, fits = "a number from 0 to 2", is_amount(value) and value <= 2  # noqa: PLR2004 - as written
        case "top_p":
            expected, fits = "a number from 0 to 1", is_amount(value) and value <= 1
        case "max_cost_usd":
            expected, fits = "a finite number of dollars above 0", is_amount(value, above_zero=True)
        case "max_output_tokens":
            expected, fits = "a whole number >= 1", _is_count(value)
        case "stop":
            expected = (
                f"a text or up to {MAX_STOP_TEXTS} of them, each of 1 to {MAX_STOP_CHARACTERS} characters"
            )
            fits = _is_stop(value)
        case "instructions":
            expected = f"a text of 1 to {MAX_INSTRUCTIONS_CHARACTERS:,} characters"
            fits = isinstance(value, str) and 0 < len(value) <= MAX_INSTRUCTIONS_CHARACTERS
        case _:
            expected = "off, low, medium, high or a number of tokens"
            fits = _is_count(value) or (isinstance(value, str) and value in _EFFORTS)
    return None if fits else f"{name} is {repr_of(value):.200}: expected {expected}"


def _is_count(value: object) -> bool:
    return is_whole(value, at_least=1) and value < 2**53


def _is_stop(value: object) -> bool:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or len(texts) > MAX_STOP_TEXTS:
        return False
    return all(isinstance(text, str) and 0 < len(text) <= MAX_STOP_CHARACTERS for text in texts)


# Client tools, from any source. Their size is limited before their schemas are checked.

_CLIENT_TOOL_FIELDS: Final = ("name", "description", "parameters", "timeout_seconds", "effect_class")
_to_spec: Final = converter_of(ToolSpec)


def _faults_of_tools(given: object) -> list[str]:
    if not isinstance(given, list | tuple):
        return [f"tools is {repr_of(given):.200}: expected several client tools"]
    if len(given) > MAX_CLIENT_TOOLS:
        first = _name_in(given, MAX_CLIENT_TOOLS)
        return [
            f"tools has {len(given):,} client tools, {first} is one too many: give {MAX_CLIENT_TOOLS} at most"
        ]
    faults: list[str] = []
    names: set[str] = set()
    size = 0
    for place, item in enumerate(given):
        try:
            spec = _client_tool(item)
            size += len(canonical_json(picked_fields(spec, "name", "description", "parameters")))
            if size > MAX_CLIENT_TOOLS_BYTES:
                faults.append(
                    f"tools has more than {MAX_CLIENT_TOOLS_BYTES:,} bytes up to {_name_in(given, place)}: describe less"
                )
                break
            spec.check()
        except (ToolDefinitionError, msgspec.ValidationError) as error:
            faults.append(f"{_name_in(given, place)}: {error}")
            continue
        if spec.name in names:
            faults.append(f"{_name_in(given, place)}: another one has this name")
        names.add(spec.name)
    return faults


def _name_in(given: Sequence[Any], place: int) -> str:
    item = given[place]
    name = item.get("name") if isinstance(item, Mapping) else getattr(item, "name", None)
    return f"tools[{place}]" if name is None else f"tools[{place}] {repr_of(name):.80}"


def _client_tool(item: object) -> ToolSpec:
    """Return the spec of a client tool: a spec, an object that has one, or a mapping of its fields."""
    item = getattr(item, "spec", item)
    given: object = asdict(item) if isinstance(item, ToolSpec) else item
    if not isinstance(given, Mapping):
        message = f"{repr_of(given):.200} is no client tool: expected a ClientTool, or a mapping of name, description and parameters"
        raise ToolDefinitionError(message)
    schema = given.get("parameters")
    size = too_large(schema, max_characters=MAX_CLIENT_TOOLS_BYTES)
    fault = not_json(schema, "parameters") if size is None else f"parameters has {size}"
    if fault is not None:
        raise ToolDefinitionError(fault)
    spec = _to_spec({"answered_by": "client", **given})
    if spec != ToolSpec(answered_by="client", **picked_fields(spec, *_CLIENT_TOOL_FIELDS)):
        message = f"the client answers it, and only {', '.join(_CLIENT_TOOL_FIELDS)} can be set"
        raise ToolDefinitionError(message)
    return spec
