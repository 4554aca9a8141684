"""A life of a toy: users send prompts, faults strike, and a bug is planted that needs one fault and one later prompt."""

from functools import partial
from hashlib import blake2b

import trio

from agentrail.testing.clock import FakeClock
from agentrail.testing.simulation.census import Census
from agentrail.testing.simulation.facts import CallAsked, FaultChange
from agentrail.testing.simulation.life import Broken, Report
from agentrail.testing.simulation.log import WORLD, LifeLog
from agentrail.testing.simulation.schedule import FAIR
from agentrail.testing.simulation.tape import Tape

USERS = ("ann", "bob", "cem", "dot", "eve")
KINDS = ("look", "pay", "ask", "write")
ACTIONS = ("reset", "kill", "cut", "skew")
PROMISE = "no payment is lost"


def scenario(world):
    """What is a scenario of a world for the toy: nothing."""


async def live(tape, log):
    happenings = []
    for user in USERS:
        for number in range(tape.integer(f"people[{user}].prompts", 0, 30)):
            name = f"people[{user}].says[{number}]"
            at, kind = tape.number(f"{name}.at", 0.0, 100.0), tape.choice(f"{name}.kind", KINDS)
            happenings.append((at, user, "person", kind))
    for number in range(20):
        if tape.chance(f"fault[{number}]", 0.45):
            at, action = (
                tape.number(f"fault[{number}].at", 0.0, 60.0),
                tape.choice(f"fault[{number}].action", ACTIONS),
            )
            node = tape.integer(f"fault[{number}].node", 0, 2)
            happenings.append((at, f"node-{node}", "fault", action))
    for number in range(200):  # deviations of the order, none of which matters
        tape.integer(f"order[{number}]", 0, 3)
    killed_at = None
    for at, who, kind, what in sorted(happenings):
        await trio.sleep_until(at)
        if kind == "fault":
            log.note("fault", f"{what} of {who}", place=WORLD, facts=FaultChange("node", what))
            if what == "kill" and who == "node-1":
                killed_at = at if at > 50 else killed_at
        else:
            log.note(
                "person",
                f"asks to {what}",
                place=who,
                facts=CallAsked(id=f"{at}", request="prompt", key=f"{at}"),
            )
            log.note("step", "is of no interest", place="node-0")
            if what == "pay" and killed_at is not None:
                return Broken(PROMISE, f"{who} has paid for nothing", at, len(log.lines) - 2)
    return None


def lived(seed, given=None, *, leak=None):
    """Live it. `leak` is called with the log, to make it another life each time."""
    tape, log = Tape(seed, given), LifeLog()
    broken = trio.run(partial(live, tape, log), clock=FakeClock())
    if leak is not None:
        leak(log)
    lines = [(line.at, line.place, line.said) for line in log.lines]
    return Report(
        scenario=scenario,
        seed=seed,
        nodes=3,
        seconds=100.0,
        schedule=FAIR,
        digest=blake2b(repr(lines).encode(), digest_size=16).hexdigest(),
        steps=len(lines),
        virtual_seconds=100.0,
        log=log,
        census=Census(),
        broken=broken,
        drawn=tape.drawn,
    )
