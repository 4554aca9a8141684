"""What a client decides without a network: delays, addresses, errors, how far a reader is, and the methods of a session."""

import inspect
import json

import pytest
from hypothesis import example, given, strategies as st

from agentrail import errors, websockets
from agentrail.errors import AgentrailError, CodecError, CycleFailed, NotRemote, OptionError, RemoteRefused
from agentrail.gateway.error_responses import ERROR_ANSWERS, answer_to
from agentrail.gateway.socket_frames import refusal_frame
from agentrail.remote.command_results import answer_in, read_reply
from agentrail.remote.dialer import address_of, decide_after, reconnect_seconds
from agentrail.remote.error_codes import CLASS_OF_CODE, error_of_reply
from agentrail.remote.frame_codec import decode_server_frame, position_of
from agentrail.remote.read_position import RemoteReading
from agentrail.remote.remote_session import NotRemoteCalls, RemoteSession
from agentrail.runtime.session_handle import Session
from agentrail.wire.form_fields import decode_status
from tests.remote.fake_server import committed, delta


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_delays_double_up_to_ten_seconds(attempt, jitter):
    """Half of it is jitter; what a server asks for is kept to, up to a minute."""
    whole = min(0.25 * 2 ** min(attempt, 40), 10)
    # A jitter next to 1 rounds to all of it.
    assert whole / 2 <= reconnect_seconds(attempt, jitter) <= whole
    assert reconnect_seconds(attempt, jitter, asked=30) == 30
    assert reconnect_seconds(attempt, jitter, asked=10_000) == 60


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "a.example",
            "ftp://a.example",
            "https://",
            "https://a:x/",
            "https://a:99999",
            "https://a..example",
            7,
            None,
        ),
        *("https://a.example?token=secret", "https://me:secret@a.example", "https://a.example#secret"),
    ],
)
def test_what_is_no_address_is_refused_without_repeating_it(url):
    """A token in an address would be in logs by then, and is not put into one more."""
    with pytest.raises(OptionError) as caught:
        address_of(url)
    assert "secret" not in str(caught.value)


MADE = {
    errors.DayBudgetSpent: lambda kind: kind("spent", retry_after_seconds=60.0),
    errors.AlreadyResolved: lambda kind: kind("decided", status="rejected", by="rule", at_ms=7),
    errors.ApprovalExpired: lambda kind: kind("over", at_ms=7),
    errors.CursorAhead: lambda kind: kind(["too far"], positions={"s-1": 7}),
    errors.OptionError: lambda kind: kind(["wrong"]),
    errors.IdInvalid: lambda kind: kind(["wrong"]),
    errors.AlreadyStarted: lambda kind: kind("there", handle=None),
    errors.UnknownCommand: lambda kind: kind("no /halp", name="halp", near="help"),
    errors.UnknownTool: lambda kind: kind("none", names=("a", "b")),
    errors.SessionDown: lambda kind: kind("s-1", "it was stopped: by hand"),
    errors.SessionRested: lambda kind: kind("s-1", "asleep"),
    errors.SessionRefused: lambda kind: kind("s-1", "a plugin said: no"),
    errors.SessionUnknown: lambda kind: kind("no session 's-1'", hint="leave it out"),
    errors.SessionIsChild: lambda kind: kind("a child", root_id="s-0"),
    errors.ProfileMismatch: lambda kind: kind("another", agent_id="desk"),
    errors.PromptRefused: lambda kind: kind("too rude: no"),
    errors.Trimmed: lambda kind: kind("s-1", first=7),
}


@pytest.mark.host("H-077")
@pytest.mark.parametrize("kind", MADE, ids=lambda kind: kind.__name__)
def test_errors_with_more_than_a_sentence_come_back_whole(kind):
    """Through the answer of a gateway: same class, same attributes."""
    error = MADE[kind](kind)
    back = through_a_socket(error)
    assert type(back) is kind
    hidden = {"faults", "positions"}
    mine, theirs = vars(error), vars(back)
    if kind is errors.SessionRested:  # of which a caller is told no more than that
        mine.pop("reason"), theirs.pop("reason")
    assert {key: theirs[key] for key in mine if key not in hidden} == {
        key: mine[key] for key in mine if key not in hidden
    }
    assert getattr(back, "positions", None) == getattr(error, "positions", None)


@pytest.mark.host("H-077")
def test_errors_of_one_sentence_come_back_as_their_class():
    """All that a caller can put right, but those whose code the gateway hides or joins with another."""
    told, other = [], []
    for kind in CLASS_OF_CODE.values():
        if kind.__init__ is not AgentrailError.__init__ or kind is AgentrailError:
            continue
        back = through_a_socket(kind("what to do"))
        (told if type(back) is kind else other).append(kind)
        assert isinstance(back, AgentrailError)
    assert {
        errors.PromptError,
        errors.PromptQueueFull,
        errors.SteeringQueueFull,
        errors.ClientIdReused,
        errors.UnknownCall,
        errors.UnknownApproval,
        errors.InvalidArguments,
        errors.InvalidResponse,
        errors.MailboxFull,
        errors.HostDraining,
        errors.SessionBusy,
        errors.RequestOver,
        errors.RequestUnknown,
    } <= set(told)
    for kind in (
        errors.RateLimited,
        errors.Authentication,
        errors.ModelNotFound,
    ):  # of one code: the cause tells
        assert type(through_a_socket(kind("no such model"))) is kind
    for kind in other:  # no caller is told of our inside: nothing but that it went wrong, or is away
        back = through_a_socket(kind("what to do"))
        assert isinstance(
            back, RemoteRefused | errors.HostDraining | errors.SessionUnknown | errors.HeldBy
        ), kind


ALL = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, AgentrailError)]

JOINED = {
    errors.HookTimeout: "its code is that of every plugin failure",
    errors.SessionNotFound: "its code is that of an id of another owner",
    errors.StoreInUse: "a caller is told only that the store is unavailable",
    errors.SupervisorClosed: "a caller is told only that the server shuts down",
}
"""Errors that a caller can fix, but that a server joins with another one."""

FILLED = {
    "answers": ["approve('a-1')"],
    "error": errors.ErrorInfo(code="rate_limited", message="slow down"),
    "faults": ["wrong"],
    "names": ("a", "b"),
    "positions": {"s-1": 7},
    "reason": "a reason: with a colon",
    "resume_after": 7,
    "session_id": "s-1",
}
SECRET = {
    errors.AlreadyStarted: ["handle"],
    errors.CycleWaiting: ["pending"],
    errors.Fenced: ["durable_up_to"],
    errors.HeldBy: ["seen_ago_ms"],
    errors.JournalBehind: ["have", "acknowledged"],
    errors.SessionRested: ["reason"],
    errors.StillNeeded: ["by"],
    errors.StoreTooNew: ["found", "known"],
    errors.Unrevivable: ["missing"],
}
"""Attributes that a server does not tell a caller, so they are empty."""


def filled(kind):
    """Make an error with each parameter of its class."""
    if kind.__init__ is AgentrailError.__init__:
        return kind("what to do")
    given = {}
    for name, one in inspect.signature(kind).parameters.items():
        usual = 3 if "int" in str(one.annotation) else 3.0 if "float" in str(one.annotation) else "some"
        given[name] = FILLED.get(name, usual)
    if issubclass(kind, errors.ProviderError):
        given = {"message": "too busy", "retry_after_seconds": 3.0}
    if kind is errors.RequestRefused:
        given = {"status": 402, "message": "no money"}
    return kind(**given)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_each_error_comes_back_as_its_class_or_is_hidden_for_a_reason(kind):
    """So `except Erased:` holds for a local and a remote session alike; what went wrong inside a server stays there."""
    code = ERROR_ANSWERS.get(kind.code, ERROR_ANSWERS["internal"]).code
    if code in {"internal", "session_unreadable"}:
        back = through_a_socket(kind.__new__(kind, "a secret of the server"))
        assert (type(back), back.code, "secret" in str(back)) == (RemoteRefused, code, False)
        return
    error = filled(kind)
    back = through_a_socket(error)
    if kind in JOINED:
        assert type(back) is not kind
        return
    assert type(back) is kind
    ours, theirs = vars(error), vars(back)
    untold = {"faults", "status", *SECRET.get(kind, ())}
    assert {key: theirs[key] for key in ours if key not in untold} == {
        key: ours[key] for key in ours if key not in untold
    }
    assert not any(theirs[key] for key in SECRET.get(kind, ()) if key != "reason")
    hint = answer_to(error).hint
    assert getattr(back, "__notes__", []) == ([] if hint is None else [hint])


def through_a_socket(error):
    """Let an error be refused by a gateway, and made again."""
    frame = decode_server_frame(refusal_frame(1, answer_to(error)))
    return error_of_reply(frame.error, "s-1")


@pytest.mark.parametrize("code", [["session_unknown"], {"a": 1}, 5, None])
def test_a_refused_connection_with_an_odd_code_is_refused(code):
    """The body may come from a proxy or from an attacker."""
    body = json.dumps({"error": {"code": code, "message": "no"}}).encode()
    assert type(decide_after(websockets.ConnectionRejected(404, (), body)).fault) is RemoteRefused


def test_half_of_a_surrogate_pair_in_a_refused_connection_breaks_no_client():
    """JSON can escape it, and no text of an error can hold it."""
    body = json.dumps({"error": {"code": "attachment_invalid", "message": "no", "index": "\ud800"}}).encode()
    assert type(decide_after(websockets.ConnectionRejected(404, (), body)).fault) is RemoteRefused


NAMES = sorted(
    {name for kind in ALL for name in inspect.signature(kind.__init__).parameters}
    | {"retry_after", "last_seq"}
)


@example({"decided": [5], "first": "7", "last_seq": ["8"]})
@example({"retry_after": 10**400})  # no float can hold it
@given(
    st.dictionaries(
        st.sampled_from(NAMES) | st.text(max_size=12),
        st.none() | st.integers() | st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.text()),
    )
)
def test_no_reply_breaks_a_client(told):
    """Whatever stands in an error, there is an exception to raise."""
    for code in (*CLASS_OF_CODE, "?"):
        assert isinstance(error_of_reply({**told, "code": code}, None), AgentrailError)


@pytest.mark.parametrize("error", ["no", ["no"], 5, None, {}])
def test_a_failed_request_whose_error_is_no_object_has_failed(error):
    """Whatever the server calls an error: its caller gets the reason, and no exception of Python."""
    with pytest.raises(CycleFailed, match="it broke"):
        answer_in({"status": "failed", "error": error, "reason": "it broke"}, "s-1")


@pytest.mark.parametrize("wait", ["nan", "1e999", -1, [5], "soon", 10**400])
def test_a_wait_that_cannot_be_is_none(wait):
    """Nobody sleeps for it."""
    with pytest.raises(CycleFailed) as failed:
        answer_in({"status": "failed", "error": {"retry_after_seconds": wait}}, "s-1")
    assert failed.value.error.retry_after_seconds is None
    assert error_of_reply({"code": "?", "retry_after": wait}, None).retry_after_seconds is None


@pytest.mark.parametrize("reply", [b"9" * 5_000, b"1e999", b'{"seq": 1e999}', b'["a"]', b"[" * 5_000])
def test_a_reply_with_a_number_that_cannot_be_read_is_none_of_the_session(reply):
    """It is no answer of a host plugin either."""
    with pytest.raises(CodecError):
        read_reply(decode_status, reply)


class Server:
    def __init__(self, reading):
        self.reading, self.last, self.sent = reading, 0, None

    def subscribe(self):
        """Let the reader go on where it says, as a frame would."""
        if self.reading.standing == "asked":
            self.sent = self.reading.cursor if self.reading.cursor is not None else self.last
            frame = b'{"type":"subscribed","id":1,"session_id":"s-1","seq":%d}' % self.sent
            self.reading.take_subscribed(decode_server_frame(frame))

    def flush(self, count):
        """Send some of what is due, and a delta."""
        while self.sent is not None and self.sent < self.last and count > 0:
            self.sent, count = self.sent + 1, count - 1
            if self.reading.take_event(committed(self.sent)):
                self.sent = None
                return
        if self.sent is not None:
            self.reading.take_event(delta(self.sent))


STEPS = st.lists(
    st.tuples(st.sampled_from(["publish", "send", "send", "read", "read", "cut", "ask"]), st.integers(1, 9))
)


@pytest.mark.host("H-079")
@given(STEPS, st.integers(1, 6))
def test_each_committed_event_is_read_once_and_in_order(steps, limit):
    """Whatever is lost, repeated, cut or read slowly; and at no time does more wait than may."""
    reading = RemoteReading("s-1", after=0, kinds=None, deltas=True, limit=limit)
    server, read = Server(reading), []

    def take(count):
        for _ in range(count):
            event = reading.next()
            if event is not None and not position_of(event)[1]:
                read.append(position_of(event)[0])
        if reading.may_go_on:
            reading.ask_again()

    for what, count in [*steps, *[("ask", 1), ("send", 99), ("read", 99)] * 60]:
        match what:
            case "publish":
                server.last += count
            case "send":
                server.flush(count)
            case "read":
                take(count)
            case "cut":
                reading.connection_lost()
                server.sent = None
            case _:
                server.subscribe()
        assert reading.waiting <= limit
    assert read == list(range(1, server.last + 1))


# What is said over a network only.
REMOTE_ONLY = {"wait_for_request", "cancel_request", "commands", "run_command", "sessions", "knows_session"}


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def refused_calls():
    """The calls without a remote form."""
    return sorted(name for name in public(NotRemoteCalls) if inspect.isfunction(getattr(Session, name)))


@pytest.mark.parametrize("name", refused_calls())
async def test_a_call_without_a_remote_form_says_so_however_it_is_called(name):
    """With all arguments by keyword where the local call takes them so, and with all of them by position where it does."""
    _, *there = inspect.signature(getattr(Session, name)).parameters.values()
    by_name = {one.name: "x" for one in there if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    by_place = ["x" for one in there if one.kind in (one.POSITIONAL_OR_KEYWORD, one.VAR_POSITIONAL)]

    async def call(*places, **names):
        made = getattr(NotRemoteCalls(), name)(*places, **names)
        return await made if inspect.isawaitable(made) else made

    with pytest.raises(NotRemote, match=name):
        await call(**by_name)
    with pytest.raises(NotRemote, match=name):
        await call(*by_place)


@pytest.mark.host("H-077")
def test_every_method_of_a_session_is_one_of_a_remote_session():
    """No other methods but those of a network; each parameter has the same name, kind and default."""
    refused = public(NotRemoteCalls)
    assert public(Session) - public(RemoteSession) == set()
    assert public(RemoteSession) - public(Session) == REMOTE_ONLY
    assert refused <= public(Session)
    for name in sorted(public(Session)):
        there, here = (inspect.getattr_static(kind, name) for kind in (Session, RemoteSession))
        assert inspect.iscoroutinefunction(there) == inspect.iscoroutinefunction(here), name
        assert isinstance(there, property) == isinstance(here, property), name
        if inspect.isfunction(there) and name not in refused | {"fork"}:
            told, heard = (
                {one.name: (one.kind, one.default) for one in inspect.signature(call).parameters.values()}
                for call in (there, here)
            )
            assert told == heard, name
