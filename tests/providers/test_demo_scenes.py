"""Scenes of the demo model: they play on prompts that they know, and all else is as without a name."""

from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.messages import AssistantMessage, ToolMessage, ToolResult
from agentrail.providers.demo import Demo, decide_turn, respond, scenes
from tests.providers.transcripts import completed, request_of, said

NAMES = sorted(
    {call[0] for listed in scenes().values() for one in listed for turn in one.turns for call in turn.calls}
)
TOOLS = Toolbox([ToolSpec(name=name, description="", parameters={"type": "object"}) for name in NAMES])


def asked(*messages, model="demo:support"):
    return request_of(*messages, model=model, tools=TOOLS)


def answered(message: AssistantMessage, *, is_error=False):
    return ToolMessage(
        results=tuple(
            ToolResult(call_id=call.call_id, name=call.name, text="ok", is_error=is_error)
            for call in message.calls
        )
    )


def played(prompt, model, *, refuse=False):
    """All responses to a prompt, until one calls nothing."""
    messages = [said(prompt)]
    while True:
        end = completed(respond(asked(*messages, model=model)))
        messages.append(end.message)
        if not end.message.calls:
            return messages
        messages.append(answered(end.message, is_error=refuse))
        assert len(messages) < 12


def test_what_was_refused_is_not_said_to_be_done():
    """The next response is another one."""
    refused = played("Refund order 4411", "demo:support", refuse=True)[-1].text
    assert "did not pay" in refused
    assert refused != played("Refund order 4411", "demo:support")[-1].text


def test_other_prompts_and_other_names_play_nothing():
    """They get what they got before; tools that a session does not have, or that are withheld, are not called."""
    assert decide_turn("support", "What is the weather?", 0) is None
    assert decide_turn("fast", "Refund order 4411", 0) is None
    before = completed(respond(request_of(said("Refund order 4411"), model="demo:")))
    assert "You said: Refund order 4411" in before.message.text
    assert decide_turn("support", "Refund order 4411", 99).calls == ()

    assert completed(respond(request_of(said("Refund order 1"), model="demo:support"))).message.calls == ()
    withheld = request_of(said("Refund order 1"), model="demo:support", tools=TOOLS, tool_choice="none")
    assert completed(respond(withheld)).message.calls == ()


def test_prices_are_pretended_under_the_names_of_scenes_alone():
    """So that what was spent can be shown, marked as estimated."""
    free, pretended = Demo().capabilities("fast"), Demo().capabilities("support")
    assert (free.price.output, pretended.price.output > 0) == (0, True)
    usage = completed(respond(asked(said("Refund order 4411")))).usage
    assert usage.estimated
    assert usage.cost_usd == pretended.price.cost_usd(usage) > 0
    assert completed(respond(request_of(said("Hi"), model="demo:"))).usage.cost_usd == 0.0
