"""The meaning of keys in a chat, as pure functions. prompt_toolkit edits the text itself."""

import enum
import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from attrs import define, field, frozen

from agentrail.events import Approval

DialogueChoice: TypeAlias = Literal["approve", "always", "reject", "edit"]
CtrlC: TypeAlias = Literal["clear", "abort", "warn", "leave", "leave_now"]

TWICE_WITHIN_SECONDS: Final = 2.0
"""Time within which a second Ctrl-C leaves an idle chat, in seconds."""
MAX_PASTED_LINES: Final = 10
MAX_PASTED: Final = 2_000
"""Maximum characters. A longer paste is shown as a mark, which is replaced when the line is sent."""

_MARK: Final = re.compile(r"\[pasted text (\d+), [\d,]+ (?:lines|characters)\]")


def decide_ctrl_c(*, has_text: bool, is_idle: bool, is_stopping: bool, since_warned: float | None) -> CtrlC:
    """Return the effect of Ctrl-C: clear the line, then stop the cycle, then, pressed twice in an idle chat, leave."""
    if has_text:
        return "clear"
    if is_stopping:
        return "leave_now"
    if not is_idle:
        return "abort"
    return "leave" if since_warned is not None and since_warned <= TWICE_WITHIN_SECONDS else "warn"


class KeyPress(enum.Enum):
    CTRL_C = "interrupt"
    CTRL_D = "end"  # also the end of a pipe
    HANG_UP = "hang up"  # the terminal was closed: running work is left as it is, to be resumed


@frozen(kw_only=True)
class SentLine:
    text: str
    is_pasted: bool = False


@define(eq=False)
class Pastes:
    _kept: list[str] = field(factory=list)
    _has_lines: bool = False

    def take(self, text: str) -> str:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        self._has_lines = self._has_lines or "\n" in text
        lines = text.count("\n") + 1
        if lines <= MAX_PASTED_LINES and len(text) <= MAX_PASTED:
            return text
        self._kept.append(text)
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        return f"[pasted text {len(self._kept)}, {size}]"

    def shown(self, typed: str) -> str:
        def original(found: re.Match[str]) -> str:
            number = int(found[1])
            return self._kept[number - 1] if 1 <= number <= len(self._kept) else found[0]

        return _MARK.sub(original, typed) if self._kept else typed

    def note_lines(self) -> None:
        """Record that lines arrived faster than typing: a paste from a terminal without bracketed paste."""
        self._has_lines = True

    def send(self, typed: str) -> SentLine:
        """Replace the marks by their pastes and reset. A mark that the user typed stays a mark."""
        text = self.shown(typed)
        sent = SentLine(text=text, is_pasted=self._has_lines and "\n" in text.strip())
        self.clear()
        return sent

    def clear(self) -> None:
        """Discard the pastes: the line is empty."""
        self._kept, self._has_lines = [], False


BURST_QUIET_SECONDS: Final = 0.05
"""Quiet time after which a paste without brackets is over, in seconds."""
MIN_BURST: Final = 64
"""Number of simultaneous keys that counts as a paste. Fewer do if they include a line break."""


@define(eq=False)
class Burst:
    """Keys that arrive faster than typing: a paste from a terminal without bracketed paste."""

    _held: list[str] = field(factory=list)

    @property
    def is_held(self) -> bool:
        return bool(self._held)

    def takes(self, keys: Sequence[str | None]) -> bool:
        """Hold simultaneous keys if they belong to a paste. Return False if they are to be handled normally."""
        is_pasted = len(keys) >= MIN_BURST or any(key in {"\r", "\n"} for key in keys[:-1])
        if not keys or None in keys or not (self._held or is_pasted):
            return False
        self._held += [key for key in keys if key is not None]
        return True

    def end(self) -> tuple[str, bool]:
        """Return the paste, and whether to press Enter after it: a program types a single line with its line break."""
        text = "".join(self._held).replace("\r\n", "\n").replace("\r", "\n")
        self._held = []
        is_line = text.endswith("\n") and text.count("\n") == 1
        return (text[:-1], True) if is_line else (text, False)


@frozen(kw_only=True)
class Chosen:
    choice: DialogueChoice
    approval: Approval
    words: str = ""
