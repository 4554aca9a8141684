"""What a line is helped with in the editor: completions of what is half typed, and what was typed before, from a file."""

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from agentrail.cli.terminal.completing import KnownNames, ListFiles, complete


class Completions(Completer):
    """What `completing` knows, for prompt_toolkit."""

    def __init__(self, known: Callable[[], KnownNames]) -> None:
        """Know what this gives: more, as soon as there is a session."""
        self._known = known

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Give what may come; in a thread of its own, since a turn may have to be asked for."""
        del complete_event
        for one in complete(document.text_before_cursor, self._known()):
            yield Completion(one.text, -one.replaces, display_meta=one.meaning)


class _KeptHistory(FileHistory):
    """What was typed before, in a file; one that cannot be written is no reason not to talk."""

    def load_history_strings(self) -> Iterable[str]:
        try:
            return list(super().load_history_strings())
        except (OSError, UnicodeDecodeError):
            return []

    def store_string(self, string: str) -> None:
        with contextlib.suppress(OSError):
            super().store_string(string)


def history_in(file: Path | None) -> History:
    """Give what was typed before, kept in a file that is its user's alone; None keeps it as long as the chat lasts."""
    if file is None:
        return InMemoryHistory()
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))  # prompts are no other user's to read
    return _KeptHistory(file)


def files_to_complete(directory: Path) -> ListFiles:
    """Give what lists files for `@`, relative to a directory."""

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
