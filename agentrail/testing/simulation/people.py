"""People of a simulated life: careful clients that speak the remote protocol to any node, and change their minds.

Each draw has a name, such as `people[1].says[2]`. On an empty tape the first person sends one prompt and waits for its end.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, TypeVar

import trio
from attrs import define, evolve, field

from agentrail.abc import Ok
from agentrail.errors import AgentrailError, AlreadyExists, AlreadyStarted, CursorAhead
from agentrail.events import ApprovalRequired, AskUser, ClientCall, Event, EventsLost
from agentrail.gateway.error_responses import ERROR_ANSWERS
from agentrail.remote.link import Links, open_links
from agentrail.remote.remote_session import RemoteSession
from agentrail.testing.simulation.facts import CallAnswered, CallAsked, CallKind, Read, ReaderSubscribed
from agentrail.testing.simulation.faults import WHIMS
from agentrail.testing.simulation.inhabited_world import Client, InhabitedWorld
from agentrail.testing.simulation.log import LineKind

T = TypeVar("T")

_WEIGHTS: Final = {"prompt": 12, "steer": 3, "abort": 2, "abort all": 1, "drop": 1, "repeat": 3, "twice": 2}
_RARE: Final = ("flood", "hurry", "vanish", "detach", "look", "compact", "begin anew", "switch")
DEEDS: Final = ("nothing", *[deed for deed, weight in _WEIGHTS.items() for _ in range(weight)], *_RARE)
"""Rounds by weight. All but the first begin with a prompt. `drop` aborts that prompt only, `twice` sends one to two nodes at
one instant, `hurry` does not wait for its end."""

_DECISIONS: Final = (*("yes",) * 5, "no", "late", "yes and yes", "yes and no", "never", "never")
_PATIENCE: Final = (*(60.0,) * 8, 5.0, 1.0)


async def _create(session: RemoteSession, profile: str) -> None:
    link = session._links.first  # noqa: SLF001 - as `agentrail.connect` does
    answered = await link.ask("create", session.session_id, {"agent_id": profile})
    if answered.error is not None and not isinstance(answered.error, AlreadyStarted | AlreadyExists):
        raise answered.error


_CALLS: Final[dict[str, tuple[CallKind, Callable[[RemoteSession, str], Awaitable[Any]]]]] = {
    "create": ("other", _create),
    "prompt": ("prompt", lambda session, key: session.prompt(f"{key} please", client_id=key)),
    "wait": ("other", lambda session, key: session.wait_for_request(key)),
    "steer": ("steer", lambda session, key: session.steer(f"{key} instead", client_id=key)),
    "abort": ("abort", lambda session, ref: session.abort("never mind", ref=ref or None)),
    "abort all": ("abort", lambda session, _: session.abort(kill_tools="all", clear_queue=True)),
    "look": ("status", lambda session, _: session.status()),
    "compact": ("other", lambda session, _: session.compact()),
    "switch": ("other", lambda session, _: session.switch_model("demo:fast")),
    "approved": ("approve", lambda session, key: session.approve(key)),
    "rejected": ("reject", lambda session, key: session.reject(key, "not now")),
    "yes": ("answer", lambda session, ref: session.respond(ref, "yes")),
    "declined": ("decline", lambda session, ref: session.decline(ref)),
    "done": ("answer", lambda session, ref: session.answer(ref, Ok(text="done"))),
}
_ONCE: Final = frozenset({"abort", "abort all", "compact", "switch"})
"""Calls without a name. They are not sent again if their outcome is unknown."""

_MAYBE: Final = (
    *("held_by", "store_unavailable", "stop_not_written", "fenced", "session_rested", "internal"),
    "call_timeout",
)
"""Codes of errors after which the call may still take effect."""


def people(  # noqa: PLR0913 - all that there is to say of people
    world: InhabitedWorld,
    n: int,
    profile: str,
    *,
    pause: tuple[float, float] = (5.0, 60.0),
    sessions: int | None = None,
    deeds: tuple[str, ...] = DEEDS,
) -> None:
    """Let people live in a world until its calm end.

    Args:
        world: The world.
        n: Number of people.
        profile: Profile of their sessions.
        pause: Shortest and longest pause between two rounds, in seconds.
        sessions: Number of their sessions. If there are fewer than people, some people share one. None: each has their own.
        deeds: See `DEEDS`. The first is to do nothing.
    """
    first = sum(name.startswith("person-") for name in world.machines)
    for index in range(n):
        person = Person(world, first + index, first + index % (sessions or n), profile, pause, deeds)
        world.inhabit(person.name, person.live)


@define(eq=False)
class Person(Client):
    """A client with a session, a reader that keeps its number, and prompts that it sends again until it knows their end."""

    own: int  # number of the session
    profile: str
    pause: tuple[float, float]
    deeds: tuple[str, ...]
    session_id: str = ""
    away: float = 0.0
    open: dict[str, str] = field(factory=dict)  # prompts without a known end, with their refs
    sent: list[str] = field(factory=list)  # all prompts of the session
    has_ended: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)
    read_up_to: int = 0
    visit: trio.CancelScope = field(factory=trio.CancelScope)
    reading: trio.CancelScope = field(factory=trio.CancelScope)
    links: Links = field(init=False)
    nursery: trio.Nursery = field(init=False)

    @property
    def name(self) -> str:
        """Its name in the log and on the network."""
        return f"person-{self.index}"

    @property
    def user(self) -> str:
        """The user of its session, whose token it has."""
        return f"person-{self.own}"

    def _draw(self, what: str, options: tuple[T, ...]) -> T:
        return self.world.tape.choice(f"people[{self.index}].{what}", options)

    async def _wait(self, what: str, low: float, high: float) -> None:
        draw, is_calm, now = self.world.tape.number, self.world.is_calm, trio.current_time()
        until = now + (low if is_calm else draw(f"people[{self.index}].{what}", low, high))
        await trio.sleep_until(until if is_calm else min(until, self.world.calm_at))

    def _dial(self, within_seconds: float) -> AbstractAsyncContextManager[Any]:
        """Connect to a drawn node, or to one after it if that did not last."""
        place = self._place(self._draw, self.counts["dials"])
        self.counts["dials"] += 1
        headers = [(b"authorization", f"Bearer {self.user}".encode())]
        dialed: AbstractAsyncContextManager[Any] = self.world.network.dial(
            place, headers=headers, within_seconds=within_seconds
        )
        return dialed

    # --- rounds

    async def live(self) -> None:
        """Visit the nodes until there is nothing more to do."""
        is_done = False
        while not is_done:
            try:
                with trio.CancelScope() as self.visit:
                    async with open_links(self._dial) as self.links, trio.open_nursery() as self.nursery:
                        is_done = await self._live_connected()
                        self.nursery.cancel_scope.cancel(reason="the client leaves")
            except* AgentrailError as group:
                self._note(f"leaves: {group.exceptions[0]}")
                self.away = 1.0
            await trio.sleep(self.away)

    async def _live_connected(self) -> bool:
        if not self.session_id:
            self.session_id = f"s{self.own}" + (
                f"-{self.counts['sessions']}" if self.counts["sessions"] else ""
            )
            await self._ask("create", self.profile)
        self.nursery.start_soon(self._read)
        for name in self.open:
            self.nursery.start_soon(self._settle, name)
        if self.counts["dials"] > 1 and self.sent and self.sent[-1] not in self.open:
            self.nursery.start_soon(self._ask, "prompt", self.sent[-1])  # in doubt whether it arrived
        while self.counts["rounds"] < self.world.seconds / max(self.pause[0], 0.5) and not self.world.is_calm:
            number = self.counts["rounds"]
            self.counts["rounds"] += 1
            deed = self._draw(f"says[{number}]", self.deeds)
            if deed != self.deeds[0] or self.index == number == 0:
                deed = deed if self.world.allows(WHIMS) else "prompt"
                await self._wait(f"pause[{number}]", *self.pause)
                await self._do(f"{self.name}.{number}", deed)
        while self.open:
            await self.has_ended.park()
        await trio.sleep(2)  # for the last events
        return True

    async def _do(self, name: str, deed: str) -> None:
        self._prompt(name)
        if deed not in {"nothing", "prompt", "hurry"}:
            await self._wait(f"after[{name}]", 0.0, 8.0)
        match deed:
            case "repeat":  # any prompt of the session, from another window
                async with self._second_links() as other:
                    await self._ask("prompt", self._draw(f"repeats[{name}]", tuple(self.sent)), other)
            case "drop":
                await self._ask("abort", self.open.get(name, ""))
            case "twice":
                async with self._second_links() as other:
                    self._prompt(f"{name}b")
                    await self._ask("prompt", f"{name}b", other)
            case "flood":
                for more in range(self._draw("flood", (1, 3, 6, 12))):
                    self._prompt(f"{name}.{more}")
            case "vanish":
                self.away = self._draw("away", (1.0, 5.0, 30.0))
                self.visit.cancel(reason="the client vanishes")
            case "detach":
                self.reading.cancel(reason="the reader detaches")
            case "steer":
                await self._ask("steer", f"{name}s")
                if self._draw(f"again[{name}]", (False, True, True)):
                    await self._wait(f"again[{name}].after", 0.0, 12.0)
                    async with self._second_links() as other:
                        await self._ask("steer", f"{name}s", other)
            case _ if deed in _CALLS and deed != "prompt":
                await self._ask(deed, "")
        while deed != "hurry" and name in self.open:
            await self.has_ended.park()
        if deed == "begin anew" and not self.open:
            self.counts["sessions"] += 1
            self.session_id, self.read_up_to, self.away, self.sent = "", 0, 0.0, []
            self.visit.cancel(reason="the client begins another session")

    def _prompt(self, name: str) -> None:
        self.open[name] = ""
        self.sent.append(name)
        self.nursery.start_soon(self._settle, name)

    async def _settle(self, name: str) -> None:
        """Send a prompt, and wait until its end is known."""
        patience = self._draw("patience", _PATIENCE) if self.world.allows(WHIMS) else _PATIENCE[0]
        receipt = await self._ask("prompt", name, patience=patience)
        if receipt is not None:
            self.open[name] = receipt.ref
            await self._ask("wait", str(receipt.request_id))
        del self.open[name]
        self.has_ended.unpark_all()

    @asynccontextmanager
    async def _second_links(self) -> AsyncIterator[Links]:
        """Connect a second time, to another node."""
        async with open_links(self._dial) as links:
            await links.first.welcomed.wait()
            yield links

    # --- calls

    async def _ask(
        self, deed: str, key: str, links: Links | None = None, patience: float = float("inf")
    ) -> Any:
        """Call the session until the answer is final, and return the result. None: it was refused."""
        request, call = _CALLS[deed]
        links, pause = links or self.links, 0.25
        while True:
            self.counts["calls"] += 1
            connections = links.first.connections
            call_id, is_once = f"{self.name}/{self.counts['calls']}", deed in _ONCE
            answered = CallAnswered(id=call_id, outcome="unknown", is_final=is_once)
            says = key if request in {"prompt", "steer"} else deed
            asked = CallAsked(id=answered.id, request=request, key=key, says=says, user=self.user)
            self._note(f"asks {deed} {key}", asked)
            try:
                with trio.move_on_after(_PATIENCE[0] if self.world.is_calm else patience):
                    value = await call(RemoteSession(links, self.session_id), key)
                    told = getattr(value, "ref", deed)
                    again = links.first.connections > connections  # the link may have sent it twice
                    answered = CallAnswered(
                        id=answered.id, outcome="ok", says=told, value=value, is_repeated=again
                    )
            except AgentrailError as error:
                answered = refusal(call_id, error)
                is_final = links.first.fault is not None or is_once or not _is_passing(answered.code)
                answered = evolve(answered, is_final=is_final)
                if links.first.fault is not None:
                    raise
            except trio.Cancelled:
                answered = evolve(answered, is_final=True)
                raise
            finally:
                self._note(f"is answered {answered.outcome} {answered.code}", answered)
            if answered.is_final:
                return answered.value if answered.outcome == "ok" else None
            try:
                await trio.sleep(pause)
            except trio.Cancelled:
                self._note(f"asks {deed} no more", evolve(answered, is_final=True))
                raise
            pause = min(2 * pause, 10.0)

    def _note(self, said: str, facts: Any = None) -> None:
        kind: LineKind = "read" if isinstance(facts, Read | ReaderSubscribed) else "person"
        self.world.log.note(kind, said, session=self.session_id, place=self.name, facts=facts)

    # --- reading

    async def _read(self) -> None:
        while True:
            with trio.CancelScope() as self.reading:
                reader = f"{self.name}/{self.session_id}/{self.counts['readers']}"
                self._note(f"reads after {self.read_up_to}", ReaderSubscribed(reader, self.read_up_to))
                try:
                    await self._look_for_decisions()
                    session = RemoteSession(self.links, self.session_id)
                    async with session.subscribe(after=self.read_up_to, deltas=False) as events:
                        async for event in events:
                            self._take(reader, event)
                except CursorAhead:  # the store lost events: this is another reader
                    self.read_up_to = 0
                    self.counts["readers"] += 1
                except AgentrailError as error:
                    self._note(f"cannot read: {error.code}")
            await trio.sleep(1)

    def _take(self, reader: str, event: Event) -> None:
        if event.meta is not None and not event.meta.ephemeral:
            self.read_up_to = event.meta.seq
        self._note(f"reads {self.read_up_to} {type(event).__name__}", Read(reader, event))
        match event:
            case ApprovalRequired(approval=approval):
                self.nursery.start_soon(self._decide, approval.id, "approved", "rejected")
            case AskUser(ref=ref):
                is_plain = not event.options and event.schema is None
                self.nursery.start_soon(self._decide, ref, "yes" if is_plain else "declined", "declined")
            case ClientCall(ref=ref):
                self.nursery.start_soon(self._decide, ref, "done", "done")
            case EventsLost():
                self.nursery.start_soon(self._look_for_decisions)
            case _:
                pass

    async def _look_for_decisions(self) -> None:
        """Decide all pending approvals and questions, whether or not their events were read."""
        status = await self._ask("look", "")
        if status is not None:
            for approval in status.all_approvals:
                self.nursery.start_soon(self._decide, approval.id, "approved", "rejected")
            for question in status.all_questions:
                self.nursery.start_soon(self._decide, question.ref, "declined", "declined")

    async def _decide(self, key: str, yes: str, no: str) -> None:
        what = f"decides[{self.counts['decisions']}]"
        self.counts["decisions"] += 1
        how = self._draw(what, _DECISIONS) if self.world.allows(WHIMS) else "yes"
        if how == "never":
            return
        await self._wait(f"{what}.pause", 0.5, 20.0 if how == "late" else 4.0)
        if how not in {"yes and yes", "yes and no"}:
            await self._ask(no if how == "no" else yes, key)
            return
        async with self._second_links() as other, trio.open_nursery() as nursery:
            nursery.start_soon(self._ask, yes, key)
            nursery.start_soon(self._ask, no if how == "yes and no" else yes, key, other)


def _is_passing(code: str) -> bool:
    row = ERROR_ANSWERS.get(code)
    return row is None or row.status in {421, 429} or row.status >= 500  # noqa: PLR2004 - of HTTP


def refusal(call_id: str, error: AgentrailError) -> CallAnswered:
    """Return an error as an answer. Its status is that of an approval that was decided before."""
    status: object = getattr(error, "status", "")
    return CallAnswered(
        id=call_id,
        outcome="unknown" if error.code in _MAYBE else "refused",
        says=status if isinstance(status, str) else "",
        code=error.code,
        value=error,
    )
