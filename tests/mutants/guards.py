"""Mutants of the guards: what reads command lines, who approves, and what the kit finds in a stack."""

from typing import Final

from tests.mutants.mutant import Mutant

_READS: Final = "SecurityGuard notices what bash would run"
_CHAT: Final = "what you approve is what runs"
_KIT: Final = "check-plugins finds what is wrong with a stack, and nothing else"

_GUARD: Final = "tests/plugins/test_security_guard.py"
_STACKS: Final = "tests/testing/test_stacks.py::test_a_planted_bug_is_found_and_told_in_six_signals"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a line that is not read passes",
        breaks=_READS,
        file="plugins/security_guard.py",
        old="        if asks is not None:\n",
        new="        if False:\n",
        killed_by=f"{_GUARD}::test_an_attack_is_refused",
    ),
    Mutant(
        name="what runs its words passes",
        breaks=_READS,
        file="plugins/guarded_arguments.py",
        old="        if told is not None:\n",
        new="        if False:\n",
        killed_by=f"{_GUARD}::test_an_attack_is_refused",
    ),
    Mutant(
        name="two calls with one command, and the first is taken",
        breaks=_CHAT,
        file="core/session/decisions.py",
        old="    if len(alike) == 1:\n",
        new="    if alike:\n",
        killed_by="tests/core/test_scenarios.py::test_scenario[approval_in_chat_by_command]",
    ),
    Mutant(
        name="an answer that is not offered is taken",
        breaks=_CHAT,
        file="core/session/decisions.py",
        old="answer not in asked.permission_options:\n",
        new="not asked.permission_options:\n",
        killed_by="tests/core/test_approvals.py::test_exactly_the_answers_that_are_offered_decide",
    ),
    Mutant(
        name="a rule answers what does not take always",
        breaks=_CHAT,
        file="core/session/call_gates.py",
        old='return "always" in wanted.options and rules',
        new="return rules",
        killed_by="tests/core/test_approvals.py::test_a_rule_only_answers_where_always_is_offered",
    ),
    Mutant(
        name="a tie is not looked at",
        breaks=_KIT,
        file="testing/plugin_promises.py",
        old="first.member.priority == second.member.priority and",
        new="first.member.priority != second.member.priority and",
        killed_by=f"{_STACKS}[a result lost in a priority tie]",
    ),
    Mutant(
        name="a plugin may approve what nobody named",
        breaks=_KIT,
        file="testing/plugin_promises.py",
        old="            is_named = bool(answer.approval_id) and answer.approval_id in said\n",
        new="            is_named = bool(answer.approval_id)\n",
        killed_by=f"{_STACKS}[an approval in the user's place]",
    ),
    Mutant(
        name="a sub-agent does something else than was shown",
        breaks=_CHAT,
        file="core/session/batch.py",
        old="    if state.bound_to not in (None, hash_arguments(state.arguments)):\n        return calls.answer(step, state, ARGUMENTS_CHANGED)[0]\n    if calls.began_before_drift",
        new="    if calls.began_before_drift",
        killed_by="tests/runtime/test_what_is_approved_runs.py::"
        "test_a_sub_agent_is_not_sent_to_do_something_else_than_was_shown",
    ),
)
