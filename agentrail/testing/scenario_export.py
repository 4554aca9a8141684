"""A journal as a scenario: a recorded session becomes a text test that replays to the same events. Works without a store.

text = scenario_of_journal(records, sources)
Path("tests/scenarios/what_happened.txt").write_text(text)
run_scenario("tests/scenarios/what_happened.txt")
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice, takewhile, zip_longest
from typing import Any, Final

from msgspec.structs import replace

from agentrail.core.journal.fold import NO_SOURCES, Sources, Walked
from agentrail.core.journal.record import CLOSED, OPENED, TAKEN, Record
from agentrail.core.journal.replay import state_at, steps
from agentrail.core.protocol.effects import Effect, Publish
from agentrail.core.protocol.signal_base import SignalId
from agentrail.core.protocol.signals import GoOn, Prompt, Steer, ToolFinished
from agentrail.core.session.machine import step
from agentrail.core.session.state import SessionState
from agentrail.core.stack.loaded_stack import Member, PluginEntry
from agentrail.core.wire.codec import encode_event
from agentrail.errors import InternalError, OptionError
from agentrail.testing.plugins import PuppetPlugin
from agentrail.testing.scenario import play, print_step, read_scenario
from agentrail.testing.scenario_head import print_plugin, print_session, print_tool
from agentrail.testing.scenario_output import Group
from agentrail.testing.scenario_signals import print_signal

SHOWN: Final = (
    "session",
    "cycle",
    "response",
    "tools",
    "people",
    "context",
    "children",
    "plugins",
    "history",
)
"""The groups of events that an exported scenario shows: all except deltas."""

_SHOWN: Final = frozenset(map(Group, SHOWN))
_SKIPPED: Final = frozenset({OPENED, TAKEN, CLOSED})


def scenario_of_journal(records: Sequence[Record], sources: Sources = NO_SOURCES, *, remark: str = "") -> str:
    start = state_at(records, 1, sources)
    data = start.data
    if data.seq or data.minted or len(data.history):
        raise _no_words(records[0], "it continues the journal of another session; export that one")
    if len(data.config.path) > 1:
        raise _no_words(records[0], "it works for another session and numbers its events after that one")
    head = [f"# {remark or f'session {records[0].session}, {len(records)} records'}"]
    head += _head_of(records[0], start)
    told = list(_told(start, (one.walked for one in steps(records, sources))))
    parts = [_lines_of(one) for one in told]
    text = "\n".join([*head, *(line for part in parts for line in part)]) + "\n"
    came = _played(text, records[0])
    if came != text:
        raise _parting(text, came, len(head), told, parts)
    return text


def sizes_of_journal(records: Sequence[Record], *, remark: str = "") -> str:
    """Return a summary of a journal without any content: time, kind and length of each record, as remarks."""
    lines = [f"# {remark or f'session {records[0].session}, {len(records)} records, without their content'}"]
    lines += [
        f"# @{one.at_ms} {one.kind} {len(one.body)} bytes, events up to {one.events}" for one in records
    ]
    return "\n".join(lines) + "\n"


def _told(start: SessionState, lived: Iterable[Walked]) -> Iterator[Walked]:
    """Repeat the recorded steps with the caller ids of a scenario: the refs of the prompts. No event may change."""
    state = start
    for one in lived:
        if one.signal is None:
            if one.record.kind not in _SKIPPED:
                raise _no_words(one.record, "it is not a signal")
            continue
        signal = one.signal
        if isinstance(signal, Prompt | GoOn | Steer):
            signal = replace(signal, signal_id=SignalId(signal.ref))
        before = state
        effects: tuple[Effect, ...] = ()
        try:
            state, effects = step(before, signal)
        except InternalError as error:
            yield replace(one, before=before, signal=signal, after=state, crash=str(error))
            continue
        if list(_events_in(effects)) != list(_events_in(one.effects)):
            raise _no_words(one.record, "its events depend on the name of its caller")
        yield replace(one, before=before, signal=signal, after=state, effects=effects)


def _events_in(effects: Iterable[Effect]) -> Iterator[bytes]:
    return (encode_event(effect.event) for effect in effects if isinstance(effect, Publish))


def _head_of(first: Record, start: SessionState) -> Iterator[str]:
    data = start.data
    try:
        yield print_session(data.config, SHOWN)
        yield from map(print_tool, data.tools)
        plugins = [print_plugin(_entry_of(member)) for member in data.stack.members]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise _no_words(first, f"its head cannot be written ({error!r:.200})") from None
    for line in plugins:
        if line.startswith("#"):
            raise _no_words(first, line.removeprefix("# "))
        yield line


def _entry_of(member: Member) -> PluginEntry:
    plugin: Any = member.plugin
    if isinstance(plugin, PuppetPlugin) or hasattr(plugin, "_function"):
        return (plugin, dict(member.options))
    return (type(plugin), dict(member.options))


def _lines_of(one: Walked) -> list[str]:
    """Return the lines of a record: its signal and the recorded output."""
    signal = one.signal
    assert signal is not None
    try:
        words = print_signal(signal)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise _no_words(one.record, f"its signal cannot be written ({error!r:.200})") from None
    # Even the default start time is written: without it, the reader assumes the time of the call.
    if isinstance(signal, ToolFinished) and " started=" not in words:
        words += f" started={signal.started_at_ms}"
    return [f"@{signal.at_ms:<5} {words}", *print_step(one, _SHOWN)]


def _played(text: str, first: Record) -> str:
    try:
        return play(read_scenario(text))
    except (ValueError, LookupError, TypeError) as error:
        raise _no_words(first, f"the text cannot be read back ({error!s:.300})") from None


def _parting(
    text: str, came: str, at: int, told: Sequence[Walked], parts: Sequence[Sequence[str]]
) -> OptionError:
    pairs = zip_longest(text.splitlines(), came.splitlines(), fillvalue="nothing")
    place, (lived, played) = next((n, pair) for n, pair in enumerate(pairs) if pair[0] != pair[1])
    ends = accumulate(map(len, parts), initial=at)
    one = next((one for one, end in zip(told, islice(ends, 1, None), strict=True) if place < end), told[-1])
    lived, played = _behind_what_is_equal(lived.strip(), played.strip())
    return _no_words(one.record, f"replayed, it results in {played!r:.200} instead of {lived!r:.200}")


def _behind_what_is_equal(lived: str, played: str) -> tuple[str, str]:
    """Remove the effects that two lines share, up to the first difference."""
    both = lived.split("; "), played.split("; ")
    equal = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*both, strict=False)))
    return "; ".join(both[0][equal:]), "; ".join(both[1][equal:])


def _no_words(record: Record, why: str) -> OptionError:
    message = (
        f"session {record.session!r} cannot be written as a scenario: record {record.seq} ({record.kind}): {why}; "
        "--format jsonl has all of it"
    )
    return OptionError([message])
