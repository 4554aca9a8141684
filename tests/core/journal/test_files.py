"""What a journal says of files: written notes, read back, and what they come to behind a record."""

from agentrail.core.journal import file_changes as fc
from agentrail.core.journal.fold import no_blobs
from agentrail.core.journal.record import Draft, Tail, sealed, taken_draft
from agentrail.core.journal.recorded_steps import encode_signal_body
from agentrail.core.protocol.signals import ChildPublished, ToolEmitted, ToolFinished
from agentrail.core.wire.codec import SIGNAL_KINDS
from agentrail.events import Envelope, PluginEvent, StatusUpdate, SubagentEvent
from agentrail.messages import CallId, SessionId

A, B, C = (fc.FileState(sha256=letter * 64, size_bytes=1, mode=0o644) for letter in "abc")


def emitted(effect, *writes, **more):
    """A signal that says that these are written."""
    note = fc.FileNote(call_id=CallId(f"c-{effect}"), tool="put", changes=writes, **more)
    return ToolEmitted(at_ms=1, effect_id=effect, name=fc.FILES_EVENT, payload=fc.payload_of(note))


def finished(effect):
    """A signal that says that a call is over."""
    return ToolFinished(at_ms=1, effect_id=effect, text="x", is_error=False, details=None, started_at_ms=1)


TAKEN = taken_draft(node="n", cause="start", engine="1", at_ms=1, events=0)


def behind(*signals):
    """Say what these come to, as the records of a journal."""
    drafts = [
        one
        if isinstance(one, Draft)
        else Draft(at_ms=1, kind=SIGNAL_KINDS[type(one)], body=encode_signal_body(one))
        for one in signals
    ]
    records, _ = sealed(drafts, Tail(), scope="", session=SessionId("s"))
    return fc.files_behind(records, no_blobs)


def wrote(path, before=None, after=None, **more):
    return fc.FileWrite(path=path, before=before, after=after, **more)


def wanted(path, then, *left, **more):
    return fc.WantedFile(path=path, then=then, left=left, **more)


def test_a_note_is_read_back_from_its_payload():
    """With what a program adds to it; of a newer version, of another name or of another form nothing is read."""
    note = fc.FileNote(call_id=CallId("c"), tool="put", changes=(wrote("a", A, B, directories=2),))
    payload = fc.payload_of(note)
    assert fc.note_of(fc.FILES_EVENT, payload) == note
    assert fc.note_of(fc.FILES_EVENT, {**payload, "user_data": {"x": 1}}) == note
    assert fc.note_of("other", payload) is None
    assert fc.note_of(fc.FILES_EVENT, {**payload, "version": 2}) is None
    assert fc.note_of(fc.FILES_EVENT, {**payload, "changes": [{"path": 7}]}) is None
    assert fc.note_of(fc.FILES_EVENT, None) is None


def test_where_the_process_ended_in_a_call_either_may_be_there():
    """The write was announced, and nothing says whether it took place; of a call that was over it is known."""
    first, second = emitted("t1", wrote("a", A, B)), emitted("t2", wrote("b", A, B))
    found = behind(first, second, finished("t2"), TAKEN)
    assert found.wanted == (wanted("a", A, B, A), wanted("b", A, B))
    later = behind(first, TAKEN, emitted("t3", wrote("a", B, C)), finished("t3"), TAKEN)
    assert later.wanted == (wanted("a", A, C),)
    by_another = behind(first, emitted("t3", wrote("a", B, C)), finished("t3"), TAKEN)
    assert by_another.wanted == (wanted("a", A, C),)


def test_what_was_written_is_told_by_calls_and_by_sessions_below():
    """However deep; other events say nothing of files, and calls that run commands are named once, with the record that says so."""
    meta = Envelope(SessionId("k"), 1, 1, (SessionId("s"), SessionId("k")))
    note = emitted("t1", wrote("a", A, B)).payload
    event = PluginEvent(meta=meta, name=fc.FILES_EVENT, payload=note)
    deeper = SubagentEvent(meta=meta, call_id=CallId("c"), child_id=SessionId("kk"), depth=1, event=event)
    other = StatusUpdate(meta=meta, text=fc.FILES_EVENT)
    named = ToolEmitted(
        at_ms=1, effect_id="t2", name="other", payload={"said": fc.FILES_EVENT, "changes": []}
    )
    for inner in (event, deeper):
        published = ChildPublished(at_ms=1, effect_id="t4", event=inner)
        plain = ToolEmitted(at_ms=1, effect_id="t3", name="other", payload=None)
        aside = ChildPublished(at_ms=1, effect_id="t4", event=other)
        assert behind(aside, named, plain, published, finished("t4")).wanted == (wanted("a", A, B),)

    found = behind(
        emitted("t1", is_untold=True), emitted("t1", is_untold=True), emitted("t2", is_untold=True)
    )
    assert found.wanted == ()
    assert found.untold == tuple(
        fc.UntoldCall(number=number, call_id=CallId(f"c-t{n}"), tool="put") for number, n in ((1, 1), (3, 2))
    )
