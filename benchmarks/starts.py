"""What a newcomer waits for: the import, the command, the first prompt of a chat; beside an interpreter that does nothing."""

import os
import pty
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Final

from benchmarks.bars import target_of
from benchmarks.measure import Effort, Row, Sample, interleave
from benchmarks.ours import expect

_ROUNDS: Final = 3
_PATIENCE_SECONDS: Final = 30.0
_ASKS: Final = b"\x1b[?2004h"
"""It turns on bracketed paste: from here on what is typed is read."""
_COMMAND: Final = (sys.executable, "-m", "agentrail")


def starts(effort: Effort) -> list[Row]:
    """Each in a process of its own, a few times in each round: the least of them, since nothing makes a start quicker than it is."""
    rows = []
    for what, run, target in (
        ("import agentrail, with the start of the interpreter", _import, target_of("start import")),
        ("agentrail --version", _version, target_of("start version")),
        ("agentrail chat at a terminal, until its first prompt", _chat, target_of("start chat")),
    ):
        rounds = interleave(partial(_least, _nothing), partial(_least, run), effort.rounds)
        rows.append(rounds.row("starts", "seconds", what, unit="ms", factor=1e3, target=target))
    return rows


def _least(run: Callable[[], float]) -> Sample:
    return {"seconds": min(run() for _ in range(_ROUNDS))}


def _nothing() -> float:
    return _timed((sys.executable, "-c", "pass"))


def _import() -> float:
    return _timed((sys.executable, "-c", "import agentrail"))


def _version() -> float:
    return _timed((*_COMMAND, "--version"))


def _timed(command: Sequence[str]) -> float:
    began_at = perf_counter()
    ran = subprocess.run(command, check=False, capture_output=True)  # noqa: S603 - ours
    took = perf_counter() - began_at
    expect("how it ended", ran.returncode, 0)
    return took


def _chat() -> float:
    """Start a chat at a terminal of its own, and wait until it asks."""
    ours, theirs = pty.openpty()
    with tempfile.TemporaryDirectory() as home:
        environ = {**os.environ, "HOME": home, "TERM": "xterm-256color"}
        began_at = perf_counter()
        chat = subprocess.Popen(  # noqa: S603 - ours
            (*_COMMAND, "chat", "--model", "demo:fast"),
            stdin=theirs, stdout=theirs, stderr=theirs, env=environ, cwd=home, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        try:
            took = _until_it_asks(ours, began_at)
        finally:
            chat.kill()
            chat.wait()
            os.close(ours)
    return took


def _until_it_asks(terminal: int, began_at: float) -> float:
    shown = b""
    while _ASKS not in shown:
        ready, _, _ = select.select([terminal], [], [], _PATIENCE_SECONDS)
        expect("that the chat asks", bool(ready), wanted=True)
        shown += os.read(terminal, 65536)
    return perf_counter() - began_at
