"""What is heard of a response while it streams: the visible text for people, and the tags that are taken out of it.

The history keeps what the model said, tags and all: it goes back to the model byte for byte, and a model that does not see
its own tags stops writing them. People get the text without them, wherever they get it: in deltas, in replies, in a
snapshot. Code that shows messages of the history takes the tags out by `visible_text`.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from agentrail.core.policy.tags import Tag, TagReader
from agentrail.core.session.state import SessionConfig, Stream
from agentrail.core.session.step_context import StepContext
from agentrail.events import MessageDelta, StatusUpdate, TitleGenerated
from agentrail.messages import AssistantMessage, Message

_FRESH: Final = TagReader()


def append_text(step: StepContext, pieces: Sequence[str]) -> None:
    """Take more text of a response: pass on what people may read, and keep all of it, which an abort needs.

    It is kept in the pieces in which it came, however many of them waited together: a journal joins what several signals said.
    """
    stream = step.stream
    text = "".join(pieces)
    reader, visible = stream.reader, text
    tags: tuple[Tag, ...] = ()
    # Nearly all chunks: nothing is on its way and nothing begins.
    if step.data.config.inline_tags and (reader != _FRESH or "<" in text or "`" in text):
        reader, visible, tags = reader.fed(text)
    said = stream.text
    for piece in pieces:
        said = said.appended(piece)
    step.data.stream = msgspec.structs.replace(stream, text=said, reader=reader)
    _publish(step, visible, tags)


def flush(step: StepContext) -> None:
    """Give back what was held back in case it became a tag: nothing more comes."""
    if step.stream.reader.held:
        visible, tags = step.stream.reader.closed()
        _publish(step, visible, tags)


def publish_tags(step: StepContext, message: AssistantMessage) -> None:
    """Take the tags out of a response that came in one piece; its text is in the `ResponseComplete` that follows."""
    if step.data.config.inline_tags:
        reader, _, tags = TagReader().fed(message.text)
        _publish(step, "", (*tags, *reader.closed()[1]))


def tags_at_end(stream: Stream, message: AssistantMessage, config: SessionConfig) -> tuple[Tag, ...]:
    """Give the tags that are published when a response is complete: those that were not when it streamed."""
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
    """Give what people see of what a model said in one response, complete or cut."""
    return without_tags(text) if config.inline_tags else text


def without_tags(text: str) -> str:
    """Give what a model said in one response without its inline tags."""
    if "<" not in text:
        return text
    reader, visible, _ = TagReader().fed(text)
    return visible + reader.closed()[0]


def visible_so_far(stream: Stream, config: SessionConfig) -> str:
    """Give what people have seen by now of a response that streams."""
    said = "".join(stream.text)
    return TagReader().fed(said)[1] if config.inline_tags else said


def visible_in(messages: Iterable[Message], config: SessionConfig) -> str:
    """Join what people saw of some messages."""
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
