"""`HumanApproval`: who is asked about what, and decisions in the chat."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.stack.pipeline import run_hook
from agentrail.errors import PluginError
from agentrail.messages import SessionId
from agentrail.plugins.human_approval import HumanApproval
from agentrail.plugins.security_guard import SecurityGuard
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.rig import Alone, call

SAFE = ("git status", "git diff", "ls", "cat *.md")


def asks(event, **options):
    """What the person is asked; None when nobody is."""
    decision = Alone(HumanApproval, **options).hears(event).decision
    return None if decision is None else decision.action


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ("confirm a1", ("a1", "approve")),
        ("  confirm   yes a1 ", ("a1", "approve")),
        ("confirm Approve a1", ("a1", "approve")),
        ("confirm reject a1", ("a1", "reject")),
        ("confirm no a1", ("a1", "reject")),
        ("confirm always a1", ("a1", "always")),
    ],
)
def test_a_prompt_with_the_prefix_decides(text, decision):
    """`confirm_prefix` lets people decide in the chat (5.8)."""
    action = asks(p.BeforePrompt(text=text), confirm_prefix="confirm")
    assert (action.approval_id, action.decision) == decision


def test_what_is_no_decision_is_said_or_goes_on():
    """A prompt with the prefix that decides nothing is refused with the usage; any other goes on."""
    for text in ("confirm", "  confirm  "):
        action = asks(p.BeforePrompt(text=text), confirm_prefix="confirm")
        assert action.reason.startswith(
            "no decision: say 'confirm ID', 'confirm reject ID' or 'confirm always ID'"
        )
    assert asks(p.BeforePrompt(text="confirmed a1"), confirm_prefix="confirm") is None
    assert asks(p.BeforePrompt(text="I confirm a1"), confirm_prefix="confirm") is None
    assert asks(p.BeforePrompt(text="/OK:a1"), confirm_prefix="/ok:") is None
    assert asks(p.BeforePrompt(text="confirm a1")) is None


@pytest.mark.parametrize("options", [[], ["maybe"], ["approve", "approve"], [7], "perhaps"])
def test_answers_that_there_are_not_are_refused(options):
    """When the plugin is loaded, with those that there are."""
    with pytest.raises(PluginError, match="one or more of approve, always, edit, reject, respond, each once"):
        load_stack([(HumanApproval, {"permission_options": options})])


def test_it_keeps_the_contract_of_plugins():
    """`check_plugin`, and options that cannot be are refused."""
    check_plugin(HumanApproval, options=[{}, {"safe_commands": list(SAFE), "confirm_prefix": "ok"}])
    with pytest.raises(PluginError, match="confirm_prefix needs words"):
        load_stack([(HumanApproval, {"confirm_prefix": " "})])
    with pytest.raises(PluginError, match="confirm_prefix needs approve, reject or always among"):
        load_stack([(HumanApproval, {"confirm_prefix": "ok", "permission_options": ["edit", "respond"]})])
    with pytest.raises(PluginError, match=r"timeout_seconds must be 0 \(no limit\) or more; got -1"):
        load_stack([(HumanApproval, {"timeout_seconds": -1})])


@pytest.mark.at(76)
@given(
    lines=st.lists(st.sampled_from(("ls", "git status", "make", "rm -rf x")), min_size=1, max_size=3),
    flipped=st.booleans(),
)
def test_a_person_is_asked_for_exactly_what_will_run(lines, flipped):
    """Whatever a later plugin makes of a call, the approval is asked for that; a guard still refuses (AT-076)."""
    *before, last = lines

    @p.plugin(init=lambda: 0, priority=700, hooks=(p.BeforeTool,))
    def rewrites(event, state, ctx):
        """Put another command in."""
        return p.ReplaceToolArgs({"command": last}, state)

    entries = [(HumanApproval, {"safe_commands": ["ls", "git status"]}), SecurityGuard, rewrites]
    stack, states = load_stack(entries[::-1] if flipped else entries)
    event = call("shell", command=before[0] if before else "ls")
    outcome = run_hook(stack, event, states, p.Context(session_id=SessionId("s")))
    action = None if outcome.decision is None else outcome.decision.action
    match action:
        case p.BlockTool():
            assert outcome.event.arguments["command"] == "rm -rf x"
        case p.RequireApproval(hint=hint):
            assert hint == "each call of shell needs an approval; this line is not of safe commands alone"
            assert outcome.event.arguments["command"] == "make"
        case _:
            assert outcome.event.arguments["command"] == last
            assert last in {"ls", "git status"}
