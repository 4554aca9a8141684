"""Mutants of the front door: one cycle as its caller reads it, answers as values, and aborts that mean one prompt."""

from typing import Final

from tests.mutants.mutant import Mutant

_ENDS: Final = "a stream ends with its cycle, and is of no other (14.1)"
_ANSWERS: Final = "an answer is the value that was asked for, or an error (14.1)"
_MEANT: Final = "an abort of one prompt touches no other (14.1)"
_STREAMS: Final = "tests/experience/test_streams_of_a_cycle.py"
_TYPED: Final = "tests/experience/test_typed_answers.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a stream goes on when its call is answered",
        breaks=_ENDS,
        file="runtime/cycle_stream.py",
        old="self._send, on_answered=self._events.end)",
        new="self._send)",
        killed_by=f"{_STREAMS}::test_a_cycle_that_finishes",
    ),
    Mutant(
        name="the end of a superseded cycle is its own",
        breaks=_ENDS,
        file="runtime/cycle_stream.py",
        old="return self._is_taken or event.ref in (None, self.ref)",
        new="return True",
        killed_by=f"{_STREAMS}::test_it_supersedes_a_cycle_that_waits",
    ),
    Mutant(
        name="what other cycles say meanwhile is read",
        breaks=_ENDS,
        file="runtime/cycle_stream.py",
        old="            self._is_queued = not self._begins(event)\n",
        new="            self._is_queued = False\n",
        killed_by=f"{_STREAMS}::test_behind_another_cycle",
    ),
    Mutant(
        name="a stream that is left aborts whatever runs",
        breaks=_MEANT,
        file="runtime/cycle_stream.py",
        old='reason="the caller left", ref=self._prompt.ref',
        new='reason="the caller left"',
        killed_by=f"{_STREAMS}::test_left_while_it_waits_it_leaves_the_queue",
    ),
    Mutant(
        name="an abort of a prompt that has ended stops what runs",
        breaks=_MEANT,
        file="core/session/teardown.py",
        old="        if not _is_at_work(step.data, signal.ref):\n",
        new="        if step.data.cycle is None:\n",
        killed_by="tests/core/test_scenarios.py::test_scenario[abort_of_one_prompt]",
    ),
    Mutant(
        name="a prompt that is taken back leaves its caller waiting",
        breaks=_MEANT,
        file="core/session/teardown.py",
        old="            step.publish(PromptDropped(ref=ref, content=prompt.content))\n            refuse_askers(step, prompt, CycleAborted(signal.reason))\n",
        new="            step.publish(PromptDropped(ref=ref, content=prompt.content))\n",
        killed_by="tests/core/test_scenarios.py::test_scenario[abort_of_one_prompt]",
    ),
    Mutant(
        name="an answer comes in its fence",
        breaks=_ANSWERS,
        file="core/session/response_format.py",
        old="    return said if schema is None else document_in(said, schema)\n",
        new="    return said\n",
        killed_by=f"{_TYPED}::test_what_the_session_promised_is_given_bare",
    ),
    Mutant(
        name="the model does not hear why its answer cannot be read",
        breaks=_ANSWERS,
        file="runtime/answers.py",
        old="    return signal if fault is None else msgspec.structs.replace(signal, misfit=fault)\n",
        new="    return signal\n",
        killed_by=f"{_TYPED}::test_a_wrong_answer_is_put_right_once",
    ),
    Mutant(
        name="a misfit of the first answer counts against the second",
        breaks=_ANSWERS,
        file="core/session/response.py",
        old="    if signal.misfit != step.cycle.misfit:\n",
        new="    if signal.misfit is not None:\n",
        killed_by=f"{_TYPED}::test_a_wrong_answer_is_put_right_once",
    ),
    Mutant(
        name="what an application gives its tools is shown",
        breaks="what an application gives its tools is nowhere (X-016)",
        file="abc/tool_context.py",
        old="    deps: D = field(default=None, repr=False, eq=False)\n",
        new="    deps: D = field(default=None, eq=False)\n",
        killed_by="tests/experience/test_deps.py::test_it_is_the_very_object_and_occurs_nowhere",
    ),
)
