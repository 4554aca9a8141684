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
        file="core/session/compaction.py",
        old="            step.publish(CompactSkipped(by=BY_SESSION, reason=why))\n",
        new="            pass\n",
        killed_by=scenario("compact_nothing_to_cut"),
    ),
    Mutant(
        name="messages that are no conversation are sent",
        breaks=_HANDED,
        file="core/protocol/actions.py",
        old="            return fault_of_messages(messages, shown)\n",
        new="            return None\n",
        killed_by=scenario("messages_handed_on_invalid"),
    ),
    Mutant(
        name="what was hidden is sent behind a compaction",
        breaks=_HANDED,
        file="core/session/compaction.py",
        old="            handed=None if cycle.handed is None else (),\n",
        new="            handed=None,\n",
        killed_by=f"{_HANDED_ON}::test_what_a_plugin_hides_no_model_reads_and_the_conversation_keeps",
    ),
    Mutant(
        name="a skip brings back what a guard took out",
        breaks=_HANDED,
        file="core/stack/pipeline.py",
        old='kept = {"event": self.out.guarded, "replaced_by": by}',
        new="del by",
        killed_by="property_tests/core/test_pipeline.py::test_a_skip_never_brings_back_what_a_guard_took_out",
    ),
    Mutant(
        name="a question without a time waits for ever",
        breaks=_OUTCOME,
        file="core/session/batch.py",
        old="step.data.config.question_timeout_ms if seconds is None",
        new="None if seconds is None",
        killed_by=scenario("question_default_deadline"),
    ),
    Mutant(
        name="all provider objects are kept",
        breaks="a session holds no more than it can use",
        file="runtime/held_code.py",
        old="            if name not in used and is_object(name):\n",
        new="            if name is None:\n",
        killed_by="tests/runtime/test_changes.py::test_a_session_keeps_one_object_that_it_was_switched_to",
    ),
    Mutant(
        name="the receipt forgets the children",
        breaks="after an abort nothing is left, and its receipt is true",
        file="runtime/interpreter.py",
        old="            below.add(usage.receipt)\n",
        new="            pass\n",
        killed_by="tests/runtime/test_children.py::test_the_receipt_counts_what_children_had_at_work",
    ),
    Mutant(
        name="what would not end below is lost",
        breaks="after an abort nothing is left, and its receipt is true",
        file="runtime/ending.py",
        old="        usage.add(AbortReceipt(stuck=cell.interpreter.left_behind()))\n",
        new="        pass\n",
        killed_by="tests/runtime/test_children.py::test_what_would_not_end_below_is_in_the_receipt",
    ),
    Mutant(
        name="a snapshot knows nothing of children",
        breaks="a late client sees all that waits for people",
        file="runtime/session.py",
        old="statuses = {child_id: drawn().status for child_id, drawn in self.below.items()}",
        new="statuses: dict[SessionId, Status] = {}",
        killed_by="tests/runtime/test_children.py::test_a_late_client_sees_what_children_wait_for[subscription-child]",
    ),
)
