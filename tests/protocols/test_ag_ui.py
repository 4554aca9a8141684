"""The fold of AG-UI, event by event: plans, children, interrupts, and what the client has already."""

import json

import msgspec
import pytest
from msgspec.structs import replace

from agentrail import events
from agentrail.messages import (
    ApprovalId,
    AssistantMessage,
    CallId,
    ClientCallRef,
    QuestionRef,
    SessionId,
    Text,
    Thinking,
    TokenUsage,
    ToolResult,
)
from agentrail.protocols.ag_ui import AG_UI, AgUiRun, messages_snapshot, show_ag_ui_change
from agentrail.protocols.ag_ui_messages import AgUiPlan, open_ag_ui_run
from agentrail.protocols.response_changes import CallEnded, CallShown, MessageCompleted, ShownCall
from agentrail.protocols.response_state import Bridged, Response, fail_response
from tests.protocols.ag_ui_client import AgUiClient
from tests.protocols.test_ag_ui_messages import HI, body, of
from tests.protocols.test_ai_ui import (
    ASK,
    BEGIN,
    BROKE,
    CALL,
    MINE,
    SESSION,
    START,
    USAGE,
    delta,
    numbered,
    thinks,
)

CHILD, GRANDCHILD = SessionId("s/k"), SessionId("s/k/g")
OWN = AgUiRun(thread_id="t1", run_id="r1")
TASK = events.ToolExecutionStart(name="task", call_id=CALL, arguments={"prompt": "Look."})
ASKS_CLIENT = events.ClientCall(ref=ClientCallRef("k1"), name="show", call_id=CALL, arguments={"at": "Faro"})
STARTED = events.SubagentStart(child_id=CHILD, call_id=CALL, description="Look.")
ABORTED = events.AgentAbort(reason="enough", ref=MINE)


def said(text, *before, model="m"):
    """A complete message."""
    message = AssistantMessage(content=(*before, *([Text(text=text)] if text else [])), model=model)
    return events.ResponseComplete(message=message, usage=USAGE, stop_reason="end")


def result_of(text="seen", call_id=CALL, **facts):
    """The end of a call."""
    result = ToolResult(call_id=call_id, name="task", text=text, **facts)
    return events.ToolExecutionEnd(name="task", call_id=call_id, result=result)


def of_child(event, number=0, child_id=CHILD):
    """An event of a child, with its number there."""
    meta = events.Envelope(child_id, number, 0, (SESSION, child_id))
    return events.SubagentEvent(child_id=child_id, call_id=CALL, depth=1, event=replace(event, meta=meta))


def waits(kind, name, call_id=CALL):
    """The cycle waits."""
    return events.AgentSuspended(waiting=(events.WaitingFor(kind=kind, id=name, call_id=call_id),))


def run_of(*given, own=OWN):
    """The frames of a run. One that does not end is broken off."""
    state = Bridged(Response(ref=MINE), own)
    frames = []
    for event in numbered(*given):
        state, more = AG_UI.fold(state, event)
        frames += more
    state = Bridged(fail_response(state.response, "draining", "later"), state.own)
    return [json.loads(msgspec.json.encode(frame)) for frame in (*frames, *AG_UI.close(state))]


def read(*given, own=OWN):
    """A client that has read a run, and the terminal frame."""
    client = AgUiClient()
    return client, client.read(run_of(*given, own=own))


def custom(client):
    """What the protocol has no events for."""
    return [(one["name"], one["value"]) for one in client.custom]


# --- messages and calls


def test_what_the_client_has_is_not_opened_again():
    """A message, a call and a result that it sent along: only the cycle's other frames are shown."""
    own = replace(OWN, known=frozenset({"m7", CALL, f"{CALL}/result", "p8"}))
    client, last = read(*BEGIN, delta("Hel"), said("Hello."), TASK, result_of(), ABORTED, own=own)
    assert (client.messages, last["outcome"]) == ([], {"type": "cancelled"})


def test_thinking_is_one_message_of_its_own():
    """Its deltas are joined."""
    client, _ = read(
        *BEGIN,
        thinks("H"),
        thinks("m"),
        delta("S"),
        delta("o."),
        said("So.", Thinking(text="Hm", provider="p")),
        ABORTED,
    )
    assert [(one["role"], one["content"]) for one in client.messages] == [
        ("reasoning", "Hm"),
        ("assistant", "So."),
    ]


def test_a_call_is_shown_once_and_one_without_a_message_has_its_own():
    """The client's call comes twice: as it starts, and as it is asked for. One that is open at the end has no result."""
    start = events.ToolExecutionStart(name="show", call_id=CALL, arguments={"at": "Faro"})
    paused = waits("client_call", ClientCallRef("k1"))
    client, last = read(START, ASK, start, ASKS_CLIENT, paused)
    assert client.call(CALL)["function"] == {"name": "show", "arguments": '{"at":"Faro"}'}
    assert [one["id"] for one in client.messages] == [CALL]
    assert last["outcome"] == {"type": "success", "pendingToolCallIds": [CALL]}
    client, _ = read(START, ASK, start, ABORTED)
    assert client.results(CALL) == []


def test_calls_are_in_their_message_and_in_its_snapshot():
    """Text that is taken back afterwards leaves both: the message with its calls, and an error as one."""
    other = events.ToolExecutionStart(name="task", call_id=CallId("c2"), arguments={})
    calls = (TASK, other, result_of("no", is_error=True), result_of("yes", CallId("c2")))
    broken = (events.MessageStart(), delta("Half"), events.StreamError(error=BROKE, discarded=True))
    frames = run_of(*BEGIN, said("First."), said("Calls."), *calls, ASK, *broken, ABORTED)
    (snapshot,) = [one["messages"] for one in frames if one["type"] == "MESSAGES_SNAPSHOT"]
    assert [one.get("content") for one in snapshot] == ["First.", "Calls.", "no", "yes"]
    assert [call["id"] for call in snapshot[1]["toolCalls"]] == [CALL, "c2"]
    assert "toolCalls" not in snapshot[0]
    failed = [one.get("metadata") for one in frames if one["type"] == "TOOL_CALL_RESULT"]
    assert failed == [{"agentrail": {"isError": True}}, None]
    AgUiClient().read(frames)


def test_a_snapshot_leaves_the_thinking_that_the_client_has():
    """A client keeps its thinking if a snapshot has none, and otherwise only what is in it."""
    client = AgUiClient(messages=[of("reasoning", name="p1"), of("assistant", name="m2"), HI])
    own = open_ag_ui_run(body(*client.messages), AgUiPlan())
    step = (said("See.", Thinking(text="Hm", provider="p")), TASK, result_of())
    broken = (ASK, events.MessageStart(), delta("Half"), events.StreamError(error=BROKE, discarded=True))
    client.read(run_of(*BEGIN, *step, *broken, ABORTED, own=own))
    thoughts = [one["content"] for one in client.messages if one["role"] == "reasoning"]
    assert (thoughts, client.told[-1]) == (["x", "Hm"], ("assistant", "See."))


# --- state and other facts


def test_a_plan_is_state_that_its_steps_change():
    """A step of an unknown plan shows nothing."""
    steps = tuple(events.PlanStep(index=place, content=text) for place, text in enumerate(("a", "b")))
    done = events.PlanStepCompleted(step=replace(steps[1], done=True, status="completed"))
    client, _ = read(*BEGIN, done, ABORTED)
    assert client.state == {}
    client, _ = read(*BEGIN, events.PlanGenerated(plan=events.Plan(steps=steps)), done, ABORTED)
    assert [step.get("status") for step in client.state["plan"]["steps"]] == [None, "completed"]


def test_a_result_that_came_late_is_told():
    """It replaces the one that the client has."""
    late = events.ToolTookEffect(name="task", call_id=CALL, result=result_of("done").result)
    client, _ = read(*BEGIN, said("x"), TASK, result_of("unknown"), late, ABORTED)
    assert custom(client) == [("agentrail.tool_took_effect", {"toolCallId": CALL, "content": "done"})]


def test_todos_and_the_title_are_state_and_what_has_no_event_is_custom():
    """A tool's progress, and a compaction."""
    client, _ = read(
        *BEGIN,
        events.TodoChange(todos=(events.Todo(id="1", content="Look.", status="pending"),)),
        events.TitleGenerated(title="Towns"),
        events.ToolProgress(name="task", call_id=CALL, text="half"),
        events.CompactStart(reason="threshold"),
        events.CompactEnd(removed=3, tokens_before=9, tokens_after=1, saved_to=None),
        ABORTED,
    )
    assert client.state["title"] == "Towns"
    assert [todo["content"] for todo in client.state["todos"]] == ["Look."]
    assert custom(client) == [
        ("agentrail.tool_progress", {"toolCallId": CALL, "text": "half"}),
        ("agentrail.compaction_started", {"reason": "threshold"}),
        ("agentrail.compaction_finished", {"removed": 3}),
    ]


def test_a_run_that_is_broken_off_ends_with_an_error():
    """Its open text is closed first."""
    frames = run_of(*BEGIN, delta("So"))
    assert [one["type"] for one in frames[-3:]] == ["TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_ERROR"]
    assert (frames[-1]["code"], frames[-1]["message"]) == ("draining", "later")


def test_what_waits_from_before_a_run_is_among_its_interrupts():
    """Without a schema, because its question was in another run."""
    _, last = read(*BEGIN, said("x"), waits("approval", ApprovalId("a0")))
    (one,) = last["outcome"]["interrupts"]
    assert one == {"id": "a0", "toolCallId": CALL, "reason": "tool_approval"}


def test_a_prompt_that_no_cycle_took_has_a_start_and_an_end():
    """It was taken out of the queue."""
    client, last = read(events.PromptDropped(ref=MINE, content=()))
    assert (client.messages, last["outcome"]) == ([], {"type": "cancelled"})


# --- interrupts


def test_an_approval_says_until_when_it_can_be_given():
    """Its hint is its message; without one it names the tool. A time without a date, after the year 9999, is left out."""
    for hint, expires, message, until in (
        ("List files?", 1_000, "List files?", "1970-01-01T00:00:01+00:00"),
        ("List files?", 253_402_300_799_999, "List files?", "9999-12-31T23:59:59.999000+00:00"),
        ("List files?", 253_402_300_800_000, "List files?", None),
        (None, None, "Run shell?", None),
    ):
        asked = approval("a1", CALL, hint=hint, expires_at_ms=expires)
        _, last = read(*BEGIN, said("x"), asked, waits("approval", ApprovalId("a1")))
        (one,) = last["outcome"]["interrupts"]
        assert (one["reason"], one["message"], one.get("expiresAt")) == ("tool_approval", message, until)
        assert one["responseSchema"]["required"] == ["approved"]


def test_an_approval_shows_arguments_that_changed_since_its_call_was_shown():
    """A call is shown once. In the same run and in a later one, the message of the second approval has what would run."""
    first = approval("a1", CALL)
    wanted = replace(first.approval, id=ApprovalId("a2"), arguments={"command": "rm a"}, hint="Changed.")
    again = events.ApprovalRequired(approval=wanted)
    resolved = events.ApprovalResolved(approval=first.approval, status="approved", by="user")
    for before, own in (((first, resolved), OWN), ((), replace(OWN, known=frozenset({CALL})))):
        _, last = read(*BEGIN, *before, again, waits("approval", ApprovalId("a2")), own=own)
        (one,) = last["outcome"]["interrupts"]
        assert one["message"] == 'Changed. Run shell with {"command":"rm a"}?'


@pytest.mark.parametrize(
    ("facts", "schema", "metadata"),
    [
        ({"options": ("a", "b")}, {"type": "string", "enum": ["a", "b"]}, None),
        ({"url": "https://x.example"}, {"type": "string"}, {"agentrail": {"url": "https://x.example"}}),
        ({"schema": {"type": "object"}}, {"type": "object"}, None),
    ],
)
def test_a_question_is_told_at_once_and_is_the_interrupt_of_a_run_that_waits(facts, schema, metadata):
    """With its options, form or address."""
    asked = events.AskUser(ref=QuestionRef("q1"), question="Which?", call_id=CALL, **facts)
    client, last = read(*BEGIN, said("x"), TASK, asked, waits("question", QuestionRef("q1")))
    (one,) = last["outcome"]["interrupts"]
    assert custom(client) == [("agentrail.question", one)]
    assert (one["responseSchema"], one.get("metadata"), one["message"]) == (schema, metadata, "Which?")


def approval(name, call_id, **facts):
    """A call waits for an approval."""
    fields = {"tool": "shell", "arguments": {"command": "ls"}, "arguments_hash": "h", "requested_at_ms": 0}
    return events.ApprovalRequired(
        approval=events.Approval(id=ApprovalId(name), call_id=call_id, path=(SESSION,), **fields, **facts)
    )


# --- children


def test_the_work_of_a_child_is_attributed_to_it():
    """Its messages come whole, with thinking in front, and its calls in them; what it says of itself otherwise is left out."""
    call = CallId("c9")
    work = [
        of_child(events.MessageStart(), 3),
        of_child(said("I look.", Thinking(text="Hm", provider="p"), model="small"), 4),
        of_child(events.ToolExecutionStart(name="find", call_id=call, arguments={}), 5),
        of_child(events.ToolProgress(name="find", call_id=call, text="half"), 6),
        of_child(ASK, 7),
        of_child(result_of("found", call), 8),
        of_child(said(""), 9),
    ]
    end = events.SubagentEnd(child_id=CHILD, call_id=CALL, result=result_of("All.").result)
    given = (*BEGIN, said("x"), TASK, STARTED, *work, end, result_of("All."), ABORTED)
    frames = run_of(*given)
    of_it = [one["type"] for one in frames if one.get("subagentRunId") == CHILD]
    assert of_it == [
        "SUBAGENT_STARTED",
        *(
            "REASONING_START",
            "REASONING_MESSAGE_START",
            "REASONING_MESSAGE_CONTENT",
            "REASONING_MESSAGE_END",
            "REASONING_END",
        ),
        *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"),
        *("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "CUSTOM", "TOOL_CALL_RESULT"),
        "SUBAGENT_FINISHED",
    ]
    client = AgUiClient()
    last = client.read(frames)
    assert client.told == [("assistant", "x"), ("assistant", "I look.")]
    assert client.results(f"{CHILD}/{call}") == ["found"]
    assert custom(client) == [("agentrail.tool_progress", {"toolCallId": f"{CHILD}/{call}", "text": "half"})]
    assert [one["model"] for one in last["usage"]] == ["m", "small"]
    known = frozenset({f"{CHILD}/m3", f"{CHILD}/p4.0", f"{CHILD}/{call}", f"{CHILD}/{call}/result"})
    shown = run_of(*given, own=replace(OWN, known=known))
    assert [one["type"] for one in shown if one.get("subagentRunId") == CHILD] == [
        *("SUBAGENT_STARTED", "CUSTOM", "SUBAGENT_FINISHED")
    ]


def test_a_child_of_a_child_names_its_parent_and_a_failure_its_reason():
    """One that has not ended is suspended with the run."""
    inner = events.SubagentStart(child_id=GRANDCHILD, call_id=CallId("c9"), description="Deeper.")
    failed = events.SubagentEnd(
        child_id=GRANDCHILD, call_id=CallId("c9"), result=result_of("no", is_error=True).result
    )
    twice = (of_child(failed), of_child(failed))
    frames = run_of(*BEGIN, said("x"), TASK, STARTED, of_child(inner), *twice, ABORTED)
    started = [one for one in frames if one["type"] == "SUBAGENT_STARTED"]
    assert [
        (one["subagentRunId"], one.get("parentSubagentRunId"), one["parentToolCallId"]) for one in started
    ] == [
        (CHILD, None, CALL),
        (GRANDCHILD, CHILD, f"{CHILD}/c9"),
    ]
    (error,) = [one for one in frames if one["type"] == "SUBAGENT_ERROR"]
    assert (error["subagentRunId"], error["message"]) == (GRANDCHILD, "no")
    (end,) = [one for one in frames if one["type"] == "SUBAGENT_FINISHED"]
    assert (end["subagentRunId"], end["outcome"]) == (CHILD, {"type": "suspended", "interruptIds": []})
    AgUiClient().read(frames)


def test_a_child_that_waits_is_suspended_with_its_interrupt():
    """Its run ends with it, because all running calls wait."""
    asked = of_child(approval(f"{CHILD}/a1", CallId("c9")), 4)
    paused = of_child(waits("approval", ApprovalId("a1"), CallId("c9")), 5)
    frames = run_of(*BEGIN, said("x"), TASK, STARTED, asked, paused)
    AgUiClient().read(frames)
    (end,) = [one for one in frames if one["type"] == "SUBAGENT_FINISHED"]
    assert end["outcome"] == {"type": "suspended", "interruptIds": [f"{CHILD}/a1"]}
    (one,) = frames[-1]["outcome"]["interrupts"]
    assert (one["id"], one["toolCallId"], one["subagentRunId"]) == (f"{CHILD}/a1", f"{CHILD}/c9", CHILD)


class CountedId(str):
    """An id that counts comparisons with it."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other):
        CountedId.compared += 1
        return str.__eq__(self, other)

    def __hash__(self):
        return str.__hash__(self)


def test_a_run_of_many_turns_looks_at_no_turn_again():
    """Each call belongs to its message in a snapshot, but no message is searched for it before. And older states stay as they are."""
    run, states, usage = OWN, [], TokenUsage()
    for turn in range(300):
        name, call = CountedId(f"m{turn}"), ShownCall(name="t", arguments={})
        message = AssistantMessage(content=(Text(text="a"),), model="m")
        result = ToolResult(call_id=CallId(f"c{turn}"), name="t", text="b")
        for change in (
            MessageCompleted(name, message, "a", usage),
            CallShown(f"c{turn}", call, is_new=True),
            CallEnded(f"c{turn}", call, result),
        ):
            run, _ = show_ag_ui_change(run, change, Response())
        states.append(run)
    assert CountedId.compared < 3_000
    for turns in (1, 150, 300):
        said = messages_snapshot(states[turns - 1])["messages"]
        assert [one["id"] for one in said] == [
            name for turn in range(turns) for name in (f"m{turn}", f"c{turn}/result")
        ]
        assert [[call["id"] for call in one["toolCalls"]] for one in said[::2]] == [
            [f"c{turn}"] for turn in range(turns)
        ]


def test_a_call_whose_message_the_client_has_already_is_a_message_of_its_own():
    """In a snapshot, which replaces what was said in this run."""
    run = replace(OWN, message_id="m1")
    for name in ("c1", "c2"):
        run, _ = show_ag_ui_change(
            run, CallShown(name, ShownCall(name="t", arguments={}), is_new=True), Response()
        )
    function = {"name": "t", "arguments": "{}"}
    assert messages_snapshot(run)["messages"] == [
        {
            "id": name,
            "role": "assistant",
            "toolCalls": [{"id": name, "type": "function", "function": function}],
        }
        for name in ("c1", "c2")
    ]
