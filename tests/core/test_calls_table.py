"""The table of calls and phases (3.3): each cell has a scenario that shows it, and the words that must come out there."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from attrs import frozen

from agentrail.core.protocol import signals as s
from agentrail.core.protocol.effects import Effect
from agentrail.core.session import machine
from agentrail.core.session.state import Phase
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.errors import InternalError
from agentrail.testing.scenario import read_scenario
from agentrail.testing.scenario_output import GROUPS, encode_effect

SCENARIOS: Final = Path(__file__).parent.parent / "scenarios"
IDLE, RUNNING, STREAMING, TOOLS = Phase

CALLS: Final[dict[str, Any]] = {
    "prompt": lambda signal: isinstance(signal, s.Prompt) and signal.reply == "receipt",
    "ask": lambda signal: isinstance(signal, s.Prompt) and signal.reply == "text",
    "steer": s.Steer,
    "go_on": s.GoOn,
    "receipt_of": s.ReceiptQuery,
    "abort": s.AbortCycle,
    "abort_tool": s.AbortTool,
    "approve": s.Approve,
    "reject": s.Reject,
    "respond": s.Respond,
    "decline": s.Decline,
    "revoke_rule": s.RevokeRule,
    "agents": s.AgentCommand,
    "answer": s.AnswerCall,
    "ask_user": s.ToolAsked,
    "run_session": s.ToolWantsChild,
    "switch_model": s.ChangeModel,
    "attach_tools": lambda signal: isinstance(signal, s.ChangeTools) and bool(signal.attach),
    "detach_tools": lambda signal: isinstance(signal, s.ChangeTools) and bool(signal.detach),
    "replace_tools": lambda signal: isinstance(signal, s.ChangeTools) and signal.replace,
    "report_tool_source": s.ToolSourceReported,
    "update_plugin_opts": s.UpdatePluginOpts,
    "change_plugins": s.ChangePlugins,
    "compact": s.Compact,
    "status": s.StatusQuery,
    "messages": s.MessagesQuery,
    "snapshot": s.SnapshotQuery,
    "collect_reply": s.ReplyQuery,
    "stop": s.StopSession,
}
"""Each call of the handle, `ctx.ask_user` and `ctx.run_session`, that sends a message, and the signal that it sends. `subscribe` and `journal` send none."""

CELLS: Final[dict[tuple[str, Phase], tuple[str, str]]] = {
    ("prompt", IDLE): ("prompt_in_every_phase", "Reply p1 started; Publish AgentStart p1"),
    ("prompt", RUNNING): (
        "prompt_in_every_phase",
        'PromptQueued p2 "And two?" position=0; Reply p2 queued 0',
    ),
    ("prompt", STREAMING): ("prompt_in_every_phase", "Reply p3 queued 1"),
    ("prompt", TOOLS): ("prompt_in_every_phase", "Reply p4 queued 2"),
    ("ask", IDLE): ("ask_in_every_phase", "AgentStart a1"),
    ("ask", RUNNING): ("ask_in_every_phase", 'PromptQueued a2 "Two?" position=0'),
    ("ask", STREAMING): ("ask_in_every_phase", 'PromptQueued a3 "Three?" position=1'),
    ("ask", TOOLS): ("ask_in_every_phase", 'PromptQueued a4 "Four?" position=2'),
    ("steer", IDLE): ("steer_in_idle", "Reply s1 became_prompt"),
    ("steer", RUNNING): ("steers_merge_at_the_gap", "Reply s1 queued"),
    ("steer", STREAMING): ("steers_merge_at_the_gap", "Reply s2 queued"),
    ("steer", TOOLS): ("steer_while_tools_run", "Reply s1 queued; Publish ToolSkippedForSteering read c1"),
    ("go_on", IDLE): ("go_on", "Publish AgentStart g1 request=req-1 goes_on=True"),
    ("go_on", RUNNING): ("go_on_refused", "Refuse g2 CannotGoOn"),
    ("go_on", STREAMING): ("go_on_refused", "Refuse g3 CannotGoOn"),
    ("go_on", TOOLS): ("go_on_refused", "Refuse g4 CannotGoOn"),
    ("receipt_of", IDLE): ("receipt_in_every_phase", "Reply q4 started"),
    ("receipt_of", RUNNING): ("receipt_in_every_phase", "Reply q1 started"),
    ("receipt_of", STREAMING): ("receipt_in_every_phase", "Reply q2 started"),
    ("receipt_of", TOOLS): ("receipt_in_every_phase", "Reply q3 started"),
    ("abort", IDLE): ("abort_in_idle", "Publish AgentAbort"),
    ("abort", RUNNING): ("abort_while_running", "CancelStream"),
    ("abort", STREAMING): ("abort_while_streaming", "CancelStream"),
    ("abort", TOOLS): ("abort_while_tools_run", "KillTools t3 t4; Publish AgentAbort"),
    ("abort_tool", IDLE): ("abort_tool_suspended", "Reply k1 ok"),
    ("abort_tool", RUNNING): ("abort_tool_refused", "Refuse k2 UnknownCall"),
    ("abort_tool", STREAMING): ("abort_tool_refused", "Refuse k3 UnknownCall"),
    ("abort_tool", TOOLS): ("abort_tool", "KillTools t2; Teardown d4 stopped=t2; Reply k1 ok"),
    ("approve", IDLE): ("approval_approved", "Reply y1 ok; Publish AgentResumed tool_approved"),
    ("approve", RUNNING): ("decisions_about_nothing", "Refuse y4 UnknownApproval"),
    ("approve", STREAMING): ("decisions_about_nothing", "Refuse y7 UnknownApproval"),
    ("approve", TOOLS): ("approval_in_a_batch", "Reply y1 ok; Publish ToolExecutionStart shell c1"),
    ("reject", IDLE): (
        "approval_rejected",
        "Reply n1 ok; Publish AgentResumed tool_rejected; Publish AgentEnd messages=3 not_resumed",
    ),
    ("reject", RUNNING): ("decisions_about_nothing", "Refuse y5 UnknownApproval"),
    ("reject", STREAMING): ("decisions_about_nothing", "Refuse y8 UnknownApproval"),
    ("reject", TOOLS): ("approval_in_a_batch", 'error "Rejected by the user: keep x"; Reply n1 ok'),
    ("respond", IDLE): ("question_answered", "Reply y1 ok; Publish AgentResumed user_respond"),
    ("respond", RUNNING): ("decisions_about_nothing", "Refuse y6 UnknownApproval"),
    ("respond", STREAMING): ("decisions_about_nothing", "Refuse y9 UnknownApproval"),
    ("respond", TOOLS): ("question_beside_a_tool", 'UserResponded scenario/a2 "the left one"'),
    ("decline", IDLE): ("question_declined", "UserDeclined scenario/a2"),
    ("decline", RUNNING): ("decisions_about_nothing", "Refuse x1 UnknownApproval"),
    ("decline", STREAMING): ("decisions_about_nothing", "Refuse x2 UnknownApproval"),
    ("decline", TOOLS): ("form_of_a_tool", "Refuse t2 QuestionDeclined"),
    ("revoke_rule", IDLE): ("rule_revoked", "Refuse v1 UnknownRule"),
    ("revoke_rule", RUNNING): ("rule_revoked", "Refuse v6 UnknownRule"),
    ("revoke_rule", STREAMING): ("rule_revoked", "Refuse v7 UnknownRule"),
    ("revoke_rule", TOOLS): ("rule_revoked", "Reply v4 ok"),
    ("agents", IDLE): ("agents_commanded", 'StartAgent a1 agent-1 scout "Look."; Reply n1 "agent-1"'),
    ("agents", RUNNING): ("agents_commanded", 'Reply m1 "agent-3"'),
    ("agents", STREAMING): ("agents_commanded", 'Reply m2 "agent-1"'),
    ("agents", TOOLS): ("agents_commanded", 'CloseAgent a1 "enough"; Reply m3 "agent-1"'),
    ("answer", IDLE): ("client_call", "Reply y5 ok; Publish AgentResumed client_answer"),
    ("answer", RUNNING): ("client_call_in_every_phase", "Refuse y1 AlreadyResolved"),
    ("answer", STREAMING): ("client_call_in_every_phase", "Refuse y2 AlreadyResolved"),
    ("answer", TOOLS): ("client_call_in_every_phase", 'ToolExecutionEnd show c2 error "wrong"; Reply y3 ok'),
    ("ask_user", IDLE): ("tool_asks", "Refuse q6 CycleAborted"),
    ("ask_user", RUNNING): ("tool_asks", "Refuse q4 CycleAborted"),
    ("ask_user", STREAMING): ("tool_asks", "Refuse q5 CycleAborted"),
    ("ask_user", TOOLS): ("tool_asks", 'AskUser scenario/a4 "Which file?" left,right'),
    ("run_session", IDLE): ("tool_wants_a_session", "Refuse q8 CycleAborted"),
    ("run_session", RUNNING): ("tool_wants_a_session", "Refuse q6 CycleAborted"),
    ("run_session", STREAMING): ("tool_wants_a_session", "Refuse q7 CycleAborted"),
    ("run_session", TOOLS): (
        "tool_wants_a_session",
        'SpawnChild t4 c1:read={"description": "Count the files."} for=q1',
    ),
    ("switch_model", IDLE): ("switch_model", "ModelSwitched scripted:model scripted:second user"),
    ("switch_model", RUNNING): ("switch_model", "ModelSwitched scripted:second scripted:third"),
    ("switch_model", STREAMING): ("switch_model", "ModelSwitched scripted:third scripted:fourth user"),
    ("switch_model", TOOLS): ("switch_model", "ModelSwitched scripted:fourth scripted:fifth user"),
    ("attach_tools", IDLE): ("tools_changed", "Reply k1 attached=grep detached=shell missing=nobody"),
    ("attach_tools", RUNNING): ("tools_changed", "Publish ToolsUpdated glob; Reply k2 attached=glob"),
    ("attach_tools", STREAMING): ("tools_attached_in_every_phase", "Reply k3 attached=glob"),
    ("attach_tools", TOOLS): ("tools_attached_in_every_phase", "Reply k4 attached=find"),
    ("detach_tools", IDLE): ("tools_changed", "ToolDetached shell"),
    ("detach_tools", RUNNING): ("tools_detached_in_every_phase", "Reply k2 detached=glob"),
    ("detach_tools", STREAMING): ("tools_changed", "Publish ToolDetached glob; Publish ToolsUpdated glob"),
    ("detach_tools", TOOLS): ("tools_detached_in_every_phase", "Reply k4 detached=read"),
    ("replace_tools", IDLE): ("tools_replaced_in_every_phase", "Reply k1 attached=a detached=read"),
    ("replace_tools", RUNNING): ("tools_replaced_in_every_phase", "Reply k2 attached=b,read detached=a"),
    ("replace_tools", STREAMING): ("tools_replaced_in_every_phase", "Reply k3 attached=read detached=b"),
    ("replace_tools", TOOLS): ("tools_replaced_in_every_phase", "Reply k4 detached=read"),
    ("compact", IDLE): ("compact_in_idle", "CompactStart"),
    ("compact", RUNNING): ("compact_while_running", "Reply k1 ok"),
    ("compact", STREAMING): ("compact_while_running", "Reply k2 ok"),
    ("compact", TOOLS): ("compact_while_running", "Reply k3 ok"),
    ("report_tool_source", IDLE): (
        "tool_sources",
        "Publish ToolSourceChanged mcp:files connecting; Reply k1 ok",
    ),
    ("report_tool_source", RUNNING): ("tool_sources", "ToolSourceChanged mcp:files ready"),
    ("report_tool_source", STREAMING): ("tool_sources", "ToolSourceChanged mcp:tracker needs_login"),
    ("report_tool_source", TOOLS): ("tool_sources", 'ToolSourceChanged mcp:files restarting "exit code 1"'),
    ("update_plugin_opts", IDLE): ("plugin_options", "PluginOptsUpdated guard success=False"),
    ("update_plugin_opts", RUNNING): ("plugin_options", "Reply u3 ok"),
    ("update_plugin_opts", STREAMING): ("plugin_options", "Reply u4 ok"),
    ("update_plugin_opts", TOOLS): ("plugins_detached", "Reply u1 ok"),
    ("change_plugins", IDLE): ("plugins_detached", "Reply k2 ok"),
    ("change_plugins", RUNNING): ("plugins_detached", ""),
    ("change_plugins", STREAMING): ("plugins_detached", ""),
    ("change_plugins", TOOLS): ("plugins_detached", ""),
    ("status", IDLE): ("queries_in_every_phase", "Reply q1 idle turn=0"),
    ("status", RUNNING): ("queries_in_every_phase", "Reply q3 running turn=1"),
    ("status", STREAMING): ("queries_in_every_phase", "Reply q5 streaming turn=1"),
    ("status", TOOLS): ("queries_in_every_phase", "running=list_dir"),
    ("messages", IDLE): ("queries_in_every_phase", "Reply q2 messages=0"),
    ("messages", RUNNING): ("queries_in_every_phase", "Reply q4 messages=1"),
    ("messages", STREAMING): ("queries_in_every_phase", "Reply q8 messages=1"),
    ("messages", TOOLS): ("queries_in_every_phase", "Reply q7 messages=2"),
    ("snapshot", IDLE): ("snapshots", "Reply q1 idle"),
    ("snapshot", RUNNING): ("snapshots", "steers=s1 inputs=s1,p2"),
    ("snapshot", STREAMING): ("snapshots", 'text="Bon"'),
    ("snapshot", TOOLS): ("snapshots", "waiting=scenario/a2 running=read"),
    ("collect_reply", IDLE): ("reply_query", 'Reply q0 ""'),
    ("collect_reply", RUNNING): ("reply_query", ""),
    ("collect_reply", STREAMING): ("reply_query", ""),
    ("collect_reply", TOOLS): ("reply_query", ""),
    ("stop", IDLE): ("stop_in_idle", "End"),
    ("stop", RUNNING): ("stop_while_running", "CancelStream"),
    ("stop", STREAMING): ("stop_while_streaming", "CancelStream"),
    ("stop", TOOLS): ("stop_while_tools_run", "KillTools"),
}
"""The file, and what comes out of the first such signal in this phase which it plays; nothing for one who waits."""


@frozen
class Met:
    """One signal of a scenario: what it met and what came out."""

    phase: Phase
    signal: s.Signal
    effects: tuple[Effect, ...]

    @property
    def words(self) -> str:
        """What came out, as a scenario prints it."""
        return "; ".join(filter(None, (encode_effect(effect, GROUPS) for effect in self.effects)))


def is_call(signal: s.Signal, call: Any) -> bool:
    """Whether a signal is a call: of a class, or what a function says."""
    return isinstance(signal, call) if isinstance(call, type) else bool(call(signal))


@cache
def signals_of(name: str) -> tuple[Met, ...]:
    """Play a scenario, and show each signal with the phase that it met."""
    return tuple(_steps(SCENARIOS / f"{name}.txt"))


def _steps(file: Path) -> Iterator[Met]:
    scenario = read_scenario(file.read_text(encoding="utf-8"))
    stack, states = load_stack(scenario.plugins)
    state = machine.new_session(scenario.config, scenario.tools, stack, states, scenario.messages)
    for line in scenario.inputs:
        try:
            after, effects = machine.step(state, line.signal)
        except InternalError:  # a bug that the scenario is about; the state is as before
            continue
        yield Met(state.phase, line.signal, effects)
        state = after


@pytest.mark.at(99)
@pytest.mark.parametrize(("call", "phase"), CELLS, ids=lambda value: getattr(value, "name", value))
def test_a_cell_is_shown_by_its_scenario(call, phase):
    """The file has the signal of this call in this phase, and what the cell says comes out (3.3)."""
    name, words = CELLS[call, phase]
    came = [met.words for met in signals_of(name) if met.phase is phase and is_call(met.signal, CALLS[call])]
    assert came, f"{name} has no {call} in {phase.name}"
    assert any(words in each if words else not each for each in came), came


def test_no_cell_and_no_call_is_missing():
    """Every call in every phase has its cell; each signal with which somebody asks something is one of the calls."""
    assert set(CELLS) == set(product(CALLS, Phase))

    kinds = {kind for kind in get_args(s.Signal) if issubclass(kind, s.Asked)}
    shown = {type(met.signal) for name, _ in CELLS.values() for met in signals_of(name)}
    assert kinds <= shown
