"""The streaming text of a response: the visible text for users, and the tags that are removed from it."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from agentrail.core.policy.tags import Tag, TagReader
from agentrail.core.session.state import SessionConfig, Stream
from agentrail.core.session.step_context import StepContext
from agentrail.events import MessageDelta, StatusUpdate, TitleGenerated
from agentrail.messages import AssistantMessage, Message

_FRESH: Final = TagReader()


def append_text(step: StepContext, pieces: Sequence[str]) -> None:
    """Add text to a response: publish the visible part, and keep all of it for an abort.

    It is kept in the pieces in which it arrived, however many waited together: a journal joins the text of several
    signals.
    """
    stream = step.stream
    text = pieces[0] if len(pieces) == 1 else "".join(pieces)
    reader, visible = stream.reader, text
    tags: tuple[Tag, ...] = ()
    # The case of nearly all chunks: no tag is pending and none begins.
    if step.data.config.inline_tags and (reader != _FRESH or "<" in text or "`" in text):
        reader, visible, tags = reader.fed(text)
    said = stream.text
    for piece in pieces:
        said = said.appended(piece)
    step.data.stream = replace(stream, text=said, reader=reader)
    _publish(step, visible, tags)


def flush(step: StepContext) -> None:
    """Publish the text that was held back as a possible tag: no more text arrives."""
    if step.stream.reader.held:
        visible, tags = step.stream.reader.closed()
        _publish(step, visible, tags)


def publish_tags(step: StepContext, message: AssistantMessage) -> None:
    """Publish the tags of a response that arrived in one piece. Its text is in the next `ResponseComplete`."""
    if step.data.config.inline_tags:
        reader, _, tags = TagReader().fed(message.text)
        _publish(step, "", (*tags, *reader.closed()[1]))


def tags_at_end(stream: Stream, message: AssistantMessage, config: SessionConfig) -> tuple[Tag, ...]:
    """Return the tags to publish when a response is complete: those not published while it streamed."""
    if not config.inline_tags:
        return ()
    if stream.text:
        tags = stream.reader.closed()[1] if stream.reader.held else ()
    elif "<" not in message.text:
        return ()
    else:
        reader, _, complete = TagReader().fed(message.text)
        tags = (*complete, *reader.closed()[1])
    return tuple([tag for tag in tags if tag.text]) if tags else ()


def visible_text(text: str, config: SessionConfig) -> str:
    return without_tags(text) if config.inline_tags else text


def without_tags(text: str) -> str:
    if "<" not in text:
        return text
    reader, visible, _ = TagReader().fed(text)
    return visible + reader.closed()[0]


def visible_so_far(stream: Stream, config: SessionConfig) -> str:
    said = "".join(stream.text)
    return TagReader().fed(said)[1] if config.inline_tags else said


def visible_in(messages: Iterable[Message], config: SessionConfig) -> str:
    said = [message for message in messages if isinstance(message, AssistantMessage)]
    return "".join([visible_text(message.text, config) for message in said])


def _publish(step: StepContext, visible: str, tags: tuple[Tag, ...]) -> None:
    if visible:
        step.publish(MessageDelta(delta=visible, attempt=step.cycle.attempts.number))
    for tag in tags:
        if not tag.text:
            continue
        if tag.name == "status":
            step.publish(StatusUpdate(text=tag.text))
        else:
            step.data.title = tag.text
            step.publish(TitleGenerated(title=tag.text))
