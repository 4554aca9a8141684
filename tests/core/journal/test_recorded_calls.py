"""Verdicts on calls in a fold that brings a session back: the records decide, one rule after the other."""

import msgspec

from agentrail.core.journal import fold
from agentrail.core.journal.fold import NO_SOURCES, Walked
from agentrail.core.journal.turn_index import CallBehind, _note_end
from agentrail.core.policy.calls import Refused, hash_arguments
from agentrail.core.protocol.actions import Abort, BlockTool, RequireApproval
from agentrail.core.protocol.effects import Publish
from agentrail.core.protocol.hooks import BeforeTool
from agentrail.core.session.batch import _validated
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.recorded_calls import DIGITS, GUESSES, RecordedCalls, began_call
from agentrail.core.session.step_context import StepContext
from agentrail.core.stack.hook_outcome import Decision, Outcome
from agentrail.core.values.toolbox import ToolSpec, read_call
from agentrail.errors import InternalError
from agentrail.events import ToolTookEffect
from agentrail.messages import CallId, ToolResult
from tests.core.journal.recorded import Told, call, resealed
from tests.core.worlds import READ, new_session

ARGUMENTS = {"path": "a"}
RAN = f"run_tool t1 read op=o args={hash_arguments(ARGUMENTS)[:DIGITS]}"


def state_of(spec=READ, name="read"):
    """A call of a tool before its guards."""
    return CallState(
        call=read_call("c1", name, '{"path": "a"}'), spec=spec, arguments=ARGUMENTS, stage="waiting"
    )


def outcome_of(action=None):
    """The guards' answer; None for none that stops the call."""
    event = BeforeTool(name="read", arguments=ARGUMENTS, call_id=CallId("c1"))
    decision = None if action is None else Decision(action=action, by="guard")
    return Outcome(event=event, states={}, decision=decision)


def judged(recorded, action, state=None):
    """The action that counts, and the plugins whose verdicts do not."""
    counts = recorded.judged(state or state_of(), outcome_of(action), outcome_of)
    return None if counts.decision is None else counts.decision.action, recorded.set_aside


ASKS = RequireApproval("sure?", None)
BLOCKS = BlockTool("no", None)


PEOPLES = state_of(ToolSpec(name="read", description="x", parameters={"type": "object"}, answered_by="user"))


def test_the_record_of_a_call_decides_or_the_guess():
    """A call that its record names has run, one that a later record names may have waited for a person; no record names what people answer."""
    for records, guess, state, action, counts, set_aside in (
        ([""], "as_said", None, BLOCKS, BlockTool, []),
        ([""], "as_said", None, None, BlockTool, ["journal"]),
        ([""], "asked", None, BLOCKS, RequireApproval, ["guard"]),
        ([""], "refused", None, ASKS, BlockTool, ["guard"]),
        ([""], "aborted", None, BLOCKS, Abort, ["guard"]),
        ([""], "allowed", None, BLOCKS, type(None), ["guard"]),
        ([RAN], "as_said", PEOPLES, BLOCKS, BlockTool, []),
        ([RAN], "asked", PEOPLES, BLOCKS, RequireApproval, ["guard"]),
        ([RAN], "as_said", None, None, type(None), []),
        ([RAN], "as_said", None, BLOCKS, type(None), ["guard"]),
        (["", RAN], "as_said", None, ASKS, RequireApproval, []),
        (["", RAN], "as_said", None, BLOCKS, type(None), ["guard"]),
        (["", "start_stream r2", RAN], "as_said", None, BLOCKS, BlockTool, []),
    ):
        found, aside = judged(RecordedCalls(records, 0, guess), action, state)
        assert (type(found), aside) == (counts, set_aside), (records, guess)


def test_a_refused_call_that_a_record_names_has_passed():
    """Its tool was withheld by newer code; with other arguments it stays refused."""
    recorded = RecordedCalls([RAN], 0)
    step = StepContext(new_session().data, 1, recorded=recorded)
    passed = _validated(step, state_of(), "tool_use", withheld=True)
    assert not isinstance(passed, Refused)
    assert (passed.arguments, recorded.was_asked, recorded.set_aside) == (ARGUMENTS, True, ["journal"])
    other = msgspec.structs.replace(state_of(), arguments={"path": "b"})
    assert isinstance(_validated(step, other, "tool_use", withheld=True), Refused)


def test_what_records_name_in_another_way_is_found():
    """A sub-agent has no digest of arguments; where no signal stands nothing was stepped, so no plugin caused it."""
    spec = ToolSpec(name="task", description="x", parameters={"type": "object"}, answered_by="child")
    assert began_call(state_of(spec, "task"), {"subagent_type": "scout", "task": "Look."}) == ("scout", "")

    told = Told(new_session())
    walked = Walked(record=told.life.records[0], before=told.life.start, signal=None, after=told.life.start)
    assert fold._last_asked(walked, NO_SOURCES) == ""  # noqa: SLF001 - its own door


def test_a_guess_with_which_a_step_crashes_is_passed_over(monkeypatch):
    """The next one is tried, and a drift is found all the same."""
    told = Told(new_session())
    told.prompt("Go")
    told.complete("I look.", call(path="a"))
    place = max(record.seq for record in told.life.records if "run_tool" in record.does)
    lost = resealed(told.life.records, {place: {"does": ""}})
    tried, real = [], fold.step

    def step(state, signal, recorded=None):
        if recorded is None:
            return real(state, signal)
        tried.append(recorded.guess)
        if recorded.guess in {"as_said", "asked"}:
            message = "a bug"
            raise InternalError(message)
        return real(state, signal, recorded)

    monkeypatch.setattr(fold, "step", step)
    sources = msgspec.structs.replace(told.life.sources(), keeps_verdicts=True)
    folded = fold.fold_journal(lost, sources)
    assert tried == list(GUESSES)
    assert folded.drift is not None
    assert folded.drift.first == place


def test_a_stopped_call_that_took_effect_is_told_as_such():
    """The late value says what it did; the result of the stop, before and after it, does not."""
    behind = CallBehind(number=1, call_id=CallId("c1"), name="pay", effect_class="once")
    for is_error, outcome in ((False, "done"), (True, "failed")):
        found = {behind.call_id: msgspec.structs.replace(behind, outcome="unknown")}
        result = ToolResult(call_id=CallId("c1"), name="pay", text="paid", is_error=is_error)
        _note_end(found, Publish(event=ToolTookEffect(name="pay", call_id=CallId("c1"), result=result)))
        assert found[CallId("c1")].outcome == outcome
