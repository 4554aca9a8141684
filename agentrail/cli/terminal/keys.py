"""What keys mean in a chat: plain functions. What a key does to the text itself is prompt_toolkit's."""

import enum
import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from attrs import define, field, frozen

from agentrail.events import Approval

DialogueChoice: TypeAlias = Literal["approve", "always", "reject", "edit"]
CtrlC: TypeAlias = Literal["clear", "abort", "warn", "leave", "leave_now"]

TWICE_WITHIN_SECONDS: Final = 2.0
"""Within which a second Ctrl-C leaves a chat that rests."""
MAX_PASTED_LINES: Final = 10
MAX_PASTED: Final = 2_000
"""Characters; what is pasted and longer stands in the line as a mark, and is put in its place when it is sent."""

_MARK: Final = re.compile(r"\[pasted text (\d+), [\d,]+ (?:lines|characters)\]")


def decide_ctrl_c(*, has_text: bool, is_idle: bool, is_stopping: bool, since_warned: float | None) -> CtrlC:
    """Say what Ctrl-C does: it clears the line, then stops the cycle, then, twice in a chat that rests, leaves."""
    if has_text:
        return "clear"
    if is_stopping:
        return "leave_now"
    if not is_idle:
        return "abort"
    return "leave" if since_warned is not None and since_warned <= TWICE_WITHIN_SECONDS else "warn"


class KeyPress(enum.Enum):
    """What can come in place of a line."""

    CTRL_C = "interrupt"
    CTRL_D = "end"  # the end of a pipe too
    HANG_UP = "hang up"  # the terminal is gone: what runs is left as it is, to be gone on with


@frozen(kw_only=True)
class SentLine:
    """What was sent with Enter.

    Attributes:
        is_pasted: Whether lines of it were pasted; then it is a prompt, whatever it begins with.
    """

    text: str
    is_pasted: bool = False


@define(eq=False)
class Pastes:
    """What was pasted into the line that is being typed."""

    _kept: list[str] = field(factory=list)
    _has_lines: bool = False

    def take(self, text: str) -> str:
        """Take what was pasted, and give what is to stand in the line for it."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        self._has_lines = self._has_lines or "\n" in text
        lines = text.count("\n") + 1
        if lines <= MAX_PASTED_LINES and len(text) <= MAX_PASTED:
            return text
        self._kept.append(text)
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        return f"[pasted text {len(self._kept)}, {size}]"

    def shown(self, typed: str) -> str:
        """Put what was pasted in the place of its marks, and go on."""

        def original(found: re.Match[str]) -> str:
            number = int(found[1])
            return self._kept[number - 1] if 1 <= number <= len(self._kept) else found[0]

        return _MARK.sub(original, typed) if self._kept else typed

    def note_lines(self) -> None:
        """Note that lines came as keys that no one can press so fast: a terminal without a bracketed paste."""
        self._has_lines = True

    def send(self, typed: str) -> SentLine:
        """Put what was pasted in its place, and begin anew; a mark that a person typed stays a mark."""
        text = self.shown(typed)
        sent = SentLine(text=text, is_pasted=self._has_lines and "\n" in text.strip())
        self.clear()
        return sent

    def clear(self) -> None:
        """Forget what was pasted: the line is empty."""
        self._kept, self._has_lines = [], False


BURST_QUIET_SECONDS: Final = 0.05
"""After which a paste without brackets is over."""
MIN_BURST: Final = 64
"""Keys that no one presses at once; fewer are a paste where a line's end is among them."""


@define(eq=False)
class Burst:
    """Keys that come faster than anyone presses them: the paste of a terminal that puts no brackets around it.

    They are held until nothing more comes, and are then one piece. Taken one by one, each would cost what all before it hold.
    """

    _held: list[str] = field(factory=list)

    @property
    def is_held(self) -> bool:
        """Whether there are some."""
        return bool(self._held)

    def takes(self, keys: Sequence[str | None]) -> bool:
        """Take keys that came at once, and say whether they are of a paste; else they are to be handled as ever."""
        if not keys or None in keys or not (self._held or _is_pasted(keys)):
            return False
        self._held += [key for key in keys if key is not None]
        return True

    def end(self) -> tuple[str, bool]:
        """Give what was pasted, and whether Enter was pressed behind it: one line with its end is what a program types."""
        text = "".join(self._held).replace("\r\n", "\n").replace("\r", "\n")
        self._held = []
        is_line = text.endswith("\n") and text.count("\n") == 1
        return (text[:-1], True) if is_line else (text, False)


def _is_pasted(keys: Sequence[str | None]) -> bool:
    return len(keys) >= MIN_BURST or any(key in {"\r", "\n"} for key in keys[:-1])


@frozen(kw_only=True)
class Chosen:
    """What a person chose of a call that waits.

    Attributes:
        words: Why not, or the other arguments as JSON.
    """

    choice: DialogueChoice
    approval: Approval
    words: str = ""
