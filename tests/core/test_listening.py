"""What people see of what a model says is the same wherever they see it: in deltas, in a snapshot, in a reply."""

import itertools

from hypothesis import given, strategies as st

from agentrail.core.protocol.request import ArgumentsDelta, TextDelta, ToolCallStarted
from agentrail.core.protocol.signals import ChunksArrived, StreamStarted
from agentrail.core.session.inline_tags import visible_so_far
from agentrail.core.session.views import snapshot_of
from agentrail.events import MessageDelta
from agentrail.messages import Text
from tests.core.worlds import completed, new_session, prompt, walk

PIECES = st.lists(st.sampled_from(("a", "<", "`", "<title>", "</title>", "<status>", "</status>", "\n")))


@given(pieces=PIECES, inline_tags=st.booleans())
def test_deltas_snapshot_and_reply_agree(pieces, inline_tags):
    """At each moment the deltas add up to the snapshot; at the end to the reply; and the history has every character."""
    script = [
        prompt(),
        StreamStarted(at_ms=1, effect_id="r1"),
        *(ChunksArrived(at_ms=2, effect_id="r1", chunks=(TextDelta(piece),)) for piece in pieces),
        completed("r1", Text(text="".join(pieces) or "nothing was streamed")),
    ]
    deltas = ""
    for seen in itertools.islice(walk(script, new_session(inline_tags=inline_tags)), 1, None):
        deltas += "".join(event.delta for event in seen.events if isinstance(event, MessageDelta))
        if seen.after.data.stream is not None:
            assert snapshot_of(seen.after.phase, seen.after.data, at_ms=3).text == deltas
            assert visible_so_far(seen.after.data.stream, seen.after.data.config) == deltas
    said = seen.after.data.history.messages[1].text
    assert said == ("".join(pieces) or "nothing was streamed")
    assert seen.after.data.last.text == (deltas if pieces else said)


def test_half_of_a_call_is_of_no_use_to_anybody():
    """Calls come whole, with the message; text beside their pieces is heard."""
    pieces = (ToolCallStarted(0, "c1", "add"), ArgumentsDelta(0, '{"a":'), TextDelta("Wait."))
    chunks = ChunksArrived(at_ms=2, effect_id="r1", chunks=pieces)
    *_, seen = walk([prompt(), StreamStarted(at_ms=1, effect_id="r1"), chunks], new_session())
    (delta,) = seen.events
    assert isinstance(delta, MessageDelta)
    assert delta.delta == "Wait."
