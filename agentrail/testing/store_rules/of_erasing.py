"""Rules of what is removed from journals that stay: what a person has said goes, that there was something is told for ever."""

from functools import partial

import msgspec

from agentrail.abc.store import Append, Erasure, Filters, Node, Standing
from agentrail.core.journal.erasing import closing_record
from agentrail.core.journal.record import (
    CLOSED,
    ERASED,
    RECORD_VERSION,
    Draft,
    Record,
    decode_erased,
    taken_draft,
)
from agentrail.errors import OptionError, SessionNotFound, StillNeeded
from agentrail.messages import SessionId
from agentrail.testing.store_rules.trial import (
    AT_MS,
    StoreTrial,
    blob_name,
    expect_error,
    expect_same,
    snapshot_behind,
)

_WHY = "user forgotten"
_SAID = "what-ada-has-said"
_LARGE = _SAID.encode() * 9_000
_ENDED = Standing(has_ended=True)


def what_was_said_is_erased(trial: StoreTrial) -> None:
    """Of each record of a tree number, time, events, kind, length and hash are left; snapshots, own values and the title are gone."""
    shared = b"shared" * 99
    blobs = {blob_name(_LARGE): _LARGE, blob_name(shared): shared}
    author = trial.begin("r", _SAID, "a", blobs=blobs, owner="ann")
    trial.keep(author.write(_SAID, events=7, standing=Standing(is_working=True, due_at_ms=5, title=_SAID)))
    child = trial.begin("child", _SAID, root="r", parent="r", owner="ann")
    trial.begin("r", "a", scope="elsewhere")
    other = trial.begin("other", "b", blobs={blob_name(shared): shared}, forked_from=(author.session, 2))
    trial.store.put_snapshot(snapshot_behind(author.records[1], _LARGE))
    erased = trial.store.erase("", author.session, _WHY)
    expect_same(erased, Erasure(sessions=2, records=6, snapshots=1, blobs=1), "what was erased")
    expect_same(trial.store.find(Filters(owner="ann")), (), "sessions of the owner")
    for one in (author, child):
        *found, end = trial.records(one.session)
        expect_same([_without_content(was) for was in one.records], found, "what stands there")
        expect_same((end.kind, end.epoch), (CLOSED, one.tail.epoch + 1), "the last record")
        assert _SAID.encode() not in msgspec.json.encode(found), "what was said can still be read"
        stored = trial.stored(one.session)
        expect_same((stored.standing, stored.node, stored.tail.seq), (_ENDED, "", end.seq), "how it stands")
        expect_same(trial.store.snapshots("", one.session), (), "snapshots")
    values = (trial.store.blob(blob_name(_LARGE)), trial.store.blob(blob_name(shared)))
    expect_same(values, (None, shared), "values")
    trial.expect_journal(other)
    expect_same(trial.stored("r", "elsewhere").standing, Standing(), "one of this id in another scope")
    expect_same(trial.store.orphans(), (), "what is to be gone on with")
    expect_same(trial.store.due(), (), "what is due")


def _without_content(was: Record) -> Record:
    """Say what has to stand in place of a record, by what its body says."""
    body = b'{"number":%d,"hash":"%b","why":"user forgotten","kind":"%b","length":%d,"version":%d}' % (
        was.seq,
        was.hash.hex().encode(),
        was.kind.encode(),
        len(was.body) + len(was.does.encode()),
        RECORD_VERSION,
    )
    expect_same(decode_erased(body).number, was.seq, "the number")
    return msgspec.structs.replace(was, kind=ERASED, body=body, does="")


def erasing_again_changes_nothing(trial: StoreTrial) -> None:
    """A journal that was erased is as it was; what was erased for another reason keeps it. What a journal says of itself is no proof."""
    author = trial.begin("s", _SAID)
    closing = closing_record(author.records[-1], "retention", AT_MS)
    draft = Draft(at_ms=AT_MS, kind=CLOSED, body=closing.body)
    trial.keep(Append(records=author.seal(draft), standing=_ENDED))
    records = trial.store.erase("", author.session, "retention").records
    expect_same(records, 3, "records of a session that was stopped with these very words")
    first = trial.records("s")
    expect_same(trial.store.erase("", author.session, "retention"), Erasure(), "what the second call erased")
    expect_same(trial.records("s"), first, "the journal")
    trial.store.erase("", author.session, _WHY)
    whys = [decode_erased(one.body).why for one in trial.records("s") if one.kind == ERASED]
    expect_same(whys[:2], ["retention", "retention"], "why they were erased")
    trial.store.take("", author.session, "n2", "start")
    expect_same(
        trial.store.erase("", author.session, _WHY), Erasure(), "what is erased of one that was taken since"
    )
    expect_same(trial.stored("s").node, "", "who owns what was erased")
    told = [trial.store.overwrite_removed() for _ in range(2)]
    assert all(type(one) is bool for one in told), f"whether it is overwritten was told as {told}"


def nothing_comes_to_what_was_erased(trial: StoreTrial) -> None:
    """An old owner's records are refused, the same ones again too, and its snapshots ignored; taking it adds nothing."""
    author = trial.begin("s", "a")
    late = author.write(_SAID)
    trial.keep(late)
    trial.store.erase("", author.session, _WHY)
    (fenced,) = trial.refuse(late)
    expect_same(fenced.durable_up_to, 3, "what of the old owner is durable")
    trial.refuse(author.write(_SAID))
    for record in author.records[:3]:
        trial.store.put_snapshot(snapshot_behind(record, _LARGE))
    expect_same(trial.store.snapshots("", author.session), (), "snapshots that came later")
    (taken,) = trial.store.take("", author.session, "n2", "start").sessions
    expect_same((taken.standing, taken.tail.seq), (_ENDED, 4), "what is taken")
    expect_same(len(trial.records("s")), 4, "records")
    behind = taken_draft(node="n9", cause="gone", engine="", at_ms=AT_MS, events=0)
    assert all(one.body != behind.body for one in trial.records("s")), "a new owner was written down"


def what_is_at_work_is_not_erased(trial: StoreTrial) -> None:
    """What a living node works on is `StillNeeded`; a child is `OptionError`; what has ended is erased though its node lives."""
    author = trial.begin("s", _SAID)
    trial.begin("child", root="s", parent="s", standing=_ENDED)
    trial.store.beat(Node(id="n1"))
    erase = partial(trial.store.erase, "", author.session, _WHY)
    needed = expect_error(StillNeeded, erase, "erasing what a living node works on")
    assert any("n1" in one for one in needed.by), f"{needed.by} does not name the node"
    of_child = partial(trial.store.erase, "", SessionId("child"), _WHY)
    assert "'s'" in str(expect_error(OptionError, of_child, "erasing a child"))
    unknown = partial(trial.store.erase, "elsewhere", author.session, _WHY)
    expect_error(SessionNotFound, unknown, "erasing what is not there")
    trial.expect_journal(author)
    trial.keep(author.write("end", standing=_ENDED))
    expect_same(erase().sessions, 2, "sessions that were erased, when all have ended")


def what_was_erased_is_so_again(trial: StoreTrial) -> None:
    """Closed and opened again, what was erased is erased, and what was not is there."""
    if trial.reopen is None:
        return
    author = trial.begin("s", _SAID, blobs={blob_name(_LARGE): _LARGE})
    other = trial.begin("other", "b")
    trial.store.erase("", author.session, _WHY)
    trial.store.overwrite_removed()
    before = trial.records("s")
    again = trial.reopen(trial.store)
    try:
        expect_same(again.read("", author.session), before, "the journal that was erased")
        expect_same(again.read("", other.session), tuple(other.records), "the other journal")
        expect_same(again.blob(blob_name(_LARGE)), None, "a value of the one that was erased")
    finally:
        again.close()
