"""A step is a function, and the last one is the last one."""

from agentrail.core.protocol.effects import End
from agentrail.core.session import machine
from agentrail.core.session.legality import LEGALITY
from agentrail.events import SessionEnd
from agentrail.testing.promises.seen import Seen, comparable, open_effects


def the_same_again_gives_the_same(seen: Seen) -> None:
    """Stepping the old state a second time gives the same, although newer states share its conversation by now."""
    after, effects = machine.step(seen.before, seen.signal)
    assert after == seen.after
    assert list(map(comparable, effects)) == list(map(comparable, seen.effects))


def steps_follow_the_table(seen: Seen) -> None:
    """A step ends in one of the phases that the table names for its signal in the phase that it met."""
    if not seen.before.ended:
        cell = LEGALITY[type(seen.signal)][seen.before.phase]
        assert seen.after.phase in cell.followed_by


def the_end_is_the_end(seen: Seen) -> None:
    """End is the last effect, behind SessionEnd; nothing is open then, and nothing happens any more."""
    if seen.before.ended:
        assert seen.after is seen.before
        assert seen.effects == ()
        return
    ends = [position for position, effect in enumerate(seen.effects) if isinstance(effect, End)]
    assert ends == ([len(seen.effects) - 1] if seen.after.ended else [])
    assert [type(event) for event in seen.events].count(SessionEnd) == seen.after.ended
    if seen.after.ended:
        assert isinstance(seen.events[-1], SessionEnd)
        assert not open_effects(seen.after)
        assert not seen.after.postponed
