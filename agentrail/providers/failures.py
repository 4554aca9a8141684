"""Error bodies and statuses of vendors, and the typed errors that they become.

Pure: values in, an exception out. The text of a message is read in one place, `_OVERFLOW`, because a 400 for a prompt
that is too long is told from any other 400 by nothing else with some vendors; everywhere else status and code decide. What is advised
may follow the vendor's words too: advice is for people, and no program branches on it.
"""

import datetime
import email.utils
import html
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
# Python reads numbers of any length, in any script, and refuses some by exceptions of three kinds. What is longer than any
# number that means something is none here, and what no calendar holds is no date.

MAX_SECONDS: Final = 1e9
"""Thirty years. A pause is longer than anybody waits long before."""

_MAX_CHARACTERS: Final = 32
_MAX_DATE_CHARACTERS: Final = 64


def read_integer(value: object) -> int | None:
    """Read a number that may come as a number or as a text of digits; None for anything else."""
    if isinstance(value, str):
        fits = len(value) <= _MAX_CHARACTERS and value.isascii() and value.isdigit()
        return int(value) if fits else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_seconds(text: str | None) -> float | None:
    """Read how long to wait, at most thirty years; None where nothing stands that says so."""
    if text is None or not 0 < len(text) <= _MAX_CHARACTERS or not text.isascii():
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return min(value, MAX_SECONDS) if value >= 0 and math.isfinite(value) else None


def read_date(text: str) -> datetime.datetime | None:
    """Read a date of an HTTP header, in UTC; None for what is none, or what no calendar holds."""
    if len(text) > _MAX_DATE_CHARACTERS:
        return None
    try:
        found = email.utils.parsedate_to_datetime(text)
        # Here and not where it is subtracted: close to the year 1 or 9999 there are zones in which it is another year.
        return found.replace(tzinfo=datetime.UTC) if found.tzinfo is None else found.astimezone(datetime.UTC)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


Kind = type[ProviderError]

MAX_MESSAGE: Final = 240
"""Characters of a message with advice, for which the vendor's words are cut: a cycle adds up to 130 about itself, and 400 are read at one glance."""
_LEAST_WORDS: Final = 60
"""Characters of the vendor's words that are kept in any case."""


@frozen(kw_only=True)
class Vendor:
    """Who answers, for messages.

    Attributes:
        name: Such as `anthropic`.
        key_help: Where the key comes from, as a half sentence: `set ANTHROPIC_API_KEY or …`.
        path_help: What a 404 may mean besides a wrong model, as a sentence; empty where it means nothing else.
        secrets: The keys in use: no error text holds them, or a piece of them.
        base_url: What the addresses of its requests begin with; empty where that is not known.
        is_compatible: Whether it is a server that speaks the format of a vendor and is not that vendor: the addresses of
            those end in `/v1`, and people forget it.
    """

    name: str
    key_help: str
    path_help: str = ""
    secrets: tuple[str, ...] = ()
    base_url: str = ""
    is_compatible: bool = False

    def __repr__(self) -> str:
        """Show the name alone."""
        return f"Vendor({self.name!r})"


@frozen(kw_only=True)
class Answer:
    """An answer that is no stream of events, complete or its beginning.

    Attributes:
        status: The HTTP status.
        headers: With names in lower case.
        body: As text.
        now: The time of the answer, to which a date in `Retry-After` is compared.
        url: What was asked; empty where that is not known.
    """

    status: int
    headers: Mapping[str, str]
    body: str
    now: datetime.datetime
    url: str = ""


@frozen(kw_only=True)
class _Fault:
    """What a body says, whatever its shape.

    Attributes:
        codes: The code and the type, the more telling one first.
        status: A status inside the body, as proxies put it there.
        retry_after_seconds: How long to wait, where the body says so.
        parameter: Which member of the request is wrong, where the body says so.
    """

    codes: tuple[str, ...] = ()
    status: int | None = None
    message: str
    retry_after_seconds: float | None = None
    parameter: str = ""


_BY_CODE: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "insufficient_quota": Authentication,  # these two come as 429, and no waiting helps
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
        "invalid_prompt": ContentRefused,  # said of prompts that break a policy, and of nothing else
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
"""Codes that mean the same wherever they stand, and so come before the status."""

# Of pictures that OpenAI does not take, which it says only when it looks at them, after the 200.
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
"""Codes that some servers write for anything, and so come after the status: all there is for an error in a stream."""

_BY_STATUS: Final[Mapping[int, Kind]] = MappingProxyType(
    {
        401: Authentication,
        402: Authentication,
        403: Authentication,
        408: Timeout,
        429: RateLimited,
        500: Overloaded,
        502: Overloaded,
        503: Overloaded,
        504: Overloaded,
        529: Overloaded,
    }
)

OVERFLOW: Final = (
    r"prompt (is )?too long",  # Anthropic, Ollama
    r"input length and .{0,40}exceed context",  # Anthropic, when prompt and output together are too long
    r"maximum (context|prompt) length",  # OpenAI, vLLM, OpenRouter, Mistral; xAI
    r"input token count.{0,40}exceeds",  # Gemini
    r"exceeds? the (available )?context (size|window)",  # llama.cpp, OpenAI's Responses
    r"input is too long for requested model",  # Bedrock behind a proxy
    r"(greater|longer) than the context length",  # LM Studio
    r"context (length|window|size) (was |is )?exceeded",  # proxies
)
"""The words by which a prompt that is too long is told from any other bad request; each has a recorded body."""

_OVERFLOW: Final = re.compile("|".join(OVERFLOW), re.IGNORECASE | re.DOTALL)


def failure_of(answer: Answer, vendor: Vendor) -> ProviderError:
    """Make the error of an answer that was refused, or that is no stream.

    Args:
        answer: What came.
        vendor: Who it came from.
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
    """Make the error of an event that reports one, after a 200; None when it reports none.

    Args:
        event: The event, whole.
        vendor: Who it came from.
    """
    fault = _fault_of(event)
    if fault is None:
        return None
    request_id = event.get("request_id")
    return _broken_off(fault, vendor, request_id if isinstance(request_id, str) else None)


def reported_failure(error: Mapping[str, Any], vendor: Vendor) -> ProviderError:
    """Make the error of an object that is known to report one, with `code` and `message` in it.

    Args:
        error: The object; it may be empty.
        vendor: Who it came from.
    """
    return _broken_off(_fault_in(error), vendor, None)


def cut_short(vendor: Vendor) -> Transport:
    """Make the error of a stream that ended before the response did."""
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
    """Put together what happened and what to do. The vendor's words give way, so that the whole can be read at one glance."""
    words = scrubbed(words, vendor.secrets)
    room = max(MAX_MESSAGE - len(begin) - len("; or: ".join(advice)), _LEAST_WORDS)
    if advice and len(words) > room:
        words = f"{words[: room - 1].rstrip()}…"
    return with_advice(f"{begin}{words}", *advice)


def _shown_id(request_id: str | None, vendor: Vendor) -> str | None:
    """Make an id fit to be shown: it is whatever a server wrote, and some write back what they were sent."""
    return None if request_id is None else scrubbed(shown(request_id), vendor.secrets) or None


_RETRY_HEADER: Final = MappingProxyType({"true": True, "false": False})


def _kind(status: int | None, fault: _Fault) -> Kind:
    """Judge by telling codes, then by status, then by vague codes."""
    for code in fault.codes:
        if code in _BY_CODE:
            return _BY_CODE[code]
    if status is not None and status in _BY_STATUS:
        return _BY_STATUS[status]
    if status in {None, 400, 413} and _OVERFLOW.search(fault.message):
        return ContextWindowExceeded
    if status == 404:  # noqa: PLR2004 - a status is its own name
        # The path is ours and fixed: what a server that speaks the format does not find there is the model.
        return ModelNotFound
    vague = next((_BY_VAGUE_CODE[code] for code in fault.codes if code in _BY_VAGUE_CODE), None)
    if vague is Overloaded and status is not None and status < 500:  # noqa: PLR2004 - a status is its own name
        return BadRequest  # Ollama writes `api_error` for every refusal, which the same request meets again
    return vague or (BadRequest if status is not None else Overloaded)


def _kind_of_page(status: int) -> Kind:
    """Judge an answer that is not of the format at all: a proxy's page, or another server altogether."""
    if status < 300:  # noqa: PLR2004 - a status is its own name
        return ProtocolError
    return _BY_STATUS.get(status, BadRequest)


# --- advice

_ABOUT_MONEY: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_error"})
_NO_CREDIT: Final = (
    "credit balance is too low"  # a plain 400 of Anthropic; of its words only advice is made, and no type
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
"""Our options, by the names that vendors have for them."""
_QUOTED: Final = re.compile(r"[`'\"]([\w.]{1,60})[`'\"]")


def decide_advice(
    kind: Kind, vendor: Vendor, fault: _Fault | None, answer: Answer | None = None
) -> tuple[str, ...]:
    """Say what to do about a refusal; several things where it may be one of several, nothing where it is no case of the table.

    Args:
        kind: What it was judged to be.
        vendor: Who refused.
        fault: What the body says; None when it says nothing in the format.
        answer: The whole answer; None for an error in a stream.
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
    """Say what to do about a refusal that has a cure of its own, and no code that all vendors share."""
    if _NO_TOOLS.search(fault.message):
        return (advise(Advice.NO_TOOLS),)
    if _REGION.search(" ".join((*fault.codes, fault.message))):
        return (advise(Advice.REGION),)
    option = _option_of(fault) if kind is BadRequest else None
    return () if option is None else (advise(Advice.OPTION_REFUSED, option=option, setting=setting(option)),)


def _option_of(fault: _Fault) -> str | None:
    """Find the option of ours that a vendor does not take."""
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
    if vendor.is_compatible and not is_about_the_model and not _has_version(vendor.base_url):
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


def _has_version(url: str) -> bool:
    return any(_VERSION.fullmatch(part) for part in urlsplit(url).path.split("/"))


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
    """Say what to do with the key of another vendor."""
    instead = f"; or name a model of theirs, {_PROVIDER_OF[owner]}:…" if owner in _PROVIDER_OF else ""
    return advise(
        Advice.KEY_OF_ANOTHER, owner=owner, vendor=vendor.name, key_help=vendor.key_help, instead=instead
    )


def _redirected(text: str, answer: Answer, vendor: Vendor) -> tuple[str, tuple[str, ...]]:
    """Say where a redirect points to, which tells more than the page that comes with it, and how to go there on purpose."""
    location = answer.headers.get("location", "")
    base_url = _base_url_behind(location, answer, vendor)
    if base_url is None:
        return text, (advise(Advice.REDIRECT_NOWHERE),)
    url = scrubbed(shown(base_url), vendor.secrets)
    advice = advise(Advice.REDIRECT, url=url, setting=setting("base_url", url))
    return f"it redirects to {shown(location)}", (advice,)


def _base_url_behind(location: str, answer: Answer, vendor: Vendor) -> str | None:
    """Take from the target of a redirect what is added to a base url, which stands at the end of what was asked too."""
    try:
        parts = urlsplit(urljoin(answer.url, location))
    except ValueError:  # of an address that is none
        return None
    if not location or parts.scheme not in {"http", "https"} or not parts.hostname:
        return None
    added = answer.url.removeprefix(vendor.base_url).partition("?")[0] if vendor.base_url else ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".removesuffix(added).rstrip("/")


# --- pages

_MARKS_OF_A_PAGE: Final = ("<!doctype html", "<html", "<head", "<body")
_LOOKED_AT: Final = 2_000
# Two patterns, and each finds its place in one walk: a page may be made to be walked through again and again.
_TITLE_BEGINS: Final = re.compile(r"<title[^<>]*>", re.IGNORECASE)
_TITLE_ENDS: Final = re.compile(r"</title", re.IGNORECASE)


def is_page(body: str) -> bool:
    """Tell whether a body is a web page."""
    head = body[:_LOOKED_AT].lstrip("\ufeff \t\r\n").lower()
    return head.startswith("<") and any(mark in head for mark in _MARKS_OF_A_PAGE)


def shown_page(body: str) -> str:
    """Say of a body that is of no format we know what it is: of a web page its title, of all else how it begins."""
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
    return _fault_of(value) if isinstance(value, dict) else None


def _fault_of(body: Mapping[str, Any]) -> _Fault | None:
    """Find the fault in any of the shapes in use: `{"error": {…}}`, `{"error": "…"}`, `{"object": "error", …}`."""
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
    # Google says in `status` what others say in `type`, and what it means in the details.
    names = (*(detail.get("reason") for detail in details), code, inner.get("type"), inner.get("status"))
    return _Fault(
        codes=tuple(text for text in names if isinstance(text, str) and not text.isdecimal()),
        status=number if number is not None and 300 <= number < 600 else None,  # noqa: PLR2004 - a status
        message=message if isinstance(message, str) and message else "no message",
        retry_after_seconds=_longest(*(_delay(detail.get("retryDelay")) for detail in details)),
        parameter=parameter if isinstance(parameter, str) else "",
    )


def _delay(text: object) -> float | None:
    """Read a duration of Google's, such as `34.07s`."""
    return read_seconds(text.removesuffix("s")) if isinstance(text, str) else None


def _longest(*pauses: float | None) -> float | None:
    return max((pause for pause in pauses if pause is not None), default=None)


# --- reading headers


def request_id_of(headers: Mapping[str, str]) -> str | None:
    """Find the vendor's own id of the request, for its support."""
    return headers.get("request-id") or headers.get("x-request-id")


def retry_after_of(headers: Mapping[str, str], now: datetime.datetime) -> float | None:
    """Read how long the vendor asks to wait, in seconds; None when it does not say, or says nonsense.

    Args:
        headers: With names in lower case.
        now: What a date is compared to.
    """
    # The latter of Azure.
    precise = read_seconds(headers.get("retry-after-ms") or headers.get("x-ms-retry-after-ms"))
    if precise is not None:
        return precise / 1000
    text = headers.get("retry-after") or headers.get("llm_provider-retry-after")  # the latter through LiteLLM
    seconds = read_seconds(text)
    if seconds is not None or text is None:
        return seconds
    until = read_date(text)
    return None if until is None else max(0.0, (until - now).total_seconds())


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
"""Whose a key is, by how it begins."""

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
    """Whether the requests go to the vendor's own host, and not to a base URL of the user's."""
    return urlsplit(vendor.base_url).hostname in _OWNER_OF_HOST


def owner_of_foreign_key(vendor: Vendor, *, sure: bool = False) -> str | None:
    """Say whose the key is that a vendor is given, if it begins like those of another one; else None.

    Args:
        vendor: With the key among its secrets.
        sure: Only where the vendor itself is asked. A server that speaks its format may take any key, and many do.
    """
    host = urlsplit(vendor.base_url).hostname or ""
    ours = _OWNER_OF_HOST.get(host) if sure else _OWNER_OF_HOST.get(host, _OWNER_OF_FORMAT.get(vendor.name))
    owner = next(
        (owner for begin, owner in _OWNERS.items() for key in vendor.secrets if key.startswith(begin)), None
    )
    if ours is None or owner in {None, ours}:
        return None
    # Compatible servers have vendors of their own, whose keys they take.
    return owner if host in _OWNER_OF_HOST or owner in _PROVIDER_OF else None


def scrubbed(text: str, secrets: tuple[str, ...]) -> str:
    """Take keys out of a text, and the pieces of keys that vendors echo: `sk-ab***yz`.

    Args:
        text: Fit to be shown otherwise.
        secrets: The keys in use. One of less than eight characters is no secret, and every text would hold it.
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
    """Take keys out of the errors that a body raises: they may show a piece of what came, and that of a key."""
    try:
        yield
    except ProviderError as error:
        scrub(error, vendor)
        raise


def scrub(error: ProviderError, vendor: Vendor) -> None:
    """Take keys out of an error, all of its members: code that logs one may log every member."""
    error.args = (scrubbed(str(error), vendor.secrets),)
    error.request_id = _shown_id(error.request_id, vendor)


def _without_cut_key(text: str, secret: str) -> str:
    """Take out a key that a text was cut within, wherever in a word it begins."""
    if "…" in text:
        for length in range(len(secret) - 1, _TELLING_CHARACTERS - 1, -1):
            text = text.replace(f"{secret[:length]}…", "[key]…")
    return text


def _without_piece(word: str, begin: str, end: str) -> str:
    # Only a word with a gap in it: others may begin like the key by chance, and hold nothing of the rest.
    has_gap = "*" in word or "…" in word or "..." in word
    return "[key]" if has_gap and (word.startswith(begin) or word.rstrip(".").endswith(end)) else word
