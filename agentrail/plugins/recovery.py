"""`Recovery`: limits the retries of a call that raises, and escalates when a tool keeps failing."""

from typing import Final

import attrs

from agentrail.core.protocol.actions import Action, Continue, Emitted, Hints, Skip, SwitchModel
from agentrail.core.protocol.hooks import AfterTool, OnToolError
from agentrail.core.stack.plugin import Context
from agentrail.plugins.base import Plugin, on

MAX_RECOVERY_PAUSE_MS: Final = 60_000
"""Longest pause before a retry. For a longer wait, answering the call is better: the model may know another way."""

MAX_DOUBLINGS: Final = 16
MAX_ERROR_CHARACTERS: Final = 500
"""Limit of a published error text."""


@attrs.frozen
class Failing:
    tool: str
    failures: int


@attrs.frozen(kw_only=True)
class Patience:
    """The retry limits, and the failing tools.

    Attributes:
        fallback_model: Model to switch to when a tool keeps failing. None for none.
    """

    max_retries: int
    backoff_base_ms: int
    fallback_model: str | None
    escalation_event: bool
    failing: tuple[Failing, ...] = ()


class Recovery(Plugin[Patience]):
    """Retries calls that raise with growing pauses, and escalates when a tool keeps failing."""

    priority = 150

    def init(
        self,
        *,
        max_retries: int = 3,
        backoff_base_ms: int = 1_000,
        fallback_model: str | None = None,
        escalation_event: bool = True,
    ) -> Patience:
        """Set the limits.

        Raises:
            ValueError: Your move: a number below 0.
        """
        if max_retries < 0 or backoff_base_ms < 0:
            message = (
                f"max_retries and backoff_base_ms must be 0 or more; got {max_retries} and {backoff_base_ms}"
            )
            raise ValueError(message)
        return Patience(
            max_retries=max_retries,
            backoff_base_ms=backoff_base_ms,
            fallback_model=fallback_model,
            escalation_event=escalation_event,
        )

    @on(OnToolError)
    def before_retry(self, event: OnToolError, patience: Patience, ctx: Context) -> Action[Patience]:
        """Set the pause, or end the retries. The tool itself limits its attempts, and this limit is not raised."""
        if event.attempt > patience.max_retries:
            return Skip(patience)
        longest = patience.backoff_base_ms * 2 ** min(event.attempt - 1, MAX_DOUBLINGS)
        # Random from half of it up, so that calls of a batch that failed together do not retry together.
        pause_ms = round(min(longest, MAX_RECOVERY_PAUSE_MS) * (1 + ctx.random.random()) / 2)
        return Continue(patience, hints=Hints(pause_ms=pause_ms))

    @on(AfterTool)
    def after_call(self, event: AfterTool, patience: Patience, ctx: Context) -> Action[Patience]:
        """Count consecutive errors per tool. The first one after `max_retries` escalates, and the count restarts."""
        failures = next((one.failures for one in patience.failing if one.tool == event.name), 0)
        if not event.result.is_error:
            return Continue(_counted(patience, event.name, 0)) if failures else Continue(patience)
        if failures < patience.max_retries:
            return Continue(_counted(patience, event.name, failures + 1))
        after = _counted(patience, event.name, 0)
        fallback = patience.fallback_model if patience.fallback_model != ctx.model else None
        said = {
            "tool": event.name,
            "call_id": event.call_id,
            "failures": failures + 1,
            "error": event.result.text[:MAX_ERROR_CHARACTERS],
            "fallback_model": fallback,
        }
        emits: tuple[Emitted, ...] = (("recovery_escalated", said),) if patience.escalation_event else ()
        return Continue(after, emits=emits) if fallback is None else SwitchModel(fallback, after, emits=emits)


def _counted(patience: Patience, tool: str, failures: int) -> Patience:
    others = tuple(one for one in patience.failing if one.tool != tool)
    return attrs.evolve(patience, failing=(*others, Failing(tool, failures)) if failures else others)
