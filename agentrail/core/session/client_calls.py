"""Calls that the client answers: the tool runs in the program that sent the prompt, and its call waits here as data."""

from typing import Final

from msgspec.structs import replace

from agentrail.core.protocol.signals import AnswerCall
from agentrail.core.session import batch, call_results, interactions
from agentrail.core.session.state import BreakOff, Interaction, Next, Phase
from agentrail.core.session.step_context import StepContext
from agentrail.errors import AgentrailError, InvalidResponse
from agentrail.events import Approval, PendingClientCall

MAX_ANSWER_BYTES: Final = 1 << 20
"""Maximum length of an answer's text in UTF-8, same as for a tool. Longer ones are refused, and the call keeps waiting."""


def answer_call(step: StepContext, phase: Phase, signal: AnswerCall) -> Next:
    """Record the result of a call from the client that ran it. Plugins see it like the result of any tool."""
    try:
        interaction = interactions.find_interaction(step, signal.ref)
        _check_answer(interaction, signal)
    except AgentrailError as error:
        step.refuse(signal.signal_id, error)
        return phase
    interactions.close_interaction(step, interaction, "approved", "client")
    state = call_results.one_of_batch(step, interaction.asked.call_id)
    result, abort = batch.after_tool(step, call_results.finished_result(state, signal))
    call_results.publish_end(step, state, result)
    call_results.put(step, replace(state, stage="done", result=result))
    step.reply(signal.signal_id, None)
    if abort is not None:
        interactions.end_wait(step, "client_answer")
        return BreakOff(abort)
    # The user may have approved it without another turn, and that still applies.
    return batch.decided(step, "client_answer", resume=step.cycle.resume)


def _check_answer(interaction: Interaction, signal: AnswerCall) -> None:
    asked = interaction.asked
    if not isinstance(asked, PendingClientCall):
        way = (
            "an approval: decide it with approve or reject"
            if isinstance(asked, Approval)
            else ("a question: answer it with respond, or decline it")
        )
        message = f"{signal.ref!r} is {way}"
        raise InvalidResponse(message)
    check_size(signal.ref, signal.text)


def check_size(ref: str, text: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_ANSWER_BYTES:
        message = f"the answer to {ref!r} has {size:,} bytes, at most {MAX_ANSWER_BYTES:,} are allowed: shorten it, or return its location instead; the call still waits"
        raise InvalidResponse(message)
