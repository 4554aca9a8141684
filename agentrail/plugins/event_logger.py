"""`EventLogger`: publishes each hook as a plugin event, which the shell may write as a line of JSON."""

from typing import Any, Final, Literal, get_args

import attrs

from agentrail.core.protocol import hooks as h
from agentrail.core.protocol.actions import Action, Emit
from agentrail.core.stack.plugin import Context, OnError
from agentrail.messages import JsonObject
from agentrail.plugins.base import Plugin

Level = Literal["debug", "info", "warning", "error"]
LEVELS: Final = get_args(Level)


@attrs.frozen
class Logging:
    level: Level
    include_arguments: bool
    records: int = 0


class EventLogger(Plugin[Logging]):
    """Publishes a record of every hook, under the name `log`."""

    priority = 90
    on_error: OnError | None = "open"  # a failed log must not stop the session

    def init(self, *, level: Level = "info", include_arguments: bool = True) -> Logging:
        """Set the level of the records, and whether to include arguments.

        Raises:
            ValueError: Your move: an unknown level.
        """
        if level not in LEVELS:
            message = f"level must be one of {', '.join(map(repr, LEVELS))}, got {level!r}"
            raise ValueError(message)
        return Logging(level=level, include_arguments=include_arguments)

    def handle(self, event: h.HookEvent, state: Logging, ctx: Context) -> Action[Logging]:
        """Publish a record of the event."""
        state = attrs.evolve(state, records=state.records + 1)
        facts, failed = _facts(event, include_arguments=state.include_arguments)
        record: dict[str, Any] = {
            "level": "warning" if failed and state.level != "error" else state.level,
            "hook": type(event).__name__,
            "record": state.records,
            "at_ms": ctx.now_ms,
            "turn": ctx.turn,
            "total_tokens": ctx.total_tokens,
            **facts,
        }
        return Emit("log", record, state)


def _facts(event: h.HookEvent, *, include_arguments: bool) -> tuple[dict[str, Any], bool]:
    def shown(value: JsonObject) -> JsonObject:
        return value if include_arguments else {}

    match event:
        case h.SessionStarted(recovered=recovered):
            return {"recovered": recovered}, False
        case h.AfterTurn(outcome=outcome, abort_reason=reason, duration_ms=duration_ms):
            return {"outcome": outcome, "reason": reason, "duration_ms": duration_ms}, outcome != "finished"
        case h.BeforePrompt(text=text) | h.BeforeSteering(text=text):
            return {"text": text}, False
        case h.BeforeRequest(messages=messages) | h.BeforeCompact(messages=messages):
            return {"messages": len(messages)}, False
        case h.AfterResponse(message=message):
            calls = [call.name for call in message.calls]
            return {
                "characters": len(message.text),
                "calls": calls,
                "stop_reason": message.stop_reason,
            }, False
        case h.BeforeTool(name=name, call_id=call_id, arguments=arguments):
            return {"tool": name, "call_id": call_id, "arguments": shown(arguments)}, False
        case h.OnToolError(name=name, call_id=call_id, error=error, attempt=attempt):
            return {"tool": name, "call_id": call_id, "error": error.message, "attempt": attempt}, True
        case h.AfterTool(name=name, call_id=call_id, result=result):
            facts = {
                "tool": name,
                "call_id": call_id,
                "characters": len(result.text),
                "is_error": result.is_error,
            }
            return facts, result.is_error
        case h.AfterToolBatch(results=results):
            return {"results": len(results)}, False
        case h.BeforePluginOptsUpdate(plugin=plugin, options=options):
            return {"plugin": plugin, "options": shown(options)}, False
        case _:  # SessionEnding and BeforeFinish have no facts beyond their name
            return {}, False
