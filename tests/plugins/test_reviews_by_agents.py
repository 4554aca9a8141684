"""`Reflection(reviewer_agent=…)`: the model calls the agent, the plugin writes that call and reads its result."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.errors import PluginError
from agentrail.messages import (
    AssistantMessage,
    CallId,
    FileRef,
    Message,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentrail.plugins.reflection import Reflection
from agentrail.plugins.reflection_reviews import NO_TASK, NOT_REVIEWED, is_approved, is_same_answer
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.rig import Alone

REVIEW = {"description": "My answer.", "subagent_type": "critic"}


class Cycle:
    """A cycle with the plugin in it, as a session would go through it."""

    def __init__(self, *, tools: tuple[str, ...] = ("task",), depth: int = 0, **options: Any) -> None:
        """Begin with a prompt."""
        self.plugin = Alone(Reflection, **({"reviewer_agent": "critic"} | options))
        self.tools = tools
        self.depth = depth
        self.told: list[str] = []
        self.failures: list[str] = []
        self.messages: list[Message] = []
        self.prompted("Why?")

    def prompted(self, text: str) -> None:
        """Begin a cycle."""
        self.turn = 0
        self.messages.append(UserMessage(content=(Text(text=text),)))

    def hears(self, event: p.HookEvent) -> Any:
        """Let the plugin hear of something."""
        said: Any = self.plugin.hears(
            event, messages=tuple(self.messages), tools=self.tools, turn=self.turn, depth=self.depth
        )
        self.failures += [one.payload["error"] for one in said.events if one.name == "reflection_failed"]
        return said

    def responds(self, text: str, *calls: ToolCall) -> str:
        """The model responds; gives what stands in the history then."""
        self.turn += 1
        message = AssistantMessage(content=(Text(text=text), *calls), model="demo:")
        message = self.hears(p.AfterResponse(message=message)).message or message
        self.messages.append(message)
        return message.text

    def calls(self, review: str, *, is_error: bool = False, **arguments: Any) -> Any:
        """The model makes a call of `task`, which has this result; gives the arguments that the plugin wrote, or None."""
        arguments = REVIEW | arguments
        call = ToolCall(call_id=CallId(f"c{len(self.messages)}"), name="task", arguments=arguments)
        self.responds("", call)
        written = self.hears(p.BeforeTool(name="task", arguments=arguments, call_id=call.call_id))
        result = ToolResult(call_id=call.call_id, name="task", text=review, is_error=is_error)
        self.messages.append(ToolMessage(results=(result,)))
        self.hears(p.AfterToolBatch(results=(result,)))
        return written.arguments

    def finishes(self) -> bool:
        """The cycle is about to finish; says whether it does."""
        prompt = self.hears(p.BeforeFinish()).prompt
        if prompt is None:
            return True
        self.told.append(prompt)
        self.messages.append(UserMessage(content=(Text(text=prompt),), origin="intervention"))
        return False


def test_what_was_not_reviewed_is_not_taken_for_it():
    """Another answer than the approved one is reviewed too, as far as reviews go; a call of another agent is no review."""
    cycle = Cycle(max_reviews=2)
    cycle.responds("One.")
    assert not cycle.finishes()
    assert cycle.calls("APPROVED", subagent_type="scout") is None
    assert cycle.calls("Invalid arguments", is_error=True, description="") is None
    assert cycle.calls("APPROVED") is not None
    assert cycle.calls("no review is asked for any more") is None
    cycle.responds("Two.")
    assert not cycle.finishes()
    cycle.responds("Three.")  # it calls nobody
    assert cycle.finishes()
    assert cycle.failures == [NOT_REVIEWED]


@pytest.mark.parametrize(
    "text", ["There is no sub-agent of type 'critic'. Types: general-purpose.", "stopped"]
)
def test_a_review_that_fails_lets_the_answer_pass(text):
    """An unknown agent, one that fails, or one that a person or a guard stopped: the cycle ends as without, and it is said."""
    cycle = Cycle()
    cycle.responds("Because.")
    assert not cycle.finishes()
    cycle.calls(text, is_error=True)
    assert cycle.responds("APPROVED") == "Because."
    assert cycle.finishes()
    assert cycle.failures == [text]


def test_without_the_tool_there_is_no_review():
    """It is said at the root; a session below, such as the reviewer itself, is reviewed by no agent."""
    cycle = Cycle(tools=("shell",))
    cycle.responds("Because.")
    assert cycle.finishes()
    assert (cycle.failures, cycle.told) == ([NO_TASK], [])
    below = Cycle(depth=1)
    below.responds("Because.")
    assert below.finishes()
    assert (below.failures, below.told) == ([], [])


def test_a_document_is_written_again():
    """Where answers have a shape, callers read nothing but documents; one is the same in a fence, and words around it are words."""
    cycle = Cycle()
    cycle.responds('{"why": 1}')
    assert not cycle.finishes()
    assert cycle.told[0].endswith("Else write the same JSON again, unchanged.")
    cycle.calls("APPROVED")
    cycle.responds('```json\n{"why":1}\n```')
    assert cycle.finishes()
    assert not is_same_answer('Say ```json\n{"why":1}\n```', '{"why":1}')
    assert not is_same_answer("1", "1.0")
    assert not is_same_answer('{"why": 1}', '{"why": true}')


def test_what_was_asked_is_the_prompt_and_what_the_user_said_since():
    """Earlier prompts are not, nor what plugins said; of a prompt without words nothing is."""
    cycle = Cycle()
    cycle.messages += [
        UserMessage(content=(FileRef(path="a.png"), Text(text="Which?"))),
        UserMessage(content=(Text(text="Be kind."),), origin="intervention"),
        UserMessage(content=(Text(text="The red one."),), origin="steer"),
    ]
    cycle.responds("This.")
    assert not cycle.finishes()
    assert "Asked:\nWhich?\n\nThe red one.\n\nAnswer:\nThis." in cycle.calls("APPROVED")["description"]
    cycle.messages.clear()
    cycle.responds("")
    assert not cycle.finishes()
    assert cycle.calls("APPROVED")["description"].endswith("Asked:\n\n\nAnswer:\n")
    assert cycle.responds("APPROVED") == "APPROVED"  # an answer without words cannot be put back


@pytest.mark.parametrize(
    ("text", "approves"),
    [
        ("APPROVED", True),
        ("\n `APPROVED`.\nFine.", True),
        ('{"verdict": "APPROVED", "points": []}', True),
        ("This cannot be APPROVED.", False),
        ("NOT APPROVED", False),
        ("No.\nAPPROVED", False),
        ('{"verdict": "no", "said": "APPROVED"}', False),
        ('{"approved": true}', False),
        ('["APPROVED"]', False),
        ("[" * 100_000, False),
    ],
)
def test_the_verdict_is_the_first_line_or_the_field(text, approves):
    """The signal somewhere in the words is no approval."""
    result = ToolResult(call_id=CallId("c1"), name="task", text=text)
    assert is_approved(result.text, "APPROVED") is approves


def test_it_keeps_the_contract_of_plugins():
    """`check_plugin`; there is one reviewer, and it has a name."""
    check_plugin(Reflection, options=[{"reviewer_agent": "critic"}])
    for options in (
        {"reviewer_agent": "critic", "reviewer_model": "demo:judge"},
        {"reviewer_agent": " "},
    ):
        with pytest.raises(
            PluginError, match="reviewer_agent must be the name of an agent, and excludes reviewer_model"
        ):
            load_stack([(Reflection, options)])


MOVES = st.sampled_from(
    ("approve", "find", "fail", "elsewhere", "signal", "same", "better", json.dumps({"n": 1}))
)


@given(moves=st.lists(MOVES, max_size=24), most=st.integers(0, 3))
def test_a_cycle_ends_with_the_answer_that_passed(moves, most):
    """Whatever model and agent say: at most so many reviews, each of the answer of that moment; the signal behind a review gives that answer."""
    cycle = Cycle(max_reviews=most)
    reviewed, known, asked = "", "first", True
    cycle.responds(known)
    asked = not cycle.finishes()
    for number, move in enumerate(moves):
        if (cycle.told and len(cycle.told) > most) or not asked:
            break
        match move:
            case "approve" | "find" | "fail" | "elsewhere":
                agent = "scout" if move == "elsewhere" else "critic"
                said = "APPROVED" if move == "approve" else "It is wrong."
                written = cycle.calls(said, is_error=move == "fail", subagent_type=agent)
                if written is not None:
                    assert written["description"].endswith(f"Answer:\n{known}")
                    reviewed, passed = known, move in {"approve", "fail"}
                continue
            case "signal":
                assert cycle.responds("APPROVED") == known
            case "same":
                assert cycle.responds(known) == known
            case _:
                known = cycle.responds(move if move.startswith("{") else f"{move} {number}")
        asked = not cycle.finishes()
        if not asked:
            assert len(cycle.told) == most or (passed and is_same_answer(reviewed, known))
    assert len(cycle.told) <= most
