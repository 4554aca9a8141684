"""The commands that run in the background for one session: what each has printed and no one has read, and how it ended.

Kept by what runs the calls of the session, for as long as that lives: a restart of the session ends its commands, and here it begins
with none. No process enters this file; who follows one puts in what it prints.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import trio

from agentrail.core.values.printed import PrintedText

MAX_BACKGROUND_COMMANDS: Final = 8
"""How many commands may run in the background of a session."""

MAX_ENDED_COMMANDS: Final = 8
"""How many that have ended are remembered with what they printed; the oldest is forgotten first."""

MAX_UNREAD_BYTES: Final = 50_000
"""How much of what a command printed is kept until it is read; the oldest goes first."""

_ID_CHARACTERS: Final = 8
_MAX_COMMAND_CHARACTERS: Final = 80


class BackgroundCommand:
    """A command that runs in the background, or did.

    Attributes:
        id: What the model knows it by; no other command of the session was ever given it.
        command: What runs, shortened.
        scope: Of what follows it; cancelled, the command is stopped.
        how: How it ended; None while it runs.
    """

    def __init__(self, command_id: str, command: str) -> None:
        """Begin with nothing printed; inside of a Trio run."""
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
        """Take what it printed."""
        self._keep(self._text.read(bytes(piece)))

    def close(self, how: str) -> None:
        """Note that nothing of it is left, and how it ended; the first word counts."""
        if self.how is None:
            self._keep(self._text.finish())
            self.how, self._ended_at = how, trio.current_time()
            self._gone.set()

    async def wait_gone(self) -> None:
        """Wait until nothing of it is left.

        Cancellation: Only the waiting ends.
        """
        await self._gone.wait()

    def read(self) -> str:
        """Give what it printed since the last time, and how it stands. Of more than is kept a first line says how much is missing."""
        unread, dropped = bytes(self._unread), self._dropped_bytes
        self._unread.clear()
        self._dropped_bytes = 0
        surplus = max(len(unread) - MAX_UNREAD_BYTES, 0)
        parts: list[str] = []
        if dropped or surplus:
            begin = unread.find(b"\n", surplus) + 1
            if not 0 < begin < len(unread):  # no whole line begins there
                begin = surplus
            dropped, unread = dropped + begin, unread[begin:]
            kept = f"only the last {MAX_UNREAD_BYTES:,} are kept until they are read"
            parts.append(f"[… {dropped:,} bytes left out: {kept} …]")
        text = unread.decode(errors="ignore").rstrip("\n")  # of a character that was cut in two half is left
        parts += [text] if text else []
        return "\n".join([*parts, self._standing(has_new=bool(parts))])

    def _standing(self, *, has_new: bool) -> str:
        until = trio.current_time() if self.how is None else self._ended_at
        new = "" if has_new else "nothing new · "
        return f"[{new}{self.how or 'still running'} · {until - self._began_at:.1f} s]"

    def _keep(self, text: str) -> None:
        self._unread += text.encode(errors="replace")
        if len(self._unread) > 2 * MAX_UNREAD_BYTES:  # seldom, so that each byte is moved once at most
            surplus = len(self._unread) - MAX_UNREAD_BYTES
            self._dropped_bytes += surplus
            del self._unread[:surplus]


_NO_COMMANDS: Final[Mapping[str, BackgroundCommand]] = MappingProxyType({})


class BackgroundCommands:
    """Those of one session."""

    # Slots, and no table before the first command: most sessions have none.
    __slots__ = ("_known",)

    def __init__(self) -> None:
        """Begin with none."""
        self._known = _NO_COMMANDS

    @property
    def running(self) -> tuple[BackgroundCommand, ...]:
        """Those that have not ended, oldest first."""
        return tuple([one for one in self._known.values() if one.is_running])

    def begin(self, operation_id: str, command: str) -> BackgroundCommand | None:
        """Make room for another command; inside of a Trio run.

        Args:
            operation_id: Of the call that begins it, from which it has its id: the session minted that once.
            command: What will run.

        Returns:
            The command; None where as many run as may.
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
        """Take back a command that never began."""
        self._known = {name: one for name, one in self._known.items() if one is not command}

    def find(self, command_id: str) -> BackgroundCommand | None:
        """Find one by its id."""
        return self._known.get(command_id)

    def explain_unknown(self, command_id: str) -> str:
        """Say that there is no command of this id, why that may be, and which ones there are."""
        running = ", ".join([f"{one.id} ({one.command})" for one in self.running]) or "none"
        return (
            f"No command {command_id!r:.80} is known here: it was never begun, it ended long ago, or it was stopped when the session was "
            f"restarted, which ends all commands in the background. Running: {running}."
        )

    def _mint(self, operation_id: str) -> str:
        name = begun = f"sh-{operation_id[:_ID_CHARACTERS]}"
        number = 1
        while name in self._known:
            number += 1
            name = f"{begun}-{number}"
        return name
