"""What becomes of the steps of a plan when a model writes its list again, what of that is news, and how the plan is shown to it."""

from agentrail.core.protocol.actions import Emitted
from agentrail.events import (
    Plan,
    PlanCompleted,
    PlanGenerated,
    PlanStep,
    PlanStepCompleted,
    encode_plan,
    may_move,
)


def followed(before: tuple[PlanStep, ...], written: tuple[PlanStep, ...]) -> tuple[PlanStep, ...]:
    """Say how the steps stand after the model wrote its list once more.

    Of the same steps each makes the move that was written where it may; one that has ended stays as it was, whatever an older list says.
    Another list is another plan.
    """
    if [step.content for step in before] != [step.content for step in written]:
        return written
    plan = Plan(steps=before)
    for step in written:
        if may_move(plan.steps[step.index].status, step.status):
            plan = plan.with_step(step.id, step.status)
    return plan.steps


def show_plan(steps: tuple[PlanStep, ...]) -> str:
    """Write the plan for the model, with what comes next. It stands behind the conversation, and in no history."""
    plan = Plan(steps=steps)
    current = plan.current_step
    assert current is not None  # noqa: S101 - it is shown while there is one
    progress = plan.progress
    ended = progress.total - progress.counts["pending"] - progress.counts["in_progress"]
    verb = "You are at" if current.status == "in_progress" else "Next is"
    return (
        f"Your plan, {ended} of {progress.total} steps ended:\n{encode_plan(plan)}{verb} {current.id}: {current.content}\n"
        "Write the list again when that changes: [~] begun, [x] done, [!] failed, [-] not needed."
    )


def news_of(before: tuple[PlanStep, ...], now: tuple[PlanStep, ...]) -> tuple[Emitted, ...]:
    """Say what is new: another plan, or steps on their way; steps that are done; the last of them."""
    news: list[Emitted] = []
    done_before = {step.content for step in before if step.done}
    newly_done = [step for step in now if step.done and step.content not in done_before]
    is_other = [step.content for step in before] != [step.content for step in now]
    if is_other or any(
        was.status != step.status and not step.done for was, step in zip(before, now, strict=False)
    ):
        news.append(PlanGenerated(plan=Plan(steps=now)))
    news += (PlanStepCompleted(step=step) for step in newly_done)
    if newly_done and all(step.status in {"completed", "skipped"} for step in now):
        news.append(PlanCompleted(plan=Plan(steps=now)))
    return tuple(news)
