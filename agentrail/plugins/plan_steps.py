"""What becomes of the steps of a plan when a model writes its list again, what of that is news, and how the plan is shown to it."""

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
    """Say how the steps stand after the model wrote its list once more.

    Of the same steps each makes the move that was written where it may; one that has ended stays as it was, whatever an older list says, and
    only what was not said of it yet is added: what came of it, why it failed, notes. Another list is another plan.
    """
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
    """Say which moves of the list that was written once more are not made, each with the state that it is in and the one that was written."""
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
    """Write the plan for the model, with what comes next. It stands behind the conversation, and in no history."""
    plan = Plan(steps=steps)
    current = plan.current_step
    assert current is not None  # noqa: S101 - it is shown while there is one
    progress = plan.progress
    ended = progress.total - progress.counts["pending"] - progress.counts["in_progress"]
    verb = "You are at" if current.status == "in_progress" else "Next is"
    not_made = "".join(f"Not taken: {one}.\n" for one in refused)
    return (
        f"Your plan, {ended} of {progress.total} steps ended:\n{encode_plan(plan)}{not_made}{verb} {current.id}: {current.content}\n"
        "Write the list again when that changes: [~] begun, [x] done, [!] failed, [-] not needed."
    )


def news_of(before: tuple[PlanStep, ...], now: tuple[PlanStep, ...]) -> tuple[Emitted, ...]:
    """Say what is new: another plan, or steps on their way; steps that are done; the last of them."""
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
