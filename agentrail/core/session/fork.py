"""A branch from an earlier state of a session: everything open at that point is closed, and nothing of it is waited for. Pure."""

from typing import Final

from msgspec.structs import replace

from agentrail.core.policy.budget import Ledger, spent_of, without_cycle_limit
from agentrail.core.session import (
    agent_pool,
    batch,
    call_results,
    compaction_run,
    cycle as settings,
    interactions,
)
from agentrail.core.session.batch import into_history
from agentrail.core.session.cycle import close_cycle
from agentrail.core.session.state import SEMANTICS, Phase, SessionConfig, SessionData, SessionState
from agentrail.core.session.step_context import StepContext
from agentrail.messages import SessionId

REASON: Final = "not in this branch"
"""The reason of a cycle that was open at the start of a branch."""

NOT_IN_THIS_BRANCH: Final = "[Not in this branch: this call was open where the branch begins]"
"""The result, for the model, of a call that was open."""


def without_what_was_open(state: SessionState, at_ms: int, semantics: int = SEMANTICS) -> SessionState:
    """Return the state from which a branch continues: idle, with nothing open and no limit of a cycle.

    Plugins are asked once if this ends a cycle, as for every aborted cycle. Their requests do not start.
    `semantics` is the version of the decisions of the branch, not of the given state.
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
    compaction_run.forget_compaction(step)
    for interaction in data.interactions:
        interactions.close_interaction(step, interaction, "aborted", "abort")
    agent_pool.forget_all(step, REASON)
    own = data.config.budget
    if data.ledger is not None:  # without a budget of the session, it has only the limit of the last cycle
        data.ledger = None if own is None else replace(data.ledger, open=())
    data.loans = data.wishes = ()
    if data.cycle is not None:
        _end_cycle(step)
    settings.apply_updates(step)
    step.give_up_all()  # also the requests that plugins made just now
    if data.ledger is not None and own is not None and semantics > 3:  # noqa: PLR2004 - a version
        data.ledger = replace(without_cycle_limit(data.ledger, own), open=())
    closed = replace(step.close(), seq=state.data.seq)
    return SessionState(Phase.IDLE, closed)


def forked_state(state: SessionState, config: SessionConfig, at_ms: int) -> SessionState:
    """Return the initial state of a fork, before its first signal.

    The conversation, the states of plugins, the user's rules and the spending are those of the given state. A
    message sent again is a new one, because its receipt belonged to another session.
    """
    branch = without_what_was_open(state, at_ms)
    data = branch.data
    return replace(
        branch,
        data=replace(
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
    """Return the default configuration of a fork: unchanged, except for its id. It is a root."""
    return replace(config, session_id=session_id, path=(session_id,))


def _end_cycle(step: StepContext) -> None:
    if step.data.batch:
        for state in step.data.batch:
            if state.result is not None:
                call_results.put(step, replace(state, stage="done", effect_id=None))
            else:
                call_results.put(step, call_results.answer(step, state, NOT_IN_THIS_BRANCH)[0])
        into_history(step)
    interactions.end_wait(step, "stop")
    close_cycle(step, "aborted", reason=REASON)


def _ledger_of(data: SessionData, config: SessionConfig) -> Ledger | None:
    """Return the budget of a fork: the limits of its configuration, and the spending so far."""
    if config.budget == data.config.budget:
        return data.ledger  # even if it was raised since
    if config.budget is None:
        return None
    spent = spent_of(data.usage, data.ledger)
    return Ledger(
        budget=config.budget,
        spent_tokens=spent.tokens,
        spent_nano_usd=spent.nano_usd,
        is_cost_known=spent.is_cost_known,
    )
