"""Calls that are answered while their tools go on in the background: what becomes of them, and what the model hears of it.

Such a call is a survivor that no abort had to spare: its result is in the history, or on its way there, and its effect is open. It
takes no slot, because it may go on for hours. The session says nothing of its end but a note in front of the next turn, or, where
`wake_on_background_end` is set and nothing goes on, a prompt of its own, so that the model need not be asked; only
`kill_tools="all"`, `abort_tool` and the end of the session stop it. Nothing runs it again: what it was is gone with its process.
"""

from typing import Final

from msgspec.structs import replace

from agentrail.core.session import agents, calls
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.step_context import StepContext
from agentrail.messages import ToolResult

MAX_DETACHED: Final = 8
"""How many calls of a session may go on in the background."""

NOT_IN_A_BRANCH: Final = "[Gone: what went on in the background at this point does not go on from here]"

GONE_WITH_ITS_PROCESS: Final = "[Gone: the session was restarted, which nothing in the background outlives]"

TOO_MANY_DETACHED: Final = f"[Stopped: {MAX_DETACHED} calls go on in the background already, and no more may. Stop one of them first.]"


def is_room(step: StepContext) -> bool:
    """Say whether another call may go on in the background."""
    return sum(state.detached for state in step.data.survivors) < MAX_DETACHED


def count_slots(step: StepContext) -> int:
    """Count the slots that survivors take: those that an abort spared."""
    if not step.data.survivors:  # as nearly always, and this is asked for each call that ends
        return 0
    return sum(not state.detached for state in step.data.survivors)


def note_end(step: StepContext, state: CallState, result: ToolResult) -> None:
    """Take the end of a call in the background: all who listen to the session hear of it, and the model reads a note."""
    agents.add_note(step, _end_of(step, state, result))


def note_or_wake(step: StepContext, state: CallState, result: ToolResult) -> None:
    """Take the end of one that was not stopped: as `note_end`, or it wakes the session where the session is to be woken."""
    words = _end_of(step, state, result)
    if step.data.config.wake_on_background_end:
        agents.tell_or_wake(step, state.call.call_id, words)
    else:
        agents.add_note(step, words)


def _end_of(step: StepContext, state: CallState, result: ToolResult) -> str:
    """Publish the end of a call in the background, and give what the model reads of it."""
    calls.publish_end(step, state, result)
    words = result.words
    if words.startswith("[") and words.endswith("]"):
        words = words[1:-1]
    if len(words) > agents.MAX_NOTE_CHARACTERS:
        words = f"{words[: agents.MAX_NOTE_CHARACTERS]}…"
    call = state.call
    return f"[{call.name}, call {call.call_id}, is over in the background: {words}]"


def gone(step: StepContext, state: CallState, why: str = GONE_WITH_ITS_PROCESS) -> None:
    """Note that a call in the background is over without an end."""
    note_end(step, state, calls.result_of(state, why))


def gone_in_a_branch(step: StepContext) -> None:
    """Note that nothing in the background goes along into a branch."""
    for state in step.data.survivors:
        if state.detached and state.result is None:
            gone(step, state, NOT_IN_A_BRANCH)


def note_stop(step: StepContext, state: CallState, text: str) -> CallState:
    """Give a call in the background that is told to stop; the model reads a note."""
    result = calls.result_of(state, text)
    note_end(step, state, result)
    return replace(state, stage="stopping", result=result)
