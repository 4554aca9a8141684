"""`run_seeded(main, seed)`: runs a program under a seed, and computes the digest of its actions. One seed, one digest.

    run = run_seeded(main, 8817)
    assert run.digest == run_seeded(main, 8817).digest

The digest is BLAKE2b over each step of a task (its name and the virtual time), each signal, effect and event of every session,
and the program's own notes. It must be the same in another process, with other hash seeds and another allocator. Otherwise
some code bypasses the seed: compare the `lines` of two runs, the first difference is near it.
It is not stable across commits, or across releases of Python and installed packages.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

import msgspec
import trio
from attrs import frozen

from agentrail.core.protocol.effects import Effect, Publish
from agentrail.core.protocol.signals import Signal
from agentrail.core.session.state import SessionState
from agentrail.core.wire.codec import encode_event, encode_signal
from agentrail.outside import installed
from agentrail.runtime import session_actor as sessions
from agentrail.testing.clock import FakeClock
from agentrail.testing.seams import around, wrapped
from agentrail.testing.seeded import NotRepeatable, SeededMachine, seeded_order, why_not_repeatable

T = TypeVar("T")

_ADDRESS: Final = re.compile(r"\bat 0x[0-9a-f]+")


class Digest(trio.abc.Instrument):
    """The actions so far.

    Attributes:
        counts: Number of lines of each kind: `step`, `signal`, `effect`, `event`, and those of the program.
        lines: All lines as text, if they are kept.
    """

    def __init__(self, *, keep_lines: bool = False) -> None:
        """Create an empty digest.

        Args:
            keep_lines: Whether to keep the text: megabytes, useful if two runs differ.
        """
        self._hash = hashlib.blake2b(digest_size=16)
        self._keeps = keep_lines
        self.counts: dict[str, int] = {}
        self.lines: list[str] = []

    def note(self, kind: str, said: bytes | str) -> None:
        """Add an action.

        Args:
            kind: One word.
            said: The action, without addresses of objects, which change between runs.
        """
        data = said.encode("utf-8", "surrogatepass") if isinstance(said, str) else said
        # With the length, so that two different sequences of notes never have the same bytes.
        self._hash.update(b"%s %d " % (kind.encode(), len(data)))
        self._hash.update(data)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self._keeps:
            self.lines.append(f"{kind} {data.decode('utf-8', 'replace')}")

    def hexdigest(self) -> str:
        """Return the digest of the actions so far."""
        return self._hash.hexdigest()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.note("step", f"{_ADDRESS.sub('', task.name)} {trio.current_time()!r}")

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Record the signals and decisions of all sessions. Not in two threads at once."""

        @around
        def noting(step: Any, state: SessionState, signal: Signal) -> tuple[SessionState, tuple[Effect, ...]]:
            self.note("signal", encode_signal(signal))
            after, effects = step(state, signal)
            for effect in effects:
                if isinstance(effect, Publish):
                    self.note("event", encode_event(effect.event))
                else:
                    self.note("effect", type(effect).__name__.encode() + b" " + canonical(effect))
            return after, effects

        # The name by which sessions call it: no other place sees all signals.
        with wrapped([(sessions, "step", noting)]):
            yield


@frozen(kw_only=True)
class SeededRun(Generic[T]):
    """The result of a run.

    Attributes:
        digest: Digest of all actions, in hexadecimal digits.
        result: Return value of the program.
        counts: Number of steps, signals, effects, events and notes.
        lines: Their text, if it was kept.
    """

    digest: str
    result: T
    counts: dict[str, int]
    lines: tuple[str, ...] = ()


def run_seeded(
    main: Callable[[Digest], Awaitable[T]], seed: object, *, keep_lines: bool = False
) -> SeededRun[T]:
    """Run a program like `trio.run`, on virtual time, with every machine value drawn from a seed.

    Args:
        main: The program. Receives the digest, for its own notes.
        seed: Any object with its own `str`.
        keep_lines: Whether to keep the text of the actions.

    Raises:
        NotRepeatable: Your move: under this release of Trio the digest would be meaningless.
        BaseException: An exception of the program.
    """
    fault = why_not_repeatable()
    if fault is not None:
        raise NotRepeatable(fault)
    digest = Digest(keep_lines=keep_lines)
    with seeded_order(seed), installed(SeededMachine(seed)), digest.listening():
        result = trio.run(main, digest, clock=FakeClock(), instruments=[digest])
    return SeededRun(
        digest=digest.hexdigest(), result=result, counts=digest.counts, lines=tuple(digest.lines)
    )


def canonical(value: object) -> bytes:
    """Encode a value so that equal values have equal bytes in every process: sets and objects are sorted."""
    return msgspec.json.encode(value, enc_hook=_plain, order="deterministic")


def _plain(value: object) -> object:
    if isinstance(value, BaseException):
        return [type(value).__qualname__, str(value)]
    for kind, plain in ((dict, dict), (list, list), (frozenset, set)):
        if isinstance(value, kind):
            return plain(value)
    return _ADDRESS.sub("", repr(value))
