"""Any life can be written as a scenario, which plays and comes to the same words as its journal does."""

import json

from hypothesis import event, given, strategies as st
from msgspec.structs import replace

from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import OptionError
from agentrail.testing import strategies
from agentrail.testing.scenario import play, read_scenario
from agentrail.testing.scenario_export import scenario_of_journal
from tests.core.journal.recorded import Life
from tests.core.worlds import new_session


@given(data=st.data())
def test_any_life_can_be_told(data: st.DataObject) -> None:
    """Whatever comes, in whatever order; but for plugins that are brought by where they come from, whose code is found or is not."""
    # A scenario leaves out what tools are described with, which counts where a conversation does not fit its window.
    tools = [replace(spec, description="") for spec in new_session().data.tools]
    start = new_session(tools=Toolbox(tools))
    life = Life.begun(start).live_all(data.draw(strategies.scripts(start)))
    life.write(life.recorder.flush())
    try:
        text = scenario_of_journal(life.records, life.sources())
    except OptionError as error:
        # A change waits for the end of a cycle, and comes to something there: then the message has its id.
        changes = [record for record in life.records if record.kind == "change_plugins"]
        names = [f" {json.loads(record.body)['signal_id']} " for record in changes]
        assert any(name in str(error) for name in ("(change_plugins)", *names))  # noqa: PT017 - most lives raise nothing
        event("refused")
        return
    assert play(read_scenario(text)) == text
