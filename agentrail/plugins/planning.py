"""`Planning`: asks for a plan first, reads it from the checkboxes of a response, and says when steps are done."""

import re
from typing import Final

import attrs

from agentrail.core.protocol.actions import Action, Continue, Emitted, Intervene
from agentrail.core.protocol.hooks import AfterResponse, BeforePrompt
from agentrail.core.stack.plugin import Context
from agentrail.events import PlanCompleted, PlanGenerated, PlanStepCompleted
from agentrail.events.values import Plan, PlanStep
from agentrail.plugins.base import Plugin, on

DIRECTIVE: Final = (
    "Before you begin, write a plan: one line for each step, as markdown checkboxes (`- [ ] step`). "
    "Write the list again with `- [x]` when steps are done."
)
AGAIN: Final = (
    "There was no plan in your answer. Write it now, one `- [ ] step` for each line, and then go on."
)

_CHECKBOX: Final = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+\[([ xX])\]\s+(\S.*?)\s*$", re.MULTILINE)


@attrs.frozen
class Planned:
    """What was asked for, and the plan as it is now.

    Attributes:
        plan_first: Whether a prompt is answered with a plan first.
        min_prompt_length: Shorter prompts need none.
        directive: What the model is told.
        max_plan_attempts: How often it is told, the first time included.
        attempts: How often it was; 0 when no plan is awaited.
        plan: The steps that it wrote down.
    """

    plan_first: bool
    min_prompt_length: int
    directive: str
    max_plan_attempts: int
    attempts: int = 0
    plan: tuple[PlanStep, ...] = ()


class Planning(Plugin[Planned]):
    """Asks for a plan before the work, and follows it."""

    priority = 200

    def init(
        self,
        *,
        plan_first: bool = True,
        min_prompt_length: int = 20,
        directive: str = DIRECTIVE,
        max_plan_attempts: int = 2,
    ) -> Planned:
        """Take when a plan is asked for, and with which words.

        Raises:
            ValueError: Your move: an empty directive, or fewer than one attempt.
        """
        if not directive.strip() or max_plan_attempts < 1:
            message = f"directive needs words and max_plan_attempts 1 or more; got {directive!r} and {max_plan_attempts!r}"
            raise ValueError(message)
        return Planned(
            plan_first=plan_first,
            min_prompt_length=min_prompt_length,
            directive=directive,
            max_plan_attempts=max_plan_attempts,
        )

    @on(BeforePrompt)
    def direct(self, event: BeforePrompt, state: Planned, ctx: Context) -> Action[Planned]:
        """Begin a new plan with each prompt that is long enough."""
        state = attrs.evolve(state, attempts=0, plan=())
        if not state.plan_first or len(event.text) < state.min_prompt_length:
            return Continue(state)
        return Intervene(state.directive, attrs.evolve(state, attempts=1))

    @on(AfterResponse)
    def follow(self, event: AfterResponse, state: Planned, ctx: Context) -> Action[Planned]:
        """Read the plan, or ask for it once more."""
        written = read_plan(event.message.text)
        if written:
            emits = _news(state.plan, written)
            return Continue(attrs.evolve(state, attempts=0, plan=written), emits=emits)
        if not state.attempts:
            return Continue(state)
        if state.attempts >= state.max_plan_attempts:  # it will not plan; let it work
            return Continue(attrs.evolve(state, attempts=0))
        return Intervene(AGAIN, attrs.evolve(state, attempts=state.attempts + 1))


def read_plan(text: str) -> tuple[PlanStep, ...]:
    """Read the checkboxes of a text, in their order."""
    found = _CHECKBOX.findall(text)
    return tuple(
        PlanStep(index=index, content=content, done=mark != " ")
        for index, (mark, content) in enumerate(found)
    )


def _news(before: tuple[PlanStep, ...], now: tuple[PlanStep, ...]) -> tuple[Emitted, ...]:
    """Say what is new: another plan, steps that are done, the last of them."""
    news: list[Emitted] = []
    done_before = {step.content for step in before if step.done}
    if [step.content for step in before] != [step.content for step in now]:
        news.append(PlanGenerated(plan=Plan(steps=now)))
    newly_done = [step for step in now if step.done and step.content not in done_before]
    news += (PlanStepCompleted(step=step) for step in newly_done)
    if newly_done and all(step.done for step in now):
        news.append(PlanCompleted(plan=Plan(steps=now)))
    return tuple(news)
