"""Plans: steps, their progress, and the allowed status changes."""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from attrs import frozen
from msgspec.structs import force_setattr, replace

from agentrail.errors import PlanError
from agentrail.structs import Value, always_encoded

PlanStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed", "skipped"]

MOVES: Final[Mapping[PlanStatus, tuple[PlanStatus, ...]]] = MappingProxyType(
    {
        "pending": ("in_progress", "completed", "failed", "skipped"),
        "in_progress": ("completed", "failed"),
        "completed": (),
        "failed": (),
        "skipped": (),
    }
)
"""The allowed next states, by current state."""


class PlanStep(Value, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a plan.

    Attributes:
        index: Position of the step, counted from 0.
        content: Task of the step.
        done: Whether it is completed. Older records have only this field.
        status: Current state.
        result: Result, or None if unknown.
        error: Reason of the failure, or None if unknown.
        notes: Further notes.
    """

    index: int
    content: str
    done: bool = always_encoded(False)
    status: PlanStatus = "pending"
    result: str | None = None
    error: str | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.done and self.status == "pending":
            force_setattr(self, "status", "completed")
        force_setattr(self, "done", self.status == "completed")
        force_setattr(self, "notes", tuple(self.notes))

    @property
    def id(self) -> str:
        """Id of the step: `step-1` is the first."""
        return f"step-{self.index + 1}"


@frozen(kw_only=True)
class PlanProgress:
    """Progress of a plan.

    Attributes:
        counts: Number of steps per state, always has all five states.
        total: Number of steps.
        percent: Percentage of ended steps, successful or not, rounded down. 0 without steps.
    """

    counts: Mapping[PlanStatus, int]
    total: int
    percent: int


class Plan(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A model's plan, and its progress.

    Attributes:
        steps: Steps in order.
        goal: Purpose of the plan, empty if not stated.
        notes: Further notes.
        approved_at_ms: Time of a user's approval, in milliseconds since 1970, or None.
    """

    steps: tuple[PlanStep, ...]
    goal: str = ""
    notes: tuple[str, ...] = ()
    approved_at_ms: int | None = None

    def __post_init__(self) -> None:
        numbered = [
            step if step.index == place else replace(step, index=place)
            for place, step in enumerate(self.steps)
        ]
        force_setattr(self, "steps", tuple(numbered))
        force_setattr(self, "notes", tuple(self.notes))

    @property
    def progress(self) -> PlanProgress:
        """Progress of the plan."""
        found = Counter(step.status for step in self.steps)
        counts = {status: found[status] for status in MOVES}
        ended = sum(count for status, count in counts.items() if not MOVES[status])
        total = len(self.steps)
        return PlanProgress(
            counts=MappingProxyType(counts), total=total, percent=ended * 100 // total if total else 0
        )

    @property
    def current_step(self) -> PlanStep | None:
        """The step in progress, otherwise the next one, or None."""
        begun = next((step for step in self.steps if step.status == "in_progress"), None)
        return begun or next((step for step in self.steps if step.status == "pending"), None)

    def with_step(
        self,
        step_id: str,
        status: PlanStatus | None = None,
        *,
        result: str | None = None,
        error: str | None = None,
        notes: tuple[str, ...] | None = None,
    ) -> "Plan":
        """Return a copy of the plan with one step changed.

        Args:
            step_id: Id of the step, such as `step-1`.
            status: New state, or None to keep it.
            result: New result, or None to keep it.
            error: New error, or None to keep it.
            notes: New notes, or None to keep them.

        Raises:
            PlanError: Your move: unknown step, or a change that its state does not allow.
        """
        step = next((one for one in self.steps if one.id == step_id), None)
        if step is None:
            known = f"step-1 to step-{len(self.steps)}" if self.steps else "none"
            message = f"there is no step {step_id!r:.40}: expected {known}"
            raise PlanError(message)
        if status is not None and not may_move(step.status, status):
            raise PlanError(refusal_of_move(step, status))
        moved = replace(
            step,
            status=step.status if status is None else status,
            done=False,  # derived from the status
            result=step.result if result is None else result,
            error=step.error if error is None else error,
            notes=step.notes if notes is None else tuple(notes),
        )
        steps = (*self.steps[: step.index], moved, *self.steps[step.index + 1 :])
        return replace(self, steps=steps)


def refusal_of_move(step: PlanStep, after: PlanStatus) -> str:
    """Return the message for a forbidden status change."""
    on = ", ".join(MOVES[step.status]) or "nowhere: it has ended"
    return f"{step.id} is {step.status} and cannot become {after}; from there it may go {on}"


def may_move(before: PlanStatus, after: PlanStatus) -> bool:
    """Return whether a step may change from one state to another."""
    return after in MOVES[before]
