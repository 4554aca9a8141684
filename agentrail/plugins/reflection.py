"""`Reflection`: an answer is reviewed before it is returned, by the model itself, by another one or by an agent."""

from collections.abc import Sequence
from typing import Final

import attrs

from agentrail.core.protocol.actions import Action, Continue
from agentrail.core.protocol.hooks import (
    AfterResponse,
    AfterToolBatch,
    BeforeFinish,
    BeforeTool,
    RequestDone,
)
from agentrail.core.stack.plugin import Context
from agentrail.plugins.base import Plugin, on
from agentrail.plugins.reflection_reviews import (
    Reviews,
    ask_agent,
    ask_itself,
    ask_model,
    listen_for_call,
    listen_to_itself,
    read_model,
    read_review,
    write_call,
)

CRITERIA: Final = ("It answers all that was asked.", "Nothing in it is made up.")


class Reflection(Plugin[Reviews]):
    """Reviews an answer before it is returned."""

    priority = 400

    def init(
        self,
        *,
        criteria: Sequence[str] = CRITERIA,
        max_reviews: int = 3,
        pass_signal: str = "APPROVED",  # noqa: S107 - a reviewer's signal is not a secret
        reviewer_model: str | None = None,
        reviewer_agent: str | None = None,
    ) -> Reviews:
        """Set the criteria and the reviewer.

        Raises:
            ValueError: Your move: no criteria, no signal or one of several lines, a negative number of reviews, or two reviewers.
        """
        if not criteria or len(pass_signal.strip().splitlines()) != 1 or max_reviews < 0:
            message = f"criteria and pass_signal must not be blank, pass_signal must be one line, and max_reviews must be 0 or more; got {list(criteria)!r}, {pass_signal!r}, {max_reviews!r}"
            raise ValueError(message)
        if reviewer_agent is not None and (reviewer_model is not None or not reviewer_agent.strip()):
            message = f"reviewer_agent must be the name of an agent, and excludes reviewer_model; got {reviewer_agent!r}, {reviewer_model!r}"
            raise ValueError(message)
        return Reviews(
            criteria=tuple(criteria),
            max_reviews=max_reviews,
            pass_signal=pass_signal,
            reviewer_model=reviewer_model,
            reviewer_agent=reviewer_agent,
        )

    @on(AfterResponse)
    def listen(self, event: AfterResponse, state: Reviews, ctx: Context) -> Action[Reviews]:
        """Read the model's review of its own answer. A new cycle starts with its first turn."""
        if ctx.turn <= 1:
            state = attrs.evolve(state, reviews=0, passed=False, answer="", is_asked_for=False, call_id=None)
        if state.reviewer_agent is not None:
            return listen_for_call(event.message, state)
        if state.reviewer_model is None:
            return listen_to_itself(event.message, state)
        return Continue(attrs.evolve(state, passed=False))

    @on(BeforeFinish)
    def review(self, event: BeforeFinish, state: Reviews, ctx: Context) -> Action[Reviews]:
        """Start the review, unless the answer passed or was sent back often enough."""
        if state.reviewer_agent is not None:
            return ask_agent(state, ctx)
        if state.passed or state.reviews >= state.max_reviews:
            return Continue(state)
        return ask_itself(state, ctx) if state.reviewer_model is None else ask_model(state, ctx)

    @on(BeforeTool)
    def hand_over(self, event: BeforeTool, state: Reviews, ctx: Context) -> Action[Reviews]:
        """Give the agent the answer itself, rather than the model's description of it."""
        return write_call(event, state, ctx)

    @on(AfterToolBatch)
    def take_verdict(self, event: AfterToolBatch, state: Reviews, ctx: Context) -> Action[Reviews]:
        """Read the agent's verdict. A failed review lets the answer pass."""
        return read_review(event, state)

    @on(RequestDone)
    def hear(self, event: RequestDone, state: Reviews, ctx: Context) -> Action[Reviews]:
        """Send the answer back with the reviewer's remarks. A reviewer that fails lets it pass."""
        return read_model(event.result, state)
