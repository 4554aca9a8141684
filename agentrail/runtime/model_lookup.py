"""Models in the shell: turn a string or an object into a provider, and its capabilities into data."""

import re
from collections.abc import Mapping
from functools import lru_cache, partial
from types import UnionType
from typing import Any, Final, NoReturn, get_args

from attrs import frozen
from msgspec.structs import replace

from agentrail.abc import Capabilities, Provider, ResolveProvider, model_policy_of
from agentrail.core.policy.budget import Price
from agentrail.core.policy.model_policy import ModelPolicy
from agentrail.core.policy.patience import StallOptions
from agentrail.core.protocol.request import (
    ArgumentsDelta,
    Chunk,
    ModelFacts,
    ReasoningDelta,
    TextDelta,
    ToolCallStarted,
    UsageUpdate,
)
from agentrail.core.protocol.signals import ResponseCompleted
from agentrail.core.wire.codec import decode_signal, encode_signal
from agentrail.core.wire.normalize import settled
from agentrail.errors import AgentrailError, CodecError, OptionError, ProtocolError
from agentrail.frozen import FrozenDict, frozen_json
from agentrail.messages import AssistantMessage, StopReason, Text, TokenUsage, ToolCall
from agentrail.otp.crash_text import describe_crash
from agentrail.otp.guarded_calls import call_guarded
from agentrail.runtime.ports import Ports

_OBJECT: Final = re.compile(r":object\d*$")
_LONGEST_SECONDS: Final = 1e9  # thirty years


@frozen
class Choice:
    name: str
    provider: Provider
    opts: Mapping[str, Any]
    opts_changed: bool


def string_of(model: str | Provider) -> str:
    if isinstance(model, str):
        return model
    name: object = call_guarded(lambda _: None, getattr, model, "name")
    if not isinstance(name, str) or not name:
        fault = f"model is a provider of type {type(model).__name__} whose name is not text: give it a name"
        raise OptionError([fault])
    return f"{name}:object"


def find_provider(
    model: str | Provider, provider_opts: Mapping[str, Any], resolve: ResolveProvider
) -> tuple[str, Provider]:
    found = resolve(model, provider_opts) if isinstance(model, str) else model
    return string_of(model), found


def decide_switch(
    model: str | Provider, provider_opts: Mapping[str, Any] | None, current: str, ports: Ports
) -> Choice:
    if provider_opts is None and model == current:
        provider_opts = ports.provider_opts.get(current)
    opts = frozen_json(provider_opts or {})
    found, provider = find_provider(model, opts, ports.find_provider)
    name = fresh_name_of(found, provider, ports.providers)
    changed = opts != ports.provider_opts.get(name, {}) if name == current else bool(opts)
    return Choice(name, provider, opts, changed)


def is_object(model: str) -> bool:
    return _OBJECT.search(model) is not None


def fresh_name_of(model: str, provider: Provider, known: Mapping[str, Provider]) -> str:
    """Return a name for a new provider of a session. Objects with the same name are numbered, strings stay unchanged."""
    if not model.endswith(":object"):
        return model
    number = 1
    name = model
    while known.get(name, provider) is not provider:
        number += 1
        name = f"{model}{number}"
    return name


def decide_provider_opts(model: str, known: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    if model in known:
        return known[model]
    alike = [opts for name, opts in known.items() if _provider_of(name) == _provider_of(model)]
    return alike[-1] if alike else {}


def _provider_of(model: str) -> str:
    name, _, rest = model.partition(":")
    # A profile is a provider of its own.
    return f"{name}:{rest.partition(':')[0]}" if name == "registry" else name


def provide_model(model: str, ports: Ports) -> Provider:
    providers = ports.providers
    if model not in providers:
        providers[model] = ports.find_provider(model, decide_provider_opts(model, ports.provider_opts))
        ports.withheld.learn_from(providers[model])
    return providers[model]


def facts_of(model: str, provider: Provider) -> ModelFacts:
    known, policy, price = _described(model, provider)
    facts = _facts_of(
        str.__str__(model),  # a member of an enumeration equals its text, and would be remembered for it
        policy.context_window or known.context_window,
        known.max_output_tokens,
        policy.max_retries,
        StallOptions(
            stall_policy=policy.stall_policy,
            stall_ms=_milliseconds(policy.stall_seconds),
            timeout_ms=_milliseconds(policy.timeout_seconds),
        ),
    )
    # Not in the memory, which would give a price in whole dollars to one that is equal and has fractions.
    return facts if price is None else replace(facts, price=price)


@lru_cache(64)  # one value for all sessions of a model, not one for each of ten thousand
def _facts_of(
    model: str,
    window: int | None,
    max_output_tokens: int | None,
    max_retries: int | None,
    stalls: StallOptions,
) -> ModelFacts:
    facts = ModelFacts(
        model=model, max_output_tokens=max_output_tokens, max_retries=max_retries, stalls=stalls
    )
    if window is None:
        return facts
    return replace(facts, context_window=window, window_is_assumed=False)


def priced(usage: TokenUsage, model: str, provider: Provider | None) -> TokenUsage:
    if usage.cost_usd != 0.0 or not usage.total or provider is None:
        return usage
    try:
        price = _described(model, provider)[2]
    except AgentrailError:  # it answered when the session began, so the response still counts
        return usage
    return usage if price is None else replace(usage, cost_usd=price.cost_usd(usage))


@lru_cache(64)
def _milliseconds(seconds: float) -> int:
    """Convert a time limit to milliseconds: at least 1 if it is above 0, and at most as long as a state can hold."""
    return max(1, round(min(seconds, _LONGEST_SECONDS) * 1000))


def _described(model: str, provider: Provider) -> tuple[Capabilities, ModelPolicy, Price | None]:
    """Return what a provider says about a model, what its policy says, and the price, for which the policy comes first."""
    name = model.partition(":")[2]
    known, policy = call_guarded(
        partial(_refuse_provider, model), lambda: (provider.capabilities(name), model_policy_of(provider))
    )
    fault = _fault_of_capabilities(known)
    if fault is not None:
        raise OptionError([f"model {model!r}: its provider's capabilities() {fault}"])
    return known, policy, policy.price or known.price


def _refuse_provider(model: str, error: Exception) -> NoReturn:
    if isinstance(error, AgentrailError):
        raise error
    fault = f"model {model!r}: its provider raised {describe_crash(error)} when its capabilities were read"
    raise OptionError([fault]) from None


def _fault_of_capabilities(known: object) -> str | None:
    """Return the fault in an answer of `capabilities`, since a provider may be a foreign object."""
    if not isinstance(known, Capabilities):
        return f"returned a value of type {type(known).__name__}: expected agentrail.abc.Capabilities"
    given: Any = known
    for member in ("context_window", "max_output_tokens"):
        tokens = getattr(given, member)
        if tokens is not None and (type(tokens) is not int or tokens < 1):
            return f"returned {member}={tokens!r:.200}: expected a whole number >= 1, or None"
    if given.price is not None and not isinstance(given.price, Price):
        return f"returned price={given.price!r:.200}: expected a Price, or None"
    return None


# Type checks for a provider's output on its way into a session.
#
# A struct accepts any field value, and a step may not notice a wrong one. But neither a record that contains it
# nor any later record can be read again.

_STOP_REASONS: Final = frozenset(get_args(StopReason))
_NEVER_RECORDED: Final[frozenset[type]] = frozenset({ToolCallStarted, ArgumentsDelta})
_TOLD: Final = (str, str, str, bool, float, tuple)
_USED: Final = (int, int, int, int, int, bool)


def readable(response: ResponseCompleted, model: str) -> ResponseCompleted:
    if is_plain(response):
        return response
    said = settled(response)
    try:
        read = decode_signal(encode_signal(said))
    except CodecError as error:
        message = f"the provider of {model} returned an invalid response: {error}"
        raise ProtocolError(message) from None
    assert isinstance(read, ResponseCompleted)  # noqa: S101 - it was written as one
    return said if read == said else read


def is_plain(response: ResponseCompleted) -> bool:
    """Return whether each value of a response has its type. By hand: its bytes cost six times as much."""
    given: Any = response  # mypy trusts the annotations, which are in doubt here
    message, usage = given.message, given.usage
    if type(message) is not AssistantMessage or type(usage) is not TokenUsage or given.misfit is not None:
        return False
    told = (message.model, message.stop_reason, given.stop_reason, message.cut, given.jitter, message.content)
    used = (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning, usage.estimated)
    if tuple(map(type, told)) != _TOLD or tuple(map(type, used)) != _USED:
        return False
    if usage.cost_usd is not None and type(usage.cost_usd) is not float:
        return False
    if message.stop_reason not in _STOP_REASONS or given.stop_reason not in _STOP_REASONS:
        return False
    return all(map(_is_plain_block, message.content))


def _is_plain_block(block: object) -> bool:
    if type(block) is Text:
        return type(block.text) is str
    return (
        type(block) is ToolCall
        and type(block.call_id) is type(block.name) is str
        and block.malformed is None
        and type(block.arguments) is FrozenDict  # a call freezes its arguments to all levels
    )


def check_chunk(chunk: Chunk) -> None:
    # By hand rather than through its bytes: there is one chunk per word of a model, mostly plain text or a piece of a call.
    if (type(chunk) is TextDelta and type(chunk.text) is str) or type(chunk) in _NEVER_RECORDED:
        return
    match chunk:
        case TextDelta(text):
            _check("TextDelta.text", text, str, "text")
        case ReasoningDelta(text, signature):
            _check("ReasoningDelta.text", text, str, "text")
            _check("ReasoningDelta.signature", signature, str | None, "text or None")
        case UsageUpdate(usage):
            _check("UsageUpdate.usage", usage, TokenUsage, "a TokenUsage")
        case _:
            pass


def _check(name: str, given: object, wanted: type | UnionType, expected: str) -> None:
    if not isinstance(given, wanted):
        message = f"{name} is {given!r:.100}, expected {expected}: its provider must ensure this"
        raise ProtocolError(message)
