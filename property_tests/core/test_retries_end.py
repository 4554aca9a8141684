"""Any failures in any order: a turn comes to an end, and is no more patient than it was told to be."""

from hypothesis import given, strategies as st

from agentrail.core.policy.patience import (
    MAX_PAUSE_MS,
    Attempts,
    CompactFirst,
    GiveUp,
    NextModel,
    RetryAfter,
    RetryOptions,
    decide_retry,
)
from agentrail.errors import ErrorInfo

CODES = (
    "overloaded",
    "rate_limited",
    "protocol_error",
    "stream_stalled",
    "context_overflow",
    "authentication",
    "new",
)
ERRORS = st.builds(
    ErrorInfo,
    code=st.sampled_from(CODES),
    message=st.just("it broke"),
    retryable=st.sampled_from((True, True, False)),
    retry_after_seconds=st.none() | st.floats(0, 100),
)
OPTIONS = st.builds(
    RetryOptions,
    models=st.integers(1, 3).map(lambda count: tuple(f"m:{number}" for number in range(count))),
    max_retries=st.integers(0, 3),
    stall_policy=st.sampled_from(("report", "retry", "abort")),
)


@given(
    errors=st.lists(ERRORS, min_size=14, max_size=14),
    jitter=st.floats(0, 1, exclude_max=True),
    options=OPTIONS,
)
def test_every_turn_comes_to_an_end(errors, jitter, options):
    """Retries per model, models and compactions are all bounded; no pause is longer than a minute."""
    attempts, retries, seen = Attempts(), 0, [options.models[0]]
    compactions = 0
    for error in errors:
        number = attempts.number
        attempts, remedy = decide_retry(error, attempts, jitter, options)
        match remedy:
            case RetryAfter(delay_ms=delay_ms):
                retries += 1
                assert retries <= options.max_retries
                assert 0 <= delay_ms <= MAX_PAUSE_MS
            case NextModel(model=model):
                retries = 0
                seen.append(model)
            case CompactFirst():
                compactions += 1
            case GiveUp(error=last):
                assert last.code == error.code
                break
        assert attempts.number == number + 1
    else:
        raise AssertionError("fourteen attempts, and no end")  # noqa: EM101, TRY003 - three models of four, and one more
    assert seen == list(options.models[: len(seen)])
    assert compactions <= 1
