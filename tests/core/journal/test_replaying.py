"""What a journal tells people: whether it can be lived again, what it was, who caused what, where two of them part."""

import msgspec
import pytest

from agentrail.core.journal.fold import Sources
from agentrail.core.journal.record import Draft, taken_draft
from agentrail.core.journal.replay import explain_journal, replay, state_at, where_they_part
from agentrail.core.protocol import signals as s
from agentrail.core.session.machine import new_session
from agentrail.core.session.state_codec import encode_session
from agentrail.errors import OptionError
from agentrail.messages import SessionId
from agentrail.testing.plugins import PuppetPlugin, PuppetRule
from tests.core.journal.golden_journals import SOURCES, guarded
from tests.core.journal.recorded import Told, behind, call, plain_life, resealed
from tests.core.worlds import TOOLS, config

LIFE = plain_life().life
RECORDS = tuple(LIFE.records)
GUARDED = tuple(guarded().life.records)


@pytest.mark.at(158)
def test_a_replay_of_what_was_lived_shows_no_difference():
    """And comes to the state that was lived; at each snapshot, too."""
    snapshots = {number: encode_session(state) for number, state in LIFE.states.items()}
    replayed = replay(RECORDS, snapshots=snapshots)
    assert replayed.difference is None
    assert (replayed.state, replayed.records) == (LIFE.state, len(RECORDS))


@pytest.mark.at(158)
def test_the_first_difference_is_shown_with_its_number_and_the_plugins_that_were_asked():
    """A guard that lets through what it had blocked: the lines that were, and those that are."""
    lax = PuppetPlugin(
        (PuppetRule(hook="BeforeTool", tool="read", action="block", text="no"),), name="guard", priority=50
    )
    found = replay(GUARDED, Sources(resolve={"guard": lax})).difference
    assert (found.seq, found.kind, found.what) == (5, "response_completed", "does")
    assert {one.plugin for one in found.asked} == {"guard"}
    shown = str(found).split("\n")
    assert shown[0] == "record 5 (response_completed): does differs"
    assert "  asked guard on BeforeTool: Continue" in shown
    assert any(line.startswith("- publish") for line in shown)
    assert any(line.startswith("+ run_tool") for line in shown)


def test_a_snapshot_of_another_state_is_a_difference_and_one_that_is_settled_is_none():
    """With the first place where they differ, and not all of both; a `drifted` record says that it is known."""
    other = msgspec.json.decode(encode_session(LIFE.states[9]))
    other["session_state"]["data"]["seq"] = 99
    other["session_state"]["data"]["history"].append({"role": "user" * 100})
    found = replay(RECORDS, snapshots={9: msgspec.json.encode(other)}).difference
    assert (found.seq, found.what) == (9, "state")
    assert found.diff.startswith("- $.session_state.data.history[")
    assert "(nothing)" in found.diff
    assert len(found.diff) < 400
    other["session_state"]["data"]["history"].pop()
    found = replay(RECORDS, snapshots={9: msgspec.json.encode(other)}).difference
    assert found.diff == "- $.session_state.data.seq: 99\n+ $.session_state.data.seq: 15"

    records = resealed(RECORDS, {9: {"events": 3}})
    assert replay(records).difference.seq == 9
    body = b'{"first":9,"what":"x","events":%d,"engine":"","version":1}' % LIFE.state.data.seq
    assert replay(behind(records, Draft(at_ms=1, kind="drifted", body=body))).difference is None


@pytest.mark.at(57)
@pytest.mark.at(145)
def test_the_state_at_each_number_is_what_it_was():
    """What was open, and what waited for people."""
    for number, state in LIFE.states.items():
        assert state_at(RECORDS, number) == state
    waiting = state_at(GUARDED, 5, SOURCES)
    assert [one.asked.question for one in waiting.data.interactions] == ["Now?"]
    for number in (0, -1, len(RECORDS) + 1):
        said = f"the number is {number}: expected 1 to {len(RECORDS)}"
        with pytest.raises(OptionError, match=said):
            state_at(RECORDS, number)


def test_it_is_told_who_caused_what():
    """Who had begun it, who was asked, what came of it; and no word of the conversation."""
    told = list(explain_journal(RECORDS))
    assert told[:6] == [
        *("1 at 0: opened", "2 at 1: started", "  publish 1"),
        *("3 at 2: prompt", "  publish 2", "  reply"),
    ]
    assert "6 at 6: tool_finished t2, begun by 5" in told
    assert "16 at 16: teardown_finished d5, begun by 15" in told
    assert not any("fox" in line for line in told)
    guards = list(explain_journal(GUARDED, SOURCES))
    assert "  asked guard on BeforeTool: BlockTool" in guards


@pytest.mark.at(162)
def test_two_runs_that_differ_in_times_and_ids_alone_do_not_part():
    """Nor by who owned them; a timer and an operation hold what differs from run to run."""
    other = plain_life().life.records
    taken = taken_draft(node="n2", cause="gone", engine="1", at_ms=90, events=25)
    assert where_they_part(RECORDS, behind(other, taken)) is None
    later = {one.seq: {"body": _later(one.body), "at_ms": one.at_ms + 5} for one in other[1:]}
    moved = resealed(other, later)
    assert where_they_part(RECORDS, moved) is None
    assert where_they_part(_session_called("s"), _session_called("t")) is None

    one = _going_on(lambda session: session.complete(call(path="a"), call("ask", "c2", question="?")))
    does = one[-1].does
    assert "op=" in does
    assert "set_timer" in does
    does_else = does.replace("op=", "op=00").replace("1005", "9999").replace("1006", "8")
    other = resealed(one, {len(one): {"does": does_else}})
    assert other[-1].does != does
    assert where_they_part(one, other) is None


@pytest.mark.at(162)
def test_the_first_place_where_two_runs_part_is_shown():
    """In what they began with, in what came, in what was decided, and where one ends first."""
    less = new_session(config(max_turns=9), TOOLS)
    parted = where_they_part(RECORDS, Told(less).life.records)
    assert (parted.one, parted.other, parted.what) == (1, 1, "body")
    assert parted.diff.endswith("data.config.max_turns: 9")

    other = _going_on(lambda session: session.complete("No."))
    mine = _going_on(lambda session: session.complete("Yes."))
    parted = where_they_part(mine, other)
    assert parted.what == "body"
    assert parted.diff.split("\n")[1] == '+ $.message.content[0].text: "No."'
    assert str(parted).startswith(f"they diverge at record {len(mine)} and {len(other)}: body\n")

    stopped = _going_on(lambda session: session.say(s.AbortCycle, reason="no"))
    parted = where_they_part(mine, stopped)
    assert (parted.what, parted.diff) == ("kind", "- response_completed\n+ abort")

    decided = resealed(mine, {len(mine): {"does": mine[-1].does + "\nend"}})
    parted = where_they_part(mine, decided)
    assert (parted.what, parted.diff) == ("does", "+ end")

    parted = where_they_part(mine, mine[:-1])
    assert (parted.one, parted.other, parted.what) == (len(mine), None, "end")
    assert parted.diff == "- response_completed\n+ (ended)"
    assert where_they_part(mine[:-1], mine).other == len(mine)


def _later(body: bytes) -> bytes:
    fields = msgspec.json.decode(body)
    return msgspec.json.encode(fields | {"started_at_ms": 9} if "started_at_ms" in fields else fields)


def _session_called(name: str):
    chosen = msgspec.structs.replace(config(), session_id=SessionId(name), path=(SessionId(name),))
    session = Told(new_session(chosen, TOOLS))
    session.prompt()
    session.complete(call(path="a"))
    return session.life.records


def _going_on(end):
    session = Told(new_session(config(), TOOLS))
    session.prompt()
    end(session)
    return session.life.records
