"""Logins of a served program's users: a link in a question, a browser, and the tools. Nobody continues the login of another one."""

import logging
import re
import stat
from contextlib import asynccontextmanager
from urllib.parse import urlencode

import attrs
import httpx
import pytest
import trio

from agentrail import outside
from agentrail.core.journal.session_owner import session_owner_key
from agentrail.errors import OptionError
from agentrail.events import AgentEnd, AskUser, ToolExecutionEnd
from agentrail.host.host_options import HostOptions
from agentrail.sandboxes.server_process import open_server_process
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools.mcp import McpServer
from agentrail.tools.mcp.source import log_in, login_file_of
from agentrail.tools.mcp.user_login import LOGIN_SECONDS, BrowserLogin
from tests.gateway.callers import CALLERS, auth, by
from tests.gateway.web import error_of, serving
from tests.mcp.guarded_server import ScriptedBrowser, guarded_server

WITHIN_SECONDS = 60
PUBLIC = "http://localhost:1"
ECHO = calls(("mcp__g__echo", {}))
LOG_IN = calls(("mcp__g__log_in", {}))


class UserBrowser:
    """A browser that keeps cookies, and reaches the server under its public address."""

    def __init__(self, web, **headers):
        self.headers = headers
        self.cookies = httpx.Cookies()
        self.base = f"http://{web.address[0]}:{web.address[1]}"

    async def get(self, url, **query):
        """Get a page, and follow nothing."""
        found = url.replace(PUBLIC, self.base)
        async with httpx.AsyncClient(trust_env=False, headers=self.headers, cookies=self.cookies) as client:
            page = await client.get(f"{found}{'&' if query else ''}{urlencode(query)}")
            self.cookies = client.cookies
        return page

    async def begin(self, link):
        """Open a link, press the button, and return where the browser has to go."""
        page = await self.get(link)
        assert page.status_code == 200
        fields = dict(re.findall(r'name="(\w+)" value="(\w+)"', page.text))
        began = await self.get(f"{link.partition('?')[0]}?{urlencode(fields)}")
        assert began.status_code == 303, began.text
        return began.headers["location"]

    async def walk(self, link):
        """Do the same, and let the authorization server say where to go back to."""
        return (await self.get(await self.begin(link))).headers["location"]


@asynccontextmanager
async def hosted(tmp_path, guarded, *turns, **options):
    """Serve sessions with the guarded server to users with tokens."""
    server = McpServer("g", url=f"{guarded.origin}/mcp", auth="oauth")
    options = {"public_url": PUBLIC, "auth": auth, "store": "memory:", **options}
    model = ScriptedModel([*turns, says("done")])
    with trio.fail_after(WITHIN_SECONDS):
        async with serving(model, mcp=[server], data_dir=tmp_path, **options) as web:
            yield web, server


def owner_of(user):
    return session_owner_key({"tenant_id": "acme", "user_id": user})


@asynccontextmanager
async def prompted(web, user="ann", name=""):
    """Prompt a session of a user that has the tools, and yield it with its questions and results."""
    principal, session_id = CALLERS[user], name or f"of-{user}"
    await web.host.create(principal, session_id=session_id)
    session = await web.host.session(session_id, principal)
    await web.host.supervisor.wait_for_tools(session.session_id, scope=session.scope)
    async with session.subscribe(kinds=[AskUser, ToolExecutionEnd]) as events:
        await session.prompt("go")
        yield session, events


async def next_of(events, kind):
    """Return the next event of a kind: the end of a cycle comes unasked."""
    async for event in events:
        if isinstance(event, kind):
            return event
    pytest.fail("the session ended first")


async def result_of(events):
    return (await next_of(events, ToolExecutionEnd)).result.text


@pytest.mark.protocol(68)
async def test_a_user_logs_in_while_a_cycle_waits_and_the_call_runs(tmp_path, caplog):
    """P-068: the link is of that principal alone, another browser's answer is refused, and fifty calls make one refresh."""
    caplog.set_level(logging.DEBUG)
    async with guarded_server() as guarded:
        turns = (LOG_IN, LOG_IN, ECHO, says("done"), calls(*[("mcp__g__echo", {})] * 50))
        async with (
            hosted(tmp_path, guarded, *turns) as (web, server),
            prompted(web) as (session, hers),
            prompted(web, "bob") as (_, his),
        ):
            question, other = await anext(hers), await anext(his)
            assert question.question == "g: Log in at this address to use the tools of g."
            assert question.url.startswith(f"{PUBLIC}/mcp-login/g?ticket=")
            assert question.url != other.url
            browser, stranger = UserBrowser(web), UserBrowser(web)
            back = await browser.walk(question.url)
            for foreign in (stranger, UserBrowser(web, **by("bob"))):
                if foreign is not stranger:
                    foreign.cookies = browser.cookies
                error_of(await foreign.get(back), 400, "login_refused")
            assert guarded.asked == []
            done = await browser.get(back)
            assert (done.status_code, "You are logged in to g" in done.text) == (200, True)
            error_of(await browser.get(back), 400, "login_refused")
            error_of(await browser.get(question.url), 400, "login_refused")
            assert await result_of(hers) == "The user has logged in. The tools of g are: mcp__g__echo"
            assert await result_of(hers) == "echoed"
            hers_file, his_file = (login_file_of(server, tmp_path, owner_of(one)) for one in ("ann", "bob"))
            assert guarded.asked == ["authorization_code"]
            assert his_file.read() is None
            assert not (await session.status()).questions

            hers_file.write(attrs.evolve(hers_file.read(), expires_at=outside.wall() - 1))
            guarded.valid.clear()
            await session.prompt("go on")
            assert {await result_of(hers) for _ in range(50)} == {"echoed"}
            assert guarded.asked == ["authorization_code", "refresh_token"]
            assert stat.S_IMODE(hers_file.path.stat().st_mode) == 0o600
    assert not [one for one in guarded.issued if one in caplog.text]


async def test_a_user_who_is_forgotten_has_no_login_any_more(tmp_path, monkeypatch):
    """Neither in memory nor in a file, and without a session too. That of another user stays. One that cannot be deleted is named."""
    async with (
        guarded_server() as guarded,
        hosted(tmp_path, guarded, LOG_IN, ECHO, says("done"), LOG_IN, ECHO, says("done"), LOG_IN) as (
            web,
            server,
        ),
    ):
        for user in ("ann", "bob"):
            async with prompted(web, user) as (_, events):
                browser = UserBrowser(web)
                await browser.get(await browser.walk((await next_of(events, AskUser)).url))
                assert (await result_of(events)).startswith("The user has logged in.")
                assert await result_of(events) == "echoed"
        hers, his = (login_file_of(server, tmp_path, owner_of(one)) for one in ("ann", "bob"))
        assert hers.read() is not None
        forgotten = await web.client.delete("/users/ann/memory", headers=by("ann"))
        assert (forgotten.status_code, forgotten.json()["left"]) == (200, [])
        assert hers.read() is None
        assert his.read() is not None
        async with prompted(web, "ann", "again") as (_, events):
            assert "Log in at this address" in (await next_of(events, AskUser)).question
        hers.write(his.read())
        assert (await web.client.delete("/users/ann/memory", headers=by("ann"))).status_code == 200
        assert hers.read() is None

        def refuse(_):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(type(his), "delete", refuse)
        forgotten = await web.client.delete("/users/bob/memory", headers=by("bob"))
        assert forgotten.json()["left"] == ["login to MCP server 'g': Permission denied"]


async def test_a_login_that_was_refused_can_be_tried_again(tmp_path):
    """11.13: `error=` is a 400, and no token is asked for. The link still works, and the next question says why."""
    async with (
        guarded_server(refuses_login=True) as guarded,
        hosted(tmp_path, guarded, LOG_IN) as (web, _),
        prompted(web) as (session, events),
    ):
        question = await next_of(events, AskUser)
        browser = UserBrowser(web)
        error = error_of(await browser.get(await browser.walk(question.url)), 400, "login_refused")
        reason = "the authorization server refused: access_denied"
        assert reason in error["message"]
        assert guarded.asked == []
        await session.respond(question.ref, "Done")
        again = await next_of(events, AskUser)
        assert again.question.startswith(f"g: The login failed: {reason}")
        assert again.url == question.url
        guarded.refuses_login = False
        assert (await browser.get(await browser.walk(again.url))).status_code == 200
        assert (await result_of(events)).startswith("The user has logged in.")


@pytest.mark.parametrize("said", ["declines", "stays silent"])
async def test_a_user_who_does_not_log_in_is_not_asked_again(tmp_path, said, monkeypatch):
    """The model reads it, and so does each call of a tool that needs the login."""
    monkeypatch.setattr("agentrail.tools.mcp.source.LOGIN_SECONDS", 0.1 if said == "stays silent" else 600.0)
    async with (
        guarded_server() as guarded,
        hosted(tmp_path, guarded, LOG_IN) as (web, _),
        prompted(web) as (session, events),
    ):
        question = await next_of(events, AskUser)
        if said == "declines":
            await session.decline(question.ref)
        assert re.search("declined|has not logged in", await result_of(events))


async def test_only_the_button_of_the_same_browser_begins_a_login(tmp_path):
    """11.13: links of others, with what the attacker's own page said, show who would get access. A later attempt ends the first."""
    async with (
        guarded_server() as guarded,
        hosted(tmp_path, guarded, LOG_IN) as (web, _),
        prompted(web) as (_, events),
    ):
        link = (await next_of(events, AskUser)).url
        attacker, victim = UserBrowser(web), UserBrowser(web)
        page = await attacker.get(link)
        assert "<b>ann of acme</b>" in page.text
        assert page.headers["referrer-policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        confirm = re.search(r'name="confirm" value="(\w+)"', page.text)[1]
        for _ in range(2):
            assert "<b>ann of acme</b>" in (await victim.get(link, confirm=confirm)).text
        for wrong in (f"{link}x", link.replace("/g?", "/h?"), f"{PUBLIC}/mcp-login/g"):
            error_of(await victim.get(wrong), 400, "login_refused")
        error_of(await UserBrowser(web, **by("bob")).get(link), 400, "login_refused")
        first, second = [await victim.walk(link) for _ in range(2)]
        error_of(await victim.get(first), 400, "login_refused")
        forged = re.sub("state=[^&]+", "state=forged", second)
        error_of(await victim.get(forged), 400, "login_refused")
        error_of(await victim.get(f"{PUBLIC}/mcp-login/callback"), 400, "login_refused")
        assert guarded.asked == []
        assert (await victim.get(second)).status_code == 200


async def test_a_question_for_a_login_is_asked_again_after_a_restart(tmp_path):
    """With a link of the new process. The old one is void."""
    async with guarded_server() as guarded:
        store = f"sqlite:{tmp_path / 'store.sqlite'}"
        async with hosted(tmp_path, guarded, LOG_IN, store=store) as (web, _), prompted(web) as (_, events):
            old = (await next_of(events, AskUser)).url
        async with hosted(tmp_path, guarded, ECHO, store=store) as (web, _):
            session = await web.host.session("of-ann", CALLERS["ann"])
            async with session.subscribe(kinds=[AskUser, ToolExecutionEnd]) as events:
                while not (await session.status()).questions:  # noqa: ASYNC110 - of another task
                    await trio.sleep(0.01)
                (question,) = (await session.status()).questions
                browser = UserBrowser(web)
                error_of(await browser.get(old), 400, "login_refused")
                await browser.get(await browser.walk(question.url))
                assert (await result_of(events)).startswith("The user has logged in.")
                assert await result_of(events) == "echoed"


async def test_over_tls_no_neighbouring_host_can_set_the_cookie(tmp_path):
    """A known cookie would press the button in place of the user."""
    address = "https://agents.example/below"
    async with (
        guarded_server() as guarded,
        hosted(tmp_path, guarded, LOG_IN, public_url=f"{address}/") as (web, _),
        prompted(web) as (_, events),
    ):
        link = (await next_of(events, AskUser)).url
        assert link.startswith(f"{address}/mcp-login/g?ticket=")
        page = await UserBrowser(web).get(link.replace(address, PUBLIC))
        assert re.fullmatch("__Host-agentrail-login=\\w{32}; Path=/; .*; Secure", page.headers["set-cookie"])


async def test_without_a_public_address_there_is_no_link(tmp_path):
    """11.5: calls say what is missing, and no tool asks for a login that no page can serve."""
    async with (
        guarded_server() as guarded,
        hosted(tmp_path, guarded, LOG_IN, public_url=None) as (web, _),
        prompted(web) as (_, events),
    ):
        assert (await result_of(events)).startswith("Unknown tool")
        error_of(await UserBrowser(web).get(f"{PUBLIC}/mcp-login/g?ticket="), 400, "login_refused")


async def test_a_login_is_void_after_ten_minutes(autojump_clock):
    """11.13: the link, and a `state` that was handed out."""
    login = BrowserLogin("https://a.example/mcp-login", "g", "o")
    ticket = login.offer("ann").partition("=")[2]

    async def log_in(attempt):
        await attempt.show("https://as.example/authorize?state=s1")
        await attempt.wait_answer()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(login.serve, log_in)
        await trio.sleep(LOGIN_SECONDS - 1)
        assert login.takes(ticket)
        assert await login.begin("cookie") == "https://as.example/authorize?state=s1"
        assert login.awaits("s1", "cookie")
        assert not login.awaits("s1", "other")
        assert not login.awaits("\u00e9", "\u00e9")
        await trio.sleep(2)
        assert not login.takes(ticket)
        assert login.offer("ann").partition("=")[2] != ticket
        await trio.sleep(LOGIN_SECONDS)
        assert not login.awaits("s1", "cookie")
        assert login.reason == "there was no answer within 10 minutes"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "address",
    [
        "agents.example",
        "http://agents.example",
        "https://a.example/?x",
        "https://me:key@a.example",
        "https://a..b",
        "ftp://a",
        1,
    ],
)
def test_an_address_that_no_browser_reaches_safely_is_refused(address):
    """Tokens of other services pass through it. A password in it is not repeated, as the message may be logged."""
    with pytest.raises(OptionError, match=r"public_url is ((?!key).)*: expected https://host"):
        HostOptions(public_url=address)


async def test_a_call_whose_login_was_revoked_names_the_tool_that_asks_for_another(tmp_path):
    """11.4: after the new login the same tools are there, and the one that asks is gone."""
    async with (
        guarded_server() as guarded,
        hosted(tmp_path, guarded, ECHO, says("done"), ECHO, LOG_IN, ECHO, LOG_IN) as (web, server),
    ):
        file = login_file_of(server, tmp_path, owner_of("ann"))
        await log_in(server, open_server_process, file, ScriptedBrowser())
        async with prompted(web) as (session, events):
            assert await result_of(events) == "echoed"
            await next_of(events, AgentEnd)
            guarded.valid.clear()
            guarded.refresh.clear()
            await session.prompt("go on")
            assert await result_of(events) == 'The server "g" needs a login: call mcp__g__log_in'
            browser = UserBrowser(web)
            done = await browser.get(await browser.walk((await next_of(events, AskUser)).url))
            assert done.status_code == 200
            with trio.fail_after(server.connect_timeout / 2):  # it is the connection that is waited for
                assert (await result_of(events)).endswith("The tools of g are: mcp__g__echo")
            assert await result_of(events) == "echoed"
            assert (await result_of(events)).startswith("Unknown tool")
