"""Promise 4: the same signals give the same state, effect for effect. Here for the core; journals come with the stores."""

from hypothesis import given, strategies as st

from agentrail.testing import strategies
from agentrail.testing.promises import comparable
from tests.core.worlds import new_session, walk


@given(data=st.data())
def test_a_second_run_gives_the_same(data):
    """Every state and every effect of a second run equals that of the first, ids and event numbers included."""
    script = data.draw(strategies.scripts(new_session()))
    for one, other in zip(walk(script, new_session()), walk(script, new_session()), strict=True):
        assert one.after == other.after
        assert list(map(comparable, one.effects)) == list(map(comparable, other.effects))


@given(data=st.data())
def test_going_back_and_on_again_gives_the_same(data):
    """Every old state of a life is as good as new: from each one the rest of the script leads where it led (fork)."""
    start = new_session()
    life = list(walk(data.draw(strategies.scripts(start, max_size=15)), start))
    for position in reversed(range(len(life))):
        again = list(walk([seen.signal for seen in life[position:]], life[position].before))
        assert [seen.after for seen in again] == [seen.after for seen in life[position:]]
