"""How many tokens a conversation has: what was reported, and four bytes a token for the rest."""

import pytest

from agentrail.core.estimates import (
    IMAGE_TOKENS,
    Reported,
    estimate_tokens,
    fixed_tokens_of,
    tokens_of,
)
from agentrail.core.toolbox import Toolbox, ToolSpec
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


def test_what_stands_before_the_conversation_counts():
    """The system prompt, and of each tool its name, description and schema."""
    spec = ToolSpec(name="read", description="Reads.", parameters={"type": "object"})
    assert fixed_tokens_of(None, Toolbox()) == 0
    assert fixed_tokens_of("x" * 8, Toolbox()) == 2
    assert fixed_tokens_of("x" * 8, Toolbox([spec])) == 2 + -(-(4 + 6 + 17) // 4)


@pytest.mark.at(134)
def test_a_report_counts_for_all_that_it_covers():
    """Only what came after it is estimated, and two reports are never added up."""
    messages = [
        UserMessage(content=(Text(text="x" * 400),)),
        says(Text(text="x" * 40)),
        UserMessage(content=(Text(text="x" * 8),)),
    ]
    assert estimate_tokens(messages, None, 50) == 50 + 112
    assert estimate_tokens(messages, Reported(1_000, 2), 50) == 1_000 + 2
    assert estimate_tokens(messages, Reported(1_000, 3), 50) == 1_000


def test_a_report_of_another_conversation_does_not_count():
    """After a compaction the old one covers more than there is."""
    messages = [UserMessage(content=(Text(text="x" * 8),))]
    assert estimate_tokens(messages, Reported(1_000, 2), 50) == 52


@pytest.mark.parametrize(
    ("usage", "reported"),
    [
        (TokenUsage(input=10, output=5, cache_read=8, reasoning=2), Reported(15, 4)),
        (TokenUsage(input=10, output=5, estimated=True), None),
        (TokenUsage(), None),
    ],
)
def test_only_a_vendors_own_count_is_a_report(usage, reported):
    """What we estimated ourselves, or what nobody said, is none."""
    assert Reported.of(usage, 4) == reported
