"""Reading one file: a form without faulty values, the line of each value, and all faults."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from attrs import evolve, field, frozen

from agentrail.config.front_matter import HeadFault, read_yaml_head
from agentrail.config.imported_commands import ImportedCommand
from agentrail.config.key_filter import looks_like_key, names_secret
from agentrail.config.schema import FORMAT_VERSION, FileForm
from agentrail.config.structure import show_value, structure_file
from agentrail.config.toml_positions import ConfigFault, ConfigPath, ConfigPlace, TextFault
from agentrail.config.toml_text import TomlFault, read_toml_text

Scope: TypeAlias = Literal["project", "user"]

MAX_CONFIG_BYTES: Final = 256 * 1024
"""Size limit of one file. A hundred agents with five hundred rules take forty thousand bytes."""

AGENT_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

_KEY_LITERAL: Final = (
    'this looks like a key: write { env = "NAME" } and set that variable, or { file = "path" }; '
    "replace the key if others could read this file"
)


@frozen(kw_only=True)
class ConfigFile:
    name: str
    folder: str = ""
    scope: Scope = "project"
    form: FileForm = field(factory=FileForm)
    command: ImportedCommand | None = None
    lines: Mapping[ConfigPath, int] = field(factory=dict, repr=False)
    faults: tuple[ConfigFault, ...] = ()
    notes: tuple[ConfigFault, ...] = ()

    def place(self, *path: str | int) -> ConfigPlace:
        return ConfigPlace(file=self.name, path=path, lines=self.lines)


def decode_file(name: str, data: bytes) -> tuple[str, tuple[ConfigFault, ...]]:
    if len(data) > MAX_CONFIG_BYTES:
        said = f"expected at most {MAX_CONFIG_BYTES // 1024} KiB: make it shorter"
        return "", (TextFault(1, said).in_file(name),)
    try:
        return data.decode("utf-8-sig"), ()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return "", (TextFault(line, "expected UTF-8: save the file as UTF-8").in_file(name),)


def read_permissions(name: str, text: str, *, scope: Scope = "project", folder: str = "") -> ConfigFile:
    return read_toml(name, text, scope=scope, folder=folder, is_policy=True)


def read_toml(
    name: str, text: str, *, scope: Scope = "project", folder: str = "", is_policy: bool = False
) -> ConfigFile:
    made = ConfigFile(name=name, scope=scope, folder=folder)
    try:
        tree, lines = read_toml_text(text)
    except TomlFault as fault:
        return _only(made, fault.in_file(name))
    if not is_policy:
        return checked_file(made, tree, lines, only_texts=False)
    if not isinstance(tree.get("permissions"), dict):
        tree = {"permissions": tree}
        lines = {("permissions", *path): line for path, line in lines.items()} | {("permissions",): 1}
    others = [key for key in tree if key not in {"permissions", "version"}]
    if others:
        place = ConfigPlace(file=name, path=(others[0],), lines=lines)
        said = "this file is for permissions only: move this key to agentrail.toml"
        return _only(made, ConfigFault(place=place, said=said))
    return checked_file(made, tree, lines, only_texts=False)


def read_agent(name: str, agent: str, text: str, *, scope: Scope = "project", folder: str = "") -> ConfigFile:
    made = ConfigFile(name=name, scope=scope, folder=folder)
    try:
        head = read_yaml_head(text)
    except HeadFault as fault:
        return _only(made, fault.in_file(name))
    lines: dict[ConfigPath, int] = {("agents", agent, *path): line for path, line in head.lines.items()}
    lines["agents", agent] = 1
    values, body = head.values, head.body
    if "prompt" in values and body:
        place = ConfigPlace(file=name, path=("agents", agent, "prompt"), lines=lines)
        return _only(made, ConfigFault(place=place, said=_TWO_PROMPTS))
    if body:
        values["prompt"] = body
        lines["agents", agent, "prompt"] = text.count("\n", 0, text.rfind(body.split("\n", 1)[0])) + 1
    return checked_file(made, {"agents": {agent: values}}, lines, only_texts=True)


_TWO_PROMPTS: Final = "there are two prompts, this one and the text below the front matter: remove one"


# --- faults, and the remaining values


def checked_file(
    made: ConfigFile, tree: Mapping[str, Any], lines: Mapping[ConfigPath, int], *, only_texts: bool
) -> ConfigFile:
    found: list[tuple[ConfigPath, str]] = [*_keys_in(tree, ())]
    where = lines
    left, lines = _without(tree, lines, frozenset(path for path, _ in found))
    faults = [
        ConfigFault(place=ConfigPlace(file=made.name, path=path, lines=where), said=said)
        for path, said in found
    ]
    form: FileForm | None = None
    while form is None:  # each round removes the faulty values, so the loop ends
        form, wrong = structure_file(left, only_texts=only_texts)
        faults += [
            ConfigFault(place=ConfigPlace(file=made.name, path=path, lines=lines), said=said)
            for path, said in wrong
        ]
        left, lines = _without(
            left, lines, frozenset(path if path in lines else path[:-1] for path, _ in wrong)
        )
    kept = evolve(made, form=form, lines=lines)
    faults += _faults_of_form(kept)
    return evolve(kept, faults=tuple(sorted(faults, key=lambda fault: fault.place.line)))


def _keys_in(value: object, path: ConfigPath) -> Iterator[tuple[ConfigPath, str]]:
    """Find texts that look like keys, and texts under names of secrets."""
    match value:
        case dict():
            for name, below in value.items():
                if looks_like_key(name) or (isinstance(below, str) and below and names_secret(name)):
                    yield (*path, name), _KEY_LITERAL
                else:
                    yield from _keys_in(below, (*path, name))
        case list():
            for place, below in enumerate(value):
                yield from _keys_in(below, (*path, place))
        case str() if looks_like_key(value):
            yield path, _KEY_LITERAL
        case _:
            pass


def _without(
    tree: Mapping[str, Any], lines: Mapping[ConfigPath, int], faulty: frozenset[ConfigPath]
) -> tuple[dict[str, Any], dict[ConfigPath, int]]:
    """Remove faulty values. Later items of a list move up with their lines."""
    kept_lines: dict[ConfigPath, int] = {}

    def keep(value: Any, old: ConfigPath, new: ConfigPath) -> Any:
        if old in lines:
            kept_lines[new] = lines[old]
        match value:
            case dict():
                return {
                    name: keep(below, (*old, name), (*new, name))
                    for name, below in value.items()
                    if (*old, name) not in faulty
                }
            case list():
                left = [place for place in range(len(value)) if (*old, place) not in faulty]
                return [keep(value[place], (*old, place), (*new, at)) for at, place in enumerate(left)]
            case _:
                return value

    if not faulty:
        return dict(tree), dict(lines)
    return keep(tree, (), ()), kept_lines


def _faults_of_form(read: ConfigFile) -> Iterator[ConfigFault]:
    version = read.form.version
    if version is not None and version != FORMAT_VERSION:
        said = f"expected {FORMAT_VERSION}, the only supported version, got {show_value(version)}"
        yield ConfigFault(place=read.place("version"), said=said)
    for name in read.form.agents:
        if not AGENT_NAME.fullmatch(name):
            said = "expected a name of 1 to 64 of A-Z a-z 0-9 _ -"
            yield ConfigFault(place=read.place("agents", name), said=said)

    listed = read.form.mcp.get("import", [])
    for path in listed if isinstance(listed, list) else [listed]:
        if not stays_below(path):
            said = f'expected files below the directory, such as [".mcp.json"], got {show_value(path)}'
            yield ConfigFault(place=read.place("mcp", "import"), said=said)


def stays_below(path: object) -> bool:
    """Return whether a value is the relative path of a file below its directory."""
    return isinstance(path, str) and path[:1] not in {"", "/", "~"} and ".." not in path.split("/")


def _only(made: ConfigFile, fault: ConfigFault) -> ConfigFile:
    return evolve(made, faults=(fault,))
