"""The small dialogue about a pending call: its rows and its keys. Keys in, a choice out."""

import json
from collections.abc import Sequence
from typing import Final

from attrs import evolve, frozen

from agentrail.cli.terminal.diffs import diff_of_call, style_of_line
from agentrail.cli.terminal.key_bindings import DialogueChoice
from agentrail.cli.terminal.styles import MIN_WIDTH, Ink, Rows, draw_line, draw_text
from agentrail.events import Approval, PermissionOption
from agentrail.messages import JsonObject, JsonValue

_ORDER: Final[tuple[DialogueChoice, ...]] = ("approve", "always", "reject", "edit")
_KEYS: Final[dict[str, DialogueChoice]] = {"y": "approve", "a": "always", "n": "reject", "e": "edit"}
_INDENT: Final = "    "
_MAX_RULE_ROWS: Final = 6


@frozen(kw_only=True)
class Dialogue:
    """The dialogue about pending calls.

    Attributes:
        waiting: The pending calls, the oldest first. The first is shown.
        chosen: The index of the marked choice, from 0.
    """

    waiting: tuple[Approval, ...]
    rules: tuple[tuple[str, tuple[str, ...]], ...] = ()
    chosen: int = 0

    @property
    def approval(self) -> Approval:
        return self.waiting[0]

    @property
    def choices(self) -> tuple[DialogueChoice, ...]:
        """The choices of the call, in a fixed order."""
        offered: tuple[PermissionOption, ...] = self.approval.permission_options
        # A rule to save is another way to offer "always".
        has_rule = bool(dict(self.rules).get(self.approval.id))
        return tuple(one for one in _ORDER if one in offered or (one == "always" and has_rule))

    def moved(self, by: int) -> "Dialogue":
        return evolve(self, chosen=(self.chosen + by) % len(self.choices)) if self.choices else self

    def chosen_by(self, key: str) -> DialogueChoice | None:
        """Return the choice of a key: a number, a letter, or `enter` for the marked one. None for any other key."""
        choices = self.choices
        if key == "enter":
            return choices[self.chosen % len(choices)] if choices else None
        if key.isascii() and key.isdecimal():
            return choices[int(key) - 1] if 1 <= int(key) <= len(choices) else None
        found = _KEYS.get(key.lower())
        return found if found in choices else None

    def without(self, approval: Approval) -> "Dialogue | None":
        """Remove a decided call. Return None if none is left."""
        left = tuple(one for one in self.waiting if one.id != approval.id)
        return evolve(self, waiting=left, chosen=0) if left else None


def draw_dialogue(dialogue: Dialogue, ink: Ink, height: int) -> Rows:
    approval = dialogue.approval
    more = f"  (1 of {len(dialogue.waiting)})" if len(dialogue.waiting) > 1 else ""
    diff = diff_of_call(approval.tool, approval.arguments)
    named = f" {approval.arguments.get('path', '')}" if diff else ""
    head = draw_line((("? ", "asks"), (f"may {approval.tool}{named} run?", "bold"), (more, "dim")), ink)
    hint = [draw_line(((f"  {approval.hint}", "dim"),), ink)] if approval.hint else []
    choices = [
        row
        for place, choice in enumerate(dialogue.choices)
        for row in _choice_rows(dialogue, place, choice, ink)
    ]
    room = max(height - 1 - len(hint) - len(choices), 1)
    return (head, *_call_rows(approval.arguments, diff, ink, room), *hint, *choices)


def _call_rows(arguments: JsonObject, diff: Sequence[str], ink: Ink, room: int) -> Rows:
    """Draw all arguments, or a diff and the others, in full and wrapped, because users approve what they read.

    Without room, show how many rows are hidden.
    """
    shown = [
        (f"{name}={json.dumps(value, ensure_ascii=False, default=dict)}", "")
        for name, value in arguments.items()
        if not (diff and _is_told(name, value, ink))
    ]
    shown += map(style_of_line, diff[:room])
    narrow = evolve(ink, width=max(ink.width - len(_INDENT) - 1, MIN_WIDTH))
    rows = [f"{_INDENT}{row}" for text, style in shown for row in draw_text(_visible(text), narrow, style)]
    hidden = max(len(diff) - room, 0)
    if len(rows) + hidden <= room:
        return tuple(rows)
    hidden += len(rows) - room + 1
    return (
        *rows[: room - 1],
        draw_line(((f"{_INDENT}… {hidden} more rows: e shows them all", "asks"),), ink),
    )


def _visible(text: str) -> str:
    """Escape characters that would hide or reorder the text around them."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in text)


def _is_told(name: str, value: JsonValue, ink: Ink) -> bool:
    """Whether the diff or the question shows an argument, or its value changes nothing."""
    fits = isinstance(value, str) and value.isprintable() and len(value) <= ink.width // 2
    return name in {"old_string", "new_string", "content"} or value is False or (name == "path" and fits)


def _choice_rows(dialogue: Dialogue, place: int, choice: DialogueChoice, ink: Ink) -> Rows:
    words = _words_of(dialogue, choice)
    is_marked = place == dialogue.chosen % len(dialogue.choices)
    key = next(key for key, one in _KEYS.items() if one == choice)
    narrow = evolve(ink, width=max(ink.width - len(" ▸ 1 ") - len("    a"), MIN_WIDTH))
    first, *rest = draw_text(words, narrow)  # wrapped, because a truncated rule would be misleading
    cut = [f"… {len(rest) - _MAX_RULE_ROWS} more rows"] if len(rest) > _MAX_RULE_ROWS else []
    head = draw_line(
        (
            (" ▸ " if is_marked else "   ", "asks"),
            (f"{place + 1} {first.rstrip()}", "bold" if is_marked else ""),
            (f"  {key}", "dim"),
        ),
        ink,
    )
    return (head, *(f"{_INDENT} {row}" for row in (*rest[:_MAX_RULE_ROWS], *cut)))


def _words_of(dialogue: Dialogue, choice: DialogueChoice) -> str:
    match choice:
        case "approve":
            return "yes, this once"
        case "always":
            # Imported here, because it needs the core, unlike the rest of the editor.
            from agentrail.cli.always_text import words_of_always

            return words_of_always(dialogue.approval, dict(dialogue.rules).get(dialogue.approval.id, ()))
        case "reject":
            return "no, and say why"
        case "edit":
            return "edit the arguments"
