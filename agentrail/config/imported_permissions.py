"""Claude Code permissions, `.claude/settings*.json`, as our rules.

Without an exact equivalent, a deny or ask rule becomes wider and an allow rule is dropped.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any, Final

from attrs import define, field

from agentrail.config.config_file import ConfigFile, Scope
from agentrail.config.imported_agents import CLAUDE_MODES
from agentrail.config.schema import FileForm, PermissionsForm
from agentrail.config.structure import show_value
from agentrail.config.toml_positions import ConfigFault, ConfigPath, ConfigPlace
from agentrail.config.tool_names import translate_tools

_PATH_TOOLS: Final = frozenset({"read_file", "edit_file", "write_file", "glob", "grep", "list_dir"})
_LISTS: Final = ("deny", "ask", "allow")
_JSON_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_AT_START: Final = [(0, 1)]


def read_claude_settings(file: str, text: str, *, scope: Scope = "project", folder: str = "") -> ConfigFile:
    reader = _SettingsReader(file, text, scope)
    form = reader.form()
    return ConfigFile(
        name=file,
        folder=folder,
        scope=scope,
        form=FileForm() if reader.faults else FileForm(permissions=form),
        lines=reader.lines,
        faults=tuple(reader.faults),
        notes=tuple(sorted(reader.notes, key=lambda one: one.place.line)),
    )


@define
class _SettingsReader:
    _file: str
    _text: str
    _scope: Scope
    lines: dict[ConfigPath, int] = field(factory=dict, init=False)
    faults: list[ConfigFault] = field(factory=list, init=False)
    notes: list[ConfigFault] = field(factory=list, init=False)
    _places: dict[str, list[tuple[int, int]]] = field(factory=dict, init=False)
    _seen: tuple[int, int] = field(default=_AT_START[0], init=False)

    def form(self) -> PermissionsForm:
        try:
            read: Any = json.loads(self._text)
        except (ValueError, RecursionError) as error:
            line = getattr(error, "lineno", 1)
            self.faults.append(self._said(("",), line, f"this is not JSON: {getattr(error, 'msg', error)}"))
            return PermissionsForm()
        self._places = _places_in(self._text)
        table = read.get("permissions", {}) if isinstance(read, dict) else None
        if not isinstance(table, dict):
            self.faults.append(
                self._said(("",), 1, f"expected an object with permissions, got {show_value(read)}")
            )
            return PermissionsForm()
        for key in read:
            if key not in {"permissions", "$schema"}:
                self._note((key,), self._line(key), "is not read")
        for key in table:
            if key not in {*_LISTS, "defaultMode"}:
                self._note(("permissions", key), self._line(key), "is not read")
        lists: dict[str, Any] = {name: [] for name in _LISTS}
        for name in _LISTS:
            self._read_list(name, table.get(name, []), lists)
        for name, rules in lists.items():
            for at, (_, line) in enumerate(rules):
                self.lines["permissions", name, at] = line
        given = {name: tuple(rule for rule, _ in rules) or None for name, rules in lists.items()}
        return PermissionsForm(mode=self._mode(table), **given)

    def _mode(self, table: dict[str, Any]) -> Any:
        written = table.get("defaultMode")
        if written is None:
            return None
        self.lines["permissions", "mode"] = self._line("defaultMode")
        mode = CLAUDE_MODES.get(written) if isinstance(written, str) else None
        if mode is None:
            said = f"{show_value(written)} is refused: expected one of {', '.join(CLAUDE_MODES)}"
            self._note(("permissions", "defaultMode"), self._line("defaultMode"), said)
        return mode

    def _read_list(self, name: str, listed: object, lists: dict[str, Any]) -> None:
        self._seen = self._places.get(name, _AT_START)[0]
        if not isinstance(listed, list):
            said = f"expected a list of rules, got {show_value(listed)}"
            self.faults.append(self._said(("permissions", name), self._line(name), said))
            return
        for item in listed:
            line = self._next_line(item) if isinstance(item, str) else self._line(name)
            if not isinstance(item, str):
                self.faults.append(
                    self._said(("permissions", name), line, f"expected a rule, got {show_value(item)}")
                )
                continue
            for into, rule in self._rules(name, item, line):
                lists[into].append((rule, line))

    def _rules(self, name: str, written: str, line: int) -> Iterator[tuple[str, str]]:
        found = translate_tools((written.strip(),), pattern=self._pattern_for(name))
        if found.unknown:
            self._note(("permissions", name), line, f"{written!r:.120} is ignored: there is no such tool")
        for rule in found.rules:
            if rule == f"shell({_UNSAID})":
                if name == "allow":
                    said = f"{written!r:.120} is refused: a star in the middle matches nothing; write out the command"
                    self._note(("permissions", name), line, said)
                    continue
                said = f"{written!r:.120} cannot be expressed here: every command asks instead"
                self._note(("permissions", name), line, said)
                yield "ask", "shell"
            else:
                yield name, rule

    def _pattern_for(self, name: str) -> Callable[[str, str], str]:
        def pattern(tool: str, text: str) -> str:
            if tool == "shell":
                return _command(text) if name == "allow" else _wide_command(text)
            if tool in _PATH_TOOLS and name == "allow" and text.strip() == "*":
                return "./**"  # files below the directory there too, and not all calls of the tool
            if tool in _PATH_TOOLS and text.startswith("/") and not text.startswith("//"):
                return f"{'~' if self._scope == 'user' else '.'}{text}"
            return text

        return pattern

    def _line(self, written: str) -> int:
        return self._places.get(written, _AT_START)[0][1]

    def _next_line(self, written: str) -> int:
        """Return the line of the next rule. Rules of a list come one after another, below its key."""
        places = self._places[written]
        self._seen = places[bisect_right(places, self._seen)]
        return self._seen[1]

    def _note(self, path: ConfigPath, line: int, said: str) -> None:
        self.notes.append(self._said(path, line, said))

    def _said(self, path: ConfigPath, line: int, said: str) -> ConfigFault:
        return ConfigFault(place=ConfigPlace(file=self._file, path=path, lines={path: line}), said=said)


def _places_in(text: str) -> dict[str, list[tuple[int, int]]]:
    """Return where each text of a JSON document begins, as position and line. In one pass: looking for each of them takes quadratic time."""
    found: dict[str, list[tuple[int, int]]] = {}
    before, line = 0, 1
    for match in _JSON_TEXT.finditer(text):
        line += text.count("\n", before, match.start())
        before = match.start()
        found.setdefault(json.loads(match[0]), []).append((before, line))
    return found


_UNSAID: Final = "?"
"""A pattern that our rules cannot express."""


def _command(text: str) -> str:
    body = _body(text)
    return _UNSAID if "*" in body else text


def _wide_command(text: str) -> str:
    """Return a `deny` or `ask` pattern that matches at least as much."""
    body = _body(text)
    if "*" not in body:
        return text
    if body.endswith("*") and body.count("*") == 1 and not body.endswith((" *", "\t*")):
        return f"{body} *"  # `npm run test*`: that word, and any words after it
    before = body.partition("*")[0].rpartition(" ")[0].strip()
    return f"{before} *" if before else _UNSAID


def _body(text: str) -> str:
    body = text.strip()
    if body.endswith(":*"):
        return body[:-2]
    return body[:-1].rstrip() if body == "*" or body.endswith((" *", "\t*")) else text
