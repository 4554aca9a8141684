"""Random lives of a session, of which a naive world knows whose end is whose: the fold says the same of each of its requests."""

from collections.abc import Iterator

import pytest
from attrs import define, field
from hypothesis import example, given, strategies as st

from agentrail.errors import ErrorInfo
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentError,
    AgentResumed,
    AgentStart,
    AgentSuspended,
    EndReason,
    Envelope,
    Event,
    PromptDropped,
    PromptQueued,
    PromptReceived,
    PromptRejected,
    PromptTaken,
    ResponseComplete,
    SessionEnd,
    SessionParked,
    SteeringApplied,
    WaitingFor,
)
from agentrail.host.requests import OUTCOMES, RequestStanding, stand_behind
from agentrail.messages import (
    ApprovalId,
    AssistantMessage,
    CallId,
    PromptRef,
    SessionId,
    SteerRef,
    Text,
    TokenUsage,
)

SAID = (Text(text="Hi"),)
WAITING = (WaitingFor(kind="approval", id=ApprovalId("p"), call_id=CallId("c")),)
BROKE = ErrorInfo(code="overloaded", message="it broke")


@define
class Cycle:
    """One that runs, and all the requests that end with it."""

    ref: str
    works_for: set[str]
    is_suspended: bool = False


@define
class World:
    """A session as a person would think of it: a queue, one cycle at a time, and steers that a cycle may hear."""

    names_ends: bool
    """Whether ends name their prompt; those of old journals do not."""
    queue: list[str] = field(factory=list)
    steers: list[str] = field(factory=list)
    cycle: Cycle | None = None
    became: dict[str, str] = field(factory=dict)
    count: int = 0
    has_ended: bool = False

    def name(self) -> str:
        """Name the next message."""
        self.count += 1
        return f"p{self.count}"

    def start(self, ref: str) -> Iterator[Event]:
        """Begin a cycle."""
        self.cycle = Cycle(ref, {ref})
        self.became[ref] = "running"
        yield AgentStart(ref=PromptRef(ref))

    def end(self, how: str) -> Iterator[Event]:
        """End the cycle, and begin the next one."""
        cycle, self.cycle = self.cycle, None
        assert cycle is not None
        ref = PromptRef(cycle.ref) if self.names_ends else None
        for one in cycle.works_for:
            self.became[one] = {
                "end": "completed",
                "superseded": "aborted",
                "abort": "aborted",
                "error": "failed",
            }[how]
        match how:
            case "abort":
                yield AgentAbort(reason="no more", ref=ref)
            case "error":
                yield AgentError(error=BROKE, ref=ref)
            case _:
                reason: EndReason = "end" if how == "end" else "superseded"
                yield AgentEnd(messages=(), usage=TokenUsage(), stop_reason=reason, ref=ref)
        steers, self.steers = self.steers, []
        for place, one in enumerate(steers):
            self.became[one] = "queued"
            yield PromptQueued(ref=PromptRef(one), content=SAID, position=place)
        self.queue = steers + self.queue

    def next_one(self) -> Iterator[Event]:
        """Begin what waits longest."""
        if self.cycle is None and self.queue:
            yield from self.start(self.queue.pop(0))

    def prompt(self, choice: int) -> Iterator[Event]:
        """Take a prompt: at once, into the queue, for a decision, or not at all."""
        ref = self.name()
        if self.cycle is not None and not self.cycle.is_suspended:
            self.queue.append(ref)
            self.became[ref] = "queued"
            yield PromptQueued(ref=PromptRef(ref), content=SAID, position=len(self.queue) - 1)
            return
        self.became[ref] = "running"
        yield PromptReceived(ref=PromptRef(ref), content=SAID)
        if choice == 0:
            self.became[ref] = "refused"
            yield PromptRejected(ref=PromptRef(ref), reason="rude")
            if self.cycle is None:
                yield AgentAbort(reason="rude")
        elif self.cycle is None:
            yield from self.start(ref)
        elif choice == 1:
            self.cycle.works_for.add(ref)
            yield PromptTaken(ref=PromptRef(ref), approval_id=ApprovalId("p"), by="human_approval")
            yield from self.resume()
        else:
            yield AgentResumed(trigger="superseded")
            yield from self.end("superseded")
            self.queue.insert(len(self.queue), ref)
            yield from self.next_one()

    def steer(self) -> Iterator[Event]:
        """Speak into a cycle, which hears it later, if it does."""
        if self.cycle is not None:
            ref = self.name()
            self.steers.append(ref)
            self.became[ref] = "queued"
            yield from self.resume()

    def hear(self) -> Iterator[Event]:
        """Let the cycle hear what was said into it."""
        if self.steers and self.cycle is not None and not self.cycle.is_suspended:
            heard, self.steers = self.steers, []
            self.cycle.works_for |= set(heard)
            for one in heard:
                self.became[one] = "running"
            yield SteeringApplied(refs=tuple(SteerRef(one) for one in heard), count=len(heard))

    def suspend(self) -> Iterator[Event]:
        """Wait for people."""
        if self.cycle is not None and not self.cycle.is_suspended:
            self.cycle.is_suspended = True
            for one in self.cycle.works_for:
                self.became[one] = "waiting"
            yield AgentSuspended(waiting=WAITING)

    def resume(self) -> Iterator[Event]:
        """Wait no more."""
        if self.cycle is not None and self.cycle.is_suspended:
            self.cycle.is_suspended = False
            for one in self.cycle.works_for:
                self.became[one] = "running"
            yield AgentResumed(trigger="tool_approved")

    def finish(self, how: str) -> Iterator[Event]:
        """End the cycle that runs, if one does; in idle an abort is said, and means no request."""
        if self.cycle is not None:
            yield from self.resume()
            yield from self.end(how)
            yield from self.next_one()
        elif how == "abort":
            yield AgentAbort(reason="nothing to stop")

    def drop(self, choice: int) -> Iterator[Event]:
        """Take one prompt out of the queue."""
        if self.queue:
            ref = self.queue.pop(choice % len(self.queue))
            self.became[ref] = "dropped"
            yield PromptDropped(ref=PromptRef(ref), content=SAID)

    def answer(self) -> Iterator[Event]:
        """Let the model say something."""
        if self.cycle is not None and not self.cycle.is_suspended:
            message = AssistantMessage(content=SAID, model="m")
            yield ResponseComplete(message=message, usage=TokenUsage(input=7), stop_reason="end")

    def leave(self, *, is_parked: bool) -> Iterator[Event]:
        """End the session, with what is open in it."""
        self.has_ended = True
        if is_parked:
            yield SessionParked(reason="it crashed")
        if self.cycle is not None:
            yield from self.end("error" if is_parked else "abort")
        for ref in self.queue:
            self.became[ref] = "failed" if is_parked else "dropped"
            yield PromptDropped(ref=PromptRef(ref), content=SAID)
        yield SessionEnd(reason="over")

    def do(self, what: str, choice: int) -> Iterator[Event]:
        """Let something happen."""
        match what:
            case "prompt":
                yield from self.prompt(choice)
            case "drop":
                yield from self.drop(choice)
            case "end" | "abort" | "error":
                yield from self.finish(what)
            case _:
                yield from getattr(self, what)()


# What begins things comes more often than what ends them: else most of a life is spent in idle.
ENDS = ("resume", "end", "end", "abort", "error", "drop", "answer")
WHAT = st.sampled_from([*(["prompt"] * 6), *(["suspend"] * 4), *(["steer"] * 2), *(["hear"] * 2), *ENDS])
LIVES = st.lists(st.tuples(WHAT, st.integers(0, 3)), min_size=5, max_size=60)


@pytest.mark.parametrize("names_ends", [True, False], ids=["named", "of old journals"])
@given(life=LIVES, is_parked=st.booleans())
@example(life=[("prompt", 2), ("steer", 0), ("hear", 0), ("end", 0)], is_parked=False)  # heard
@example(
    life=[("prompt", 2), ("steer", 0), ("end", 0)], is_parked=False
)  # and not: it has a cycle of its own
@example(life=[("prompt", 2), ("suspend", 0), ("prompt", 1), ("suspend", 0)], is_parked=False)  # taken
@example(life=[("prompt", 2), ("suspend", 0), ("prompt", 2)], is_parked=False)  # superseded
@example(
    life=[("prompt", 2), ("suspend", 0), ("prompt", 0)], is_parked=False
)  # refused beside one that waits
@example(life=[("prompt", 2), ("prompt", 2), ("prompt", 2), ("drop", 0)], is_parked=False)
@example(life=[("prompt", 2), ("prompt", 2)], is_parked=True)
def test_each_request_stands_as_a_naive_world_says(names_ends, life, is_parked):
    """Behind each thing that happens; and behind the end of the session each of them has ended, once."""
    world, standings = World(names_ends), {}
    seq = 0
    for what, choice in [*life, ("leave", 0)]:
        happened = world.leave(is_parked=is_parked) if what == "leave" else world.do(what, choice)
        for event in happened:
            seq += 1
            place = Envelope(SessionId("s"), seq, 0, (SessionId("s"),))
            for ref in world.became.keys() - standings.keys():
                standings[ref] = RequestStanding(ref=PromptRef(ref))
            told = type(event)(
                **{name: getattr(event, name) for name in event.__struct_fields__ if name != "meta"},
                meta=place,
            )
            before = dict(standings)
            standings = {ref: stand_behind(one, told) for ref, one in standings.items()}
            for ref, one in before.items():
                if one.has_ended:
                    assert standings[ref] is one
        for ref in world.became.keys() - standings.keys():  # a steer that no event spoke of yet
            standings[ref] = RequestStanding(ref=PromptRef(ref))
        assert {ref: one.status for ref, one in standings.items()} == world.became
        for one in standings.values():
            assert bool(one.pending) == (one.status == "waiting")
            assert one.seq <= seq
    assert all(one.status in OUTCOMES for one in standings.values())
