"""Loops, as the session sees them: a batch that is answered is looked at, and a model that goes in circles hears so or is stopped.

What counts as a loop is in `policy.calls`.
"""

import hashlib

import msgspec

from agentrail.core.policy.calls import CallSeen, file_change_in, hash_arguments, watched
from agentrail.core.session.open_calls import CallState, OpenCalls
from agentrail.core.session.step_context import StepContext
from agentrail.events import LoopDetected
from agentrail.messages import JsonObject, Text, ToolResult, UserMessage


def look_for_loops(step: StepContext, batch: OpenCalls) -> tuple[tuple[str, ...], str | None]:
    """Look at a batch whose calls are all answered.

    Returns:
        What the model is to be told before its next turn. Where it has been told in vain, also why the cycle is to be over.
    """
    cycle = step.cycle
    is_at_work = any(state.status == "working" for state in step.data.agents.states)
    watch, loops = watched(cycle.loops, _seen_of(batch, is_at_work=is_at_work))
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


def _seen_of(batch: OpenCalls, *, is_at_work: bool) -> list[CallSeen]:
    """Say what the calls were, as far as they may be a loop.

    Sessions side by side for one and the same are one call. A wait while an agent works is none: it goes on meanwhile.
    """
    seen: list[CallSeen] = []
    side_by_side: set[tuple[str, str, str]] = set()
    for state in batch:
        one = _seen(state)
        if state.is_of_machine and state.call.name == "wait_agents" and is_at_work:
            continue
        if state.wants_child:
            key = (one.name, one.arguments_hash, one.text)
            if key in side_by_side:
                continue
            side_by_side.add(key)
        seen.append(one)
    return seen


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
        text=_read(result),
        is_error=result.is_error,
        is_pure=spec is not None and spec.effect_class == "pure",
        polling=spec is not None and spec.polling,
        change=file_change_in(result.details),
    )


def _read(result: ToolResult) -> str:
    """Give what the model reads; two pictures of one size are not the same picture."""
    if not result.images:
        return result.text
    digests = [
        hashlib.sha256(image.data.encode("utf-8", "surrogatepass")).hexdigest() for image in result.images
    ]
    return "\0".join([result.text, *digests])
