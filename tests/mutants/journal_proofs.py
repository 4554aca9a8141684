"""Mutants of what 9.7 and 9.10 of the specification promise: order of commit and effect, the fence, the disk, and one way to start."""

from typing import Final

from tests.mutants.mutant import Mutant

_DURABLE: Final = "nothing is seen, and no work begins, before its record is durable"
_FENCE: Final = "one owner writes, and the other hears it"
_HANGS: Final = "tests/runtime/test_kept_sessions.py::test_nothing_leaves_before_its_record_is_durable"
_FROZEN: Final = "tests/runtime/test_a_frozen_owner.py::test_nothing_of_a_queue_goes_in_behind_a_taking_over"
_NUMBERS: Final = "tests/stores/test_numbers_decide.py"
_WAITS: Final = "            if isinstance(effect, Publish):  # most are\n"


def _leaving_at_once(kind: str) -> str:
    """Let effects of a kind not wait."""
    return f"            if type(effect) is {kind}:\n                at_once.append(effect)\n                continue\n{_WAITS}"


MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="an event is published before its record is durable",
        breaks=_DURABLE,
        file="runtime/outbox.py",
        old=_WAITS,
        new=_leaving_at_once("Publish"),
        killed_by=f"{_HANGS}[event]",
        rows=(123,),
    ),
    Mutant(
        name="a tool runs before its record is durable",
        breaks=_DURABLE,
        file="runtime/outbox.py",
        old=_WAITS,
        new=_leaving_at_once("RunTool"),
        killed_by=f"{_HANGS}[tool]",
        rows=(118,),
    ),
    Mutant(
        name="a prompt is acknowledged before its record is durable",
        breaks=_DURABLE,
        file="runtime/outbox.py",
        old=_WAITS,
        new=_leaving_at_once("ReplyToCaller"),
        killed_by=f"{_HANGS}[receipt]",
    ),
    Mutant(
        name="a taking over is not written in memory",
        breaks=_FENCE,
        file="stores/memory.py",
        old="                if not journal.standing.has_ended:\n                    draft",
        new="                if False:\n                    draft",
        killed_by=f"{_FROZEN}[memory]",
        rows=(100, 149),
    ),
    Mutant(
        name="a taking over is not written in SQLite",
        breaks=_FENCE,
        file="stores/sqlite_writing.py",
        old="        if not one.standing.has_ended:\n            draft",
        new="        if False:\n            draft",
        killed_by=f"{_FROZEN}[sqlite]",
        rows=(100, 149),
    ),
    Mutant(
        name="an append that was done is fine for ever",
        breaks=_FENCE,
        file="stores/memory_journal.py",
        old="        if first.epoch != last.epoch or first.seq > last.seq + 1:\n",
        new="        if first.seq > last.seq + 1:\n",
        killed_by=f"{_FROZEN}[memory]",
        rows=(100, 149),
    ),
    Mutant(
        name="an epoch is a clock reading",
        breaks=_FENCE,
        file="stores/memory.py",
        old="epoch=journal.tail.epoch + 1)",
        new="epoch=max(journal.tail.epoch, now))",
        killed_by=f"{_NUMBERS}::test_of_two_owners_at_one_clock_reading_the_later_one_writes[memory-stands still]",
        rows=(102,),
    ),
    Mutant(
        name="a handle whose sync failed is used again",
        breaks="what was acknowledged is on the disk",
        file="stores/sqlite.py",
        old="        except StoreUnavailable as error:\n            self._drop_writer()\n",
        new="        except StoreUnavailable as error:\n",
        killed_by="tests/stores/test_sqlite_trouble.py::test_a_handle_whose_sync_failed_is_never_used_again[of_log]",
    ),
    Mutant(
        name="the records of one step are handed over one by one",
        breaks="a step commits all of its record, or nothing",
        file="runtime/session_journal.py",
        old="        if drafts:\n            self._record(drafts, {} if note is None else note.contents)\n",
        new="        for draft in drafts:\n            self._record((draft,), {} if note is None else note.contents)\n",
        killed_by="tests/runtime/test_guarantees.py::test_the_records_of_one_step_are_appended_together_and_in_order",
        rows=(121,),
    ),
    Mutant(
        name="a second way to bring a session back",
        breaks="there is one way to start",
        file="runtime/branching_door.py",
        old="from agentrail.runtime.reviving import check_may_trim, stored_of\n",
        new="from agentrail.runtime.reviving import check_may_trim, revive, stored_of\n",
        killed_by="tests/repo/test_one_way_to_start.py::test_nothing_else_makes_a_live_session_of_a_journal",
        rows=(143,),
    ),
    Mutant(
        name="a session that was given up is no news",
        breaks="giving up is an observable state",
        file="runtime/supervisor.py",
        old='        self._close(entry, f"parked: {crash}")\n        self._board.publish("parked", entry.cell, entry.cell.state.data.incarnation, now_ms())\n        self._nursery',
        new='        self._close(entry, f"parked: {crash}")\n        self._nursery',
        killed_by="tests/runtime/test_session_reports.py::test_restarts_and_the_end_are_told_in_order",
        rows=(150,),
    ),
    Mutant(
        name="what a fold differs in is not told",
        breaks="a test whose session is not its journal fails",
        file="testing/folded.py",
        old="    faults = watched.faults()\n    if faults:\n",
        new="    faults = watched.faults()\n    if False:\n",
        killed_by="tests/testing/test_folded.py::test_a_plugin_that_looks_elsewhere_is_told_of",
    ),
)
