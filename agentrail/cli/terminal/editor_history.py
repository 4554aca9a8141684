"""Completion and history of the editor: completions of a half-typed word, and earlier input from a file."""

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from agentrail.cli.terminal.completion import KnownNames, ListFiles, complete

_MAX_BYTES: Final = 64 << 20


class Completions(Completer):
    def __init__(self, known: Callable[[], KnownNames]) -> None:
        """Keep the function that returns the names, which change once there is a session."""
        self._known = known

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the completions. Runs in its own thread, because turns may have to be fetched."""
        del complete_event
        for one in complete(document.text_before_cursor, self._known()):
            yield Completion(one.text, -one.replaces, display_meta=one.meaning)


class _KeptHistory(FileHistory):
    """Earlier input in a file. A chat continues without a writable one."""

    def load_history_strings(self) -> Iterable[str]:
        try:
            return list(super().load_history_strings())
        except (OSError, UnicodeDecodeError):
            return []

    def store_string(self, string: str) -> None:
        with contextlib.suppress(OSError):
            super().store_string(string)


def history_in(file: Path | None) -> History:
    """Return the input history, stored in a file that only its user can read. With None, it lasts as long as the chat."""
    if file is None:
        return InMemoryHistory()
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_CREAT | os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC
        os.close(os.open(file, flags, 0o600))  # other users must not read prompts
    # Not of a pipe, whose writer would be waited for, or of a file that memory cannot hold.
    is_one = os.path.isfile(file) and os.path.getsize(file) <= _MAX_BYTES  # noqa: PTH113, PTH202 - Path raises without access
    return _KeptHistory(file) if is_one else InMemoryHistory()


def files_to_complete(directory: Path) -> ListFiles:
    def names(inside: str) -> Sequence[str]:
        try:
            with os.scandir(directory / inside) as entries:
                return [
                    f"{one.name}/" if one.is_dir() else one.name
                    for one, _ in zip(entries, range(5_000), strict=False)
                ]
        except OSError:
            return ()

    return names
