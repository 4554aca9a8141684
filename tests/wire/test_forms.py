"""What a session looks like on the wire: written and read again it is the same, and nothing that is no JSON gets out."""

import json

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from agentrail import messages as m
from agentrail.abc import Secret
from agentrail.core.policy.budget import BudgetLeft
from agentrail.core.session import views
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt
from agentrail.errors import CodecError
from agentrail.events import AbortReceipt, Approval, PendingClientCall, Question, Todo
from agentrail.events.values import ChildReceipt, LeftBehind
from agentrail.testing.strategies import messages
from agentrail.wire import form_fields as forms
from agentrail.wire.plain import encode_plain

PATH = (m.SessionId("s"),)
BARE = views.Status(
    session_id=m.SessionId("s-1"), phase="idle", turn=0, model="demo:", queued=(), steers=(), running_tools=(), approvals=(),
    questions=(), suspended=False, tearing_down=False, messages=0, usage=m.TokenUsage(), budget_left=None, last_seq=1, uptime_ms=5,
    restarts=0, dropped_signals=0, quarantined_signals=0,
)  # fmt: skip
FULL = attrs.evolve(
    BARE,
    phase="executing_tools",
    queued=(m.PromptRef("p-1"),),
    steers=(m.SteerRef("t-1"),),
    running_tools=(views.RunningTool(call_id=m.CallId("c"), name="book", started_at_ms=3, survivor=True),),
    approvals=(
        Approval(id=m.ApprovalId("a"), call_id=m.CallId("c"), tool="t", arguments={"x": [1]}, arguments_hash="h", requested_at_ms=1, path=PATH),
    ),
    questions=(Question(ref=m.QuestionRef("q"), call_id=m.CallId("c"), question="?", schema={"type": "object"}, requested_at_ms=1, path=PATH),),
    client_calls=(
        PendingClientCall(ref=m.ClientCallRef("r"), call_id=m.CallId("c"), name="n", arguments={}, requested_at_ms=1, path=PATH),
    ),
    messages=70,
    usage=m.TokenUsage(input=5, cost_usd=None, estimated=True),
    budget_left=BudgetLeft(cost_usd=0.5, tokens=None),
    children=(views.ChildSession(session_id=m.SessionId("s-2"), call_id=m.CallId("c"), status=BARE, agent="scout"),),
    plugins=(views.PluginStatus(name="p", version="1", priority=5, options={"deep": [{"a": None}]}),),
    agent="writer",
    between_turns=True,
)  # fmt: skip
SNAPSHOT = views.Snapshot(
    status=FULL,
    queued=(
        views.QueuedInput(ref=m.SteerRef("t-1"), content=(m.Text(text="s"),), steer=True),
        views.QueuedInput(
            ref=m.PromptRef("p-1"),
            content=(m.Image(media_type="image/png", data="aGk="), m.FileRef(path="a")),
            request_id="r-1",
        ),
    ),
    todos=(Todo(id="1", content="do"),),
    text="so far",
    last_seq=9,
    last_messages=(m.UserMessage(content=(m.Text(text="Hi"),)),),
    title="Trip",
    first_seq=3,
    live=views.LiveText(attempt=2, text="so far", thinking="hm", progress=((m.CallId("c"), "half"),)),
    context=views.ContextLength(tokens=9, window=100),
    effects=(("look", "pure"), ("put", "idempotent")),
)


def test_a_status_is_read_as_it_was_written():
    """The very classes, sessions below it included; a field that is new and not tried is missed here."""
    for status in (BARE, FULL):
        assert forms.decode_status(encode_plain(status)) == status
        document = json.loads(encode_plain(status))
        assert sorted(document) == sorted(field.name for field in attrs.fields(views.Status))
    names = {field.name for field in attrs.fields(views.Status)}
    assert {name for name in names if getattr(FULL, name) == getattr(BARE, name)} == {
        "session_id", "turn", "model", "suspended", "tearing_down", "last_seq", "uptime_ms", "restarts", "dropped_signals",
        "quarantined_signals", "unconfined_commands",
    }  # fmt: skip


def test_a_snapshot_has_the_documented_fields_and_is_read_as_it_was_written():
    """`before` is how many messages stand in front of those that are shown."""
    document = json.loads(forms.encode_snapshot(SNAPSHOT))
    assert list(document) == [
        "seq", "status", "queued", "todos", "text", "messages", "before", "title", "agent_id", "first_seq", "children",
        "live", "context", "effects",
    ]  # fmt: skip
    assert document["effects"] == {"look": "pure", "put": "idempotent"}
    assert document["children"] == [
        {"session_id": "s-2", "call_id": "c", "agent_id": "scout", "phase": "idle"}
    ]
    assert (document["seq"], document["before"]) == (9, 69)
    assert forms.decode_snapshot(forms.encode_snapshot(SNAPSHOT)) == SNAPSHOT
    named = attrs.evolve(SNAPSHOT, first_words="Hi there")
    assert json.loads(forms.encode_snapshot(named))["first_words"] == "Hi there"
    assert forms.decode_snapshot(forms.encode_snapshot(named)) == named
    older = {
        name: document[name] for name in ("seq", "status", "queued", "todos", "text", "messages", "before")
    }
    read = forms.decode_snapshot(json.dumps(older).encode())
    assert read == attrs.evolve(
        SNAPSHOT, title=None, first_seq=1, live=None, context=views.ContextLength(), effects=()
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(messages(), max_size=6).map(tuple), st.integers(0, 7), st.integers(1, 7))
def test_a_conversation_is_read_page_by_page_as_it_was_written(conversation, after, limit):
    """Each message once, in order, whatever is in it; beyond the end there is an empty page, as it may have been shortened."""
    page = forms.decode_messages(forms.encode_messages(conversation, after=after, limit=limit))
    assert page.messages == conversation[after : after + limit]
    assert page.next == (after + limit if after + limit < len(conversation) else None)
    read, at = (), 0
    while at is not None:
        page = forms.decode_messages(forms.encode_messages(conversation, after=at, limit=limit))
        read, at = read + page.messages, page.next
    assert read == conversation

    assert forms.decode_messages(forms.encode_messages((), after=5)) == forms.MessagePage(
        messages=(), next=None
    )


LEFT = LeftBehind(name="t", age_ms=1, pid=7)
RECEIPTS = [
    PromptReceipt(ref=m.PromptRef("p"), queued=True, position=2, seq=4, request_id="r"),
    SteerReceipt(ref=m.SteerRef("t"), status="became_prompt", seq=1),
    AbortReceipt(),
    AbortReceipt(
        settled=False,
        stuck=(LEFT,),
        committed=(m.CallId("c"),),
        children=(ChildReceipt(session_id=m.SessionId("s"), stuck=(LEFT,)),),
    ),
]


def test_a_receipt_is_read_as_it_was_written():
    """Which one it is follows from what was asked for; a prompt is answered with five fields, as the route says."""
    for receipt in RECEIPTS:
        assert forms.decode_receipt(type(receipt), forms.encode_receipt(receipt)) == receipt
    told = {"request_id": "r-1", "ref": "p", "seq": 4, "queued": True, "position": 2}
    assert json.loads(forms.encode_accepted(RECEIPTS[0], "r-1")) == told


def test_no_secret_and_no_half_of_a_character_gets_out():
    """Options of plugins may hold objects; a wire holds their class alone."""
    plugin = views.PluginStatus(
        name="p", version="", priority=0, options={"key": Secret("sk-live-1234"), "\ud800": "\udc00"}
    )
    written = encode_plain(attrs.evolve(BARE, plugins=(plugin,), model="\ud800"))
    assert b"sk-live" not in written
    assert json.loads(written)["plugins"][0]["options"] == {"key": "Secret(…)", "\ufffd": "\ufffd"}


def test_what_cannot_be_read_says_so():
    """As one exception, whatever a server sent."""
    for text in (b"", b"[]", b'{"messages": 1}', b"[" * 100_000, b'{"messages": [{"role": "king"}]}'):
        for decode in (forms.decode_status, forms.decode_snapshot, forms.decode_messages):
            with pytest.raises(CodecError, match="cannot be read"):
                decode(text)
