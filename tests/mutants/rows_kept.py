"""A mutant for each row in force of the acceptance list about what is kept, told to clients, and withheld; a test with the row's mark kills it."""

from typing import Final

from tests.mutants.mutant import Mutant, of_rows

_REPLAYING: Final = "tests/core/journal/test_replaying.py"
_RESUMED: Final = "tests/runtime/test_resumed_sessions.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    of_rows(
        (2,),
        "a call that may have been done is run again",
        "core/session/recovery.py",
        '        case "once":\n            return RecoveryDecision(open="tool", id=call.call_id, name=call.name, decision="unknown")\n',
        '        case "once":\n            return RecoveryDecision(open="tool", id=call.call_id, name=call.name, decision="run_again")\n',
        f"{_RESUMED}::test_a_batch_is_decided_call_by_call",
    ),
    of_rows(
        (36,),
        "a chat that was aborted is answered",
        "gateway/chat_routes.py",
        '        case "completed":\n',
        '        case "completed" | "aborted":\n',
        "tests/gateway/test_chat_routes.py::test_a_chat_that_was_aborted_is_a_409_with_the_text_so_far",
    ),
    of_rows(
        (51,),
        "a steer from another connection waits for the end of the cycle",
        "host/host.py",
        "        return await session.steer(request.message, client_id=request.client_id, via=via)\n",
        '        return await self._intake.submit(request, principal, evolve(sending, message_kind="prompt"))\n',
        "tests/gateway/test_chat_routes.py::test_a_steer_goes_into_the_cycle_and_in_idle_it_is_a_prompt",
    ),
    of_rows(
        (57,),
        "the state at a number is the one before",
        "core/journal/replaying.py",
        "    return fold_journal(records[:number], sources).state\n",
        "    return fold_journal(records[: max(number - 1, 1)], sources).state\n",
        f"{_REPLAYING}::test_the_state_at_each_number_is_what_it_was",
    ),
    of_rows(
        (62,),
        "an approval that waits is forgotten at a restart",
        "core/session/recovery.py",
        "    interactions.rearm(step, expired)\n",
        "    step.data.interactions = ()\n",
        "tests/cli/test_kept_chats.py"
        "::test_a_chat_killed_while_an_approval_waits_asks_it_again_and_a_click_runs_that_very_call",
    ),
    of_rows(
        (78,),
        "a heartbeat may be as long as a client likes",
        "gateway/socket_frames.py",
        "    return min(max(asked, MIN_HEARTBEAT_SECONDS), MAX_HEARTBEAT_SECONDS)\n",
        "    return max(asked, MIN_HEARTBEAT_SECONDS)\n",
        "tests/gateway/test_socket_frames.py::test_a_heartbeat_lies_between_5_and_60_seconds",
    ),
    of_rows(
        (95,),
        "a child does not come back",
        "core/session/recovery.py",
        "    if state.wants_child:\n"
        '        return RecoveryDecision(open="child", id=call.call_id, name=call.name, decision="resumed")\n',
        "    if state.wants_child:\n"
        '        return RecoveryDecision(open="child", id=call.call_id, name=call.name, decision="unknown")\n',
        f"{_RESUMED}::test_a_child_comes_back_before_its_parent_and_its_end_is_delivered_once",
    ),
    of_rows(
        (141,),
        "what is stored as working runs",
        "cli/session_views.py",
        '        return "running" if is_owned else "interrupted"\n',
        '        return "running"\n',
        "tests/cli/test_sessions.py::test_that_a_session_runs_follows_from_a_living_owner",
    ),
    of_rows(
        (141,),
        "a dead process owns what it owned",
        "stores/sqlite_reading.py",
        'AND NOT EXISTS {IS_ALIVE.format(owner="top.node")}\n',
        "AND node IS NULL\n",
        "tests/stores/test_sqlite.py::test_a_node_of_a_dead_process_blocks_nothing",
    ),
    of_rows(
        (145,),
        "a rewind keeps the conversation",
        "core/journal/folding.py",
        "    then = without_what_was_open(then, at_ms)\n    ledger = then.data.ledger\n",
        "    then = without_what_was_open(now, at_ms)\n    ledger = then.data.ledger\n",
        "tests/core/journal/test_branches.py::test_a_rewind_to_each_number_is_what_was_there",
    ),
    of_rows(
        (148,),
        "a session comes back once too often",
        "core/session/recovery.py",
        "    return bool(data.open) and signal.attempt >= MAX_RECOVERIES\n",
        "    return bool(data.open) and signal.attempt > MAX_RECOVERIES\n",
        f"{_RESUMED}::test_three_kills_in_one_recovery_leave_the_session_as_it_is",
    ),
    of_rows(
        (154,),
        "a key in a header is not known",
        "abc/held_secrets.py",
        "        if isinstance(value, str) and _TELLING.search(str(name)):\n",
        "        if isinstance(value, Secret):\n",
        "tests/runtime/test_withheld.py::test_options_of_a_provider_hold_keys_in_known_places",
    ),
    of_rows(
        (155,),
        "secrets that are names are kept",
        "core/wire/withholding.py",
        "        said = first = _value(name, known)\n",
        "        said = first = name\n",
        "tests/core/test_withholding.py::test_no_text_of_a_signal_holds_one",
    ),
    of_rows(
        (156,),
        "a secret gets through where a stream is cut",
        "core/values/known_secrets.py",
        "            if text[start] in self._first and self._goes_on(text[start:]) is not None:\n"
        "                return size - start\n",
        "            if text[start] in self._first and self._goes_on(text[start:]) is not None:\n"
        "                return 0\n",
        "tests/core/test_known_secrets.py::test_wherever_a_stream_is_cut_no_secret_gets_through_and_the_rest_does",
    ),
    of_rows(
        (158,),
        "a replay finds no difference",
        "core/journal/replaying.py",
        "        if found is None and seq > settled:\n",
        "        if found is None and seq < settled:\n",
        f"{_REPLAYING}::test_the_first_difference_is_shown_with_its_number_and_the_plugins_that_were_asked",
    ),
    of_rows(
        (162,),
        "two runs do not part in what was decided",
        "core/journal/replaying.py",
        '            what, diff = "does", _diff(_lasting_does(first.does), _lasting_does(second.does))\n',
        '            what, diff = "does", ""\n',
        f"{_REPLAYING}::test_the_first_place_where_two_runs_part_is_shown",
    ),
)
