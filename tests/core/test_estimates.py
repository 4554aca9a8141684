"""How many tokens a conversation has: what was reported, and four bytes a token for the rest."""

import pytest

from agentrail.core.policy.context import (
    IMAGE_TOKENS,
    TokenCount,
    fixed_tokens_of,
    tokens_of,
)
from agentrail.core.values.toolbox import Toolbox, ToolSpec
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


LONG, ANSWER, SHORT = (
    UserMessage(content=(Text(text="x" * 400),)),
    says(Text(text="x" * 40)),
    UserMessage(content=(Text(text="x" * 8),)),
)


def test_without_a_report_everything_is_estimated_once():
    """What was counted is not counted again, so each turn pays for what it adds."""
    count = TokenCount(fixed=50).grown([LONG, ANSWER])
    assert count == TokenCount(fixed=50, tokens=160, messages=2)
    assert count.grown([SHORT, SHORT, SHORT]).tokens == 160 + 2
    assert count.grown([LONG, ANSWER]) == count


@pytest.mark.at(134)
def test_a_report_counts_for_all_that_it_covers():
    """Only what came after it is estimated, and two reports are never added up."""
    count = TokenCount(fixed=50).grown([LONG]).reported(TokenUsage(input=900, output=100, cache_read=800), 2)
    assert count.tokens == 1_000
    assert count.grown([LONG, ANSWER, SHORT]).tokens == 1_002
    assert count.reported(TokenUsage(input=1_001, output=9), 4).tokens == 1_010


def test_a_conversation_that_has_become_shorter_is_counted_anew():
    """After a compaction the old report covers more than there is."""
    count = TokenCount(fixed=50).reported(TokenUsage(input=10_000), 9)
    assert count.grown([LONG]) == TokenCount(fixed=50, tokens=150, messages=1)


@pytest.mark.parametrize("usage", [TokenUsage(input=10, output=5, estimated=True), TokenUsage()])
def test_only_a_vendors_own_count_is_a_report(usage):
    """What we estimated ourselves, or what nobody said, changes nothing."""
    count = TokenCount(fixed=50, tokens=70, messages=3)
    assert count.reported(usage, 4) is count
