"""The moves of a simulated life, read from its log: how many there were, and for how long they silenced readers."""

from collections.abc import Iterable

from attrs import define, field, frozen

from agentrail.testing.simulation.facts import Read, ReaderSubscribed, StoreCall
from agentrail.testing.simulation.gods_eye import GodsEye
from agentrail.testing.simulation.log import LogLine


@frozen(kw_only=True)
class Move:
    """A session that its node released, and that another node has taken.

    Attributes:
        is_in_mid_cycle: Whether it had unfinished work.
    """

    session: str
    source: str
    target: str
    released_at: float
    taken_at: float
    is_in_mid_cycle: bool


@define
class MoveLog:
    """All moves of a life.

    Attributes:
        moves: In order.
        silences: For each move in mid-cycle and each reader of the session: seconds from the release to the reader's next event. A reader
            whose client was away or cut off is silent for that time, too.
    """

    moves: list[Move] = field(factory=list)
    silences: list[float] = field(factory=list)

    @property
    def in_mid_cycle(self) -> int:
        """Number of moves in mid-cycle."""
        return sum(move.is_in_mid_cycle for move in self.moves)


def moves_of(lines: Iterable[LogLine]) -> MoveLog:
    """Return the moves of a life."""
    eye, found = GodsEye(), MoveLog()
    released: dict[str, tuple[str, float, bool]] = {}  # by root: its node, when, whether it had work
    readers: dict[str, dict[str, None]] = {}
    silent: dict[tuple[str, str], float] = {}
    for line in lines:
        facts = line.facts
        if isinstance(facts, StoreCall) and facts.name == "release" and facts.is_executed:
            root = facts.arguments["root"]
            journal = eye.journals.get(root)
            if journal is not None and journal.node == facts.arguments["node"]:
                released[root] = line.place, line.at, journal.is_working
        elif isinstance(facts, ReaderSubscribed):
            readers.setdefault(line.session, {})[facts.reader] = None
        elif isinstance(facts, Read):
            since = silent.pop((line.session, facts.reader), None)
            if since is not None:
                found.silences.append(line.at - since)
        eye.look(line)
        for taken in eye.taken if eye.line is line and isinstance(facts, StoreCall) else ():
            source, at, is_working = released.pop(taken.session, ("", 0.0, False))
            target = eye.place_of(taken.session)
            if source in ("", target):
                continue
            found.moves.append(
                Move(
                    session=taken.session,
                    source=source,
                    target=target,
                    released_at=at,
                    taken_at=line.at,
                    is_in_mid_cycle=is_working,
                )
            )
            if is_working:
                silent |= {
                    (taken.session, reader): at
                    for reader in readers.get(taken.session, ())
                    if (taken.session, reader) not in silent
                }
    return found
