"""`Planning` and `Reflection`: a plan first, a review last, neither for ever."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.pipeline import resume_hook
from agentrail.errors import ErrorInfo
from agentrail.events import Plan, PlanCompleted, PlanGenerated, PlanStep, PlanStepCompleted, read_steps
from agentrail.messages import (
    AssistantMessage,
    CallId,
    FileRef,
    Message,
    SessionId,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentrail.plugins.planning import AGAIN, Planning
from agentrail.plugins.reflection import Reflection
from agentrail.plugins.reflection_reviews import NO_TASK, NOT_REVIEWED, is_approved, is_same_answer
from tests.plugins.rig import Alone, says

# --- `Planning`: a plan first, and what becomes of its steps


LONG = p.BeforePrompt(text="Please tidy up all of the modules.")


def kinds(outcome):
    return [type(event) for event in outcome.events]


def test_a_model_that_does_not_plan_is_asked_again_but_not_for_ever():
    """At most `max_plan_attempts` times in all; then it may work without (5.8)."""
    planning = Alone(Planning, max_plan_attempts=3)
    planning.hears(LONG)
    assert [planning.hears(says("I begin.")).prompt for _ in range(4)] == [AGAIN, AGAIN, None, None]
    unasked = Alone(Planning, plan_first=False)
    unasked.hears(LONG)
    assert unasked.hears(says("I begin.")).prompt is None


def test_a_plan_is_published_and_followed():
    """Its steps are published when they are done, its end once; what has ended stays ended, whatever an older list says."""
    planning = Alone(Planning)
    planning.hears(LONG)
    steps = (PlanStep(index=0, content="look"), PlanStep(index=1, content="write it down"))
    first = planning.hears(says("My plan:\n- [ ] look\n- [ ] write it down\n"))
    assert first.events == (PlanGenerated(plan=Plan(steps=steps)),)
    assert planning.state.plan == steps
    assert planning.hears(says("Working.")).events == ()
    second = planning.hears(says("- [x] look\n- [ ] write it down"))
    assert second.events == (PlanStepCompleted(step=PlanStep(index=0, content="look", done=True)),)
    third = planning.hears(says("- [x] look\n- [X] write it down"))
    assert kinds(third) == [PlanStepCompleted, PlanCompleted]
    assert planning.hears(says("- [x] look\n- [x] write it down")).events == ()

    planning = Alone(Planning)
    planning.hears(says("- [x] a\n- [ ] b\n- [ ] c"))
    later = planning.hears(says("- [ ] a\n- [~] b\n- [-] c"))
    assert kinds(later) == [PlanGenerated]
    assert [step.status for step in planning.state.plan] == ["completed", "in_progress", "skipped"]
    assert kinds(planning.hears(says("- [x] a\n- [ ] b\n- [ ] c"))) == []
    assert kinds(planning.hears(says("- [x] a\n- [x] b\n- [-] c"))) == [PlanStepCompleted, PlanCompleted]
    planning.hears(says("- [ ] d\n- [ ] e"))
    assert kinds(planning.hears(says("- [!] d\n- [x] e"))) == [PlanGenerated, PlanStepCompleted]


def test_what_came_of_a_step_is_kept_and_what_has_ended_is_not_changed():
    """12.8: result, error and notes; what was not said of an ended step yet may come later. A move that is not made is told with both states."""
    planning = Alone(Planning)
    planning.hears(says("- [ ] a\n- [ ] b\n- [ ] c"))
    (done, *_) = planning.hears(says("- [x] a\n  - result: ten\n- [~] b\n  - note: slow\n- [ ] c")).events[1:]
    assert done.step.result == "ten"
    later = planning.hears(
        says("- [ ] a\n  - result: eleven\n  - note: odd\n- [!] b\n  - error: broke\n- [ ] c")
    )
    assert kinds(later) == [PlanGenerated]
    assert [(step.result, step.error, step.notes) for step in planning.state.plan] == [
        ("ten", None, ("odd",)),
        (None, "broke", ("slow",)),
        (None, None, ()),
    ]
    shown = planning.hears(p.BeforeRequest(messages=HISTORY)).event.messages[-1].content[0].text
    assert "  - result: ten\n  - note: odd\n" in shown
    why = "Not taken: step-1 is completed and cannot become pending; from there it may go nowhere"
    assert f"{why}: it has ended.\n" in shown
    planning.hears(says("- [x] a\n- [!] b\n  - error: other\n- [ ] c\n  - note: soon"))
    assert [(step.error, step.notes) for step in planning.state.plan] == [
        (None, ("odd",)),
        ("broke", ("slow",)),
        (None, ("soon",)),
    ]
    shown = planning.hears(p.BeforeRequest(messages=HISTORY)).event.messages[-1].content[0].text
    assert "Not taken" not in shown
    planning.hears(says("- [ ] d"))
    assert planning.state.refused == ()


HISTORY = (UserMessage(content=(Text(text="Go."),), origin="prompt"),)


@pytest.mark.blueprint("G-034")
@given(st.lists(st.sampled_from([" ", "x", "~", "!", "-"]), min_size=1, max_size=4), st.booleans())
def test_the_plan_stands_behind_the_conversation_and_in_no_prompt(marks, shows):
    """G-034: while a step is open, in a message of its own behind all others; the system prompt says nothing of it."""
    planning = Alone(Planning, shows_plan=shows)
    planning.hears(says("\n".join(f"- [{mark}] {place}" for place, mark in enumerate(marks))))
    asked = planning.hears(p.BeforeRequest(messages=HISTORY))
    assert not asked.context
    if not shows or not {" ", "~"} & set(marks):
        assert tuple(asked.event.messages) == HISTORY
        return
    *before, note = asked.event.messages
    assert tuple(before) == HISTORY
    assert note.origin == "note"
    current = next((n for n, mark in enumerate(marks) if mark == "~"), None)
    if current is None:
        current = marks.index(" ")
        assert f"Next is step-{current + 1}: {current}" in note.content[0].text
    else:
        assert f"You are at step-{current + 1}: {current}" in note.content[0].text
    ended = sum(mark not in " ~" for mark in marks)
    assert f"{ended} of {len(marks)} steps ended" in note.content[0].text
    for place, mark in enumerate(marks):
        assert f"- [{mark}] {place}" in note.content[0].text


words = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=8)
bullets = st.sampled_from(("- ", "* ", "+ ", "1. ", "  - ", "2) "))


@given(
    steps=st.lists(st.tuples(bullets, st.booleans(), words), max_size=6), noise=st.lists(words, max_size=6)
)
def test_every_checkbox_is_read_and_nothing_else(steps, noise):
    """Whatever stands between them, the plan is the checkboxes in their order."""
    lines = [f"{bullet}[{'x' if done else ' '}] {content}" for bullet, done, content in steps]
    text = "\n".join(line for pair in zip(lines, [*noise, *[""] * len(lines)], strict=False) for line in pair)
    assert [(step.done, step.content) for step in read_steps(text)] == [
        (done, content) for _, done, content in steps
    ]
    assert [step.index for step in read_steps(text)] == list(range(len(steps)))


# --- `Reflection`: answers are reviewed, but not for ever


MESSAGES = (
    UserMessage(content=(Text(text="Why?"),)),
    AssistantMessage(content=(Text(text="Because."),), model="demo:"),
)


def test_what_stands_between_a_review_and_its_answer_changes_nothing():
    """The model may look things up first; an answer without words, and a document, are returned as they are written."""
    looks = Alone(Reflection)
    looks.hears(says("Because."), turn=1)
    looks.hears(p.BeforeFinish(), messages=MESSAGES)
    assert looks.hears(says("APPROVED", "read"), turn=2).event.message.text == "APPROVED"
    assert looks.hears(says("APPROVED"), turn=3).event.message.text == "Because."
    silent = Alone(Reflection)
    silent.hears(says(""), turn=1)
    silent.hears(p.BeforeFinish())
    assert silent.hears(says("APPROVED"), turn=2).event.message.text == "APPROVED"
    assert silent.hears(p.BeforeFinish()).prompt is None
    document = AssistantMessage(content=(Text(text='{"a": 1}'),), model="demo:")
    shaped = Alone(Reflection)
    shaped.hears(says('{"a": 1}'), turn=1)
    prompt = shaped.hears(p.BeforeFinish(), messages=(MESSAGES[0], document)).prompt
    assert prompt.endswith("write the same JSON again, unchanged.")
    assert shaped.hears(says('{ "a": 1 }'), turn=2).event.message.text == '{ "a": 1 }'
    assert shaped.hears(p.BeforeFinish()).prompt is None


def reviewed(result):
    """What a reviewer's answer leads to, and the plugin."""
    plugin = Alone(Reflection, reviewer_model="demo:judge", criteria=["It is true."])
    waits = plugin.hears(p.BeforeFinish(), messages=MESSAGES)
    plugin_request = waits.waiting.plugin_request
    assert (plugin_request.tag, plugin_request.effect.model) == ("review", "demo:judge")
    assert plugin_request.effect.prompt == "Criteria:\n- It is true.\n\nAnswer:\nBecause."
    ctx = p.Context(session_id=SessionId("s"))
    return resume_hook(plugin.stack, waits, result, waits.states, ctx)


def test_another_model_may_review():
    """With `reviewer_model` the finish waits for its answer, and the model hears what is wrong (5.8)."""
    back = reviewed(p.ModelAnswer(text="It gives no reason."))
    assert back.prompt == "A reviewer says of your answer:\nIt gives no reason.\nWrite a better one."
    assert back.states["Reflection"].reviews == 1
    assert reviewed(p.ModelAnswer(text="APPROVED")).prompt is None
    failed = reviewed(p.RequestFailed(error=ErrorInfo(code="overloaded", message="busy")))
    assert (failed.prompt, failed.events[0].name) == (None, "reflection_failed")


@given(answers=st.lists(st.sampled_from(("better", "APPROVED", "worse")), max_size=8), most=st.integers(0, 4))
def test_a_cycle_is_sent_back_at_most_so_often(answers, most):
    """Whatever the model says, its answer is sent back at most `max_reviews` times, and never once it passed."""
    plugin = Alone(Reflection, max_reviews=most)
    plugin.hears(says("first"), turn=1)
    sent_back = 0
    for turn, answer in enumerate(answers, start=2):
        if plugin.hears(p.BeforeFinish()).prompt is None:
            break
        sent_back += 1
        plugin.hears(says(answer), turn=turn)
        if answer == "APPROVED":
            assert plugin.hears(p.BeforeFinish()).prompt is None
            break
    assert sent_back <= most


# --- `Reflection(reviewer_agent=…)`: the model calls the agent, the plugin writes that call and reads its result


REVIEW = {"description": "My answer.", "subagent_type": "critic"}


class Cycle:
    """A cycle with the plugin in it, as a session would go through it."""

    def __init__(self, *, tools: tuple[str, ...] = ("task",), depth: int = 0, **options: Any) -> None:
        self.plugin = Alone(Reflection, **({"reviewer_agent": "critic"} | options))
        self.tools = tools
        self.depth = depth
        self.told: list[str] = []
        self.failures: list[str] = []
        self.messages: list[Message] = []
        self.prompted("Why?")

    def prompted(self, text: str) -> None:
        self.turn = 0
        self.messages.append(UserMessage(content=(Text(text=text),)))

    def hears(self, event: p.HookEvent) -> Any:
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


def test_a_review_that_fails_lets_the_answer_pass():
    """An unknown agent, or one that a person or a guard stopped; without the tool it is said at the root, and not below."""
    for text in ("There is no sub-agent of type 'critic'. Types: general-purpose.", "stopped"):
        cycle = Cycle()
        cycle.responds("Because.")
        assert not cycle.finishes()
        cycle.calls(text, is_error=True)
        assert cycle.responds("APPROVED") == "Because."
        assert cycle.finishes()
        assert cycle.failures == [text]
    for options, failures in (({"tools": ("shell",)}, [NO_TASK]), ({"depth": 1}, [])):
        cycle = Cycle(**options)
        cycle.responds("Because.")
        assert cycle.finishes()
        assert (cycle.failures, cycle.told) == (failures, [])


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


def test_the_verdict_is_the_first_line_or_the_field():
    """The signal somewhere in the words is no approval."""
    for text in ("APPROVED", "\n `APPROVED`.\nFine.", '{"verdict": "APPROVED", "points": []}'):
        assert is_approved(text, "APPROVED"), text
    for text in ("This cannot be APPROVED.", "NOT APPROVED", "No.\nAPPROVED", '["APPROVED"]', "[" * 100_000):
        assert not is_approved(text, "APPROVED"), text[:80]
    for text in ('{"verdict": "no", "said": "APPROVED"}', '{"approved": true}'):
        assert not is_approved(text, "APPROVED"), text


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
