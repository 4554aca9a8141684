"""The meaning of "always": the narrowest rules that would have allowed a call that needed approval. Proposed, never added here."""

import re
from typing import Final
from urllib.parse import urlsplit

from agentrail.events.values import PERMISSION_OPTIONS, PermissionOption
from agentrail.messages import JsonObject
from agentrail.plugins.permission_match import must_be, must_mean
from agentrail.plugins.permission_paths import PathGlob, path_place
from agentrail.plugins.permission_rules import (
    CODE_TOOLS,
    PATH_TOOLS,
    SHELL_TOOLS,
    WRITERS,
    Argument,
    CommandPattern,
    Domain,
    RuleFault,
    read_permission_rule,
    words_of_name,
)
from agentrail.plugins.permission_verdict import EXIT_PLAN, PermissionCall, PermissionVerdict
from agentrail.plugins.shell_plain import PlainCommand, PlainLine
from agentrail.plugins.shell_wildcards import only_reads, uncovered_by_star

MAX_PROPOSED: Final = 5

_ANY_WORDS: Final = "-n 1"
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:@%+,^=\[\]?-]+")


def proposed_rules(call: PermissionCall, verdict: PermissionVerdict) -> tuple[str, ...]:
    """Return the narrowest rules that would allow a call."""
    if verdict.decision != "ask" or verdict.name in {"deny", "ask"} or call.tool == EXIT_PLAN:
        return ()
    if call.tool in CODE_TOOLS:  # code is approved only once: no narrow rule exists for it
        return ()
    if call.tool in SHELL_TOOLS:
        return _of_line(call, verdict)
    text = _of_call(call)
    return () if text is None else (text,)


def offers_always(call: PermissionCall, proposed: tuple[str, ...]) -> bool:
    """Whether the session's own "always" allows no more than these rules: the exact command, or every call of another tool."""
    return bool(proposed) if call.tool in SHELL_TOOLS else proposed == (call.tool,)


def what_else(text: str) -> str:
    """Describe the additional calls that a rule allows. Empty for a rule of exact words."""
    rule = read_permission_rule(text)
    match rule.pattern:
        case CommandPattern(has_star=True, words=words):
            return f"{' '.join(words)} with any other words, such as `{' '.join(words)} {_ANY_WORDS}`, as long as it only reads"
        case CommandPattern():
            return ""
        case PathGlob():
            return "any other content of this file" if rule.tool in WRITERS else ""
        case Domain(host=host):
            return f"every page of {host} and of the hosts below it"
        case Argument():
            return f"every call of {rule.tool} with this argument, whatever the others are"
        case _:
            return f"every call of {rule.tool}, whatever its arguments are"


def _of_line(call: PermissionCall, verdict: PermissionVerdict) -> tuple[str, ...]:
    reading = verdict.reading
    if not isinstance(reading, PlainLine) or not verdict.uncovered:
        return ()
    by_words = {command.words: command for command in reading.commands}
    texts: dict[str, None] = {}
    for words, _ in verdict.uncovered:
        command = by_words.get(words)
        text = None if command is None else _of_command(command, is_here=call.is_here)
        if text is None or (len(texts) == MAX_PROPOSED and text not in texts):
            return ()
        texts[text] = None
    return tuple(texts)


def _of_command(command: PlainCommand, *, is_here: bool) -> str | None:
    """Return the rule for one command. None if a star does not cover it, or no rule can express its words or directory."""
    read = only_reads(command)
    if uncovered_by_star(command) is not None or (read is None and not is_here):
        return None
    quoted = [_quoted(word, is_pattern=place in command.patterns) for place, word in enumerate(command.words)]
    if None in quoted:
        return None
    text = " ".join(word for word in quoted if word is not None)
    rule = f"shell({text})" if read is None else f"shell({' '.join(read)} *)"
    return rule if _covers(rule, command) else None


def _quoted(word: str, *, is_pattern: bool) -> str | None:
    if is_pattern:
        return word if _PLAIN.fullmatch(word) else None  # a star has a special meaning in a rule
    if _PLAIN.fullmatch(word) and set(word).isdisjoint("?["):
        return word
    if "'" not in word:
        return f"'{word}'"
    return None if set(word) & set('$`\\!"') else f'"{word}"'


def _covers(rule: str, command: PlainCommand) -> bool:
    try:
        pattern = read_permission_rule(rule).pattern
    except RuleFault:
        return False
    return isinstance(pattern, CommandPattern) and must_be(pattern, command, is_covered=True)


def _of_call(call: PermissionCall) -> str | None:
    tool, arguments = call.tool, call.arguments
    if tool in PATH_TOOLS:
        return _checked(call, _file_of(call))
    if tool == "web_fetch":
        url = arguments.get("url")
        try:
            host = urlsplit(url).hostname if isinstance(url, str) else None
        except ValueError:
            host = None
        return None if host is None else _checked(call, f"{tool}(domain:{host})")
    named = words_of_name(tool)
    if named is not None:
        value = arguments.get(named)
        return _checked(call, f"{tool}({value})") if isinstance(value, str) and "*" not in value else None
    return _checked(call, _only_argument(tool, arguments))


def _only_argument(tool: str, arguments: JsonObject) -> str:
    """Name the argument if it is the only one. Of several, none identifies what the user looked at."""
    if len(arguments) == 1:
        ((name, value),) = arguments.items()
        if isinstance(value, str) and "*" not in value and value.isprintable():
            return f"{tool}({name}={value})"
    return tool


def _file_of(call: PermissionCall) -> str | None:
    path = call.arguments.get("path", ".")
    place = path_place(path, call.working_dir, call.home, call.leads_to) if isinstance(path, str) else None
    if place is None or not place.is_sure or len(place.ends) > 1:
        return None
    end, below = place.ends[0], place.workspace.rstrip("/") + "/"
    if end == place.workspace:
        return None
    return f"{call.tool}(./{end.removeprefix(below)})" if end.startswith(below) else f"{call.tool}(/{end})"


def answers_to_offer(call: PermissionCall, proposed: tuple[str, ...]) -> tuple[PermissionOption, ...]:
    """Remove `always` if it would allow more than the narrowest rule. A plan can only be approved or rejected as written."""
    if call.tool == EXIT_PLAN:
        return ("approve", "reject")
    if offers_always(call, proposed):
        return PERMISSION_OPTIONS
    return tuple(option for option in PERMISSION_OPTIONS if option != "always")


def _checked(call: PermissionCall, text: str | None) -> str | None:
    """Return a rule if it allows this exact call, and only this call, as closely as rules can express."""
    if text is None or "*" in text:
        return None
    try:
        pattern = read_permission_rule(text).pattern
    except RuleFault:
        return None
    place = None
    if call.tool in PATH_TOOLS:
        if "?" in text:
            return None
        place = path_place(str(call.arguments.get("path", ".")), call.working_dir, call.home)
    return text if must_mean(pattern, call.arguments, place) else None
