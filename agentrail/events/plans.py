"""Plans: what is to be done, step by step, and how far it is. Values, and the moves that a step may make.

A move gives another plan, and an illegal one is an error that names both states: a step that has ended does not begin again.
"""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import msgspec
from attrs import frozen
from msgspec.structs import force_setattr

from agentrail.errors import PlanError
from agentrail.structs import Value

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
"""To which states a step may go from each."""


def _no() -> bool:
    """Make a default that is always written."""
    return False


class PlanStep(Value, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a plan.

    Attributes:
        index: Its place, 0 is the first.
        content: What is to be done.
        done: Whether it is completed; what records of earlier versions say alone.
        status: How far it is.
        result: What came of it; None where that is not known.
        error: Why it failed; None where that is not known.
        notes: What else is to be known of it.
    """

    index: int
    content: str
    done: bool = msgspec.field(default_factory=_no)
    status: PlanStatus = "pending"
    result: str | None = None
    error: str | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Let both words for one thing agree: a record of before there were five states has one of them."""
        if self.done and self.status == "pending":
            force_setattr(self, "status", "completed")
        force_setattr(self, "done", self.status == "completed")
        force_setattr(self, "notes", tuple(self.notes))

    @property
    def id(self) -> str:
        """What it is called: `step-1` is the first."""
        return f"step-{self.index + 1}"


@frozen(kw_only=True)
class PlanProgress:
    """How far a plan is.

    Attributes:
        counts: How many steps are in each state; all five are there.
        total: How many there are.
        percent: How many of a hundred have ended, whether well or not; 0 without steps, rounded down.
    """

    counts: Mapping[PlanStatus, int]
    total: int
    percent: int


class Plan(Value, frozen=True, kw_only=True, omit_defaults=True):
    """What a model wrote down before it began, and how far it is.

    Attributes:
        steps: In the order in which they stand there; each has its place as `index`.
        goal: What all of it is for; empty where that is not said.
        notes: What else is to be known.
        approved_at_ms: When a person approved it, in milliseconds since 1970; None where no one has.
    """

    steps: tuple[PlanStep, ...]
    goal: str = ""
    notes: tuple[str, ...] = ()
    approved_at_ms: int | None = None

    def __post_init__(self) -> None:
        """Keep the steps, as a plugin may go on writing to its list, and number them."""
        numbered = [
            step if step.index == place else msgspec.structs.replace(step, index=place)
            for place, step in enumerate(self.steps)
        ]
        force_setattr(self, "steps", tuple(numbered))
        force_setattr(self, "notes", tuple(self.notes))

    @property
    def progress(self) -> PlanProgress:
        """How far it is."""
        found = Counter(step.status for step in self.steps)
        counts = {status: found[status] for status in MOVES}
        ended = sum(count for status, count in counts.items() if not MOVES[status])
        total = len(self.steps)
        return PlanProgress(
            counts=MappingProxyType(counts), total=total, percent=ended * 100 // total if total else 0
        )

    @property
    def current_step(self) -> PlanStep | None:
        """The step that is worked on, else the next one; None when all have ended."""
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
        """Give the plan with one step moved.

        Args:
            step_id: Which, such as `step-1`.
            status: Where it goes; None: it stays where it is.
            result: What came of it; None: as it was.
            error: Why it failed; None: as it was.
            notes: All that is to be known of it; None: as it was.

        Raises:
            PlanError: Your move: there is no such step, or it may not go there from where it is.
        """
        step = next((one for one in self.steps if one.id == step_id), None)
        if step is None:
            known = f"step-1 to step-{len(self.steps)}" if self.steps else "none"
            message = f"there is no step {step_id!r:.40}: there are {known}"
            raise PlanError(message)
        if status is not None and not may_move(step.status, status):
            raise PlanError(refusal_of_move(step, status))
        moved = msgspec.structs.replace(
            step,
            status=step.status if status is None else status,
            done=False,  # made of the status
            result=step.result if result is None else result,
            error=step.error if error is None else error,
            notes=step.notes if notes is None else tuple(notes),
        )
        steps = (*self.steps[: step.index], moved, *self.steps[step.index + 1 :])
        return msgspec.structs.replace(self, steps=steps)


def refusal_of_move(step: PlanStep, after: PlanStatus) -> str:
    """Say that a step cannot go there from where it is, and where it can."""
    on = ", ".join(MOVES[step.status]) or "nowhere: it has ended"
    return f"{step.id} is {step.status} and cannot become {after}; from there it may go {on}"


def may_move(before: PlanStatus, after: PlanStatus) -> bool:
    """Say whether a step may go from one state to another; to stay is no move."""
    return after in MOVES[before]
