"""Responses of the UI message stream, without a session: the steps that a stream takes with them."""

from agentrail.protocols.ai_ui import AI_UI, NO_QUESTIONS
from agentrail.protocols.response_state import (
    Bridged,
    Response,
    catch_up,
    fail_response,
    pause_response,
    resume_response,
)


def started(**given):
    """A response of which its client has nothing yet."""
    return Bridged(Response(**given), NO_QUESTIONS)


def caught_up(state, text):
    """A response whose client came late, and the parts with the text that streams."""
    return AI_UI.write(state.own, catch_up(state.response, text))


def resumed(state, response_id):
    """A response that its client continues, and the parts of its start."""
    return AI_UI.write(state.own, resume_response(state.response, response_id))


def paused(state):
    """A response whose cycle waits."""
    return Bridged(pause_response(state.response), state.own)


def failed(state, reason):
    """A response whose stream cannot continue."""
    return Bridged(fail_response(state.response, "internal", reason), state.own)


def last_parts(state):
    """The last parts of a response that has ended."""
    return AI_UI.close(state)
