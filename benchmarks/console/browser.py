"""Chromium with one page on the long session, and what is asked of it. Of the figures here only the page's own clock is used."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from attrs import define

ROOT: Final = Path(__file__).parents[2]
_CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-headless-shell")
_LAST_SECONDS: Final = 5.0
_FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-proxy-server",
)

# What runs in the page before any of it does: when each socket opened, and how long each key took to be on the screen.
_BEFORE: Final = """
globalThis.__opened = [];
const Plain = WebSocket;
globalThis.WebSocket = class extends Plain {
  constructor(...given) { super(...given); this.addEventListener("open", () => __opened.push(performance.now())); }
};
globalThis.__keys = [];
addEventListener("keydown", (event) => {
  requestAnimationFrame(() => setTimeout(() => __keys.push(performance.now() - event.timeStamp)));
}, { capture: true });
globalThis.__long = [];
new PerformanceObserver((list) => { for (const one of list.getEntries()) __long.push(one.duration); }).observe({ type: "longtask" });
const seen = new MutationObserver(() => {
  if (document.querySelector(".session-line") === null) return;
  seen.disconnect();
  requestAnimationFrame(() => setTimeout(() => { globalThis.__first = performance.now(); }));
});
seen.observe(document, { childList: true, subtree: true });
"""

# In how many frames anything of a list became otherwise, its place apart.
_DRAWS: Final = """async ([list, ms]) => {
  const box = document.querySelector(list);
  let draws = 0;
  let isOther = false;
  const watching = new MutationObserver(() => { isOther = true; });
  watching.observe(box, { childList: true, characterData: true, subtree: true });
  const ends = performance.now() + ms;
  while (performance.now() < ends) {
    await new Promise(requestAnimationFrame);
    if (isOther) draws += 1;
    isOther = false;
  }
  watching.disconnect();
  return draws;
}"""

# One phase: frames are noted while the list rests at its end, is swept through, or jumps about.
_PHASE: Final = """async ([manner, ms, list]) => {
  const box = document.querySelector(list);
  const frames = [];
  __keys.length = 0;
  __long.length = 0;
  let step = -60;
  let jumped = 0;
  let last = await new Promise(requestAnimationFrame);
  const ends = last + ms;
  while (last < ends) {
    if (manner === "sweep") {
      if (box.scrollTop <= 0) step = 60;
      else if (box.scrollTop + box.clientHeight >= box.scrollHeight - 2) step = -60;
      box.scrollTop += step;
    } else if (manner === "jump" && last - jumped > 250) {
      jumped = last;
      box.scrollTop = ((Math.sin(last) + 1) / 2) * box.scrollHeight;
    }
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - last);
    last = now;
  }
  return { frames, keys: [...__keys], long: [...__long] };
}"""

# The page in front of the first: from the moment that a person is there until its rows are.
_PAGE_BACK: Final = """async () => {
  const box = document.querySelector(".feed");
  const count = () => Number(box.querySelector("[aria-setsize]")?.getAttribute("aria-setsize") ?? 0);
  const before = count();
  const began = performance.now();
  box.scrollTop = 0;
  while (count() === before) {
    const waited = performance.now() - began;
    if (waited > 2000 && !box.querySelector(".older button")) return -1;
    if (waited > 60000) return null;
    await new Promise(requestAnimationFrame);
  }
  return performance.now() - began;
}"""

# From the click on a link to a session until the end of its conversation is there.
_OPEN: Final = """async ([hash, last]) => {
  const began = performance.now();
  location.hash = hash;
  while (!document.querySelector(`.feed [data-key="${last}"]`)) {
    if (performance.now() - began > 20000) return null;
    await new Promise(requestAnimationFrame);
  }
  return performance.now() - began;
}"""

# From the moment that a socket is there again until the last of what was missed is.
_BACK: Final = """async ([many, last]) => {
  const box = document.querySelector(".feed");
  const began = performance.now();
  while (!box.querySelector(`[data-key="${last}"]`)) {
    if (performance.now() - began > 60000) return null;
    box.scrollTop = box.scrollHeight;
    await new Promise(requestAnimationFrame);
  }
  return performance.now() - __opened[many];
}"""


@define(eq=False)
class LongPage:
    """A page on the long session.

    Attributes:
        page: Playwright's.
        port: Of its server.
    """

    page: Any
    port: int
    _server: subprocess.Popen[str]
    _protocol: Any

    def tell(self, **said: Any) -> int:
        """Tell the server something, wait until it is done, and give the number of its last event."""
        assert self._server.stdin is not None  # noqa: S101 - it is a pipe
        assert self._server.stdout is not None  # noqa: S101 - as well
        self._server.stdin.write(json.dumps(said) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())

    def goto(self, fragment: str) -> None:
        """Load the page anew."""
        self.page.goto(f"http://127.0.0.1:{self.port}/console/{fragment}", wait_until="load")

    def wait(self, expression: str, seconds: float = 60.0) -> Any:
        """Ask until the page says something that is true; the policy forbids Playwright's own way of that."""
        ends = time.monotonic() + seconds
        while not (said := self.page.evaluate(expression)):
            if time.monotonic() > ends:
                message = f"within {seconds:g} s {expression} did not come true"
                raise TimeoutError(message)
            self.page.wait_for_timeout(20)
        return said

    def throttle(self, rate: int) -> None:
        """Make the page's processor so much slower."""
        self._protocol.send("Emulation.setCPUThrottlingRate", {"rate": rate})

    def open_session(self, hash_: str, last: str) -> float:
        """Open the session from a page that stands; ms until its end is on the screen."""
        # The scripts of the page are there then: what is measured is the session, and not the first visit to such a page.
        self.page.evaluate("() => { location.hash = '#/s/none'; }")
        self.wait("() => document.querySelector('.session-missing')")
        return _told(self.page.evaluate(_OPEN, [hash_, last]), f"{last} on the screen")

    def pages_back(self) -> list[float]:
        """Scroll back to the start; ms until each page in front of the first row is drawn."""
        taken: list[float] = []
        while (ms := _told(self.page.evaluate(_PAGE_BACK), "a page in front of the first row")) >= 0:
            taken.append(ms)
        return taken

    def phase(
        self, manner: str, seconds: float, *, box: str = ".feed", types: bool = True
    ) -> dict[str, list[float]]:
        """Note the frames of one phase, while keys are typed into the composer.

        Args:
            manner: What is done with the list: `end`, `sweep` or `jump`.
            seconds: How long.
            box: Which list.
            types: Whether there is a composer to type into.
        """
        if types:
            self.page.focus("textarea")
        self.page.evaluate(
            f"([...given]) => {{ globalThis.__phase = ({_PHASE})(given); }}", [manner, seconds * 1_000, box]
        )
        ends = time.monotonic() + seconds - 0.3
        while types and time.monotonic() < ends:
            self.page.keyboard.press("a")
            self.page.wait_for_timeout(180)
        found: dict[str, list[float]] = self.page.evaluate("() => globalThis.__phase")
        return found

    def draws(self, box: str, seconds: float) -> float:
        """How often a second a list is drawn otherwise than it was."""
        return float(self.page.evaluate(_DRAWS, [box, seconds * 1_000])) / seconds

    def first_load(self) -> float:
        """Load the page with nothing kept, and give the ms until the list of sessions is drawn."""
        self._protocol.send("Network.setCacheDisabled", {"cacheDisabled": True})
        self.page.goto("about:blank")
        self.goto("#/")
        return float(
            self.wait("() => globalThis.__first")
        )  # a frame and a turn of the loop after the row is in the document

    def back(self, socket: int, last: str) -> float:
        """Milliseconds from the opening of a socket, counted from 0, until an item is on the screen."""
        return _told(self.page.evaluate(_BACK, [socket, last]), f"{last} on the screen")

    def sockets(self) -> int:
        """How many sockets were opened."""
        return int(self.page.evaluate("() => __opened.length"))

    def nodes(self) -> int:
        """How many elements the document has."""
        return int(self.page.evaluate("() => document.querySelectorAll('*').length"))

    def heap_bytes(self) -> float:
        """What the page's heap holds after a collection."""
        self._protocol.send("HeapProfiler.collectGarbage")
        return float(self._protocol.send("Runtime.getHeapUsage")["usedSize"])

    def cpu_seconds(self) -> float:
        """What the processes of pages have had of a processor."""
        root = self.page.context.browser.new_browser_cdp_session()
        found = root.send("SystemInfo.getProcessInfo")["processInfo"]
        root.detach()
        return sum(float(one["cpuTime"]) for one in found if one["type"] == "renderer")


def _told(ms: float | None, what: str) -> float:
    if ms is None:
        message = f"the page waited for {what} in vain"
        raise TimeoutError(message)
    return float(ms)


def is_there() -> str | None:
    """Say what is missing; None where all is there."""
    if _CHROMIUM is None:
        return "chromium is not installed"
    try:
        import playwright.sync_api  # noqa: F401, PLC0415 - an extra of development
    except ImportError:
        return "playwright is not installed"
    return None


@contextmanager
def open_long_page(events: int, *, draws_all: bool = False, lists: bool = False) -> Iterator[LongPage]:
    """Serve a session of so many events, and open the list of sessions in a browser; both are gone behind the block.

    Args:
        events: Of the session.
        draws_all: Whether lists draw all of their rows: the control.
        lists: Whether lists are large, as `benchmarks.console.large` has them.
    """
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - takes a while, and is an extra of development

    command = [
        sys.executable,
        "-m",
        "benchmarks.console.server",
        f"{events}",
        *(["--control"] if draws_all else []),
        *(["--lists"] if lists else []),
    ]
    with subprocess.Popen(  # noqa: S603 - ourselves
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None  # noqa: S101 - it is a pipe
        assert server.stdin is not None  # noqa: S101 - as well
        try:
            port = int(server.stdout.readline())
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=[*_FLAGS])
                page = browser.new_page(viewport={"width": 1_280, "height": 800})
                page.set_default_timeout(60_000)
                page.add_init_script(_BEFORE)
                made = LongPage(page, port, server, page.context.new_cdp_session(page))
                made._protocol.send("HeapProfiler.enable")  # noqa: SLF001 - as it is made
                made.goto("#/")
                made.wait("() => document.querySelector('.connection-button.live')")
                yield made
                browser.close()
        finally:
            with suppress(OSError):
                server.stdin.close()
            try:
                server.wait(_LAST_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
