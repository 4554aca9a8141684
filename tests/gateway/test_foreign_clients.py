"""Programs that we did not write against a served host: what the standards promise them holds, a stream that broke goes on where it was."""

import json
import os
import signal
from functools import partial
from urllib.parse import quote

import pytest
import trio

from agentrail.events import KINDS
from agentrail.gateway.serving import addresses_of, open_listeners, serve_app
from agentrail.messages import UserMessage
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import RecordingTool
from tests.conftest import SERVICES
from tests.gateway.callers import auth
from tests.gateway.programs import HERE, base_of, run_program
from tests.gateway.web import HURRY, serving
from tests.host.hosting import answering


class HalfWay:
    """A model that calls a tool where it is told to wait, and then says nothing until the test lets it."""

    def __init__(self):
        self.gate = trio.Event()
        self.is_half = trio.Event()
        self.model = FunctionModel(self.answer)

    async def answer(self, request):
        """By what stands last: words, or the result of the tool."""
        last = request.messages[-1]
        if isinstance(last, UserMessage):
            return calls(("look", {})) if "wait" in repr(last.content) else says("Hello.")
        self.is_half.set()
        await self.gate.wait()
        return says("So", " it", " is.")

    def serving(self, **options):
        return serving(self.model, session_tools=[RecordingTool(name="look")], **options)


@pytest.mark.check
@pytest.mark.services("openapi-python-client")
async def test_a_client_that_was_generated_of_the_page_does_a_chat(tmp_path):
    """The generator complains of nothing, and leaves no operation out; the client reads answers and refusals into its own classes."""
    generator = SERVICES["openapi-python-client"]
    (tmp_path / "config.json").write_text('{"post_hooks": []}', encoding="utf-8")
    async with serving(answering("Hello."), auth=auth) as web:
        argv = [
            generator, "generate", "--url", f"{base_of(web)}/openapi.json", "--output-path", tmp_path / "made",
            "--meta", "none", "--config", tmp_path / "config.json", "--fail-on-warning",
        ]  # fmt: skip
        made = await run_program(argv, seconds=60)
        assert (made.status, "arning" in made.out + made.err) == (0, False), made.out + made.err
        modules = {one.stem for one in (tmp_path / "made" / "api").rglob("*.py")} - {"__init__"}
        served = (await web.client.get("/openapi.json")).json()["paths"].values()
        assert modules == {one["operationId"] for methods in served for one in methods.values()}
        chat = [generator.with_name("python"), HERE / "generated_chat.py", tmp_path, base_of(web), "ann"]
        ran = await run_program(chat, seconds=60)
    assert ran.status == 0, ran.err
    told = json.loads(ran.out)
    assert told.pop("seq") > 5
    assert (told["text"], told["window"], told["sessions"]) == ("Hello.", 128_000, ["main"])
    assert (told["roles"], told["refused"]) == (["user", "assistant"], "profile_mismatch")


class Pages:
    """Another server: it has one page, and takes what the page found out."""

    def __init__(self):
        self.told = {}
        self.came = {stage: trio.Event() for stage in ("half", "end", "refused")}

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            for stage in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{stage}.complete"})
            return
        body = (await receive())["body"]
        if scope["path"] == "/report":
            stage = scope["query_string"].decode().partition("=")[2]
            host = dict(scope["headers"])[b"host"].decode()
            self.told[host, stage] = json.loads(body)
            self.came[stage].set()
        shown = (HERE / "page.html").read_bytes() if scope["path"] == "/page" else b""
        headers = [(b"content-type", b"text/html"), (b"content-length", b"%d" % len(shown))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": shown})


async def kill_group(process):
    os.killpg(process.pid, signal.SIGKILL)


def browse(nursery, profile, url):
    """Open a page in a browser without a window; it is gone with the nursery."""
    argv = [
        SERVICES["chromium"], "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
        "--no-proxy-server", "--remote-debugging-port=0", f"--user-data-dir={profile}", url,
    ]  # fmt: skip
    run = partial(trio.run_process, deliver_cancel=kill_group, start_new_session=True, check=False)
    nursery.start_soon(partial(run, capture_stdout=True, capture_stderr=True), argv)


@pytest.mark.check
@pytest.mark.services("chromium")
@pytest.mark.host("H-116")
async def test_a_browser_reads_a_stream_of_a_listed_origin_and_comes_back_by_itself(tmp_path):
    """`EventSource` in Chromium resumes after a break with the id that it had; `X-Session-Id` is read by a page of a listed origin, others get nothing."""
    half, pages = HalfWay(), Pages()
    listeners = [*await open_listeners("127.0.0.1", 0), *await open_listeners("127.0.0.1", 0)]
    listed, other = (f"127.0.0.1:{port}" for _, port in addresses_of(listeners))
    async with half.serving(allowed_origins=[f"http://{listed}"]) as web, trio.open_nursery() as nursery:
        await nursery.start(partial(serve_app, pages, listeners, trio.sleep_forever, limits=HURRY))
        asked = f"page?api={quote(base_of(web))}&kinds={quote(json.dumps([*KINDS.values()]))}"
        beside = quote(f"http://{other}/{asked}", safe="")
        browse(nursery, tmp_path / "profile", f"http://{listed}/{asked}&beside={beside}")
        with trio.fail_after(60):
            await pages.came["refused"].wait()
            await pages.came["half"].wait()
            (_, cut) = web.check.streams[-1]
            cut()
            half.gate.set()
            await pages.came["end"].wait()
        asked_for = [headers for headers, _ in web.check.streams]
        nursery.cancel_scope.cancel()
    told = pages.told[listed, "end"]
    assert told.get("error") is None
    assert (told["session"], told["ended"], told["hidden"]) == ("first", True, None)
    assert told["request"].startswith("r-")
    assert (told["breaks"], told["reason"]) == (1, "completed")
    assert told["ids"] == list(range(told["ids"][0], told["ids"][0] + len(told["ids"])))
    assert len(told["ids"]) > 5
    assert [one.get("last-event-id") for one in asked_for[:2]] == [None, None]
    assert int(asked_for[2]["last-event-id"]) < told["ids"][-1]
    refused = pages.told[other, "refused"]
    assert (refused["error"], refused.get("session")) == ("TypeError: Failed to fetch", None)
