"""The silence of a stream: when it is reported, and when it has lasted too long.

One timer per stream, and no timer is touched when a chunk comes: chunks note their time on the clock, and a timer that
fires asks `decide_stall`, which says when to look again. Setting a timer anew with each of fifty chunks a second would
cost more than the chunks.
"""

from typing import Final

import msgspec

from agentrail.core.policy.retries import StallPolicy
from agentrail.errors import ErrorInfo
from agentrail.errors.advice import Advice, advise, setting, with_advice
from agentrail.structs import Value

FIRST_REPORT_MS: Final = 10_000
NEXT_REPORT_MS: Final = 5_000
MAX_PINGED_MS: Final = 600_000
"""How long pings alone keep a stream alive, counted from the last chunk."""


class StallOptions(Value, frozen=True, kw_only=True):
    """How patient a session is.

    Attributes:
        stall_policy: `report` only reports; `retry` and `abort` end the request.
        stall_ms: The silence after a chunk that ends it.
        timeout_ms: The silence before the first chunk that ends it, whatever the policy: a model may think for minutes.
    """

    stall_policy: StallPolicy = "abort"
    stall_ms: int = 120_000
    timeout_ms: int = 600_000


class StallClock(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What was heard of a stream, and when.

    Attributes:
        heard_at_ms: The last chunk; before the first, when the request was sent.
        pinged_at_ms: The last sign of life that is no chunk.
        begun: Whether there was a chunk.
        reports: How many reports of the present silence were due so far.
    """

    heard_at_ms: int
    pinged_at_ms: int = 0
    begun: bool = False
    reports: int = 0

    def heard(self, at_ms: int) -> "StallClock":
        """Note a chunk."""
        return StallClock(heard_at_ms=at_ms, begun=True)

    def pinged(self, at_ms: int) -> "StallClock":
        """Note a ping or a comment: the end waits for it, the report does not."""
        return msgspec.structs.replace(self, pinged_at_ms=at_ms)


class Silence(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a look at the clock found.

    Attributes:
        reported_seconds: How long the silence is, when a report is due; else None.
        error: Set when the request is over.
        look_again_at_ms: When the next look is due; None when the request is over.
    """

    reported_seconds: float | None = None
    error: ErrorInfo | None = None
    look_again_at_ms: int | None = None


def decide_stall(clock: StallClock, at_ms: int, options: StallOptions) -> tuple[StallClock, Silence]:
    """Look at the clock of a stream that is still open.

    Args:
        clock: What was heard, and when.
        at_ms: The time of the look; a first look is due as soon as the request is sent.
        options: How patient the session is.

    Returns:
        The clock after the look, and what there is to do.
    """
    elapsed_ms = at_ms - clock.heard_at_ms
    ends_at_ms = _ends_at_ms(clock, options)
    if ends_at_ms is not None and at_ms >= ends_at_ms:
        return clock, Silence(error=_error(clock, elapsed_ms, options))
    due = max(0, (elapsed_ms - FIRST_REPORT_MS) // NEXT_REPORT_MS + 1)  # a look that comes late reports once
    report_at_ms = clock.heard_at_ms + FIRST_REPORT_MS + due * NEXT_REPORT_MS
    silence = Silence(
        reported_seconds=elapsed_ms / 1000 if due > clock.reports else None,
        look_again_at_ms=report_at_ms if ends_at_ms is None else min(report_at_ms, ends_at_ms),
    )
    return msgspec.structs.replace(clock, reports=due), silence


def _ends_at_ms(clock: StallClock, options: StallOptions) -> int | None:
    if not clock.begun:
        return clock.heard_at_ms + options.timeout_ms
    if options.stall_policy == "report":
        return None
    pinged_at_ms = min(clock.pinged_at_ms, clock.heard_at_ms + MAX_PINGED_MS)
    return max(clock.heard_at_ms, pinged_at_ms) + options.stall_ms


def _error(clock: StallClock, elapsed_ms: int, options: StallOptions) -> ErrorInfo:
    seconds = f"{elapsed_ms / 1000:g} s"
    if clock.begun:
        longer = setting("stall_seconds", 2 * options.stall_ms / 1000)
        message = with_advice(
            f"the stream has been silent for {seconds}", advise(Advice.STALLED, setting=longer)
        )
        return ErrorInfo(code="stream_stalled", message=message, retryable=True)
    longer = setting("timeout", 2 * options.timeout_ms / 1000)
    message = with_advice(f"no answer for {seconds}", advise(Advice.NO_ANSWER, setting=longer))
    return ErrorInfo(code="timeout", message=message, retryable=True)
