r"""Reading one `SKILL.md` (Agent Skills with Claude Code's fields): its content, or all of its faults.

>>> read = read_skill("sums/SKILL.md", "sums", "---\nname: sums\ndescription: Adds up.\n---\nAdd them.")
>>> read.text.description, read.text.instructions
('Adds up.', 'Add them.')
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from attrs import define, field, frozen

from agentrail.config.front_matter import HeadFault, read_yaml_head
from agentrail.config.structure import show_value
from agentrail.config.toml_positions import ConfigFault, ConfigPath, ConfigPlace, TextFault
from agentrail.config.tool_names import ToolListFault, ToolRules, split_tools, translate_tools
from agentrail.frozen import EMPTY, frozen_json

MAX_SKILL_BYTES: Final = 64 * 1024
"""Size limit of a `SKILL.md`. Longer content belongs into additional files."""

MAX_DESCRIPTION: Final = 1_024
MAX_COMPATIBILITY: Final = 500
SKILL_NAME: Final = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(?:-[a-z0-9]+)*")

SkillDialect: TypeAlias = Literal["open", "claude"]
"""Which fields are read: those of the open format only, or also Claude Code's."""

_OPEN: Final = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
_CLAUDE: Final = frozenset(
    {
        "agent",
        "argument-hint",
        "context",
        "disable-model-invocation",
        "disallowed-tools",
        "user-invocable",
    }
)
_NOT_READ: Final = ("effort", "hooks", "model", "shell")
_FLAGS: Final[Mapping[str, bool]] = {
    "true": True,
    "yes": True,
    "on": True,
    "false": False,
    "no": False,
    "off": False,
}
_RUN_WHEN_EXPANDED: Final = re.compile(r"(?m)^[^\n]*?!`[^`\n]+`|^```!")
_NAMED: Final = "expected 1 to 64 of a-z 0-9 -, with no hyphen first, last, or twice in a row"


@frozen(kw_only=True)
class SkillText:
    name: str
    description: str
    instructions: str
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, Any] = field(default=EMPTY, converter=frozen_json)
    allowed: tuple[str, ...] | None = None
    disallowed: tuple[str, ...] = ()
    delegates: bool = False
    agent: str = ""
    argument_hint: str = ""
    for_model: bool = True
    for_user: bool = True
    others: Mapping[str, Any] = field(default=EMPTY, converter=frozen_json)


@frozen(kw_only=True)
class SkillReading:
    text: SkillText | None = None
    faults: tuple[ConfigFault, ...] = ()
    warnings: tuple[ConfigFault, ...] = ()


def read_skill(file: str, directory: str, text: str, *, dialect: SkillDialect = "open") -> SkillReading:
    try:
        head = read_yaml_head(text)
    except HeadFault as fault:
        return SkillReading(faults=(fault.in_file(file),))
    reader = _SkillReader(file, head.values, head.lines)
    for line in head.quoted:
        reader.warn_of_line(
            line, "this line is not YAML: it was read as if its value were quoted; add the quotes"
        )
    read = reader.skill(directory, head.body, dialect)
    reader.look_at_body(read.instructions, text)
    faults = tuple(sorted(reader.faults, key=_line_of))
    warnings = tuple(sorted(reader.warnings, key=_line_of))
    return SkillReading(text=None if faults else read, faults=faults, warnings=warnings)


def _line_of(fault: ConfigFault) -> int:
    return fault.place.line


@define
class _SkillReader:
    _file: str
    _values: dict[str, Any]
    _lines: Mapping[ConfigPath, int]
    faults: list[ConfigFault] = field(factory=list, init=False)
    warnings: list[ConfigFault] = field(factory=list, init=False)

    def skill(self, directory: str, body: str, dialect: SkillDialect) -> SkillText:
        is_claude = dialect == "claude"
        metadata = self._metadata()
        read = _OPEN | _CLAUDE if is_claude else _OPEN
        if is_claude:
            for name in _NOT_READ:
                if name in self._values:
                    self._warn(f"{name} is not read", name)
        return SkillText(
            name=self._name(directory, is_claude=is_claude),
            description=self._text("description", MAX_DESCRIPTION, is_needed=True),
            instructions=body,
            license=self._text("license"),
            compatibility=self._text("compatibility", MAX_COMPATIBILITY),
            metadata=metadata,
            allowed=self._allowed(),
            disallowed=self._tools("disallowed-tools").rules if is_claude else (),
            delegates=metadata.get("mode") == "delegate" or (is_claude and self._forks()),
            agent=self._agent() if is_claude else metadata.get("agent", "").strip(),
            argument_hint=self._hint() if is_claude else "",
            for_model=not (is_claude and self._flag("disable-model-invocation", usual=False)),
            for_user=not is_claude or self._flag("user-invocable", usual=True),
            others={name: value for name, value in self._values.items() if name not in read},
        )

    def look_at_body(self, body: str, text: str) -> None:
        if not body.strip():
            self.warn_of_line(1, "it has no instructions: write them below the front matter")
        found = _RUN_WHEN_EXPANDED.search(body)
        if found is not None:
            line = text.count("\n", 0, max(text.find(found[0]), 0)) + 1
            self.warn_of_line(line, "a command in the text is not run: the model reads it as text")

    def warn_of_line(self, line: int, said: str) -> None:
        self.warnings.append(TextFault(line, said).in_file(self._file))

    # --- fields

    def _name(self, directory: str, *, is_claude: bool) -> str:
        if is_claude and "name" not in self._values:
            if not SKILL_NAME.fullmatch(directory):
                self._fault(
                    f"has no name, and its directory's name is invalid: {_NAMED}, got {directory!r:.80}"
                )
            return directory
        name = self._text("name", is_needed=True)
        if name and not SKILL_NAME.fullmatch(name):
            self._fault(f"{_NAMED}, got {name!r:.80}", "name")
        elif name and name != directory:
            self._fault(f"expected the name of its directory, {directory!r:.80}, got {name!r:.80}", "name")
        return name

    def _text(self, name: str, most: int | None = None, *, is_needed: bool = False) -> str:
        value = self._values.get(name)
        if value is None:
            if is_needed:
                self._fault(f"has no {name}: write one")
            return ""
        if not isinstance(value, str):
            self._fault(f"expected a text, got {show_value(value)}", name)
            return ""
        found = value.strip()
        if is_needed and not found:
            self._fault(f"expected a {name}, got none", name)
        if most is not None and len(found) > most:
            self._fault(f"expected at most {most:,} characters, got {len(found):,}: make it shorter", name)
        return found

    def _metadata(self) -> dict[str, str]:
        value = self._values.get("metadata", {})
        if not isinstance(value, dict):
            if value != "":
                self._fault(f"expected a table of texts, got {show_value(value)}", "metadata")
            return {}
        for name, below in value.items():
            if not isinstance(below, str):
                self._fault(f"expected a text, got {show_value(below)}", "metadata", name)
        return {name: below for name, below in value.items() if isinstance(below, str)}

    def _allowed(self) -> tuple[str, ...] | None:
        if "allowed-tools" not in self._values:
            return None
        found = self._tools("allowed-tools")
        # Unknown names restrict nothing, even if there are no other names.
        return None if found.unknown and not found.rules else found.rules

    def _tools(self, name: str) -> ToolRules:
        value = self._values.get(name, "")
        listed: list[str] = []
        for place, item in enumerate([value] if isinstance(value, str) else value):
            if not isinstance(item, str) or isinstance(value, dict):
                self._fault(f"expected names of tools, got {show_value(item)}", name, place)
                continue
            try:
                listed += split_tools(item)
            except ToolListFault as fault:
                self._fault(f"{fault}, in {item!r:.120}", name, place)
        found = translate_tools(tuple(listed))
        for unknown in found.unknown:
            self._warn(f"there is no tool {unknown!r:.80} here: it is ignored", name)
        return found

    def _agent(self) -> str:
        name = self._text("agent")
        if name:
            self._warn(
                f"where a session has no agent {name!r:.80}, the general sub-agent follows it", "agent"
            )
        return name

    def _hint(self) -> str:
        value = self._values.get("argument-hint")
        # YAML parses `[file]` as a list, but it is meant literally.
        return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else self._text("argument-hint")

    def _forks(self) -> bool:
        value = self._text("context")
        if value not in {"", "fork"}:
            self._warn(f"context must be fork or omitted, got {value!r:.80}: it is ignored", "context")
        return value == "fork"

    def _flag(self, name: str, *, usual: bool) -> bool:
        value = self._text(name).lower()
        if value and value not in _FLAGS:
            self._fault(f"expected true or false, got {show_value(value)}", name)
        return _FLAGS.get(value, usual)

    def _fault(self, said: str, *path: str | int) -> None:
        self.faults.append(self._said(said, path))

    def _warn(self, said: str, *path: str | int) -> None:
        self.warnings.append(self._said(said, path))

    def _said(self, said: str, path: ConfigPath) -> ConfigFault:
        return ConfigFault(place=ConfigPlace(file=self._file, path=path, lines=self._lines), said=said)


def faulty(file: str, said: str) -> SkillReading:
    return SkillReading(faults=(ConfigFault(place=ConfigPlace(file=file), said=said),))
