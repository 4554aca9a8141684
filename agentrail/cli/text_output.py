"""Files that a command reads whole, and the output of one whose result is a text."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from agentrail.cli.exit_codes import Exit
from agentrail.cli.stdio import OutputClosed, OutputFailed, write_error, write_text
from agentrail.config.key_filter import hide_keys
from agentrail.errors import OptionError
from agentrail.file_systems import fault_of_reading

MAX_NAMED_TEXT_BYTES: Final = 256 * 1024 * 1024
"""Limit for a text, such as the rules of permissions or the cases of an eval."""


def read_named(file: Path, what: str = "") -> bytes:
    with open_named(file, what) as opened:
        return opened.read()


@contextmanager
def open_named(file: Path, what: str = "") -> Iterator[BinaryIO]:
    try:
        if fault := fault_of_reading(file):
            raise OptionError([f"{what}{file} cannot be read: {fault}"])
        with file.open("rb") as opened:
            yield opened
    except (OSError, MemoryError) as error:
        why = getattr(error, "strerror", "it is larger than the memory")
        raise OptionError([f"{what}{file} cannot be read: {why}"]) from error


def read_named_text(file: Path) -> str:
    with open_named(file) as opened:
        data = opened.read(MAX_NAMED_TEXT_BYTES + 1)
    if len(data) > MAX_NAMED_TEXT_BYTES:
        raise OptionError([f"{file} has more than {MAX_NAMED_TEXT_BYTES >> 20} MiB: name a smaller file"])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OptionError([f"{file} is not UTF-8, at byte {error.start}: save it as UTF-8"]) from error


def print_text(text: str) -> Exit:
    try:
        write_text(f"{hide_keys(text)}\n")
    except (OutputFailed, OutputClosed) as error:
        return end_without_output(error)
    return Exit.DONE


def end_without_output(error: OutputFailed | OutputClosed) -> Exit:
    """Return the exit code after a failed write, and report the reason unless the reader closed the pipe."""
    if isinstance(error, OutputFailed):
        write_error(f"{error}.")
    return Exit.FAILED
