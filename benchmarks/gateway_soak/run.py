"""One run of the soak: the users and their sessions, what went wrong so far, and how long one waits for a server that is not there."""

import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

import trio
from attrs import define

from benchmarks.gateway_soak.account import Faults, SessionAccount
from benchmarks.gateway_soak.client import SoakClient
from benchmarks.gateway_soak.process import DeskProcess

BY_SOCKET: Final = 0.15
"""How many of the readers read over a WebSocket."""


@define(eq=False)
class Line:
    """A session of one user, from its first message to its end.

    Attributes:
        account: What is known of it.
        user: Whose.
        left: How many messages it is sent still.
        is_created: Whether the server said that it is there.
        at_work: Calls that are out.
        is_over: Whether it was deleted.
        by_socket: Whether its reader reads over a WebSocket.
    """

    account: SessionAccount
    user: str
    left: int
    by_socket: bool
    is_created: bool = False
    at_work: int = 0
    is_over: bool = False

    @property
    def path(self) -> str:
        """Of its routes."""
        return f"/sessions/{self.account.session_id}"


class SoakRun:
    """What all tasks of one run share.

    Attributes:
        desk: The server.
        client: Calls it.
        rng: Says what is done when.
        pause: How many seconds a user waits between two messages, on average.
        faults: What went wrong.
        counts: What happened, and how often.
        lines: The sessions that are in use.
        words: What a message may make the server do.
        is_ending: Whether no message is sent any more.
    """

    def __init__(
        self, desk: DeskProcess, client: SoakClient, rng: random.Random, *, pause: float, words: Sequence[str]
    ) -> None:
        """Begin without sessions."""
        self.words = words
        self.desk = desk
        self.client = client
        self.rng = rng
        self.pause = pause
        self.faults = Faults()
        self.counts: Counter[str] = Counter()
        self.lines: dict[Line, None] = {}
        self.is_ending = False

    def chance(self, of_one: float) -> bool:
        """Say yes so often."""
        return self.rng.random() < of_one

    def begin(self, user: str, *, young: bool = False) -> Line:
        """Begin a session of a user; nothing is sent yet.

        Args:
            user: Whose.
            young: Whether it is one of the first, which end at different times.
        """
        self.counts["sessions"] += 1
        line = Line(
            SessionAccount(f"{user}-{self.counts['sessions']}"),
            user,
            left=self.rng.randint(1 if young else 5, 9),
            by_socket=self.chance(BY_SOCKET),
        )
        self.lines[line] = None
        return line

    def fault(self, line: Line, what: str) -> None:
        """Note that something is wrong with a session."""
        self.faults.add(f"{time.strftime('%H:%M:%S')} session {line.account.session_id}: {what}")

    async def wait_up(self) -> None:
        """Wait a moment, and until the server should answer."""
        await trio.sleep(0.05 + self.rng.random() * 0.2)
        while not self.desk.is_up:  # noqa: ASYNC110 - it is told of by nothing else
            await trio.sleep(0.1)
