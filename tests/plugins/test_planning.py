"""`Planning`: a plan first, and what becomes of its steps."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.errors import PluginError
from agentrail.events import Plan, PlanCompleted, PlanGenerated, PlanStep, PlanStepCompleted, read_steps
from agentrail.messages import Text, UserMessage
from agentrail.plugins.planning import AGAIN, Planning
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.rig import Alone, says

LONG = p.BeforePrompt(text="Please tidy up all of the modules.")


def kinds(outcome):
    """The events, by class."""
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
    """Its steps are published when they are done, and its end once."""
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


def test_a_list_that_is_written_again_makes_moves():
    """What has ended stays ended, whatever an older list says; what fails, begins or is left out is published as the plan that it is now."""
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
    assert (
        "Not taken: step-1 is completed and cannot become pending; from there it may go nowhere: it has ended.\n"
        in shown
    )
    planning.hears(says("- [x] a\n- [!] b\n  - error: other\n- [ ] c\n  - note: soon"))
    assert [(step.error, step.notes) for step in planning.state.plan] == [
        (None, ("odd",)),
        ("broke", ("slow",)),
        (None, ("soon",)),
    ]
    assert (
        "Not taken"
        not in planning.hears(p.BeforeRequest(messages=HISTORY)).event.messages[-1].content[0].text
    )
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


def test_it_keeps_the_contract_of_plugins():
    """`check_plugin`, and options that cannot be are refused."""
    check_plugin(Planning, options=[{}, {"plan_first": False}, {"max_plan_attempts": 1}])
    for options in ({"directive": " "}, {"max_plan_attempts": 0}):
        with pytest.raises(PluginError, match="directive needs words and max_plan_attempts 1 or more"):
            load_stack([(Planning, options)])


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
