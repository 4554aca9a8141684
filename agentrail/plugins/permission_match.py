"""Whether a rule matches a call: for `deny` and `ask` whether it may match, for `allow` whether it certainly matches."""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from agentrail.frozen import canonical_json
from agentrail.messages import JsonObject
from agentrail.plugins.permission_paths import PathGlob, PathPlace, may_match, must_match
from agentrail.plugins.permission_rules import AnyCall, Argument, CommandPattern, Domain, Pattern
from agentrail.plugins.shell_plain import PlainCommand
from agentrail.plugins.shell_programs import places_after

_HOST: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?", re.IGNORECASE)
_LOOSE_HOST: Final = re.compile(
    r"^(?:[a-z][a-z0-9+.-]*:)?/*(?:[^/?#]*@)?(\[[^\]]*\]|[^/?#:]*)", re.IGNORECASE
)
_MAX_URL: Final = 8_192
"""Maximum characters of a URL that is parsed. A longer one may lead anywhere."""
_MAX_HOST: Final = 1_024
"""Maximum characters of a host before IDNA, four times the maximum of a name."""
_MISSING: Final = object()
_WILDCARD: Final = re.compile(r"[*?[]")


# --- calls of tools other than the shell


def may_mean(pattern: Pattern, arguments: JsonObject, place: PathPlace | None) -> bool:
    """Return whether a rule of `deny` or `ask` may match a call."""
    match pattern:
        case AnyCall():
            return True
        case PathGlob():
            return place is None or may_match(pattern, place)
        case Domain():
            url = arguments.get("url")
            return not isinstance(url, str) or _may_be_below(url, pattern.host)
        case Argument():
            return _has_argument(pattern, arguments, ignore_case=True)
        case _:  # a command pattern, for a tool other than the shell
            return False


def must_mean(pattern: Pattern, arguments: JsonObject, place: PathPlace | None) -> bool:
    match pattern:
        case AnyCall():
            return True
        case PathGlob():
            return place is not None and must_match(pattern, place)
        case Domain():
            url = arguments.get("url")
            return isinstance(url, str) and _must_be_below(url, pattern.host)
        case Argument():
            return pattern.can_allow and _has_argument(pattern, arguments, ignore_case=False)
        case _:  # a command pattern, for a tool other than the shell
            return False


def _has_argument(pattern: Argument, arguments: JsonObject, *, ignore_case: bool) -> bool:
    found: Any = arguments
    for name in pattern.pointer:
        if isinstance(found, Mapping):
            found = found.get(name, _MISSING)
        elif (
            isinstance(found, Sequence)
            and not isinstance(found, str)
            and name.isdecimal()
            and len(name) < len("1" * 9)
        ):
            found = found[int(name)] if int(name) < len(found) else _MISSING
        else:
            found = _MISSING
    if found is _MISSING:
        return False
    text, glob = _canonical(found), pattern.glob
    if text is None:  # then it may be anything
        return ignore_case
    return (
        _star(glob.casefold()).match(text.casefold()) is not None
        if ignore_case
        else _star(glob).match(text) is not None
    )


def _canonical(value: Any) -> str | None:
    """Return the canonical text of a value. None if it has none: too deep, too large, or not text."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():  # JSON does not distinguish these two numbers
        value = int(value)
    try:
        return canonical_json(value).decode()
    except (ValueError, RecursionError):
        return None


def _must_be_below(url: str, host: str) -> bool:
    if len(url) > _MAX_URL or "\\" in url or not url.isascii() or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        has_port = parts.port is not None or not parts.netloc.endswith(":")
    except ValueError:
        return False
    found = parts.hostname or ""
    plain = (
        parts.scheme in {"http", "https"} and has_port and "@" not in parts.netloc and _HOST.fullmatch(found)
    )
    return bool(plain) and _is_below(found, host)


def _may_be_below(url: str, host: str) -> bool:
    if len(url) > _MAX_URL:
        return True
    found = _loose_host(url)
    if found is None:
        return True  # unknown: it may lead anywhere
    if found.startswith("[") and found.endswith("]"):
        return False  # an IP address rather than a name
    return not _HOST.fullmatch(found) or _is_below(found, host)


@lru_cache(maxsize=64)
def _loose_host(url: str) -> str | None:
    """Return the host of a URL as any reader might parse it, in IDNA form. None if it is unknown."""
    plain = "".join(char for char in url.strip() if char.isprintable()).replace("\\", "/")
    loose = _LOOSE_HOST.match(plain)
    found = loose[1] if loose is not None else ""
    if not found or "%" in found or len(found) > _MAX_HOST:
        return None
    try:
        return found.encode("idna").decode()
    except UnicodeError:
        return None


def _is_below(found: str, host: str) -> bool:
    labels, wanted = found.lower().rstrip(".").split("."), host.split(".")
    return len(labels) >= len(wanted) and all(
        one in {"*", label} for label, one in zip(labels[-len(wanted) :], wanted, strict=True)
    )


@lru_cache(maxsize=2048)
def _star(glob: str) -> re.Pattern[str]:
    """Compile a text in which only `*` is special and matches any text."""
    return re.compile(translate(glob.replace("[", "[[]").replace("?", "[?]")))


# --- commands


def must_be(rule: CommandPattern, command: PlainCommand, *, is_covered: bool) -> bool:
    if rule.not_read is not None:
        return False
    if not rule.has_star:
        # In a line with other commands, a program that runs its input is not covered even by its exact words. The other commands
        # determine what it runs.
        return is_covered and rule.line is not None and rule.line.commands == (command,)
    if not is_covered:
        return False
    if not command.behind:
        return _has_words(rule, command.words)
    # `nice *` does not name the program that nice runs. `nice make *` does.
    is_named = len(rule.words) > command.behind and command.behind not in rule.stars
    return _has_words(rule, command.run) or (is_named and _has_words(rule, command.words))


def _has_words(rule: CommandPattern, words: tuple[str, ...]) -> bool:
    many = len(rule.words)
    if len(words) < many or (len(words) > many and not rule.has_tail):
        return False
    if not rule.stars:
        return words[:many] == rule.words
    return all(
        _is_like(word, wanted) if place in rule.stars else word == wanted
        for place, (word, wanted) in enumerate(zip(words, rule.words, strict=False))
    )


def _is_like(word: str, wanted: str) -> bool:
    """Compare a word with a pattern in which `*` matches letters except `/`: a star does not lead into another directory."""
    names, globs = word.split("/"), wanted.split("/")
    return len(names) == len(globs) and all(
        name == glob or (name != ".." and _star(glob).match(name) is not None)
        for name, glob in zip(names, globs, strict=True)
    )


def may_be(rule: CommandPattern, words: tuple[str, ...]) -> bool:
    """Return whether a rule of `deny` or `ask` may match a command, whatever options of its program are between its words."""
    if not rule.words:
        return rule.has_tail
    if len(words) > 1 and len(rule.words) > 1:
        second, wanted = words[1], rule.words[1]
        # Fast path: this distinguishes most rules, and a word of letters is not an option.
        if second != wanted and second.isalnum() and "*" not in wanted:
            return False
    places = places_after(words, rule.words, _may_be_word)
    return bool(places) if rule.has_tail else len(words) in places


def _may_be_word(word: str, wanted: str, *, is_program: bool) -> bool:
    if is_program:
        word, wanted = word.lower(), wanted.lower()
        if "/" not in wanted:
            word = word.rpartition("/")[2]
        else:
            word, wanted = word.removeprefix("./"), wanted.removeprefix("./")
    if word == wanted:
        return True
    if "*" in wanted and _star(wanted).match(word) is not None:
        return True
    mark = _WILDCARD.search(word)
    if mark is None:
        return False
    if "*" not in wanted:
        return fnmatchcase(wanted, word)
    head, wanted_head = word[: mark.start()], wanted.partition("*")[0]  # known up to this point
    return head.startswith(wanted_head) or wanted_head.startswith(head)
