"""`Reflection`: answers are reviewed, but not for ever."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.stack.pipeline import resume_hook
from agentrail.errors import ErrorInfo, PluginError
from agentrail.messages import AssistantMessage, SessionId, Text, UserMessage
from agentrail.plugins.reflection import Reflection
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.rig import Alone, says

MESSAGES = (
    UserMessage(content=(Text(text="Why?"),)),
    AssistantMessage(content=(Text(text="Because."),), model="demo:"),
)


def test_what_stands_between_a_review_and_its_answer_changes_nothing():
    """The model may look things up first; an answer without words, and a document, are returned as they are written."""
    looks = Alone(Reflection)
    looks.hears(says("Because."), turn=1)
    looks.hears(p.BeforeFinish(), messages=MESSAGES)
    assert looks.hears(says("APPROVED", "read"), turn=2).event.message.text == "APPROVED"
    assert looks.hears(says("APPROVED"), turn=3).event.message.text == "Because."
    silent = Alone(Reflection)
    silent.hears(says(""), turn=1)
    silent.hears(p.BeforeFinish())
    assert silent.hears(says("APPROVED"), turn=2).event.message.text == "APPROVED"
    assert silent.hears(p.BeforeFinish()).prompt is None
    document = AssistantMessage(content=(Text(text='{"a": 1}'),), model="demo:")
    shaped = Alone(Reflection)
    shaped.hears(says('{"a": 1}'), turn=1)
    prompt = shaped.hears(p.BeforeFinish(), messages=(MESSAGES[0], document)).prompt
    assert prompt.endswith("write the same JSON again, unchanged.")
    assert shaped.hears(says('{ "a": 1 }'), turn=2).event.message.text == '{ "a": 1 }'
    assert shaped.hears(p.BeforeFinish()).prompt is None


def reviewed(result):
    """What a reviewer's answer leads to, and the plugin."""
    plugin = Alone(Reflection, reviewer_model="demo:judge", criteria=["It is true."])
    waits = plugin.hears(p.BeforeFinish(), messages=MESSAGES)
    plugin_request = waits.waiting.plugin_request
    assert (plugin_request.tag, plugin_request.effect.model) == ("review", "demo:judge")
    assert plugin_request.effect.prompt == "Criteria:\n- It is true.\n\nAnswer:\nBecause."
    ctx = p.Context(session_id=SessionId("s"))
    return resume_hook(plugin.stack, waits, result, waits.states, ctx)


def test_another_model_may_review():
    """With `reviewer_model` the finish waits for its answer, and the model hears what is wrong (5.8)."""
    back = reviewed(p.ModelAnswer(text="It gives no reason."))
    assert back.prompt == "A reviewer says of your answer:\nIt gives no reason.\nWrite a better one."
    assert back.states["Reflection"].reviews == 1
    assert reviewed(p.ModelAnswer(text="APPROVED")).prompt is None
    failed = reviewed(p.RequestFailed(error=ErrorInfo(code="overloaded", message="busy")))
    assert (failed.prompt, failed.events[0].name) == (None, "reflection_failed")


def test_it_keeps_the_contract_of_plugins():
    """`check_plugin`, and options that cannot be are refused."""
    check_plugin(Reflection, options=[{}, {"reviewer_model": "demo:judge"}, {"max_reviews": 0}])
    for options in ({"criteria": []}, {"pass_signal": ""}, {"pass_signal": "a\nb"}, {"max_reviews": -1}):
        with pytest.raises(PluginError, match="criteria and pass_signal need words, pass_signal on one line"):
            load_stack([(Reflection, options)])


@given(answers=st.lists(st.sampled_from(("better", "APPROVED", "worse")), max_size=8), most=st.integers(0, 4))
def test_a_cycle_is_sent_back_at_most_so_often(answers, most):
    """Whatever the model says, its answer is sent back at most `max_reviews` times, and never once it passed."""
    plugin = Alone(Reflection, max_reviews=most)
    plugin.hears(says("first"), turn=1)
    sent_back = 0
    for turn, answer in enumerate(answers, start=2):
        if plugin.hears(p.BeforeFinish()).prompt is None:
            break
        sent_back += 1
        plugin.hears(says(answer), turn=turn)
        if answer == "APPROVED":
            assert plugin.hears(p.BeforeFinish()).prompt is None
            break
    assert sent_back <= most
