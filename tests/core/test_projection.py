"""What others see of a session: the request, and the status."""

from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import (
    AbortCycle,
    Prompt,
    Restarted,
    SessionBegan,
    SignalId,
    StatusQuery,
    TeardownFinished,
    ToolFinished,
)
from agentrail.core.session.projection import (
    LAST_TURN_NOTE,
    RunningTool,
    Status,
    digest_of,
    request_of,
    snapshot_of,
    status_of,
)
from agentrail.core.session.state import Phase
from agentrail.core.values.toolbox import read_call
from agentrail.events import AbortReceipt
from agentrail.messages import PromptRef, Text, TokenUsage
from tests.core.worlds import TOOLS, completed, new_session, run, walk


def prompt(name: str, at_ms: int = 10) -> Prompt:
    """A prompt."""
    return Prompt(at_ms=at_ms, signal_id=SignalId(name), ref=PromptRef(name), content=(Text(text=name),))


BUSY = [
    SessionBegan(at_ms=5),
    prompt("p1"),
    prompt("p2"),
    completed(
        "r1", read_call("c1", "deploy", "{}"), read_call("c2", "read", "{}"), read_call("c3", "read", "{}")
    ),
]


def test_status_of_a_session_that_works():
    """Everything that a late client needs to draw a busy session."""
    state = run(BUSY)
    assert status_of(state.phase, state.data, 105) == Status(
        session_id="s",
        phase="executing_tools",
        turn=1,
        model="scripted:model",
        queued=("p2",),
        steers=(),
        running_tools=(
            RunningTool(call_id="c1", name="deploy", started_at_ms=1),
            RunningTool(call_id="c2", name="read", started_at_ms=1),
        ),
        approvals=(),
        questions=(),
        suspended=False,
        tearing_down=False,
        messages=2,
        usage=TokenUsage(input=1, output=1),
        budget_left=None,
        last_seq=state.data.seq,
        uptime_ms=100,
        restarts=0,
        dropped_signals=0,
        quarantined_signals=0,
    )


def test_a_snapshot_says_what_tools_promise_about_being_run_twice():
    """One that promises nothing is not named: that is what a reader has to take any tool for that it knows nothing of."""
    state = run(BUSY)
    promised = {one.name: one.effect_class for one in TOOLS if one.effect_class != "once"}
    assert promised["read"] == "pure"
    assert "deploy" in {one.name for one in TOOLS} - set(promised)
    assert dict(snapshot_of(state.phase, state.data, 105).effects) == promised


def test_status_of_a_session_that_was_aborted():
    """Between an abort and the end of its teardown the session is idle, its survivors show, and so does the queue."""
    state = run([*BUSY, AbortCycle(at_ms=20, signal_id=SignalId("a1"))])
    status = status_of(state.phase, state.data, 20)
    assert (status.phase, status.turn, status.tearing_down, status.queued) == ("idle", 0, True, ("p2",))
    assert status.running_tools == (RunningTool(call_id="c1", name="deploy", started_at_ms=1, survivor=True),)


def test_status_counts_what_went_wrong():
    """Restarts and late outcomes are visible."""
    late = ToolFinished(at_ms=30, effect_id=EffectId("t99"), text="late", started_at_ms=1)
    state = run([*BUSY, late, Restarted(at_ms=40, reason="crash", incarnation=2)])
    status = status_of(state.phase, state.data, 50)
    assert (status.dropped_signals, status.restarts, status.phase) == (1, 1, "running")


def test_status_is_what_a_query_gets():
    """`StatusQuery` is answered with the status at the time of the signal."""
    *_, seen = walk([SessionBegan(at_ms=5), StatusQuery(at_ms=9, signal_id=SignalId("q1"))])
    (reply,) = seen.effects
    assert reply.to == "q1"
    assert reply.value == status_of(Phase.IDLE, seen.before.data, 9)
    assert reply.value.uptime_ms == 4


def test_a_request_has_the_whole_conversation_and_all_tools():
    """Nothing is left out of an ordinary request, and the model chooses."""
    data = run([prompt("p1")]).data
    request = request_of(data, EffectId("r9"), last_turn=False)
    assert request.messages is data.history.messages
    assert (request.tools, request.tool_choice, request.attempt) == (TOOLS, "auto", "r9")
    assert (request.model, request.model_name) == ("scripted:model", "model")
    assert request.system is None
    assert request.max_output_tokens is None


def test_the_last_request_asks_for_an_answer():
    """Tools are withheld but listed, for the provider's cache; the note stands last and is not in the history."""
    data = run([prompt("p1")], new_session(max_output_tokens=9, system_prompt="Be brief.")).data
    request = request_of(data, EffectId("r9"), last_turn=True)
    assert request.messages[:-1] == data.history.messages[:]
    assert request.messages[-1].content == (Text(text=LAST_TURN_NOTE),)
    assert request.messages[-1].origin == "note"
    assert (request.tools, request.tool_choice) == (TOOLS, "none")
    assert (request.system, request.max_output_tokens) == ("Be brief.", 9)
    assert len(data.history) == 1


def test_the_digest_tells_notes_apart():
    """No notes have no digest; other notes, or notes cut at another place, have another."""
    assert digest_of(()) == ""
    assert len(digest_of(("a",))) == 64
    assert digest_of(("a", "b")) != digest_of(("ab",))


def test_a_receipt_is_passed_on_as_it_came():
    """What the shell found at the teardown is what whoever waits for the abort reads."""
    receipt = AbortReceipt(tasks_ended=2, stuck=("read",), milliseconds=4)
    abort = AbortCycle(at_ms=20, signal_id=SignalId("a1"))
    *_, seen = walk([*BUSY, abort, TeardownFinished(at_ms=30, effect_id=EffectId("d4"), receipt=receipt)])
    assert [effect.value for effect in seen.effects if getattr(effect, "to", None) == "a1"] == [receipt]


def test_the_shortest_prompt_names_the_tools():
    """`minimal`: the own text and the names of the tools; `none`: the own text only (3.2)."""
    options = {"system_prompt": "Be brief.", "max_output_tokens": 9}
    minimal, none = (
        request_of(
            run([prompt("p1")], new_session(prompt_mode=mode, **options)).data,
            EffectId("r1"),
            last_turn=False,
        )
        for mode in ("minimal", "none")
    )
    assert minimal.system == f"Be brief.\n\nTools: {', '.join(tool.name for tool in TOOLS)}"
    assert none.system == "Be brief."
