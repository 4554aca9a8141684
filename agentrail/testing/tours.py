"""Short lives in which every hook of a stack is asked. Drawing alone meets some of them hardly ever, and some never.

A tour is a list of drawn signals, with places where the ids are. No Hypothesis here: a tour is the same in each check.
"""

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from agentrail.core.protocol import signals as s
from agentrail.core.protocol.request import EffectId
from agentrail.core.stack.plugin import Plugin
from agentrail.core.values.toolbox import Toolbox, ToolSpec, read_call
from agentrail.messages import (
    AssistantBlock,
    AssistantMessage,
    Image,
    PromptRef,
    SteerRef,
    StopReason,
    Text,
    TokenUsage,
    UserBlock,
)

Tour = tuple[s.Signal, ...]

_NOBODY: Final = s.SignalId("")
_FIRST: Final = EffectId("0")
_IMAGE: Final = Image(media_type="image/png", data="iVBORw0KGgo=")
_TURNS_TO_COMPACT: Final = 6
_PLAIN: Final[Mapping[str, Any]] = {
    "integer": 1, "number": 1.0, "boolean": True, "null": None, "array": [], "object": {},
}  # fmt: skip


def hook_tours(tools: Toolbox, options: Mapping[str, Mapping[str, Any]]) -> Iterator[Tour]:
    """Return the tours of a stack.

    Args:
        tools: Tools that the model may call.
        options: An update for each plugin, by its name; see `updates_of`.
    """
    for tour in _tours(tools, options):
        yield (s.SessionBegan(at_ms=0), *tour)


def _tours(tools: Toolbox, options: Mapping[str, Mapping[str, Any]]) -> Iterator[Tour]:
    safe = [spec for spec in tools if spec.effect_class in {"pure", "idempotent"}]
    spec = next(iter(safe or list(tools)), None)
    yield (_prompt("Go on."), _said("Done."), _stop())
    yield (_prompt(_IMAGE), _said("I see."), _prompt(), _steer("left"), _said("Done."), _abort())
    if spec is not None:
        yield from _calling(spec, is_retried=bool(safe))
    turns = [
        signal for _ in range(_TURNS_TO_COMPACT) for signal in (_prompt("word " * 200), _said("word " * 200))
    ]
    yield (*turns, s.Compact(at_ms=0, signal_id=_NOBODY, reason="asked"))
    for name, given in options.items():
        update = s.UpdatePluginOpts(at_ms=0, signal_id=_NOBODY, plugin=name, options=dict(given))
        yield (update, _prompt("Go on."), update, _said("Done."))
    yield (
        _prompt("Go on."),
        s.Restarted(at_ms=0, incarnation=0, reason="a crash"),
        _prompt("Again."),
        _said("Done."),
    )


def _calling(spec: ToolSpec, *, is_retried: bool) -> Iterator[Tour]:
    """Let two tools end in one life, well and badly, after a retry, and in spite of an abort or a steer."""
    good, bad = _ended("done"), _ended("no such file", is_error=True)
    for ends in ((good, good), (good, bad), (bad, bad)):
        yield (_prompt("Go on."), _calls(spec, 2), *ends, _said("Done."))
    yield (_prompt("Go on."), _calls(spec, 1), good, _calls(spec, 1), good, _said("Done."), _stop())
    yield (_prompt("Go on."), _calls(spec, 1), _steer("left"), good, _said("Done."))
    yield (_prompt("Go on."), _calls(spec, 2), good, _abort())
    if is_retried:
        crash = _ended("ValueError", is_error=True, crashed=True)
        again = s.TimerFired(at_ms=0, effect_id=_FIRST)
        yield (_prompt("Go on."), _calls(spec, 1), crash, again, good, _said("Done."))
        yield (_prompt("Go on."), _calls(spec, 1), crash, again, crash, _said("Done."))


def updates_of(plugin: Plugin, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options that a plugin surely takes: what it was given, or else the defaults of its `init`."""
    if given:
        return dict(given)
    parameters = inspect.signature(plugin.init).parameters.values()
    return {one.name: one.default for one in parameters if one.default is not inspect.Parameter.empty}


def plain_arguments(spec: ToolSpec) -> dict[str, Any]:
    """Return the shortest arguments that a plain schema takes."""
    schema: Mapping[str, Any] = spec.parameters
    properties: Mapping[str, Any] = schema.get("properties", {})
    needed: Sequence[str] = schema.get("required", ())
    return {key: _plain_value(properties.get(key, {})) for key in needed}


def _plain_value(schema: Mapping[str, Any]) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    return _PLAIN.get(str(schema.get("type")), "a")


def _prompt(*content: str | Image) -> s.Prompt:
    blocks: list[UserBlock] = [Text(text=one) if isinstance(one, str) else one for one in content]
    return s.Prompt(at_ms=0, signal_id=_NOBODY, ref=PromptRef(""), content=tuple(blocks or [_IMAGE]))


def _steer(text: str) -> s.Steer:
    return s.Steer(at_ms=0, signal_id=_NOBODY, ref=SteerRef(""), text=text)


def _said(text: str) -> s.ResponseCompleted:
    return _response((Text(text=text),), "end")


def _calls(spec: ToolSpec, count: int) -> s.ResponseCompleted:
    arguments = json.dumps(plain_arguments(spec))
    return _response(tuple(read_call(f"c{one}", spec.name, arguments) for one in range(count)), "tool_use")


def _response(content: tuple[AssistantBlock, ...], stop_reason: StopReason) -> s.ResponseCompleted:
    message = AssistantMessage(content=content, model="scripted:model", stop_reason=stop_reason)
    return s.ResponseCompleted(
        at_ms=0, effect_id=_FIRST, message=message, usage=TokenUsage(), stop_reason=stop_reason
    )


def _ended(text: str, *, is_error: bool = False, crashed: bool = False) -> s.ToolFinished:
    return s.ToolFinished(
        at_ms=0, effect_id=_FIRST, text=text, is_error=is_error, crashed=crashed, started_at_ms=0
    )


def _abort() -> s.AbortCycle:
    return s.AbortCycle(at_ms=0, signal_id=_NOBODY)


def _stop() -> s.StopSession:
    return s.StopSession(at_ms=0, signal_id=_NOBODY, reason="stopped")
