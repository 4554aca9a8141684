"""Mutants of what prompts come with: a door, a request, a digest, settings; and of what is said of that at ends."""

from typing import Final

from tests.mutants.mutant import Mutant

_SCENARIOS: Final = "tests/core/test_scenarios.py::test_scenario"
_NO_WORDS: Final = "a cycle without words answers what is there"
_GOES_ALONG: Final = "what a prompt came with goes with it"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a steer that becomes a prompt forgets its request",
        breaks=_GOES_ALONG,
        file="core/session/waiting_prompts.py",
        old="        request_id=steer.request_id,\n",
        new="",
        killed_by=f"{_SCENARIOS}[prompt_origins]",
    ),
    Mutant(
        name="a prompt that waits forgets its door",
        breaks=_GOES_ALONG,
        file="core/session/waiting_prompts.py",
        old="            via=prompt.via,\n            request_id=prompt.request_id,\n        )\n    )\n",
        new="            request_id=prompt.request_id,\n        )\n    )\n",
        killed_by=f"{_SCENARIOS}[prompt_origins]",
    ),
    Mutant(
        name="a failed cycle does not say whose it was",
        breaks="an end names its prompt",
        file="core/session/cycle.py",
        old="    step.publish(AgentError(error=error, ref=cycle.ref))\n",
        new="    step.publish(AgentError(error=error))\n",
        killed_by=f"{_SCENARIOS}[prompt_origins]",
    ),
    Mutant(
        name="a message is known by what was put in front of it",
        breaks="a message that is sent again happens once",
        file="core/session/receipts.py",
        old="    if known.digest != (digest or _digest_of(said)) or",
        new="    if known.digest != _digest_of(said) or",
        killed_by=f"{_SCENARIOS}[receipt_of_a_message]",
    ),
    Mutant(
        name="a receipt is given for other words",
        breaks="a receipt is of the message that is meant",
        file="core/session/receipts.py",
        old="    if known is not None and signal.digest not in (None, known.digest):\n",
        new="    if False:\n",
        killed_by=f"{_SCENARIOS}[receipt_of_a_message]",
    ),
    Mutant(
        name="a session goes on behind an answer",
        breaks=_NO_WORDS,
        file="core/session/prompts.py",
        old="    if isinstance(last, AssistantMessage):\n",
        new="    if False:\n",
        killed_by=f"{_SCENARIOS}[go_on_refused]",
    ),
    Mutant(
        name="a session goes on while one is torn down",
        breaks=_NO_WORDS,
        file="core/session/prompts.py",
        old="    if data.teardown is not None or data.queue:\n",
        new="    if data.queue:\n",
        killed_by=f"{_SCENARIOS}[go_on_refused]",
    ),
    Mutant(
        name="what a vendor refused without words is sent again with the next ones",
        breaks=_NO_WORDS,
        file="core/session/cycle.py",
        old="        step.data.refused = (*step.data.refused, _asked_by(step, cycle))\n",
        new="        step.data.refused = (*step.data.refused, cycle.ref)\n",
        killed_by=f"{_SCENARIOS}[go_on_ends]",
    ),
    Mutant(
        name="a prompt that waits forgets its settings",
        breaks="settings are of one cycle",
        file="core/session/waiting_prompts.py",
        old="settings=signal.settings",
        new="settings=None",
        killed_by=f"{_SCENARIOS}[prompt_settings]",
    ),
    Mutant(
        name="a summary is asked for as the caller of the cycle wants answers",
        breaks="settings are of one cycle",
        file="core/session/compaction.py",
        old="        settings=None,\n",
        new="",
        killed_by="tests/core/test_prompt_settings.py::test_a_summary_knows_nothing_of_them",
    ),
    Mutant(
        name="an answer of another format than its caller wants passes",
        breaks="an answer has the shape that was asked for",
        file="core/session/response_format.py",
        old="        return ResponseFormat(settings.response_format)",
        new="        return data.config.response_format",
        killed_by=f"{_SCENARIOS}[prompt_settings]",
    ),
)
