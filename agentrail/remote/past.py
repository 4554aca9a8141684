"""What a session was, and what came of going back, as values of the runtime again. Pure."""

from typing import Any, Final

import msgspec

from agentrail.core.journal.branches import PastTurn
from agentrail.errors import CodecError
from agentrail.frozen import MAX_RECORD_LEVELS, frozen_json
from agentrail.runtime.past import JournalEntry
from agentrail.runtime.restoring import Rewound
from agentrail.structs import decoder_of


def read_rewound(text: bytes) -> Rewound:
    """Read what came of going back."""
    try:
        return _REWOUND.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _fault(error) from error


def read_journal_page(text: bytes) -> tuple[JournalEntry, ...]:
    """Read a page of a journal."""
    try:
        return tuple([_entry(one) for one in _ENTRIES.decode(text)])
    except (msgspec.DecodeError, RecursionError) as error:
        raise _fault(error) from error


def read_turns(text: bytes) -> tuple[PastTurn, ...]:
    """Read the turns of a session."""
    try:
        return tuple([PastTurn(**msgspec.structs.asdict(one)) for one in _TURNS.decode(text)])
    except (msgspec.DecodeError, RecursionError) as error:
        raise _fault(error) from error


class _Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as it is written; what a newer server says besides is left out."""

    number: int
    record: int
    asked: str = ""
    said: str = ""
    counts: bool = True


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A record as it is written."""

    number: int
    at_ms: int
    kind: str
    body: dict[str, Any]
    does: tuple[str, ...]
    events: int
    epoch: int
    hash: str


def _entry(form: _Entry) -> JournalEntry:
    return JournalEntry(
        number=form.number,
        at_ms=form.at_ms,
        kind=form.kind,
        body=frozen_json(form.body, max_levels=MAX_RECORD_LEVELS),
        does=form.does,
        events=form.events,
        epoch=form.epoch,
        hash=form.hash,
    )


def _fault(error: Exception) -> CodecError:
    message = f"what the server sent cannot be read: {error}; its version may be a newer one"
    return CodecError(message, path="$")


_REWOUND: Final = decoder_of(Rewound)
_ENTRIES: Final = decoder_of(list[_Entry])
_TURNS: Final = decoder_of(list[_Turn])
