"""What a person is told about a session on a line of its own."""

from typing import Any, get_args

import msgspec

from agentrail import events
from agentrail.cli.chat_notices import notice_of
from agentrail.errors import ErrorInfo
from agentrail.events import Amount, Approval
from agentrail.messages import ApprovalId, CallId, PromptRef, QuestionRef, SessionId

BUSY = ErrorInfo(code="overloaded", message="busy", retryable=True)
_CALL: dict[str, Any] = {
    "id": ApprovalId("a-1"),
    "call_id": CallId("c"),
    "tool": "shell",
    "arguments": {"command": "git push"},
}
_AT: dict[str, Any] = {"hint": "it leaves this machine", "requested_at_ms": 0, "path": (SessionId("s"),)}
APPROVAL = Approval(**_CALL, **_AT, arguments_hash="00")
ASKED = QuestionRef("q")

CUT_OFF = (
    "the session was interrupted and resumed: the tool shell is not run again: whether it took effect is not known; "
    "a queued prompt is unchanged"
)

AT_80 = events.BudgetWarning(spent=Amount(value=0.8, unit="usd"), limit=Amount(value=1, unit="usd"))
CUT = (
    events.RecoveryDecision(open="tool", id="c", name="shell", decision="unknown"),
    events.RecoveryDecision(open="prompt", id="p-1", decision="kept"),
)
LOGIN = "agentrail mcp login tracker"

TOLD = [
    (events.SessionRecovered(decisions=CUT), CUT_OFF),
    (events.EventsLost(from_seq=3, to_seq=9), "events 3 to 9 are no longer stored"),
    (events.PromptRejected(ref=PromptRef("p"), reason="no names"), "the prompt was refused: no names"),
    (events.Retry(attempt=2, delay_ms=1_250, error=BUSY), "busy; trying again in 1.2 s"),
    (events.ContextOverflow(error=BUSY), "the conversation is longer than the model's window"),
    (
        events.ModelSwitched(from_model="a:b", to_model="c:d", by="fallback"),
        "the model is c:d from now on (fallback)",
    ),
    (
        events.LoopDetected(type="repeat_pattern", name="grep", count=3),
        "grep repeats itself, 3 times so far",
    ),
    (
        events.ApprovalRequired(approval=APPROVAL),
        "may shell run with {'command': 'git push'}? (it leaves this machine) /approve or /reject",
    ),
    (events.AskUser(ref=ASKED, question="Which?"), "Which? /answer or /decline"),
    (
        events.AskUser(ref=ASKED, question="Which?", options=("left", "right")),
        "Which? 1) left 2) right /answer or /decline",
    ),
    (
        events.CompactEnd(removed=40, tokens_before=9, tokens_after=1, saved_to=None),
        "a summary replaces the first 40 messages",
    ),
    (
        events.ContentPolicyViolated(summary="names a rival", triggered_policies=()),
        "against the content policy: names a rival",
    ),
    (
        events.CitationUnknown(citations=("a.md#L1-L2", "b.pdf#p3")),
        "cited without a matching source: a.md#L1-L2, b.pdf#p3",
    ),
    (AT_80, "$0.80 of $1.00 are spent"),
    (
        events.ToolSourceChanged(source="mcp:tracker", state="needs_login", reason=LOGIN),
        f"mcp:tracker requires a login: {LOGIN}",
    ),
    (
        events.ToolSourceChanged(source="mcp:files", state="parked"),
        "mcp:files stopped too often; its tools are unavailable",
    ),
    (
        events.PluginFailed(plugin="Audit", hook="BeforeTool", error=BUSY, policy="open"),
        "the plugin Audit failed: busy",
    ),
]


def test_each_thing_that_can_be_open_has_its_words():
    """No decision of a recovery is without a sentence; where nothing was open there is nothing to say."""
    fields = {one.name: get_args(one.type) for one in msgspec.structs.fields(events.RecoveryDecision)}
    for what in fields["open"]:
        for decision in fields["decision"]:
            made = events.RecoveryDecision(open=what, id="1", decision=decision)
            assert notice_of(events.SessionRecovered(decisions=(made,)))
    assert notice_of(events.SessionRecovered(decisions=())) is None


def test_what_the_user_must_know_is_one_sentence():
    """What stops, waits, fails, costs or is gone is said; the rest of the kinds is in test_rendering."""
    for event, notice in TOLD:
        assert notice_of(event) == notice
