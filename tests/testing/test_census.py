"""The census: which situations simulated lives have met, and which they have not."""

from fnmatch import fnmatchcase

import pytest

from agentrail import messages as m
from agentrail.core.protocol import signals as s
from agentrail.events import RecoveryDecision, SessionRecovered
from agentrail.testing.simulation.census import Census, all_cells, reasons
from agentrail.testing.simulation.facts import Closed, FaultChange, StoreCall
from tests.core.worlds import completed, prompt
from tests.testing.written_logs import WrittenLog


def census_of(log):
    census = Census()
    for line in log.lines:
        census.see(line)
    return census


def test_steps_are_counted_by_phase_and_signal():
    """Each step counts for its phase and its signal."""
    log = WrittenLog()
    log.live(prompt(), completed("r1", m.Text(text="hello")), prompt("p2"))
    met = census_of(log).met
    assert met["phase × signal: IDLE × Prompt"] == 2
    assert met["phase × signal: RUNNING × ResponseCompleted"] == 1


@pytest.mark.simulation(28)
def test_effects_are_counted_by_the_faults_around_them():
    """Until a fault is over, and a while after one without an end. Without a family of faults its cells are empty."""
    log = WrittenLog()
    log.line("fault", FaultChange("network", "cut"))
    log.live(prompt())
    log.line("fault", FaultChange("network", "cut", is_over=True))
    log.line("fault", FaultChange("node", "kill"))
    log.at += 4.0
    log.live(completed("r1", m.Text(text="hello")))
    log.at += 2.0
    log.live(s.AbortCycle(at_ms=1, signal_id=s.SignalId("a1")))
    met = {cell for cell in census_of(log).met if cell.startswith("effect")}
    assert "effect × fault: StartStream × network" in met
    assert "effect × fault: StartStream × node" not in met
    assert "effect × fault: Publish × node" in met
    assert not [cell for cell in met if cell.split()[3] == "Teardown"]
    log.lines = [line for line in log.lines if getattr(line.facts, "family", "") != "network"]
    without = census_of(log)
    assert not [cell for cell in without.met if cell.endswith("× network")]
    assert "effect × fault: StartStream × network" in without.empty()


def test_recoveries_troubles_and_closings_are_counted():
    """Decisions of recoveries, troubles of the store and reasons of closings each count once per line."""
    log = WrittenLog()
    decisions = (RecoveryDecision(open="tool", id="c1", decision="unknown"),) * 2
    log.line("event", SessionRecovered(decisions=decisions))
    log.line("store", StoreCall("append", {}, trouble="lost after"))
    log.line("store", StoreCall("fail_over", {}, (), "failed over"))
    for closed in (Closed("moved", is_rested=True, is_moved=True), Closed("rests", is_rested=True)):
        log.line("note", closed)
    log.line("note", Closed("parked: 3 recoveries in a row without a new record"))
    log.line("note", Closed("the user left"))
    assert census_of(log).met == {
        "recovery decision: tool × unknown": 2,
        "store trouble: append × lost after": 1,
        "store trouble: failed over": 1,
        "close reason: moved": 1,
        "close reason: rested": 1,
        "close reason: parked": 1,
        "close reason: ended": 1,
    }


def test_a_census_of_many_lives_is_their_sum():
    """Merging adds the counts, and leaves as empty only what no life met."""
    log = WrittenLog()
    log.live(prompt())
    one, other = census_of(log), census_of(log)
    other.met["close reason: moved"] = 5
    one.merge(other)
    assert one.met == {"phase × signal: IDLE × Prompt": 2, "close reason: moved": 5}
    known = all_cells()
    assert set(one.met) <= set(known)
    assert not set(one.empty()) & set(one.met)


def test_each_reason_is_about_a_cell():
    """A row that no cell fits hides a renamed signal or effect. And a cell with a reason counts as met."""
    patterns = [pattern for row in reasons() for pattern in row.cells]
    assert patterns
    for pattern in patterns:
        assert any(fnmatchcase(cell, pattern) for cell in all_cells()), pattern
    empty = Census().empty()
    assert "phase × signal: STREAMING × SessionBegan" not in empty
    assert len(empty) + sum(any(fnmatchcase(c, p) for p in patterns) for c in all_cells()) == len(all_cells())
    assert all(row.reason.endswith(".") for row in reasons())
