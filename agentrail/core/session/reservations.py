"""Spending of a session: each request is reserved before it is sent, and settled however it ends.

`policy.budget` defines limits and sums.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, repeat

from msgspec.structs import replace

from agentrail.core.policy.budget import (
    NOTHING_SPENT,
    Bound,
    Budget,
    BudgetRefusal,
    Ledger,
    ReservationId,
    Spent,
    bound_of,
    lend,
    lend_at_most,
    limit_cycle,
    raised,
    reserve,
    settle,
    spent_of,
    spent_since,
    take_back,
)
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.policy.request_context import BYTES_PER_TOKEN, TokenCount, fixed_tokens_of, tokens_of
from agentrail.core.protocol.actions import CallModel
from agentrail.core.protocol.request import EffectId, ModelFacts, ModelRequest
from agentrail.core.protocol.signals import BudgetLent
from agentrail.core.session.agent_records import AgentState
from agentrail.core.session.state import Known, Phase
from agentrail.core.session.step_context import StepContext, context_tokens
from agentrail.core.session.views import model_of, models_of, system_prompt_of, tools_of
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import ErrorInfo
from agentrail.messages import Message, Text, TokenUsage, UserMessage


def reserve_request(
    step: StepContext,
    request: ModelRequest,
    *,
    notes: int = 0,
    is_handed: bool = False,
    added_tokens: int = 0,
) -> ErrorInfo | None:
    ledger = step.data.ledger
    if ledger is None:
        return None
    facts = model_of(step.data)
    limit = request.max_output_tokens or facts.max_output_tokens
    sent = count_tokens(step, request, notes=notes, is_handed=is_handed) + added_tokens
    bound = bound_of(sent, limit, facts.price)
    decided = reserve(ledger, _reservation_of(step.data, request.attempt), bound)
    if isinstance(decided, BudgetRefusal):
        settings = None if step.data.cycle is None else step.data.cycle.settings  # a summary needs no cycle
        if settings is None or settings.max_cost_usd is None:
            return decided.error
        return replace(
            decided, message=f"{decided.message} (this cycle may cost ${settings.max_cost_usd:.6f})"
        ).error
    step.data.ledger = decided
    return None


def lend_to_cycle(step: StepContext, settings: PromptSettings) -> None:
    """Limit the cost of a cycle before it starts, if its settings do. Otherwise it shares the limit of the last one."""
    if settings.max_cost_usd is None:
        return
    data, ledger = step.data, step.data.ledger
    if ledger is None:  # children that began without a budget reserve nothing, and are booked when they end
        loans = {*data.loans, *[one.loan for one in data.agents.states if one.loan is not None]}
        free = [(_reservation_of(data, one), Bound(tokens=0, nano_usd=0)) for one in sorted(loans)]
        ledger = Ledger(budget=Budget(max_cost_usd=settings.max_cost_usd), open=tuple(free))
    data.ledger = limit_cycle(ledger, settings.max_cost_usd, data.config.budget)


def reserve_plugin_request(step: StepContext, effect_id: EffectId, wanted: CallModel) -> ErrorInfo | None:
    ledger = step.data.ledger
    if ledger is None:
        return None
    input_tokens, facts = _question(step, wanted)
    bound = bound_of(input_tokens, wanted.max_output_tokens, facts.price)
    decided = reserve(ledger, _reservation_of(step.data, effect_id), bound)
    if isinstance(decided, BudgetRefusal):
        return decided.error
    step.data.ledger = decided
    return None


def spend(step: StepContext, usage: TokenUsage) -> None:
    cycle = step.cycle
    step.data.cycle = replace(cycle, usage=cycle.usage + usage)
    step.data.usage += usage
    ledger = step.data.ledger
    if ledger is not None:
        reservation = _reservation_of(step.data, step.stream.effect_id)
        step.data.ledger = settle(ledger, reservation, usage)


def book(step: StepContext, effect_id: EffectId, usage: TokenUsage | None) -> None:
    """Book a request outside of a turn. If its usage is None, unknown, the whole reservation is booked."""
    if usage is not None:
        _count(step, usage)
    ledger = step.data.ledger
    if ledger is not None:
        step.data.ledger = settle(ledger, _reservation_of(step.data, effect_id), usage)


def book_lost(step: StepContext, effect_id: EffectId, input_tokens: int, facts: ModelFacts) -> None:
    """Book a request outside of a turn whose final usage is lost, same as `spend_lost`."""
    if step.data.semantics > 0:
        _count(step, _estimated(TokenUsage(input=input_tokens), facts))
    book(step, effect_id, None)


def book_lost_question(step: StepContext, effect_id: EffectId, wanted: CallModel) -> None:
    book_lost(step, effect_id, *_question(step, wanted))


def _question(step: StepContext, wanted: CallModel) -> tuple[int, ModelFacts]:
    """Return the estimated input of a plugin's model call, and the facts about its model."""
    model = wanted.model or model_of(step.data).model
    known = {facts.model: facts for facts in models_of(step.data)}
    said = UserMessage(content=(Text(text=wanted.prompt),))
    input_tokens = fixed_tokens_of(wanted.system, Toolbox()) + tokens_of((said,))
    return input_tokens, known.get(model) or ModelFacts(model=model)


def lend_to_child(step: StepContext, effect_id: EffectId, shares: int) -> Budget | ErrorInfo | None:
    lent = lend_to_agent(step, effect_id, shares, None)
    if not isinstance(lent, ErrorInfo):
        step.data.loans = (*step.data.loans, effect_id)
    return lent


def lend_to_agent(
    step: StepContext, loan: EffectId, shares: int, own: Budget | None
) -> Budget | ErrorInfo | None:
    ledger = step.data.ledger
    if ledger is None:
        return own
    reservation = _reservation_of(step.data, loan)
    decided = lend(ledger, reservation, shares) if own is None else lend_at_most(ledger, reservation, own)
    if isinstance(decided, BudgetRefusal):
        return decided.error
    step.data.ledger, share = decided
    return share


def settle_agent(step: StepContext, loan: EffectId | None, spent: Spent | None) -> None:
    """Book an agent's usage since the last count, and release its loan. None: unknown usage."""
    if spent is not None:
        _count(step, spent.usage)
    ledger = step.data.ledger
    if ledger is not None and loan is not None:
        step.data.ledger = take_back(ledger, _reservation_of(step.data, loan), spent)


def raise_budget(step: StepContext, signal: BudgetLent) -> None:
    """Raise the limits by this amount. Without a ledger nothing is limited, and nothing changes."""
    if step.data.ledger is not None:
        step.data.ledger = raised(step.data.ledger, signal.budget)


def settle_loan(step: StepContext, effect_id: EffectId, spent: Spent | None) -> None:
    """Book the usage of a child, however its call ended. None: unknown usage.

    A call without a child has nothing to settle, except usage that its outcome reports.
    """
    is_lent = effect_id in step.data.loans
    if is_lent:
        step.data.loans = tuple(loan for loan in step.data.loans if loan != effect_id)
    settle_agent(step, effect_id if is_lent else None, spent)


def settle_lost_loans(step: StepContext, loans: Iterable[EffectId], spent: Iterable[Spent]) -> None:
    """Book lost children. `spent` is the usage of those whose usage is known, in any order."""
    for loan, one in _with_usage(step.data, loans, spent):
        settle_loan(step, loan, one)


def spent_with_lost(
    data: Known, spent: Iterable[Spent], of_agents: Iterable[tuple[AgentState, Spent]] = ()
) -> Spent:
    """Return the usage of a lost session, with the known usage of its lost children and the total of each lost agent."""
    usage, ledger = data.usage, data.ledger
    for loan, one in _with_usage(data, data.loans, spent):
        usage += NOTHING_SPENT.usage if one is None else one.usage
        ledger = ledger and take_back(ledger, _reservation_of(data, loan), one)
    for agent, total in of_agents:
        since = spent_since(total, agent.spent)
        usage += since.usage
        if ledger is not None and agent.loan is not None:
            ledger = take_back(ledger, _reservation_of(data, agent.loan), since)
    return spent_of(usage, ledger)


def _with_usage(
    data: Known, loans: Iterable[EffectId], spent: Iterable[Spent]
) -> Iterable[tuple[EffectId, Spent | None]]:
    """Pair loans with usage, the smallest first. Unknown usage gets the largest, so no budget counts too little."""
    lent = {} if data.ledger is None else {held: (one.tokens, one.nano_usd) for held, one in data.ledger.open}
    ascending = sorted(loans, key=lambda loan: lent.get(_reservation_of(data, loan), ()))
    known = sorted(spent, key=lambda one: (one.tokens, one.nano_usd))[-len(ascending) :]
    return zip(ascending, chain(known, repeat(None)), strict=False)


def spend_on_failure(step: StepContext, phase: Phase, usage: TokenUsage | None) -> None:
    """Book a failed request. None: the session stops waiting for it.

    A request refused before its first chunk has used nothing, unless the server reports usage.
    """
    if usage is None or (phase is Phase.STREAMING and not usage.total):
        spend_lost(step)
    else:
        spend(step, usage)


def spend_lost(step: StepContext) -> None:
    """Book a request whose final usage is lost. Users see an estimate, and the budget counts the whole reservation.

    The server may charge for text that never arrived, so with an estimate a budget could be exceeded by requests
    that were cut off.
    """
    usage = _lost_usage(step)
    _count(step, usage)
    ledger = step.data.ledger
    if ledger is not None:
        booked = usage if step.data.semantics == 0 else None
        step.data.ledger = settle(ledger, _reservation_of(step.data, step.stream.effect_id), booked)


def spend_what_is_out(step: StepContext, *, keep: Sequence[EffectId] = ()) -> None:
    """Book all open reservations, because their outcomes are lost: the actor crashed, or the session ends.

    Loans of agents that survive a crash are kept: `keep`.
    """
    ledger = step.data.ledger
    if ledger is not None:
        kept = {_reservation_of(step.data, loan) for loan in keep}
        for reservation in [one for one, _ in ledger.open if one not in kept]:
            ledger = settle(ledger, reservation, None)
        step.data.ledger = ledger
    step.data.loans = ()


def learn_from(step: StepContext, usage: TokenUsage) -> None:
    data = step.data
    if step.cycle.handed is not None:  # the model read another conversation
        return
    # The count includes the context gathered for this turn, which the next turn does not have.
    step.data.tokens = data.tokens.reported(usage, len(data.history), added_tokens=context_tokens(data))


def count_tokens(step: StepContext, request: ModelRequest, *, notes: int = 0, is_handed: bool = False) -> int:
    """Estimate a request. Counted messages are not counted again, and omitted ones still count.

    If plugins handed on other messages, only those count, and the history is counted again afterwards.
    """
    fixed = request.tools.size_with(request.system, fixed_tokens_of)
    if is_handed:
        return count_handed(step, fixed, request.messages)
    return count_history(step, fixed) + tokens_of(request.messages[len(request.messages) - notes :])


def count_history(step: StepContext, fixed: int) -> int:
    """Estimate the conversation and everything before it. Counted messages are not counted again."""
    known = step.data.tokens
    if known.fixed != fixed:  # other tools or another prompt: the reported count contains the old ones
        known = TokenCount(fixed=fixed)
    known = step.data.tokens = known.grown(step.data.history.messages)
    return known.tokens


def count_handed(step: StepContext, fixed: int, messages: Sequence[Message]) -> int:
    """Estimate the messages handed on by plugins and everything before them. The history is counted again afterwards."""
    tokens = fixed + tokens_of(messages)
    step.data.tokens = TokenCount(fixed=fixed, tokens=tokens)
    return tokens


def fixed_of(data: Known) -> int:
    """Estimate everything before the conversation in the next request."""
    return tools_of(data).size_with(system_prompt_of(data), fixed_tokens_of)


def _lost_usage(step: StepContext) -> TokenUsage:
    """Estimate the usage of a request that ended early: all of its input, and the text that arrived.

    Usage reported by its server counts. Only the text that arrived later may be missing in it.
    """
    said = sum(len(text.encode("utf-8", "surrogatepass")) for text in step.stream.text)
    known = step.stream.usage or TokenUsage(input=step.data.tokens.tokens + context_tokens(step.data))
    written = max(known.output, -(-said // BYTES_PER_TOKEN))
    return _estimated(replace(known, output=written), model_of(step.data))


def _estimated(usage: TokenUsage, facts: ModelFacts) -> TokenUsage:
    usage = replace(usage, cost_usd=None, estimated=True)
    return usage if facts.price is None else replace(usage, cost_usd=facts.price.cost_usd(usage))


def _count(step: StepContext, usage: TokenUsage) -> None:
    cycle = step.data.cycle
    step.data.usage += usage
    if cycle is not None:
        step.data.cycle = replace(cycle, usage=cycle.usage + usage)


def _reservation_of(data: Known, attempt: EffectId) -> ReservationId:
    return ReservationId(f"{data.config.session_id}/{attempt}")
