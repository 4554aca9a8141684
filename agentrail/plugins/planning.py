"""`Planning`: asks for a plan first, reads it from checkboxes in a response, shows it, and reports completed steps."""

from typing import Final

import attrs

from agentrail.core.protocol.actions import Action, Continue, Intervene
from agentrail.core.protocol.hooks import AfterResponse, BeforePrompt, BeforeRequest
from agentrail.core.stack.plugin import Context
from agentrail.events import Plan, PlanStep, read_steps
from agentrail.plugins.base import Plugin, append_note, on
from agentrail.plugins.plan_steps import followed, news_of, refused_moves, show_plan

DIRECTIVE: Final = (
    "Before you begin, write a plan: one line for each step, as markdown checkboxes (`- [ ] step`). "
    "Write the list again with `- [x]` when steps are done; `- [~]` is one that you have begun, `- [!]` one that failed, "
    "`- [-]` one that is not needed. Below a step that has ended, say what came of it: `  - result: …`, or `  - error: …`; `  - note: …` is what "
    "else is to be known of it."
)
AGAIN: Final = (
    "There was no plan in your answer. Write it now, one `- [ ] step` for each line, and then go on."
)


@attrs.frozen
class Planned:
    """The options, and the current plan.

    Attributes:
        attempts: How often it was given. 0 when no plan is awaited.
    """

    plan_first: bool
    min_prompt_length: int
    directive: str
    max_plan_attempts: int
    attempts: int = 0
    plan: tuple[PlanStep, ...] = ()
    shows_plan: bool = True
    refused: tuple[str, ...] = ()


class Planning(Plugin[Planned]):
    """Asks for a plan before the work, and tracks it."""

    priority = 200

    def init(
        self,
        *,
        plan_first: bool = True,
        min_prompt_length: int = 20,
        directive: str = DIRECTIVE,
        max_plan_attempts: int = 2,
        shows_plan: bool = True,
    ) -> Planned:
        """Set when to ask for a plan, and the instruction.

        Raises:
            ValueError: Your move: an empty directive, or fewer than one attempt.
        """
        if not directive.strip() or max_plan_attempts < 1:
            message = f"directive must not be blank, and max_plan_attempts must be 1 or more; got {directive!r} and {max_plan_attempts!r}"
            raise ValueError(message)
        return Planned(
            plan_first=plan_first,
            min_prompt_length=min_prompt_length,
            directive=directive,
            max_plan_attempts=max_plan_attempts,
            shows_plan=shows_plan,
        )

    @on(BeforePrompt)
    def direct(self, event: BeforePrompt, state: Planned, ctx: Context) -> Action[Planned]:
        """Start a new plan with each prompt that is long enough."""
        state = attrs.evolve(state, attempts=0, plan=(), refused=())
        if not state.plan_first or len(event.text) < state.min_prompt_length:
            return Continue(state)
        return Intervene(state.directive, attrs.evolve(state, attempts=1))

    @on(BeforeRequest)
    def show(self, event: BeforeRequest, state: Planned, ctx: Context) -> Action[Planned]:
        """Append the plan after the conversation, for this request only, so that earlier content stays cached."""
        is_shown = state.shows_plan and Plan(steps=state.plan).current_step is not None
        return append_note(event, show_plan(state.plan, state.refused) if is_shown else "", state)

    @on(AfterResponse)
    def follow(self, event: AfterResponse, state: Planned, ctx: Context) -> Action[Planned]:
        """Read the plan, or ask for it again."""
        written = read_steps(event.message.text)
        if written:
            now = followed(state.plan, written)
            refused = refused_moves(state.plan, written)
            after = attrs.evolve(state, attempts=0, plan=now, refused=refused)
            return Continue(after, emits=news_of(state.plan, now))
        if not state.attempts:
            return Continue(state)
        if state.attempts >= state.max_plan_attempts:  # it does not plan, so let it work
            return Continue(attrs.evolve(state, attempts=0))
        return Intervene(AGAIN, attrs.evolve(state, attempts=state.attempts + 1))
