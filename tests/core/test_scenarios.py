"""Every scenario comes out as it is written, and together they show all that a session can say."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest

from agentrail.core.protocol.signals import AbortCycle, StopSession
from agentrail.core.session import machine
from agentrail.core.session.state import Phase
from agentrail.core.session.transitions import LEGALITY, Verdict
from agentrail.events import Event
from agentrail.testing import scenario
from agentrail.testing.promises import Seen
from agentrail.testing.promises.state_promises import steps_follow_the_table
from tests.thinned import each

FILES = sorted((Path(__file__).parent.parent / "scenarios").glob("*.txt"))


EVENTS_OF_LATER_PARTS = {"EventsLost"}
"""Those of the journal and recovery. Whoever writes the first scenario deletes its name here; the list never grows."""


GUARANTEES = {
    "abort_in_a_retry_pause": pytest.mark.at(30),
    "abort_in_a_tool_pause": pytest.mark.at(30),
    "abort_kills_immune_tools": pytest.mark.at(17),
    "abort_spares_all_tools": pytest.mark.at(17),
    "abort_spares_immune_tools": pytest.mark.at(17),
    "aborts_seen_by_plugins": pytest.mark.at(20),
    "approval_aborted": pytest.mark.at(30, 70, 74),
    "approval_always": pytest.mark.at(73, 74),
    "rule_revoked": pytest.mark.at(73),
    "approval_edited": pytest.mark.at(58),
    "approval_five_ways": pytest.mark.at(60),
    "approval_in_a_batch": pytest.mark.at(53),
    "approval_superseded": pytest.mark.at(74),
    "approval_survives_a_restart": pytest.mark.at(68, 69),
    "approval_times_out": pytest.mark.at(74),
    "approve_twice": pytest.mark.at(54, 69, 71),
    "budget_after_a_crash": pytest.mark.at(127, 131),
    "client_ids": pytest.mark.at(11),
    "decided_once": pytest.mark.at(67),
    "fallback_model": pytest.mark.at(151),
    "late_timers": pytest.mark.at(43),
    "prompt_during_teardown": pytest.mark.at(34),
    "question_survives_a_restart": pytest.mark.at(68),
    "steer_at_a_failure": pytest.mark.at(49),
    "steer_waits_for_stopped_tools": pytest.mark.at(50),
    "steer_while_tools_run": pytest.mark.at(10, 47),
    "subagent_budget": pytest.mark.at(127, 129, 131),
    "tool_retries_end": pytest.mark.at(119),
    "two_questions": pytest.mark.at(53),
}
"""The rows of the acceptance list that a scenario shows."""


@pytest.mark.parametrize(
    "file",
    [pytest.param(file, id=file.stem, marks=GUARANTEES.get(file.stem, ())) for file in FILES],
)
def test_scenario(file, monkeypatch):
    """The sentence at the head of the file (STYLE, "Scenarios are text"), in steps that the table of transitions has."""

    def step(state, signal):
        after, effects = machine.step(state, signal)
        steps_follow_the_table(Seen(state, signal, after, effects))
        return after, effects

    monkeypatch.setattr(scenario, "machine", SimpleNamespace(step=step, new_session=machine.new_session))
    scenario.run_scenario(file)


@each("file", FILES)
def test_scenario_begins_with_the_sentence_that_it_proves(file):
    """The first line names the file and says what it proves."""
    first = file.read_text().splitlines()[0]
    assert re.fullmatch(rf"# tests/scenarios/{file.stem}\.txt: .{{20,}}\.", first)


def test_every_event_is_in_a_scenario():
    """At least one produces each event of the table (4.6), but for those that a later part brings: those are on the list, and exist."""
    every = {event.__name__ for event in get_args(Event)}
    shown = {word for file in FILES for word in re.findall(r"Publish (\w+)", file.read_text())}
    assert every - shown == EVENTS_OF_LATER_PARTS
    assert GUARANTEES.keys() <= {file.stem for file in FILES}


def test_abort_and_stop_are_shown_in_every_phase():
    """The two signals that break a cycle off have a scenario for each phase that they may meet."""
    met = "\n".join(file.read_text() for file in FILES)
    for phase in Phase:
        for signal, kind in ((AbortCycle, "Abort"), (StopSession, "Stop")):
            assert LEGALITY[signal][phase].verdict is Verdict.TAKE
            before = rf" {{11}}{phase.name}\b[^@]*\n@\d+ +{kind} "
            assert re.search(before, met) or phase is Phase.IDLE
