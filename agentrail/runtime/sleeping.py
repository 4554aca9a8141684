"""Sleep: the actor of a session that does nothing has left, and what it knew stands in its journal alone.

What is left in memory is a row: the code that no journal holds, and where the session stands. Who holds a handle, or reads its events,
holds a cell without a state; what is sent to that waits in its mailbox, and wakes it. How it is woken stands in `sleeping_door`.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import trio
from attrs import evolve, frozen

from agentrail.actors.mailbox import Mailbox
from agentrail.core.session.state import SessionState
from agentrail.core.stack.plugin import Plugin
from agentrail.errors import AgentrailError, SessionRested
from agentrail.events import Envelope, Event
from agentrail.runtime.crashes import Control
from agentrail.runtime.event_bus import EventBus
from agentrail.runtime.held_code import HeldCode
from agentrail.runtime.options import SessionOptions
from agentrail.runtime.pending_calls import PendingCalls
from agentrail.runtime.ports import Ports
from agentrail.runtime.resting import RestRequest
from agentrail.runtime.scrubbing import Scrub, scrub_of
from agentrail.runtime.session_journal import SessionJournal
from agentrail.runtime.snapshots import is_at_rest
from agentrail.runtime.standing import stored_standing
from agentrail.runtime.subscription import TakenSnapshot
from agentrail.runtime.workspace import Workspace


class SleepStage(Enum):
    """How far a session is: it is awake; or it has decided to leave, and nothing is read any more; or it is asleep."""

    AWAKE = "awake"
    LEAVING = "leaving"
    ASLEEP = "asleep"


class FallAsleep(Control):
    """A control message to the session: it is to leave, if nothing is at work and nothing waits."""

    __slots__ = ()


@frozen(kw_only=True)
class HowToRead:
    """How the answers of a session read.

    Attributes:
        has_format: Whether they are documents.
        has_tags: Whether inline tags stand in them, which no person sees.
    """

    has_format: bool
    has_tags: bool


@frozen(kw_only=True)
class SleepingSession:
    """What is left of a session that sleeps: what its journal does not hold.

    Attributes:
        ports: What it works with, with the tools and models that came since it began.
        options: What it was started with, for its forks.
        workspace: Where its files are; a command that it left running there runs on.
        plugins: Its plugins; what they know is in the journal.
        place: The envelope of its last event.
        incarnation: Its last one.
        due_at_ms: When it is to wake by itself, on the clock of signals; None for not at all.
        reading: How its answers read.
    """

    ports: Ports
    options: SessionOptions
    workspace: Workspace
    plugins: tuple[Plugin, ...]
    place: Envelope
    incarnation: int
    due_at_ms: int | None
    reading: HowToRead


class Waking:
    """That a session is to wake: for who waits until it is known what became of that.

    Attributes:
        done: Set when it is known.
        error: Why it could not; None when it is awake.
    """

    __slots__ = ("done", "error")

    def __init__(self) -> None:
        self.done: trio.Event = trio.Event()
        self.error: AgentrailError | None = None


class Sleep:
    """Whether a session sleeps, and what it is woken with.

    Attributes:
        stage: How far it is.
        waking: That it is to wake; None while it is not.
        row: What is left of it; None while it is awake.
        was_asleep: Whether it was ever woken here.
    """

    __slots__ = ("_wake", "row", "stage", "waking", "was_asleep")

    def __init__(self, wake: "Callable[[SleepingCell], None]", row: SleepingSession | None = None) -> None:
        """Begin awake; with a row asleep.

        Args:
            wake: Begins to wake a session that sleeps; it does not wait.
            row: What is left of it.
        """
        self._wake = wake
        self.row: SleepingSession | None = row
        self.stage: SleepStage = SleepStage.AWAKE if row is None else SleepStage.ASLEEP
        self.waking: Waking | None = None
        self.was_asleep: bool = row is not None

    def stir(self, cell: "SleepingCell") -> Waking:
        """Begin to wake it, if that has not begun; one that is about to leave is woken when it has left."""
        if self.waking is None:
            self.waking = Waking()
            if self.stage is SleepStage.ASLEEP:
                self._wake(cell)
        return self.waking

    def rise(self) -> None:
        """Note that it is awake: who waited goes on."""
        self.stage, self.row, self.was_asleep = SleepStage.AWAKE, None, True
        self.settle(None)

    def settle(self, error: AgentrailError | None) -> None:
        """Tell who waited what became of the waking."""
        waking, self.waking = self.waking, None
        if waking is not None:
            waking.error = error
            waking.done.set()


class SleepingCell(HeldCode):
    """A session that can sleep: what of its cell goes when it falls asleep, and comes back."""

    __slots__ = ("interpreter", "journal", "ports", "scrub", "sleep", "state")

    state: SessionState
    ports: Ports
    scrub: Scrub
    mailbox: Mailbox[Any]
    bus: EventBus
    pending_calls: PendingCalls
    journal: SessionJournal | None
    interpreter: Any
    options: SessionOptions | None
    ending: str | None
    resting: RestRequest | None
    take_snapshot: Callable[[], TakenSnapshot]
    sleep: Sleep | None
    _going_back: Any

    @property
    def is_asleep(self) -> bool:
        """Whether there is no state of it in memory."""
        return self.sleep is not None and self.sleep.stage is SleepStage.ASLEEP

    @property
    def is_leaving(self) -> bool:
        """Whether its actor has decided to leave."""
        return self.sleep is not None and self.sleep.stage is SleepStage.LEAVING

    @property
    def incarnation(self) -> int:
        """Which one this is, or was."""
        row = None if self.sleep is None else self.sleep.row
        return self.state.data.incarnation if row is None else row.incarnation

    @property
    def reading(self) -> HowToRead:
        """How its answers read."""
        row = None if self.sleep is None else self.sleep.row
        if row is not None:
            return row.reading
        config = self.state.data.config
        return HowToRead(has_format=config.response_format is not None, has_tags=bool(config.inline_tags))

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """The code of its plugins, behind that of the agents that it may be handed over to."""
        row = None if self.sleep is None else self.sleep.row
        if row is not None:
            return row.plugins
        of_agents = [plugin for agent in self.ports.agents.values() for plugin, _ in agent.plugins or ()]
        return (*of_agents, *[one.plugin for one in self.state.data.stack.members])

    def stir(self) -> None:
        """Wake it, if it sleeps: something was put into its mailbox."""
        sleep = self.sleep
        if sleep is not None and sleep.stage is not SleepStage.AWAKE and self.ending is None:
            sleep.stir(self)

    async def awake(self) -> None:
        """Wake it, if it sleeps, and wait until what it knows is there; it stays so until the next checkpoint of the caller.

        Raises:
            SessionRested: It slept when its supervisor closed.
            AgentrailError: It could not be woken, as of `resume_session`; it sleeps on.

        Cancellation: A checkpoint only where it has to wait. It wakes all the same.
        """
        sleep = self.sleep
        while sleep is not None and sleep.stage is not SleepStage.AWAKE:
            if self.ending is not None:
                raise SessionRested(self.ports.session_id, self.ending)
            waking = sleep.stir(self)
            await waking.done.wait()
            if waking.error is not None:
                raise waking.error

    def may_sleep(self) -> bool:
        """Say whether nothing would be lost or kept waiting if it left now."""
        journal = self.journal
        return (
            self.sleep is not None
            and self.ending is None
            and journal is not None
            and journal.is_settled
            and is_at_rest(self.state)
            and not stored_standing(self.state).is_working
            and not self.mailbox.has_mail()
            and not self.pending_calls.is_waited_for
            and self.resting is None
            and self._going_back is None
        )

    def decide_sleep(self) -> bool:
        """Say whether its actor leaves now. What comes from here on waits for the next one."""
        if not self.may_sleep():
            return False
        assert self.sleep is not None  # noqa: S101 - it may sleep
        self.sleep.stage = SleepStage.LEAVING
        return True

    def lie_down(self, row: SleepingSession) -> None:
        """Let go of all that the journal knows, behind the end of its actor."""
        assert self.sleep is not None  # noqa: S101 - it may sleep
        self.sleep.stage, self.sleep.row = SleepStage.ASLEEP, row
        self.journal = self.interpreter = None
        self.bus.empty()
        # Not replaced by something harmless: who looks at it without waking it first is wrong, and hears so.
        if hasattr(self, "state"):  # else it was not even made ready
            del self.state

    def get_up(self, state: SessionState, ports: Ports, events: Sequence[Event]) -> None:
        """Take what the journal came to. Handles, subscribers and callers are those of before.

        Args:
            state: What it knows.
            ports: What it works with.
            events: What it published last.
        """
        self.state, self.ports, self.scrub = state, ports, scrub_of(ports)
        self.bus.fill(last_envelope_of(state), events, self.take_snapshot)


def last_envelope_of(state: SessionState) -> Envelope:
    """Give the envelope of the last event of a session, number 0 before the first."""
    config = state.data.config
    return Envelope(config.session_id, state.data.seq, state.data.started_at_ms, config.path)


def left_of(cell: SleepingCell, workspace: Workspace) -> SleepingSession:
    """Say what is left of a session that is about to sleep."""
    options = cell.options
    assert options is not None  # noqa: S101 - a root with a store has them
    return SleepingSession(
        ports=cell.ports,
        # The conversation that it began with is in its journal.
        options=evolve(options, messages=()) if options.messages else options,
        workspace=workspace,
        plugins=cell.plugins,
        place=last_envelope_of(cell.state),
        incarnation=cell.incarnation,
        due_at_ms=stored_standing(cell.state).due_at_ms,
        reading=cell.reading,
    )
