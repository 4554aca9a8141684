"""The options of a provider: `ProviderOptions`, parsed from the user's mapping. Vendor defaults are defined elsewhere."""

import importlib.util
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from attrs import field, frozen

from agentrail.abc import Secret
from agentrail.core.policy.budget import Price
from agentrail.core.policy.model_policy import ModelPolicy
from agentrail.core.policy.patience import StallPolicy
from agentrail.distribution import install_command
from agentrail.errors import OptionError
from agentrail.errors.advice import Advice, advise
from agentrail.errors.name_guesses import guess_name
from agentrail.frozen import frozen_json
from agentrail.otp.child_specs import is_amount, is_whole
from agentrail.otp.guarded_calls import call_guarded, repr_of
from agentrail.providers.json_text import encode_json

Key: TypeAlias = str | Secret
KeySource: TypeAlias = Secret | Callable[[], Key | Awaitable[Key]]
"""A key, or a function that is called for each request and returns or awaits one."""

Reasoning: TypeAlias = Literal["off", "low", "medium", "high"] | int

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_WORDS: Final = ("off", "low", "medium", "high")
_STALL_POLICIES: Final = ("abort", "retry", "report")
_PRICES: Final = Price.__struct_fields__
# Suffixes that the formats append to an address. No format would work with a base URL that already ends in one.
_CALL: Final = re.compile(r"(?:/chat)?/(?:completions|responses|messages)$")


@frozen(kw_only=True)
class ProviderOptions:
    """Options of a provider. An unset option is not sent, because some models reject even a default value.

    Attributes:
        api_key: A key, or a function (sync or async) that is called for each request. Never shown. `parse` converts a string
            to a `Secret`.
        base_url: Address of the server, without a trailing slash, or None for the vendor's own.
        headers: Headers added to the provider's own. A value of None removes a header.
        timeout: Time limit for the first chunk, in seconds.
        temperature: As defined by the vendor.
        top_p: As defined by the vendor.
        stop: Texts that end the answer.
        max_output_tokens: Limit of the answer, in tokens. The smaller of this and the session's limit applies.
        reasoning: `off`, `low`, `medium`, `high`, or a budget in tokens if the format supports one.
        tool_choice: `auto`, `none`, `required`, or the name of a tool. Tools that a request withholds stay withheld.
        extra_body: Members of the request body, added last and unchanged.
        verify: False accepts any certificate. A path names a file with certificate authorities.
        trust_env: Whether to use the proxy variables of the environment.
        structured: How the shape of an answer is requested: `native`, by a schema in the request, or `tool`, by a tool call
            that contains the answer. Unset: depends on the model.
        images: Whether the model accepts images. If not, each image is replaced by a line of text.
        http2: Whether to offer HTTP/2 to the server. Needs the package `h2`.
        stall_policy: Action for a silent stream: `abort`, `retry`, or only `report`.
        stall_seconds: Silence after which `stall_policy` applies, in seconds.
        max_retries: Number of retries with this model, or None for the session's setting.
        context_window: Context window of the model in tokens, if it is unknown or the known value is wrong.
        price: Price of the model, if it is unknown or the known value is wrong.
    """

    api_key: KeySource | None = field(default=None, repr=False)
    base_url: str | None = None
    headers: Mapping[str, str | None] = field(default=_NOTHING, repr=False)  # may contain keys too
    timeout: float = 600.0
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    max_output_tokens: int | None = None
    reasoning: Reasoning | None = None
    tool_choice: str = "auto"
    extra_body: Mapping[str, Any] = field(default=_NOTHING, repr=False)  # may contain keys too
    verify: bool | str = True
    trust_env: bool = True
    structured: Literal["native", "tool"] | None = None
    images: bool = True
    http2: bool = False
    stall_policy: StallPolicy = "abort"
    stall_seconds: float = 120.0
    max_retries: int | None = None
    context_window: int | None = None
    price: Price | None = None

    @property
    def model_policy(self) -> ModelPolicy:
        """Options that the session acts on. Providers do not use them."""
        return ModelPolicy(
            timeout_seconds=self.timeout,
            stall_policy=self.stall_policy,
            stall_seconds=self.stall_seconds,
            max_retries=self.max_retries,
            context_window=self.context_window,
            price=self.price,
        )

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> "ProviderOptions":
        """Parse the mapping `provider_opts`. A value of None means "not set".

        Raises:
            OptionError: Your move: unknown names and invalid values, all reported at once, with the nearest known name.
        """
        faults: list[str] = []
        values: dict[str, Any] = {}
        for name, value in options.items():
            rule = _RULES.get(name)
            if rule is None:
                faults.append(f"provider option {name!r} does not exist: {nearest_option(str(name))}")
            elif value is not None:
                fault = rule(value)
                if fault is None:
                    values[name] = _TIDY[name](value) if name in _TIDY else value
                else:
                    faults.append(f"provider option {name!r}: {fault}")
        OptionError.raise_for(faults)
        return cls(**values)


def nearest_option(name: str) -> str:
    """Return a suggestion for an unknown option name, or the list of options."""
    return guess_name(name, sorted(_RULES), mark="?")


def _got(expected: str, value: object) -> str:
    return f"expected {expected}, got {repr_of(value)}"


# --- the rules: each returns the fault, or None. A fault never contains a key.


def _key(value: object) -> str | None:
    value = value.reveal() if isinstance(value, Secret) else value
    if not isinstance(value, str):
        expected = f"expected a text, a Secret, or a function that returns one, got {type(value).__name__}"
        return None if callable(value) else expected
    if not value.strip():
        return "expected a key, got an empty text: leave the option out where no key is needed"
    fits = value.strip().isascii() and value.strip().isprintable()
    return None if fits else "the key has characters no header can carry"


def _base_url(value: object) -> str | None:
    if not isinstance(value, str):
        return f"expected an address such as 'http://127.0.0.1:8080/v1', got {type(value).__name__}"
    try:
        parts = urlsplit(value.strip())
        port_is_fine = parts.port is None or parts.port > 0
        (parts.hostname or "").encode("idna")  # as the resolver does, which accepts no empty label
    except ValueError:  # its message repeats part of the address, which may be a key
        return "this is not an address: expected http:// or https://, a host, and perhaps a colon and a number for the port"
    is_cut = parts.scheme not in {"http", "https"} and "@" in value
    if parts.username is not None or parts.password is not None or is_cut:
        return "an address must hold no credentials: put the key into 'api_key'"  # not repeated here for the same reason
    if parts.scheme not in {"http", "https"} or not parts.hostname or not port_is_fine:
        return _got("an address with http:// or https:// and a host", value)
    if parts.query or parts.fragment or not value.strip().isprintable():
        # Some users put a key into the query, so it is not repeated either.
        return "expected an address without a query, fragment or spaces: put other values into 'headers'"
    address = value.strip().rstrip("/")
    call = _CALL.search(parts.path.rstrip("/"))
    if call is not None:
        advice = advise(Advice.CALL_IN_URL, call=call[0], url=address.removesuffix(call[0]))
        return f"{address!r} is the address of an endpoint, not a base URL: {advice}"
    return None


def _headers(value: object) -> str | None:
    if not isinstance(value, Mapping):
        return f"expected a mapping of header names to texts, got {type(value).__name__}"
    for name, text in value.items():
        if not (
            isinstance(name, str) and name.isascii() and name.replace("-", "").replace("_", "").isalnum()
        ):
            return f"{name!r} is not a header name"
        if text is not None and not (isinstance(text, str) and text.isascii() and text.isprintable()):
            return f"the header {name!r} must be a printable ASCII text, or None to remove it"
    return None


def _must(is_right: Callable[[Any], object], expected: str) -> Callable[[Any], str | None]:
    return lambda value: None if is_right(value) else _got(expected, value)


def _is_stop(value: object) -> bool:
    texts = [value] if isinstance(value, str) else value
    return isinstance(texts, list | tuple) and all(isinstance(text, str) and text for text in texts)


def _extra_body(value: object) -> str | None:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        return f"expected a mapping with texts as keys, got {type(value).__name__}"
    encoded = call_guarded(str, lambda: encode_json(frozen_json(value)))
    return f"expected values that JSON can represent: {encoded}" if isinstance(encoded, str) else None


def _http2(value: object) -> str | None:
    if value is True and importlib.util.find_spec("h2") is None:
        return f"HTTP/2 needs the package h2: {install_command('http2')}, or leave the option out"
    return _flag(value)


def _price(value: object) -> str | None:
    if isinstance(value, Price):
        value = msgspec.structs.asdict(value)
    expected = "a Price, or a mapping of input and output (and cache_read, cache_write) to dollars per million tokens"
    if not isinstance(value, Mapping) or not {"input", "output"} <= set(value) <= set(_PRICES):
        return _got(expected, value)
    amounts = [value[name] for name in value if name in {"input", "output"} or value[name] is not None]
    return None if all(map(is_amount, amounts)) else _got(expected, value)


_flag: Final = _must(lambda value: isinstance(value, bool), "True or False")
_seconds: Final = _must(partial(is_amount, above_zero=True), "a number of seconds above 0")
_is_tokens: Final = partial(is_whole, at_least=1)
_tokens: Final = _must(_is_tokens, "a number of tokens above 0")
_RULES: Final[Mapping[str, Callable[[Any], str | None]]] = MappingProxyType(
    {
        "api_key": _key,
        "base_url": _base_url,
        "headers": _headers,
        "timeout": _seconds,
        "temperature": _must(lambda value: is_amount(value) and value <= 2, "a number from 0 to 2"),  # noqa: PLR2004
        "top_p": _must(lambda value: is_amount(value) and value <= 1, "a number from 0 to 1"),
        "stop": _must(_is_stop, "a text or a list of texts, none of them empty"),
        "max_output_tokens": _tokens,
        "reasoning": _must(
            lambda value: value in _WORDS or _is_tokens(value), "off, low, medium, high or a number of tokens"
        ),
        "tool_choice": _must(
            lambda value: isinstance(value, str) and value, "auto, none, required or the name of a tool"
        ),
        "extra_body": _extra_body,
        "verify": _must(
            lambda value: isinstance(value, bool) or (isinstance(value, str) and value),
            "True, False or the path of a file with certificate authorities",
        ),
        "trust_env": _flag,
        "structured": _must(lambda value: value in ("native", "tool"), "native or tool"),
        "images": _flag,
        "http2": _http2,
        "stall_policy": _must(lambda value: value in _STALL_POLICIES, "abort, retry or report"),
        "stall_seconds": _seconds,
        "max_retries": _must(partial(is_whole, at_least=0), "a number of retries >= 0"),
        "context_window": _tokens,
        "price": _price,
    }
)


def _secret(value: Any) -> Any:
    text = value.reveal() if isinstance(value, Secret) else value
    return Secret(text.strip()) if isinstance(text, str) else value  # keys read from a file end in a newline


_TIDY: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {
        "api_key": _secret,
        "base_url": lambda value: value.strip().rstrip("/"),
        "headers": lambda value: MappingProxyType({name.lower(): text for name, text in value.items()}),
        "stop": lambda value: (value,) if isinstance(value, str) else tuple(value),
        "extra_body": frozen_json,
        "price": lambda value: value if isinstance(value, Price) else Price(**value),
    }
)
