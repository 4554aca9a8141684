"""Mutants of the two gates of the host: what runs is what was shown, and what hangs is ended."""

from typing import Final

from tests.mutants.mutant import Mutant, scenario

_APPROVED: Final = "what you approve is what runs"
_ABORT: Final = "after an abort nothing is left"
_HOST: Final = "nothing runs that the host has not let run"
_TOLD: Final = "the host hears of each call whose code has ended, once"
_SHOWN: Final = "property_tests/runtime/test_edits_rewrites_and_approvals.py"
_GATES: Final = "tests/runtime/test_host_gates.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="Faro was approved, Porto runs",
        breaks=_APPROVED,
        file="core/session/call_gates.py",
        old="    if hash_arguments(state.arguments) == state.bound_to:\n",
        new="    state = msgspec.structs.replace(state, bound_to=hash_arguments(state.arguments))\n    if state.bound_to:\n",
        killed_by=f"{_SHOWN}::test_what_runs_is_what_was_shown_and_approved_last",
    ),
    Mutant(
        name="a rule stands for what was made of an edit",
        breaks=_APPROVED,
        file="core/session/call_gates.py",
        old="    hint = f\"{changed_by} changed what you {'wrote' if state.edited else 'allowed'}\"\n",
        new="    if rules.is_allowed(step.data.rules, state.call.name, state.arguments):\n"
        "        return msgspec.structs.replace(state, bound_to=None)\n"
        "    hint = f\"{changed_by} changed what you {'wrote' if state.edited else 'allowed'}\"\n",
        killed_by=scenario("host_edit_shown_again"),
    ),
    Mutant(
        name="a rule releases what is shown again",
        breaks=_APPROVED,
        file="core/session/interactions.py",
        old='        if state.stage == "asking" and state.bound_to is not None:\n',
        new='        if state.stage == "done":\n',
        killed_by=scenario("host_edit_and_rule"),
    ),
    Mutant(
        name="an edit does not come before the host",
        breaks=_HOST,
        file="core/session/call_gates.py",
        old='    if "before_tool" in step.data.config.host_hooks:\n        rounds',
        new="    if False:\n        rounds",
        killed_by=f"{_SHOWN}::test_what_runs_is_what_was_shown_and_approved_last",
    ),
    Mutant(
        name="the approval that plugins want is lost behind the verdict",
        breaks=_APPROVED,
        file="core/session/call_gates.py",
        old="        return _ask_host(step, state, HostCheck(wanted=wanted)), None\n",
        new="        return _ask_host(step, state, HostCheck()), None\n",
        killed_by=f"{_SHOWN}::test_what_runs_is_what_was_shown_and_approved_last",
    ),
    Mutant(
        name="a rewrite of the host passes the guards",
        breaks="no order of plugins lets a call past a guard",
        file="core/session/call_gates.py",
        old="    if _is_judged(step):\n        outcome = _ask_plugins(step, state, by=signal.by)\n",
        new="    if not _is_judged(step):\n        outcome = _ask_plugins(step, state, by=signal.by)\n",
        killed_by=scenario("host_blocked_by_guard"),
    ),
    Mutant(
        name="a verdict that crashed the core lets the call run",
        breaks=_HOST,
        file="core/session/machine.py",
        old='effect_id=effect_id, deny=f"Not run: {error.message}")\n',
        new="effect_id=effect_id)\n",
        killed_by=scenario("host_denies"),
    ),
    Mutant(
        name="an abort does not stop the host's hook",
        breaks=_ABORT,
        file="core/session/batch.py",
        old="        step.cancel(CancelPluginRequest(effect_id=state.effect_id))\n",
        new="        step.ended(state.effect_id)\n",
        killed_by=f"{_GATES}::test_an_abort_ends_a_call_unrun_whose_hook_hangs",
    ),
    Mutant(
        name="a receipt does not wait for the host's hook",
        breaks=_ABORT,
        file="core/session/teardown.py",
        old="    return (*ids, *(one for one in ended if one not in ids)), (*unknown, *_ids_of(at_client))\n",
        new="    return ids, (*unknown, *_ids_of(at_client))\n",
        killed_by=scenario("host_aborted"),
    ),
    Mutant(
        name="an abort waits until the host was told",
        breaks=_TOLD,
        file="core/session/batch.py",
        old="    if state is None or state.effect_id != signal.effect_id:\n",
        new="    assert state is not None  # noqa: S101\n    if state.effect_id != signal.effect_id:\n",
        killed_by=scenario("host_told"),
    ),
    Mutant(
        name="the host is told of what never ran",
        breaks=_TOLD,
        file="core/session/call_gates.py",
        old='    if signal.ran_ms is None or "after_tool" not in step.data.config.host_hooks:\n',
        new='    if "after_tool" not in step.data.config.host_hooks:\n',
        killed_by="tests/core/test_host_gates.py::test_the_host_is_not_told_of_what_never_ran",
    ),
    Mutant(
        name="calls reach the host in any order",
        breaks=_HOST,
        file="runtime/host_gates.py",
        old="            await self._before.wait()\n",
        new="            pass\n",
        killed_by=f"{_GATES}::test_calls_reach_the_host_in_the_order_of_the_model",
    ),
    Mutant(
        name="a host that crashes lets the call run",
        breaks=_HOST,
        file="runtime/host_gates.py",
        old="                return decide_verdict(effect, HostVerdict(deny=crashed.error.message))\n",
        new="                return decide_verdict(effect, HostVerdict(by=crashed.error.code))\n",
        killed_by=f"{_GATES}::test_what_is_no_verdict_denies_the_call",
    ),
)
