"""Agents of other programs: `.claude/agents/*.md` and `.codex/agents/*.toml`, as `ConfigFile`s. Unread fields are noted once."""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from attrs import define, field

from agentrail.config.config_file import AGENT_NAME, ConfigFile, Scope
from agentrail.config.front_matter import HeadFault, read_yaml_head
from agentrail.config.schema import AgentForm, FileForm, PermissionsForm, PromptForm
from agentrail.config.structure import show_value
from agentrail.config.toml_positions import ConfigFault, ConfigPath, ConfigPlace
from agentrail.config.toml_text import TomlFault, read_toml_text
from agentrail.config.tool_names import ToolListFault, split_tools, translate_tools

CLAUDE_MODES: Final[Mapping[str, Any]] = {
    "default": "default",
    "acceptEdits": "accept_edits",
    "plan": "plan",
    "dontAsk": "dont_ask",
}
"""Modes of Claude Code and ours. A missing mode allows more than a file of another program may allow."""

_PLACE_OF_VALUE: Final = re.compile(r"\$\$?\{[A-Za-z_][A-Za-z0-9_]{0,63}\}")
_MAX_TURNS: Final = 1_000_000
_CLAUDE: Final = (
    *("name", "description", "tools", "disallowedTools", "model", "maxTurns", "skills", "permissionMode"),
    "background",
)
_CODEX: Final = ("name", "description", "developer_instructions", "model", "sandbox_mode")


def read_claude_agent(  # noqa: PLR0913 - by keyword
    file: str,
    text: str,
    *,
    models: Mapping[str, str],
    tools: Collection[str],
    scope: Scope = "project",
    folder: str = "",
) -> ConfigFile:
    try:
        head = read_yaml_head(text)
    except HeadFault as fault:
        return ConfigFile(name=file, scope=scope, folder=folder, faults=(fault.in_file(file),))
    reader = _AgentReader(file, head.values, head.lines, models)
    name = reader.name()
    given = _tools_of_claude(reader, tools)
    return reader.file(
        name,
        scope,
        folder,
        known=_CLAUDE,
        description=reader.description(),
        prompt=PromptForm(text=literal_prompt(head.body)) if head.body else None,
        model=reader.model(),
        max_turns=reader.whole("maxTurns"),
        skills_in_prompt=reader.names("skills") or None,
        background=reader.flag("background"),
        **given,
    )


def _tools_of_claude(reader: "_AgentReader", tools: Collection[str]) -> dict[str, Any]:
    agents: list[str] = []
    allowed: list[str] = []
    for rule in reader.names("tools"):
        name, _, pattern = rule.partition("(")
        names = translate_tools((rule if name not in {"Agent", "Task"} else name,)).rules
        if pattern and names == ("task",):
            agents += [one.strip() for one in pattern.removesuffix(")").split(",")]
        elif pattern or any(one not in tools for one in names) or not names:
            reader.note("tools", f"{rule} is ignored: there is no such built-in tool")
            continue
        allowed += names
    disallowed = translate_tools(reader.names("disallowedTools"))
    denied = disallowed.rules
    for rule in disallowed.unknown:
        reader.note("disallowedTools", f"{rule} is ignored: there is no such built-in tool")
    mode = reader.mode()
    has_tools = "tools" in reader.values
    bare = [one for one in denied if "(" not in one]
    # Denied tools are removed from a list of tools. If all tools are inherited, a deny rule removes them, as
    # a pattern always does.
    rules = denied if not has_tools else tuple(one for one in denied if "(" in one)
    policy = PermissionsForm(mode=mode, deny=rules or None)
    return {
        "tools": tuple(dict.fromkeys(one for one in allowed if one not in bare)) if has_tools else None,
        "agents": tuple(dict.fromkeys(agents)) or None,
        "permissions": None if policy == PermissionsForm() else policy,
    }


def read_codex_agent(
    file: str, text: str, *, models: Mapping[str, str], scope: Scope = "project", folder: str = ""
) -> ConfigFile:
    try:
        values, lines = read_toml_text(text)
    except TomlFault as fault:
        return ConfigFile(name=file, scope=scope, folder=folder, faults=(fault.in_file(file),))
    reader = _AgentReader(file, values, lines, models)
    sandbox = reader.text("sandbox_mode")
    policy = None
    if sandbox == "read-only":  # same as `plan`, without a way to leave it
        policy = PermissionsForm(mode="plan", deny=("exit_plan",))
    elif sandbox:
        reader.note("sandbox_mode", f"{sandbox!r:.80} is ignored: only read-only is supported")
    instructions = reader.text("developer_instructions", is_needed=True).strip("\n")
    return reader.file(
        reader.name(),
        scope,
        folder,
        known=_CODEX,
        description=reader.description(),
        prompt=PromptForm(text=literal_prompt(instructions)) if instructions else None,
        model=reader.model(),
        permissions=policy,
    )


def literal_prompt(text: str) -> str:
    """Escape `${HOME}`, which other programs do not expand in prompts."""
    return _PLACE_OF_VALUE.sub(lambda found: f"${found[0]}", text)


@define
class _AgentReader:
    _file: str
    values: Mapping[str, Any]
    _lines: Mapping[ConfigPath, int]
    _models: Mapping[str, str]
    _faults: list[ConfigFault] = field(factory=list, init=False)
    _notes: list[ConfigFault] = field(factory=list, init=False)

    def file(
        self, name: str, scope: Scope, folder: str, *, known: Collection[str], **fields: Any
    ) -> ConfigFile:
        for key in self.values:
            if key not in known:
                self.note(key, "is not read")
        lines: dict[ConfigPath, int] = {
            ("agents", name, field): next((self._lines[(one,)] for one in path if (one,) in self._lines), 1)
            for field, path in _PLACES.items()
        }
        form = FileForm() if self._faults else FileForm(agents={name: AgentForm(**fields)})
        return ConfigFile(
            name=self._file,
            folder=folder,
            scope=scope,
            form=form,
            lines={**lines, ("agents", name): 1},
            faults=tuple(sorted(self._faults, key=lambda one: one.place.line)),
            notes=tuple(sorted(self._notes, key=lambda one: one.place.line)),
        )

    def name(self) -> str:
        name = self.text("name", is_needed=True).strip()
        if name and not AGENT_NAME.fullmatch(name):
            self._fault("name", f"expected a name of 1 to 64 of A-Z a-z 0-9 _ -, got {name!r:.80}")
        return name

    def description(self) -> str:
        return self.text("description", is_needed=True).strip()

    def text(self, key: str, *, is_needed: bool = False) -> str:
        value = self.values.get(key)
        if isinstance(value, str) and (value.strip() or not is_needed):
            return value
        if value is not None or is_needed:
            self._fault(key, f"expected a text, got {'nothing' if value is None else show_value(value)}")
        return ""

    def names(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key)
        listed = value if isinstance(value, list) else [] if value is None else [value]
        found: list[str] = []
        for item in listed:
            try:
                if not isinstance(item, str):
                    self._fault(key, f"expected names, got {show_value(item)}")
                    continue
                found += split_tools(item)
            except ToolListFault as fault:
                self._fault(key, f"{fault}, in {item!r:.120}")
        return tuple(dict.fromkeys(found))

    def model(self) -> str | None:
        written = self.text("model").strip()
        if not written or written == "inherit":
            return None
        if written in self._models or ":" in written:
            return self._models.get(written, written)
        self.note("model", f"{written!r:.80} is ignored: map it to a model in [models]")
        return None

    def whole(self, key: str) -> int | None:
        written = self.text(key).strip()
        if not written:
            return None
        if not written.isascii() or not written.isdigit() or not 0 < int(written[:20]) <= _MAX_TURNS:
            self._fault(key, f"expected a whole number >= 1, got {written!r:.80}")
            return None
        return int(written)

    def flag(self, key: str) -> bool | None:
        written = self.text(key).strip().lower()
        if written not in {"", "true", "false"}:
            self._fault(key, f"expected true or false, got {written!r:.80}")
        return None if not written else written == "true"

    def mode(self) -> Any:
        written = self.text("permissionMode").strip()
        if written and written not in CLAUDE_MODES:
            self.note(
                "permissionMode", f"{written!r:.80} is refused: expected one of {', '.join(CLAUDE_MODES)}"
            )
        return CLAUDE_MODES.get(written)

    def note(self, key: str, said: str) -> None:
        self._notes.append(self._said(key, said))

    def _fault(self, key: str, said: str) -> None:
        self._faults.append(self._said(key, said))

    def _said(self, key: str, said: str) -> ConfigFault:
        return ConfigFault(place=ConfigPlace(file=self._file, path=(key,), lines=self._lines), said=said)


_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "agents": ("tools",),
    "background": ("background",),
    "description": ("description",),
    "max_turns": ("maxTurns",),
    "model": ("model",),
    "permissions": ("permissionMode", "disallowedTools", "sandbox_mode"),
    "prompt": ("developer_instructions",),
    "skills_in_prompt": ("skills",),
    "tools": ("tools",),
}
"""Source keys of each of our fields."""
