"""What was said stays valid, is never lost, and goes to the model whole."""

import msgspec

from agentrail.core.protocol.effects import StartStream
from agentrail.core.protocol.hooks import BeforeRequest
from agentrail.core.protocol.signals import TeardownFinished, ToolFinished
from agentrail.core.session.owners import OfStoppedCall, OfTeardown
from agentrail.events import CompactEnd, ToolTookEffect
from agentrail.messages import AssistantMessage, CallId, Text, ToolMessage, ToolResult, UserMessage
from agentrail.testing.check_dialects import check_dialects
from agentrail.testing.promises.seen import Seen


def history_is_valid(seen: Seen) -> None:
    """Every call has exactly one result, right behind it and in order; open ones stand at the end, while tools run."""
    data = seen.after.data
    expected: tuple[CallId, ...] = ()
    ids: list[CallId] = []
    for message in data.history.messages:
        if isinstance(message, ToolMessage):
            assert expected
            assert tuple(result.call_id for result in message.results) == expected
            assert all(result.text for result in message.results)
            expected = ()
        else:
            assert not expected
            assert message.content
        if isinstance(message, AssistantMessage):
            expected = tuple(call.call_id for call in message.calls)
            assert not (expected and message.cut)
            ids += expected
    assert expected == tuple(call.call_id for call in data.history.open)
    assert len(ids) == len(set(ids))
    assert all(call_id in data.call_ids for call_id in ids)


def history_only_grows(seen: Seen) -> None:
    """What was said stays said. Only a summary replaces the beginning, and only a late value a result of the last message."""
    was = seen.before.data.history
    now = seen.after.data.history.messages
    removed = sum(event.removed for event in seen.events if isinstance(event, CompactEnd))
    if removed:
        kept = was.messages[removed:]
        assert all(new is old for new, old in zip(now[1 : 1 + len(kept)], kept, strict=True))
        return
    assert len(now) >= len(was)
    late = {event.call_id: event.result for event in seen.events if isinstance(event, ToolTookEffect)}
    for new, old in zip(now, was.messages, strict=False):
        if late and old is was.messages[-1] and isinstance(old, ToolMessage) and isinstance(new, ToolMessage):
            pairs = zip(new.results, old.results, strict=True)
            assert all(
                one is other or (other.is_error and one == late.get(one.call_id)) for one, other in pairs
            )
        else:
            assert new is old


def late_values_are_read(seen: Seen) -> None:
    """What a stopped call did all the same is published, and is in what the model reads next."""
    told = {event.call_id for event in seen.events if isinstance(event, ToolTookEffect)}
    match seen.signal:
        case TeardownFinished(values=values, effect_id=effect_id):
            is_open = isinstance(seen.before.data.open.get(effect_id), OfTeardown)
            values = values if is_open else ()
        case ToolFinished(value=value, effect_id=effect_id):
            owner = seen.before.data.open.get(effect_id)
            values = (
                (msgspec.structs.replace(value, call_id=owner.call_id),)
                if value is not None and isinstance(owner, OfStoppedCall)
                else ()
            )
        case _:
            values = ()
    assert told == {value.call_id for value in values}
    if values:
        data = seen.after.data
        last = data.history.messages[max(len(seen.before.data.history) - 1, 0) :]
        results = [one for message in last if isinstance(message, ToolMessage) for one in message.results]
        results += [call.result for call in data.batch if call.result is not None]
        said = [one for message in last if isinstance(message, UserMessage) for one in message.content]
        words = [one.text for one in (*results, *said) if isinstance(one, Text | ToolResult)] + list(
            data.notes
        )
        assert all(any(value.text in text for text in words) for value in values)


def requests_are_of_a_closed_history(seen: Seen) -> None:
    """A request goes out with the whole history, when all its calls are answered and nothing is torn down.

    Or with what plugins handed on in its place: only those can that listen to `BeforeRequest`.
    """
    data = seen.after.data
    for start in seen.of(StartStream):
        if start.is_quiet:  # of the beginning alone, for a summary
            continue
        messages = start.request.messages
        whole = data.history.messages[:]
        if data.cycle is not None and data.cycle.handed is not None:
            assert data.stack.listeners(BeforeRequest)
            whole = data.cycle.handed
        assert not data.history.open
        assert tuple(messages[: len(whole)]) == whole
        assert len(messages) - len(whole) == (start.request.tool_choice == "none")
        assert data.teardown is None


def requests_speak_every_dialect(seen: Seen) -> None:
    """A request could go to any vendor: whichever model comes next, the conversation so far is one that it takes."""
    for start in seen.of(StartStream):
        # What a caller sets for one cycle may be what a format cannot say: that ends the cycle in words of its own.
        check_dialects(msgspec.structs.replace(start.request, settings=None))
