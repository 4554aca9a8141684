"""The embedder of `[embedder]`, created on first use."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from agentrail.abc import Secret
from agentrail.blueprints.secret_refs import secret_of
from agentrail.config.schema import SecretForm
from agentrail.config.settings import Sourced
from agentrail.config.toml_positions import ConfigFault
from agentrail.errors import OptionError
from agentrail.providers.embeddings import USUAL_URL, OpenAIEmbedder
from agentrail.stores.vectors import has_numpy, no_numpy

USUAL_KEY: Final = SecretForm(env="OPENAI_API_KEY")
"""Default location of OpenAI's key. A server named with `base_url` is sent no key by default."""

OpenEmbedder: TypeAlias = Callable[[], OpenAIEmbedder]
"""Creates an embedder with its current key. Raises `OptionError` if the key is not found."""


def read_embedder(said: Mapping[str, Sourced], fault: Callable[[Sourced, str], None]) -> OpenEmbedder | None:
    if not said:
        return None
    first = next(iter(said.values()))
    missing = [name for name in ("model", "dimension") if name not in said]
    if missing:
        fault(first, f"an embedder needs model and dimension: {' and '.join(missing)} is missing")
        return None
    values: dict[str, Any] = {name: one.plain for name, one in said.items() if name != "api_key"}
    try:
        OpenAIEmbedder(**values)
    except OptionError as error:
        for text in error.faults:
            name = text.removeprefix("provider option ").partition(" ")[0].strip("':")
            fault(said.get(name, first), text.removeprefix(f"{name} is "))
        return None
    if not has_numpy():
        fault(first, no_numpy())
        return None
    key = said.get("api_key")
    where = USUAL_KEY if key is None and values.get("base_url", USUAL_URL) == USUAL_URL else None
    where, folder = (where, "") if key is None else (key.value, key.folder)

    def open_embedder() -> OpenAIEmbedder:
        try:
            secret = None if where is None else Secret(secret_of(where, folder, os.environ))
        except OptionError as error:
            place = (first if key is None else key).place
            raise OptionError([str(ConfigFault(place=place, said=text)) for text in error.faults]) from None
        return OpenAIEmbedder(**values, api_key=secret)

    return open_embedder
