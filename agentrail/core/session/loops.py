"""Loops, as the session sees them: a batch that is answered is looked at, and a model that goes in circles hears so or is stopped.

What a loop is stands in `loops`.
"""

import msgspec

from agentrail.core.policy.gates import hash_arguments
from agentrail.core.policy.loops import CallSeen, file_change_in, watched
from agentrail.core.session.open_calls import CallState, OpenCalls
from agentrail.core.session.step_context import StepContext
from agentrail.events import LoopDetected
from agentrail.messages import JsonObject, Text, UserMessage


def look_for_loops(step: StepContext, batch: OpenCalls) -> tuple[tuple[str, ...], str | None]:
    """Look at a batch whose calls are all answered.

    Returns:
        What the model is to be told before its next turn. Where it has been told in vain, also why the cycle is to be over.
    """
    cycle = step.cycle
    watch, loops = watched(cycle.loops, [_seen(state) for state in batch])
    step.data.cycle = msgspec.structs.replace(cycle, loops=watch)
    for loop in loops:
        step.publish(LoopDetected(type=loop.type, name=loop.name, count=loop.count))
    ends = [loop.text for loop in loops if loop.aborts]
    why = ends[0][1:-1] if ends else None  # people need no brackets to tell it from what the user said
    return tuple(loop.text for loop in loops), why


def tell(step: StepContext, notes: tuple[str, ...]) -> None:
    """Tell the model about its loops, behind the results that show them."""
    if notes:
        content = tuple(Text(text=note) for note in notes)
        step.data.history = step.data.history.with_user(UserMessage(content=content, origin="note"))


def _seen(state: CallState) -> CallSeen:
    result, spec = state.result, state.spec
    assert result is not None  # noqa: S101 - the batch is answered
    # Two calls whose arguments are no JSON are the same when they are wrong in the same way.
    arguments: JsonObject = state.arguments
    if state.call.arguments is None:
        arguments = {"": state.call.malformed}
    return CallSeen(
        name=state.call.name,
        arguments_hash=state.arguments_hash or hash_arguments(arguments),
        text=result.text,
        is_error=result.is_error,
        is_pure=spec is not None and spec.effect_class == "pure",
        polling=spec is not None and spec.polling,
        change=file_change_in(result.details),
    )
