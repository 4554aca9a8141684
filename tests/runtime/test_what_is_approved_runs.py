"""What you approve is what runs: the hash of an approval is that of the moment when a person was shown the call."""

import pytest
import trio

import agentrail
from agentrail.core.session.batch import ARGUMENTS_CHANGED
from agentrail.errors import OptionError, ToolDefinitionError
from agentrail.events import ApprovalRequired, ToolExecutionEnd
from agentrail.plugins.human_approval import HumanApproval
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools.task import TaskTool
from tests.runtime.rig import until

WANTED = {"command": "rm build", "env": {"PLACE": "here"}}


async def _asked(supervisor, tool):
    model = ScriptedModel([calls((tool.name, WANTED)), says("done"), says("done")])
    plugin = (HumanApproval, {"require_approval_for": [tool.name]})
    session = await supervisor.start_session(model=model, tools=[tool], plugins=[plugin])
    events = session.subscribe()
    return session, events


@pytest.mark.at(39)
@pytest.mark.parametrize("how", ["once", "always"])
async def test_a_call_whose_arguments_changed_after_they_were_shown_never_runs(how):
    """Even with force, past everything that refuses to be written to: what runs has the hash of what was shown (3.9)."""
    shell = RecordingTool(name="shell")
    with trio.fail_after(60):
        async with agentrail.open_supervisor(environ={}) as supervisor:
            session, subscription = await _asked(supervisor, shell)
            async with subscription as events:
                await session.prompt("go")
                asked = (await until(events, ApprovalRequired))[-1].approval
                dict.__setitem__(asked.arguments, "command", "rm -rf /")
                await session.approve(asked.id, kind=how)
                ended = (await until(events, ToolExecutionEnd))[-1]
            assert ended.result.is_error
            assert ended.result.text == ARGUMENTS_CHANGED
            assert shell.calls == []
            assert await session.ask("what now?") == "done"


@pytest.mark.at(66)
async def test_a_sub_agent_is_not_sent_to_do_something_else_than_was_shown():
    """A call that a session works for is bound like one that a tool does."""
    model = ScriptedModel([calls(("task", {"description": "Count the files."})), says("done")])
    plugin = (HumanApproval, {"require_approval_for": ["task"]})
    with trio.fail_after(60):
        async with agentrail.open_supervisor(environ={}) as supervisor:
            session = await supervisor.start_session(model=model, tools=[TaskTool()], plugins=[plugin])
            async with session.subscribe() as events:
                await session.prompt("go")
                asked = (await until(events, ApprovalRequired))[-1].approval
                dict.__setitem__(asked.arguments, "description", "Delete the files.")
                await session.approve(asked.id)
                ended = (await until(events, ToolExecutionEnd))[-1]
            assert (ended.result.text, ended.result.is_error) == (ARGUMENTS_CHANGED, True)
            assert len(supervisor.sessions()) == 1


@pytest.mark.at(39)
async def test_arguments_that_a_person_edits_are_bound_as_they_are_then():
    """What the person wrote runs, and their own dictionary may go on changing."""
    shell = RecordingTool(name="shell")
    edited = {"command": "ls", "env": {"PLACE": "other"}}
    with trio.fail_after(60):
        async with agentrail.open_supervisor(environ={}) as supervisor:
            session, subscription = await _asked(supervisor, shell)
            async with subscription as events:
                await session.prompt("go")
                asked = (await until(events, ApprovalRequired))[-1].approval
                await session.approve(asked.id, arguments=edited)
                edited["env"]["PLACE"] = "changed"
                await until(events, ToolExecutionEnd)
            assert shell.calls == [{"command": "ls", "env": {"PLACE": "other"}}]


async def test_options_and_schemas_that_hold_themselves_are_refused():
    """Nothing goes down for ever: the option or the tool is named, with how deep it may be."""
    endless: dict[str, object] = {"type": "object"}
    endless["properties"] = {"a": endless}
    async with agentrail.open_supervisor(environ={}) as supervisor:
        for name in ("user_data", "provider_opts", "response_format"):
            with pytest.raises(OptionError, match=f"{name} is nested too deeply"):
                await supervisor.start_session(model="demo:", **{name: endless})
        with pytest.raises(ToolDefinitionError, match="schema of tool 'x' is nested more deeply"):
            await supervisor.start_session(model="demo:", tools=[RecordingTool(name="x", parameters=endless)])
