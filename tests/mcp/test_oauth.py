"""Logins to MCP servers: obtained, kept, refreshed once, refused, and of one principal each."""

import json
import logging
import stat

import pytest
import trio

import agentrail
from agentrail import outside
from agentrail.abc import Error, Ok
from agentrail.core.journal.session_owner import session_owner_key
from agentrail.errors import OptionError
from agentrail.events import ToolSourceChanged
from agentrail.sandboxes.server_process import open_server_process
from agentrail.tools.mcp import McpServer, OAuthClient
from agentrail.tools.mcp.call_result import ServerLost
from agentrail.tools.mcp.login_files import Login
from agentrail.tools.mcp.source import load_library, log_in, login_file_of
from tests.mcp.guarded_server import SECRET, ScriptedBrowser, guarded_server

WITHIN_SECONDS = 60
MACHINE = OAuthClient(client_id="machine", client_secret=agentrail.Secret(SECRET), grant="client_credentials")
ALICE = {"tenant_id": "t", "user_id": "alice"}
BOB = {"tenant_id": "t", "user_id": "bob"}


def of(guarded, **options):
    """Options of the server."""
    return McpServer("g", url=f"{guarded.origin}/mcp", auth="oauth", **options)


def login(server, directory, owner="", **changed):
    """Log in with a scripted browser."""
    return log_in(
        server, open_server_process, login_file_of(server, directory, owner), ScriptedBrowser(**changed)
    )


def opened(server, directory):
    """Open a supervisor of the server, whose logins are in the directory."""
    return agentrail.open_supervisor(mcp=[server], data_dir=directory)


async def call(supervisor, source):
    """Call the tool of a source."""
    return await supervisor.call_tool("mcp__g__echo", {}, tools=source.tools)


async def ready(supervisor, **options):
    """Start a session, and return the source that it uses once that is settled."""
    session = await supervisor.start_session(model="demo:", **options)
    await supervisor.wait_for_tools(session.session_id)
    owner = session_owner_key(options.get("user_data", {}))
    return next(one.source for one in supervisor.sources.of_principal(None, owner, ""))


def expire(server, directory):
    """Let the access token of the file be expired."""
    file = login_file_of(server, directory)
    kept = json.loads(file.path.read_bytes())
    file.write(Login(**{**kept, "expires_at": outside.wall() - 1}))


async def test_a_login_is_kept_for_its_owner_alone_and_used(tmp_path, caplog, capfd):
    """11.5: registration, PKCE, a file of mode 0600 in a directory of 0700, no token in a log, and a new process uses it."""
    caplog.set_level(logging.DEBUG)
    with trio.fail_after(WITHIN_SECONDS):
        async with guarded_server() as guarded:
            server = of(guarded)
            await login(server, tmp_path)
            file = login_file_of(server, tmp_path)
            assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
            assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
            assert [one.suffix for one in file.path.parent.iterdir()] == [".json"]
            async with opened(server, tmp_path) as supervisor:
                source = await ready(supervisor)
                assert await call(supervisor, source) == Ok(text="echoed")
            assert guarded.asked == ["authorization_code"]
            assert guarded.called == ["access-0-t0k3n"]
            assert len(guarded.registered) == 1
    said = caplog.text + "".join(capfd.readouterr())
    assert not [one for one in guarded.issued if one in said]


async def test_a_machine_logs_itself_in(tmp_path):
    """11.5: with the id and the secret of the configuration, for all principals, and anew when its token is expired."""
    with trio.fail_after(WITHIN_SECONDS):
        async with guarded_server() as guarded:
            server = of(guarded, oauth=MACHINE)
            async with opened(server, tmp_path) as supervisor:
                source = await ready(supervisor, user_data=ALICE)
                assert await call(supervisor, source) == Ok(text="echoed")
                guarded.valid.clear()
                assert await call(supervisor, source) == Ok(text="echoed")
            assert guarded.asked == ["client_credentials"] * 2
            assert guarded.registered == []


async def test_a_registered_client_registers_no_other(tmp_path):
    """11.5: the id of the configuration is used, and its issuer alone gets it."""
    with trio.fail_after(WITHIN_SECONDS):
        async with guarded_server() as guarded:
            server = of(
                guarded, oauth=OAuthClient(client_id="known", scopes=["a", "b"], issuer=f"{guarded.origin}/")
            )
            await login(server, tmp_path)
            assert (guarded.registered, guarded.scopes) == ([], ["a b"])
            other = of(guarded, oauth=OAuthClient(client_id="known", issuer="https://other.example/"))
            with pytest.raises(
                ServerLost, match=r"another authorization server than https://other\.example/"
            ):
                await login(other, tmp_path / "other")
            assert guarded.asked == ["authorization_code"]


@pytest.mark.parametrize("documents", [True, False])
async def test_the_address_of_a_document_is_the_id_where_it_is_understood(tmp_path, documents):
    """11.5: also for a refresh. At another authorization server the client registers itself."""
    address = "https://a.example/client.json"
    with trio.fail_after(WITHIN_SECONDS):
        async with guarded_server(documents=documents) as guarded:
            server = of(guarded, oauth=OAuthClient(client_metadata_url=address))
            await login(server, tmp_path)
            assert guarded.clients == [address if documents else "client-1"]
            assert len(guarded.registered) == (not documents)
            expire(server, tmp_path)
            async with opened(server, tmp_path) as supervisor:
                assert await call(supervisor, await ready(supervisor)) == Ok(text="echoed")
            assert guarded.asked == ["authorization_code", "refresh_token"]


async def test_fifty_calls_with_an_expired_token_make_one_refresh(tmp_path):
    """11.13: both supervisors, as two processes would, and all calls of each."""
    with trio.fail_after(WITHIN_SECONDS):
        async with guarded_server() as guarded:
            server = of(guarded)
            await login(server, tmp_path)
            async with opened(server, tmp_path) as first, opened(server, tmp_path) as second:
                sources = [(one, await ready(one)) for one in (first, second)]
                expire(server, tmp_path)
                guarded.valid.clear()
                found = []

                async def called(supervisor, source):
                    found.append(await call(supervisor, source))

                async with trio.open_nursery() as nursery:
                    for supervisor, source in sources * 25:
                        nursery.start_soon(called, supervisor, source)
            assert found == [Ok(text="echoed")] * 50
            assert guarded.asked == ["authorization_code", "refresh_token"]
            assert set(guarded.called) == {"access-2-t0k3n"}


async def test_an_expired_token_is_refreshed_before_it_is_sent(tmp_path):
    """11.5: the time of expiry survives the process."""
    with trio.fail_after(WITHIN_SECONDS):
        async with guarded_server() as guarded:
            server = of(guarded)
            await login(server, tmp_path)
            expire(server, tmp_path)
            async with opened(server, tmp_path) as supervisor:
                assert await call(supervisor, await ready(supervisor)) == Ok(text="echoed")
            assert guarded.asked == ["authorization_code", "refresh_token"]


async def test_a_missing_login_is_reported_once_and_a_later_one_attaches_the_tools(tmp_path):
    """11.5: `needs_login`, without a request; the tools are there once the user has logged in."""
    with trio.fail_after(WITHIN_SECONDS):
        async with guarded_server() as guarded:
            server = of(guarded)
            async with opened(server, tmp_path) as supervisor:
                session = await supervisor.start_session(model="demo:")
                async with session.subscribe(kinds=[ToolSourceChanged]) as events:
                    await supervisor.wait_for_tools(session.session_id)
                    source = supervisor.sources.running["g"].source
                    assert (source.state, source.reason) == ("needs_login", "agentrail mcp login g")
                    assert guarded.registered == guarded.asked == []
                    await login(server, tmp_path)
                    states = []
                    while "ready" not in states:
                        states.append((await anext(events)).state)
                assert states[-3:] == ["needs_login", "connecting", "ready"]
                assert states.count("needs_login") == 1
                assert await call(supervisor, source) == Ok(text="echoed")


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_login_that_was_revoked_asks_for_another(tmp_path, restarts):
    """11.4: the call's answer names the command, and so does each later one."""
    with trio.fail_after(WITHIN_SECONDS):
        async with guarded_server() as guarded:
            server = of(guarded)
            await login(server, tmp_path)
            async with opened(server, tmp_path) as supervisor:
                source = await ready(supervisor)
                tools = source.tools
                guarded.valid.clear()
                guarded.refresh.clear()
                for _ in range(3):
                    answer = await supervisor.call_tool("mcp__g__echo", {}, tools=tools)
                    assert answer == Error(text='The server "g" needs a login: agentrail mcp login g')
                assert source.state == "needs_login"
                assert guarded.asked == ["authorization_code", "refresh_token"]
                if restarts:
                    await login(server, tmp_path)
                    with trio.fail_after(10):
                        while source.state != "ready":  # noqa: ASYNC110 - of another task
                            await trio.sleep(0.05)
                    assert await call(supervisor, source) == Ok(text="echoed")


async def test_an_authorization_server_that_is_away_costs_no_login(tmp_path):
    """11.5: the call fails and may be tried again; the refresh token is used when the server is back."""
    with trio.fail_after(WITHIN_SECONDS):
        async with guarded_server() as guarded:
            server = of(guarded)
            await login(server, tmp_path)
            async with opened(server, tmp_path) as supervisor:
                source = await ready(supervisor)
                guarded.valid.clear()
                guarded.unavailable = True
                answer = await call(supervisor, source)
                assert answer == Error(text='The server "g" is restarting; try again later.')
                guarded.unavailable = False
                await source.wait_ready(10)
                assert await call(supervisor, source) == Ok(text="echoed")


async def test_each_principal_has_a_login_of_its_own(tmp_path):
    """11.3: `oauth` implies a connection per principal: one never gets the tools of another."""
    with trio.fail_after(WITHIN_SECONDS):
        async with guarded_server() as guarded:
            server = of(guarded, start="eager")
            await login(server, tmp_path, session_owner_key(ALICE))
            async with opened(server, tmp_path) as supervisor:
                hers = await ready(supervisor, user_data=ALICE)
                again = await ready(supervisor, user_data=ALICE)
                his = await ready(supervisor, user_data=BOB)
                nobodys = await ready(supervisor)
                assert hers is again
                assert [one.state for one in (hers, his, nobodys)] == ["ready", "needs_login", "needs_login"]
                assert (len(hers.tools), his.tools, nobodys.tools) == (1, (), ())


async def test_a_scope_that_a_call_demands_is_asked_for_by_the_next_login(tmp_path):
    """11.5: step-up, over a process that cannot ask the user."""
    with trio.fail_after(WITHIN_SECONDS):
        async with guarded_server() as guarded:
            server = of(guarded)
            await login(server, tmp_path)
            async with opened(server, tmp_path) as supervisor:
                source = await ready(supervisor)
                guarded.wanted = "write all"
                answer = await call(supervisor, source)
                assert answer == Error(text='The server "g" needs a login: agentrail mcp login g')
            await login(server, tmp_path)
            assert guarded.scopes == [None, "write all"]


@pytest.mark.parametrize(
    ("case", "message", "asked"),
    [
        (({}, {"state": "forged"}), "State parameter mismatch", []),
        (({"refuses_login": True}, {}), "the authorization server refused: access_denied", []),
        (({"elsewhere": "https://bank.example/mcp"}, {}), "does not match expected", []),
        (({"unavailable": True}, {}), "127.0.0.1 answered 503", ["authorization_code"]),
        (({"malformed": True}, {}), "malformed answer", ["authorization_code"]),
        (({"levels": 100_000}, {}), "malformed answer", ["authorization_code"]),
        (({"told": {"access_token": "a\0b"}}, {}), "malformed answer", ["authorization_code"]),
        (({"told": {"access_token": "é"}}, {}), "malformed answer", ["authorization_code"]),
        (({"told": {"refresh_token": "x" * 2_000_000}}, {}), "malformed answer", ["authorization_code"]),
        (({"told": {"expires_in": 10**400}}, {}), "malformed answer", ["authorization_code"]),
        (({}, {"code": "stolen"}), "invalid_grant", ["authorization_code"]),
    ],
)
async def test_a_login_that_fails_keeps_nothing_and_says_why(tmp_path, caplog, case, message, asked):
    """11.13: a forged state, a refusal, a foreign resource ask for no token; no answer with a token reaches a log."""
    given, changed = case
    caplog.set_level(logging.DEBUG)
    with trio.fail_after(WITHIN_SECONDS):
        async with guarded_server(**given) as guarded:
            server = of(guarded)
            with pytest.raises(ServerLost, match=message):
                await login(server, tmp_path, **changed)
            assert guarded.asked == asked
            assert login_file_of(server, tmp_path).read() is None
            assert not [one for one in guarded.issued if one in caplog.text]


async def test_a_connection_that_is_cancelled_does_not_lose_the_refreshed_login(tmp_path):
    """11.5: many servers take a refresh token once, so its answer is written although nobody waits for it."""
    library = load_library()
    with trio.fail_after(WITHIN_SECONDS):
        async with guarded_server() as guarded:
            server = of(guarded)
            await login(server, tmp_path)
            expire(server, tmp_path)

            async def connect():
                token = library.ServerLogin(server, login_file_of(server, tmp_path))
                async with library.open_connection(server, open_server_process, token) as connection:
                    await connection.connect()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(connect)
                while len(guarded.asked) == 1:  # noqa: ASYNC110 - of the server's task
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
            kept = login_file_of(server, tmp_path).read()
            assert {kept.tokens["refresh_token"]} == guarded.refresh


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"command": ["a"], "auth": "oauth"}, "only a server with a url has a login"),
        (
            {"url": "https://a.example", "auth": "oauth", "scope": "supervisor"},
            'use "principal" or "session"',
        ),
        ({"url": "https://a.example", "scope": "user"}, "expected one of supervisor, principal, session"),
        ({"url": "https://a.example", "auth": "basic"}, 'auth: expected a secret or "oauth"'),
        ({"url": "https://a..example"}, "url: expected https://host/path"),
        ({"url": "https://a.example", "oauth": OAuthClient()}, "and auth is something else"),
    ],
)
def test_options_without_a_meaning_are_refused(options, fault):
    """11.13: where they are given, not when the server is connected."""
    with pytest.raises(OptionError, match=fault):
        McpServer("g", **options)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"grant": "password"}, "expected one of authorization_code, client_credentials"),
        ({"grant": "client_credentials"}, "client_id is missing"),
        ({"grant": "client_credentials", "client_id": "a"}, "client_secret is missing"),
        ({"client_secret": agentrail.Secret("s")}, "client_id is missing"),
        ({"client_id": ""}, "client_id is ''"),
        ({"scopes": ["a b"]}, "scopes is"),
        ({"client_metadata_url": "http://a.example/client.json"}, "client_metadata_url is .*expected https"),
        ({"client_metadata_url": "https://a.example/"}, "client_metadata_url is .*expected https"),
        ({"client_metadata_url": "https://a.example/c", "client_id": "a"}, "both client_id and"),
        ({"issuer": "http://a.example"}, "issuer: url is http"),
    ],
)
def test_a_client_without_a_meaning_is_refused(options, fault):
    """11.13: with the option's name."""
    with pytest.raises(OptionError, match=fault):
        OAuthClient(**options)
