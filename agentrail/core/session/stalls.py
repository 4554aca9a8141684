"""The silence of the request that is out: chunks note their time, and a look at the clock comes when the timer says so.

What a silence means is in `policy.patience`. The timer begins with the stream and ends with it, so a request that answers in time
costs no effect of its own.
"""

import msgspec

from agentrail.core.policy.patience import FIRST_REPORT_MS, StallClock, decide_stall
from agentrail.core.protocol.effects import CancelStream, SetTimer, StartStream, stall_timer_of
from agentrail.core.protocol.request import EffectId, ModelRequest
from agentrail.core.session.owners import OfStallTimer, OfStream
from agentrail.core.session.projection import model_of
from agentrail.core.session.step_context import StepContext
from agentrail.errors import ErrorInfo
from agentrail.events import StreamStalled


def start_stream(step: StepContext, request: ModelRequest, context: EffectId | None = None) -> None:
    """Send a request, with what was gathered for it, and say when to look at it first."""
    clock = StallClock(heard_at_ms=step.at_ms)
    _, silence = decide_stall(clock, step.at_ms, model_of(step.data).stalls)
    step.data.stream = msgspec.structs.replace(step.stream, clock=clock)
    look_at_ms = silence.look_again_at_ms or step.at_ms
    effect = StartStream(request=request, look_at_ms=look_at_ms, context=context)
    step.start_stream(effect, OfStream(), OfStallTimer())


def note_chunk(step: StepContext) -> None:
    """Note that something came. The first time the silence that counts becomes another, and may end before the next look."""
    stream = step.stream
    clock = stream.clock.heard(step.at_ms)
    step.data.stream = msgspec.structs.replace(stream, clock=clock)
    stalls = model_of(step.data).stalls
    if not stream.clock.begun and stalls.stall_policy != "report" and stalls.stall_ms < FIRST_REPORT_MS:
        _look_at(step, stream.effect_id, step.at_ms + stalls.stall_ms)


def look(step: StepContext, pinged_at_ms: int) -> ErrorInfo | None:
    """Look at the clock: report a silence, and set the next look; or stop a stream that has been silent for too long.

    Args:
        step: The step.
        pinged_at_ms: The last sign of life that is no chunk; 0 if there was none.

    Returns:
        Why the request is over, or None when it goes on.
    """
    stream = step.stream
    heard = stream.clock.pinged(pinged_at_ms) if pinged_at_ms else stream.clock
    clock, silence = decide_stall(heard, step.at_ms, model_of(step.data).stalls)
    step.data.stream = msgspec.structs.replace(stream, clock=clock)
    if silence.reported_seconds is not None:
        step.publish(StreamStalled(elapsed_seconds=silence.reported_seconds))
    if silence.look_again_at_ms is not None:
        _look_at(step, stream.effect_id, silence.look_again_at_ms)
    else:
        step.cancel(CancelStream(effect_id=stream.effect_id))
    return silence.error


def _look_at(step: StepContext, attempt: EffectId, at_ms: int) -> None:
    step.start(SetTimer(effect_id=stall_timer_of(attempt), at_ms=at_ms), OfStallTimer())
