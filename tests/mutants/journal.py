"""Mutants of the pure journal: a fold that is another life, a record that says less than was decided, damage that is not seen."""

from typing import Final

from tests.mutants.mutant import Mutant

_RECORDING: Final = "tests/core/journal/test_recording.py"
_FOLDING: Final = "tests/core/journal/test_folding.py"
_LINES: Final = "tests/core/journal/test_lines.py"
_STREAMS: Final = (
    "property_tests/core/test_journals_fold.py::test_streams_that_are_broken_into_fold_to_what_they_were"
)
_BROKEN_OFF: Final = "tests/stores/test_sqlite_damage.py::test_a_sweep_that_was_broken_off_is_no_damage"
_SAME: Final = "the fold of the journal is the state"
_DAMAGE: Final = "damage is bounded and named"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="all chunks are dropped",
        breaks=_SAME,
        file="core/journal/recording.py",
        old="        self._chunks.append(signal)\n",
        new="        return ()\n",
        killed_by=_STREAMS,
    ),
    Mutant(
        name="a body of version 1 may be another signal than its record says",
        breaks=_DAMAGE,
        file="core/journal/signal_bodies.py",
        old="    if body.startswith(_WHOLE):\n",
        new="    if False:\n",
        killed_by="tests/core/journal/test_signal_bodies.py::test_what_is_no_body_is_refused",
    ),
    Mutant(
        name="chunks are thrown away with every response",
        breaks=_SAME,
        file="core/journal/recording.py",
        old="if isinstance(signal, signals.ResponseCompleted) and self._says_all(before, signal):",
        new="if isinstance(signal, signals.ResponseCompleted):",
        killed_by=_STREAMS,
    ),
    Mutant(
        name="chunks are thrown away with a response that has other tags",
        breaks=_SAME,
        file="core/journal/recording.py",
        old="        return tags_at_end(known, message, config) == tags_at_end(stream, message, config)\n",
        new="        return True\n",
        killed_by=f"{_RECORDING}::test_what_was_heard_stays_where_the_response_says_something_else",
    ),
    Mutant(
        name="chunks are thrown away with an empty response",
        breaks=_SAME,
        file="core/journal/recording.py",
        old="        if not signal.message.content:  # it",
        new="        if False:  # it",
        killed_by=f"{_RECORDING}::test_an_empty_response_keeps_what_was_heard",
    ),
    Mutant(
        name="chunks of which an event came wait like others",
        breaks=_SAME,
        file="core/journal/recording.py",
        old="        return (self._heard(after, does),) if does else ()\n",
        new="        return ()\n",
        killed_by=f"{_RECORDING}::test_chunks_of_which_an_event_came_are_recorded_at_once",
    ),
    Mutant(
        name="chunks are never thrown away",
        breaks="a response in one piece leaves no heard",
        file="core/journal/recording.py",
        old="        if isinstance(signal, signals.ResponseCompleted) and self",
        new="        if False and self",
        killed_by=f"{_RECORDING}::test_a_response_that_was_not_broken_into_leaves_no_heard",
    ),
    Mutant(
        name="what waited together is one piece",
        breaks="one heard means what its parts meant",
        file="core/session/tags.py",
        old="    for piece in pieces:\n",
        new="    for piece in (text,):\n",
        killed_by="property_tests/core/test_journals_fold.py::test_joined_chunks_mean_what_their_parts_meant",
    ),
    Mutant(
        name="who waits for a reply is not recorded",
        breaks=_SAME,
        file="core/journal/recording.py",
        old="    {signals.StatusQuery, ",
        new="    {signals.ReplyQuery, signals.StatusQuery, ",
        killed_by=f"{_RECORDING}::test_questions_that_change_nothing_are_not_recorded_and_those_that_wait_are",
    ),
    Mutant(
        name="a record does not name the tool that runs",
        breaks="a tool's intent is durable before it runs",
        file="core/journal/outline.py",
        old='f"run_tool {effect_id} {_word(name)} op=',
        new='f"run {effect_id} {_word(name)} op=',
        killed_by=f"{_RECORDING}::test_the_intent_of_a_tool_stands_in_the_record_of_the_step_that_wants_it",
    ),
    Mutant(
        name="a name may be a line of its own",
        breaks="a tool that no record names never ran",
        file="core/session/recorded_calls.py",
        old='    return text if text.isprintable() and " " not in text and text else ',
        new="    return text if text else ",
        killed_by="tests/core/journal/test_outline.py::test_a_name_from_outside_is_one_word_of_one_line",
    ),
    Mutant(
        name="the hash of a record is not looked at",
        breaks=_DAMAGE,
        file="core/journal/record.py",
        old="    return record.hash == hash_of(before, record)\n",
        new="    return True\n",
        killed_by=f"{_FOLDING}::test_a_record_that_is_damaged_is_named",
        rows=(142,),
    ),
    Mutant(
        name="a gap in a journal is stepped over",
        breaks=_DAMAGE,
        file="core/journal/folding.py",
        old="    if record.seq != due:\n",
        new="    if False:\n",
        killed_by=f"{_FOLDING}::test_a_record_that_is_missing_in_front_of_a_removed_one_is_named",
        rows=(142,),
    ),
    Mutant(
        name="a torn line is damage",
        breaks=_DAMAGE,
        file="core/journal/lines.py",
        old='    whole, _, torn = text.rpartition(b"\\n")\n',
        new='    whole, torn = text, b""\n',
        killed_by=f"{_LINES}::test_a_journal_that_ends_anywhere_opens_up_to_its_last_whole_record",
        rows=(142,),
    ),
    Mutant(
        name="a drift is not seen",
        breaks="code that changed is a decision",
        file="core/journal/folding.py",
        old="    if walked.does != record.does:\n",
        new="    if False:\n",
        killed_by=f"{_FOLDING}::test_drift_is_told_with_the_first_record_and_the_fold_counts",
    ),
    Mutant(
        name="numbers of events fall with newer code",
        breaks="numbers of events only rise",
        file="core/journal/folding.py",
        old="        events = max(state.data.seq, records[-1].events)\n",
        new="        events = state.data.seq\n",
        killed_by=f"{_FOLDING}::test_a_number_that_was_larger_stays",
    ),
    Mutant(
        name="numbers of events fall with a rewind",
        breaks="numbers of events only rise",
        file="core/journal/folding.py",
        old="        seq=data.seq,\n        minted",
        new="        minted",
        killed_by=f"{_FOLDING}::test_a_rewind_and_a_rewind_of_it_are_what_the_session_was_then",
    ),
    Mutant(
        name="a rewind gives the budget back",
        breaks="what was spent is spent",
        file="core/journal/folding.py",
        old="            spent_tokens=data.ledger.spent_tokens,\n",
        new="",
        killed_by=f"{_FOLDING}::test_what_was_spent_is_spent_also_behind_a_rewind",
    ),
    Mutant(
        name="recoveries are not counted",
        breaks="crash loops end",
        file="core/journal/folding.py",
        old="        elif takers and record.kind not in _OF_A_RECOVERY:\n",
        new="        else:\n",
        killed_by=f"{_FOLDING}::test_recoveries_in_a_row_are_counted",
    ),
    Mutant(
        name="what looks like a large value is taken for one",
        breaks="what is stored comes back",
        file="core/journal/bodies.py",
        old='                return {f"${own}": part(value[own])}\n',
        new="                return {own: part(value[own])}\n",
        killed_by="tests/core/journal/test_bodies.py::test_what_looks_like_a_large_value_is_kept_apart_from_one",
    ),
    Mutant(
        name="a body of a newer version is read",
        breaks="nothing is half read",
        file="core/journal/bodies.py",
        old="        if version > RECORD_VERSION:\n",
        new="        if False:\n",
        killed_by="tests/core/journal/test_bodies.py::test_a_body_of_a_newer_version_is_refused_whole",
    ),
    Mutant(
        name="a sweep that was broken off is taken for damage",
        breaks=_DAMAGE,
        file="stores/sqlite_opening.py",
        old="    if found == APPLICATION_ID and has_log(path):\n",
        new="    if False:\n",
        killed_by=f"{_BROKEN_OFF}[its mark]",
    ),
    Mutant(
        name="the head of a file is not looked for behind damage",
        breaks=_DAMAGE,
        file="stores/sqlite_opening.py",
        old="            found = _id_in(connector.read_head())\n",
        new="            pass\n",
        killed_by=f"{_BROKEN_OFF}[no mark]",
    ),
    Mutant(
        name="the mark of a store is away for a moment",
        breaks=_DAMAGE,
        file="stores/sqlite_files.py",
        old="            os.pwrite(self._file, text, 0)\n",
        new="            os.ftruncate(self._file, 0)\n            os.pwrite(self._file, text, 0)\n",
        killed_by="tests/stores/test_sqlite_files.py::test_the_mark_of_a_store_is_there_wherever_its_writer_is_killed",
    ),
)
