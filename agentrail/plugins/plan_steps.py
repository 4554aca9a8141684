"""Steps of a plan: updates when a model writes its list again, the resulting events, and the text for the model."""

from agentrail.core.protocol.actions import Emitted
from agentrail.events import (
    MOVES,
    Plan,
    PlanCompleted,
    PlanGenerated,
    PlanStep,
    PlanStepCompleted,
    encode_plan,
    may_move,
    refusal_of_move,
)


def followed(before: tuple[PlanStep, ...], written: tuple[PlanStep, ...]) -> tuple[PlanStep, ...]:
    """Return the steps after the model wrote its list again."""
    if not _is_same_list(before, written):
        return written
    plan = Plan(steps=before)
    for step in written:
        now = plan.steps[step.index]
        has_ended = not MOVES[now.status]
        plan = plan.with_step(
            step.id,
            step.status if may_move(now.status, step.status) else None,
            result=None if has_ended and now.result is not None else step.result,
            error=None if has_ended and now.error is not None else step.error,
            notes=None if not step.notes or (has_ended and now.notes) else step.notes,
        )
    return plan.steps


def refused_moves(before: tuple[PlanStep, ...], written: tuple[PlanStep, ...]) -> tuple[str, ...]:
    """Return the refused moves of the rewritten list, each with its current and its written state."""
    if not _is_same_list(before, written):
        return ()
    return tuple(
        refusal_of_move(was, step.status)
        for was, step in zip(before, written, strict=True)
        if step.status != was.status and not may_move(was.status, step.status)
    )


def _is_same_list(before: tuple[PlanStep, ...], written: tuple[PlanStep, ...]) -> bool:
    return [step.content for step in before] == [step.content for step in written]


def show_plan(steps: tuple[PlanStep, ...], refused: tuple[str, ...] = ()) -> str:
    """Format the plan for the model, with the next step. It is appended after the conversation and is not part of the history."""
    plan = Plan(steps=steps)
    current = plan.current_step
    assert current is not None  # noqa: S101 - it is shown only while there is one
    progress = plan.progress
    ended = progress.total - progress.counts["pending"] - progress.counts["in_progress"]
    verb = "You are at" if current.status == "in_progress" else "Next is"
    not_made = "".join(f"Not taken: {one}.\n" for one in refused)
    return (
        f"Your plan, {ended} of {progress.total} steps ended:\n{encode_plan(plan)}{not_made}{verb} {current.id}: {current.content}\n"
        "Write the list again when that changes: [~] begun, [x] done, [!] failed, [-] not needed."
    )


def news_of(before: tuple[PlanStep, ...], now: tuple[PlanStep, ...]) -> tuple[Emitted, ...]:
    """Return the events: a new plan, or started steps, then completed steps, then the completion of the last step."""
    news: list[Emitted] = []
    done_before = {step.content for step in before if step.done}
    newly_done = [step for step in now if step.done and step.content not in done_before]
    if not _is_same_list(before, now) or any(
        was != step and (was.done or not step.done) for was, step in zip(before, now, strict=False)
    ):
        news.append(PlanGenerated(plan=Plan(steps=now)))
    news += (PlanStepCompleted(step=step) for step in newly_done)
    if newly_done and all(step.status in {"completed", "skipped"} for step in now):
        news.append(PlanCompleted(plan=Plan(steps=now)))
    return tuple(news)
