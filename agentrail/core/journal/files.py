"""What a journal says of files: which of them tools of the session have written, and what stood there before and after. Pure.

It stands in signals that a journal has anyway: a tool that lets the world know something. What a file contained is a large value of
the session, by its SHA-256; here are only names and digests.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from agentrail.core.journal.record import TAKEN, Record, join_blobs
from agentrail.core.journal.recorded_steps import decode_signal_body
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import ChildPublished, ToolEmitted, ToolFinished
from agentrail.core.wire.codec import SIGNAL_KINDS
from agentrail.events import Event, PluginEvent, SubagentEvent
from agentrail.frozen import thawed
from agentrail.messages import CallId, JsonValue
from agentrail.structs import Value, converter_of, decoder_of

FILES_EVENT: Final = "agentrail.files"
"""The name of the events that say so; no tool can publish one."""

_NOTE_VERSION: Final = 1
_MARK: Final = FILES_EVENT.encode()
_EMITTED: Final = SIGNAL_KINDS[ToolEmitted]
_PUBLISHED: Final = SIGNAL_KINDS[ChildPublished]
_FINISHED: Final = SIGNAL_KINDS[ToolFinished]


class FileState(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What stands at a path.

    Attributes:
        sha256: Of its content, in hexadecimal digits; empty where that may not be known.
        size_bytes: How large it is.
        mode: Who may read, write and run it, such as `0o755`; None where that is not known yet.
        lost: Why its content is not kept: `too_large`, `secret` or `unreadable`; empty where it is.
    """

    sha256: str = ""
    size_bytes: int = 0
    mode: int | None = None
    lost: str = ""


class FileWrite(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A file that is written.

    Attributes:
        path: From the root of the sandbox, through no link; of a sandbox that is not confined to its root an absolute one.
        before: What stood there; None for nothing.
        after: What stands there then; None for nothing.
        directories: How many directories above it are made for it.
    """

    path: str
    before: FileState | None = None
    after: FileState | None = None
    directories: int = 0


class FileNote(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What one event says of files.

    Attributes:
        number: Tells it from the others that its process is about to make.
        call_id: The call that writes; empty for a session that goes back.
        is_untold: Whether the call runs a command, of which no sandbox can say what it writes; or writes a path that may not be told.
    """

    version: int = _NOTE_VERSION
    number: int = 0
    call_id: CallId = CallId("")
    tool: str = ""
    changes: tuple[FileWrite, ...] = ()
    is_untold: bool = False


_to_note: Final = converter_of(FileNote)


class WantedFile(Value, frozen=True, kw_only=True):
    """A file that is to be what it was.

    Attributes:
        path: As of `FileWrite`.
        then: What stood there at the number; None for nothing.
        left: What the session left there: one state; or two, where it is not known whether the last write took place, because the
            process ended.
        directories: How many directories above it were made for it, where nothing stood there.
    """

    path: str
    then: FileState | None
    left: tuple[FileState | None, ...]
    directories: int = 0


class UntoldCall(Value, frozen=True, kw_only=True):
    """A call of which no sandbox can tell what it wrote, because it ran a command.

    Attributes:
        number: Of the record that says so.
        call_id: Which call; of a session below this one too.
        tool: Its tool.
    """

    number: int
    call_id: CallId
    tool: str


class FilesBehind(Value, frozen=True, kw_only=True):
    """What happened to files behind a record.

    Attributes:
        wanted: Each path that was written, as it was then, in the order in which they were written first.
        untold: Calls of which it is not known what they wrote.
    """

    wanted: tuple[WantedFile, ...] = ()
    untold: tuple[UntoldCall, ...] = ()


def payload_of(note: FileNote) -> JsonValue:
    """Write a note as the payload of its event."""
    return {"version": note.version, **msgspec.to_builtins(note)}


def note_of(name: str, payload: JsonValue) -> FileNote | None:
    """Read the payload of an event; None where it says nothing of files that can be read here."""
    if name != FILES_EVENT:
        return None
    try:
        note = _to_note(thawed(payload))
    except msgspec.ValidationError:
        return None
    return note if note.version == _NOTE_VERSION else None


def files_behind(records: Iterable[Record], get: Callable[[str], bytes | None]) -> FilesBehind:
    """Say what was written behind a record.

    Files are changed in the order of the records, whatever branch of the conversation these belong to by now. So what stood at a path is
    what the first write behind the number found there, and what the session left is what the last one put there.
    """
    paths = _Paths()
    untold: dict[CallId, UntoldCall] = {}
    for record in records:
        if record.kind == TAKEN:
            paths.stop()
        elif record.kind == _FINISHED and paths.has_open:
            paths.finish(_effect_of(record.body))
        elif record.kind in (_EMITTED, _PUBLISHED) and _MARK in record.body:
            signal = decode_signal_body(record.kind, record.at_ms, join_blobs(record.body, get))
            for note in _notes_in(signal):
                paths.take(note, _effect_of(record.body))
                if note.is_untold and note.call_id not in untold:
                    untold[note.call_id] = UntoldCall(number=record.seq, call_id=note.call_id, tool=note.tool)
    return FilesBehind(wanted=paths.wanted(), untold=tuple(untold.values()))


class _Paths:
    """What was written so far. Made for one look, and thrown away behind it."""

    def __init__(self) -> None:
        self._first: dict[str, FileWrite] = {}
        self._last: dict[str, FileWrite] = {}
        self._open: dict[EffectId, set[str]] = {}
        self._writer: dict[str, EffectId] = {}
        self._unsure: set[str] = set()

    @property
    def has_open(self) -> bool:
        return bool(self._open)

    def take(self, note: FileNote, effect_id: EffectId) -> None:
        for change in note.changes:
            self._first.setdefault(change.path, change)
            self._last[change.path] = change
            self._unsure.discard(change.path)
            self._open.get(self._writer.get(change.path, effect_id), set()).discard(change.path)
            self._writer[change.path] = effect_id
            self._open.setdefault(effect_id, set()).add(change.path)

    def finish(self, effect_id: EffectId) -> None:
        """A call has ended, so that it is known what it wrote."""
        self._open.pop(effect_id, None)

    def stop(self) -> None:
        """The process has ended, maybe between a record and the write that it announces."""
        for paths in self._open.values():
            self._unsure |= paths
        self._open.clear()

    def wanted(self) -> tuple[WantedFile, ...]:
        return tuple([self._wanted(path) for path in self._first])

    def _wanted(self, path: str) -> WantedFile:
        first, last = self._first[path], self._last[path]
        return WantedFile(
            path=path,
            then=first.before,
            left=(last.after, last.before) if path in self._unsure else (last.after,),
            directories=first.directories,
        )


def _notes_in(signal: Any) -> Iterator[FileNote]:
    if isinstance(signal, ToolEmitted):
        note = note_of(signal.name, signal.payload)
    else:
        event: Event = signal.event
        while isinstance(event, SubagentEvent):
            event = event.event
        note = note_of(event.name, event.payload) if isinstance(event, PluginEvent) else None
    if note is not None:
        yield note


class _Effect(msgspec.Struct, frozen=True, gc=False):
    effect_id: EffectId


_EFFECT: Final = decoder_of(_Effect)


def _effect_of(body: bytes) -> EffectId:
    return _EFFECT.decode(body).effect_id
