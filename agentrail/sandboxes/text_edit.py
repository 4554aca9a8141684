"""Replacements of a text within a text: the positions, the result and the difference."""

import bisect
import difflib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from attrs import frozen

from agentrail.abc import Refusal
from agentrail.sandboxes.paths import escape
from agentrail.sandboxes.refusals import MAX_WRITTEN_BYTES

MAX_DIFF_BYTES: Final = 4_096

MAX_REPLACEMENTS: Final = 1_000_000

_MAX_CHANGES_SHOWN: Final = MAX_DIFF_BYTES // 2
_PLACES_AT_A_TIME: Final = 10_000
_CONTEXT_LINES: Final = 3
_MAX_NUMBERS_SHOWN: Final = 10
_MAX_LINES_COMPARED: Final = 5_000
_MAX_LINE_SHOWN: Final = 200
_MAX_COMPARED_IN_FULL: Final = 50
_ALIKE: Final = 0.75
_CUT: Final = "[The diff continues; read the file to see the rest.]\n"


@frozen(kw_only=True)
class Edited:
    """The result of an edit.

    Attributes:
        diff: Unified, of at most 4 KB.
    """

    text: str
    replacements: int
    diff: str


def decide_edit(  # noqa: PLR0913 - all but the text are the request's, by name
    text: str,
    old: str,
    new: str,
    *,
    replace_all: bool,
    path: str,
    max_bytes: int = MAX_WRITTEN_BYTES,
    check: Callable[[], None] = lambda: None,
) -> Edited | Refusal:
    old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    plain = text.replace("\r\n", "\n")
    count = plain.count(old) if old else 0
    fault = _fault(plain, old, new, count, replace_all=replace_all, path=path) or _fault_of_size(
        text, old, new, count, path, max_bytes
    )
    if fault is not None:
        return fault
    places = list(_checked(_places(plain, old), check))
    # The positions, in the plain text, of line feeds that had a carriage return before them.
    returns = [found.start() - n for n, found in enumerate(re.finditer("\r\n", text))]
    put = new.replace("\n", "\r\n") if len(returns) * 2 > plain.count("\n") else new
    parts: list[str] = []
    done = 0
    for place in _checked(places, check):
        start, end = (where + bisect.bisect_left(returns, where) for where in (place, place + len(old)))
        parts += text[done:start], put
        done = end
    check()
    diff = _diff(plain, places, old, new, path, check)
    return Edited(text="".join((*parts, text[done:])), replacements=len(places), diff=diff)


def _fault(  # noqa: PLR0913 - the facts of the edit so far
    plain: str, old: str, new: str, count: int, *, replace_all: bool, path: str
) -> Refusal | None:
    if not old:
        message = "old_string is empty; use write_file to create a file."
        return Refusal(code="invalid_edit", message=message)
    if old == new:
        return Refusal(code="invalid_edit", message="old_string and new_string are the same.")
    if count == 0:
        message = f"old_string was not found in {path}. Read the file again: spaces and line ends must match exactly."
        return Refusal(code="old_not_found", message=message + _nearest(plain, old))
    if count == 1 or replace_all:
        return None
    first = itertools.islice(_places(plain, old), _MAX_NUMBERS_SHOWN)
    numbers = [plain.count("\n", 0, place) + 1 for place in first]
    lines = ", ".join(map(str, numbers)) + (", …" if count > _MAX_NUMBERS_SHOWN else "")
    message = (
        f"old_string occurs {count} times in {path} (lines {lines}). Add lines around it, or set replace_all."
    )
    return Refusal(code="old_not_unique", message=message)


def _fault_of_size(  # noqa: PLR0913, PLR0917 - the facts of the edit so far
    text: str, old: str, new: str, count: int, path: str, max_bytes: int
) -> Refusal | None:
    """Refuse a result that would be too large, before building it."""
    if count > MAX_REPLACEMENTS:
        message = f"old_string occurs {count:,} times in {path}, at most {MAX_REPLACEMENTS:,} are replaced at once. Make it longer."
        return Refusal(code="too_large", message=message)
    # Line feeds may become two bytes. The old text counts by characters, which are never more than its bytes.
    put, taken = len(new.encode("utf-8", "surrogatepass")) + new.count("\n"), len(old) + old.count("\n")
    size_bytes = len(text) + count * (put - taken)
    if put <= taken or size_bytes <= max_bytes:
        return None
    message = (
        f"{path} would have {size_bytes:,} bytes, at most {max_bytes:,} are written. "
        "Replace less at once, or write several files."
    )
    return Refusal(code="too_large", message=message)


def _checked(places: Iterable[int], check: Callable[[], None]) -> Iterator[int]:
    for number, place in enumerate(places):
        if number % _PLACES_AT_A_TIME == 0:
            check()
        yield place


def _places(plain: str, old: str) -> Iterator[int]:
    place = plain.find(old)
    while place >= 0:
        yield place
        place = plain.find(old, place + len(old))


def _nearest(plain: str, old: str) -> str:
    """Quote the line most similar to the first non-empty line of the text, if one is close."""
    wanted = next((line for line in old.split("\n") if line.strip()), "")[:_MAX_LINE_SHOWN]
    lines = [line[:_MAX_LINE_SHOWN] for line in plain.split("\n", _MAX_LINES_COMPARED)[:_MAX_LINES_COMPARED]]
    # Only a few lines are compared in full: some take a thousand times as long.
    matcher = difflib.SequenceMatcher(b=wanted)
    best, near, tried = _ALIKE, None, 0
    for number, line in enumerate(lines):
        matcher.set_seq1(line)
        if matcher.real_quick_ratio() < best or matcher.quick_ratio() < best:
            continue
        tried += 1
        if tried > _MAX_COMPARED_IN_FULL:
            break
        if matcher.ratio() > best or (near is None and matcher.ratio() == best):
            best, near = matcher.ratio(), number
    return "" if near is None else f' The nearest is line {near + 1}: "{escape(lines[near])}"'


# --- the diff


@frozen(kw_only=True)
class _Change:
    """Replaced lines: their range in the old text, counted from 0, and their replacement."""

    first: int
    removed: Sequence[str]
    added: Sequence[str]

    @property
    def end(self) -> int:
        return self.first + len(self.removed)


def _diff(  # noqa: PLR0913, PLR0917 - the facts of the edit so far
    plain: str, places: Sequence[int], old: str, new: str, path: str, check: Callable[[], None]
) -> str:
    # Not difflib.unified_diff, which compares whole texts to find the positions known here, and takes minutes for some.
    lines = _lines(plain)
    written = f"--- {path}\n+++ {path}\n"
    shift = 0
    for group in _groups(_changes(plain, places, old, new, check)):
        check()
        hunk, shift = _hunk(lines, group, shift)
        written += hunk
        if len(written.encode("utf-8", "replace")) > MAX_DIFF_BYTES:
            kept = written.encode("utf-8", "replace")[: MAX_DIFF_BYTES - len(_CUT)].decode(errors="ignore")
            return kept[: kept.rfind("\n") + 1] + _CUT
    return written


def _lines(text: str) -> list[str]:
    """Split after line feeds only. `splitlines` also splits at form feeds and similar characters."""
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


def _changes(
    plain: str, places: Sequence[int], old: str, new: str, check: Callable[[], None]
) -> Iterator[_Change]:
    """Yield the changes line by line: positions that share a line are one change."""
    number = looked = at = 0
    while at < len(places):
        begin = end = plain.rfind("\n", 0, places[at]) + 1
        number += plain.count("\n", looked, begin)
        looked = done = begin
        after: list[str] = []  # joined once: a line may have a million positions
        while True:
            while at < len(places) and (places[at] < end or end == begin):
                if at % _PLACES_AT_A_TIME == 0:
                    check()
                after += filter(None, (plain[done : places[at]], new))
                done = places[at] + len(old)
                # Whole lines, up to the end of the line that contains the last character of the old text.
                if done > end or end == begin:
                    end = plain.find("\n", done - 1) + 1 or len(plain)
                at += 1
            last = plain[done:end] or "".join(after[-1:])
            if end == len(plain) or not last or last.endswith("\n"):
                break
            # An end of line was removed: the next line joins this one.
            end = plain.find("\n", end) + 1 or len(plain)
        yield _Change(
            first=number, removed=_lines(plain[begin:end]), added=_lines("".join((*after, plain[done:end])))
        )


def _groups(changes: Iterator[_Change]) -> Iterator[list[_Change]]:
    group: list[_Change] = []
    for change in changes:
        if group and change.first - group[-1].end > 2 * _CONTEXT_LINES:
            yield group
            group = []
        group.append(change)
        if len(group) == _MAX_CHANGES_SHOWN:  # each takes at least two bytes, and the diff is cut before that
            break
    yield group


def _hunk(lines: Sequence[str], group: Sequence[_Change], shift: int) -> tuple[str, int]:
    """Format a group with the lines around it. `shift` is the number of lines by which the text has grown before it."""
    begin = max(group[0].first - _CONTEXT_LINES, 0)
    end = min(group[-1].end + _CONTEXT_LINES, len(lines))
    grown = sum(len(change.added) - len(change.removed) for change in group)
    written: list[str] = []
    at = begin
    for change in group:
        written += [" " + line for line in lines[at : change.first]]
        written += ["-" + line for line in change.removed]
        written += ["+" + line for line in change.added]
        at = change.end
    written += [" " + line for line in lines[at:end]]
    head = f"@@ -{_range(begin, end - begin)} +{_range(begin + shift, end - begin + grown)} @@\n"
    ended = (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in written)
    return head + "".join(ended), shift + grown


def _range(begin: int, length: int) -> str:
    if length == 1:
        return str(begin + 1)
    return f"{begin + 1 if length else begin},{length}"
