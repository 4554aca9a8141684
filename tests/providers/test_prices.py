"""What is known of prices and windows comes from data, and what is unknown is never 0 (7.2, 7.10)."""

import datetime
import itertools

import pytest
import trio
from msgspec.structs import replace

from agentrail.core.policy.budget import Price
from agentrail.core.protocol.request import Completed, UsageUpdate
from agentrail.messages import TokenUsage
from agentrail.providers.http import HttpClients
from agentrail.providers.options import ProviderOptions
from agentrail.providers.prices import PriceList
from agentrail.providers.vendors import AnthropicMessages, Gemini, OpenAIChat, OpenAIResponses
from agentrail.testing.check_provider import open_server, stream
from tests.providers.transcripts import KEY, WIRE, completed, read, request_of

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
ANTHROPIC, GOOGLE = "https://api.anthropic.com", "https://generativelanguage.googleapis.com"
USAGE = TokenUsage(input=10_000, output=1_000, cache_read=8_000, cache_write=500, cost_usd=None)


def test_the_price_of_a_known_model():
    """Found by address and model; each kind of token by its own price."""
    prices = PriceList(ANTHROPIC)
    expected = (1_500 * 3 + 8_000 * 0.3 + 500 * 3.75 + 1_000 * 15) / 1_000_000
    assert prices.meter("claude-sonnet-4-5", at=NOW)(USAGE) == pytest.approx(expected)


def test_a_large_request_costs_what_its_tier_says():
    """Some models cost more when much is read; what a budget reserves is the most that it can cost."""
    prices = PriceList(GOOGLE)
    large = TokenUsage(input=300_000, output=1_000)
    cost = prices.meter("gemini-2.5-pro", at=NOW)(large)
    price = prices.capabilities("gemini-2.5-pro", max_output_tokens=None).price
    assert cost == pytest.approx((300_000 * 2.5 + 1_000 * 15) / 1_000_000)
    assert price == Price(input=2.5, output=15, cache_read=0.25)
    assert prices.meter("gemini-2.5-pro", at=NOW)(replace(large, input=1_000)) < price.cost_usd(
        replace(large, input=1_000)
    )


def test_the_options_come_before_the_data():
    """A price and a window that somebody states hold, for a known model too; a free one is a known 0."""
    free = Price(input=0, output=0)
    options = ProviderOptions.parse({"price": {"input": 0, "output": 0}, "context_window": 32_000})
    prices = PriceList.of(options, ANTHROPIC)
    known = prices.capabilities("claude-sonnet-4-5", max_output_tokens=None)
    assert prices.meter("claude-sonnet-4-5", at=NOW)(USAGE) == 0
    assert (known.price, known.context_window) == (free, 32_000)


def test_counts_that_contradict_each_other_have_no_price():
    """More from the cache than was read at all: nobody knows what that costs."""
    meter = PriceList(ANTHROPIC).meter("claude-sonnet-4-5", at=NOW)
    assert meter(TokenUsage(input=10, cache_read=20, cache_write=30)) is None


def test_a_model_that_is_not_priced_by_text_is_unknown():
    """What has no price for its answer, such as an embedding model, could only be priced too low."""
    prices = PriceList("https://api.openai.com/v1")
    assert prices.capabilities("text-embedding-3-small", max_output_tokens=None).price is None
    assert prices.meter("text-embedding-3-small", at=NOW)(USAGE) is None


@pytest.mark.parametrize(
    ("kind", "wire", "model"),
    [
        (AnthropicMessages, "anthropic", "claude-sonnet-4-5"),
        (OpenAIChat, "openai_chat", "gpt-5-mini"),
        (OpenAIResponses, "openai_responses", "gpt-5-mini"),
        (Gemini, "gemini", "gemini-2.5-flash"),
    ],
)
async def test_the_cost_is_fixed_when_the_response_ends(kind, wire, model):
    """It travels in the last chunk and in every total before it, so no replay depends on a list of prices."""
    answer = stream((WIRE / wire / "text.sse").read_bytes(), ends=True, stays=True)
    price = Price(input=3, output=15)
    with trio.fail_after(60):
        async with open_server(answer) as server, HttpClients() as http:
            for options, expected in (({}, None), ({"price": price}, "known")):
                provider = kind(
                    ProviderOptions.parse({"base_url": server.url, "api_key": KEY, **options}), http
                )
                async with provider.open_stream(request_of("Hi", model=f"x:{model}")) as chunks:
                    usages = [
                        chunk.usage async for chunk in chunks if isinstance(chunk, UsageUpdate | Completed)
                    ]
                wanted = [price.cost_usd(usage) if expected else None for usage in usages]
                assert [usage.cost_usd for usage in usages] == wanted


@pytest.mark.at(134)
@pytest.mark.parametrize(
    ("path", "usage"),
    [
        ("anthropic/cache_usage", TokenUsage(input=109, output=50, cache_read=80, cache_write=20)),
        ("openai_chat/usage_details", TokenUsage(input=100, output=50, cache_read=80, reasoning=30)),
        ("openai_chat/deviations/usage_in_every_chunk", TokenUsage(input=9, output=4)),
        ("gemini/usage_details", TokenUsage(input=109, output=50, cache_read=80, reasoning=30)),
        ("gemini/usage_in_every_chunk", TokenUsage(input=9, output=4)),
    ],
)
def test_the_last_report_counts(path, usage):
    """Totals of one response are never added to each other: the last one is what it used (AT-134)."""
    chunks = read(WIRE / f"{path}.sse")
    updates = [chunk.usage for chunk in chunks if isinstance(chunk, UsageUpdate)]
    assert completed(chunks).usage == updates[-1] == replace(usage, cost_usd=None)
    assert all(older.output <= newer.output for older, newer in itertools.pairwise(updates))
