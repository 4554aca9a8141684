"""Suggestions for invalid model strings. They are used only in messages."""

import difflib
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_FAMILIES: Final[tuple[tuple[str, str], ...]] = (
    (r"gpt-oss", "openai-chat"),  # open weights, served by others
    (r"(gpt|chatgpt|codex)(?![a-z])|o[1-9](?![a-z0-9])", "openai"),
    (r"claude(?![a-z])", "anthropic"),
    (r"gemini(?![a-z])", "google"),
    (
        (
            r"(meta-)?(code)?llama|gemma|qwen|qwq|mistral|mixtral|ministral|codestral|devstral|magistral|deepseek|phi[-0-9]"
            r"|granite|smollm|command-r|kimi|glm-|nemotron|starcoder|yi-|olmo|tinyllama"
        ),
        "openai-chat",
    ),
)
"""Providers by model name prefix. The first match counts."""

_SPELLINGS: Final = ("claude", "gemini", "gpt", "llama", "mistral", "qwen", "deepseek")

_OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "claude": "anthropic",
        "chatgpt": "openai",
        "gpt": "openai",
        "responses": "openai",
        "gemini": "google",
        "vertex": "google",
        **dict.fromkeys(
            ("groq", "litellm", "llama.cpp", "llamacpp", "lmstudio", "lm-studio", "local"), "openai-chat"
        ),
        **dict.fromkeys(("ollama", "openrouter", "together", "vllm", "xai"), "openai-chat"),
    }
)
"""Common names of providers, and the names used here."""

_ADDRESSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "groq": "https://api.groq.com/openai/v1",
        "llama.cpp": "http://localhost:8080/v1",
        "llamacpp": "http://localhost:8080/v1",
        "lm-studio": "http://localhost:1234/v1",
        "lmstudio": "http://localhost:1234/v1",
        "ollama": "http://localhost:11434/v1",
        "openrouter": "https://openrouter.ai/api/v1",
        "together": "https://api.together.xyz/v1",
        "vllm": "http://localhost:8000/v1",
        "xai": "https://api.x.ai/v1",
    }
)
"""Default addresses of the servers of these names."""


def likely_model(name: str, defaults: Mapping[str, str]) -> str | None:
    """Return the likely model string for a name without a provider, or None."""
    known = name if _provider_of_family(name) is not None else _respelt(name)
    provider = _provider_of_family(known)
    if provider is None:
        return None
    return f"{provider}:{defaults.get(provider, known) if known.lower() in _SPELLINGS else known}"


def likely_provider(name: str) -> str | None:
    """Return the likely provider for an unknown name, or None."""
    return _OTHER_NAMES.get(name.lower())


def usual_address(name: str) -> str | None:
    return _ADDRESSES.get(name.lower())


def _respelt(name: str) -> str:
    """Correct the first letters of a name if they nearly spell a model family."""
    rest = name.lower().lstrip("abcdefghijklmnopqrstuvwxyz")
    letters = len(name) - len(rest)
    near = difflib.get_close_matches(name[:letters].lower(), _SPELLINGS, n=1, cutoff=0.65)
    return f"{near[0]}{name[letters:]}" if near else name


def _provider_of_family(name: str) -> str | None:
    parts = name.lower().split("/")
    for begin, provider in _FAMILIES:
        if any(re.match(begin, part) for part in parts):
            # A name with a vendor prefix comes from a server with models of many vendors.
            return provider if len(parts) == 1 else "openai-chat"
    return None
