r"""The worst-case time of a regular expression search, computed without searching. Pure."""

import functools
import importlib
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from attrs import evolve, frozen

MAX_PATTERN_CHARACTERS: Final = 1_000

_parser: Final[Any] = importlib.import_module("re._parser")
# No public module exposes the parse tree of `re`. This one returns the tree that `re` itself compiles.
_ops: Final[Any] = importlib.import_module("re._constants")

_ASCII: Final = 128
_OTHERS: Final = 1 << _ASCII
_ALL: Final = (_OTHERS << 1) - 1
"""Sets of characters: a bit for each of ASCII, and one for all others. They may be too large, but never too small."""

_LINE_FEED: Final = 1 << ord("\n")
_MAX_FACTOR: Final = 1e12
_WITHOUT_END: Final = 1e300
_ANY_WAY: Final = 8  # assumed ways through an unknown construct


class NoPattern(ValueError):
    """A text is not a regular expression, or too long. The message has the reason."""


@frozen(kw_only=True)
class Effort:
    """Bound of a search's backtracking.

    Attributes:
        is_anchored: Whether a search begins at one position only.
    """

    factor: float
    degree: int
    nested: int
    is_anchored: bool

    def steps(self, characters: int) -> float:
        """Return the maximum number of steps of a search in a text of this length."""
        n = characters + 1
        try:
            ways = self.factor * float(n) ** (self.degree + 1 + (not self.is_anchored))
            return (
                ways * float(1 + self.nested + self.degree + self.factor) ** characters
                if self.nested
                else ways
            )
        except OverflowError:
            return _WITHOUT_END


@functools.lru_cache(maxsize=512)
def effort_of(pattern: str) -> Effort:
    """Analyse a pattern. Cached, because the result is always the same."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        message = f"it has {len(pattern):,} characters, at most {MAX_PATTERN_CHARACTERS:,} are allowed"
        raise NoPattern(message)
    try:
        re.compile(pattern)
        tree = _parser.parse(pattern)
        # If case is ignored, sets are larger than they look.
        found = _Looker(is_plain=tree.state.flags & ~(re.UNICODE | re.ASCII) == 0).sequence(tree, 0)
    except (re.error, OverflowError, RecursionError) as error:
        raise NoPattern(str(error)) from None
    begins = tree[0] if len(tree) else (None, None)
    is_anchored = begins[0] is _ops.AT and begins[1] in {_ops.AT_BEGINNING, _ops.AT_BEGINNING_STRING}
    return Effort(
        factor=found.factor,
        degree=found.degree,
        nested=found.nested,
        is_anchored=is_anchored and not tree.state.flags & re.MULTILINE,
    )


@frozen(kw_only=True)
class _Part:
    """The possible first characters of a part of a pattern, and the number of ways through it."""

    first: int = 0
    is_nullable: bool = False
    factor: float = 1
    degree: int = 0
    nested: int = 0

    @property
    def has_one_way(self) -> bool:
        return self.factor == 1 and not (self.degree or self.nested)


class _Looker:
    def __init__(self, *, is_plain: bool) -> None:
        self._is_plain = is_plain

    def sequence(self, items: Iterable[Any], follow: int) -> _Part:
        """Analyse consecutive items, from the last to the first, since the following text matters."""
        first, is_nullable, factor, degree, nested = 0, True, 1.0, 0, 0
        behind = follow
        for op, value in reversed(list(items)):
            part = self._one(op, value, behind)
            behind = part.first | (behind if part.is_nullable else 0)
            first = part.first | (first if part.is_nullable else 0)
            is_nullable = is_nullable and part.is_nullable
            factor, degree, nested = factor * part.factor, degree + part.degree, nested + part.nested
        return _bounded(
            _Part(first=first, is_nullable=is_nullable, factor=factor, degree=degree, nested=nested)
        )

    def _one(self, op: Any, value: Any, follow: int) -> _Part:
        if op in {_ops.LITERAL, _ops.NOT_LITERAL, _ops.ANY, _ops.IN}:
            return _Part(first=self._characters(op, value))
        if op is _ops.AT:
            # The end is at one position, or two with a last line feed. Other positions are unclear.
            at_end = value in {_ops.AT_END, _ops.AT_END_STRING} and self._is_plain
            return _Part(factor=2) if at_end else _Part(first=_ALL, is_nullable=True)
        if op is _ops.BRANCH:
            return self._branch([self.sequence(one, follow) for one in value[1]])
        if op is _ops.SUBPATTERN:
            _, added, removed, inner = value
            looker = self if not added and not removed else _Looker(is_plain=False)
            return looker.sequence(inner, follow)
        if op in {_ops.MAX_REPEAT, _ops.MIN_REPEAT, _ops.POSSESSIVE_REPEAT}:
            low, high, body = value
            return self._repeat(low, high, body, follow)
        if op is _ops.ATOMIC_GROUP:
            return self.sequence(value, follow)
        if op in {_ops.ASSERT, _ops.ASSERT_NOT}:
            # Checked once for each way that leads here, and never backtracked into.
            inside = self.sequence(value[1], 0)
            return evolve(inside, first=_ALL, is_nullable=True)
        return _Part(first=_ALL, is_nullable=True, factor=_ANY_WAY, degree=1, nested=op is not _ops.GROUPREF)

    def _characters(self, op: Any, value: Any) -> int:
        if not self._is_plain:
            return _ALL
        if op is _ops.LITERAL:
            return _bit(value)
        if op is _ops.NOT_LITERAL:
            return _ALL & ~_bit(value) | _OTHERS
        if op is _ops.ANY:
            return _ALL & ~_LINE_FEED
        is_negated = value[0][0] is _ops.NEGATE
        found = functools.reduce(int.__or__, map(_members, value[is_negated:]), 0)
        return _ALL & ~found | _OTHERS if is_negated else found

    def _branch(self, parts: Sequence[_Part]) -> _Part:
        seen = 0
        is_clear = not any(part.is_nullable for part in parts)
        for part in parts:
            is_clear = is_clear and not part.first & seen
            seen |= part.first
        factors = [part.factor for part in parts]
        return _bounded(
            _Part(
                first=seen,
                is_nullable=any(part.is_nullable for part in parts),
                factor=max(factors) if is_clear else sum(factors),
                degree=max(part.degree for part in parts),
                nested=max(part.nested for part in parts),
            )
        )

    def _repeat(self, low: int, high: int, body: Any, follow: int) -> _Part:
        begins = self.sequence(body, 0)
        again = begins.first if high > 1 else 0
        inner = self.sequence(body, follow | again)
        is_clear = not inner.first & follow and not inner.is_nullable
        is_endless = high is _ops.MAXREPEAT or high - low >= _ASCII
        factor, degree, nested = inner.factor, inner.degree, inner.nested
        if not inner.has_one_way:
            if high is _ops.MAXREPEAT or high * (degree + nested) > _ANY_WAY:
                nested += 1
            elif high > 1:
                # A power: for a repetition of up to ten times the bound is very high, but it is still a
                # bound.
                factor, degree = min(factor, _MAX_FACTOR) ** min(high, _ASCII), degree * high
        if not is_clear:
            factor, degree = (factor, degree + 1) if is_endless else (factor * (high - low + 1), degree)
        return _bounded(
            _Part(
                first=inner.first,
                is_nullable=low == 0 or inner.is_nullable,
                factor=factor,
                degree=degree,
                nested=nested,
            )
        )


def _bounded(part: _Part) -> _Part:
    return part if part.factor <= _MAX_FACTOR else evolve(part, factor=_MAX_FACTOR)


def _bit(code: int) -> int:
    return 1 << min(code, _ASCII)


def _members(item: tuple[Any, Any]) -> int:
    op, value = item
    if op is _ops.LITERAL:
        return _bit(value)
    if op is _ops.RANGE:
        low, high = value
        within = sum(_bit(code) for code in range(low, min(high + 1, _ASCII)))
        return within | (_OTHERS if high >= _ASCII else 0)
    return _of_category(value)


@functools.cache
def _of_category(category: Any) -> int:
    letter = {_ops.CATEGORY_DIGIT: "d", _ops.CATEGORY_SPACE: "s", _ops.CATEGORY_WORD: "w"}
    opposite = {_ops.CATEGORY_NOT_DIGIT: "D", _ops.CATEGORY_NOT_SPACE: "S", _ops.CATEGORY_NOT_WORD: "W"}
    known = re.compile("\\" + (letter | opposite)[category])
    return sum(1 << code for code in range(_ASCII) if known.match(chr(code))) | _OTHERS
