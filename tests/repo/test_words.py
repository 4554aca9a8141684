"""The words of the field stand in the code and the pages; those that they took the place of stand nowhere."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]

OLD_NAMES: Final = frozenset(
    """
    Crew Fallen Letter Means Pulse Slots Tab Work Held OpenErrand Errand RunErrand CancelErrand ErrandFinished
    look_of hear_rest hear_at_once somebody_listens judge_call judge_again judge_answer judge_exit judge_failed_start
    start_judged finish_judged say_goodbye break_off NOBODY
""".split()  # noqa: SIM905 - as a list it would fill a page
)
"""Names of classes and functions that nothing else is called; the news say what they are called now."""

OLD_WORDS: Final = re.compile(r"\b(?:some|no)body\b|\bwhoever\b|errand", re.IGNORECASE)
"""Docstrings, messages and pages say the caller, the plugin author, the operator, a request of a plugin."""

STORED: Final = {
    "decisions.py": ("Not run: nobody approved this call within",),
    "budget.py": (
        "and nobody knows what this request may cost",
        "and nobody knows how long the answer may be",
    ),
    "machine.py": ("and nobody waits for this",),
    "tool_calls.py": ("[Not started: nobody waited for it any more]",),
    "sandbox.md": ("`nobody`",),
}
"""What is written to journals and read from scenarios keeps its name for ever; so does the user of Unix."""


def pages() -> Iterator[Path]:
    """All that a reader reads: the package, the pages, the README; not the news, which tell of what was."""
    yield ROOT / "README.md"
    for folder in ("agentrail", "docs"):
        yield from sorted(one for one in (ROOT / folder).rglob("*") if one.suffix in {".py", ".md"})


def names_in(page: str, text: str) -> Iterator[str]:
    """The names of a text: those of code, and what stands in backticks. A sentence may begin with "Work"."""
    if page.endswith(".py") and not OLD_NAMES.isdisjoint(re.findall(r"\w+", text)):  # else no token is one
        yield from (
            one.string
            for one in tokenize.generate_tokens(io.StringIO(text).readline)
            if one.type == tokenize.NAME
        )
    for span in re.findall(r"`[^`\n]+`", text):
        yield from re.findall(r"\w+", span)


def old_words(page: str, text: str) -> list[str]:
    """The old words of a text, but for the lines that hold something stored."""
    stored = STORED.get(Path(page).name, ())
    lines = (line for line in text.splitlines() if not any(one in line for one in stored))
    words = [word for line in lines for word in OLD_WORDS.findall(line)]
    return [*words, *sorted(OLD_NAMES.intersection(names_in(page, text)))]


@pytest.mark.check
def test_old_words_stand_nowhere():
    """A search for them finds nothing but the news, and what is stored (16.6)."""
    found = {}
    for page in pages():
        name = page.relative_to(ROOT).as_posix()
        if words := old_words(name, page.read_text(encoding="utf-8")):
            found[name] = words
    assert found == {}


@pytest.mark.parametrize(
    ("page", "text", "words"),
    [
        ("crew.py", "class Crew: ...\n", ["Crew"]),
        ("crew.py", "# Nobody waits for a `Slots`.\n", ["Nobody", "Slots"]),
        ("crew.md", "An errand of somebody's, in a `Crew`.\n", ["errand", "somebody", "Crew"]),
        ("crew.md", "Work of a crew\n", []),
        ("sandbox.md", "The user `nobody` owns it.\n", []),
    ],
)
def test_an_old_word_is_found(page, text, words):
    """Names as they are written, words in any case, and not what is stored."""
    assert old_words(page, text) == words
