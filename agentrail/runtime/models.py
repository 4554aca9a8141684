"""Models, as the shell finds them: a string or an object becomes a provider, and what is known of it becomes data."""

from collections.abc import Mapping
from typing import Any

from agentrail.abc import Provider, ResolveProvider
from agentrail.core.request import ModelFacts


def find_provider(
    model: str | Provider, provider_opts: Mapping[str, Any], resolve: ResolveProvider
) -> tuple[str, Provider]:
    """Find the provider of a model, and the string that the session knows it by.

    Raises:
        ModelNotFound, Authentication, OptionError: Your move; what `resolve` says of a model string.
    """
    if isinstance(model, str):
        return model, resolve(model, provider_opts)
    return f"{model.name}:object", model


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
    if known.context_window is None:
        return ModelFacts(model=model, max_output_tokens=known.max_output_tokens)
    return ModelFacts(
        model=model,
        context_window=known.context_window,
        window_is_assumed=False,
        max_output_tokens=known.max_output_tokens,
    )
