"""Models, as the shell finds them: a string or an object becomes a provider, and what is known of it becomes data."""

from collections.abc import Mapping
from typing import Any

import msgspec

from agentrail.abc import Provider, ResolveProvider, model_policy_of
from agentrail.core.request import ModelFacts
from agentrail.core.stalls import StallOptions


def string_of(model: str | Provider) -> str:
    """Give the string that a session knows a model by."""
    return model if isinstance(model, str) else f"{model.name}:object"


def find_provider(
    model: str | Provider, provider_opts: Mapping[str, Any], resolve: ResolveProvider
) -> tuple[str, Provider]:
    """Find the provider of a model, and the string that the session knows it by.

    Raises:
        ModelNotFound, Authentication, OptionError: Your move; what `resolve` says of a model string.
    """
    found = resolve(model, provider_opts) if isinstance(model, str) else model
    return string_of(model), found


def fresh_name_of(model: str, provider: Provider, known: Mapping[str, Provider]) -> str:
    """Name a provider that comes to a session: objects of one name are told apart, strings are what they say."""
    if not model.endswith(":object"):
        return model
    number = 1
    name = model
    while known.get(name, provider) is not provider:
        number += 1
        name = f"{model}{number}"
    return name


def decide_provider_opts(model: str, known: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Say with which options to find a model that is asked for the first time.

    Args:
        model: The model string.
        known: The options of the models so far, the newest last.

    Returns:
        Its own; else those of the newest model of the same provider, whose server and key are its own too; else none.
    """
    if model in known:
        return known[model]
    alike = [opts for name, opts in known.items() if _provider_of(name) == _provider_of(model)]
    return alike[-1] if alike else {}


def _provider_of(model: str) -> str:
    name, _, rest = model.partition(":")
    return (
        f"{name}:{rest.partition(':')[0]}" if name == "registry" else name
    )  # a profile is a provider of its own


def facts_of(model: str, provider: Provider) -> ModelFacts:
    """Say what is known of a model when a session has to decide by it."""
    known = provider.capabilities(model.partition(":")[2])
    policy = model_policy_of(provider)
    facts = ModelFacts(
        model=model,
        max_output_tokens=known.max_output_tokens,
        price=policy.price or known.price,
        max_retries=policy.max_retries,
        stalls=StallOptions(
            stall_policy=policy.stall_policy,
            stall_ms=round(policy.stall_seconds * 1000),
            timeout_ms=round(policy.timeout_seconds * 1000),
        ),
    )
    window = policy.context_window or known.context_window
    if window is None:
        return facts
    return msgspec.structs.replace(facts, context_window=window, window_is_assumed=False)
