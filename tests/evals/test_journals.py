"""A recorded session beside another stack: what it would decide otherwise, and where the journal has no answer any more."""

from typing import Any

import pytest

from agentrail import plugins as p
from agentrail.core.journal.fold import Sources
from agentrail.core.journal.record import Draft, RewoundBody, encode_body
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.effects import RunTool
from agentrail.core.session.machine import new_session
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.errors import ErrorInfo, OptionError
from agentrail.evals.journals import OtherStack, StackComparison
from agentrail.testing.plugins import PuppetPlugin, PuppetRule, read_rule
from tests.core.journal.golden_journals import SOURCES, taken_over
from tests.core.journal.recorded import Told, behind, call, plugins_again
from tests.core.worlds import TOOLS, config


def puppet(*rules: PuppetRule, name: str = "guard", priority: int = 50) -> PuppetPlugin:
    return PuppetPlugin(rules, name=name, priority=priority)


def compared(life: Any, other: OtherStack) -> StackComparison:
    found = StackComparison(life.records, life.sources(), other)
    for _ in found.steps():
        pass
    return found


def adding(rule: str, action: str) -> OtherStack:
    return OtherStack(plugins=lambda recorded: [*recorded, puppet(read_rule(rule, action))])


def told(*plugins: PuppetPlugin, **options: Any) -> Told:
    return Told(new_session(config(**options), TOOLS, *load_stack(plugins)))


def two_calls(session: Told) -> Told:
    """A cycle with two calls at once, and one without."""
    session.prompt("Look, and deploy.")
    session.complete("I do.", call("read", "c1", path="a"), call("deploy", "c2", path="b"))
    session.finish_tools()
    session.complete("Done.")
    session.prompt("Thanks.")
    session.complete("You are welcome.")
    return session


def test_the_recorded_stack_and_one_that_says_nothing_are_the_same():
    """Whether the stack is kept, given again, or has a plugin more that lets all through."""
    life = two_calls(told(puppet(read_rule("BeforeTool.watch", "block"), name="old"))).life
    quiet = puppet(read_rule("BeforeTool.watch", "block"))
    for other in (
        OtherStack(),
        OtherStack(plugins=lambda recorded: recorded),
        OtherStack(plugins=lambda recorded: [*recorded, quiet]),
        OtherStack(config={"max_turns": 3}),
    ):
        found = compared(life, other)
        assert (found.first, found.what, found.open_from, found.at) == (None, "", None, len(life.records))


@pytest.mark.parametrize(
    ("rule", "action", "change", "needs"),
    [
        ("BeforeTool.read", "block:no", "blocked", "the answer of the model to another conversation"),
        ("BeforeTool.read", "approve:sure?", "asked about", "a user's answer"),
        ("BeforeTool.read", 'args:{"path":"z"}', "rewritten", "the outcome of RunTool"),
    ],
)
def test_a_call_that_is_judged_otherwise_is_named(rule, action, change, needs):
    """With the record, the plugin and the missing outcome. Of the other call of the batch, nothing is said."""
    found = compared(two_calls(told()).life, adding(rule, action))
    (named,) = found.calls
    assert (named.call_id, named.tool, named.change, named.by) == ("c1", "read", change, "guard")
    assert (found.first, found.plugin, found.what) == (named.record, "guard", f"read is {change}")
    assert found.needs == needs


@pytest.mark.operation(18)
def test_nothing_after_the_open_record_is_guessed():
    """The call of a later cycle would be blocked as well. But the journal has no session in which the first one was."""
    session = told()
    for number in (1, 2):
        session.prompt("Look.")
        session.complete("I do.", call("read", f"c{number}", path="a"))
        session.finish_tools()
        session.complete("Done.")
    found = compared(session.life, adding("BeforeTool.read", "block:no"))
    assert [one.call_id for one in found.calls] == ["c1"]
    assert found.at == found.open_from == found.first
    other_call = compared(session.life, adding("BeforeTool.read", "approve:sure?"))
    assert [one.call_id for one in other_call.calls] == ["c1"]


def test_what_a_guard_blocked_or_asked_about_may_be_let_through():
    """Then the journal has no result of the call, or has it only where the person had agreed."""
    for action, tool in (("block:no", "read"), ("approve:sure?", "deploy")):
        session = told(puppet(read_rule(f"BeforeTool.{tool}", action), name="old"))
        session.prompt("Look, and deploy.")
        session.complete("I do.", call("read", "c1", path="a"), call("deploy", "c2", path="b"))
        found = compared(session.life, OtherStack(plugins=[]))
        assert [(one.tool, one.change, one.by) for one in found.calls] == [(tool, "let through", "old")]
        assert found.needs == "the outcome of RunTool"


def test_an_outcome_finds_its_effect_although_the_ids_are_others():
    """An approval without a deadline has no timer, so all later ids are lower: of the tool, and of the next approval."""
    session = told(puppet(read_rule("BeforeTool.deploy", "approve:sure?"), name="old"))
    for number in (1, 2):
        session.prompt("Deploy.")
        session.complete("I do.", call("deploy", f"c{number}", path="b"))
        session.approve("once")
        session.finish_tools()
        session.complete("Done.")
    found = StackComparison(
        session.life.records, session.life.sources(), OtherStack(config={"approval_timeout_ms": None})
    )
    pairs = list(found.steps())
    assert (found.first, found.open_from, found.needs) == (4, None, "")
    assert (found.at, found.calls) == (len(session.life.records), [])
    last, mine = pairs[-1]
    assert mine.after.data.history == last.after.data.history
    ids = [
        [one.effect_id for one in side.effects if isinstance(one, RunTool)] for pair in pairs for side in pair
    ]
    assert [one for one in ids if one] == [["t4"], ["t3"], ["t9"], ["t7"]]


@pytest.mark.parametrize(
    ("rule", "action", "what", "needs"),
    [
        ("AfterTool.read", "result:hidden", "another one", "the answer of the model to another conversation"),
        ("BeforeRequest", "read:notes", "RunPluginRequest", "the outcome of RunPluginRequest"),
        ("BeforePrompt", "abort:no", "", ""),
    ],
)
def test_what_is_no_verdict_on_a_call_is_a_difference_too(rule, action, what, needs):
    """A replaced result, a request of a plugin, an aborted prompt."""
    found = compared(two_calls(told()).life, adding(rule, action))
    assert found.first is not None
    assert found.plugin == "guard"
    assert what in found.what
    assert found.needs == needs or not needs
    assert not found.calls


def test_other_instructions_keep_the_recorded_answers_and_their_tokens_are_counted():
    """The conversation is the same, so its answers still answer it."""
    life = two_calls(told(system_prompt="Be brief.")).life
    found = compared(life, OtherStack(config={"system_prompt": "Be brief, and never shout. " * 8}))
    assert found.first is not None
    assert (found.what, found.open_from) == ("StartStream is another one", None)
    assert found.tokens > 100
    shorter = compared(life, OtherStack(config={"system_prompt": None}))
    assert shorter.tokens < 0


@pytest.mark.parametrize("is_lower", [True, False])
def test_other_limits_end_cycles_or_keep_them(is_lower):
    """Without retries the cycle fails where it had been tried again; with more of them, it waits where it had failed."""
    session = told(max_retries=1 if is_lower else 0)
    session.prompt("Hello")
    session.say(
        s.StreamFailed, error=ErrorInfo(code="overloaded", message="busy", retryable=True), jitter=0.5
    )
    found = compared(session.life, OtherStack(config={"max_retries": 0 if is_lower else 1}))
    assert found.first is not None
    assert found.aborted == ([found.first] if is_lower else [])
    assert bool(found.open_from) is not is_lower


def test_an_earlier_compaction_is_open_there():
    """The journal has no summary."""
    found = compared(two_calls(told()).life, OtherStack(config={"compact_at_tokens": 1}))
    assert found.first is not None or found.open_from is None


def test_a_plugin_that_raises_ends_the_comparison_with_its_traceback():
    """With the record and the plugin."""
    found = compared(two_calls(told()).life, adding("BeforeTool.read", "raise:oops"))
    assert found.plugin == "guard"
    assert "RuntimeError: oops" in found.fault
    assert "_fail" in found.fault
    assert found.at == found.first


def test_a_plugin_that_raised_in_the_record_too_is_the_same():
    """It failed then, and fails now."""
    session = two_calls(told(puppet(read_rule("AfterTool.read", "raise:oops"), name="old", priority=500)))
    found = compared(session.life, OtherStack())
    assert (found.first, found.fault) == (None, "")


def test_a_plugin_that_raised_in_the_record_is_named_where_it_no_longer_raises():
    """It is not blamed for a difference of limits in the step in which it fails on both sides."""
    session = two_calls(told(puppet(read_rule("BeforePrompt", "raise:oops"), name="old", priority=500)))
    without = compared(session.life, OtherStack(plugins=[]))
    assert (without.plugin, without.what, without.fault) == ("old", "PluginFailed is AgentStart", "")
    limited = compared(session.life, OtherStack(config={"max_turns": 1}))
    assert (limited.plugin, limited.fault) == ("", "")
    assert "MaxTurnsReached" in limited.what


def test_a_stack_whose_code_has_changed_shows_in_the_verdicts_that_it_gives_now():
    """Recorded verdicts stand in the fold that restores a session, and are asked for again here."""
    life = two_calls(told(puppet(read_rule("BeforeTool.watch", "block"), name="old"))).life
    changed = {"old": puppet(read_rule("BeforeTool.deploy", "block:no"), name="old")}
    found = StackComparison(life.records, Sources(resolve=changed), OtherStack())
    for _ in found.steps():
        pass
    assert [(one.tool, one.change, one.by) for one in found.calls] == [("deploy", "blocked", "old")]


def test_a_recorded_stack_that_no_longer_gives_its_journal_cannot_be_compared():
    """Its code asks for something else today: then the record does not show what it had decided."""
    life = two_calls(told(puppet(read_rule("BeforeTool.watch", "block"), name="old"))).life
    changed = {"old": puppet(read_rule("BeforeRequest", "read:notes"), name="old")}
    found = StackComparison(life.records, Sources(resolve=changed), OtherStack())
    assert list(found.steps())
    assert found.needs == "the decisions of the recorded stack, whose code has changed"
    kept = OtherStack(plugins=[puppet(read_rule("BeforeTool.watch", "block"), name="old")])
    with pytest.raises(OptionError, match="the code of its stack has changed; keep the old one"):
        list(StackComparison(life.records, Sources(resolve=changed), kept).steps())


def test_records_that_are_no_signals_are_followed():
    """A new owner with newer code, a drift, a rewind, an end: with the recorded stack, and with another one."""
    records = taken_over()
    for other in (OtherStack(), OtherStack(plugins=lambda recorded: recorded)):
        found = StackComparison(records, SOURCES, other)
        for _ in found.steps():
            pass
        assert (found.first, found.at) == (None, len(records))


def test_a_session_that_goes_back_to_a_conversation_that_is_another_one_is_open():
    """The journal continues with the recorded conversation."""
    session = two_calls(told(system_prompt="Be brief."))
    body = encode_body(RewoundBody(number=3))
    seq = session.life.state.data.seq
    records = behind(session.life.records, Draft(at_ms=session.at_ms, kind="rewound", body=body, events=seq))
    sources = Sources(resolve=plugins_again(session.life.start))
    found = StackComparison(records, sources, OtherStack(config={"system_prompt": "Other."}))
    for _ in found.steps():
        pass
    assert (found.open_from, found.needs) == (
        len(records),
        "the conversation that the session continues with",
    )


def test_a_long_session_is_compared_by_what_was_added_to_it():
    """A result that differs in the tenth cycle is found there, although what came before is not compared again."""
    session = told()
    for number in range(10):
        session.prompt("Look.")
        session.complete("I do.", call("read", f"c{number}", path=str(number)))
        session.finish_tools()
        session.complete("Done.")

    @p.plugin(init=lambda: None, hooks=(p.AfterTool,), priority=400)
    def hides_the_last(event: p.HookEvent, state: None, ctx: p.Context) -> p.Action[None]:
        is_last = isinstance(event, p.AfterTool) and event.call_id == "c9"
        return p.ReplaceToolResult("hidden", state) if is_last else p.Continue(state)

    found = compared(session.life, OtherStack(plugins=[hides_the_last]))
    finished = [one.seq for one in session.life.records if one.kind == "tool_finished"]
    assert found.first == finished[-1]


def test_a_call_that_still_waits_where_the_journal_goes_on_is_open_there():
    """The recorded approval ran out. Without a deadline it waits, and the journal has no word of how it would end."""
    session = told(puppet(read_rule("BeforeTool.deploy", "approve:sure?"), name="old"))
    session.prompt("Deploy.")
    session.complete("I do.", call("deploy", "c1", path="b"))
    (timer,) = [one for one in session.life.state.data.open if one.startswith("w")]
    session.say(s.TimerFired, wait_ms=120_000, effect_id=timer)
    found = compared(session.life, OtherStack(config={"approval_timeout_ms": None}))
    assert (found.open_from, found.needs) == (found.at, "the end of work that the journal does not have")


def test_a_plugin_that_is_kept_keeps_the_state_that_it_was_recorded_with():
    """A fork begins with the states of its session. Made anew, this plugin would intervene once more."""
    stack, _ = load_stack([puppet(read_rule("BeforeFinish", "intervene:more"), name="old")])
    session = Told(new_session(config(), TOOLS, stack, {"old": 1}))
    session.prompt("Hello")
    session.complete("Hi.")
    assert compared(session.life, OtherStack(plugins=lambda recorded: recorded)).first is None
    again = OtherStack(plugins=[puppet(read_rule("BeforeFinish", "intervene:more"), name="old")])
    assert compared(session.life, again).plugin == "old"
