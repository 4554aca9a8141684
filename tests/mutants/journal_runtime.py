"""Mutants of what a session with a store promises: nothing before its record is durable, stops at once, and back as it was."""

from typing import Final

from tests.mutants.mutant import Mutant

_DURABLE: Final = "nothing is seen, and no work begins, before its record is durable"
_STOPS: Final = "what stops work waits for no store"
_PATIENCE: Final = "no caller waits for a store longer than its patience"
_KEPT: Final = "tests/runtime/test_kept_sessions.py"
_OUTBOX: Final = "tests/runtime/test_outbox.py"
_WRITER: Final = "tests/runtime/test_store_writer.py"
_MANY: Final = "tests/runtime/test_resuming_many.py"
_BACK: Final = "tests/runtime/test_resumed_sessions.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="effects leave before their record is durable",
        breaks=_DURABLE,
        file="runtime/outbox.py",
        old="        while steps and steps[0].number <= durable:\n",
        new="        while steps:\n",
        killed_by=f"{_OUTBOX}::test_effects_leave_in_order_when_their_records_are_durable",
    ),
    Mutant(
        name="a step is carried out when it is handed over",
        breaks=_DURABLE,
        file="runtime/session_journal.py",
        old="        if self.outbox.is_empty and self.durable == self.tail.seq:\n",
        new="        if True:\n",
        killed_by=f"{_KEPT}::test_nothing_leaves_before_its_record_is_durable[receipt]",
    ),
    Mutant(
        name="a stop waits for the store",
        breaks=_STOPS,
        file="runtime/outbox.py",
        old="            elif type(effect) in _STOPS:\n",
        new="            elif False:\n",
        killed_by=f"{_KEPT}::test_an_abort_stops_work_past_a_store_that_hangs",
    ),
    Mutant(
        name="a tool that was stopped in the outbox runs all the same",
        breaks=_STOPS,
        file="runtime/outbox.py",
        old="                    step.effects[place] = None\n                    yield effect\n",
        new="                    yield effect\n",
        killed_by=f"{_OUTBOX}::test_to_take_out_of_many_costs_no_more_than_of_few",
    ),
    Mutant(
        name="what crashed while it left is carried out twice",
        breaks="a tool runs at most once",
        file="runtime/outbox.py",
        old="                step.left = place + 1\n",
        new="                pass\n",
        killed_by=f"{_OUTBOX}::test_a_step_that_crashes_while_it_leaves_goes_on_behind_what_crashed",
    ),
    Mutant(
        name="a standing that was undone is believed",
        breaks="a sleeping session is found when its timer is due",
        file="stores/sqlite.py",
        old="            except AgentrailError:\n                self._standings = {}\n",
        new="            except AgentrailError:\n",
        killed_by="tests/stores/test_sqlite.py::test_a_standing_that_was_undone_is_not_believed",
    ),
    Mutant(
        name="a status shows what a crash takes back",
        breaks=_DURABLE,
        file="runtime/session.py",
        old="        return self.state if self.journal is None else self.journal.outbox.visible(self.state)\n",
        new="        return self.state\n",
        killed_by=f"{_KEPT}::test_no_status_shows_what_a_crash_could_take_back",
    ),
    Mutant(
        name="one that was taken over goes on",
        breaks="one owner writes, and the other hears it",
        file="runtime/session_journal.py",
        old="        self.refusal = error\n",
        new="        self.refusal = None\n",
        killed_by=f"{_KEPT}::test_fenced_is_told_by_a_store_without_a_writer_too",
    ),
    Mutant(
        name="a batch that failed is forgotten",
        breaks="what was handed over is written",
        file="runtime/store_writer.py",
        old="            return outcome.is_bug and self._set_apart(batch, outcome.trouble)\n",
        new="            return True\n",
        killed_by=f"{_WRITER}::test_what_the_store_cannot_take_now_is_not_done",
    ),
    Mutant(
        name="a call that failed late is waited for",
        breaks="a store that is back is given what comes next",
        file="runtime/store_writer.py",
        old="        is_away = failed and bool(self._jobs or self._again)\n",
        new="        is_away = failed\n",
        killed_by=f"{_WRITER}::test_a_call_that_fails_when_patience_is_over_is_not_waited_for[False]",
    ),
    Mutant(
        name="a session comes back without being taken",
        breaks="the first act of an owner is a record of its own",
        file="runtime/resuming.py",
        old="        found = await keeping.read(partial(self._read_taken, tree, taken.sessions))\n",
        new="        del taken\n        found = tree\n",
        killed_by=f"{_BACK}::test_an_idle_session_comes_back_as_it_was",
    ),
    Mutant(
        name="what was taken and does not begin is kept",
        breaks="a cancellation leaves no lease that nobody renews",
        file="runtime/resuming.py",
        old="            keeping.give_back(wanted.scope, wanted.session_id)\n            raise\n",
        new="            raise\n",
        killed_by=f"{_MANY}::test_wherever_it_is_cancelled_no_tree_has_an_owner_that_does_not_run_it[False]",
    ),
    Mutant(
        name="a tree is taken past what stands in the queue before it",
        breaks="what is given back is given back before it is taken again",
        file="runtime/store_writer.py",
        old="and self._calls and self._calls[0].tree is not None:\n            calls.append(self._calls.popleft())\n",
        new="and any(one.tree for one in self._calls):\n"
        "            calls.append(next(one for one in self._calls if one.tree))\n            self._calls.remove(calls[-1])\n",
        killed_by=f"{_WRITER}::test_trees_that_wait_side_by_side_are_taken_in_one_call",
    ),
    Mutant(
        name="what is missing is not looked for",
        breaks="a session that cannot come back is left untouched",
        file="runtime/resuming.py",
        old="    if missing:\n",
        new="    if False:\n",
        killed_by=f"{_BACK}::test_what_is_missing_is_named_and_nothing_is_touched",
    ),
    Mutant(
        name="a snapshot in the middle of work forgets what had begun",
        breaks="a snapshot of a session at work names what had begun",
        file="runtime/session_journal.py",
        old="            self._put(state, None if is_at_rest(state) else begun_effects(state))\n",
        new="            self._put(state)\n",
        killed_by=f"{_BACK}::test_a_session_that_is_cut_leaves_a_snapshot_that_names_what_had_begun",
    ),
    Mutant(
        name="what a provider gives is taken as it is",
        breaks="a record can be read again",
        file="runtime/responses.py",
        old="        raise ProtocolError(message) from None\n    assert",
        new="        return said\n    assert",
        killed_by="tests/runtime/test_streams.py::test_what_a_provider_gives_is_of_its_types_or_is_refused[reason]",
    ),
    Mutant(
        name="a store that takes no time is written to in a thread",
        breaks="a session that was left has no owner",
        file="runtime/store_writer.py",
        old="        if self.store.is_immediate:\n            # In place",
        new="        if False:\n            # In place",
        killed_by=f"{_WRITER}::test_what_takes_no_time_is_done_in_the_thread_of_the_loop",
    ),
    Mutant(
        name="who waits for an answer waits for the store",
        breaks=_PATIENCE,
        file="runtime/pending_calls.py",
        old="            if not isinstance(asked, _STOPS):\n                self.refuse(",
        new="            if not isinstance(asked, _STOPS) and to in answered:\n                self.refuse(",
        killed_by="tests/gateway/test_a_store_is_away.py::test_a_chat_hears_of_a_store_that_is_away",
    ),
    Mutant(
        name="who waits for a child waits for the store",
        breaks=_PATIENCE,
        file="runtime/session.py",
        old="                above.pending_calls.give_up(error, ())\n",
        new="                pass\n",
        killed_by="tests/runtime/test_named_replies.py::test_a_caller_above_hears_of_a_store_that_keeps_its_child_waiting",
    ),
    Mutant(
        name="timers of stored sessions are not looked for",
        breaks="what waits for a time is over at its time",
        file="runtime/keeper.py",
        old="                    await keeper.supervisor._begin_to_resume_due()  # noqa: SLF001 - opened by its keeper\n",
        new="",
        killed_by="tests/runtime/test_timers_of_stored_sessions.py::test_a_timer_of_an_earlier_process_is_over_at_its_time",
    ),
    Mutant(
        name="a file without a name is written to",
        breaks="acknowledged is durable",
        file="stores/sqlite.py",
        old='            connection.execute("COMMIT")\n            self._check_files(connection)\n',
        new='            connection.execute("COMMIT")\n',
        killed_by="tests/stores/test_sqlite_trouble.py::test_a_file_that_is_taken_away_is_written_again",
    ),
)
