"""`Permissions`: the plugin that asks a policy."""

import pytest
import trio
from hypothesis import example, given, strategies as st

import agentrail
from agentrail import plugins as p
from agentrail.errors import PluginError
from agentrail.events import ApprovalRequired, ToolBlocked
from agentrail.frozen import frozen_json, thawed
from agentrail.messages import CallId, ToolResult
from agentrail.plugins.permission_modes import text_of_mode
from agentrail.plugins.permission_policy import MODES
from agentrail.plugins.permission_verdict import DECISIONS, PermissionCall, judge
from agentrail.plugins.permissions import Permissions
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools.exit_plan import exit_plan
from agentrail.tools.task import TaskTool
from tests.plugins.rig import Alone, call


def kind(outcome):
    return "allow" if outcome.decision is None else type(outcome.decision.action).__name__


def ended(text="approved", *, is_error=False):
    """`exit_plan` has come to an end."""
    result = ToolResult(call_id=CallId("c1"), name="exit_plan", text=text, is_error=is_error)
    return p.AfterTool(name="exit_plan", call_id=CallId("c1"), result=result)


def test_a_call_runs_asks_or_is_refused():
    """By the rules, with the reason, and published with the narrowest ones; where no plan can be handed in, none is asked for."""
    guard = Alone(Permissions, allow=["shell(git *)"], deny=["shell(rm *)"], timeout_seconds=5)
    assert kind(guard.hears(call("shell", command="git log"))) == "allow"
    refused = guard.hears(call("shell", command="nice rm x")).decision.action
    assert refused.reason == "Not run: the rule shell(rm *) (session) denies it"
    outcome = guard.hears(call("shell", command="wc x"))
    action = outcome.decision.action
    assert (action.hint, action.expires_seconds) == ("no rule allows 'wc x'", 5)
    assert outcome.events[0].payload["always"] == ["shell(wc x)"]
    assert "always" in action.permission_options
    assert "always" not in guard.hears(call("shell", command="make")).decision.action.permission_options

    guard = Alone(Permissions, mode="plan")
    for tools, does in (((), False), (("exit_plan",), True)):
        told = guard.hears(p.BeforeRequest(), tools=tools).context["mode"]
        refused = guard.hears(call("deploy"), tools=tools).decision.action.reason
        assert ("exit_plan" in told, "exit_plan" in refused) == (does, does)


def test_a_running_session_changes_its_own_rules_only():
    """What is named is replaced, the rest and the other scopes stay; a fault keeps all as it was."""
    guard = Alone(Permissions, allow=["deploy"], scopes={"user": {"deny": ["send"]}})
    assert guard.update(ask=["deploy"]) is None
    assert kind(guard.hears(call("deploy"))) == "RequireApproval"
    assert guard.update(ask=[], mode="strict") is None
    verdicts = [kind(guard.hears(call(one))) for one in ("deploy", "other", "send")]
    assert verdicts == ["allow", "BlockTool", "BlockTool"]
    assert "a running session can change only mode, deny, ask, allow; got 'scopes'" in guard.update(scopes={})
    assert "allow[0] at 2" in guard.update(allow=["x("])
    assert "dangerously-bypass" in guard.update(mode="bypass")
    assert kind(guard.hears(call("deploy"))) == "allow"


def test_a_plan_that_is_approved_brings_the_old_mode_back():
    """G-018: `exit_plan` is approved or not, without a change; a refused one leaves the mode; then what was before holds again."""
    guard = Alone(Permissions, mode="accept_edits")
    assert guard.update(mode="plan") is None
    assert guard.update(mode="plan", allow=["deploy"]) is None
    assert kind(guard.hears(call("write_file", path="a"))) == "BlockTool"
    asked = guard.hears(call("exit_plan", plan="1. Go."))
    assert asked.decision.action.permission_options == ("approve", "reject")
    guard.hears(ended(is_error=True))
    assert guard.state.own.mode == "plan"
    assert guard.hears(ended()).events[0].payload["mode"] == "accept_edits"
    assert kind(guard.hears(call("write_file", path="a"))) == "allow"
    assert guard.hears(ended()).events == ()
    fresh = Alone(Permissions, mode="plan", scopes={"user": {"mode": "strict"}})
    fresh.hears(ended())
    assert fresh.state.policy.modes == ("strict",)
    assert guard.update(mode="plan") is None
    assert guard.update(mode="strict") is None
    assert guard.state.before is None


_NAMED = st.none() | st.sampled_from(MODES)


@given(
    own=_NAMED, user=_NAMED, project=_NAMED, managed=_NAMED, ceiling=_NAMED, above=_NAMED, may=st.booleans()
)
@example(own="accept_edits", user=None, project="plan", managed=None, ceiling=None, above=None, may=False)
@example(own=None, user="bypass", project="plan", managed=None, ceiling=None, above=None, may=False)
@example(own="plan", user=None, project=None, managed=None, ceiling="plan", above=None, may=False)
def test_a_plan_that_files_say_ends_too_or_is_none(  # noqa: PLR0913 - who may name a mode
    *, own, user, project, managed, ceiling, above, may
):
    """An approved plan ends the mode, of files too; where it cannot, the model is told of none, and no person is asked about one."""
    said = {"user": {"mode": user}, "project": {"mode": project}}
    said["managed"] = {"mode": managed, "ceiling": ceiling}
    scopes = {scope: {key: mode for key, mode in table.items() if mode} for scope, table in said.items()}
    within = [{"mode": above}] if above not in {None, "bypass"} else []
    options = {"mode": own, "scopes": scopes, "within": within}
    try:
        guard = Alone(Permissions, **options, dangerously_bypass_permissions=may)
    except PluginError:
        assert "bypass" in {own, user, project, managed}
        return
    modes = {mode for one in (guard.state.policy, *guard.state.policy.within) for mode in one.modes}
    told = str(text_of_mode(guard.state.policy, ["exit_plan"]))
    asked = guard.hears(call("exit_plan", plan="1. Go."))
    refused = str(guard.hears(call("deploy"), tools=("exit_plan",)).decision)
    guard.hears(ended())
    left = {mode for one in (guard.state.policy, *guard.state.policy.within) for mode in one.modes}
    if "plan" not in modes:
        assert left == modes
    elif "plan" in {managed, ceiling, above} or "dont_ask" in modes or above == "strict":
        assert left == modes
        assert "exit_plan" not in told + refused
        assert kind(asked) == "BlockTool"
    else:
        assert "plan" not in left
        assert kind(asked) == "RequireApproval"
    now = guard.stack.members[0].plugin.options_now(frozen_json(options), guard.state)
    again = Alone(Permissions, **thawed(now), dangerously_bypass_permissions=may)
    assert again.state.policy == guard.state.policy


@given(own=_NAMED, user=_NAMED, project=_NAMED)
def test_a_session_below_one_that_plans_looks_and_ends_no_plan(own, user, project):
    """It would run what its leader may not: there the plan is not approved yet."""
    scopes = {scope: {"mode": mode} for scope, mode in (("user", user), ("project", project)) if mode}
    guard = Alone(Permissions, mode=own, scopes=scopes, dangerously_bypass_permissions=True)
    below = guard.stack.members[0].plugin.options_below(
        frozen_json({"mode": own, "scopes": scopes, "dangerously_bypass_permissions": True}), guard.state
    )
    child = Alone(Permissions, **thawed(below))
    plans = "plan" in guard.state.policy.modes
    policy = child.state.policy
    assert any("plan" in one.modes for one in (policy, *policy.within)) is plans
    assert not child.state.may_end_plan
    for one in ("deploy", "write_file", "read_file", "write_todos"):
        asked = PermissionCall(tool=one, arguments={})
        below, above = (DECISIONS.index(judge(it.state.policy, asked).decision) for it in (child, guard))
        assert below >= above
    if plans:
        child.hears(ended())
        assert kind(child.hears(call("exit_plan", plan="1. Go."))) == "BlockTool"
        assert kind(child.hears(call("deploy"))) == "BlockTool"


async def played(steps, decide, *, tools, **options):
    """Play one prompt; `decide` gets the session and each approval. Gives the classes of its events."""
    steps, told = iter(steps), []
    with trio.fail_after(60):
        async with agentrail.open_supervisor() as supervisor, trio.open_nursery() as nursery:
            session = await supervisor.start_session(
                model=FunctionModel(lambda _: next(steps)), tools=tools, plugins=[(Permissions, options)]
            )

            async def listen(task_status):
                async with session.subscribe(after=0, deltas=False) as events:
                    task_status.started()
                    async for event in events:
                        told.append(type(event))
                        if isinstance(event, ApprovalRequired):
                            await decide(session, event.approval)

            await nursery.start(listen)
            assert await session.ask("Go.") == "Done."
            await session.stop()
            nursery.cancel_scope.cancel()
    return told


async def test_in_plan_mode_nothing_with_an_effect_runs_before_the_approval(autojump_clock):
    """G-018: the model tries, is refused, shows its plan, a person approves, and then the same call runs."""
    work = RecordingTool(name="deploy")
    deploy = calls(("deploy", {"what": "x"}))
    steps = (deploy, calls(("exit_plan", {"plan": "1. Deploy."})), deploy, says("Done."))

    async def decide(session, approval):
        assert (approval.tool, work.calls) == ("exit_plan", [])
        await session.approve(approval.id)

    told = await played(steps, decide, tools=[work, exit_plan], mode="plan", allow=["deploy"])
    assert len(work.calls) == 1
    assert told.count(ToolBlocked) == 1


async def test_always_of_the_session_lets_no_other_call_through(autojump_clock):
    """Trap 7, G-017: "always" means the very words; each other line asks."""
    lines = ("git log", "git log", "git log -n 1", "git log --output=x", "ls", "ls -la", "ls")
    steps = (*(calls(("shell", {"command": line})) for line in lines), says("Done."))
    asked = []

    async def decide(session, approval):
        asked.append(approval.arguments["command"])
        kind = "always" if "always" in approval.permission_options else "once"
        await session.approve(approval.id, kind=kind)

    await played(steps, decide, tools=[RecordingTool(name="shell")])
    assert asked == ["git log", "git log -n 1", "git log --output=x", "ls", "ls -la"]


def opened(name):
    """A call of `skill` that is done."""
    result = ToolResult(call_id=CallId("c2"), name="skill", text="x", details={"opened": name})
    return p.AfterTool(name="skill", call_id=CallId("c2"), result=result)


@pytest.mark.blueprint("G-012")
def test_the_rules_of_an_open_skill_allow_and_deny_and_ask_win():
    """G-012: with `approve` its tools run unasked until the cycle ends; what is denied stays denied, what asks asks."""
    skills = {"git": ["shell(git *)", "write_file", "edit_file"], "none": []}
    policy = Alone(Permissions, skills=skills, deny=["shell(git push *)"], ask=["edit_file"])
    commit, push = call("shell", command="git commit"), call("shell", command="git push origin")
    for name in (None, "other", "none"):
        if name is not None:
            assert policy.hears(opened(name)).decision is None
        assert kind(policy.hears(commit)) == "RequireApproval"
    policy.hears(opened("git"))
    assert kind(policy.hears(commit)) == "allow"
    assert kind(policy.hears(call("write_file", path="x"))) == "allow"
    assert kind(policy.hears(push)) == "BlockTool"
    assert kind(policy.hears(call("edit_file", path="x"))) == "RequireApproval"
    assert kind(policy.hears(call("shell", command="git log; rm x"))) == "RequireApproval"
    assert policy.update(mode="dont_ask") is None
    assert kind(policy.hears(commit)) == "allow"
    policy.hears(p.AfterTurn(outcome="finished"))
    assert kind(policy.hears(commit)) == "BlockTool"
    assert policy.hears(p.AfterTurn(outcome="finished")).states is policy.states


async def test_a_tool_that_is_denied_whole_is_in_no_request():
    """A model is not told of what never runs, in a session below neither; who calls it all the same is refused (12.7)."""
    deploy, look = RecordingTool(name="deploy"), RecordingTool(name="look")
    boxes = []

    def answer(request):
        boxes.append(request.tools)
        match len(request.messages):
            case 1 if "task" in request.tools.names:
                return calls(("deploy", {}), ("task", {"description": "Look."}))
        return says(request.messages[-1].results[0].text if len(request.messages) == 3 else "found")

    async with agentrail.open_supervisor() as supervisor:
        session = await supervisor.start_session(
            model=FunctionModel(answer),
            tools=[deploy, look, TaskTool()],
            plugins=[(Permissions, {"mode": "dont_ask", "deny": ["deploy", "look(x=1)"], "allow": ["task"]})],
            prompt_mode="minimal",
        )
        assert "the rule deploy (session) denies it" in await session.ask("go")
        await session.update_plugin_opts("Permissions", deny=[])
        await session.ask("again")
    below, all_of_them = ("look",), ("deploy", "look", "task")
    assert [box.names for box in boxes] == [all_of_them[1:], below, all_of_them[1:], all_of_them]
    assert boxes[0] is boxes[2]  # its bytes are made once
    assert not deploy.calls
