"""Many at once: bounds hold, senders hear of it, and nothing that was accepted is lost."""

import pytest
import trio
import trio.testing

from agentrail import open_supervisor
from agentrail.errors import MailboxFull, PromptQueueFull, SessionDown
from agentrail.events import AgentEnd, AgentStart
from agentrail.testing.models import FunctionModel, says
from tests.runtime.rig import open_bare, saying, until
from tests.thinned import IS_NIGHTLY


async def test_ten_thousand_prompts_at_once(supervisor):
    """The mailbox and the queue refuse at the sender; each prompt that was accepted has its cycle, in order."""
    session = await supervisor.start_session(
        model=FunctionModel(lambda _request: says("ok")), max_prompt_queue=100
    )
    accepted, refused = [], {MailboxFull: 0, PromptQueueFull: 0}

    async def prompt(number: int) -> None:
        try:
            accepted.append((await session.prompt(str(number))).ref)
        except (MailboxFull, PromptQueueFull) as error:
            refused[type(error)] += 1

    async with session.subscribe(kinds=[AgentStart, AgentEnd], buffer=20_000) as events:
        async with trio.open_nursery() as nursery:
            for number in range(10_000):
                nursery.start_soon(prompt, number)
        assert len(accepted) + sum(refused.values()) == 10_000
        assert refused[MailboxFull] > 0
        assert refused[PromptQueueFull] > 0
        await session.ask("the last one")
        started = []
        for _ in range(len(accepted) + 1):
            started += [event.ref for event in await until(events, AgentEnd) if isinstance(event, AgentStart)]
    assert sorted(started[:-1]) == sorted(accepted)
    assert started[:-1] == sorted(started[:-1], key=lambda ref: int(ref.rpartition("-")[2]))


@pytest.mark.check
async def test_a_thousand_sessions(supervisor):
    """Each has its own cycle and reply; ending the supervisor ends them all."""
    answers = []

    async def run(number: int) -> None:
        session = await supervisor.start_session(model=saying(str(number)))
        answers.append(await session.ask("Hi"))

    async with trio.open_nursery() as nursery:
        for number in range(1000):
            nursery.start_soon(run, number)
    assert sorted(map(int, answers)) == list(range(1000))


@pytest.mark.check
async def test_a_besieged_session_can_be_closed():
    """Callers who keep its mailbox full do not keep its supervisor from ending it; then each of them is told."""
    callers, told = 3_000 if IS_NIGHTLY else 1_200, []

    async def besiege(session) -> None:
        while True:
            try:
                await session.status()
            except MailboxFull:
                await trio.lowlevel.checkpoint()
            except SessionDown as down:
                told.append(down)
                return

    async with trio.open_nursery() as nursery, open_bare() as supervisor:
        session = await supervisor.start_session(model=saying())
        for _ in range(callers):
            nursery.start_soon(besiege, session)
        with pytest.raises(MailboxFull):  # noqa: PT012 - until it is so
            while True:
                await trio.lowlevel.checkpoint()
                await session.status()
    assert len(told) == callers
    assert {down.reason for down in told} == {"the supervisor was closed"}


class Turns(trio.abc.Instrument):
    """Counts the steps of tasks in each turn of the loop."""

    def __init__(self):
        """Count from now on."""
        self.longest = self._now = 0

    def before_io_wait(self, timeout: float) -> None:
        """A turn has ended."""
        del timeout
        self.longest, self._now = max(self.longest, self._now), 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count a step."""
        del task
        self._now += 1


@pytest.mark.parametrize("store", [None, "memory:"])
async def test_sessions_end_in_turns_so_that_the_loop_stays_free(store):
    """The heartbeat of a node, and sessions of another supervisor, wait for no more than a part of them."""
    turns = Turns()
    async with open_supervisor(store=store) as supervisor:
        for _ in range(400):
            await supervisor.start_session(model=saying("ok"))
        trio.lowlevel.add_instrument(turns)
    trio.lowlevel.remove_instrument(turns)
    assert turns.longest < 100
