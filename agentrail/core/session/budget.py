"""What a session spends: each request is reserved before it goes out, and settled by whatever way it ends.

What may be spent, and how sums are kept, stands in `budget`. A session without a budget keeps no ledger and estimates nothing.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from agentrail.core.policy.budget import (
    Budget,
    BudgetRefusal,
    ReservationId,
    Spent,
    bound_of,
    lend,
    lend_at_most,
    raised,
    reserve,
    settle,
    take_back,
)
from agentrail.core.policy.context import BYTES_PER_TOKEN, TokenCount, fixed_tokens_of, tokens_of
from agentrail.core.protocol.actions import CallModel
from agentrail.core.protocol.request import EffectId, ModelFacts, ModelRequest
from agentrail.core.session.projection import model_of, models_of, system_prompt_of
from agentrail.core.session.state import Known, Phase
from agentrail.core.session.step_context import StepContext, context_tokens
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
    """Promise a request what it may use at most."""
    ledger = step.data.ledger
    if ledger is None:
        return None
    facts = model_of(step.data)
    limit = request.max_output_tokens or facts.max_output_tokens
    sent = count_tokens(step, request, notes=notes, is_handed=is_handed) + added_tokens
    bound = bound_of(sent, limit, facts.price)
    decided = reserve(ledger, _reservation_of(step.data, request.attempt), bound)
    if isinstance(decided, BudgetRefusal):
        return decided.error
    step.data.ledger = decided
    return None


def reserve_plugin_request(step: StepContext, effect_id: EffectId, wanted: CallModel) -> ErrorInfo | None:
    """Promise a plugin's question to a model what it may use at most."""
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
    """Book what the request that is out has used: it is over."""
    cycle = step.cycle
    step.data.cycle = msgspec.structs.replace(cycle, usage=cycle.usage + usage)
    step.data.usage += usage
    ledger = step.data.ledger
    if ledger is not None:
        reservation = _reservation_of(step.data, step.stream.effect_id)
        step.data.ledger = settle(ledger, reservation, usage)


def book(step: StepContext, effect_id: EffectId, usage: TokenUsage | None) -> None:
    """Book a request that no turn waits for; None: what it used is unknown, so all that was reserved is booked."""
    if usage is not None:
        _count(step, usage)
    ledger = step.data.ledger
    if ledger is not None:
        step.data.ledger = settle(ledger, _reservation_of(step.data, effect_id), usage)


def book_lost(step: StepContext, effect_id: EffectId, input_tokens: int, facts: ModelFacts) -> None:
    """Book a request that no turn waits for, and whose final usage will not come; as `spend_lost`."""
    if step.data.semantics > 0:
        _count(step, _estimated(TokenUsage(input=input_tokens), facts))
    book(step, effect_id, None)


def book_lost_question(step: StepContext, effect_id: EffectId, wanted: CallModel) -> None:
    """Book a plugin's question to a model whose final usage will not come."""
    book_lost(step, effect_id, *_question(step, wanted))


def _question(step: StepContext, wanted: CallModel) -> tuple[int, ModelFacts]:
    """Estimate what a plugin's question sends, and say what is known of its model."""
    model = wanted.model or model_of(step.data).model
    known = {facts.model: facts for facts in models_of(step.data)}
    said = UserMessage(content=(Text(text=wanted.prompt),))
    input_tokens = fixed_tokens_of(wanted.system, Toolbox()) + tokens_of((said,))
    return input_tokens, known.get(model) or ModelFacts(model=model)


def lend_to_child(step: StepContext, effect_id: EffectId, shares: int) -> Budget | ErrorInfo | None:
    """Lend a child its share of what is left."""
    ledger = step.data.ledger
    share = None
    if ledger is not None:
        decided = lend(ledger, _reservation_of(step.data, effect_id), shares)
        if isinstance(decided, BudgetRefusal):
            return decided.error
        ledger, share = decided
    step.data.ledger = ledger
    step.data.loans = (*step.data.loans, effect_id)
    return share


def lend_to_agent(
    step: StepContext, loan: EffectId, shares: int, own: Budget | None
) -> Budget | ErrorInfo | None:
    """Lend an agent in the background what its next cycle may spend."""
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
    """Count what an agent has used since it was last counted, and take back what it was lent; None: unknown."""
    if spent is not None:
        _count(step, spent.usage)
    ledger = step.data.ledger
    if ledger is not None and loan is not None:
        step.data.ledger = take_back(ledger, _reservation_of(step.data, loan), spent)


def raise_budget(step: StepContext, more: Budget) -> None:
    """Let as much be spent from now on; without a ledger nothing is limited, and nothing changes."""
    if step.data.ledger is not None:
        step.data.ledger = raised(step.data.ledger, more)


def settle_loan(step: StepContext, effect_id: EffectId, spent: Spent | None) -> None:
    """Count what a child has used, however its call ended; None: unknown.

    A call without a child has nothing to settle, except what its outcome says all the same.
    """
    if effect_id not in step.data.loans:
        if spent is not None:
            _count(step, spent.usage)
        return
    step.data.loans = tuple(loan for loan in step.data.loans if loan != effect_id)
    if spent is not None:
        _count(step, spent.usage)
    ledger = step.data.ledger
    if ledger is not None:
        step.data.ledger = take_back(ledger, _reservation_of(step.data, effect_id), spent)


def spend_on_failure(step: StepContext, phase: Phase, usage: TokenUsage | None) -> None:
    """Book a failed request; None: its end is not waited for.

    A request that was refused before its first chunk has used nothing, unless the server says so.
    """
    if usage is None or (phase is Phase.STREAMING and not usage.total):
        spend_lost(step)
    else:
        spend(step, usage)


def spend_lost(step: StepContext) -> None:
    """Book a request whose final usage will not come. Users read an estimate; the budget counts all that was reserved.

    The server may charge for words that never arrived, so an estimate would let a budget be passed by what was cut off.
    """
    usage = _lost_usage(step)
    _count(step, usage)
    ledger = step.data.ledger
    if ledger is not None:
        booked = usage if step.data.semantics == 0 else None
        step.data.ledger = settle(ledger, _reservation_of(step.data, step.stream.effect_id), booked)


def spend_what_is_out(step: StepContext, *, keep: Sequence[EffectId] = ()) -> None:
    """Book all that is reserved, because it will not be heard of again: the actor crashed, or the session ends.

    Not what is lent to agents that a crash leaves alive: `keep`.
    """
    ledger = step.data.ledger
    if ledger is not None:
        kept = {_reservation_of(step.data, loan) for loan in keep}
        for reservation in [one for one, _ in ledger.open if one not in kept]:
            ledger = settle(ledger, reservation, None)
        step.data.ledger = ledger
    step.data.loans = ()


def learn_from(step: StepContext, usage: TokenUsage) -> None:
    """Take the vendor's word for the length of the conversation, with its response in the history."""
    data = step.data
    if step.cycle.handed is not None:  # it has read something else
        return
    # What was gathered for this turn is counted by it too, and is not there in the next one.
    step.data.tokens = data.tokens.reported(usage, len(data.history), added_tokens=context_tokens(data))


def count_tokens(step: StepContext, request: ModelRequest, *, notes: int = 0, is_handed: bool = False) -> int:
    """Estimate a request; what was counted once is not counted again, and what is left out of it counts all the same.

    Not where plugins handed other messages on: those alone count, and the history is counted anew after them.
    """
    fixed = request.tools.size_with(request.system, fixed_tokens_of)
    if is_handed:
        return count_handed(step, fixed, request.messages)
    return count_history(step, fixed) + tokens_of(request.messages[len(request.messages) - notes :])


def count_history(step: StepContext, fixed: int) -> int:
    """Estimate the conversation with what stands before it; what was counted once is not counted again."""
    known = step.data.tokens
    if known.fixed != fixed:  # other tools or another prompt: what was reported contains the old ones
        known = TokenCount(fixed=fixed)
    known = step.data.tokens = known.grown(step.data.history.messages)
    return known.tokens


def count_handed(step: StepContext, fixed: int, messages: Sequence[Message]) -> int:
    """Estimate what plugins handed on with what stands before it; the history is counted anew after that."""
    tokens = fixed + tokens_of(messages)
    step.data.tokens = TokenCount(fixed=fixed, tokens=tokens)
    return tokens


def fixed_of(data: Known) -> int:
    """Estimate what stands before the conversation in the next request."""
    return data.tools.size_with(system_prompt_of(data), fixed_tokens_of)


def _lost_usage(step: StepContext) -> TokenUsage:
    """Estimate what a request has used that ends in the middle: all of its input, and the text that came.

    What its server has said by then counts; only the text that came since may be missing in it.
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
        step.data.cycle = msgspec.structs.replace(cycle, usage=cycle.usage + usage)


def _reservation_of(data: Known, attempt: EffectId) -> ReservationId:
    return ReservationId(f"{data.config.session_id}/{attempt}")
