"""What a record came to is told as data, and the command draws the same value."""

import msgspec
import pytest

from agentrail.core.journal.fold import Sources
from agentrail.core.journal.replay import explain_journal, explain_steps
from agentrail.core.journal.step_explanation import ExplainedStep, lines_of_step
from agentrail.core.protocol import signals as s
from agentrail.core.session.machine import new_session
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.testing.plugins import PuppetPlugin, read_rule
from tests.core.journal.recorded import Told, call, plain_life, resealed
from tests.core.worlds import TOOLS, config


def puppet(name, priority, rule, action):
    """One with one rule, such as `BeforeTool.read`."""
    return PuppetPlugin((read_rule(rule, action),), name=name, priority=priority)


PLUGINS = {
    one.name: one
    for one in (
        puppet("early", 400, "BeforeTool.read", 'args:{"path": "early"}'),
        puppet("late", 410, "BeforeTool.read", 'args:{"path": "late"}'),
        puppet("broken", 420, "BeforeTool", "raise:a fuse blew"),
        puppet("guard", 430, "BeforeTool.deploy", "block:not today"),
        puppet("audit", 900, "BeforeTool", "emit:seen"),
    )
}
STACKED = Sources(resolve=lambda record: PLUGINS[record.name])


def told_life():
    """A rewrite that loses, a plugin that fails, a call that is blocked."""
    stack, states = load_stack(list(PLUGINS.values()))
    session = Told(new_session(config(), TOOLS, stack, states))
    session.prompt("A word of the fox.")
    session.complete("I try.", call("read", "c1", path="a"), call("deploy", "c2", path="b"))
    return session.life.records


@pytest.mark.c(28)
def test_who_was_asked_what_won_and_why():
    """A block, a rewrite that lost, a plugin that failed; who was not asked any more; and what came of it."""
    (step,) = [one for one in explain_steps(told_life(), STACKED) if one.runs]
    read, deploy = [run for run in step.runs if run.hook == "BeforeTool"]
    told = {link.plugin: (link.verdict, link.lost_to, link.action) for link in read.links}
    assert told == {
        "early": ("lost", "late", "ReplaceToolArgs"),
        "late": ("won", None, "ReplaceToolArgs"),
        "broken": ("failed", None, None),
        "guard": ("silent", None, "Continue"),
        "audit": ("kept", None, "Emit"),
    }
    assert read.links[1].fields == {"arguments": {"path": "late"}}
    assert "a fuse blew" in read.links[2].fields["message"]
    assert read.outcome.end == "goes_on"
    assert (deploy.outcome.end, deploy.outcome.action, deploy.outcome.by) == ("decided", "BlockTool", "guard")
    assert deploy.outcome.fields == {"reason": "not today"}
    assert deploy.not_asked == ("audit",)
    assert step.phase == ("running", "executing_tools")
    assert step.events == (step.effects[0].seq, [one.seq for one in step.effects if one.seq][-1])
    assert {one.kind for one in step.effects} >= {"publish", "run_tool"}
    assert {one.event for one in step.effects} >= {"tool_execution_start", "plugin_failed"}


@pytest.mark.c(28)
def test_the_command_draws_the_very_value_that_is_sent():
    """Through bytes; each line of it, and no word of the conversation."""
    records = told_life()
    sent = msgspec.json.decode(
        msgspec.json.encode(list(explain_steps(records, STACKED))), type=list[ExplainedStep]
    )
    lines = list(explain_journal(records, STACKED))
    assert [line for one in sent for line in lines_of_step(one)] == lines
    assert {
        "  asked early on BeforeTool: ReplaceToolArgs",
        "    lost to late, priority 400",
        "    won, priority 430: not today",
        "  asked broken on BeforeTool: failed",
        "  not asked audit on BeforeTool",
        "  BeforeTool came to BlockTool, by guard",
        "  running → executing_tools",
    } <= set(lines)
    assert any(line.startswith("    failed, priority 420: ") and "a fuse blew" in line for line in lines)
    assert not any("fox" in line or 'late"' in line for line in lines)


def test_a_run_that_waits_and_the_one_that_goes_on_are_both_told():
    """What it waits for, and then what was said to the answer."""
    asker = puppet("asker", 400, "BeforePrompt", "wait:notes.md")
    stack, states = load_stack([asker, puppet("b", 500, "BeforePrompt", "emit:x")])
    session = Told(new_session(config(), TOOLS, stack, states))
    session.prompt("Hi")
    sources = session.life.sources()
    (waiting,) = [run for one in explain_steps(session.life.records, sources) for run in one.runs]
    outcome = waiting.outcome
    assert (outcome.end, outcome.by, outcome.fields["tag"]) == ("waits", "asker", "notes.md")
    assert waiting.links[0].verdict == "waits"
    assert waiting.not_asked == ("b",)
    said = "  BeforePrompt waits for what asker asked for"
    assert said in list(explain_journal(session.life.records, sources))
    session.say(s.TimerFired, effect_id=session.life.state.data.held.timer)
    last = list(explain_steps(session.life.records, sources))[-1]
    assert last.at == len(session.life.records)
    assert last.runs[0].links[-1].plugin == "b"


def test_where_the_code_makes_another_history_that_is_said():
    """With what was recorded and what came out."""
    records = resealed(plain_life().life.records, {9: {"events": 3}})
    told = {one.at: one.drift for one in explain_steps(records)}
    assert told[9].startswith("record 9 ")
    assert [number for number, drift in told.items() if drift] == [9]
