"""Recorded turns asked again: each request of the other stack goes to a model, and its answer is compared with the recorded one.

No tool runs. The recorded results answer the calls of the model as long as tools and arguments are equal.
"""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

from attrs import frozen
from msgspec.structs import replace

from agentrail.abc import Provider
from agentrail.core.policy.budget import BudgetRefusal, Ledger, ReservationId, bound_of, reserve, settle
from agentrail.core.policy.request_context import fixed_tokens_of, tokens_of
from agentrail.core.protocol.effects import StartStream
from agentrail.core.protocol.request import Completed, ModelRequest
from agentrail.core.protocol.signals import ResponseCompleted
from agentrail.errors import ProviderError
from agentrail.evals.journals import StackComparison
from agentrail.frozen import same_json
from agentrail.messages import AssistantMessage, PromptRef, Text, TokenUsage
from agentrail.runtime.model_lookup import facts_of, priced

_MOST_LETTERS: Final = 4_000
"""Characters of two texts together that are compared one by one."""


@frozen
class RecordedTurn:
    """A request of the other stack, with the record and the cycle that it is in, and the recorded answer."""

    record: int
    cycle: PromptRef | None
    request: ModelRequest
    answer: AssistantMessage


@frozen
class AskedTurn:
    """A turn that was asked again: how like the texts are, from 0 to 1, and whether the calls are equal."""

    record: int
    likeness: float
    same_calls: bool
    calls: tuple[str, ...]


def recorded_turns(found: StackComparison) -> Iterator[RecordedTurn]:
    """Yield the answered turns of a session, up to the record from which it is open."""
    waiting: tuple[str, int, PromptRef | None, ModelRequest] | None = None
    for walked, mine in found.steps():
        if (
            waiting is not None
            and isinstance(walked.signal, ResponseCompleted)
            and walked.signal.effect_id == waiting[0]
        ):
            yield RecordedTurn(*waiting[1:], answer=walked.signal.message)
        theirs, ours = (
            [one for one in side.effects if isinstance(one, StartStream)] for side in (walked, mine)
        )
        if theirs and ours and not theirs[0].is_quiet and found.open_from is None:
            cycle = mine.after.data.cycle
            ref = None if cycle is None else cycle.ref
            waiting = theirs[0].request.attempt, walked.record.seq, ref, ours[0].request


async def ask_turns(
    turns: Iterator[RecordedTurn], model: str, provider: Provider, ledger: Ledger
) -> tuple[list[AskedTurn], Ledger, str]:
    """Ask the turns of a session again. A cycle ends at its first turn whose calls differ.

    Returns:
        The turns, the ledger with their cost, and why the rest was not asked. Empty if all were.
    """
    asked: list[AskedTurn] = []
    ended: PromptRef | None = None
    before: tuple[PromptRef | None, int, AssistantMessage] | None = None
    facts = facts_of(model, provider)
    for turn in turns:
        if turn.cycle == ended is not None:
            continue
        request = replace(turn.request, model=model)
        name = ReservationId(turn.request.attempt)
        # Its own words, with the recorded calls and results.
        if before is not None and before[0] == turn.cycle:
            messages = (*request.messages[: before[1]], before[2], *request.messages[before[1] + 1 :])
            request = replace(request, messages=messages)
        tokens = fixed_tokens_of(request.system, request.tools) + tokens_of(request.messages)
        limit = request.max_output_tokens or facts.max_output_tokens
        decided = reserve(ledger, name, bound_of(tokens, limit, facts.price))
        if isinstance(decided, BudgetRefusal):
            return asked, ledger, decided.message
        try:
            answer, usage = await _answer(provider, request)
        except ProviderError as error:
            return asked, settle(decided, name, None), str(error)
        ledger = settle(decided, name, priced(usage, model, provider))
        likeness = likeness_of(turn.answer.text, answer.text)
        pairs = zip(turn.answer.calls, answer.calls, strict=False)
        equal = (one.name == other.name and same_json(one.arguments, other.arguments) for one, other in pairs)
        same = len(turn.answer.calls) == len(answer.calls) and all(equal)
        asked.append(AskedTurn(turn.record, likeness, same, tuple(one.name for one in answer.calls)))
        ended = ended if same else turn.cycle
        content = (*((Text(text=answer.text),) if answer.text else ()), *turn.answer.calls)
        before = turn.cycle, len(turn.request.messages), replace(answer, content=content)
    return asked, ledger, ""


def likeness_of(one: str, other: str) -> float:
    """Return how alike two texts are, from 0 to 1, and 1 only for equal ones. Long texts are compared word by word: letter by letter takes minutes."""
    if one == other:
        return 1.0
    is_long = len(one) + len(other) > _MOST_LETTERS
    parts: tuple[Sequence[str], Sequence[str]] = (one.split(), other.split()) if is_long else (one, other)
    return min(round(SequenceMatcher(None, *parts, autojunk=is_long).ratio(), 3), 0.999)


async def _answer(provider: Provider, request: ModelRequest) -> tuple[AssistantMessage, TokenUsage]:
    async with provider.open_stream(request) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Completed):
                return chunk.message, chunk.usage
    message = f"the provider of {request.model} ended a stream without its terminal chunk"
    raise ProviderError(message)
