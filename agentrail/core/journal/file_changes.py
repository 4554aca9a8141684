"""File changes in a journal: files written by tools of the session, with their state before and after. Pure."""

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
"""The name of the events with file changes. No tool can publish one."""

_NOTE_VERSION: Final = 1
_MARK: Final = FILES_EVENT.encode()
_EMITTED: Final = SIGNAL_KINDS[ToolEmitted]
_PUBLISHED: Final = SIGNAL_KINDS[ChildPublished]
_FINISHED: Final = SIGNAL_KINDS[ToolFinished]


class FileState(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The state of a path.

    Attributes:
        sha256: Of its content, in hexadecimal digits. Empty if it must not be known.
        size_bytes: Its size.
        mode: Its permissions, such as `0o755`. None if not known yet.
        lost: Why its content is not kept: `too_large`, `secret` or `unreadable`. Empty if it is kept.
    """

    sha256: str = ""
    size_bytes: int = 0
    mode: int | None = None
    lost: str = ""


class FileWrite(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A write to a file.

    Attributes:
        path: From the root of the sandbox, with links resolved. Absolute for a sandbox that is not confined to its
            root.
        before: The previous state. None for no file.
        after: The new state. None for no file.
        directories: Number of directories above it that are created for it.
    """

    path: str
    before: FileState | None = None
    after: FileState | None = None
    directories: int = 0


class FileNote(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The file changes of one event.

    Attributes:
        call_id: The call that writes. Empty for a session that goes back.
        is_untold: Whether the writes are unknown, because the call runs a command, or writes to a path that must
            not be named.
    """

    version: int = _NOTE_VERSION
    number: int = 0
    call_id: CallId = CallId("")
    tool: str = ""
    changes: tuple[FileWrite, ...] = ()
    is_untold: bool = False


_to_note: Final = converter_of(FileNote)


class WantedFile(Value, frozen=True, kw_only=True):
    """A file to restore.

    Attributes:
        path: Same as in `FileWrite`.
        then: Its state at the number. None for no file.
        left: The state that the session left: one, or two if it is unknown whether the last write happened, because
            the process ended.
        directories: Number of directories above it that were created for it, if there was no file.
    """

    path: str
    then: FileState | None
    left: tuple[FileState | None, ...]
    directories: int = 0


class UntoldCall(Value, frozen=True, kw_only=True):
    """A call whose writes are unknown, because it ran a command.

    Attributes:
        number: Number of its record.
        call_id: The call, possibly of a child session.
        tool: Its tool.
    """

    number: int
    call_id: CallId
    tool: str


class FilesBehind(Value, frozen=True, kw_only=True):
    """File changes after a record."""

    wanted: tuple[WantedFile, ...] = ()
    untold: tuple[UntoldCall, ...] = ()


def payload_of(note: FileNote) -> JsonValue:
    return {"version": note.version, **msgspec.to_builtins(note)}


def note_of(name: str, payload: JsonValue) -> FileNote | None:
    if name != FILES_EVENT:
        return None
    try:
        note = _to_note(thawed(payload))
    except msgspec.ValidationError:
        return None
    return note if note.version == _NOTE_VERSION else None


def files_behind(records: Iterable[Record], get: Callable[[str], bytes | None]) -> FilesBehind:
    """Return the file changes after a record.

    Files change in the order of the records, whatever branch of the conversation these belong to now. So the
    original state of a path is the one that the first write after the number found, and the final state is the one
    that the last write left.
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
    """Writes so far. Made for one query."""

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
        self._open.pop(effect_id, None)

    def stop(self) -> None:
        """Handle the end of the process, maybe between a record and the write that it announces."""
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
