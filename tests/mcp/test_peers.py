"""Servers that we did not write: the reference servers of the protocol, over standard streams and HTTP."""

import json
import os
import subprocess
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

import agentrail
from agentrail.abc import Error, Ok
from agentrail.errors import SessionRefused
from agentrail.events import ToolExecutionEnd
from agentrail.messages import Image
from agentrail.stores.postgres_private import free_ports
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.orphans import no_orphans
from agentrail.tools.mcp import McpServer
from tests.conftest import SERVICES

WITHIN_SECONDS = 60

# The library leaves the async generators of a response that it does not read to its end to the garbage collector.
LEAVES_GENERATORS = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
EVERYTHING = str(SERVICES["server-everything"])


@asynccontextmanager
async def over_http(port):
    """Run the reference server over HTTP."""
    environ = {**os.environ, "PORT": str(port)}
    process = await trio.lowlevel.open_process(
        [EVERYTHING, "streamableHttp"], env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while True:
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", port)
            except OSError:
                await trio.sleep(0.05)
            else:
                await stream.aclose()
                break
        yield process
    finally:
        process.kill()
        await process.wait()


async def outcomes_of(supervisor, *wanted):
    """Call tools of the server `e`, each apart, and return what they came to."""
    tools = supervisor.sources.running["e"].source.tools
    return [
        await supervisor.call_tool(f"mcp__e__{name}", arguments, tools=tools) for name, arguments in wanted
    ]


@pytest.mark.protocol(1)
@pytest.mark.services("server-everything")
async def test_every_kind_of_result_of_the_reference_server(tmp_path):
    """P-001: text, pictures, structured content, resources inside and linked, progress; nothing is left behind."""
    server = McpServer("e", command=[EVERYTHING], required=True)
    with trio.fail_after(WITHIN_SECONDS):
        async with no_orphans(), agentrail.open_supervisor(mcp=[server]) as supervisor:
            await supervisor.start_session(model="demo:")
            tools = supervisor.sources.running["e"].source.tools
            echo, image, data, links, blob, slow, listed, read, missing = [
                await supervisor.call_tool(f"mcp__e__{name}", arguments, tools=tools, working_dir=tmp_path)
                for name, arguments in (
                    ("echo", {"message": "hi"}),
                    ("get-tiny-image", {}),
                    ("get-structured-content", {"location": "New York"}),
                    ("get-resource-links", {"count": 1}),
                    ("get-resource-reference", {"resourceType": "Blob", "resourceId": 1}),
                    ("trigger-long-running-operation", {"duration": 0.2, "steps": 2}),
                    ("list_resources", {}),
                    ("read_resource", {"uri": "demo://resource/dynamic/text/1"}),
                    ("read_resource", {"uri": "demo://nothing"}),
                )
            ]
        assert echo == Ok(text="Echo: hi")
        assert isinstance(image.images[0], Image)
        assert json.loads(data.text) == data.details
        assert "read it with mcp__e__read_resource]" in links.text
        name = blob.text.partition("in .agentrail/mcp/")[2].partition("]")[0]
        assert b"Resource 1" in (tmp_path / ".agentrail" / "mcp" / name).read_bytes()
        assert "Steps: 2" in slow.text
        assert "demo://resource/dynamic/text/{resourceId}" in listed.text
        assert "plaintext resource" in read.text
        assert isinstance(missing, Error)
        assert "refused the call (-32602)" in missing.text


@pytest.mark.protocol(1)
@pytest.mark.services("server-everything")
async def test_a_picture_reaches_a_model_that_takes_pictures():
    """P-001."""
    seen = []

    def answer(request):
        results = [one for message in request.messages for one in getattr(message, "results", ())]
        seen.extend(image for one in results for image in one.images)
        return says("seen") if results else calls(("mcp__e__get-tiny-image", {}))

    server = McpServer("e", command=[EVERYTHING], required=True)
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server]) as supervisor:
            session = await supervisor.start_session(model=FunctionModel(answer))
            async with session.subscribe(kinds=[ToolExecutionEnd]) as events:
                assert await session.ask("Show it.") == "seen"
                assert (await anext(events)).result.images == tuple(seen)
    assert [image.media_type for image in seen] == ["image/png"]


@pytest.mark.services("server-filesystem")
async def test_the_file_server_reads_below_its_directory_and_nowhere_else(tmp_path):
    """A server of others behind our gates."""
    (tmp_path / "a.txt").write_text("inside")
    server = McpServer("e", command=[str(SERVICES["server-filesystem"]), str(tmp_path)], required=True)
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server]) as supervisor:
            await supervisor.start_session(model="demo:")
            inside, outside = await outcomes_of(
                supervisor,
                ("read_text_file", {"path": str(tmp_path / "a.txt")}),
                ("read_text_file", {"path": "/etc/passwd"}),
            )
    assert inside.text == "inside"
    assert isinstance(outside, Error)


@pytest.mark.protocol(3)
@pytest.mark.services("server-everything")
@LEAVES_GENERATORS
async def test_a_server_over_http_that_is_killed_and_comes_back():
    """11.3: calls in flight are answered at once, and a session of the older revision is begun again."""
    (port,) = free_ports(1)
    server = McpServer("e", url=f"http://127.0.0.1:{port}/mcp", required=True)
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server]) as supervisor:
            async with over_http(port) as process:
                await supervisor.start_session(model="demo:")
                assert await outcomes_of(supervisor, ("echo", {"message": "hi"})) == [Ok(text="Echo: hi")]
                found = []
                tools = supervisor.sources.running["e"].source.tools

                async def call():
                    arguments = {"duration": 30, "steps": 30}
                    name = "mcp__e__trigger-long-running-operation"
                    found.append(await supervisor.call_tool(name, arguments, tools=tools))

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(call)
                    nursery.start_soon(call)
                    await trio.sleep(1.0)
                    process.kill()
                assert ["went away during this call" in one.text for one in found] == [True, True]
            async with over_http(port):
                await supervisor.sources.running["e"].source.wait_ready(30)
                assert await outcomes_of(supervisor, ("echo", {"message": "hi"})) == [Ok(text="Echo: hi")]


@pytest.mark.services("server-everything")
@LEAVES_GENERATORS
async def test_an_abort_over_http_ends_the_call():
    """11.4: a stopped call is stopped at the server, and the next one works."""
    (port,) = free_ports(1)
    server = McpServer("e", url=f"http://127.0.0.1:{port}/mcp", required=True)
    with trio.fail_after(WITHIN_SECONDS):
        async with over_http(port), agentrail.open_supervisor(mcp=[server]) as supervisor:
            await supervisor.start_session(model="demo:")
            with trio.move_on_after(0.5):
                await outcomes_of(
                    supervisor, ("trigger-long-running-operation", {"duration": 30, "steps": 3})
                )
            assert await outcomes_of(supervisor, ("echo", {"message": "hi"})) == [Ok(text="Echo: hi")]


@LEAVES_GENERATORS
async def test_a_redirect_to_another_origin_is_not_followed():
    """11.3, 11.13: the token reaches the configured origin and no other."""
    heard = []

    async def elsewhere(stream):
        heard.append(await stream.receive_some(65_536))

    async with trio.open_nursery() as nursery:
        (other,) = await nursery.start(partial(trio.serve_tcp, elsewhere, 0, host="127.0.0.1"))
        other_port = other.socket.getsockname()[1]

        async def redirect(stream):
            heard_here.append(await stream.receive_some(65_536))
            place = f"http://127.0.0.1:{other_port}/mcp"
            head = f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n"
            await stream.send_all(head.encode())

        heard_here = []
        (here,) = await nursery.start(partial(trio.serve_tcp, redirect, 0, host="127.0.0.1"))
        url = f"http://127.0.0.1:{here.socket.getsockname()[1]}/mcp"
        server = McpServer("e", url=url, auth=agentrail.Secret("t0k3n"), required=True)
        with trio.fail_after(WITHIN_SECONDS):
            async with agentrail.open_supervisor(mcp=[server]) as supervisor:
                with pytest.raises(SessionRefused, match="not followed"):
                    await supervisor.start_session(model="demo:")
        nursery.cancel_scope.cancel()
    assert b"t0k3n" in b"".join(heard_here)
    assert heard == []


@pytest.mark.parametrize("place", ["10.0.0.1", "169.254.169.254", "[fd00::1]", "192.168.1.1"])
async def test_a_private_address_is_not_asked(place):
    """11.3: `allow_private` accepts it."""
    server = McpServer("e", url=f"https://{place}/mcp", required=True)
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[server]) as supervisor:
            with pytest.raises(SessionRefused, match="leads to a private address"):
                await supervisor.start_session(model="demo:")
