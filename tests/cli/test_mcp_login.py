"""`agentrail mcp login | logout`: a browser that is sent back to a loopback port, and the login that `run` then uses."""

import stat
import sys
from importlib.util import find_spec

import pytest
import trio

from agentrail.cli.mcp_command import LoopbackBrowser
from tests.cli.rig import run_in, write
from tests.mcp.guarded_server import SECRET, guarded_server

pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="the extra `mcp` is not installed")

BROWSER = """\
import sys
import urllib.error
import urllib.request
from urllib.parse import parse_qs, urlsplit

asked = parse_qs(urlsplit(sys.argv[1]).query)
try:
    urllib.request.urlopen(asked["redirect_uri"][0] + "?code=stolen&state=forged")
except urllib.error.HTTPError as refused:
    assert refused.code == 400
try:
    urllib.request.urlopen(sys.argv[1])
except urllib.error.HTTPError as refused:
    assert refused.code == 400
"""
SEEN = "http://127.0.0.1:9/authorize?state=s-1"
WITHIN_SECONDS = 60
TRUSTED = "--trust-project"


@pytest.fixture
def browser(tmp_path):
    """The variable that names a browser which follows the link, after a forged answer from another page."""
    script = tmp_path / "browser.py"
    script.write_text(BROWSER)
    return {"BROWSER": f"{sys.executable} {script} %s", "no_proxy": "*"}


def table(guarded, more=""):
    """Write the table of the server."""
    return f'[mcp.g]\nurl = "{guarded.origin}/mcp"\nauth = "oauth"\n{more}'


async def test_a_user_logs_in_and_out(place, browser):
    """P-014: the printed link, a forged answer that changes nothing, a file that only its owner reads, and no token in the output."""
    with trio.fail_after(WITHIN_SECONDS):
        async with guarded_server() as guarded:
            write(place, table(guarded))
            before = await run_in(place, "mcp", "call", "g", "echo", TRUSTED)
            assert (before.code, "g: needs a login: agentrail mcp login g" in before.err) == (1, True)
            done = await run_in(place, "mcp", "login", "g", TRUSTED, **browser)
            assert (done.code, done.out) == (0, "g: logged in\n")
            assert f"Log in with this link:\n{guarded.origin}/authorize?" in done.err
            (file,) = (place / "home").rglob("mcp-logins/*.json")
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            called = await run_in(place, "mcp", "call", "g", "echo", TRUSTED, "--debug")
            assert (called.code, called.out) == (0, "echoed\n")
            said = done.out + done.err + called.out + called.err
            assert not [one for one in guarded.issued if one in said]
            for text in ("g: logged out\n", "g: there was no login\n"):
                assert (await run_in(place, "mcp", "logout", "g", TRUSTED)).out == text
            after = await run_in(place, "mcp", "check", "g", TRUSTED)
            assert (after.code, "g: needs a login: agentrail mcp login g" in after.out) == (1, True)


async def test_a_refused_login_says_why_and_can_be_repeated(place, browser):
    """11.13: `error=` is answered with 400, no token is asked for, and a later login works."""
    with trio.fail_after(WITHIN_SECONDS):
        async with guarded_server(refuses_login=True) as guarded:
            write(place, table(guarded))
            refused = await run_in(place, "mcp", "login", "g", TRUSTED, **browser)
            assert refused.code == 1
            assert "g: the authorization server refused: access_denied" in refused.err
            assert "Traceback" not in refused.err
            assert guarded.asked == []
            guarded.refuses_login = False
            assert (await run_in(place, "mcp", "login", "g", TRUSTED, **browser)).code == 0


async def test_a_machine_needs_no_browser(place):
    """P-014: `client_credentials` of the files, with a secret of the environment."""
    more = 'oauth = { client_id = "machine", client_secret = { env = "MACHINE" }, grant = "client_credentials" }\n'
    with trio.fail_after(WITHIN_SECONDS):
        async with guarded_server() as guarded:
            write(place, table(guarded, more))
            called = await run_in(place, "mcp", "call", "g", "echo", TRUSTED, MACHINE=SECRET)
            assert (called.code, called.out) == (0, "echoed\n")
            shown = await run_in(place, "config", "check", TRUSTED, MACHINE=SECRET)
            assert 'client_secret = { env = "MACHINE" } (set)' in shown.out
            assert SECRET not in shown.out + called.err
            await run_in(place, "mcp", "logout", "g", TRUSTED, MACHINE=SECRET)
            wrong = await run_in(place, "mcp", "login", "g", TRUSTED, MACHINE="guessed")
            assert (wrong.code, "invalid_grant" in wrong.err, "guessed" in wrong.err) == (1, True, False)


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        (
            'auth = "basic"\n',
            'agentrail.toml:3: mcp.g.auth: expected "oauth" or { bearer = { env = "NAME" } }',
        ),
        (
            'oauth = { client_id = "a" }\n',
            "agentrail.toml:1: mcp.g: MCP server 'g': oauth describes the client",
        ),
        ('auth = "oauth"\noauth = { grant = "password" }\n', "agentrail.toml:4: mcp.g.oauth.grant"),
        (
            'auth = "oauth"\noauth = { scopes = ["a b"] }\n',
            "agentrail.toml:1: mcp.g: MCP server 'g': oauth.scopes",
        ),
        (
            'auth = "oauth"\noauth = { client_secret = "text" }\n',
            "agentrail.toml:4: mcp.g.oauth.client_secret: this looks like a key",
        ),
    ],
)
async def test_faults_of_a_login_have_a_place(place, more, fault):
    """11.13: `config check` names file and line, and reads no secret."""
    write(place, f'[mcp.g]\nurl = "https://a.example/mcp"\n{more}')
    checked = await run_in(place, "config", "check", TRUSTED)
    assert (checked.code, fault in checked.err) == (1, True)


async def test_a_server_without_oauth_has_no_login(place):
    """The message says what to set."""
    write(place, '[mcp.g]\nurl = "https://a.example/mcp"\n')
    for command in ("login", "logout"):
        wrong = await run_in(place, "mcp", command, "g", TRUSTED)
        assert (wrong.code, 'set auth = "oauth" in [mcp.g]' in wrong.err) == (2, True)


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"GET /callback?code=c&state=s-1 HTTP/1.1", "200"),
        (b"GET /callback?error=access_denied&state=s-1 HTTP/1.1", "400"),
        (b"GET /callback?state=s-1 HTTP/1.1", "400"),
        (b"GET /callback?code=c&state=s-2 HTTP/1.1", "400"),
        (b"GET /callback?code=c HTTP/1.1", "400"),
        (b"GET /callback HTTP/1.1", "400"),
        (b"POST /callback?code=c&state=s-1 HTTP/1.1", "404"),
        (b"GET /other?code=c&state=s-1 HTTP/1.1", "404"),
        (b"\xff\xfe", "404"),
        (b"", "404"),
    ],
)
async def test_only_the_answer_to_this_login_counts_and_only_once(target, status):
    """11.13: a forged, a missing and a used `state` are refused, and change nothing."""
    browser = LoopbackBrowser(9, opens=False)
    assert browser.decide_reply(target)[0][:3] in {"400", "404"}  # before there is a login
    await browser.show(SEEN)
    assert browser.decide_reply(target)[0][:3] == status
    is_taken = b"GET /callback?" in target and b"s-1" in target
    with trio.move_on_after(0 if not is_taken else 1):
        answer = await browser.wait_answer()
        assert is_taken
        assert answer["state"] == "s-1"
    assert browser.decide_reply(target)[0][:3] in {"400", "404"}  # it has been used
