"""A session that goes on from an earlier state, in a branch of its own: what was open there ends, and nothing of it is waited for. Pure.

What was at work then is at work elsewhere, or was over long ago; in this branch it never comes to anything. So each open call is
answered, and the cycle is over. What people and callers had sent and what had not begun stays behind, with all that was promised of
the budget. No effect leaves, and no event: the numbers of events are those of the state that was given.
"""

from typing import Final

import msgspec

from agentrail.core.policy.budget import Ledger, spent_of
from agentrail.core.session import agents, batch, calls, compaction, cycle as settings, interactions
from agentrail.core.session.batch import into_history
from agentrail.core.session.cycle import close_cycle
from agentrail.core.session.state import SEMANTICS, Phase, SessionConfig, SessionData, SessionState
from agentrail.core.session.step_context import StepContext
from agentrail.messages import SessionId

REASON: Final = "not in this branch"
"""Why a cycle is over that was open where a branch begins."""

NOT_IN_THIS_BRANCH: Final = "[Not in this branch: this call was open where the branch begins]"
"""What the model reads as the result of a call that was."""


def without_what_was_open(state: SessionState, at_ms: int) -> SessionState:
    """Give the state from which a branch goes on: in idle, with nothing open.

    Plugins are asked once where a cycle ends by this, as for every cycle that is broken off; what they want then does not begin.
    """
    step = StepContext(state.data, at_ms, suspended=state.suspended)
    step.give_up_all()
    data = step.data
    data.queue = data.steers = ()
    data.held = None
    batch.detached_gone_in_a_branch(step)
    data.survivors = ()
    data.teardown = data.stopping = None
    data.stoppers = ()
    compaction.forget_compaction(step)
    for interaction in data.interactions:
        interactions.close_interaction(step, interaction, "aborted", "abort")
    agents.forget_all(step, REASON)
    if data.ledger is not None:
        data.ledger = msgspec.structs.replace(data.ledger, open=())
    data.loans = data.wishes = ()
    if data.cycle is not None:
        _end_cycle(step)
    settings.apply_updates(step)
    step.give_up_all()  # of what plugins have asked for just now, too
    closed = msgspec.structs.replace(step.close(), seq=state.data.seq)
    return SessionState(Phase.IDLE, closed)


def forked_state(state: SessionState, config: SessionConfig, at_ms: int) -> SessionState:
    """Give the state that a fork begins with, in front of its first signal.

    The conversation, what plugins know, what people always allow, and what was spent are those of the state. A message that is sent
    again is a new one: its receipt was of another session.
    """
    branch = without_what_was_open(state, at_ms)
    data = branch.data
    return msgspec.structs.replace(
        branch,
        data=msgspec.structs.replace(
            data,
            config=config,
            ledger=_ledger_of(data, config),
            remembered=(),
            dropped=0,
            quarantined=0,
            incarnation=1,
            started_at_ms=0,
            semantics=SEMANTICS,
        ),
    )


def config_of_fork(config: SessionConfig, session_id: SessionId) -> SessionConfig:
    """Give what a fork is set up with where nothing else is wanted: all as it was, but for its id. It is a root."""
    return msgspec.structs.replace(config, session_id=session_id, path=(session_id,))


def _end_cycle(step: StepContext) -> None:
    if step.data.batch:
        for state in step.data.batch:
            if state.result is not None:
                calls.put(step, msgspec.structs.replace(state, stage="done", effect_id=None))
            else:
                calls.put(step, calls.answer(step, state, NOT_IN_THIS_BRANCH)[0])
        into_history(step)
    interactions.end_wait(step, "stop")
    close_cycle(step, "aborted", reason=REASON)


def _ledger_of(data: SessionData, config: SessionConfig) -> Ledger | None:
    """Give the budget of a fork: its limits are those that it is set up with, and what was spent is spent."""
    if config.budget == data.config.budget:
        return data.ledger  # also where it was raised since
    if config.budget is None:
        return None
    spent = spent_of(data.usage, data.ledger)
    return Ledger(
        budget=config.budget,
        spent_tokens=spent.tokens,
        spent_nano_usd=spent.nano_usd,
        is_cost_known=spent.is_cost_known,
    )
