"""The browser of the tests of the console: one for the session, in a thread of its own, and what is looked at on each page that was opened.

Playwright's blocking interface keeps an asyncio loop open in its thread for as long as it lives, under which no other test could begin one. So one thread
has it, and the bodies of tests that ask for a browser run there: `conftest.py` does that. Its own browsers are not installed; it drives the distribution's.

Nothing is waited for by `wait_for_function("text")`, which needs `unsafe-eval` and fails under the policy of the console. `evaluate` is exempt from the policy:
poll with `until`, and test the policy from the page's own code.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from attrs import define, field

from tests.conftest import SERVICES, need_service
from tests.console.serving import PATIENCE_SECONDS

T = TypeVar("T")

CHROMIUM: Final = SERVICES["chromium"]
SIDEWAYS: Final = (
    "() => { const one = document.querySelector('#content'); return one.scrollWidth - one.clientWidth; }"
)
AXE_TAGS: Final = ("wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice")

# What Playwright switches off, since of two such lists the browser takes the last; and the popups of an address bar, which no test
# sees: a browser without a window has one all the same, and begins a renderer for it that computes for half a second.
_SWITCHED_OFF: Final = (
    *("AimEnabled", "AvoidCorsURLLoaderRestartOnRedirect", "AvoidUnnecessaryBeforeUnloadCheckSync"),
    *("DestroyProfileOnBrowserClose", "HttpsFirstBalancedModeAutoEnable", "HttpsUpgrades", "LensOverlay"),
    *("MediaRouter", "NetworkTimeServiceQuerying", "OptimizationHints", "PaintHolding", "PreconnectToSearch"),
    "ThirdPartyStoragePartitioning",
    *("WebUIOmniboxPopup", "WebUIOmniboxFullPopup", "WebUIOmniboxAimPopup"),
)

FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
    f"--disable-features={','.join(_SWITCHED_OFF)}",
)

# In a world that the policy does not reach; reports of the policy are events of the document that it is about.
_LISTEN: Final = """
addEventListener("securitypolicyviolation", (event) => {
  (globalThis.__reports ??= []).push(`${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
});
"""


class BrowserThread:
    """The thread that has the browser. All of Playwright is called there, by `run`."""

    def __init__(self) -> None:
        """Begin nothing yet: the first page that is asked for does."""
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="browser")
        self._playwright: Any = None
        self._browser: Any = None

    def run(self, function: Callable[..., T], *args: Any, **given: Any) -> T:
        return self._pool.submit(function, *args, **given).result()

    def browser(self) -> Any:
        """The browser, begun where it is not. Only in its thread."""
        if self._browser is None:
            from playwright.sync_api import sync_playwright  # noqa: PLC0415 - takes a while, and needs the extra `dev`

            self._playwright = sync_playwright().start()
            self._browser = self._playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS])
        return self._browser

    def close(self) -> None:
        self._pool.submit(self._end).result()
        self._pool.shutdown()

    def _end(self) -> None:
        if self._browser is not None:
            self._browser.close()
            self._playwright.stop()


@define(eq=False)
class Seen:
    """What is noted of a page while it is open: addresses, errors, reports of its policy; and which of them its test expects."""

    page: Any
    origin: str
    requests: list[str] = field(factory=list)
    errors: list[str] = field(factory=list)
    reports: list[str] = field(factory=list)
    expects: list[str] = field(factory=list)
    expects_reports: bool = False

    def listen(self) -> None:
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("websocket", lambda socket: self.requests.append(socket.url))
        self.page.on("pageerror", lambda error: self.errors.append(f"{error}"))
        self.page.on(
            "console",
            lambda said: self.errors.append(said.text) if said.type in {"error", "assert"} else None,
        )

    def look(self) -> None:
        """Take the reports of the policy out of the page."""
        self.reports += self.page.evaluate("() => (globalThis.__reports ?? []).splice(0)")

    def faults(self) -> list[str]:
        """Say what happened that must not: reports, requests that leave the origin, errors that were not expected."""
        if not self.page.is_closed():
            self.look()
        found = [] if self.expects_reports else [f"the policy forbade {one}" for one in self.reports]
        found += [f"it asked for {url}" for url in self.requests if not self._is_own(url)]
        found += [
            f"an error: {error}"
            for error in self.errors
            if not any(one in error for one in self.expects)
            and not (self.expects_reports and ("Content Security Policy" in error or "'Trusted" in error))
        ]
        return found

    def _is_own(self, url: str) -> bool:
        parts = urlsplit(url)
        # In a page, `blob:` and `data:` ask nothing of a network.
        return parts.scheme in {"blob", "data"} or parts.netloc == urlsplit(self.origin).netloc


@define(eq=False)
class OpenPages:
    """What a test opens pages with; they are closed behind it."""

    thread: BrowserThread
    seen: list[Seen] = field(factory=list)
    _contexts: list[Any] = field(factory=list)

    def open(  # noqa: PLR0913 - a browser's options are named
        self,
        url: str,
        *,
        width: int = 1280,
        height: int = 800,
        dark: bool = False,
        clock: bool = False,
        showing: str = "",
        once: str = "",
        **context: Any,
    ) -> Any:
        """Open a page in a context of its own, with options of Playwright's `new_context`; wait for a text, or until it says something true.

        With `clock`, `page.clock` can move its time.
        """
        made = self.thread.browser().new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            service_workers="block",
            **context,
        )
        self._contexts.append(made)
        page = self.open_beside(made, url, clock=clock)
        wait_for(page, showing, once)
        return page

    def open_beside(self, context: Any, url: str, *, clock: bool = False) -> Any:
        """Open another page of a context, as another tab."""
        context.set_default_timeout(PATIENCE_SECONDS * 1000)
        page = context.new_page()
        page.add_init_script(_LISTEN)
        if clock:
            page.clock.install()
        parts = urlsplit(url)
        noted = Seen(page, f"{parts.scheme}://{parts.netloc}")
        noted.listen()
        self.seen.append(noted)
        page.goto(url, wait_until="load")
        return page

    def of(self, page: Any) -> Seen:
        return next(one for one in self.seen if one.page is page)

    def finish(self, page: Any) -> None:
        """Close a page in front of its server, where the test ends that itself."""
        self.of(page).look()
        page.close()

    def close(self) -> list[str]:
        """Close all, and say what happened on them that must not."""
        faults = [fault for one in self.seen for fault in one.faults()]
        for context in self._contexts:
            context.close()
        return faults


def until(page: Any, expression: str, *args: Any, seconds: float = PATIENCE_SECONDS) -> Any:
    """Ask a page, by a function of JavaScript, until it says something that is true, and give that."""
    ends = time.monotonic() + seconds
    while True:
        said = page.evaluate(expression, *args)
        if said:
            return said
        if time.monotonic() > ends:
            shown = page.evaluate("() => document.body.innerText.slice(0, 1500)")
            message = f"within {seconds:g} s {expression} came to {said!r}; the page shows: {shown}"
            raise AssertionError(message)
        page.wait_for_timeout(30)


def shows(page: Any, *texts: str, seconds: float = PATIENCE_SECONDS) -> None:
    for text in texts:
        until(page, "(text) => document.body.innerText.includes(text)", text, seconds=seconds)


def wait_for(page: Any, showing: str = "", once: str = "") -> None:
    """Wait until a page shows a text, and says something that is true."""
    if showing:
        shows(page, showing)
    if once:
        until(page, once)


def reload(page: Any, showing: str = "", once: str = "") -> None:
    """Load a page again, and wait as `wait_for`."""
    page.reload()
    wait_for(page, showing, once)


def is_quiet(page: Any) -> None:
    """Wait until a page has loaded what it needs, and draws nothing more for a moment."""
    until(
        page,
        """() => new Promise((resolve) => {
          const isThere = document.querySelector("#content") && !document.querySelector(".loading");
          const observer = new MutationObserver(() => { observer.disconnect(); resolve(false); });
          observer.observe(document.body, { subtree: true, childList: true });
          setTimeout(() => { observer.disconnect(); resolve(Boolean(isThere)); }, 120);
        })""",
    )


def in_each_look(page: Any) -> Iterator[int]:
    """Show a page wide and narrow, light and dark; give the width of each."""
    for width, scheme in ((1280, "light"), (1280, "dark"), (360, "dark"), (360, "light")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(100)
        yield width


def axe_faults(page: Any, *, allowed: tuple[str, ...] = ()) -> list[str]:
    """Say what axe finds on a page, of any weight; rules of lesser weight are allowed where a test explains them."""
    need_service("axe-core")
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(
            SERVICES["axe-core"].read_text()
        )  # exempt from the policy, as all that a test evaluates
    results = page.evaluate(
        "(tags) => axe.run(document, { runOnly: { type: 'tag', values: tags }, resultTypes: ['violations'] })",
        [*AXE_TAGS],
    )
    return [
        f"{one['impact']} {one['id']}: {one['help']}: {node['html'][:200]} {node.get('failureSummary', '')[:300]}"
        for one in results["violations"]
        if one["id"] not in allowed or one["impact"] in {"serious", "critical"}
        for node in one["nodes"]
    ]
