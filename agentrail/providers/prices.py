"""Prices and context windows of models: `PriceList`, from the data of genai-prices (extra `prices`).

The data is a file in that package, and nothing is downloaded. A missing price is unknown, never 0, and a sum with an unknown
price is itself unknown (`TokenUsage.__add__`). Source: docs/reference/prices-and-windows.md.
"""

import datetime
import importlib
from collections.abc import Callable
from typing import Any, Final, Self, TypeAlias

from attrs import define, field, frozen

from agentrail.abc import Capabilities
from agentrail.core.policy.budget import Price
from agentrail.messages import TokenUsage
from agentrail.providers.options import ProviderOptions

Meter: TypeAlias = Callable[[TokenUsage], float | None]
"""Returns the price of a usage in US dollars, or None if unknown."""

_DATA: Final = "genai_prices"


def cost_of(usage: TokenUsage, price: Price | None) -> float | None:
    """Return the price of a usage in US dollars, or None if unknown.

    Args:
        usage: Usage of a response, a cycle or a session.
        price: Price of the model, which must be the same for all of the usage.
    """
    return None if price is None else price.cost_usd(usage)


@frozen(kw_only=True)
class _Known:
    price: Price | None
    context_window: int | None


@define(eq=False, repr=False, slots=False)
class PriceList:
    """Known data of the models at one address. The address determines who bills. A self-hosted server is unknown."""

    _url: str
    _price: Price | None = field(default=None, kw_only=True)
    _context_window: int | None = field(default=None, kw_only=True)
    _images: bool = field(default=True, kw_only=True)
    _known: dict[str, _Known] = field(init=False, factory=dict)

    @classmethod
    def of(cls, options: ProviderOptions, url: str) -> Self:
        """Create the price list of a provider.

        Args:
            options: Options of the provider.
            url: Address of its requests.
        """
        return cls(url, price=options.price, context_window=options.context_window, images=options.images)

    def capabilities(self, model: str, *, max_output_tokens: int | None) -> Capabilities:
        """Return the known capabilities of a model. The session chooses the default for an unknown window.

        Args:
            model: The vendor's name of the model.
            max_output_tokens: The requested limit, because the data has no maximum per model.
        """
        known = self._known_of(model)
        return Capabilities(
            context_window=self._context_window or known.context_window,
            max_output_tokens=max_output_tokens,
            images=self._images,
            reasoning=True,
            price=self._price or known.price,
        )

    def meter(self, model: str, *, at: datetime.datetime) -> Meter:
        """Return the meter for responses of a model.

        Args:
            model: The vendor's name of the model.
            at: Time of the request. Prices change, and some depend on the hour.
        """
        if self._price is not None:
            return self._price.cost_usd
        if self._known_of(model).price is None:
            return lambda _usage: None
        return lambda usage: self._priced(model, usage, at)

    def _known_of(self, model: str) -> _Known:
        known = self._known.get(model)
        if known is None:
            known = self._known[model] = _known_of(_calculation(self._url, model, TokenUsage(), at=None))
        return known

    def _priced(self, model: str, usage: TokenUsage, at: datetime.datetime) -> float | None:
        calculation = _calculation(self._url, model, usage, at=at)
        return None if calculation is None else float(calculation.total_price)


def _calculation(url: str, model: str, usage: TokenUsage, *, at: datetime.datetime | None) -> Any | None:
    """Query the data. Return None if it is not installed, or does not know the address or the model."""
    try:
        # Imported late: it takes a quarter of a second, and the extra is optional.
        data = importlib.import_module(_DATA)
    except ModuleNotFoundError:
        return None
    try:
        counted = data.Usage(
            input_tokens=usage.input,
            output_tokens=usage.output,
            cache_read_tokens=usage.cache_read,
            cache_write_tokens=usage.cache_write,
        )
        return data.calc_price(counted, model, provider_api_url=url, genai_request_timestamp=at)
    except (LookupError, ValueError):
        # Unknown, or contradictory counts, whose price is unknown.
        return None


def _known_of(calculation: Any | None) -> _Known:
    if calculation is None:
        return _Known(price=None, context_window=None)
    prices = calculation.model_price
    read, written = _highest(prices.input_mtok), _highest(prices.output_mtok)
    price = None
    if read is not None and written is not None:
        cache = {"cache_read": prices.cache_read_mtok, "cache_write": prices.cache_write_mtok}
        price = Price(
            input=read, output=written, **{name: _highest(tariff) for name, tariff in cache.items()}
        )
    return _Known(price=price, context_window=calculation.model.context_window)


def _highest(tariff: Any | None) -> float | None:
    """Return the highest price of a tariff: a number, or a base with tiers for larger requests."""
    if tariff is None:
        return None
    tiers = getattr(tariff, "tiers", ())
    return float(max(getattr(tariff, "base", tariff), *(tier.price for tier in tiers), 0))
