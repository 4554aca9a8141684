"""Mutants of what waits for people: the wait of a cycle, and what is said of it."""

from typing import Final

from tests.mutants.mutant import Mutant, scenario

_SUSPENDED: Final = "AgentSuspended and AgentResumed alternate, and agree with the status (4.3)"
_FORMS: Final = "an answer to a form fits it (11.2, K3)"
_DECLINED: Final = "who asked hears that the user declined (11.2, K3)"
_DOORS: Final = "tests/runtime/test_forms.py"
_CLIENT: Final = "a call of the client passes the gates, and is answered once (11.2, K2)"
_WAIT: Final = "tests/core/test_suspension.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="no event says that a cycle waits for people",
        breaks=_SUSPENDED,
        file="core/session/machine.py",
        old="            interactions.begin_wait(step)\n",
        new="            pass\n",
        killed_by=scenario("question_answered"),
    ),
    Mutant(
        name="a suspended cycle says so at each signal",
        breaks=_SUSPENDED,
        file="core/session/machine.py",
        old="        if step.data.cycle is not None and not step.suspended:\n",
        new="        if step.data.cycle is not None:\n",
        killed_by=scenario("question_answered"),
    ),
    Mutant(
        name="a prompt that supersedes ends the wait in silence",
        breaks=_SUSPENDED,
        file="core/session/decisions.py",
        old='    interactions.end_wait(step, "superseded")\n',
        new="",
        killed_by=f"{_WAIT}::test_whatever_ends_the_wait_says_so_once[prompted]",
    ),
    Mutant(
        name="an abort ends the wait in silence",
        breaks=_SUSPENDED,
        file="core/session/teardown.py",
        old='        interactions.end_wait(step, "abort" if step.data.stopping is None else "stop")\n',
        new="",
        killed_by=f"{_WAIT}::test_whatever_ends_the_wait_says_so_once[aborted]",
    ),
    Mutant(
        name="a session that is parked ends the wait in silence",
        breaks=_SUSPENDED,
        file="core/session/teardown.py",
        old='    interactions.end_wait(step, "stop")\n    fail(step, error)\n',
        new="    fail(step, error)\n",
        killed_by=f"{_WAIT}::test_whatever_ends_the_wait_says_so_once[parked]",
    ),
    Mutant(
        name="the wait ends by the abort, and not by the edit that a guard aborted over",
        breaks=_SUSPENDED,
        file="core/session/decisions.py",
        old='        interactions.end_wait(step, "tool_approved")\n',
        new="",
        killed_by=f"{_WAIT}::test_an_edit_that_aborts_the_cycle_ends_the_wait",
    ),
    Mutant(
        name="a form takes what it has no field for",
        breaks=_FORMS,
        file="core/values/forms.py",
        old="for name in given if name not in fields]",
        new="for name in given if name is fields]",
        killed_by=scenario("form_answered"),
    ),
    Mutant(
        name="a form is answered by words",
        breaks=_FORMS,
        file="core/session/decisions.py",
        old="    if schema is not None:\n        read = read_form",
        new="    if schema is not None and isinstance(given, Mapping):\n        read = read_form",
        killed_by=scenario("form_answered"),
    ),
    Mutant(
        name="an address may run something",
        breaks="an address is shown, and is one of the web",
        file="core/values/forms.py",
        old='parts.scheme in {"http", "https"} and bool(parts.hostname)',
        new="bool(parts.scheme)",
        killed_by=scenario("form_that_is_none"),
    ),
    Mutant(
        name="a tool whose user declines is called again",
        breaks=_DECLINED,
        file="runtime/tool_runner.py",
        old="        if declined is not None:\n",
        new="        if declined is None:\n",
        killed_by=f"{_DOORS}::test_a_tool_hears_that_the_user_declines",
    ),
    Mutant(
        name="a tool waits on when the user declines",
        breaks=_DECLINED,
        file="core/session/decisions.py",
        old="        step.refuse(interaction.asker, error)\n",
        new="",
        killed_by=scenario("form_of_a_tool"),
    ),
    Mutant(
        name="a tool writes into the answer that the session keeps",
        breaks="what was handed out cannot be edited",
        file="runtime/tool_calls.py",
        old="thawed(answer))",
        new="answer)",
        killed_by=f"{_DOORS}::test_a_tool_is_given_what_was_filled_in",
    ),
    Mutant(
        name="a call of the client runs here once it is approved",
        breaks=_CLIENT,
        file="core/session/open_calls.py",
        old='self.spec.answered_by in {"user", "client"}',
        new='self.spec.answered_by == "user"',
        killed_by=scenario("client_call_approved"),
    ),
    Mutant(
        name="plugins do not see what the client gives",
        breaks=_CLIENT,
        file="core/session/client_calls.py",
        old="    result, abort = batch.after_tool(step, calls.finished_result(state, signal))\n",
        new="    result, abort = calls.finished_result(state, signal), None\n",
        killed_by=scenario("client_call_filtered"),
    ),
    Mutant(
        name="the client decides an approval",
        breaks=_CLIENT,
        file="core/session/client_calls.py",
        old="    if not isinstance(asked, PendingClientCall):\n",
        new="    if asked is None:\n",
        killed_by=scenario("client_call_approved"),
    ),
    Mutant(
        name="a receipt does not say what the client may have done",
        breaks="after an abort the receipt is true",
        file="core/session/teardown.py",
        old="(*unknown, *_ids_of(at_client))",
        new="unknown",
        killed_by=scenario("client_call_taken_back"),
    ),
    Mutant(
        name="the client gives any amount",
        breaks=_CLIENT,
        file="core/session/client_calls.py",
        old="    if size > MAX_ANSWER_BYTES:\n",
        new="    if size < 0:\n",
        killed_by="tests/runtime/test_client_calls.py::test_an_answer_that_is_too_long_is_refused_and_the_call_waits_on",
    ),
)
