"""`check_history`, `check_events` and `check_nothing_lost`: each rule that they hold, broken once."""

import msgspec
import pytest

from agentrail import events as e
from agentrail.core.session.step_context import is_ephemeral
from agentrail.errors import ErrorInfo
from agentrail.messages import (
    ApprovalId,
    AssistantMessage,
    PromptRef,
    SessionId,
    SteerRef,
    Text,
    TokenUsage,
    UserMessage,
)
from agentrail.testing.cancelling import check_events, check_nothing_lost
from tests.thinned import each

SAID = AssistantMessage(content=(Text(text="Hello"),), model="m")
USAGE = TokenUsage()
START = e.SessionStart(model="m", tools=())
BEGIN, ABORT, END = e.AgentStart(ref=PromptRef("p")), e.AgentAbort(reason=None), e.SessionEnd(reason="done")
FINISHED = e.AgentEnd(messages=(), usage=USAGE, stop_reason="end")


COMPLETE = e.ResponseComplete(message=SAID, usage=USAGE, stop_reason="end")
BROKEN = e.StreamError(error=ErrorInfo(code="x", message="x"))
SWITCHED = e.ModelSwitched(from_model="m", to_model="n", by="fallback")


def published(*events):
    """Give events the numbers that a session would give them."""
    seq, made = 0, []
    for event in events:
        ephemeral = is_ephemeral(event)
        seq += not ephemeral
        meta = e.Envelope(SessionId("s"), seq, 0, (SessionId("s"),), ephemeral)
        made.append(msgspec.structs.replace(event, meta=meta))
    return made


ASKED = e.RequestStart(model="m", messages=1)


def message_of(text, origin="prompt", ref=None):
    return UserMessage(content=(Text(text=text),), origin=origin, ref=PromptRef(ref) if ref else None)


CONTENT = (Text(text="Hi"),)
CAME = e.PromptReceived(ref=PromptRef("p"), content=CONTENT)
WAITS = e.PromptQueued(ref=PromptRef("q"), content=CONTENT, position=0)
DROPPED = e.PromptDropped(ref=PromptRef("q"), content=CONTENT)
STEERED = e.SteeringReceived(ref=SteerRef("s"), text="left", queued_at_ms=1, status="queued")
APPLIED = e.SteeringApplied(refs=(SteerRef("s"),), count=1)


@each(
    "events",
    [
        [],
        [CAME, BEGIN],
        [CAME, BEGIN, WAITS, DROPPED],
        [CAME, e.PromptRejected(ref=PromptRef("p"), reason="no")],
        [CAME, e.PromptTaken(ref=PromptRef("p"), approval_id=ApprovalId("s/a2"), by="HumanApproval")],
        [CAME, BEGIN, STEERED, APPLIED],
        [
            CAME,
            BEGIN,
            e.SteeringReceived(ref=SteerRef("s"), text="x", queued_at_ms=1, status="rejected_full"),
        ],
    ],
)
def test_a_message_has_one_outcome(events):
    """Heard, dropped, refused: each of them is fine, and what was not accepted owes nothing."""
    check_nothing_lost(events)


@pytest.mark.parametrize(
    "events",
    [
        [CAME],
        [CAME, BEGIN, BEGIN],
        [BEGIN],
        [WAITS, DROPPED, DROPPED],
        [CAME, BEGIN, STEERED],
        [CAME, BEGIN, STEERED, APPLIED, APPLIED],
    ],
)
def test_a_message_without_outcome_or_with_two_is_named(events):
    """By its ref."""
    with pytest.raises(AssertionError, match="expected one outcome for each of"):
        check_nothing_lost(events)


def test_what_was_heard_stands_in_the_history():
    """The prompts in their order, and the text of each steer."""
    events = [CAME, BEGIN, STEERED, APPLIED]
    heard = [message_of("Hi", ref="p"), SAID, message_of("left", origin="steer")]
    check_nothing_lost(events, heard)
    with pytest.raises(AssertionError, match=r"expected the prompts \['p'\] in the history, got \[\]"):
        check_nothing_lost(events, heard[1:])
    with pytest.raises(
        AssertionError, match=r"the steers \['s'\] were applied, but the history has only \[\]"
    ):
        check_nothing_lost(events, heard[:2])


@pytest.mark.parametrize("end", [e.Retry(attempt=2, delay_ms=1, error=BROKEN.error), SWITCHED])
def test_a_request_that_failed_at_once_ends_with_what_follows(end):
    """Another attempt and another model close it; then the next request may begin."""
    check_events(published(START, BEGIN, ASKED, end, ASKED, COMPLETE, FINISHED, END))
