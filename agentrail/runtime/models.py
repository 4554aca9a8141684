"""Models, as the shell finds them: a string or an object becomes a provider, and what is known of it becomes data."""

from collections.abc import Mapping
from typing import Any

from agentrail.abc import Provider, ResolveProvider
from agentrail.core.request import ModelFacts


def name_of(model: str | Provider) -> str:
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
    return name_of(model), found


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
