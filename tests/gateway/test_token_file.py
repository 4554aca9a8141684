"""A token file that changes while a server runs: who is added is let in, who is taken out is refused and their sockets and streams end."""

import pytest
import trio
from hypothesis import given, settings, strategies as st

from agentrail.gateway import open_calls as open_calls_module, token_file as token_file_module
from agentrail.gateway.sandboxes.app import SandboxApp
from agentrail.gateway.token_file import TokenFile
from agentrail.gateway.tokens import make_token, read_token_file
from agentrail.host.limits import Limits
from tests.gateway.socket_client import socket_of
from tests.gateway.web import serving
from tests.host.hosting import answering

NOW = 1_700_000_000.0
ANN, BOB = (make_token("acme", user, now=NOW) for user in ("ann", "bob"))
OLD = make_token("acme", "ann", scopes=("use",), days=1, now=NOW)
# Tests call with a token until it is let in.
ANY_FAILURES = Limits(failed_authentications_per_minute=1_000_000)
NOBODY = "# all were taken out\n"


@pytest.fixture
def hurry(monkeypatch):
    """Look at the file as often as a test can wait for; what is only read is judged once a day, unless the file changes."""
    monkeypatch.setattr(token_file_module, "FILE_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(open_calls_module, "EXPIRY_SECONDS", 0.01)
    monkeypatch.setattr(open_calls_module, "JUDGED_EVERY_SECONDS", 86_400.0)


@pytest.fixture
def path(tmp_path):
    """A token file that lets Ann and Bob in."""
    path = tmp_path / "tokens.toml"
    put(path, f"{ANN.lines}\n{BOB.lines}")
    return path


def put(path, text):
    """Write it in place, as an editor does."""
    path.touch(0o600)
    path.write_text(text)


def by(made):
    """The headers of a caller."""
    return {"authorization": f"Bearer {made.token}"}


async def until(web, made, status):
    """Call until the answer has this status."""
    with trio.fail_after(30):
        while (await web.client.get("/sessions", headers=by(made))).status_code != status:
            await trio.lowlevel.checkpoint()


async def test_a_command_of_a_token_that_was_taken_out_is_refused_before_any_watcher_looked(
    monkeypatch, hurry, path
):
    """Each command is judged by what the file says now."""
    monkeypatch.setattr(open_calls_module, "EXPIRY_SECONDS", 86_400.0)
    async with (
        serving(answering(), auth=read_token_file(path), limits=ANY_FAILURES) as web,
        socket_of(web, by=ANN.token) as client,
    ):
        await client.done("create", session_id="main")
        put(path, BOB.lines)
        await until(web, ANN, 401)
        assert await client.refused("prompt", session_id="main", message="Hi") == (401, "unauthorized")
        assert await client.closed() == 4401


async def test_a_server_of_sandboxes_follows_its_file_too(hurry, path):
    """Tokens of its clients are judged with each call."""
    tokens = read_token_file(path)
    app = SandboxApp(tokens, None)
    to_app, from_test = trio.open_memory_channel(1), trio.open_memory_channel(9)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(app, {"type": "lifespan"}, to_app[1].receive, from_test[0].send)
        await to_app[0].send({"type": "lifespan.startup"})
        put(path, BOB.lines)
        with trio.fail_after(30):
            while tokens(by(ANN)) is not None:
                await trio.lowlevel.checkpoint()
        assert tokens(by(BOB)) is not None
        await to_app[0].send({"type": "lifespan.shutdown"})


# --- one look


STATES = {
    "both": f"{ANN.lines}\n{BOB.lines}",
    "ann": ANN.lines,
    "old": OLD.lines,
    "nobody": NOBODY,
    "broken": "[[token]\n",
    "gone": None,
}
USERS = {"both": 2, "ann": 1, "old": 1, "nobody": 0}


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(STATES)), st.booleans()), max_size=12))
def test_what_settled_last_and_can_be_used_holds(tmp_path_factory, steps):
    """Whatever is written, removed and broken in between."""
    path = tmp_path_factory.mktemp("tokens") / "tokens.toml"
    put(path, STATES["both"])
    tokens = read_token_file(path)
    file, expected, last = TokenFile(tokens, path), "both", None
    for name, again in steps:
        path.unlink(missing_ok=True) if STATES[name] is None else put(path, STATES[name])
        for _ in range(1 + again):
            file.look()
            if name == last and name in USERS:
                expected = name
            last = name
            assert len(tokens.entries) == USERS[expected]
            assert (tokens.find(ANN.token, NOW) is not None) is (expected in ("both", "ann"))
