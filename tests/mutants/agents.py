"""Mutants of agents: those in the background, and the one as which the session works."""

from typing import Final

from tests.mutants.mutant import Mutant

_BESIDE: Final = "an agent works beside its session, and never behind its back (12.2.2)"
_MONEY: Final = "an agent is lent its budget for each cycle, and gives the rest back (12.2.4)"
_HANDED: Final = "a handoff changes prompt, tools and model, in front of the next request (12.2.8)"
_SCENARIOS: Final = "tests/core/test_scenarios.py::test_scenario"
_HANDOFF: Final = "tests/core/test_handoff.py"
_SHELL: Final = "tests/runtime/test_background_agents.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="what waits for an agent is forgotten when it is idle",
        breaks=_BESIDE,
        file="core/session/agents.py",
        old='    elif before == "working" and state.inputs:\n        _drain(step, state)\n',
        new="",
        killed_by=f"{_SCENARIOS}[agents_in_the_background]",
    ),
    Mutant(
        name="a wait for the first of several waits for all",
        breaks=_BESIDE,
        file="core/session/agents.py",
        old='        if any(met) if wait.match == "any" else all(met):\n',
        new="        if all(met):\n",
        killed_by=f"{_SCENARIOS}[agents_waited_for]",
    ),
    Mutant(
        name="what an agent says is told twice, by a wait and by a note",
        breaks=_BESIDE,
        file="core/session/agents.py",
        old='    if before == "working" and not is_waited_for and _of(step, name).status == "idle":\n',
        new='    if before == "working" and _of(step, name).status == "idle":\n',
        killed_by=f"{_SCENARIOS}[agents_in_the_background]",
    ),
    Mutant(
        name="a wait keeps its timer when it is met",
        breaks=_BESIDE,
        file="core/session/agents.py",
        old="    if wait.timer is not None:\n        step.cancel(ClearTimer(effect_id=wait.timer))\n",
        new="",
        killed_by=f"{_SCENARIOS}[agents_waited_for]",
    ),
    Mutant(
        name="an agent is lent all that is left",
        breaks=_MONEY,
        file="core/session/agent_calls.py",
        old="lend_to_agent(step, new.effect_id, len(team.alive) + 2, spec.budget)",
        new="lend_to_agent(step, new.effect_id, 1, spec.budget)",
        killed_by=f"{_SCENARIOS}[agents_budget]",
    ),
    Mutant(
        name="an agent gives nothing back when it is idle",
        breaks=_MONEY,
        file="core/session/agents.py",
        old="    _settle(step, state, spent_since(signal.spent, state.spent))\n    before = state.status\n",
        new="    before = state.status\n",
        killed_by=f"{_SCENARIOS}[agents_budget]",
    ),
    Mutant(
        name="one agent more than may be",
        breaks="limits hold, and who meets one hears who is alive (12.2.3)",
        file="core/session/agent_calls.py",
        old="    if len(alive) >= limits.max_agents:\n",
        new="    if len(alive) > limits.max_agents:\n",
        killed_by=f"{_SCENARIOS}[agents_bad_input]",
    ),
    Mutant(
        name="an agent is left alive when its session ends",
        breaks="agents outlive a cycle, never the session (12.2.5)",
        file="runtime/sessions_below.py",
        old="            if parent.crash is None:  # else it is left to the next incarnation, or goes with the last\n",
        new="            if False:\n",
        killed_by=f"{_SHELL}::test_an_agent_outlives_its_cycle_and_goes_with_its_session",
    ),
    Mutant(
        name="a handoff takes effect while the others of its batch run",
        breaks=_HANDED,
        file="core/session/handoff.py",
        old="    step.data.acting = replace(data.acting, next=name, note=said)\n",
        new="    step.data.acting = replace(data.acting, next=name, note=said)\n    hand_over(step)\n",
        killed_by=f"{_HANDOFF}::test_the_others_of_its_batch_end_first_with_the_tools_they_began_with",
    ),
    Mutant(
        name="the second handoff of a batch counts",
        breaks=_HANDED,
        file="core/session/handoff.py",
        old="    if data.acting.next is not None:\n",
        new="    if False:\n",
        killed_by=f"{_SCENARIOS}[handoff]",
    ),
    Mutant(
        name="a session is handed over to whoever works in the background",
        breaks=_HANDED,
        file="core/session/handoff.py",
        old="for spec in data.config.agents if spec.handoff and ",
        new="for spec in data.config.agents if ",
        killed_by=f"{_HANDOFF}::test_an_agent_that_is_not_there",
    ),
    Mutant(
        name="tools of the agent before can still be called",
        breaks=_HANDED,
        file="core/values/toolbox.py",
        old='            if spec.answered_by in {"machine", "child"} and spec.name not in tools.names\n',
        new="            if spec.name not in tools.names\n",
        killed_by=f"{_HANDOFF}::test_the_other_agent_goes_on_with_the_conversation",
    ),
    Mutant(
        name="the prompt stays that of the start",
        breaks=_HANDED,
        file="core/session/projection.py",
        old="data.config.system_prompt if data.acting.prompt is None else data.acting.prompt",
        new="data.config.system_prompt",
        killed_by=f"{_HANDOFF}::test_the_other_agent_goes_on_with_the_conversation",
    ),
    Mutant(
        name="tools of agents are let go when others are detached",
        breaks=_HANDED,
        file="runtime/held_code.py",
        old="            if key not in used and 0 <= key[1] <= data.tools.generation:\n",
        new="            if key not in used and key[1] <= data.tools.generation:\n",
        killed_by="tests/runtime/test_handoff.py::test_a_model_calls_a_tool_of_an_agent_that_came_behind_other_changes",
    ),
)
