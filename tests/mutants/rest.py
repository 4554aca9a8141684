"""Mutants of what a client is shown, of other messages for a request, and of tools and models that are written by others."""

from typing import Final

from tests.mutants.mutant import Mutant, scenario

_OUTCOME: Final = "who asks for something hears what became of it"
_HANDED: Final = "what a plugin hands on is what one request says, and nothing else (5.3)"
_HANDED_ON: Final = "tests/core/test_handed_on.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a compaction with nothing to cut says nothing",
        breaks=_OUTCOME,
        file="core/compacting.py",
        old="            work.publish(CompactSkipped(by=BY_SESSION, reason=why))\n",
        new="            pass\n",
        killed_by=scenario("compact_nothing_to_cut"),
    ),
    Mutant(
        name="messages that are no conversation are sent",
        breaks=_HANDED,
        file="core/actions.py",
        old="            return fault_of_messages(messages, shown)\n",
        new="            return None\n",
        killed_by=scenario("messages_handed_on_invalid"),
    ),
    Mutant(
        name="what was hidden is sent behind a compaction",
        breaks=_HANDED,
        file="core/compacting.py",
        old="            handed=None if cycle.handed is None else (),\n",
        new="            handed=None,\n",
        killed_by=f"{_HANDED_ON}::test_what_a_plugin_hides_no_model_reads_and_the_conversation_keeps",
    ),
    Mutant(
        name="a skip brings back what a guard took out",
        breaks=_HANDED,
        file="core/pipeline.py",
        old='kept = {"event": self.out.guarded, "replaced_by": by}',
        new="del by",
        killed_by="property_tests/core/test_pipeline.py::test_a_skip_never_brings_back_what_a_guard_took_out",
    ),
)
