"""What is written: pieces go to the file descriptors of the process, and a reader who stops reading stops no other."""

import os
from collections.abc import Iterable
from typing import Protocol

import trio

from agentrail import outside
from agentrail.cli.output import DESCRIPTORS, write_all
from agentrail.cli.rendering import ChatStyle, Piece


class Screen(Protocol):
    """Where pieces are written."""

    async def write(self, pieces: Iterable[Piece]) -> None:
        """Write pieces, in order.

        Cancellation: What had not been written by then may be lost.
        """
        ...


class DirectScreen:
    """Writes to stdout and stderr."""

    def __init__(self) -> None:
        """Write nothing yet."""
        self._lock = trio.Lock()

    async def write(self, pieces: Iterable[Piece]) -> None:
        """Write pieces; see `Screen.write`. Those of one call stand together, whatever else is written meanwhile."""
        async with self._lock:
            for piece in pieces:
                # Surrogates that a model made up cannot be encoded.
                data = piece.text.encode("utf-8", "replace")
                # In a thread, because a pipe that is full blocks, and Ctrl-C must work all the same. By descriptor, not
                # through `sys.stdout`: a thread that is left behind would hold its lock when the interpreter ends.
                await outside.offload(write_all, DESCRIPTORS[piece.stream], data, abandon_on_cancel=True)


def decide_look(*, out_is_terminal: bool, err_is_terminal: bool, no_color: bool) -> ChatStyle:
    """Decide how things look."""
    return ChatStyle(
        out_is_terminal=out_is_terminal,
        err_is_terminal=err_is_terminal,
        dims=err_is_terminal and not no_color,
    )


def look_of_process() -> ChatStyle:
    """Look at the streams of the process."""
    return decide_look(
        out_is_terminal=os.isatty(1), err_is_terminal=os.isatty(2), no_color=bool(os.environ.get("NO_COLOR"))
    )
