"""Running machines under random load: busy timers, full mailboxes, passivation with messages in flight, and registries.

A script is plain data; it is played on virtual time, upon a machine that is reached through an address and nothing else.
"""

import itertools
from typing import Any, Final

import pytest
import trio
import trio.testing
from attrs import field, frozen
from hypothesis import example, given, strategies as st

from agentrail.actors import Behaviour, Init, machine, open_supervisor
from agentrail.actors.actor_handle import cell_of, mailbox_of
from agentrail.actors.actor_registry import Registered, Registry, Unregistered
from agentrail.actors.dead_letters import dead_letters
from agentrail.errors import MailboxFull
from agentrail.otp.child_specs import ChildSpec, SupervisorFlags
from agentrail.otp.exits import Shutdown
from agentrail.otp.statem import (
    Call,
    Keep,
    NamedTimeout,
    NextState,
    Postpone,
    Reply,
    StateTimeout,
    Stop,
    TimedOut,
)
from agentrail.testing.orphans import no_orphans

settled = trio.testing.wait_all_tasks_blocked

_ROOMY: Final = {"capacity": 1000}
_NARROW: Final = [{"capacity": 1, "overflow": "block"}, {"capacity": 3, "overflow": "block"}]


@frozen
class Load:
    """What a machine is like: its mailbox, the timers that it sets again whenever they come, and how long it works."""

    options: dict[str, Any]
    periods: tuple[float, ...]
    works: float
    slow_end: bool


@frozen
class Line:
    """One thing to do, and how long to wait afterwards."""

    verb: str
    seconds: float


VERBS: Final = [
    "cast",
    "cast",
    "postponed",
    "postponed",
    "go",
    "nap",
    "send",
    "call",
    "hold",
    "release",
    "crowd",
]
loads = st.builds(
    Load,
    options=st.sampled_from([_ROOMY, _ROOMY, *_NARROW]),
    periods=st.lists(st.sampled_from([0.5, 1.0, 3.0]), max_size=3).map(tuple),
    works=st.sampled_from([0.0, 0.0, 1.0, 2.0]),
    slow_end=st.booleans(),
)
scripts = st.lists(
    st.builds(Line, st.sampled_from(VERBS), st.sampled_from([0.0, 0.0, 0.2, 5.0])), max_size=25
)


@frozen
class Word:
    """A message: its number in the order of sending, and what it asks for."""

    number: int
    kind: str


@frozen
class Book:
    """What happened.

    Attributes:
        load: Upon what.
        handled: Numbers, as they were handled; `None` for a timeout.
        accepted: The words that were, in their order but for those that waited.
        answers: Of calls, by number.
        alive: How many instances there are, at each birth.
        ended: One for each that has ended.
    """

    load: Load
    handled: list[int | None] = field(factory=list)
    accepted: list[Word] = field(factory=list)
    answers: dict[int, object] = field(factory=dict)
    alive: list[int] = field(factory=list)
    ended: list[int] = field(factory=list)


class Loaded(Behaviour[str, None]):
    """Postpones the words that say so in one of its two states, and is passivated by `nap`."""

    def __init__(self, book):
        self.book = book
        self.book.alive.append(len(self.book.alive) + 1 - len(self.book.ended))

    async def init(self):
        """Set all timers."""
        timers = [NamedTimeout(number, period) for number, period in enumerate(self.book.load.periods)]
        return Init("s1", None, timers)

    def handle(self, event, state, data):
        """Do what the word says; work, when a timer comes, for longer than its period if need be."""
        book = self.book
        if isinstance(event, TimedOut):
            book.handled.append(None)
            trio.lowlevel.current_clock().jump(book.load.works)
            return Keep(actions=[NamedTimeout(event.name, book.load.periods[event.name])])
        word = event.request if isinstance(event, Call) else event.message
        if word.kind == "postponed" and state == "s1":
            return Keep(actions=[Postpone()])
        book.handled.append(word.number)
        match word.kind:
            case "go":
                return NextState("s2" if state == "s1" else "s1", actions=[StateTimeout(1_000_000.0)])
            case "nap":
                return Stop(Shutdown("passivated"))
            case "call":
                return Keep(actions=[Reply(event.to, word.number)])
        return Keep()

    async def terminate(self, reason, state, data):
        """Take a while, or not."""
        if self.book.load.slow_end:
            await trio.sleep(2)
        self.book.ended.append(1)


class Player:
    """Plays a script upon the holder of a key."""

    def __init__(self, book, registry, nursery):
        self.book = book
        self.registry = registry
        self.nursery = nursery
        self.number = 0
        self.held = []

    async def play(self, address, lines):
        """Do all of it, let everybody go, and wait until nothing waits any more."""
        for line in lines:
            self.take(address, line.verb)
            if line.seconds:
                await trio.sleep(line.seconds)
            else:
                await settle()
        while self.held:
            self.held.pop().release()
        await trio.sleep(20)
        for _ in range(2):  # whatever state it is in: what it postponed is handled in one of the two
            self.take(address, "go")
            await trio.sleep(50)

    def take(self, address, verb):
        """Do one thing."""
        here = self.registry.lookup("key")
        match verb:
            case "hold" if here is not None and not self.held:
                self.held.append(mailbox_of(cell_of(here)))
                self.held[-1].hold()
            case "release" if self.held:
                self.held.pop().release()
            case "crowd":
                for _ in range(5):
                    self.take(address, "cast")
            case "send" | "call":
                self.nursery.start_soon(self.wait, address, self.word(verb))
            case "cast" | "postponed" | "go" | "nap":
                word = self.word(verb)
                try:
                    address.cast(word)
                except MailboxFull:
                    return
                self.book.accepted.append(word)

    def word(self, kind):
        """Make the next one."""
        self.number += 1
        return Word(self.number, kind)

    async def wait(self, address, word):
        """Send or call, with all the time that it takes."""
        if word.kind == "send":
            await address.send(word)
        else:
            self.book.answers[word.number] = await address.call(word, timeout_seconds=None)
        self.book.accepted.append(word)


async def settle():
    """Let everybody who is ready have some turns; a busy timer never settles."""
    for _ in range(10):
        await trio.lowlevel.checkpoint()


def run(load, lines):
    """Play a script, and return what happened."""
    book = Book(load)

    async def main():
        async with no_orphans():
            registry = Registry()
            start = machine(Loaded, book).with_options(name=registry.name("key"), **load.options)
            template = ChildSpec("m", start, "temporary", shutdown_seconds=1000.0)
            async with (
                open_supervisor(
                    SupervisorFlags("dynamic"), [template], observer=lambda _: None
                ) as supervisor,
                trio.open_nursery() as nursery,
            ):

                async def activate():
                    await supervisor.start_instance()

                address = registry.address("key", activate=activate, hold_limit=10_000)
                with trio.fail_after(100_000):
                    await Player(book, registry, nursery).play(address, lines)
            assert dead_letters().count == 0

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return book


@pytest.mark.scenario("S-212")
@given(load=loads, lines=scripts)
def test_each_message_is_handled_once_by_one_life(load, lines):
    """Whatever naps, is postponed, held or full in between: all that was accepted, once each, and no two live at a time."""
    book = run(load, lines)
    handled = [number for number in book.handled if number is not None]
    assert sorted(handled) == sorted(word.number for word in book.accepted)
    assert book.answers == {word.number: word.number for word in book.accepted if word.kind == "call"}
    assert set(book.alive) <= {1}


def in_order(words):
    """Say in which order words are handled, by the rules: a life begins in s1, with what the one before has left."""
    waiting, postponed, state, handled = list(words), [], "s1", []
    while waiting:
        word = waiting.pop(0)
        if word.kind == "postponed" and state == "s1":
            postponed.append(word)
            continue
        handled.append(word.number)
        if word.kind == "go":
            waiting, postponed, state = postponed + waiting, [], "s2" if state == "s1" else "s1"
        elif word.kind == "nap":
            waiting, postponed, state = sorted(postponed + waiting, key=lambda each: each.number), [], "s1"
    return handled


def casts(*verbs):
    """Make a script in which the machine gets all of them at once."""
    return [Line("go", 5.0), Line("hold", 0.0), *(Line(verb, 0.0) for verb in verbs)]


CALM: Final = Load(_ROOMY, (), 0.0, slow_end=False)


@pytest.mark.scenario("S-187")
@given(load=loads, lines=scripts)
@example(load=CALM, lines=casts("go", "postponed", "cast", "postponed", "nap", "cast"))
@example(load=CALM, lines=casts("go", "postponed", "postponed", "go", "go", "postponed", "nap", "postponed"))
@example(
    load=CALM,
    lines=[Line("cast", 0.0), Line("nap", 0.0), Line("cast", 0.0), Line("nap", 0.0), Line("cast", 0.0)],
)
def test_casts_of_one_sender_keep_their_order_over_all_lives(load, lines):
    """Whenever they came and however often the machine napped: as if one life had got all of them one by one."""
    book = run(load, [line for line in lines if line.verb not in {"send", "call"}])
    assert [number for number in book.handled if number is not None] == in_order(book.accepted)


@given(load=loads, many=st.integers(1, 20))
@example(load=Load(_ROOMY, (1.0, 1.0), 3.0, slow_end=False), many=20)
def test_a_busy_timer_lets_each_message_through(load, many):
    """Between two messages that wait, each timer comes once at most."""
    lines = [Line("go", 5.0), Line("hold", 0.0), *[Line("cast", 0.0)] * many, Line("release", 5.0)]
    book = run(load, lines)
    together = {word.number for word in book.accepted if word.kind == "cast"}
    positions = [place for place, number in enumerate(book.handled) if number in together]
    assert all(later - one - 1 <= len(load.periods) for one, later in itertools.pairwise(positions))


NAMES: Final = ("a", "b", "c")


@given(
    strategy=st.sampled_from(["one_for_all", "rest_for_one"]),
    kills=st.lists(st.tuples(st.sampled_from(["names", *NAMES]), st.sampled_from([0.0, 1.0])), max_size=8),
)
def test_a_registry_that_is_restarted_knows_who_lives(strategy, kills):
    """After any kills each name is held by the instance that lives, who is reached by it; and each change is told, in order."""
    told = {name: [] for name in NAMES}

    async def main():
        registry = Registry()
        registry.add_listener(lambda event: told[event.key].append(type(event)))
        book = Book(Load(_ROOMY, (), 0.0, slow_end=False))
        children = [ChildSpec("names", registry.serve)]
        children += [
            ChildSpec(name, machine(Loaded, book).with_options(name=registry.name(name))) for name in NAMES
        ]
        flags = SupervisorFlags(strategy, intensity=1000)
        async with no_orphans(), open_supervisor(flags, children, observer=lambda _: None) as supervisor:
            for number, (name, seconds) in enumerate(kills):
                supervisor.handle(name).kill()
                for _ in range(number % 3):
                    await trio.lowlevel.checkpoint()
                await trio.sleep(seconds)
                await settled()
                for each in NAMES:
                    assert registry.lookup(each) is supervisor.handle(each)
                    word = Word(number, each)
                    registry.address(each).cast(word)
                await settled()
                assert book.handled[-3:] == [number] * 3

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    for changes in told.values():
        assert changes == [Registered, Unregistered] * (len(changes) // 2)
