"""Journals and what they fold to, for the tests of time travel in the console: `python -m tests.console.past_cases FILE`.

One JSON object a line: `{name, records: [{number, kind, events, body}], events: [...], messages: [[...], ...]}`. `records` and `events` are what the console
is sent of a journal, `messages[n - 1]` is the conversation that `state_at(n)` has. The journals are the golden ones, and one that goes back several times.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from agentrail.core.journal.fold import Sources, first_state, walk
from agentrail.core.journal.jsonl import read_journal
from agentrail.core.journal.record import Draft, Record, RewoundBody, encode_body
from agentrail.core.journal.replay import state_at
from agentrail.core.protocol.effects import Publish, RunTool
from agentrail.core.wire.codec import encode_event
from tests.core.journal.golden_journals import FOLDER, SOURCES
from tests.core.journal.recorded import Life, Told, behind, call, plain_life

GOLDEN: Final = ("plain", "guarded", "taken_over")


def past_cases() -> Iterator[bytes]:
    for name in GOLDEN:
        yield _case(name, read_journal((FOLDER / f"{name}.jsonl").read_bytes()).records, SOURCES)
    session = back_and_forth()
    yield _case("back_and_forth", session.life.records, session.life.sources())


def back_and_forth() -> Told:
    """A session that goes back: into the middle of a call, in front of what it had gone back to, into a stream, to the very end."""
    session = plain_life()
    start = session.life.start
    for number, words in ((6, "Once more."), (3, "From the beginning."), (5, "With a call."), (10, "Later.")):
        _rewind(session, number)
        session.life.start = start
        session.prompt(words)
        session.hear("Well, ", words)
        runs = session.complete(f"Well, {words}", call(path="b", call_id=f"c{len(session.life.records)}"))
        run = next(one for one in runs if isinstance(one, RunTool))
        session.finish(run.effect_id, f"found for {words}")
        session.hear("Done.")
        session.complete("Done.")
    _rewind(session, len(session.life.records))
    return session


def _rewind(session: Told, number: int) -> None:
    life = session.life
    session.at_ms += 1
    body = encode_body(RewoundBody(number=number))
    draft = Draft(at_ms=session.at_ms, kind="rewound", body=body, events=life.state.data.seq)
    session.life = Life.again(behind(life.records, draft), life.sources())


def _case(name: str, records: Sequence[Record], sources: Sources) -> bytes:
    effects = [
        effect
        for one in walk(first_state(records, sources), records, sources=sources)
        for effect in one.effects
    ]
    published = [effect.event for effect in effects if isinstance(effect, Publish)]
    events = [
        msgspec.Raw(encode_event(event)) for event in published if event.meta and not event.meta.ephemeral
    ]
    told = [
        {"number": one.seq, "kind": one.kind, "events": one.events, "body": msgspec.Raw(one.body)}
        for one in records
    ]
    messages = [state_at(records, one.seq, sources).data.history.messages[:] for one in records]
    case = {"name": name, "records": told, "events": events, "messages": messages}
    return msgspec.json.encode(case) + b"\n"


if __name__ == "__main__":
    with Path(sys.argv[1]).open("wb") as out:
        out.writelines(past_cases())
