"""Output of pieces to the file descriptors of the process. A stalled reader does not block other tasks."""

import os
from collections.abc import Iterable
from typing import Protocol

import trio

from agentrail import outside
from agentrail.cli.event_text import ChatStyle, Piece
from agentrail.cli.stdio import DESCRIPTORS, write_all


class Screen(Protocol):
    async def write(self, pieces: Iterable[Piece]) -> None:
        """Write pieces, in order.

        Cancellation: Pieces not yet written may be lost.
        """
        ...


class DirectScreen:
    def __init__(self) -> None:
        self._lock = trio.Lock()

    async def write(self, pieces: Iterable[Piece]) -> None:
        async with self._lock:
            for piece in pieces:
                # Surrogates in a model's text cannot be encoded.
                data = piece.text.encode("utf-8", "replace")
                # In a thread, because a full pipe blocks, and Ctrl-C must still work. By descriptor, not through
                # `sys.stdout`: an abandoned thread would hold its lock when the interpreter shuts down.
                await outside.offload(write_all, DESCRIPTORS[piece.stream], data, abandon_on_cancel=True)


def decide_look(*, out_is_terminal: bool, err_is_terminal: bool, no_color: bool) -> ChatStyle:
    return ChatStyle(
        out_is_terminal=out_is_terminal,
        err_is_terminal=err_is_terminal,
        dims=err_is_terminal and not no_color,
    )


def look_of_process() -> ChatStyle:
    return decide_look(
        out_is_terminal=os.isatty(1), err_is_terminal=os.isatty(2), no_color=bool(os.environ.get("NO_COLOR"))
    )
