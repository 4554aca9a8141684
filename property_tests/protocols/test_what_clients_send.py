"""Calls of the UI message stream that Hypothesis makes up: nothing raises, and nothing decides but an answer to what waits."""

import pytest
from hypothesis import given, strategies as st

from agentrail.protocols.ai_ui_messages import decide_ui_call, read_ui_call
from agentrail.protocols.decisions import WireRefused
from agentrail.wire.operations import AnswerBody, ApproveArguments, RejectBody, RespondBody
from tests.protocols.test_ai_ui_messages import STATUS

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ids = st.sampled_from(["a1", "a2", "c1", "c2", "c3", "m3", "u1", "m99"]) | json_values
parts = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["text", "file", "dynamic-tool", "tool-x", "data-x", "step-start"])
        | json_values,
        "text": json_values,
        "toolCallId": ids,
        "state": st.sampled_from(["approval-responded", "output-available", "output-error"]) | json_values,
        "output": json_values,
        "errorText": json_values,
        "approval": st.fixed_dictionaries(
            {}, optional={"id": ids, "approved": json_values, "reason": json_values}
        )
        | json_values,
    },
)
messages = st.fixed_dictionaries(
    {},
    optional={
        "id": ids,
        "role": st.sampled_from(["user", "assistant", "system"]) | json_values,
        "parts": st.lists(parts | json_values, max_size=4) | json_values,
    },
)


def planned(sent, trigger, status):
    """The plan for a call, or its refusal."""
    try:
        return decide_ui_call(read_ui_call(sent, trigger), status, frozenset(["u1"]))
    except WireRefused as refused:
        return refused


@pytest.mark.protocol(66)
@given(
    st.lists(messages | json_values, max_size=4),
    st.sampled_from(["submit-message", "regenerate-message", None]),
    st.booleans(),
)
def test_whatever_a_client_sends_is_planned_or_refused(sent, trigger, has_session):
    """Nothing raises but a refusal; what is planned answers only what waits, or is refused by the session; a refusal says where."""
    status = STATUS if has_session else None
    plan = planned(sent, trigger, status)
    if isinstance(plan, WireRefused):
        assert plan.place
        return
    for answer in plan.answers:
        assert has_session
        match answer:
            case AnswerBody(ref=ref):
                assert ref == "k1"
            case RespondBody(ref=ref):
                assert ref == "q1"
            case ApproveArguments(approval_id=name) | RejectBody(approval_id=name):
                is_approved = isinstance(answer, ApproveArguments)
                asked = [part for message in sent for part in parts_of(message)]
                assert any(
                    part.get("state") == "approval-responded"
                    and part["approval"]["id"] == name
                    and part["approval"]["approved"] is is_approved
                    for part in asked
                )
    assert plan.answers or plan.text


def parts_of(message):
    """The parts of a message that is one."""
    found = message.get("parts") if isinstance(message, dict) else None
    return [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []
