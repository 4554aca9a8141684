"""Plans: five states, the moves between them, and Markdown that comes back as it was (12.8, G-034)."""

import itertools

import msgspec
import pytest
from hypothesis import given, strategies as st

from agentrail.errors import PlanError
from agentrail.events import MOVES, STEP_MARKS, Plan, PlanStep, decode_plan, encode_plan, may_move, read_steps
from agentrail.events.plan_markdown import MAX_SAID, MAX_STEP_NOTES

STATUSES = tuple(MOVES)
LEGAL = {("pending", after) for after in ("in_progress", "completed", "failed", "skipped")} | {
    ("in_progress", after) for after in ("completed", "failed")
}

# What breaks lines, what looks like marks or escapes, and anything else.
breaks = ("\n", "\r", "\u2028", "\x85", " ", "\t")
hard = st.sampled_from((*breaks, "&#10;", "&#;", "&", "#", "- [x] ", "  - note: ", "# ", "> ", "-->"))
texts = st.lists(hard | st.text(max_size=4), max_size=5).map("".join)
steps = st.builds(
    PlanStep,
    index=st.just(0),
    content=texts,
    status=st.sampled_from(STATUSES),
    result=st.none() | texts,
    error=st.none() | texts,
    notes=st.lists(texts, max_size=2).map(tuple),
)
plans = st.builds(
    Plan,
    steps=st.lists(steps, max_size=4).map(tuple),
    goal=texts,
    notes=st.lists(texts, max_size=2).map(tuple),
    approved_at_ms=st.none() | st.integers(-(10**17), 10**17),
)


@pytest.mark.blueprint("G-034")
@given(plans)
def test_every_plan_comes_back_from_markdown_as_it_was(plan):
    """G-034: whatever stands in it: line breaks, marks, escapes, nothing at all; also from what a mailer made of the line ends."""
    written = encode_plan(plan)
    assert decode_plan(written) == plan
    assert decode_plan(written.replace("\n", "\r\n")) == plan
    assert read_steps(written) == read_steps(written.replace("\n", "\r\n")) == plan.steps


def test_what_came_of_a_step_is_read_among_other_words():
    """12.8: right below its step, in any list; what stands elsewhere, or says nothing, is other words. All of it is bounded."""
    text = (
        "Done so far:\n1. [x] look\n   * result: ten files\n   - note: all short\n\t- note: one empty\n"
        "2. [!] count\n   - error: no rights\n\n   - note: too late\n3. [ ] write\n   - result:\n- error: not indented\n"
    )
    assert [(step.result, step.error, step.notes) for step in read_steps(text)] == [
        ("ten files", None, ("all short", "one empty")),
        (None, "no rights", ()),
        (None, None, ()),
    ]
    (step,) = read_steps("- [x] a\n" + "  - note: b\n" * 30 + f"  - result: {'c' * 9_000}\n  - result: d")
    assert (len(step.notes), step.result) == (MAX_STEP_NOTES, "d")
    assert len(read_steps(f"- [x] a\n  - result: {'c' * 9_000}")[0].result) == MAX_SAID


@pytest.mark.blueprint("G-034")
@given(plans, st.data())
def test_a_step_makes_legal_moves_and_no_others(plan, data):
    """G-034: of all twenty-five pairs six; an illegal one names both states, and nothing has changed."""
    assert {pair for pair in itertools.product(STATUSES, STATUSES) if may_move(*pair)} == LEGAL
    before = encode_plan(plan)
    for step in plan.steps:
        wanted = data.draw(st.sampled_from(STATUSES))
        if (step.status, wanted) in LEGAL:
            more = {"result": "r", "error": "e", "notes": ("n",)}
            moved = plan.with_step(step.id, wanted, **more)
            made = PlanStep(index=step.index, content=step.content, status=wanted, **more)
            assert moved.steps[step.index] == made
            others = [one for one in moved.steps if one.index != step.index]
            assert others == [one for one in plan.steps if one.index != step.index]
        else:
            with pytest.raises(PlanError, match=f"is {step.status} and cannot become {wanted}"):
                plan.with_step(step.id, wanted)
        assert plan.with_step(step.id) == plan
    with pytest.raises(PlanError, match="there is no step 'step-99'"):
        plan.with_step("step-99", "completed")
    assert encode_plan(plan) == before


def test_progress_and_the_current_step():
    """Counts of all five states, percent of what has ended; the step that is begun, else the next one."""
    plan = Plan(steps=tuple(PlanStep(index=9, content=one) for one in "abc"))
    assert [step.id for step in plan.steps] == ["step-1", "step-2", "step-3"]
    assert (plan.progress.percent, plan.current_step) == (0, plan.steps[0])
    plan = plan.with_step("step-3", "in_progress").with_step("step-1", "skipped")
    assert plan.current_step == plan.steps[2]
    counts = {"pending": 1, "in_progress": 1, "completed": 0, "failed": 0, "skipped": 1}
    assert plan.progress.counts == counts
    assert (plan.progress.percent, plan.progress.total) == (33, 3)
    plan = plan.with_step("step-3", "failed", error="no").with_step("step-2", "completed")
    assert (plan.progress.percent, plan.current_step) == (100, None)
    assert (Plan(steps=()).progress.percent, Plan(steps=()).current_step) == (0, None)


def test_what_two_words_say_of_one_thing_agrees():
    """A record of before the five states says only whether a step is done; lists are copied where they enter."""
    assert PlanStep(index=0, content="a", done=True).status == "completed"
    assert PlanStep(index=0, content="a", status="completed").done
    assert not PlanStep(index=0, content="a", done=True, status="failed").done
    old = b'{"index":0,"content":"a","done":true}'
    assert msgspec.json.decode(old, type=PlanStep) == PlanStep(index=0, content="a", status="completed")

    given_steps, notes = [PlanStep(index=0, content="a", notes=["x"])], ["n"]
    plan = Plan(steps=given_steps, notes=notes)
    given_steps.append(PlanStep(index=1, content="b"))
    notes.append("m")
    assert (len(plan.steps), plan.notes, plan.steps[0].notes) == (1, ("n",), ("x",))


def test_people_write_plans_too():
    """In the form that a person types; what says nothing of a plan is refused with its line."""
    first = PlanStep(index=0, content="a", status="completed", error="e")
    steps = (first, PlanStep(index=1, content="b", status="skipped"))
    assert decode_plan("# Go\n\n* [X] a\n  - error: e\n2) [-] b\n") == Plan(goal="Go", steps=steps)
    lines = {"hello": 1, "- [ ] a\n# late": 2, "  - note: x": 1, "# a\n# b": 2, "- [?] a": 1}
    for text, line in lines.items():
        with pytest.raises(PlanError, match=f"line {line} is"):
            decode_plan(text)
    assert decode_plan("- [ ] &#99999999;&#1114112;").steps[0].content == "&#99999999;&#1114112;"
    assert set(STEP_MARKS) == set(STATUSES)
