"""What it takes to read a page of the web: fetched from a server of this machine, made Markdown in its process; beside httpx, which only fetches."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from time import perf_counter
from typing import Any, Final

import httpx
import trio

from agentrail.tools.web_fetch import web_fetch_tool
from agentrail.web.rules import WebRules, read_inside
from agentrail.web.web_client import WebClient
from benchmarks.bars import target_of
from benchmarks.measure import Effort, Row, Sample, interleave, percentile
from benchmarks.ours import expect
from benchmarks.recall import ordinary_texts
from tests.tools.rig import CTX

_WORDS: Final = 80
_SMALL_BYTES: Final = 5_000
_LARGE_BYTES: Final = 10_000_000
_TIMES: Final = 5
_TICK_SECONDS: Final = 0.001


def web(effort: Effort) -> list[Row]:
    """A page of 5 KB, and one of 10 MB, each fetched several times, and how late others of the loop are meanwhile."""
    rows: list[Row] = []
    sizes = (
        ("small", _SMALL_BYTES, _TIMES, target_of("web page")),
        ("large", effort.of(_LARGE_BYTES), 1, target_of("large web page")),
    )
    for name, size, times, target in sizes:
        page = _page_of(size)
        taken = interleave(
            partial(_run, page, times, _bare), partial(_run, page, times, _ours), effort.rounds
        )
        what = f"web_fetch of a page of {len(page):,} bytes: the median; bare: httpx fetches it"
        rows.append(taken.row(f"web {name}", "p50", what, unit="s", factor=1, target=target))
        what = f"how late others of the loop are meanwhile, p99 of {len(page):,} bytes"
        rows.append(
            taken.row(
                f"web {name}", "lag", what, unit="ms", factor=1e3, target=target_of("loop beside a web page")
            )
        )
    return rows


def _page_of(size: int) -> bytes:
    texts = [f"<p>{text}</p>\n" for text in ordinary_texts(max(1, size // (_WORDS * 5)), _WORDS)]
    head = "<!doctype html><title>Page</title><body><h1>Page</h1>"
    return f"{head}{''.join(texts)[: size - len(head)]}".encode()[:size]


Fetch = Callable[[str], Awaitable[int]]


def _run(page: bytes, times: int, make: Callable[[str], Fetch]) -> Sample:
    return trio.run(_fetch_beside, page, times, make)


async def _fetch_beside(page: bytes, times: int, make: Callable[[str], Fetch]) -> Sample:
    took: list[float] = []
    late: list[float] = []
    async with trio.open_nursery() as nursery:
        listeners: Sequence[Any] = await nursery.start(
            partial(trio.serve_tcp, partial(_serve, page), 0, host="127.0.0.1")
        )
        origin = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        fetch = make(origin)
        await fetch(f"{origin}/warm")  # libraries are imported, pages of memory are there
        nursery.start_soon(_tick, late)
        for number in range(times):
            began_at = perf_counter()
            expect("that something came", await fetch(f"{origin}/{number}") > 0, wanted=True)
            took.append(perf_counter() - began_at)
        nursery.cancel_scope.cancel()
    return {"p50": percentile(took, 50), "lag": percentile(late, 99)}


async def _tick(late: list[float]) -> None:
    while True:
        due = trio.current_time() + _TICK_SECONDS
        await trio.sleep_until(due)
        late.append(trio.current_time() - due)


async def _serve(page: bytes, stream: trio.SocketStream) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(page)}\r\nConnection: close\r\n\r\n"
    async with stream:
        await stream.receive_some()
        await stream.send_all(head.encode())
        await stream.send_all(page)


def _ours(origin: str) -> Fetch:
    tool = web_fetch_tool(WebClient(WebRules(inside=read_inside([origin]))))
    numbers = count()

    async def fetch(url: str) -> int:
        # An address of its own each time: the second look at one asks nobody.
        shown: Any = await tool.execute({"url": f"{url}?{next(numbers)}"}, CTX)
        expect("a page and no error", "<page url=" in shown.text, wanted=True)
        return len(shown.text)

    return fetch


def _bare(_origin: str) -> Fetch:
    async def fetch(url: str) -> int:
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:  # noqa: S501 - without TLS
            return len((await client.get(url)).content)

    return fetch
