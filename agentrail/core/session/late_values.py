"""Calls that took effect although they had been stopped: their tools swallowed the cancellation and returned a value."""

from typing import Final

from agentrail.core.protocol.signals import LateValue
from agentrail.core.session.step_context import StepContext
from agentrail.events import ToolTookEffect
from agentrail.messages import ToolMessage, ToolResult

STILL_RUNNING: Final = "[Still running when the cycle was aborted]"
"""The result of a call that an abort spared. Its real result is a note."""


def take_late_value(step: StepContext, value: LateValue) -> None:
    """Add a late value to the history, or as a note if the call was answered in another way or long before."""
    result = publish_effect(step, value)
    last = step.data.history.messages[-1] if len(step.data.history) else None
    answers = last.results if isinstance(last, ToolMessage) else ()
    if any(one.call_id == result.call_id and one.is_error and one.text != STILL_RUNNING for one in answers):
        step.data.history = step.data.history.corrected(result)
    else:
        note = f"[The call of {value.name} that was stopped ran to its end all the same: {value.text}]"
        step.data.notes = (*step.data.notes, note)


def publish_effect(step: StepContext, value: LateValue) -> ToolResult:
    """Publish that a stopped call took effect, and return the result that replaces its earlier one."""
    what = "ran to its end" if value.is_error else "took effect"
    result = ToolResult(
        call_id=value.call_id,
        name=value.name,
        text=f"[Stopped too late: the call {what}.]\n{value.text}",
        is_error=value.is_error,
    )
    step.publish(ToolTookEffect(name=value.name, call_id=value.call_id, result=result))
    return result
