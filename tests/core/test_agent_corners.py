"""Corners of agents in the background that lives seldom come to: limits, money that is gone, ends in the wrong moment."""

import msgspec
import pytest

from agentrail.core.policy.budget import Budget, Spent
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.effects import CloseAgent, PromptAgent, StartAgent
from agentrail.core.session.agent_calls import MAX_INPUTS
from agentrail.core.session.agent_pool import MAX_ENDED, MAX_NOTE_CHARACTERS
from agentrail.core.session.agent_records import GENERAL_PURPOSE, AgentLimits, AgentSpec, find_agent
from agentrail.core.values.toolbox import Toolbox, ToolSpec, read_call
from agentrail.events import Envelope, SessionRecovered, StatusUpdate, SubagentEvent, ToolExecutionEnd
from agentrail.messages import SessionId, SteerRef, TokenUsage, ToolResult
from tests.core.worlds import (
    AGENT_TOOLS,
    TOOLS,
    agents_session,
    changed,
    completed,
    new_session,
    prompt,
    walk,
)

USED = Spent(usage=TokenUsage(input=3, output=2, cost_usd=0.5), tokens=5, nano_usd=500_000_000)


def call(number, tool, /, **given):
    return read_call(f"c{number}", tool, msgspec.json.encode(given).decode())


class Life:
    """A session that goes on by what is said to it, and answers in results."""

    def __init__(self, state):
        self.state, self.seen = state, []
        self.hear(prompt())

    def hear(self, *signals):
        self.seen = list(walk(signals, self.state))
        self.state = self.seen[-1].after

    def calls(self, *wanted):
        """Let the model make these calls; gives what they were answered with, as far as they are."""
        self.hear(completed(self.state.data.stream.effect_id, *wanted))
        return self.answers()

    def answers(self):
        return [result.text for result in self.results()]

    def results(self):
        events = [event for one in self.seen for event in one.events]
        return [event.result for event in events if isinstance(event, ToolExecutionEnd)]

    def asked(self, kind):
        """What was asked of the shell in the last steps."""
        return [effect for one in self.seen for effect in one.of(kind)]

    def agent(self, name="agent-1"):
        return self.state.data.agents.find(name)

    def idle(self, name="agent-1", text="found", **more):
        given = {"outcome": "finished", "text": text, "turns": 1, "spent": USED} | more
        self.hear(s.AgentIdled(at_ms=5, effect_id=self.agent(name).effect_id, **given))

    def end(self, name="agent-1", **more):
        given = {"reason": "closed", "is_lost": False, "spent": None} | more
        self.hear(s.AgentEnded(at_ms=6, effect_id=self.agent(name).effect_id, **given))


def life(**options):
    return Life(agents_session(**({"max_turns": 99, "max_parallel_tools": 4} | options)))


LOOK = {"agent": "scout", "task": "Look."}


def with_agent():
    there = life()
    there.calls(call(1, "spawn_agent", **LOOK))
    return there


def all_spent(there):
    there.state = changed(
        there.state, ledger=msgspec.structs.replace(there.state.data.ledger, spent_tokens=10**6)
    )


def test_where_nothing_is_left_what_waits_for_an_agent_is_dropped():
    """With a note that says so, and why."""
    there = life(budget=Budget(max_total_tokens=200), max_output_tokens=10)
    there.calls(call(1, "spawn_agent", **LOOK))
    there.calls(call(2, "send_input", name="agent-1", text="And there?"))
    all_spent(there)
    there.idle()
    assert (there.agent().status, there.agent().inputs) == ("idle", ())
    note = there.state.data.agents.notes[0]
    assert note.startswith("[What was sent to agent agent-1 was dropped: ")
    assert not there.asked(PromptAgent)


@pytest.mark.parametrize("tool", ["spawn_agent", "send_input"])
@pytest.mark.parametrize("own", [None, Budget(max_total_tokens=5)], ids=["a share", "its own"])
def test_a_call_that_would_cost_more_than_is_left_is_refused(tool, own):
    """The model hears why, and the agent stays as it is."""
    spec = AgentSpec(name="scout", description="x", background=True, budget=own)
    there = life(budget=Budget(max_total_tokens=2_000), max_output_tokens=10, agents=(spec,))
    there.calls(call(1, "spawn_agent", **LOOK))
    there.idle()
    all_spent(there)
    given = {**LOOK, "name": "b"} if tool == "spawn_agent" else {"name": "agent-1", "text": "Again."}
    (said,) = there.calls(call(2, tool, **given))
    assert not there.asked(StartAgent) + there.asked(PromptAgent)
    assert there.agent().status == "idle"
    assert "is left for a sub-agent: raise the budget, or continue without a sub-agent" in said


def test_names_are_given_once_and_outlive_their_agents():
    """The ones that are given follow the number of agents; the oldest that ended are forgotten, and their names are not."""
    there = life()
    there.calls(call(1, "spawn_agent", **LOOK, name="agent-2"))
    said = there.calls(call(2, "spawn_agent", **LOOK), call(3, "spawn_agent", agent="scout", task="More."))
    assert [text.split()[0] for text in said] == ["agent-3", "agent-4"]

    there = life(agent_limits=AgentLimits(max_agents_total=99))
    for number in range(MAX_ENDED + 1):
        there.calls(call(number, "spawn_agent", **LOOK))
        there.end(f"agent-{number + 1}")
    assert len(there.state.data.agents.states) == MAX_ENDED
    (said,) = there.calls(call(100, "send_input", name="agent-1", text="Still there?"))
    assert said == "There is no agent 'agent-1' to work with, it ended long ago. Alive: none."
    (said,) = there.calls(call(101, "wait_agents", names=["agent-1"]))
    assert said == "[agent-1 ended long ago]"


def test_what_agents_are_told_and_tell_has_bounds():
    """What waits for one; and what ends while nothing waits is told in short, as the rest is what a wait gives."""
    there = with_agent()
    team = there.state.data.agents
    agent = there.agent()
    full = msgspec.structs.replace(agent, inputs=("x",) * MAX_INPUTS)
    there.state = changed(there.state, agents=msgspec.structs.replace(team, states=(full,)))
    (said,) = there.calls(call(2, "send_input", name="agent-1", text="More."))
    assert said == f"{MAX_INPUTS} inputs wait for agent-1 already: wait until it is idle."

    there.state = changed(there.state, agents=msgspec.structs.replace(team, states=(agent,)))
    there.idle(text="x" * 5_000)
    (note,) = there.state.data.agents.notes
    assert len(note) == MAX_NOTE_CHARACTERS
    assert note.endswith("… [wait_agents gives the rest]")


def test_an_agent_is_closed_once_however_many_wait_for_that():
    """One that is to end behind its cycle ends now when that is wanted; whoever wants it now is what ends it, once."""
    there = with_agent()
    there.calls(call(2, "close_agent", name="agent-1"))
    assert there.agent().status == "closing"
    there.hear(s.Steer(at_ms=4, signal_id=s.SignalId("s"), ref=SteerRef("s"), text="Be quick."))
    assert there.agent().status == "closing"
    there.idle()
    assert [one.reason for one in there.asked(CloseAgent)] == ["closed"]
    there.end()
    assert there.agent().status == "ended"

    there = with_agent()
    there.calls(
        call(2, "close_agent", name="agent-1"),
        call(3, "close_agent", name="agent-1", now=True, reason="no time"),
        call(4, "close_agent", name="agent-1", now=True),
    )
    assert [one.reason for one in there.asked(CloseAgent)] == ["no time"]
    assert there.agent().status == "stopping"
    there.end(reason="no time")
    assert len(there.answers()) == 3


def test_a_wait_is_answered_with_what_the_agents_have_read():
    """12.6: with the sources of their results and of sessions below them, each once, so that the session may cite them; heard once."""
    there = life()
    there.calls(call(1, "spawn_agent", **LOOK), call(2, "spawn_agent", **LOOK, name="other"))

    def reads(name, seq, sources, *, is_error=False, depth=0):
        told = {"call_id": "c9", "name": "kb_search"}
        result = ToolResult(**told, text="x", is_error=is_error, details={"sources": sources})
        meta = Envelope("below", seq, 1, ("below",))
        event = ToolExecutionEnd(**told, result=result, meta=None if depth else meta)
        if depth:
            event = SubagentEvent(call_id="c8", child_id="deep", depth=1, event=event, meta=meta)
        of = there.agent(name).effect_id
        there.hear(s.ChildPublished(at_ms=4, effect_id=of, event=event, child_id="below"))

    for name in ("agent-1", "other"):
        there.hear(s.ChildStarted(at_ms=4, effect_id=there.agent(name).effect_id, child_id=f"s.{name}"))
    reads("agent-1", 1, ["a.md#L1-L2", "b.md#L1-L2"])
    reads("agent-1", 1, ["heard.md#L1-L2"])
    reads("agent-1", 2, ["failed.md#L1-L2"], is_error=True)
    reads("agent-1", 3, ["deep.md#L3-L4"], depth=1)
    reads("other", 1, ["a.md#L1-L2", 7, "x" * 2_000])
    for name in ("agent-1", "other"):
        there.idle(name)
    there.calls(call(3, "wait_agents"))
    assert [result.details for result in there.results()] == [
        {"sources": ["a.md#L1-L2", "b.md#L1-L2", "deep.md#L3-L4"]}
    ]


def test_a_crash_of_the_session_ends_what_was_to_end():
    """Those that were told to stop are told again, by the next incarnation; a word of an agent that has not begun is no event."""
    there = life()
    there.calls(call(1, "spawn_agent", **LOOK), call(2, "spawn_agent", agent="waker", task="Wait."))
    there.calls(call(3, "close_agent", name="agent-1"))
    there.hear(s.Restarted(at_ms=7, reason="bang", incarnation=2))
    assert [one.name for one in there.asked(StartAgent)] == ["agent-1", "agent-2"]
    (closed,) = there.asked(CloseAgent)
    assert closed.effect_id == there.agent().effect_id

    there = with_agent()
    there.hear(s.ChildPublished(at_ms=5, effect_id=there.agent().effect_id, event=StatusUpdate(text="…")))
    assert not there.seen[-1].events


def test_the_end_of_a_session_is_that_of_its_agents_and_waits():
    """Nothing of them is open any more, and nothing waits."""
    stop = s.StopSession(at_ms=8, signal_id=s.SignalId("x"), reason="enough")
    for end in (s.Parked(at_ms=8, reason="too often"), stop):
        there = life()
        there.calls(call(1, "spawn_agent", **LOOK))
        there.calls(call(2, "wait_agents"))
        there.hear(end)
        if end is stop:
            there.end(reason="enough")
        else:
            assert there.state.ended
        assert not there.state.data.agents.waits
        assert not there.state.data.agents.alive


def test_aborts_of_all_kinds_end_what_is_there_once():
    """It withdraws one wait, and a second abort finds agents stopping; one that spared them is followed by one that does not."""
    there = with_agent()
    there.calls(call(2, "wait_agents"), call(3, "wait_agents", names=["agent-1"]))
    there.hear(
        s.AbortCycle(at_ms=8, signal_id=s.SignalId("a")), s.AbortCycle(at_ms=8, signal_id=s.SignalId("b"))
    )
    assert there.agent().status == "stopping"
    assert not there.state.data.agents.waits
    assert len(there.state.data.agents.alive) == 1

    there = with_agent()
    there.calls(read_call("c9", "read", "{}"))
    there.hear(s.AbortCycle(at_ms=8, signal_id=s.SignalId("a"), children=False))
    assert there.state.data.teardown is not None
    there.hear(s.AbortCycle(at_ms=9, signal_id=s.SignalId("b")))
    assert there.agent().status == "stopping"


def test_agents_and_waits_come_back_in_another_process():
    """Each is asked for once more behind its last event, the wait keeps its time, and it is said."""
    there = with_agent()
    there.calls(call(2, "wait_agents", timeout_seconds=60))
    (wait,) = there.state.data.agents.waits
    there.hear(s.Recovered(at_ms=20, cause="start", open=(), attempt=1))
    (said,) = [event for event in there.seen[-1].events if isinstance(event, SessionRecovered)]
    assert {(one.open, one.name, one.decision) for one in said.decisions} == {
        ("child", "agent-1", "resumed"),
        ("timer", "wait_agents", "kept"),
    }
    (started,) = there.asked(StartAgent)
    assert started.effect_id == there.agent().effect_id
    (again,) = there.state.data.agents.waits
    assert (again.expires_at_ms, again.timer != wait.timer) == (wait.expires_at_ms, True)
    there.idle()
    assert there.answers()[0].startswith("[agent-1 (scout) is idle")


def test_what_starts_no_agent_says_so():
    """A session as deep as agents may work; a tool of another version's journal that no session answers; a kind that was not given."""
    deep = life()
    config = msgspec.structs.replace(deep.state.data.config, path=(SessionId("root"), SessionId("s")))
    deep.state = changed(deep.state, config=config)
    (said,) = deep.calls(call(1, "spawn_agent", **LOOK))
    assert said == "Agents may work 1 deep, and this session is as deep already: do it yourself."

    odd = ToolSpec(name="dance", description="x", parameters={"type": "object"}, answered_by="machine")
    there = Life(new_session(Toolbox([*TOOLS, *AGENT_TOOLS, odd])))
    assert there.calls(call(1, "dance")) == ["No session answers a call of 'dance'."]

    assert find_agent((), GENERAL_PURPOSE) == AgentSpec(name=GENERAL_PURPOSE, description="")
    assert find_agent((), "scout") is None
