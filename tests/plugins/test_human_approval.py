"""`HumanApproval`: who is asked about what, and decisions in the chat."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loading import load_stack
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


def test_the_shell_waits_for_a_person_by_default():
    """`require_approval_for=("shell",)`, for as long as the session says."""
    assert asks(call("shell", command="make")) == p.RequireApproval(
        "each call of shell needs an approval", asks_state(), former_expires_seconds=120.0
    )
    assert asks(call("read_file", path="x")) is None


def asks_state(**options):
    """The state of such a plugin."""
    return Alone(HumanApproval, **options).state


def test_tools_are_named_or_matched():
    """Names may be patterns; the person reads why, and in the approval itself what would run."""
    options = {"require_approval_for": ["write_*", "deploy"], "timeout_seconds": 0}
    asked = asks(call("write_file", path="x", n=1), **options)
    assert (asked.hint, asked.expires_seconds) == ("each call of write_* needs an approval", 0.0)
    assert asks(call("deploy"), **options).hint == "each call of deploy needs an approval"
    assert asks(call("deploy"), require_approval_for=["*", "deploy"]).hint == "each call needs an approval"
    assert asks(call("shell", command="x"), **options) is None
    assert asks(call("shell", command="")).hint == "each call of shell needs an approval"


@pytest.mark.parametrize(
    ("arguments", "besides"),
    [
        ({"command": "make"}, "; this line is not of safe commands alone"),
        ({"command": ""}, "; this line is not of safe commands alone"),
        ({"script": "make"}, ""),
        ({"command": ["make"]}, ""),
    ],
)
def test_where_commands_may_be_safe_the_person_is_told_that_these_are_not(arguments, besides):
    """The reason says why, in words; it repeats no arguments, which stand in the approval."""
    asked = asks(call("shell", **arguments), safe_commands=SAFE)
    assert asked.hint == f"each call of shell needs an approval{besides}"


@pytest.mark.parametrize(
    "line",
    [
        "git status",
        "git diff --stat",
        "ls -la | ls",
        "ls; git status",
        "cat README.md",
        "ls\nls",
        "ls 2>&1",
    ],
)
def test_safe_commands_need_no_approval(line):
    """A line passes when each of its simple commands is safe (5.8)."""
    assert asks(call("shell", command=line), safe_commands=SAFE) is None


@pytest.mark.parametrize(
    "line",
    [
        "git push",
        "git",
        "gitstatus",
        "lsof",
        "git status; rm x",
        "git status && curl example.com",
        "ls $(curl example.com)",
        "ls `x`",
        "ls > notes",
        "ls >> ~/.profile",
        "sudo ls",
        "env ls",
        "./git status",
        "PATH=. git status",
        "PATH=.; git status",
        "X=git; $X push",
        "cat README.md x",
        "ls\nrm x",
        "ls & rm x",
        "sh -c ls",
        "",
    ],
)
def test_whatever_hides_behind_a_safe_command_is_asked_for(line):
    """Not by the beginning of the line: everything that would run must be safe, and nothing be written."""
    assert asks(call("shell", command=line), safe_commands=SAFE) is not None


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


@pytest.mark.parametrize(
    ("prefix", "text", "decision"),
    [
        ("确认执行:", "确认执行:a1", ("a1", "approve")),
        ("确认执行", "确认执行a1", ("a1", "approve")),
        ("/ok:", "/ok:a1", ("a1", "approve")),
        ("/ok:", " /ok: reject  a1", ("a1", "reject")),
        ("/ok:", "/ok:always a1", ("a1", "always")),
        ("please do", "please   do a1", ("a1", "approve")),
        ("confirm", "confirm rm -r  'a b'", ("rm -r  'a b'", "approve")),
        ("confirm", "confirm no rm -r x", ("rm -r x", "reject")),
        ("confirm", "confirm perhaps a1", ("perhaps a1", "approve")),
        ("confirm", "confirm yes", ("yes", "approve")),
        ("(.*)", "(.*)a1", ("a1", "approve")),
    ],
)
def test_any_prefix_decides_and_a_command_may_stand_for_the_id(prefix, text, decision):
    """A prefix may end in a mark, or in a script without blanks; behind it stands an id, or the command that waits."""
    action = asks(p.BeforePrompt(text=text), confirm_prefix=prefix)
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


@pytest.mark.parametrize(
    ("options", "usage"),
    [
        (["approve", "reject"], "say 'confirm ID' or 'confirm reject ID'"),
        (("reject", "edit"), "say 'confirm reject ID'"),
        (["always", "respond", "approve"], "say 'confirm ID' or 'confirm always ID'"),
    ],
)
def test_the_answers_that_are_offered_stand_in_what_the_person_is_shown(options, usage):
    """In the approval, and in what the chat says to a line that decides nothing."""
    asked = asks(call("shell", command="make"), confirm_prefix="confirm", permission_options=options)
    assert asked.permission_options == tuple(options)
    said = asks(p.BeforePrompt(text="confirm"), confirm_prefix="confirm", permission_options=options)
    assert said.reason == f"no decision: {usage}; the command that waits may stand in place of the ID"


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
    with pytest.raises(PluginError, match="timeout_seconds is 0, for ever, or more; got -1"):
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
