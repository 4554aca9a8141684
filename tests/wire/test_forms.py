"""What a session looks like on the wire: written and read again it is the same, and nothing that is no JSON gets out."""

import json

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from agentrail.abc import Secret
from agentrail.core.policy.budget import BudgetLeft
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt
from agentrail.core.session.views import (
    ChildSession,
    ContextLength,
    LiveText,
    PluginStatus,
    QueuedInput,
    RunningTool,
    Snapshot,
    Status,
)
from agentrail.errors import CodecError
from agentrail.events import AbortReceipt, Approval, PendingClientCall, Question, Todo
from agentrail.events.values import ChildReceipt, LeftBehind
from agentrail.messages import (
    ApprovalId,
    CallId,
    ClientCallRef,
    FileRef,
    Image,
    PromptRef,
    QuestionRef,
    SessionId,
    SteerRef,
    Text,
    TokenUsage,
    UserMessage,
)
from agentrail.testing.strategies import messages
from agentrail.wire.form_fields import (
    MessagePage,
    decode_messages,
    decode_receipt,
    decode_snapshot,
    decode_status,
    encode_accepted,
    encode_messages,
    encode_receipt,
    encode_snapshot,
    encode_status,
)

PATH = (SessionId("s"),)
BARE = Status(
    session_id=SessionId("s-1"), phase="idle", turn=0, model="demo:", queued=(), steers=(), running_tools=(), approvals=(),
    questions=(), suspended=False, tearing_down=False, messages=0, usage=TokenUsage(), budget_left=None, last_seq=1, uptime_ms=5,
    restarts=0, dropped_signals=0, quarantined_signals=0,
)  # fmt: skip
FULL = attrs.evolve(
    BARE,
    phase="executing_tools",
    queued=(PromptRef("p-1"),),
    steers=(SteerRef("t-1"),),
    running_tools=(RunningTool(call_id=CallId("c"), name="book", started_at_ms=3, survivor=True),),
    approvals=(
        Approval(id=ApprovalId("a"), call_id=CallId("c"), tool="t", arguments={"x": [1]}, arguments_hash="h", requested_at_ms=1, path=PATH),
    ),
    questions=(Question(ref=QuestionRef("q"), call_id=CallId("c"), question="?", schema={"type": "object"}, requested_at_ms=1, path=PATH),),
    client_calls=(
        PendingClientCall(ref=ClientCallRef("r"), call_id=CallId("c"), name="n", arguments={}, requested_at_ms=1, path=PATH),
    ),
    messages=70,
    usage=TokenUsage(input=5, cost_usd=None, estimated=True),
    budget_left=BudgetLeft(cost_usd=0.5, tokens=None),
    children=(ChildSession(session_id=SessionId("s-2"), call_id=CallId("c"), status=BARE, agent="scout"),),
    plugins=(PluginStatus(name="p", version="1", priority=5, options={"deep": [{"a": None}]}),),
    agent="writer",
    between_turns=True,
)  # fmt: skip
SNAPSHOT = Snapshot(
    status=FULL,
    queued=(
        QueuedInput(ref=SteerRef("t-1"), content=(Text(text="s"),), steer=True),
        QueuedInput(
            ref=PromptRef("p-1"),
            content=(Image(media_type="image/png", data="aGk="), FileRef(path="a")),
            request_id="r-1",
        ),
    ),
    todos=(Todo(id="1", content="do"),),
    text="so far",
    last_seq=9,
    last_messages=(UserMessage(content=(Text(text="Hi"),)),),
    title="Trip",
    first_seq=3,
    live=LiveText(attempt=2, text="so far", thinking="hm", progress=((CallId("c"), "half"),)),
    context=ContextLength(tokens=9, window=100),
    effects=(("look", "pure"), ("put", "idempotent")),
)


def test_every_field_of_a_status_is_tried():
    """A new one is missed here, so it is seen whether it can be read again."""
    given = {
        field.name for field in attrs.fields(Status) if getattr(FULL, field.name) != getattr(BARE, field.name)
    }
    same = {field.name for field in attrs.fields(Status)} - given
    assert same == {
        "session_id", "turn", "model", "suspended", "tearing_down", "last_seq", "uptime_ms", "restarts", "dropped_signals",
        "quarantined_signals", "unconfined_commands",
    }  # fmt: skip


@pytest.mark.parametrize("status", [BARE, FULL], ids=["bare", "full"])
def test_a_status_is_read_as_it_was_written(status):
    """The very classes, sessions below it included."""
    assert decode_status(encode_status(status)) == status
    document = json.loads(encode_status(status))
    assert sorted(document) == sorted(field.name for field in attrs.fields(Status))


def test_a_snapshot_has_the_documented_fields_and_is_read_as_it_was_written():
    """`before` is how many messages stand in front of those that are shown."""
    document = json.loads(encode_snapshot(SNAPSHOT))
    assert list(document) == [
        "seq", "status", "queued", "todos", "text", "messages", "before", "title", "agent_id", "first_seq", "children",
        "live", "context", "effects",
    ]  # fmt: skip
    assert document["effects"] == {"look": "pure", "put": "idempotent"}
    assert document["children"] == [
        {"session_id": "s-2", "call_id": "c", "agent_id": "scout", "phase": "idle"}
    ]
    assert (document["seq"], document["before"]) == (9, 69)
    assert decode_snapshot(encode_snapshot(SNAPSHOT)) == SNAPSHOT
    named = attrs.evolve(SNAPSHOT, first_words="Hi there")
    assert json.loads(encode_snapshot(named))["first_words"] == "Hi there"
    assert decode_snapshot(encode_snapshot(named)) == named
    older = {
        name: document[name] for name in ("seq", "status", "queued", "todos", "text", "messages", "before")
    }
    read = decode_snapshot(json.dumps(older).encode())
    assert read == attrs.evolve(
        SNAPSHOT, title=None, first_seq=1, live=None, context=ContextLength(), effects=()
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(messages(), max_size=6).map(tuple), st.integers(0, 7), st.integers(1, 7))
def test_a_conversation_is_read_page_by_page_as_it_was_written(conversation, after, limit):
    """Each message once, in order, whatever is in it."""
    page = decode_messages(encode_messages(conversation, after=after, limit=limit))
    assert page.messages == conversation[after : after + limit]
    assert page.next == (after + limit if after + limit < len(conversation) else None)
    read, at = (), 0
    while at is not None:
        page = decode_messages(encode_messages(conversation, after=at, limit=limit))
        read, at = read + page.messages, page.next
    assert read == conversation


def test_beyond_the_end_there_is_an_empty_page():
    """It is no error: the conversation may have been shortened."""
    assert decode_messages(encode_messages((), after=5)) == MessagePage(messages=(), next=None)


LEFT = LeftBehind(name="t", age_ms=1, pid=7)
RECEIPTS = [
    PromptReceipt(ref=PromptRef("p"), queued=True, position=2, seq=4, request_id="r"),
    SteerReceipt(ref=SteerRef("t"), status="became_prompt", seq=1),
    AbortReceipt(),
    AbortReceipt(
        settled=False,
        stuck=(LEFT,),
        committed=(CallId("c"),),
        children=(ChildReceipt(session_id=SessionId("s"), stuck=(LEFT,)),),
    ),
]


@pytest.mark.parametrize("receipt", RECEIPTS, ids=lambda one: type(one).__name__)
def test_a_receipt_is_read_as_it_was_written(receipt):
    """Which one it is follows from what was asked for."""
    assert decode_receipt(type(receipt), encode_receipt(receipt)) == receipt


def test_a_prompt_is_answered_with_its_request_and_its_receipt():
    """Five fields, as the route says."""
    assert json.loads(encode_accepted(RECEIPTS[0], "r-1")) == {
        "request_id": "r-1", "ref": "p", "seq": 4, "queued": True, "position": 2,
    }  # fmt: skip


def test_no_secret_and_no_half_of_a_character_gets_out():
    """Options of plugins may hold objects; a wire holds their class alone."""
    plugin = PluginStatus(
        name="p", version="", priority=0, options={"key": Secret("sk-live-1234"), "\ud800": "\udc00"}
    )
    written = encode_status(attrs.evolve(BARE, plugins=(plugin,), model="\ud800"))
    assert b"sk-live" not in written
    assert json.loads(written)["plugins"][0]["options"] == {"key": "Secret(…)", "\ufffd": "\ufffd"}


@pytest.mark.parametrize(
    "text", [b"", b"[]", b'{"messages": 1}', b"[" * 100_000, b'{"messages": [{"role": "king"}]}']
)
def test_what_cannot_be_read_says_so(text):
    """As one exception, whatever a server sent."""
    for decode in (decode_status, decode_snapshot, decode_messages):
        with pytest.raises(CodecError, match="cannot be read"):
            decode(text)
