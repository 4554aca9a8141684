"""Mutants of what goes on in the background: who ends it, who is told of it, what it may hold."""

from typing import Final

from tests.mutants.mutant import Mutant, scenario

_ENDED: Final = "what goes on in the background ends with its session, and when all is to be killed"
_TOLD: Final = "the model hears of each end in the background, and of each restart"
_ONCE: Final = "what went on in the background is never run again"
_BOUNDS: Final = "what goes on in the background holds no slot, and no more output than may be"
_SLEEP: Final = "a call that sleeps is data: it survives a restart, and a steer wakes it"
_CODE: Final = "no rule allows code by a part of it"
_COMMANDS: Final = "tests/runtime/test_background_commands.py"
_TOOLS: Final = "tests/tools/test_background.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="kill_tools=all spares what is detached",
        breaks=_ENDED,
        file="core/session/teardown.py",
        old='    if kill == "all":\n        of_detached',
        new='    if kill == "none":\n        of_detached',
        killed_by=f"{_COMMANDS}::test_only_an_abort_of_all_ends_it[all]",
    ),
    Mutant(
        name="what is detached is committed",
        breaks=_ENDED,
        file="core/session/teardown.py",
        old="    going_on = {state.call.call_id for state in step.data.survivors}\n",
        new="    going_on = set()\n",
        killed_by=scenario("detached_stopped_in_its_batch"),
    ),
    Mutant(
        name="a detached call is taken for the one of its batch",
        breaks=_ENDED,
        file="core/session/batch.py",
        old="    if state is None or signal.effect_id != state.effect_id:\n",
        new="    if state is None:\n",
        killed_by=scenario("detached_stopped_in_its_batch"),
    ),
    Mutant(
        name="what is detached is run again",
        breaks=_ONCE,
        file="core/session/recovery.py",
        old="    if state.detached:\n        detached.gone(step, state)\n",
        new="    if state.detached and not has_begun:\n        detached.gone(step, state)\n",
        killed_by=scenario("detached_at_a_crash"),
    ),
    Mutant(
        name="a crash ends what is detached silently",
        breaks=_TOLD,
        file="core/session/teardown.py",
        old="            detached.gone(step, state)\n",
        new="            calls.publish_end(step, state, calls.result_of(state, STOPPED))\n",
        killed_by=scenario("detached_at_a_crash"),
    ),
    Mutant(
        name="what is detached takes a slot",
        breaks=_BOUNDS,
        file="core/session/detached.py",
        old="    return sum(not state.detached for state in step.data.survivors)\n",
        new="    return len(step.data.survivors)\n",
        killed_by=scenario("detached_waits_for_no_slot"),
    ),
    Mutant(
        name="a ninth call goes on",
        breaks=_BOUNDS,
        file="core/session/detached.py",
        old="    return sum(state.detached for state in step.data.survivors) < MAX_DETACHED\n",
        new="    return sum(state.detached for state in step.data.survivors) <= MAX_DETACHED\n",
        killed_by=scenario("detached_ninth"),
    ),
    Mutant(
        name="a detached call keeps its timeout",
        breaks=_ENDED,
        file="runtime/tool_calls.py",
        old="        self._scope.deadline = math.inf\n",
        new="",
        killed_by=f"{_COMMANDS}::test_a_command_is_begun_read_and_its_end_is_told",
    ),
    Mutant(
        name="the processes of a detached call keep its timeout",
        breaks=_ENDED,
        file="runtime/processes.py",
        old="            opened.scope.deadline = math.inf\n",
        new="            pass\n",
        killed_by=f"{_COMMANDS}::test_a_command_is_begun_read_and_its_end_is_told",
    ),
    Mutant(
        name="a ninth command is begun",
        breaks=_BOUNDS,
        file="abc/background.py",
        old="        if len(self.running) >= MAX_BACKGROUND_COMMANDS:\n",
        new="        if len(self.running) > MAX_BACKGROUND_COMMANDS:\n",
        killed_by=f"{_COMMANDS}::test_the_ninth_is_not_begun",
    ),
    Mutant(
        name="what is dropped is not counted",
        breaks=_BOUNDS,
        file="abc/background.py",
        old="            self._dropped_bytes += surplus\n",
        new="",
        killed_by=f"{_TOOLS}::test_all_that_was_printed_is_read_or_counted",
    ),
    Mutant(
        name="a restart forgets who sleeps",
        breaks=_SLEEP,
        file="core/session/agent_state.py",
        old="        return bool(self.states or self.waits)\n",
        new="        return bool(self.states)\n",
        killed_by=scenario("sleeping"),
    ),
    Mutant(
        name="a steer lets sleep",
        breaks=_SLEEP,
        file="core/session/agents.py",
        old="            _wake_sleeper(step, wait)\n",
        new="",
        killed_by=scenario("sleeping"),
    ),
    Mutant(
        name="a part of code allows all of it",
        breaks=_CODE,
        file="plugins/permission_rules.py",
        old='    can_allow = all(pointer == (code,) and "*" not in glob for code in runs)\n',
        new="    can_allow = all(pointer == (code,) for code in runs)\n",
        killed_by="tests/plugins/test_permission_policy.py::test_no_part_of_code_allows_all_of_it",
    ),
    Mutant(
        name="always allows all code",
        breaks=_CODE,
        file="plugins/permission_always.py",
        old="    if call.tool in CODE_TOOLS:  # code is read once and not again: there is no narrow rule of it\n        return ()\n",
        new="",
        killed_by="tests/plugins/test_permission_always.py::test_the_narrowest_rule_of_another_call",
    ),
)
