"""The prompts that wait, and how subscribers hear of them: what a prompt came with goes with it, through every queue.

Who lets a prompt wait, and when it starts, is decided elsewhere.
"""

from agentrail.core.protocol.signals import Prompt, SignalId, Steer
from agentrail.core.session.state import QueuedPrompt, QueuedSteer
from agentrail.core.session.step_context import StepContext
from agentrail.events import PromptQueued, PromptReceived
from agentrail.messages import PromptRef, Text


def waiting_prompt(signal: Prompt, askers: tuple[SignalId, ...]) -> QueuedPrompt:
    """Make of a prompt what waits."""
    return QueuedPrompt(
        ref=signal.ref,
        content=signal.content,
        askers=askers,
        via=signal.via,
        request_id=signal.request_id,
        settings=signal.settings,
    )


def prompt_of_steer(steer: Steer | QueuedSteer) -> QueuedPrompt:
    """Make of a steer, which no cycle hears, a prompt of the same name."""
    return QueuedPrompt(
        ref=PromptRef(steer.ref),
        content=(Text(text=steer.text),),
        via=steer.via,
        request_id=steer.request_id,
    )


def say_received(step: StepContext, prompt: QueuedPrompt) -> None:
    """Publish that a prompt was accepted, and starts at once."""
    step.publish(
        PromptReceived(ref=prompt.ref, content=prompt.content, via=prompt.via, request_id=prompt.request_id)
    )


def say_queued(step: StepContext, prompt: QueuedPrompt, position: int) -> None:
    """Publish that a prompt waits, and at which place."""
    step.publish(
        PromptQueued(
            ref=prompt.ref,
            content=prompt.content,
            position=position,
            via=prompt.via,
            request_id=prompt.request_id,
        )
    )
