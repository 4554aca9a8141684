"""Thinking between tags is told from text, however it is cut into pieces (7.5)."""

from hypothesis import given, strategies as st

from agentrail.providers.openai_chat_format import ThinkTags


def _told(*pieces: str) -> tuple[str, str]:
    """Return the thinking and the text of a whole answer."""
    tags = ThinkTags()
    said = [pair for piece in pieces for pair in tags.feed(piece)] + tags.flush()
    assert all(text for text, _ in said)
    return (
        "".join(text for text, is_thinking in said if is_thinking),
        "".join(text for text, is_thinking in said if not is_thinking),
    )


@given(
    whole=st.lists(st.sampled_from(["<think>", "</think>", "<", "/", "think>", "a", "\n"])), data=st.data()
)
def test_how_a_text_is_cut_changes_nothing(whole, data):
    """Any pieces give what the whole gives, and nothing that is no tag is lost."""
    text = "".join(whole)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert _told(*pieces) == _told(text)
    if not text.lstrip().startswith("<think>"):
        assert _told(text) == ("", text)
