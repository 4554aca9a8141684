"""What looks like a key: found before anything else is said of a file, so that no message has one in it. Plain functions."""

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
      | eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*     # a JWT
      | (?i:bearer)\ +[A-Za-z0-9._~+/=-]{12,}
    )
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----[^-]*
    """,
    re.VERBOSE,
)
"""By how the vendors' keys begin. A text of another shape is taken for one by the name that it is given."""

_SECRET_NAME: Final = re.compile(
    r"(?i)(?:^|[_.-])(?:(?:api|access|private|secret)[_-]?key|token|secret|password|passwd|authorization)$"
)


def looks_like_key(text: str) -> bool:
    """Say whether there is a key in a text, by its shape."""
    return _KEY.search(text) is not None


def names_secret(name: object) -> bool:
    """Say whether what has this name is a secret, whatever it looks like."""
    return isinstance(name, str) and _SECRET_NAME.search(name) is not None


def in_one_line(text: str, most: int = 1_000) -> str:
    """Make a text fit to be shown in a line: without keys, without what a terminal would obey, cut where it is long.

    What stands in a file, and what files are called, comes from others: a line of ours says what is not granted, and nothing in it may
    wipe that out or stand for another line.
    """
    hidden = hide_keys(text)
    shown = hidden if len(hidden) <= most else f"{hidden[:most]}{HIDDEN}"
    return shown if shown.isprintable() else "".join(one if one.isprintable() else "?" for one in shown)


def hide_keys(text: str) -> str:
    """Take out of a text what looks like a key."""
    return _KEY.sub(HIDDEN, text)
