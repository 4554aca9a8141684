"""Spans of drawn lives: of all that a session can publish each span has its end and its place, wherever a reader begins anew."""

from functools import cache
from random import Random

import msgspec
import pytest

from agentrail.core.journal.spans import SessionSpans
from agentrail.core.protocol.effects import Publish
from tests.core.drawn_lives import lives, steps

SIGNALS = 90


@cache
def events_of(seed):
    """The committed events of a life; the reader gets no others."""
    published = [
        effect.event
        for _, _, effects in steps(seed, SIGNALS, is_new=True)
        for effect in effects
        if isinstance(effect, Publish)
    ]
    return [event for event in published if not event.meta.ephemeral]


def fold_of(event, **given):
    return SessionSpans(session=event.meta.session_id, **given)


def as_values(spans):
    """Spans by id, each as its values: spans themselves equal nothing."""
    return {one.span_id: msgspec.structs.asdict(one) for one in spans}


@pytest.mark.parametrize("seed", lives(40))
def test_each_span_ends_once_within_its_trace(seed):
    """Closing the fold ends every span that a generated life left open. Only a cycle may have a parent elsewhere, the caller's."""
    events = events_of(seed)
    fold = fold_of(events[0], content=bool(seed % 2))
    spans = [span for event in events for span in fold.feed(event)]
    last = fold.close()
    assert fold.first_needed is None
    spans += last
    found = {one.span_id: one for one in spans}
    assert len(found) == len(spans)
    for span in spans:
        assert span.began_at_ms <= span.ended_at_ms
        above = found.get(span.parent_id)
        assert above is None or above.trace_id == span.trace_id
        if above is None and span.parent_id:
            assert span.name.startswith("invoke_agent")  # the parent is the caller's


@pytest.mark.parametrize("seed", lives(40))
def test_wherever_a_reader_begins_anew_it_makes_the_same_spans(seed):
    """From the first event that it needs: what left before and what leaves afterwards are together what one fold makes."""
    events = events_of(seed)
    whole = fold_of(events[0])
    expected = as_values([span for event in events for span in whole.feed(event)])
    cut = Random(seed).randrange(len(events))  # noqa: S311 - a place
    before = fold_of(events[0])
    spans = [span for event in events[:cut] for span in before.feed(event)]
    first = before.first_needed
    begin = cut if first is None else next(n for n, event in enumerate(events) if event.meta.seq == first)
    after = fold_of(events[0])
    found = {**as_values(spans), **as_values(span for event in events[begin:] for span in after.feed(event))}
    assert found == expected
