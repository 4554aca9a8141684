"""How many tokens a conversation has: what was reported, and four bytes a token for the rest."""

import pytest

from agentrail import messages as m
from agentrail.core.policy.request_context import IMAGE_TOKENS, TokenCount, tokens_of


def user(*content) -> m.UserMessage:
    return m.UserMessage(content=content)


def says(*content) -> m.AssistantMessage:
    return m.AssistantMessage(content=content, model="m")


def test_every_kind_of_block_counts_four_bytes_a_token():
    """Rounded up; a picture counts what it costs, and not what its base64 would."""
    thoughts = (
        m.Thinking(text="x" * 8, signature="s" * 8, provider="p"),
        m.Thinking(text="x" * 4, provider="p"),
    )
    called = {"call_id": m.CallId("c"), "name": "read"}
    for message, tokens in (
        (user(m.Text(text="x" * 8)), 2),
        (user(m.Text(text="x" * 9)), 3),
        (user(m.Text(text="é" * 8)), 4),
        (user(m.Image(media_type="image/png", data="A" * 10**6)), IMAGE_TOKENS),
        (user(m.FileRef(path="a/b.c"), m.Text(text="abc")), 2),
        (says(*thoughts), 5),
        (says(m.Opaque(provider="p", payload={"a": 1})), 2),
        (says(m.ToolCall(**called, arguments={"a": "é"})), 4),
        (says(m.ToolCall(**called, arguments=None, malformed="{" * 8)), 3),
        (m.ToolMessage(results=(m.ToolResult(**called, text="x" * 40),)), 10),
    ):
        assert tokens_of([message]) == tokens, message


@pytest.mark.at(134)
def test_a_report_counts_for_all_that_it_covers():
    """Only what came after it is estimated, and two reports are never added up."""
    long, answer, short = (
        user(m.Text(text="x" * 400)),
        says(m.Text(text="x" * 40)),
        user(m.Text(text="x" * 8)),
    )
    count = (
        TokenCount(fixed=50).grown([long]).reported(m.TokenUsage(input=900, output=100, cache_read=800), 2)
    )
    assert count.tokens == 1_000
    assert count.grown([long, answer, short]).tokens == 1_002
    assert count.reported(m.TokenUsage(input=1_001, output=9), 4).tokens == 1_010
