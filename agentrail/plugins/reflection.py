"""`Reflection`: an answer is reviewed before it is returned, by the model itself or by another one."""

from collections.abc import Sequence
from typing import Final

import attrs

from agentrail.core.protocol.actions import Action, CallModel, Continue, Intervene, Request
from agentrail.core.protocol.hooks import AfterResponse, BeforeFinish, ModelAnswer, RequestDone, RequestFailed
from agentrail.core.stack.plugin import Context
from agentrail.messages import AssistantMessage
from agentrail.plugins.base import Plugin, on

CRITERIA: Final = ("It answers all that was asked.", "Nothing in it is made up.")


@attrs.frozen
class Reviews:
    """What is reviewed, and how far the review is.

    Attributes:
        criteria: What a good answer is.
        max_reviews: How often an answer is sent back in one cycle.
        pass_signal: What a reviewer says to a good answer.
        reviewer_model: Who reviews; None: the model itself.
        reviews: How often this cycle's answer was sent back.
        passed: Whether it was found good.
    """

    criteria: tuple[str, ...]
    max_reviews: int
    pass_signal: str
    reviewer_model: str | None
    reviews: int = 0
    passed: bool = False


class Reflection(Plugin[Reviews]):
    """Lets an answer be reviewed before it is returned."""

    priority = 400

    def init(
        self,
        *,
        criteria: Sequence[str] = CRITERIA,
        max_reviews: int = 3,
        pass_signal: str = "APPROVED",  # noqa: S107 - what a reviewer says is no secret
        reviewer_model: str | None = None,
    ) -> Reviews:
        """Take the criteria, and who judges by them.

        Raises:
            ValueError: Your move: no criteria, no signal, or a negative number of reviews.
        """
        if not criteria or not pass_signal.strip() or max_reviews < 0:
            message = (
                "criteria and pass_signal need words, and max_reviews is 0 or more; "
                f"got {list(criteria)!r}, {pass_signal!r}, {max_reviews!r}"
            )
            raise ValueError(message)
        return Reviews(
            criteria=tuple(criteria),
            max_reviews=max_reviews,
            pass_signal=pass_signal,
            reviewer_model=reviewer_model,
        )

    @on(AfterResponse)
    def listen(self, event: AfterResponse, state: Reviews, ctx: Context) -> Action[Reviews]:
        """Hear what the model says of its own answer; a new cycle begins with its first turn."""
        if ctx.turn <= 1:
            state = attrs.evolve(state, reviews=0, passed=False)
        reviews_itself = state.reviewer_model is None and state.reviews > 0
        return Continue(
            attrs.evolve(state, passed=reviews_itself and state.pass_signal in event.message.text)
        )

    @on(BeforeFinish)
    def review(self, event: BeforeFinish, state: Reviews, ctx: Context) -> Action[Reviews]:
        """Have the answer reviewed, unless it passed or was sent back often enough."""
        if state.passed or state.reviews >= state.max_reviews:
            return Continue(state)
        wanted = "\n".join(f"- {criterion}" for criterion in state.criteria)
        if state.reviewer_model is None:
            prompt = (
                f"Review your answer by these criteria:\n{wanted}\n"
                f"If it meets all of them, say {state.pass_signal} and nothing else. If not, write a better answer."
            )
            return Intervene(prompt, attrs.evolve(state, reviews=state.reviews + 1))
        said = (message for message in reversed(ctx.messages) if isinstance(message, AssistantMessage))
        answer = next((message.text for message in said), "")
        question = CallModel(
            prompt=f"Criteria:\n{wanted}\n\nAnswer:\n{answer}",
            system=f"You review an answer. If it meets all criteria, say {state.pass_signal}; if not, say what is wrong.",
            model=state.reviewer_model,
        )
        return Request(question, "review", state, wait=True)

    @on(RequestDone)
    def hear(self, event: RequestDone, state: Reviews, ctx: Context) -> Action[Reviews]:
        """Send the answer back with what the reviewer says; a reviewer that fails lets it pass."""
        match event.result:
            case ModelAnswer(text=text) if state.pass_signal not in text and text.strip():
                prompt = f"A reviewer says of your answer:\n{text}\nWrite a better one."
                return Intervene(prompt, attrs.evolve(state, reviews=state.reviews + 1))
            case RequestFailed(error=error):
                emits = (("reflection_failed", {"error": error.message}),)
                return Continue(attrs.evolve(state, passed=True), emits=emits)
            case _:
                return Continue(attrs.evolve(state, passed=True))
