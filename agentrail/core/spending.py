"""What a session spends: each request is reserved before it goes out, and settled by whatever way it ends.

What may be spent, and how sums are kept, stands in `budget`. A session without a budget keeps no ledger and estimates nothing.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from agentrail.core.actions import CallModel
from agentrail.core.budget import (
    Budget,
    Refusal,
    ReservationId,
    Spent,
    bound_of,
    lend,
    reserve,
    settle,
    take_back,
)
from agentrail.core.estimates import BYTES_PER_TOKEN, TokenCount, fixed_tokens_of, tokens_of
from agentrail.core.projection import model_of, models_of, system_prompt_of
from agentrail.core.request import EffectId, ModelFacts, ModelRequest
from agentrail.core.state import Known, Phase
from agentrail.core.toolbox import Toolbox
from agentrail.core.work import Work
from agentrail.errors import ErrorInfo
from agentrail.messages import Message, Text, TokenUsage, UserMessage


def reserve_request(
    work: Work, request: ModelRequest, *, notes: int = 0, is_handed: bool = False
) -> ErrorInfo | None:
    """Promise a request what it may use at most.

    Args:
        work: The step.
        request: The request.
        notes: How many of its last messages are none of the history's.
        is_handed: Whether plugins handed its messages on, in place of the history's.

    Returns:
        None when it may go out; else the error that ends the cycle.
    """
    ledger = work.data.ledger
    if ledger is None:
        return None
    facts = model_of(work.data)
    limit = request.max_output_tokens or facts.max_output_tokens
    bound = bound_of(count_tokens(work, request, notes=notes, is_handed=is_handed), limit, facts.price)
    decided = reserve(ledger, _reservation_of(work.data, request.attempt), bound)
    if isinstance(decided, Refusal):
        return decided.error
    work.data.ledger = decided
    return None


def reserve_errand(work: Work, effect_id: EffectId, wanted: CallModel) -> ErrorInfo | None:
    """Promise a plugin's question to a model what it may use at most.

    Args:
        work: The step.
        effect_id: Of the errand.
        wanted: The question, with its model.

    Returns:
        None when it may be asked; else why not.
    """
    ledger = work.data.ledger
    if ledger is None:
        return None
    known = {facts.model: facts for facts in models_of(work.data)}
    model = wanted.model or ""
    facts = known.get(model) or ModelFacts(model=model)
    said = UserMessage(content=(Text(text=wanted.prompt),))
    input_tokens = fixed_tokens_of(wanted.system, Toolbox()) + tokens_of((said,))
    bound = bound_of(input_tokens, wanted.max_output_tokens, facts.price)
    decided = reserve(ledger, _reservation_of(work.data, effect_id), bound)
    if isinstance(decided, Refusal):
        return decided.error
    work.data.ledger = decided
    return None


def spend(work: Work, usage: TokenUsage) -> None:
    """Book what the request that is out has used: it is over."""
    cycle = work.cycle
    work.data.cycle = msgspec.structs.replace(cycle, usage=cycle.usage + usage)
    work.data.usage += usage
    ledger = work.data.ledger
    if ledger is not None:
        reservation = _reservation_of(work.data, work.stream.effect_id)
        work.data.ledger = settle(ledger, reservation, usage)


def book(work: Work, effect_id: EffectId, usage: TokenUsage | None) -> None:
    """Book a request that no turn waits for; None: nobody knows what it used, so all that was reserved is booked."""
    if usage is not None:
        _count(work, usage)
    ledger = work.data.ledger
    if ledger is not None:
        work.data.ledger = settle(ledger, _reservation_of(work.data, effect_id), usage)


def lend_to_child(work: Work, effect_id: EffectId, shares: int) -> Budget | ErrorInfo | None:
    """Lend a child its share of what is left.

    Args:
        work: The step.
        effect_id: Of the child.
        shares: How many want a child and have none yet, this one included.

    Returns:
        What the child may spend; None without a budget; or the error that answers the call.
    """
    ledger = work.data.ledger
    share = None
    if ledger is not None:
        decided = lend(ledger, _reservation_of(work.data, effect_id), shares)
        if isinstance(decided, Refusal):
            return decided.error
        ledger, share = decided
    work.data.ledger = ledger
    work.data.loans = (*work.data.loans, effect_id)
    return share


def settle_loan(work: Work, effect_id: EffectId, spent: Spent | None) -> None:
    """Count what a child has used, however its call ended; None: nobody knows.

    A call without a child has nothing to settle, except what its outcome says all the same.
    """
    if effect_id not in work.data.loans:
        if spent is not None:
            _count(work, spent.usage)
        return
    work.data.loans = tuple(loan for loan in work.data.loans if loan != effect_id)
    if spent is not None:
        _count(work, spent.usage)
    ledger = work.data.ledger
    if ledger is not None:
        work.data.ledger = take_back(ledger, _reservation_of(work.data, effect_id), spent)


def spend_on_failure(work: Work, phase: Phase, usage: TokenUsage) -> None:
    """Book a request that failed.

    One that was refused before its first chunk has used nothing, unless the server says so; of one that broke off nobody
    knows, so it is estimated.
    """
    is_lost = phase is Phase.STREAMING and not usage.total
    spend(work, lost_usage(work) if is_lost else usage)


def spend_on_abort(work: Work) -> None:
    """Book a request that is out and whose end nobody waits for."""
    spend(work, lost_usage(work))


def spend_what_is_out(work: Work) -> None:
    """Book all that is reserved, because nobody will hear of it again: the actor crashed, or the session ends."""
    ledger = work.data.ledger
    if ledger is not None:
        for reservation, _ in ledger.open:
            ledger = settle(ledger, reservation, None)
        work.data.ledger = ledger
    work.data.loans = ()


def learn_from(work: Work, usage: TokenUsage) -> None:
    """Take the vendor's word for the length of the conversation, with its response in the history."""
    data = work.data
    if work.cycle.handed is not None:  # it has read something else
        return
    work.data.tokens = data.tokens.reported(usage, len(data.history))


def count_tokens(work: Work, request: ModelRequest, *, notes: int = 0, is_handed: bool = False) -> int:
    """Estimate a request; what was counted once is not counted again, and what is left out of it counts all the same.

    Not where plugins handed other messages on: those alone count, and the history is counted anew after them.
    """
    fixed = request.tools.size_with(request.system, fixed_tokens_of)
    if is_handed:
        return count_handed(work, fixed, request.messages)
    return count_history(work, fixed) + tokens_of(request.messages[len(request.messages) - notes :])


def count_history(work: Work, fixed: int) -> int:
    """Estimate the conversation with what stands before it; what was counted once is not counted again."""
    known = work.data.tokens
    if known.fixed != fixed:  # other tools or another prompt: what was reported contains the old ones
        known = TokenCount(fixed=fixed)
    known = work.data.tokens = known.grown(work.data.history.messages)
    return known.tokens


def count_handed(work: Work, fixed: int, messages: Sequence[Message]) -> int:
    """Estimate what plugins handed on with what stands before it; the history is counted anew after that."""
    tokens = fixed + tokens_of(messages)
    work.data.tokens = TokenCount(fixed=fixed, tokens=tokens)
    return tokens


def fixed_of(data: Known) -> int:
    """Estimate what stands before the conversation in the next request."""
    return data.tools.size_with(system_prompt_of(data), fixed_tokens_of)


def lost_usage(work: Work) -> TokenUsage:
    """Estimate what a request has used that ends in the middle: all of its input, and the text that came.

    What its server has said by then counts; only the text that came since may be missing in it.
    """
    said = sum(len(text.encode("utf-8", "surrogatepass")) for text in work.stream.text)
    known = work.stream.usage or TokenUsage(input=work.data.tokens.tokens)
    usage = replace(
        known, output=max(known.output, -(-said // BYTES_PER_TOKEN)), cost_usd=None, estimated=True
    )
    price = model_of(work.data).price
    return usage if price is None else replace(usage, cost_usd=price.cost_usd(usage))


def _count(work: Work, usage: TokenUsage) -> None:
    cycle = work.data.cycle
    work.data.usage += usage
    if cycle is not None:
        work.data.cycle = msgspec.structs.replace(cycle, usage=cycle.usage + usage)


def _reservation_of(data: Known, attempt: EffectId) -> ReservationId:
    return ReservationId(f"{data.config.session_id}/{attempt}")
