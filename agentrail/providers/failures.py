"""Error bodies and statuses of vendors, and the typed errors that they become.

Pure: values in, an exception out. Status and codes decide the type. The only exception is `_OVERFLOW`, which reads the
message, because some vendors distinguish an overlong prompt from other 400s in no other way. Advice may also depend on the
vendor's words, because users read it and no program branches on it.
"""

import datetime
import email.utils
import html
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from attrs import frozen

from agentrail.errors import (
    Authentication,
    BadRequest,
    ContentRefused,
    ContextWindowExceeded,
    ModelNotFound,
    Overloaded,
    ProtocolError,
    ProviderError,
    RateLimited,
    Timeout,
    Transport,
)
from agentrail.errors.advice import Advice, advise, setting, with_advice
from agentrail.providers.json_text import decode_json, shown

# Numbers and dates in headers.
#
# Python parses numbers of any length, in any script, and rejects some with exceptions of three types. Here, an absurdly
# long number is not a number, and a date outside the calendar is not a date.

MAX_SECONDS: Final = 1e9
"""Thirty years: no caller waits for a longer pause."""

_MAX_CHARACTERS: Final = 32
_MAX_DATE_CHARACTERS: Final = 64


def read_integer(value: object) -> int | None:
    """Parse a number, or a string of digits. Return None for anything else."""
    if isinstance(value, str):
        fits = len(value) <= _MAX_CHARACTERS and value.isascii() and value.isdigit()
        return int(value) if fits else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_seconds(text: str | None) -> float | None:
    """Parse a wait in seconds, at most thirty years. Return None if the text has none."""
    if text is None or not 0 < len(text) <= _MAX_CHARACTERS or not text.isascii():
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return min(value, MAX_SECONDS) if value >= 0 and math.isfinite(value) else None


def read_date(text: str) -> datetime.datetime | None:
    """Parse an HTTP header date, in UTC. Return None for an invalid date or one outside the calendar."""
    if len(text) > _MAX_DATE_CHARACTERS:
        return None
    with suppress(ValueError, OverflowError, TypeError, IndexError):
        found = email.utils.parsedate_to_datetime(text)
        # Converted here, not at the subtraction: close to the year 1 or 9999, some zones are in another year.
        return found.replace(tzinfo=datetime.UTC) if found.tzinfo is None else found.astimezone(datetime.UTC)
    return None


Kind = type[ProviderError]

MAX_MESSAGE: Final = 240
"""Maximum characters of a message with advice. The vendor's words are cut to fit.

A cycle adds up to 130 characters, and 400 can be read at a glance.
"""
_LEAST_WORDS: Final = 60
"""Minimum characters of the vendor's words to keep."""


@frozen(kw_only=True)
class Vendor:
    """The vendor, as error messages describe it.

    Attributes:
        name: Such as `anthropic`.
        key_help: How to set the key, as a clause: `set ANTHROPIC_API_KEY or …`.
        path_help: Other causes of a 404 than a wrong model, as a sentence, empty if there are none.
        secrets: The keys in use. No error text contains them or parts of them.
        base_url: Common prefix of its request addresses, empty if unknown.
        is_compatible: Whether it is another server with the vendor's format. Such addresses end in `/v1`, which users forget.
    """

    name: str
    key_help: str
    path_help: str = ""
    secrets: tuple[str, ...] = ()
    base_url: str = ""
    is_compatible: bool = False

    def __repr__(self) -> str:
        return f"Vendor({self.name!r})"


@frozen(kw_only=True)
class Answer:
    """A response that is not an event stream, complete or only its beginning.

    Attributes:
        status: HTTP status.
        headers: Headers with lower-case names.
        body: Body as text.
        now: Time of the response, to evaluate a date in `Retry-After`.
        url: Address of the request, empty if unknown.
    """

    status: int
    headers: Mapping[str, str]
    body: str
    now: datetime.datetime
    url: str = ""


@frozen(kw_only=True)
class _Fault:
    """The fault described by a body, in a common shape.

    Attributes:
        retry_after_seconds: Wait named in the body, in seconds, or None.
    """

    codes: tuple[str, ...] = ()
    status: int | None = None
    message: str
    retry_after_seconds: float | None = None
    parameter: str = ""


_BY_CODE: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "insufficient_quota": Authentication,  # these two come as 429, but waiting does not help
        "billing_hard_limit_reached": Authentication,
        "billing_error": Authentication,
        "authentication_error": Authentication,
        "invalid_api_key": Authentication,
        "permission_error": Authentication,
        "context_length_exceeded": ContextWindowExceeded,
        "exceed_context_size_error": ContextWindowExceeded,
        "model_not_found": ModelNotFound,
        "content_filter": ContentRefused,
        "content_policy_violation": ContentRefused,
        "image_content_policy_violation": ContentRefused,
        "invalid_prompt": ContentRefused,  # used only for prompts that violate a policy
        "bio_policy": ContentRefused,
        "misalignment_policy_violation": ContentRefused,
        "rate_limit_error": RateLimited,
        "rate_limit_exceeded": RateLimited,
        "RESOURCE_EXHAUSTED": RateLimited,
        "API_KEY_INVALID": Authentication,  # comes as 400
        "overloaded_error": Overloaded,
        "UNAVAILABLE": Overloaded,
        "timeout_error": Timeout,
    }
)
"""Codes with one meaning everywhere. They take precedence over the status."""

# Codes of images that OpenAI rejects. It inspects images only after the 200.
_BAD_PICTURES: Final = (
    *(
        "invalid_image",
        "invalid_image_format",
        "invalid_base64_image",
        "invalid_image_url",
        "invalid_image_mode",
    ),
    *(
        "image_too_large",
        "image_too_small",
        "image_parse_error",
        "image_file_too_large",
        "image_file_not_found",
    ),
    *("unsupported_image_media_type", "empty_image_file", "failed_to_download_image"),
)

_BY_VAGUE_CODE: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "api_error": Overloaded,
        "server_error": Overloaded,
        "internal_server_error": Overloaded,
        "service_unavailable": Overloaded,
        "not_found_error": ModelNotFound,
        "invalid_request_error": BadRequest,
        "request_too_large": BadRequest,
        "data_residency_mismatch": BadRequest,
        **dict.fromkeys(_BAD_PICTURES, BadRequest),
    }
)
"""Codes that some servers use for any failure. The status takes precedence, but an error in a stream has only these."""

_BY_STATUS: Final[Mapping[int, Kind]] = MappingProxyType(
    {
        401: Authentication,
        402: Authentication,
        403: Authentication,
        408: Timeout,
        429: RateLimited,
    }
)
"""Those below 500. From there on the server failed, or a proxy in front of it, such as Cloudflare with 520 to 527."""

OVERFLOW: Final = (
    r"prompt (is )?too long",  # Anthropic, Ollama
    r"input length and .{0,40}exceed context",  # Anthropic, when prompt and output together are too long
    r"maximum (context|prompt) length",  # OpenAI, vLLM, OpenRouter, Mistral; xAI
    r"input token count.{0,40}exceeds",  # Gemini
    r"exceeds? the (available )?context (size|window)",  # llama.cpp, OpenAI's Responses
    r"input is too long for requested model",  # Bedrock through a proxy
    r"(greater|longer) than the context length",  # LM Studio
    r"context (length|window|size) (was |is )?exceeded",  # proxies
)
"""Phrases that distinguish an overlong prompt from other bad requests. Each has a recorded body."""

_OVERFLOW: Final = re.compile("|".join(OVERFLOW), re.IGNORECASE | re.DOTALL)


def failure_of(answer: Answer, vendor: Vendor) -> ProviderError:
    """Return the error of a response that is a refusal, or not a stream.

    Args:
        answer: The response.
        vendor: The vendor that sent it.
    """
    fault = _fault_of_body(answer.body)
    if fault is None:
        kind, text = _kind_of_page(answer.status), shown_page(answer.body)
    else:
        kind, text = _kind(answer.status, fault), shown(fault.message)
    if 300 <= answer.status < 400:  # noqa: PLR2004 - a status is its own name
        text, advice = _redirected(text, answer, vendor)
    else:
        advice = decide_advice(kind, vendor, fault, answer)
    said = f"{vendor.name} answered {answer.status}: "
    return kind(
        _advised(said, text, advice, vendor)
        if fault
        else scrubbed(with_advice(f"{said}{text}", *advice), vendor.secrets),
        status=answer.status,
        request_id=_shown_id(request_id_of(answer.headers), vendor),
        retry_after_seconds=_longest(
            retry_after_of(answer.headers, answer.now), fault.retry_after_seconds if fault else None
        ),
        retryable=_RETRY_HEADER.get(answer.headers.get("x-should-retry", "")),
    )


def failure_in_stream(event: Mapping[str, Any], vendor: Vendor) -> ProviderError | None:
    """Return the error that a stream event reports after a 200, or None.

    Args:
        event: The whole event.
        vendor: The vendor that sent it.
    """
    fault = _fault_of(event)
    if fault is None:
        return None
    request_id = event.get("request_id")
    return _broken_off(fault, vendor, request_id if isinstance(request_id, str) else None)


def reported_failure(error: Mapping[str, Any], vendor: Vendor) -> ProviderError:
    """Return the error of an object that is known to report one in `code` and `message`.

    Args:
        error: The object. It may be empty.
        vendor: The vendor that sent it.
    """
    return _broken_off(_fault_in(error), vendor, None)


def cut_short(vendor: Vendor) -> Transport:
    """Return the error of a stream that ended before the response did."""
    return Transport(f"{vendor.name} closed the stream before the answer was complete")


def _broken_off(fault: _Fault, vendor: Vendor, request_id: str | None) -> ProviderError:
    kind = _kind(fault.status, fault) if fault.status or fault.codes else Overloaded
    advice = decide_advice(kind, vendor, fault)
    return kind(
        _advised(f"{vendor.name} broke off with an error: ", shown(fault.message), advice, vendor),
        status=fault.status,
        request_id=_shown_id(request_id, vendor),
        retry_after_seconds=fault.retry_after_seconds,
    )


def _advised(begin: str, words: str, advice: tuple[str, ...], vendor: Vendor) -> str:
    """Join the failure and the advice. The vendor's words are cut, so that the message can be read at a glance."""
    words = scrubbed(words, vendor.secrets)
    room = max(MAX_MESSAGE - len(begin) - len("; or: ".join(advice)), _LEAST_WORDS)
    if advice and len(words) > room:
        words = f"{words[: room - 1].rstrip()}…"
    return with_advice(f"{begin}{words}", *advice)


def _shown_id(request_id: str | None, vendor: Vendor) -> str | None:
    """Make an id safe to show: servers choose it, and some repeat their input."""
    return None if request_id is None else scrubbed(shown(request_id), vendor.secrets) or None


_RETRY_HEADER: Final = MappingProxyType({"true": True, "false": False})


def _kind(status: int | None, fault: _Fault) -> Kind:
    for code in fault.codes:
        if code in _BY_CODE:
            return _BY_CODE[code]
    if by_status := _kind_of_status(status or 0):
        return by_status
    if status in {None, 400, 413} and _OVERFLOW.search(fault.message):
        return ContextWindowExceeded
    if status == 404:  # noqa: PLR2004 - a status is its own name
        # The path is fixed, so a compatible server that returns 404 does not know the model.
        return ModelNotFound
    vague = next((_BY_VAGUE_CODE[code] for code in fault.codes if code in _BY_VAGUE_CODE), None)
    if vague is Overloaded and status is not None:
        return BadRequest  # Ollama writes `api_error` for every refusal, and a retry would fail too
    return vague or (BadRequest if status is not None else Overloaded)


def _kind_of_page(status: int) -> Kind:
    """Classify a response of another format: a proxy's page, or a different kind of server."""
    if status < 300:  # noqa: PLR2004 - a status is its own name
        return ProtocolError
    return _kind_of_status(status) or BadRequest


def _kind_of_status(status: int) -> Kind | None:
    return Overloaded if status >= 500 else _BY_STATUS.get(status)  # noqa: PLR2004 - a status is its own name


# --- advice

_ABOUT_MONEY: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_error"})
_NO_CREDIT: Final = (
    "credit balance is too low"  # a plain 400 of Anthropic; its words select only advice, never a type
)
_PASSING: Final = frozenset({Overloaded, RateLimited, Timeout})
_NO_TOOLS: Final = re.compile(
    r"(not|n't) support (tools?|function calling)\b|tools? (use|calling)? ?(is|are) not supported|found that support tool use",
    re.IGNORECASE,
)
_REGION: Final = re.compile(
    r"\b(country|region|territory|location)\b.{0,40}\bnot (supported|available)|not available in your (country|region)|"
    r"unsupported_country_region_territory",
    re.IGNORECASE,
)
_OPTION_REFUSED: Final = re.compile(
    r"not support|unsupported|not allowed|deprecated|unknown|unrecognized|unexpected|invalid", re.IGNORECASE
)
_OPTIONS_ON_THE_WIRE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "temperature": "temperature",
        "top_p": "top_p",
        "topP": "top_p",
        "stop": "stop",
        "stop_sequences": "stop",
        "stopSequences": "stop",
        "max_tokens": "max_output_tokens",
        "max_completion_tokens": "max_output_tokens",
        "max_output_tokens": "max_output_tokens",
        "maxOutputTokens": "max_output_tokens",
        "reasoning": "reasoning",
        "reasoning_effort": "reasoning",
        "effort": "reasoning",
        "thinking": "reasoning",
        "thinkingConfig": "reasoning",
        "tool_choice": "tool_choice",
    }
)
"""Our options, by the vendors' names for them."""
_QUOTED: Final = re.compile(r"[`'\"]([\w.]{1,60})[`'\"]")


def decide_advice(
    kind: Kind, vendor: Vendor, fault: _Fault | None, answer: Answer | None = None
) -> tuple[str, ...]:
    """Return the advice for a refusal: several lines if several causes are possible, none if the table has no case.

    Args:
        kind: Type of the error.
        vendor: The vendor that refused.
        fault: Fault described by the body, or None if the body does not follow the format.
        answer: The whole response, or None for an error in a stream.
    """
    status = answer.status if answer is not None else fault.status if fault is not None else None
    if fault is not None and _is_about_money(status, fault):
        return (advise(Advice.NO_CREDIT),)
    by_words = () if fault is None or kind in _PASSING else _advice_by_words(kind, fault)
    if by_words:
        return by_words
    if status == 404:  # noqa: PLR2004 - a status is its own name
        return _not_found(kind, vendor, fault, answer)
    if kind in _PASSING:
        headers = retry_after_of(answer.headers, answer.now) if answer is not None else None
        seconds = _longest(headers, fault.retry_after_seconds if fault else None)
        return (advise(Advice.PASSING, when="a minute" if seconds is None else f"{seconds:g} s"),)
    if fault is None and answer is not None and is_page(answer.body):
        return (advise(Advice.WEB_PAGE),)
    if kind is Authentication:
        return (_about_the_key(vendor),)
    if kind is ModelNotFound:
        return (_about_the_model(vendor),)
    if kind is ContextWindowExceeded:
        return (advise(Advice.WINDOW_FULL, setting=setting("context_window")),)
    return (advise(Advice.OTHER_FORMAT),) if kind is ProtocolError else ()


def _advice_by_words(kind: Kind, fault: _Fault) -> tuple[str, ...]:
    """Return advice for a refusal with a specific remedy but without a common code."""
    if _NO_TOOLS.search(fault.message):
        return (advise(Advice.NO_TOOLS),)
    if _REGION.search(" ".join((*fault.codes, fault.message))):
        return (advise(Advice.REGION),)
    option = _option_of(fault) if kind is BadRequest else None
    return () if option is None else (advise(Advice.OPTION_REFUSED, option=option, setting=setting(option)),)


def _option_of(fault: _Fault) -> str | None:
    """Return the option of ours that a vendor rejects, or None."""
    if not _OPTION_REFUSED.search(" ".join((*fault.codes, fault.message))):
        return None
    named = (fault.parameter, *_QUOTED.findall(fault.message))
    names = (part for name in named for part in (name, name.rpartition(".")[2]))
    return next((_OPTIONS_ON_THE_WIRE[name] for name in names if name in _OPTIONS_ON_THE_WIRE), None)


def _is_about_money(status: int | None, fault: _Fault) -> bool:
    is_refused = status == 402 or not _ABOUT_MONEY.isdisjoint(fault.codes)  # noqa: PLR2004 - a status
    return is_refused or _NO_CREDIT in fault.message.lower()


def _not_found(kind: Kind, vendor: Vendor, fault: _Fault | None, answer: Answer | None) -> tuple[str, ...]:
    said: list[str] = []
    is_about_the_model = fault is not None and "model_not_found" in fault.codes
    lacks_version = vendor.is_compatible and not any(
        _VERSION.fullmatch(part) for part in urlsplit(vendor.base_url).path.split("/")
    )
    if lacks_version and not is_about_the_model:
        said.append(advise(Advice.NO_VERSION, setting=setting("base_url", f"{vendor.base_url}/v1")))
    if vendor.path_help:
        said.append(vendor.path_help)
    if kind is ModelNotFound:
        said.append(_about_the_model(vendor))
    elif not said:
        is_web = answer is not None and is_page(answer.body)
        said.append(advise(Advice.WEB_PAGE if is_web else Advice.OTHER_FORMAT))
    return tuple(said)


_VERSION: Final = re.compile(r"v\d+(alpha|beta)?\d*")


def _about_the_model(vendor: Vendor) -> str:
    if vendor.is_compatible and vendor.base_url:
        return advise(Advice.MODEL_NOT_SERVED, url=vendor.base_url)
    return advise(Advice.MODEL_UNKNOWN)


def _about_the_key(vendor: Vendor) -> str:
    owner = owner_of_foreign_key(vendor)
    if owner is None:
        row = Advice.WRONG_KEY if vendor.secrets else Advice.KEY_WANTED
        return advise(row, key_help=vendor.key_help)
    return advise_about_foreign_key(vendor, owner)


def advise_about_foreign_key(vendor: Vendor, owner: str) -> str:
    """Return advice about a key of another vendor."""
    instead = f"; or name a model of theirs, {_PROVIDER_OF[owner]}:…" if owner in _PROVIDER_OF else ""
    return advise(
        Advice.KEY_OF_ANOTHER, owner=owner, vendor=vendor.name, key_help=vendor.key_help, instead=instead
    )


def _redirected(text: str, answer: Answer, vendor: Vendor) -> tuple[str, tuple[str, ...]]:
    """Return the target of a redirect, which is more useful than its page, and the advice to use it on purpose."""
    location = answer.headers.get("location", "")
    base_url = _base_url_behind(location, answer, vendor)
    if base_url is None:
        return text, (advise(Advice.REDIRECT_NOWHERE),)
    url = scrubbed(shown(base_url), vendor.secrets)
    advice = advise(Advice.REDIRECT, url=url, setting=setting("base_url", url))
    return f"it redirects to {shown(location)}", (advice,)


def _base_url_behind(location: str, answer: Answer, vendor: Vendor) -> str | None:
    """Return the base URL that a redirect implies: its target without the suffix that the request added."""
    try:
        parts = urlsplit(urljoin(answer.url, location))
    except ValueError:  # from an invalid address
        return None
    if not location or parts.scheme not in {"http", "https"} or not parts.hostname:
        return None
    added = answer.url.removeprefix(vendor.base_url).partition("?")[0] if vendor.base_url else ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".removesuffix(added).rstrip("/")


# --- pages

_MARKS_OF_A_PAGE: Final = ("<!doctype html", "<html", "<head", "<body")
_LOOKED_AT: Final = 2_000
# Two patterns, each in a single pass: a page could be crafted to make one pattern scan it repeatedly.
_TITLE_BEGINS: Final = re.compile(r"<title[^<>]*>", re.IGNORECASE)
_TITLE_ENDS: Final = re.compile(r"</title", re.IGNORECASE)


def is_page(body: str) -> bool:
    """Return whether a body is a web page."""
    head = body[:_LOOKED_AT].lstrip("\ufeff \t\r\n").lower()
    return head.startswith("<") and any(mark in head for mark in _MARKS_OF_A_PAGE)


def shown_page(body: str) -> str:
    """Describe a body of unknown format: the title of a web page, otherwise its beginning."""
    title = shown(html.unescape(_title_of(body))) if is_page(body) else ""
    return f"a web page, {title!r}" if title else shown(body) or "nothing"


def _title_of(page: str) -> str:
    begins = _TITLE_BEGINS.search(page)
    ends = _TITLE_ENDS.search(page, begins.end()) if begins is not None else None
    return page[begins.end() : ends.start()] if begins is not None and ends is not None else ""


# --- reading bodies


def _fault_of_body(body: str) -> _Fault | None:
    try:
        value = decode_json(body)
    except ProtocolError:
        return None
    if isinstance(value, list) and value:  # Google, also in OpenAI's format
        value = value[0]
    return _fault_of(value) if isinstance(value, dict) else None


def _fault_of(body: Mapping[str, Any]) -> _Fault | None:
    """Return the fault from any common shape: `{"error": {…}}`, `{"error": "…"}`, `{"object": "error", …}`."""
    inner = body.get("error")
    if isinstance(inner, str) and inner:
        return _Fault(message=inner)
    if isinstance(inner, Mapping) and inner:
        return _fault_in(inner)
    if body.get("object") == "error":
        return _fault_in(body)
    return None


def _fault_in(inner: Mapping[str, Any]) -> _Fault:
    code, message, parameter = inner.get("code"), inner.get("message"), inner.get("param")
    number = read_integer(code)
    details = inner.get("details")
    details = [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []
    delays = [one for detail in details if isinstance(one := detail.get("retryDelay"), str)]
    # Google's `status` corresponds to the `type` of other vendors, and the reason is in the details.
    names = (*(detail.get("reason") for detail in details), code, inner.get("type"), inner.get("status"))
    return _Fault(
        codes=tuple(text for text in names if isinstance(text, str) and not text.isdecimal()),
        status=number if number is not None and 300 <= number < 600 else None,  # noqa: PLR2004 - a status
        message=message if isinstance(message, str) and message else "no message",
        retry_after_seconds=_longest(*(read_seconds(one.removesuffix("s")) for one in delays)),
        parameter=parameter if isinstance(parameter, str) else "",
    )


def _longest(*pauses: float | None) -> float | None:
    return max((pause for pause in pauses if pause is not None), default=None)


# --- reading headers


def request_id_of(headers: Mapping[str, str]) -> str | None:
    """Return the vendor's id of the request, for its support."""
    return headers.get("request-id") or headers.get("x-request-id")


def retry_after_of(headers: Mapping[str, str], now: datetime.datetime) -> float | None:
    """Return the wait that the vendor asks for, in seconds, or None if there is none or it is invalid.

    Args:
        headers: Headers with lower-case names.
        now: Current time, to evaluate a date.
    """
    # The second is Azure's.
    precise = read_seconds(headers.get("retry-after-ms") or headers.get("x-ms-retry-after-ms"))
    if precise is not None:
        return precise / 1000
    text = headers.get("retry-after") or headers.get("llm_provider-retry-after")  # the latter through LiteLLM
    seconds = read_seconds(text)
    if seconds is not None or text is None:
        return seconds
    until = read_date(text)
    return None if until is None else min(max(0.0, (until - now).total_seconds()), MAX_SECONDS)


# --- keys

_LOOKS_LIKE_A_KEY: Final = re.compile(r"\b(?:sk|pk|rk|gsk|xai|AIza)[-_]?[\w*.\-]{6,}")
_WORD: Final = re.compile(r"[^\s'\",;:()\[\]{}<>]+")
_TELLING_CHARACTERS: Final = 4
_MIN_SECRET: Final = 8

_OWNERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sk-ant-": "Anthropic",
        "sk-proj-": "OpenAI",
        "sk-svcacct-": "OpenAI",
        "sk-or-": "OpenRouter",
        "AIza": "Google",
        "gsk_": "Groq",
        "xai-": "xAI",
    }
)
"""Owner of a key, by its prefix."""

_PROVIDER_OF: Final[Mapping[str, str]] = MappingProxyType(
    {"Anthropic": "anthropic", "OpenAI": "openai", "Google": "google"}
)
_OWNER_OF_HOST: Final[Mapping[str, str]] = MappingProxyType(
    {
        "api.anthropic.com": "Anthropic",
        "api.openai.com": "OpenAI",
        "generativelanguage.googleapis.com": "Google",
    }
)
_OWNER_OF_FORMAT: Final[Mapping[str, str]] = MappingProxyType(
    {"anthropic": "Anthropic", "openai": "OpenAI", "openai-chat": "OpenAI", "google": "Google"}
)


def is_vendor_itself(vendor: Vendor) -> bool:
    """Whether requests go to the vendor's own host, not to a custom base URL."""
    return urlsplit(vendor.base_url).hostname in _OWNER_OF_HOST


def owner_of_foreign_key(vendor: Vendor, *, sure: bool = False) -> str | None:
    """Return the owner of a key that has another vendor's prefix, or None.

    Args:
        vendor: The vendor, with the key among its secrets.
        sure: Check only the vendor's own server. A compatible server may accept any key, and many do.
    """
    host = urlsplit(vendor.base_url).hostname or ""
    ours = _OWNER_OF_HOST.get(host) if sure else _OWNER_OF_HOST.get(host, _OWNER_OF_FORMAT.get(vendor.name))
    owner = next(
        (owner for begin, owner in _OWNERS.items() for key in vendor.secrets if key.startswith(begin)), None
    )
    if ours is None or owner in {None, ours}:
        return None
    # Compatible servers have vendors of their own, whose keys they accept.
    return owner if host in _OWNER_OF_HOST or owner in _PROVIDER_OF else None


def scrubbed(text: str, secrets: tuple[str, ...]) -> str:
    """Remove keys from a text, and the parts of keys that vendors echo: `sk-ab***yz`.

    Args:
        text: Text to show.
        secrets: The keys in use. A key of less than eight characters is not treated as a secret, because every text would
            contain it.
    """
    for secret in secrets:
        if len(secret) >= _MIN_SECRET:
            text = _without_cut_key(text.replace(secret, "[key]"), secret)
            begin, end = secret[:_TELLING_CHARACTERS], secret[-_TELLING_CHARACTERS:]
            text = _WORD.sub(
                lambda word, begin=begin, end=end: _without_piece(word[0], begin, end),  # type: ignore[misc]
                text,
            )
    return _LOOKS_LIKE_A_KEY.sub("[key]", text)


@contextmanager
def no_keys_shown(vendor: Vendor) -> Iterator[None]:
    """Remove keys from the errors raised in the block, which may quote parts of a response."""
    try:
        yield
    except ProviderError as error:
        scrub(error, vendor)
        raise


def scrub(error: ProviderError, vendor: Vendor) -> None:
    """Remove keys from all members of an error, because a logger may write each of them."""
    error.args = (scrubbed(str(error), vendor.secrets),)
    error.request_id = _shown_id(error.request_id, vendor)


def _without_cut_key(text: str, secret: str) -> str:
    """Remove a key that was cut off by the end of a text, wherever in a word it starts."""
    if "…" in text:
        for length in range(len(secret) - 1, _TELLING_CHARACTERS - 1, -1):
            text = text.replace(f"{secret[:length]}…", "[key]…")
    return text


def _without_piece(word: str, begin: str, end: str) -> str:
    # Only words with a gap: others may start like the key by chance, and contain nothing more of it.
    has_gap = "*" in word or "…" in word or "..." in word
    return "[key]" if has_gap and (word.startswith(begin) or word.rstrip(".").endswith(end)) else word
