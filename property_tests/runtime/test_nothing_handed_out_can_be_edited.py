"""Through the public door: everybody who is shown anything by a session writes to all of it, and the session goes on the same.

A subscriber, a reader of messages, status and snapshot, a tool, a plugin, the provider, the one who started it and the one
who approves: each gets the values of a live session, and edits what can be reached.
"""

import copy
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given, settings, strategies as st

import agentrail
from agentrail import plugins as p
from agentrail.abc import Ok
from agentrail.events import AgentEnd, ApprovalRequired
from agentrail.messages import UserMessage
from agentrail.plugins.human_approval import HumanApproval
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import RecordingTool
from property_tests.vandal import edit_everything, portrait

SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(st.sampled_from(("command", "a", "b")), VALUES, min_size=1, max_size=3)
ANSWER = {"list": [1, {"deep": [2]}]}


class VandalPlugin(p.Plugin[Any]):
    """Edits whatever it is asked with, its own state among it."""

    name = "vandal"

    def init(self, **options):
        """Remember what it was given."""
        return p.frozen_json(options)

    def handle(self, event, state, ctx):
        """Write to all of it."""
        edit_everything(event, state, ctx.messages, ctx.user_data, ctx.todos, ctx.tools, ctx.repairs)
        return p.Continue(state)


class VandalTool(RecordingTool):
    """Notes what it was given, and then writes to all of it; what it was given is its own."""

    async def execute(self, arguments, ctx):
        """Write."""
        await super().execute(copy.deepcopy(arguments), ctx)
        said = {"list": [1, {"deep": [2]}]}
        ctx.emit("edited", said)
        edit_everything(arguments, ctx.arguments, ctx.user_data, ctx.todos, ctx.memory, said)
        assert arguments == {}, "a tool may do with its own copy what it likes"
        return Ok(text="done", details=copy.deepcopy(ANSWER))


async def _life(arguments, *, edit):
    """Live a short life with two approvals in it; give what ran, and the conversation as the model was last sent it."""

    def write_to(*values):
        if edit:
            edit_everything(*values)

    def answer(request):
        is_first = len(request.messages) == 1
        sent.append(_conversation(request.messages))
        wanted = copy.deepcopy(arguments)
        said = calls(("shell", wanted), ("shell", {"command": "b"})) if is_first else says("done")
        write_to(request, wanted)
        return said

    sent: list[object] = []
    kind = VandalTool if edit else RecordingTool
    tool = kind(name="shell", answer=Ok(text="done", details=copy.deepcopy(ANSWER)))
    given_to_it = {"user_data": {"tenant": {"id": "mine"}, "list": [[1]]}, "options": {"x": [1]}}
    async with agentrail.open_supervisor(environ={}) as supervisor:
        vandals = [(VandalPlugin, given_to_it["options"])] if edit else []
        session = await supervisor.start_session(
            model=FunctionModel(answer),
            tools=[tool],
            plugins=[*vandals, HumanApproval],
            user_data=given_to_it["user_data"],
        )
        write_to(given_to_it)
        async with session.subscribe() as events:
            await session.prompt("go")
            async for event in events:
                wanted = event.approval.id if isinstance(event, ApprovalRequired) else None
                is_over = isinstance(event, AgentEnd)
                write_to(event, await session.status(), await session.snapshot(), await session.messages())
                if wanted is not None:
                    await session.approve(wanted)
                if is_over:
                    break
        await session.ask("again")
        return tool.calls, sent, _conversation(await session.messages())


def _conversation(messages):
    """Draw messages without the refs of prompts, which are minted anew in each life."""
    return portrait(
        [msgspec.structs.replace(one, ref=None) if isinstance(one, UserMessage) else one for one in messages]
    )


@pytest.mark.at(39)
@settings(max_examples=max(settings().max_examples // 5, 10))
@given(arguments=ARGUMENTS)
def test_a_session_whose_values_are_edited_by_everybody_is_the_same_session(arguments):
    """What ran, what the model was sent each time, and what is kept of it are what they are where nobody edits."""

    async def live(*, edit):
        with trio.fail_after(60):
            return await _life(arguments, edit=edit)

    plain, edited = (trio.run(lambda edit=edit: live(edit=edit)) for edit in (False, True))
    assert plain[0] == edited[0] == [arguments, {"command": "b"}]
    assert plain[1:] == edited[1:]
