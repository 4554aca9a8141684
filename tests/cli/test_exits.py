"""Exit codes, and errors as sentences."""

import pytest

from agentrail.cli.exits import ADVICE, Exit, describe_error, describe_failure, exit_of
from agentrail.errors import ErrorInfo, OptionError, ProviderError
from agentrail.events import AbortReceipt, AbortSettled, AgentAbort, AgentEnd, AgentError
from agentrail.messages import TokenUsage

INFO = ErrorInfo(code="rate_limited", message="too many requests.", retry_after_seconds=7.0)


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (AgentEnd(messages=(), usage=TokenUsage(), stop_reason="end"), Exit.DONE),
        (AgentError(error=INFO), Exit.FAILED),
        (AgentAbort(reason=None), None),
        (AbortSettled(receipt=AbortReceipt()), Exit.FAILED),
    ],
)
def test_the_end_of_the_cycle_decides_the_exit_code(event, code):
    """Done is 0, failed and aborted are 1; an abort is over when it has settled."""
    assert exit_of(event) is code


def test_the_codes_are_the_documented_ones():
    """0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    assert {code.name: code.value for code in Exit} == {
        "DONE": 0,
        "FAILED": 1,
        "USAGE": 2,
        "INTERRUPTED": 130,
    }


def test_there_is_advice_for_every_failure_of_a_provider():
    """Whatever goes wrong with a request, the sentence ends with what to do."""
    codes = {ProviderError.code, *(kind.code for kind in ProviderError.__subclasses__())}
    assert codes <= set(ADVICE)


def test_a_failure_says_what_happened_and_what_to_do():
    """The advice names the time to wait where the server said it; an unknown code has the message alone."""
    assert describe_failure(INFO) == "too many requests. What to do: try again in 7 s."
    assert (
        describe_failure(ErrorInfo(code="stream_stalled", message="silent"))
        == "silent. What to do: try again."
    )
    assert describe_failure(ErrorInfo(code="new", message="silent")) == "silent."


def test_an_error_of_the_caller_is_its_own_sentence():
    """All faults of the options are there."""
    assert (
        describe_error(OptionError(["a is 1: expected 2", "b is missing."]))
        == "a is 1: expected 2; b is missing."
    )
