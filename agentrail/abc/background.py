"""Background commands of a session, with unread output and outcome."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import trio

from agentrail.core.values.terminal_text import PrintedText

MAX_BACKGROUND_COMMANDS: Final = 8
"""Maximum number of background commands per session."""

MAX_ENDED_COMMANDS: Final = 8
"""Maximum number of ended commands that are kept with their output. The oldest is dropped first."""

MAX_UNREAD_BYTES: Final = 50_000
"""Limit of unread output per command, in bytes. The oldest output is dropped first."""

_ID_CHARACTERS: Final = 8
_MAX_COMMAND_CHARACTERS: Final = 80


class BackgroundCommand:
    """A background command, running or ended.

    Attributes:
        id: Id for the model, never reused for another command of the session.
        command: The command line, shortened.
        scope: Cancel scope of its task. Cancelling it stops the command.
        how: How it ended, or None while it runs.
    """

    def __init__(self, command_id: str, command: str) -> None:
        line, _, more = command.strip().partition("\n")
        is_short = not more and len(line) <= _MAX_COMMAND_CHARACTERS
        self.id: str = command_id
        self.command: str = line if is_short else f"{line[:_MAX_COMMAND_CHARACTERS]} …"
        self.scope: trio.CancelScope = trio.CancelScope()
        self.how: str | None = None
        self._gone = trio.Event()
        self._began_at = trio.current_time()
        self._ended_at = 0.0
        self._text = PrintedText()
        self._unread = bytearray()
        self._dropped_bytes = 0

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.how is None

    def take(self, piece: bytes | bytearray) -> None:
        """Append output."""
        self._keep(self._text.read(bytes(piece)))

    def close(self, how: str) -> None:
        """Record how it ended. Only the first call counts."""
        if self.how is None:
            self._keep(self._text.finish())
            self.how, self._ended_at = how, trio.current_time()
            self._gone.set()

    async def wait_gone(self) -> None:
        """Wait until it has ended completely.

        Cancellation: Only the wait is cancelled.
        """
        await self._gone.wait()

    def read(self) -> str:
        """Return unread output and the status. The first line reports dropped output."""
        unread, dropped = bytes(self._unread), self._dropped_bytes
        self._unread.clear()
        self._dropped_bytes = 0
        surplus = max(len(unread) - MAX_UNREAD_BYTES, 0)
        parts: list[str] = []
        if dropped or surplus:
            begin = unread.find(b"\n", surplus) + 1
            if not 0 < begin < len(unread):  # there is no line start there
                begin = surplus
            dropped, unread = dropped + begin, unread[begin:]
            kept = f"only the last {MAX_UNREAD_BYTES:,} are kept until they are read"
            parts.append(f"[… {dropped:,} bytes left out: {kept} …]")
        text = unread.decode(errors="ignore").rstrip("\n")  # drops a character that was cut in two
        parts += [text] if text else []
        return "\n".join([*parts, self._standing(has_new=bool(parts))])

    def _standing(self, *, has_new: bool) -> str:
        until = trio.current_time() if self.how is None else self._ended_at
        new = "" if has_new else "nothing new · "
        return f"[{new}{self.how or 'still running'} · {until - self._began_at:.1f} s]"

    def _keep(self, text: str) -> None:
        self._unread += text.encode(errors="replace")
        if len(self._unread) > 2 * MAX_UNREAD_BYTES:  # rarely, so that each byte is moved at most once
            surplus = len(self._unread) - MAX_UNREAD_BYTES
            self._dropped_bytes += surplus
            del self._unread[:surplus]


_NO_COMMANDS: Final[Mapping[str, BackgroundCommand]] = MappingProxyType({})


class BackgroundCommands:
    """The background commands of one session."""

    # Slots, and no table before the first command: most sessions have none.
    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known = _NO_COMMANDS

    @property
    def running(self) -> tuple[BackgroundCommand, ...]:
        """Running commands, oldest first."""
        return tuple([one for one in self._known.values() if one.is_running])

    def begin(self, operation_id: str, command: str) -> BackgroundCommand | None:
        """Register another command. Call inside a Trio run.

        Args:
            operation_id: Id of the call that starts it. The command's id is derived from it.
            command: The command line.

        Returns:
            The command, or None if the maximum number is running.
        """
        if len(self.running) >= MAX_BACKGROUND_COMMANDS:
            return None
        made = BackgroundCommand(self._mint(operation_id), command)
        known = {**self._known, made.id: made}
        ended = [one for one in known.values() if not one.is_running]
        if len(ended) > MAX_ENDED_COMMANDS:
            del known[ended[0].id]
        self._known = known
        return made

    def forget(self, command: BackgroundCommand) -> None:
        """Remove a command that never started."""
        self._known = {name: one for name, one in self._known.items() if one is not command}

    def find(self, command_id: str) -> BackgroundCommand | None:
        """Return the command with this id, or None."""
        return self._known.get(command_id)

    def explain_unknown(self, command_id: str) -> str:
        """Return a message that names possible reasons and the known ids."""
        running = ", ".join([f"{one.id} ({one.command})" for one in self.running]) or "none"
        return f"No command {command_id!r:.80} is known here: it never started, it ended long ago, or a restart of the session stopped it with all other background commands. Running: {running}."

    def _mint(self, operation_id: str) -> str:
        name = begun = f"sh-{operation_id[:_ID_CHARACTERS]}"
        number = 1
        while name in self._known:
            number += 1
            name = f"{begun}-{number}"
        return name
