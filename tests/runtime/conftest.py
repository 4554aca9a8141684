"""A supervisor for the tests of the shell, whose sessions are all what their journals come to."""

import zlib
from importlib import import_module

import pytest

from agentrail.testing.folded import folded_sessions
from agentrail.testing.orphans import no_orphans
from tests.remote.suite import FORWARDED, HERE, mark_left_out, over_each_road
from tests.runtime.rig import open_bare

# A session costs a fold when its test is over, which is a fifth of the time of all: so one test in eight, the same ones in each
# run; `make check` has all of them.
ONE_IN = 8

# Tests whose sessions are something else than their journals say, and why that is right.
NOT_FOLDED = {
    "test_a_call_whose_arguments_changed_after_they_were_shown_never_runs": "edits a call in the state, as a bug would",
    "test_a_sub_agent_is_not_sent_to_do_something_else_than_was_shown": "edits a call in the state, as a bug would",
    "test_what_is_raised_at_a_door_ends_there[handlers_of_a_plugin]": "the address of an object is in the text",
    "test_what_is_raised_at_a_door_ends_there[life_of_a_plugin]": "the address of an object is in the text",
    "test_a_session_that_goes_back_while_it_is_read_gives_nothing_of_before": "goes back to a state that is not of its number",
    "test_of_one_that_cannot_be_made_again_the_loss_is_told_and_of_others_nothing_is_missing[a bug]": "its store cannot be read",
    "test_what_cannot_be_read_is_told_and_what_is_at_work_elsewhere_is_left": "damages a record, as a disk would",
    "test_a_bug_in_step": "puts another step in place, which the watch does not see",
    "test_another_guard_changes_nothing_about_a_call_that_was_settled": "its guard changed between two lives, and one stack folds both",
    "test_a_call_that_waits_for_a_person_still_waits": "its guard changed between two lives, and one stack folds both",
    "test_a_planned_stop_in_mid_cycle_parks_nobody": "its guard changed between two lives, and one stack folds both",
    "test_a_plugin_is_not_held_for_a_caller_that_was_cancelled": "the watch itself holds the plugin, which is to be freed",
    "test_a_bug_in_an_actor": "counts the frames of a traceback, of which the watch is one",
}

# Why a session that was made may have no journal that could be folded.
LEFT_OUT = (
    "is a Secret, which is not JSON",  # no store begins it
    "is a object, which is not JSON",  # no store begins it, on purpose
    "its store refused it",  # another owner has it, or it was deleted
    "its store is not in memory",
    "its store has only part of it",  # it hung or was away to the end
    "were dropped",  # it was trimmed
    "there is no session",  # it was deleted
    "its content was erased",
)


@pytest.fixture
async def supervisor():
    """A supervisor; after the test nothing of its sessions is left, or the test fails."""
    async with no_orphans(), open_bare() as opened:
        yield opened


def pytest_generate_tests(metafunc):
    """Run the tests of `Session` once more over a network, see tests/remote/suite.py."""
    if "road" in metafunc.fixturenames:
        metafunc.parametrize("road", over_each_road(metafunc), indirect=True)


def pytest_collection_modifyitems(items):
    mark_left_out(items)


@pytest.fixture(autouse=True)
def road(request):
    """By which way the sessions of a test are reached: in this process, or over a network."""
    if request.param == HERE:
        yield HERE
        return
    pytest.importorskip("trio_websocket", reason="no extra `connect`")
    pytest.importorskip("starlette", reason="no extra `gateway`")
    network = import_module("tests.remote.over_a_network")
    with network.every_supervisor_remote(is_forwarded=request.param == FORWARDED):
        yield request.param


@pytest.fixture(autouse=True)
def folded(request, road):
    """Fold the journal of every session that the test makes; see `folded_sessions`. Over a network they are the same ones."""
    name = request.node.name
    is_meant = request.config.getoption("folded") == "all" or zlib.crc32(name.encode()) % ONE_IN == 0
    if road != HERE or not is_meant or name in NOT_FOLDED or name.partition("[")[0] in NOT_FOLDED:
        yield
        return
    with folded_sessions() as watched:
        yield
    for session_id, why in watched.left_out:
        assert any(known in why for known in LEFT_OUT), f"session {session_id!r} was not folded: {why}"
