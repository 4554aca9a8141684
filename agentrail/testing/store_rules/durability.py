"""Rules of blobs, snapshots, erasure, and of the contents of a reopened store."""

from contextlib import closing
from functools import partial

import msgspec
from msgspec.structs import replace

from agentrail.abc.store import Append, Erasure, Filters, Node, Standing, Store
from agentrail.core.journal.erasure import closing_record
from agentrail.core.journal.record import (
    CLOSED,
    ERASED,
    RECORD_VERSION,
    Draft,
    Record,
    decode_erased,
    taken_draft,
)
from agentrail.errors import AlreadyExists, Fenced, OptionError, SessionNotFound, StillNeeded, Trimmed
from agentrail.messages import SessionId
from agentrail.testing.rule_failures import expect_error, expect_same
from agentrail.testing.store_rules.trial import (
    AT_MS,
    Author,
    StoreTrial,
    blob_name,
    session_ids,
    snapshot_behind,
)

_LARGE = bytes(range(256)) * 4_000


def large_values_are_kept(trial: StoreTrial) -> None:
    """Values are returned by their digest, byte for byte, from any session. A missing one is None."""
    small, empty = b"\0\xff", b""
    author = trial.begin("a", blobs={blob_name(_LARGE): _LARGE})
    trial.keep(author.write("b", blobs={blob_name(small): small, blob_name(empty): empty}))
    trial.begin("b", blobs={blob_name(_LARGE): _LARGE})
    for content in (_LARGE, small, empty):
        expect_same(trial.store.blob(blob_name(content)), content, f"a value of {len(content)} bytes")
    expect_same(trial.store.blob(blob_name(b"none")), None, "a missing value")


def the_last_two_snapshots_are_kept(trial: StoreTrial) -> None:
    """For each session the last two snapshots are kept, and returned newest first. A snapshot without a session is ignored."""
    author = trial.begin("s", *"abcdefgh")
    other = trial.begin("other", "a")
    expect_same(trial.store.snapshots("", author.session), (), "snapshots before the first one")
    shots = [snapshot_behind(author.records[place], b"\0state %d" % place) for place in (1, 4, 7)]
    trial.store.put_snapshot(snapshot_behind(other.records[1]))
    for shot in shots:
        trial.store.put_snapshot(shot)
    found = partial(trial.store.snapshots, "", author.session)
    expect_same(found(), (shots[2], shots[1]), "snapshots")
    for at_most, expected in (
        (99, (shots[2], shots[1])),
        (8, (shots[2], shots[1])),
        (7, (shots[1],)),
        (4, ()),
    ):
        expect_same(found(at_most), expected, f"snapshots up to {at_most}")
    again = snapshot_behind(author.records[7], b"another")
    trial.store.put_snapshot(again)
    expect_same(found(), (again, shots[1]), "snapshots after one was put again")
    expect_same(len(trial.store.snapshots("", other.session)), 1, "snapshots of another session")
    trial.store.put_snapshot(replace(again, session=SessionId("unknown")))
    expect_same(trial.store.snapshots("", SessionId("unknown")), (), "snapshots of an unknown session")
    damaged = replace(snapshot_behind(author.records[8]), state=b"damaged")
    trial.store.put_snapshot(damaged)
    expect_same(found(), (damaged, again), "snapshots with a damaged one")


def whole_trees_are_deleted(trial: StoreTrial) -> None:
    """A root is deleted with its tree and all its data. Other sessions, and values shared with them, stay."""
    shared, own = b"shared" * 999, _LARGE
    blobs = {blob_name(shared): shared, blob_name(own): own}
    author = trial.begin("r", "a", blobs=blobs)
    trial.begin("child", "b", root="r", parent="r")
    trial.begin("r", "a", scope="elsewhere")
    other = trial.begin("other", blobs={blob_name(shared): shared})
    trial.store.put_snapshot(snapshot_behind(author.records[1]))
    trial.store.release("n1", "", SessionId("r"))
    freed = trial.store.delete("", SessionId("r"))
    assert freed >= len(own), f"{freed} bytes were freed, expected at least the {len(own)} of a deleted value"
    for name in ("r", "child"):
        expect_same(trial.store.get("", SessionId(name)), None, f"{name!r} after its deletion")
        expect_error(
            SessionNotFound, partial(trial.store.read, "", SessionId(name)), "reading a deleted session"
        )
    expect_same(trial.store.snapshots("", SessionId("r")), (), "snapshots of a deleted session")
    expect_same(
        (trial.store.blob(blob_name(own)), trial.store.blob(blob_name(shared))), (None, shared), "values"
    )
    expect_same(session_ids(trial.store.find()), ["other", "r"], "remaining sessions")
    (fenced,) = trial.refuse(author.write("too late"))
    expect_same(
        (fenced.session_id, fenced.durable_up_to), ("r", 0), "the refusal of an append to a deleted session"
    )
    trial.expect_journal(other)
    trial.store.release("n1", "", SessionId("other"))
    trial.store.delete("", SessionId("other"))
    expect_same(trial.store.blob(blob_name(shared)), None, "a value whose last owner is deleted")
    trial.expect_journal(trial.begin("r", "new"))


def what_is_needed_is_not_deleted(trial: StoreTrial) -> None:
    """A session needed by a fork, or owned by a living node, is `StillNeeded` and stays. Otherwise it can be deleted."""
    author = trial.begin("s", "a")
    trial.begin("child", root="s", parent="s")
    fork = trial.begin("fork", forked_from=(author.session, 2), node="n2")
    trial.store.release("n2", "", fork.session)
    trial.store.beat(Node(id="n1"))
    call = partial(trial.store.delete, "", author.session)
    expect_error(StillNeeded, call, "deleting a session that a fork needs and a live node owns")
    trial.store.release("n1", "", author.session)
    needed = expect_error(StillNeeded, call, "deleting a session that a fork needs")
    expect_same(needed.by, ("fork",), "the sessions that need it")
    trial.expect_journal(author)
    trial.store.delete("", fork.session)
    trial.store.take("", author.session, "n1", "start")
    owned = expect_error(StillNeeded, call, "deleting a session that a live node owns")
    assert any("n1" in one for one in owned.by), f"{owned.by} does not name the node"
    trial.pass_lease()
    trial.store.delete("", author.session)
    expect_same(trial.store.find(), (), "sessions after all are deleted")


def what_was_written_since_is_not_deleted(trial: StoreTrial) -> None:
    """With `written_before_ms`, a tree is deleted only if the last record of each of its sessions is older."""
    trial.begin("r", "a")
    child = trial.begin("child", "b", root="r", parent="r")
    trial.pass_lease()
    trial.keep(child.write("c"))
    trial.store.release("n1", "", SessionId("r"))
    opened_at_ms, written_at_ms = trial.stored("r").written_at_ms, trial.stored("child").written_at_ms
    assert opened_at_ms < written_at_ms, "the clock of the store stands still while its lease passes"
    call = partial(trial.store.delete, "", SessionId("r"))
    for before in (opened_at_ms + 1, written_at_ms):
        since = partial(call, written_before_ms=before)
        expect_error(StillNeeded, since, "deleting a recently written tree")
    trial.expect_journal(child)
    assert call(written_before_ms=written_at_ms + 1) > 0, "deleting an old tree freed no bytes"
    expect_same(trial.store.find(), (), "sessions after the tree is deleted")


def sizes_are_told(trial: StoreTrial) -> None:
    """The size of a session includes its records, snapshots and values, shared ones too. It is 0 if there is no session."""
    shared = _LARGE[:70_000]
    blobs = {blob_name(shared): shared}
    author = trial.begin("r", "ä" * 500, blobs=blobs)
    trial.begin("r", "a", scope="elsewhere")
    trial.begin("other", blobs=blobs)
    records = sum(len(one.body) + len(one.does.encode()) for one in author.records)
    size = partial(trial.store.size, "", author.session)
    expect_same(size(), records + len(shared), "the size of a session with a value")
    trial.store.put_snapshot(snapshot_behind(author.records[0], b"state"))
    expect_same(size(), records + len(shared) + 5, "its size with a snapshot")
    expect_same(trial.store.size("", SessionId("none")), 0, "the size of an unknown session")
    trial.store.release("n1", "", author.session)
    freed = trial.store.delete("", author.session)
    expect_same(freed, records + 5, "bytes freed when another session has the value")


def only_roots_are_deleted(trial: StoreTrial) -> None:
    """Deleting a child is `OptionError`, which names the root. An ended tree is deleted although its node lives."""
    trial.begin("the-root", standing=Standing(has_ended=True))
    trial.begin("child", root="the-root", parent="the-root", standing=Standing(has_ended=True))
    trial.store.beat(Node(id="n1"))
    call = partial(trial.store.delete, "", SessionId("child"))
    error = expect_error(OptionError, call, "deleting a child")
    assert "the-root" in str(error), f"the message does not name the root: {error}"
    trial.store.delete("", SessionId("the-root"))
    expect_same(trial.store.find(), (), "sessions after the tree is deleted")


def journals_are_trimmed(trial: StoreTrial) -> None:
    """Records before a number are dropped, reading them is `Trimmed` with the first one left, and the session continues. None begins in their place."""
    author = trial.begin("s", *"abcdef")
    trial.store.put_snapshot(snapshot_behind(author.records[4]))
    expect_same(trial.store.trim("", author.session, 4), 3, "the number of dropped records")
    for after in (0, 2):
        call = partial(trial.store.read, "", author.session, after)
        expect_same(
            expect_error(Trimmed, call, f"reading after {after}").first, 4, "the first existing record"
        )
    expect_same(trial.store.read("", author.session, 3), tuple(author.records[3:]), "the remaining records")
    expect_same(
        (trial.stored("s").first_seq, trial.stored("s").tail),
        (4, author.tail),
        "the first number, and the end",
    )
    expect_same(
        [trial.store.trim("", author.session, n) for n in (4, 1)],
        [0, 0],
        "the number of further dropped records",
    )
    other = partial(trial.store.create, Author("s").opening("z"))
    expect_error(AlreadyExists, other, "an opening of other records, all before the first one left")
    one = author.write("g")
    trial.keep(one)
    trial.keep(one)
    (stored,) = trial.store.take("", author.session, "n2", "gone").sessions
    (fenced,) = trial.refuse(author.write("h"))
    expect_same(
        (fenced.durable_up_to, stored.first_seq),
        (8, 4),
        "durable records of the old owner, and the first number",
    )


def nothing_is_trimmed_without_a_snapshot(trial: StoreTrial) -> None:
    """Trimming needs a sound snapshot at or after the number. It is refused beyond the end, and for records a fork needs."""
    author = trial.begin("s", *"abcdef")
    call = partial(trial.store.trim, "", author.session)
    expect_error(OptionError, partial(call, 3), "trimming without a snapshot")
    sound = snapshot_behind(author.records[3])
    for broken in (
        replace(sound, state=b"other"),
        replace(sound, hash=bytes(16)),
        replace(sound, check=bytes(16)),
    ):
        trial.store.put_snapshot(broken)
        expect_error(OptionError, partial(call, 3), "trimming before a damaged snapshot")
    trial.store.put_snapshot(sound)
    expect_error(OptionError, partial(call, 6), "trimming beyond the last snapshot")
    expect_error(OptionError, partial(call, 99), "trimming beyond the end")
    trial.expect_journal(author)
    trial.begin("fork", forked_from=(author.session, 2))
    needed = expect_error(StillNeeded, partial(call, 4), "trimming records that a fork needs")
    expect_same(needed.by, ("fork",), "the sessions that need it")
    trial.expect_journal(author)


def what_is_unknown_is_said_to_be(trial: StoreTrial) -> None:
    """An unknown session, also one in another scope, is `SessionNotFound` with its id, None, empty, or `Fenced`."""
    trial.begin("session-1", scope="team")
    unknown = SessionId("session-1")
    store = trial.store
    for what, call in (
        ("read", partial(store.read, "", unknown)),
        ("take", partial(store.take, "", unknown, "n1", "start")),
        ("delete", partial(store.delete, "", unknown)),
        ("trim", partial(store.trim, "", unknown, 1)),
    ):
        error = expect_error(SessionNotFound, call, what)
        assert "session-1" in str(error), f"{what}: the message does not name the session: {error}"
        expect_same(error.nearest, (), "similar ids, of another scope")
    expect_same((store.get("", unknown), store.snapshots("", unknown)), (None, ()), "session and snapshots")
    store.release("n1", "", unknown)
    author = Author("session-1")
    author.opening()
    (answer,) = store.append([author.write("a")])
    assert isinstance(answer, Fenced), f"an append to an unknown session was answered with {answer!r}"
    expect_same(answer.durable_up_to, 0, "durable records of an unknown session")
    near = expect_error(SessionNotFound, partial(store.read, "team", SessionId("session-2")), "read")
    expect_same(near.nearest, ("session-1",), "similar ids")


def what_is_given_stays_what_is_kept(trial: StoreTrial) -> None:
    """Stored values do not change when the caller changes the mappings and lists it passed."""
    author = Author("s")
    blobs = {blob_name(b"x"): b"x"}
    trial.store.create(author.opening(blobs=blobs))
    blobs.clear()
    batch = [author.write("a", blobs=blobs)]
    trial.keep(*batch)
    blobs[blob_name(b"y")] = b"y"
    batch.clear()
    expect_same(
        (trial.store.blob(blob_name(b"x")), trial.store.blob(blob_name(b"y"))), (b"x", None), "values"
    )
    trial.expect_journal(author)


def a_store_is_closed_twice(trial: StoreTrial) -> None:
    """Closing is idempotent."""
    trial.begin("s")
    trial.store.close()
    trial.store.close()


def _nodes(store: Store) -> list[Node]:
    # A store that only its own process writes may know that the nodes of an earlier process have ended.
    return [replace(node, gone_at_ms=0) for node in store.nodes()]


def what_was_kept_is_there_again(trial: StoreTrial) -> None:
    """After reopening, everything is unchanged: journals, standings, owners, nodes, snapshots, values, and the fence."""
    if trial.reopen is None:
        return
    author = trial.begin("s", "é\0", scope="team", blobs={blob_name(_LARGE): _LARGE})
    old = author.write("a", standing=Standing(is_working=True, due_at_ms=5, title="t"), events=3)
    trial.keep(old)
    trial.begin("child", scope="team", root="s", parent="s")
    trial.store.put_snapshot(snapshot_behind(author.records[2]))
    trial.store.beat(Node(id="n2", address="http://b"))
    (taken, _) = trial.store.take("team", author.session, "n2", "gone").sessions
    before = _contents(trial.store, author)
    with closing(trial.reopen(trial.store)) as again:
        for what, found in _contents(again, author).items():
            expect_same(found, before[what], f"the result of `{what}`")
        (answer,) = again.append([old])
        assert isinstance(answer, Fenced), f"an old owner's append was answered with {answer!r}"
        new = Author("s", scope="team", tail=taken.tail).write("b")
        expect_same(again.append([new]), (None,), "the answer to the owner's append")


def _contents(store: Store, author: Author) -> dict[str, object]:
    return {
        "find": store.find(),
        "read": store.read("team", author.session),
        "nodes": _nodes(store),
        "snapshots": store.snapshots("team", author.session),
        "blob": store.blob(blob_name(_LARGE)),
    }


# Erasure.

_WHY = "user forgotten"
_SAID = "what-ada-has-said"
_LARGE_BLOB = _SAID.encode() * 9_000
_ENDED = Standing(has_ended=True)


def what_was_said_is_erased(trial: StoreTrial) -> None:
    """Erasing keeps each record's number, time, events, kind, length and hash. Snapshots, own values and title are removed."""
    shared = b"shared" * 99
    blobs = {blob_name(_LARGE_BLOB): _LARGE_BLOB, blob_name(shared): shared}
    author = trial.begin("r", _SAID, "a", blobs=blobs, owner="ann")
    trial.keep(author.write(_SAID, events=7, standing=Standing(is_working=True, due_at_ms=5, title=_SAID)))
    child = trial.begin("child", _SAID, root="r", parent="r", owner="ann")
    trial.begin("r", "a", scope="elsewhere")
    other = trial.begin("other", "b", blobs={blob_name(shared): shared}, forked_from=(author.session, 2))
    trial.store.put_snapshot(snapshot_behind(author.records[1], _LARGE_BLOB))
    erased = trial.store.erase("", author.session, _WHY)
    expect_same(erased, Erasure(sessions=2, records=6, snapshots=1, blobs=1), "the erased sessions")
    expect_same(trial.store.find(Filters(owner="ann")), (), "sessions of the owner")
    for one in (author, child):
        *found, end = trial.records(one.session)
        expect_same([_without_content(was) for was in one.records], found, "the remaining record")
        expect_same((end.kind, end.epoch), (CLOSED, one.tail.epoch + 1), "the last record")
        assert _SAID.encode() not in msgspec.json.encode(found), "the erased text can still be read"
        stored = trial.stored(one.session)
        expect_same((stored.standing, stored.node, stored.tail.seq), (_ENDED, "", end.seq), "its status")
        expect_same(trial.store.snapshots("", one.session), (), "snapshots")
    values = (trial.store.blob(blob_name(_LARGE_BLOB)), trial.store.blob(blob_name(shared)))
    expect_same(values, (None, shared), "values")
    trial.expect_journal(other)
    expect_same(
        trial.stored("r", "elsewhere").standing, Standing(), "a session with the same id in another scope"
    )
    expect_same(trial.store.orphans(), (), "sessions to continue")
    expect_same(trial.store.due(), (), "due sessions")


def _without_content(was: Record) -> Record:
    body = b'{"number":%d,"hash":"%b","why":"user forgotten","kind":"%b","length":%d,"version":%d}' % (
        was.seq,
        was.hash.hex().encode(),
        was.kind.encode(),
        len(was.body) + len(was.does.encode()),
        RECORD_VERSION,
    )
    expect_same(decode_erased(body).number, was.seq, "the number")
    return replace(was, kind=ERASED, body=body, does="")


def erasing_again_changes_nothing(trial: StoreTrial) -> None:
    """Erasing again changes nothing and keeps the first reason. A journal that only claims to be erased is still erased."""
    author = trial.begin("s", _SAID)
    closing = closing_record(author.records[-1], "retention", AT_MS)
    draft = Draft(at_ms=AT_MS, kind=CLOSED, body=closing.body)
    trial.keep(Append(records=author.seal(draft), standing=_ENDED))
    records = trial.store.erase("", author.session, "retention").records
    expect_same(records, 3, "records of a session that was stopped with this reason")
    first = trial.records("s")
    expect_same(
        trial.store.erase("", author.session, "retention"),
        Erasure(),
        "the sessions erased by the second call",
    )
    expect_same(trial.records("s"), first, "the journal")
    trial.store.erase("", author.session, _WHY)
    whys = [decode_erased(one.body).why for one in trial.records("s") if one.kind == ERASED]
    expect_same(whys[:2], ["retention", "retention"], "the reason of the erasure")
    trial.store.take("", author.session, "n2", "start")
    expect_same(
        trial.store.erase("", author.session, _WHY), Erasure(), "erased records of a session taken since"
    )
    expect_same(trial.stored("s").node, "", "the owner of the erased session")
    told = [trial.store.overwrite_removed() for _ in range(2)]
    assert all(type(one) is bool for one in told), f"the overwriting status was reported as {told}"


def nothing_comes_to_what_was_erased(trial: StoreTrial) -> None:
    """An old owner's records are refused, repeated ones too, and its snapshots ignored. Taking the tree adds no record."""
    author = trial.begin("s", "a")
    late = author.write(_SAID)
    trial.keep(late)
    trial.store.erase("", author.session, _WHY)
    (fenced,) = trial.refuse(late)
    expect_same(fenced.durable_up_to, 3, "durable records of the old owner")
    trial.refuse(author.write(_SAID))
    for record in author.records[:3]:
        trial.store.put_snapshot(snapshot_behind(record, _LARGE_BLOB))
    expect_same(trial.store.snapshots("", author.session), (), "later snapshots")
    (taken,) = trial.store.take("", author.session, "n2", "start").sessions
    expect_same((taken.standing, taken.tail.seq), (_ENDED, 4), "the taken sessions")
    expect_same(len(trial.records("s")), 4, "records")
    behind = taken_draft(node="n9", cause="gone", engine="", at_ms=AT_MS, events=0)
    assert all(one.body != behind.body for one in trial.records("s")), "a new owner was recorded"


def what_is_at_work_is_not_erased(trial: StoreTrial) -> None:
    """Erasing a living node's work is `StillNeeded`, erasing a child `OptionError`. An ended tree can always be erased."""
    author = trial.begin("s", _SAID)
    trial.begin("child", root="s", parent="s", standing=_ENDED)
    trial.store.beat(Node(id="n1"))
    erase = partial(trial.store.erase, "", author.session, _WHY)
    needed = expect_error(StillNeeded, erase, "erasing a session that a live node owns")
    assert any("n1" in one for one in needed.by), f"{needed.by} does not name the node"
    of_child = partial(trial.store.erase, "", SessionId("child"), _WHY)
    assert "'s'" in str(expect_error(OptionError, of_child, "erasing a child"))
    unknown = partial(trial.store.erase, "elsewhere", author.session, _WHY)
    expect_error(SessionNotFound, unknown, "erasing an unknown session")
    trial.expect_journal(author)
    trial.keep(author.write("end", standing=_ENDED))
    expect_same(erase().sessions, 2, "erased sessions after all have ended")


def what_was_erased_is_so_again(trial: StoreTrial) -> None:
    """After reopening, erased content is still erased, and the rest is still there."""
    if trial.reopen is None:
        return
    author = trial.begin("s", _SAID, blobs={blob_name(_LARGE_BLOB): _LARGE_BLOB})
    other = trial.begin("other", "b")
    trial.store.erase("", author.session, _WHY)
    trial.store.overwrite_removed()
    before = trial.records("s")
    with closing(trial.reopen(trial.store)) as again:
        expect_same(again.read("", author.session), before, "the erased journal")
        expect_same(again.read("", other.session), tuple(other.records), "the other journal")
        expect_same(again.blob(blob_name(_LARGE_BLOB)), None, "a value of the erased session")
