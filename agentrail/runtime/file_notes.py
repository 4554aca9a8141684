"""What tools of a session write is noted in its journal before it is written: the way from a sandbox to the record.

A note is a signal that a tool lets the world know something, as any tool may; what the files contained goes to the store beside its
record. Nothing in here reads or writes a file.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

import msgspec
import trio

from agentrail.abc import Refusal
from agentrail.core.journal.files import FILES_EVENT, FileNote, FileState, FileWrite, payload_of
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import Signal, ToolEmitted
from agentrail.errors import Fenced, StoreUnavailable
from agentrail.messages import CallId
from agentrail.outside import offload
from agentrail.runtime.clock import now_ms
from agentrail.runtime.held_stream import Gate
from agentrail.runtime.scrubbing import Scrub

_IN_LINE_BYTES: Final = 1 << 16
"""More than this is looked through for secrets in a thread: the loop is not held."""

_KNOWN_DIGESTS: Final = 1_000

_REFUSED: Final = "It was not written, because the store that keeps what stood there takes nothing for now. Try again later."


class Durable(Protocol):
    """A journal, as far as one waits for it."""

    async def wait_durable(self, number: int) -> None:
        """Wait until all records up to a number are durable."""
        ...


class HandedNote:
    """A note on its way through the mailbox of its session into the journal.

    Attributes:
        contents: What is stored beside its record, by SHA-256.
        number: Of its record; 0 where it has none.
        is_handed: Set when it is handed to the writer, or never will be.
    """

    __slots__ = ("contents", "is_handed", "number")

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self.contents: Mapping[str, bytes] = contents
        self.number: int = 0
        self.is_handed: trio.Event = trio.Event()

    def handed(self, number: int) -> None:
        """Hear that it has a record, or none (0)."""
        self.number = number
        self.is_handed.set()


class FileNotes:
    """The notes of one session that are on their way.

    Attributes:
        scrub: Takes the secrets of the session out of a text.
    """

    __slots__ = ("_count", "_journal", "_known", "_waiting", "scrub")

    def __init__(self, journal: Durable, scrub: Scrub) -> None:
        """Begin with none."""
        self._journal = journal
        self._waiting: dict[int, HandedNote] = {}
        self._known: dict[str, None] = {}
        self._count = 0
        self.scrub: Scrub = scrub

    def number_next(self) -> int:
        """Give the next note its number."""
        self._count += 1
        return self._count

    def taken(self, signal: Signal) -> HandedNote | None:
        """Give the note that a signal is, when the session has stepped it; None for any other.

        By its number: where there are secrets, what is stepped is another object than what was delivered.
        """
        if not self._waiting or not isinstance(signal, ToolEmitted) or signal.name != FILES_EVENT:
            return None
        payload = signal.payload
        number = payload.get("number") if isinstance(payload, Mapping) else None
        return self._waiting.pop(number, None) if isinstance(number, int) else None

    async def hand(
        self,
        number: int,
        signal: ToolEmitted,
        contents: Mapping[str, bytes],
        deliver: Callable[[object], None],
    ) -> Refusal | None:
        """Put a note into the mailbox, and wait until its record is durable.

        Args:
            number: Of the note.
            signal: The note.
            contents: What is stored beside its record.
            deliver: Puts it into the mailbox.

        Returns:
            None; or why it is not durable.

        Cancellation: It may be recorded all the same.
        """
        new = {digest: content for digest, content in contents.items() if digest not in self._known}
        note = self._waiting[number] = HandedNote(new)
        deliver(signal)
        try:
            await note.is_handed.wait()
            if note.number == 0:
                return Refusal(code="io_error", message=_REFUSED)
            await self._journal.wait_durable(note.number)
        except (Fenced, StoreUnavailable):
            return Refusal(code="io_error", message=_REFUSED)
        self._remember(contents)
        return None

    def _remember(self, digests: Iterable[str]) -> None:
        """Know what the store has by now; of the last ones only, since it is no fault to hand it over again."""
        self._known.update(dict.fromkeys(digests))
        while len(self._known) > _KNOWN_DIGESTS:
            del self._known[next(iter(self._known))]


class KeptJournal(Protocol):
    """The journal of a session, as far as effects need it: when it takes records, and where it is noted what tools write."""

    @property
    def writer(self) -> Gate:
        """Who writes it."""
        ...

    @property
    def files(self) -> FileNotes:
        """The notes that are on their way."""
        ...


class NotingKeeper:
    """Is told by a sandbox what a call writes, or a session that goes back; see `FileKeeper`."""

    __slots__ = ("_call_id", "_deliver", "_effect_id", "_has_command", "_noted", "_notes", "_tool")

    def __init__(
        self,
        notes: FileNotes,
        deliver: Callable[[object], None],
        effect_id: EffectId,
        call_id: CallId,
        tool: str,
    ) -> None:
        """Note what a call writes.

        Args:
            notes: Of its session.
            deliver: Puts a note into the mailbox of that.
            effect_id: The call, as the journal knows it.
            call_id: The call.
            tool: Its tool.
        """
        self._notes = notes
        self._deliver = deliver
        self._effect_id = effect_id
        self._call_id = call_id
        self._tool = tool
        self._has_command = False
        self._noted: dict[str, FileWrite] = {}

    async def keep(self, changes: Sequence[FileWrite], contents: Mapping[str, bytes]) -> Refusal | None:
        """Keep what is about to be written; see `FileKeeper.keep`."""
        secret = await self._secret_ones(contents)
        scrub = self._notes.scrub
        kept = {digest: content for digest, content in contents.items() if digest not in secret}
        public = tuple([_without(one, secret) for one in changes if scrub(one.path) == one.path])
        self._noted.update((one.path, one) for one in public)
        note = FileNote(changes=public, is_untold=len(public) < len(changes))
        return await self._hand(note, kept)

    def take_back(self, changes: Sequence[FileWrite]) -> None:
        """Note of what was noted that what stood there before stands there still."""
        noted = [self._noted[one.path] for one in changes if one.path in self._noted]
        if noted:
            undone = [msgspec.structs.replace(one, after=one.before, directories=0) for one in noted]
            note = FileNote(number=self._notes.number_next(), changes=tuple(undone))
            self._deliver(self._signal(note))

    async def keep_command(self) -> Refusal | None:
        """Note that a command runs, once for each call."""
        if self._has_command:
            await trio.lowlevel.checkpoint()
            return None
        refused = await self._hand(FileNote(is_untold=True), {})
        self._has_command = refused is None
        return refused

    async def _hand(self, note: FileNote, contents: Mapping[str, bytes]) -> Refusal | None:
        number = self._notes.number_next()
        signal = self._signal(msgspec.structs.replace(note, number=number))
        return await self._notes.hand(number, signal, contents, self._deliver)

    def _signal(self, note: FileNote) -> ToolEmitted:
        whole = msgspec.structs.replace(note, call_id=self._call_id, tool=self._tool)
        return ToolEmitted(
            at_ms=now_ms(), effect_id=self._effect_id, name=FILES_EVENT, payload=payload_of(whole)
        )

    async def _secret_ones(self, contents: Mapping[str, bytes]) -> frozenset[str]:
        if sum(map(len, contents.values())) <= _IN_LINE_BYTES:
            return _with_secrets(contents, self._notes.scrub)
        return await offload(_with_secrets, contents, self._notes.scrub)


def _with_secrets(contents: Mapping[str, bytes], scrub: Scrub) -> frozenset[str]:
    """Name those in which a secret stands: no store is given one."""
    texts = {digest: content.decode("utf-8", "replace") for digest, content in contents.items()}
    return frozenset(digest for digest, text in texts.items() if scrub(text) != text)


def _without(change: FileWrite, secret: frozenset[str]) -> FileWrite:
    return msgspec.structs.replace(
        change, before=_public(change.before, secret), after=_public(change.after, secret)
    )


def _public(state: FileState | None, secret: frozenset[str]) -> FileState | None:
    """Say nothing of a content with a secret in it: the digest of a short one is as good as the secret to who can guess it."""
    if state is None or state.sha256 not in secret:
        return state
    return msgspec.structs.replace(state, sha256="", lost="secret")
