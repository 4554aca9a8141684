"""Takes the pictures of the console for README and docs, from a real run of `agentrail serve --demo`: `make pictures`.

Each is taken light and dark, when nothing on the page is still loading. They are looked at before they are committed; no test compares them,
since times of day and costs are on them.
"""

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from tests.console.browsing import CHROMIUM, FLAGS

ROOT: Final = Path(__file__).parent.parent
FOLDER: Final = ROOT / "docs/pictures"
PATIENCE_SECONDS: Final = 30.0
WIDE: Final = (1280, 800)
PHONE: Final = (390, 760)

_WAIT: Final = {"rounding", "clean-build", "refund-4411"}
"""The sessions of the demo that wait for a person, once it is under way."""

_STILL: Final = (
    """() => document.fonts.status === "loaded" && !document.querySelector("[aria-busy=true], .loading")"""
)


@frozen(kw_only=True)
class Shot:
    """One picture.

    Attributes:
        name: Of its file, in front of `-light.png` and `-dark.png`.
        place: The fragment of the page.
        shows: A selector of what has to be there.
        click: What is clicked before, one after another.
        size: Of the window, in CSS pixels.
    """

    name: str
    place: str
    shows: str = "h1"
    click: tuple[str, ...] = ()
    size: tuple[int, int] = WIDE


SHOTS: Final = (
    Shot(name="sessions", place="#/", shows="[data-key='rounding'], a[href*='rounding']"),
    Shot(name="session", place="#/s/compare", shows=".feed article, .feed [data-key]"),
    Shot(
        name="approval", place="#/s/rounding", shows=".feed [data-key]", click=("button:has-text('Review')",)
    ),
    Shot(name="timeline", place="#/s/archive", shows="[role=treegrid]", click=("[data-tab=timeline]",)),
    Shot(name="context", place="#/s/archive", shows="[role=tabpanel]", click=("[data-tab=context]",)),
    Shot(name="journal", place="#/s/archive/journal", shows="input[type=range]"),
    Shot(name="tree", place="#/tree", shows="[role=treegrid]"),
    Shot(name="cost", place="#/cost", shows="table"),
    Shot(name="plugins", place="#/plugins"),
    Shot(name="phone", place="#/s/refund-4411", shows=".feed [data-key]", size=PHONE),
)


def main() -> None:
    """Take all pictures, or those that are named."""
    wanted = set(sys.argv[1:])
    unknown = wanted - {shot.name for shot in SHOTS}
    if unknown:
        sys.exit(
            f"there is no picture {', '.join(sorted(unknown))}: expected some of {', '.join(s.name for s in SHOTS)}"
        )
    if not CHROMIUM.exists():
        sys.exit("chromium is not installed: scripts/install_chromium.sh installs it where it may")
    FOLDER.mkdir(exist_ok=True)
    with _demo() as link:
        _take([shot for shot in SHOTS if not wanted or shot.name in wanted], link)


@contextmanager
def _demo() -> Iterator[str]:
    """Run the demo until it is under way; gives the link of its console."""
    command = [sys.executable, "-m", "agentrail", "serve", "--demo", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # noqa: S603 - of ours
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    try:
        link = next(
            (found[0] for line in process.stdout if (found := re.search(r"http\S+/console/\S*", line))), None
        )
        if link is None:
            sys.exit("the demo ended before it said where its console is")
        # What it logs is read on, so that its pipe never fills.
        subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)  # noqa: S607 - as well
        _until(lambda: _waiting(link.partition("/console")[0]) >= _WAIT, "the demo to be under way")
        yield link
    finally:
        process.terminate()
        process.wait()


def _waiting(origin: str) -> set[str]:
    with urllib.request.urlopen(f"{origin}/sessions?waiting=true") as answer:  # noqa: S310 - the loopback
        return {one["session_id"] for one in json.load(answer)["sessions"]}


def _take(shots: list[Shot], link: str) -> None:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - needs the extra `dev`

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS])
        for scheme in ("light", "dark"):
            for shot in shots:
                width, height = shot.size
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
                )
                page = context.new_page()
                page.goto(link.partition("#")[0] + shot.place)
                for selector in shot.click:
                    page.click(selector, timeout=PATIENCE_SECONDS * 1000)
                page.wait_for_selector(shot.shows, state="attached", timeout=PATIENCE_SECONDS * 1000)
                _until(lambda page=page: page.evaluate(_STILL), f"{shot.name} to be still")  # type: ignore[misc]
                time.sleep(0.7)  # what is asked for behind the first answer, such as the state of a record
                page.screenshot(path=FOLDER / f"{shot.name}-{scheme}.png")
                context.close()
                print(f"docs/pictures/{shot.name}-{scheme}.png")
        browser.close()


def _until(holds: Callable[[], Any], what: str) -> None:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > give_up:
            sys.exit(f"waited {PATIENCE_SECONDS:g} s for {what}")
        time.sleep(0.1)


if __name__ == "__main__":
    main()
