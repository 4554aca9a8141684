"""One answer out of many: the matrix, the merge rules, short circuits, rewrites judged again, failures, waiting."""

import itertools
import math
import re
from typing import Any

import pytest

from agentrail import messages as messages_module, plugins as p
from agentrail.abc import Secret
from agentrail.core.protocol.actions import MATRIX, SHORT_CIRCUITS, Treatment
from agentrail.core.protocol.hooks import HOOKS
from agentrail.core.stack.hook_outcome import Decision, Switch, Unfit
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.stack.pipeline import end, explain_hook, resume_hook, run_hook
from agentrail.core.stack.plugin_events import plugin_event
from agentrail.core.values.foreign_calls import MAX_FOREIGN_MESSAGE
from agentrail.events import ActionIgnored, BudgetWarning, PluginEvent, PluginFailed
from agentrail.events.values import Amount
from agentrail.messages import (
    AssistantMessage,
    CallId,
    FileRef,
    Image,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentrail.structs import replace
from tests.core.plugin_rig import CTX, EVENTS, OTHER, RESULT, SAYINGS, Says, ask, raises
from tests.thinned import each

EFFECT_OF: dict[type, Any] = {
    p.Intervene: lambda outcome: bool(outcome.interventions),
    p.ReplaceToolArgs: lambda outcome: outcome.arguments == {"command": "pwd"},
    p.SwitchModel: lambda outcome: outcome.switch is not None,
    p.ReplaceToolResult: lambda outcome: outcome.result is not None and outcome.result.text == "shorter",
    p.ReplaceResponse: lambda outcome: outcome.message is not None and outcome.message.text == "kinder",
    p.ReplaceMessages: lambda outcome: outcome.messages == (OTHER,),
    p.Request: lambda outcome: bool(outcome.plugin_requests),
    **dict.fromkeys(SHORT_CIRCUITS, lambda outcome: outcome.decision is not None),
}


def appends(end):
    return lambda e, s, c: p.ReplaceToolArgs({"command": e.arguments["command"] + end}, s)


@each(("hook", "action"), itertools.product(HOOKS, SAYINGS))
def test_each_cell_of_the_matrix_holds(hook, action):
    """An accepted action does what it says; any other leaves the run as it was and is published as ignored (5.4)."""
    outcome = ask([Says("one", action), Says("two")], hook)
    accepted = MATRIX[hook][action] is Treatment.ACCEPTED
    assert EFFECT_OF.get(action, lambda _: accepted)(outcome) == accepted
    ignored = ActionIgnored(plugin="one", hook=hook.__name__, action=action.__name__)
    assert (ignored in outcome.events) != accepted
    assert outcome.states["one"] == 1  # its state is taken in either case
    assert outcome.states["two"] == (0 if accepted and action in SHORT_CIRCUITS else 1)


def test_the_matrix_is_the_table_of_the_specification():
    """The cells that are accepted are these and no others; a switch on a tool error is collected and reported, not applied (5.4)."""
    wanted = {
        p.Intervene: "BeforePrompt BeforeRequest AfterResponse AfterTool AfterToolBatch BeforeFinish BeforeSteering",
        p.Abort: "SessionStarted BeforePrompt BeforeRequest AfterResponse BeforeTool OnToolError AfterTool AfterToolBatch"
        " BeforeFinish BeforeSteering BeforePluginOptsUpdate",
        p.Skip: "BeforePrompt BeforeRequest AfterResponse BeforeTool OnToolError BeforeCompact BeforePluginOptsUpdate",
        p.BlockTool: "BeforeTool",
        p.ReplaceToolArgs: "BeforeTool",
        p.SwitchModel: "BeforeRequest AfterResponse AfterTool AfterToolBatch",
        p.RequireApproval: "BeforeTool",
        p.ReplaceToolResult: "AfterTool",
        p.ReplaceResponse: "AfterResponse",
        p.ReplaceMessages: "BeforeRequest BeforeCompact",
        p.ResolveApproval: "BeforePrompt",
    }
    for action, hooks in wanted.items():
        accepted = {hook.__name__ for hook in HOOKS if MATRIX[hook][action] is Treatment.ACCEPTED}
        assert accepted == set(hooks.split()), action
    cells = {(hook, action): MATRIX[hook][action] for hook in HOOKS for action in SAYINGS}
    assert all(cells[hook, action] is Treatment.ACCEPTED for hook in HOOKS for action in (p.Continue, p.Emit))
    collected = [cell for cell, treatment in cells.items() if treatment is Treatment.COLLECTED]
    assert collected == [(p.OnToolError, p.SwitchModel)]

    outcome = ask([Says("one", p.SwitchModel)], p.OnToolError)
    assert outcome.switch is None
    assert outcome.collected == (Switch(model="demo:small", provider_opts=None, by="one"),)
    assert [type(event) for event in outcome.events] == [ActionIgnored]


@pytest.mark.at(110)
def test_the_last_rewrite_wins_and_each_plugin_sees_the_one_before():
    """Of arguments, and of a result, which may be text alone and answers the call that was made (5.3)."""
    one = Says("one", lambda e, s, c: p.ReplaceToolArgs({"command": "a"}, s), priority=200)
    two = Says("two", appends("b"), priority=300)
    outcome = ask([two, one], p.BeforeTool)
    assert outcome.arguments == {"command": "ab"}
    assert outcome.rewritten_by == ("one", "two")
    with pytest.raises(TypeError, match="is immutable"):
        outcome.arguments["command"] = "written to"

    foreign = ToolResult(call_id=CallId("other"), name="other", text="short", is_error=True)
    one = Says("one", lambda e, s, c: p.ReplaceToolResult(foreign, s), priority=200)
    two = Says("two", lambda e, s, c: p.ReplaceToolResult(e.result.text + "er", s), priority=300)
    outcome = ask([one, two], p.AfterTool)
    assert outcome.result == ToolResult(call_id=RESULT.call_id, name="shell", text="shorter", is_error=True)
    assert outcome.replaced_by == ("one", "two")


def test_emits_keep_their_order_and_come_from_every_action():
    """All are published in order, whatever action carries them; one may be an event of plans, memory or policy (5.3, 4.1)."""
    one = Says("one", lambda e, s, c: p.Emit([("a", 1), ("b", 2)], s, emits=(("c", 3),)), priority=200)
    two = Says("two", lambda e, s, c: p.Abort("stop", s, emits=(("d", 4),)), priority=300)
    outcome = ask([two, one], p.BeforeFinish)
    said = [(event.name, event.payload) for event in outcome.events]
    assert said == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]

    warning = BudgetWarning(spent=Amount(value=8, unit="tokens"), limit=Amount(value=10, unit="tokens"))
    assert ask([Says("one", lambda e, s, c: p.Emit(warning, s))], p.AfterTurn).events == (warning,)


def test_user_data_is_merged_into_payloads():
    """Mappings get `user_data` under that key, unless they have one or opt out; what is no JSON is said in its own words (4.3)."""
    said = [("a", {"n": 1}), ("b", {"user_data": 2}), ("c", {"n": 3, "_no_user_data": True}), ("d", [4])]
    events = ask([Says("one", lambda e, s, c: p.Emit(said, s))], p.AfterTurn).events
    assert [event.payload for event in events] == [
        {"n": 1, "user_data": {"tenant": "acme"}},
        {"user_data": 2},
        {"n": 3},
        [4],
    ]

    data = {"key": Secret("sk-1"), "deep": [{"rate": math.inf}, (1, "a")], 3: None}
    event = plugin_event("a", {"n": 1}, data)
    told = {"key": "Secret(…)", "deep": [{"rate": "inf"}, [1, "a"]], "3": None}
    assert event.payload == {"n": 1, "user_data": told}


def test_context_sections_are_merged_before_a_request_and_ignored_elsewhere():
    """`context` sets and removes sections on `BeforeRequest`; the last one to name a key counts (5.3)."""
    one = Says("one", lambda e, s, c: p.Continue(s, context={"plan": "x", "memory": "y"}), priority=200)
    two = Says("two", lambda e, s, c: p.Continue(s, context={"plan": None}), priority=300)
    assert ask([two, one], p.BeforeRequest).context == {"plan": None, "memory": "y"}
    elsewhere = ask([one], p.AfterTurn)
    assert not elsewhere.context
    assert elsewhere.events == (ActionIgnored(plugin="one", hook="AfterTurn", action="context"),)


def hands_on(*words, **also):
    said = tuple(UserMessage(content=(Text(text=word),)) for word in words)
    return lambda e, s, c: p.ReplaceMessages(said, s, **also)


def words_of(outcome):
    """What is sent in place of the conversation."""
    return outcome.messages and [message.content[0].text for message in outcome.messages]


def test_skip_does_not_take_back_what_a_guard_rewrote():
    """A `Skip` undoes what others rewrote or handed on; what a safety plugin made of arguments or messages stands."""
    for hook, by_guard, by_other, made in (
        (
            p.BeforeTool,
            rewrites("safe"),
            rewrites("other"),
            lambda one: one.arguments and one.arguments["command"],
        ),
        (
            p.BeforeRequest,
            hands_on("safe"),
            hands_on("other"),
            lambda one: words_of(one) and words_of(one)[0],
        ),
    ):
        guard = Says("guard", by_guard, priority=10)
        other = Says("other", by_other, priority=200)
        outcome = ask([guard, other, Says("skips", p.Skip)], hook)
        assert made(outcome) == "safe"
        assert (outcome.rewritten_by or outcome.replaced_by) == ("guard",)
        assert made(ask([other, Says("skips", p.Skip)], hook)) is None
        assert made(ask([guard, Says("skips", p.Skip, priority=20)], hook)) == "safe"


CALLS = AssistantMessage(content=(ToolCall(call_id=CallId("c1"), name="look", arguments={}),), model="demo:")
WRONG: Any = messages_module  # what no type checker would let through


def user(*content):
    return WRONG.UserMessage(content=content)


def model(*content, by="m"):
    return WRONG.AssistantMessage(content=content, model=by)


def answer(text):
    return ToolMessage(results=(WRONG.ToolResult(call_id=CallId("c1"), name="look", text=text),))


ANSWER = answer("seen")
NO_CONVERSATION = {
    "none": ((), "passes no messages: a request needs at least one"),
    "text": ("hello", "needs a tuple of messages, got a value of type str"),
    "json": (({"role": "user"},), "messages[0] is {'role': 'user'}: expected a UserMessage"),
    "open": ((OTHER, CALLS), "end with calls that are unanswered: ['c1']"),
    "spoken": ((OTHER, CALLS, OTHER), "messages[2]: a user message cannot be added while"),
    "responded": ((OTHER, CALLS, CALLS), "messages[2]: a response cannot be added while"),
    "orphan": ((ANSWER,), "messages[0]: expected one result for each of []"),
    "empty": ((user(),), "messages[0]: a user message needs at least one"),
    "no blocks": ((WRONG.UserMessage(content="hi"),), "messages[0] holds ('h', 'i'): expected a tuple"),
    "block": ((user(CALLS.content[0]),), "expected a tuple of this message's content types"),
    "no text": ((user(WRONG.Text(text=7)),), "expected text fields"),
    "image": ((user(WRONG.Image(media_type="image/png", data=b"x")),), "expected text fields"),
    "path": ((user(WRONG.FileRef(path=None)),), "expected text fields"),
    "thought": ((model(WRONG.Thinking(text="hm", provider=None)),), "expected text fields"),
    "opaque": (
        (model(WRONG.Opaque(provider="x", payload={"a": object()})),),
        "$.a is a object, which is not JSON",
    ),
    "model": ((model(WRONG.Text(text="a"), by=None),), "has the model None: expected a text"),
    "arguments": (
        (model(WRONG.ToolCall(call_id="c", name="n", arguments=[1])),),
        "has a call with the arguments [1]: expected a JSON object",
    ),
    "result": ((OTHER, CALLS, answer(None)), "messages[2] holds"),
}


@pytest.mark.parametrize("policy", ["open", "closed"])
@pytest.mark.parametrize("fault", NO_CONVERSATION)
def test_messages_that_are_no_conversation_are_their_plugins_fault(fault, policy):
    """What no history could hold is refused by the plugin's name, and by its policy; nothing of it is sent (5.6)."""
    messages, words = NO_CONVERSATION[fault]
    breaks = Says("breaks", lambda e, s, c: p.ReplaceMessages(messages, s), on_error=policy)
    outcome = ask([Says("first", hands_on("a"), priority=200), breaks], p.BeforeRequest)
    (failed,) = outcome.events
    assert (failed.plugin, failed.error.code) == ("breaks", "plugin_misbehaved")
    assert words in failed.error.message
    assert words_of(outcome) == ["a"]
    assert outcome.states["breaks"] == 0
    assert (outcome.decision is not None) == (policy == "closed")


class Unreadable(dict[str, Any]):
    """A mapping that raises while it is read, and while it is shown."""

    def _raise(self, *_: object) -> Any:
        message = "its connection is closed"
        raise ConnectionError(message)

    items = __iter__ = __repr__ = _raise
    __hash__ = _raise  # type: ignore[assignment]  # that of a dict is None


UNREADABLE: Any = Unreadable(command="ls")
WITH_IT: Any = [UNREADABLE]
CANNOT_BE_READ = {
    "arguments": lambda e, s, c: p.ReplaceToolArgs(UNREADABLE, s),
    "emits": lambda e, s, c: p.Continue(s, emits=WITH_IT),
    "payload": lambda e, s, c: p.Emit("said", UNREADABLE, s),
    "context": lambda e, s, c: p.Continue(s, context=UNREADABLE),
    "options": lambda e, s, c: p.SwitchModel("demo:", s, provider_opts=UNREADABLE),
    "request": lambda e, s, c: p.Request(UNREADABLE, "t", s),
}


@pytest.mark.parametrize("policy", ["open", "closed"])
@pytest.mark.parametrize("answer", CANNOT_BE_READ)
def test_an_answer_that_raises_while_it_is_read_is_its_plugins_fault(answer, policy):
    """The failure names the plugin and its hook, and a closed plugin refuses: the session's own step goes on (5.6)."""
    breaks = Says("breaks", CANNOT_BE_READ[answer], on_error=policy)
    outcome = ask([breaks], p.BeforeTool)
    (failed,) = outcome.events
    assert (failed.plugin, failed.hook, failed.error.code) == ("breaks", "BeforeTool", "plugin_raised")
    assert "ConnectionError: its connection is closed" in failed.error.message
    assert outcome.states["breaks"] == 0
    assert (outcome.decision is not None) == (policy == "closed")


def test_a_failure_holds_no_more_than_the_start_of_a_wrong_answer():
    """It goes into events and the journal, and a plugin may return a whole file in the wrong place."""
    (failed,) = ask([Says("one", lambda e, s, c: p.Intervene(b"x" * 10_000, s))], p.BeforePrompt).events
    assert failed.error.message.startswith("answered Intervene: needs a text that is not blank, got b'xxx")
    assert len(failed.error.message) == MAX_FOREIGN_MESSAGE


def test_a_failure_names_no_address():
    """A replay would find another one, and the model of a restored session another text."""
    for answer, said in (
        (lambda e, s, c: object(), "returned <object object>, expected an action such as Continue(state)"),
        (lambda e, s, c: p.Abort(object(), s), "needs a text that is not blank, got <object object>"),
        (lambda e, s, c: {}[object()], "KeyError: <object object> (core/test_pipeline.py"),
        (lambda e, s, c: int("at 0x1f"), "invalid literal for int() with base 10: 'at 0x1f'"),
        (lambda e, s, c: int("<X at 0x7f8839dcae6"), "with base 10: '<X'"),
    ):
        (failed,) = ask([Says("one", answer)], p.BeforePrompt).events
        assert said in failed.error.message


def test_a_handler_that_cannot_be_called_is_reported_without_a_place():
    """The place would be in the code that calls it, which is another one in a replay than in a live session."""
    plugin = Says("wrong")
    plugin.handle = lambda event: p.Continue(0)
    (failed,) = ask([plugin], p.BeforeFinish).events
    assert isinstance(failed, PluginFailed)
    assert failed.error.message.endswith("takes 1 positional argument but 3 were given")


def test_a_conversation_of_all_kinds_of_messages_may_be_handed_on():
    """Calls with their results, pictures, files and thoughts, in a list too; cache points count where the same message stands."""
    thought = (Thinking(text="hm", provider="x", signature="s"), Opaque(provider="x", payload={"a": [1]}))
    seen = UserMessage(content=(Image(media_type="image/png", data="aGk="), FileRef(path="a.py")))
    messages = [seen, CALLS, ANSWER, AssistantMessage(content=thought, model="m"), OTHER]
    outcome = ask([Says("one", lambda e, s, c: p.ReplaceMessages(messages, s))], p.BeforeRequest)
    assert outcome.messages == tuple(messages)

    event = p.BeforeRequest(messages=(OTHER, CALLS, ANSWER))
    hints = p.Hints(cache_points=("system", 0, 2))
    marks = Says("marks", lambda e, s, c: p.Continue(s, hints=hints), priority=130)

    def points(*plugins):
        stack, states = load_stack([marks, *plugins])
        return run_hook(stack, event, states, CTX).hints.cache_points

    assert points(Says("cuts", lambda e, s, c: p.ReplaceMessages(e.messages[:1], s))) == ("system", 0)
    assert points(Says("other", hands_on("a", "b", "c"))) == ("system",)
    own = p.Hints(cache_points=(1,))
    assert points(Says("own", hands_on("a", "b", hints=own))) == (1,)
    nothing = Says("none", lambda e, s, c: p.Continue(s, hints=p.Hints(cache_points=())), priority=140)
    assert points(nothing, Says("other", hands_on("a"))) == ()


def refuses(word, action=p.BlockTool):
    return lambda e, s, c: action(f"no {word}", s) if e.arguments["command"] == word else p.Continue(s)


def rewrites(command):
    return lambda e, s, c: p.ReplaceToolArgs({"command": command}, s)


@pytest.mark.at(105)
@pytest.mark.at(115)
@pytest.mark.at(76)
@pytest.mark.at(106)
def test_a_rewrite_after_a_guard_brings_the_guard_back():
    """It judges what will run, whatever the order of registration, and a person is asked about what will run (5.5, AT-076)."""
    for order in (1, -1):
        guard = Says("guard", refuses("rm"), priority=10)
        outcome = ask([guard, Says("rewriter", rewrites("rm"))][::order], p.BeforeTool)
        assert outcome.decision == Decision(action=p.BlockTool("no rm", 2), by="guard")
        assert [event.arguments["command"] for event in guard.shown] == ["ls", "rm"]
        asks = Says("asks", refuses("rm", p.RequireApproval), priority=50)
        outcome = ask([asks, Says("rewriter", rewrites("rm"))][::order], p.BeforeTool)
        assert isinstance(outcome.decision.action, p.RequireApproval)
        assert outcome.arguments == {"command": "rm"}


@pytest.mark.at(111)
def test_rewritten_arguments_must_fit_the_schema_before_any_guard_sees_them():
    """The refusal names the plugin (6.5, gate 5); guards see defaults too; after three rounds the call is given up as `arguments_unstable`."""
    guard = Says("guard", priority=10)
    outcome = ask(
        [guard, Says("rewriter", rewrites("x"))], p.BeforeTool, fit=lambda arguments: "$.path is required"
    )
    text = "$.path is required (the arguments were rewritten by 'rewriter')"
    assert outcome.decision == Decision(action=Unfit(code="invalid_arguments", text=text), by="rewriter")
    assert len(guard.shown) == 1

    judge = lambda e, s, c: p.BlockTool("forced", s) if e.arguments.get("force") else p.Continue(s)  # noqa: E731
    entries = [Says("guard", judge, priority=10), Says("rewriter", rewrites("pwd"), priority=20)]
    forced = ask(entries, p.BeforeTool, fit=lambda arguments: {**arguments, "force": True})
    assert forced.decision.by == "guard"
    fits = ask(entries, p.BeforeTool, fit=lambda arguments: arguments)
    assert (fits.decision, fits.arguments) == (None, {"command": "pwd"})

    entries = [Says("one", appends("1"), priority=10), Says("two", appends("2"), priority=20)]
    decision = ask(entries, p.BeforeTool).decision
    by = f"(the arguments were rewritten by {decision.by!r})"
    said = f"its arguments were rewritten in each of 3 rounds {by}"
    assert decision.action == Unfit(code="arguments_unstable", text=said)


def test_texts_are_plain_before_the_session_gets_them():
    """Of no class of their own, and without lone surrogates, at any depth; two halves that follow each other are one character."""
    text = type("Markup", (str,), {})("a\ud800, \ud83d\ude00")
    outcome = ask([Says("one", lambda e, s, c: p.ReplaceToolArgs({"command": [text]}, s))], p.BeforeTool)
    assert outcome.arguments == {"command": ["a\ufffd, \U0001f600"]}
    assert type(outcome.arguments["command"][0]) is str


wrong: Any = p  # the type checker would refuse most of these
WRONG_ANSWERS = {
    "an exception": raises,
    "nothing": lambda e, s, c: None,
    "a tuple": lambda e, s, c: (wrong.Continue, s),
    "a class": lambda e, s, c: wrong.Continue,
    "the state of another plugin": lambda e, s, c: wrong.Continue("theirs"),
    "a state that cannot be stored": lambda e, s, c: wrong.Continue(2**70),
    "no reason": lambda e, s, c: wrong.BlockTool("", s),
    "arguments that are no object": lambda e, s, c: wrong.ReplaceToolArgs("ls", s),
    "arguments that are no JSON": lambda e, s, c: wrong.ReplaceToolArgs({"a": {1}}, s),
    "an empty result": lambda e, s, c: wrong.ReplaceToolResult("", s),
    "no model": lambda e, s, c: wrong.SwitchModel(None, s),
    "an unknown decision": lambda e, s, c: wrong.ResolveApproval("a", "perhaps", s),
    "a decision about no approval": lambda e, s, c: wrong.ResolveApproval(None, "approve", s),
    "an unknown request": lambda e, s, c: wrong.Request("rm -rf", "t", s),
    "an emit without a name": lambda e, s, c: wrong.Continue(s, emits=(("a",),)),
    "an emit that is no JSON": lambda e, s, c: wrong.Emit("a", object(), s),
    "emits that are no tuple": lambda e, s, c: wrong.Continue(s, emits=[("a", 1)]),
    "context that is not text": lambda e, s, c: wrong.Continue(s, context={"k": 1}),
    "context that is no mapping": lambda e, s, c: wrong.Continue(s, context="k"),
    "a limit that is no number": lambda e, s, c: wrong.RequireApproval("why", s, expires_seconds="5"),
    "a limit that no clock holds": lambda e, s, c: wrong.RequireApproval(
        "why", s, expires_seconds=float("nan")
    ),
    "a result whose details are no JSON": lambda e, s, c: wrong.ReplaceToolResult(
        replace(RESULT, details={"a": math.nan}), s
    ),
    "options that are no mapping": lambda e, s, c: wrong.SwitchModel("demo:", s, provider_opts=[1]),
    "a request of another path": lambda e, s, c: wrong.Request(p.ReadFile(wrong), "t", s),
    "a request without a tag": lambda e, s, c: wrong.Request(p.ReadFile("a"), None, s),
    "a changed event": lambda e, s, c: e.arguments.update(command="rm"),
    "a changed state": lambda e, s, c: setattr(s, "real", 7),
    "changed data of the application": lambda e, s, c: c.user_data.update(tenant="other"),
    "a changed context": lambda e, s, c: setattr(c, "session_id", "other"),
    "a changed event, deep inside": lambda e, s, c: e.arguments.setdefault("x", 1),
}


@pytest.mark.at(113)
@pytest.mark.parametrize("wrong", WRONG_ANSWERS)
@pytest.mark.parametrize("policy", ["open", "closed"])
def test_whatever_a_plugin_does_wrong_is_its_failure(wrong, policy):
    """Its state stays as it was, `PluginFailed` is published, then `on_error` decides (5.6)."""
    behind = Says("behind", priority=600)
    outcome = ask([Says("bad", WRONG_ANSWERS[wrong], on_error=policy), behind], p.BeforeTool)
    failed = outcome.events[0]
    assert isinstance(failed, PluginFailed)
    assert (failed.plugin, failed.hook, failed.policy) == ("bad", "BeforeTool", policy)
    assert "stack/pipeline.py" not in failed.error.message  # the words of an exception while it is read
    assert outcome.states["bad"] == 0
    assert outcome.event == EVENTS[p.BeforeTool]
    if policy == "open":
        assert (outcome.decision, outcome.states["behind"]) == (None, 1)
    else:
        assert isinstance(outcome.decision.action, p.BlockTool)
        assert failed.error.message in outcome.decision.action.reason
        assert (outcome.decision.by, outcome.decision.failed, behind.shown) == ("bad", True, [])


@pytest.mark.at(114)
def test_a_plugin_that_would_wait_fails():
    """A coroutine is no action, a session plugin cannot wait (5.6); and only an outcome that waits can be resumed."""

    async def later():
        """Never awaited."""

    failed = ask([Says("waits", lambda e, s, c: later())], p.BeforeTool).events[0]
    assert "expected an action" in failed.error.message

    stack, states = load_stack([Says("quiet")])
    quiet, read = (
        run_hook(stack, EVENTS[p.AfterTurn], states, CTX),
        p.FileText(path="rules", text="rm is fine"),
    )
    with pytest.raises(ValueError, match="resume needs a pending outcome"):
        resume_hook(stack, quiet, read, states, CTX)


def test_plugins_take_a_last_look():
    """What `on_session_end` returns is published; what it does wrong is a failure of its own (5.1)."""

    class Last(Says):
        def on_session_end(self, state, ctx):
            return self.answer()

    good = {"pair": lambda: ("bye", {"n": 1}), "list": lambda: [("a", 1), ("b", 2)]}
    last = good | {"raises": raises, "nonsense": lambda: 3, "no_json": lambda: ("c", object())}
    last["unreadable"] = lambda: ("d", UNREADABLE)
    stack, states = load_stack([Says("silent"), *(Last(name, answer) for name, answer in last.items())])
    events = end(stack, states, CTX)
    assert [event.name for event in events if isinstance(event, PluginEvent)] == ["bye", "a", "b"]
    failed = [event for event in events if isinstance(event, PluginFailed)]
    assert [event.plugin for event in failed] == ["raises", "nonsense", "no_json", "unreadable"]
    assert {event.hook for event in failed} == {"on_session_end"}


@pytest.mark.at(107)
@pytest.mark.at(110)
def test_explain_tells_who_was_asked_what_won_and_what_lost():
    """The chain names every listener, its answer and its fate, in the order in which they were asked (5.5)."""
    entries = [
        Says("guard", refuses("rm"), priority=10),
        Says("one", rewrites("a"), priority=200),
        Says("two", rewrites("rm"), priority=300),
        Says("bad", raises, priority=400),
        Says("emits", p.Emit, priority=410),
        Says("odd", p.Intervene, priority=420),
        Says("stops", refuses("rm", p.RequireApproval), priority=500),
        Says("late", priority=900),
    ]
    stack, states = load_stack(entries[::-1])
    explanation = explain_hook(stack, EVENTS[p.BeforeTool], states, CTX)
    assert re.sub(r" \(core/plugin_rig.py:\d+ in raises\)", "", str(explanation)).splitlines() == [
        "BeforeTool",
        "    10 guard: Continue → accepted",
        "   200 one: ReplaceToolArgs({'command': 'a'}) → lost to 'two'",
        "   300 two: ReplaceToolArgs({'command': 'rm'}) → accepted",
        "   400 bad: failed, ZeroDivisionError: a bug → fails open",
        "   410 emits: Emit((('said', {'n': 1}),)) → accepted",
        "   420 odd: Intervene('look again') → ignored",
        "   500 stops: RequireApproval('no rm') → lost to 'guard'",
        "    10 guard (judging again, round 1): BlockTool('no rm') → stops the rest",
        "   900 late: not asked",
        "  = BlockTool('no rm'), by 'guard'",
    ]
    assert explanation.outcome.decision == run_hook(stack, EVENTS[p.BeforeTool], states, CTX).decision


def explained(hook, *plugins, **how):
    """What `explain_hook` says, line by line, without its title."""
    stack, states = load_stack(plugins)
    return str(explain_hook(stack, EVENTS[hook], states, CTX, **how)).splitlines()[1:]


def test_explain_names_the_guard_that_overrules_what_stopped_the_rest():
    """A refusal in a later round replaces a `Skip`. What the `Skip` took back stays taken back, and a guard's change stays."""
    entries = [
        Says("first", refuses("rm"), priority=5),
        Says("second", rewrites("rm"), priority=10),
        Says("late", rewrites("a"), priority=200),
        Says("skips", p.Skip),
    ]
    assert explained(p.BeforeTool, *entries) == [
        "     5 first: Continue → accepted",
        "    10 second: ReplaceToolArgs({'command': 'rm'}) → accepted",
        "   200 late: ReplaceToolArgs({'command': 'a'}) → lost to 'skips'",
        "   500 skips: Skip → lost to 'first'",
        "     5 first (judging again, round 1): BlockTool('no rm') → stops the rest",
        "  = BlockTool('no rm'), by 'first'",
    ]


def test_explain_tells_of_a_skip_a_wait_and_an_answer_of_nobody():
    """What a `Skip` took back has lost to it; a run that waits says for what."""
    skips = Says("skips", p.Skip)
    one = Says("one", p.Intervene, priority=200)
    assert explained(p.BeforePrompt, one, Says("e", p.Emit, priority=210), skips) == [
        "   200 one: Intervene('look again') → lost to 'skips'",
        "   210 e: Emit((('said', {'n': 1}),)) → accepted",
        "   500 skips: Skip → stops the rest",
        "  = Skip, by 'skips'",
    ]
    guard, one = Says("g", rewrites("x"), priority=5), Says("one", rewrites("y"), priority=200)
    lines = explained(p.BeforeTool, guard, one, skips)
    assert [line.rpartition(" → ")[2] for line in lines[:2]] == ["accepted", "lost to 'skips'"]
    guard, one = Says("g", hands_on("safe"), priority=5), Says("one", hands_on("other"), priority=200)
    assert explained(p.BeforeRequest, guard, one, skips)[:2] == [
        "     5 g: ReplaceMessages(1 messages) → accepted",
        "   200 one: ReplaceMessages(1 messages) → lost to 'skips'",
    ]
    asks = Says("asks", lambda e, s, c: p.Request(p.ReadFile("rules"), "t", s, wait=True))
    chain = explained(p.BeforeFinish, asks)
    assert chain[-1].endswith("= waits for ReadFile(path='rules'), asked for by 'asks'")
    assert "ResolveApproval('a1', 'approve')" in explained(p.BeforePrompt, Says("r", p.ResolveApproval))[0]
    unfit = explained(p.BeforeTool, Says("r", rewrites("x")), fit=lambda arguments: "no")
    assert unfit[-1].endswith("= no (the arguments were rewritten by 'r'), by 'r'")
    quiet = explained(p.BeforeTool, Says("q", lambda e, s, c: p.Continue(0)))
    assert quiet == ["   500 q: Continue → no answer", "  = goes on"]
