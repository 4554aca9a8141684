"""Mutants of what a supervisor of sessions promises beside their turns: scopes, how they ended, rest, reports, calls without a model."""

from typing import Final

from tests.mutants.mutant import Mutant

_SCOPES: Final = "tests/runtime/test_scopes.py"
_WORDS: Final = "tests/runtime/test_last_words.py"
_REST: Final = "tests/runtime/test_rest.py"
_CALL: Final = "tests/runtime/test_one_call.py"
_REPORTS: Final = "tests/runtime/test_session_reports.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="an id with a slash is taken for one of a scope",
        breaks="sessions of two scopes do not know each other",
        file="runtime/scopes.py",
        old='    return f"{scope}/{session_id}" if scope or "/" in session_id else session_id\n',
        new='    return f"{scope}/{session_id}" if scope else session_id\n',
        killed_by=f"{_SCOPES}::test_a_key_names_one_session",
    ),
    Mutant(
        name="an approval is looked for in no scope",
        breaks="sessions of two scopes do not know each other",
        file="runtime/session.py",
        old="        found = self.find(self.ports.scope, session_id) if session_id != own_id else None\n",
        new='        found = self.find("", session_id) if session_id != own_id else None\n',
        killed_by=f"{_SCOPES}::test_children_are_in_the_scope_of_their_parent",
    ),
    Mutant(
        name="how a session ended is never noted",
        breaks="how a session ended can be asked later",
        file="runtime/supervisor.py",
        old="            self._gone.add(entry.cell)\n",
        new="",
        killed_by=f"{_WORDS}::test_the_words_of_one_that_was_given_up",
    ),
    Mutant(
        name="handles of ended sessions are kept without a bound",
        breaks="what is kept of ended sessions is bounded",
        file="runtime/last_words.py",
        old="        if len(self._due) > MAX_HANDLES:\n",
        new="        if False:\n",
        killed_by=f"{_WORDS}::test_only_so_many_are_known",
    ),
    Mutant(
        name="a session rests while its tools work",
        breaks="a session at rest has nothing at work",
        file="runtime/resting.py",
        old="    else:\n        return False\n    return all(",
        new="    else:\n        return True\n    return all(",
        killed_by=f"{_REST}::test_it_leaves_between_two_turns",
    ),
    Mutant(
        name="a rest passes for an end",
        breaks="a caller can tell a rest from an end",
        file="runtime/session.py",
        old="        self.pending_calls.close(reason, is_rested=is_rested)\n",
        new="        self.pending_calls.close(reason)\n",
        killed_by=f"{_REST}::test_who_comes_behind_it_is_told_that_it_rests",
    ),
    Mutant(
        name="a rest that no caller wants any more happens all the same",
        breaks="cancelled means not done",
        file="runtime/put_to_rest.py",
        old="            cell.resting = None  # no caller waits for it any more: it goes on\n",
        new="            pass\n",
        killed_by=f"{_REST}::test_a_caller_that_is_cancelled_leaves_the_session_alone",
    ),
    Mutant(
        name="the built-in provider answers all that is asked",
        breaks="no model stands behind a call without one",
        file="runtime/one_call.py",
        old="        if self._has_asked or self._tool not in request.tools.names:\n",
        new="        if False:\n",
        killed_by=f"{_CALL}::test_no_model_stands_behind_it",
    ),
    Mutant(
        name="a caller that has left leaves its tool at work",
        breaks="cancelling the caller stops the tool",
        file="runtime/starting.py",
        old='                await session.stop("the call is over")\n',
        new="",
        killed_by=f"{_CALL}::test_a_call_gives_what_the_tool_says",
    ),
    Mutant(
        name="a full buffer of reports loses the newest",
        breaks="the newest report says how things are",
        file="runtime/session_reports.py",
        old="            self._sender.send_nowait(report)\n\n    def end",
        new="            pass\n\n    def end",
        killed_by=f"{_REPORTS}::test_a_reader_that_does_not_read_loses_the_oldest",
    ),
)
