"""Other messages for one request (`ReplaceMessages`): what is sent, what is counted, and what a compaction makes of it."""

import pytest

from agentrail import plugins as p
from agentrail.core.protocol.effects import StartStream
from agentrail.events import AgentAbort, CompactEnd
from agentrail.messages import Text, UserMessage
from tests.core.plugin_rig import Says, judges
from tests.core.test_hooking import events, play_text

STORY = "Once upon a time there was a king, and he had a queen, and she had a castle by the sea. " * 3


def requests(asked):
    return [
        [block.text for message in effect.request.messages for block in getattr(message, "content", ())]
        for effect in asked
        if isinstance(effect, StartStream)
    ]


LONG = f"""session show=cycle
@0     Prompt p1 "The secret story. {STORY}"
@10    ResponseCompleted r1 "{STORY}"
@20    Prompt p2 "And then, secret?"
@30    ResponseCompleted r2 "{STORY}"
@40    Prompt p3 "And then?"
@50    ResponseCompleted r3 "They lived."
@60    Prompt p4 "And then?"
@70    ResponseCompleted r4 "They lived."
@80    Prompt p5 "The secret end?"
@90    StreamFailed r5 context_overflow "too long"
@100   ResponseCompleted c6 "A king."
@110   PluginRequestFinished e7 written path=compacted/x.md bytes=9
"""


@pytest.mark.at(115)
def test_what_a_plugin_hides_no_model_reads_and_the_conversation_keeps():
    """In each request, its retry, its summary, and the request behind a compaction; the history has it all the same."""

    def hidden(message):
        texts = (getattr(block, "text", "").replace("secret", "***") for block in message.content)
        return UserMessage(content=tuple(Text(text=text) for text in texts))

    def hide(event, state, ctx):
        shown = (hidden(one) if isinstance(one, UserMessage) else one for one in event.messages)
        return p.ReplaceMessages(tuple(shown), state)

    hides = Says("Hides", hide, hooks=(p.BeforeRequest, p.BeforeCompact), priority=50)
    state, asked = play_text(LONG, hides)
    sent = requests(asked)
    assert len(sent) == 7
    assert all("secret" not in text for request in sent for text in request)
    assert sent[-1][-1] == "The *** end?"
    assert any("secret" in block.text for block in state.data.history.messages[-1].content)
    assert events(asked, CompactEnd)[0].removed > 0
    # Five requests, one compaction, and the request behind that.
    assert state.data.plugin_states["Hides"] == 7


def test_a_plugin_may_end_the_cycle_when_it_is_asked_behind_a_compaction():
    """Asked once more about a request, plugins may refuse it; then nothing goes out."""

    def look(event, state):
        if not any("end?" in getattr(block, "text", "") for block in event.messages[-1].content):
            return p.Continue(0)
        return p.Abort("once is enough", state) if state > 1 else p.ReplaceMessages(event.messages, state)

    state, asked = play_text(LONG, judges("late", p.BeforeRequest, look))
    assert [event.reason for event in events(asked, AgentAbort)] == ["once is enough"]
    assert state.data.cycle is None
    assert len(requests(asked)) == 6  # five, and the summary
