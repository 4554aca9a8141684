"""What a tool may change in its session, and what that makes of it."""

import pytest
from msgspec.structs import replace

from agentrail.abc import ToolUpdate
from agentrail.core.protocol.signals import ChangeTools, SignalId
from agentrail.core.protocol.tool_changes import MAX_TODOS, UpdateContext, UpdateTodos
from agentrail.core.session.agent_records import AgentSpec
from agentrail.core.session.cycle import change_tools
from agentrail.core.session.step_context import StepContext, apply_changes
from agentrail.core.session.views import system_prompt_of
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import ToolContractError
from agentrail.events import Todo
from tests.core.worlds import READ, WATCH, new_session


def _todos(count: int, content: str = "Do it") -> tuple[Todo, ...]:
    return tuple(Todo(id=str(number), content=content) for number in range(count))


def test_a_section_enters_the_system_prompt_and_leaves_it():
    """A text sets a section, None removes it, and one that is not there is removed without a word."""
    step = StepContext(new_session().data, 7)
    apply_changes(
        step, [UpdateContext(key="plan", value="Read first."), UpdateContext(key="style", value="Be kind.")]
    )
    assert (system_prompt_of(step.data) or "").endswith("Read first.\n\nBe kind.")
    apply_changes(step, [UpdateContext(key="plan", value=None), UpdateContext(key="never", value=None)])
    assert dict(step.data.sections) == {"style": "Be kind."}
    assert step.effects == []


def test_sections_of_tools_come_and_go_with_them():
    """11.5: in the step that changes the tools, so a replay needs no server. Other sections stay."""
    step = StepContext(new_session().data, 7)
    apply_changes(step, [UpdateContext(key="style", value="Be kind.")])
    for text, sections in (("Look first.", {"mcp.p": "Look first."}), (None, {})):
        signal = ChangeTools(
            at_ms=7, signal_id=SignalId("k"), generation=1, sections=(("mcp.p", text), ("mcp.q", None))
        )
        change_tools(step, signal)
        assert dict(step.data.sections) == {"style": "Be kind.", **sections}


def test_the_tools_of_an_agent_change_and_those_of_other_agents_stay():
    """For its next handoff. None leaves it those of the session, and an unknown agent is ignored."""
    session = new_session()
    agents = tuple(
        AgentSpec(name=name, description="Works.", handoff=True, tools=Toolbox([READ]))
        for name in ("a", "b", "c")
    )
    step = StepContext(replace(session.data, config=replace(session.data.config, agents=agents)), 7)
    change_tools(
        step,
        ChangeTools(
            at_ms=7,
            signal_id=SignalId("k"),
            generation=1,
            agents=(("a", (WATCH,)), ("b", None), ("x", (READ,))),
        ),
    )
    assert [one.tools and one.tools.names for one in step.data.config.agents] == [("watch",), None, ("read",)]
    assert step.data.tools.specs == session.data.tools.specs


def test_a_change_is_legal_by_construction():
    """The author of the tool hears it where the change is made, and the session never sees it."""
    for make, words in (
        (
            lambda: UpdateTodos(todos=_todos(MAX_TODOS + 1)),
            "UpdateTodos: 101 todos are too many: the limit is 100",
        ),
        (
            lambda: UpdateTodos(todos=_todos(1) * 2),
            "UpdateTodos: the id '0' is there 2 times: ids must be unique",
        ),
        (lambda: UpdateTodos(todos=_todos(1, " ")), "the todo '0' has no content: describe the task"),
        (lambda: UpdateTodos(todos=_todos(1, "x" * 1_001)), "todo '0' has 1001 characters: at most 1000"),
        (lambda: UpdateContext(key="", value="x"), "has an empty key: name a section of the system"),
        (lambda: UpdateContext(key="todos", value=[]), "key 'todos': return UpdateTodos(todos=…) instead"),
        (lambda: UpdateContext(key="plan", value=3), "to int: expected text, or None to remove it"),
        (ToolUpdate, "changes, one or more of UpdateTodos, UpdateContext, RequestCompaction; got none"),
        (lambda: ToolUpdate("plan"), "got a value of type str: if nothing changes, return Ok instead"),
    ):
        with pytest.raises(ToolContractError) as caught:
            make()
        assert words in str(caught.value)
