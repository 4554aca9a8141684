"""Actors of a simulated life: machines that answer just in time, and callers that count what they get."""

from typing import TYPE_CHECKING, Any, Final

import trio

from agentrail.actors import ActorHandle, Behaviour, ChildSpec, SupervisorFlags, machine, open_supervisor
from agentrail.actors.reply_slots import ReplyTo
from agentrail.errors import CallTimeout
from agentrail.otp.statem import Call, Cast, EventTimeout, Init, Keep, NamedTimeout, Reply, TimedOut

if TYPE_CHECKING:
    from agentrail.testing.simulation.world import World

CALLERS: Final = 3
_CALL_SECONDS: Final = 1.0
"""Time limit of calls, and of a machine without news."""

_ANSWER_SECONDS: Final = 30.0
_MARGIN_SECONDS: Final = 0.001
"""How long before its caller's deadline a machine answers, and the spread of messages around its time limit."""


class _Machine(Behaviour[str, None]):
    """Answers calls after some seconds, which may be none, and counts messages. After each it waits for the next one with a time limit."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.answered: set[object] = set()
        self.casts = 0

    async def init(self) -> Init[str, None]:
        return Init("open", None)

    def handle(self, event: Any, state: str, data: None) -> Keep[None]:
        del state, data
        match event:
            case Call(to=to, request=request) if self.seconds:
                return Keep(actions=[NamedTimeout(request, self.seconds, content=to)])
            case Call(to=to):
                return Keep(actions=[Reply(to, "now")])
            case TimedOut(kind="named", name=request, content=ReplyTo() as to):
                if to.is_open:
                    self.answered.add(request)
                return Keep(actions=[Reply(to, "late")])
            case Cast():
                self.casts += 1
            case _:
                pass
        return Keep(actions=[EventTimeout(_CALL_SECONDS)])


class BusyActors:
    """Machines and their callers. They live until the calm end of a world, in one process that no fault strikes.

    Attributes:
        broken: Broken promises, as sentences.
    """

    def __init__(self, world: "World") -> None:
        """Create them. Pauses are drawn from the world's seed."""
        self.broken: list[str] = []
        self._world = world
        self._chance = world.tape.generator("busy actors")
        self._prompt, self._late, self._timed = (
            _Machine(seconds) for seconds in (0.0, _CALL_SECONDS - _MARGIN_SECONDS, 0.0)
        )

    def every_caller_gets_its_answer(self) -> None:
        """Raise AssertionError if a call was not answered, an answer did not reach its caller, or a message was lost."""
        assert not self.broken, self.broken[0]

    async def live(self) -> None:
        """Call both machines and send messages to the third, until the calm end."""
        specs = [
            ChildSpec(name, machine(lambda made=made: made))
            for name, made in (("prompt", self._prompt), ("late", self._late), ("timed", self._timed))
        ]
        async with open_supervisor(SupervisorFlags("one_for_one"), specs) as supervisor:
            handles: Any = [child.handle for child in await supervisor.which_children()]
            async with trio.open_nursery() as nursery:
                for number in range(CALLERS):
                    nursery.start_soon(self._call_often, f"caller {number}", *handles[:2])
                nursery.start_soon(self._cast_often, handles[2])

    async def _call_often(self, caller: str, prompt: ActorHandle, late: ActorHandle) -> None:
        number = 0
        while not self._world.is_calm:
            number += 1
            for handle in (prompt, late):
                request = f"call {number} of {caller}"
                try:
                    # Tasks that are held back twice may take longer than the second that the late machine has.
                    patience = _ANSWER_SECONDS if handle is prompt else _CALL_SECONDS
                    await handle.call(request, timeout_seconds=patience)
                except CallTimeout:
                    if handle is prompt:
                        self._note(f"{request} was not answered")
                    elif request in self._late.answered:
                        self._note(f"{request} was answered in time, and timed out")
            await trio.sleep(self._chance.uniform(0, 0.1))

    async def _cast_often(self, timed: ActorHandle) -> None:
        sent = 0
        while not self._world.is_calm:
            timed.cast(sent)
            sent += 1
            await trio.sleep(_CALL_SECONDS + self._chance.uniform(-_MARGIN_SECONDS, _MARGIN_SECONDS))
        await trio.sleep(_ANSWER_SECONDS)
        if self._timed.casts != sent:
            self._note(f"{sent - self._timed.casts} of {sent} messages to a machine were lost")

    def _note(self, broken: str) -> None:
        self.broken.append(broken)
        self._world.note(broken)
