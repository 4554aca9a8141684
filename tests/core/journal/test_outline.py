"""The outline of effects: one short line each, in order, and nothing in it that could be taken for another line."""

from typing import Any, get_args

from agentrail.core.journal.recorded_steps import effects_named, first_event_in, outline
from agentrail.core.policy.budget import Budget
from agentrail.core.protocol import effects as asked
from agentrail.core.protocol.actions import ReadFile
from agentrail.core.protocol.effects import Effect, Publish
from agentrail.core.protocol.request import EffectId, ModelRequest
from agentrail.core.protocol.signals import SignalId
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import ErrorInfo, MailboxFull
from agentrail.events import AgentStart, Envelope
from agentrail.messages import CallId, PromptRef, SessionId, Text, ToolResult, UserMessage

SAID = (UserMessage(content=(Text(text="a secret"),)),)
CALL: dict[str, Any] = {"call_id": CallId("c1"), "name": "read", "arguments": {"path": "a secret"}}
PATH = (SessionId("s"),)


PUBLISHED = Publish(AgentStart(ref=PromptRef("p"), meta=Envelope(SessionId("s"), 31, 5, PATH)))


def tool(attempt: int = 1) -> asked.RunTool:
    return asked.RunTool(
        effect_id=e("t7"),
        generation=0,
        arguments_hash="77ab" * 16,
        operation_id="9f2c" * 8,
        attempt=attempt,
        turn=1,
        model="m",
        path=PATH,
        **CALL | {"name": "shell"},
    )


def e(effect_id: str) -> EffectId:
    return EffectId(effect_id)


REQUEST = ModelRequest(attempt=e("r4"), model="a:b", system=None, messages=SAID, tools=Toolbox())
LINES: dict[str, Effect] = {
    "start_stream r4 model=a:b messages=1": asked.StartStream(request=REQUEST, look_at_ms=9),
    "cancel_stream r4": asked.CancelStream(effect_id=e("r4")),
    "run_tool t7 shell op=9f2c9f2c9f2c args=77ab77ab77ab": tool(),
    "run_tool t7 shell op=9f2c9f2c9f2c args=77ab77ab77ab attempt=2": tool(attempt=2),
    "spawn_child t8 scout": asked.SpawnChild(effect_id=e("t8"), agent="scout", budget=Budget(max_total_tokens=1), **CALL),
    "ask_host h1 read": asked.AskHost(effect_id=e("h1"), path=PATH, **CALL),
    "tell_host h2 read": asked.TellHost(
        effect_id=e("h2"), path=PATH, ran_ms=1, result=ToolResult(call_id=CallId("c1"), name="read", text="a secret"), **CALL
    ),
    "resume_child t8 s.1 s.2": asked.ResumeChild(
        effect_id=e("t8"), call_id=CallId("c1"), name="read", child_ids=(SessionId("s.1"), SessionId("s.2"))
    ),
    "start_agent g1 anna scout": asked.StartAgent(
        effect_id=e("g1"), call_id=CallId("c1"), name="anna", agent="scout", task="a secret"
    ),
    "prompt_agent g1": asked.PromptAgent(effect_id=e("g1"), text="a secret"),
    "close_agent g1": asked.CloseAgent(effect_id=e("g1"), reason="a secret"),
    "kill_tools t7 t8": asked.KillTools(effect_ids=(e("t7"), e("t8"))),
    "set_timer w9 1795": asked.SetTimer(effect_id=e("w9"), at_ms=1795),
    "clear_timer w9": asked.ClearTimer(effect_id=e("w9")),
    "run_plugin_request e3 ReadFile": asked.RunPluginRequest(effect_id=e("e3"), wanted=ReadFile("a secret")),
    "run_plugin_request e3 ReadFile refused=budget": asked.RunPluginRequest(
        effect_id=e("e3"), wanted=ReadFile("x"), refused=ErrorInfo(code="budget", message="a secret")
    ),
    "cancel_plugin_request e3": asked.CancelPluginRequest(effect_id=e("e3")),
    "gather_context c2 messages=1": asked.GatherContext(effect_id=e("c2"), messages=SAID),
    "set_provider_opts model=a:b": asked.SetProviderOpts(model="a:b", provider_opts={"key": "a secret"}),
    "teardown d5 t7 r4": asked.Teardown(effect_id=e("d5"), stopped=(e("t7"), e("r4"))),
    "publish 31": PUBLISHED,
    "reply": asked.ReplyToCaller(SignalId("s1"), "a secret"),
    "refuse MailboxFull": asked.Refuse(SignalId("s1"), MailboxFull("a secret")),
    "end": asked.End("a secret"),
}  # fmt: skip


def test_each_effect_is_one_short_line():
    """Names, numbers and digests of each kind, no word of the conversation; named as begun is what runs, and no timer or teardown."""
    for line, effect in LINES.items():
        assert outline((effect,)) == line
    assert {type(effect) for effect in LINES.values()} == set(get_args(Effect))
    assert "secret" not in outline(LINES.values())  # an export without content has outlines all the same
    assert effects_named("") == frozenset()
    assert effects_named(outline(LINES.values())) == {"r4", "t7", "t8", "h1", "h2", "g1", "e3", "c2"}


def test_the_first_event_of_a_record_is_read_from_its_outline():
    """Of a range its first number. A record that published nothing has none."""
    assert [
        first_event_in(does) for does in ("publish 7-9\nreply\npublish 10", "reply\npublish 4", "reply", "")
    ] == [7, 4, None, None]
