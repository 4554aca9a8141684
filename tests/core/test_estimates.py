"""How many tokens a conversation has: what was reported, and four bytes a token for the rest."""

import pytest

from agentrail.core.policy.request_context import (
    IMAGE_TOKENS,
    TokenCount,
    tokens_of,
)
from agentrail.messages import (
    AssistantMessage,
    CallId,
    FileRef,
    Image,
    Opaque,
    Text,
    Thinking,
    TokenUsage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)


def says(*content) -> AssistantMessage:
    """A response."""
    return AssistantMessage(content=content, model="m")


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (UserMessage(content=(Text(text="x" * 8),)), 2),
        (UserMessage(content=(Text(text="x" * 9),)), 3),
        (UserMessage(content=(Text(text="é" * 8),)), 4),
        (UserMessage(content=(Image(media_type="image/png", data="A" * 10**6),)), IMAGE_TOKENS),
        (UserMessage(content=(FileRef(path="a/b.c"), Text(text="abc"))), 2),
        (
            says(
                Thinking(text="x" * 8, signature="s" * 8, provider="p"), Thinking(text="x" * 4, provider="p")
            ),
            5,
        ),
        (says(Opaque(provider="p", payload={"a": 1})), 2),
        (says(ToolCall(call_id=CallId("c"), name="read", arguments={"a": "é"})), 4),
        (says(ToolCall(call_id=CallId("c"), name="read", arguments=None, malformed="{" * 8)), 3),
        (ToolMessage(results=(ToolResult(call_id=CallId("c"), name="read", text="x" * 40),)), 10),
    ],
)
def test_every_kind_of_block_counts_four_bytes_a_token(message, tokens):
    """Rounded up; a picture counts what it costs, and not what its base64 would."""
    assert tokens_of([message]) == tokens


LONG, ANSWER, SHORT = (
    UserMessage(content=(Text(text="x" * 400),)),
    says(Text(text="x" * 40)),
    UserMessage(content=(Text(text="x" * 8),)),
)


@pytest.mark.at(134)
def test_a_report_counts_for_all_that_it_covers():
    """Only what came after it is estimated, and two reports are never added up."""
    count = TokenCount(fixed=50).grown([LONG]).reported(TokenUsage(input=900, output=100, cache_read=800), 2)
    assert count.tokens == 1_000
    assert count.grown([LONG, ANSWER, SHORT]).tokens == 1_002
    assert count.reported(TokenUsage(input=1_001, output=9), 4).tokens == 1_010
