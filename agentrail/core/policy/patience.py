"""Decisions after a failed request or tool, and about a silent stream: retry, another model, compaction, or an error."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from agentrail.core.values.toolbox import EffectClass
from agentrail.errors import ErrorInfo
from agentrail.errors.advice import Advice, advise, setting, with_advice, with_remark
from agentrail.structs import Value

StallPolicy: TypeAlias = Literal["report", "retry", "abort"]
"""Treatment of a silent stream."""

FIRST_PAUSE_MS: Final = 2_000
MAX_PAUSE_MS: Final = 60_000
FIRST_TOOL_PAUSE_MS: Final = 1_000
MAX_TOOL_PAUSE_MS: Final = 30_000
_DAY_SECONDS: Final = 86_400

_NEXT_MODEL: Final[Mapping[str, bool]] = MappingProxyType(
    {
        "rate_limited": True,
        "overloaded": True,
        "transport": True,
        "timeout": True,
        "stream_stalled": True,
        "protocol_error": True,
        "model_not_found": True,
        "authentication": False,  # users must see a wrong key, so no other vendor may hide it
        "context_overflow": False,
        "content_refused": False,
        "bad_request": False,
    }
)
"""Whether another model may succeed, by the code of the error."""


class RetryOptions(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Retry options of a session."""

    models: tuple[str, ...]
    max_retries: int = 3
    stall_policy: StallPolicy = "abort"


class Attempts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The attempts of one turn. Kept for one cycle: a new cycle starts with the first model again.

    Attributes:
        number: The current attempt, from 1, counted over all models of the turn. Events carry it.
        compacted: Whether an overflow has compacted the conversation in this turn.
        failed: The models that failed in this turn, each with the code of its last error.
    """

    number: int = 1
    retries: int = 0
    model: int = 0
    compacted: bool = False
    failed: tuple[tuple[str, str], ...] = ()


class RetryAfter(msgspec.Struct, frozen=True, gc=False):
    """Retry with the same model after a pause."""

    delay_ms: int


class NextModel(msgspec.Struct, frozen=True, gc=False):
    """Use another model, at once."""

    model: str


class CompactFirst(msgspec.Struct, frozen=True, gc=False):
    """Compact the conversation, then retry with the same model."""


class GiveUp(msgspec.Struct, frozen=True, gc=False):
    """Fail the cycle."""

    error: ErrorInfo


Remedy: TypeAlias = RetryAfter | NextModel | CompactFirst | GiveUp


def decide_retry(
    error: ErrorInfo, attempts: Attempts, jitter: float, options: RetryOptions
) -> tuple[Attempts, Remedy]:
    if error.code == "context_overflow" and not attempts.compacted:
        # Not counted as a retry: it is another request, not the same one again.
        return _changed(attempts, compacted=True), CompactFirst()
    pause_ms = _pause_ms(error, attempts.retries, jitter)
    if attempts.retries < _max_retries(error, options) and pause_ms <= MAX_PAUSE_MS:
        return _changed(attempts, retries=attempts.retries + 1), RetryAfter(pause_ms)
    failed = (*attempts.failed, (options.models[attempts.model], error.code))
    following = attempts.model + 1
    # An error outside the table, such as one of a third-party provider. If it may pass, another model may not
    # have it.
    if _NEXT_MODEL.get(error.code, error.retryable) and following < len(options.models):
        after = _changed(attempts, retries=0, model=following, failed=failed)
        return after, NextModel(options.models[following])
    return attempts, GiveUp(_with_history(error, attempts.number, failed))


def decide_tool_retry(attempt: int, max_retries: int, jitter: float) -> RetryAfter | None:
    """Return the pause before a tool that raised is retried, or None if it is not retried."""
    if attempt > max_retries:
        return None
    return RetryAfter(_jittered(FIRST_TOOL_PAUSE_MS, attempt, MAX_TOOL_PAUSE_MS, jitter))


def tool_retries(effect_class: EffectClass, own: int | None, session: int) -> int:
    if own is not None:
        return own
    return session if effect_class in {"pure", "idempotent"} else 0


def _max_retries(error: ErrorInfo, options: RetryOptions) -> int:
    if not error.retryable or (error.code == "stream_stalled" and options.stall_policy != "retry"):
        return 0
    # A server that violates the format once may recover. After the second time it speaks another format.
    return min(1, options.max_retries) if error.code == "protocol_error" else options.max_retries


def _pause_ms(error: ErrorInfo, retries: int, jitter: float) -> int:
    # A vendor may ask for an extremely long pause.
    asked_ms = int(min(error.retry_after_seconds or 0, _DAY_SECONDS) * 1000)
    return max(asked_ms, _jittered(FIRST_PAUSE_MS, retries + 1, MAX_PAUSE_MS, jitter))


def _jittered(first_ms: int, nth: int, max_ms: int, jitter: float) -> int:
    # Limited before the shift: the thousandth retry must not compute 2 to the 1000.
    longest_ms = min(max_ms, first_ms << min(nth - 1, 16))
    # A fraction of it. An invalid jitter, such as infinity, is a bug of ours, and must not fail a session.
    return int(longest_ms * jitter) if 0.0 <= jitter <= 1.0 else 0


def _changed(attempts: Attempts, **fields: object) -> Attempts:
    return replace(attempts, number=attempts.number + 1, **fields)


def _with_history(error: ErrorInfo, number: int, failed: tuple[tuple[str, str], ...]) -> ErrorInfo:
    if number == 1:
        return error
    tried = ", ".join(f"{model} ({code})" for model, code in failed)
    message = with_remark(error.message, f"given up after {number} attempts; tried: {tried}")
    return ErrorInfo(
        code=error.code,
        message=message,
        retryable=error.retryable,
        retry_after_seconds=error.retry_after_seconds,
    )


# Silent streams: when a silence is reported, and when it is an error.  There is one timer per stream. A chunk
# only records its time, and when the timer fires, `decide_stall` returns the next check time. Resetting a
# timer for each of fifty chunks per second would cost more than the chunks.

FIRST_REPORT_MS: Final = 10_000
NEXT_REPORT_MS: Final = 5_000
MAX_PINGED_MS: Final = 600_000
"""Time limit for pings alone to keep a stream alive, counted from the last chunk."""


class StallOptions(Value, frozen=True, kw_only=True):
    """Time limits for a silent stream.

    Attributes:
        stall_policy: `report` only reports. `retry` and `abort` end the request.
        stall_ms: Silence after a chunk that ends the request, in milliseconds.
        timeout_ms: Silence before the first chunk that ends it, in milliseconds, whatever the policy: a model may
            think for minutes.
    """

    stall_policy: StallPolicy = "abort"
    stall_ms: int = 120_000
    timeout_ms: int = 600_000


class StallClock(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Times of the chunks and pings of a stream.

    Attributes:
        heard_at_ms: The last chunk. Before the first, the time when the request was sent.
        pinged_at_ms: The last sign of life other than a chunk.
        reports: Number of reports of the current silence that were due so far.
    """

    heard_at_ms: int
    pinged_at_ms: int = 0
    begun: bool = False
    reports: int = 0

    def heard(self, at_ms: int) -> "StallClock":
        return StallClock(heard_at_ms=at_ms, begun=True)

    def pinged(self, at_ms: int) -> "StallClock":
        """Return the clock after a ping or a comment. It delays the end of the request, but not the report."""
        return replace(self, pinged_at_ms=at_ms)


class Silence(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of a stall check.

    Attributes:
        reported_seconds: Length of the silence, if a report is due, otherwise None.
        look_again_at_ms: Time of the next check. None if the request has ended.
    """

    reported_seconds: float | None = None
    error: ErrorInfo | None = None
    look_again_at_ms: int | None = None


def decide_stall(clock: StallClock, at_ms: int, options: StallOptions) -> tuple[StallClock, Silence]:
    elapsed_ms = at_ms - clock.heard_at_ms
    ends_at_ms = _ends_at_ms(clock, options)
    if ends_at_ms is not None and at_ms >= ends_at_ms:
        return clock, Silence(error=_error(clock, elapsed_ms, options))
    due = max(0, (elapsed_ms - FIRST_REPORT_MS) // NEXT_REPORT_MS + 1)  # a check that comes late reports once
    report_at_ms = clock.heard_at_ms + FIRST_REPORT_MS + due * NEXT_REPORT_MS
    silence = Silence(
        reported_seconds=elapsed_ms / 1000 if due > clock.reports else None,
        look_again_at_ms=report_at_ms if ends_at_ms is None else min(report_at_ms, ends_at_ms),
    )
    return replace(clock, reports=due), silence


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
