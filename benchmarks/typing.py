"""How long a key takes until it is seen, in a chat whose model writes 2,000 deltas a second; beside a chat that rests.

Each key is another character, one that neither the model nor an escape sequence has, so that its first bytes on the terminal are its
echo, however often the line is drawn again.
"""

import os
import pty
import select
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from statistics import quantiles
from time import perf_counter
from typing import Final

from benchmarks.bars import target_of
from benchmarks.measure import Effort, Row, Sample, interleave
from benchmarks.ours import expect
from benchmarks.sse_server import serve_streams

_DELTAS: Final = 60_000
_GAP_US: Final = 500
_KEYS: Final = 200
_BETWEEN_SECONDS: Final = 0.035
"""About thirty keys a second: faster than anybody types, and as fast as a key repeats that is held."""
_IN_A_LINE: Final = 40
_LETTERS: Final = 0x0400
"""The Cyrillic block, of which all are one cell wide and two bytes long."""
_CLEARS_LINE: Final = b"\x15"
_ASKS: Final = b"\x1b[?2004h"
_STREAMS: Final = b"w0"
"""The first word of the stream begins so; only what changes is drawn later on, so that no later word stands there as a whole."""
_PATIENCE_SECONDS: Final = 30.0


def typing(effort: Effort) -> list[Row]:
    """From the press of a key to its echo on the terminal."""
    with serve_streams() as address:
        ours = partial(_sample, f"{address}/{_DELTAS}/{_GAP_US}", effort.of(_KEYS))
        rounds = interleave(partial(_sample, None, effort.of(_KEYS)), ours, effort.rounds)
    said = "a key's echo in agentrail chat while 2,000 deltas a second stream; bare: a chat at rest"
    return [
        rounds.row("typing", "p50", f"{said}: p50", unit="ms", factor=1e3),
        rounds.row("typing", "p99", f"{said}: p99", unit="ms", factor=1e3, target=target_of("echo of a key")),
    ]


def _sample(base_url: str | None, keys: int) -> Sample:
    with _chat(base_url) as terminal:
        if base_url is not None:
            os.write(terminal, b"go\r")
            _read_until(terminal, _STREAMS)
        took = [_echo(terminal, number) for number in range(keys)]
    cuts = quantiles(took, n=100, method="inclusive")
    return {"p50": cuts[49], "p99": cuts[98]}


@contextmanager
def _chat(base_url: str | None) -> Iterator[int]:
    """Start a chat at a terminal of its own, and wait until it asks; without a server it says nothing."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 100))
    model = ("demo:fast",) if base_url is None else ("openai-chat:busy", "--base-url", base_url)
    command = (
        sys.executable,
        "-m",
        "agentrail",
        "chat",
        "--tools",
        "none",
        "--store",
        "memory:",
        "--model",
        *model,
    )
    with tempfile.TemporaryDirectory() as home:
        environ = {**os.environ, "HOME": home, "TERM": "xterm-256color", "OPENAI_API_KEY": "none"}
        environ |= {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
        chat = subprocess.Popen(  # noqa: S603 - ours
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ, cwd=home, start_new_session=True
        )
        os.close(theirs)
        try:
            _read_until(ours, _ASKS)
            yield ours
        finally:
            chat.kill()
            chat.wait()
            os.close(ours)


def _echo(terminal: int, number: int) -> float:
    """Press a key, and say how long its echo took; then read on for a while, as a terminal does."""
    if number % _IN_A_LINE == 0:
        os.write(terminal, _CLEARS_LINE)
    key = chr(_LETTERS + number).encode()
    pressed_at = perf_counter()
    os.write(terminal, key)
    seen_at = _read_until(terminal, key)
    while (left := seen_at + _BETWEEN_SECONDS - perf_counter()) > 0:
        if select.select([terminal], [], [], left)[0]:
            os.read(terminal, 65_536)
    return seen_at - pressed_at


def _read_until(terminal: int, wanted: bytes) -> float:
    """Read until something is shown, and say when that was."""
    shown = b""
    while wanted not in shown:
        ready, _, _ = select.select([terminal], [], [], _PATIENCE_SECONDS)
        expect(f"that {wanted!r} is shown", bool(ready), wanted=True)
        shown = shown[-64:] + os.read(terminal, 65_536)
    return perf_counter()
