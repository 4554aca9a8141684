"""Detection of keys, before any other check of a file, so that no message contains one."""

import re
from typing import Final

HIDDEN: Final = "…"

_KEY: Final = re.compile(
    r"""
    (?<![A-Za-z0-9])(?:
        [spr]k-[A-Za-z0-9_-]{12,}                           # OpenAI, Anthropic, OpenRouter, DeepSeek
      | [spr]k_(?:live|test)_[A-Za-z0-9]{10,}               # Stripe
      | AIza[A-Za-z0-9_-]{20,} | ya29\.[A-Za-z0-9_-]{16,}   # Google
      | gh[pousr]_[A-Za-z0-9]{16,} | github_pat_\w{16,} | glpat-[\w-]{16,}
      | (?:AKIA|ASIA)[A-Z0-9]{12,}                          # Amazon
      | xox[a-z]-[A-Za-z0-9-]{10,}                          # Slack
      | (?:hf|gsk|npm|r8)_[A-Za-z0-9]{16,} | (?:xai|pypi|pplx)-[A-Za-z0-9_-]{16,}
      | eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]* # a JWT; without a bound, each eyJ- of many reads to their end
      | (?i:bearer)\ +[A-Za-z0-9._~+/=-]{12,}
    )
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----[^-]*
    """,
    re.VERBOSE,
)
"""Prefixes of vendors' keys. A text of another shape counts as a key if its name is a secret's name."""

_SECRET_NAME: Final = re.compile(
    r"(?i)(?:^|[_.-])(?:(?:api|access|private|secret)[_-]?key|token|secret|password|passwd|authorization)$"
)


def looks_like_key(text: str) -> bool:
    return _KEY.search(text) is not None


def names_secret(name: object) -> bool:
    return isinstance(name, str) and _SECRET_NAME.search(name) is not None


def in_one_line(text: str, most: int = 1_000) -> str:
    """Return a text without keys and control characters, truncated, in one line.

    Contents from others must not erase or imitate our output.
    """
    hidden = hide_keys(text)
    shown = hidden if len(hidden) <= most else f"{hidden[:most]}{HIDDEN}"
    return shown if shown.isprintable() else "".join(one if one.isprintable() else "?" for one in shown)


def hide_keys(text: str) -> str:
    return _KEY.sub(HIDDEN, text)


def shown_address(value: object) -> object:
    """Return an address for a message, without a user and a password."""
    return re.sub(r"^([a-z]+://)?.*@", r"\1…@", value, flags=re.DOTALL) if isinstance(value, str) else value
