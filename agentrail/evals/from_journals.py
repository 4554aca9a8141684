"""Cases made of recorded sessions, with cassettes that answer as the model did."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from agentrail import events
from agentrail.abc import Capabilities
from agentrail.core.journal.replay import ReplayStep
from agentrail.core.protocol.effects import Publish, StartStream
from agentrail.core.protocol.request import Completed, EffectId, ModelRequest
from agentrail.core.protocol.signals import ResponseCompleted, StreamFailed
from agentrail.errors import OptionError
from agentrail.evals.dataset import Case
from agentrail.evals.trace import trace_of
from agentrail.events import Event
from agentrail.frozen import thawed
from agentrail.messages import PromptRef, Text, UserBlock
from agentrail.structs import picked_fields
from agentrail.testing.cassette import encode_exchange

_MODEL: Final = "cassette:object"
"""The model string of a session whose provider is a `CassetteModel`."""


def case_of_journal(name: str, steps: Iterable[ReplayStep], *, cassette: str) -> tuple[Case, list[str]]:
    """Return a session as a case with this name, and the lines of its cassette, which still contain its secrets.

    Raises:
        OptionError: Your move: its model's answers alone do not repeat it. The message has the reason.
    """
    heard: list[Event] = []
    lines: list[str] = []
    open_requests: dict[EffectId, ModelRequest] = {}
    models: set[str] = set()
    has_context = False
    for walked in (step.walked for step in steps):
        signal = walked.signal
        if isinstance(signal, ResponseCompleted | StreamFailed) and signal.effect_id in open_requests:
            answer = [signal] if isinstance(signal, ResponseCompleted) else []
            chunks = [Completed(one.stop_reason, one.message, one.usage) for one in answer]
            facts = picked_fields(
                walked.before.data.config.model, "context_window", "max_output_tokens", "price"
            )
            error = signal.error if isinstance(signal, StreamFailed) else None
            request = open_requests.pop(signal.effect_id)
            lines.append(encode_exchange(request, chunks, error, Capabilities(images=True, **facts)))
        for effect in walked.effects:
            if (
                isinstance(effect, Publish)
                and effect.event.meta is not None
                and not effect.event.meta.ephemeral
            ):
                heard.append(effect.event)
            elif isinstance(effect, StartStream):
                models.add(effect.request.model)
                has_context |= effect.context is not None
                open_requests[effect.request.attempt] = replace(effect.request, model=_MODEL)
    prompts = tuple(_prompts_of(heard))
    reasons = (
        (not prompts or not all(prompts), "it has no prompt, or one that is not only text"),
        (len(models) > 1, f"it used several models: {', '.join(sorted(models))}"),
        (has_context, "its requests contain messages of context providers"),
        (any(isinstance(one, events.SubagentStart) for one in heard), "it had sub-agents"),
    )
    OptionError.raise_for([reason for holds, reason in reasons if holds])
    trace = trace_of(heard)
    metadata = {
        "cassette": cassette,
        "calls": [
            {one.call.name: thawed(one.call.arguments if one.effective is None else one.effective)}
            for one in trace.calls
        ],
        "approve": sorted({
            one.approval.tool for one in heard if isinstance(one, events.ApprovalResolved) and one.status == "approved"
        }),
        "outcome": trace.outcome,
    }  # fmt: skip
    return Case(prompts, trace.text if trace.outcome == "done" else None, metadata, id=name), lines


def _prompts_of(heard: Iterable[Event]) -> Iterable[str]:
    contents: dict[PromptRef, tuple[UserBlock, ...]] = {}
    for event in heard:
        if isinstance(event, events.PromptReceived | events.PromptQueued):
            contents[event.ref] = event.content
        elif isinstance(event, events.AgentStart) and event.ref in contents:
            blocks = contents[event.ref]
            is_text = all(isinstance(one, Text) for one in blocks)
            yield "".join(one.text for one in blocks if isinstance(one, Text)) if is_text else ""
