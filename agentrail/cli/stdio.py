"""Blocking writes to stdout and stderr by descriptor. Imports little, because every command loads it."""

import errno
import fcntl
import os
import sys
import unicodedata
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

DESCRIPTORS: Final[Mapping[str, int]] = MappingProxyType({"out": 1, "err": 2})


class OutputClosed(Exception):
    """The reader of our output closed the pipe (`| head`)."""


class OutputFailed(Exception):
    """Our output cannot be written, for example because the disk is full."""


def write_all(descriptor: int, data: bytes) -> None:
    """Write bytes to a descriptor, and block until they are written."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except OSError as error:
            if descriptor == DESCRIPTORS["err"]:
                return  # there is no reader left to notify
            if error.errno == errno.EPIPE:
                raise OutputClosed from None
            message = f"the output cannot be written: {error.strerror}"
            raise OutputFailed(message) from None


def write_text(text: str) -> None:
    """Write a text to stdout. A terminal gets it without control characters, other programs as it is."""
    shown = without_controls(text) if os.isatty(DESCRIPTORS["out"]) else text
    write_all(DESCRIPTORS["out"], shown.encode("utf-8", "replace"))


def without_controls(text: str) -> str:
    """Remove control characters: a model, or a file that it read, must not move the cursor."""
    if text.isprintable():  # the common case
        return text
    return "".join(char for char in text if char in "\n\t" or unicodedata.category(char) not in {"Cc", "Cs"})


def write_error(text: str) -> None:
    """Write a sentence to stderr, with control characters and line breaks escaped, as of a file name. Only while no other task runs."""
    said = end_sentence(text).encode("utf-8", "replace").decode()
    shown = "".join([one if one.isprintable() else ascii(one)[1:-1] for one in said])
    write_all(DESCRIPTORS["err"], f"agentrail: {shown}\n".encode())


def end_sentence(text: str) -> str:
    """Drop the full stop after a question."""
    return text.removesuffix(".") if text.endswith("?.") else text


def open_missing_streams() -> None:
    """Ensure that descriptors 0 to 2 are open, so that no file or socket of ours gets one of these numbers, and that they block."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            # A program that shares the pipe, such as npm, may have changed that.
            os.set_blocking(descriptor, True)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
            setattr(sys, name, open(descriptor, "w" if descriptor else "r", encoding="utf-8"))  # noqa: PTH123, SIM115 - for good
    if fcntl.fcntl(0, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:  # as `nohup` leaves it
        os.close(0)
        os.open(os.devnull, os.O_RDONLY)
