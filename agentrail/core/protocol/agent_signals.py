"""What a session hears of agents in the background, and an agent of the session that it works for. Part of the union of `signals`."""

from typing import Literal

from agentrail.core.policy.budget import Budget, Spent
from agentrail.core.protocol.stamped import EffectOutcome, FinalOutcome, Stamped
from agentrail.events import AbortReceipt


class AgentIdled(EffectOutcome, frozen=True, kw_only=True):
    """A cycle of an agent in the background is over, and it waits for the next.

    Attributes:
        outcome: How it ended.
        text: What it said last; of a cycle that did not finish also why.
        turns: How many it took.
        spent: All that the agent has used since it was started.
    """

    outcome: Literal["finished", "aborted", "failed"]
    text: str
    turns: int
    spent: Spent


class AgentEnded(FinalOutcome, frozen=True, kw_only=True):
    """An agent in the background is gone: closed, stopped, or it crashed too often.

    Attributes:
        reason: Why.
        is_lost: Whether it was not told to end.
        spent: All that it has used since it was started; None where that is unknown.
        receipt: What was stopped with it.
    """

    reason: str
    is_lost: bool = False
    spent: Spent | None = None
    receipt: AbortReceipt = AbortReceipt()


class BudgetLent(Stamped, frozen=True, kw_only=True):
    """The session that this one works for lends it more, for its next cycle.

    Attributes:
        budget: What may be spent from now on, beside what was spent already.
    """

    budget: Budget
