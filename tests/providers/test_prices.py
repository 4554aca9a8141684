"""What is known of prices and windows comes from data, and what is unknown is never 0 (7.2, 7.10)."""

import datetime

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
from tests.providers.transcripts import ask, provider_at, transcript

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
ANTHROPIC, GOOGLE = "https://api.anthropic.com", "https://generativelanguage.googleapis.com"
USAGE = TokenUsage(input=10_000, output=1_000, cache_read=8_000, cache_write=500, cost_usd=None)


def test_the_price_of_a_model():
    """Found by address and model; each kind of token by its own price, unknown where counts contradict each other."""
    meter = PriceList(ANTHROPIC).meter("claude-sonnet-4-5", at=NOW)
    expected = (1_500 * 3 + 8_000 * 0.3 + 500 * 3.75 + 1_000 * 15) / 1_000_000
    assert meter(USAGE) == pytest.approx(expected)
    assert meter(TokenUsage(input=10, cache_read=20, cache_write=30)) is None

    # What has no price for its answer, such as an embedding model, could only be priced too low.
    prices = PriceList("https://api.openai.com/v1")
    assert prices.capabilities("text-embedding-3-small", max_output_tokens=None).price is None
    assert prices.meter("text-embedding-3-small", at=NOW)(USAGE) is None


def test_a_large_request_costs_what_its_tier_says():
    """What a budget reserves is the most that it can cost. A price and a window that somebody states come before the data."""
    prices = PriceList(GOOGLE)
    large = TokenUsage(input=300_000, output=1_000)
    small = replace(large, input=1_000)
    meter = prices.meter("gemini-2.5-pro", at=NOW)
    price = prices.capabilities("gemini-2.5-pro", max_output_tokens=None).price
    assert meter(large) == pytest.approx((300_000 * 2.5 + 1_000 * 15) / 1_000_000)
    assert price == Price(input=2.5, output=15, cache_read=0.25)
    assert meter(small) < price.cost_usd(small)

    options = ProviderOptions.parse({"price": {"input": 0, "output": 0}, "context_window": 32_000})
    prices = PriceList.of(options, ANTHROPIC)
    known = prices.capabilities("claude-sonnet-4-5", max_output_tokens=None)
    assert prices.meter("claude-sonnet-4-5", at=NOW)(USAGE) == 0
    assert (known.price, known.context_window) == (Price(input=0, output=0), 32_000)


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        (AnthropicMessages, "claude-sonnet-4-5"),
        (OpenAIChat, "gpt-5-mini"),
        (OpenAIResponses, "gpt-5-mini"),
        (Gemini, "gemini-2.5-flash"),
    ],
)
async def test_the_cost_is_fixed_when_the_response_ends(kind, model):
    """It travels in the last chunk and in every total before it, so no replay depends on a list of prices."""
    answer = stream(transcript(kind), ends=True, stays=True)
    price = Price(input=3, output=15)
    with trio.fail_after(60):
        async with open_server(answer) as server, HttpClients() as http:
            for options, is_known in (({}, False), ({"price": price}, True)):
                chunks = await ask(provider_at(server.url, kind, http, **options), model=f"x:{model}")
                usages = [chunk.usage for chunk in chunks if isinstance(chunk, UsageUpdate | Completed)]
                assert usages
                for usage in usages:
                    assert usage.cost_usd == (price.cost_usd(usage) if is_known else None)
