"""Episodes: what they are as lines of a file, which of them are about the same thing as a prompt, and how a model sees them."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final

import attrs
import msgspec

_INTRODUCTION: Final = (
    "Earlier conversations with this user that may be about the same thing, and may be out of date:"
)
_WORD: Final = re.compile(r"\w{4,}")


@attrs.frozen(kw_only=True)
class Episode:
    """A cycle that ended well.

    Attributes:
        session_id: Of which session.
        at_ms: When.
        asked: How the prompt begins.
        answered: How the answer begins.
    """

    session_id: str
    at_ms: Annotated[int, msgspec.Meta(ge=0, le=2**53)]  # a number that some editor made longer is no time
    asked: str
    answered: str


def encode_episode(episode: Episode) -> str:
    """Make a line."""
    return msgspec.json.encode(episode).decode() + "\n"


def decode_episodes(text: str) -> Iterator[Episode]:
    """Read a file. Lines that are no episodes are passed over: a full disk leaves half of one, and people edit files."""
    # Not splitlines(), which also breaks at characters that JSON has in its texts.
    for line in text.split("\n"):
        try:
            yield msgspec.json.decode(line, type=Episode)
        except msgspec.MsgspecError:
            continue


def nearest(episodes: Sequence[Episode], prompt: str, top_k: int) -> list[Episode]:
    """Find the episodes that share words with a prompt.

    Args:
        episodes: Oldest first.
        prompt: What they should be about.
        top_k: How many at most.

    Returns:
        The best first: a word counts more the rarer it is among the episodes; of equals the newer one comes first.
    """
    words = [_words(f"{episode.asked} {episode.answered}") for episode in episodes]
    spread = Counter(word for one in words for word in sorted(one))
    wanted = _words(prompt)
    # Sorted, because floats add up differently in another order, and sets have another one in each process.
    scores = [
        sum(math.log((len(words) + 1) / spread[word]) for word in sorted(one & wanted)) for one in words
    ]
    ranked = sorted(zip(scores, range(len(words)), strict=True), reverse=True)
    return [episodes[position] for score, position in ranked[:top_k] if score > 0]


def section_of(episodes: Iterable[Episode]) -> str | None:
    """Render episodes as a section of the system prompt; None for none."""
    lines = [f"- Asked: {_quoted(one.asked)}\n  Answered: {_quoted(one.answered)}" for one in episodes]
    return "\n".join(["<memory>", _INTRODUCTION, *lines, "</memory>"]) if lines else None


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _quoted(text: str) -> str:
    """Make one line of a text that cannot end the section, nor begin one of its own."""
    return " ".join(text.split()).replace("<", "&lt;")
