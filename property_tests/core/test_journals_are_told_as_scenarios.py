"""Any life can be written as a scenario, which plays and comes to the same words as its journal does."""

from hypothesis import given, strategies as st

from agentrail.testing import strategies
from agentrail.testing.scenario import play, read_scenario
from agentrail.testing.scenario_export import scenario_of_journal
from tests.core.journal.recorded import Life
from tests.core.worlds import new_session


@given(data=st.data())
def test_any_life_can_be_told(data):
    """Whatever comes, in whatever order: it plays, and the last line is where the life stood."""
    start = new_session()
    life = Life.begun(start).live_all(data.draw(strategies.scripts(start)))
    life.write(life.recorder.flush())
    text = scenario_of_journal(life.records, life.sources())
    assert play(read_scenario(text)) == text
