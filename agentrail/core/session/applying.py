"""Applying what a tool wants changed in its session, in the step that records its result."""

from collections.abc import Iterable
from types import MappingProxyType
from typing import assert_never

from agentrail.core.protocol.changes import Change, RequestCompaction, UpdateContext, UpdateTodos
from agentrail.core.session.step_context import StepContext
from agentrail.events import TodoChange


def apply_changes(step: StepContext, changes: Iterable[Change]) -> None:
    """Apply changes in their order; of two for one thing the last one counts."""
    for change in changes:
        match change:
            case UpdateTodos(todos=todos):
                step.data.todos = todos
                step.publish(TodoChange(todos=todos))
            case UpdateContext():
                _update_context(step, change)
            case RequestCompaction(reason=reason):
                step.data.compact_asked = reason or "asked for by a tool"
            case _ as never:
                assert_never(never)


def _update_context(step: StepContext, change: UpdateContext) -> None:
    if change.key == "memory":
        step.data.memory = change.value
        return
    sections = {key: text for key, text in step.data.sections.items() if key != change.key}
    if isinstance(change.value, str):
        sections[change.key] = change.value
    step.data.sections = MappingProxyType(sections)
