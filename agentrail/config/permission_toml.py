"""Adds `allow` rules to a permissions file, keeping everything else."""

import re
from collections.abc import Sequence
from typing import Any, Final

from agentrail.config.toml_text import TomlFault, read_toml_text
from agentrail.errors import OptionError

_LIST: Final = re.compile(r"^[ \t]*allow[ \t]*=[ \t]*\[", re.MULTILINE)
_TABLE: Final = re.compile(r"^[ \t]*\[[ \t]*permissions[ \t]*\][ \t\r]*(?:#[^\n]*)?(?:\n|\Z)", re.MULTILINE)
_TOKEN: Final = re.compile(
    r"#[^\n]*|\"\"\".*?\"\"\"|'''.*?'''|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|(?P<comma>,)|(?P<end>\])", re.DOTALL
)


def permissions_in(tree: dict[str, Any]) -> dict[str, Any]:
    found: Any = tree.get("permissions", tree)
    return found if isinstance(found, dict) else {}


def with_allowed(text: str, rules: Sequence[str], *, name: str) -> str:
    before = _read(text, name)
    listed = permissions_in(before).get("allow", [])
    known = listed if isinstance(listed, list) else []
    new = [rule for rule in dict.fromkeys(rules) if rule not in known]
    if not new:
        return text
    made = _inserted(text, new, is_flat=bool(before) and "permissions" not in before)
    if not _says(made, before, [*known, *new]):
        raise OptionError(
            [f"{name}: its list `allow` cannot be edited here: add {', '.join(new)} to it yourself"]
        )
    return made


def _read(text: str, name: str) -> dict[str, Any]:
    try:
        return read_toml_text(text)[0]
    except TomlFault as fault:
        raise OptionError([f"{name}:{fault.line}: {fault.said}"]) from fault


def _inserted(text: str, rules: Sequence[str], *, is_flat: bool) -> str:
    lines = "".join(f"    {_quoted(rule)},\n" for rule in rules)
    begun = _LIST.search(text)
    if begun is not None:
        return _inserted_in(text, begun.end(), lines)
    table = _TABLE.search(text)
    if table is not None:
        head = text[: table.end()]
        return f"{head}{'' if head.endswith(chr(10)) else chr(10)}allow = [\n{lines}]\n{text[table.end() :]}"
    if is_flat:  # the lists are top-level keys of the file
        return f"allow = [\n{lines}]\n{text}"
    return (
        f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}[permissions]\nallow = [\n{lines}]\n"
    )


def _inserted_in(text: str, at: int, lines: str) -> str:
    end = next((token.start() for token in _TOKEN.finditer(text, at) if token["end"]), len(text))
    items = [token for token in _TOKEN.finditer(text, at, end) if not token[0].startswith("#")]
    needs_comma = bool(items) and not items[-1]["comma"]
    last = items[-1].end() if items else at
    head = f"{text[:last]}{',' if needs_comma else ''}{text[last:end]}".rstrip(" ")
    return f"{head}{'' if head.endswith(chr(10)) else chr(10)}{lines}{text[end:]}"


def _quoted(rule: str) -> str:
    plain = rule.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else f"\\U{ord(char):08X}" for char in plain) + '"'


def _says(text: str, before: dict[str, Any], allow: Sequence[str]) -> bool:
    try:
        after, _ = read_toml_text(text)
    except TomlFault:
        return False
    wanted = {**permissions_in(before), "allow": [*allow]}
    if "permissions" in after:
        return after == {
            **{key: one for key, one in before.items() if key != "permissions"},
            "permissions": wanted,
        }
    return after == wanted
