"""Context that is gathered: what others add to the requests of one turn, and that stands nowhere else.

The messages themselves never come here: the shell keeps them by the id of the gathering, joins them to each request of the turn, and
tells how many they are, how long, and what tells them from others. While they are gathered the session is `RUNNING`, and no request
is out. A session that gathers nothing asks one flag per request for it.
"""

import hashlib

from msgspec.structs import replace

from agentrail.core.protocol.effects import CancelPluginRequest, GatherContext
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import ContextGathered
from agentrail.core.session.owners import OfContext
from agentrail.core.session.state import GatheredContext, Known
from agentrail.core.session.step_context import StepContext


def begin_gathering(step: StepContext) -> bool:
    """Ask for what is added to the requests of this turn, unless that is known already, or there is no such thing.

    Returns:
        Whether the request waits for it.
    """
    if not step.data.config.gathers_context:
        return False
    cycle = step.cycle
    if cycle.context is not None:
        return False
    effect_id = step.mint("g")
    step.data.stream = None
    step.data.cycle = replace(cycle, context=GatheredContext(effect_id=effect_id))
    messages = step.data.history.messages if cycle.handed is None else cycle.handed
    step.start(GatherContext(effect_id=effect_id, messages=messages), OfContext())
    return True


def take_context(step: StepContext, signal: ContextGathered) -> GatheredContext:
    """Note what was gathered, for all attempts at this turn."""
    context = GatheredContext(
        effect_id=signal.effect_id,
        is_open=False,
        count=signal.count,
        digest=signal.digest,
        tokens=signal.tokens,
    )
    step.data.cycle = replace(step.cycle, context=context)
    return context


def is_gathering(data: Known) -> bool:
    """Say whether a request waits for what is added to it."""
    return data.cycle is not None and data.cycle.context is not None and data.cycle.context.is_open


def cancel_gathering(step: StepContext) -> tuple[EffectId, ...]:
    """Give up what is being gathered; gives what has to be waited for."""
    context = step.cycle.context
    assert context is not None  # noqa: S101 - the caller looked
    step.cancel(CancelPluginRequest(effect_id=context.effect_id))
    return (context.effect_id,)


def forget_context(step: StepContext) -> bool:
    """Forget what was gathered, or is being gathered: the shell that kept it is gone. Say whether a request waited for it."""
    cycle = step.data.cycle
    if cycle is None or cycle.context is None:
        return False
    step.ended(cycle.context.effect_id)
    step.data.cycle = replace(cycle, context=None)
    return cycle.context.is_open


def context_tokens(data: Known) -> int:
    """Estimate what is added to the requests of this turn."""
    cycle = data.cycle
    return 0 if cycle is None or cycle.context is None else cycle.context.tokens


def digest_with(noted: str, context: GatheredContext | None) -> str:
    """Name all that was added to one request: what the session itself said there, and what was gathered."""
    if context is None or not context.digest:
        return noted
    return context.digest if not noted else hashlib.sha256(f"{context.digest}{noted}".encode()).hexdigest()
