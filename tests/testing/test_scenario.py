"""The scenario runner: what it reads, what it writes, and how it complains."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given, strategies as st

from agentrail.core.policy.budget import Budget, Price
from agentrail.core.policy.patience import StallOptions
from agentrail.core.policy.response_format import ResponseFormat
from agentrail.core.protocol import signals as sig
from agentrail.core.protocol.effects import Publish
from agentrail.core.protocol.hooks import FileText, FileWritten, Found, ModelAnswer
from agentrail.core.protocol.request import ModelFacts, UsageUpdate
from agentrail.core.session import machine
from agentrail.core.values.toolbox import ToolSpec
from agentrail.errors import InternalError
from agentrail.events import AbortReceipt, LeftBehind, MessageDelta, StatusUpdate
from agentrail.messages import FileRef, Image, Text, TokenUsage, ToolCall
from agentrail.testing import strategies
from agentrail.testing.scenario import main, play, read_scenario, run_scenario, write_scenario
from agentrail.testing.scenario_head import print_session, print_tool, read_session, read_tool
from agentrail.testing.scenario_output import EFFECTS, GROUPS, effect_name, encode_effect, encode_message
from agentrail.testing.scenario_signals import print_signal, read_signal
from agentrail.testing.scenario_syntax import LineWords, Said, ScenarioError, quote, split_words
from tests.core.golden_values import EVENTS, SIGNALS
from tests.core.worlds import new_session
from tests.pipes import pipe_at
from tests.thinned import each

GOOD = """\
# a prompt is answered
session show=cycle
@0     Prompt p1 "Hello"
           RUNNING          Publish PromptReceived p1 "Hello"; Reply p1 started; Publish AgentStart p1;
                            StartStream r1 messages=1

# and that was it
@900   ResponseCompleted r1 "Hi." usage=3/2
           IDLE             Publish AgentEnd messages=2 usage=3/2 end
"""


def test_a_difference_is_shown_line_by_line(tmp_path):
    """A file that says something else fails with the difference, and is not touched."""
    file = tmp_path / "wrong.txt"
    wrong = GOOD.replace("AgentEnd", "AgentAbort")
    file.write_text(wrong)
    with pytest.raises(
        AssertionError, match=r"(?s)wrong.txt has a different result.*-.*AgentAbort.*\+.*AgentEnd"
    ):
        run_scenario(str(file))
    assert file.read_text() == wrong


def test_rewrite_stores_what_came_out(tmp_path):
    """`--rewrite` writes the outcome below the inputs, in files and in folders."""
    folder = tmp_path / "scenarios"
    folder.mkdir()
    bare = [line for line in GOOD.splitlines() if not line.startswith("  ")]
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text("\n".join(bare))
    assert main(["--rewrite", str(folder)]) == 0
    assert (folder / "a.txt").read_text() == (folder / "b.txt").read_text() == GOOD
    assert main([str(folder / "a.txt")]) == 0


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("@0 Dance d1", r"line 1, '@0 Dance d1': 'Dance d1' is not a command"),
        ("@0 Dance d1", "expected one of Prompt, GoOn, Steer, Abort"),
        ("@0 Started now", "Started takes no now; it is written Started"),
        (
            "@0 Approve y1",
            "expected a text for approval_id, got nothing; it is written Approve signal_id approval_id",
        ),
        ("@0 Approve y1 a resume=maybe", r"expected resume=yes\|no, got 'maybe'"),
        ("@0 Restarted soon", "expected incarnation: a whole number, got 'soon'"),
        ("@0 TimerFired w1 jitter={}", "expected jitter=a number, got {}"),
        ("@0 ChangePlugins u1 swap Guard", "expected change: attach|detach|reload, got 'swap'"),
        (
            '@0 ChangePlugins u1 attach a entry={"name": "a"}',
            "expected entry=what stands for a plugin, got {'name': 'a'}",
        ),
        (
            "@0 PluginRequestFinished e1 eaten",
            "expected file, written, answer, found, instructions, kept, notes or failed",
        ),
        ('@0 ReplyQuery q1 "why"', 'ReplyQuery takes no "why"'),
        ("@0 Abort a1 kill=some", r"expected kill=killable\|all\|none, got 'some'"),
        ("@0 Abort a1 kil=all", "Abort takes no kil"),
        ('@0 Prompt p1 "Hello', "expected JSON at column 11"),
        ("@0 ResponseCompleted r1 c1:read={", "expected JSON at column"),
        ("@0 Prompt =p1", "expected a name before '='"),
        ("@soon Started", "invalid literal"),
        ("Started", "expected session, tool, plugin, message, @<ms> and a command"),
        ('message nobody "Hello"', "expected user, assistant or results, with their values"),
        ('message user "Hello" loud=yes', "loud"),
        ("session max_turn=2", "session takes no max_turn; it is written session max_turns="),
        ("session max_turns=few", "expected max_turns=a whole number, got 'few'"),
        ("session show=cycles", r"expected show=children\|context\|.*, got 'cycles'"),
        ("session stall_policy=wait", r"expected stall_policy=report\|retry\|abort, got 'wait'"),
        ("tool read path", r"a tool takes no path; it is written tool name PARAMETER=string\|"),
        ("tool read path=strnig", "a tool takes no path"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(line, complaint):
    """Nothing is guessed and nothing is skipped: the message has the number, the line, and what was expected."""
    with pytest.raises(ScenarioError, match=complaint):
        read_scenario(line)


def test_a_pipe_in_place_of_a_scenario_is_not_waited_for(tmp_path):
    """Opened, it would wait for its writer."""
    with (
        pipe_at(tmp_path / "a.txt"),
        pytest.raises(ScenarioError, match=r"a\.txt cannot be read: it is a named pipe"),
    ):
        run_scenario(tmp_path / "a.txt")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda one: st.lists(one) | st.dictionaries(st.text(), one),
)
OBJECTS = st.dictionaries(st.text(), JSON)
NAMES = st.lists(st.sampled_from(("c1", "c2", "call_r1_1")), unique=True).map(tuple)
LEFT = st.lists(
    st.builds(
        LeftBehind, name=st.just("shell"), age_ms=st.integers(0, 9), pid=st.none() | st.integers(1, 99)
    ),
    max_size=2,
).map(tuple)
USED = st.builds(
    TokenUsage, input=st.integers(0, 9), output=st.integers(0, 9), cost_usd=st.sampled_from((0.0, 0.25))
)
TEXTS = st.text()
RECEIPTS = st.builds(
    AbortReceipt, tasks_ended=st.integers(0, 2), processes_reaped=st.integers(0, 2), stuck=LEFT, abandoned=LEFT,
    committed=NAMES, unknown=NAMES, survivors=NAMES, milliseconds=st.integers(0, 9),
)  # fmt: skip
RESULTS = st.one_of(
    st.builds(FileText, path=TEXTS, text=st.none() | TEXTS),
    st.builds(FileWritten, path=TEXTS, written_bytes=st.integers(0)),
    st.builds(ModelAnswer, text=TEXTS, usage=USED),
    st.builds(Found, entries=st.lists(JSON, max_size=3).map(tuple)),
)
AT = {"at_ms": st.just(7)}
PROMPTED = {**AT, "signal_id": st.just("p1"), "ref": st.just("p1")}
CALL, EFFECT = {**AT, "signal_id": st.just("s1")}, {**AT, "effect_id": st.just("e1")}
MORE = st.one_of(
    st.builds(sig.SessionBegan, **AT),
    st.builds(sig.Prompt, **PROMPTED, content=st.just(()), client_id=TEXTS),
    st.builds(sig.Approve, **CALL, approval_id=st.just("a1"), arguments=st.none() | OBJECTS),
    st.builds(sig.UpdatePluginOpts, **CALL, plugin=st.just("guard"), options=OBJECTS),
    st.builds(
        sig.ToolAsked,
        **CALL,
        effect_id=st.just("t1"),
        question=TEXTS,
        options=st.lists(TEXTS).map(tuple),
        schema=st.none() | OBJECTS,
        url=st.none() | TEXTS,
    ),
    st.builds(sig.Respond, **CALL, ref=st.just("s/a1"), response=OBJECTS | st.integers(0, 9)),
    st.builds(sig.AnswerCall, **CALL, ref=st.just("s/a1"), text=TEXTS, is_error=st.booleans(), details=JSON),
    st.builds(sig.Decline, **CALL, ref=st.just("s/a1"), reason=st.none() | TEXTS),
    st.builds(sig.RevokeRule, **CALL, tool=st.just("shell"), command_family=st.none() | TEXTS),
    st.builds(
        sig.AgentCommand,
        **CALL,
        action=st.sampled_from(["spawn", "send", "close"]),
        name=st.sampled_from(["one", "two"]),
        agent=st.sampled_from(["", "scout"]),
        text=TEXTS,
        now=st.booleans(),
    ),
    st.builds(
        sig.ToolWantsChild,
        **CALL,
        effect_id=st.just("t1"),
        prompt=TEXTS,
        system_prompt=st.none() | TEXTS,
        tools=st.none() | st.lists(TEXTS).map(tuple),
        max_turns=st.none() | st.integers(1, 9),
    ),
    st.builds(sig.ChildStarted, **EFFECT, child_id=st.just("scenario.c1"), description=st.none() | TEXTS),
    st.builds(
        sig.ChildPublished,
        **EFFECT,
        event=st.builds(MessageDelta, delta=TEXTS) | st.builds(StatusUpdate, text=TEXTS),
        child_id=st.none() | st.just("scenario.c1"),
    ),
    st.builds(sig.ToolEmitted, **EFFECT, name=TEXTS, payload=JSON),
    st.builds(
        sig.ToolAnsweredEarly,
        **EFFECT,
        text=TEXTS,
        details=JSON,
        started_at_ms=st.integers(0, 7),
        ran_ms=st.integers(0, 7),
    ),
    st.builds(sig.ToolFinished, **EFFECT, text=TEXTS, details=JSON, started_at_ms=st.integers(0, 7)),
    st.builds(sig.TimerFired, **EFFECT, pinged_at_ms=st.integers(0)),
    st.builds(sig.PluginRequestFinished, **EFFECT, result=RESULTS),
    st.builds(sig.TeardownFinished, **EFFECT, receipt=RECEIPTS),
)


@given(signal=MORE)
def test_what_no_script_draws_is_read_back_too(signal):
    """Signals and fields that Hypothesis' scripts do not draw: any text, any JSON, every kind of answer, whole receipts."""
    assert read_signal(print_signal(signal), 7) == signal


@pytest.mark.check
@given(data=st.data())
def test_effects_whose_line_says_all_are_read_back(data):
    """They are written and read by one table; the lines of all others, and of all events, are words at least."""
    start = new_session()
    for signal in data.draw(strategies.scripts(start)):
        try:
            start, effects = machine.step(start, signal)
        except InternalError:
            break
        for effect in effects:
            words = LineWords.of(encode_effect(effect, GROUPS))
            assert words.take_name() == effect_name(type(effect))
            if type(effect) in EFFECTS:
                assert EFFECTS[type(effect)].read(words) == effect
                words.check_that_all_was_read("effect")


def test_sections_of_changed_tools_are_read_back():
    """A section is set or removed. Without them, the exported scenario of a session with MCP servers sent another prompt."""
    sections = (("mcp.s", 'Search, "then" answer.\n'), ("mcp.t", None))
    signal = msgspec.structs.replace(SIGNALS["change_tools"], attach=(), sections=sections)
    assert read_signal(print_signal(signal), signal.at_ms) == signal
    with pytest.raises(ScenarioError, match="a JSON list of pairs"):
        read_signal("ChangeTools s1 sections=[1]", 7)
    agents = (("clerk", SIGNALS["change_tools"].attach), ("scout", None))
    signal = msgspec.structs.replace(signal, agents=agents)
    assert read_signal(print_signal(signal), signal.at_ms) == signal


@pytest.mark.parametrize("others", [(), (Text(text=""), Text(text='a "b"'))])
def test_images_and_files_of_a_prompt_are_read_back(others):
    """The scenario of a counter-example had a prompt without them, or an empty one."""
    content = (
        *others,
        Image(media_type="image/png", data="iVBORw0KGgo=", name="plan"),
        FileRef(path="a b.txt"),
    )
    signal = sig.Prompt(at_ms=7, signal_id="p1", ref="p1", content=content)
    assert read_signal(print_signal(signal), 7) == signal
    (message,) = read_scenario(f"message user {print_signal(signal).removeprefix('Prompt p1')}").messages
    assert message.content == content
    with pytest.raises(ScenarioError, match="expected content=a JSON list of blocks"):
        read_signal('Prompt p1 content=[{"type":"image"}]', 7)


def test_every_signal_has_a_line():
    """The table is total."""
    assert all(print_signal(signal) for signal in SIGNALS.values())
    assert {type(signal) for signal in SIGNALS.values()} == set(get_args(sig.Signal))


def _heard(signal):
    return [chunk for chunk in signal.chunks if not isinstance(chunk, UsageUpdate)]


@given(data=st.data(), number=st.integers(1, 99))
def test_decode_is_the_inverse_of_encode(data, number):
    """Any signal that a scenario can be written of is read back as it was, with each of its fields."""
    signal = strategies.fit(data.draw(strategies.signals()), new_session(), number)
    again = read_signal(print_signal(signal), signal.at_ms)
    assert print_signal(again) == print_signal(signal)
    if isinstance(signal, sig.ChunksArrived):
        # What was used is an option of the line: it is read behind what was said, and not at all when it was nothing.
        assert _heard(again) == _heard(signal)
        again = msgspec.structs.replace(again, chunks=signal.chunks)
    assert again == signal


@given(text=st.text())
def test_quotes_are_undone(text):
    """Any text is one word."""
    assert split_words(f"a {quote(text)} b") == ("a", Said(text), "b")


@given(data=st.data())
def test_a_script_that_is_written_down_plays(data):
    """What Hypothesis found can be kept as a file: it reads back to a text that plays to itself."""
    start = new_session()
    script = data.draw(strategies.scripts(start))
    text = write_scenario(
        script, config=start.data.config, tools=start.data.tools, remark="drawn", show=["all"]
    )
    assert play(read_scenario(text)) == text
    assert [print_signal(line.signal) for line in read_scenario(text).inputs] == list(
        map(print_signal, script)
    )


@given(
    changes=st.fixed_dictionaries(
        {},
        optional={
            "max_turns": st.integers(1),
            "max_output_tokens": st.none() | st.integers(1),
            "approval_timeout_ms": st.none() | st.integers(1),
            "immune_tools": st.sets(st.sampled_from(("read", "watch", "deploy"))).map(frozenset),
            "inline_tags": st.booleans(),
            "on_max_turns": st.sampled_from(("answer", "abort", "stop")),
            "budget": st.none() | st.integers(1).map(lambda tokens: Budget(max_total_tokens=tokens)),
            "response_format": st.none() | st.just({"type": "object"}).map(ResponseFormat),
            "fallbacks": st.just((ModelFacts(model="scripted:a"), ModelFacts(model="scripted:b"))),
            "model": st.builds(
                ModelFacts,
                model=st.just("scripted:model"),
                stalls=st.builds(StallOptions, stall_policy=st.sampled_from(("report", "retry", "abort"))),
                price=st.none() | st.just(Price(input=1.5, output=10.0)),
            ),
        },
    )
)
def test_any_session_line_is_read_back(changes):
    """What a session may do, as far as a scenario has words for it."""
    plain, _ = read_session("session")
    asked = msgspec.structs.replace(plain, **changes)
    assert read_session(print_session(asked, ["tools"])) == (asked, {"tools"})


@given(
    spec=st.builds(
        ToolSpec,
        name=st.just("read"),
        description=st.just(""),
        parameters=st.just(
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "null"}},
                "required": ["a"],
            }
        ),
        killable=st.booleans(),
        effect_class=st.sampled_from(("pure", "idempotent", "reconcilable", "once")),
        timeout_seconds=st.none() | st.just(1.5),
        max_retries=st.none() | st.integers(0, 9),
        polling=st.booleans(),
        answered_by=st.sampled_from(("code", "user", "child", "client")),
    )
)
def test_any_tool_line_is_read_back(spec):
    """A tool with plain parameters."""
    assert read_tool(print_tool(spec)) == spec


def test_the_time_at_which_a_tool_began_is_known_when_it_is_played():
    """A file does not say when a call began: it began when the core asked for it."""
    text = 'session show=tools\ntool a\n@10 Prompt p1 "x"\n@20 ResponseCompleted r1 c1:a\n@70 ToolFinished t2 "y"\n'
    assert "duration_ms=50" in play(read_scenario(text))


@given(message=strategies.messages())
def test_every_message_has_a_line(message):
    """Whatever is in a history can be shown, on one line."""
    line = encode_message(message)
    assert line.startswith(("+user ", "+assistant ", "+results "))
    assert "\n" not in line
    calls = [block for block in getattr(message, "content", ()) if isinstance(block, ToolCall)]
    assert all(call.name in line for call in calls)


@each("kind", EVENTS)
def test_every_event_has_a_line(kind):
    """Whatever a session may publish is in a group and can be shown: its name, then its values as words."""
    event = EVENTS[kind]
    line = encode_effect(Publish(event), GROUPS)
    assert line is not None
    assert line.startswith(f"Publish {type(event).__name__} ")
    for group in GROUPS:
        assert encode_effect(Publish(event), frozenset({group})) in {line, None}
    assert any(encode_effect(Publish(event), frozenset({group})) for group in GROUPS)


def test_what_events_carry_is_said_in_a_few_words():
    """An approval by its ids, a plan by its progress, an amount with its unit, a child's event as it is."""
    shown = {kind: encode_effect(Publish(EVENTS[kind]), GROUPS) for kind in EVENTS}
    assert shown["approval_resolved"] == (
        'Publish ApprovalResolved a-1 call_1:shell={"command": "git push"} "it leaves this machine" rejected user'
    )
    assert shown["plan_completed"] == "Publish PlanCompleted done=1/2"
    assert shown["plan_step_completed"] == 'Publish PlanStepCompleted 0 "Read the code"'
    assert shown["todo_change"] == "Publish TodoChange 1=in_progress 2=pending"
    assert shown["budget_warning"] == "Publish BudgetWarning 0.81 usd 1 usd"
    assert shown["session_recovered"] == (
        "Publish SessionRecovered request r1 sent_again tool call_1 unknown approval a-1 expired"
    )
    assert shown["subagent_event"] == "Publish SubagentEvent call_1 s-child depth=1 AgentStart p-2"
    assert shown["stream_stalled"] == "Publish StreamStalled elapsed_seconds=10.5"
