"""What keys mean in a chat: plain functions. What a key does to the text itself is prompt_toolkit's."""

import enum
import re
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
    """Say what Ctrl-C does: it clears the line, then stops the cycle, then, twice in a chat that rests, leaves.

    Args:
        has_text: Whether something was typed and not sent.
        is_idle: Whether no cycle runs.
        is_stopping: Whether the one that runs is being stopped.
        since_warned: Seconds since it was said that a second one leaves; None where it was not.
    """
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
        text: All of it.
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

    def note_lines(self) -> None:
        """Note that lines came as keys that no one can press so fast: a terminal without a bracketed paste."""
        self._has_lines = True

    def send(self, typed: str) -> SentLine:
        """Put what was pasted in its place, and begin anew; a mark that a person typed stays a mark."""

        def original(found: re.Match[str]) -> str:
            number = int(found[1])
            return self._kept[number - 1] if 1 <= number <= len(self._kept) else found[0]

        text = _MARK.sub(original, typed) if self._kept else typed
        sent = SentLine(text=text, is_pasted=self._has_lines and "\n" in text.strip())
        self.clear()
        return sent

    def clear(self) -> None:
        """Forget what was pasted: the line is empty."""
        self._kept, self._has_lines = [], False


@frozen(kw_only=True)
class Chosen:
    """What a person chose of a call that waits.

    Attributes:
        choice: What is to become of it.
        approval: The call.
        words: Why not, or the other arguments as JSON.
    """

    choice: DialogueChoice
    approval: Approval
    words: str = ""
