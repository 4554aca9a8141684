"""What a step decided, as short text: one line for each effect that is not ephemeral, in their order. Pure.

This is what a record says beside its signal. It is the intent of a tool: one that no durable record names never ran. It lets an
export be read, and a fold by newer code be compared without storing events. No word of a conversation enters it: names, numbers and
digests only.
"""

import re
from collections.abc import Iterable
from typing import Final, TypeAlias, assert_never

from agentrail.core.protocol import effects as asked
from agentrail.core.protocol.effects import Effect, Publish
from agentrail.core.protocol.request import EffectId
from agentrail.core.session.recorded_calls import DIGITS as _DIGITS, name_in_outline as _word

_BEGUN: Final = re.compile(
    r"^(?:start_stream|run_tool|spawn_child|resume_child|start_agent|ask_host|tell_host|run_plugin_request"
    r"|gather_context) (\S+)",
    re.MULTILINE,
)
"""The lines of effects that begin work, and name it in their second word."""


def outline(effects: Iterable[Effect]) -> str:
    """Say what a step decided.

    Args:
        effects: Of one step, in order.

    Returns:
        One line for each that is not an ephemeral event, without a line break at the end; committed events in a row are one line,
        `publish 31-33`. Empty where nothing is left.
    """
    lines: list[str] = []
    first = last = 0  # the run of committed events that is being gathered; 0 for none
    for effect in effects:
        if isinstance(effect, Publish):
            meta = effect.event.meta
            if meta is None or meta.ephemeral:
                continue
            first, last = first or meta.seq, meta.seq
            continue
        if first:
            lines.append(_published(first, last))
            first = 0
        lines.append(_line_of(effect))
    if first:
        lines.append(_published(first, last))
    return "\n".join(lines)


def effects_named(does: str) -> frozenset[EffectId]:
    """Name the effects that a record says to have begun: what may have run when its process stopped.

    Args:
        does: As `outline` writes it.

    Returns:
        Ids of requests, tools, sessions, agents, questions to the host, requests of plugins and gatherings; no timers, which begin
        nothing.
    """
    return frozenset(map(EffectId, _BEGUN.findall(does)))


_OPERATION: Final = re.compile(
    r"^(start_stream \S+|run_tool \S+ \S+|spawn_child .*|resume_child \S+|start_agent .*|prompt_agent .*"
    r"|run_plugin_request \S+ (?:WriteFile|WriteNotes|KeepMemory|CallModel))(?: op=\S* (args=\S+))?",
    re.MULTILINE,
)


def operations_in(does: str) -> tuple[str, ...]:
    """Name the operations that an outline begins: requests, tools with their arguments, agents, and writes of plugins.

    Returns:
        One text for each, with its id as the second word; models, counts of messages and timers are not in them.
    """
    return tuple([" ".join(filter(None, line)) for line in _OPERATION.findall(does)])


def operation_id_in(operation: str) -> EffectId:
    """Give the id of an operation, as `operations_in` names it."""
    return EffectId(operation.split(" ", 2)[1])


def _published(first: int, last: int) -> str:
    return f"publish {first}" if first == last else f"publish {first}-{last}"


_Lined: TypeAlias = (
    asked.StartStream
    | asked.Awaited
    | asked.Cancel
    | asked.ResumeChild
    | asked.PromptAgent
    | asked.CloseAgent
    | asked.KillTools
    | asked.SetProviderOpts
    | asked.ReplyToCaller
    | asked.Refuse
    | asked.End
)


def _line_of(effect: _Lined) -> str:
    match effect:
        case asked.RunTool(effect_id=effect_id, name=name, operation_id=operation, arguments_hash=arguments):
            again = f" attempt={effect.attempt}" if effect.attempt > 1 else ""
            return f"run_tool {effect_id} {_word(name)} op={operation[:_DIGITS]} args={arguments[:_DIGITS]}{again}"
        case asked.StartStream(request=request):
            return f"start_stream {request.attempt} model={_word(request.model)} messages={len(request.messages)}"
        case asked.ReplyToCaller():
            return "reply"
        case asked.Refuse(error=error):
            return f"refuse {type(error).__name__}"
        case asked.SetTimer(effect_id=effect_id, at_ms=at_ms):
            return f"set_timer {effect_id} {at_ms}"
        case asked.ClearTimer(effect_id=effect_id):
            return f"clear_timer {effect_id}"
        case asked.CancelStream(effect_id=effect_id):
            return f"cancel_stream {effect_id}"
        case asked.KillTools(effect_ids=effect_ids):
            return " ".join(("kill_tools", *effect_ids))
        case asked.SpawnChild(effect_id=effect_id, agent=agent):
            return f"spawn_child {effect_id} {_word(agent)}"
        case asked.ResumeChild(effect_id=effect_id, child_ids=child_ids):
            return " ".join(("resume_child", effect_id, *map(_word, child_ids)))
        case asked.StartAgent(effect_id=effect_id, name=name, agent=agent):
            return f"start_agent {effect_id} {_word(name)} {_word(agent)}"
        case asked.PromptAgent(effect_id=effect_id):
            return f"prompt_agent {effect_id}"
        case asked.CloseAgent(effect_id=effect_id):
            return f"close_agent {effect_id}"
        case asked.AskHost(effect_id=effect_id, name=name):
            return f"ask_host {effect_id} {_word(name)}"
        case asked.TellHost(effect_id=effect_id, name=name):
            return f"tell_host {effect_id} {_word(name)}"
        case asked.RunPluginRequest(effect_id=effect_id, wanted=wanted, refused=refused):
            answered = "" if refused is None else f" refused={_word(refused.code)}"
            return f"run_plugin_request {effect_id} {type(wanted).__name__}{answered}"
        case asked.CancelPluginRequest(effect_id=effect_id):
            return f"cancel_plugin_request {effect_id}"
        case asked.GatherContext(effect_id=effect_id, messages=messages):
            return f"gather_context {effect_id} messages={len(messages)}"
        case asked.SetProviderOpts(model=model):  # the options hold keys
            return f"set_provider_opts model={_word(model)}"
        case asked.Teardown(effect_id=effect_id, stopped=stopped):
            return " ".join(("teardown", effect_id, *stopped))
        case asked.End():
            return "end"
        case _ as never:
            assert_never(never)
